#!/usr/bin/env bash
# Kandinsky 5 from media to clips, from text and from pictures: vprep makes a dataset with a tiny
# model's encoders, vtrain trains the model's transformer, samples from it, with a known first frame
# too, and resumes, and vdecode makes the samples' clips.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

small_set media 4                            # 3 clips, 1 still
need make_model m Kandinsky5T2VPipeline 4
sampling+=(--image_sample_size 64)
echo '[{"prompt": "a disc", "negative_prompt": "mud", "num_frames": 9, "height": 64, "width": 64},
    {"prompt": "a  disc", "num_frames": 9, "height": 64, "width": 64, "seed": 3,
     "image_path": "'"$dir/media/still-3.png"'"}]' >prompts.json
made() { # made OUT MODEL FLAG...
    vprep --meta media/metadata.json "${sampling[@]}" --model "$2" \
        --validation_prompts prompts.json --out "$1" "${@:3}"
}
need made a m
has() { grep -q -- "$1" a/manifest.json || wrong "expected $1 in a/manifest.json"; }
has '"family": *"kandinsky5"'
has '"class":"AutoencoderKLHunyuanVideo"'
has '"class":"Qwen2_5_VLForConditionalGeneration"' && has '"max_length":512,"width":32'
has '"class":"CLIPTextModel"'
expect 0 . vlat verify a
expect 0 '0 encoded, 4 reused' made a m
train() {
    vtrain --latents a --model m --output_dir "$1" --seed 5 --threads 1 --workers 1 \
        --train_batch_size 2 --dataset_repeat 2 "${@:2}"
}
lora=(--training_type lora --rank 2) full=(--training_type full-finetune)
first=(--first_frame_conditioning_p 1)

# ---- a LoRA: samples guided by the negative prompt, clips, traces ----
expect 0 'flow matching.*shift 5' train dry "${lora[@]}" --dry_run
absent dry
expect 0 . train lora "${lora[@]}" --max_train_steps 4 --validation_steps 2 \
    --num_inference_steps 3 --checkpointing_steps 2 --trace_dir trace
holds lora/config.yaml 'guidance_scale: 5'
holds lora/config.yaml 'validation_sampler: euler'
expect 0 '4 decoded' vdecode lora --model m
for name in 2/000 2/001 4/000 4/001; do
    [ -s lora/validation/step-$name.mp4 ] || wrong "step $name: no clip"
done
for name in 000 001; do
    ! cmp -s lora/validation/step-2/$name.safetensors lora/validation/step-4/$name.safetensors ||
        wrong "training changes no sample"
done
grep -aq 'visual_transformer_blocks.1.cross_attention.to_query.lora_A' \
    lora/checkpoint-4/pytorch_lora_weights.safetensors || wrong "no LoRA of cross attention"
lacks lora/checkpoint-4/pytorch_lora_weights.safetensors text_transformer_blocks
in_trace() {
    grep -qa "\"$1\":" <(head -c 20000 trace/step-000001-mb-00-rank-00.safetensors) ||
        wrong "the trace has no $1"
}
for name in noisy_latents timestep hidden_states encoder_hidden_states encoder_attention_mask \
    pooled_projections \
    grad/visual_transformer_blocks.0.self_attention.to_query.lora_B.weight; do
    in_trace $name
done

# ---- first frames are known: their latents stay the picture's in samples ----
expect 0 . train known "${lora[@]}" --max_train_steps 4 --validation_steps 2 \
    --num_inference_steps 3 "${first[@]}"
stderr_has 'validation prompt 0: sampled without a clean first frame'
! cmp -s lora/validation/step-2/001.safetensors known/validation/step-2/001.safetensors ||
    wrong "the picture changes no sample"
ends_as known known-cut 4 train known-cut "${lora[@]}" "${first[@]}"
sed 's/T2V/I2V/' m/model_index.json >i2v.json
cp -r m i && cp i2v.json i/model_index.json
expect 0 '0 encoded, 4 reused' made a i
expect 0 'model: kandinsky5' train some "${lora[@]}" --max_train_steps 1 --model i \
    --first_frame_conditioning_p 0.5

# ---- all clips of a model of image to video begin with a picture, unless the flag says less ----
begins() { # begins P WHERE FLAG...: the share of the clips of a run that begin so
    expect 0 . train "$2" "${lora[@]}" --max_train_steps 1 "${@:3}"
    holds "$2/config.yaml" "first_frame_conditioning_p: $1"
}
begins 1 always --model i
stderr_has 'Kandinsky5I2VPipeline: all clips begin with a clean frame'
begins 0 never --model i --first_frame_conditioning_p 0
begins 1 by-task --task k5-lite-i2v-5s-sd
stderr_has '--task: all clips begin with a clean frame'
begins 0 by-text --model i --task k5-pro-t2v-5s-sd
begins 0 text

# ---- a sample of one latent frame does not begin with a picture, and a line says why ----
echo '[{"prompt": "a disc", "num_frames": 1, "height": 64, "width": 64,
    "image_path": "'"$dir/media/still-3.png"'"}]' >prompts.json
expect 0 '0 encoded, 4 reused' made a i
expect 0 . train still "${lora[@]}" --max_train_steps 1 --validation_steps 1 \
    --num_inference_steps 2 --model i
stderr_has 'validation prompt 0 has an image that would be all of its sample'

# ---- a LoRA, also with frozen weights in 8 bits, and a full finetune resume bit for bit ----
ends_as lora two 4 train two "${lora[@]}"
ends_as none eight 4 train eight "${lora[@]}" --transformer_dtype fp8
expect 0 . train full "${full[@]}" --max_train_steps 4 --gradient_checkpointing
ends_as full full-two 4 train full-two "${full[@]}" --gradient_checkpointing
expect 0 'model: kandinsky5' train trained "${lora[@]}" --max_train_steps 1 \
    --transformer full/checkpoint-4/transformer

# ---- LoRA files in other programs' names have the same factors ----
expect 0 . train named --training_type lora --rank 2 --target_name all-linear --learning_rate 0.05 \
    --max_train_steps 2
comfy_has named/checkpoint-2 visual_transformer_blocks.1.self_attention.to_query \
    visual_transformer_blocks.0.feed_forward.in_layer text_embeddings.in_layer
grep -aq '"lora_unet_visual_transformer_blocks_0_cross_attention_out_layer.lora_down.weight"' \
    named/checkpoint-2/lora_kohya.safetensors || wrong "lora_kohya has other names"
same_loras named/checkpoint-2

# ---- models and data that do not fit ----
changed() { # changed FROM TO: a transformer of another config.json
    rm -rf other && cp -r m/transformer other
    sed "s/$1/$2/" m/transformer/config.json >other/config.json
    ! cmp -s m/transformer/config.json other/config.json || wrong "no $1 in config.json"
}
changed '"flash"' '"nabla"'
expect 1 'attention_type: nabla: the transformer reads only those keys that NABLA picks' \
    train no "${lora[@]}" --transformer other
changed '"visual_cond": true' '"visual_cond": false'
expect 1 'visual_cond: false' train no "${lora[@]}" --transformer other
absent no
sed 's/T2V/T2I/' m/model_index.json >t2i.json
cp -r m p && cp t2i.json p/model_index.json
expect 2 'of Kandinsky 5 T2I, which has the autoencoder of FLUX.1' made none p
absent none

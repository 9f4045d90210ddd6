#!/usr/bin/env bash
# HunyuanVideo 1.5 from media to clips: vprep makes a dataset with a tiny model's encoders, of which
# one reads what captions have in quotes; vtrain trains the model's transformer, samples from it and
# resumes, and vdecode makes the samples' clips.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

small_set media 4                            # 3 clips, 1 still
sed -i 's/picture 1,/a sign \\"OPEN\\" and \\"24 h\\",/' media/metadata.json
need make_model m HunyuanVideo15Pipeline 9
sampling+=(--image_sample_size 64)
echo '[{"prompt": "a disc", "negative_prompt": "mud", "num_frames": 9, "height": 64, "width": 64},
    {"prompt": "a sign “disc”", "num_frames": 9, "height": 64, "width": 64, "seed": 3}]' \
    >prompts.json
need vprep --meta media/metadata.json "${sampling[@]}" --model m --validation_prompts prompts.json \
    --out a
has() { grep -q -- "$1" a/manifest.json || wrong "expected $1 in a/manifest.json"; }
has '"family": *"hunyuanvideo1.5"'
has '"class":"AutoencoderKLHunyuanVideo15"'
has '"class":"Qwen2_5_VLTextModel"' && has '"max_length":1000,"width":32'
has '"class":"T5EncoderModel"' && has '"max_length":256,"width":32'
expect 0 . vlat verify a
expect 0 '0 encoded, 4 reused' vprep --meta media/metadata.json "${sampling[@]}" --model m \
    --validation_prompts prompts.json --out a
train() {
    vtrain --latents a --model m --output_dir "$1" --seed 5 --threads 1 --workers 1 \
        --train_batch_size 2 --dataset_repeat 2 "${@:2}"
}
lora=(--training_type lora --rank 2) full=(--training_type full-finetune)

# ---- a LoRA: samples guided by the negative prompt, clips, traces ----
expect 0 . train lora "${lora[@]}" --max_train_steps 4 --validation_steps 2 \
    --num_inference_steps 3 --checkpointing_steps 2 --trace_dir trace
holds lora/config.yaml 'flow_shift: 5'
holds lora/config.yaml 'guidance_scale: 6'
holds lora/config.yaml 'validation_sampler: euler'
expect 0 '4 decoded' vdecode lora --model m
for name in 2/000 2/001 4/000 4/001; do
    [ -s lora/validation/step-$name.mp4 ] || wrong "step $name: no clip"
done
for name in 000 001; do
    ! cmp -s lora/validation/step-2/$name.safetensors lora/validation/step-4/$name.safetensors ||
        wrong "training changes no sample"
done
lacks lora/checkpoint-4/pytorch_lora_weights.safetensors refiner
in_trace() {
    grep -qa "\"$1\":" <(head -c 20000 trace/step-000001-mb-00-rank-00.safetensors) ||
        wrong "the trace has no $1"
}
for name in hidden_states timestep encoder_hidden_states encoder_attention_mask \
    encoder_hidden_states_2 encoder_attention_mask_2 \
    grad/transformer_blocks.0.attn.to_q.lora_B.weight; do
    in_trace $name
done

# ---- a LoRA, also with frozen weights in 8 bits, and a full finetune resume bit for bit ----
again() { # again NAME FLAGS...: resumes the run with these flags
    expect 0 . train "$1" "${@:2}" --max_train_steps 2 --checkpointing_steps 2
    expect 0 'resumes after step 2' train "$1" "${@:2}" --max_train_steps 4 \
        --checkpointing_steps 2 --resume_from_checkpoint latest
}
again two "${lora[@]}"
same_end lora/checkpoint-4 two/checkpoint-4 || wrong "a resumed run has other factors"
again eight "${lora[@]}" --transformer_dtype fp8
expect 0 . train full "${full[@]}" --max_train_steps 4 --gradient_checkpointing
again full-two "${full[@]}" --gradient_checkpointing
same_end full/checkpoint-4 full-two/checkpoint-4 || wrong "a resumed run has other weights"
expect 0 'model: hunyuanvideo1.5' train trained "${lora[@]}" --max_train_steps 1 \
    --transformer full/checkpoint-4/transformer

# ---- LoRA files in other programs' names have the same factors ----
expect 0 . train named --training_type lora --rank 2 --target_name all-linear --learning_rate 0.05 \
    --max_train_steps 2
head -c 40000 named/checkpoint-2/lora_comfyui.safetensors >head
for name in double_blocks.1.img_attn_qkv double_blocks.0.txt_mlp.fc2 byt5_in.fc2 \
    txt_in.individual_token_refiner.blocks.0.self_attn_qkv time_in.out_layer \
    txt_in.t_embedder.in_layer txt_in.c_embedder.out_layer final_layer.linear; do
    grep -qa "\"diffusion_model.$name.lora_up.weight\"" head ||
        wrong "no $name in lora_comfyui.safetensors"
done
same_loras named/checkpoint-2

# ---- the plan alone; models and data that do not fit ----
expect 0 'flow matching' train dry "${lora[@]}" --dry_run
absent dry
sed 's/"use_meanflow": false/"use_meanflow": true/; s/"task_type"/"use_meanflow": true, "task_type"/' \
    m/transformer/config.json >changed.json
cp -r m/transformer steps && cp changed.json steps/config.json
expect 1 'use_meanflow' train out "${lora[@]}" --transformer steps
absent out

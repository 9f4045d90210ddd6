#!/usr/bin/env bash
# HunyuanVideo from media to clips: vprep makes a dataset with a tiny model's encoders, vtrain
# trains the model's transformer, samples from it and resumes, vdecode makes the samples' clips.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

small_set media 4                            # 3 clips, 1 still
need make_model m HunyuanVideoPipeline 4
sampling+=(--image_sample_size 64)
echo '[{"prompt": "a disc", "negative_prompt": "mud", "num_frames": 9, "height": 64,
    "width": 64}]' >prompts.json
prep() {
    vprep --meta media/metadata.json "${sampling[@]}" --model m --validation_prompts prompts.json \
        --out "$@"
}
need prep a
train() {
    vtrain --latents a --model m --output_dir "$1" --seed 5 --threads 1 --workers 1 \
        --train_batch_size 2 --dataset_repeat 2 "${@:2}"
}
lora=(--training_type lora --rank 2) full=(--training_type full-finetune)
has() { grep -qa "\"$2\":" <(head -c 20000 "$1") || wrong "$1: no $2"; }

# ---- a LoRA: samples with guidance as an input, clips, traces ----
expect 0 . train lora "${lora[@]}" --max_train_steps 4 --validation_steps 2 \
    --num_inference_steps 3 --checkpointing_steps 2 --trace_dir trace
holds lora/config.yaml 'flow_shift: 7'
holds lora/config.yaml 'validation_sampler: euler'
expect 0 '2 decoded' vdecode lora --model m
for name in 2 4; do
    [ -s lora/validation/step-$name/000.mp4 ] || wrong "step $name: no clip"
done
cmp -s lora/validation/step-2/000.safetensors lora/validation/step-4/000.safetensors &&
    wrong "training changes no sample"
lacks lora/checkpoint-4/pytorch_lora_weights.safetensors refiner
trace=trace/step-000001-mb-00-rank-00.safetensors
for name in hidden_states timestep encoder_hidden_states encoder_attention_mask pooled_projections \
    guidance grad/single_transformer_blocks.0.attn.to_q.lora_B.weight; do
    has $trace "$name"
done

# ---- a LoRA, also with frozen weights in 8 bits, and a full finetune resume bit for bit ----
ends_as lora two 4 train two "${lora[@]}"
ends_as none eight 4 train eight "${lora[@]}" --transformer_dtype fp8
expect 0 . train full "${full[@]}" --max_train_steps 4 --gradient_checkpointing
ends_as full full-two 4 train full-two "${full[@]}" --gradient_checkpointing
expect 0 'model: hunyuanvideo' train trained "${lora[@]}" --max_train_steps 1 \
    --transformer full/checkpoint-4/transformer

# ---- SkyReels: a negative prompt guides samples, whose guidance input is that of training ----
need make_model s HunyuanVideoPipeline 8
small_set clips 3
# sampled MODEL NEGATIVE FLAGS...: writes the latents of a sample to MODEL-NEGATIVE
sampled() {
    echo '[{"prompt": "a disc", "negative_prompt": "'"$2"'", "num_frames": 9,' \
        '"image_path": "'"$dir/media/still-3.png"'"}]' >negative.json
    rm -rf negative out
    need vprep --meta clips/metadata.json "${sampling[@]}" --model m --train_mode i2v \
        --validation_prompts negative.json \
        --out negative
    need vtrain --latents negative --transformer "$1/transformer" --output_dir out --threads 1 \
        "${lora[@]}" \
        --max_train_steps 1 --validation_steps 1 --num_inference_steps 2 "${@:3}"
    tail -c 2304 out/validation/step-1/000.safetensors >"$1-$2"
}
for model in m s; do
    sampled $model mud
    sampled $model fog
done
cmp m-mud m-fog || wrong "T2V: a negative prompt changes a sample"
cmp -s s-mud s-fog && wrong "SkyReels: a negative prompt changes no sample"

# ---- SkyReels' text-to-video model has HunyuanVideo's config.json: a flag asks for this guidance
# ----
sampled m mud --true_cfg_scale 6
holds out/config.yaml 'guidance_scale: 1'
mv m-mud guided-mud
sampled m fog --true_cfg_scale 6
cmp -s guided-mud m-fog && wrong "T2V with --true_cfg_scale: a negative prompt changes no sample"
rm -r out
sky() { vtrain --latents "$1" --transformer s/transformer --output_dir dry --dry_run --threads 1 \
    "${lora[@]}" "${@:2}"; }
expect 0 'guidance: an input, 2 in training (--embedded_guidance), 2 in samples' sky negative \
    --embedded_guidance 2
expect 2 \
    'true_cfg_scale: samples of this .* are guided by the negative prompt at --guidance_scale' \
    sky negative --true_cfg_scale 6
need vprep --meta clips/metadata.json "${sampling[@]}" --model m --out plain
expect 1 'takes a first-frame image .*plain was made with --train_mode normal: run vprep --train_mode i2v' \
    sky plain

# ---- LoRA files in Tencent's names, and in diffusers' for VideoX-Fun, have the same factors ----
expect 0 . train named --training_type lora --rank 2 --target_name all-linear --learning_rate 0.05 \
    --max_train_steps 2
comfy_has named/checkpoint-2 double_blocks.1.img_attn_qkv double_blocks.0.txt_mlp.fc2 \
    single_blocks.0.linear1 single_blocks.0.linear2 \
    txt_in.individual_token_refiner.blocks.0.self_attn_qkv guidance_in.in_layer \
    time_in.out_layer txt_in.t_embedder.in_layer txt_in.c_embedder.out_layer \
    vector_in.out_layer final_layer.linear
for name in single_transformer_blocks_0_norm_linear transformer_blocks_1_attn_to_k; do
    grep -qa "\"lora_unet__$name.alpha\"" named/checkpoint-2/lora_kohya.safetensors ||
        wrong "no $name in lora_kohya.safetensors"
done
for file in pytorch_lora_weights lora_comfyui; do         # the joined q, k and v are split again
    expect 0 . train "from-$file" --training_type lora --rank 2 --target_name all-linear \
        --max_train_steps 1 --lora_checkpoint "named/checkpoint-2/$file.safetensors"
done
same_end from-pytorch_lora_weights/checkpoint-1 from-lora_comfyui/checkpoint-1 ||
    wrong "training continues from another LoRA"
same_loras named/checkpoint-2

# ---- guidance in training; the plan alone; data that does not fit ----
expect 0 'guidance: an input, 6 in training (--embedded_guidance), 6 in samples' train dry \
    "${lora[@]}" --embedded_guidance 6 --dry_run
absent dry
need make_model c CogVideoXPipeline 4
need vprep --meta media/metadata.json "${sampling[@]}" --model c --tokenizer_max_length 12 --out b
other() {
    vtrain --latents b --transformer m/transformer --output_dir out --train_batch_size 1 \
        --threads 1 "${lora[@]}"
}
expect 1 "text encoder has a pooled vector of 0 numbers, the transformer Hunyuan.* takes 32" other
absent out

#!/usr/bin/env bash
# Stable Diffusion 3.5 from pictures to a LoRA and pictures: vprep makes a dataset with a tiny
# model's encoders, vtrain trains the model's transformer, samples from it and resumes, vdecode makes the
# samples' pictures; the same without T5; what is refused.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
. "$lib/pictures.sh"
export VLT_SOURCE

make_set StableDiffusion3Pipeline 4 1 2
expect 0 'flow matching, weighting logit_normal' train dry "${lora[@]}" --dry_run
absent dry
expect 0 '2 stored prompts' train shown "${lora[@]}" --max_train_steps 2 --validation_steps 2 \
    --num_inference_steps 3
guided_at 2 7 1
for module in transformer_blocks.{0,1,2}.attn.{to_q,to_k,to_v,to_out.0,add_q_proj,add_k_proj} \
    transformer_blocks.1.attn.{add_v_proj,to_add_out}; do
    grep -aq "$module.lora_A" shown/checkpoint-2/pytorch_lora_weights.safetensors ||
        wrong "no LoRA of $module"
done
decoded 2

# ---- the names of other programs: of the first authors, of ComfyUI ----
same_loras shown/checkpoint-2
grep -aq '"lora_unet_joint_blocks_0_x_block_attn_qkv.lora_down.weight"' \
    shown/checkpoint-2/lora_kohya.safetensors || wrong "lora_kohya has other names"
grep -aq '"diffusion_model.joint_blocks.0.context_block.attn.qkv.lora_down.weight"' \
    shown/checkpoint-2/lora_comfyui.safetensors || wrong "lora_comfyui has other names"

# ---- all linears, the last block's modulation of the text among them, in all three names ----
expect 0 . train all --training_type lora --rank 2 --target_name all-linear --max_train_steps 1
same_loras all/checkpoint-1

# ---- skip-layer guidance takes the model's blocks, by their numbers ----
skips() { vtrain --latents a --model m --output_dir none --train_batch_size 2 --seed 5 --rank 2 \
    --max_train_steps 1 --validation_steps 1 --num_inference_steps 2 "$@"; }
expect 2 'skip_guidance_layers "0,x": numbers of blocks from 0' skips --skip_guidance_layers 0,x
expect 2 'skip_guidance_layers "64": numbers of blocks from 0' skips --skip_guidance_layers 64
expect 2 'skip_guidance_layers "1,": a number is expected behind' skips --skip_guidance_layers 1,
expect 2 'skip_layer_guidance_start 0.2: not below --skip_layer_guidance_stop 0.2' skips \
    --skip_guidance_layers 1 --skip_layer_guidance_start 0.2
absent none

# ---- without T5: by a flag, and by model_index.json ----
expect 0 'text_encoder_3 is left out' vprep --meta media --image_sample_size 64 \
    --video_sample_size 64 --model m --out without --text_encoder_3 none
check "show without" 0 vlat show without 000000000000/000
stdout_has 'prompt_embeds f16 \[1,48\]'
expect 0 . vtrain --latents without --model m --output_dir no-t5 --train_batch_size 2 --seed 5 \
    --threads 1 --workers 1 "${lora[@]}" --max_train_steps 1
cp -r m m2
rm -r m2/text_encoder_3 m2/tokenizer_3
expect 2 'm2 has none: give it, or --text_encoder_3 none' vprep --meta media --image_sample_size 64 \
    --video_sample_size 64 --model m2 --out out2
echo '{"_class_name": "StableDiffusion3Pipeline", "text_encoder_3": [null, null],
       "tokenizer_3": [null, null]}' >m2/model_index.json
expect 0 'text_encoder_3 is left out' vprep --meta media --image_sample_size 64 \
    --video_sample_size 64 --model m2 --out out2
root_of() { grep -o '"root": *"[0-9a-f]*"' "$1/manifest.json"; }
[ -n "$(root_of out2)" ] && [ "$(root_of without)" = "$(root_of out2)" ] ||
    wrong "the flag and model_index.json make different texts"

# ---- prompts of other lengths, for T5 alone ----
need vprep --meta media --image_sample_size 64 --video_sample_size 64 --model m --out short \
    --tokenizer_max_length 77
check "show short" 0 vlat show short 000000000000/000
stdout_has 'prompt_embeds f16 \[77,48\]'

# ---- refused: sizes without positions, FLUX.1's autoencoder ----
expect 2 'pos_embed_max_size' vprep --meta media --image_sample_size 256 --video_sample_size 256 \
    --model m --out big
expect 2 'are those of sd3, and the values would be those of flux' vprep --meta media \
    --image_sample_size 64 --video_sample_size 64 --vae m/vae --text_encoder m/text_encoder \
    --text_encoder_2 m/text_encoder_3 --tokenizer m/tokenizer --tokenizer_2 m/tokenizer_3 --out big

for class in StableDiffusionXLPipeline StableDiffusionPipeline; do
    mkdir -p unet
    echo "{\"_class_name\": \"$class\"}" >unet/model_index.json
    said="no family here has a pipeline $class, .*whose network is a U-Net"
    expect 2 "$said" vprep --meta media --model unet --out none
    expect '1 2' "$said" vtrain --latents a --model unet --output_dir none
done
absent none

# ---- a LoRA, also with frozen weights in 8 bits, and a full finetune resume bit for bit ----
resume_alike 4

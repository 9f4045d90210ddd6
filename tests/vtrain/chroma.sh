#!/usr/bin/env bash
# Chroma from pictures to a LoRA and pictures: vprep makes a dataset with a tiny model's encoders,
# vtrain trains the model's transformer, samples from it and resumes, vdecode makes the samples'
# pictures.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
. "$lib/pictures.sh"
export VLT_SOURCE

make_set ChromaPipeline 16 1 9              # captions of 10 to 55 tokens
expect 0 'flow matching, weighting logit_normal' train dry "${lora[@]}" --dry_run
absent dry
expect 0 '2 stored prompts' train shown "${lora[@]}" --max_train_steps 2 --validation_steps 2 \
    --num_inference_steps 3
guided_at 2 5 1
for module in transformer_blocks.1.attn.{to_q,to_k,to_v,to_out.0,add_q_proj,add_k_proj} \
    transformer_blocks.0.attn.{add_v_proj,to_add_out} \
    single_transformer_blocks.2.attn.{to_q,to_k,to_v}; do
    grep -aq "$module.lora_A" shown/checkpoint-2/pytorch_lora_weights.safetensors ||
        wrong "no LoRA of $module"
done
decoded 2

# ---- the names of other programs: of the first authors, of ComfyUI ----
same_loras shown/checkpoint-2
grep -aq '"lora_unet_double_blocks_0_img_attn_qkv.lora_down.weight"' \
    shown/checkpoint-2/lora_kohya.safetensors || wrong "lora_kohya has other names"
grep -aq '"diffusion_model.double_blocks.0.img_attn.qkv.lora_down.weight"' \
    shown/checkpoint-2/lora_comfyui.safetensors || wrong "lora_comfyui has other names"

# ---- a LoRA, also with frozen weights in 8 bits, and a full finetune resume bit for bit ----
resume_alike 4

#!/usr/bin/env bash
# Krea 2 from pictures to a LoRA and pictures: vprep makes a dataset with a tiny model's encoders,
# vtrain trains the model's transformer, samples from it and resumes, vdecode makes the samples'
# pictures.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
. "$lib/pictures.sh"
export VLT_SOURCE

make_set Krea2Pipeline 16 0 9              # captions of 16 to 61 tokens
expect 0 'flow matching, weighting logit_normal' train dry "${lora[@]}" --dry_run
absent dry
expect 0 '2 stored prompts' train shown "${lora[@]}" --max_train_steps 2 --validation_steps 2 \
    --num_inference_steps 3
guided_at 2 4.5 0
for module in to_q to_k to_v to_out.0; do
    for list in transformer_blocks text_fusion.layerwise_blocks text_fusion.refiner_blocks; do
        grep -aq "$list.0.attn.$module.lora_A" \
            shown/checkpoint-2/pytorch_lora_weights.safetensors || wrong "no LoRA of $list $module"
    done
done
decoded 2

# ---- the names of other programs: of the first authors, of ComfyUI ----
same_loras shown/checkpoint-2
grep -aq '"lora_unet_blocks_0_attn_wq.lora_down.weight"' \
    shown/checkpoint-2/lora_kohya.safetensors || wrong "lora_kohya has other names"
grep -aq '"diffusion_model.blocks.0.attn.wq.lora_down.weight"' \
    shown/checkpoint-2/lora_comfyui.safetensors || wrong "lora_comfyui has other names"

# ---- a LoRA, also with frozen weights in 8 bits, and a full finetune resume bit for bit ----
resume_alike 4

#!/usr/bin/env bash
# Z-Image from pictures to a LoRA and pictures: vprep makes a dataset with a tiny model's encoders,
# vtrain trains the model's transformer, samples from it and resumes, vdecode makes the samples'
# pictures.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
. "$lib/pictures.sh"
export VLT_SOURCE

make_set ZImagePipeline 4 0 9              # captions of 16 to 61 tokens
expect 0 'flow matching, weighting logit_normal.*shift 3$' train dry "${lora[@]}" --dry_run
absent dry
expect 0 '2 stored prompts' train shown "${lora[@]}" --max_train_steps 2 --validation_steps 2 \
    --num_inference_steps 3
guided_at 2 5 0
for module in to_q to_k to_v to_out.0; do
    for list in layers noise_refiner context_refiner; do
        grep -aq "$list.0.attention.$module.lora_A" \
            shown/checkpoint-2/pytorch_lora_weights.safetensors || wrong "no LoRA of $list $module"
    done
done
decoded 2

# ---- the names of other programs: of musubi-tuner, of ComfyUI ----
same_loras shown/checkpoint-2
grep -aq '"lora_unet_layers_0_attention_to_q.lora_down.weight"' \
    shown/checkpoint-2/lora_kohya.safetensors || wrong "lora_kohya has other names"
grep -aq '"diffusion_model.layers.0.attention.to_q.lora_down.weight"' \
    shown/checkpoint-2/lora_comfyui.safetensors || wrong "lora_comfyui has other names"

# ---- a LoRA, also with frozen weights in 8 bits, and a full finetune resume bit for bit ----
resume_alike 4

# ---- what is refused ----
cp -r m omni
sed -i 's/"siglip_feat_dim": *null/"siglip_feat_dim": 1152/' omni/transformer/config.json
expect 1 'siglip_feat_dim: it is set.*Z-Image-Omni' vtrain --latents a --model omni \
    --output_dir no "${lora[@]}"
absent no

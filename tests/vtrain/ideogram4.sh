#!/usr/bin/env bash
# Ideogram 4 from pictures to a LoRA and pictures: vprep makes a dataset with a tiny model's
# encoders, vtrain trains the model's transformer, samples from it with the unconditional one, and
# resumes, vdecode makes the samples' pictures.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
. "$lib/pictures.sh"
export VLT_SOURCE

make_set Ideogram4Pipeline 16 1 9          # captions of 10 to 55 tokens
expect 0 'flow matching, weighting logit_normal' train dry "${lora[@]}" --dry_run
absent dry
# weights that stay in files: of the transformer, and of both that a sample needs
in_files() { sed -n 's/.*memory: \([0-9.]*\) KiB of frozen weights stay mapped.*/\1/p' "$log"; }
one=$(in_files)
expect 0 'stay mapped from their files' train dry "${lora[@]}" --dry_run --validation_steps 2
awk -v one="${one:-0}" -v both="$(in_files)" \
    'BEGIN { exit !(one > 0 && both > 1.9 * one && both < 2.1 * one) }' ||
    wrong "$one KiB of one transformer, $(in_files) KiB of both"
expect 0 '2 stored prompts' train shown "${lora[@]}" --max_train_steps 2 --validation_steps 2 \
    --num_inference_steps 3
output_lacks "no unconditional_transformer"
guided_at 2 7 1
for module in attention.to_q attention.to_k attention.to_v attention.to_out.0 feed_forward.w1 \
    feed_forward.w2 feed_forward.w3; do
    grep -aq "layers.0.$module.lora_A" shown/checkpoint-2/pytorch_lora_weights.safetensors ||
        wrong "no LoRA of $module"
done
decoded 2

# ---- the names of other programs: of the first authors, and of ComfyUI, which reads no others ----
same_loras shown/checkpoint-2
grep -aq '"lora_unet_layers_0_attention_qkv.lora_down.weight"' \
    shown/checkpoint-2/lora_kohya.safetensors || wrong "lora_kohya has other names"
grep -aq '"diffusion_model.layers.0.attention.qkv.lora_down.weight"' \
    shown/checkpoint-2/lora_comfyui.safetensors || wrong "lora_comfyui has other names"

# ---- a LoRA, also with frozen weights in 8 bits, and a full finetune resume bit for bit ----
resume_alike 4

# ---- a model without the second transformer is sampled by the negative prompt, and says so ----
rm -r m/unconditional_transformer
expect 0 'give --unconditional_transformer' train alone "${lora[@]}" --max_train_steps 1 \
    --validation_steps 1 --num_inference_steps 2

#!/usr/bin/env bash
# ERNIE-Image from pictures to a LoRA and pictures: vprep makes a dataset with a tiny model's
# encoders, vtrain trains the model's transformer, samples from it and resumes, vdecode makes the
# samples' pictures.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
. "$lib/pictures.sh"
export VLT_SOURCE

make_set ErnieImagePipeline 16 1 9         # captions of 17 to 62 tokens
expect 0 'flow matching, weighting logit_normal.*shift 4$' train dry "${lora[@]}" --dry_run
absent dry
expect 0 '2 stored prompts' train shown "${lora[@]}" --max_train_steps 2 --validation_steps 2 \
    --num_inference_steps 3
guided_at 2 4 1
for module in to_q to_k to_v to_out.0; do
    grep -aq "layers.0.self_attention.$module.lora_A" \
        shown/checkpoint-2/pytorch_lora_weights.safetensors || wrong "no LoRA of $module"
done
decoded 2

# ---- the names of other programs: all have diffusers' modules ----
same_loras shown/checkpoint-2
grep -aq '"lora_unet_layers_0_self_attention_to_q.lora_down.weight"' \
    shown/checkpoint-2/lora_kohya.safetensors || wrong "lora_kohya has other names"
grep -aq '"diffusion_model.layers.0.self_attention.to_q.lora_down.weight"' \
    shown/checkpoint-2/lora_comfyui.safetensors || wrong "lora_comfyui has other names"

# ---- a LoRA, also with frozen weights in 8 bits, and a full finetune resume bit for bit ----
resume_alike 4

# ---- what is refused: another model's dataset, another form of the transformer ----
cp -r m other
sed -i 's/"patch_size": *1/"patch_size": 2/' other/transformer/config.json
expect 1 'patch_size: 2.*1 is supported' vtrain --latents a --model other --output_dir no \
    "${lora[@]}"
absent no

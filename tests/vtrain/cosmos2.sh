#!/usr/bin/env bash
# Cosmos-Predict2 Text2Image from pictures to a LoRA and pictures: vprep makes a dataset with a tiny
# model's encoders, vtrain trains the model's transformer, samples from it and resumes, and vdecode
# makes the samples' pictures. Video2World from clips to samples that begin with a picture.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
. "$lib/pictures.sh"
export VLT_SOURCE

make_set Cosmos2TextToImagePipeline 4 0 9         # captions of 10 to 55 tokens
expect 0 'flow matching, weighting logit_normal.*shift 1$' train dry "${lora[@]}" --dry_run
absent dry
expect 0 "next: diffusers' transformer.load_lora_adapter opens the folder" train next "${lora[@]}" \
    --max_train_steps 1
expect 0 '2 stored prompts' train shown "${lora[@]}" --max_train_steps 2 --validation_steps 2 \
    --num_inference_steps 3
guided_at 2 7 0
for attention in attn1 attn2; do
    for module in to_q to_k to_v to_out.0; do
        grep -aq "transformer_blocks.1.$attention.$module.lora_A" \
            shown/checkpoint-2/pytorch_lora_weights.safetensors || wrong "no LoRA of $module"
    done
done
decoded 2

# ---- the names of other programs: those of the first authors ----
same_loras shown/checkpoint-2
grep -aq '"lora_unet_blocks_0_self_attn_q_proj.lora_down.weight"' \
    shown/checkpoint-2/lora_kohya.safetensors || wrong "lora_kohya has other names"
grep -aq '"diffusion_model.blocks.1.cross_attn.output_proj.lora_down.weight"' \
    shown/checkpoint-2/lora_comfyui.safetensors || wrong "lora_comfyui has other names"

# ---- a LoRA, also with frozen weights in 8 bits, and a full finetune resume bit for bit ----
resume_alike 4

# ---- what is refused: another family's scheduler, a model of more inputs ----
sed 's/use_karras_sigmas/use_beta_sigmas/' m/scheduler/scheduler_config.json >beta.json
expect 1 'use_beta_sigmas' train no "${lora[@]}" --scheduler beta.json
absent no
cp -r m other
sed -i 's/"in_channels": *4/"in_channels": 6/' other/transformer/config.json
expect 1 'in_channels: 6 with out_channels 4 is no known model' vtrain --latents a --model other \
    --output_dir no "${lora[@]}"
expect 2 'takes one timestep for all tokens of a sample' train no "${lora[@]}" \
    --first_frame_conditioning_p 0.5
absent no

# ---- Video2World: clips that may begin with a clean frame, and samples that do ----
small_set clips 8
need make_model world Cosmos2VideoToWorldPipeline 4
cat >image.jsonl <<'END'
{"prompt": "a b", "height": 64, "width": 96, "num_frames": 9, "image": "clips/still-3.png"}
END
need vprep --meta clips/metadata.json "${sampling[@]}" --image_sample_size 64 --model world \
    --out w --validation_prompts image.jsonl
walk() {
    vtrain --latents w --model world --output_dir "$1" --train_batch_size 2 --seed 5 --threads 1 \
        --workers 1 --first_frame_conditioning_p 0.5 "${lora[@]}" "${@:2}"
}
expect 0 'memory: peak' walk first --max_train_steps 4 --validation_steps 4 --num_inference_steps 3
expect 0 . walk cut --max_train_steps 2
expect 0 . walk cut --max_train_steps 4 --resume_from_checkpoint latest
same_end first/checkpoint-4 cut/checkpoint-4 || wrong "a resumed run has other weights"
expect 0 'Cosmos2VideoToWorldPipeline: all clips begin with a clean frame' vtrain --latents w \
    --model world --output_dir always "${lora[@]}" --max_train_steps 1
holds always/config.yaml 'first_frame_conditioning_p: 1'
expect 0 'marks the first frame: all clips begin with a clean frame' vtrain --latents w \
    --transformer world/transformer --output_dir alone "${lora[@]}" --max_train_steps 1
same_end always/checkpoint-1 alone/checkpoint-1 || wrong "the transformer alone has other weights"
expect 0 '1 decoded' vdecode first --model world --format png

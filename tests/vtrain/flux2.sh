#!/usr/bin/env bash
# FLUX.2 klein from pictures to a LoRA and pictures: vprep makes a dataset with a tiny model's
# encoders, vtrain trains the model's transformer, samples from it and resumes, vdecode makes the
# samples' pictures.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
. "$lib/pictures.sh"
export VLT_SOURCE

make_set Flux2KleinPipeline 16 1 0
expect 0 'flow matching, weighting logit_normal.*by tokens (exponential' train dry "${lora[@]}" \
    --dry_run
absent dry
expect 0 '2 stored prompts' train shown "${lora[@]}" --max_train_steps 2 --validation_steps 2 \
    --num_inference_steps 3
guided_at 2 4 1
for module in transformer_blocks.0.attn.{to_q,to_k,to_v,to_out.0} \
    single_transformer_blocks.1.attn.{to_qkv_mlp_proj,to_out}; do
    grep -aq "\"transformer.$module.lora_A" shown/checkpoint-2/pytorch_lora_weights.safetensors ||
        wrong "no LoRA of $module"
done
decoded 2

# ---- a distilled model's samples are unguided, as in its pipeline, unless a flag guides them ----
cp -r m distilled
sed -i 's/{/{"is_distilled": true, /' distilled/model_index.json
mv shown kept
sample() {
    expect 0 . vtrain --latents a --model distilled --output_dir shown "${lora[@]}" --threads 1 \
        --max_train_steps 1 --validation_steps 1 --num_inference_steps 2 "$@"
}
sample
guided_at 1 1 1
rm -r shown
sample --guidance_scale 3
guided_at 1 3 1
rm -r shown
mv kept shown

# ---- the names of other programs: of musubi-tuner, of ComfyUI ----
same_loras shown/checkpoint-2
grep -aq '"lora_unet_double_blocks_0_img_attn_qkv.lora_down.weight"' \
    shown/checkpoint-2/lora_kohya.safetensors || wrong "lora_kohya has other names"
grep -aq '"diffusion_model.single_blocks.0.linear1.lora_down.weight"' \
    shown/checkpoint-2/lora_comfyui.safetensors || wrong "lora_comfyui has other names"

# ---- the names of DiffSynth-Studio, which are read too ----
diffsynth() { vtrain --latents a --model m "${lora[@]}" --threads 1 --max_train_steps 1 "$@"; }
expect 0 . diffsynth --output_dir synth --export_diffsynth --target_name to_q,norm_out.linear
file=synth/checkpoint-1/lora_diffsynth.safetensors
for module in transformer_blocks.0.attn.to_q norm_out.linear; do
    grep -aq "\"$module.lora_up.weight\"" $file || wrong "lora_diffsynth has no $module"
done
expect 0 . diffsynth --output_dir more --lora_checkpoint $file
expect 2 'DiffSynth-Studio reads LoRAs alone, and this is a LoHa' \
    diffsynth --output_dir no --export_diffsynth --adapter loha

# ---- a LoRA, also with frozen weights in 8 bits, and a full finetune resume bit for bit ----
resume_alike 4

# ---- a dataset of another autoencoder ----
need make_model z ZImagePipeline 4
need vprep --meta media --image_sample_size 64 --video_sample_size 64 --model z --out z.lmdb
expect 1 "AutoencoderKLFlux2.*the dataset's latents are of a \"AutoencoderKL\"" vtrain \
    --latents z.lmdb --model m --output_dir no "${lora[@]}"
expect 2 '--export_diffsynth: DiffSynth-Studio finds the modules of FLUX.2 alone' vtrain \
    --latents z.lmdb --model z --output_dir no "${lora[@]}" --export_diffsynth
absent no

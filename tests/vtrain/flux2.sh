#!/usr/bin/env bash
# FLUX.2 klein from pictures to a LoRA and pictures: vprep makes a dataset with a tiny model's
# encoders, vtrain trains the model's transformer, samples from it and resumes, vdecode makes the
# samples' pictures.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

mkdir media
for ((i = 0; i < 6; i++)); do
    size=$([ $((i % 2)) = 0 ] && echo 96x64 || echo 64x64)
    ffmpeg -v error -y -f lavfi -i "testsrc2=s=$size:r=1:d=1,hue=h=$((i * 50))" -frames:v 1 \
        "media/$i.png"
    echo "picture $i" >"media/$i.txt"
done
cat >prompts.jsonl <<'END'
{"prompt": "a b c", "height": 64, "width": 96, "seed": 3}
{"prompt": "def ghi jkl", "negative_prompt": "a", "height": 64, "width": 64, "guidance_scale": 1}
END
need make_model m Flux2KleinPipeline 16

# ---- two commands: pictures to latents, latents to a LoRA with samples ----
need vprep --meta media --image_sample_size 64 --video_sample_size 64 --model m --out a \
    --validation_prompts prompts.jsonl
train() {
    vtrain --latents a --model m --output_dir "$1" --train_batch_size 2 --seed 5 --threads 1 \
        --workers 1 "${@:2}"
}
lora=(--training_type lora --rank 2)
expect 0 'flow matching, weighting logit_normal.*by tokens (exponential' train dry "${lora[@]}" --dry_run
absent dry
expect 0 '2 stored prompts' train shown "${lora[@]}" --max_train_steps 2 --validation_steps 2 \
    --num_inference_steps 3
grep -aq '"guidance_scale":"4"' shown/validation/step-2/000.safetensors ||
    wrong "the first sample is not guided at 4"
grep -aq '"guidance_scale":"1"' shown/validation/step-2/001.safetensors ||
    wrong "the second sample is guided"
for module in transformer_blocks.0.attn.{to_q,to_k,to_v,to_out.0} \
    single_transformer_blocks.1.attn.{to_qkv_mlp_proj,to_out}; do
    grep -aq "\"transformer.$module.lora_A" shown/checkpoint-2/pytorch_lora_weights.safetensors ||
        wrong "no LoRA of $module"
done
expect 0 '2 decoded' vdecode shown --model m --format png
for name in 000 001; do
    [ -s shown/validation/step-2/$name-000.png ] || [ -s shown/validation/step-2/$name.png ] ||
        wrong "pictures: $(ls shown/validation/step-2)"
done

# ---- the names of other programs: of musubi-tuner, of ComfyUI ----
same_loras shown/checkpoint-2
grep -aq '"lora_unet_double_blocks_0_img_attn_qkv.lora_down.weight"' \
    shown/checkpoint-2/lora_kohya.safetensors || wrong "lora_kohya has other names"
grep -aq '"diffusion_model.single_blocks.0.linear1.lora_down.weight"' \
    shown/checkpoint-2/lora_comfyui.safetensors || wrong "lora_comfyui has other names"

# ---- a LoRA, also with frozen weights in 8 bits, and a full finetune resume bit for bit ----
for how in "lora --rank 2" "lora --rank 2 --transformer_dtype fp8" full-finetune; do
    read -ra type <<<"--training_type $how"
    name=${how// /_}
    expect 0 'memory: peak' train "$name" "${type[@]}" --max_train_steps 4 --caption_dropout_p 0.5
    expect 0 . train "$name-cut" "${type[@]}" --max_train_steps 2 --caption_dropout_p 0.5
    expect 0 . train "$name-cut" "${type[@]}" --max_train_steps 4 --caption_dropout_p 0.5 \
        --resume_from_checkpoint latest
    same_end "$name/checkpoint-4" "$name-cut/checkpoint-4" || wrong "$name: other weights"
done

# ---- a dataset of another autoencoder ----
need make_model z ZImagePipeline 4
need vprep --meta media --image_sample_size 64 --video_sample_size 64 --model z --out z.lmdb
expect 1 "AutoencoderKLFlux2.*the dataset's latents are of a \"AutoencoderKL\"" vtrain \
    --latents z.lmdb --model m --output_dir no "${lora[@]}"
absent no

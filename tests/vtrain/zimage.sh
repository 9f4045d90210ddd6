#!/usr/bin/env bash
# Z-Image from pictures to a LoRA and pictures: vprep makes a dataset with a tiny model's encoders,
# vtrain trains the model's transformer, samples from it and resumes, vdecode makes the samples'
# pictures.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

mkdir media
for ((i = 0; i < 6; i++)); do
    size=$([ $((i % 2)) = 0 ] && echo 96x64 || echo 64x64)
    ffmpeg -v error -y -f lavfi -i "testsrc2=s=$size:r=1:d=1,hue=h=$((i * 50))" -frames:v 1 \
        "media/$i.png"
    echo "picture $i$(printf '%*s' $((9 * i)) '' | tr ' ' x)" >"media/$i.txt"     # 16 to 61 tokens
done
cat >prompts.jsonl <<'END'
{"prompt": "a b c", "height": 64, "width": 96, "seed": 3}
{"prompt": "def ghi jkl", "negative_prompt": "a", "height": 64, "width": 64, "guidance_scale": 0}
END
need make_model m ZImagePipeline 4

# ---- two commands: pictures to latents, latents to a LoRA with samples ----
need vprep --meta media --image_sample_size 64 --video_sample_size 64 --model m --out a \
    --validation_prompts prompts.jsonl
train() {
    vtrain --latents a --model m --output_dir "$1" --train_batch_size 2 --seed 5 --threads 1 \
        --workers 1 "${@:2}"
}
lora=(--training_type lora --rank 2)
expect 0 'flow matching, weighting logit_normal.*shift 3$' train dry "${lora[@]}" --dry_run
absent dry
expect 0 '2 stored prompts' train shown "${lora[@]}" --max_train_steps 2 --validation_steps 2 \
    --num_inference_steps 3
grep -aq '"guidance_scale":"5"' shown/validation/step-2/000.safetensors ||
    wrong "the first sample is not guided at 5"
grep -aq '"guidance_scale":"0"' shown/validation/step-2/001.safetensors ||
    wrong "the second sample is guided"
for module in to_q to_k to_v to_out.0; do
    for list in layers noise_refiner context_refiner; do
        grep -aq "$list.0.attention.$module.lora_A" \
            shown/checkpoint-2/pytorch_lora_weights.safetensors || wrong "no LoRA of $list $module"
    done
done
expect 0 '2 decoded' vdecode shown --model m --format png
for name in 000 001; do
    [ -s shown/validation/step-2/$name-000.png ] || [ -s shown/validation/step-2/$name.png ] ||
        wrong "pictures: $(ls shown/validation/step-2)"
done

# ---- the names of other programs: of musubi-tuner, of ComfyUI ----
same_loras shown/checkpoint-2
grep -aq '"lora_unet_layers_0_attention_to_q.lora_down.weight"' \
    shown/checkpoint-2/lora_kohya.safetensors || wrong "lora_kohya has other names"
grep -aq '"diffusion_model.layers.0.attention.to_q.lora_down.weight"' \
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

# ---- what is refused ----
cp -r m omni
sed -i 's/"siglip_feat_dim": *null/"siglip_feat_dim": 1152/' omni/transformer/config.json
expect 1 'siglip_feat_dim: it is set.*Z-Image-Omni' vtrain --latents a --model omni \
    --output_dir no "${lora[@]}"
absent no

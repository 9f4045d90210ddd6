#!/usr/bin/env bash
# LTX-2 without sound, 2.0 and 2.3, from clips to samples as pictures, with tiny models' folders.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

small_set media 4                            # 3 clips, 1 still
for v in 20 23; do
    need make_model "m$v" LTX2Pipeline $v
done
cat >prompts.jsonl <<'END'
{"prompt": "a red ball", "height": 64, "width": 64, "num_frames": 33, "seed": 3}
{"prompt": "a cat", "height": 64, "width": 128, "num_frames": 9, "fps": 30}
END
sampling+=(--image_sample_size 64)
encode() # encode VERSION OUT FLAG...
{
    vprep --meta media/metadata.json "${sampling[@]}" --model "m$1" --out "$2" \
        --validation_prompts prompts.jsonl "${@:3}"
}
train() # train VERSION SET OUT FLAG...
{
    vtrain --latents "$2" --model "m$1" --output_dir "$3" --train_batch_size 1 --seed 5 \
        --threads 1 --workers 1 "${@:4}"
}
lora=(--training_type lora --rank 2)

for v in 20 23; do
    # ---- latents, and features of captions without padding ----
    expect 0 '4 encoded' encode $v set$v
    need vlat verify set$v
    expect 0 '' vlat show set$v 000000000000/000
    stdout_has 'prompt_embeds f16 \[[0-9]\{1,3\},32\]'
    stdout_has 'logvar.*\[1,2,'
    holds set$v/manifest.json '"family": "ltx-2"'
    expect 0 '0 encoded, 4 reused' encode $v set$v

    # ---- a LoRA resumes to the same bits; clean first frames and samples ----
    mv m$v/scheduler away
    expect 0 'by tokens (exponential, 0.95 at 1024, 2.05 at 4096)' train $v set$v dry \
        "${lora[@]}" --dry_run
    stderr_has 'no scheduler/scheduler_config.json'
    mv away m$v/scheduler
    expect 0 'by tokens (exponential, 0.95 at 1024, 2.05 at 4096)' train $v set$v dry \
        "${lora[@]}" --dry_run
    expect 0 . train $v set$v all$v "${lora[@]}" --max_train_steps 4 \
        --first_frame_conditioning_p 0.5
    expect 0 . train $v set$v cut$v "${lora[@]}" --max_train_steps 2 \
        --first_frame_conditioning_p 0.5
    expect 0 . train $v set$v cut$v "${lora[@]}" --max_train_steps 4 \
        --first_frame_conditioning_p 0.5 --resume_from_checkpoint latest
    cmp all$v/checkpoint-4/optimizer.safetensors cut$v/checkpoint-4/optimizer.safetensors ||
        wrong "$v: a resumed run differs"
    expect 0 '2 stored prompts' train $v set$v shown$v "${lora[@]}" --max_train_steps 1 \
        --validation_steps 1 --num_inference_steps 2
    expect 0 '2 decoded' vdecode shown$v --model m$v --format png
    [ -s shown$v/validation/step-1/000-032.png ] ||
        wrong "pictures: $(ls shown$v/validation/step-1)"
done

# ---- ComfyUI's file has the first authors' names ----
expect 0 . train 23 set23 names "${lora[@]}" --max_train_steps 1 \
    --target_name to_q,proj_in,prompt_adaln.linear
for name in patchify_proj prompt_adaln_single.linear transformer_blocks.1.attn2.to_q; do
    grep -aq "\"diffusion_model\.$name\.lora_[Ad]" names/checkpoint-1/lora_comfyui.safetensors ||
        wrong "lora_comfyui lacks $name"
done

for file in lora_comfyui lora_kohya; do        # both are read again
    expect 0 . train 23 set23 again-$file "${lora[@]}" --max_train_steps 1 \
        --target_name to_q,proj_in,prompt_adaln.linear \
        --lora_checkpoint names/checkpoint-1/$file.safetensors
done

# ---- the versions' latents and features are never mixed ----
expect 1 'm23/vae: other weights .* than set20 was made with' train 23 set20 none "${lora[@]}" \
    --max_train_steps 1
absent none

# ---- a run goes on with the connectors that it began with ----
file=m23/connectors/$(ls m23/connectors | grep safetensors)
cp "$file" kept
printf '\076' | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") - 1)) conv=notrunc status=none
! cmp -s "$file" kept || wrong 'the byte was the same'
expect 1 'other weights .* than those that .*cut23.* was trained on' train 23 set23 cut23 \
    "${lora[@]}" --max_train_steps 5 --resume_from_checkpoint latest
cp kept "$file"

# ---- a whole model resumes to the same bits, and its file keeps the weights of the sound ----
full=(--training_type full-finetune --learning_rate 1e-3)
for v in 20 23; do
    expect 0 '[0-9]* tensors of m.*/transformer are not trained, and are written as they are: first audio_' \
        train $v set$v full$v "${full[@]}" --max_train_steps 4
    expect 0 . train $v set$v half$v "${full[@]}" --max_train_steps 2
    expect 0 . train $v set$v half$v "${full[@]}" --max_train_steps 4 \
        --resume_from_checkpoint latest
    cmp full$v/checkpoint-4/transformer/diffusion_pytorch_model.safetensors \
        half$v/checkpoint-4/transformer/diffusion_pytorch_model.safetensors ||
        wrong "$v: a resumed full finetune differs"
    expect 0 . train $v set$v more$v "${lora[@]}" --max_train_steps 1 \
        --transformer full$v/checkpoint-4/transformer
    # the file of the authors gives the same
    expect 0 . train $v set$v first$v "${full[@]}" --max_train_steps 4 \
        --transformer m$v/first.safetensors
    cmp full$v/checkpoint-4/transformer/diffusion_pytorch_model.safetensors \
        first$v/checkpoint-4/transformer/diffusion_pytorch_model.safetensors ||
        wrong "$v: a full finetune from the authors' file differs"
done

# ---- a folder without its connectors is refused ----
mv m20/connectors away
expect 2 'm20 has no folder connectors' train 20 set20 none "${lora[@]}" --max_train_steps 1
expect 2 'm20 has no folder connectors' encode 20 other
mv away m20/connectors
sed -i 's/"video_connector_num_layers": *2/"video_connector_num_layers": 3/' \
    m20/connectors/config.json
expect 1 'm20/connectors.*transformer_blocks.2' train 20 set20 none "${lora[@]}" \
    --max_train_steps 1
absent none

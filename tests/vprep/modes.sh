#!/usr/bin/env bash
# The conditions of --train_mode are entries of their own, and a change of mode encodes no clip
# twice.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"


small_set "$dir/media" 7                     # 6 clips, 1 still
meta=(--meta "$dir/media/metadata.json" "${sampling[@]}")

# ---- a change of mode encodes conditions and no clip ----
check normal 0 vprep "${meta[@]}" --out "$dir/a" && stderr_has "7 encoded"
cp -r "$dir/a" "$dir/was-normal"
check "dry i2v" 0 vprep "${meta[@]}" --out "$dir/a" --train_mode i2v --dry_run
# a still is its own first frame, so its image condition is reused
stdout_has "reuse 7, encode 0, drop 0" && stdout_has "conditions: reuse 1, encode 13"
check i2v 0 vprep "${meta[@]}" --out "$dir/a" --train_mode i2v
stderr_has "0 encoded, 7 reused" && stderr_has " 13 conditions encoded"
check "verify i2v" 0 vlat verify "$dir/a"
check "i2v again" 0 vprep "${meta[@]}" --out "$dir/a" --train_mode i2v &&
    stderr_has " 0 conditions encoded"
check "the same as an input" 0 vprep "${meta[@]}" --out "$dir/a" --extra_inputs input_image &&
    stderr_has " 0 conditions encoded"
grep -q '"train_mode": "i2v"' "$dir/a/manifest.json" || wrong "the mode is not i2v"
check inpaint 0 vprep "${meta[@]}" --out "$dir/a" --train_mode inpaint &&
    stderr_has "0 encoded, 7 reused"
check "verify inpaint" 0 vlat verify "$dir/a"
check "fresh inpaint" 0 vprep "${meta[@]}" --out "$dir/b" --train_mode inpaint &&
    stderr_has "7 encoded"
same_root "$dir/a" "$dir/b"
check "back to normal" 0 vprep "${meta[@]}" --out "$dir/a" && stderr_has "0 encoded, 7 reused"
check "verify normal" 0 vlat verify "$dir/a"
same_root "$dir/a" "$dir/was-normal"

# ---- more noised frames leave the clean ones; any number of threads makes the same bytes ----
check "fresh i2v" 0 vprep "${meta[@]}" --out "$dir/c" --train_mode i2v && stderr_has "7 encoded"
check "three noises" 0 vprep "${meta[@]}" --out "$dir/c" --train_mode i2v --image_noise_variants 3
stderr_has " 7 conditions encoded"
check "verify three" 0 vlat verify "$dir/c"
check "one worker" 0 vprep "${meta[@]}" --out "$dir/d" --train_mode inpaint --workers 1
same_values "$dir/b" "$dir/d"

# ---- --append keeps records of the old mode, so another mode is refused ----
check "append, other mode" 1 vprep "${meta[@]}" --out "$dir/c" --append && stderr_has train_mode

# ---- plans hold the masks: they are replayed with any seed, and can be edited by hand ----
[ "$(grep -c '"purpose":"mask"' "$dir/b/plan.jsonl")" -eq 7 ] || wrong "not one mask per line"
check replay 0 vprep "${meta[@]}" --out "$dir/e" --train_mode inpaint --plan "$dir/b/plan.jsonl" \
    --seed 9
same_values "$dir/b" "$dir/e"
sed 's/"pick":"[a-z_]*","numbers":\[[0-9,]*\]/"pick":"keep_head","numbers":[1]/' \
    "$dir/b/plan.jsonl" >"$dir/edited"
check edited 0 vprep "${meta[@]}" --out "$dir/e" --train_mode inpaint --plan "$dir/edited" --seed 9
stderr_has "0 encoded, 7 reused" && stderr_has "[1-9][0-9]* conditions encoded"
check "verify edited" 0 vlat verify "$dir/e"
sed 's/"pick":"keep_head","numbers":\[1\]/"pick":"keep_head","numbers":[]/' "$dir/edited" \
    >"$dir/bad"
check "impossible mask" 1 vprep "${meta[@]}" --out "$dir/f" --train_mode inpaint \
    --plan "$dir/bad" && stderr_has keep_head

# ---- fully masked clips: the record says so, and all clips of one shape share one value ----
sed 's/"pick":"[a-z_]*","numbers":\[[0-9,]*\]/"pick":"all","numbers":[]/' "$dir/b/plan.jsonl" \
    >"$dir/all"
check "all masked" 0 vprep "${meta[@]}" --out "$dir/g" --train_mode inpaint --plan "$dir/all"
check "show" 0 vlat show "$dir/g" 0 && stdout_has '"mask_all": true'
videos=$(dump_dataset "$dir/g" | grep -c '^latent')
[ "$videos" -lt 21 ] || wrong "$videos latents: masks and masked clips are not shared"

# ---- traces ----
check "trace i2v" 0 vprep "${meta[@]}" --out "$dir/c" --train_mode i2v --trace_dir "$dir/trace" \
    --image_noise_variants 2
for name in cond.image.pixels cond.image.mean cond.image.logvar cond.image_noised.pixels \
    cond.image_noised.mean \
    moments.mean input_ids_1 attention_mask_1 prompt_embeds_1; do
    head -c 4000 "$dir/trace/000000000000-000.safetensors" | grep -qa "\"$name\"" ||
        wrong "no $name in the trace"
done
check "trace inpaint" 0 vprep "${meta[@]}" --out "$dir/b" --train_mode inpaint \
    --trace_dir "$dir/trace2"
for name in cond.video.pixels cond.video.mean cond.video.logvar cond.mask.pixels cond.mask.mask; do
    head -c 4000 "$dir/trace2/000000000000-000.safetensors" | grep -qa "\"$name\"" ||
        wrong "no $name in the trace"
done

# ---- first frames of validation prompts ----
cat >"$dir/media/prompts.json" <<'JSON'
[{"prompt": "a", "image": "still-3.png"},
 {"prompt": "b", "image_path": "still-3.png", "height": 48, "width": 80},
 {"prompt": "c"}]
JSON
check "validation images" 0 vprep "${meta[@]}" --out "$dir/c" --train_mode i2v \
    --image_noise_variants 2 \
    --validation_prompts "$dir/media/prompts.json"
stderr_has " 2 conditions encoded"
check "verify prompts" 0 vlat verify "$dir/c"
check "validation again" 0 vprep "${meta[@]}" --out "$dir/c" --train_mode i2v \
    --image_noise_variants 2 \
    --validation_prompts "$dir/media/prompts.json"
stderr_has " 0 conditions encoded"
sed -i 's/still-3/still-9/' "$dir/media/prompts.json"
check "no such image" 1 vprep "${meta[@]}" --out "$dir/c" --train_mode i2v \
    --image_noise_variants 2 \
    --validation_prompts "$dir/media/prompts.json"
stderr_has "row 1: still-9.png"

# ---- inpainting prompts: the clip begins with the picture, and its other frames are masked. Clips
# of the same shape share a mask of keep_head 1; num_frames becomes a whole number of latent
# frames ----
cat >"$dir/media/inpaint.json" <<'JSON'
[{"prompt": "a", "image": "still-3.png", "conditions": "?", "keys": 1},
 {"prompt": "b", "image": "still-3.png", "num_frames": 11}, {"prompt": "c"}]
JSON
inpaint=(--train_mode inpaint --plan "$dir/edited" --seed 9 \
    --validation_prompts "$dir/media/inpaint.json")
check "dry prompts" 0 vprep "${meta[@]}" --out "$dir/e" "${inpaint[@]}" --dry_run &&
    stdout_has "conditions: reuse 15, encode 3"
check "masked prompts" 0 vprep "${meta[@]}" --out "$dir/e" "${inpaint[@]}" &&
    stderr_has " 3 conditions encoded"
check "verify masked" 0 vlat verify "$dir/e"
check "masked again" 0 vprep "${meta[@]}" --out "$dir/e" "${inpaint[@]}" &&
    stderr_has " 0 conditions encoded"
check "export" 0 vlat export "$dir/e" --to safetensors --out "$dir/files"
grep -q '"prompt":"a".*"num_frames":9,.*"conditions":{"video":"[0-9a-f]*","mask":"[0-9a-f]*"}' \
    "$dir/files/validation.jsonl"
check "merge" 0 vlat merge "$dir/e" "$dir/g" --out "$dir/merged" &&
    check "verify merged" 0 vlat verify "$dir/merged"
check "taken over" 0 vprep "${meta[@]}" --out "$dir/taken" "${inpaint[@]}" --reuse "$dir/e" &&
    stderr_has " 0 conditions encoded"
sed -i 's/"num_frames": 11/"num_frames": 0.5/' "$dir/media/inpaint.json"
check "no such length" 1 vprep "${meta[@]}" --out "$dir/e" "${inpaint[@]}" &&
    stderr_has "row 2: .*num_frames"

# ---- model folders: the error names the missing part, and nothing is written ----
mkdir -p "$dir/model/vae"
echo '{"_class_name": "StableDiffusionPipeline"}' >"$dir/model/model_index.json"
echo '{"_class_name": "AutoencoderKLMochi"}' >"$dir/model/vae/config.json"
check "unknown pipeline" 2 vprep "${meta[@]}" --out "$dir/n" --model "$dir/model" &&
    stderr_has StableDiffusionPipeline
check "unknown vae" 2 vprep "${meta[@]}" --out "$dir/n" --vae "$dir/model" &&
    stderr_has AutoencoderKLMochi
check "no vae" 2 vprep "${meta[@]}" --out "$dir/n" --vae "$dir/none" &&
    stderr_has "no such file or folder"
check "encoder alone" 2 vprep "${meta[@]}" --out "$dir/n" --text_encoder "$dir/model" &&
    stderr_has "give --model"
check "odd type" 2 vprep "${meta[@]}" --out "$dir/n" --vae_dtype int8 && stderr_has "bf16"
absent "$dir/n"

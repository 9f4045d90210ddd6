#!/usr/bin/env bash
# vprep and vdecode read a model's folder: a tiny CogVideoX with the goldens' weights.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

has() { grep -q -- "$1" "$2/manifest.json" || wrong "expected $1 in:"; }

small_set "$dir/media" 4                     # 3 clips, 1 still
make_model "$dir/m" CogVideoXImageToVideoPipeline 32 >/dev/null 2>&1
sampling+=(--image_sample_size 64)
meta=(--meta "$dir/media/metadata.json" "${sampling[@]}" --model "$dir/m")

# ---- i2v in bf16; weights are hashed once; a copy elsewhere has the same fingerprints ----
check i2v 0 vprep "${meta[@]}" --train_mode i2v --out "$dir/a" --profile
stderr_has "% *[0-9.]* s  VAE" && stderr_has "% *[0-9.]* s  the VAE waited for decoded clips" &&
    stderr_has "the VAE's share was [0-9.]* %" && stderr_has "profile: .* s  all else"
stderr_has "4 encoded" && stderr_has "hashing" && stderr_has "in the VAE" && stderr_lacks warning
has '"family": "cogvideox"' "$dir/a" && has '"dtype":"bf16","channels":4' "$dir/a" &&
    has '"max_length":12' "$dir/a"
has '"invert_scale_latents":true' "$dir/a"
check verify 0 vlat verify "$dir/a"
check again 0 vprep "${meta[@]}" --train_mode i2v --out "$dir/a"
stderr_has "0 encoded, 4 reused" && stderr_lacks hashing && stderr_lacks "in the VAE" &&
    stderr_lacks profile
check dry 0 vprep "${meta[@]}" --train_mode i2v --out "$dir/a" --dry_run
stderr_lacks hashing && stdout_has "reuse 4, encode 0"
check "dry on nothing" 0 vprep "${meta[@]}" --out "$dir/z" --dry_run && stderr_lacks hashing &&
    stderr_has "train_mode i2v, not normal"
cp -r "$dir/m" "$dir/copy"
check "a copy" 0 vprep "${meta[@]}" --model "$dir/copy" --train_mode i2v --out "$dir/a" &&
    stderr_has "0 encoded, 4 reused"

# ---- flags of parts that the family or the built-in encoders lack ----
parts="image_encoder image_processor connectors text_encoder_2 tokenizer_3"
check "parts of other families" 0 vprep "${meta[@]}" --train_mode i2v --out "$dir/a" \
    $(printf -- '--%s none ' $parts)
for part in $parts; do stderr_has "--$part: models of cogvideox have none"; done
for part in $parts; do
    expect 2 "--$part: give --model or --vae too" vprep --meta "$dir/media/metadata.json" \
        --out "$dir/n" --$part none
done

# ---- modes share clips; precision and tiles make another dataset ----
check inpaint 0 vprep "${meta[@]}" --train_mode inpaint --out "$dir/a" &&
    stderr_has "0 encoded, 4 reused" && stderr_has "inpaint"
has '"pixel_noise":true' "$dir/a"
check verify 0 vlat verify "$dir/a"
check "other type" 1 vprep "${meta[@]}" --out "$dir/a" --vae_dtype f32 && stderr_has "vae.dtype"
check "tiles" 1 vprep "${meta[@]}" --out "$dir/a" --enable_tiling && stderr_has "vae.tiling"
check "other text type" 1 vprep "${meta[@]}" --out "$dir/a" --text_encoder_dtype fp32 &&
    stderr_has "text_encoders"

# ---- flags give folders of single components; changed weights are noticed ----
mv "$dir/copy/text_encoder" "$dir/t5"
check "no encoder" 2 vprep --meta "$dir/media/metadata.json" "${sampling[@]}" --model "$dir/copy" \
    --out "$dir/b"
stderr_has "--text_encoder"
check "by flags" 0 vprep --meta "$dir/media/metadata.json" "${sampling[@]}" --vae "$dir/m" \
    --text_encoder_id "$dir/t5" \
    --tokenizer "$dir/m/tokenizer" --tokenizer_max_length 12 --train_mode i2v --out "$dir/b"
stderr_has "4 encoded"
check "the same as the model" 0 vprep "${meta[@]}" --train_mode i2v --out "$dir/b" &&
    stderr_has "0 encoded, 4 reused"
poke "$dir/t5/diffusion_pytorch_model.safetensors" 20000 '\x01'
check "changed weights" 1 vprep "${meta[@]}" --text_encoder "$dir/t5" --train_mode i2v \
    --out "$dir/b"
stderr_has "hashing" && stderr_has "text_encoders.*fingerprint"
check "another encoder, latents reused" 0 vprep "${meta[@]}" --text_encoder "$dir/t5" \
    --train_mode i2v --out "$dir/r" \
    --reuse "$dir/b"
stderr_has "--reuse $dir/b: text_encoders.*fingerprint" &&
    stdout_has "reuse 4 (4 copied), encode 0" &&
    stdout_has "texts: reuse 0, encode [1-9]"
stderr_has "0 encoded, 4 reused" && stderr_lacks "vae: hashing"
check verify 0 vlat verify "$dir/r"
check "remembered here too" 0 vprep "${meta[@]}" --text_encoder "$dir/t5" --train_mode i2v \
    --out "$dir/r" && stderr_lacks hashing
check "another type, in place" 0 vprep "${meta[@]}" --text_encoder "$dir/t5" --train_mode i2v \
    --out "$dir/r" --reuse "$dir/r" \
    --vae_dtype f32
stdout_has "reuse 0, encode 4" && stdout_has "texts: reuse [1-9][0-9]*, encode 0" &&
    has '"dtype":"f32","channels"' "$dir/r"
check verify 0 vlat verify "$dir/r"

# ---- traces, and decoded pictures ----
check trace 0 vprep "${meta[@]}" --train_mode i2v --out "$dir/c" --trace_dir "$dir/trace" \
    --vae_dtype f32
for name in pixels moments.mean moments.logvar cond.image.mean cond.image_noised.logvar \
    input_ids_1 prompt_embeds_1; do
    head -c 4000 "$dir/trace/000000000000-000.safetensors" | grep -qa "\"$name\"" ||
        wrong "no $name in the trace"
done
check "wrong VAE" 1 vdecode "$dir/c" --out "$dir/png" && stderr_has "give --model"
check decode 0 vdecode "$dir/c" --model "$dir/m" --out "$dir/png" --format png &&
    stderr_has "4 decoded"
ls "$dir/png/000000000000-000-008.png" >/dev/null
stderr_lacks warning
cp -r "$dir/m/vae" "$dir/other-vae"
weights=$dir/other-vae/diffusion_pytorch_model.safetensors
printf '\x01' | dd of="$weights" bs=1 seek=$(($(stat -c %s "$weights") - 1)) conv=notrunc \
    2>/dev/null
check "another VAE" 0 vdecode "$dir/c" --vae "$dir/other-vae" --out "$dir/png3" --samples 1 &&
    stderr_has "1 decoded"
stderr_has "warning: $dir/other-vae: other weights.*$dir/c was made with"
check "decode by --vae" 0 vdecode "$dir/c" --vae "$dir/m/vae" --vae_dtype f32 \
    --vae_tiling --out "$dir/png2" --samples 1
stderr_has "1 decoded"

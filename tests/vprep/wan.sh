#!/usr/bin/env bash
# vprep and vdecode with folders of Wan 2.1 and 2.2, whose models are tiny, made of the goldens'
# weights.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

has() { grep -q -- "$1" "$2/manifest.json" || wrong "expected $1 in:"; }

small_set "$dir/media" 4                     # 3 clips, 1 still
sed -i 's/picture 0, 96x64/ a \&amp;amp;\\n\\n b /' "$dir/media/metadata.json"
need make_model "$dir/m" WanPipeline 16
sampling+=(--image_sample_size 64)
meta=(--meta "$dir/media/metadata.json" "${sampling[@]}" --model "$dir/m")

# ---- moments, and means and standard deviations from config.json ----
check prepare 0 vprep "${meta[@]}" --out "$dir/a" && stderr_has "4 encoded" && stderr_lacks warning
check verify 0 vlat verify "$dir/a"
has '"family": "wan2.1"' "$dir/a"
has '"class":"AutoencoderKLWan"' "$dir/a" && has '"channels":4,"ratio":\[4,8,8\]' "$dir/a"
has '"mean":\[-0.75,0.5,0.25,-1.5\],"std":\[2.5,1.25,0.5,3\]' "$dir/a"
has '"class":"UMT5EncoderModel"' "$dir/a" && has '"max_length":512,"width":32' "$dir/a"
check again 0 vprep "${meta[@]}" --out "$dir/a" && stderr_has "0 encoded, 4 reused"
check show 0 vlat show "$dir/a" 000000000000/000
stdout_has "mean.*\[4,3,6,8\]" && stdout_has "logvar.*\[4,3,6,8\]"
# "a & b" and the end: cleaned, padding is not stored
stdout_has 'prompt_embeds f16 \[6,32\]'
check still 0 vlat show "$dir/a" 000000000003/000 && stdout_has "mean.*\[4,1,"

# ---- a second run without --model names the model, not the differences of its encoders ----
check forgotten 2 vprep "${meta[@]:0:${#meta[@]}-2}" --out "$dir/a"
stderr_has \
    "no --model: --out $dir/a has values of wan2.1: add --model $dir/m, with which they were made"
check "built-in codec" 1 vprep "${meta[@]:0:${#meta[@]}-2}" --model builtin --out "$dir/a"
stderr_has 'vae.class: "AutoencoderKLWan" there, "BuiltinCodec" now' && stderr_lacks fingerprint

# ---- first frames beside the clips ----
check i2v 0 vprep "${meta[@]}" --out "$dir/i2v" --train_mode i2v
check "verify i2v" 0 vlat verify "$dir/i2v"

# ---- tiles change values, and are another fingerprint ----
check tiled 0 vprep "${meta[@]}" --out "$dir/tiled" --vae_tiling
key() { grep -o '"fingerprint":"[0-9a-f]*"' "$1/manifest.json" | head -1; }
[ "$(key "$dir/a")" != "$(key "$dir/tiled")" ] || wrong "tiles have the same fingerprint"

# ---- back to pictures ----
check decode 0 vdecode "$dir/a" --model "$dir/m" --out "$dir/one" --format png &&
    stderr_has "4 decoded"
[ -e "$dir/one/000000000000-000-008.png" ] || wrong "a clip of 9 frames has not 9 pictures"

# ---- Wan 2.2's 5B has another VAE, whose latents are 16 times smaller ----
need make_model "$dir/5b" WanPipeline 48
meta_5b=("${meta[@]:0:${#meta[@]}-1}" "$dir/5b")
check 5b 0 vprep "${meta_5b[@]}" --out "$dir/b" && stderr_has "4 encoded" && stderr_lacks warning
has '"family": "wan2.2-5b"' "$dir/b" && has '"channels":4,"ratio":\[4,16,16\]' "$dir/b"
check "show 5b" 0 vlat show "$dir/b" 000000000002/000 && stdout_has "mean.*\[4,3,4,4\]"
check "decode 5b" 0 vdecode "$dir/b" --model "$dir/5b" --out "$dir/two" --format png
stderr_has "4 decoded"
check "other vae" 1 vprep "${meta[@]}" --vae "$dir/5b" --out "$dir/c"
stderr_has \
    "$dir/5b/vae: one place of its latents stands for 4 frames of 16x16 pixels, but in wan2.1"

# ---- a field that is not supported is named ----
sed -i 's/"attn_scales": \[\]/"attn_scales": [1.0]/' "$dir/m/vae/config.json"
check "wrong field" 1 vprep "${meta[@]}" --out "$dir/c"
stderr_has "$dir/m/vae/config.json: attn_scales"

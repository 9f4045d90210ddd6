#!/usr/bin/env bash
# vprep reads a HunyuanVideo folder with two text encoders: the first encodes prompts in a template,
# the second makes a pooled state alone. The folder's tiny models have the goldens' weights.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

[ -e "$VLT_SOURCE/tests/golden/vae_hunyuan.safetensors" ] ||
    { echo "no golden of the VAE"; exit 77; }
has() { grep -q -- "$1" "$2/manifest.json" || wrong "expected $1 in:"; }

small_set "$dir/media" 4                     # 3 clips, 1 still
make_model "$dir/m" HunyuanVideoPipeline 4 >/dev/null 2>&1
sampling+=(--image_sample_size 64)
echo '[{"prompt": "a disc", "negative_prompt": "mud"}]' >"$dir/prompts.json"
meta=(--meta "$dir/media/metadata.json" "${sampling[@]}" --model "$dir/m" \
    --validation_prompts "$dir/prompts.json")

check run 0 vprep "${meta[@]}" --out "$dir/a" --trace_dir "$dir/trace"
stderr_has "4 encoded" && stderr_lacks warning
check verify 0 vlat verify "$dir/a"
has '"family": *"hunyuanvideo"' "$dir/a"
has '"class":"LlamaModel"' "$dir/a" && has '"max_length":256,"width":32' "$dir/a"
has '"class":"CLIPTextModel"' "$dir/a" && has '"max_length":77,"width":32' "$dir/a"
trace=$dir/trace/000000000000-000.safetensors
for name in input_ids_1 attention_mask_1 prompt_embeds_1 input_ids_2 attention_mask_2 pooled_2; do
    grep -qa "\"$name\"" <(head -c 6000 "$trace") || wrong "no $name in the trace"
done
for name in pooled_1 prompt_embeds_2; do
    ! grep -qa "\"$name\"" <(head -c 6000 "$trace") || wrong "$name is in the trace"
done
check again 0 vprep "${meta[@]}" --out "$dir/a" && stderr_has "0 encoded, 4 reused"

# ---- another prompt length gives new texts of the first encoder alone ----
check "shorter" 0 vprep "${meta[@]}" --out "$dir/short" --tokenizer_max_length 64
has '"max_length":64,"width":32' "$dir/short" && has '"max_length":77' "$dir/short"

# ---- the error about another model's tokenizer names its folder, before anything is encoded ----
check "other tokenizer" 1 vprep "${meta[@]}" --out "$dir/b" --tokenizer "$dir/m/tokenizer_2"
stderr_has "$dir/m/tokenizer_2: this tokenizer makes .* tokens of the template in front .*, not 95"
check "other tokenizer of CLIP" 1 vprep "${meta[@]}" --out "$dir/b" --tokenizer_2 "$dir/m/tokenizer"
stderr_has "$dir/m/tokenizer: token .* is this its tokenizer"
[ ! -e "$dir/b/manifest.json" ] || wrong "a dataset was begun"

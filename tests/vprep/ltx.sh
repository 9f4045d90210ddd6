#!/usr/bin/env bash
# vprep and vdecode read a model's folder: a tiny LTX-Video 0.9.5 with the goldens' weights.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

has() { grep -q -- "$1" "$2/manifest.json" || wrong "expected $1 in:"; }

small_set "$dir/media" 4                     # 3 clips, 1 still
need make_model "$dir/m" LTXPipeline 8
sampling+=(--image_sample_size 64)
meta=(--meta "$dir/media/metadata.json" "${sampling[@]}" --model "$dir/m")

# ---- moments: all channels share one logvar, and the statistics come from the weights ----
check prepare 0 vprep "${meta[@]}" --out "$dir/a" && stderr_has "4 encoded"
has '"family": "ltx-video"' "$dir/a"
has '"dtype":"bf16","channels":8,"ratio":\[8,32,32\]' "$dir/a"
has '"latent_store": "moments"' "$dir/a"
has '"mean":\[[-0-9.e]*,[-0-9.e]*,' "$dir/a"
check verify 0 vlat verify "$dir/a"
check again 0 vprep "${meta[@]}" --out "$dir/a" && stderr_has "0 encoded, 4 reused"
check show 0 vlat show "$dir/a" 000000000000/000
stdout_has "mean.*8.*2" && stdout_has "logvar.*\[1,2,"
# T5 encodes 128 tokens; padding is not stored
stdout_has 'prompt_embeds f16 \[[0-9]\{1,2\},32\]'

# ---- captions and prompts past T5's tokens, which are letters here (and ". "): the plan counts
# them and shows the end that is lost ----
letters=$(printf 'the camera pans. %.0s' 1 2 3 4 5 6 7 8)      # 128 tokens
cp "$dir/media/metadata.json" "$dir/media/long.json"
sed -i "s/picture 1, [^\"]*/${letters}a red disc./; s/picture 2, [^\"]*/${letters:0:127}/" \
    "$dir/media/long.json"
echo "[{\"prompt\": \"$letters\", \"negative_prompt\": \"mud\"}]" >"$dir/prompts.json"
long=(--meta "$dir/media/long.json" "${meta[@]:2}" --validation_prompts "$dir/prompts.json")
check "long captions" 0 vprep "${long[@]}" --out "$dir/dry" --dry_run
captions='text_encoder reads 128 tokens: 1 of 4 captions have more and lose their ends'
stdout_has "^$captions; the first, row 2, clip-1.mp4, loses 12 tokens:\$"
stdout_has '^    \. a red disc\.$'
stdout_has '1 of 2 prompts have more and lose their ends; the first, row 1, loses 1 token:$'
check "long captions" 0 vprep "${long[@]}" --out "$dir/long" && stdout_has "^$captions"
check "report of long captions" 0 vlat report "$dir/long"
grep -q "$captions.*\. a red disc\." "$dir/long/report.html" || wrong "not in the report"
check "info of long captions" 0 vlat info "$dir/long" && stdout_has "^captions cut *$captions"
check "room for all" 0 vprep "${long[@]}" --out "$dir/dry" --dry_run --tokenizer_max_length 140
stdout_lacks 'lose their ends'

# ---- LTX-Video 0.9.5 and later: T5 reads more tokens and no padding, so no text is one of before.
# Without a model_index.json the field of the transformer's config.json says the same ----
mkdir "$dir/later" && cp -r "$dir"/m/* "$dir/later"
sed -i 's/LTXPipeline/LTXConditionPipeline/' "$dir/later/model_index.json"
later=(--meta "$dir/media/metadata.json" "${sampling[@]}" --model "$dir/later")
check "no padding" 0 vprep "${later[@]}" --out "$dir/b" --reuse "$dir/a" --tokenizer_max_length 128
stderr_has '5 of 5 prompts encoded'
check "no padding" 0 vprep "${later[@]}" --out "$dir/e" && has '"max_length":256' "$dir/e"
rm "$dir/later/model_index.json"
sed -i 's/^{/{"causal_temporal_positioning": true,/' "$dir/later/transformer/config.json"
check "no index" 0 vprep "${later[@]}" --out "$dir/e" && has '"max_length":256' "$dir/e"
stderr_has '0 of 5 prompts encoded'

# ---- noised first frames have one logvar each ----
check i2v 0 vprep "${meta[@]}" --out "$dir/i2v" --train_mode i2v --image_noise_variants 2
check "verify i2v" 0 vlat verify "$dir/i2v"
check "show i2v" 0 vlat show "$dir/i2v" 000000000000/000
stdout_has "logvar.*\[2,1,1," && stdout_has "mean.*\[2,8,1,"

# ---- vdecode: the timestep and the noise may be given ----
check decode 0 vdecode "$dir/a" --model "$dir/m" --out "$dir/one" --format png &&
    stderr_has "4 decoded"
check again 0 vdecode "$dir/a" --model "$dir/m" --out "$dir/two" --format png
check same 0 diff -r "$dir/one" "$dir/two"
check still 0 vdecode "$dir/a" --vae "$dir/m" --out "$dir/still" --format png \
    --decode_timestep 0 --decode_noise_scale 0
check differ 1 cmp "$dir/one/000000000000-000-008.png" "$dir/still/000000000000-000-008.png"
check "too much" 2 vdecode "$dir/a" --vae "$dir/m" --out "$dir/x" --decode_noise_scale 1.5
stderr_has decode_noise_scale

# ---- parts of another model: refused before anything is encoded, with the flag that helps ----
need make_model "$dir/h" HunyuanVideoPipeline 4
cp -r "$dir/m" "$dir/mix"
rm -r "$dir/mix/vae"
cp -r "$dir/h/vae" "$dir/mix/vae"
mixed=(--meta "$dir/media/metadata.json" "${sampling[@]}" --model "$dir/mix")
check "a VAE of another family" 2 vprep "${mixed[@]}" --out "$dir/c"
stderr_has "mix/vae: .* AutoencoderKLHunyuanVideo, .* with AutoencoderKLLTXVideo: give --vae DIR"
check "the flag helps" 0 vprep "${mixed[@]}" --out "$dir/dry" --vae "$dir/m/vae" --dry_run
config=$dir/mix/transformer/config.json
sed -i 's/"caption_channels": *[0-9]*/"caption_channels": 4096/' "$config"
holds "$config" '"caption_channels": 4096'
check "a T5 of another width" 1 vprep "${mixed[@]}" --out "$dir/c" --vae "$dir/m/vae"
stderr_has \
    "mix/text_encoder: its embeddings are 32 wide, but.* takes 4096 (caption_channels in.*: give --text_encoder DIR"
absent "$dir/c"
sed -i 's/"caption_channels"/"caption"/' "$config"
check "no width known" 0 vprep "${mixed[@]}" --out "$dir/dry" --vae "$dir/m/vae" --dry_run

# ---- sizes that are no multiples of 32, and frames that are not 8k+1, are cut to those that are
# ----
odd=(--meta "$dir/media/metadata.json" --model "$dir/m" --out "$dir/d" --fix_sample_size 100,75
     --video_sample_n_frames 10 --video_sample_stride 1)
check "odd sizes" 0 vprep "${odd[@]}" && whole "$dir/d" || wrong "not whole"
check "odd sizes" 0 vlat show "$dir/d" 000000000000/000
stdout_has '"target": \[96, 64\]' && stdout_has '"latent": \[2, 3, 2\]'

# ---- errors name an unsupported field, and statistics that the weights lack ----
sed -i 's/"encoder_causal": true/"encoder_causal": false/' "$dir/m/vae/config.json"
check "wrong field" 1 vprep "${meta[@]}" --out "$dir/b"
stderr_has "$dir/m/vae/config.json: encoder_causal: false; only true is supported"
sed -i 's/"encoder_causal": false/"encoder_causal": true/' "$dir/m/vae/config.json"
LC_ALL=C sed -i 's/"latents_std"/"latents_STD"/' "$dir/m/vae/diffusion_pytorch_model.safetensors"
check "no statistics" 1 vprep "${meta[@]}" --out "$dir/b" && stderr_has "$dir/m/vae.*latents_std"

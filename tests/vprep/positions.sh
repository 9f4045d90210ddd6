#!/usr/bin/env bash
# A picture that is larger than its model has positions for is refused before anything is encoded,
# with the field and the remedy, as vtrain would refuse its latents; and so are longer prompts, and
# --vae of the model's class with other channels; one with other constants is a warning.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

small_set media 4
echo '[{"file_path": "still-3.png", "type": "image", "text": "red"}]' >media/list.json   # 96x64
lens() { sed -i "s/\"axes_lens\": *\[[^]]*\]/\"axes_lens\": [$1]/" z/transformer/config.json; }
field() { sed -i "0,/{/s//{\"$2\": $3, /" "$1/transformer/config.json"; }
still() { vprep --meta media/list.json --image_sample_size 64 "$@"; }

# ---- Z-Image: rows, columns, the prompt ----
need make_model z ZImagePipeline 4
holds z/transformer/config.json axes_lens
lens 514,3,4
refused='row 1: still-3.png: 1 frames of 64x48 pixels have 4 columns of tokens, and axes_lens'
expect 0 . still --model z --out fits
holds fits/plan.jsonl '"target":\[48,64\]'
lens 514,3,3
fits='give smaller pictures (--image_sample_size, .*sides of at most 48 pixels'
expect 2 "$refused of --model z, .* is 3: $fits" \
    still --model z --out no
absent no/plan.jsonl
expect 2 "$refused" still --model z --out dry --dry_run
absent dry/plan.jsonl
lens 514,2,4
expect 2 'have 3 rows of tokens, and axes_lens .* is 2: .* at most 32 pixels' \
    still --model z --out no
expect 2 'have 3 rows of tokens' still --model z --out no --plan fits/plan.jsonl
expect 0 . still --model z --out small --image_sample_size 32
lens 80,16,16
prompts='axes_lens .* has positions for 64 tokens of a prompt: give at most 64'
expect 2 "--tokenizer_max_length 512: $prompts" \
    still --model z --out no
expect 0 . still --model z --out short --tokenizer_max_length 64
lens '"a",16,16'
expect 1 'axes_lens: numbers of positions in' still --model z --out bad
absent bad no/plan.jsonl

# ---- a VAE of the same class, of another model ----
lens 514,16,16
vae() { sed -i "s/\"$1\": *[0-9.]*/\"$1\": $2/" other/config.json; }
cp -r z/vae other
expect 0 . still --model z --vae other --out same --dry_run
output_lacks warning
vae scaling_factor 1.5305
config='--vae other: its config.json has'
expect 0 "warning: $config scaling_factor 1.5305, and that of --model z has [0-9.]*, with" \
    still --model z --vae other --out same --dry_run
vae latent_channels 7
expect 2 "$config latent_channels 7, and that of --model z has 4, as many as the transformer" \
    still --model z --vae other --out same --dry_run

# ---- Wan: frames too ----
need make_model w WanPipeline 16
clip() { vprep --meta media/metadata.json "${sampling[@]}" --image_sample_size 64 "$@"; }
field w rope_max_seq_len 3
expect 2 'have 4 columns of tokens, and rope_max_seq_len' clip --model w --out no
field w rope_max_seq_len 6
sed -i '0,/"rope_max_seq_len": 3, /s///' w/transformer/config.json
expect 0 . clip --model w --out wan
sed -i 's/"rope_max_seq_len": 6/"rope_max_seq_len": 2/' w/transformer/config.json
long='have 3 frames of tokens, and rope_max_seq_len .* is 2'
expect 2 "frames of .* $long: give fewer frames (--video_sample_n_frames)" \
    clip --model w --out no --video_sample_size 32 --image_sample_size 32

# ---- CogVideoX: a stored table has one size ----
need make_model c CogVideoXPipeline 4
expect 0 . still --model c --out table
field c use_learned_positional_embeddings true
field c sample_height 4
field c sample_width 6
expect 2 'table of positions fits no other size: give --fix_sample_size 32 48' \
    still --model c --out no
expect 0 . still --model c --out exact --fix_sample_size 32 48
absent no/plan.jsonl

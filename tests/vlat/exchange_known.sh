#!/usr/bin/env bash
# vlat export of image-to-video samples of Wan: masked clips, masks and CLIP states go into the
# caches of the trainers that have them. Wan 2.2's 5B has caches of its own.
. "$(dirname "$0")/../lib/exchange.sh"
shown() { grep -aq -e "$2" "$1" || wrong "$1: expected $2"; }

make i2v wan2.1 mode bf16 bf16 6 i2v
expect 0 'no damage' vlat verify i2v
expect 0 '5 samples' vlat export i2v --to musubi --out mu
output_lacks 'left out'
clip=$(ls mu/*1_00002-009_0096x0064_wan.safetensors)
shown "$clip" '"latents_image_3x4x6_bfloat16":{"dtype":"BF16","shape":\[20,3,4,6\]'
shown "$clip" '"clip_bfloat16":{"dtype":"F16","shape":\[5,3\]'
# without normalisation the values are those of the dataset: the mask, then the masked clip
expect 0 '5 samples' vlat export i2v --to musubi --space raw --out raw
expect 0 '5 samples' vlat export i2v --to safetensors --out whole
vlat show i2v 000000000001/000 >record
value() { sed -n "s/.*\"$1\": *\"\([0-9a-f]\{32\}\)\".*/\1/p" record; }
tail -c $((4 * 72 * 2)) "whole/latents/$(value mask).safetensors" >want
tail -c $((16 * 72 * 2)) "whole/latents/$(value video).safetensors" >>want
tail -c $((20 * 72 * 2 + 5 * 3 * 2)) raw/*1_00002-009_0096x0064_wan.safetensors |
    head -c $((20 * 72 * 2)) | cmp - want ||
    wrong 'latents_image is not the mask and the masked clip'
expect 0 '5 samples' vlat export i2v --to diffsynth --out ds
output_lacks 'left out'
shown ds/0/1.pth 'clip_feature'
# a model without CLIP has no such states, and other modes have other conditions
expect 0 '2 samples' vlat select i2v 'frames > 1' --out clips
for format in finetrainers musubi; do
    make plain wan2.1 moments bf16 bf16
    expect 0 '5 samples' vlat export plain --to $format --out plain.$format
    rm -r plain
done
! grep -aq latents_image plain.musubi/*_wan.safetensors || wrong 'a condition of a normal dataset'
expect 0 '15 conditions were left out' vlat export i2v --to finetrainers --out ft
if [ -x "$VLT_BUILD/tests/dpipe_cache" ]; then
    expect 1 'a still: diffusion-pipe trains image-to-video on clips alone' \
        vlat export i2v --to diffusion-pipe --out x
    expect 0 'diffusion-pipe' vlat export clips --to diffusion-pipe --out dp
    output_lacks 'conditions were left out'
    shown dp/48x32x9/cache/wan_i2v/cache_1.500x48x32x9/latents/shard_0.bin 'clip_context'
fi

# Wan 2.2's 5B: 48 channels and the texts of Wan 2.1
round_trip five wan2.2-5b mode f32 bf16 diffsynth
manifest five.back '"family": *"wan2.2-5b"'
expect 1 'of family wan2.2-5b, of which musubi-tuner keeps no cache' vlat export five.back \
    --to musubi --out x
if [ -x "$VLT_BUILD/tests/dpipe_cache" ]; then
    expect 0 '' vlat split five.back --by bucket --out part
    expect 0 'diffusion-pipe' vlat export part-3x4x6 --to diffusion-pipe --out five.dp
    cache=$(echo five.dp/*/cache/wan2.2_5b)
    expect 0 '2 samples' vlat import "$cache" --from diffusion-pipe --family wan2.2-5b \
        --texts part-3x4x6 --out five.dp.back
    manifest five.dp.back '"family": *"wan2.2-5b"'
    expect 1 'latents of 48 channels, wan2.1 has 16: .* or --family wan2.2-5b' vlat import \
        "$cache" --from diffusion-pipe --family wan2.1 --texts i2v --out none
fi

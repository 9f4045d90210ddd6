#!/usr/bin/env bash
# vlat import and export of diffusion-pipe's cache: the bytes of values, the pairs of captions and
# latents, and refused commands.
. "$(dirname "$0")/../lib/exchange.sh"

# dpipe NAME FAMILY STORE LATENT TEXT: makes a dataset and its cache, and imports the cache.
dpipe()
{
    make "$1.lmdb" "$2" "$3" "$4" "$5"
    dpipe_cache "$1.lmdb" "$1.cache"
    expect 0 '5 samples of diffusion-pipe' vlat import "$1.cache" --from diffusion-pipe \
        --space raw --out "$1.back"
    same "$1.lmdb" "$1.back"
    expect 0 'no damage' vlat verify "$1.back"
}
dpipe wan wan2.1 mode bf16 bf16
dpipe hv hunyuanvideo sample f16 f16
manifest hv.back '"values": *"sample"'
manifest hv.back '"family": *"hunyuanvideo"'

# the second caption of a sample has the embeddings of the next sample's first
expect 0 '5 samples' vlat export wan.back --to safetensors --out wan.out
key='"keys":\["\([0-9a-f]*\)"\]'
sed 's/.*"captions":\[{"text":"[^{}]*",'"$key"'},{"text":"second",'"$key"'}\].*/\1 \2/' \
    wan.out/samples.jsonl >keys
second=
while read -r first next; do
    [ -z "$second" ] || cmp "wan.out/texts/$second.safetensors" "wan.out/texts/$first.safetensors"
    second=$next
done <keys
[ "$(wc -w <keys)" -eq 10 ] || wrong "not two captions of each sample: $(cat keys)"

expect 0 '5 samples' vlat import wan.cache --from diffusion-pipe --out norm.back
manifest norm.back '"latents": *"normalized"'
expect 1 'MEDIA/cache/MODEL' vlat import . --from diffusion-pipe --out none
expect 1 '--family says qwen-image' vlat import wan.cache --from diffusion-pipe \
    --family qwen-image --out none

# round_trip NAME FAMILY STORE LATENT MODEL FLAGS...: makes a dataset, exports it, and imports each
# bucket with the texts of its captions; the values are the same.
round_trip()
{
    name=$1 family=$2 model=$5
    make "$name.all" "$2" "$3" "$4" bf16
    shift 5
    expect 0 '' vlat split "$name.all" --by bucket --out "$name"
    expect 0 'diffusion-pipe' vlat export "$name.all" --to diffusion-pipe --out "$name.dp" "$@"
    for f in 1 3; do
        expect 0 'samples of diffusion-pipe' vlat import \
            "$name.dp/48x32x$((4 * f - 3))/cache/$model" \
            --from diffusion-pipe --family "$family" --texts "$name-${f}x4x6" \
            --out "$name.$f.back" "$@"
        same "$name-${f}x4x6" "$name.$f.back"
        expect 0 'no damage' vlat verify "$name.$f.back"
    done
}
round_trip ew wan2.1 mode bf16 wan --space raw
round_trip eh hunyuanvideo sample f16 hunyuan-video --space raw
holds ew.dp/dataset.toml "^path = \"$dir/ew.dp/48x32x9\"\$"
grep -q '^resolutions = \[\[48, 32\]\]$' ew.dp/dataset.toml
[ "$(cat ew.dp/48x32x9/cache/wan/metadata/grouping_keys.json)" = '[[1.5, 9]]' ] ||
    wrong 'grouping_keys.json differs'
# normalised bf16 latents, imported as f32, give the same values in a second round trip
make en.all wan2.1 mode bf16 bf16
expect 0 '5 text embeddings were left out' vlat export en.all --to diffusion-pipe --out en.1
expect 0 '3 samples' vlat import en.1/48x32x1/cache/wan --from diffusion-pipe --texts en.all \
    --out en.back
manifest en.back '"latents": *"normalized"'
expect 0 '3 samples' vlat export en.back --to diffusion-pipe --out en.2
expect 0 '3 samples' vlat import en.2/48x32x1/cache/wan --from diffusion-pipe --texts en.all \
    --out en.again
same en.back en.again

# Every caption is paired with its own sample's latents. First captions come before second ones, and
# each group is in random order.
expect 0 '' vlat split wan.back --by bucket --out two
expect 0 '5 samples' vlat export wan.back --to diffusion-pipe --out two.dp
at=two.dp/48x32x9/cache/wan
arrow_dump $at/metadata/grouped_metadata_1.500_9/data-00000-of-00001.arrow >got
printf 'image_spec:list\tcaption:list\tis_video:bool\n' >want
printf '[00000000000%d/000|clips/a_b %d.mp4]\t[%s|second]\t1\n' 1 1 'a caption, "quoted" ü' 3 3 \
    another >>want
cmp got want || wrong "$(cat got want)"
arrow_dump $at/cache_1.500x48x32x9/iteration_order/data-00000-of-00001.arrow >got
printf 'image_spec:list\tlatents_idx:int64\tcaption:utf8\tcaption_number:int64\n' >want
row='[00000000000%d/000|clips/a_b %d.mp4]\t%d\t%s\t%d\n'
printf "$row" 1 1 0 'a caption, "quoted" ü' 0 3 3 1 another 0 1 1 0 second 1 3 3 1 second 1 >>want
sed 1d got | sort >rows
sed 1d want | sort | cmp - rows || wrong "$(cat got want)"
cut -f 4 got | sed 1d | tr -d '\n' | grep -qx 0011 || wrong 'second captions before first ones'

# datasets that diffusion-pipe cannot represent
make odd.lmdb wan2.1 mode bf16 bf16 7
expect 1 'bucket 56x32: diffusion-pipe has widths and heights that are multiples of 16' \
    vlat export odd.lmdb --to diffusion-pipe --out x
make ltx.lmdb ltx-video mode bf16 bf16 7
expect 0 '5 samples' vlat export ltx.lmdb --to diffusion-pipe --out ltx.dp
[ -e ltx.dp/224x128x17/cache/ltx-video/cache_1.750x224x128x17/latents/metadata.db ] ||
    wrong "$(cat ltx.dp)"
make q.all qwen-image mode bf16 bf16
expect 1 '3 frames: qwen-image has stills' vlat export q.all --to diffusion-pipe --out x
expect 1 'of family builtin, of which diffusion-pipe keeps no cache' \
    vlat export made.lmdb --to diffusion-pipe --out x
[ ! -e x ] && [ ! -e x.part ] || wrong 'a refused export left files'

# texts in the folder of the latents, and no texts at all
mv wan.cache/ar_frames_1.500_9/text_embeddings_1 wan.cache/cache_1.500x48x32x9/
expect 0 '5 samples' vlat import wan.cache --from diffusion-pipe --space raw --out own.back
same wan.lmdb own.back
rm -r wan.cache/cache_1.500x48x32x9/text_embeddings_1
expect 1 'ar_frames_1.500_9/text_embeddings_1: no metadata.db' vlat import wan.cache \
    --from diffusion-pipe --out none
# the two encoders' texts belong to different media
rm -r hv.cache/ar_frames_1.500_9/text_embeddings_2
cp -r hv.cache/uncond_text_embeddings_2 hv.cache/ar_frames_1.500_9/text_embeddings_2
expect 1 'text_embeddings_2' vlat import hv.cache --from diffusion-pipe --out none
truncate -s 100 hv.cache/ar_frames_1.500_9/text_embeddings_1/shard_0.bin
expect 1 'cut short' vlat import hv.cache --from diffusion-pipe --out none

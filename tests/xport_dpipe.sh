#!/bin/sh
# vlat import of diffusion-pipe's cache: byte for byte, and what is refused.
. "$(dirname "$0")/xport_lib.sh"
cache="$VLT_BUILD/tests/dpipe_cache"

# dpipe NAME FAMILY STORE LATENT TEXT: a dataset, its cache, and back
dpipe()
{
    make "$1.lmdb" "$2" "$3" "$4" "$5"
    "$cache" "$1.lmdb" "$1.cache" || bad=1
    expect 0 '5 samples of diffusion-pipe' import "$1.cache" --from diffusion-pipe --space raw --out "$1.back"
    same "$1.lmdb" "$1.back"
    expect 0 'no damage' verify "$1.back"
}
dpipe wan wan2.1 mode bf16 bf16
dpipe hv hunyuanvideo sample f16 f16
says hv.back '"values": *"sample"'
says hv.back '"family": *"hunyuanvideo"'

# the second caption of a sample has the embeddings of the next sample's first
expect 0 '5 samples' export wan.back --to safetensors --out wan.out
sed 's/.*"captions":\[{"text":"[^{}]*","keys":\["\([0-9a-f]*\)"\]},{"text":"second","keys":\["\([0-9a-f]*\)"\]}\].*/\1 \2/' \
    wan.out/samples.jsonl >keys
second=
while read -r first next; do
    [ -z "$second" ] || cmp "wan.out/texts/$second.safetensors" "wan.out/texts/$first.safetensors" || bad=1
    second=$next
done <keys
[ "$(wc -w <keys)" -eq 10 ] || { echo 'other captions'; cat keys; bad=1; }

expect 0 '5 samples' import wan.cache --from diffusion-pipe --out norm.back
says norm.back '"latents": *"normalized"'
expect 2 'no such format' export wan.lmdb --to diffusion-pipe --out x
expect 1 'MEDIA/cache/MODEL' import . --from diffusion-pipe --out none
expect 1 '--family says qwen-image' import wan.cache --from diffusion-pipe --family qwen-image --out none
# texts of their own beside the latents, and none
mv wan.cache/ar_frames_1.500_9/text_embeddings_1 wan.cache/cache_1.500x48x32x9/
expect 0 '5 samples' import wan.cache --from diffusion-pipe --space raw --out own.back
same wan.lmdb own.back
rm -r wan.cache/cache_1.500x48x32x9/text_embeddings_1
expect 1 'ar_frames_1.500_9/text_embeddings_1: no metadata.db' import wan.cache --from diffusion-pipe --out none
# two encoders whose items are of unlike media
rm -r hv.cache/ar_frames_1.500_9/text_embeddings_2
cp -r hv.cache/uncond_text_embeddings_2 hv.cache/ar_frames_1.500_9/text_embeddings_2
expect 1 'text_embeddings_2' import hv.cache --from diffusion-pipe --out none
truncate -s 100 hv.cache/ar_frames_1.500_9/text_embeddings_1/shard_0.bin
expect 1 'cut short' import hv.cache --from diffusion-pipe --out none
exit $bad

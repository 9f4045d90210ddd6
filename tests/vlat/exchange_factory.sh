#!/usr/bin/env bash
# vlat import of a cache of CogVideoX-Factory's prepare_dataset.py: by data.jsonl, by its two lists,
# and with missing parts.
. "$(dirname "$0")/../lib/exchange.sh"
from='--from cogvideox-factory'
cache_of() { factory_cache "$1" "$2"; }
# same_cache IMPORT CACHE: the cache that factory_cache makes of IMPORT has the bytes of CACHE.
same_cache()
{
    rm -rf again
    cache_of "$1" again
    diff -r "$2" again || wrong "$1: the cache differs from the imported one"
}
make set.lmdb cogvideox moments bf16 f32
cache_of set.lmdb cache
fresh() { rm -rf hurt; cp -r cache hurt; }
# lacking PATTERN HAVE FLAGS...: the import of hurt fails with PATTERN; with --allow_partial HAVE
# samples are imported.
lacking()
{
    pattern=$1 have=$2
    shift 2
    rm -rf part.lmdb
    expect 1 "$pattern" vlat import hurt $from --out part.lmdb "$@"
    rm -rf part.lmdb
    expect 3 "$have samples" vlat import hurt $from --out part.lmdb --allow_partial "$@"
    expect 0 'no damage' vlat verify part.lmdb
}

# moments, texts and captions are kept; the first sample's empty caption is the empty prompt
expect 0 '1 conditions were left out' vlat import cache $from --out back.lmdb
same_cache back.lmdb cache
expect 0 'no damage' vlat verify back.lmdb
manifest back.lmdb '"source_format": *"CogVideoX-Factory"'
manifest back.lmdb '"latents": *"raw"'
manifest back.lmdb '"values": *"moments"'
manifest back.lmdb '"family": *"cogvideox"'
expect 0 '"path":"videos/clip-3.mp4"' vlat list back.lmdb --json
expect 0 'a caption, \\"quoted\\"' vlat list back.lmdb --json
expect 0 '5 samples' vlat import cache $from --out new.lmdb --family cogvideox1.5
manifest new.lmdb '"invert_scale_latents": *true'
for type in f16 f32; do
    make $type.lmdb cogvideox moments $type $type
    cache_of $type.lmdb $type.cache
    expect 0 '5 samples' vlat import $type.cache $from --out $type.back
    same_cache $type.back $type.cache
done
expect 2 'vlat export --to\|no such format' vlat export set.lmdb --to cogvideox-factory --out x
expect 2 'CogVideoX-Factory keeps no cache of it' vlat import cache $from --out x --family wan2.1
expect 2 'latents with logvar are raw' vlat import cache $from --out x --space normalized

# without data.jsonl the lists are read; the trainers skip their blank line
fresh
rm hurt/data.jsonl
lacking 'another number of prompts' 4 --empty zeros
rm -rf part.lmdb
sed -i 's/^$/the first/' hurt/prompts.txt
expect 0 '5 samples' vlat import hurt $from --out part.lmdb --empty zeros
same back.lmdb part.lmdb
rm hurt/videos.txt
expect 1 'neither data.jsonl nor videos.txt' vlat import hurt $from --out none.lmdb
mkdir empty
expect 1 'empty: neither data.jsonl' vlat import empty $from --out none.lmdb

# files that are missing, cut short, or of another sample
fresh
rm hurt/video_latents/clip-1.pt
lacking 'video_latents/clip-1.pt: No such file' 4
rm hurt/prompt_embeds/clip-2.pt
lacking 'video_latents/clip-1.pt: No such file' 3
fresh
rm hurt/prompt_embeds/clip-2.pt
lacking 'prompt_embeds/clip-2.pt: No such file' 4
truncate -s 300 hurt/video_latents/clip-4.pt
lacking 'video_latents/clip-4.pt\|prompt_embeds/clip-2.pt' 3
fresh
truncate -s 300 hurt/video_latents/clip-4.pt
lacking 'video_latents/clip-4.pt' 4
fresh
cp hurt/prompt_embeds/clip-3.pt hurt/video_latents/
lacking 'video_latents/clip-3.pt: a tensor of 4 dimensions' 4
fresh
cp hurt/video_latents/clip-2.pt hurt/video_latents/clip-3.pt
lacking 'clip-3.mp4: 9 frames, and 1 latent frames, of which cogvideox makes 3: .*--family' 4
fresh
sed -i '2s/"video_latent"/"latent"/' hurt/data.jsonl
lacking 'data.jsonl: line 2: videos/clip-1.mp4: video_latent: missing' 4
fresh
truncate -s -20 hurt/data.jsonl
expect 1 'data.jsonl: line 5: ' vlat import hurt $from --out none.lmdb

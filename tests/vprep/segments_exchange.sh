#!/usr/bin/env bash
# Datasets of several segments are exported to ttt-video's format and imported again, bit for bit,
# also where clips of several lengths are in one list, the longest last.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"

mkdir media
for frames in 49 97 145; do
    ffmpeg -v error -y -f lavfi -i "testsrc2=s=96x64:r=16,hue=h=$frames" -frames:v $frames \
        -c:v mpeg4 -q:v 4 media/$frames.mp4
done
cat >media/list.jsonl <<'JSONL'
{"file_path": "49.mp4", "text_chunks": ["abc"]}
{"file_path": "97.mp4", "text_chunks": ["abc", "de"]}
{"file_path": "145.mp4", "text_chunks": ["abc", "de", "fgh"]}
JSONL
need make_model "$dir/m" CogVideoXPipeline 16
need vprep --meta media/list.jsonl --model m --video_sample_size 64 --dtype bf16 --vae_dtype f32 \
    --tokenizer_max_length 300 --out a

expect 0 '3 samples' vlat export a --to ttt-video --out one
[ "$(ls one/texts | wc -l)" -eq 6 ] || wrong "not a file for each of six segments: $(ls one/texts)"
expect 0 '3 samples' vlat import one --from ttt-video --out b --empty zeros
expect 0 '' vlat verify b
expect 0 '' vlat show b 2
stdout_has '"text_chunks": *3' && stdout_has 'prompt_embeds bf16 \[900,32\]'
expect 0 '3 samples' vlat export b --to ttt-video --out two
diff -r -x vlat-export.json one two || wrong 'the second export differs'
[ "$(sed -n 's/.*"max_length": *\([0-9]*\).*/\1/p' b/manifest.json | head -1)" = 300 ] ||
    wrong "the manifest's max_length is not that of a segment"

# The values of both datasets are equal: only their keys differ.
tensors() { for i in 0 1 2; do vlat show "$1" $i | grep -E ' (bf16|f32) \['; done; }
[ -n "$(tensors a)" ] && diff <(tensors a) <(tensors b) || wrong 'the tensors differ'

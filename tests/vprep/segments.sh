#!/usr/bin/env bash
# vprep makes samples of several segments of three seconds, each with a caption of its own
# (text_chunks), with a tiny CogVideoX.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"

# clip NAME FRAMES [RATE]: a clip of 96x64.
clip()
{
    ffmpeg -v error -y -f lavfi -i "testsrc2=s=96x64:r=${3:-16},hue=h=$2" -frames:v "$2" \
        -c:v mpeg4 -q:v 4 "media/$1"
}
# list ROW...: the rows are the list of the next run.
list() { printf '%s\n' "$@" >media/list.jsonl; }
row() { echo "{\"file_path\": \"$1\", \"text_chunks\": $2}"; }
record() { vlat show "$1" "${2:-0}"; }

mkdir media
clip six.mp4 97
need make_model "$dir/m" CogVideoXPipeline 16
meta=(--meta media/list.jsonl --model m --video_sample_size 64 --vae_dtype f32
      --text_encoder_dtype f32)

# ---- two segments: the text value is both, one after the other ----
list "$(row six.mp4 '["abc", "de"]')"
expect 0 '1 encoded' vprep "${meta[@]}" --out a
expect 0 '' vlat verify a
expect 0 '' record a
stdout_has '"text_chunks": *2' && stdout_has '"latent": *\[25,'
stdout_has '"segments": *\["abc", *"de"\]'
stdout_has 'prompt_embeds f16 \[24,32\]'
[ "$(sed -n 's/.*"max_length": *\([0-9]*\).*/\1/p' a/manifest.json | head -1)" = 12 ] ||
    wrong "the manifest's max_length is not that of a segment"

# ---- segments of a clip: as many as captions and seconds, or --ttt_segments ----
clip long.mp4 150
clip slow.mp4 60 10                          # 5.9 seconds at 10 a second: 95 frames at 16
clip short.mp4 48
list "$(row long.mp4 '["abc", "de", "fgh"]')" "$(row six.mp4 '["abc"]')" \
    "$(row six.mp4 '["a", "b", "c"]')" "$(row slow.mp4 '["abc", "de"]')" \
    "$(row slow.mp4 '["abc"]')" "$(row short.mp4 '["abc"]')" "$(row six.mp4 '"abc"')" \
    "$(row six.mp4 '["abc", 7]')"
expect 3 '2 encoded' vprep "${meta[@]}" --out b
expect 0 '' record b 0
stdout_has '"text_chunks": *3' && stdout_has '"latent": *\[37,' &&
    stdout_has 'prompt_embeds f16 \[36,32\]'
expect 0 '' record b 4                       # 49 frames at 16 a second from one at 10
stdout_has '"text_chunks": *1' && stdout_has '"latent": *\[13,' && stdout_has '"fps": *16'
error() { sed -n "/\"row\":$1,/p" b/errors.jsonl >reason; holds reason "$2"; }
error 2 '1 captions in text_chunks, the clip has 2 segments: give a caption for each, or --ttt_seg'
error 3 'too short: 97 frames at 16 a second hold 2 segments of 48 frames; 3 captions'
error 4 'too short: 95 frames at 16 a second hold 1 segments'
error 6 'too short: 48 frames at 16 a second hold 0 segments.* need 49 frames'
error 7 'text_chunks: expected a list of 1 to 256 strings'
error 8 'text_chunks: expected a list of strings'
expect 0 '' vlat verify b
list "$(row long.mp4 '["abc", "de"]')" "$(row six.mp4 '["abc", "de", "fgh"]')"
expect 3 '1 encoded' vprep "${meta[@]}" --out c --ttt_segments 2
holds c/errors.jsonl '3 captions in text_chunks, --ttt_segments 2: give 2 captions'
expect 3 '0 encoded, 1 reused' vprep "${meta[@]}" --out c --video_length 6sec
expect 2 '--video_length 49: expected seconds as ttt-video' vprep "${meta[@]}" --out c \
    --video_length 49
expect 2 'is --ttt_segments 3, not 2' vprep "${meta[@]}" --out c --video_length 9sec \
    --ttt_segments 2

# ---- a plan that is edited gives no clip another length than its captions ----
list "$(row six.mp4 '["abc", "de"]')"
sed 's/,93,94,95,96\],"fps"/],"fps"/' a/plan.jsonl >edited.jsonl
expect 1 'no row of .* can be used: select: 1' vprep "${meta[@]}" --out e --plan edited.jsonl
holds e/errors.jsonl '2 segments are 97 frames, but the flags, .* give clips of 93'
expect 0 '1 encoded' vprep "${meta[@]}" --out e --plan a/plan.jsonl
same_root a e

# ---- the tokens of a clip and its texts are whole mini-batches ----
list "$(row six.mp4 '["abc", "de"]')"
expect 2 '300 tokens, with texts of 12 tokens 324, .* multiple: give --tokenizer_max_length 30$' \
    vprep "${meta[@]}" --out none --ttt_mini_batch 72 --dry_run
expect 2 'give --tokenizer_max_length 14 or 10$' vprep "${meta[@]}" --out none --ttt_mini_batch 8
expect 0 '' vprep "${meta[@]}" --out none --dry_run --ttt_mini_batch 36
clip five.mp4 241                            # 732 + 5 L tokens are never a multiple of 5
list "$(row five.mp4 '["a", "b", "c", "d", "e"]')"
expect 2 'no length of texts makes one' vprep "${meta[@]}" --out none --ttt_mini_batch 5

# ---- each caption is encoded once, and clips of other lengths share it ----
list "$(row six.mp4 '["abc", "de"]')" "$(row long.mp4 '["abc", "de", "fgh"]')" \
    "$(row short.mp4 '["de"]')"
clip short.mp4 49
expect 0 '3 encoded.*4 of 4 prompts encoded' vprep "${meta[@]}" --out d      # with the empty one
expect 0 '' vlat verify d
values() { dump_dataset "$1" | grep '^text' | sort; }
list "$(row long.mp4 '["abc", "de", "fgh"]')"
expect 0 '4 of 4 prompts encoded' vprep "${meta[@]}" --out alone
comm -13 <(values d) <(values alone) | grep . && wrong 'a text depends on the texts before it'
list "$(row long.mp4 '["fgh", "abc", "x"]')" "$(row six.mp4 '["abc", "de"]')" \
    "$(row short.mp4 '["de"]')" "$(row long.mp4 '["abc", "de", "fgh"]')"
expect 0 '0 encoded, 4 reused.*; 1 of 5 prompts encoded' vprep "${meta[@]}" --out d     # x is new
expect 0 '' vlat verify d
cp -r d reused
list "$(row long.mp4 '["fgh", "abc", "x"]')"
expect 0 '0 encoded, 1 reused.*; 0 of 2 prompts encoded' vprep "${meta[@]}" --out r --reuse d

# ---- scenes: ttt-video's annotations; a token in the text is an id of its own ----
cat >media/annotations.json <<JSON
{"1": {"mp4": "six.mp4", "text": "abc", "scene_start": true, "scene_end": false},
 "2": {"mp4": "short.mp4", "text": "de", "scene_start": true, "scene_end": true},
 "3": {"mp4": "six.mp4", "text": "de", "scene_start": false, "scene_end": true}}
JSON
expect 0 '2 encoded' vprep "${meta[@]}" --meta media/annotations.json --out s --trace_dir trace
expect 0 '' record s 0
stdout_has '"segments": *\["<start_scene>abc", "de<end_scene>"\]'
expect 0 '' record s 1
stdout_has '"segments": *\["<start_scene>de<end_scene>"\]'
list '{"video": "six.mp4", "scene_start": [true, false], "scene_end": [false, true],
    "text_0": "abc", "text_1": "de"}'
tr -d '\n' <media/list.jsonl >media/numbered.jsonl
expect 0 '' vprep "${meta[@]}" --meta media/numbered.jsonl --out t
[ "$(values t | head -1)" != '' ] && comm -13 <(values s) <(values t) | grep . &&
    wrong 'text_0, text_1 make other texts than annotations'
list '{"video": "six.mp4", "scene_start": [true], "text_0": "abc", "text_1": "de"}' \
    '{"video": "six.mp4", "scene_start": [1, 0], "text_0": "abc", "text_1": "de"}' \
    '{"video": "six.mp4", "scene_start": true}' "$(row six.mp4 '["abc", "de"]')"
expect 3 '1 encoded' vprep "${meta[@]}" --out u
holds u/errors.jsonl 'scene_start: 1 values for 2 segments' &&
    holds u/errors.jsonl 'scene_start: expected booleans' &&
    holds u/errors.jsonl 'text_0: missing, but the row has scene_start'
echo '{"a": 7}' >media/annotations.json
expect 1 'annotations.json: a: expected an array of rows, or' vprep "${meta[@]}" \
    --meta media/annotations.json --out none

# ---- windows of 48 frames make other latents ----
list "$(row six.mp4 '["abc", "de"]')"
expect 0 '1 encoded' vprep "${meta[@]}" --out w --vae_window 48
holds w/manifest.json '"window": *48'
expect 0 '' vlat verify w
expect 1 'vae.*window' vprep "${meta[@]}" --out a --vae_window 48
expect 0 '1 encoded' vprep "${meta[@]}" --out w8 --reuse w
expect 2 'multiples of 8 frames' vprep "${meta[@]}" --out none --vae_window 50

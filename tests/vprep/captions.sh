#!/usr/bin/env bash
# Where a list has no captions, no clip is encoded with the empty caption unless a flag allows this.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"

# run STATUS OUT LIST FLAGS...
run() {
    check "$3 ${*:4}" "$1" vprep --meta "$dir/media/$3" "${sampling[@]}" --out "$dir/$2" "${@:4}"
}

small_set "$dir/media" 3
cat >"$dir/media/none.csv" <<'CSV'
file_path,type,words
clip-0.mp4,video,one
clip-1.mp4,video,two
CSV
cat >"$dir/media/some.jsonl" <<'JSONL'
{"file_path": "clip-0.mp4", "type": "video", "text": "one"}
{"file_path": "clip-1.mp4", "type": "video"}
{"file_path": "clip-2.mp4", "type": "video", "text": ""}
JSONL

run 1 none none.csv
output_has \
    'none.csv: no row has a caption; found: file_path, type, words; known: the columns text, prompt, caption'
absent "$dir/none"
run 0 words none.csv --caption_column words
output_has '2 encoded'
run 0 empty none.csv --allow_empty_captions
output_has '2 encoded'

run 3 some some.jsonl
output_has '2 encoded, 0 reused, 1 skipped'
holds "$dir/some/errors.jsonl" '"row":2,.*no caption: none of '
output_has 'captions: 1 of 2 samples have one; from text: 1$'
run 0 all some.jsonl --allow_empty_captions
output_has '3 encoded'
run 0 default some.jsonl --default_caption 'a class'
vlat list "$dir/default" --json >"$log"
output_has '"path":"clip-1.mp4".*"captions":\[{"text":"a class"'
output_has '"path":"clip-2.mp4".*"captions":\[{"text":""'
run 1 stop some.jsonl --on_error stop
output_has 'no caption'

mkdir "$dir/media/folder"
cp "$dir/media/clip-0.mp4" "$dir/media/clip-1.mp4" "$dir/media/folder"
run 1 folder folder --dry_run
output_has 'no row has a caption'
echo 'beside it' >"$dir/media/folder/clip-1.txt"
run 3 folder folder --dry_run
output_has 'row 1, clip-0.mp4: no caption'
output_has 'captions: 1 of 1 samples have one; from .txt: 1$'
output_has '^    beside it$'
printf 'Video\tPrompt\nclip-0.mp4\ta, b\n' >"$dir/media/other.tsv"
run 0 tsv other.tsv
output_has '1 encoded'
vlat list "$dir/tsv" --json >"$log"
output_has '"captions":\[{"text":"a, b"'

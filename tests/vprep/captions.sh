#!/usr/bin/env bash
# Captions that are not where a list has them: no clip is encoded with the empty one unless that is asked for.
set -euo pipefail
. "$(dirname "$0")/../lib/media.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad() { echo "$*"; cat "$dir/log"; exit 1; }
says() { grep -q -- "$1" "$dir/log" || bad "does not say: $1"; }

# run STATUS OUT LIST FLAGS...
run() {
    local got=0
    "$VLT_BUILD/vprep" --meta "$dir/media/$3" "${sampling[@]}" --out "$dir/$2" "${@:4}" >"$dir/log" 2>&1 || got=$?
    [ $got = "$1" ] || bad "$3 ${*:4}: status $got"
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
says 'none.csv: no row has a caption; found: file_path, type, words; known: the columns text, prompt, caption'
[ ! -e "$dir/none" ] || bad "something was written"
run 0 words none.csv --caption_column words
says '2 encoded'
run 0 empty none.csv --allow_empty_captions
says '2 encoded'

run 3 some some.jsonl
says '2 encoded, 0 reused, 1 skipped'
grep -q '"row":2,.*no caption: none of ' "$dir/some/errors.jsonl" || bad "row 2 is not in errors.jsonl"
says 'captions: 1 of 2 samples have one; from text: 1$'
run 0 all some.jsonl --allow_empty_captions
says '3 encoded'
run 1 stop some.jsonl --on_error stop
says 'no caption'

mkdir "$dir/media/folder"
cp "$dir/media/clip-0.mp4" "$dir/media/clip-1.mp4" "$dir/media/folder"
run 1 folder folder --dry_run
says 'no row has a caption'
echo 'beside it' >"$dir/media/folder/clip-1.txt"
run 3 folder folder --dry_run
says 'row 1, clip-0.mp4: no caption'
says 'captions: 1 of 1 samples have one; from .txt: 1$'
says '^    beside it$'
printf 'Video\tPrompt\nclip-0.mp4\ta, b\n' >"$dir/media/other.tsv"
run 0 tsv other.tsv
says '1 encoded'
"$VLT_BUILD/vlat" list "$dir/tsv" --json >"$dir/log"
says '"captions":\[{"text":"a, b"'
echo "no caption is lost in silence"

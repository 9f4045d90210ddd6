#!/usr/bin/env bash
# Folders as other trainers lay them out, with real clips: all are encoded with the captions that are meant, and
# those have the keys that a list of the same clips and captions gives.
set -euo pipefail
. "$(dirname "$0")/../lib/media.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad() { echo "$*"; cat "$dir/log"; exit 1; }
says() { grep -q -- "$1" "$dir/log" || bad "does not say: $1"; }

# run STATUS OUT META FLAGS...
run() {
    local got=0
    "$VLT_BUILD/vprep" --meta "$dir/$3" "${sampling[@]}" --out "$dir/$2" "${@:4}" >"$dir/log" 2>&1 || got=$?
    [ $got = "$1" ] || bad "$3 ${*:4}: status $got"
}
# same OUT LIST: it is what the list gives
same() { same_values "$dir/$2" "$dir/$1" || bad "$1: not what the list gives"; }

small_set "$dir/clips" 3
captions=("one, and more" "two" "three")
# list OUT WHERE: of the clips with paths that begin so
list() {
    mkdir -p "$dir/$1/$2"
    cp "$dir"/clips/clip-*.mp4 "$dir/$1/$2"
    for i in 0 1 2; do
        printf '{"file_path": "%sclip-%d.mp4", "type": "video", "text": "%s"}\n' "$2" $i "${captions[i]}"
    done >"$dir/$1/list.jsonl"
    run 0 "list-$1" "$1/list.jsonl"
    says 'captions: 3 of 3 samples have one; from text: 3$'
}
list flat ""
list deep videos/

# layout NAME WHERE: a folder with the clips in WHERE
layout() { mkdir -p "$dir/$1/$2"; cp "$dir"/clips/clip-*.mp4 "$dir/$1/$2"; }

layout lines videos
printf '%s\n' "${captions[@]}" >"$dir/lines/prompts.txt"
printf 'videos/clip-%d.mp4\n' 0 1 2 >"$dir/lines/videos.txt"
run 0 out-lines lines
says 'captions: 3 of 3 samples have one; from prompts.txt: 3$'
says '^    one, and more$'
same out-lines list-deep
echo four >>"$dir/lines/prompts.txt"
run 1 no lines
says 'prompts.txt has 4 captions, videos.txt 3 media'
[ ! -e "$dir/no" ] || bad "something was written"

layout hf .
for i in 0 1 2; do printf '{"file_name": "clip-%d.mp4", "text": "%s"}\n' $i "${captions[i]}"; done >"$dir/hf/metadata.jsonl"
run 0 out-hf hf
says 'from text in metadata.jsonl: 3$'
same out-hf list-flat
mv "$dir/hf/metadata.jsonl" "$dir/hf/metadata.parquet"
run 1 no hf
says 'metadata.parquet: a .parquet list is not read: save it as .jsonl'

layout sat videos
mkdir "$dir/sat/labels"
for i in 0 1 2; do echo "${captions[i]}" >"$dir/sat/labels/clip-$i.txt"; done
run 0 out-sat sat
says 'from labels/: 3$'
same out-sat list-deep
run 0 out-sat-videos sat/videos
same out-sat-videos list-flat

layout dpipe .
printf '{"clip-2.mp4": ["three"], "clip-0.mp4": "one, and more", "clip-1.mp4": ["two"]}' >"$dir/dpipe/captions.json"
run 0 out-dpipe dpipe
says 'from captions.json: 3$'
same out-dpipe list-flat
printf '{"clip-2.mp4": ["three"], "clip-0.mp4": "one, and more", "clip-9.mp4": "nine"}' >"$dir/dpipe/captions.json"
run 3 out-dpipe-some dpipe
says '2 encoded, 0 reused, 2 skipped'
cp "$dir/out-dpipe-some/errors.jsonl" "$dir/log"
says '"clip-1.mp4",.*no caption: none of captions.json'
says '"clip-9.mp4",.*No such file'

layout fastvideo videos
printf '[{"path": "clip-0.mp4", "cap": ["one, and more"]}, {"path": "clip-1.mp4", "cap": "two"},
 {"path": "clip-2.mp4", "cap": "three"}]' >"$dir/fastvideo/videos2caption.json"
run 0 out-fastvideo fastvideo
says 'from cap in videos2caption.json: 3$'
same out-fastvideo list-flat
run 0 out-fastvideo-file fastvideo/videos2caption.json
same out-fastvideo-file list-flat

layout none .
run 2 no none --caption_column words
says '--caption_column words: this folder has no list with columns'
echo "folders of other trainers keep their captions"

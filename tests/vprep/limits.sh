#!/usr/bin/env bash
# An input beyond a limit is a skipped row with a reason, before any clip is encoded, and an
# impossible value of a flag is a usage error. The files' content decides the type of rows without a
# type.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
# patch FILE BOX OFFSET BYTES: writes BYTES into the first box of this name, OFFSET after the name
patch() {
    local at
    at=$(grep -abo "$2" "$1" | head -1 | cut -d: -f1)
    printf "$4" | dd of="$1" bs=1 seek=$((at + 4 + $3)) conv=notrunc status=none
}
small_set "$dir/media" 4
cp "$dir/media/clip-0.mp4" "$dir/media/fast.mp4"
patch "$dir/media/fast.mp4" mdhd 12 '\x7f\xff\xff\xff'                 # ticks per second
for i in 1 2 3; do cp "$dir/media/clip-1.mp4" "$dir/media/huge-$i.mp4"; done
patch "$dir/media/huge-1.mp4" stco 4 '\x1f\xff\xff\xf0'                # number of entries
patch "$dir/media/huge-2.mp4" stsc 4 '\x1f\xff\xff\xf0'
patch "$dir/media/huge-3.mp4" stsz 8 '\x1f\xff\xff\xf0'
long() { head -c "$1" /dev/zero | tr '\0' "$2"; }
{
    printf '[{"file_path": "clip-0.mp4", "type": "video", "text": "good"},\n'
    printf '{"file_path": "fast.mp4", "type": "video", "text": "too fast"},\n'
    for i in 1 2 3; do printf '{"file_path": "huge-%d.mp4", "type": "video", "text": "huge"},\n' \
        $i; done
    printf '{"file_path": "clip-1.mp4", "text": "%s"},\n' "$(long 5000000 x)"
    printf '{"file_path": "clip-1.mp4", "tags": ["%s"], "text": "z"},\n' "$(long 5000000 x)"
    printf '{"file_path": "clip-1.mp4", "more": "%s", "text": "z"},\n' "$(long 5000000 x)"
    printf '{"file_path": "clip-1.mp4", "text": "%s"},\n' "$(long 20000000 x)"
    printf '{"file_path": "clip-1.mp4", "text": ["y"%s]},\n' "$(long 300000 , | sed 's/,/,"y"/g')"
    printf '{"file_path": "%s.mp4", "text": "a long path"},\n' "$(long 6000 x)"
    printf '{"file_path": "%s.mp4", "text": "a longer path"},\n' "$(long 5000000 x)"
    printf '{"file_path": "clip-1.mp4", "x": %s%s, "text": "z"},\n' "$(long 300 '[')" \
        "$(long 300 ']')"
    printf '{"file_path": "clip-1.mp4", %s, "text": "z"},\n' '"fps": 1e9' '"width": 99999999'
    printf '{"file_path": "still-3.png", "type": "image", "text": "good"},\n'
    for i in 0 1 2; do
        printf '{"file_path": "clip-%d.mp4", "type": "video", "text": "more %d"},\n' $i $i{,,,}
    done
    printf '{"file_path": "clip-1.mp4", "type": "video", "text": "good"}]\n'
} >"$dir/media/list.json"
rows=$(grep -c file_path "$dir/media/list.json")
check limits 3 timeout 300 vprep --meta "$dir/media/list.json" "${sampling[@]}" \
    --extra_inputs more --out "$dir/a"
cut -c 1-300 "$dir/a/errors.jsonl" >"$log"
for row in $(seq 2 13); do               # the facts of the next two rows are not used
    output_has "\"row\":$row,"
done
[ "$(wc -l <"$dir/a/errors.jsonl")" -eq 12 ] || wrong "the number of skipped rows is not 12"
output_lacks '"stage":"\(decode\|encode\|text\)"'
holds "$dir/a/errors.jsonl" '"row":2,.*frames a second'
check verify 0 vlat verify "$dir/a"
[ "$(vlat list "$dir/a" | wc -l)" -ge $((rows - 12)) ] || wrong "the dataset lacks a good row"

for flags in "--sample_fps 2147483648" "--sample_fps 1e-300" "--sample_fps -1" "--sample_fps nan" \
    "--video_sample_stride 9223372036854775807" \
    "--video_sample_n_frames 2147483648" "--max_upscale 1e300" "--shard_seconds 1e300" \
    "--shard_size 8E" \
    "--fix_sample_size 1000000 1000000" "--variants 1001" "--variants 99999999999999999999" \
    "--seed 99999999999999999999" \
    "--workers 257" "--video_sample_size 0" "--max_pixels 99999999999" \
    "--tokenizer_max_length 99999999" \
    "--image_noise_variants 16" "--train_batch_size 0"; do
    check "$flags" 2 vprep --meta "$dir/media/metadata.json" "${sampling[@]}" \
        --out "$dir/none" $flags
    [ ! -e "$dir/none" ] || wrong "$flags: something was written"
done
for flags in "--sample_fps 10000" "--sample_fps 0.001" "--video_sample_stride 1000000" \
    "--shard_size 1024T" "--shard_seconds 1e9"; do
    check "$flags" 0 vprep --meta "$dir/media/metadata.json" "${sampling[@]}" --out "$dir/edge" \
        --overwrite $flags
done

# ---- types of rows: by the column, or without a column by the content of the files ----
sed 's/"type": "[a-z]*", //' "$dir/media/metadata.json" >"$dir/media/untyped.json"
check typed 0 vprep --meta "$dir/media/metadata.json" "${sampling[@]}" --out "$dir/typed"
output_lacks 'without a type'
check untyped 0 vprep --meta "$dir/media/untyped.json" "${sampling[@]}" --out "$dir/untyped"
[ "$(grep -c 'rows without a type: 4, by their files 3 videos, 1 stills' "$log")" -eq 1 ] ||
    wrong "the line about types is not printed once"
same_values "$dir/typed" "$dir/untyped"
sed 's/"type": "video"/"type": "image"/' "$dir/media/metadata.json" >"$dir/media/stills.json"
check stills 0 vprep --meta "$dir/media/stills.json" "${sampling[@]}" --out "$dir/stills"
lacks "$dir/stills/plan.jsonl" '"type":"video"'

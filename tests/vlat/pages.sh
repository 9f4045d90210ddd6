#!/usr/bin/env bash
# The pages of runs in a browser, used as a reader uses them (pages.py): pointer, zoom, keys,
# sliders, legends, a reload, a narrow window, dark colours, no script, many steps. Skipped in words
# without Chromium's driver (scripts/setup --pages).
. "$(dirname "$0")/../lib/check.sh"

# run DIR STEPS: a run of two buckets, whose loss falls, with pictures and a clip of two prompts
run()
{
    mkdir -p "$1" && echo "seed: 42" >"$1/config.yaml"
    awk -v n="$2" 'BEGIN { for (i = 1; i <= n; i++)
        printf "{\"step\":%d,\"epoch\":%g,\"loss\":%g,\"lr\":%g,\"grad_norm\":1," \
               "\"tokens_per_s\":100,\"step_s\":36,\"data_wait_s\":0," \
               "\"peak_bytes\":1048576,\"bucket\":\"%s\",\"loss_levels\":[%s,%s]%s}\n", i, i / 10,
               1 + 200 / (i + 100) + (i % 7) / 10, 1e-4 * (1 - i / n), i % 2 ? "5x8x8" : "8x8",
               i % 2 ? "null,0.9" : "0.5,null", i % 2 ? "1.1,null" : "null,1.4",
               i % 10 ? "" : sprintf(",\"eval_loss\":%g,\"eval_levels\":[%g,1.5,1.2,0.9]",
               1 + 100 / (i + 100), 2 + 100 / (i + 100)) }' >"$1/metrics.jsonl"
}

run one 300
run two 300
run long 100000
for step in 0 50 300; do
    dir=one/validation/step-$step
    mkdir -p "$dir"
    colour=$(printf 0x%02x60a0 $((step * 255 / 300)))
    ffmpeg -v error -f lavfi -i "color=c=$colour:s=32x16,format=rgb24" -frames:v 1 "$dir/000.png"
    ffmpeg -v error -f lavfi -i "testsrc=s=32x16:r=8:d=1,format=yuv420p" -f lavfi \
        -i "sine=f=$((200 + step)):d=1" -c:a aac "$dir/001.mp4"
    ffmpeg -v error -f lavfi -i "color=c=white:s=352x64,format=rgb24" -frames:v 1 \
        "$dir/001-sound.png"
    cp "$dir/000.png" "$dir/001.png"
    cp "$dir/000.png" "$dir/sheet.png"
done
mkdir one/validation/inputs                # what stands beside sample 0: a reference, and a target
: >one/validation/inputs/000.safetensors
for role in reference_1 target; do
    cp one/validation/step-50/000.png one/validation/inputs/000-$role.png
done
# without latents: of no prompt
cp one/validation/step-50/000.png one/validation/inputs/001-target.png
for page in one two long; do
    expect 0 '' vlat report "$page" --out "$page.html"
done
expect 0 '' vlat report one two --out both.html
[ "$(grep -c '<figure data-step' one.html)" -eq 6 ] || wrong "one.html has other pictures than 6"
[ "$(grep -c '<div class="sound">' one.html)" -eq 3 ] || wrong "one.html lacks waves of sounds"
[ "$(grep -o '<video' one.html | wc -l)" -eq 3 ] || wrong "one.html has other clips than 3"
[ "$(stat -c %s long.html)" -lt 4000000 ] || wrong "long.html has $(stat -c %s long.html) bytes"

need browse_dataset set.lmdb 10000
expect 0 '' vlat report set.lmdb --browse set.html

# a dataset of clips whose files are here, for marks, orders and playing
mkdir clips
for i in 1 2 3 4; do
    ffmpeg -v error -f lavfi -i "testsrc=s=$((64 + 32 * i))x64:r=8:d=$((5 - i)),format=yuv420p" \
        "clips/clip $i#.mp4"
    echo "the caption of clip $i" >"clips/clip $i#.txt"
done
need vprep --meta clips --out clips.lmdb --video_sample_size 64 --video_sample_n_frames 17
expect 0 '' vlat report clips.lmdb --browse clips.html
# the same clips but the last in other sizes, and other frames of the first
need vprep --meta clips --out others.lmdb --video_sample_size 96 --video_sample_n_frames 9
expect 0 '' vlat report clips.lmdb others.lmdb --browse pairs.html
# samples with reference pictures, one of which is elsewhere, and control clips
mkdir inputs
for i in 1 2 3; do
    ffmpeg -v error -f lavfi -i "color=c=orange:s=$((64 * i))x32,format=rgb24" -frames:v 1 \
        inputs/$i.png
done
ffmpeg -v error -f lavfi -i "testsrc=s=64x48:r=8:d=1,format=yuv420p" inputs/control.mp4
need browse_dataset edits.lmdb 68 "$PWD/inputs"
expect 0 '' vlat report edits.lmdb --browse edits.html
# clips with sound, one without, and one whose file is elsewhere
mkdir sounds
for i in 1 2 3; do
    sound=(-f lavfi -i "sine=f=$((300 * i)):d=3" -c:a aac)
    [ $i != 2 ] || sound=()
    ffmpeg -v error -f lavfi -i "testsrc=s=64x64:r=8:d=3,format=yuv420p" "${sound[@]}" sounds/$i.mp4
    echo "sound $i" >sounds/$i.txt
done
export VLT_SOURCE
need make_model m20 LTX2Pipeline 20
need vprep --meta sounds --out sounds.lmdb --model m20 --with_audio --video_sample_size 64 \
    --video_sample_n_frames 9 --video_sample_stride 1
mv sounds/3.mp4 elsewhere.mp4
expect 0 '' vlat report sounds.lmdb --browse sounds.html
expect 0 '' vlat report clips.lmdb --out dataset.html
expect 0 '' vlat compare one two --out compare.html

python=/usr/bin/python3
if ! command -v chromedriver >/dev/null || ! "$python" -c 'import selenium' 2>/dev/null; then
    echo "not tested: the pages in a browser, as chromium-driver or python3-selenium is missing" \
         "(scripts/setup --pages installs them)"
    exit 0
fi
if ! grep -q 'Dygraph' one.html; then
    echo "not tested: charts that react, as the build found no dygraphs (libjs-dygraphs)"
    exit 0
fi
if ! vlat report one --serve none 2>&1 | grep -q 'libmicrohttpd-dev'; then
    mkdir served && cp -r one two served/
fi
check "the pages in a browser" 0 "$python" "$(dirname "$0")/pages.py" "$PWD"

# the list that the page saved
expect 0 '1 rows excluded, 1 with other captions' \
    vprep --meta clips --out clips.lmdb --video_sample_size 64 --video_sample_n_frames 17 \
    --edits clips.lmdb.edits.jsonl
stdout_has '^reuse 3, encode 0, drop 1$'
stdout_has '^texts: reuse 3, encode 1$'
vlat list clips.lmdb >"$log"
output_has 'the caption of clip 1$'
output_has 'another "caption" é$'
output_lacks 'clip 3'


#!/usr/bin/env bash
# Targets of validation prompts: the clip or still that a row of --validation_prompts names is
# encoded once, stays through verify, gc and copies, and stands beside the samples of its prompt.
. "$(dirname "$0")/../lib/check.sh"

mkdir media list
for i in 1 2; do
    ffmpeg -v error -f lavfi -i "testsrc=s=96x64:r=8:d=$((4 - i)),format=yuv420p" "media/$i.mp4"
    echo "the caption of clip $i" >media/$i.txt
done
ffmpeg -v error -f lavfi -i "testsrc=s=128x96" -frames:v 1 list/still.png
cp media/1.mp4 list/clip.mp4
cat >list/prompts.json <<'END'
[{"prompt": "a clip", "target_path": "clip.mp4", "num_frames": 9, "height": 64, "width": 96},
 {"prompt": "a still", "target_path": "still.png"},
 {"prompt": "no target"},
 {"prompt": "more frames than the file has", "target_path": "../media/2.mp4", "num_frames": 33}]
END
prep() { vprep --meta media --out "$1" --video_sample_size 64 --video_sample_n_frames 17 "${@:2}"; }

expect 0 '' prep d.lmdb --validation_prompts list/prompts.json --dry_run
expect 0 '3 conditions encoded' prep d.lmdb --validation_prompts list/prompts.json
expect 0 'no damage' vlat verify d.lmdb
expect 0 '^conditions: reuse 3, encode 0$' prep d.lmdb --validation_prompts list/prompts.json
expect 0 '^0 B of' vlat gc d.lmdb
expect 0 '3 conditions encoded\|copied' prep other.lmdb --validation_prompts list/prompts.json \
    --reuse d.lmdb
expect 0 '' vlat select d.lmdb 'sample < 2' --out copy.lmdb
expect 0 'no damage' vlat verify copy.lmdb

# vtrain writes the latents once, vdecode decodes them, and the page has them beside the samples
expect 0 . vtrain --latents copy.lmdb --output_dir run --max_train_steps 2 --validation_steps 1 \
    --sample_at_first --num_inference_steps 2
holds run/validation/inputs/000.safetensors '"target":{"dtype":"F32","shape":\[[0-9]*,3,8,12\]'
holds run/validation/inputs/001.safetensors '"target":{"dtype":"F32","shape":\[[0-9]*,1,'
absent run/validation/inputs/002.safetensors
holds run/validation/inputs/003.safetensors '"target":'
expect 0 '12 decoded' vdecode run --sheet
for name in 000-target.mp4 001-target.png 003-target.mp4; do
    [ -s "run/validation/inputs/$name" ] || wrong "no $name"
done
expect 0 '' vlat report run --out page.html
[ "$(grep -c 'class="input"' page.html)" -eq 3 ] || wrong "the page shows other targets than 3"
[ "$(grep -c '<figcaption>target' page.html)" -eq 3 ] || wrong "targets have other names"

# a changed file is encoded again; one that is missing, or no picture, ends the run with its row
ffmpeg -v error -y -f lavfi -i "testsrc2=s=128x96" -frames:v 1 list/still.png
expect 0 '^conditions: reuse 2, encode 1$' prep d.lmdb --validation_prompts list/prompts.json \
    --dry_run
rm list/still.png
expect 1 'prompts.json: row 2: still.png.*No such file' prep d.lmdb \
    --validation_prompts list/prompts.json
echo text >list/still.png
expect 1 'prompts.json: row 2: still.png' prep d.lmdb --validation_prompts list/prompts.json
expect 0 'no damage' vlat verify d.lmdb

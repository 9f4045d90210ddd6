#!/usr/bin/env bash
# FLUX.1 Kontext from a list of pairs: vprep encodes the reference pictures in sizes of their own,
# vtrain trains on them, and rows whose references cannot be used are skipped with the reason.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

picture() { ffmpeg -v error -y -f lavfi -i "testsrc2=s=$1:r=1:d=1,hue=h=$2" -frames:v 1 "$3"; }
mkdir -p media/before
i=0
for size in 96x64 96x64 96x64 96x64; do
    picture "$size" $((i * 60)) media/$i.png
    i=$((i + 1))
done
picture 160x80 10 media/before/0.png
picture 160x80 20 media/before/1.png
picture 48x96 30 media/before/2.png
cat >media/list.jsonl <<'END'
{"image": "0.png", "edit_image": "before/0.png", "prompt": "make it red"}
{"image": "1.png", "edit_image": ["before/1.png"], "prompt": "make it blue"}
{"image": "2.png", "control_path_0": "before/2.png", "prompt": "make it flat"}
{"image": "3.png", "prompt": "a picture"}
END
need make_model m FluxKontextPipeline 16
cat >media/prompts.jsonl <<'END'
{"prompt": "make it green", "edit_image": "before/2.png", "height": 64, "width": 96, "seed": 3}
{"prompt": "make it green", "image_path": "before/0.png", "height": 64, "width": 96, "seed": 3}
{"prompt": "make it green", "height": 64, "width": 96, "seed": 3}
END
prep() { vprep --meta "media/$1" --out "$2" --image_sample_size 64 --reference_size 64 "${@:3}"; }
edit=(--model m --train_mode edit)

# ---- references: 0 and 1 of one size, 2 of another one, 3 has none ----
check prepared 0 prep list.jsonl a "${edit[@]}" --validation_prompts media/prompts.jsonl
stderr_has '4 encoded' && stderr_has '3 conditions encoded'
holds a/manifest.json '"train_mode": "edit"'
check verified 0 vlat verify a
check first 0 vlat show a 0
stdout_has 'reference_1' && stdout_has '"target": \[48, 96\]' && stdout_has 'mean.*\[4,1,6,12\]'
check third 0 vlat show a 2 && stdout_has 'mean.*\[4,1,12,6\]'
check last 0 vlat show a 3 && stdout_lacks reference
check list 0 vlat list a && stdout_has '000000000003/000'
check browse 0 vlat report a --browse a.html
grep -rq 'before/1.png' a.html a.data || wrong 'the page has no references'
check again 0 prep list.jsonl a "${edit[@]}" --validation_prompts media/prompts.jsonl &&
    stderr_has '0 encoded, 4 reused'

# ---- other sizes: those of the rule that Kontext has, and the pictures' own ----
check as-is 0 prep list.jsonl own "${edit[@]}" --reference_as_is
check "as it is" 0 vlat show own 0 && stdout_has '"target": \[80, 160\]'
check planned 0 vprep --meta media/list.jsonl --out rule "${edit[@]}" --image_sample_size 64 \
    --dry_run
holds rule/plan.jsonl '"references":.."path":"before.2.png","source":.96,48.,"target":.1456,720.'

# ---- another form of the list; a change of the reference encodes it and no clip ----
cat >media/list.csv <<'END'
image,kontext_images,prompt
0.png,"[""before/0.png""]",make it red
1.png,before/2.png,make it blue
END
check csv 0 prep list.csv c "${edit[@]}" && stderr_has '2 conditions encoded'
sed -i 's#before/2#before/1#' media/list.csv
check changed 0 prep list.csv c "${edit[@]}" && stderr_has '0 encoded, 2 reused' &&
    stderr_has ' 1 conditions encoded'

# ---- rows whose references cannot be used ----
ffmpeg -v error -y -f lavfi -i "testsrc2=s=64x64:r=10:d=1" -c:v mpeg4 media/clip.mp4
cat >media/bad.jsonl <<'END'
{"image": "0.png", "edit_image": "before/0.png", "prompt": "make it red"}
{"image": "1.png", "edit_image": ["before/0.png", "before/1.png"], "prompt": "two"}
{"image": "2.png", "edit_image": "before/gone.png", "prompt": "gone"}
{"image": "3.png", "edit_image": 7, "prompt": "a number"}
{"image": "3.png", "edit_image": "clip.mp4", "prompt": "a clip"}
{"image": "2.png", "control_path_1": "before/gone.png", "prompt": "gone, of another column"}
END
check skipped 3 prep bad.jsonl b "${edit[@]}" --allow_missing && stderr_has '1 encoded'
holds b/errors.jsonl '"row":2.*edit_image: 2 reference pictures, models of flux take 1'
holds b/errors.jsonl '"row":3.*edit_image.*gone.png'
holds b/errors.jsonl '"row":4.*edit_image: expected a path or a list of paths'
holds b/errors.jsonl '"row":5.*clip.mp4: 10 frames: a reference is a picture'
holds b/errors.jsonl '"row":6.*control_path_1: .*gone.png'
check other 2 prep list.jsonl o --train_mode edit
stderr_has 'models of builtin take no reference pictures'

# ---- a list of prompts as one of rows for training: `image` is what the sample is compared to ----
cat >media/rows.jsonl <<'END'
{"image": "1.png", "edit_image": "before/0.png", "prompt": "make it blue", "height": 48, "width": 96}
{"image": "before/0.png", "prompt": "a picture to change"}
END
check rows 0 prep list.csv c "${edit[@]}" --validation_prompts media/rows.jsonl
expect 0 . vtrain --latents c --model m --output_dir rows --seed 5 \
    --threads 1 --training_type lora \
    --rank 2 --max_train_steps 1 --validation_steps 1
holds rows/validation/inputs/000.safetensors '"reference_1":.*"target":'
holds rows/validation/inputs/001.safetensors '"reference_1":'
lacks rows/validation/inputs/001.safetensors '"target":'
check prepared 0 prep list.csv c "${edit[@]}"

# ---- training: a batch has references of one size; a stopped run resumes bit for bit ----
train() {
    vtrain --latents a --model m --output_dir "$1" --train_batch_size 2 --seed 5 --threads 1 \
        --workers 1 --training_type lora --rank 2 "${@:2}"
}
expect 0 'flow' train dry --dry_run
output_has '6x8+6x12: 2 samples' && output_has '6x8+12x6: 1 sample' && output_has '6x8: 1 sample'
expect 0 'memory: peak' train whole --max_train_steps 6 --validation_steps 6 --trace_dir trace
ends_as whole cut 6 train cut
output_lacks 'conditions are not used'
expect 0 . vtrain --latents a --model m --output_dir full --train_batch_size 1 --threads 1 \
    --training_type full-finetune --max_train_steps 2 --gradient_checkpointing
# samples of one prompt and seed differ by their references, and by having one at all
samples_differ whole/validation/step-6 2 'their references'
expect 0 "3 decoded" vdecode whole --model m --format png --sheet
for i in 0 1; do
    holds whole/validation/inputs/00$i.safetensors '"reference_1":'
    [ -s whole/validation/inputs/00$i-reference_1.png ] ||
        wrong "no picture of the reference of prompt $i"
done
absent whole/validation/inputs/002.safetensors
[ "$(grep -c 'class="input"' whole/report.html)" -eq 2 ] ||
    wrong 'the page shows other references than 2'
# a sheet has a row for each prompt, with its reference in front: the third prompt has none
size=$(ffprobe -v error -show_entries stream=width,height -of csv=p=0 \
    whole/validation/step-6/sheet.png)
[ "$size" = 216,256 ] || wrong "the sheet has the size $size"
touched=$(stat -c %Y.%i whole/validation/inputs/000-reference_1.png)
expect 0 "all 3 had been before" vdecode whole --model m --format png
[ "$(stat -c %Y.%i whole/validation/inputs/000-reference_1.png)" = "$touched" ] ||
    wrong 'a reference was decoded again'
# without prompts captions of training samples are sampled: beside them stand their own pictures
expect 0 . vtrain --latents c --model m --output_dir own-captions --seed 5 \
    --threads 1 --training_type lora \
    --rank 2 --max_train_steps 1 --validation_steps 1
expect 0 decoded vdecode own-captions --model m --sheet
expect 0 "2 decoded" vdecode c --model m --out stored --sheet
for ((i = 0; i < 2; i++)); do
    for role in '' -reference_1; do
        cmp own-captions/validation/inputs/00$i${role:--target}.png \
            stored/00000000000$i-000$role.png ||
            wrong "sample $i: other pictures beside its caption"
    done
done
[ "$(grep -c 'class="input"' own-captions/report.html)" -eq 4 ] ||
    wrong 'the page lacks references or targets'

# ---- a reference changes the loss; without references Kontext trains as FLUX.1 does ----
need prep list.jsonl plain --model m --train_mode normal
vtrain --latents plain --model m --output_dir p --train_batch_size 2 --seed 5 --threads 1 \
    --workers 1 --training_type lora --rank 2 --max_train_steps 1 --quiet || wrong "plain"

# ---- dropped references: a micro-batch without them is a step of a dataset that has none ----
need prep list.csv plain-c --model m --train_mode normal
drop() {
    vtrain --latents "$1" --model m --output_dir "$2" --train_batch_size 1 --seed 5 --threads 1 \
        --workers 1 --training_type lora --rank 2 --posterior mean "${@:3}"
}
expect 0 . drop plain-c none --max_train_steps 12
expect 0 'references: 0.00% of 12 left out, 0% expected' drop c kept --max_train_steps 12
expect 0 'references: 100.00% of 12 left out, 100% expected' drop c dropped --max_train_steps 12 \
    --reference_dropout_p 1
holds dropped/config.yaml 'reference_dropout_p: 1$'
holds kept/config.yaml 'reference_dropout_p: 0$'
cmp -s <(losses dropped) <(losses none) || wrong 'dropped references change the loss'
cmp -s <(losses kept) <(losses none) && wrong 'references change no loss'
# each micro-batch drops by its own draw, which a resumed run and another number of workers repeat
expect 0 'references: [3-6][0-9]' drop c half --max_train_steps 12 --reference_dropout_p 0.5
[ "$(losses half | sed -n 1,4p | sort -u | wc -l)" -gt 1 ] || wrong 'all losses are equal'
expect 0 . drop c half-cut --max_train_steps 5 --reference_dropout_p 0.5
expect 0 'resumes after step 5' drop c half-cut --max_train_steps 12 --reference_dropout_p 0.5 \
    --resume_from_checkpoint latest --workers 3
same_end half/checkpoint-12 half-cut/checkpoint-12 || wrong "a resumed run has other values"
expect 0 'references: dropped with probability 0.25' \
    drop c dry --dry_run --control_image_dropout 0.25

# ---- batches of unequal references train as their samples do by themselves ----
same_as_singles a --model m

# ---- a reference of many rows is encoded once, also where the first of them is decoded last ----
ffmpeg -v error -y -f lavfi -i "testsrc2=s=5000x4000:r=1:d=1" -frames:v 1 media/slow.png
for i in slow 0 1 2 3; do
    echo "{\"image\": \"$i.png\", \"edit_image\": \"before/0.png\", \"prompt\": \"row $i\"}"
done >media/shared.jsonl
check shared 0 prep shared.jsonl shared "${edit[@]}" --workers 4
stderr_has '5 encoded' && stderr_has ' 1 conditions encoded'
check 'shared verified' 0 vlat verify shared
expect 0 'reference_dropout_p: has no effect: the samples have no reference pictures' \
    drop plain-c dry --dry_run --reference_dropout_p 0.25

#!/usr/bin/env bash
# FLUX.2 klein from a list of edits: vprep encodes up to four reference pictures of a row, each in a
# size of its own and none enlarged, vtrain trains on them and samples with them.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

picture() { ffmpeg -v error -y -f lavfi -i "testsrc2=s=$1:r=1:d=1,hue=h=$2" -frames:v 1 "$3"; }
mkdir -p media/before
for ((i = 0; i < 4; i++)); do
    picture 96x64 $((i * 60)) media/$i.png
done
picture 166x86 10 media/before/0.png
picture 48x100 20 media/before/1.png
picture 64x64 30 media/before/2.png
cat >media/list.jsonl <<'END'
{"image": "0.png", "edit_image": ["before/0.png", "before/1.png", "before/2.png"], "prompt": "join them"}
{"image": "1.png", "edit_image": "before/1.png", "prompt": "make it blue"}
{"image": "2.png", "control_path_0": "before/2.png", "control_path_1": "before/0.png", "prompt": "both"}
{"image": "3.png", "prompt": "a picture"}
END
cat >media/prompts.jsonl <<'END'
{"prompt": "a b", "edit_image": ["before/2.png", "before/1.png"], "height": 64, "width": 96, "seed": 3}
{"prompt": "a b", "edit_image": ["before/1.png", "before/2.png"], "height": 64, "width": 96, "seed": 3}
{"prompt": "a b", "height": 64, "width": 96, "seed": 3}
END
need make_model m Flux2KleinPipeline 16
prep() {
    vprep --meta "media/$1" --out "$2" --image_sample_size 64 --model m --train_mode edit "${@:3}"
}

# ---- sizes: cut to whole tokens; the area of --reference_size at most ----
check prepared 0 prep list.jsonl a --validation_prompts media/prompts.jsonl
# before/0.png and before/1.png are references of two rows each
stderr_has '4 encoded' && stderr_has ' 3 conditions encoded'
stderr_lacks 'is trained with'
check verified 0 vlat verify a
check first 0 vlat show a 0
stdout_has 'reference_3' && stdout_has '"target": \[80, 160\]' && stdout_has '"target": \[96, 48\]'
check planned 0 prep list.jsonl less --reference_size 64 --dry_run
holds less/plan.jsonl '"source":.86,166.,"target":.32,80.'
sed '1s/"edit_image": ./&"0.png", "1.png", /' media/list.jsonl >media/five.jsonl
check five 3 prep five.jsonl b --allow_missing
holds b/errors.jsonl '"row":1.*5 reference pictures, models of flux2 take 4'

# ---- training and samples ----
train() {
    vtrain --latents a --model m --output_dir "$1" --train_batch_size 1 --seed 5 --threads 1 \
        --workers 1 --training_type lora --rank 2 "${@:2}"
}
expect 0 'flow' train dry --dry_run
output_has '3x4+5x10+6x3+4x4: 1 sample' && output_has '3x4+6x3: 1 sample' &&
    output_has '  3x4: 1 sample'
expect 0 'memory: peak' train whole --max_train_steps 4 --validation_steps 4 \
    --num_inference_steps 2 --trace_dir trace --reference_dropout_p 0.5
output_has 'references: [1-9][0-9.]*% of [1-4] left out, 50% expected'
ends_as whole cut 4 train cut --reference_dropout_p 0.5
# the order of references counts, and so does having some
for ((i = 1; i < 3; i++)); do
    cmp -s whole/validation/step-4/000.safetensors whole/validation/step-4/00$i.safetensors &&
        wrong "samples 0 and $i are equal"
done
expect 0 "3 decoded" vdecode whole --model m --format png

# ---- batches of unequal references train as their samples do by themselves ----
same_as_singles a --model m

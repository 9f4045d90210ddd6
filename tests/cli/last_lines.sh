#!/usr/bin/env bash
# Each program ends with the place of its result and the command to give next, which works as it
# stands; and the time that samples, held-out losses and checkpoints take is shown and foreseen.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"

# last N PATTERN: line N from the end of the last command's stderr.
last() { tail -n "$1" "$stderr" | head -n 1 | grep -q -- "$2" || wrong "line -$1 is not $2"; }
# next_of: the command that the last command's last line names.
next_of() { tail -n 1 "$stderr" | sed -n 's/^[a-z]*\( [a-z]*\)\{0,1\}: next: //p'; }
tiny=(--dit_width 32 --dit_layers 1 --dit_heads 2 --train_batch_size 1 --threads 1)

small_set 'my data' 3
expect 0 '' vprep --meta 'my data/metadata.json' "${sampling[@]}" --image_sample_size 64 \
    --out set.lmdb
last 1 "^vprep: next: vtrain --latents set.lmdb --output_dir run$"
stderr_lacks 'nothing was to encode'
expect 0 'nothing was to encode: all [0-9]* samples had been encoded before' \
    vprep --meta 'my data/metadata.json' "${sampling[@]}" --image_sample_size 64 --out set.lmdb
next=$(next_of)
expect 0 '' vprep --meta 'my data/metadata.json' "${sampling[@]}" --image_sample_size 64 \
    --out part-0 --shard 1/2
last 1 'next: vlat merge PARTS'
expect 0 '' vprep --meta 'my data/metadata.json' "${sampling[@]}" --image_sample_size 64 \
    --out part-1 --shard 2/2
expect 0 '' vlat merge part-0 part-1 --out "it's merged"
last 1 "next: vtrain --latents 'it'.*s merged' --output_dir run$"

# a model's folder may have a name that YAML quotes
export VLT_SOURCE
need make_model 'a model: "2"' ZImagePipeline 4
ffmpeg -v error -y -f lavfi -i testsrc2=s=64x64 -frames:v 1 still.png
echo '{"file_path": "still.png", "text": "a still"}' >still.jsonl
expect 0 '' vprep --meta still.jsonl --model './a model: "2"' --out still.lmdb \
    --fix_sample_size 64 64
last 1 "^vprep: next: vtrain --latents still.lmdb --model './a model: \"2\"' --output_dir run$"
expect 0 '' bash -c "$(next_of) --output_dir other --rank 2 --max_train_steps 1"

expect 0 '' bash -c "$next ${tiny[*]} --max_train_steps 2"
last 2 '^vtrain: result: run/checkpoint-2/transformer; report: run/report.html$'
last 1 '^vtrain: next: '
expect 0 '' vtrain --latents set.lmdb --output_dir shown "${tiny[@]}" --max_train_steps 2 \
    --validation_steps 2 --num_inference_steps 3 --sample_at_first
stderr_has '^vtrain: step 0: [0-9]* samples* in shown/validation/step-0, after'
stderr_has '^vtrain: step 2: [0-9]* samples* in shown/validation/step-2, after'
last 1 '^vtrain: next: vdecode shown$'
expect 0 '' bash -c "$(next_of)"
last 1 '^vdecode: [1-9][0-9]* decoded; open shown/report.html, which shows them$'
expect 0 '0 decoded: all [1-9][0-9]* had been before (--overwrite decodes again); open' vdecode \
    shown
rm -r shown/validation/step-2
mkdir shown/validation/step-4
vtrain --latents set.lmdb --output_dir empty "${tiny[@]}" --max_train_steps 1 --quiet
mkdir -p empty/validation
expect 0 '0 decoded: there are no latents yet: .*--validation_steps' vdecode empty
expect 0 '' vdecode set.lmdb --out pictures
last 1 '^vdecode: [0-9]* decoded; pictures are in pictures$'
expect 0 '' vtrain --latents set.lmdb --output_dir lora "${tiny[@]:6}" --max_train_steps 2 \
    --model run/checkpoint-2 --training_type lora --rank 2 --eval_split 0.3 --keep_best 1
stderr_has '^vtrain: best: lora/best is checkpoint-2, whose held-out loss is '
last 2 'result: lora/checkpoint-2/pytorch_lora_weights.safetensors; the best: lora/best; report'
[ -e lora/best/pytorch_lora_weights.safetensors ] || wrong 'the link leads nowhere'
expect 0 '^best *checkpoint-2, held-out loss' vtrain --status lora
expect 0 '' vtrain --latents set.lmdb --output_dir quiet "${tiny[@]}" --max_train_steps 1 --quiet
[ ! -s "$stderr" ] || wrong "a quiet run says something"

# ---- the time between steps ----
expect 0 's a step: .* steps left, done in about .*, with .* for checkpoints, held-out losses and samples' \
    vtrain --latents set.lmdb --output_dir eta "${tiny[@]}" --max_train_steps 12 \
    --validation_steps 1 --num_inference_steps 800 --eval_split 0.3
expect 0 's a step: .* steps left, done in about [^,]*$' \
    vtrain --latents set.lmdb --output_dir plain "${tiny[@]}" --max_train_steps 12

# ---- samples show how far they are: on a terminal each step is drawn ----
if command -v script >/dev/null; then
    export TERM=xterm
    expect 0 '' script -qec "vtrain --latents set.lmdb --output_dir term ${tiny[*]} \
        --max_train_steps 1 --validation_steps 1 --num_inference_steps 400" /dev/null
    stdout_has 'sample 1 of [0-9]*: step [0-9]* of 400, '
fi

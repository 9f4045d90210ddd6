#!/usr/bin/env bash
# vtrain --status reports where a run is, and report.html is loaded again while the run continues.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/vtrain.sh"

live='http-equiv="refresh" content="30"'

expect 1 'none is not the output folder of a run: it has no config.yaml' vtrain --status none
expect 0 'print where the run of this output folder' vtrain --help status

# ---- in the middle: a command runs before the third line of metrics.jsonl is written ----
export VLT_FAULT_RUN="vtrain --status run/ >now; cp run/report.html now.html"
fault 'write@metrics.jsonl:3:run' vtrain "${small[@]}" "${model[@]}" --output_dir run \
    --max_train_steps 4 --checkpointing_steps 2 --eval_split 0.3 --eval_steps 2 >"$log" 2>&1 ||
    wrong "the run failed"
for line in '^run  *run/$' '^state  *running.*vtrain' '^step  *2 of 4 (50.0 %), epoch' \
    '^loss  *[0-9.]* in the last step, recently .*; held-out .* at step 2' \
    '^speed  *[0-9.]* s a step, [0-9]* tokens/s; the last step was .* ago' '^left ' '^memory ' \
    '^checkpoint  *checkpoint-2, 0 steps ago'; do
    holds now "$line"
done
holds now.html "$live"
holds now.html 'The run continues'
lacks run/report.html 'http-equiv="refresh"'
expect 0 '^state  *finished' vtrain --status run
stdout_lacks '^left'

# ---- a run that was stopped, whose settings name epochs ----
rm -r run
fault 'write@metrics.jsonl:3:term' vtrain "${small[@]}" "${model[@]}" --output_dir run \
    --num_train_epochs 2 >"$log" 2>&1 && wrong "the run was not stopped"
expect 0 '^state  *not running; --resume_from_checkpoint latest' vtrain --status run
stdout_has '^step  *3 of [0-9]'
lacks run/report.html 'http-equiv="refresh"'

# ---- a run that was killed before its first step ----
rm -r run
fault 'write@metrics.jsonl:1:kill' vtrain "${small[@]}" "${model[@]}" --output_dir run \
    --max_train_steps 2 >"$log" 2>&1 && wrong "the run was not killed"
expect 0 '^state  *not running; no checkpoint is complete' vtrain --status run
stdout_has '^checkpoint  *none yet'
stdout_lacks '^step'

# ---- a run starts although --status holds the folder's lock for a moment ----
rm -r run
expect 0 . fault 'flock@.lock:1:EAGAIN' vtrain "${small[@]}" "${model[@]}" --output_dir run \
    --max_train_steps 1

#!/usr/bin/env bash
# A rank that is stopped (SIGSTOP) is as silent as one whose machine died. The others name it and
# its last step after a while, wait for --comm_timeout seconds, and end with an error; where each of
# them has the whole state, the last whole step is saved first, also when rank 0 is the one that is
# lost.
. "$(dirname "$0")/../lib/check.sh"
have_ranks || { echo "skipped: no MPI"; exit 77; }
. "$lib/vtrain.sh"
export OMP_NUM_THREADS=1
limit=${VLT_LIMIT:-9}                        # --comm_timeout; a warning comes after half of it

# until_steps N: waits until the run in $out has done N steps.
until_steps()
{
    local from=$SECONDS
    until [ "$(cat "$out/metrics.jsonl" 2>/dev/null | wc -l)" -ge "$1" ]; do
        sleep 0.1
        kill -0 $job 2>/dev/null && ((SECONDS - from < 300)) || { wrong "no step $1"; return; }
    done
}
# start RANKS OUT FLAGS...: begins a run in the background, and returns when it has done 3 steps.
start()
{
    local ranks=$1
    out=$2
    shift 2
    rm -rf "$out" pid.*
    "$lib/ranks.sh" "$ranks" bash -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK; exec "$@"' - \
        vtrain "${small[@]}" "${model[@]}" --output_dir "$out" --max_train_steps 100000 \
        --comm_timeout "$limit" "$@" >"$log" 2>&1 &
    job=$!
    until_steps 3
    sleep 1                                          # the others have heard of the steps
}
# ends STATUS: the run ends by itself, soon after the time-out.
ends()
{
    local from=$SECONDS status=0
    while kill -0 $job 2>/dev/null && ((SECONDS - from < 300 + 2 * limit)); do sleep 0.1; done
    ! kill -0 $job 2>/dev/null || { wrong "still runs"; kill -9 $(cat pid.*) $job; }
    wait $job || status=$?
    [ $status -eq "$1" ] || wrong "status $status, expected $1"
}
until_says()
{
    local from=$SECONDS
    until grep -q -e "$1" "$log"; do
        sleep 0.1
        ((SECONDS - from < 300 + limit)) || { wrong "expected \"$1\""; return; }
    done
}
# Continues a run to 3 steps after its last checkpoint.
continues()
{
    local at
    at=$(ls -d "$out"/checkpoint-* | sed 's/.*-//' | sort -n | tail -n 1)
    expect 0 "resumes after step $at" "$lib/ranks.sh" 2 vtrain "${small[@]}" "${model[@]}" \
        --output_dir "$out" --max_train_steps $((at + 3)) --resume_from_checkpoint latest \
        --train_batch_size 1 --global_batch_size 6
    [ -d "$out/checkpoint-$((at + 3))" ] || wrong "no end"
}

# ---- ranks with the whole state: the others save ----
for who in 1 0; do
    start 3 ddp --train_batch_size 1 --global_batch_size 6
    kill -STOP "$(cat pid.$who)"
    ends 1
    at=$(ls -d ddp/checkpoint-* | sed 's/.*-//')
    steps=$(wc -l <ddp/metrics.jsonl)
    output_has "warning: rank $who (.*, process $(cat pid.$who); its last step was [0-9]*) has not \
answered for .*the run ends after $limit[.0]* s (--comm_timeout)"
    output_has "vtrain: rank $who (.*; its last step was [1-9][0-9]*) has not answered for .*; step \
$at is saved: continue with --resume_from_checkpoint latest"
    [ "$(grep -c 'is saved: continue' "$log")" = 1 ] || wrong "several ranks report"
    [ "$at" -ge 3 ] && ((steps - at <= 1 && at - steps <= 1)) || wrong "saved $at of $steps steps"
    gone stopped pid.*
    continues
done

# ---- ranks with parts of the state: the others end, and name the last checkpoint ----
for how in zero2 fsdp; do
    start 2 "$how" --train_batch_size 1 --global_batch_size 6 --parallel $how \
        --checkpointing_steps 2
    kill -STOP "$(cat pid.1)"
    ends 1
    at=$(ls -d "$how"/checkpoint-* | sed 's/.*-//' | sort -n | tail -n 1)
    output_has \
        "vtrain: rank 1 (.*) has not answered for .*\(could not be saved, as its part of the \
state .*the last whole checkpoint is $how/checkpoint-$at\|step $at is saved\)"
    continues
done

# ---- a rank that goes on in time, and a job that is suspended as a whole ----
start 2 back --comm_timeout 0
kill -STOP "$(cat pid.1)"
limit=60 until_says 'warning: rank 1 (.*) has not answered for .*the others wait for it$'
kill -CONT "$(cat pid.1)"
until_says 'rank 1 (.*) answers again, after'
kill -USR1 $job
ends 138
start 2 whole
kill -STOP $(cat pid.*)
sleep $((limit + 3))
kill -CONT $(cat pid.*)
until_steps $(($(wc -l <whole/metrics.jsonl) + 3))
kill -USR1 $job
ends 138
output_lacks 'has not answered'

# ---- the other name ----
expect 0 '' vtrain "${small[@]}" "${model[@]}" --output_dir name --max_train_steps 1 \
    --nccl_timeout 77
holds name/config.yaml '^comm_timeout: 77$'

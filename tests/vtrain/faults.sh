#!/usr/bin/env bash
# A run with a failing call ends with the same weights and every file, or with status 1, one line
# with the reason, and whole checkpoints. The run never ends by a signal, hangs, or succeeds without
# a file. VLT_FAULTS=all lets every call of a kind fail, otherwise some calls.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/vtrain.sh"
RANDOM=1
some=${VLT_SOME:-4}
export OMP_NUM_THREADS=1

args=("${small[@]}" "${model[@]}" --output_dir k --max_train_steps 3 --checkpointing_steps 2
      --validation_steps 3 --num_inference_steps 1 --use_ema --resume_from_checkpoint latest)
need vtrain "${args[@]}" --max_train_steps 1
mv k start
fresh() { rm -rf k && cp -r start k; }
missing()
{
    [ "$(wc -l <k/metrics.jsonl)" = 3 ] || echo "metrics.jsonl"
    [ -s k/report.html ] || echo "report.html"
    [ "$(ls k/validation/step-3/*.safetensors 2>/dev/null | wc -l)" = 2 ] || echo "samples"
    [ "$(ls k/tensorboard | wc -l)" = 2 ] || echo "events"
    vlat verify k >/dev/null 2>&1 || echo "not whole"
}

# judge RULE: checks the status and the files of the run. If all writes fail from a message's on,
# there is no way to print the reason.
judge()
{
    case $status in
    0) same_end k/checkpoint-3 whole/checkpoint-3 || wrong "$1: exit 0 with other weights"
       [ -z "$(missing)" ] || wrong "$1: exit 0, but it lacks $(missing)" ;;
    1) [ -s output ] || [[ $1 == write:*+:* ]] || wrong "$1: failed without a message" ;;
    *) wrong "$1: status $status: $(tail -3 output)" ;;
    esac
    vlat verify k/checkpoint-1 >"$log" 2>&1 ||
        wrong "$1: the checkpoint before is not whole: $(cat "$log")"
    for c in k/checkpoint-[0-9]; do
        vlat verify "$c" >"$log" 2>&1 || wrong "$1: $c is not whole: $(cat "$log")"
    done
}

try()
{
    fresh
    status=0
    timeout -s KILL 300 env "LD_PRELOAD=$VLT_FAULT_LIB" "VLT_FAULT=$1" \
        ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" vtrain "${args[@]}" >output \
        2>&1 || status=$?
    [ -z "${VLT_SHOW:-}" ] || echo "$1: $status: $(tail -1 output)"
    judge "$1"
}

fresh
export VLT_FAULT_COUNT=$dir/counts
need fault '' vtrain "${args[@]}"
unset VLT_FAULT_COUNT
mv k whole

# ---- files beside the checkpoints: training continues; a missing file is an error at the end ----
beside()
{
    local rule=$1
    shift
    try "$rule"
    { [ $status = "$1" ] && grep -q "$2" output; } ||
        wrong "$rule: status $status, expected $1 and \"$2\": $(cat output)"
    same_end k/checkpoint-3 whole/checkpoint-3 ||
        wrong "$rule: training did not continue to its end"
}
beside 'write@metrics.jsonl:1:ENOSPC' 0 'written after all'
beside 'write@metrics.jsonl:1+:ENOSPC' 1 'saved as checkpoint-3, but .*metrics.jsonl: No space left'
beside 'sync@metrics.jsonl:1:EIO' 1 'saved as checkpoint-3, but .*metrics.jsonl: Input/output'
beside 'write@tfevents:2+:ENOSPC' 1 'saved as checkpoint-3, but .*tfevents.*: No space left'
beside 'write@report.html:1:ENOSPC' 0 'written after all'
beside 'rename@report.html:1+:EIO' 1 'saved as checkpoint-3, but .*report.html'
beside 'open@validation:1:ENOSPC' 1 'saved as checkpoint-3, but .*validation prompt 0'
# a full disk is reported before the first step, and before anything is written
beside 'space:1:ENOSPC' 0 'warning: k: a checkpoint needs .* bytes), but only 0 B'
try 'space:3:ENOSPC'
{ [ $status = 1 ] && grep -q \
    'k: a checkpoint needs .* bytes), but only 0 B .*last whole checkpoint is k/checkpoint-2' \
    output; } ||
    wrong "no room for the last checkpoint: $(cat output)"
# a user's quota is not the disk's room
try 'write@optimizer:1+:EDQUOT'
{ [ $status = 1 ] && grep -q 'quota exceeded: remove files of yours' output &&
    ! grep -q 'are free' output; } ||
    wrong "a quota: $(cat output)"

runs=0
for rule in ${VLT_RULES:-write:ENOSPC write+:ENOSPC write:short write:EIO sync:EIO rename:EIO \
    close:EIO \
    open:EMFILE open:EACCES mmap:ENOMEM mkdir:ENOSPC truncate:EIO unlink:EACCES thread:EAGAIN \
    memory:ENOMEM}; do
    kind=${rule%:*} action=${rule#*:} on=
    case $kind in *+) kind=${kind%+} on=+ ;; esac       # this call and all later ones
    [ "$kind" != memory ] || [ "${VLT_FAULT_MEMORY:-1}" = 1 ] || continue
    calls=$(awk -v kind=$kind '$1 == kind { n += $2 } END { print n + 0 }' counts)
    step=1
    [ "${VLT_FAULTS:-}" = all ] || step=$((calls / some + 1))
    for ((n = 1 + RANDOM % step; n <= calls; n += step, runs++)); do
        try "$kind:$n$on:$action"
    done
done
echo "$runs runs"

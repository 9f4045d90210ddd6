#!/usr/bin/env bash
# scripts/ttt-curriculum trains each stage from the stage before and, started again after a kill,
# continues the stage that was not done; the configurations of TTT have flags of vtrain only.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/vtrain.sh"
export OMP_NUM_THREADS=1
root=$(cd "$lib/../.." && pwd)

# ---- the configurations: flags with valid values; each error has its line's number ----
for f in "$root"/configs/ttt/{,toy/}*.yaml; do
    status=0
    vtrain --config "$f" --latents set.lmdb --output_dir p --dry_run >"$log" 2>&1 || status=$?
    grep -E '^vtrain: .*yaml: line [0-9]+' "$log" && wrong "$f"
    [ "$(grep -c '^#' "$f")" = 2 ] || wrong "$f: two lines of comments are expected"
done >&2
[ "$(ls "$root"/configs/ttt/{linear,mlp}-{3,9,18,30,63}s.yaml | wc -l)" = 10 ] || wrong "stages"

# ---- stages of a built-in model ----
need vtrain "${small[@]}" "${model[@]}" --output_dir base --max_train_steps 1
mkdir configs
stage() { cat >"configs/mlp-$1.yaml" <<END
job_name: toy-$1
training_type: full-finetune
max_train_steps: $2
checkpointing_steps: 2
learning_rate: $3
END
}
stage 3s 4 1e-3
stage 9s 4 1e-4
export VLT_TTT_CONFIGS=$dir/configs
run() { "$root/scripts/ttt-curriculum" mlp base/checkpoint-1 "$1" 3s=set.lmdb 9s=set.lmdb \
    "${small[@]:2}"; }
expect 0 'stage 9s: whole/toy-9s' run whole
holds whole/toy-9s/config.yaml '^transformer: whole/toy-3s/checkpoint-4/transformer$'
expect 137 'stage 9s' fault 'rename@toy-9s/checkpoint-4:1:kill' bash -c \
    "$(declare -f run); root=$root; small=(${small[*]}); run killed"
[ -d killed/toy-9s/checkpoint-2 ] || wrong "the second stage was not killed"
expect 0 'resumes after step 2 from killed/toy-9s/checkpoint-2' run killed
stderr_has 'nothing is left to do: 4 of 4 steps are done'
same_end killed/toy-9s/checkpoint-4 whole/toy-9s/checkpoint-4 || wrong "another end after a kill"
expect 2 'there is no .*mlp-7s.yaml' "$root/scripts/ttt-curriculum" mlp base/checkpoint-1 o \
    7s=set.lmdb
expect 2 'no such dataset' "$root/scripts/ttt-curriculum" mlp base/checkpoint-1 o 3s=nowhere
expect 2 'usage: scripts/ttt-curriculum linear' "$root/scripts/ttt-curriculum"

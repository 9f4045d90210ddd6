#!/usr/bin/env bash
# Optimisers, adapters, types of the base and ways to share a run among ranks, in pairs that no
# other test has together: a run of two steps has the same files as one of a step that continues,
# ranks have the losses and norms of one process, and what is not possible is refused with a
# sentence. `matrix.sh all` runs every combination on one rank, and each optimiser and each pair of
# an adapter and a type on two, in an hour of a core; VLT_MATRIX=FILE lists what is refused, and
# VLT_MATRIX_RUN is the program with its flags, such as "vtrain_host --device host".
. "$(dirname "$0")/../lib/check.sh"
export OMP_NUM_THREADS=1
need random_transformer base '{"_class_name": "LTXVideoTransformer3DModel", "num_layers": 2,
    "num_attention_heads": 2, "attention_head_dim": 32, "cross_attention_dim": 64,
    "caption_channels": 24}'
need random_dataset set.lmdb 4 3 4 4 16 24 ltx-video
read -ra program <<<"${VLT_MATRIX_RUN:-vtrain}"
common=("${program[@]}" --transformer base --latents set.lmdb --threads 1 --workers 1 --seed 5
    --global_batch_size 2 --mixed_precision no --learning_rate 1e-3 --lr_scheduler constant)

# on RANKS COMMAND...
on() { if [ "$1" = 1 ]; then "${@:2}"; else "$lib/ranks.sh" "$@"; fi; }
losses() { sed 's/.*"loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*/\1 \2/' "$1/metrics.jsonl"; }
# near A B: losses and norms of the runs differ by 1e-4 at most: sums have another order on ranks
near()
{
    paste <(losses "$1") <(losses "$2") |
        awk 'function far(a, b) { return a - b > 1e-4 * b || b - a > 1e-4 * b }
             far($1, $3) || far($2, $4) { bad = 1 } END { exit bad || NR != 2 }'
}
# differs A B: prints the first file of tensors that two runs' checkpoints have not the same
differs()
{
    local f
    for f in $(cd "$1/checkpoint-2" && find . -name '*.safetensors'); do
        cmp -s "$1/checkpoint-2/$f" "$2/checkpoint-2/$f" || { echo "$f"; return; }
    done
}
# refused NAME STATUS: the run of $log ended with a sentence that names a flag
refused()
{
    [ -z "${VLT_MATRIX:-}" ] || grep -m 1 'vtrain: ' "$log" | sed "s/^/$1: /" >>"$VLT_MATRIX"
    [ "$2" -le 2 ] || wrong "$1: status $2"
    grep -q 'vtrain: .*--[a-z_]*.*: ' "$log" || wrong "$1: refused without a sentence"
}
# try NAME RANKS FLAG...: the run `whole`, and one that is continued, have the same files and a
# report; of several ranks the losses of the run `one`
try()
{
    local name=$1 ranks=$2 status=0 steps other
    shift 2
    rm -rf whole parts
    on "$ranks" "${common[@]}" --output_dir whole --max_train_steps 2 "$@" >"$log" 2>&1 || status=$?
    if [ $status -ne 0 ]; then
        refused "$name" $status
        rm -rf whole
        return
    fi
    [ -s whole/report.html ] || wrong "$name: no report"
    for steps in 1 2; do
        on "$ranks" "${common[@]}" --output_dir parts --max_train_steps $steps "$@" \
            --resume_from_checkpoint latest >"$log" 2>&1 || { wrong "$name: step $steps"; return; }
    done
    other=$(differs whole parts)
    [ -z "$other" ] || wrong "$name: resumed, another $other"
    [ "$ranks" = 1 ] || [ ! -d one ] || near one whole ||
        wrong "$name: $(losses whole | tr '\n' ' ') and not $(losses one | tr '\n' ' ')"
}

# combine OPTIMIZER ADAPTER BASE HOW...: the combination on one rank, and on two in each way
combine()
{
    local name="$1 $2 $3" flags=(--optimizer "$1") how
    case $1 in
    prodigy) flags+=(--optimizer_args d0=1e-4) ;;
    adafactor) flags+=(--no_adafactor_relative_step) ;;
    esac
    case $2 in
    full) flags+=(--training_type full-finetune) ;;
    *) flags+=(--training_type lora --rank 4 --adapter "$2") ;;
    esac
    [ "$3" = file ] || flags+=(--transformer_dtype "$3")
    shift 3
    try "$name" 1 "${flags[@]}"
    rm -rf one
    [ ! -d whole ] || mv whole one
    have_ranks || return 0
    for how; do
        case $how in
        sp) try "$name sp" 2 "${flags[@]}" --sp 2 ;;
        *) try "$name $how" 2 "${flags[@]}" --parallel "$how" ;;
        esac
    done
}

if [ "${1:-}" != all ]; then
    combine adamw_bf16 doha nf4 fsdp
    combine adamw8bit lokr int8 zero2
    combine lion dokr fp8
    combine lion8bit full file fsdp
    combine prodigy loha nf4 sp
    combine adafactor dora fp8 zero2
    combine schedule_free doha int8 fsdp
    combine muon dokr nf4 ddp
    combine schedule_free full file sp
    exit
fi
for optimizer in adamw adamw_bf16 adamw8bit lion lion8bit prodigy adafactor schedule_free muon; do
    for adapter in lora rslora dora loha lokr doha dokr full; do
        for base in file fp8 int8 nf4; do
            how=()
            case "$optimizer $adapter $base" in
            adamw\ * | *\ lora\ file | *\ full\ file) how=(ddp zero2 fsdp sp) ;;
            esac
            combine $optimizer $adapter $base "${how[@]}"
        done
    done
done

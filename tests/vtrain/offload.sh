#!/usr/bin/env bash
# --offload_optimizer disk: the state of every optimiser and the average lie in a file without a
# name; the bits are those of a run without, and a run resumes either way, on ranks too. The
# predicted peak is without the state, and the real one is near it. A full disk and a missing folder
# are errors before step 1; DeepSpeed's and accelerate's files and flags mean the same.
. "$(dirname "$0")/../lib/check.sh"
export OMP_NUM_THREADS=1
need random_dataset few.lmdb 4 1 4 4 4 32 builtin 32
mkdir nvme
# runs OUT FLAG...: a run of a built-in model, whose small parameters have a row of their own
runs()
{
    local out=$1
    shift
    expect 0 . vtrain --latents few.lmdb --output_dir "$out" --train_batch_size 2 --seed 5 \
        --training_type full-finetune --dit_width 96 --dit_layers 2 --dit_heads 2 \
        --checkpointing_steps 100 "$@"
}
# same A B STEP: two runs have the same weights and the same state
same()
{
    local f
    for f in optimizer.safetensors transformer/diffusion_pytorch_model.safetensors; do
        cmp -s "$1/checkpoint-$3/$f" "$2/checkpoint-$3/$f" || wrong "$1 and $2: $f differs"
    done
}

for how in adamw adamw_bf16 adamw8bit lion lion8bit "prodigy --optimizer_args d0=1e-4" adafactor \
    schedule_free muon; do
    average=--use_ema
    [ "$how" != schedule_free ] || average="--lr_scheduler constant"
    rm -rf whole away parts
    runs whole --optimizer $how $average --max_train_steps 4
    runs away --optimizer $how $average --max_train_steps 4 --offload_optimizer nvme/
    output_has 'of optimiser state are in a file in nvme/, beyond the peak'
    same whole away 4
    runs parts --optimizer $how $average --max_train_steps 2 --offload_optimizer disk
    runs parts --optimizer $how $average --max_train_steps 3 --resume_from_checkpoint latest
    runs parts --optimizer $how $average --max_train_steps 4 --resume_from_checkpoint latest \
        --offload_optimizer nvme --offload_optimizer_nvme_path nvme
    same whole parts 4
done
[ -z "$(ls -A nvme)" ] || wrong "nvme: $(ls -A nvme)"
ls -A parts | grep -q spill && wrong "parts: $(ls -A parts)"

if [ "$VLT_MPI" = ON ] && command -v mpirun >/dev/null; then
    for how in adamw adamw8bit muon; do
        for parallel in ddp zero2 fsdp; do
            for where in none disk; do
                rm -rf $where
                expect 0 . "$lib/ranks.sh" 2 vtrain --latents few.lmdb --output_dir $where \
                    --threads 1 --train_batch_size 1 --seed 5 --training_type full-finetune \
                    --dit_width 96 --dit_layers 2 --dit_heads 2 --max_train_steps 2 \
                    --optimizer $how --use_ema --parallel $parallel --offload_optimizer $where
                expect 0 . "$lib/ranks.sh" 2 vtrain --latents few.lmdb --output_dir $where \
                    --threads 1 --train_batch_size 1 --seed 5 --training_type full-finetune \
                    --dit_width 96 --dit_layers 2 --dit_heads 2 --max_train_steps 4 \
                    --optimizer $how --use_ema --parallel $parallel --offload_optimizer $where \
                    --resume_from_checkpoint latest
            done
            same none disk 4
        done
    done
fi

# ---- memory ----
# peak OUT FLAG...: a run with 10 MB of weights and twice as much state; sets real and off, percents
# of the prediction
peak()
{
    expect 0 . vtrain --latents few.lmdb --output_dir "$1" --train_batch_size 1 --threads 1 \
        --training_type full-finetune --dit_width 320 --dit_layers 2 --dit_heads 4 \
        --max_train_steps 2 "${@:2}"
    off=$(sed -n 's/.*memory: peak .* which is \([.0-9]*\)% .* were predicted.*/\1/p' "$log")
    real=$(sed -n 's/.*"peak_bytes":\([0-9]*\).*/\1/p' "$1/metrics.jsonl" | tail -n 1)
    awk -v off="${off:-99}" 'BEGIN { exit !(off <= 10) }' || wrong "$*: $off %"
}
peak in-memory && most=$real
peak on-disk --offload_optimizer disk
state=$(sed -n 's/.*memory: \([.0-9]*\) MiB of optimiser state are in a file.*/\1/p' "$log")
awk -v most="$most" -v real="$real" -v state="${state:-0}" \
    'BEGIN { exit !(state > 20 && most - real > 0.95 * state * 1048576) }' ||
    wrong "$most bytes, $real with $state MiB in a file"

# ---- words, and what does not go ----
rm -rf out
runs out --max_train_steps 1 --offload_optimizer cpu
output_has 'offload_optimizer cpu: has no effect on the CPU, where the optimiser'
runs out --max_train_steps 1 --offload_optimizer disk --dry_run --output_dir dry
stdout_has 'of optimiser state are in a file in dry, beyond the peak'
absent dry
expect 2 '^vtrain: --offload_optimizer nowhere: there is no such folder' vtrain --latents few.lmdb \
    --output_dir new --max_train_steps 1 --offload_optimizer nowhere
cat >deepspeed.json <<'J'
{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme", "nvme_path": "nvme"},
 "offload_param": {"device": "cpu"}}}
J
runs ds --max_train_steps 1 --deepspeed_config deepspeed.json
output_has 'of optimiser state are in a file in nvme, beyond the peak'
output_has 'offload_param: has no effect: a full finetune'
holds ds/config.yaml '^offload_optimizer: nvme$'
cat >zero2offload.yaml <<'Y'
compute_environment: LOCAL_MACHINE
deepspeed_config:
  gradient_accumulation_steps: 1
  offload_optimizer_device: cpu
  offload_param_device: cpu
  zero3_init_flag: false
  zero_stage: 2
distributed_type: DEEPSPEED
num_processes: 1
Y
runs acc --max_train_steps 1 --config zero2offload.yaml
output_has 'cpu: has no effect on the CPU, where'

# ---- a disk that is full, or fails ----
full() { (ulimit -f 64; exec vtrain "$@"); }
expect 1 'offload_optimizer disk: full: optimizer state: no [0-9]* bytes: File too large' \
    full --latents few.lmdb --output_dir full --max_train_steps 2 --offload_optimizer disk
absent full/metrics.jsonl full/checkpoint-1
[ "$VLT_FAULT_MEMORY" = 1 ] || exit 0             # end_of_test adds what was wrong
expect 1 'full: optimizer state: .* are needed, but only 0 B are free there' env \
    "LD_PRELOAD=$VLT_FAULT_LIB" "VLT_FAULT=space:1+:ENOSPC" vtrain --latents few.lmdb \
    --output_dir full --max_train_steps 2 --offload_optimizer disk
absent full/metrics.jsonl
# The file is emptied when step 1 is written: the state of step 2 is lost, and nothing is saved.
cut='for f in /proc/$PPID/fd/*; do case $(readlink "$f") in */nvme/*) : >"$f" ;; esac; done'
expect 1 'optimizer state: byte [0-9]* of [0-9]* could not be read back: the disk failed' env \
    "LD_PRELOAD=$VLT_FAULT_LIB" "VLT_FAULT=write@metrics.jsonl:1:run" "VLT_FAULT_RUN=$cut" \
    vtrain --latents few.lmdb --output_dir torn --max_train_steps 3 --offload_optimizer ./nvme
output_has 'could not be saved'
absent torn/checkpoint-1 torn/checkpoint-2

#!/usr/bin/env bash
# Checkpoints whose files changed after they were written are not resumed, and vlat verify
# reports their files; a run that is killed at any call while it writes a checkpoint leaves the
# others whole.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/vtrain.sh"
RANDOM=1
flips=${VLT_FLIPS:-4}

train() { local out=$1; shift; vtrain "${small[@]}" "${model[@]}" --output_dir "$out" "$@"; }
resume() { train "$1" --max_train_steps 6 --checkpointing_steps 2 \
    --resume_from_checkpoint "${2:-latest}"; }
expect 0 . train whole --max_train_steps 4 --checkpointing_steps 2
expect 0 'no damage' vlat verify whole
expect 0 'no damage' vlat verify whole/checkpoint-4
expect 0 . train six --max_train_steps 6 --checkpointing_steps 2
cp -r whole base
expect 0 'resumes after step 4' resume base
same_end base/checkpoint-6 six/checkpoint-6 || wrong "a resumed run has other weights"

# ---- a changed bit in a file that is read: the run stops and names the checkpoint before ----
fresh() { rm -rf r && cp -r whole r; }
for file in optimizer.safetensors trainer.json checksums.json; do
    size=$(stat -c %s "whole/checkpoint-4/$file")
    for ((i = 0; i < flips; i++)); do
        fresh
        at=$(((RANDOM * 32768 + RANDOM) % size))
        flip "r/checkpoint-4/$file" $at
        expect 1 "$file.*--resume_from_checkpoint r/checkpoint-2" resume r
        expect 1 "checkpoint-4/$file.*" vlat verify r
    done
done
expect 1 'newest whole checkpoint is checkpoint-2' vlat verify r
expect 0 'resumes after step 2' resume r 2
fresh
flip r/checkpoint-4/optimizer.safetensors \
    $(($(stat -c %s r/checkpoint-4/optimizer.safetensors) - 5))
expect 1 'optimizer.safetensors.*tensor "v/' resume r
expect 1 'optimizer.safetensors.*tensor "v/' resume r r/checkpoint-4/
flip r/checkpoint-2/optimizer.safetensors 5000
expect 1 'no whole checkpoint before' resume r

# ---- files that a kill after the last checkpoint prevented: the same command makes them ----
cp -r whole late
mkdir late/checkpoint-2.tmp
rm late/report.html
expect 0 'nothing is left to do' train late --max_train_steps 4 --checkpointing_steps 2 \
    --resume_from_checkpoint latest
absent late/checkpoint-2.tmp
[ -s late/report.html ] || wrong "the report is still missing"

# ---- files that are truncated, missing, added ----
fresh
truncate -s -8 r/checkpoint-4/optimizer.safetensors
expect 1 'optimizer.safetensors is .* bytes long, .* were written' resume r
for file in optimizer.safetensors checksums.json; do
    fresh
    rm r/checkpoint-4/$file
    expect 1 "$file is missing" resume r
    expect 1 "$file: is missing" vlat verify r/checkpoint-4
done
fresh
rm r/checkpoint-4/transformer/config.json
echo more >r/checkpoint-4/transformer/notes
expect 1 'config.json: is missing' vlat verify r
expect 1 'checkpoint-4/transformer/notes: was added' vlat verify r
expect 0 'warning: .*config.json is missing' resume r      # resuming reads neither
flip r/checkpoint-2/transformer/diffusion_pytorch_model.safetensors 3000
expect 1 'diffusion_pytorch_model.safetensors: is damaged' vlat verify r/checkpoint-2
expect 2 'for datasets' vlat verify r --repair

# ---- checkpoints of versions that wrote no checksums ----
fresh
for n in 2 4; do
    rm r/checkpoint-$n/checksums.json
    sed -i 's/,"checksums":true//' r/checkpoint-$n/trainer.json
done
expect 0 'cannot be checked' resume r
expect 0 'without checksums' vlat verify r

# ---- a LoRA's files ----
lora() { local out=$1; shift; vtrain "${small[@]}" --transformer whole/checkpoint-4/transformer \
    --rank 2 \
    --training_type lora --output_dir "$out" "$@"; }
expect 0 . lora l --max_train_steps 2 --export_kohya --checkpointing_limit 1 --checkpointing_steps 1
expect 0 'no damage' vlat verify l
[ "$(ls -d l/checkpoint-*)" = l/checkpoint-2 ] || wrong "another checkpoint is left"
for file in pytorch_lora_weights lora_kohya; do
    cp l/checkpoint-2/$file.safetensors lora.safetensors
    expect 0 'no damage' vlat verify lora.safetensors
    expect 0 . lora again-$file --max_train_steps 1 --lora_checkpoint lora.safetensors
    expect 0 . lora fold-$file --max_train_steps 1 --preset_lora_path lora.safetensors
    size=$(stat -c %s lora.safetensors)
    for ((i = 0; i < flips / 6 + 1; i++)); do
        cp l/checkpoint-2/$file.safetensors lora.safetensors
        flip lora.safetensors $((size - 1 - (RANDOM * 32768 + RANDOM) % (size - 200)))
        expect 1 . lora again --max_train_steps 1 --lora_checkpoint lora.safetensors
        expect 1 . lora fold --max_train_steps 1 --preset_lora_path lora.safetensors
        expect 1 'lora.safetensors: ' vlat verify lora.safetensors
    done
done

# ---- several ranks print one message, from the rank that compared ----
if have_ranks; then
    fresh
    flip r/checkpoint-4/optimizer.safetensors 5000
    for how in ddp zero2 fsdp; do
        expect 1 'r/checkpoint-2' "$lib/ranks.sh" 2 vtrain "${small[@]}" "${model[@]}" \
            --output_dir r \
            --max_train_steps 6 --parallel $how --resume_from_checkpoint latest
        [ "$(grep -c 'optimizer.safetensors' "$log")" = 1 ] || wrong "$how: $(cat "$log")"
    done
fi

# ---- killed at any call after the first checkpoint: files are whole, and the same run follows ----
args=("${small[@]}" "${model[@]}" --output_dir k --max_train_steps 4 --checkpointing_steps 1
      --checkpointing_limit 2 --resume_from_checkpoint latest)
vtrain "${args[@]}" --max_train_steps 1 >/dev/null 2>&1
mv k start
cp -r start k
VLT_FAULT_COUNT=$dir/counts fault '' vtrain "${args[@]}" >/dev/null 2>&1
mv k never
calls=$(awk '$1 == "any" { print $2 }' counts)
[ "${VLT_FAULTS:-}" = all ] && step=1 || step=$((calls / 25 + 1))
for ((n = 1 + RANDOM % step; n <= calls; n += step)); do
    rm -rf k
    cp -r start k
    check "killed at call $n" '0 137' fault "any:$n:kill" vtrain "${args[@]}"
    vlat verify k >"$log" 2>&1 || wrong "killed at call $n of $calls: $(cat "$log")"
    ls -d k/checkpoint-[0-9] >/dev/null 2>&1 || wrong "killed at call $n: no checkpoint is left"
    vtrain "${args[@]}" >"$log" 2>&1 || wrong "killed at call $n, then: $(cat "$log")"
    same_end k/checkpoint-4 never/checkpoint-4 || wrong "killed at call $n: other weights"
done
echo "killed at $(((calls + step - 1) / step)) of $calls calls"

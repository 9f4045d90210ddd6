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

# ---- a changed bit in a file that is read: "latest" is the newest whole checkpoint, and a
# checkpoint that was named is refused ----
for file in optimizer.safetensors trainer.json checksums.json; do
    size=$(stat -c %s "whole/checkpoint-4/$file")
    for ((i = 0; i < flips; i++)); do
        fresh whole r
        at=$(((RANDOM * 32768 + RANDOM) % size))
        flip "r/checkpoint-4/$file" $at
        expect 1 "$file.*--resume_from_checkpoint r/checkpoint-2" resume r r/checkpoint-4
        expect 1 "checkpoint-4/$file.*" vlat verify r
    done
done
expect 1 'newest whole checkpoint is checkpoint-2' vlat verify r
fresh whole r
flip r/checkpoint-4/optimizer.safetensors \
    $(($(stat -c %s r/checkpoint-4/optimizer.safetensors) - 5))
cp -r r both
expect 1 'optimizer.safetensors.*tensor "v/' resume r r/checkpoint-4/
expect 0 'r/checkpoint-4 is damaged and is passed over: optimizer.safetensors.*tensor "v/' resume r
output_has 'resumes after step 2'
[ -e r/abandoned-after-step-2/checkpoint-4/trainer.json ] || wrong "the damaged checkpoint is lost"
same_end r/checkpoint-6 six/checkpoint-6 || wrong "after a damaged checkpoint the run differs"
flip both/checkpoint-2/optimizer.safetensors 5000
expect 1 'both/checkpoint-4: optimizer.*no checkpoint of the run is whole' resume both
expect 1 'no whole checkpoint before' resume both both/checkpoint-4
[ -e both/checkpoint-4 ] || wrong "a refused run moved a checkpoint"

# ---- files that a kill after the last checkpoint prevented: the same command makes them ----
cp -r whole late
mkdir late/checkpoint-2.tmp
rm late/report.html
expect 0 'nothing is left to do' train late --max_train_steps 4 --checkpointing_steps 2 \
    --resume_from_checkpoint latest
absent late/checkpoint-2.tmp
[ -s late/report.html ] || wrong "the report is still missing"

# ---- files that are truncated, missing, added ----
fresh whole r
truncate -s -8 r/checkpoint-4/optimizer.safetensors
expect 1 'optimizer.safetensors is .* bytes long, .* were written' resume r 4
for file in optimizer.safetensors checksums.json trainer.json; do
    fresh whole r
    rm r/checkpoint-4/$file
    [ $file = trainer.json ] || expect 1 "$file: is missing" vlat verify r/checkpoint-4
    expect 0 "checkpoint-4 is damaged and is passed over: .*$file is missing" resume r
    output_has 'resumes after step 2'
done
expect 1 'no complete r/checkpoint-3' resume r 3
fresh whole r
rm r/checkpoint-4/transformer/config.json
echo more >r/checkpoint-4/transformer/notes
expect 1 'config.json: is missing' vlat verify r
expect 1 'checkpoint-4/transformer/notes: was added' vlat verify r
expect 0 'warning: .*config.json is missing' resume r      # resuming reads neither
flip r/checkpoint-2/transformer/diffusion_pytorch_model.safetensors 3000
expect 1 'diffusion_pytorch_model.safetensors: is damaged' vlat verify r/checkpoint-2
expect 2 'for datasets' vlat verify r --repair

# ---- checkpoints of versions that wrote no checksums ----
fresh whole r
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

# the room that a checkpoint needs is that of all its files
for how in '' --use_ema '--no_export_comfyui --no_bake_scale'; do
    rm -rf l
    expect 0 'a checkpoint needs' fault 'space:1:ENOSPC' vtrain "${small[@]}" --training_type lora \
        --transformer whole/checkpoint-4/transformer --rank 512 --output_dir l --max_train_steps 1 \
        $how
    said=$(sed -n 's/.*needs .*(\([0-9]*\) bytes), but only.*/\1/p' "$log")
    took=$(find l/checkpoint-1 -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')
    [ "$said" -ge "$took" ] && [ "$said" -le $((took + 300000)) ] ||
        wrong "$how: $said bytes said, $took written"
done

# ---- several ranks print one message, from the rank that compared ----
if have_ranks; then
    fresh whole r
    flip r/checkpoint-4/optimizer.safetensors 5000
    for how in ddp zero2 fsdp; do
        ranks=("$lib/ranks.sh" 2 vtrain "${small[@]}" "${model[@]}" --parallel $how)
        expect 1 'r/checkpoint-2' "${ranks[@]}" --output_dir r --max_train_steps 6 \
            --resume_from_checkpoint 4
        [ "$(grep -c 'optimizer.safetensors' "$log")" = 1 ] || wrong "$how: $(cat "$log")"
        fresh r both
        expect 0 'passed over: optimizer.safetensors' "${ranks[@]}" --output_dir both \
            --max_train_steps 4 --resume_from_checkpoint latest
        [ "$(grep -c 'optimizer.safetensors' "$log")" = 1 ] || wrong "$how: $(cat "$log")"
        [ "$(grep -c 'resumes after step 2' "$log")" = 1 ] || wrong "$how: $(cat "$log")"
    done
fi

# ---- going back: the folder holds one line of descent, and nothing is lost ----
steps() { sed -n 's/^{"step":\([0-9]*\),.*/\1/p' "$1" | tr '\n' ' '; }
back() { train b --checkpointing_steps 1 --validation_steps 1 --num_inference_steps 1 "$@"; }
expect 0 . back --max_train_steps 4
expect 0 'moved to b/abandoned-after-step-1$' back --max_train_steps 2 --learning_rate 1e-5 \
    --resume_from_checkpoint 1 --checkpointing_limit 2
old=b/abandoned-after-step-1
[ "$(cd b && echo checkpoint-*)" = 'checkpoint-1 checkpoint-2' ] || wrong "$(ls b)"
[ "$(cd $old && echo checkpoint-*)" = 'checkpoint-2 checkpoint-3 checkpoint-4' ] ||
    wrong "$(ls $old)"
[ "$(cd b/validation && echo *)" = 'step-1 step-2' ] || wrong "$(ls b/validation)"
[ "$(cd $old/validation && echo *)" = 'step-2 step-3 step-4' ] || wrong "$(ls $old/validation)"
[ "$(steps b/metrics.jsonl)/$(steps $old/metrics.jsonl)" = '1 2 /2 3 4 ' ] || wrong "metrics.jsonl"
expect 0 'checkpoint-2, 0 steps ago' vtrain --status b
expect 0 'no damage' vlat verify b
expect 0 'resumes after step 2' back --max_train_steps 3 --resume_from_checkpoint latest
output_lacks abandoned
expect 0 'moved to b/abandoned-after-step-1-2$' back --max_train_steps 2 --resume_from_checkpoint 1
expect 0 'moved to b/abandoned-run$' back --max_train_steps 5 \
    --resume_from_checkpoint $old/checkpoint-4
output_has 'resumes after step 4'
[ "$(cd b && echo checkpoint-*)" = checkpoint-5 ] || wrong "$(ls b)"
expect 0 'resumes after step 1' back --max_train_steps 2 \
    --resume_from_checkpoint b/abandoned-run/checkpoint-1 --dry_run
[ -e b/checkpoint-5 ] || wrong "a dry run moved a checkpoint"

# ---- a job that Slurm starts again with the command that names a checkpoint ----
train s --max_train_steps 4 --checkpointing_steps 1 >"$log" 2>&1
expect 0 'resumes after step 1' train s --max_train_steps 2 --checkpointing_steps 1 \
    --resume_from_checkpoint 1
expect 0 'continues from its own latest checkpoint' env SLURM_RESTART_COUNT=1 vtrain "${small[@]}" \
    "${model[@]}" --output_dir s --max_train_steps 3 --resume_from_checkpoint 1
output_has 'resumes after step 2'

# ---- killed while a branch is moved: the same command does it again, and loses nothing ----
for n in 1 2 3 4 5; do
    fresh whole m
    train m --max_train_steps 8 --checkpointing_steps 2 --resume_from_checkpoint latest \
        --validation_steps 4 --num_inference_steps 1 >"$log" 2>&1
    check "killed at rename $n" '0 137' fault "rename@m/:$n:kill" vtrain "${small[@]}" \
        "${model[@]}" \
        --output_dir m --max_train_steps 2 --resume_from_checkpoint 2
    expect 0 . train m --max_train_steps 2 --resume_from_checkpoint 2
    [ "$(find m -name trainer.json | wc -l)" = 4 ] ||
        wrong "killed at $n: $(find m -name trainer.json)"
    [ "$(find m -path '*validation/step-8' | wc -l)" = 1 ] || wrong "killed at $n: a sample is lost"
done

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

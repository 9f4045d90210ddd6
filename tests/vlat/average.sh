#!/usr/bin/env bash
# vlat average: files and checkpoint folders of a run; what has no average; the weights of an
# exponential average.
. "$(dirname "$0")/../lib/check.sh"

need make_toy set.lmdb
train() { vtrain --latents set.lmdb --dit_width 16 --dit_layers 1 --dit_heads 2 \
    --train_batch_size 2 --threads 1 --checkpointing_steps 1 --learning_rate 1e-2 "$@"; }
need train --output_dir full --max_train_steps 3
lora() { vtrain --latents set.lmdb --model full/checkpoint-3 --training_type lora --rank 2 \
    --train_batch_size 2 --threads 1 --checkpointing_steps 1 --learning_rate 1e-2 "$@"; }
need lora --output_dir run --max_train_steps 11
file=pytorch_lora_weights.safetensors

# ---- folders: all files of weights, without the run's state ----
expect 0 'mean: 3 files of weights, averaged over 2 checkpoints' vlat average run/checkpoint-1 \
    run/checkpoint-3 --out mean
stderr_has 'run/checkpoint-1 0.5, run/checkpoint-3 0.5'
absent mean/optimizer.safetensors mean/trainer.json
expect 0 'no damage' vlat verify mean/$file
expect 0 . lora --lora_checkpoint mean --output_dir more --max_train_steps 1
expect 0 'averaged over 2' vlat average full/checkpoint-1 full/checkpoint-3 --out whole
[ -e whole/transformer/config.json ] || wrong "the model has no config.json"
expect 0 . lora --model whole --output_dir of-whole --max_train_steps 1

# ---- files ----
expect 0 'the average of 2 files' vlat average run/checkpoint-{1,3}/$file --out pair.safetensors
cmp -s pair.safetensors mean/$file && wrong "the notes name the same files"
expect 0 . vlat average run/checkpoint-{2,2}/$file --out same.safetensors

# ---- weights ----
expect 0 . vlat average run/checkpoint-{1,2,3}/$file --weights 1,0,3 --out w.safetensors
stderr_has '/checkpoint-1/[^ ]* 0.25, .*/checkpoint-2/[^ ]* 0, .*/checkpoint-3/[^ ]* 0.75'
expect 0 . vlat average run/checkpoint-11 run/checkpoint-2 run/checkpoint-10 --beta 0.5 --out ema
stderr_has 'run/checkpoint-2 0.25, run/checkpoint-10 0.25, run/checkpoint-11 0.5'
expect 0 . vlat average run/checkpoint-{1,2,3} --sigma_rel 0.2 --out wide
holds wide/checksums.json "$file"
expect 2 'exclude each other' vlat average run/checkpoint-{1,2} --beta 0.5 --weights 1,1 --out no
for weights in 1 1,2,3 1,x 0,0 1,-1 1,2,; do
    expect 2 "weights $weights: expected 2 numbers" vlat average run/checkpoint-{1,2} \
        --weights=$weights --out no
done
expect 2 'beta 1: expected a number below 1' vlat average run/checkpoint-{1,2} --beta 1 --out no
expect 2 'sigma_rel 0.3: expected' vlat average run/checkpoint-{1,2} --sigma_rel 0.3 --out no

# ---- what has no average ----
need lora --output_dir other --max_train_steps 1 --rank 3
expect 1 'other/checkpoint-1/.*: .* of its metadata is another' vlat average \
    {run,other}/checkpoint-1/$file --out no
expect 1 'vlt_network_alpha of its metadata is another' vlat average \
    {run,other}/checkpoint-1/lora_comfyui.safetensors --out no
expect 1 'full/checkpoint-1/.*: No such file\|full/checkpoint-1/.*no such' vlat average \
    full/checkpoint-1 run/checkpoint-1 --out no-1
expect 2 'either files or folders' vlat average run/checkpoint-1 run/checkpoint-1/$file --out no
expect 2 'out mean exists' vlat average run/checkpoint-{1,2} --out mean
expect 2 'out is required' vlat average run/checkpoint-{1,2}
expect 1 'set.lmdb has no weights' vlat average set.lmdb set.lmdb --out no
absent no

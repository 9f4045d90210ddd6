#!/usr/bin/env bash
# Lines of advice of a run whose numbers do not fit each other.
. "$(dirname "$0")/../lib/check.sh"
made=$VLT_BUILD/tests/made.lmdb
toy()
{
    vtrain --latents "$made" --output_dir run --dit_width 16 --dit_layers 1 --dit_heads 1 \
        --dry_run \
        "$@"
}
expect 0 'an epoch has each sample 50 times, and the run 1 step: it ends within the first epoch' \
    toy --max_train_steps 1 --dataset_repeat 50
expect 0 '--lr_warmup_steps 5: the run has 1 step, so that the rate never reaches' \
    toy --max_train_steps 1 --lr_scheduler constant_with_warmup --lr_warmup_steps 5
# A sanitizer touches memory of its own for weights that a dry run only reserves.
if [ "$VLT_FAULT_MEMORY" = 1 ]; then
    expect 0 'a peak of .* is predicted, but about .* are free: the run may fail. To need less' \
        toy --dit_width 8192 --dit_layers 256 --dit_heads 128
    stdout_has '^memory: peak .* predicted'
fi
expect 0 'but --memory_limit is 20.0 MiB: the run would not start' \
    toy --dit_width 256 --dit_layers 8 --memory_limit 20M
expect 0 'so 1 epoch; batch' toy --num_train_epochs 1
output_lacks 'warning: an epoch'

# 0 steps, 0 epochs: the usual steps, unless the other one is given.
for flag in max_train_steps num_train_epochs; do
    expect 0 "--$flag 0: without a number of steps or epochs the run has the usual" toy --$flag 0
done
expect 0 'steps: 5, ' toy --max_train_steps 5 --num_train_epochs 0
output_lacks 'num_train_epochs 0:'

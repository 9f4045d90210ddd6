#!/usr/bin/env bash
# Weights that a run converts or copies are loaded with a progress line and end at a signal; a dry
# run reads, converts and copies none of them. The model's last linear holds a value that is not
# finite, which a load in fp8 reports: only a run that stopped before or loads nothing ends
# otherwise.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/fault.sh"

need random_transformer ltx '{"_class_name": "LTXVideoTransformer3DModel", "num_layers": 3,
    "num_attention_heads": 16, "cross_attention_dim": 1024, "caption_channels": 512}'
need random_dataset set.lmdb 2 2 4 4 16 512 ltx-video
file=diffusion_pytorch_model.safetensors
fresh ltx bad
poke bad/$file $(($(stat -c %s bad/$file) / 2 * 2 - (1 << 20))) '\xc0\x7f'

# run MODEL FLAG...: the command line of one step
run() { vtrain --latents set.lmdb --output_dir out --max_train_steps 1 --train_batch_size 1 \
    --threads 2 --transformer "$@"; }
fp8=(--transformer_dtype fp8 --rank 4)
whole='loading weights: [0-9]* MB in'

# ---- progress ----
expect 0 "$whole" run ltx "${fp8[@]}"
rm -r out
expect 0 '"event":"end".*"phase":"loading weights".*"unit":"MB".*"total":[0-9]' \
    run ltx "${fp8[@]}" --log_format json
rm -r out
expect 0 'memory: peak' run ltx --rank 4
output_lacks "$whole"                       # the file stays mapped: nothing is loaded
rm -r out

# ---- signals ----
expect 1 'holds a value that is not finite' run bad "${fp8[@]}"
for how in "${fp8[*]}" "--training_type full-finetune"; do
    expect 143 'stopped while weights were loaded' \
        fault "open@$file:1:term" "$(command -v vtrain)" --latents set.lmdb --output_dir out \
        --max_train_steps 1 --train_batch_size 1 --transformer bad $how
    output_lacks 'memory: peak'
    absent out
done

# ---- dry runs ----
expect 0 'memory: peak .* predicted' run bad "${fp8[@]}" --dry_run
output_lacks "$whole"
predicted() { sed -n 's/.*memory: peak \([0-9.]*\) MiB predicted.*/\1/p' "$1"; }
dry=$(predicted "$stdout")
expect 0 '' run ltx "${fp8[@]}"
# the same prediction, from sizes alone; the memory that the process has before it differs by pages
awk -v dry="$dry" -v run="$(predicted "$log")" \
    'BEGIN { exit !(dry > 0 && dry - run < 1 && run - dry < 1) }' ||
    wrong "the dry run predicts $dry MiB, the run $(predicted "$log") MiB"

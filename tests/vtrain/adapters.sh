#!/usr/bin/env bash
# The files of every adapter are loaded by diffusers, PEFT and LyCORIS, whose outputs are those of
# the trained factors at strength 1 and 0.5. $1 is Python; without these libraries the test is
# skipped.
. "$(dirname "$0")/../lib/check.sh"
python=$1 here=$(dirname "$0")
"$python" -c 'import diffusers, lycoris, peft' 2>"$log" || {
    echo "skipped: $(tail -n 1 "$log")"
    exit 77
}
need random_transformer ltx '{"_class_name": "LTXVideoTransformer3DModel", "num_layers": 2,
    "num_attention_heads": 2, "attention_head_dim": 16, "cross_attention_dim": 32,
    "caption_channels": 24}'
need random_dataset ltx-video.lmdb 2 3 4 4 16 24 ltx-video
runs=()
trains() # trains NAME ADAPTER...
{
    local name=$1
    shift
    need vtrain --transformer ltx --latents ltx-video.lmdb --output_dir "$name" --threads 1 \
        --max_train_steps 5 --train_batch_size 1 --rank 4 --network_alpha 6 --learning_rate 1e-2 \
        --mixed_precision no --target_name to_q,to_k,net.2 --quiet --adapter "$@"
    runs+=("$name")
}
for adapter in lora rslora dora loha lokr doha dokr; do
    trains $adapter $adapter
done
for adapter in lora rslora dora; do
    trains $adapter-plain $adapter --no_bake_scale
done
trains lokr-factor lokr --lokr_factor 2
trains lokr-whole lokr --lokr_factor 4 --lokr_full_matrix
trains dokr-whole lokr --use_dora --lokr_factor 4 --lokr_full_matrix
check adapters 0 "$python" "$here/adapters.py" ltx "${runs[@]}"
cat "$stdout"

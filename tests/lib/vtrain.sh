# vtrain.sh - the common part of the scripts that disturb vtrain: a small dataset, set.lmdb, and
# flags of a small model. It is sourced after check.sh.
. "$lib/fault.sh"
need make_toy "$dir/set.lmdb"
small=(--latents "$dir/set.lmdb" --train_batch_size 2 --seed 5 --threads 1 --workers 1)
model=(--dit_width 32 --dit_layers 1 --dit_heads 2)

# The run's weights and state are those of another.
same_end() { cmp -s "$1/optimizer.safetensors" "$2/optimizer.safetensors"; }

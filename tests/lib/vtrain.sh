# vtrain.sh - the common part of the scripts that disturb vtrain, which source it after check.sh. It
# makes a small dataset, set.lmdb, and holds the flags of a small model.
. "$lib/fault.sh"
need make_toy "$dir/set.lmdb"
small=(--latents "$dir/set.lmdb" --train_batch_size 2 --seed 5 --threads 1 --workers 1)
model=(--dit_width 32 --dit_layers 1 --dit_heads 2)

# same_end CHECKPOINT CHECKPOINT: the optimizers' files, which hold weights and state, are equal.
same_end() { cmp -s "$1/optimizer.safetensors" "$2/optimizer.safetensors"; }

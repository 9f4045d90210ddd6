# vtrain.sh - the common part of the scripts that disturb vtrain, which source it after check.sh. It
# makes a small dataset, set.lmdb, and holds the flags of a small model.
. "$lib/fault.sh"
need make_toy "$dir/set.lmdb"
small=(--latents "$dir/set.lmdb" --train_batch_size 2 --seed 5 --threads 1 --workers 1)
model=(--dit_width 32 --dit_layers 1 --dit_heads 2)

# same_end CHECKPOINT CHECKPOINT: the optimizers' files, which hold weights and state, are equal.
same_end() { cmp -s "$1/optimizer.safetensors" "$2/optimizer.safetensors"; }

# same_loras CHECKPOINT: the LoRA's three files make the same loss of a first step on weights that
# have them folded in, which is not the loss without. The script's `train OUT FLAGS...` runs vtrain.
same_loras()
{
    local with file
    loss_with()
    {
        need train preset --training_type lora --rank 2 --mixed_precision no --max_train_steps 1 \
            ${1:+--preset_lora_path "$1"}
        sed 's/.*"loss":\([0-9]*\.[0-9]\{4\}\).*/\1/' preset/metrics.jsonl
        rm -r preset
    }
    with=$(loss_with "$1/pytorch_lora_weights.safetensors")
    [ "$with" != "$(loss_with '')" ] || wrong "the LoRA changes no loss"
    for file in lora_kohya lora_comfyui; do
        [ "$with" = "$(loss_with "$1/$file.safetensors")" ] || wrong "$file is another LoRA"
    done
}

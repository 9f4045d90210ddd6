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
# same_as_singles SET FLAGS...: a run with batches of four rows has the samples, losses and gradient
# norms of the run that takes each row by itself, and both take each sample equally often.
same_as_singles()
{
    local size lines
    for size in 4 1; do
        expect 0 . vtrain --latents "$1" --output_dir "batch-$size" --train_batch_size $size \
            --global_batch_size 4 --dataset_repeat 2 --num_train_epochs 2 --seed 5 --threads 1 \
            --workers 1 --training_type lora --rank 2 --mixed_precision no --learning_rate 1e-2 \
            "${@:2}"
        sed 's/.*"loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*/\1 \2/' batch-$size/metrics.jsonl \
            >batch-$size/numbers
        grep -o '[0-9]\{12\}/[0-9]\{3\}' batch-$size/metrics.jsonl >batch-$size/order
        [ "$(sort batch-$size/order | uniq -c | awk '{ print $1 }' | sort -u)" = 4 ] ||
            wrong "samples are not seen twice an epoch: $(sort batch-$size/order | uniq -c)"
    done
    cmp batch-4/order batch-1/order || wrong "batches have other samples"
    lines=$(paste batch-4/numbers batch-1/numbers | awk 'function far(a, b) {
        return a - b > 1e-4 * b || b - a > 1e-4 * b }
        NF != 4 || far($1, $3) || far($2, $4) { bad = 1 } END { print bad ? "far" : NR }')
    [ "$lines" != far ] && [ "$lines" -ge 2 ] ||
        wrong "batches train otherwise: $(paste batch-[41]/numbers)"
}

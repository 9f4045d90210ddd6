# vtrain.sh - the common part of the scripts that disturb vtrain, which source it after check.sh. It
# makes a small dataset, set.lmdb, and holds the flags of a small model.
. "$lib/fault.sh"
need make_toy "$dir/set.lmdb"
small=(--latents "$dir/set.lmdb" --train_batch_size 2 --seed 5 --threads 1 --workers 1)
model=(--dit_width 32 --dit_layers 1 --dit_heads 2)

# same_end CHECKPOINT CHECKPOINT: the optimizers' files, which hold weights and state, are equal.
same_end() { cmp -s "$1/optimizer.safetensors" "$2/optimizer.safetensors"; }

# ends_as RUN CUT STEPS COMMAND...: the command, which trains in the folder CUT, is ended at half of
# the steps and resumes; its end is that of RUN (none: it is not compared).
ends_as()
{
    local half=$(($3 / 2))
    expect 0 . "${@:4}" --max_train_steps $half
    expect 0 "resumes after step $half" "${@:4}" --max_train_steps "$3" \
        --resume_from_checkpoint latest
    [ "$1" = none ] || same_end "$1/checkpoint-$3" "$2/checkpoint-$3" ||
        wrong "$2: a resumed run has other values"
}
# losses RUN: those of its steps.
losses() { sed 's/.*"loss":\([^,]*\),.*/\1/' "$1/metrics.jsonl"; }
# samples_differ FOLDER N WHAT: the samples from 1 to N are not that of the first prompt.
samples_differ()
{
    local i
    for ((i = 1; i <= $2; i++)); do
        ! cmp -s "$1/000.safetensors" "$1/00$i.safetensors" ||
            wrong "samples 0 and $i are equal, in spite of $3"
    done
}
# comfy_has CHECKPOINT MODULE...: the LoRA in ComfyUI's names has these modules.
comfy_has()
{
    local name
    for name in "${@:2}"; do
        grep -qa "\"diffusion_model.$name.lora_up.weight\"" \
            <(head -c 40000 "$1/lora_comfyui.safetensors") ||
            wrong "no $name in lora_comfyui.safetensors"
    done
}

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
# numbers_of RUN: the losses and gradient norms of a run. far_from: whether two such files differ by
# more than a ten-thousandth.
numbers_of() { sed 's/.*"loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*/\1 \2/' "$1/metrics.jsonl"; }
far_from()
{
    paste "$1" "$2" | awk 'function far(a, b) { return a - b > 1e-4 * b || b - a > 1e-4 * b }
        NF != 4 || far($1, $3) || far($2, $4) { bad = 1 } END { exit !(bad || NR < 2) }'
}
# same_as_singles SET FLAGS...: a run with batches of four rows has the samples, losses and gradient
# norms of the run that takes each row by itself, and both take each sample equally often. So has
# the run of two ranks that share each sample.
same_as_singles()
{
    local size run=(--latents "$1" --global_batch_size 4 --dataset_repeat 2 --num_train_epochs 2
        --seed 5 --threads 1 --workers 1 --training_type lora --rank 2 --mixed_precision no
        --learning_rate 1e-2 "${@:2}")
    for size in 4 1; do
        expect 0 . vtrain "${run[@]}" --output_dir "batch-$size" --train_batch_size $size
        numbers_of batch-$size >batch-$size/numbers
        grep -o '[0-9]\{12\}/[0-9]\{3\}' batch-$size/metrics.jsonl >batch-$size/order
        [ "$(sort batch-$size/order | uniq -c | awk '{ print $1 }' | sort -u)" = 4 ] ||
            wrong "samples are not seen twice an epoch: $(sort batch-$size/order | uniq -c)"
    done
    cmp batch-4/order batch-1/order || wrong "batches have other samples"
    ! far_from batch-4/numbers batch-1/numbers ||
        wrong "batches train otherwise: $(paste batch-[41]/numbers)"
    [ "${VLT_MPI:-}" = ON ] && command -v mpirun >/dev/null || return 0
    expect 0 '2 ranks that share the tokens' "$lib/ranks.sh" 2 vtrain "${run[@]}" \
        --output_dir batch-shared --train_batch_size 4 --sp 2
    numbers_of batch-shared >batch-shared/numbers
    ! far_from batch-4/numbers batch-shared/numbers ||
        wrong "ranks that share samples train otherwise: $(paste batch-{4,shared}/numbers)"
}

#!/usr/bin/env bash
# --offload_optimizer cpu on ranks that split the optimiser's state, of a device with its own memory
# (vtrain_host): each rank's shard is on the host between the updates, and so is what rank 0 gathers
# for a checkpoint. The bits are those of a run without, and a run resumes either way.
. "$(dirname "$0")/../lib/check.sh"
have_ranks || { echo 'skipped: no mpirun'; exit 77; }
export OMP_NUM_THREADS=1
need random_dataset few.lmdb 4 1 4 4 4 32 builtin 32
# runs OUT FLAG...: a run of a built-in model, whose small parameters have a row of their own
runs()
{
    local out=$1
    shift
    check "$out" 0 "$lib/ranks.sh" 2 vtrain_host --latents few.lmdb --device host --threads 1 \
        --output_dir "$out" --global_batch_size 2 --seed 5 --training_type full-finetune \
        --dit_width 96 --dit_layers 2 --dit_heads 2 --checkpointing_steps 100 "$@"
}
for how in zero2 fsdp; do
    for optimizer in adamw adamw8bit muon "prodigy --optimizer_args d0=1e-4"; do
        rm -rf whole parts
        flags=(--parallel $how --use_ema --optimizer $optimizer)
        runs whole "${flags[@]}" --max_train_steps 4
        runs parts "${flags[@]}" --max_train_steps 2 --offload_optimizer cpu
        output_has "of optimiser state are in the host's memory"
        runs parts "${flags[@]}" --max_train_steps 3 --resume_from_checkpoint latest
        runs parts "${flags[@]}" --max_train_steps 4 --resume_from_checkpoint latest \
            --offload_optimizer cpu
        for f in optimizer.safetensors transformer/diffusion_pytorch_model.safetensors; do
            cmp -s {whole,parts}/checkpoint-4/$f || wrong "$how, $optimizer: another $f"
        done
    done
done

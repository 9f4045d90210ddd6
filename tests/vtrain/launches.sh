#!/usr/bin/env bash
# --num_processes starts the ranks by mpirun, as launchers of other trainers do, and says the line;
# in a job of Slurm it names the line for srun.
. "$(dirname "$0")/../lib/check.sh"
[ "${VLT_MPI:?}" = ON ] || { echo "skipped: built without MPI"; exit 77; }
command -v mpirun >/dev/null || { echo "skipped: no mpirun (scripts/setup installs it)"; exit 77; }
unset ${!SLURM_*} VLT_STARTED
export OMP_NUM_THREADS=1
need make_toy set.lmdb
run=(vtrain --latents set.lmdb --dit_width 32 --dit_layers 1 --dit_heads 2 --train_batch_size 1
    --max_train_steps 2)

expect 0 \
    "^vtrain: --num_processes 2: mpirun -np 2 vtrain --latents set.lmdb .*--output_dir 'a run'" \
    "${run[@]}" --output_dir 'a run' --num_processes 2
output_has ' 2 ranks'
lacks 'a run/config.yaml' 'num_processes: 2'
# the names of launchers, and the same number with mpirun in front
for flag in nproc_per_node num_gpus; do
    expect 0 'mpirun -np 2 vtrain' "${run[@]}" --output_dir "$flag" --$flag 2 --dry_run
done
expect 0 '' "$lib/ranks.sh" 2 "${run[@]}" --output_dir both --num_processes 2 --dry_run
output_lacks 'mpirun -np'
expect 0 '' "${run[@]}" --output_dir one --num_processes 1 --dry_run
output_lacks 'mpirun -np'
printf 'num_processes: 2\nnum_machines: 1\nmachine_rank: 0\n' >accelerate.yaml
expect 0 'mpirun -np 2 vtrain' "${run[@]}" --config accelerate.yaml --output_dir file --dry_run
expect 0 'mpirun -np 2 vtrain' "${run[@]}" --nnodes 1 --node_rank 0 --nproc_per_node 2 \
    --output_dir torch --dry_run
# errors of the flags are said once, before ranks start
expect 2 'did you mean --learning_rate' "${run[@]}" --output_dir none --num_processes 2 \
    --learning_rte 1
output_lacks mpirun
# no rank starts others, so that an mpirun of another MPI makes no endless chain
expect 2 'number of ranks is another\|process is alone' env VLT_STARTED=1 "${run[@]}" \
    --output_dir none --num_processes 2
expect 2 'no mpirun on the PATH' env PATH=/nowhere "$VLT_BUILD/vtrain" "${run[@]:1}" \
    --output_dir none --num_processes 2
# the status of the run is that of its ranks
expect 1 '' "${run[@]}" --output_dir failed --num_processes 2 --resume_from_checkpoint nowhere
expect 2 'srun --mpi=pmix -n 2 vtrain --latents set.lmdb' env SLURM_JOB_ID=7 "${run[@]}" \
    --output_dir none --num_processes 2
absent none

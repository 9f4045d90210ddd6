#!/usr/bin/env bash
# By its environment a process is one of four, but MPI does not connect it with the others: it must
# fail with a remedy, because four separate runs would overwrite each other's files.
. "$(dirname "$0")/../lib/check.sh"
program=$1
fails=$(seq -s ' ' 1 255)
for variable in PMI_SIZE MV2_COMM_WORLD_SIZE; do
    check "$variable=4" "$fails" env -u OMPI_COMM_WORLD_SIZE "$variable=4" "$program" 1
    output_has "one of 4 processes ($variable)"
    output_has 'mpirun\|libopenmpi-dev'
done
# Slurm's tasks have no MPI without PMIx, whose variables --mpi=pmix sets. A shell within a step
# (screen, a notebook, srun --pty) leaves its variables to a process that is alone.
step="env -u OMPI_COMM_WORLD_SIZE -u PMIX_RANK -u PMIX_NAMESPACE SLURM_STEP_NUM_TASKS=4"
step+=" SLURM_STEP_ID=0 SLURM_PROCID=2"
expect "$fails" 'one of 4 \(tasks of srun .*add --mpi=pmix\|.*libopenmpi-dev\)' $step "$program" 1
[ "${VLT_MPI:-}" != ON ] || output_has 'env -u SLURM_STEP_NUM_TASKS PROGRAM'
output_lacks 'MPI_Init\|ORTE\|OPAL'
check "the remedy" 0 env -u SLURM_STEP_NUM_TASKS $step env -u SLURM_STEP_NUM_TASKS "$program" 1
check "a step of one task" 0 $step SLURM_STEP_NUM_TASKS=1 "$program" 1
# torchrun gives each process a rank, and MPI none, whatever starts torchrun
torchrun="env -u OMPI_COMM_WORLD_SIZE RANK=3 MASTER_ADDR=localhost MASTER_PORT=29500"
check torchrun "$fails" $torchrun WORLD_SIZE=8 "$program" 1
output_has 'rank 3 of 8 .*mpirun -np 8'
check "torchrun of one" 0 $torchrun WORLD_SIZE=1 "$program" 1
for variable in SLURM_STEP_NUM_TASKS PMI_SIZE OMPI_COMM_WORLD_SIZE MV2_COMM_WORLD_SIZE; do
    expect "$fails" 'rank 3 of 8 .*torchrun' $torchrun WORLD_SIZE=8 "$variable=1" "$program" 1
done
# one task on each of two nodes, each of which starts torchrun
expect "$fails" 'rank 3 of 4 .*torchrun' $torchrun WORLD_SIZE=4 SLURM_STEP_NUM_TASKS=2 \
    TORCHELASTIC_RUN_ID=none "$program" 1
output_has 'srun --mpi=pmix'
# a batch script has the variables of the job, but is a single process
check alone 0 env -u OMPI_COMM_WORLD_SIZE SLURM_NTASKS=4 SLURM_PROCID=0 PMI_SIZE=1 "$program" 1
# mpirun's ranks keep the variables of the pod in which they run
if have_ranks; then
    check "mpirun in a pod" 0 env -u OMPI_COMM_WORLD_SIZE WORLD_SIZE=4 RANK=1 \
        MASTER_ADDR=localhost "$lib/ranks.sh" 2 "$program" 2
fi

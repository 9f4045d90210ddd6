#!/usr/bin/env bash
# By its environment a process is one of four, but MPI does not connect it with the others: it must
# fail with a remedy, because four separate runs would overwrite each other's files.
. "$(dirname "$0")/../lib/check.sh"
program=$1
for variable in PMI_SIZE SLURM_STEP_NUM_TASKS; do
    check "$variable=4" "$(seq -s ' ' 1 255)" env -u OMPI_COMM_WORLD_SIZE "$variable=4" "$program" 1
    output_has "one of 4 processes ($variable)"
    output_has 'mpirun\|libopenmpi-dev'
done
# torchrun gives each process a rank, and MPI none
torchrun="env -u OMPI_COMM_WORLD_SIZE RANK=3 MASTER_ADDR=localhost MASTER_PORT=29500"
check torchrun "$(seq -s ' ' 1 255)" $torchrun WORLD_SIZE=8 "$program" 1
output_has 'rank 3 of 8 .*mpirun -np 8'
check "torchrun of one" 0 $torchrun WORLD_SIZE=1 "$program" 1
check "mpirun within its variables" 0 $torchrun WORLD_SIZE=8 PMI_SIZE=1 "$program" 1
# a batch script has the variables of the job, but is a single process
check alone 0 env -u OMPI_COMM_WORLD_SIZE SLURM_NTASKS=4 SLURM_PROCID=0 PMI_SIZE=1 "$program" 1

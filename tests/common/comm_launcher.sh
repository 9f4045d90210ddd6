#!/usr/bin/env bash
# One process that the environment says is one of four, and that no MPI connects with the others,
# must fail with a remedy: four runs that know nothing of each other would overwrite each other.
set -euo pipefail
program=$1
for variable in PMI_SIZE SLURM_STEP_NUM_TASKS; do
    if text=$(env -u OMPI_COMM_WORLD_SIZE "$variable=4" "$program" 1 2>&1); then
        echo "$variable=4: ran alone: $text"
        exit 1
    fi
    grep -q "one of 4 processes ($variable)" <<<"$text" || { echo "no reason: $text"; exit 1; }
    grep -qE "mpirun|libopenmpi-dev" <<<"$text" || { echo "no remedy: $text"; exit 1; }
done
# a batch script has the job's numbers and is one process
env -u OMPI_COMM_WORLD_SIZE SLURM_NTASKS=4 SLURM_PROCID=0 PMI_SIZE=1 "$program" 1 >/dev/null 2>&1 ||
    { echo "refused where it is alone"; exit 1; }

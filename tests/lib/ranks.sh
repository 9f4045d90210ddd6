#!/usr/bin/env bash
# ranks.sh N PROGRAM ARGS... runs the program on N ranks of this machine. The status is 77 (skipped)
# without MPI. The leak checker ignores memory that MPI itself does not free (ranks.supp,
# keep_loaded.c), for which it reads whole stacks at each allocation: two thirds of a short run's
# time. Where VLT_LEAKS (0 or 1) does not say so, it looks for the leaks of at most two ranks.
set -euo pipefail
n=$1
shift
[ "${VLT_MPI:?}" = ON ] || { echo "skipped: built without MPI"; exit 77; }
command -v mpirun >/dev/null || { echo "skipped: no mpirun (scripts/setup installs it)"; exit 77; }

# These variables let Open MPI 4 and 5 start more ranks than cores, start them as root, and not bind
# them to single cores. Another mpirun ignores the variables, but would refuse unknown flags.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
# A rank that waits leaves its core to the ranks of other tests.
export OMPI_MCA_mpi_yield_when_idle=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe \
    PRTE_MCA_hwloc_default_binding_policy=none
export OMP_NUM_THREADS=1
export LSAN_OPTIONS=${LSAN_OPTIONS:+$LSAN_OPTIONS:}suppressions=${VLT_SOURCE:?}/tests/lib/ranks.supp
if [ -n "${VLT_PRELOAD:-}" ]; then
    set -- env "LD_PRELOAD=$VLT_PRELOAD${LD_PRELOAD:+:$LD_PRELOAD}" "$@"
    options=verify_asan_link_order=0
    if [ "${VLT_LEAKS:-$((n < 3))}" = 1 ]; then
        options+=:fast_unwind_on_malloc=0
    else
        options+=:detect_leaks=0
    fi
    export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}$options
fi
exec mpirun -np "$n" "$@"

#!/usr/bin/env bash
# ranks.sh N PROGRAM ARGS...: runs the program on N ranks of this machine; status 77 where this is
# impossible. Memory that MPI itself does not free is no leak of ours (ranks.supp, keep_loaded.c).
set -euo pipefail
n=$1
shift
[ "${VLT_MPI:?}" = ON ] || { echo "skipped: built without MPI"; exit 77; }
command -v mpirun >/dev/null || { echo "skipped: no mpirun (scripts/setup installs it)"; exit 77; }

# more ranks than cores, as root too, not bound to single cores: Open MPI 4 and 5 by environment, so
# that another mpirun does not stumble over flags it does not know
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe \
    PRTE_MCA_hwloc_default_binding_policy=none
export OMP_NUM_THREADS=1
export LSAN_OPTIONS=${LSAN_OPTIONS:+$LSAN_OPTIONS:}suppressions=${VLT_SOURCE:?}/tests/lib/ranks.supp
if [ -n "${VLT_PRELOAD:-}" ]; then
    set -- env "LD_PRELOAD=$VLT_PRELOAD${LD_PRELOAD:+:$LD_PRELOAD}" "$@"
    export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0:fast_unwind_on_malloc=0
fi
exec mpirun -np "$n" "$@"

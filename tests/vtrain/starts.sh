#!/usr/bin/env bash
# Starts and resumes under srun, over TCP, with core files: two ranks train two steps, four on two
# nodes continue for one more, and so on in turn. VLT_STARTS is the number of starts (6); in a build
# with a sanitizer a report of any rank is a failure too. A failed start keeps its log and, where
# the system writes it, its core file in VLT_STARTS_KEEP.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/slurm.sh"
slurm_start 4
. "$lib/vtrain.sh"
starts=${VLT_STARTS:-6} failed=0
export OMPI_MCA_btl=self,tcp OMP_NUM_THREADS=1 SLURM_PMIX_FENCE=ring
export LSAN_OPTIONS=${LSAN_OPTIONS:+$LSAN_OPTIONS:}suppressions=${VLT_SOURCE:?}/tests/lib/ranks.supp
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0:fast_unwind_on_malloc=0
export ASAN_OPTIONS=$ASAN_OPTIONS:disable_coredump=0:unmap_shadow_on_exit=1
ulimit -c unlimited

for ((i = 0; i < starts; i++)); do
    ranks=$((i % 2 ? 4 : 2))
    [ $ranks = 4 ] || rm -rf out
    status=0
    srun --mpi=pmix --kill-on-bad-exit=1 --time=5 --nodes=2 --ntasks=$ranks \
        env ${VLT_PRELOAD:+"LD_PRELOAD=$VLT_PRELOAD"} vtrain "${small[@]}" "${model[@]}" \
        --output_dir out --parallel zero2 --train_batch_size 1 --global_batch_size 4 \
        --max_train_steps $((i % 2 ? 3 : 2)) --checkpointing_steps 2 \
        $([ $ranks = 2 ] || echo --resume_from_checkpoint latest) >"$log" 2>&1 || status=$?
    if [ $status -ne 0 ] || grep -q 'Sanitizer\|runtime error' "$log" ||
        ! [ -d out/checkpoint-$((i % 2 ? 3 : 2)) ]; then
        failed=$((failed + 1))
        wrong "start $i of $ranks ranks: status $status"
        [ -z "${VLT_STARTS_KEEP:-}" ] || cp "$log" "$VLT_STARTS_KEEP/start-$i.log"
        [ -z "${VLT_STARTS_KEEP:-}" ] || cp core* "$VLT_STARTS_KEEP" 2>/dev/null || :
        rm -f core*
    fi
done
echo "$failed of $starts starts failed"

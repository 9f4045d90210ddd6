#!/usr/bin/env bash
# Jobs of a real Slurm, of which four nodes run on this machine: scripts/vlt.sbatch requeues what
# was stopped by a signal, by the end of the time or by another job; a run continues on other ranks;
# a killed or stopped rank ends its step; starts that MPI cannot connect say so.
. "$(dirname "$0")/../lib/check.sh"
[ "$VLT_FAULT_MEMORY" = 1 ] || { echo "skipped: sanitizers are too slow for its times"; exit 77; }
. "$lib/slurm.sh"
slurm_start 4
. "$lib/vtrain.sh"
export OMP_NUM_THREADS=1
batch=$lib/../../scripts/vlt.sbatch
steps=(--job_name run --max_train_steps 1000000 --checkpointing_steps 1000000)

# submit OUT SBATCH-FLAGS... -- VTRAIN-FLAGS...: sets $job; its log is OUT.log.
submit()
{
    local out=$1 flags=()
    shift
    while [ "$1" != -- ]; do flags+=("$1"); shift; done
    shift
    rm -rf "$out" "$out.log"
    job=$(sbatch --parsable --time=10 --mem=0 --cpus-per-task=1 --output="$out.log" "${flags[@]}" \
        "$batch" vtrain "${small[@]}" --train_batch_size 1 --global_batch_size 6 "${model[@]}" \
        --output_dir "$out" "$@") || wrong "$out: sbatch refused it"
}
trains() { holds_soon "$1/run/metrics.jsonl" "\"step\":$2,"; }
# The requeued job continues after the step that the run before has saved; then it is ended.
continues()
{
    local out=$1 at
    holds_soon "$out.log" 'resumes after step'
    at=$(sed -n 's/.*stopped after step \([0-9]*\);.*/\1/p' "$out.log" | tail -n 1)
    holds "$out.log" "resumes after step ${at:-?} from $out/run/checkpoint-$at"
    trains "$out" $((at + 1))
    scancel -s INT "$job"
    job_until "$job" 'FAILED|COMPLETED'
    lacks "$out.log" 'SIGINT.*requeued'
}

# ---- elastic: 2 ranks on 2 nodes, then 3, then 1; each sample once in an epoch of 6 ----
for n in 2 3 1; do
    submit elastic-$n --nodes=$n --ntasks-per-node=1 -- --output_dir elastic --job_name run \
        --max_train_steps $((n == 2 ? 3 : n == 3 ? 5 : 8)) --checkpointing_steps 100
    job_until "$job" 'COMPLETED|FAILED'
    [ "$(job_state "$job")" = COMPLETED ] || wrong "elastic: $(tail -n 20 elastic-$n.log)"
done
holds elastic-3.log 'resumes after step 3'
holds elastic-1.log 'resumes after step 5'
[ "$(wc -l <elastic/run/metrics.jsonl)" = 8 ] || wrong "elastic: not 8 steps"
for epoch in 1 2 3 4; do                             # each of two steps
    [ "$(sed -n "$((2 * epoch - 1)),$((2 * epoch))p" elastic/run/metrics.jsonl |
        grep -o '"[0-9]*/[0-9]*"' | sort -u | wc -l)" = 6 ] || wrong "elastic: epoch $epoch"
done
check 'as one process' 0 vtrain "${small[@]}" --train_batch_size 1 --global_batch_size 6 \
    "${model[@]}" --output_dir alone --max_train_steps 8
samples() { sed 's/.*"samples":\(\[[^]]*\]\).*/\1/' "$1/metrics.jsonl"; }
[ "$(samples elastic/run)" = "$(samples alone)" ] || wrong "elastic: other samples than one process"

# ---- signals to the script, and a job that is cancelled ----
submit term --ntasks-per-node=1 --nodes=2 -- "${steps[@]}"
trains term 3
scancel -b -s TERM "$job"
holds_soon term.log "stopped with status 138: job $job is requeued"
holds term.log 'SIGUSR1: stopped after step'
continues term
submit usr1 --ntasks-per-node=2 --nodes=1 -- "${steps[@]}"
trains usr1 3
scancel -b -s USR1 "$job"
holds_soon usr1.log "stopped with status 138: job $job is requeued"
continues usr1
submit end --ntasks-per-node=1 --nodes=2 -- "${steps[@]}"
trains end 3
scancel "$job"
holds_soon end.log 'is not requeued, as it was cancelled'
holds end.log 'stopped after step'
job_until "$job" CANCELLED

# ---- the end of the time; meanwhile a job of `high` takes the nodes of one of `low` ----
submit time --ntasks-per-node=2 --nodes=1 --time=1 --signal=B:USR1@30 -- "${steps[@]}"
timed=$job
submit low --ntasks-per-node=1 --nodes=2 -- "${steps[@]}"
trains low 3
expect 0 '' srun --partition=high --nodes=4 --exclusive --job-name=high true
holds_soon low.log "stopped with status 1[0-9]*: job $job is requeued"
holds low.log 'SIG.*: stopped after step'
continues low
job=$timed
holds_soon time.log "stopped with status 1[0-9]*: job $job is requeued"
continues time

# ---- a killed rank ----
ranks_of() { pgrep -r R,S,D,T -f "^[^ ]*vtrain .*--output_dir $1 "; }
# kill_one OUT [SIGNAL]: kills one of the ranks of a run.
kill_one() { kill -"${2:-KILL}" "$(ranks_of "$1" | tail -n 1)"; }
submit killed --ntasks-per-node=1 --nodes=2 -- "${steps[@]}" --checkpointing_steps 2
trains killed 3
kill_one killed
job_until "$job" 'FAILED|NODE_FAIL'
[ -z "$(ranks_of killed)" ] || wrong "a rank of the job lives"
submit killed-again --nodes=1 -- --output_dir killed --job_name run --max_train_steps 4
job_until "$job" 'COMPLETED|FAILED'
holds killed-again.log 'resumes after step\|nothing is left to do'
# Slurm's PMIx ends a step that lost a rank also without --kill-on-bad-exit. A rank that is only
# stopped is given up by the others, on one node and on two.
for row in "lost-9 2 KILL" "lost-1 1 STOP" "lost-2 2 STOP"; do
    read -r out nodes signal <<<"$row"
    srun --mpi=pmix --kill-on-bad-exit=0 --ntasks=2 --nodes=$nodes vtrain "${small[@]}" \
        "${model[@]}" --output_dir $out "${steps[@]}" --comm_timeout 8 >$out.log 2>&1 &
    step=$!
    trains $out 3
    kill_one $out $signal
    wait $step && wrong "$out: a step without one of its ranks succeeded"
    [ $signal = KILL ] ||
        holds $out.log 'vtrain: rank [01] (.*) has not answered .*is saved: continue with'
    [ -z "$(ranks_of $out)" ] || wrong "$out: a rank lives"
done

# A task that never starts the program: the other node's rank does not wait without end, and ends
# with 1. srun's own status is the highest of its tasks': 143 of the one that it ends for this.
expect 143 'the 2 ranks were not connected within .*--comm_timeout.*: waiting on .*: rank 0' \
    srun --mpi=pmix --kill-on-bad-exit=1 --ntasks=2 --nodes=2 bash -c \
    '((SLURM_PROCID == 0)) || exec sleep 300; "$@"; s=$?; echo $s >never.status; exit $s' - \
    vtrain "${small[@]}" "${model[@]}" --output_dir never "${steps[@]}" --comm_timeout 6
[ "$(cat never.status)" = 1 ] || wrong "never: the rank ended with $(cat never.status), not with 1"

# ---- starts that nothing connects ----
expect 2 'one of 2 tasks of srun .*add --mpi=pmix to srun' srun --mpi=none -n 2 vtrain \
    "${small[@]}" "${model[@]}" --output_dir none --max_train_steps 1
expect 2 'one of 2 tasks of srun .*env -u SLURM_STEP_NUM_TASKS' srun --mpi=none -n 2 bash -c \
    '((SLURM_PROCID)) || exec "$@"' - vtrain "${small[@]}" "${model[@]}" --output_dir none \
    --max_train_steps 1
expect 0 '' srun --mpi=none -n 2 bash -c \
    '((SLURM_PROCID)) || exec env -u SLURM_STEP_NUM_TASKS "$@"' - vtrain "${small[@]}" \
    "${model[@]}" --output_dir shell --max_train_steps 1
cat >torchrun <<'END'
#!/usr/bin/env bash
# plays torchrun: two processes on each node
for i in 0 1; do
    RANK=$((2 * SLURM_PROCID + i)) LOCAL_RANK=$i WORLD_SIZE=4 MASTER_ADDR=localhost \
        MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none "$@" &
    wait $! || status=$?
done
exit $status
END
chmod +x torchrun
for mpi in none pmix; do
    expect 2 'rank [0-3] of 4 in the way of torchrun.*srun --mpi=pmix -n 4' srun --mpi=$mpi \
        --kill-on-bad-exit=0 -n 2 -N 2 ./torchrun vtrain "${small[@]}" "${model[@]}" \
        --output_dir none --max_train_steps 1
done
absent none

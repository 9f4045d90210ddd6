#!/usr/bin/env bash
# A job that is killed and started again with the same command continues in the folder of its name,
# and ends as a job that ran once. A stage that begins with the weights of the stage before has its
# weights, a new optimiser and step 0.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/vtrain.sh"
export OMP_NUM_THREADS=1

job() { local name=$1; shift; vtrain "${small[@]}" "${model[@]}" --output_dir jobs \
    --job_name "$name" --max_train_steps 6 --checkpointing_steps 2 "$@"; }
first_loss() { sed -n '1s/.*"loss":\([^,]*\).*/\1/p' "jobs/$1/metrics.jsonl"; }
expect 0 'there is no checkpoint yet' job whole
holds jobs/whole/config.yaml '^output_dir: jobs/whole$'
lacks jobs/whole/config.yaml '^job_name'

# ---- killed while it writes a checkpoint, and started again by the same command ----
expect 137 '' fault 'rename@checkpoint-4:1:kill' vtrain "${small[@]}" "${model[@]}" \
    --output_dir jobs --job.exp_name killed --max_train_steps 6 --checkpointing_steps 2
[ -d jobs/killed/checkpoint-2 ] || wrong "the killed job left no checkpoint"
absent jobs/killed/checkpoint-4
expect 0 'resumes after step 2 from jobs/killed/checkpoint-2' job killed
same_end jobs/killed/checkpoint-6 jobs/whole/checkpoint-6 || wrong "another end than without a kill"
[ "$(wc -l <jobs/killed/metrics.jsonl)" = 6 ] || wrong "metrics.jsonl lacks steps"
expect 0 'nothing is left to do: 6 of 6 steps are done' job killed
expect 0 'nothing is left to do' vtrain --config jobs/killed/config.yaml
absent jobs/killed/killed
expect 0 'resumes after step 4' job killed --resume_from_checkpoint 4

# ---- stopped by each signal that a terminal or a scheduler sends ----
signals=(129:HUP 130:INT 131:QUIT 138:USR1 140:USR2 143:TERM 152:XCPU)
for signal in "${signals[@]}"; do
    name=${signal#*:}
    expect "${signal%:*}" "vtrain: SIG$name: stopped after step 3; continue with" \
        fault "write@metrics.jsonl:3:run" env VLT_FAULT_RUN="kill -$name \$PPID" \
        "$(command -v vtrain)" "${small[@]}" "${model[@]}" --output_dir jobs --job_name "$name" \
        --max_train_steps 6 --checkpointing_steps 2
    expect 0 "resumes after step 3 from jobs/$name/checkpoint-3" job "$name"
    same_end "jobs/$name/checkpoint-6" jobs/whole/checkpoint-6 || wrong "another end after $name"
done
# One of several ranks gets the signal, and all end with its number.
if have_ranks; then
    for signal in 131:QUIT 138:USR1; do
        name=${signal#*:}
        expect "${signal%:*}" "vtrain: SIG$name: stopped after step 3; continue with" env \
            VLT_FAULT_RUN="kill -$name \$(cat pid.1)" VLT_FAULT_LIB="$VLT_FAULT_LIB" \
            "$lib/ranks.sh" 2 bash -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK
                export LD_PRELOAD=$VLT_FAULT_LIB${LD_PRELOAD:+:$LD_PRELOAD}
                export VLT_FAULT="write@metrics.jsonl:3:run"
                exec "$@"' - "$(command -v vtrain)" \
            "${small[@]}" "${model[@]}" --output_dir jobs --job_name "ranks-$name" \
            --max_train_steps 6
        [ -d "jobs/ranks-$name/checkpoint-3" ] || wrong "ranks: $name saved no step"
    done
fi

# ---- as a job of Slurm, whose srun and scontrol are played here ----
batch=$lib/../../scripts/vlt.sbatch
bash -n "$batch" || wrong "$batch: no shell script"
mkdir slurm
cat >slurm/srun <<'END'
#!/usr/bin/env bash
echo "srun $*" >>calls
while [[ $1 == -* ]]; do shift; done
exec "$@"
END
cat >slurm/scontrol <<'END'
#!/usr/bin/env bash
echo "scontrol $*" >>calls
[ "$1" != show ] || echo "JobId=7 JobState=$(cat state) Reason=None"
END
chmod +x slurm/*
echo RUNNING >state
# slurm STATUS PATTERN COMMAND...: the batch file runs a command, and calls holds the calls
slurm() { local want=$1 pattern=$2; shift 2; rm -f calls
    expect "$want" "$pattern" env PATH="$dir/slurm:$PATH" SLURM_JOB_ID=7 SLURM_JOB_NAME=x \
        SLURM_CPUS_PER_TASK=3 "$@"; }
# Before a job's end the script alone gets USR1; preemption sends TERM to all.
held=(bash -c 'echo $$ >pid.batch; exec bash "$@"' - "$batch")
for signal in 138:USR1 143:TERM; do
    name=${signal#*:}
    ranks=; [ $name = USR1 ] || ranks="kill -TERM \$PPID; sleep 0.3;"
    run=("$(command -v vtrain)" "${small[@]}" "${model[@]}" --output_dir "jobs/slurm-$name"
         --max_train_steps 6)
    slurm "${signal%:*}" "SIG$name: stopped after step 3" "${held[@]}" env \
        ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" LD_PRELOAD="$VLT_FAULT_LIB" \
        VLT_FAULT="write@metrics.jsonl:3:run" \
        VLT_FAULT_RUN="$ranks kill -$name \$(cat pid.batch); sleep 3" "${run[@]}"
    output_has 'vlt.sbatch: .*job 7 is requeued'
    lacks calls --ntasks
    holds calls '^srun .*--mpi=pmix .*--kill-on-bad-exit=1 .*--cpus-per-task=3 '
    holds calls '^scontrol requeue 7$'
    slurm 0 'resumes after step 3' SLURM_RESTART_COUNT=1 bash "$batch" "${run[@]}"
    lacks calls requeue
    same_end "jobs/slurm-$name/checkpoint-6" jobs/whole/checkpoint-6 || wrong "$name: another end"
done
# a job that scancel ends is not requeued, and neither is one that fails
echo COMPLETING >state
slurm 143 'job 7 is not requeued' bash "$batch" bash -c 'exit 143'
echo RUNNING >state
slurm 1 '' bash "$batch" bash -c 'exit 1'
lacks calls requeue
slurm 130 '' bash "$batch" bash -c 'exit 130'
lacks calls requeue
slurm 2 'usage: sbatch' bash "$batch"
# tasks of an array, and inputs that vprep skipped
array=(SLURM_ARRAY_JOB_ID=6 SLURM_ARRAY_TASK_ID=2 SLURM_ARRAY_TASK_COUNT=4)
slurm 0 '^-2/4 out-2$' "${array[@]}" bash "$batch" echo '-{i}/{n}' 'out-{i}'
slurm 143 'job 6_2 is requeued' "${array[@]}" bash "$batch" bash -c 'exit 143'
holds calls '^scontrol requeue 6_2$'
slurm 0 '^vlat ' bash "$batch" env A=b "$(command -v vlat)" --version
holds calls '--nodes=1 --ntasks=1 '
printf '#!/bin/sh\nexit 3\n' >slurm/vprep && chmod +x slurm/vprep
slurm 0 'inputs were skipped' bash "$batch" vprep --meta x

for name in a/b . .. ''; do
    expect 2 'the name of a folder is expected' job "$name"
done
# ---- a dataset's own folder is no run's ----
for flags in "" "--job_name name" "--resume_from_checkpoint latest" --dry_run; do
    expect 2 '.*set.lmdb is a dataset: give' vtrain "${small[@]}" \
        "${model[@]}" --output_dir set.lmdb $flags
done
absent set.lmdb/name set.lmdb/config.yaml

# ---- the next stage ----
stage() { vtrain "${small[@]}" --output_dir jobs --max_train_steps 1 "$@"; }
expect 0 'lr 1e-09' stage --job_name next --init_state_dir jobs/whole --lr 1e-9
holds jobs/next/config.yaml '^transformer: jobs/whole/checkpoint-6/transformer$'
lacks jobs/next/config.yaml '^init_state_dir'
holds jobs/next/metrics.jsonl '"step":1,'
expect 0 . stage --job_name again --checkpoint.init_state_dir jobs/whole/checkpoint-6 --lr 1e-9
same_end jobs/next/checkpoint-1 jobs/again/checkpoint-1 || wrong "a run's latest checkpoint differs"
[ "$(first_loss next)" != "$(first_loss whole)" ] || wrong "the stage began with new weights"
expect 2 'neither this folder nor its latest' stage --job_name no --init_state_dir set.lmdb
expect 2 'neither this folder nor its latest' stage --job_name no --init_state_dir nowhere
mkdir dcp
touch dcp/.metadata dcp/__0_0.distcp
expect 2 'dcp: a folder of torch.distributed.checkpoint.* dcp_to_torch dcp FILE' \
    stage --job_name no --init_state_dir dcp
expect 2 'gives the initial weights already' stage --job_name no --init_state_dir jobs/whole \
    --transformer jobs/whole/checkpoint-6/transformer

# ---- the samples of a step, and the factor of latents ----
plan() { vtrain --latents set.lmdb --output_dir p --max_train_steps 1 --dry_run "${model[@]}" \
    "$@"; }
expect 0 . job batch --global_batch_size 4
holds jobs/batch/config.yaml '^gradient_accumulation_steps: 2$'
expect 0 . plan --global_batch_size 4
expect 2 'is no multiple of 1 ranks .* times 3' plan --global_batch_size 4 --train_batch_size 3
expect 2 '8192 samples a micro-batch are more than 4096' plan --global_batch_size 8192
expect 2 'are another number' plan --global_batch_size 8 --train_batch_size 2 \
    --gradient_accumulation_steps 2
expect 0 . job scaled --scale_factor 0.25 --max_train_steps 1
[ "$(first_loss scaled)" != "$(first_loss whole)" ] || wrong "--scale_factor has no effect"

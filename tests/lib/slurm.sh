# slurm.sh - a cluster of Slurm on this machine, for scripts that source it after check.sh.
#
# slurm_start NODES starts munged, slurmctld and NODES slurmd (n1, n2, ...) of 2 cores each in
#                          $dir/slurm, with a key and ports of their own; sets SLURM_CONF. Ends the
#                          test as skipped (77) where packages are missing. The daemons end with the
#                          test.
#   job_state JOB          the job's state, as RUNNING
#   job_until JOB PATTERN  waits until the state matches an extended regular expression, at most two
#                          minutes
#   holds_soon FILE PATTERN   waits as long for a line of a file
#
# The partition `low`, the default, gives its nodes to jobs of `high`: they get a TERM, and 60
# seconds to save. Daemons run as the user of the test.
slurm_pids=()

slurm_start()
{
    local nodes=$1 command user s=$dir/slurm i
    for command in munged slurmctld slurmd srun sbatch scontrol mpirun; do
        PATH=$PATH:/usr/sbin command -v $command >/dev/null || {
            echo "skipped: no $command (scripts/setup --slurm installs Slurm)"; exit 77; }
    done
    PATH=$PATH:/usr/sbin
    user=$(id -un)
    mkdir -m 755 "$s" "$s/state"
    chmod 755 "$top" "$dir"
    (umask 077; head -c 128 /dev/urandom >"$s/key")
    export SLURM_CONF=$s/slurm.conf
    slurm_configure
    srun --mpi=list 2>&1 | grep -q pmix || { echo "skipped: this Slurm has no PMIx"; exit 77; }
    ulimit -n "$(ulimit -Hn)" 2>/dev/null || :
    munged --foreground --force --socket="$s/munge" --key-file="$s/key" --log-file="$s/munge.log" \
        --pid-file="$s/munge.pid" --seed-file="$s/seed" 2>"$s/munge.err" &
    slurm_pids+=($!)
    trap 'slurm_end; end_of_test $status' EXIT
    until [ -S "$s/munge" ]; do sleep 0.1; kill -0 $! || { cat "$s"/munge.*; return 1; }; done
    for ((i = 0; i < 5; i++)); do              # another program may have a port
        ! slurm_controller || break
        slurm_configure
    done
    for ((i = 1; i <= nodes; i++)); do
        mkdir "$s/spool.n$i" "$s/tmp.n$i"
        slurmd -D -N n$i >"$s/n$i.out" 2>&1 &
        slurm_pids+=($!)
    done
    local from=$SECONDS
    while ((SECONDS - from < 300)); do
        [ "$(timeout 10 sinfo -h -p low -t idle -o %D 2>/dev/null)" != "$nodes" ] || return 0
        sleep 0.2
    done
    tail -n 5 "$s"/*.log "$s"/*.out
    wrong "the cluster does not start"
    return 1
}

# Starts slurmctld; fails if it ends at once.
slurm_controller()
{
    local pid tries
    slurmctld -D -c >"$s/ctld.out" 2>&1 &
    pid=$!
    for ((tries = 0; tries < 100; tries++)); do
        kill -0 $pid 2>/dev/null || return 1
        ! timeout 5 scontrol ping >"$s/ping" 2>&1 || { slurm_pids+=($pid); return 0; }
        sleep 0.1
    done
    kill $pid 2>/dev/null
    return 1
}

# Writes slurm.conf, with ports that are chosen at random below those that Linux gives to clients.
slurm_configure()
{
    local port=$((20000 + RANDOM % 12000))
    cat >"$s/slurm.conf" <<END
ClusterName=vlt
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$s/munge,cred_expire=5
CredType=cred/munge
StateSaveLocation=$s/state
SlurmdSpoolDir=$s/spool.%n
TmpFS=$s/tmp.%n
SlurmctldPidFile=$s/ctld.pid
SlurmdPidFile=$s/%n.pid
SlurmctldLogFile=$s/ctld.log
SlurmdLogFile=$s/%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiDefault=none
ReturnToService=2
KillWait=30
OverTimeLimit=0
NodeName=n[1-$nodes] NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + nodes))] CPUs=2 RealMemory=1000
PartitionName=low Nodes=ALL Default=YES State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=60
PartitionName=high Nodes=ALL State=UP PriorityTier=9 PreemptMode=OFF
END
}

slurm_end()
{
    status=$?
    trap - ERR
    timeout 5 scancel -Q --signal=KILL --full --user="$(id -un)" 2>/dev/null
    timeout 5 scancel -Q --user="$(id -un)" 2>/dev/null
    kill -TERM "${slurm_pids[@]}" 2>/dev/null
    sleep 1
    kill -KILL "${slurm_pids[@]}" 2>/dev/null
    wait "${slurm_pids[@]}" 2>/dev/null
}

job_state() { scontrol show job -o "$1" 2>/dev/null | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'; }
job_until()
{
    local from=$SECONDS
    until [[ $(job_state "$1") =~ ^($2)$ ]]; do
        sleep 0.2
        ((SECONDS - from < 300)) || { wrong "job $1 is $(job_state "$1"), not $2"; return; }
    done
}
holds_soon()
{
    local from=$SECONDS
    until grep -qs -e "$2" "$1"; do
        sleep 0.2
        ((SECONDS - from < 300)) || { wrong "$1: no \"$2\" in: $(tail -n 20 "$1")"; return; }
    done
}

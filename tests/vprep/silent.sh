#!/usr/bin/env bash
# One rank of mpirun vprep is stopped (SIGSTOP) while clips are encoded: the others end their work,
# name it and end after --comm_timeout, and the same command continues to the same dataset. So they
# do if it holds the lock of the manifest, or if a process that is no rank holds that lock.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
have_ranks || { echo "skipped: no MPI"; exit 77; }

small_set "$dir/media" 24
flags=(--meta "$dir/media/metadata.json" "${sampling[@]}" --video_sample_size 384 \
    --image_sample_size 384 --workers 1)
need vprep "${flags[@]}" --out whole
for who in 1 0; do
    rm -rf cut pid.*
    "$lib/ranks.sh" 3 bash -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK; exec "$@"' - \
        vprep "${flags[@]}" --out cut --comm_timeout 6 >"$log" 2>&1 &
    job=$!
    from=$SECONDS
    until ls cut 2>/dev/null | grep -q "^shard-open-0000$who" || ((SECONDS - from > 300)); do
        kill -0 $job 2>/dev/null || break
        sleep 0.05
    done
    kill -STOP "$(cat pid.$who)"
    from=$SECONDS status=0
    while kill -0 $job 2>/dev/null && ((SECONDS - from < 300)); do sleep 0.1; done
    ! kill -0 $job 2>/dev/null || { wrong "still runs"; kill -9 $(cat pid.*) $job; }
    wait $job || status=$?
    [ $status = 1 ] || wrong "rank $who: status $status"
    output_has \
        "warning: rank $who (.*, process $(cat pid.$who); .*) has not answered for .*the run \
ends after 6.0 s (--comm_timeout)"
    output_has \
        "vprep: .*rank $who (.*) has not answered for .*; the same command continues from here"
    [ "$(grep -c 'the same command continues' "$log")" = 1 ] || wrong "several ranks report"
    gone "rank $who" pid.*
    check "continued" 0 "$lib/ranks.sh" 2 vprep "${flags[@]}" --out cut
    check "damage" 0 vlat verify cut
    same_values whole cut
    same_root whole cut
done

# ---- the lock; small clips, so that each rank comes to it soon ----
flags=(--meta "$dir/media/metadata.json" "${sampling[@]}" --workers 1)
need vprep "${flags[@]}" --out small
begin()
{
    rm -rf cut pid.*
    "$lib/ranks.sh" 2 bash -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK
        rule=RULE$OMPI_COMM_WORLD_RANK
        [ -z "${!rule}" ] ||
            export LD_PRELOAD=$VLT_FAULT_LIB${LD_PRELOAD:+:$LD_PRELOAD} VLT_FAULT=${!rule}
        exec "$@"' - vprep "${flags[@]}" --shard_seconds 0.00001 --out cut --comm_timeout 20 \
        >"$log" 2>&1 &
    job=$!
}
# stopped RANK: waits until the rank is stopped.
stopped()
{
    local from=$SECONDS
    until [ -s "pid.$1" ] && [ "$(ps -o s= -p "$(cat "pid.$1")")" = T ]; do
        ((SECONDS - from < 300)) || { wrong "rank $1 does not stop"; kill -9 $(cat pid.*) $job;
            break; }
        sleep 0.02
    done
}
ends()
{
    local from=$SECONDS status=0
    while kill -0 $job 2>/dev/null && ((SECONDS - from < 300)); do sleep 0.1; done
    ! kill -0 $job 2>/dev/null || { wrong "still runs"; kill -9 $(cat pid.*) $job; }
    wait $job || status=$?
    [ $status = 1 ] || wrong "status $status"
}
continued()
{
    check "continued" 0 "$lib/ranks.sh" 2 vprep "${flags[@]}" --out cut
    check "damage" 0 vlat verify cut
    same_root small cut
}
# Rank 0 stops before its first shard, and goes on once rank 1 has stopped with the lock.
export RULE0=open@shard-open-00000:1:stop RULE1=rename@manifest.json:2:stop
begin
stopped 0
stopped 1
kill -CONT "$(cat pid.0)"
ends
output_has \
    "warning: .*manifest.lock: locked by another process for .*vprep.*(process $(cat pid.1), \
which is stopped); the wait ends after 25 s"
output_has "vprep: .*rank 1 (.*) has not answered for .*; the same command continues from here"
continued
# Rank 0 stops before it asks for the lock again, and goes on once the other process has the lock.
RULE0=flock@manifest.lock:2:stop RULE1=
begin
stopped 0
flock cut/manifest.lock bash -c ': >held; exec sleep 100' &
holder=$!
until [ -e held ]; do sleep 0.02; kill -0 $holder || { wrong "no lock"; break; }; done
kill -CONT "$(cat pid.0)"
ends
output_has \
    "vprep: .*manifest.lock: another process has locked it for .* s: .* (process [0-9]*): let it"
kill $(pgrep -P $holder) $holder
wait $holder || :
continued

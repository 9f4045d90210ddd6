#!/usr/bin/env bash
# One rank of mpirun vprep is stopped (SIGSTOP) while clips are encoded: the others end their work,
# name it and end after --comm_timeout, and the same command continues to the same dataset.
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
    until ls cut 2>/dev/null | grep -q "^shard-open-0000$who" || ((SECONDS - from > 120)); do
        kill -0 $job 2>/dev/null || break
        sleep 0.05
    done
    kill -STOP "$(cat pid.$who)"
    from=$SECONDS status=0
    while kill -0 $job 2>/dev/null && ((SECONDS - from < 150)); do sleep 0.1; done
    ! kill -0 $job 2>/dev/null || { wrong "still runs"; kill -9 $(cat pid.*) $job; }
    wait $job || status=$?
    [ $status = 1 ] || wrong "rank $who: status $status"
    output_has "warning: rank $who (.*, process $(cat pid.$who); .*) has not answered for .*the run \
ends after 6.0 s (--comm_timeout)"
    output_has "vprep: .*rank $who (.*) has not answered for .*; the same command continues from here"
    [ "$(grep -c 'the same command continues' "$log")" = 1 ] || wrong "several ranks report"
    for pid in pid.*; do [ -z "$(pgrep -r D,R,S,T -F $pid)" ] || wrong "$pid lives"; done
    check "continued" 0 "$lib/ranks.sh" 2 vprep "${flags[@]}" --out cut
    check "damage" 0 vlat verify cut
    same_values whole cut
    same_root whole cut
done

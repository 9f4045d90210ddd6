#!/usr/bin/env bash
# One rank of mpirun vprep is killed at a random moment: the job ends, its written values are
# intact, and any number of ranks continues, encodes none of these values again, and ends with the
# dataset of an uninterrupted run.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
have_ranks || { echo "skipped: no MPI"; exit 77; }
kills=${VLT_KILLS:-8}

clips=24
small_set "$dir/media" $clips
flags=(--meta "$dir/media/metadata.json" "${sampling[@]}" --video_sample_size 384 \
    --image_sample_size 384)
begin=$(date +%s%N)
vprep "${flags[@]}" --out "$dir/whole" --workers 1 >/dev/null 2>&1
took=$((($(date +%s%N) - begin) / 1000000))
# run N OUT: runs N ranks; each clip fills a shard, or all clips are committed to open shards
run() {
    if (($1 == 1)); then
        exec vprep "${flags[@]}" "${shards[@]}" --out "$2" --workers 1
    else
        exec "$lib/ranks.sh" "$1" vprep "${flags[@]}" "${shards[@]}" --out "$2" --workers 1
    fi
}
again()
{
    (run "$@") &
    ended $!
}
patience=${VLT_PATIENCE:-300}                        # seconds that a job has
ranks_of() { pgrep -r D,R,S,T -P "$1" || true; }                # none is no failure
# waits_of PID: the call of the kernel in which each thread is
waits_of()
{
    local task
    for task in "/proc/$1/task/"*; do
        echo "$task: $(cat "$task/comm" "$task/wchan" "$task/syscall" 2>&1 | tr '\n' ' ')"
    done
    ! command -v gdb >/dev/null || gdb -p "$1" -batch -ex 'thread apply all bt' 2>&1
}
# ended JOB: the status of a job, which is killed when it hangs. That is a failure, unless mpirun
# alone is left, which has then missed the end of its ranks.
ended()
{
    local job=$1 from=$SECONDS pid
    while kill -0 "$job" 2>/dev/null && ((SECONDS - from < patience)); do sleep 0.02; done
    if kill -0 "$job" 2>/dev/null; then
        [ "$(ps -o comm= -p "$job")" = mpirun ] && [ -z "$(ranks_of "$job")" ] ||
            wrong "hangs: $(ps -o pid=,args= -p "$job" --ppid "$job")"
        {
            tail -n 4 "$log" "$stdout" "$stderr"
            for pid in "$job" $(ranks_of "$job"); do waits_of "$pid"; done
        } >&2
        kill -9 $(ranks_of "$job") "$job"
    fi
    wait "$job"
}
# latents OUT: the number of latents in OUT; a file that was just created holds none
latents() {
    local file
    for file in "$1"/shard-*; do
        rm -rf "$dir/look" && mkdir "$dir/look"
        [ ! -e "$file" ] || ln "$file" "$dir/look/"
        dump_dataset "$dir/look" 2>/dev/null || true
    done | awk '$1 == "latent" { print $2 }' | sort -u | wc -l
}

RANDOM=7
killed=0 landed=0
for ((attempt = 0; killed < kills && attempt < 20 * kills; attempt++)); do
    shards=(--shard_seconds $((attempt % 2)).00001)
    n=$((2 + RANDOM % 3))
    run $n "$dir/cut" >"$log" 2>&1 &
    job=$!
    # One job in four is killed at any moment, the others while clips are written.
    from=$SECONDS
    while kill -0 $job 2>/dev/null && ((SECONDS - from < patience)); do
        ((attempt % 4 < 3)) || [ -z "$(ranks_of $job)" ] || break
        ! ls "$dir/cut" 2>/dev/null | grep -q '^shard-open' || break
        sleep 0.02
    done
    wait_ms=$((RANDOM % (took + 1)))
    ((attempt % 4 == 3)) || wait_ms=$((wait_ms / n))
    sleep "$((wait_ms / 1000)).$(printf '%03d' $((wait_ms % 1000)))"
    mapfile -t ranks < <(ranks_of $job)
    if ((${#ranks[@]} == n)) && kill -9 "${ranks[RANDOM % n]}" 2>/dev/null && ! ended $job; then
        killed=$((killed + 1))
    else
        ended $job || wrong "a job failed without a kill"
        took=$((took * 9 / 10))
        rm -rf "$dir/cut"
        continue
    fi
    had=0
    [ ! -e "$dir/cut/manifest.json" ] || had=$(latents "$dir/cut")
    landed=$((landed + (had > 0 && had < clips)))
    ((RANDOM % 3)) || continue                       # the next job continues this dataset
    check "continued" 0 again $((1 + RANDOM % 4)) "$dir/cut"
    output_has " $((clips - had)) encoded, $had reused"
    check "damage" 0 vlat verify "$dir/cut"
    same_values "$dir/whole" "$dir/cut"
    same_root "$dir/whole" "$dir/cut"
    ! ls "$dir/cut" | grep -q 'open\|manifest.lock' || wrong "a shard or a lock is left open"
    rm -rf "$dir/cut"
done
echo "$killed jobs lost a rank in $attempt attempts, $landed of them while clips were written"
[ "$killed" -eq "$kills" ]

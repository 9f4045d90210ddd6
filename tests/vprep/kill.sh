#!/usr/bin/env bash
# A vprep that is killed at random moments and started again ends with the dataset of an
# uninterrupted run.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
kills=${VLT_KILLS:-30}

small_set "$dir/media" 24
run() { vprep --meta "$dir/media/metadata.json" "${sampling[@]}" --shard_size 1M --out "$1" \
    --quiet; }
begin=$(date +%s%N)
run "$dir/whole" >/dev/null
took=$((($(date +%s%N) - begin) / 1000000))
echo "an uninterrupted run takes $took ms"

# The test runs vprep until the number of kills is reached. A run that ends before the kill does not
# count, and shortens the next wait, so that the result is the same on slow and on fast machines.
finish() {
    run "$dir/cut" >/dev/null
    vlat verify "$dir/cut" >/dev/null
    same_values "$dir/whole" "$dir/cut"
    rm -rf "$dir/cut"
}
RANDOM=1
killed=0 most=$took
for ((attempt = 0; killed < kills && attempt < 20 * kills; attempt++)); do
    (exec vprep --meta "$dir/media/metadata.json" "${sampling[@]}" --shard_size 1M \
        --out "$dir/cut" --quiet) >/dev/null 2>&1 &
    pid=$!
    wait_ms=$((RANDOM % (most + 1)))
    sleep "$((wait_ms / 1000)).$(printf '%03d' $((wait_ms % 1000)))"
    if kill -9 $pid 2>/dev/null; then
        wait $pid 2>/dev/null || true
        killed=$((killed + 1))
        ((killed % 5)) || finish             # five kills, then a run to the end is compared
    else
        wait $pid
        most=$((most > 20 ? most * 9 / 10 : most))
        finish
    fi
done
echo "$killed runs were killed in $attempt attempts; every restart gave the same dataset"
[ "$killed" -eq "$kills" ]

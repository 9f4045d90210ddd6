#!/usr/bin/env bash
# A vprep that is killed at random moments and started again ends with the dataset of an
# uninterrupted run, and with its shard files, byte for byte.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
kills=${VLT_KILLS:-30}

small_set "$dir/media" 24
flags=(--meta "$dir/media/metadata.json" --video_sample_size 256 --video_sample_n_frames 9
    --video_sample_stride 1 --random_hw_adapt --variants 4 --thumbnails 64 --shard_size 1M --quiet)
run() { vprep "${flags[@]}" --out "$@"; }
begin=$(date +%s%N)
run "$dir/whole" >/dev/null
[ -e "$dir/whole/shard-00002.lmdb" ] || wrong "fewer than three shards"
took=$((($(date +%s%N) - begin) / 1000000))
echo "an uninterrupted run takes $took ms"
for workers in 1 7; do
    run "$dir/by-$workers" --workers $workers >/dev/null
    same_files "$dir/whole" "$dir/by-$workers"
done

# The test runs vprep until the number of kills is reached. A run that ends before the kill does not
# count, and shortens the next wait, so that the result is the same on slow and on fast machines.
finish() {
    run "$dir/cut" >/dev/null
    vlat verify "$dir/cut" >/dev/null
    same_values "$dir/whole" "$dir/cut"
    same_files "$dir/whole" "$dir/cut"
    cmp "$dir/whole/manifest.json" "$dir/cut/manifest.json"
    rm -rf "$dir/cut"
}
RANDOM=1
killed=0 most=$took
for ((attempt = 0; killed < kills && attempt < 20 * kills; attempt++)); do
    (exec vprep "${flags[@]}" --out "$dir/cut") >/dev/null 2>&1 &
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

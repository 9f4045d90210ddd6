#!/usr/bin/env bash
# vprep killed at random moments and started again ends with the same dataset as an uninterrupted run.
set -euo pipefail
. "$(dirname "$0")/media.sh"
kills=${VLT_KILLS:-30}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

small_set "$dir/media" 24
run() { "$VLT_BUILD/vprep" --meta "$dir/media/metadata.json" "${sampling[@]}" --shard_size 1M --out "$1" --quiet; }
begin=$(date +%s%N)
run "$dir/whole" >/dev/null
took=$((($(date +%s%N) - begin) / 1000000))
echo "an uninterrupted run takes $took ms"

RANDOM=1
killed=0
for ((i = 0; i < kills; i++)); do
    ((i % 6)) || rm -rf "$dir/cut"           # from the beginning, and from wherever it was
    (exec "$VLT_BUILD/vprep" --meta "$dir/media/metadata.json" "${sampling[@]}" --shard_size 1M \
        --out "$dir/cut" --quiet) >/dev/null 2>&1 &
    pid=$!
    sleep "$(printf '0.%03d' $((RANDOM % (took < 999 ? took + 1 : 999))))"
    if kill -9 $pid 2>/dev/null; then killed=$((killed + 1)); fi
    wait $pid 2>/dev/null || true
    if ((i % 6 == 5)); then
        run "$dir/cut" >/dev/null
        "$VLT_BUILD/vlat" verify "$dir/cut" >/dev/null
        same_values "$dir/whole" "$dir/cut"
    fi
done
echo "$killed of $kills runs were killed; every restart gave the same dataset"
[ "$killed" -ge $((kills / 3)) ]

#!/usr/bin/env bash
# mpirun vprep on devices: each rank of a machine takes its own, and a rank that has none ends all.
# The device "host" (device_host.h) stands for a machine's GPUs.
set -euo pipefail
. "$(dirname "$0")/../lib/media.sh"
[ "${VLT_MPI:?}" = ON ] && command -v mpirun >/dev/null || { echo "skipped: no MPI"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad() { echo "$*"; cat "$dir/log"; exit 1; }

small_set "$dir/media" 4
sampling+=(--image_sample_size 64)
"$VLT_BUILD/tests/make_model" "$dir/model" CogVideoXPipeline 32 >"$dir/log" 2>&1 || bad "no model"
run() { # run STATUS RANKS DEVICES OUT flags...
    local want=$1 n=$2 out=$4 got=0
    export VLT_HOST_DEVICES=$3
    shift 4
    "$(dirname "$0")/../lib/ranks.sh" "$n" "$VLT_BUILD/tests/vprep_host" --meta "$dir/media/metadata.json" \
        "${sampling[@]}" --model "$dir/model" --device host --out "$out" "$@" >"$dir/log" 2>&1 || got=$?
    [ "$got" -eq "$want" ] || bad "$n ranks, $VLT_HOST_DEVICES devices: status $got, not $want"
}

run 0 1 1 "$dir/one"
grep -q '^vprep: device: host: kernels of the CUDA backend' "$dir/log" || bad "it does not say what it runs on"
run 0 2 2 "$dir/two"
same_values "$dir/one" "$dir/two"
run 2 2 1 "$dir/none"
grep -q 'rank 1: device "host:1": this machine has 1' "$dir/log" || bad "not told who has no device"
[ ! -e "$dir/none" ] || bad "a refused run wrote something"
run 0 2 1 "$dir/dry" --dry_run
echo "each rank takes its device"

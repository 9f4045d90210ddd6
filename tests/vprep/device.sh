#!/usr/bin/env bash
# mpirun vprep on devices: each rank of a machine has a device of its own, and a rank without a
# device ends the job. The device "host" (device_host.h) stands for a machine's GPUs.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
have_ranks || { echo "skipped: no MPI"; exit 77; }

small_set "$dir/media" 4
sampling+=(--image_sample_size 64)
check "no model" 0 make_model "$dir/model" CogVideoXPipeline 32
run() { # run STATUS RANKS DEVICES OUT flags...
    local want=$1 n=$2 out=$4
    export VLT_HOST_DEVICES=$3
    shift 4
    check "$n ranks, $VLT_HOST_DEVICES devices" "$want" "$lib/ranks.sh" "$n" vprep_host \
        --meta "$dir/media/metadata.json" \
        "${sampling[@]}" --model "$dir/model" --device host --out "$out" "$@"
}

run 0 1 1 "$dir/one"
output_has '^vprep: device: host: kernels of the CUDA backend'
run 0 2 2 "$dir/two"
same_values "$dir/one" "$dir/two"
run 2 2 1 "$dir/none"
output_has 'rank 1: device "host:1": this machine has 1'
absent "$dir/none"
run 0 2 1 "$dir/dry" --dry_run

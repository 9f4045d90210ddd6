#!/usr/bin/env bash
# Memory that runs out at some call, of malloc and of mmap, in a short run of the built-in model: it ends
# well, with the same weights, or with a message and status 1; never by a signal.
#   tests/cli/scarce.sh EVERY     every EVERY-th call of malloc (default 997; 1: all, in hours)
set -euo pipefail
. "$(dirname "$0")/../lib/media.sh"
. "$(dirname "$0")/../lib/fault.sh"
[ "$VLT_FAULT_MEMORY" = 1 ] || { echo "skipped: a sanitizer owns the memory"; exit 77; }
every=${1:-997}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export GOMP_SPINCOUNT=1000                     # no second start, which would count anew
bad() { echo "$*"; cat "$dir/log"; exit 1; }
weights() { sha256sum <"$dir/run/checkpoint-2/transformer/diffusion_pytorch_model.safetensors"; }
train=("$VLT_BUILD/vtrain" --latents "$dir/set" --output_dir "$dir/run" --max_train_steps 2 --threads 2)

small_set "$dir/media" 4
"$VLT_BUILD/vprep" --meta "$dir/media/metadata.json" "${sampling[@]}" --quiet --out "$dir/set" >"$dir/log" 2>&1 ||
    bad "vprep"
"${train[@]}" >"$dir/log" 2>&1 || bad "vtrain"
want=$(weights)
runs=0 well=0
for kind in mmap memory; do
    rm -rf "$dir/run"
    all=$(calls_of $kind "${train[@]}")
    [ "$all" -gt 0 ] || bad "no calls of $kind"
    step=$every
    [ $kind = memory ] || step=1
    for ((n = 1; n <= all; n += step)); do
        rm -rf "$dir/run"
        s=0
        fault "$kind:$n:ENOMEM" timeout 120 "${train[@]}" >"$dir/log" 2>&1 || s=$?
        runs=$((runs + 1))
        case $s in
        0) [ "$(weights)" = "$want" ] || bad "$kind $n: other weights"; well=$((well + 1)) ;;
        1) tail -n 1 "$dir/log" | grep -q 'vtrain: \|libgomp: ' || bad "$kind $n: status 1 and no message" ;;
        *) bad "$kind $n: status $s" ;;
        esac
    done
done
[ $((runs - well)) -gt 10 ] || bad "only $((runs - well)) of $runs calls failed"
echo "scarce: passed: $runs runs, $well of them well"

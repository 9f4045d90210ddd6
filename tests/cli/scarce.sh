#!/usr/bin/env bash
# One call of malloc or of mmap fails in a short run of the built-in model: the run ends with the
# same weights, or with a message and status 1, and never by a signal.
#   tests/cli/scarce.sh EVERY     tries every EVERY-th call of malloc (default 997; 1 takes hours)
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/fault.sh"
[ "$VLT_FAULT_MEMORY" = 1 ] || { echo "skipped: a sanitizer allocates the memory"; exit 77; }
every=${1:-997}
export GOMP_SPINCOUNT=1000                     # else vtrain restarts, and counts again
weights() { sha256sum <"$dir/run/checkpoint-2/transformer/diffusion_pytorch_model.safetensors"; }
train=(vtrain --latents "$dir/set" --output_dir "$dir/run" --max_train_steps 2 --threads 2
    --dit_layers 2)

small_set "$dir/media" 4
check "vprep" 0 vprep --meta "$dir/media/metadata.json" "${sampling[@]}" --quiet --out "$dir/set"
check "vtrain" 0 "${train[@]}"
want=$(weights)
runs=0 well=0
for kind in mmap memory; do
    rm -rf "$dir/run"
    all=$(calls_of $kind "${train[@]}")
    [ "$all" -gt 0 ] || wrong "no calls of $kind"
    step=$every
    [ $kind = memory ] || step=1
    for ((n = 1; n <= all; n += step)); do
        rm -rf "$dir/run"
        s=0
        fault "$kind:$n:ENOMEM" timeout 300 "${train[@]}" >"$log" 2>&1 || s=$?
        runs=$((runs + 1))
        case $s in
        0) [ "$(weights)" = "$want" ] || wrong "$kind $n: the weights differ"; well=$((well + 1)) ;;
        1) tail -n 1 "$log" | grep -q 'vtrain: \|libgomp: ' ||
            wrong "$kind $n: status 1 without a message" ;;
        *) wrong "$kind $n: status $s" ;;
        esac
    done
done
[ $((runs - well)) -gt 10 ] || wrong "only $((runs - well)) of $runs calls failed"
echo "scarce: $runs runs, of which $well ended with status 0"

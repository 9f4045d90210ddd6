#!/usr/bin/env bash
# The system gives the programs fewer threads, smaller stacks or less memory than they request:
# their results have the bits of a run with this number of threads, or their error names the limit
# and the remedy.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/fault.sh"

small_set "$dir/media" 4
check "vprep" 0 vprep --meta "$dir/media/metadata.json" "${sampling[@]}" --quiet --out "$dir/set"

# train NAME FLAGS...: trains the built-in model for two steps.
# weights NAME: prints the hash of the weights. norm NAME: prints the last gradient norm.
train() {
    rm -rf "$dir/$1"
    vtrain --latents "$dir/set" --output_dir "$dir/$1" --max_train_steps 2 "${@:2}" >"$log" 2>&1
}
weights() { sha256sum <"$dir/$1/checkpoint-2/transformer/diffusion_pytorch_model.safetensors"; }
norm() { sed -n '$s/.*"grad_norm":\([^,]*\).*/\1/p' "$dir/$1/metrics.jsonl"; }

# ---- fewer threads than requested ----
for n in 1 2; do train $n --threads $n || wrong "--threads $n failed"; done
train plain --kernels plain || wrong "--kernels plain failed"
awk -v a="$(norm 1)" -v b="$(norm plain)" 'BEGIN { exit !(a > 0 && (a - b)^2 < (1e-4 * a)^2) }' ||
    wrong "gradient norm $(norm 1), with plain kernels $(norm plain)"
# same N TEXT: the last run printed TEXT with its device, and its weights are those of --threads N.
same() {
    output_has "device:.*$2"
    [ "$(weights run)" = "$(weights "$1")" ] || wrong "$2: other weights than with --threads $1"
}
OMP_THREAD_LIMIT=1 train run --threads 2 || wrong "OMP_THREAD_LIMIT=1 failed"
same 1 '1 thread of 2 (OMP_THREAD_LIMIT)'
OMP_DYNAMIC=true train run --threads 2 || wrong "OMP_DYNAMIC failed"
same 2 '2 threads,'
OMP_NUM_THREADS=1 train run --threads 2 || wrong "OMP_NUM_THREADS=1 and --threads 2 failed"
same 2 '2 threads,'
OMP_NUM_THREADS=2 train run || wrong "OMP_NUM_THREADS=2 failed"
same 2 '2 threads,'
OMP_NUM_THREADS=1 train run || wrong "OMP_NUM_THREADS=1 failed"
same 1 '1 thread,'
# The device's line names the oneDNN that is loaded.
dnnl=$(ldd "$(command -v vtrain)" | sed -n 's/.*libdnnl\.so\.\([0-9]*\)[. ].*/\1/p')
[ -z "$dnnl" ] || output_has "device:.*oneDNN $dnnl\.[0-9]"

# ---- threads that the system refuses ----
refused() { # refused STATUS TEXT CASE: STATUS is 1, and the log has TEXT
    [ "$1" -eq 1 ] && grep -qi -- "$2" "$log" || wrong "$3: status $1, expected 1 and \"$2\""
}
for n in 1 2 3 4; do
    s=0
    fault thread:$n:EAGAIN vtrain --latents "$dir/set" --output_dir "$dir/refused$n" --threads 2 \
        --max_train_steps 2 >"$log" 2>&1 || s=$?
    refused $s 'thread' "thread $n"
done
s=0
fault thread:2:EAGAIN vtrain --latents "$dir/set" --output_dir "$dir/refused" --threads 4 \
    --max_train_steps 2 >"$log" 2>&1 || s=$?
refused $s '4 threads are wanted.*ulimit -u' "the second of 4"

# ---- stacks: a soft limit and OMP_STACKSIZE are raised, a hard limit is an error ----
[ "$VLT_FAULT_MEMORY" = 1 ] || { echo "skipped: stacks under a sanitizer"; exit 0; }
(ulimit -Ss 160 && train run --threads 2) || wrong "a soft limit of stacks: failed"
same 2 '2 threads,'
for name in OMP_STACKSIZE GOMP_STACKSIZE; do
    for size in 32k 32 "20000 B"; do
        check "$name=$size" 0 env "$name=$size" vtrain --latents "$dir/set" \
            --output_dir "$dir/$name$size" --threads 2 \
            --max_train_steps 2
    done
done
for program in vtrain vprep vdecode; do
    s=0
    (ulimit -s 160; exec $program --version) >"$log" 2>&1 || s=$?
    refused $s "$program: stacks are limited to 160 KiB (ulimit -s) and need 1024" "a hard limit"
done

# ---- a limit of the process below the machine's memory (ulimit -v and -d, a job's h_vmem) ----
for limit in -v -d; do
    (ulimit $limit 3000000 && train run --threads 2) || wrong "ulimit $limit: training failed"
    same 2 '2 threads,'
    (ulimit $limit 3000000; exec vprep --meta "$dir/media/metadata.json" "${sampling[@]}" --quiet \
        --out "$dir/limited$limit") >"$log" 2>&1 || wrong "ulimit $limit: vprep failed"
    same_root "$dir/set" "$dir/limited$limit"
done

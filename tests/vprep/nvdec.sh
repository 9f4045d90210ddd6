#!/usr/bin/env bash
# vprep --video_decoder: nvdec without a GPU ends it at its start, and writes nothing; cpu is the default.
set -euo pipefail
. "$(dirname "$0")/../lib/media.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad() { echo "$*"; cat "$dir/log"; exit 1; }
export CUDA_VISIBLE_DEVICES=                       # where there are GPUs: none of them

small_set "$dir/media" 2
run() { # run STATUS OUT flags...
    local want=$1 out=$2 got=0
    shift 2
    "$VLT_BUILD/vprep" --meta "$dir/media/metadata.json" "${sampling[@]}" --image_sample_size 64 \
        --out "$out" "$@" >"$dir/log" 2>&1 || got=$?
    [ "$got" -eq "$want" ] || bad "$*: status $got, not $want"
}
for more in "" --dry_run; do
    # shellcheck disable=SC2086
    run 2 "$dir/none" --video_decoder nvdec $more
    grep -q '^vprep: --video_decoder nvdec: .*--video_decoder cpu' "$dir/log" || bad "no reason, no remedy"
    [ "$(grep -c nvdec "$dir/log")" = 1 ] || bad "it says so more than once"
    [ ! -e "$dir/none" ] || bad "a refused run wrote something"
done
run 2 "$dir/none" --video_decoder tpu
grep -q 'cpu' "$dir/log" || bad "not told what is possible"
run 0 "$dir/default"
run 0 "$dir/cpu" --video_decoder cpu
same_values "$dir/default" "$dir/cpu"
echo "nvdec is refused where there is none"

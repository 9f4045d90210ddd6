#!/usr/bin/env bash
# Without a GPU, vprep --video_decoder nvdec ends at its start and writes nothing; the default is
# cpu.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export CUDA_VISIBLE_DEVICES=                       # hides the machine's GPUs

small_set "$dir/media" 2
run() { # run STATUS OUT flags...
    local want=$1 out=$2
    shift 2
    check "$*" "$want" vprep --meta "$dir/media/metadata.json" "${sampling[@]}" \
        --image_sample_size 64 \
        --out "$out" "$@"
}
for more in "" --dry_run; do
    # shellcheck disable=SC2086
    run 2 "$dir/none" --video_decoder nvdec $more
    output_has '^vprep: --video_decoder nvdec: .*--video_decoder cpu'
    [ "$(grep -c nvdec "$log")" = 1 ] || wrong "the error is printed more than once"
    [ ! -e "$dir/none" ] || wrong "a refused run wrote something"
done
run 2 "$dir/none" --video_decoder tpu
output_has 'cpu'
run 0 "$dir/default"
run 0 "$dir/cpu" --video_decoder cpu
same_values "$dir/default" "$dir/cpu"

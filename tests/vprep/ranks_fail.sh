#!/usr/bin/env bash
# mpirun vprep with a call that fails in one of two ranks, in each stage: the job ends with status 1
# and names the cause, and no rank waits for another one. The same command then ends with the
# dataset of an undisturbed run.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/fault.sh"
have_ranks || { echo "skipped: no MPI"; exit 77; }

small_set "$dir/media" 6
printf '[{"prompt": "a validation prompt"}]' >"$dir/prompts.json"
flags=("${sampling[@]}" --meta "$dir/media/metadata.json" --validation_prompts "$dir/prompts.json")
check 'one process' 0 vprep "${flags[@]}" --out "$dir/whole"
one_rank='rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-0}}
    [ "$1" != "$rank" ] || export LD_PRELOAD=$VLT_FAULT_LIB VLT_FAULT=$2; shift 2; exec "$@"'
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"
while read -r rank rule; do
    rm -rf "$dir/out"
    check "rank $rank: $rule" 1 timeout -k 1 120 "$lib/ranks.sh" 2 bash -c "$one_rank" - $rank \
        "$rule" \
        vprep "${flags[@]}" --out "$dir/out"
    output_has '^vprep: '
    not_done "$dir/out"
    check "rank $rank: $rule: again" 0 "$lib/ranks.sh" 2 vprep "${flags[@]}" --out "$dir/out"
    same_root "$dir/whole" "$dir/out"
done <<'TABLE'
0 open@metadata.json:1:EIO
1 open@metadata.json:1:EIO
0 open@prompts.json:1:EIO
0 space:1+:ENOSPC
0 mkdir@out:1:EACCES
0 flock@out:1:EIO
0 open@plan.jsonl:1:EIO
0 write@vprep.yaml:1:ENOSPC
1 open@out/shard:1:EIO
1 write@out/shard:1:ENOSPC
0 rename@manifest.json:1:EIO
TABLE

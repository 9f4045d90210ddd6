#!/usr/bin/env bash
# mpirun vprep on a disk that fills up: who meets it says what and where, the job ends, what was committed is intact, and
# once there is room any number of ranks goes on in it and ends with the dataset of an undisturbed run.
set -euo pipefail
. "$(dirname "$0")/../lib/media.sh"
[ "${VLT_MPI:?}" = ON ] && command -v mpirun >/dev/null || { echo "skipped: no MPI"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad() { echo "$*"; cat "$dir/log"; exit 1; }
root() { sed -n 's/.*"root": "\([0-9a-f]*\)".*/\1/p' "$1/manifest.json"; }
clips=12
small_set "$dir/media" $clips
list=$dir/media/metadata.json
sed -n '1,8p' "$list" | sed '$ s/,$//' >"$dir/media/some.json" && echo ']' >>"$dir/media/some.json"
flags=("${sampling[@]}" --video_sample_size 384 --image_sample_size 384 --workers 1)
"$VLT_BUILD/vprep" "${flags[@]}" --meta "$list" --out "$dir/whole" >"$dir/log" 2>&1 || bad "one process"
"$VLT_BUILD/vprep" "${flags[@]}" --meta "$dir/media/some.json" --out "$dir/some" >"$dir/log" 2>&1 || bad "a part"
some=$("$VLT_BUILD/vlat" list "$dir/some" | wc -l)
flags+=(--meta "$list")

# Files that may not grow past so many KiB stand for the disk: of one rank, or (all) of every rank. What MPI shares memory by
# is larger, so it goes by sockets.
export OMPI_MCA_btl=self,tcp
limited='[ "$1" != all ] && [ "$1" != "${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-0}}" ] || ulimit -f "$2"; shift 2; exec "$@"'
for row in "2 1 96" "4 all 1100" "4 2 1100" "2 0 40"; do
    read -r n rank kib <<<"$row"
    status=0
    rm -rf "$dir/cut" && cp -r "$dir/some" "$dir/cut"
    "$(dirname "$0")/../lib/ranks.sh" $n bash -c "$limited" - $rank $kib "$VLT_BUILD/vprep" "${flags[@]}" --out "$dir/cut" \
        >"$dir/log" 2>&1 || status=$?
    [ $status -eq 1 ] || bad "$row: status $status"
    grep -q "^vprep: rank [0-9]*: $dir/cut.*File too large.*make room" "$dir/log" || bad "$row: not told"
    "$VLT_BUILD/vlat" verify "$dir/cut" >"$dir/log" 2>&1 || bad "$row: damage"
    for again in 0 3; do
        start=()
        ((again == 0)) || start=("$(dirname "$0")/../lib/ranks.sh" $again)
        rm -rf "$dir/copy" && cp -r "$dir/cut" "$dir/copy"
        "${start[@]}" "$VLT_BUILD/vprep" "${flags[@]}" --out "$dir/copy" >"$dir/log" 2>&1 || bad "$row: $again ranks"
        ! grep -q " $clips encoded" "$dir/log" && grep -q ' [1-9][0-9]* reused' "$dir/log" || bad "$row: encoded again"
        [ "$(root "$dir/whole")" = "$(root "$dir/copy")" ] || bad "$row: another root"
        same_values "$dir/whole" "$dir/copy"
    done
done
echo "four full disks, each gone on with by one process and by three ranks; $some of $clips clips were there before"

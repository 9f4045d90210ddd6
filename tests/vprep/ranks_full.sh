#!/usr/bin/env bash
# mpirun vprep on a disk that becomes full: the rank whose write fails names the error and the file,
# the job ends, and committed values are intact. Once there is room, any number of ranks continues
# and ends with the dataset of an undisturbed run.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
have_ranks || { echo "skipped: no MPI"; exit 77; }
clips=12
small_set "$dir/media" $clips
list=$dir/media/metadata.json
sed -n '1,8p' "$list" | sed '$ s/,$//' >"$dir/media/some.json" && echo ']' >>"$dir/media/some.json"
flags=("${sampling[@]}" --video_sample_size 384 --image_sample_size 384 --workers 1)
check "one process" 0 vprep "${flags[@]}" --meta "$list" --out "$dir/whole"
check "a part" 0 vprep "${flags[@]}" --meta "$dir/media/some.json" --out "$dir/some"
some=$(vlat list "$dir/some" | wc -l)
flags+=(--meta "$list")

# A limit of file sizes in KiB, for one rank or for all, replaces the full disk. MPI's shared memory
# exceeds this limit, so messages are sent by sockets.
export OMPI_MCA_btl=self,tcp
limited='[ "$1" != all ] && [ "$1" != "${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-0}}" ] || ulimit -f "$2"
    shift 2; exec "$@"'
for row in "2 1 96" "4 all 1100" "4 2 1100" "2 0 40"; do
    read -r n rank kib <<<"$row"
    rm -rf "$dir/cut" && cp -r "$dir/some" "$dir/cut"
    check "$row" 1 "$lib/ranks.sh" $n bash -c "$limited" - $rank $kib vprep "${flags[@]}" \
        --out "$dir/cut" \
       
    output_has "^vprep: rank [0-9]*: $dir/cut.*File too large.*raise the limit"
    check "$row: damage" 0 vlat verify "$dir/cut"
    for again in 0 3; do
        start=()
        ((again == 0)) || start=("$lib/ranks.sh" $again)
        rm -rf "$dir/copy" && cp -r "$dir/cut" "$dir/copy"
        check "$row: $again ranks" 0 "${start[@]}" vprep "${flags[@]}" --out "$dir/copy"
        ! grep -q " $clips encoded" "$log" && grep -q ' [1-9][0-9]* reused' "$log" ||
            wrong "$row: encoded again"
        same_root "$dir/whole" "$dir/copy"
        same_values "$dir/whole" "$dir/copy"
    done
done
echo "four full disks, each run continued by one process and by three ranks;" \
    "$some of $clips clips were kept"

#!/usr/bin/env bash
# Sources that the machine does not give say nothing of what they hold: what the dataset has of them stays, under
# its number, and where most are gone vprep stops and asks before it changes anything.
set -euo pipefail
. "$(dirname "$0")/../lib/media.sh"
. "$(dirname "$0")/../lib/fault.sh"
vprep=$VLT_BUILD/vprep vlat=$VLT_BUILD/vlat
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad() { echo "$*"; cat "$dir/log"; exit 1; }
root() { sed -n 's/.*"root": "\([0-9a-f]*\)".*/\1/p' "$1/manifest.json"; }
says() { grep -q -- "$1" "$dir/log" || bad "expected \"$1\""; }
# run WHAT STATUS COMMAND...
run() {
    local what=$1 want=$2 got=0
    shift 2
    "$@" >"$dir/log" 2>&1 || got=$?
    [ "$got" -eq "$want" ] || bad "$what: status $got, expected $want"
}
same() { # same OUT WHAT: equal to the dataset that was never disturbed, root and all
    same_values "$dir/whole" "$1" || bad "$2: other values"
    [ "$(root "$dir/whole")" = "$(root "$1")" ] || bad "$2: another root"
    "$vlat" verify "$1" >"$dir/log" 2>&1 || bad "$2: damage"
    cmp "$dir/whole/plan.jsonl" "$1/plan.jsonl" || bad "$2: another plan"
}
same_root() { [ "$(root "$dir/whole")" = "$(root "$1")" ] || bad "$2: another root"; }

small_set "$dir/media" 9
list=$dir/media/metadata.json
make=("$vprep" --meta "$list" "${sampling[@]}")
hide() { for f in "$@"; do mv "$dir/media/$f" "$dir/media/$f.away"; done; }
show() { for f in "$@"; do mv "$dir/media/$f.away" "$dir/media/$f"; done; }
clear_line() { # the plan of a run that could not use a row still has a line with its number
    grep -q "\"path\":\"$2\".*\"status\":\"drop\"" "$1/plan.jsonl" || bad "the plan has no line of $2"
}
run whole 0 "${make[@]}" --out "$dir/whole"

# ---- missing when the dataset is made: skipped, and given its own number when it is there ----
hide clip-1.mp4 still-3.png
run "two missing" 3 "${make[@]}" --out "$dir/late"
clear_line "$dir/late" clip-1.mp4
show still-3.png
run "one missing" 3 "${make[@]}" --out "$dir/late"
show clip-1.mp4
run "none missing" 0 "${make[@]}" --out "$dir/late"
same "$dir/late" "late ones"

# ---- gone later: the samples stay, and nothing is encoded when it is back ----
cp -r "$dir/whole" "$dir/a"
hide clip-1.mp4 still-3.png
run gone 3 "${make[@]}" --out "$dir/a"
says '2 samples stay as they are' && says 'drop 0' && says ' 0 gone'
same_root "$dir/a" "sources gone"
run "gone, dry" 3 "${make[@]}" --out "$dir/a" --dry_run && says 'drop 0'
run "gone, append" 3 "${make[@]}" --out "$dir/a" --append
same_root "$dir/a" "sources gone, appended"
run "gone, stop" 1 "${make[@]}" --out "$dir/a" --on_error stop
run "gone, reuse" 3 "${make[@]}" --out "$dir/r" --reuse "$dir/whole"
show clip-1.mp4 still-3.png
run back 0 "${make[@]}" --out "$dir/a" && says ' 0 encoded, 9 reused'
same "$dir/a" "sources back"
run "back, reuse" 0 "${make[@]}" --out "$dir/r" --reuse "$dir/whole" && says ' 0 encoded, 9 reused'
same "$dir/r" "sources back, reused"

# ---- the machine's errors, at every call on the file: not the file's ----
for error in EIO EACCES; do
    for call in open read; do
        for n in 1 1+ 2 3 3+; do
            status=0
            fault "$call@clip-2.mp4:$n:$error" "${make[@]}" --out "$dir/a" --rehash >"$dir/log" 2>&1 || status=$?
            [ $status = 3 ] || [ $status = 0 ] || bad "$call $n $error: status $status"
            same_root "$dir/a" "$call $n $error"
            status=0
            rm -rf "$dir/new"
            fault "$call@clip-2.mp4:$n:$error" "${make[@]}" --out "$dir/new" >"$dir/log" 2>&1 || status=$?
            [ $status = 3 ] || [ $status = 0 ] || bad "$call $n $error: status $status"
            [ $status = 0 ] || run "$call $n $error" 0 "${make[@]}" --out "$dir/new"
            same "$dir/new" "$call $n $error, new"
        done
    done
done
for error in EMFILE ENOMEM; do           # the process's want: it stops
    status=0
    fault "open@clip-2.mp4:1+:$error" "${make[@]}" --out "$dir/a" --rehash >"$dir/log" 2>&1 || status=$?
    [ $status = 1 ] || bad "$error: status $status"
    run "after $error" 0 "${make[@]}" --out "$dir/a"
    same "$dir/a" "$error"
done
# a file that changed, and cannot be decoded: the old sample stays till it can
cp "$dir/media/clip-2.mp4" "$dir/kept.mp4"
cp "$dir/media/clip-4.mp4" "$dir/media/clip-2.mp4"
fault "open@clip-2.mp4:3:EIO" "${make[@]}" --out "$dir/a" >"$dir/log" 2>&1 && bad "no error"
says '1 samples stay as they were'
same_root "$dir/a" "a changed file, lost"
cp "$dir/kept.mp4" "$dir/media/clip-2.mp4"
run "as it was" 0 "${make[@]}" --out "$dir/a"
same "$dir/a" "as it was"

# ---- most of them gone: asked before anything is changed ----
most=(clip-0.mp4 clip-1.mp4 clip-2.mp4 still-3.png clip-4.mp4)
hide "${most[@]}"
cp -r "$dir/a" "$dir/b"
for how in "" --append --overwrite --rehash; do
    run "most gone $how" 1 "${make[@]}" --out "$dir/b" $how
    says "5 of 9 sources of the list cannot be read (clip-0.mp4, clip-1.mp4, clip-2.mp4, ...), all in $dir/media/" && says allow_missing
    same "$dir/b" "most gone $how"
done
run "most gone, new" 1 "${make[@]}" --out "$dir/none"
[ ! -e "$dir/none/manifest.json" ] || bad "most gone: a dataset was made"
run "most gone, allowed" 3 "${make[@]}" --out "$dir/b" --allow_missing
says '5 samples stay'
same_root "$dir/b" "most gone, allowed"
run "in place" 1 "${make[@]}" --out "$dir/b" --reuse "$dir/b"
show "${most[@]}"
hide clip-1.mp4
run "one gone, in place" 1 "${make[@]}" --video_sample_size 48 --out "$dir/b" --reuse "$dir/b" && says 'changed in place'
show clip-1.mp4
run "all back" 0 "${make[@]}" --out "$dir/b"
same "$dir/b" "all back"
# a list that has grown, while the old sources are not there
hide clip-0.mp4 clip-1.mp4
sed -n '1p;/clip-0/p;/clip-1/p' "$list" | sed '/clip-1/s/ *$//; $s/,$//' >"$dir/media/two.json"
printf '[{"file_path": "clip-0.mp4", "type": "video", "text": "a"}, {"file_path": "clip-1.mp4", "type": "video", "text": "b"}]' >"$dir/media/two.json"
show clip-0.mp4 clip-1.mp4
run two 0 "$vprep" --meta "$dir/media/two.json" "${sampling[@]}" --out "$dir/two"
hide clip-0.mp4 clip-1.mp4
run "all it has gone" 1 "${make[@]}" --out "$dir/two" && says "2 of 2 sources of the dataset's samples"
show clip-0.mp4 clip-1.mp4

# ---- parts of the list, ranks, a kill ----
for i in 1 2; do run "part $i" 0 "${make[@]}" --out "$dir/part-$i" --shard $i/2; done
hide clip-1.mp4
for i in 1 2; do
    status=0
    "${make[@]}" --out "$dir/part-$i" --shard $i/2 >"$dir/log" 2>&1 || status=$?
    [ $status = 0 ] || [ $status = 3 ] || bad "part $i: status $status"
done
"$vlat" merge "$dir/part-1" "$dir/part-2" --out "$dir/merged" >"$dir/log" 2>&1 || bad merge
same_root "$dir/merged" "parts, a source gone"
status=0
fault "write@lmdb:4:kill" "${make[@]}" --out "$dir/killed" >"$dir/log" 2>&1 || status=$?
[ $status -gt 100 ] || bad "not killed: $status"
run "after a kill, one gone" 3 "${make[@]}" --out "$dir/killed"
if [ "${VLT_MPI:-OFF}" = ON ] && command -v mpirun >/dev/null; then
    cp -r "$dir/whole" "$dir/ranks"
    run "ranks, one gone" 3 "$(dirname "$0")/../lib/ranks.sh" 2 "${make[@]}" --out "$dir/ranks"
    says '1 samples stay'
    same_root "$dir/ranks" "ranks, a source gone"
    run "ranks, new" 3 "$(dirname "$0")/../lib/ranks.sh" 2 "${make[@]}" --out "$dir/ranks-new"
    hide "${most[@]:2}" clip-0.mp4
    run "ranks, most gone" 1 "$(dirname "$0")/../lib/ranks.sh" 2 "${make[@]}" --out "$dir/ranks" && says 'sources of the list'
    show "${most[@]:2}" clip-0.mp4
fi
show clip-1.mp4
run "after a kill" 0 "${make[@]}" --out "$dir/killed"
same "$dir/killed" "after a kill"
if [ -d "$dir/ranks" ]; then
    run "ranks, back" 0 "$(dirname "$0")/../lib/ranks.sh" 2 "${make[@]}" --out "$dir/ranks"
    same "$dir/ranks" "ranks, back"
    run "ranks, new, back" 0 "$(dirname "$0")/../lib/ranks.sh" 2 "${make[@]}" --out "$dir/ranks-new"
    same "$dir/ranks-new" "ranks, new, back"
fi

# ---- a folder as the list: what cannot be looked into is kept, what is not there any more is asked about ----
mkdir -p "$dir/folder/sub"
cp "$dir/media/clip-0.mp4" "$dir/media/clip-1.mp4" "$dir/folder/"
cp "$dir/media/clip-2.mp4" "$dir/media/clip-4.mp4" "$dir/folder/sub/"
for clip in clip-0 clip-1 sub/clip-2 sub/clip-4; do echo "a caption" >"$dir/folder/$clip.txt"; done
make=("$vprep" --meta "$dir/folder" "${sampling[@]}")
rm -rf "$dir/whole"
run folder 0 "${make[@]}" --out "$dir/whole"
cp -r "$dir/whole" "$dir/f"
for where in open@folder/sub open@sub/clip-2.txt; do
    status=0
    fault "$where:1:EACCES" "${make[@]}" --out "$dir/f" >"$dir/log" 2>&1 || status=$?
    [ $status = 3 ] || bad "$where: status $status"
    says 'samples\? stay'
    same_root "$dir/f" "$where"
done
fault "open@folder/sub:1:EACCES" "${make[@]}" --out "$dir/f2" >"$dir/log" 2>&1 && bad "an unreadable subfolder: status 0"
grep -q '"path":"sub/","stage":"metadata"' "$dir/f2/errors.jsonl" || bad "the subfolder is not in errors.jsonl"
mv "$dir/folder/sub" "$dir/sub.away"
mv "$dir/folder/clip-1.mp4" "$dir/sub.away/"
mkdir "$dir/folder/sub"
run "an empty mount" 1 "${make[@]}" --out "$dir/f" && says "3 of 4 sources of the dataset's samples"
mv "$dir/sub.away/clip-1.mp4" "$dir/folder/"
rmdir "$dir/folder/sub" && mv "$dir/sub.away" "$dir/folder/sub"
run "mounted" 0 "${make[@]}" --out "$dir/f"
same "$dir/f" "mounted"
echo "all as expected"

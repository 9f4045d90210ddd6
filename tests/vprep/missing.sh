#!/usr/bin/env bash
# Sources that cannot be read count as unchanged: their samples stay in the dataset under their
# numbers, and where most sources are missing vprep stops before it changes anything.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/fault.sh"
same() { # same OUT WHAT: OUT equals the undisturbed dataset, its root and plan too
    same_values "$dir/whole" "$1" || wrong "$2: other values"
    same_root "$dir/whole" "$1"
    check "$2: damage" 0 vlat verify "$1"
    cmp "$dir/whole/plan.jsonl" "$1/plan.jsonl" || wrong "$2: another plan"
}

small_set "$dir/media" 9
list=$dir/media/metadata.json
make=(vprep --meta "$list" "${sampling[@]}")
hide() { for f in "$@"; do mv "$dir/media/$f" "$dir/media/$f.hidden"; done; }
show() { for f in "$@"; do mv "$dir/media/$f.hidden" "$dir/media/$f"; done; }
drop_line() { # drop_line OUT FILE: the plan has a line, with a number, of the row that was dropped
    grep -q "\"path\":\"$2\".*\"status\":\"drop\"" "$1/plan.jsonl" ||
        wrong "the plan has no line of $2"
}
check whole 0 "${make[@]}" --out "$dir/whole"

# ---- a source that is missing at first is skipped, and later gets the number of its row ----
hide clip-1.mp4 still-3.png
check "two missing" 3 "${make[@]}" --out "$dir/late"
drop_line "$dir/late" clip-1.mp4
show still-3.png
check "one missing" 3 "${make[@]}" --out "$dir/late"
show clip-1.mp4
check "none missing" 0 "${make[@]}" --out "$dir/late"
same "$dir/late" "late ones"

# ---- a source that is missing later keeps its samples, which are not encoded again ----
cp -r "$dir/whole" "$dir/a"
hide clip-1.mp4 still-3.png
check gone 3 "${make[@]}" --out "$dir/a"
output_has '2 samples stay as they are' && output_has 'drop 0' && output_has ' 0 gone'
same_root "$dir/whole" "$dir/a"
check "gone, dry" 3 "${make[@]}" --out "$dir/a" --dry_run && output_has 'drop 0'
check "gone, append" 3 "${make[@]}" --out "$dir/a" --append
same_root "$dir/whole" "$dir/a"
check "gone, stop" 1 "${make[@]}" --out "$dir/a" --on_error stop
check "gone, reuse" 3 "${make[@]}" --out "$dir/r" --reuse "$dir/whole"
show clip-1.mp4 still-3.png
check back 0 "${make[@]}" --out "$dir/a" && output_has ' 0 encoded, 9 reused'
same "$dir/a" "sources back"
check "back, reuse" 0 "${make[@]}" --out "$dir/r" --reuse "$dir/whole" &&
    output_has ' 0 encoded, 9 reused'
same "$dir/r" "sources back, reused"

# ---- an error of the machine, at any call on a file, is not an error of the file ----
for rule in open:{1,1+,2,3,3+}:EIO read:{1,1+,2,3,3+}:EIO open:{1,3+}:EACCES; do
    rule=${rule/:/@clip-2.mp4:}
    check "$rule" '0 3' fault "$rule" "${make[@]}" --out "$dir/a" --rehash
    same_root "$dir/whole" "$dir/a"
    rm -rf "$dir/new"
    check "$rule" '0 3' fault "$rule" "${make[@]}" --out "$dir/new"
    [ $status = 0 ] || check "$rule" 0 "${make[@]}" --out "$dir/new"
    same "$dir/new" "$rule, new"
done
for error in EMFILE ENOMEM; do           # vprep stops at an error of the process
    check "$error" 1 fault "open@clip-2.mp4:1+:$error" "${make[@]}" --out "$dir/a" --rehash
    check "after $error" 0 "${make[@]}" --out "$dir/a"
    same "$dir/a" "$error"
done
# A changed file that cannot be decoded keeps its old sample.
cp "$dir/media/clip-2.mp4" "$dir/kept.mp4"
cp "$dir/media/clip-4.mp4" "$dir/media/clip-2.mp4"
fault "open@clip-2.mp4:4:EIO" "${make[@]}" --out "$dir/a" >"$log" 2>&1 && wrong "no error"
output_has '1 samples stay as they were'
same_root "$dir/whole" "$dir/a"
cp "$dir/kept.mp4" "$dir/media/clip-2.mp4"
check "restored" 0 "${make[@]}" --out "$dir/a"
same "$dir/a" "restored"

# ---- most sources are missing: vprep stops before it changes anything ----
most=(clip-0.mp4 clip-1.mp4 clip-2.mp4 still-3.png clip-4.mp4)
hide "${most[@]}"
cp -r "$dir/a" "$dir/b"
for how in "" --append --overwrite --rehash; do
    check "most gone $how" 1 "${make[@]}" --out "$dir/b" $how
    output_has \
        "5 of 9 sources of the list cannot be read (clip-0.mp4, clip-1.mp4, clip-2.mp4, ...), all in $dir/media/" &&
        output_has allow_missing
    same "$dir/b" "most gone $how"
done
check "most gone, new" 1 "${make[@]}" --out "$dir/none"
absent "$dir/none/manifest.json"
check "most gone, allowed" 3 "${make[@]}" --out "$dir/b" --allow_missing
output_has '5 samples stay'
same_root "$dir/whole" "$dir/b"
check "in place" 1 "${make[@]}" --out "$dir/b" --reuse "$dir/b"
show "${most[@]}"
hide clip-1.mp4
check "one gone, in place" 1 "${make[@]}" --video_sample_size 48 --out "$dir/b" \
    --reuse "$dir/b" && output_has 'changed in place'
show clip-1.mp4
check "all back" 0 "${make[@]}" --out "$dir/b"
same "$dir/b" "all back"
# The list has grown, and its old sources are missing.
hide clip-0.mp4 clip-1.mp4
sed -n '1p;/clip-0/p;/clip-1/p' "$list" | sed '/clip-1/s/ *$//; $s/,$//' >"$dir/media/two.json"
printf '[%s, %s]' '{"file_path": "clip-0.mp4", "type": "video", "text": "a"}' \
    '{"file_path": "clip-1.mp4", "type": "video", "text": "b"}' >"$dir/media/two.json"
show clip-0.mp4 clip-1.mp4
check two 0 vprep --meta "$dir/media/two.json" "${sampling[@]}" --out "$dir/two"
hide clip-0.mp4 clip-1.mp4
check "all it has gone" 1 "${make[@]}" --out "$dir/two" &&
    output_has "2 of 2 sources of the dataset's samples"
show clip-0.mp4 clip-1.mp4

# ---- missing sources with parts of the list, with ranks, and after a kill ----
for i in 1 2; do check "part $i" 0 "${make[@]}" --out "$dir/part-$i" --shard $i/2; done
hide clip-1.mp4
for i in 1 2; do
    check "part $i" '3 0' "${make[@]}" --out "$dir/part-$i" --shard $i/2
done
check merge 0 vlat merge "$dir/part-1" "$dir/part-2" --out "$dir/merged"
same_root "$dir/whole" "$dir/merged"
status=0
fault "write@lmdb:4:kill" "${make[@]}" --out "$dir/killed" >"$log" 2>&1 || status=$?
[ $status -gt 100 ] || wrong "not killed: $status"
check "after a kill, one gone" 3 "${make[@]}" --out "$dir/killed"
if have_ranks; then
    cp -r "$dir/whole" "$dir/ranks"
    check "ranks, one gone" 3 "$lib/ranks.sh" 2 "${make[@]}" --out "$dir/ranks"
    output_has '1 samples stay'
    same_root "$dir/whole" "$dir/ranks"
    check "ranks, new" 3 "$lib/ranks.sh" 2 "${make[@]}" --out "$dir/ranks-new"
    hide "${most[@]:2}" clip-0.mp4
    check "ranks, most gone" 1 "$lib/ranks.sh" 2 "${make[@]}" --out "$dir/ranks" &&
        output_has 'sources of the list'
    show "${most[@]:2}" clip-0.mp4
fi
show clip-1.mp4
check "after a kill" 0 "${make[@]}" --out "$dir/killed"
same "$dir/killed" "after a kill"
if [ -d "$dir/ranks" ]; then
    check "ranks, back" 0 "$lib/ranks.sh" 2 "${make[@]}" --out "$dir/ranks"
    same "$dir/ranks" "ranks, back"
    check "ranks, new, back" 0 "$lib/ranks.sh" 2 "${make[@]}" --out "$dir/ranks-new"
    same "$dir/ranks-new" "ranks, new, back"
fi

# ---- a folder as the list: samples of unreadable subfolders stay; missing files stop the run ----
mkdir -p "$dir/folder/sub"
cp "$dir/media/clip-0.mp4" "$dir/media/clip-1.mp4" "$dir/folder/"
cp "$dir/media/clip-2.mp4" "$dir/media/clip-4.mp4" "$dir/folder/sub/"
for clip in clip-0 clip-1 sub/clip-2 sub/clip-4; do echo "a caption" >"$dir/folder/$clip.txt"; done
make=(vprep --meta "$dir/folder" "${sampling[@]}")
rm -rf "$dir/whole"
check folder 0 "${make[@]}" --out "$dir/whole"
cp -r "$dir/whole" "$dir/f"
for where in open@folder/sub open@sub/clip-2.txt; do
    check "$where" 3 fault "$where:1:EACCES" "${make[@]}" --out "$dir/f"
    output_has 'samples\? stay'
    same_root "$dir/whole" "$dir/f"
done
fault "open@folder/sub:1:EACCES" "${make[@]}" --out "$dir/f2" >"$log" 2>&1 &&
    wrong "an unreadable subfolder: status 0"
holds "$dir/f2/errors.jsonl" '"path":"sub/","stage":"metadata"'
mv "$dir/folder/sub" "$dir/sub.hidden"
mv "$dir/folder/clip-1.mp4" "$dir/sub.hidden/"
mkdir "$dir/folder/sub"
check "an empty mount" 1 "${make[@]}" --out "$dir/f" &&
    output_has "3 of 4 sources of the dataset's samples"
mv "$dir/sub.hidden/clip-1.mp4" "$dir/folder/"
rmdir "$dir/folder/sub" && mv "$dir/sub.hidden" "$dir/folder/sub"
check "mounted" 0 "${make[@]}" --out "$dir/f"
same "$dir/f" "mounted"

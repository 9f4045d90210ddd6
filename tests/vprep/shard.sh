#!/usr/bin/env bash
# A job array: vprep --shard i/n, a dataset a job, and vlat merge of them equals what one job makes.
set -euo pipefail
. "$(dirname "$0")/../lib/media.sh"
vprep=$VLT_BUILD/vprep vlat=$VLT_BUILD/vlat
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad() { echo "$*"; cat "$dir/log"; exit 1; }
root() { sed -n 's/.*"root": "\([0-9a-f]*\)".*/\1/p' "$1/manifest.json"; }

small_set "$dir/media" 12
# a clip that occurs again with another caption, and the same picture under two names
cp "$dir/media/still-3.png" "$dir/media/copy.png"
sed -i '$ s/\]/,{"file_path": "clip-0.mp4", "type": "video", "text": "again"},\n{"file_path": "copy.png", "text": "a copy"}]/' \
    "$dir/media/metadata.json"
printf '[{"prompt": "a validation prompt"}]' >"$dir/prompts.json"
flags=("${sampling[@]}" --variants 2 --validation_prompts "$dir/prompts.json")
run() { "$vprep" --meta "$1" "${flags[@]}" --quiet --out "${@:2}" >"$dir/log" 2>&1; }
list=$dir/media/metadata.json

for wrong in 0/2 3/2 1/0 1 1/ /2 1/2x a/b -1/2 1/100001 1/2/3; do
    status=0
    run "$list" "$dir/none" --shard "$wrong" || status=$?
    { [ $status -eq 2 ] && grep -q -- "--shard $wrong: .*i/n" "$dir/log"; } || bad "--shard $wrong: status $status"
done
[ ! -e "$dir/none" ] || bad "a refused --shard wrote something"

# join N OUT: all parts, and what they become; 1/1 is the whole
join() {
    local parts=() i
    (($1 > 1)) || { mv "$dir/1-1" "$2"; return; }
    for ((i = 1; i <= $1; i++)); do parts+=("$dir/$1-$i"); done
    "$vlat" merge "${parts[@]}" --out "$2" >"$dir/log" 2>&1 || bad "merge of $1"
}
run "$list" "$dir/whole" || bad "one job"
for n in 1 2 4; do
    for ((i = 1; i <= n; i++)); do run "$list" "$dir/$n-$i" --shard $i/$n || bad "job $i/$n"; done
    join $n "$dir/joined-$n"
    same_values "$dir/whole" "$dir/joined-$n"
    [ "$(root "$dir/whole")" = "$(root "$dir/joined-$n")" ] || bad "$n jobs: another root"
    "$vlat" diff "$dir/whole" "$dir/joined-$n" >"$dir/log" || bad "$n jobs: other samples"
    "$vlat" verify "$dir/joined-$n" >"$dir/log" || bad "$n jobs: damage"
    ! grep -q '"part"' "$dir/joined-$n/manifest.json" || bad "$n jobs: a part is left"
    [ $n = 1 ] || sort -u "$dir/$n"-*/plan.jsonl | cmp - <(sort -u "$dir/whole/plan.jsonl") || bad "$n jobs: another plan"
done
[ "$(cat "$dir"/2-*/plan.jsonl | wc -l)" -eq 28 ] || bad "a row is in two parts"

# the same job again, another job on its dataset, a part that is forgotten
"$vprep" --meta "$list" "${flags[@]}" --out "$dir/2-1" --shard 1/2 >"$dir/log" 2>&1
grep -q ' 0 encoded' "$dir/log" || bad "a job again: encodes"
! run "$list" "$dir/2-1" --shard 2/2 && grep -q 'part: "1/2" there, "2/2" now' "$dir/log" || bad "another part"
! run "$list" "$dir/2-1" && grep -q 'part: "1/2" there, nothing now' "$dir/log" || bad "no part"
"$vlat" info "$dir/2-1" | grep -q 'part 1/2' || bad "info: no part"
"$vlat" merge "$dir/4-1" "$dir/4-2" "$dir/4-4" --out "$dir/three" >"$dir/log" 2>&1
grep -q 'part 3/4 of the list is not' "$dir/log" || bad "a part that is not there"

# rows that are added at the end get the numbers that one job gives them
sed '$ s/\]$/,{"file_path": "clip-1.mp4", "type": "video", "text": "more"}]/' "$list" >"$dir/media/longer.json"
list=$dir/media/longer.json
run "$list" "$dir/whole" || bad "one job, a row more"
for i in 1 2; do run "$list" "$dir/2-$i" --shard $i/2 || bad "job $i/2, a row more"; done
join 2 "$dir/longer"
[ "$(root "$dir/whole")" = "$(root "$dir/longer")" ] || bad "a row more: another root"

# a row that comes in between takes a number that another job gave: said, and numbered anew
sed '0,/{/ s/{/{"file_path": "clip-2.mp4", "type": "video", "text": "between"},\n{/' "$list" >"$dir/media/between.json"
list=$dir/media/between.json
for i in 1 2; do run "$list" "$dir/2-$i" --shard $i/2 || bad "job $i/2, a row between"; done
join 2 "$dir/between"
grep -q "numbered anew" "$dir/log" || bad "a row between: no number occurs twice"
"$vlat" verify "$dir/between" >"$dir/log" || bad "a row between: damage"
[ "$("$vlat" list "$dir/between" --json | wc -l)" -eq 32 ] || bad "a row between: not 32 samples"
echo "1, 2 and 4 jobs made what one job makes"

#!/usr/bin/env bash
# A job array: with vprep --shard i/n each job makes a dataset, and vlat merge of these datasets
# equals the dataset of one job.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"

small_set "$dir/media" 12
# a clip that occurs twice with two captions, and one picture under two names
cp "$dir/media/still-3.png" "$dir/media/copy.png"
again='{"file_path": "clip-0.mp4", "type": "video", "text": "again"}'
sed -i '$ s/\]/,'"$again"',\n{"file_path": "copy.png", "text": "a copy"}]/' \
    "$dir/media/metadata.json"
printf '[{"prompt": "a validation prompt"}]' >"$dir/prompts.json"
flags=("${sampling[@]}" --variants 2 --validation_prompts "$dir/prompts.json")
run() { vprep --meta "$1" "${flags[@]}" --quiet --out "${@:2}" >"$log" 2>&1; }
list=$dir/media/metadata.json

for wrong in 0/2 3/2 1/0 1 1/ /2 1/2x a/b -1/2 1/100001 1/2/3; do
    status=0
    run "$list" "$dir/none" --shard "$wrong" || status=$?
    { [ $status -eq 2 ] && grep -q -- "--shard $wrong: .*i/n" "$log"; } ||
        wrong "--shard $wrong: status $status"
done
absent "$dir/none"

# join N OUT: merges the N parts to OUT; the part 1/1 is moved
join() {
    local parts=() i
    (($1 > 1)) || { mv "$dir/1-1" "$2"; return; }
    for ((i = 1; i <= $1; i++)); do parts+=("$dir/$1-$i"); done
    check "merge of $1" 0 vlat merge "${parts[@]}" --out "$2"
}
run "$list" "$dir/whole" || wrong "one job"
for n in 1 2 4; do
    for ((i = 1; i <= n; i++)); do run "$list" "$dir/$n-$i" --shard $i/$n || wrong "job $i/$n"; done
    join $n "$dir/joined-$n"
    same_values "$dir/whole" "$dir/joined-$n"
    same_root "$dir/whole" "$dir/joined-$n"
    same_files "$dir/whole" "$dir/joined-$n"
    check "$n jobs: other samples" 0 vlat diff "$dir/whole" "$dir/joined-$n"
    check "$n jobs: damage" 0 vlat verify "$dir/joined-$n"
    ! grep -q '"part"' "$dir/joined-$n/manifest.json" || wrong "$n jobs: the manifest has a part"
    [ $n = 1 ] || sort -u "$dir/$n"-*/plan.jsonl | cmp - <(sort -u "$dir/whole/plan.jsonl") ||
        wrong "$n jobs: another plan"
done
[ "$(cat "$dir"/2-*/plan.jsonl | wc -l)" -eq 28 ] || wrong "a row is in two parts"

# the same job again, another job on this dataset, a missing part
vprep --meta "$list" "${flags[@]}" --out "$dir/2-1" --shard 1/2 >"$log" 2>&1
output_has ' 0 encoded'
! run "$list" "$dir/2-1" --shard 2/2 && grep -q 'part: "1/2" there, "2/2" now' "$log" ||
    wrong "another part"
! run "$list" "$dir/2-1" && grep -q 'part: "1/2" there, nothing now' "$log" || wrong "no part"
vlat info "$dir/2-1" | grep -q 'part 1/2' || wrong "info: no part"
vlat merge "$dir/4-1" "$dir/4-2" "$dir/4-4" --out "$dir/three" >"$log" 2>&1
output_has 'part 3/4 of the list is missing'

# Rows at the end get the same numbers as in one job.
sed '$ s/\]$/,{"file_path": "clip-1.mp4", "type": "video", "text": "more"}]/' "$list" \
    >"$dir/media/longer.json"
list=$dir/media/longer.json
run "$list" "$dir/whole" || wrong "one job, a row more"
for i in 1 2; do run "$list" "$dir/2-$i" --shard $i/2 || wrong "job $i/2, a row more"; done
join 2 "$dir/longer"
same_root "$dir/whole" "$dir/longer"

# A row in the middle takes the number of another job's sample: merge reports this, and renumbers.
sed '0,/{/ s/{/{"file_path": "clip-2.mp4", "type": "video", "text": "between"},\n{/' "$list" \
    >"$dir/media/between.json"
list=$dir/media/between.json
for i in 1 2; do run "$list" "$dir/2-$i" --shard $i/2 || wrong "job $i/2, a row between"; done
join 2 "$dir/between"
output_has "samples get new numbers"
check "a row between: damage" 0 vlat verify "$dir/between"
[ "$(vlat list "$dir/between" --json | wc -l)" -eq 32 ] || wrong "a row between: not 32 samples"

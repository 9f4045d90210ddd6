#!/usr/bin/env bash
# mpirun vprep: 1, 2 and 4 ranks write the dataset of one process, and continue a dataset of any
# number of ranks.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
have_ranks || { echo "skipped: no MPI"; exit 77; }

small_set "$dir/media" 12
ffmpeg -v error -y -f lavfi -i testsrc2=s=96x64:r=10:d=1 -vf \
    "settb=1/1000,setpts='N*100+40*mod(N,2)'" \
    -fps_mode passthrough -enc_time_base 1/1000 -c:v mpeg4 -q:v 4 "$dir/media/vfr.mkv"
cp "$dir/media/clip-4.mp4" "$dir/media/sized.mp4"
cp "$dir/media/still-3.png" "$dir/media/copy.png"
head -c 300 "$dir/media/clip-1.mp4" >"$dir/media/cut.mp4"
sed -i '$ s/\]$//' "$dir/media/metadata.json"
cat >>"$dir/media/metadata.json" <<'JSON'
,{"file_path": "vfr.mkv", "type": "video", "text": "jumpy"},
{"file_path": "sized.mp4", "type": "video", "text": "sized", "width": 64, "height": 96,
 "frames": 10, "fps": 10},
{"file_path": "cut.mp4", "text": "cut"},
{"text": "nothing"},
{"file_path": "clip-4.mp4", "type": "video", "text": "no such size", "width": 80, "height": 80,
 "frames": 10, "fps": 10},
{"file_path": "copy.png", "text": "a copy"},
{"file_path": "clip-0.mp4", "type": "video", "text": "again"}]
JSON
printf '[{"prompt": "a validation prompt", "negative_prompt": "blurred"}]' >"$dir/prompts.json"
list=$dir/media/metadata.json
flags=("${sampling[@]}" --variants 2 --random_hw_adapt --shard_size 1M \
    --trust_metadata --validation_prompts "$dir/prompts.json")

# run STATUS N OUT flags...: runs N ranks, or with N 0 one process without mpirun
run() {
    local want=$1 n=$2 out=$3 start=()
    shift 3
    ((n == 0)) || start=("$lib/ranks.sh" "$n")
    check "$n ranks" "$want" "${start[@]}" vprep --meta "$list" "${flags[@]}" --out "$out" "$@"
}
same() { # same A B WHAT
    same_values "$1" "$2"
    same_root "$1" "$2"
    cmp "$1/plan.jsonl" "$2/plan.jsonl" && cmp "$1/errors.jsonl" "$2/errors.jsonl" ||
        wrong "$3: other lists"
    check "$3: damage" 0 vlat verify "$2"
    ! ls "$2" | grep -q 'open\|manifest.lock' || wrong "$3: a shard or a lock is left open"
}

clips() { sed -n 's/^vprep: clips: \([0-9]* clips\) in [^ ]* [^ ]* *\(.*\)/\1 \2/p' "$log"; }
run 3 0 "$dir/one"
all=$(clips)
[ -n "$all" ] || wrong "no line about the clips"
for stage in metadata probe decode; do
    grep -q "\"stage\":\"$stage\"" "$dir/one/errors.jsonl" || wrong "nothing fails at $stage"
done
for n in 1 2 4; do
    run 3 $n "$dir/$n"
    [ "$(grep -c '^bucket' "$log")" -eq 1 ] || wrong "$n ranks: the table is not printed once"
    [ "$(clips)" = "$all" ] || wrong "$n ranks: the clips are not \"$all\""
    same "$dir/one" "$dir/$n" "$n ranks"
done
# the same number of ranks makes the same files if none closes a shard before the end
for again in 1 2; do run 3 3 "$dir/3-$again" --shard_size 4G; done
same_files "$dir/3-1" "$dir/3-2"
holds "$dir/one/plan.jsonl" '"source":{"w":96,"h":64,"frames":10,"fps":[0-9]*\.[0-9]*,'

# A continued run: all ranks compare a file's recorded size, time and inode, so a changed last byte
# is not noticed.
mkdir "$dir/keep"
for file in "$dir"/media/*.mp4; do
    cp -p "$file" "$dir/keep/"
    printf x | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") - 1)) conv=notrunc status=none
    touch -r "$dir/keep/${file##*/}" "$file"
done
run 3 2 "$dir/4" && grep -q ' 0 encoded' "$log" ||
    wrong "2 ranks continue a dataset of 4: something is encoded"
for file in "$dir"/keep/*; do
    cat "$file" >"$dir/media/${file##*/}"
    touch -r "$file" "$dir/media/${file##*/}"
done
run 3 3 "$dir/one" && grep -q ' 0 encoded' "$log" ||
    wrong "3 ranks continue a dataset of one process: something is encoded"
same "$dir/1" "$dir/one" "3 ranks after one process"
run 3 0 "$dir/2" && grep -q ' 0 encoded' "$log" ||
    wrong "one process continues a dataset of 2 ranks: something is encoded"

# A sample is removed, a caption changes, a file becomes unusable, the mode changes.
cp "$dir/media/clip-0.mp4" "$dir/media/sized.mp4"
sed -i -e '/clip-2.mp4/d' -e 's/picture 1,/picture one,/' "$list"
run 3 0 "$dir/one"
run 3 3 "$dir/2" && grep -q ' 0 encoded.* 4 gone' "$log" || wrong "a row less"
same "$dir/one" "$dir/2" "a row less"
run 3 0 "$dir/one" --train_mode inpaint
run 3 3 "$dir/2" --train_mode inpaint
same "$dir/one" "$dir/2" "another mode"
run 3 2 "$dir/2" --train_mode inpaint --trace_dir "$dir/trace"
same "$dir/one" "$dir/2" "traced"
! ls -A "$dir/trace" | grep -q text || wrong "the trace still has a text"
run 3 0 "$dir/one" --trace_dir "$dir/trace-one" --train_mode inpaint
check "traced: other traces" 0 diff -r "$dir/trace" "$dir/trace-one"

# Rank 0 alone prints usage errors and refusals.
run 2 2 "$dir/none" --thumbnails -1 && [ "$(grep -c '^vprep:' "$log")" -eq 1 ] ||
    wrong "the usage error is not printed once"
run 2 2 "$dir/none" --shard 3/2
absent "$dir/none"
run 1 2 "$dir/2" --video_sample_size 32
output_has 'was made with other settings'
run 3 2 "$dir/dry" --dry_run && [ ! -e "$dir/dry/manifest.json" ] &&
    [ -e "$dir/dry/plan.jsonl" ] || wrong "dry run"
run 1 2 "$dir/stop" --on_error stop
# Each job has several ranks and a part of the list.
for i in 1 2; do run "0 3" 2 "$dir/part-$i" --shard $i/2; done
run 3 0 "$dir/fresh"
check "merge" 0 vlat merge "$dir/part-1" "$dir/part-2" --out "$dir/joined"
same_root "$dir/joined" "$dir/fresh"

# The encoders of a model have threads of their own; clips and a validation prompt have first
# frames.
check "no model" 0 make_model "$dir/model" CogVideoXImageToVideoPipeline 32
printf '[{"prompt": "a validation prompt", "image": "media/copy.png"}]' >"$dir/prompts.json"
flags+=(--model "$dir/model" --train_mode i2v --image_sample_size 64)
run 3 0 "$dir/model-one"
run 3 3 "$dir/model-3"
same "$dir/model-one" "$dir/model-3" "3 ranks with a model"

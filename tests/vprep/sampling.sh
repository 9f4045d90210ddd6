#!/usr/bin/env bash
# The sampling flags of vprep: --sampling peer and its switches, fixed sizes and sizes by pixels,
# --trust_metadata, flips by captions, the table of buckets.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"

plan() { # plan SAMPLE PATTERN: the sample's line in $dir/o/plan.jsonl matches
    grep "^{\"sample\":$1," "$dir/o/plan.jsonl" | grep -q -- "$2" ||
        wrong "sample $1 without $2:"
}
dry() { rm -rf "$dir/o"; check "$*" 0 vprep --meta "$dir/media/metadata.json" --out "$dir/o" \
    --dry_run "$@"; }

small_set "$dir/media" 7                     # clips of 96x64, 64x96, 64x64; 3 is a still of 96x64
meta=(--meta "$dir/media/metadata.json" "${sampling[@]}")

# ---- peer: a first resize, both values of --fit, single switches ----
dry --sampling peer --video_sample_size 32 --image_sample_size 32 --video_sample_n_frames 9 \
    --video_sample_stride 3
# 10 // 3 = 3 frames, of which 1 is kept
plan 0 '"load":\[32,48\]' && plan 0 '"range":\[0,3\]' && plan 0 '"frames":\[[0-3]\]'
dry --sampling peer --start_rule whole --frame_count all --video_sample_size 32 \
    --image_sample_size 32 \
    --video_sample_n_frames 9 --video_sample_stride 2
plan 0 '"range":\[0,1\]' && plan 0 '"load":\[32,48\]'          # 5 frames: 0 to 8 or 1 to 9
dry --sampling peer --like musubi --video_sample_size 32 --image_sample_size 32 \
    --video_sample_n_frames 9 --video_sample_stride 3
# with --start_rule first nothing is drawn
plan 0 '"draws":\[\]'
dry --sampling peer --fix_sample_size 64 64 && plan 0 '"resize":\[64,64\]'
dry --sampling peer --fix_sample_size 64 64 --fit crop && plan 0 '"resize":\[64,96\]'
dry --fix_sample_size 64 64 --fit stretch && plan 0 '"resize":\[64,64\]'
dry --height 64 --width 64 && plan 0 '"resize":\[64,96\]' && plan 0 '"key":"64x64"'
dry --bucket_metric log --video_sample_size 64 && dry --bucket_metric peer --video_sample_size 64
check "one side" 2 vprep --meta "$dir/media/metadata.json" --out "$dir/o" --height 64
stderr_has "only one of two numbers"

# ---- sizes by --max_pixels ----
dry --max_pixels 4096 && plan 0 '"key":"48x64"' && plan 1 '"key":"64x48"' && plan 2 '"key":"64x64"'
dry --max_pixels 1000000 && plan 0 '"key":"64x96"' && plan 0 '"upscale":1,'

# ---- a peer dataset: pixels are not rounded, a second run changes nothing, a replayed plan makes
# the same bytes ----
peer=("${meta[@]}" --sampling peer --video_sample_size 32 --image_sample_size 32)
check peer 0 vprep "${peer[@]}" --out "$dir/p" --trace_dir "$dir/trace" && stderr_has "7 encoded"
head -c 4096 "$dir/trace/000000000000-000.safetensors" | grep -aq '"pixels":{"dtype":"F32"' ||
    wrong "pixels of the trace are not f32"
check "peer again" 0 vprep "${peer[@]}" --out "$dir/p" && stderr_has "0 encoded, 7 reused"
check "verify peer" 0 vlat verify "$dir/p"
holds "$dir/p/manifest.json" '"sampling": *"peer"'
check replay 0 vprep "${peer[@]}" --out "$dir/r" --plan "$dir/p/plan.jsonl"
same_values "$dir/p" "$dir/r"
sed 's/"load":\[32,48\]/"load":[0,48]/' "$dir/p/plan.jsonl" >"$dir/bad.jsonl"
check "bad load" 1 vprep "${peer[@]}" --out "$dir/bad" --plan "$dir/bad.jsonl" &&
    stderr_has "load: 0 48"
check "load without peer" 1 vprep "${meta[@]}" --out "$dir/bad2" --plan "$dir/p/plan.jsonl" &&
    stderr_has "sampling peer"
# A run without peer makes other values of the same pixels.
check plain 0 vprep "${meta[@]}" --video_sample_size 32 --out "$dir/plain"
! same_values "$dir/p" "$dir/plain" >/dev/null || wrong "the same values"

# ---- draws of sizes and lengths are numbers; an older plan with strings makes the same dataset
# ----
draws=(--random_hw_adapt --random_frame_crop --random_ratio_crop --image_sample_size 320)
check "draws" 0 vprep "${meta[@]}" "${draws[@]}" --out "$dir/n"
holds "$dir/n/plan.jsonl" '"purpose":"frame_crop","options":\[5,9\],"pick":[59]}'
holds "$dir/n/plan.jsonl" '"purpose":"ratio","options":\["0.42",'
sed 's/"options":\[5,9\],"pick":\([59]\)/"options":["5","9"],"pick":"\1"/' "$dir/n/plan.jsonl" \
    >"$dir/texts.jsonl"
holds "$dir/texts.jsonl" '"options":\["5","9"\]'
for p in texts.jsonl n/plan.jsonl; do
    check "replay $p" 0 vprep "${meta[@]}" "${draws[@]}" --out "$dir/m" --overwrite --plan "$dir/$p"
    same_values "$dir/n" "$dir/m"
    [ "$(vlat info "$dir/n" | grep ^root)" = "$(vlat info "$dir/m" | grep ^root)" ] ||
        wrong "$p: another root"
    cmp "$dir/n/plan.jsonl" "$dir/m/plan.jsonl"
done

# ---- the error about an unknown bucket lists the buckets ----
check "no such bucket" 1 vlat select "$dir/n" 'bucket = "7x7"' -o "$dir/none" &&
    stderr_has "nothing was written; its buckets are .*0\.68"

# Without a resize there is no rounding: the value is the same, under another key.
ffmpeg -v error -y -f lavfi -i "testsrc2=s=64x64:r=1:d=1" -frames:v 1 "$dir/media/square.png"
printf '{"file_path":"square.png","text":"x"}\n' >"$dir/media/one.jsonl"
for s in vlt peer; do
    check "one $s" 0 vprep --meta "$dir/media/one.jsonl" --video_sample_size 64 \
        --image_sample_size 64 \
        --sampling $s --out "$dir/one-$s"
    dump_dataset "$dir/one-$s" | grep "^latent" >"$dir/latent-$s"
done
[ "$(cut -d' ' -f2 "$dir/latent-vlt")" != "$(cut -d' ' -f2 "$dir/latent-peer")" ] || wrong "one key"
[ "$(cut -d' ' -f3 "$dir/latent-vlt")" = "$(cut -d' ' -f3 "$dir/latent-peer")" ] ||
    wrong "other values"

# A still with an orientation tag (6: rotated by 90 degrees) is rotated, except for peer.
ffmpeg -v error -y -f lavfi -i "testsrc2=s=96x48:r=1:d=1" -frames:v 1 "$dir/plain.jpg"
{
    head -c 2 "$dir/plain.jpg"
    printf '\xff\xe1\x00\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0'
    tail -c +3 "$dir/plain.jpg"
} >"$dir/media/turned.jpg"
printf '{"file_path":"turned.jpg","text":"x"}\n' >"$dir/media/turned.jsonl"
for s in vlt peer; do
    check "turned $s" 0 vprep --meta "$dir/media/turned.jsonl" --image_sample_size 64 \
        --video_sample_size 64 \
        --sampling $s --out "$dir/turned-$s" --trace_dir "$dir/turned-trace"
done
holds "$dir/turned-vlt/plan.jsonl" '"source":{"w":48,"h":96,.*"rotation":90}'
holds "$dir/turned-peer/plan.jsonl" '"source":{"w":96,"h":48,.*"rotation":0}'

# ---- flips: "bright" does not name a side; "left" and "Right-hand" do ----
printf '{"file_path":"still-3.png","text":"%s"}\n' "a bright day" "a bright day" "a bright day" \
    "a bright day" \
    "a cat on the left" "a Right-hand glove" >"$dir/media/flips.jsonl"
check flips 0 vprep --meta "$dir/media/flips.jsonl" --out "$dir/o" --dry_run --random_flip
[ "$(head -4 "$dir/o/plan.jsonl" | grep -c '"purpose":"flip"')" = 4 ] ||
    wrong "bright captions are not flipped"
! tail -2 "$dir/o/plan.jsonl" | grep '"purpose":"flip"' || wrong "captions with a side are flipped"

# ---- --trust_metadata opens no file and makes the same plan; a wrong size fails at decoding ----
rows() { # rows WIDTH: rows of clip-0, whose size is 96x64 with 10 frames
    echo '{"file_path":"clip-0.mp4","type":"video","text":"a","width":'"$1"',"height":64,' \
        '"frames":10,"fps":10}'
}
rows 96 >"$dir/media/true.jsonl" && rows 80 >"$dir/media/false.jsonl"
check probed 0 vprep --meta "$dir/media/true.jsonl" "${sampling[@]}" --out "$dir/t1"
check trusted 0 vprep --meta "$dir/media/true.jsonl" "${sampling[@]}" --out "$dir/t2" \
    --trust_metadata
cmp "$dir/t1/plan.jsonl" "$dir/t2/plan.jsonl" && same_values "$dir/t1" "$dir/t2"
check lie 1 vprep --meta "$dir/media/false.jsonl" "${sampling[@]}" --out "$dir/t3" --trust_metadata
holds "$dir/t3/errors.jsonl" '80x64 in the metadata, 96x64 in the file'
check "not trusted" 0 vprep --meta "$dir/media/false.jsonl" "${sampling[@]}" --out "$dir/t4"
mkdir "$dir/empty" && : >"$dir/empty/clip-0.mp4" && cp "$dir/media/true.jsonl" "$dir/empty"
sed 's/clip-0/clip-9/' "$dir/media/true.jsonl" >>"$dir/empty/true.jsonl"
check "dry on trust" 3 vprep --meta "$dir/empty/true.jsonl" "${sampling[@]}" --out "$dir/o2" \
    --dry_run --trust_metadata
stdout_has "^1 sample," && stdout_has "dropped: row 2, clip-9.mp4" &&
    stdout_has "1 dropped (probe: 1)"

# ---- the table: steps, empty places, drops by stage, hours by the last run's rate ----
check table 3 vprep "${meta[@]}" --out "$dir/o3" --dry_run --train_batch_size 4 --max_upscale 1.25 \
    --on_small drop \
    --image_sample_size 128
stdout_has "dropped: row 4, still-3.png: .*size 128" && stdout_has "1 dropped (select: 1)"
stdout_has "^hours: not known before a run has encoded some clips: start one, stop it"
stdout_has "an epoch at --train_batch_size 4: 3 steps, 6 of 12 places empty (50%)"
stdout_has "^bucket .* steps      fps   seconds$"
check "same once more" 0 vprep "${meta[@]}" --out "$dir/p4" --video_repeat 4 \
    --dry_run --train_batch_size 4
stdout_has "an epoch at --train_batch_size 4: 7 steps, 3 of 28 places empty (11%)"
head -c -2 "$dir/media/metadata.json" >"$dir/media/more.json"
printf ',{"file_path":"still-3.png","text":"again"}]' >>"$dir/media/more.json"
check "more rows" 0 vprep --meta "$dir/media/more.json" "${sampling[@]}" --video_sample_size 32 \
    --out "$dir/plain" --dry_run
stdout_has "reuse 8, encode 0" 
sed 's/clip-0.mp4/clip-1.mp4/' "$dir/media/metadata.json" >"$dir/media/other.json"
check "other rows" 0 vprep --meta "$dir/media/other.json" "${sampling[@]}" --video_sample_size 32 \
    --out "$dir/plain" --dry_run
stdout_has "reuse 6, encode 1" && stdout_has \
    "for the clips, at the rate of the last run: .* million pixels a second"

# ---- a stopped run records its rate, by which vprep predicts the remaining hours ----
ffmpeg -v error -y -f lavfi -i testsrc2=s=96x64:r=10:d=60 -c:v mpeg4 -q:v 4 "$dir/media/long.mp4"
printf '{"file_path":"long.mp4","type":"video","text":"again"}\n%.0s' {1..100} \
    >"$dir/media/many.jsonl"
many=(--meta "$dir/media/many.jsonl" "${sampling[@]}" --video_sample_size 256 --variants 4 \
    --workers 1 --out "$dir/many")
for wait in 0.1 0.2 0.4 0.8 1.6 3.2 6.4 12.8 25.6 51.2; do
    vprep "${many[@]}" >"$stdout" 2>"$stderr" & pid=$!
    sleep $wait && kill $pid && wait $pid && got=0 || got=$?
    check "after $wait s" 0 vprep "${many[@]}" --dry_run
    grep -q "at the rate of the last run" "$stdout" && break
    stdout_has "hours: not known"
done
[ $got -eq 143 ] && stdout_has "about .* for the clips, at the rate of the last run"

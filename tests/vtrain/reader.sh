#!/usr/bin/env bash
# scripts/vlat.py gives the batches of vtrain: samples, captions, text embeddings and drawn latents
# of every micro-batch are compared with vtrain's trace, for one and two ranks. Its readings are
# those of libvlat, and damage is reported. $1 is Python; without lmdb the test is skipped.
. "$(dirname "$0")/../lib/check.sh"
python=$1 here=$(dirname "$0")
PYTHONPATH=$VLT_SOURCE/scripts "$python" -c 'import vlat' 2>"$log" || {
    echo "skipped: $(tail -n 1 "$log")"
    exit 77
}
export PYTHONPATH=$VLT_SOURCE/scripts
need make_toy "$dir/toy.lmdb"
need make_toy "$dir/varied.lmdb" varied
need make_toy "$dir/segments.lmdb" segments
cp -r varied.lmdb other.lmdb

# same NAME RANKS 'SETTINGS OF vlat.Dataset' FLAGS...: vtrain's trace and the batches are equal.
same()
{
    local name=$1 ranks=$2 settings=$3 run=()
    shift 3
    [ "$ranks" -eq 1 ] || run=("$lib/ranks.sh" "$ranks")
    need "${run[@]}" vtrain --dit_width 16 --dit_layers 1 --dit_heads 2 --train_batch_size 3 \
        --gradient_accumulation_steps 2 --seed 7 --caption_dropout_p 0 --output_dir "$name" \
        --trace_dir "$name.trace" --max_train_steps 20 --trace_steps 40 --threads 1 --quiet \
        --report_to none "$@"
    check "$name" 0 "$python" "$here/reader.py" trace "$name.trace" "$ranks" \
        "dict(seed=7, $settings)"
    stdout_has '^[0-9]* micro-batches are equal'
    cat "$stdout"
}
same toy 1 "paths='toy.lmdb'" --latents toy.lmdb
same split 1 "paths='varied.lmdb', eval_split=0.2, caption_dropout=0.3" --latents varied.lmdb \
    --eval_split 0.2 --caption_dropout_p 0.3
same repeats 1 "paths=[('other.lmdb', 2.5), 'varied.lmdb'], dataset_repeat=2, posterior='mean'" \
    --latents other.lmdb:2.5 --latents varied.lmdb --dataset_repeat 2 --posterior mean
same shares 1 "paths=[('other.lmdb', 0.3), ('varied.lmdb', 0.7)]" --latents other.lmdb:0.3 \
    --latents varied.lmdb:0.7
# texts of segments have the rows of all, and dropped ones as many zeros
same segments 1 "paths='segments.lmdb', caption_dropout=0.3" --latents segments.lmdb \
    --caption_dropout_p 0.3
if have_ranks; then
    same ranks 2 "paths='varied.lmdb', eval_split=0.1" --latents varied.lmdb --eval_split 0.1
fi

# ---- references of other sizes, targets that are the base's prediction, and means of posteriors,
# as the family has them: samples of a kind stand in micro-batches of their own ----
. "$lib/media.sh"
export VLT_SOURCE
mkdir media
for i in 0 1 2 3 4 5; do
    ffmpeg -v error -y -f lavfi -i "testsrc2=s=64x64:r=10:d=0.9,hue=h=$((i * 50))" -c:v ffv1 \
        -pix_fmt bgr0 media/$i.mkv
    ffmpeg -v error -y -f lavfi -i "testsrc2=s=64x64,hue=h=$((i * 50))" -frames:v 1 media/$i.png
    echo "{\"image\": \"$i.png\", \"prompt\": \"picture $i\"}" >>media/stills.jsonl
    face=; [ $((i % 2)) = 1 ] || face=', "vace_reference_image": "0.png"'
    [ $i != 2 ] || face=', "vace_reference_image": ["0.png", "1.png"]'
    echo "{\"video\": \"$i.mkv\", \"prompt\": \"clip $i\"$face}" >>media/clips.jsonl
done
# kinds NAME SETTINGS FLAG...: the steps of a run of model m-NAME are those of vlat.py
kinds()
{
    need vtrain --model "m-$1" --output_dir "$1" --trace_dir "$1.trace" --trace_steps 12 --rank 2 \
        --max_train_steps 12 --train_batch_size 2 --seed 7 --threads 1 --quiet "${@:3}"
    check "$1" 0 "$python" "$here/reader.py" run "$1" "$1.trace" 2 "dict(seed=7, $2)"
    stdout_has '^12 steps are equal'
}
need make_model m-vace WanVACEPipeline wan-vace
need vprep --meta media/clips.jsonl --out vace.lmdb --model m-vace --train_mode vace --quiet \
    --fix_sample_size 64 64 --video_sample_n_frames 9 --video_sample_stride 1
kinds vace "paths='vace.lmdb'" --latents vace.lmdb
need make_model m-prior ZImagePipeline 4
for kind in learned prior; do
    need vprep --meta media/stills.jsonl --out $kind.lmdb --model m-prior --sample_kind $kind \
        --fix_sample_size 64 64 --quiet
done
kinds prior "paths=['learned.lmdb', 'prior.lmdb']" --latents learned.lmdb --latents prior.lmdb
expect 1 "posterior 'men': auto, sample or mean expected" \
    "$python" -c 'import vlat; vlat.Dataset("toy.lmdb", posterior="men")'

check readings 0 "$python" "$here/reader.py" readings varied.lmdb \
    "$VLT_BUILD/formats/libvlat/libvlat.so"
stdout_has '^[0-9]* tensors are equal'
check workers '0 77' "$python" "$here/reader.py" workers varied.lmdb

expect 1 'varied.lmdb does not fit toy.lmdb: normalization ' \
    "$python" -c 'import vlat; vlat.Dataset(["toy.lmdb", "varied.lmdb"])'
fresh toy.lmdb damaged.lmdb
check faults 0 "$python" "$here/reader.py" faults damaged.lmdb
stdout_has '^[0-9]* damaged forms are told'
fresh varied.lmdb damaged.lmdb
need "$python" "$here/reader.py" hurt damaged.lmdb
expect 1 'Damaged: damaged.lmdb: shard-00000.lmdb: latent [0-9a-f]*: .*; vlat verify' \
    "$python" "$here/reader.py" all damaged.lmdb
expect 1 'Damaged: damaged.lmdb: shard-00000.lmdb: its checksum differs' \
    "$python" -c 'import vlat; vlat.Dataset("damaged.lmdb", verify=True)'
truncate -s -4096 damaged.lmdb/shard-00000.lmdb
expect 1 'Damaged: damaged.lmdb: shard-00000.lmdb: [0-9]* bytes, [0-9]* expected' \
    "$python" -c 'import vlat; vlat.Dataset("damaged.lmdb")'
rm damaged.lmdb/manifest.json
expect 1 'damaged.lmdb: no latent dataset' "$python" -c 'import vlat; vlat.Dataset("damaged.lmdb")'

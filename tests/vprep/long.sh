#!/usr/bin/env bash
# vprep and vdecode take no more memory for a clip that is longer than the range of frames that they
# hold. The 480 frames more would be 29 MB of 64x64 as bytes and f32, or 24 MB of 128x128 as bytes.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE ASAN_OPTIONS=${ASAN_OPTIONS:-}:quarantine_size_mb=1
most=12288                                   # KiB: half of these 24 MB

# clip NAME SIZE FRAMES: a clip and its list.
clip()
{
    ffmpeg -v error -y -f lavfi -i "testsrc2=s=$2:r=16" -frames:v "$3" -c:v mpeg4 -q:v 4 "media/$1"
    echo "[{\"file_path\": \"$1\", \"type\": \"video\", \"text\": \"abc\"}]" >"media/$1.json"
}
# bounded WHAT FEW MANY: the peaks in the two files differ by no more than `most`.
bounded()
{
    [ $(($(cat "$3") - $(cat "$2"))) -le $most ] ||
        wrong "$1: $(cat "$2") KiB for 161 frames, $(cat "$3") KiB for 641"
}

mkdir media
need make_model m CogVideoXPipeline 16
for n in 161 641; do
    clip $n.mp4 64x64 $n
    clip large-$n.mp4 128x128 $n
    options=(--video_sample_n_frames $n --video_sample_stride 1 --workers 1)

    # ---- an autoencoder with weights, and the built-in codec ----
    expect 0 '1 encoded' peak cog-$n vprep --meta media/$n.mp4.json --out cog.$n --model m \
        --video_sample_size 64 --vae_window 16 "${options[@]}"
    stderr_has "$n frames of 64x64, takes .*; its pixels take .*, decoded 128 frames at a time"
    expect 0 '1 encoded' peak codec-$n vprep --meta media/large-$n.mp4.json --out codec.$n \
        --video_sample_size 128 "${options[@]}"
    expect 0 '1 decoded' peak mp4-$n vdecode codec.$n --out mp4.$n --format mp4
    expect 0 '1 decoded' peak tiles-$n vdecode cog.$n --model m --vae_tiling --out tiles.$n \
        --format mp4
    for decoded in mp4.$n tiles.$n; do
        frames=$(ffprobe -v error -count_frames -show_entries stream=nb_read_frames -of csv=p=0 \
            $decoded/*.mp4)
        [ "${frames%%,*}" = $n ] || wrong "the clip has $frames frames, not $n"
        [ "$(ls -A $decoded | wc -l)" = 1 ] || wrong "$decoded has $(ls -A $decoded)"
    done
done
bounded 'vprep with CogVideoX' cog-161 cog-641
bounded 'vprep with the built-in codec' codec-161 codec-641
bounded vdecode mp4-161 mp4-641
bounded 'vdecode with tiles' tiles-161 tiles-641

# ---- damage behind the first range is damage of the source ----
cp media/641.mp4 media/hurt.mp4
size=$(stat -c %s media/hurt.mp4)
head -c 3000 /dev/zero | dd of=media/hurt.mp4 bs=1 seek=$((size * 2 / 3)) conv=notrunc status=none
echo '[{"file_path": "hurt.mp4", "type": "video", "text": "abc"}]' >media/hurt.json
expect 1 'no row of media/hurt.json can be used' vprep --meta media/hurt.json --out hurt \
    --video_sample_size 64 \
    --video_sample_n_frames 641 --video_sample_stride 1
holds hurt/errors.jsonl '"stage":"decode".*hurt.mp4: frame [1-9][0-9][0-9] is damaged'

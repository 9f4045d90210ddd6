#!/usr/bin/env bash
# The progress of vprep and vdecode moves within a clip: in one process, and with the clips of two
# ranks.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
options=(--video_sample_n_frames 161 --video_sample_stride 1 --vae_window 16
    --video_sample_size 64)

# shares: the clips that are done and the shares of those in work, as one sum a line. One of two
# ranks may end its clip before the other begins, so that lines after the first clip count too.
shares()
{
    sed -n 's/.*"phase":"\(clips\|decoding\)".*"done":\([0-9]*\),"within":\([0-9.]*\),.*/\2 \3/p' \
        "$stderr" | awk '{ print $1 + $2 }'
}
# rising MOST: several shares are below MOST, none is below the one before, and several are above
# it, as a line is printed too when nothing was done since the last one
rising()
{
    shares | awk -v most="$1" '$1 < last || $1 > most { bad = 1 } $1 > last && $1 < most { n++ }
        { last = $1 }
        END { exit bad || n < 5 }' || wrong "shares of $1 clips: $(shares | tr '\n' ' ')"
}
fast() { env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" \
    LD_PRELOAD="$VLT_FAST_LIB" "$@"; }

# clip NAME SIDE NUMBER
clip()
{
    ffmpeg -v error -y -f lavfi -i "testsrc2=s=$2x$2:r=16,hue=h=$(($3 * 90))" -frames:v 161 \
        -c:v mpeg4 -q:v 4 "media/$1.mp4"
}

mkdir media
need make_model m CogVideoXPipeline 16
clip 1 64 1
clip 2 64 2
clip large 256 3
echo '[{"file_path": "1.mp4", "type": "video", "text": "abc"}]' >media/one.json
echo '[{"file_path": "large.mp4", "type": "video", "text": "abc"}]' >media/large.json
echo '[{"file_path": "1.mp4", "type": "video", "text": "abc"},
    {"file_path": "2.mp4", "type": "video", "text": "def"}]' >media/two.json

# ---- one process: a model, then the built-in codec ----
expect 0 '"done":0,"within":.*"rate":.*"eta_s":.*"extra":"frame [0-9]* of 161, 0 encoded' \
    fast vprep --meta media/one.json --out one --model m --log_format json "${options[@]}"
rising 1
stderr_has '"event":"end".*"phase":"clips".*"done":1,"total":1,.*"extra":"1 encoded'
expect 0 '' vprep --meta media/one.json --out calm --model m "${options[@]}"
same_root one calm
expect 0 '' fast vprep --meta media/large.json --out codec --log_format json \
    "${options[@]:0:4}" --video_sample_size 256
rising 1

# ---- vdecode: a dataset, then a file, whose frames are counted ----
expect 0 '"extra":"frame [0-9]* of 161"' fast vdecode codec --out mp4 --format mp4 \
    --log_format json
rising 1
stderr_has '"event":"end".*"phase":"decoding","unit":"samples","done":1,"total":1,'
need vlat export codec --to safetensors --out files
expect 0 '"unit":"frames","done":[0-9]*,"total":161,.*"eta_s":' fast vdecode \
    files/latents/*.safetensors --out mp4 --format mp4 --log_format json
stderr_has '"event":"end".*"phase":"decoding","unit":"frames","done":161,"total":161,'

# ---- two ranks, each with a clip ----
have_ranks || exit 0
expect 0 '"extra":"frame [0-9]* of 322, 0 encoded' env \
    VLT_PRELOAD="${VLT_PRELOAD:+$VLT_PRELOAD:}$VLT_FAST_LIB" "$lib/ranks.sh" 2 \
    vprep --meta media/two.json --out two --model m --log_format json "${options[@]}"
rising 2
stderr_has '"event":"end".*"phase":"clips".*"done":2,"total":2,.*"extra":"2 encoded'

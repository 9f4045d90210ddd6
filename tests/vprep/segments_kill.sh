#!/usr/bin/env bash
# A clip of 63 seconds, 21 segments, is encoded in windows of 48 frames. A run that is killed while
# it reads the clip or writes the dataset leaves no partial value: the same command ends with the
# values of an undisturbed run. The predicted memory of the VAE is that of a clip of six seconds.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/fault.sh"

mkdir media
ffmpeg -v error -y -f lavfi -i "testsrc2=s=32x32:r=16" -frames:v 1009 -c:v mpeg4 -q:v 4 \
    media/long.mp4
for ((i = 0; i < 21; i++)); do captions+=", \"scene $((i % 5))\""; done
echo "{\"file_path\": \"long.mp4\", \"text_chunks\": [${captions:2}]}" >media/list.jsonl
need make_model "$dir/m" CogVideoXPipeline 16
run=(vprep --meta media/list.jsonl --model m --video_sample_size 16 --vae_window 48
     --vae_dtype f32 --text_encoder_dtype f32 --workers 1 --video_length 63sec --out)

expect 0 '6 of 6 prompts encoded' "${run[@]}" whole             # five captions and the empty one
predicted() { sed -n 's/.*frames of .*, takes \(.*\) in the VAE.*/\1/p' "$stderr"; }
long=$(predicted)
expect 0 '' vlat verify whole
expect 0 '' vlat show whole 0
stdout_has '"text_chunks": *21' && stdout_has '\[252,32\]' && stdout_has '"latent": *\[253,'
echo '{"file_path": "long.mp4", "text_chunks": ["scene 0", "scene 1"]}' >media/short.jsonl
expect 0 '1 encoded' "${run[@]}" short --meta media/short.jsonl --video_length 6sec
[ -n "$long" ] && [ "$long" = "$(predicted)" ] ||
    wrong "63 seconds take $long in the VAE, 6 seconds $(predicted)"

changes=$(calls_of change "${run[@]}" counted)
for rule in "read@long.mp4:2:kill" "change:$((changes / 2)):kill" \
    "change:$((changes * 3 / 4)):kill"; do
    rm -rf cut
    expect 137 '' fault "$rule" "${run[@]}" cut
    not_done cut
    expect 0 '' "${run[@]}" cut
    expect 0 '' vlat verify cut
    check "the values after $rule" 0 same_values whole cut
    same_root whole cut
done

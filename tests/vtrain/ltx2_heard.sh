#!/usr/bin/env bash
# The sound of samples is heard: a tiny LTX-2 learns the sound of one clip, a tone, its loss falls,
# and the MP4s of samples before and after have a sound, whose spectrum training changed, beside the
# picture of its wave. The autoencoder and the vocoder have random weights: these spectra are not
# those of the tone itself, and which clip's they are nearest to is chance.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

# clip NAME SOURCE: a second at 10 frames a second with this sound
clip()
{
    mkdir -p "$1"
    ffmpeg -v error -y -f lavfi -i "testsrc2=s=64x64:r=10:d=1" -f lavfi -i "$2" \
        -c:v mpeg4 -q:v 4 -c:a pcm_s16le "$1/a.mkv"
    echo '[{"file_path": "a.mkv", "text": "a tone"}]' >"$1/list.json"
}
# spectrum FILE OUT: the energy of the sound at 100, 150, .. 2450 Hz, a line each: above, that of
# these vocoders is less than the noise of AAC. Parts of 480 samples have a Hann window.
spectrum()
{
    ffmpeg -v error -i "$1" -vn -ac 1 -ar 24000 -f f32le - | od -An -v -tf4 -w4 | awk '
        BEGIN { N = 480; for (i = 0; i < N; i++) { c[i] = cos(2 * 3.14159265358979 * i / N)
                                                   s[i] = sin(2 * 3.14159265358979 * i / N) } }
        { x[n++] = $1 * (1 - c[n - 1]) }
        n == N { for (k = 2; k < 50; k++) {
                     re = im = 0
                     for (i = 0; i < N; i++) { j = i * k % N; re += x[i] * c[j]; im += x[i] * s[j] }
                     e[k] += re * re + im * im }
                 n = 0 }
        END { for (k = 2; k < 50; k++) printf "%.9g\n", e[k] }' >"$2"
    [ "$(wc -l <"$2")" -eq 48 ] && ! grep -qx 0 "$2" || wrong "$1 has no sound"
}
cat >prompts.jsonl <<'END'
{"prompt": "a tone", "height": 64, "width": 64, "num_frames": 9, "fps": 10, "seed": 3}
END

need make_model m20 LTX2Pipeline 20
clip tone sine=f=440:r=48000:d=1
expect 0 '1 encoded' vprep --meta tone/list.json "${sampling[@]}" --model m20 --with_audio \
    --out set --validation_prompts prompts.jsonl
expect 0 . vtrain --latents set --model m20 --output_dir run --seed 5 --threads 1 --workers 1 \
    --training_type full-finetune --with_audio --learning_rate 5e-3 --train_batch_size 4 \
    --dataset_repeat 8 --max_train_steps 60 --video_loss_weight 0.1 --sample_at_first \
    --validation_steps 60 --num_inference_steps 4 --guidance_scale 1 --audio_guidance_scale 1 \
    --checkpointing_steps 60
# falls FILE: the mean loss of the sound in the last 20 steps is less than in the first 20
falls()
{
    sed -n 's/.*"loss_audio":\([0-9.e+-]*\).*/\1/p' "$1" | awk '
        NR <= 20 { first += $1 }
        NR > 40 { last += $1 }
        END { print first / 20, last / 20; exit !(NR == 60 && last < 0.9 * first) }'
}
falls run/metrics.jsonl || wrong "the loss of the sound does not fall"
expect 0 '2 decoded' vdecode run --model m20
holds run/report.html '<div class="sound">'
for step in 0 60; do
    [ -s run/validation/step-$step/000-sound.png ] || wrong "step $step: no picture of the wave"
    spectrum run/validation/step-$step/000.mp4 step-$step.txt
done
! cmp -s step-0.txt step-60.txt || wrong "training does not change the sound of the sample"

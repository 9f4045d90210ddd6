#!/usr/bin/env bash
# The sound of a clip is heard in what becomes of it: tones go through vprep and vdecode, and a tiny
# LTX-2 learns one of them: its loss falls, and its samples have the tone's frequency, beside the
# picture of their wave. The autoencoder and the vocoder are those of scripts/golden/sound_codec.py,
# which keep a tone's bin of the spectrogram: bins are about 180 Hz apart below 1000 Hz, then wider.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

# peak FILE: the frequency, a multiple of 50 Hz, at which the sound of an MP4 has most energy. Parts
# of 480 samples have a Hann window.
peak()
{
    ffmpeg -v error -i "$1" -vn -ac 1 -ar 24000 -f f32le - | od -An -v -tf4 -w4 | awk '
        BEGIN { N = 480; for (i = 0; i < N; i++) { c[i] = cos(2 * 3.14159265358979 * i / N)
                                                   s[i] = sin(2 * 3.14159265358979 * i / N) } }
        { x[n++] = $1 * (1 - c[n - 1]) }
        n == N { for (k = 2; k < 80; k++) {
                     re = im = 0
                     for (i = 0; i < N; i++) { j = i * k % N; re += x[i] * c[j]; im += x[i] * s[j] }
                     e[k] += re * re + im * im }
                 n = 0 }
        END { for (k = best = 2; k < 80; k++) if (e[k] > e[best]) best = k
              print (e[best] > 1e-3 ? 50 * best : "none") }'
}
# near FILE LEAST MOST: the peak is between these frequencies
near()
{
    local at
    at=$(peak "$1")
    [ "$at" != none ] && [ "$at" -ge "$2" ] && [ "$at" -le "$3" ] ||
        wrong "$1: the peak is at $at Hz, not at $2 to $3"
}
# codec: the model m20 with the codec of tones in place of its own
codec()
{
    need make_model m20 LTX2Pipeline 20
    rm -r m20/audio_vae m20/vocoder
    tar xzf "$lib/../golden/sound_codec.tar.gz" -C m20
}
codec
for f in 440 700 1300 2700; do
    heard_clip 1 $f.mkv "0.5*sin(6.2831853*$f*t):s=44100" -c:a pcm_s16le
done
expect 0 '4 encoded' vprep --meta media/list.json "${sampling[@]}" --model m20 --with_audio \
    --out set
expect 0 '4 decoded' vdecode set --model m20 --out out
# 440 Hz lies between two bins, of 400 and 500 Hz
near out/000000000000-000.mp4 400 500
near out/000000000001-000.mp4 650 750
near out/000000000002-000.mp4 1250 1350
near out/000000000003-000.mp4 2650 2750

# ---- a model that learns one tone has it in its samples ----
mkdir one && cp media/1300.mkv one
echo '[{"file_path": "1300.mkv", "text": "a tone"}]' >one/list.json
cat >prompts.jsonl <<'END'
{"prompt": "a tone", "height": 64, "width": 64, "num_frames": 9, "fps": 10, "seed": 3}
END
expect 0 '1 encoded' vprep --meta one/list.json "${sampling[@]}" --model m20 --with_audio \
    --out learned --validation_prompts prompts.jsonl
expect 0 . vtrain --latents learned --model m20 --output_dir run --seed 5 --threads 1 --workers 1 \
    --training_type full-finetune --with_audio --learning_rate 5e-3 --train_batch_size 4 \
    --dataset_repeat 8 --max_train_steps 200 --video_loss_weight 0.1 --sample_at_first \
    --validation_steps 200 --num_inference_steps 10 --guidance_scale 1 --audio_guidance_scale 1 \
    --checkpointing_steps 200
# falls FILE: the mean loss of the sound in the last 20 steps is less than in the first 20
falls()
{
    sed -n 's/.*"loss_audio":\([0-9.e+-]*\).*/\1/p' "$1" | awk '
        NR <= 20 { first += $1 }
        NR > 180 { last += $1 }
        END { print first / 20, last / 20; exit !(NR == 200 && last < 0.9 * first) }'
}
falls run/metrics.jsonl || wrong "the loss of the sound does not fall"
expect 0 '2 decoded' vdecode run --model m20
holds run/report.html '<div class="sound">'
for step in 0 200; do
    [ -s run/validation/step-$step/000-sound.png ] || wrong "step $step: no picture of the wave"
done
near run/validation/step-200/000.mp4 1250 1350
before=$(peak run/validation/step-0/000.mp4)
[ "$before" = none ] || [ "$before" -lt 1250 ] || [ "$before" -gt 1350 ] ||
    wrong "the sample has the tone before it is learned: $before Hz"

#!/usr/bin/env bash
# The sound of a sample is heard in its spectrum. A tiny LTX-2 learns the sound of one clip, a tone;
# the MP4 of its sample then has the spectrum of the clip's stored sound, as vdecode makes it of the
# dataset, rather than that of two other sounds, which a sample before training is nearer to. The
# autoencoder and the vocoder have random weights: none of these spectra is that of the tone itself.
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
# apart A B: the distance of two spectra, in dB (rms)
apart()
{
    paste "$1" "$2" | awk '{ d = 10 * log($1 / $2) / log(10); sum += d * d; n++ }
                           END { printf "%.2f\n", sqrt(sum / n) }'
}
# nearest FILE: the sound whose spectrum is the nearest, and all distances
nearest()
{
    local name
    for name in tone high noise; do echo "$(apart "$1" $name.txt) $name"; done | sort -n |
        awk 'NR == 1 { first = $2 } { all = all " " $2 " " $1 " dB" } END { print first ":" all }'
}
cat >prompts.jsonl <<'END'
{"prompt": "a tone", "height": 64, "width": 64, "num_frames": 9, "fps": 10, "seed": 3}
END

need make_model m20 LTX2Pipeline 20
clip tone sine=f=440:r=48000:d=1
clip high sine=f=5000:r=48000:d=1
clip noise anoisesrc=r=48000:d=1:a=0.5:seed=1
for name in tone high noise; do
    expect 0 '1 encoded' vprep --meta $name/list.json "${sampling[@]}" --model m20 --with_audio \
        --out set-$name --validation_prompts prompts.jsonl
    expect 0 '1 decoded' vdecode set-$name --model m20 --out clips-$name
    spectrum clips-$name/*.mp4 $name.txt
done
expect 0 . vtrain --latents set-tone --model m20 --output_dir run --seed 5 --threads 1 \
    --workers 1 --training_type full-finetune --with_audio --learning_rate 5e-3 \
    --lr_scheduler cosine --train_batch_size 4 --dataset_repeat 8 --max_train_steps 400 \
    --video_loss_weight 0.1 --sample_at_first --validation_steps 400 --num_inference_steps 20 \
    --guidance_scale 1 --audio_guidance_scale 1 --checkpointing_steps 400
expect 0 '2 decoded' vdecode run --model m20
holds run/report.html '<div class="sound">'
for step in 0 400; do
    [ -s run/validation/step-$step/000-sound.png ] || wrong "step $step: no picture of the wave"
    spectrum run/validation/step-$step/000.mp4 step-$step.txt
done
before=$(nearest step-0.txt) after=$(nearest step-400.txt)
echo "before: $before; after: $after"
[[ $before != tone:* ]] || wrong "before training the sample's sound is that of the clip: $before"
[[ $after == tone:* ]] || wrong "after training the sample's sound is not the clip's: $after"

#!/usr/bin/env bash
# LTX-2 with sound, 2.0 and 2.3, from clips with and without sound to samples as MP4s with sound,
# with tiny models' folders.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

heard_clip 1 one.mp4 'sin(2764*t)|sin(5529*t):s=48000' -c:a aac
heard_clip 1 two.mkv 'sin(999*t):s=22050' -c:a pcm_s16le
heard_clip 1 none.mp4 ''
heard_clip 1 other.mp4 ''
cat >prompts.jsonl <<'END'
{"prompt": "a red ball", "height": 64, "width": 64, "num_frames": 9, "fps": 10, "seed": 3}
END
sampling+=(--image_sample_size 64)
encode() # encode VERSION OUT FLAG...
{
    vprep --meta media/list.json "${sampling[@]}" --model "m$1" --out "$2" \
        --validation_prompts prompts.jsonl "${@:3}"
}
train() # train VERSION SET OUT FLAG...
{
    vtrain --latents "$2" --model "m$1" --output_dir "$3" --seed 5 --threads 1 --workers 1 "${@:4}"
}
lora=(--training_type lora --rank 2 --with_audio)

for v in 20 23; do
    need make_model m$v LTX2Pipeline $v
    expect 0 '4 encoded' encode $v set$v --with_audio

    # ---- rows with and without sound in one batch; resumed to the same bits ----
    expect 0 . train $v set$v all$v "${lora[@]}" --train_batch_size 4 --max_train_steps 4
    holds all$v/report.html 'Loss of video and of sound'
    holds all$v/metrics.jsonl '"loss_video":[0-9.e+-]*,"loss_audio":[0-9.]'
    expect 0 . train $v set$v cut$v "${lora[@]}" --train_batch_size 4 --max_train_steps 2
    expect 0 . train $v set$v cut$v "${lora[@]}" --train_batch_size 4 --max_train_steps 4 \
        --resume_from_checkpoint latest
    cmp all$v/checkpoint-4/optimizer.safetensors cut$v/checkpoint-4/optimizer.safetensors ||
        wrong "$v: a resumed run differs"
    grep -aq audio_to_video_attn.to_q.lora_A \
        all$v/checkpoint-4/pytorch_lora_weights.safetensors ||
        wrong "$v: the LoRA lacks the attention between the streams"

    # ---- modules of one stream ----
    for pair in attn1.to_q:2 audio_attn1.to_q,audio_attn1.to_out.0:4 audio_to_video_attn.to_q:2 \
        to_q:12; do
        expect 0 '' train $v set$v dry "${lora[@]}" --dry_run --target_name "${pair%:*}"
        stdout_has "^LoRA: .* ${pair#*:} of the model's [0-9]* linears"
    done

    # ---- the video alone, of the same set ----
    expect 0 "sound is left out: --with_audio trains it too" train $v set$v alone$v \
        --training_type lora --rank 2 --train_batch_size 1 --max_train_steps 1
    ! grep -q loss_audio alone$v/metrics.jsonl || wrong "$v: sound without --with_audio"

    # ---- samples with sound ----
    expect 0 '1 stored prompt' train $v set$v shown$v "${lora[@]}" --train_batch_size 1 \
        --max_train_steps 1 --validation_steps 1 --num_inference_steps 2
    expect 0 '1 decoded' vdecode shown$v --model m$v
    ffprobe -v error -select_streams a -show_entries stream=codec_name,channels -of csv=p=0 \
        shown$v/validation/step-1/000.mp4 >streams
    grep -q '^aac,2' streams || wrong "sound of a sample: $(cat streams)"

    # ---- a whole model: every weight is trained ----
    expect 0 . train $v set$v full$v --training_type full-finetune --with_audio \
        --learning_rate 1e-3 --train_batch_size 2 --max_train_steps 2
    grep -q 'are not trained, and are written' "$stderr" && wrong "$v: parts are not trained"
    expect 0 . train $v set$v more$v "${lora[@]}" --train_batch_size 1 --max_train_steps 1 \
        --transformer full$v/checkpoint-2/transformer
done

# ---- names of the first authors, written and read ----
expect 0 . train 23 set23 names "${lora[@]}" --train_batch_size 1 --max_train_steps 1 \
    --target_name audio_proj_in,av_cross_attn_audio_v2a_gate.linear,video_to_audio_attn.to_q
for name in audio_patchify_proj av_ca_v2a_gate_adaln_single.linear \
    transformer_blocks.1.video_to_audio_attn.to_q; do
    grep -aq "\"diffusion_model\.$name\.lora_[Ad]" names/checkpoint-1/lora_comfyui.safetensors ||
        wrong "lora_comfyui lacks $name"
done
expect 0 . train 23 set23 again "${lora[@]}" --train_batch_size 1 --max_train_steps 1 \
    --target_name audio_proj_in,av_cross_attn_audio_v2a_gate.linear,video_to_audio_attn.to_q \
    --lora_checkpoint names/checkpoint-1/lora_comfyui.safetensors

# ---- refusals ----
for v in 20 23; do
    expect 0 '4 encoded' encode $v bare$v
    expect 1 "--with_audio: bare$v has no sound: run vprep with --with_audio" train $v bare$v none \
        "${lora[@]}" --max_train_steps 1
done
expect 2 '--audio_loss_weight: give --with_audio too' train 20 set20 none --training_type lora \
    --audio_loss_weight 2
absent none

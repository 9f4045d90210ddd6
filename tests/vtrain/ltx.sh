#!/usr/bin/env bash
# vtrain with LTX-Video: a tiny model's folder and real clips, from the dataset to samples as pictures.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

small_set media 8                            # 6 clips, 2 stills, of 3 shapes
ffmpeg -v error -y -f lavfi -i "testsrc2=s=64x64:r=20:d=1" -c:v mpeg4 -q:v 4 media/clip-5.mp4      # others: 10
sed -i 's/picture 0, 64x64/the longest of the captions/' media/metadata.json
need make_model m LTXPipeline 8
cat >prompts.jsonl <<'END'
{"prompt": "a b c", "height": 64, "width": 96, "num_frames": 9, "fps": 24, "seed": 3}
{"prompt": "def ghi jkl", "height": 64, "width": 64, "num_frames": 17}
END
sampling+=(--image_sample_size 64)
need vprep --meta media/metadata.json "${sampling[@]}" --model m --out a --validation_prompts prompts.jsonl
train() { vtrain --latents a --model m --output_dir "$1" --train_batch_size 2 --seed 5 --threads 1 --workers 1 "${@:2}"; }
lora=(--training_type lora --rank 2)
same() { cmp -s "$1/optimizer.safetensors" "$2/optimizer.safetensors" || wrong "$1 and $2 differ"; }

# ---- the schedule is the folder's: levels shift with the tokens ----
expect 0 'flow.*by tokens (exponential, 0.95 at 1024, 2.05 at 4096)' train dry "${lora[@]}" --dry_run
absent dry
expect 0 'shift 3' train dry "${lora[@]}" --dry_run --flow_shift 3

# ---- a LoRA and a full finetune; one that stopped goes on to the same bits ----
for how in "lora --rank 2" full-finetune; do
    read -ra type <<<"--training_type $how"
    name=${type[1]}
    expect 0 'memory: peak' train "$name" "${type[@]}" --max_train_steps 6 --caption_dropout_p 0.5
    expect 0 . train "$name-cut" "${type[@]}" --max_train_steps 3 --caption_dropout_p 0.5
    expect 0 . train "$name-cut" "${type[@]}" --max_train_steps 6 --caption_dropout_p 0.5 --resume_from_checkpoint latest
    same "$name/checkpoint-6" "$name-cut/checkpoint-6"
done
shift_of() { sed -n 's/^flow_shift: *//p' "$1/config.yaml"; }
need [ "$(shift_of lora)" = "$(shift_of full-finetune)" ]
expect 0 . train on --transformer full-finetune/checkpoint-6/transformer "${lora[@]}" --max_train_steps 1

# ---- samples: guided, at the prompt's rate or the pipelines' 25; their pictures ----
expect 0 '2 stored prompts' train shown "${lora[@]}" --max_train_steps 1 --validation_steps 1 --num_inference_steps 3
is() { grep -aq "$2" "$1" || wrong "$1: expected $2"; }
is shown/validation/step-1/000.safetensors '"guidance_scale":"3","sampler":"euler","fps":"24"'
is shown/validation/step-1/001.safetensors '"fps":"25"'
expect 0 '2 decoded' vdecode shown --model m --format png
[ -s shown/validation/step-1/000-008.png ] || wrong "pictures: $(ls shown/validation/step-1)"
expect 0 . train shown-2 "${lora[@]}" --max_train_steps 1 --validation_steps 1 --num_inference_steps 3 --guidance_scale 1
is shown-2/validation/step-1/000.safetensors '"guidance_scale":"1"'
check differ 1 cmp shown/validation/step-1/000.safetensors shown-2/validation/step-1/000.safetensors

# ---- first frames that stay clean ----
expect 0 . train clean "${lora[@]}" --max_train_steps 2 --first_frame_conditioning_p 1 --trace_dir clean-trace

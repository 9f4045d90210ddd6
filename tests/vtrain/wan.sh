#!/usr/bin/env bash
# vtrain with Wan 2.1: a tiny model's folder and real clips, from the dataset to samples as
# pictures.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

small_set media 8                            # 6 clips, 2 stills, of 3 shapes
need make_model m WanPipeline 4
cat >prompts.jsonl <<'END'
{"prompt": "a b c", "height": 64, "width": 96, "num_frames": 9, "seed": 3}
{"prompt": "def ghi jkl", "negative_prompt": "a", "height": 64, "width": 64, "num_frames": 13}
END
sampling+=(--image_sample_size 64)
need vprep --meta media/metadata.json "${sampling[@]}" --model m --out a \
    --validation_prompts prompts.jsonl
train() { vtrain --latents a --model m --output_dir "$1" --train_batch_size 2 --seed 5 --threads 1 \
    --workers 1 "${@:2}"; }
lora=(--training_type lora --rank 2)
same() { cmp -s "$1/optimizer.safetensors" "$2/optimizer.safetensors" || wrong "$1 and $2 differ"; }
is() { grep -aq "$2" "$1" || wrong "$1: expected $2"; }

# ---- the schedule is the folder's ----
expect 0 'flow.*shift 3' train dry "${lora[@]}" --dry_run
expect 0 'weighting bell, shift 5, a table of 1000' train dry "${lora[@]}" --dry_run \
    --like diffsynth
output_has "like diffsynth: flow_shift  *3  *5 (wan2.1)"
absent dry

# ---- a LoRA and a full finetune; one that stopped resumes to the same bits ----
for how in "lora --rank 2" full-finetune; do
    read -ra type <<<"--training_type $how"
    name=${type[1]}
    expect 0 'memory: peak' train "$name" "${type[@]}" --max_train_steps 6 --caption_dropout_p 0.5
    expect 0 . train "$name-cut" "${type[@]}" --max_train_steps 3 --caption_dropout_p 0.5
    expect 0 . train "$name-cut" "${type[@]}" --max_train_steps 6 --caption_dropout_p 0.5 \
        --resume_from_checkpoint latest
    same "$name/checkpoint-6" "$name-cut/checkpoint-6"
done

# ---- samples: UniPC, guided by the negative prompt; their pictures ----
expect 0 '2 stored prompts' train shown "${lora[@]}" --max_train_steps 1 --validation_steps 1 \
    --num_inference_steps 3
is shown/validation/step-1/000.safetensors '"guidance_scale":"5","sampler":"unipc"'
expect 0 '2 decoded' vdecode shown --model m --format png
[ -s shown/validation/step-1/000-008.png ] || wrong "pictures: $(ls shown/validation/step-1)"

# ---- a clean first frame ----
expect 0 . train clean "${lora[@]}" --max_train_steps 1 --first_frame_conditioning_p 1

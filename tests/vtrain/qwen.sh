#!/usr/bin/env bash
# Qwen-Image from pictures to a LoRA and pictures: vprep makes a dataset with a tiny model's
# encoders, vtrain trains the model's transformer, samples from it and resumes, vdecode makes the
# samples' pictures.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

mkdir media
for ((i = 0; i < 6; i++)); do
    size=$([ $((i % 2)) = 0 ] && echo 96x64 || echo 64x64)
    ffmpeg -v error -y -f lavfi -i "testsrc2=s=$size:r=1:d=1,hue=h=$((i * 50))" -frames:v 1 \
        "media/$i.png"
    echo "picture $i$(printf '%*s' "$i" '' | tr ' ' x)" >"media/$i.txt"     # of several lengths
done
cat >prompts.jsonl <<'END'
{"prompt": "a b c", "height": 64, "width": 96, "seed": 3}
{"prompt": "def ghi jkl", "negative_prompt": "a", "height": 64, "width": 64, "guidance_scale": 1}
END
need make_model m QwenImagePipeline 16
need vprep --meta media --image_sample_size 64 --video_sample_size 64 --model m --out a \
    --validation_prompts prompts.jsonl
train() {
    vtrain --latents a --model m --output_dir "$1" --train_batch_size 2 --seed 5 --threads 1 \
        --workers 1 "${@:2}"
}
lora=(--training_type lora --rank 2)

# ---- the schedule is the folder's; those of other trainers ----
expect 0 'flow matching, weighting logit_normal.*by tokens (exponential, 0.5 at 256, 0.9 at 8192)' \
    train dry "${lora[@]}" --dry_run
expect 0 'weighting uniform.*a table of 1000 levels, stretched to 0.02' train dry "${lora[@]}" \
    --dry_run --weighting_scheme none --flow_levels 1000 --flow_terminal 0.02
expect 0 'weighting bell, shift 2.22554, a table of 1000 levels, stretched to 0.02' train dry \
    "${lora[@]}" --dry_run --like diffsynth
expect 0 'weighting bell, shift 2.2255, a table of 1000 levels' train dry "${lora[@]}" --dry_run \
    --like diffsynth --flow_shift 2.2255
expect 0 'logit_normal.*shift 2.2$' train dry "${lora[@]}" --dry_run --timestep_sampling shift \
    --discrete_flow_shift 2.2
absent dry

# ---- the targets of other trainers, as their users type them ----
modules=to_q,to_k,to_v,add_q_proj,add_k_proj,add_v_proj,to_out.0,to_add_out
modules+=,img_mlp.net.2,img_mod.1,txt_mlp.net.2,txt_mod.1
expect 0 . train diffsynth --lora_base_model dit --lora_target_modules "$modules" --lora_rank 2 \
    --max_train_steps 1
for module in ${modules//,/ }; do
    grep -aq "transformer_blocks.0.[a-z.]*$module.lora_A" \
        diffsynth/checkpoint-1/pytorch_lora_weights.safetensors || wrong "no LoRA of $module"
done
spare=img_mlp.0,img_mlp.2,txt_mlp.0,txt_mlp.2
expect 0 "warning: --target_name: these entries match no .*: ${spare//,/, }" train videox-fun \
    "${lora[@]}" --dry_run --target_name="to_q,to_k,to_v,img_mod.1,txt_mod.1,$spare"
output_has "diffusers' names are img_mlp.net.0.proj, img_mlp.net.2, txt_mlp.net.0.proj"

# ---- a LoRA, also with frozen weights in 8 bits, and a full finetune resume bit for bit ----
for how in "lora --rank 2" "lora --rank 2 --transformer_dtype fp8" full-finetune; do
    read -ra type <<<"--training_type $how"
    name=${how// /_}
    expect 0 'memory: peak' train "$name" "${type[@]}" --max_train_steps 6 --caption_dropout_p 0.5
    expect 0 . train "$name-cut" "${type[@]}" --max_train_steps 3 --caption_dropout_p 0.5
    expect 0 . train "$name-cut" "${type[@]}" --max_train_steps 6 --caption_dropout_p 0.5 \
        --resume_from_checkpoint latest
    same_end "$name/checkpoint-6" "$name-cut/checkpoint-6" || wrong "$name: other weights"
done

# ---- samples: guided at 4 by the negative prompt, unless the prompt has a number; pictures ----
expect 0 '2 stored prompts' train shown "${lora[@]}" --max_train_steps 1 --validation_steps 1 \
    --num_inference_steps 3
grep -aq '"guidance_scale":"4","sampler":"euler"' shown/validation/step-1/000.safetensors ||
    wrong "the first sample is not guided at 4"
grep -aq '"guidance_scale":"1"' shown/validation/step-1/001.safetensors ||
    wrong "the second sample is guided"
expect 0 '2 decoded' vdecode shown --model m --format png
for name in 000 001; do
    [ -s shown/validation/step-1/$name-000.png ] || [ -s shown/validation/step-1/$name.png ] ||
        wrong "pictures: $(ls shown/validation/step-1)"
done

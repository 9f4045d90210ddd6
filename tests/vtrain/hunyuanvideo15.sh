#!/usr/bin/env bash
# HunyuanVideo 1.5 from media to clips, from text and from pictures: vprep makes datasets with tiny
# models' encoders, of which one reads what captions have in quotes and one sees first frames;
# vtrain trains the models' transformers, samples from them and resumes, and vdecode makes the
# samples' clips.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

small_set media 4                            # 3 clips, 1 still
sed -i 's/picture 1,/a sign \\"OPEN\\" and \\"24 h\\",/' media/metadata.json
need make_model m HunyuanVideo15Pipeline 9
sampling+=(--image_sample_size 64)
echo '[{"prompt": "a disc", "negative_prompt": "mud", "num_frames": 9, "height": 64, "width": 64},
    {"prompt": "a sign “disc”", "num_frames": 9, "height": 64, "width": 64, "seed": 3}]' \
    >prompts.json
need vprep --meta media/metadata.json "${sampling[@]}" --model m --validation_prompts prompts.json \
    --out a
has() { grep -q -- "$1" a/manifest.json || wrong "expected $1 in a/manifest.json"; }
has '"family": *"hunyuanvideo1.5"'
has '"class":"AutoencoderKLHunyuanVideo15"'
has '"class":"Qwen2_5_VLTextModel"' && has '"max_length":1000,"width":32'
has '"class":"T5EncoderModel"' && has '"max_length":256,"width":32'
expect 0 . vlat verify a
expect 0 '0 encoded, 4 reused' vprep --meta media/metadata.json "${sampling[@]}" --model m \
    --validation_prompts prompts.json --out a
train() {
    vtrain --latents a --model m --output_dir "$1" --seed 5 --threads 1 --workers 1 \
        --train_batch_size 2 --dataset_repeat 2 "${@:2}"
}
lora=(--training_type lora --rank 2) full=(--training_type full-finetune)

# ---- a LoRA: samples guided by the negative prompt, clips, traces ----
expect 0 . train lora "${lora[@]}" --max_train_steps 4 --validation_steps 2 \
    --num_inference_steps 3 --checkpointing_steps 2 --trace_dir trace
holds lora/config.yaml 'flow_shift: 5'
holds lora/config.yaml 'guidance_scale: 6'
holds lora/config.yaml 'validation_sampler: euler'
expect 0 '4 decoded' vdecode lora --model m
for name in 2/000 2/001 4/000 4/001; do
    [ -s lora/validation/step-$name.mp4 ] || wrong "step $name: no clip"
done
for name in 000 001; do
    ! cmp -s lora/validation/step-2/$name.safetensors lora/validation/step-4/$name.safetensors ||
        wrong "training changes no sample"
done
lacks lora/checkpoint-4/pytorch_lora_weights.safetensors refiner
in_trace() {
    grep -qa "\"$1\":" <(head -c 20000 trace/step-000001-mb-00-rank-00.safetensors) ||
        wrong "the trace has no $1"
}
for name in hidden_states timestep encoder_hidden_states encoder_attention_mask \
    encoder_hidden_states_2 encoder_attention_mask_2 \
    grad/transformer_blocks.0.attn.to_q.lora_B.weight; do
    in_trace $name
done

# ---- a LoRA, also with frozen weights in 8 bits, and a full finetune resume bit for bit ----
ends_as lora two 4 train two "${lora[@]}"
ends_as none eight 4 train eight "${lora[@]}" --transformer_dtype fp8
expect 0 . train full "${full[@]}" --max_train_steps 4 --gradient_checkpointing
ends_as full full-two 4 train full-two "${full[@]}" --gradient_checkpointing
expect 0 'model: hunyuanvideo1.5' train trained "${lora[@]}" --max_train_steps 1 \
    --transformer full/checkpoint-4/transformer

# ---- Tencent's file of a model; a distilled model's samples, which no negative prompt guides ----
expect 0 'model: hunyuanvideo1.5, LoRA' train tencent "${lora[@]}" --max_train_steps 1 \
    --transformer m/first/diffusion_pytorch_model.safetensors
expect 0 . train tencent-full "${full[@]}" --max_train_steps 1 \
    --transformer m/first/diffusion_pytorch_model.safetensors
holds tencent-full/checkpoint-1/transformer/config.json '"task_type":.*"t2v"'
# A file alone is of text at 480p; Tencent's config.json beside it tells another size and task.
mkdir alone && cp m/packed/diffusion_pytorch_model.safetensors alone/comfy.safetensors
expect 0 'model: hunyuanvideo1.5, LoRA' train comfy "${lora[@]}" --max_train_steps 1 \
    --transformer alone/comfy.safetensors
expect 0 . train comfy-full "${full[@]}" --max_train_steps 1 --transformer alone/comfy.safetensors
holds comfy-full/checkpoint-1/transformer/config.json '"target_size":[[:space:]]*640'
echo '{"_class_name": "HunyuanVideo_1_5_DiffusionTransformer", "ideal_task": "t2v",
    "ideal_resolution": "720p", "use_meanflow": false}' >alone/config.json
expect 0 . train comfy-720p "${full[@]}" --max_train_steps 1 --transformer alone/comfy.safetensors
holds comfy-720p/checkpoint-1/transformer/config.json '"target_size":[[:space:]]*960'
expect 0 'model: hunyuanvideo1.5' train again "${lora[@]}" --max_train_steps 1 \
    --transformer tencent-full/checkpoint-1/transformer
expect 0 . train distilled "${lora[@]}" --max_train_steps 1 --validation_steps 1 \
    --num_inference_steps 3 --guidance_scale 1
grep -aq '"guidance_scale":"1"' distilled/validation/step-1/000.safetensors ||
    wrong "the sample has another guidance"

# ---- LoRA files in other programs' names have the same factors ----
expect 0 . train named --training_type lora --rank 2 --target_name all-linear --learning_rate 0.05 \
    --max_train_steps 2
comfy_has named/checkpoint-2 double_blocks.1.img_attn_qkv double_blocks.0.txt_mlp.fc2 byt5_in.fc2 \
    txt_in.individual_token_refiner.blocks.0.self_attn_qkv time_in.out_layer \
    txt_in.t_embedder.in_layer txt_in.c_embedder.out_layer final_layer.linear
same_loras named/checkpoint-2

# ---- the plan alone; models and data that do not fit ----
expect 0 'flow matching' train dry "${lora[@]}" --dry_run
absent dry

# ---- image to video: the first frame's latent and its states ----
need make_model i HunyuanVideo15ImageToVideoPipeline 9
echo '[{"prompt": "a sign \"disc\"", "negative_prompt": "mud", "num_frames": 9,
    "image_path": "'"$dir/media/still-3.png"'"}]' >pictures.json
from_pictures() {
    vprep --meta media/metadata.json "${sampling[@]}" --model i --train_mode i2v \
        --validation_prompts "${1:-pictures.json}" --out "${2:-i.lmdb}"
}
expect 0 '4 encoded' from_pictures
output_lacks warning
expect 0 . vlat verify i.lmdb
expect 0 '4 reused' from_pictures
grep -q '"class": *"SiglipVisionModel"' i.lmdb/manifest.json || wrong "no vision model"
expect 0 '"vision": "' vlat show i.lmdb 000000000000/000
output_lacks image_noised
seen() {
    vtrain --latents i.lmdb --model i --output_dir "$1" --seed 5 --threads 1 --workers 1 \
        --train_batch_size 1 "${@:2}"
}
expect 0 . seen i2v "${lora[@]}" --max_train_steps 4 --validation_steps 2 --num_inference_steps 3 \
    --checkpointing_steps 2 --caption_dropout_p 0.3 --trace_dir i2v-trace
output_lacks 'sampled without'
output_lacks 'conditions are not used'
holds i2v/config.yaml 'image_dropout_p: 0$'
expect 0 '2 decoded' vdecode i2v --model i
[ -s i2v/validation/step-4/000.mp4 ] || wrong "image to video: no clip"
head -c 20000 i2v-trace/step-000001-mb-00-rank-00.safetensors >head
grep -qa '"hidden_states":{"dtype":"F32","shape":\[1,9,[0-9]*,' head ||
    wrong "not the latents, the picture and its mask"
grep -qa '"image_embeds":{"dtype":"F32","shape":\[1,16,40\]' head || wrong "no states of a picture"
ends_as i2v i2v-cut 4 seen i2v-cut "${lora[@]}" --caption_dropout_p 0.3
expect 0 . seen i2v-full "${full[@]}" --max_train_steps 1

# another picture makes another sample
cp -r i.lmdb other.lmdb
ffmpeg -v error -y -f lavfi -i 'testsrc2=s=64x64:r=1:d=1,hue=h=200' -frames:v 1 media/other.png
sed 's/still-3.png/other.png/' pictures.json >other.json
expect 0 . from_pictures other.json other.lmdb
expect 0 . seen other "${lora[@]}" --max_train_steps 2 --validation_steps 2 \
    --num_inference_steps 3 --caption_dropout_p 0.3 --latents other.lmdb
! cmp -s i2v/validation/step-2/000.safetensors other/validation/step-2/000.safetensors ||
    wrong "the picture changes no sample"

# a model distilled to steps, which lead from one time to another: samples are not guided
expect 0 . seen steps "${lora[@]}" --transformer i/steps --max_train_steps 2 --validation_steps 2 \
    --num_inference_steps 2 --trace_dir steps-trace
head -c 20000 steps-trace/step-000001-mb-00-rank-00.safetensors >head
grep -qa '"timestep_r":{"dtype":"F32","shape":\[1\]' head || wrong "no time that a step leads to"
expect 0 . seen unguided "${lora[@]}" --transformer i/steps --max_train_steps 2 \
    --validation_steps 2 --num_inference_steps 2 --guidance_scale 1
cmp -s {steps,unguided}/validation/step-2/000.safetensors || wrong "samples of steps are guided"
expect 0 . seen steps-full "${full[@]}" --transformer i/steps --max_train_steps 1
grep -q '"use_meanflow": *true' steps-full/checkpoint-1/transformer/config.json ||
    wrong "the result is a model of another kind"

# datasets that are not the model's
refused() { # refused PATTERN DATASET MODEL
    expect 1 "$1" vtrain --latents "$2" --transformer "$3/transformer" --output_dir out \
        --threads 1 --train_batch_size 1 "${lora[@]}"
    absent out
}
refused \
    'takes a first-frame image .*a was made with --train_mode normal: run vprep --train_mode i2v' \
    a i

#!/usr/bin/env bash
# Wan's image-to-video models from media to clips: vprep makes a dataset with masked clips, masks
# and CLIP states, vtrain trains tiny transformers, samples from a picture and resumes, vdecode
# makes clips.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

small_set media 4                            # 3 clips, 1 still
for model in i2v flf2v a14b 5b; do
    need make_model $model WanImageToVideoPipeline wan-$model
done
sampling+=(--image_sample_size 64)
picture='"image_path": "'"$dir/media/still-3.png"'"'
echo '[{"prompt": "a disc", '"$picture"', "height": 64, "width": 64, "num_frames": 9}]' \
    >prompts.json
sed 's/"height"/"last_image_path": "media\/still-3.png", "height"/' prompts.json >ends.json
prep() { # prep MODEL PROMPTS FLAGS...
    vprep --meta media/metadata.json "${sampling[@]}" --model "$1" --validation_prompts "$2" \
        --out "$1.lmdb" "${@:3}"
}
train() { # train MODEL OUT FLAGS...
    vtrain --latents "$1.lmdb" --model "$1" --output_dir "$2" --seed 5 --threads 1 --workers 1 \
        --train_batch_size 1 "${@:3}"
}
lora=(--training_type lora --rank 2)
shown() { grep -aq "$2" <(head -c 20000 "$1") || wrong "$1: expected $2"; }
trace=step-000001-mb-00-rank-00.safetensors

# ---- the conditions of each model ----
conditions() { # conditions MODEL PROMPTS ROLES...
    expect 0 '4 encoded' prep "$1" "$2" --train_mode i2v
    output_lacks warning
    [[ " $* " != *" vision "* ]] ||
        output_has 'in the VAE, and its pictures take .*B in the vision model'
    expect 0 . vlat verify "$1.lmdb"
    expect 0 '4 reused' prep "$1" "$2" --train_mode i2v
    expect 0 '"mask_all": *false' vlat show "$1.lmdb" 000000000000/000
    for role in "${@:3}"; do
        output_has "\"$role\": \""
    done
}
conditions i2v prompts.json video mask vision
conditions flf2v ends.json video mask vision
conditions a14b prompts.json video mask
output_lacks vision
# a still is to be generated
expect 0 '"mask_all": *true' vlat show i2v.lmdb 000000000003/000

# ---- a LoRA, samples that begin with a picture, clips; a run that stopped resumes to the same bits
# ----
for model in i2v flf2v a14b; do
    expect 0 . train $model $model-run "${lora[@]}" --max_train_steps 4 --validation_steps 2 \
        --num_inference_steps 3 --checkpointing_steps 2 --trace_dir $model-trace
    output_lacks 'sampled without'
    expect 0 '2 decoded' vdecode $model-run --model $model
    [ -s $model-run/validation/step-4/000.mp4 ] || wrong "$model: no clip"
    expect 0 . train $model $model-cut "${lora[@]}" --max_train_steps 2
    expect 0 'resumes after step 2' train $model $model-cut "${lora[@]}" --max_train_steps 4 \
        --resume_from_checkpoint latest
    same_end $model-run/checkpoint-4 $model-cut/checkpoint-4 ||
        wrong "$model: a resumed run has other factors"
    shown $model-trace/$trace '"hidden_states":{"dtype":"F32","shape":\[1,12,'
done
shown i2v-trace/$trace '"encoder_hidden_states_image":{"dtype":"F32","shape":\[1,5,40\]'
shown flf2v-trace/$trace '"encoder_hidden_states_image":{"dtype":"F32","shape":\[1,10,40\]'

# ---- another picture makes another sample and the same training ----
cp -r a14b.lmdb other.lmdb && cp -r a14b other
ffmpeg -v error -y -f lavfi -i 'testsrc2=s=64x64:r=1:d=1,hue=h=200' -frames:v 1 media/other.png
sed 's/still-3/other/' prompts.json >other.json
expect 0 '0 encoded, 4 reused' prep other other.json --train_mode i2v
expect 0 . train other other-run "${lora[@]}" --max_train_steps 4 --validation_steps 2 \
    --num_inference_steps 3 \
    --checkpointing_steps 2
same_end a14b-run/checkpoint-4 other-run/checkpoint-4 ||
    wrong "a validation prompt changes training"
cmp -s a14b-run/validation/step-2/000.safetensors other-run/validation/step-2/000.safetensors &&
    wrong "the picture changes no sample"

# ---- without prompts a run samples captions of training, with the conditions of their clips ----
need vprep --meta media/metadata.json "${sampling[@]}" --model i2v --train_mode i2v --out own.lmdb
expect 0 'captions of training samples' vtrain --latents own.lmdb --model i2v --output_dir own \
    --threads 1 \
    --train_batch_size 1 "${lora[@]}" --max_train_steps 1 --validation_steps 1 \
    --num_inference_steps 2
output_lacks 'sampled without'

# ---- VideoX-Fun's Fun models: drawn masks, CLIP states that are dropped at times, both ends of a
# sample ----
expect 0 'i2v is trained with --train_mode i2v, not inpaint' vprep --meta media/metadata.json \
    "${sampling[@]}" --model i2v \
    --train_mode inpaint --variants 3 --validation_prompts ends.json --out inpaint.lmdb
expect 0 . vlat verify inpaint.lmdb
[ "$(grep -o '"purpose":"mask"' inpaint.lmdb/plan.jsonl | wc -l)" = 12 ] ||
    wrong "not a drawn mask a variant"
expect 0 . vtrain --latents inpaint.lmdb --model i2v --output_dir inpaint --threads 1 \
    --train_batch_size 1 "${lora[@]}" \
    --max_train_steps 2 --validation_steps 2 --num_inference_steps 2
output_lacks 'sampled without'
holds inpaint/config.yaml 'image_dropout_p: 0.1$'
holds i2v-run/config.yaml 'image_dropout_p: 0$'
expect 0 '1 decoded' vdecode inpaint --model i2v
sed -i 's/WanImageToVideoPipeline/WanFunInpaintPipeline/' i2v/model_index.json
expect 0 '12 reused' vprep --meta media/metadata.json "${sampling[@]}" --model i2v \
    --train_mode inpaint --variants 3 \
    --validation_prompts ends.json --out inpaint.lmdb
output_lacks warning
sed -i 's/WanFunInpaintPipeline/WanImageToVideoPipeline/' i2v/model_index.json

# ---- 5B: the picture is the clean first latent of a sample; its dataset is like that of
# text-to-video ----
expect 0 '4 encoded' prep 5b prompts.json
output_lacks warning
grep -q '"family": "wan2.2-5b"' 5b.lmdb/manifest.json || wrong "5b is of another family"
for p in 0 1; do
    expect 0 . train 5b 5b-$p "${lora[@]}" --max_train_steps 1 --validation_steps 1 \
        --num_inference_steps 3 \
        --first_frame_conditioning_p $p --trace_dir 5b-trace-$p
done
output_lacks 'sampled without'
shown 5b-trace-1/$trace '"timestep":{"dtype":"F32","shape":\[1,12\]'
cmp -s 5b-0/validation/step-1/000.safetensors 5b-1/validation/step-1/000.safetensors &&
    wrong "the picture changes no sample"
expect 0 '1 decoded' vdecode 5b-1 --model 5b
[ -s 5b-1/validation/step-1/000.mp4 ] || wrong "5b: no clip"

# ---- DiffSynth's flags ----
expect 0 'input_image selects --train_mode i2v' vprep --meta media/metadata.json "${sampling[@]}" \
    --model a14b \
    --extra_inputs input_image,end_image --out ends.lmdb
cmp -s <(vlat show a14b.lmdb 000000000000/000 |
    grep '"mask":') <(vlat show ends.lmdb 000000000000/000 | grep '"mask":') &&
    wrong "the last frame is not known"
# TI2V-5B begins with the clip's own first latent, in the dataset of text-to-video.
expect 0 'vtrain trains so with this flag' vprep --meta media/metadata.json "${sampling[@]}" \
    --model 5b --extra_inputs input_image --out 5b.lmdb
output_lacks warning
expect 0 'all clips begin with a clean frame (--first_frame_conditioning_p 1)' train 5b 5b-in \
    "${lora[@]}" --max_train_steps 1 --extra_inputs input_image
holds 5b-in/config.yaml 'first_frame_conditioning_p: 1$'
cmp -s 5b-in/checkpoint-1/optimizer.safetensors 5b-1/checkpoint-1/optimizer.safetensors ||
    wrong "input_image is another training"
expect 0 . train 5b 5b-half "${lora[@]}" --max_train_steps 1 --extra_inputs input_image \
    --first_frame_conditioning_p 0.5
holds 5b-half/config.yaml 'first_frame_conditioning_p: 0.5$'
expect 0 . train a14b a14b-in "${lora[@]}" --max_train_steps 1 --extra_inputs input_image
output_lacks 'clean frame'
for program in 'vprep --meta media/metadata.json --out no.lmdb' 'train 5b no'; do
    expect 2 'extra_inputs vap_video: Video-As-Prompt is not trained here' $program --model 5b \
        --extra_inputs input_image,vap_video
    expect 2 'extra_inputs camera_control_speed: .*column control_video' $program --model 5b \
        --extra_inputs input_image,camera_control_direction,camera_control_speed
done
absent no no.lmdb

# ---- errors name the remedy ----
expect 1 'row 1: no last_image_path: samples of this model begin and end with a picture' prep \
    flf2v prompts.json --train_mode i2v
expect 2 'image_noise_variants: wan2.1 trains on first frames without noise' prep i2v prompts.json \
    --train_mode i2v --image_noise_variants 2
expect 0 'i2v is trained with --train_mode i2v, not normal' vprep --meta media/metadata.json \
    "${sampling[@]}" --model i2v --out plain.lmdb
refused() { # refused PATTERN DATASET MODEL
    expect 1 "$1" vtrain --latents "$2" --transformer "$3/transformer" --output_dir out \
        --threads 1 --train_batch_size 1 "${lora[@]}"
    absent out
}
refused 'takes a masked clip (12 channels in all), .*plain.lmdb was made with --train_mode normal: run vprep --train_mode i2v' \
    plain.lmdb i2v
refused \
    'takes a vision model.s states of the first frame, .*a14b.lmdb lacks: run vprep .* --image_encoder' \
    a14b.lmdb i2v
refused 'image_embeds: shape \[5,40\], expected \[10,40\]' i2v.lmdb flf2v
mv i2v/image_encoder away
expect 2 '--image_encoder is missing: i2v/image_encoder is no folder' prep i2v prompts.json \
    --train_mode i2v
expect 0 '4 reused' prep i2v prompts.json --train_mode i2v --image_encoder away
sed -i 's/"hidden_size": 40/"hidden_size": 32/' away/config.json
expect 1 "away" prep i2v prompts.json --train_mode i2v --image_encoder away

#!/usr/bin/env bash
# LTX-Video from real clips to samples as pictures, with a tiny model's folder.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

small_set media 8                            # 6 clips, 2 stills, of 3 shapes
ffmpeg -v error -y -f lavfi -i "testsrc2=s=64x64:r=20:d=1" -c:v mpeg4 -q:v 4 media/clip-5.mp4
sed -i 's/picture 0, 64x64/the longest of the captions/' media/metadata.json
need make_model m LTXPipeline 8
cat >prompts.jsonl <<'END'
{"prompt": "a b c", "height": 64, "width": 96, "num_frames": 9, "fps": 24, "seed": 3}
{"prompt": "def ghi jkl", "height": 64, "width": 64, "num_frames": 17}
END
sampling+=(--image_sample_size 64)
need vprep --meta media/metadata.json "${sampling[@]}" --model m --out a \
    --validation_prompts prompts.jsonl
set=a from=m
train() {
    vtrain --latents "$set" --model "$from" --output_dir "$1" --train_batch_size 2 --seed 5 \
        --threads 1 --workers 1 "${@:2}"
}
lora=(--training_type lora --rank 2)
same() { cmp -s "$1/optimizer.safetensors" "$2/optimizer.safetensors" || wrong "$1 and $2 differ"; }

# ---- the folder's schedule is used: noise levels shift with the number of tokens ----
expect 0 'flow.*by tokens (exponential, 0.95 at 1024, 2.05 at 4096)' train dry "${lora[@]}" \
    --dry_run
absent dry
expect 0 'shift 3' train dry "${lora[@]}" --dry_run --flow_shift 3

# ---- without its file, the schedule is that of the version ----
cp -r m bare && rm -r bare/scheduler
from=bare
expect 0 'flow.*by tokens (exponential, 0.95 at 1024, 2.05 at 4096)' train dry "${lora[@]}" \
    --dry_run
stderr_has \
    'no scheduler/scheduler_config.json.*ltx-video was trained with (by tokens, e^0.95 at 1024 and e^2.05 at 4096)'
expect 0 'shift 3' train dry "${lora[@]}" --dry_run --flow_shift 3
stderr_lacks scheduler_config
sampled() # sampled NAME: a sample of the model as it is; the first step changes next to nothing
{
    expect 0 . train "$1" "${lora[@]}" --max_train_steps 1 --learning_rate 1e-12 \
        --validation_steps 1 --num_inference_steps 3
    cp "$1/validation/step-1/000.safetensors" "$1.sample"
}
sampled without
from=m
sampled with
cmp with.sample without.sample || wrong 'samples with and without the file differ'
sed -i 's/LTXPipeline/LTXConditionPipeline/' bare/model_index.json
from=bare
expect 0 'shift 1,\?$' train dry "${lora[@]}" --dry_run --allow_mismatch
stderr_has 'was trained with (1)'
from=m

# ---- a LoRA and a full finetune resume to the same bits ----
for how in "lora --rank 2" full-finetune; do
    read -ra type <<<"--training_type $how"
    name=${type[1]}
    expect 0 'memory: peak' train "$name" "${type[@]}" --max_train_steps 6 --caption_dropout_p 0.5
    expect 0 . train "$name-cut" "${type[@]}" --max_train_steps 3 --caption_dropout_p 0.5
    expect 0 . train "$name-cut" "${type[@]}" --max_train_steps 6 --caption_dropout_p 0.5 \
        --resume_from_checkpoint latest
    same "$name/checkpoint-6" "$name-cut/checkpoint-6"
done
shift_of() { sed -n 's/^flow_shift: *//p' "$1/config.yaml"; }
need [ "$(shift_of lora)" = "$(shift_of full-finetune)" ]
expect 0 . train on --transformer full-finetune/checkpoint-6/transformer "${lora[@]}" \
    --max_train_steps 1

# ---- ComfyUI's LoRA file has the first authors' names; both files are read to the same values ----
wide=(--training_type lora --rank 2 --target_name to_q,proj_in,time_embed.linear
    --max_train_steps 1)
expect 0 . train names "${wide[@]}"
is() { grep -aq "$2" "$1" || wrong "$1: expected $2"; }
for name in patchify_proj adaln_single.linear transformer_blocks.1.attn2.to_q; do
    is names/checkpoint-1/lora_comfyui.safetensors "\"diffusion_model\.$name\.lora_[Ad]"
done
for file in pytorch_lora_weights lora_comfyui; do
    expect 0 . train "from-$file" "${wide[@]}" \
        --lora_checkpoint "names/checkpoint-1/$file.safetensors"
done
same from-pytorch_lora_weights/checkpoint-1 from-lora_comfyui/checkpoint-1
check differ 1 cmp from-lora_comfyui/checkpoint-1/optimizer.safetensors \
    names/checkpoint-1/optimizer.safetensors

# ---- samples are guided, and have the prompt's frame rate or the pipelines' 25; their pictures
# ----
expect 0 '2 stored prompts' train shown "${lora[@]}" --max_train_steps 1 --validation_steps 1 \
    --num_inference_steps 3
is shown/validation/step-1/000.safetensors '"guidance_scale":"3","sampler":"euler","fps":"24"'
is shown/validation/step-1/001.safetensors '"fps":"25"'
expect 0 '2 decoded' vdecode shown --model m --format png
[ -s shown/validation/step-1/000-008.png ] || wrong "pictures: $(ls shown/validation/step-1)"
expect 0 . train shown-2 "${lora[@]}" --max_train_steps 1 --validation_steps 1 \
    --num_inference_steps 3 --guidance_scale 1
is shown-2/validation/step-1/000.safetensors '"guidance_scale":"1"'
check differ 1 cmp shown/validation/step-1/000.safetensors shown-2/validation/step-1/000.safetensors

# ---- traces have forward()'s arguments, with latents as tokens ----
# values FILE TENSOR: the values of an f32 tensor, one per line; shape FILE TENSOR: "2,8,8"
entry() { head -c $((8 + $(od -An -tu8 -N 8 "$1"))) "$1" | grep -ao "\"$2\":{[^}]*}"; }
shape() { entry "$1" "$2" | sed 's/.*"shape":\[\([^]]*\)].*/\1/'; }
values()
{
    local at
    at=($(entry "$1" "$2" | sed 's/.*"data_offsets":\[\([0-9]*\),\([0-9]*\)].*/\1 \2/'))
    od -An -v -tf4 -w4 -j $((8 + $(od -An -tu8 -N 8 "$1") + at[0])) -N $((at[1] - at[0])) "$1" |
        tr -d ' '
}
traced() { train "$1" --max_train_steps 1 --trace_dir "$1-trace" --mixed_precision no "${@:2}"; }
need vlat select a 'width = 64 and height = 64' --out square    # clips with 10 and 20 fps
set=square
expect 0 . traced trace "${lora[@]}"
t=trace-trace/step-000001-mb-00-rank-00.safetensors
for name in latents noise noisy_latents target model_output; do
    [ "$(shape $t $name)" = 2,8,8 ] || wrong "$name: $(shape $t $name)"
done
[ "$(shape $t encoder_attention_mask)" = "$(shape $t encoder_hidden_states | sed 's/,32$//')" ] ||
    wrong "mask"
[ "$(values $t encoder_attention_mask | sort -u | tr '\n' ' ')" = '0 1 ' ] ||
    wrong 'the mask is not 0 and 1'
[ "$(shape $t video_coords)" = 2,3,8 ] || wrong "video_coords: $(shape $t video_coords)"
values $t video_coords | sed -n '1p;5p;29p' >seconds
[ "$(sort seconds | tr '\n' ' ')" = '0 0.4 0.8 ' ] || wrong "seconds: $(cat seconds)"

# ---- clean first frames: their tokens have time 0 and no loss ----
expect 0 . traced clean "${lora[@]}" --first_frame_conditioning_p 1
t=clean-trace/step-000001-mb-00-rank-00.safetensors
[ "$(shape $t timestep)" = 2,8 ] && [ "$(shape $t loss_weight)" = 2,8,1 ] ||
    wrong "of tokens: $(shape $t timestep)"
[ "$(values $t loss_weight | tr '\n' ' ')" = '0 0 0 0 2 2 2 2 0 0 0 0 2 2 2 2 ' ] ||
    wrong "$(values $t loss_weight)"
for i in 1 2 3 4; do
    [ "$(values $t timestep | sed -n ${i}p)" = 0 ] || wrong "token $i: the time is not 0"
done
[ "$(values $t timestep | sed -n 5p)" != 0 ] || wrong 'token 5: the time is 0'
cmp -s <(values $t latents | head -n 32) <(values $t noisy_latents | head -n 32) ||
    wrong 'the first frame is noisy'

# ---- LTXImageToVideoPipeline: samples begin with a picture, clips need nothing more ----
ffmpeg -v error -i media/clip-2.mp4 -frames:v 1 media/clip-2.png
echo '{"prompt": "a b c", "num_frames": 9, "height": 64, "width": 64,' \
    '"image": "media/clip-2.png"}' >image.jsonl
need make_model i LTXImageToVideoPipeline 8
expect 0 '' vprep --meta media/metadata.json "${sampling[@]}" --model i --out i2v \
    --validation_prompts image.jsonl
output_lacks 'train_mode'
holds i2v/manifest.json '"max_length":128'
need vlat verify i2v
expect 0 '' vlat show i2v 000000000000/000
stdout_lacks '"image":'
set=i2v from=i
for seed in 6 7; do
    expect 0 . train "i2v-$seed" "${lora[@]}" --max_train_steps 1 --first_frame_conditioning_p 1 \
        --validation_steps 1 --num_inference_steps 2 --seed $seed
    values "i2v-$seed/validation/step-1/000.safetensors" latents >latents-$seed
done
first() { awk 'NR % 8 >= 1 && NR % 8 <= 4' "$1"; }      # 8 channels of 2 x 2 x 2 latents
cmp -s <(first latents-6) <(first latents-7) || wrong 'the first frame is not the image'
! cmp -s <(sed -n 5,8p latents-6) <(sed -n 5,8p latents-7) ||
    wrong 'the second frame is not sampled'
expect 0 'prompt 0 has an image that is not its first frame without --first_frame_conditioning_p' \
    train i2v-0 \
    "${lora[@]}" --max_train_steps 1 --validation_steps 1 --num_inference_steps 2
set=square from=m

# ---- the error about a clip without a frame rate comes before the first step ----
need vlat export square --to safetensors --out plain
sed -i 's/"fps": *20/"fps":0/g' plain/samples.jsonl
need vlat import plain --from safetensors --out norate
set=norate
expect 1 'sample 000000000005/000 has no frame rate (fps), which the positions of LTXVideo.* need' \
    train none "${lora[@]}"
absent none

# ---- latents of another VAE ----
need make_model h HunyuanVideoPipeline 4
set=a from=h
expect 1 'h/vae.*the dataset.s latents are of a "AutoencoderKLLTXVideo".*vprep --model' train none \
    "${lora[@]}"
expect 1 'latents have 8 channels (VAE AutoencoderKLLTXVideo).* takes 4: encode the clips with this model.s VAE (vprep --model)' \
    vtrain --latents a --transformer h/transformer --output_dir none "${lora[@]}"
absent none

# ---- 0.9.5 and later, by the class of the pipeline: longer prompts, and positions whose first
# frame lasts one frame ----
need make_model later LTXConditionPipeline 8
need vprep --meta media/metadata.json "${sampling[@]}" --model later --out longer
holds longer/manifest.json '"max_length":256'
holds a/manifest.json '"max_length":128'
seconds() { values "$1" video_coords | sed -n '1p;5p;29p' | sort | tr '\n' ' '; }
set=square from=later
expect 0 . traced later-full --training_type full-finetune --caption_dropout_p 0
[ "$(seconds later-full-trace/step-000001-mb-00-rank-00.safetensors)" = '0 0.05 0.1 ' ] ||
    wrong "seconds: $(seconds later-full-trace/*)"
holds later-full/checkpoint-1/model_index.json LTXConditionPipeline
from=later-full/checkpoint-1
expect 0 . traced again "${lora[@]}"
[ "$(seconds again-trace/step-000001-mb-00-rank-00.safetensors)" = '0 0.05 0.1 ' ] ||
    wrong 'the checkpoint has other positions'

#!/usr/bin/env bash
# vtrain with SkyReels V2: tiny folders of diffusion forcing with frame rates and of image to video,
# from clips to samples as pictures.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

small_set media 8                            # 6 clips, 2 stills, of 3 shapes
need make_model m SkyReelsV2DiffusionForcingPipeline skyreels2-rate
need make_model i SkyReelsV2ImageToVideoPipeline skyreels2-i2v
sampling+=(--image_sample_size 64)
cat >prompts.jsonl <<'END'
{"prompt": "a b c", "height": 64, "width": 96, "num_frames": 9, "seed": 3, "fps": 16}
{"prompt": "def ghi jkl", "negative_prompt": "a", "height": 64, "width": 64, "num_frames": 13}
END
need vprep --meta media/metadata.json "${sampling[@]}" --model m --out a \
    --validation_prompts prompts.jsonl
train() { vtrain --latents a --model m --output_dir "$1" --train_batch_size 2 --seed 5 --threads 1 \
    --workers 1 "${@:2}"; }
lora=(--training_type lora --rank 2)
same() { cmp -s "$1/optimizer.safetensors" "$2/optimizer.safetensors" || wrong "$1 and $2 differ"; }
is() { grep -aq "$2" "$1" || wrong "$1: expected $2"; }

# ---- the folder's names: all LoRA names are those of diffusers' pipeline ----
expect 0 'memory: peak' train plain "${lora[@]}" --max_train_steps 2 --validation_steps 2 \
    --num_inference_steps 3
is plain/checkpoint-2/pytorch_lora_weights.safetensors \
    'transformer.blocks.0.attn1.to_q.lora_A.weight'
is plain/checkpoint-2/lora_comfyui.safetensors 'blocks.0.self_attn.q.lora'
is plain/validation/step-2/000.safetensors '"fps":"16"'
is plain/validation/step-2/001.safetensors '"fps":"24"'
expect 0 '2 decoded' vdecode plain --model m --format png

# ---- LoRA files in other programs' names have the same factors ----
expect 0 . train named "${lora[@]}" --target_name all-linear --learning_rate 0.05 \
    --max_train_steps 2
grep -aq '"lora_unet__blocks_0_cross_attn_k' named/checkpoint-2/lora_kohya.safetensors ||
    wrong "lora_kohya has other names"
same_loras named/checkpoint-2

# ---- diffusion forcing: a LoRA and a full finetune; one that stopped resumes to the same bits ----
forced=(--diffusion_forcing increasing --first_frame_conditioning_p 0.3)
for how in "lora --rank 2" full-finetune; do
    read -ra type <<<"--training_type $how"
    name=${type[1]}
    expect 0 'levels of frames: increasing (--diffusion_forcing), 1 frame together' \
        train dry "${type[@]}" "${forced[@]}" --dry_run
    expect 0 . train "$name" "${type[@]}" "${forced[@]}" --max_train_steps 6 --caption_dropout_p 0.5
    expect 0 . train "$name-cut" "${type[@]}" "${forced[@]}" --max_train_steps 3 \
        --caption_dropout_p 0.5
    expect 0 . train "$name-cut" "${type[@]}" "${forced[@]}" --max_train_steps 6 \
        --caption_dropout_p 0.5 --resume_from_checkpoint latest
    same "$name/checkpoint-6" "$name-cut/checkpoint-6"
done
holds lora/config.yaml 'diffusion_forcing: increasing$'
for pipeline in "WanPipeline 4" "LTXPipeline 8"; do
    read -ra made <<<"$pipeline"
    need make_model "${made[0]}" "${made[@]}"
    need vprep --meta media/metadata.json "${sampling[@]}" --model "${made[0]}" \
        --out "${made[0]}.lmdb" --validation_prompts prompts.jsonl
    expect 0 . vtrain --latents "${made[0]}.lmdb" \
        --model "${made[0]}" --output_dir "${made[0]}-out" "${lora[@]}" --max_train_steps 2 \
        --diffusion_forcing independent --threads 1 --workers 1
done
expect 2 'diffusion_forcing: .*"sorted".*increasing' train no "${lora[@]}" \
    --diffusion_forcing sorted
absent no

# ---- samples in blocks that lag, and in windows; the larger one has 4 latent frames ----
sampled=(--max_train_steps 2 --validation_steps 2 --num_inference_steps 2)
long=(--overlap_history 1 --base_num_frames 5)
expect 0 'addnoise_condition: has no effect: no validation sample' train lag "${lora[@]}" \
    "${sampled[@]}" --ar_step 1 --addnoise_condition 20
is lag/validation/step-2/000.safetensors '"ar_step":"1"'
expect 0 . train long "${lora[@]}" "${sampled[@]}" --ar_step 1 "${long[@]}" --addnoise_condition 20
output_lacks addnoise_condition
is long/validation/step-2/001.safetensors '"overlap_history":"1"'
expect 0 '2 decoded' vdecode long --model m --format png
cmp -s lag/validation/step-2/001.safetensors long/validation/step-2/001.safetensors &&
    wrong 'windows do not change a sample'
expect 2 'prompt 0: --causal_block_size 2: a window of 3 latent frames.*whole blocks' \
    train no "${lora[@]}" "${sampled[@]}" --causal_block_size 2
expect 2 'overlap_history: a window of --base_num_frames has more frames' \
    train no "${lora[@]}" "${sampled[@]}" --overlap_history 5 --base_num_frames 5
expect 2 'base_num_frames: the windows of a longer sample share --overlap_history' \
    train no "${lora[@]}" "${sampled[@]}" --base_num_frames 5
expect 2 'ar_step: the frames are at different steps' train no "${lora[@]}" "${sampled[@]}" \
    --ar_step 1 --guidance_schedule cosine
expect 0 . vtrain --latents LTXPipeline.lmdb --model LTXPipeline --output_dir LTX-lag "${lora[@]}" \
    "${sampled[@]}" --ar_step 1 --threads 1 --workers 1
is LTX-lag/validation/step-2/000.safetensors '"ar_step":"1"'
expect 2 'causal_block_size: the tokens of the model.s blocks attend to all' vtrain \
    --latents LTXPipeline.lmdb --model LTXPipeline --output_dir no "${lora[@]}" "${sampled[@]}" \
    --causal_block_size 2
absent no

# ---- samples that go on from the end of a clip, and those between two pictures ----
ffmpeg -v error -f lavfi -i "testsrc=s=96x64:r=8:d=1.5" -c:v ffv1 -pix_fmt bgr0 clip.mkv    # 12
for i in 1 2; do
    ffmpeg -v error -f lavfi -i "testsrc2=s=128x96,hue=h=$((i * 90))" -frames:v 1 $i.png
done
cat >known.jsonl <<'END'
{"prompt": "a b c", "video_path": "clip.mkv", "overlap_history": 7, "num_frames": 21, "height": 64, "width": 96}
{"prompt": "a b c", "video_path": "clip.mkv", "num_frames": 21}
{"prompt": "def", "image_path": "1.png", "last_image_path": "2.png", "num_frames": 9, "seed": 3}
{"prompt": "def", "image_path": "1.png", "num_frames": 9, "seed": 3}
END
known() { # known LIST OUT FLAGS...
    vprep --meta media/metadata.json "${sampling[@]}" --model m --out "$2" \
        --validation_prompts "$1" "${@:3}"
}
expect 0 '4 conditions encoded' known known.jsonl k
expect 0 'no damage' vlat verify k
expect 0 '^conditions: reuse 5, encode 0$' known known.jsonl k --dry_run
more() { vtrain --latents k --model m --output_dir "$1" --seed 5 --threads 1 --workers 1 \
    "${lora[@]}" "${sampled[@]}" "${@:2}"; }
expect 0 . more more --first_frame_conditioning_p 0.5
is more/validation/inputs/000.safetensors '"start":{"dtype":"F32","shape":\[4,2,8,12\]'
is more/validation/inputs/001.safetensors '"start":{"dtype":"F32","shape":\[4,3,6,8\]'
is more/validation/inputs/002.safetensors '"last":{"dtype":"F32","shape":\[4,1,'
is more/validation/step-2/000.safetensors '"shape":\[4,6,8,12\]'
expect 0 '4 decoded' vdecode more --model m --sheet
for name in 000-start.mp4 001-start.mp4 002-image.png 002-last.png; do
    [ -s "more/validation/inputs/$name" ] || wrong "no $name"
done
cmp -s more/validation/step-2/002.safetensors more/validation/step-2/003.safetensors &&
    wrong 'a last picture does not change a sample'
expect 0 . more windows --first_frame_conditioning_p 0.5 --overlap_history 1 --base_num_frames 13
expect 2 'prompt 0: video_path: 2 latent frames are known, and the sample.s first window has 2' \
    more no --first_frame_conditioning_p 0.5 --overlap_history 1 --base_num_frames 5
expect 2 'prompt 2: last_image_path: the sample begins with no picture' more no
expect 2 'prompt 2: last_image_path: blocks of 3 frames attend to no later frame' more no \
    --first_frame_conditioning_p 0.5 --causal_block_size 3
absent no
while read -r says; do
    read -r row
    echo "$row" >wrong.jsonl
    expect 1 "wrong.jsonl: row 1: .*$says" known wrong.jsonl k
done <<'END'
image_path and video_path: a sample begins with one of them
{"prompt": "a", "video_path": "clip.mkv", "image_path": "1.png"}
a sample that goes on from a clip ends with no picture
{"prompt": "a", "video_path": "clip.mkv", "last_image_path": "1.png"}
no image_path: a sample that ends with a picture begins with one
{"prompt": "a", "last_image_path": "1.png"}
clip.mkv: 12 frames: the sample ends with a picture
{"prompt": "a", "image_path": "1.png", "last_image_path": "clip.mkv"}
clip.mkv: 12 frames, overlap_history is 13: give a longer clip
{"prompt": "a", "video_path": "clip.mkv", "overlap_history": 13}
gone.mkv: .*No such file
{"prompt": "a", "video_path": "gone.mkv"}
END

# ---- image to video: conditions, CLIP states ----
need vprep --meta media/metadata.json "${sampling[@]}" --model i --out b --train_mode i2v
expect 0 . vtrain --latents b --model i --output_dir pictures "${lora[@]}" --max_train_steps 1 \
    --threads 1 --workers 1
expect 1 'stored for --train_mode\|--train_mode' vtrain --latents a --model i --output_dir no \
    "${lora[@]}" --max_train_steps 1

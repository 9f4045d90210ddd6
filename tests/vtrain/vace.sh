#!/usr/bin/env bash
# Wan VACE from lists to clips: vprep divides clips by masks and stores references, vtrain trains a
# tiny transformer on them, samples beside the stored conditions and resumes, vdecode makes clips.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

mkdir media
video() { ffmpeg -v error -y -f lavfi -i "$1" -c:v ffv1 -pix_fmt bgr0 "media/$2"; }
size='s=96x64:r=10:d=1.3'
for i in 0 1 2 3 4; do video "testsrc2=$size,hue=h=$((i * 60))" $i.mkv; done
video "mandelbrot=s=96x64:r=10,trim=duration=1.3" poses.mkv
# a box that moves, one that stands
video "color=black:$size,drawbox=x='8+40*t':y=16:w=32:h=24:c=white:t=fill" moves.mkv
ffmpeg -v error -y -f lavfi -i "color=black:s=96x64,drawbox=x=16:y=8:w=40:h=21:c=white:t=fill" \
    -frames:v 1 media/box.png
ffmpeg -v error -y -f lavfi -i "testsrc2=s=70x50" -frames:v 1 media/face.png
ffmpeg -v error -y -f lavfi -i "testsrc2=s=40x90,hue=h=90" -frames:v 1 media/dress.png
cat >media/list.jsonl <<'END'
{"video": "0.mkv", "vace_video": "poses.mkv", "prompt": "a red thing"}
{"video": "1.mkv", "control_file_path": "poses.mkv", "vace_video_mask": "moves.mkv", "prompt": "a blue thing"}
{"video": "2.mkv", "mask_file_path": "box.png", "prompt": "a flat thing"}
{"video": "3.mkv", "vace_video": "poses.mkv", "vace_reference_image": ["face.png", "dress.png"], "prompt": "two"}
{"video": "4.mkv", "vace_reference_image": "face.png", "prompt": "a face"}
END
need make_model m WanVACEPipeline wan-vace
prep() {
    vprep --meta "media/$1" --out "$2" --video_sample_size 64 --video_sample_n_frames 9 \
        --video_sample_stride 1 --model m "${@:3}"
}
vace=(--train_mode vace)
value() { # value DATASET SAMPLE ROLE: the key of a condition
    vlat show "$1" "$2" | sed -n "s/.*\"$3\": *\"\\([0-9a-f]*\\)\".*/\\1/p" | head -1
}

# ---- what is stored: of a clip alone its grey part is that of every other clip ----
check prepared 0 prep list.jsonl a "${vace[@]}" && stderr_has '5 encoded'
check verified 0 vlat verify a
check clip 0 vlat show a 0
stdout_has '"mask_all": *true' && stdout_has 'mask.*\[64,3,6,8\].*mean 1'
check masked 0 vlat show a 1 && stdout_has '"mask_all": *false'
check references 0 vlat show a 3 && stdout_has '"reference_2": *"' &&
    stdout_has '50' && stdout_has '"latent": *\[1, *6, *8\]'
check face 0 vlat show a 4 && stdout_has '"mask_all": *true' && stdout_lacks reference_2
[ "$(value a 0 video)" = "$(value a 4 video)" ] || wrong 'the grey clip has two keys'
[ "$(value a 2 reactive)" = "$(value a 4 reactive)" ] || wrong 'what is made again is not grey'
[ "$(value a 0 reactive)" != "$(value a 1 reactive)" ] || wrong 'the mask changes nothing'
[ "$(value a 3 reference_1)" = "$(value a 4 reference_1)" ] || wrong 'one picture has two keys'
check again 0 prep list.jsonl a "${vace[@]}" && stderr_has '0 encoded, 5 reused' &&
    stderr_has ' 0 conditions encoded'
# DiffSynth's flag selects the mode; drawn masks are in the plan
check inputs 0 prep list.jsonl e --extra_inputs vace_video,vace_reference_image
stderr_has '--extra_inputs vace_video selects --train_mode vace'
echo '{"video": "0.mkv", "prompt": "drawn"}' >media/drawn.jsonl
check drawn 0 prep drawn.jsonl d "${vace[@]}" && check 'shown' 0 vlat show d 0 &&
    stdout_has '"purpose": *"mask"'

# ---- what cannot be used ----
video "testsrc2=s=96x64:r=10:d=0.4" short.mkv
cat >media/bad.jsonl <<'END'
{"video": "0.mkv", "vace_video": "poses.mkv", "prompt": "good"}
{"video": "1.mkv", "vace_video": "short.mkv", "prompt": "short"}
{"video": "2.mkv", "vace_video": "face.png", "prompt": "another shape"}
{"video": "3.mkv", "vace_reference_image": "poses.mkv", "prompt": "a clip"}
END
check skipped 3 prep bad.jsonl b "${vace[@]}" --allow_missing && stderr_has '1 encoded'
holds b/errors.jsonl '"row":2.*vace_video short.mkv: 4 frames, but'
holds b/errors.jsonl '"row":3.*vace_video face.png: 70x50, but the source is 96x64'
holds b/errors.jsonl '"row":4.*vace_reference_image poses.mkv: .* a reference is a picture'
need make_model plain WanPipeline 4
check plain 2 vprep --meta media/list.jsonl --out n --model plain "${vace[@]}"
stderr_has '--train_mode vace: models of wan2.1 have no blocks of VACE'
check edits 2 prep list.jsonl n --train_mode edit

# ---- validation prompts ----
at='"height": 64, "width": 96, "num_frames": 9, "seed": 3'
cat >media/prompts.jsonl <<END
{"prompt": "a", "vace_video": "poses.mkv", $at}
{"prompt": "a", "vace_video": "poses.mkv", "vace_video_mask": "moves.mkv", $at}
{"prompt": "a", "control_file_path": "poses.mkv", "mask_file_path": "box.png", "vace_reference_image": "face.png", $at}
END
check prompts 0 prep list.jsonl p "${vace[@]}" --validation_prompts media/prompts.jsonl
check 'again with prompts' 0 prep list.jsonl p "${vace[@]}" --validation_prompts media/prompts.jsonl
stderr_has ' 0 conditions encoded'
check 'verified prompts' 0 vlat verify p
echo "{\"prompt\": \"a\", $at}" >media/no.jsonl
check 'no clip' 1 prep list.jsonl q "${vace[@]}" --validation_prompts media/no.jsonl
stderr_has 'row 1: no vace_video: a sample of VACE needs a clip to edit'

# ---- training, and samples beside the captions' own conditions ----
train() {
    vtrain --latents "$1" --model m --output_dir "$2" --train_batch_size 1 --seed 5 --threads 1 \
        --workers 1 "${@:3}"
}
lora=(--training_type lora --rank 2)
expect 0 '5 latent frames with references in front' train a whole "${lora[@]}" \
    --max_train_steps 6 --validation_steps 6 --num_inference_steps 3 --trace_dir trace
output_lacks 'conditions are not used' && output_lacks 'sampled without'
ends_as whole cut 6 train a cut "${lora[@]}"
expect 0 'decoded' vdecode whole --model m
expect 0 . train p prompted "${lora[@]}" --max_train_steps 2 --validation_steps 2 \
    --num_inference_steps 3
samples_differ prompted/validation/step-2 2 'other masks and references'
expect 0 'decoded' vdecode prompted --model m
frames=$(ffprobe -v error -count_frames -show_entries stream=nb_read_frames -of csv=p=0 \
    prompted/validation/step-2/002.mp4)
[ "$frames" = 9 ] || wrong "a sample with a reference has $frames frames"
expect 0 . train a alone "${lora[@]}" --max_train_steps 2 --reference_dropout_p 1

# ---- the blocks of VACE alone ----
names() { head -c 20000 "$1" | grep -ao '"transformer[.][a-z_]*blocks[^"]*"' || true; }
expect 0 . train a side "${lora[@]}" --max_train_steps 2 --lora_base_model vace \
    --target_name q,k,v,o,ffn.0,ffn.2
names side/checkpoint-2/pytorch_lora_weights.safetensors >side-names
grep -q 'vace_blocks.1.ffn.net.2' side-names || wrong 'no LoRA in the blocks of VACE'
grep -q '"transformer.blocks' side-names && wrong 'a LoRA in other blocks'
expect 0 . train a part --trainable_models vace --max_train_steps 2 --gradient_checkpointing
expect 0 . train a full --training_type full-finetune --max_train_steps 2
expect 0 . train a again "${lora[@]}" --max_train_steps 1 \
    --lora_checkpoint side/checkpoint-2/lora_comfyui.safetensors
expect 0 . train a fp8 "${lora[@]}" --max_train_steps 2 --transformer_dtype fp8
expect 0 . vtrain --latents a --model full/checkpoint-2 --output_dir next --max_train_steps 1 \
    --train_batch_size 1 --threads 1 "${lora[@]}"
expect 2 '--trainable_models vace: stands for' train a x --trainable_models vace \
    --trainable_modules attn1

# ---- two transformers, as VACE-Fun A14B has them ----
cp -r m two && cp -r m/transformer two/transformer_2
echo '{"_class_name": "WanVACEPipeline", "boundary_ratio": 0.875}' >two/model_index.json
expect 0 . vtrain --latents a --model two --output_dir both --boundary_type both "${lora[@]}" \
    --max_train_steps 2 --validation_steps 2 --num_inference_steps 3 --train_batch_size 1 \
    --threads 1
for half in high low; do
    [ -s both/checkpoint-2/lora_comfyui_${half}_noise.safetensors ] ||
        wrong "no LoRA for $half noise"
done

# ---- the first authors' folder makes the same dataset and the same LoRA ----
need make_model w VaceWanModel 16
same() {
    vprep --meta media/list.jsonl --video_sample_size 64 --video_sample_n_frames 9 \
        --video_sample_stride 1 --vae_dtype f32 --model "$1" --out "$2" "${vace[@]}"
}
run() {
    vtrain --latents "$1" --model "$2" --output_dir "$3" "${lora[@]}" --max_train_steps 2 \
        --train_batch_size 1 --threads 1 --workers 1 --target_name q,k,v,o,before_proj,after_proj
}
root() { grep -o '"root": *"[0-9a-f]*"' "$1/manifest.json"; }
need same w/diffusers ours
expect 0 '5 encoded' same w/first theirs
output_lacks warning
[ -n "$(root ours)" ] && [ "$(root ours)" = "$(root theirs)" ] || wrong 'other values'
expect 0 . run ours w/diffusers run-ours
expect 0 . run ours w/first run-theirs
cmp -s run-ours/checkpoint-2/optimizer.safetensors run-theirs/checkpoint-2/optimizer.safetensors ||
    wrong 'the runs differ'
# a file alone has no list of blocks, whose places follow from their number
expect 0 . vtrain --latents ours --transformer w/first/diffusion_pytorch_model.safetensors \
    --output_dir run-file "${lora[@]}" --max_train_steps 2 --train_batch_size 1 --threads 1 \
    --workers 1 --target_name q,k,v,o,before_proj,after_proj
cmp -s run-ours/checkpoint-2/optimizer.safetensors run-file/checkpoint-2/optimizer.safetensors ||
    wrong 'the run of a file differs'

#!/usr/bin/env bash
# HunyuanVideo's image-to-video models from media to clips: vprep makes a dataset whose texts have
# their clip's first frame, vtrain trains both kinds of transformers, samples from an image and
# resumes, and vdecode makes clips.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

small_set media 4                            # 3 clips, 1 still
small_set clips 3
need make_model t HunyuanVideoPipeline 4
need make_model replace HunyuanVideoImageToVideoPipeline 4
need make_model concat HunyuanVideoImageToVideoPipeline 9
sampling+=(--image_sample_size 64)
echo '[{"prompt": "a disc", "negative_prompt": "mud", "num_frames": 9,' \
    '"image_path": "'"$dir/media/still-3.png"'"}]' >prompts.json
prep() { vprep --meta "$2/metadata.json" "${sampling[@]}" --model "$1" \
    --validation_prompts prompts.json --out "${@:3}"; }
train() { vtrain --latents "$1.lmdb" --model "$1" --output_dir "$2" --seed 5 --threads 1 \
    --workers 1 --train_batch_size 1 "${@:3}"; }
lora=(--training_type lora --rank 2)

# ---- both kinds: a LoRA, samples that begin with an image, clips; one that stopped resumes to the
# same bits ----
for kind in replace concat; do
    need prep $kind clips $kind.lmdb --train_mode i2v
    expect 0 . train $kind $kind-run "${lora[@]}" --max_train_steps 4 --validation_steps 2 \
        --num_inference_steps 3 \
        --checkpointing_steps 2 --caption_dropout_p 0.3 --trace_dir $kind-trace
    output_lacks 'sampled without'
    output_lacks 'conditions are not used'
    expect 0 '2 decoded' vdecode $kind-run --model $kind
    [ -s $kind-run/validation/step-4/000.mp4 ] || wrong "$kind: no clip"
    expect 0 . train $kind $kind-cut "${lora[@]}" --max_train_steps 2 --caption_dropout_p 0.3
    expect 0 'resumes after step 2' train $kind $kind-cut "${lora[@]}" --max_train_steps 4 \
        --caption_dropout_p 0.3 \
        --resume_from_checkpoint latest
    same_end $kind-run/checkpoint-4 $kind-cut/checkpoint-4 ||
        wrong "$kind: resuming gives other factors"
    expect 0 . train $kind $kind-full --training_type full-finetune --max_train_steps 1
done
head_of() { head -c 20000 "$1-trace/step-000001-mb-00-rank-00.safetensors" >head; }
head_of replace
grep -qa '"timestep":{"dtype":"F32","shape":\[1\]' head || wrong "not one timestep a sample"
grep -qa '"loss_weight":{"dtype":"F32","shape":\[1,1,3,1,1\]' head ||
    wrong "no loss weight a latent frame"
head_of concat
grep -qa '"hidden_states":{"dtype":"F32","shape":\[1,9,3,' head ||
    wrong "not the latents, the picture and its mask"
holds replace-run/config.yaml 'guidance_scale: 6'
holds concat-run/config.yaml 'image_dropout_p: 0$'                # CogVideoX's is 0.05
# the model takes none, and diffusers' default is none
holds concat-run/config.yaml 'guidance_scale: 1'

# ---- latent_concat: the first four frames are not shown, also as pictures ----
frames_of() { ffprobe -v error -count_frames -show_entries stream=nb_read_frames -of csv=p=0 "$1"; }
[ "$(frames_of replace-run/validation/step-4/000.mp4)" = 9 ] ||
    wrong "replace: $(frames_of replace-run/validation/step-4/000.mp4) frames"
[ "$(frames_of concat-run/validation/step-4/000.mp4)" = 5 ] ||
    wrong "concat: $(frames_of concat-run/validation/step-4/000.mp4) frames"
need vdecode concat-run --model concat --format png --overwrite
absent concat-run/validation/step-4/000-005.png

# ---- another image makes another sample and another text ----
cp -r replace.lmdb other.lmdb
sed -i "s/still-3.png/other.png/" prompts.json
ffmpeg -v error -y -f lavfi -i 'testsrc2=s=64x64:r=1:d=1,hue=h=200' -frames:v 1 media/other.png
expect 0 '1 of .* prompts encoded' prep replace clips other.lmdb --train_mode i2v
expect 0 . vtrain --latents other.lmdb --model replace --output_dir other --seed 5 --threads 1 \
    --workers 1 --train_batch_size 1 \
    "${lora[@]}" --max_train_steps 4 --validation_steps 2 --num_inference_steps 3 \
    --checkpointing_steps 2 --caption_dropout_p 0.3
same_end replace-run/checkpoint-4 other/checkpoint-4 || wrong "a validation prompt changes training"
cmp -s replace-run/validation/step-2/000.safetensors other/validation/step-2/000.safetensors &&
    wrong "the image changes no sample"

# ---- without prompts of its own a run samples captions of training, with their clips' first frames
# ----
need vprep --meta clips/metadata.json "${sampling[@]}" --model replace --train_mode i2v \
    --out own.lmdb
for kind in replace concat; do
    expect 0 'captions of training samples' vtrain --latents own.lmdb \
        --transformer $kind/transformer --output_dir own-$kind \
        --threads 1 --train_batch_size 1 "${lora[@]}" --max_train_steps 1 --validation_steps 1 \
        --num_inference_steps 2 --allow_mismatch
    output_lacks 'sampled without'
done

# ---- datasets that are not the model's, each with its remedy ----
refused() { # refused PATTERN DATASET MODEL
    expect 1 "$1" vtrain --latents "$2" --transformer "$3/transformer" --output_dir out \
        --threads 1 --train_batch_size 1 "${lora[@]}"
    absent out
}
need vprep --meta clips/metadata.json "${sampling[@]}" --model t --out t2v.lmdb
refused "texts with no first frame, .* takes texts with every state 4.*run vprep with the --model folder" \
    t2v.lmdb replace
refused "texts with every state 4 of the first frame, .* takes texts with every state 2" \
    replace.lmdb concat
refused "texts with every state 4 of the first frame, .* takes texts with no first frame" \
    replace.lmdb t
cp -r t2v.lmdb imported.lmdb && sed -i '1s/{/{"imported": {}, /' imported.lmdb/manifest.json
# its texts may be any
refused "takes a first-frame image .* run vprep --train_mode i2v" imported.lmdb replace
check plain 0 prep replace clips plain.lmdb
stderr_has "replace is trained with --train_mode i2v, not normal"
refused "takes a first-frame image .*plain.lmdb was made with --train_mode normal: run vprep --train_mode i2v" \
    plain.lmdb replace
need prep replace media stills.lmdb --train_mode i2v
refused 'bucket .*takes the first frame for a clean picture.*leave stills out' stills.lmdb replace
expect 0 . vtrain --latents plain.lmdb --transformer replace/transformer --output_dir forced \
    --threads 1 "${lora[@]}" \
    --max_train_steps 1 --allow_mismatch

#!/usr/bin/env bash
# VideoX-Fun's Fun-Control models of Wan and CogVideoX from media to clips: each row has a control
# clip or picture, whose latents stand beside the noise; control_ref has the first frame and its
# CLIP states, too.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

small_set media 4                            # 3 clips, 1 still
sampling+=(--image_sample_size 64)
for name in clip-0.mp4 clip-1.mp4 clip-2.mp4 still-3.png; do
    ffmpeg -v error -y -i media/$name -vf negate media/control-$name
done
sed 's/"file_path": "\([^"]*\)"/"file_path": "\1", "control_file_path": "control-\1"/' \
    media/metadata.json >media/control.json
echo '[{"prompt": "a disc", "control_file_path": "media/control-clip-2.mp4",
    "image_path": "media/still-3.png", "height": 64, "width": 64, "num_frames": 9}]' >prompts.json
need make_model control WanFunControlPipeline wan-control
need make_model control_ref WanFunControlPipeline wan-control-ref
need make_model cog CogVideoXFunControlPipeline cogvideox-control
# the pipeline says it
sed -i 's/"control_latents": *true/"of_pipeline": true/' cog/transformer/config.json
prep() { # prep MODEL OUT FLAGS...
    vprep --meta media/control.json "${sampling[@]}" --model "$1" \
        --validation_prompts prompts.json --out "$2" "${@:3}"
}
train() { # train MODE OUT FLAGS...
    vtrain --latents $1.lmdb --model $1 --output_dir "$2" --seed 5 --threads 1 --workers 1 \
        --train_batch_size 1 "${@:3}"
}
lora=(--training_type lora --rank 2)

# ---- the latents of the control clips, a LoRA, samples with a control clip, clips ----
for name in control control_ref cog; do
    mode=${name/cog/control}
    expect 0 '4 encoded' prep $name $name.lmdb --train_mode $mode
    expect 0 . vlat verify $name.lmdb
    expect 0 '4 reused' prep $name $name.lmdb --train_mode $mode
    [ $name = control_ref ] || output_lacks 'is trained with --train_mode'
    expect 0 '"control": "' vlat show $name.lmdb 000000000000/000
    expect 0 . train $name $name-run "${lora[@]}" --max_train_steps 4 --validation_steps 2 \
        --num_inference_steps 3 \
        --checkpointing_steps 2 --trace_dir $name-trace
    output_lacks 'sampled without'
    output_lacks 'conditions are not used'
    expect 0 '2 decoded' vdecode $name-run --model $name
    [ -s $name-run/validation/step-4/000.mp4 ] || wrong "$name: no clip"
    # the control clip stands beside its samples, and the first frame too
    frames=$(ffprobe -v error -count_frames -show_entries stream=nb_read_frames -of csv=p=0 \
        $name-run/validation/inputs/000-control.mp4) || true
    [ "$frames" = 9 ] || wrong "$name: the control clip has the frames '$frames'"
    [ $name != control_ref ] || [ -s $name-run/validation/inputs/000-image.png ] ||
        wrong "$name: no first frame"
    ends_as $name-run $name-cut 4 train $name $name-cut "${lora[@]}"
done
head -c 20000 cog-trace/step-000001-mb-00-rank-00.safetensors >head
grep -qa '"hidden_states":{"dtype":"F32","shape":\[1,3,8,' head ||
    wrong "not the latents and the control clip"
head -c 20000 control-trace/step-000001-mb-00-rank-00.safetensors >head
grep -qa '"hidden_states":{"dtype":"F32","shape":\[1,8,' head ||
    wrong "not the latents and the control clip"
head -c 20000 control_ref-trace/step-000001-mb-00-rank-00.safetensors >head
grep -qa '"hidden_states":{"dtype":"F32","shape":\[1,18,' head ||
    wrong "not the latents, the control clip and the first frame"
grep -qa '"encoder_hidden_states_image":{"dtype":"F32","shape":\[1,5,40\]' head ||
    wrong "no CLIP states"
holds control-run/config.yaml 'control_dropout_p: 0.1$'
holds control_ref-run/config.yaml 'image_dropout_p: 0.1$'
holds cog-run/config.yaml 'control_dropout_p: 0$'

# ---- DiffSynth's input: the model's mode, and without input_image never a first frame ----
sed 's/control_file_path/control_video/' media/control.json >media/diffsynth.json
expect 0 '4 reused' vprep --meta media/diffsynth.json "${sampling[@]}" --model control \
    --extra_inputs control_video --out control.lmdb
output_has 'extra_inputs control_video selects --train_mode control, with the control clip'
expect 2 'extra_inputs input_image: control takes no first frame' prep control no.lmdb \
    --extra_inputs control_video,input_image
expect 0 . train control_ref inputs "${lora[@]}" --max_train_steps 1 --extra_inputs control_video
holds inputs/config.yaml 'image_dropout_p: 1$'
holds inputs/config.yaml 'control_dropout_p: 0$'
expect 0 . train control_ref inputs-2 "${lora[@]}" --max_train_steps 1 \
    --extra_inputs control_video,input_image
holds inputs-2/config.yaml 'image_dropout_p: 0$'

# ---- a control clip is encoded as the clip itself would be ----
sed 's/"control-/"/' media/control.json >media/same.json
expect 0 '4 encoded' vprep --meta media/same.json "${sampling[@]}" --model control \
    --train_mode control --out same.lmdb
expect 0 . vlat show same.lmdb 000000000000/000
[ "$(grep -c 'mean f16.*mean' $log)" = 2 ] &&
    [ "$(grep -o 'mean f16.*' $log | sort -u | wc -l)" = 1 ] ||
    wrong "the latents of clip and control clip differ: $(grep 'mean f16' $log)"

# ---- another control clip makes another sample and the same training ----
sed -i 's/control-clip-2/clip-2/' prompts.json
expect 0 '4 reused' prep control control.lmdb --train_mode control
expect 0 . train control other "${lora[@]}" --max_train_steps 4 --validation_steps 2 \
    --num_inference_steps 3 --checkpointing_steps 2
same_end control-run/checkpoint-4 other/checkpoint-4 || wrong "a validation prompt changes training"
cmp -s control-run/validation/step-2/000.safetensors other/validation/step-2/000.safetensors &&
    wrong "the control clip changes no sample"

# ---- a picture controls all frames of a clip; DiffSynth's column ----
echo '[{"file_path": "clip-0.mp4", "type": "video", "text": "a", "control_video": "frame.png"}]' \
    >media/one.json
ffmpeg -v error -y -i media/clip-0.mp4 -frames:v 1 media/frame.png
expect 0 '1 encoded' vprep --meta media/one.json "${sampling[@]}" --model control \
    --train_mode control --out one.lmdb

# ---- errors name the remedy ----
skipped() { # skipped REASON OUT LIST: each row or some rows of the list
    check "$2" "${4:-3}" vprep --meta "media/$3" "${sampling[@]}" --model control \
        --train_mode control --out "$2"
    holds "$2/errors.jsonl" "$1"
}
skipped 'no control_file_path: --train_mode control needs the control clip or picture of each row' \
    none.lmdb metadata.json 1
ffmpeg -v error -y -i media/clip-0.mp4 -frames:v 4 media/control-clip-0.mp4
skipped 'control_file_path control-clip-0.mp4: 4 frames, but the clip has' short.lmdb control.json
ffmpeg -v error -y -i media/clip-0.mp4 -vf scale=32:64,setsar=1 media/control-clip-0.mp4
skipped \
    'control_file_path control-clip-0.mp4: 32x64, but the source is 96x64: a control clip covers' \
    shape.lmdb control.json
expect 2 'train_mode control_ref: no model of cogvideox here takes a control clip that way' prep \
    cog x --train_mode control_ref
refused() { # refused PATTERN DATASET MODEL
    expect 1 "$1" vtrain --latents "$2" --transformer "$3/transformer" --output_dir out \
        --threads 1 --train_batch_size 1 "${lora[@]}"
    absent out
}
need vprep --meta media/metadata.json "${sampling[@]}" --model control --out plain.lmdb
refused 'takes a first-frame image .*for a Control model, give vtrain --model' cog.lmdb cog
refused 'takes a control clip .*plain.lmdb was made with --train_mode normal: run vprep --train_mode control' \
    plain.lmdb control

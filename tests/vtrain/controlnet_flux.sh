#!/usr/bin/env bash
# FLUX.1's ControlNets beside those of a picture alone. For inpainting: vprep stores masked pixels
# black, vtrain begins one with such a dataset, continues it, trains a LoRA beside it and samples,
# and refuses the grey pixels of FLUX.1 Fill's datasets, as Fill refuses black ones. ControlNet-
# Union: each row's kind of picture, a default for all, its token, resume, ranks, samples; kinds
# that are none, and flags that belong elsewhere.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

edged_pictures controlnet_image
need make_model m FluxPipeline 16
common=(--model m --train_batch_size 1 --threads 1 --workers 1 --mixed_precision no --seed 5)
control=(--trainable_models controlnet --learning_rate 1e-3 --lr_scheduler constant)
small=(--num_double_layers 1 --num_single_layers 1)
losses() { sed 's/.*"loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*/\1 \2/' "$1/metrics.jsonl"; }
prep() { vprep --dataset_base_path media --dataset_metadata_path "media/$1" --height 64 --width 64 \
    --model m --data_file_keys "image,controlnet_image" --out "${@:2}"; }

# ---- for inpainting: a mask of each row covers the condition's picture ----
ffmpeg -v error -y -f lavfi -i 'color=black:s=64x64,drawbox=x=16:y=8:w=24:h=32:c=white:t=fill' \
    -frames:v 1 media/mask.png
sed '1s/$/,controlnet_inpaint_mask/; 2,$s/$/,mask.png/' media/metadata.csv >media/masked.csv
masks=(--extra_inputs controlnet_image,controlnet_inpaint_mask)
check masked 0 prep masked.csv mask "${masks[@]}"
stderr_has "selects --train_mode inpaint, with the ControlNet's picture of each row and its mask"
stderr_lacks 'is trained with --train_mode'
holds mask/manifest.json '"masked":"black"'
inpaint() { vtrain --latents mask --output_dir "$1" "${common[@]}" "${@:2}"; }
check inpaint 0 inpaint fill "${control[@]}" --controlnet new "${small[@]}" --max_train_steps 2
stderr_has "next: ComfyUI, DiffSynth-Studio or alimama-creative's FluxControlNetModel opens"
holds fill/checkpoint-2/controlnet/config.json '"extra_condition_channels":.*4'
head -c 20000 fill/checkpoint-2/controlnet/diffusion_pytorch_model.safetensors | tr -d '\0' >names
holds names '"controlnet_x_embedder.weight":{"dtype":"F32","shape":\[[0-9]*,20\]'
check further 0 inpaint refill "${control[@]}" --controlnet fill/checkpoint-2/controlnet \
    --max_train_steps 1
check sampled 0 inpaint samples --training_type lora --rank 1 --max_train_steps 1 \
    --controlnet fill/checkpoint-2/controlnet --sample_at_first --num_inference_steps 2
# the grey pixels of datasets for Fill are no other name for these
check grey 0 prep masked.csv grey --train_mode inpaint
lacks grey/manifest.json '"masked"'
expect 1 'grey: its masked pixels are grey, and those of the ControlNet are black: run vprep' \
    vtrain --latents grey --output_dir no "${common[@]}" "${control[@]}" --controlnet new
expect 1 'mask and grey: one has black masked pixels' vlat merge mask grey --out no
need make_model filler FluxFillPipeline flux-fill
expect 1 'mask: its masked pixels are black, and those of the transformer are grey' vtrain \
    --latents mask --output_dir no "${common[@]}" --model filler --max_train_steps 1 \
    --allow_mismatch
expect 2 'filler fills masked pictures itself and has no ControlNet' prep masked.csv no \
    --model filler "${masks[@]}"

# ---- ControlNet-Union: the kind of each row's picture, by name and by number ----
awk -F, -v OFS=, 'NR == 1 { print $0, "controlnet_processor_id"; next }
    { print $0, NR == 2 ? "canny" : NR == 3 ? "2" : "3.0" }' media/metadata.csv >media/kinds.csv
check kinds 0 prep kinds.csv kinds --extra_inputs controlnet_image,controlnet_processor_id
check plain 0 prep metadata.csv plain --extra_inputs controlnet_image
union() { vtrain --latents "$1" --output_dir "$2" "${common[@]}" "${@:3}"; }
new=("${control[@]}" --controlnet new "${small[@]}")
check union 0 union kinds union "${new[@]}" --num_mode 4 --max_train_steps 4 \
    --checkpointing_steps 2
net=union/checkpoint-4/controlnet
holds $net/config.json '"num_mode":.*4'
head -c 20000 $net/diffusion_pytorch_model.safetensors | tr -d '\0' >names
holds names '"controlnet_mode_embedder.weight":{"dtype":"F32","shape":\[4,'
check half 0 union kinds again "${new[@]}" --num_mode 4 --max_train_steps 2
check rest 0 union kinds again "${new[@]}" --num_mode 4 --max_train_steps 4 \
    --resume_from_checkpoint latest
cmp -s {union,again}/checkpoint-4/controlnet/diffusion_pytorch_model.safetensors ||
    wrong 'resumed: another ControlNet'
# the kind changes the prediction once the layers behind the blocks are no zeros
for kind in 0 canny 1; do
    check "kind $kind" 0 union plain "kind-$kind" --training_type lora --rank 1 --controlnet $net \
        --controlnet_mode $kind --max_train_steps 1 --sample_at_first --num_inference_steps 2
done
of=validation/step-0/000.safetensors
cmp -s kind-{0,canny}/$of || wrong 'canny is not the kind 0'
! cmp -s kind-{0,1}/$of || wrong 'the kind 1: the same sample as of 0'
[ "$(losses kind-0)" = "$(losses kind-canny)" ] || wrong 'canny: other training than the kind 0'
[ "$(losses kind-0)" != "$(losses kind-1)" ] || wrong 'the kind 1: the same training as of 0'
# a prompt has a picture and a kind of its own
for kind in 1 0; do
    printf 'prompt,control_file_path,controlnet_mode\na thing,media/edges-0.png,%s\n' $kind \
        >prompts.csv
    check prompts 0 prep kinds.csv prompts --extra_inputs controlnet_image,controlnet_processor_id \
        --validation_prompts prompts.csv
    check "prompt $kind" 0 union prompts prompt-$kind --training_type lora --rank 1 \
        --controlnet $net --max_train_steps 1 --sample_at_first --num_inference_steps 2
done
! cmp -s prompt-{0,1}/$of || wrong "a prompt's kind: the same sample"
# a row's own kind comes before the flag's
check own 0 union kinds own --training_type lora --rank 1 --controlnet $net --max_train_steps 2
check flag 0 union kinds flag --training_type lora --rank 1 --controlnet $net --max_train_steps 2 \
    --controlnet_mode 1
[ "$(losses own)" = "$(losses flag)" ] || wrong "the flag's kind replaces those of rows"
if have_ranks; then
    check one 0 union kinds one "${new[@]}" --num_mode 4 --max_train_steps 4 --global_batch_size 2
    for how in zero2 fsdp; do
        check $how 0 "$lib/ranks.sh" 2 vtrain --latents kinds --output_dir $how "${common[@]}" \
            "${new[@]}" --num_mode 4 --max_train_steps 4 --global_batch_size 2 --parallel $how
        paste <(losses one) <(losses $how) |
            awk 'function far(a, b) { return a - b > 1e-4 * b || b - a > 1e-4 * b }
                 far($1, $3) || far($2, $4) { bad = 1 } END { exit bad || NR != 4 }' ||
            wrong "$how: other training"
    done
fi

# ---- what is refused ----
expect 1 'has no kind of its picture (controlnet_processor_id).*give --controlnet_mode N' \
    union plain no "${control[@]}" --controlnet $net --max_train_steps 1
expect 2 '--controlnet_mode edges: is no kind: give a number from 0 on, or canny' \
    union plain no "${control[@]}" --controlnet $net --controlnet_mode edges
expect 2 '--controlnet_mode 4: the ControlNet-Union knows 4 kinds, from 0 on' \
    union plain no "${control[@]}" --controlnet $net --controlnet_mode 4
expect 2 '--controlnet_mode 1: the ControlNet is no Union' \
    union plain no "${new[@]}" --controlnet_mode 1
expect 2 '--controlnet_mode: is the kind of a ControlNet-Union' union plain no --controlnet_mode 1
expect 2 '--num_mode: is a size of a new ControlNet-Union' \
    union plain no "${control[@]}" --controlnet $net --num_mode 3
sed 's/,canny$/,edges/' media/kinds.csv >media/wrong.csv
check wrong 0 prep wrong.csv wrong --extra_inputs controlnet_image,controlnet_processor_id
expect 1 'wrong: sample .*controlnet_processor_id: "edges" is no kind of picture' \
    union wrong no "${control[@]}" --controlnet $net --max_train_steps 4
cp -r $net changed && sed -i 's/"num_mode":.*4/"num_mode": 3/' changed/config.json
expect 1 'num_mode: changed has 3, and its weights have 4 rows' \
    union kinds no "${control[@]}" --controlnet changed

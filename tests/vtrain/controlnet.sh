#!/usr/bin/env bash
# A blockwise ControlNet of Qwen-Image, from a list as DiffSynth-Studio has it: vprep stores the
# latents of blockwise_controlnet_image, vtrain trains a new ControlNet, whose file has the names of
# DiffSynth-Studio, continues it, resumes, and trains a LoRA beside it, frozen or trained too; one
# for inpainting; ranks; what is refused.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

edged_pictures blockwise_controlnet_image
need make_model m QwenImagePipeline qwen
prep() { vprep --dataset_base_path media --dataset_metadata_path media/metadata.csv --height 64 \
    --width 64 --model m --data_file_keys "image,blockwise_controlnet_image" --out "$@"; }
train() { vtrain --latents a --model m --output_dir "$1" --train_batch_size 1 --threads 1 \
    --workers 1 --mixed_precision no --seed 5 --checkpointing_steps 2 "${@:2}"; }
net=--blockwise_controlnet
control=(--trainable_models blockwise_controlnet --learning_rate 1e-3 --lr_scheduler constant)
losses() { sed 's/.*"loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*/\1 \2/' "$1/metrics.jsonl"; }

check prepared 0 prep a --extra_inputs blockwise_controlnet_image
stderr_has 'blockwise_controlnet_image selects --train_mode control'
stderr_has '3 conditions encoded'
stderr_lacks 'is trained with --train_mode'
check verified 0 vlat verify a

# ---- a new one changes nothing at first: the loss of the first step is the model's own ----
check new 0 train new "${control[@]}" $net new --max_train_steps 4
file=new/checkpoint-4/blockwise_controlnet.safetensors
[ -e $file ] || wrong "no $file"
absent new/checkpoint-4/transformer
names=$(head -c 20000 $file | tr -d '\0')
for name in img_in.weight img_in.bias controlnet_blocks.0.x_rms.weight \
    controlnet_blocks.0.y_rms.weight controlnet_blocks.0.input_proj.bias \
    controlnet_blocks.1.output_proj.weight; do
    [[ $names == *"\"$name\""* ]] || wrong "$file lacks $name"
done
[[ $names != *transformer_blocks* ]] || wrong "$file has other names"
check plain 0 train plain --training_type lora --rank 1 --max_train_steps 1 --control_dropout_p 1 \
    $net new
[ "$(losses new | head -1 | cut -d' ' -f1)" = "$(losses plain | head -1 | cut -d' ' -f1)" ] ||
    wrong "a new ControlNet changes the prediction: $(losses new) and $(losses plain)"

# ---- resumed, it is the same training; its file goes on as $net ----
check first 0 train again "${control[@]}" $net new --max_train_steps 2
check resumed 0 train again "${control[@]}" $net new --max_train_steps 4 \
    --resume_from_checkpoint latest
cmp -s $file again/checkpoint-4/blockwise_controlnet.safetensors || wrong "resumed: another file"
check continued 0 train more "${control[@]}" $net $file --max_train_steps 1
check beside 0 train lora --training_type lora --rank 2 $net $file --max_train_steps 2 \
    --target_name all-linear
head -c 20000 lora/checkpoint-2/pytorch_lora_weights.safetensors | tr -d '\0' >names
lacks names controlnet
absent lora/checkpoint-2/blockwise_controlnet.safetensors
check none 0 train without --training_type lora --rank 2 $net new --max_train_steps 2 \
    --target_name all-linear
[ "$(losses lora)" != "$(losses without)" ] || wrong "a trained ControlNet changes no loss"

# ---- a LoRA and the ControlNet in one run, resumed too; each has its file ----
both=("${control[@]}" --training_type lora --rank 2 --target_name all-linear $net $file)
check both 0 train both "${both[@]}" --max_train_steps 4
cmp -s $file both/checkpoint-4/blockwise_controlnet.safetensors && wrong "both: the same ControlNet"
head -c 20000 both/checkpoint-4/pytorch_lora_weights.safetensors | tr -d '\0' >names
lacks names controlnet && holds names lora_A
check half 0 train half "${both[@]}" --max_train_steps 2
check rest 0 train half "${both[@]}" --max_train_steps 4 --resume_from_checkpoint latest
for name in blockwise_controlnet pytorch_lora_weights; do
    cmp -s {half,both}/checkpoint-4/$name.safetensors || wrong "resumed: another $name"
done

# ---- for inpainting: a mask of each row covers the condition's picture, in black ----
ffmpeg -v error -y -f lavfi -i 'color=black:s=64x64,drawbox=x=16:y=8:w=24:h=32:c=white:t=fill' \
    -frames:v 1 media/mask.png
sed '1s/$/,blockwise_controlnet_inpaint_mask/; 2,$s/$/,mask.png/' media/metadata.csv \
    >media/masked.csv
maskprep() { vprep --dataset_base_path media --dataset_metadata_path media/masked.csv --height 64 \
    --width 64 --model m --out mask \
    --data_file_keys "image,blockwise_controlnet_image,blockwise_controlnet_inpaint_mask" "$@"; }
check masked 0 maskprep \
    --extra_inputs "blockwise_controlnet_image,blockwise_controlnet_inpaint_mask"
stderr_has "selects --train_mode inpaint, with the ControlNet's picture of each row and its mask"
stderr_has ' 4 conditions encoded'                  # three pictures; the rows share a mask
stderr_lacks 'is trained with --train_mode'
check verified 0 vlat verify mask
check shown 0 vlat show mask 0 && stdout_has 'mask.*\[64,1,8,8\].*mean 0.1875'
inpaint() { vtrain --latents mask --model m --output_dir "$1" --train_batch_size 1 --threads 1 \
    --workers 1 --mixed_precision no --seed 5 --checkpointing_steps 2 "${@:2}"; }
check inpaint 0 inpaint fill "${control[@]}" $net new --max_train_steps 4
file=fill/checkpoint-4/blockwise_controlnet.safetensors
head -c 20000 $file | tr -d '\0' >names
holds names '"img_in.weight":{"dtype":"F32","shape":\[32,20\]'
check again 0 inpaint refill "${control[@]}" $net new --max_train_steps 2
check resumed 0 inpaint refill "${control[@]}" $net new --max_train_steps 4 \
    --resume_from_checkpoint latest
cmp -s $file refill/checkpoint-4/blockwise_controlnet.safetensors || wrong 'inpaint: another file'
check further 0 inpaint onward "${control[@]}" $net $file --max_train_steps 1
check sampled 0 inpaint samples --training_type lora --rank 1 $net $file --max_train_steps 1 \
    --sample_at_first --num_inference_steps 2
expect 1 'takes a masked clip .* made with --train_mode control' train no "${control[@]}" $net $file

# ---- ranks train the same, whole and split ----
near() { paste <(losses "$1") <(losses "$2") | awk 'function far(a, b) {
    return a - b > 1e-4 * b || b - a > 1e-4 * b }
    far($1, $3) || far($2, $4) { bad = 1 } END { exit bad || NR != 4 }' ||
    wrong "$2: other training"; }
if have_ranks; then
    check one 0 train one "${control[@]}" $net new --max_train_steps 4 --global_batch_size 2
    for how in ddp zero2 fsdp; do
        check $how 0 "$lib/ranks.sh" 2 vtrain --latents a --model m --output_dir ranks-$how \
            --train_batch_size 1 --threads 1 --workers 1 --mixed_precision no --seed 5 \
            --global_batch_size 2 --max_train_steps 4 --parallel $how "${control[@]}" \
            $net new
        near one ranks-$how
    done
    check two 0 train two "${both[@]}" --max_train_steps 4 --global_batch_size 2
    check shared 0 "$lib/ranks.sh" 2 vtrain --latents a --model m --output_dir shared \
        --train_batch_size 1 --threads 1 --workers 1 --mixed_precision no --seed 5 \
        --global_batch_size 2 --max_train_steps 4 --parallel fsdp "${both[@]}"
    near two shared
fi

# ---- what is refused ----
expect 2 'give --blockwise_controlnet FILE, or --blockwise_controlnet new' train no \
    --trainable_models blockwise_controlnet
expect 2 'but this is a full finetune of the transformer' train no --trainable_models dit \
    $net new
expect 2 'trains the ControlNet alone' train no "${control[@]}" $net new --target_name to_q
expect 1 'No such file' train no "${control[@]}" $net nothing.safetensors

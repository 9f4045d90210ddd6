#!/usr/bin/env bash
# ControlNets of copied blocks of FLUX.1 and Qwen-Image: vprep stores the latents of a list's
# controlnet_image, vtrain begins a ControlNet with the transformer's blocks, writes it as diffusers
# reads it, continues it, resumes, trains a LoRA beside it, frozen or trained too, and samples with
# it; one of Qwen-Image for inpainting; ranks; what is refused.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

edged_pictures controlnet_image
sed 's/controlnet_image/conditioning_image/' media/metadata.csv >media/conditions.csv
common=(--train_batch_size 1 --threads 1 --workers 1 --mixed_precision no --seed 5)
control=(--trainable_models controlnet --learning_rate 1e-3 --lr_scheduler constant)
losses() { sed 's/.*"loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*/\1 \2/' "$1/metrics.jsonl"; }
first() { losses "$1" | head -1 | cut -d' ' -f1; }
near()
{
    paste <(losses "$1") <(losses "$2") |
        awk 'function far(a, b) { return a - b > 1e-4 * b || b - a > 1e-4 * b }
             far($1, $3) || far($2, $4) { bad = 1 } END { exit bad || NR != 4 }' ||
        wrong "$2: other training"
}
prep() { vprep --dataset_base_path media --dataset_metadata_path "media/$1" --height 64 --width 64 \
    --model "$2" --data_file_keys "image,controlnet_image" --out "${@:3}"; }

# family PIPELINE SIZE CLASS NAMES...: all of it for a family, in the folder PIPELINE
family()
{
    local model=$1 data=$1/a name net=$1/new/checkpoint-4/controlnet
    mkdir "$1"
    need make_model "$1/m" "$1" "$2"
    model=$1/m
    train() { vtrain --latents "$data" --model "$model" --output_dir "$pipeline/$1" "${common[@]}" \
        --checkpointing_steps 2 "${@:2}"; }
    local pipeline=$1
    check prepared 0 prep metadata.csv "$model" "$data" --extra_inputs controlnet_image
    stderr_has 'controlnet_image selects --train_mode control'
    stderr_has '3 conditions encoded'
    stderr_lacks 'is trained with --train_mode'
    check columns 0 prep conditions.csv "$model" "$data-2" --train_mode control
    stderr_has '3 conditions encoded'

    # ---- a new one changes nothing at first: the loss of the first step is the model's own ----
    check new 0 train new "${control[@]}" --controlnet new --max_train_steps 4
    absent "$1/new/checkpoint-4/transformer"
    stderr_has "result: $net; report" && stderr_has "next: diffusers' from_pretrained of its class"
    holds "$net/config.json" "\"_class_name\":.*\"$3\""
    head -c 20000 "$net/diffusion_pytorch_model.safetensors" | tr -d '\0' >names
    for name in "${@:4}"; do
        holds names "\"$name\""
    done
    lacks names '"controlnet\.'
    check plain 0 train plain --training_type lora --rank 1 --max_train_steps 1 \
        --control_dropout_p 1 --controlnet new
    [ "$(first "$1/new")" = "$(first "$1/plain")" ] ||
        wrong "a new ControlNet changes the prediction: $(losses "$1/new") $(losses "$1/plain")"

    # ---- resumed, it is the same training; its folder and its file go on as --controlnet ----
    check half 0 train again "${control[@]}" --controlnet new --max_train_steps 2
    check resumed 0 train again "${control[@]}" --controlnet new --max_train_steps 4 \
        --resume_from_checkpoint latest
    cmp -s {"$1/new","$1/again"}/checkpoint-4/controlnet/diffusion_pytorch_model.safetensors ||
        wrong "resumed: another ControlNet"
    check folder 0 train folder "${control[@]}" --controlnet "$net" --max_train_steps 1
    check file 0 train file "${control[@]}" --max_train_steps 1 \
        --controlnet "$net/diffusion_pytorch_model.safetensors"
    cmp -s {"$1/folder","$1/file"}/checkpoint-1/controlnet/config.json || wrong "file: other sizes"
    [ "$(losses "$1/folder")" = "$(losses "$1/file")" ] || wrong "file: other training"
    [ "$(first "$1/folder")" != "$(first "$1/new")" ] || wrong "a trained one changes no loss"
    # ---- recomputed blocks train the same ----
    check blocks 0 train blocks "${control[@]}" --controlnet new --max_train_steps 4 \
        --gradient_checkpointing block
    [ "$(losses "$1/new")" = "$(losses "$1/blocks")" ] || wrong "recomputed: other training"

    # ---- a LoRA beside it, frozen or trained too, resumed; each has its file ----
    check beside 0 train lora --training_type lora --rank 2 --controlnet "$net" \
        --max_train_steps 2 --target_name all-linear
    head -c 20000 "$1/lora/checkpoint-2/pytorch_lora_weights.safetensors" | tr -d '\0' >names
    lacks names controlnet
    absent "$1/lora/checkpoint-2/controlnet"
    local both=("${control[@]}" --training_type lora --rank 2 --controlnet "$net")
    check both 0 train both "${both[@]}" --max_train_steps 4
    check half 0 train half "${both[@]}" --max_train_steps 2
    check rest 0 train half "${both[@]}" --max_train_steps 4 --resume_from_checkpoint latest
    for name in controlnet/diffusion_pytorch_model pytorch_lora_weights; do
        cmp -s "$1"/{half,both}/checkpoint-4/$name.safetensors || wrong "resumed: another $name"
    done

    # ---- ranks train the same, whole and split ----
    if have_ranks; then
        check one 0 train one "${control[@]}" --controlnet new --max_train_steps 4 \
            --global_batch_size 2
        for how in ddp zero2 fsdp; do
            check $how 0 "$lib/ranks.sh" 2 vtrain --latents "$data" --model "$model" \
                --output_dir "$1/$how" "${common[@]}" --global_batch_size 2 --max_train_steps 4 \
                --parallel $how "${control[@]}" --controlnet new
            near "$1/one" "$1/$how"
        done
        check two 0 train two "${both[@]}" --max_train_steps 4 --global_batch_size 2
        check shared 0 "$lib/ranks.sh" 2 vtrain --latents "$data" --model "$model" \
            --output_dir "$1/shared" "${common[@]}" --global_batch_size 2 --max_train_steps 4 \
            --parallel fsdp "${both[@]}"
        near "$1/two" "$1/shared"
    fi
    # ---- samples: the scale 0 is no ControlNet ----
    sample() { check "samples $1" 0 train "samples-$1" --training_type lora --rank 1 \
        --max_train_steps 1 --sample_at_first --num_inference_steps 2 "${@:2}"; }
    for how in 1 0.5 0; do
        sample $how --controlnet "$net" --controlnet_conditioning_scale $how
    done
    sample new --controlnet new
    local of=validation/step-0/000.safetensors
    cmp -s "$1"/samples-{0,new}/$of || wrong "the scale 0: another sample than of a new ControlNet"
    ! cmp -s "$1"/samples-{1,0}/$of || wrong "the scale 1: no other sample"
    ! cmp -s "$1"/samples-{1,0.5}/$of || wrong "the scale 0.5: no other sample"
}

family FluxPipeline 16 FluxControlNetModel controlnet_x_embedder.weight x_embedder.bias \
    controlnet_blocks.1.weight controlnet_single_blocks.0.bias \
    transformer_blocks.0.attn.add_q_proj.weight single_transformer_blocks.1.proj_mlp.weight \
    time_text_embed.guidance_embedder.linear_1.weight
family QwenImagePipeline 16 QwenImageControlNetModel controlnet_x_embedder.bias img_in.weight \
    txt_norm.weight controlnet_blocks.0.bias transformer_blocks.1.img_mlp.net.2.weight

# ---- one of Qwen-Image for inpainting: a mask of each row covers the condition's picture ----
ffmpeg -v error -y -f lavfi -i 'color=black:s=64x64,drawbox=x=16:y=8:w=24:h=32:c=white:t=fill' \
    -frames:v 1 media/mask.png
sed '1s/$/,controlnet_inpaint_mask/; 2,$s/$/,mask.png/' media/metadata.csv >media/masked.csv
check masked 0 prep masked.csv QwenImagePipeline/m mask \
    --extra_inputs controlnet_image,controlnet_inpaint_mask
stderr_has "selects --train_mode inpaint, with the ControlNet's picture of each row and its mask"
inpaint() { vtrain --latents mask --model QwenImagePipeline/m --output_dir "$1" "${common[@]}" \
    "${@:2}"; }
check inpaint 0 inpaint fill "${control[@]}" --controlnet new --max_train_steps 2
holds fill/checkpoint-2/controlnet/config.json '"extra_condition_channels":.*4'
head -c 20000 fill/checkpoint-2/controlnet/diffusion_pytorch_model.safetensors | tr -d '\0' >names
holds names '"controlnet_x_embedder.weight":{"dtype":"F32","shape":\[32,20\]'
check further 0 inpaint refill "${control[@]}" --controlnet fill/checkpoint-2/controlnet \
    --max_train_steps 1
check sampled 0 inpaint samples --training_type lora --rank 1 --max_train_steps 1 \
    --controlnet fill/checkpoint-2/controlnet --sample_at_first --num_inference_steps 2

# ---- what is refused ----
flux() { vtrain --latents FluxPipeline/a --model FluxPipeline/m --output_dir no "${common[@]}" \
    --max_train_steps 1 "$@"; }
net=FluxPipeline/new/checkpoint-4/controlnet
config() { rm -rf changed && cp -r $net changed && sed -i "$1" changed/config.json; }
expect 2 'give --controlnet FILE, or --controlnet new' flux --trainable_models controlnet
expect 2 'but this is a full finetune of the transformer' flux --trainable_models dit \
    --controlnet new
expect 2 'trains the ControlNet alone' flux "${control[@]}" --controlnet new --target_name to_q
expect 2 '--num_single_layers: is a size of a new ControlNet' flux "${control[@]}" \
    --controlnet $net --num_single_layers 1
expect 2 '--controlnet_conditioning_scale: is for samples with a --controlnet' flux \
    --controlnet_conditioning_scale 0.5
expect 1 'No such file' flux "${control[@]}" --controlnet nothing.safetensors
config 's/FluxControlNetModel/SD3ControlNetModel/'
expect 1 '_class_name: changed is a SD3ControlNetModel' flux "${control[@]}" --controlnet changed
config 's/{/{"num_mode": 10,/'
expect 1 'num_mode: changed has 10, and its weights have 0 rows of controlnet_mode_embedder' \
    flux "${control[@]}" --controlnet changed
config 's/{/{"conditioning_embedding_channels": 16,/'
expect 1 "conditioning_embedding_channels: changed: .*XLabs' ControlNet" flux "${control[@]}" \
    --controlnet changed
# XLabs' own files have other names than diffusers'
LC_ALL=C sed '1s/"controlnet_x_embedder.weight"/"input_hint_block.0.weight"   /' \
    $net/diffusion_pytorch_model.safetensors >xlabs.safetensors
expect 1 "input_hint_block.0.weight: xlabs.safetensors: .*XLabs' ControlNet" flux "${control[@]}" \
    --controlnet xlabs.safetensors
expect 1 'FluxControlNetModel' flux "${control[@]}" --controlnet fill/checkpoint-2/controlnet
config 's/"num_attention_heads":.*,/"num_attention_heads": 3,/'
expect 1 "num_attention_heads: changed has another value than the transformer's" flux \
    "${control[@]}" --controlnet changed

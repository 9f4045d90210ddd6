#!/usr/bin/env bash
# FLUX.1 from a folder of pictures to a LoRA's files and pictures: vprep makes a dataset with a tiny
# model's encoders, vtrain trains the model's transformer, vdecode makes the samples' pictures.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

# ---- pictures with captions beside them, in folders whose names have their repeats ----
mkdir -p pictures/3_ball pictures/1_sky
i=0
for size in 96x64 64x96 64x64 96x64; do
    name=pictures/3_ball/$i
    ffmpeg -v error -y -f lavfi -i "testsrc2=s=$size:r=1:d=1,hue=h=$((i * 60))" -frames:v 1 \
        $name.png
    echo "a ball, number $i" >$name.txt
    i=$((i + 1))
done
ffmpeg -v error -y -f lavfi -i "testsrc2=s=64x96:r=1:d=1" -frames:v 1 pictures/1_sky/a.jpg
echo "the sky" >pictures/1_sky/a.txt
need make_model m FluxPipeline 16
cat >prompts.jsonl <<'END'
{"prompt": "a ball", "height": 64, "width": 96, "seed": 3}
{"prompt": "the sky", "negative_prompt": "mud", "height": 64, "width": 64, "guidance_scale": 2}
END
prep() { vprep --meta "$1" --model m --out "$2" --image_sample_size 64 "${@:3}"; }
expect 0 'repeats: a sample counts as often' prep pictures a --validation_prompts prompts.jsonl
stdout_has ': 13 steps'
train() {
    vtrain --latents a --model m --output_dir "$1" --train_batch_size 2 --seed 5 --threads 1 \
        --workers 1 "${@:2}"
}
lora=(--training_type lora --rank 2) full=(--training_type full-finetune)
expect 0 'flow.*shift 1.5.* to 1.5.* by tokens' train dry "${lora[@]}" --dry_run
output_has '6x8: 2 samples, 6 in an epoch'
expect 0 'weighting bell, shift 3, a table of 1000' train dry "${lora[@]}" --dry_run \
    --like diffsynth
expect 0 'weighting bell, shift 2, ' train dry "${lora[@]}" --dry_run --like diffsynth --shift 2
need train dry "${lora[@]}" --dry_run
output_has 'guidance: an input, 1 in training (--embedded_guidance), 3.5 in samples'
absent dry

# ---- lists beside the pictures: the same latents and texts ----
mkdir list && cp pictures/*/*.png list
for ((i = 0; i < 4; i++)); do
    echo "{\"file_name\": \"$i.png\", \"text\": \"a ball, number $i\"}"
done >list/metadata.jsonl
need prep list of-jsonl
(echo file_name,text && for ((i = 0; i < 4; i++)); do echo "$i.png,\"a ball, number $i\""; done) \
    >list/metadata.csv
rm list/metadata.jsonl
need prep list of-csv
same_root of-jsonl of-csv

# ---- two commands without other flags ----
need vprep --meta pictures --model m --out plain
need vtrain --latents plain --model m --output_dir two --max_train_steps 2 --threads 1
holds two/config.yaml 'training_type: lora'

# ---- a LoRA, with frozen weights in 8 bits too, and a full finetune: a stopped run resumes bit for
# bit ----
again() { # again NAME FLAGS...
    expect 0 'memory: peak' train "$1" "${@:2}" --max_train_steps 6 --caption_dropout_p 0.3
    ends_as "$1" "$1-cut" 6 train "$1-cut" "${@:2}" --caption_dropout_p 0.3
}
again lora "${lora[@]}"
again eight "${lora[@]}" --transformer_dtype fp8
again full "${full[@]}" --gradient_checkpointing
expect 0 'model: flux' train trained "${lora[@]}" --max_train_steps 1 \
    --transformer full/checkpoint-6/transformer

# ---- samples: a prompt's guidance, by Euler's method; pictures of their sizes ----
expect 0 '2 stored prompts' train shown "${lora[@]}" --max_train_steps 1 --validation_steps 1 \
    --num_inference_steps 3
sample=shown/validation/step-1
holds $sample/000.safetensors '"guidance_scale":"3.5","sampler":"euler"'
holds $sample/001.safetensors '"guidance_scale":"2","sampler":"euler"'
expect 0 '2 decoded' vdecode shown --model m --format png
for picture in 000:96,64 001:64,64; do
    size=$(ffprobe -v error -show_entries stream=width,height -of csv=p=0 \
        $sample/"${picture%:*}".png)
    [ "$size" = "${picture#*:}" ] || wrong "${picture%:*}.png: $size"
done

# ---- LoRA files in the names of Black Forest Labs have the same factors ----
expect 0 . train named --training_type lora --rank 2 --target_name all-linear --learning_rate 0.05 \
    --max_train_steps 2
for name in double_blocks.1.img_attn.qkv double_blocks.0.txt_mlp.2 single_blocks.0.linear1 \
    single_blocks.1.modulation.lin guidance_in.in_layer img_in final_layer.linear; do
    holds named/checkpoint-2/lora_comfyui.safetensors "\"diffusion_model.$name.lora_up.weight\""
    holds named/checkpoint-2/lora_kohya.safetensors "\"lora_unet_${name//./_}.alpha\""
done
same_loras named/checkpoint-2

# ---- --lora_target_modules as DiffSynth-Studio's users type it: 14 modules of ours in each dual
# block, 6 in each single one ----
modules=a_to_qkv,b_to_qkv,ff_a.0,ff_a.2,ff_b.0,ff_b.2,a_to_out,b_to_out,proj_out,norm.linear
modules+=,norm1_a.linear,norm1_b.linear,to_qkv_mlp
expect 0 . train diffsynth --training_type lora --rank 2 \
    --lora_base_model dit --lora_target_modules "$modules" --max_train_steps 1
adapted=$(head -c 60000 diffsynth/checkpoint-1/pytorch_lora_weights.safetensors |
    grep -ao '"transformer\.[a-z_0-9.]*\.lora_A\.weight"' | wc -l)
[ "$adapted" = $((2 * 14 + 2 * 6)) ] || wrong "$adapted modules are adapted"

# ---- a transformer that lacks the weights of its config.json's guidance ----
cp -r m schnell
sed 's/"guidance_embeds": *true/"guidance_embeds":false/' m/transformer/config.json \
    >schnell/transformer/config.json
expect 1 'guidance_embedder.* is not used' vtrain --latents a --model schnell --output_dir dry \
    "${lora[@]}" --dry_run

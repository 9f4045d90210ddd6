#!/usr/bin/env bash
# Model folders as Wan's first authors publish them: vprep makes the same dataset, and vtrain the
# same bits, as with a folder in diffusers' layout that has the same weights.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

small_set media 8                            # 6 clips, 2 stills, of 3 shapes
need make_model m WanModel 16
prep() { vprep --meta media/metadata.json "${sampling[@]}" --image_sample_size 64 --vae_dtype f32 "$@"; }
train() { vtrain --latents "$1" --model "$2" --output_dir "$3" --training_type lora --rank 2 --train_batch_size 2 --max_train_steps 3 --threads 1 --workers 1 "${@:4}"; }
root() { grep -o '"root": *"[0-9a-f]*"' "$1/manifest.json"; }

# ---- the same dataset, the same LoRA ----
need prep --model m/diffusers --out a
expect 0 "8 encoded" prep --model m/first --out b
stderr_lacks warning
[ -n "$(root a)" ] && [ "$(root a)" = "$(root b)" ] || wrong "roots: $(root a) $(root b)"
expect 0 "0 encoded, 8 reused" prep --model m/diffusers --out b
expect 0 . train a m/diffusers run-a
expect 0 . train a m/first run-b
cmp -s run-a/checkpoint-3/optimizer.safetensors run-b/checkpoint-3/optimizer.safetensors || wrong "the runs differ"
holds run-b/weights.json 'm/first/Wan2.1_VAE.pth'
expect 0 '8 decoded' vdecode b --model m/first --format png --out pictures
stderr_lacks warning

# ---- another VAE is found by its weights, inside a file too ----
cp -r m/first other
printf '\377' | dd of=other/Wan2.1_VAE.pth bs=1 seek=40000 conv=notrunc 2>"$stderr"
expect 1 'other/Wan2.1_VAE.pth: other weights' train a other run-c

# ---- single files, without a folder of a model ----
files=(--vae m/first/Wan2.1_VAE.pth --text_encoder m/first/models_t5_umt5-xxl-enc-bf16.pth --tokenizer m/first/google/umt5-xxl)
expect 0 "8 encoded" prep "${files[@]}" --out c
[ "$(root a)" = "$(root c)" ] || wrong "roots: $(root a) $(root c)"
expect "1 2" 'holds umt5, not AutoencoderKLWan' prep "${files[@]:2}" --vae m/first/models_t5_umt5-xxl-enc-bf16.pth --model m/first --out d
cut=$(($(stat -c %s m/first/Wan2.1_VAE.pth) / 2))
head -c $cut m/first/Wan2.1_VAE.pth >cut.pth
expect "1 2" 'cut.pth: the zip has no directory: cut short' prep "${files[@]:2}" --vae cut.pth --model m/first --out d

# ---- two transformers: the boundary is that of the type of model ----
mkdir a14b
cp -r m/first/Wan2.1_VAE.pth m/first/models_t5_umt5-xxl-enc-bf16.pth m/first/google a14b
for noise in high low; do
    mkdir a14b/${noise}_noise_model
    cp m/first/config.json m/first/diffusion_pytorch_model.safetensors a14b/${noise}_noise_model
done
expect 0 "8 reused" prep --model a14b --out b
expect 2 'boundary_ratio 0.875' train a a14b run-d
expect 0 . train a a14b run-high --boundary_type high
grep -rq '"path": *"a14b/high_noise_model"' run-high/checkpoint-3 || wrong "not the transformer of high levels"
expect 0 . train a a14b run-low --min_timestep_boundary 0.417 --max_timestep_boundary 1
grep -rq '"path": *"a14b/low_noise_model"' run-low/checkpoint-3 || wrong "not the transformer of low levels"
expect 2 'boundary_ratio is 0.875' train a a14b run-e --max_timestep_boundary 0.358
sed -i 's/"t2v"/"s2v"/' a14b/high_noise_model/config.json
expect 2 'model_type: no model of the type "s2v" is supported' prep --model a14b --out d

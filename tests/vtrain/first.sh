#!/usr/bin/env bash
# Model folders as Wan's first authors publish them: vprep makes the same dataset, and vtrain the
# same bits, as with a folder in diffusers' layout that has the same weights.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

small_set media 8                            # 6 clips, 2 stills, of 3 shapes
need make_model m WanModel 16
prep() { vprep --meta media/metadata.json "${sampling[@]}" --image_sample_size 64 --vae_dtype f32 \
    "$@"; }
train() { vtrain --latents "$1" --model "$2" --output_dir "$3" --training_type lora \
    --rank 2 --train_batch_size 2 --max_train_steps 3 --threads 1 --workers 1 "${@:4}"; }
root() { grep -o '"root": *"[0-9a-f]*"' "$1/manifest.json"; }

# ---- the same dataset, the same LoRA ----
need prep --model m/diffusers --out a
expect 0 "8 encoded" prep --model m/first --out b
stderr_lacks warning
[ -n "$(root a)" ] && [ "$(root a)" = "$(root b)" ] || wrong "roots: $(root a) $(root b)"
expect 0 "0 encoded, 8 reused" prep --model m/diffusers --out b
expect 0 . train a m/diffusers run-a
expect 0 . train a m/first run-b
cmp -s run-a/checkpoint-3/optimizer.safetensors run-b/checkpoint-3/optimizer.safetensors ||
    wrong "the runs differ"
holds run-b/weights.json 'm/first/Wan2.1_VAE.pth'
expect 0 '8 decoded' vdecode b --model m/first --format png --out pictures
stderr_lacks warning

# ---- a model is asked for: latents of Wan do not train the built-in DiT unless it is named ----
toy() { vtrain --latents "$1" --output_dir "$2" --dit_width 16 \
    --dit_layers 1 --dit_heads 1 --train_batch_size 1 --max_train_steps 1 --threads 1 "${@:3}"; }
expect 2 'no --model: --latents a holds latents of wan2.1: add --model m/diffusers, with which vprep made them; --model builtin trains' \
    toy a toy-a
absent toy-a
rm a/vprep.yaml
expect 2 'latents of wan2.1: add --model DIR, the folder of the model; --model builtin' toy a toy-a
expect 0 'a new built-in DiT is trained from noise' toy a toy-a --model builtin
output_has 'memory: peak .*, which is [0-9.]*% \(less\|more\) than the .* that were predicted'
holds toy-a/report.html '% \(less\|more\) than the .* predicted before step 1'
expect 0 'the built-in DiT of toy-a/checkpoint-1 is trained further' vtrain \
    --config toy-a/config.yaml --max_train_steps 2 --resume_from_checkpoint latest
output_lacks 'from noise'
expect 2 '.--model builtin: the built-in DiT starts from noise' toy a toy-b --model builtin \
    --transformer m/first
expect 0 'the built-in weight-free codec' vprep --meta media/metadata.json "${sampling[@]}" \
    --model builtin --out c.builtin
expect 2 '.--vae: --model builtin has a VAE' prep --model builtin --vae m/diffusers/vae --out d
expect 0 'a new built-in DiT is trained' toy c.builtin toy-c

# ---- modules by the first authors' names ----
expect 0 . train a m/first run-ours --target_name to_q,to_k,to_v,to_out.0,ffn.net.0.proj,ffn.net.2
expect 0 . train a m/first run-theirs --lora_target_modules q,k,v,o,ffn.0,ffn.2
cmp -s run-ours/checkpoint-3/pytorch_lora_weights.safetensors \
    run-theirs/checkpoint-3/pytorch_lora_weights.safetensors || wrong "other modules"
expect 2 '"ffn.1" matches no linear module' train a m/first run-f --lora_target_modules q,ffn.1

# ---- SkyReels V2 with frame rates, whose class is Wan's: a folder, and its transformer alone ----
need make_model sky SkyReelsV2Model 16
need prep --model sky/diffusers --out sky.a
expect 0 "8 encoded" prep --model sky/first --out sky.b
[ -n "$(root sky.a)" ] && [ "$(root sky.a)" = "$(root sky.b)" ] ||
    wrong "roots: $(root sky.a) $(root sky.b)"
forced=(--diffusion_forcing increasing)
expect 0 . train sky.a sky/diffusers sky-a "${forced[@]}"
expect 0 . train sky.a sky/first sky-b "${forced[@]}"
expect 0 . train sky.a sky/diffusers sky-c "${forced[@]}" \
    --transformer sky/first/diffusion_pytorch_model.safetensors
for run in sky-b sky-c; do
    cmp -s sky-a/checkpoint-3/optimizer.safetensors $run/checkpoint-3/optimizer.safetensors ||
        wrong "sky-a and $run differ"
done
expect 0 . vtrain --latents sky.a --model sky/first --output_dir sky-full \
    --training_type full-finetune --max_train_steps 1 --threads 1 --workers 1
holds sky-full/checkpoint-1/transformer/config.json 'SkyReelsV2Transformer3DModel'
holds sky-full/checkpoint-1/transformer/config.json '"inject_sample_info":[[:space:]]*true'
sed -i 's/"inject_sample_info": *true/"inject_sample_info": false/' sky/first/config.json
expect 1 'fps_embedding.weight: .*frame rates' train sky.a sky/first no "${forced[@]}"

# ---- I2V: the folder has the vision model in a file, and no image processor ----
need make_model i2v WanModel 36
expect 0 "8 encoded, .* 2[1-9] conditions encoded" prep --train_mode i2v --model i2v/first \
    --out i2v.lmdb
stderr_lacks warning
holds i2v.lmdb/manifest.json '"image_encoder"'
sed -i 's/"i2v"/"flf2v"/' i2v/first/config.json
expect 0 "8 encoded, .* 2[1-9] conditions encoded" prep --train_mode i2v --model i2v/first \
    --out flf2v
cmp -s i2v.lmdb/shard-00000.lmdb flf2v/shard-00000.lmdb && wrong "the last frame is not known"

# ---- another VAE is found by its weights, inside a file too ----
cp -r m/first other
printf '\377' | dd of=other/Wan2.1_VAE.pth bs=1 seek=40000 conv=notrunc 2>"$stderr"
expect 1 'other/Wan2.1_VAE.pth: other weights' train a other run-c

# ---- single files, without a folder of a model ----
files=(--vae m/first/Wan2.1_VAE.pth --text_encoder m/first/models_t5_umt5-xxl-enc-bf16.pth
    --tokenizer m/first/google/umt5-xxl)
expect 0 "8 encoded" prep "${files[@]}" --out c
[ "$(root a)" = "$(root c)" ] || wrong "roots: $(root a) $(root c)"
expect "1 2" 'holds umt5, not AutoencoderKLWan' prep "${files[@]:2}" \
    --vae m/first/models_t5_umt5-xxl-enc-bf16.pth --model m/first --out d
cut=$(($(stat -c %s m/first/Wan2.1_VAE.pth) / 2))
head -c $cut m/first/Wan2.1_VAE.pth >cut.pth
expect "1 2" 'cut.pth: the zip has no directory: cut short' prep "${files[@]:2}" --vae cut.pth \
    --model m/first --out d

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
grep -rq '"path": *"a14b/high_noise_model"' run-high/checkpoint-3 ||
    wrong "not the transformer of high levels"
expect 0 . train a a14b run-low --min_timestep_boundary 0.417 --max_timestep_boundary 1
grep -rq '"path": *"a14b/low_noise_model"' run-low/checkpoint-3 ||
    wrong "not the transformer of low levels"
expect 2 'boundary_ratio is 0.875' train a a14b run-e --max_timestep_boundary 0.358
sed -i 's/"t2v"/"s2v"/' a14b/high_noise_model/config.json
expect 2 'model_type: no model of the type "s2v" is supported' prep --model a14b --out d

# ---- DiffSynth-Studio's names of the files, in its folder of models ----
mkdir -p models/Wan-AI
cp -r m/first models/Wan-AI/T2V
rm models/Wan-AI/T2V/config.json             # downloads by patterns have no config.json
id=Wan-AI/T2V
ids="$id:diffusion_pytorch_model*.safetensors,$id:models_t5_umt5-xxl-enc-bf16.pth"
ids+=",$id:Wan2.1_VAE.pth"
expect 0 "8 encoded" prep --model_id_with_origin_paths "$ids" --out ds
[ "$(root a)" = "$(root ds)" ] || wrong "roots: $(root a) $(root ds)"
origin() { vtrain --latents a --output_dir "$1" --training_type lora \
    --rank 2 --train_batch_size 2 --max_train_steps 3 --threads 1 --workers 1 "${@:2}"; }
expect 0 . origin run-ds --model_id_with_origin_paths "$ids"
cmp -s run-a/checkpoint-3/optimizer.safetensors run-ds/checkpoint-3/optimizer.safetensors ||
    wrong "the runs differ"
for program in "prep --out e" "origin run-e"; do
    expect 2 "Wan-AI/none:x.pth: no such file in ./models/Wan-AI/none.*modelscope download --model Wan-AI/none --include 'x.pth'" \
        $program --model_id_with_origin_paths Wan-AI/none:x.pth
    expect 2 'model_id_with_origin_paths nonsense: ID:PATTERN is expected' $program \
        --model_id_with_origin_paths nonsense
    expect 2 'model_paths: b.safetensors: no such file' $program --model_paths '["b.safetensors"]'
    expect 2 'model_paths' $program --model_paths '["b.safetensors"'
done
mv models elsewhere
export DIFFSYNTH_MODEL_BASE_PATH=elsewhere
expect 0 "0 encoded, 8 reused" prep --model_id_with_origin_paths "$ids" --out ds

# ---- lists of paths: components of one folder, and of several ----
first=elsewhere/Wan-AI/T2V
expect 0 . origin run-paths \
    --model_paths "[\"$first/diffusion_pytorch_model.safetensors\", \"$first/Wan2.1_VAE.pth\"]"
cmp -s run-a/checkpoint-3/optimizer.safetensors run-paths/checkpoint-3/optimizer.safetensors ||
    wrong "the runs differ"
mkdir dit t5
mv $first/diffusion_pytorch_model.safetensors dit/wan.safetensors
mv $first/models_t5_umt5-xxl-enc-bf16.pth t5
paths='[["dit/wan.safetensors"], "t5/models_t5_umt5-xxl-enc-bf16.pth", '
paths+="\"$first/Wan2.1_VAE.pth\"]"
expect 0 "0 encoded, 8 reused" prep --model_paths "$paths" --tokenizer_path $first/google/umt5-xxl \
    --out ds
expect 0 . origin run-dit --model_paths "$paths"
cmp -s run-a/checkpoint-3/optimizer.safetensors run-dit/checkpoint-3/optimizer.safetensors ||
    wrong "the runs differ"
expect 2 'tensors have no names of a known component' prep --out e \
    --model_paths \
    '["m/diffusers/vae/../../../run-dit/checkpoint-3/pytorch_lora_weights.safetensors"]'

# ---- the transformer of one range of levels ----
unset DIFFSYNTH_MODEL_BASE_PATH
mkdir models && mv a14b models/A14B
sed -i 's/"s2v"/"t2v"/' models/A14B/high_noise_model/config.json
expect 0 . origin run-origin-low \
    --model_id_with_origin_paths "A14B:low_noise_model/*.safetensors,A14B:Wan2.1_VAE.pth" \
    --max_timestep_boundary 1 --min_timestep_boundary 0.417
grep -rq '"path": *"./models/A14B/low_noise_model"' run-origin-low/checkpoint-3 ||
    wrong "not the transformer of low levels"
expect 0 . origin run-origin-high --model_id_with_origin_paths "A14B:high_noise_model/*.safetensors"

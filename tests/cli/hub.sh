#!/usr/bin/env bash
# Models by their names on a hub are found where the hub's tools left them; the programs say which
# folder they took, and name a download that has not ended. Where there is no such folder they
# print the commands that download the model.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
unset HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HOME XDG_CACHE_HOME MODELSCOPE_CACHE \
    DIFFSYNTH_MODEL_BASE_PATH
export HOME=$dir/home
mkdir "$HOME"
id=Tiny-AI/Ltx-0.1-Diffusers
small_set data 2
need make_model ltx LTXPipeline 8
echo '{"_class_name": "LTXPipeline", "text_encoder": ["transformers", "T5EncoderModel"]}' \
    >ltx/model_index.json
run=(vprep --meta data/metadata.json "${sampling[@]}" --image_sample_size 64 --model)

# cached FOLDER HASH: puts the model into a cache in the layout of Hugging Face.
cached() {
    local repo=$1/models--${id//\//--}
    mkdir -p "$repo/refs" "$repo/snapshots" "$repo/blobs"
    cp -r ltx "$repo/snapshots/$2"
    printf %s "$2" >"$repo/refs/main"
}
# found FOLDER ID: both programs take the folder, and say so.
found() {
    expect 0 "^vprep: --model $2: found in $1" "${run[@]}" "$2" --out set.lmdb
    expect 0 "^vtrain: --model $2: found in $1" vtrain --latents set.lmdb --output_dir run \
        --model "$2" --rank 2 --dry_run
}
none() { expect 2 "^vprep: --model $1: no such file or folder" "${run[@]}" "$1" --out none.lmdb; }

# ---- nothing is there: one message for both programs ----
none $id
output_has "hf download $id --include \"\*\[_/\]\*\""
output_has "modelscope download --model $id --include"
output_has "nor is the model in $HOME/.cache/huggingface/hub, "
sed 's/^vprep//' "$stderr" >of_vprep
expect 2 "no such file or folder" vtrain --latents data --output_dir run --model $id
sed 's/^vtrain//' "$stderr" | cmp -s - of_vprep || wrong 'the programs have two messages'
none Wan-AI/Wan2.1-T2V-1.3B-Diffusers
output_has 'about 29 GB'
none Wan-AI/Wan2.1-T2V-1.3B
output_lacks include
expect 2 "hf download $id --revision v2 --include" "${run[@]}" $id@v2 --out none.lmdb

# ---- Hugging Face ----
cached "$HOME/.cache/huggingface/hub" 1111111111aa
found "$HOME/.cache/huggingface/hub/models--Tiny-AI--Ltx-0.1-Diffusers/snapshots/1111111111aa" $id
cached "$dir/xdg/huggingface/hub" 2222222222aa
XDG_CACHE_HOME=$dir/xdg found "$dir/xdg/huggingface/hub/.*2222222222aa" $id
cached "$dir/hf/hub" 3333333333aa
HF_HOME=$dir/hf found "$dir/hf/hub/.*3333333333aa" $id
cached "$dir/cache" 4444444444aa
HF_HOME=$dir/hf HF_HUB_CACHE=$dir/cache found "$dir/cache/.*4444444444aa" $id
export HF_HUB_CACHE=$dir/cache
found "$dir/cache/.*4444444444aa" https://huggingface.co/$id/tree/main
# revisions: a branch or tag by its ref, a commit by its name or the begin of it
repo=$dir/cache/models--Tiny-AI--Ltx-0.1-Diffusers
cp -r ltx "$repo/snapshots/5555555555aa"
mkdir "$repo/refs/pr"
printf %s 5555555555aa | tee "$repo/refs/v1" >"$repo/refs/pr/7"
found "$dir/cache/.*5555555555aa" $id@v1
found "$dir/cache/.*5555555555aa" $id@pr/7
found "$dir/cache/.*5555555555aa" https://huggingface.co/$id/tree/v1
found "$dir/cache/.*4444444444aa" $id@4444444444aa
found "$dir/cache/.*5555555555aa" $id@5555555
none $id@v9
# one snapshot that was downloaded by its commit has no ref
rm -r "$repo/refs/main" "$repo/snapshots/4444444444aa"
found "$dir/cache/.*5555555555aa" $id
# a part of the model, and the other flags
expect 0 "^vtrain: --transformer $id/transformer: found in .*/transformer\$" vtrain \
    --latents set.lmdb --output_dir run --transformer $id/transformer --rank 2 --dry_run
expect 0 "^vprep: --vae $id: found in " "${run[@]}" ltx --vae $id --out set.lmdb
expect 0 "^vdecode: --model $id: found in " vdecode set.lmdb --model $id --out pictures
# a name that is a folder is that folder
mkdir -p Tiny-AI
cp -r ltx $id
expect 0 '' "${run[@]}" $id --out set.lmdb
output_lacks 'found in'
rm -r Tiny-AI

# ---- a download that has not ended ----
snapshot=$repo/snapshots/5555555555aa
touch "$repo/blobs/66aa.incomplete"
rm -r "$snapshot/text_encoder"
expect '1 2' \
    "5555555555aa, half downloaded: text_encoder is missing (.hf download $id. gets the rest)" \
    "${run[@]}" $id --out half.lmdb
ln -sfn ../../../blobs/66aa "$snapshot/transformer/diffusion_pytorch_model.safetensors"
expect '1 2' \
    "5555555555aa, half downloaded: text_encoder, transformer/diffusion_pytorch_model.safetensors are missing" \
    vtrain --latents set.lmdb --output_dir run --model $id --dry_run
unset HF_HUB_CACHE
rm -r "$HOME/.cache"
mkdir -p models/$id/vae
cp ltx/model_index.json models/$id
echo '{"weight_map": {"a": "m-1-of-2.safetensors", "b": "m-2-of-2.safetensors"}}' \
    >models/$id/vae/m.safetensors.index.json
touch models/$id/vae/m-1-of-2.safetensors
expect '1 2' 'half downloaded: text_encoder, vae/m-2-of-2.safetensors are missing' "${run[@]}" $id \
    --out half.lmdb
rm -r models

# ---- ModelScope, DiffSynth-Studio, a folder of that name ----
plain=$HOME/.cache/modelscope/hub/models/$id
mkdir -p "${plain%/*}"
cp -r ltx "$plain"
found "$plain" $id
mv "$plain" "${plain%/*}/Ltx-0___1-Diffusers"
found "${plain%/*}/Ltx-0___1-Diffusers" $id
mkdir -p "$dir/scope/Tiny-AI"
cp -r ltx "$dir/scope/$id"
MODELSCOPE_CACHE=$dir/scope found "$dir/scope/$id" $id
rm -r "$HOME/.cache"
mkdir -p base/Tiny-AI models/Tiny-AI
cp -r ltx base/$id
DIFFSYNTH_MODEL_BASE_PATH=base found "base/$id" $id
mv base/$id models/$id
found "models/$id" $id
mv models/$id "${id#*/}"
found "${id#*/}" $id
rm -r "${id#*/}"
none $id

#!/usr/bin/env bash
# vlat export and import of edits: reference pictures go into the caches of the trainers that keep
# them, and come back.
. "$(dirname "$0")/../lib/exchange.sh"
shown() { grep -aq -e "$2" "$1" || wrong "$1: expected $2"; }

# back NAME FORMAT FLAGS...: exports a dataset and imports it again, as NAME.FORMAT.back
back()
{
    rm -rf "$1.$2" "$1.$2.back"
    expect 0 '5 samples' vlat export "$1" --to "$2" --out "$1.$2" "${@:3}"
    output_lacks 'conditions were left out'
    expect 0 '5 samples' vlat import "$1.$2" --from "$2" --out "$1.$2.back" "${@:3}"
    output_lacks 'conditions were left out'
    expect 0 'no damage' vlat verify "$1.$2.back"
    manifest "$1.$2.back" '"train_mode": *"edit"'
}

# ---- Qwen-Image-Edit: the third and fourth sample have two references of unequal sizes ----
make qwen qwen-image mode bf16 bf16 6 edit
expect 0 'no damage' vlat verify qwen
for format in musubi diffsynth; do
    back qwen $format --space raw
    same qwen qwen.$format.back
    back qwen $format
    expect 0 '5 samples' vlat export qwen.$format.back --to $format --out again.$format
    alike qwen.$format again.$format || wrong "$format: the second export differs from the first"
done
file='qwen.musubi/a_b 2_0096x0064_qie.safetensors'
shown "$file" '"architecture":"qwen_image_edit"'
shown "$file" '"latents_control_0_1x2x8_bfloat16":{"dtype":"BF16","shape":\[16,1,2,8\]'
shown "$file" '"latents_control_1_1x4x8_bfloat16":{"dtype":"BF16","shape":\[16,1,4,8\]'
[ -e 'qwen.musubi/a_b 2_qie_te.safetensors' ] || wrong 'no texts of an edit'
shown qwen.diffsynth/0/2.pth 'edit_latents'
vlat show qwen.musubi.back 2 >record
holds record '"target": *\[32, *64\]'

# Texts of this family depend on the pictures: an import says that it has one empty prompt for all.
# With --texts a sample gets the texts of the medium with its stem, and not those of another sample
# with the same caption; a cache whose files are numbers cannot name the medium.
expect 0 'the one empty prompt, without their reference pictures' \
    vlat import qwen.musubi --from musubi --out again.empty
expect 0 '5 samples' vlat import qwen.musubi --from musubi --space raw --texts qwen \
    --out by.stem
keys() { vlat list "$1" --json | grep -o '"keys": *\[[^]]*\]'; }
keys by.stem >stems && keys qwen >own
[ -s own ] && cmp stems own || wrong 'texts of other samples'
expect 1 'several samples of --texts have the caption .* with texts of other pictures' \
    vlat import qwen.diffsynth --from diffsynth --texts qwen --out none.texts

# a damaged name, too many references, and references behind a sample without any
cp -r qwen.musubi damaged
LC_ALL=C sed -i 's/latents_control_1_1x4x8_/latents_control_1_1x8x4_/' damaged/*
expect 1 'latents_control_1_1x8x4_.*the name latents_control_1_1x4x8_bfloat16' \
    vlat import damaged --from musubi --out none
make plain qwen-image mode bf16 bf16
rm -rf mixed && expect 0 '' vlat select plain 'sample = 0' --out still
expect 0 '1 sample' vlat export still --to diffsynth --out mixed
cp qwen.diffsynth/0/2.pth mixed/0/1.pth && rm mixed/vlat-export.json
expect 1 '2 reference pictures, and the first sample has none' \
    vlat import mixed --from diffsynth --out none.mixed

# ---- FLUX.1 Kontext: one reference of each sample, draws of the autoencoder ----
make flux flux sample f32 bf16 6 edit
back flux musubi --space raw
same flux flux.musubi.back
shown 'flux.musubi/a_b 2_0096x0064_fk.safetensors' \
    '"latents_control_1x2x8_float32":{"dtype":"F32","shape":\[16,2,8\]'
shown 'flux.musubi/a_b 2_fk_te.safetensors' '"t5_vec_bfloat16"'
make tokens flux mode bf16 bf16 6 edit
back tokens diffsynth --space raw
same tokens tokens.diffsynth.back
shown tokens.diffsynth/0/2.pth 'kontext_image_ids'
make normal flux sample f32 bf16
expect 1 'normal: of family flux musubi-tuner keeps samples with reference pictures alone' \
    vlat export normal --to musubi --out x

# ---- FLUX.2: the tokens of all references in a row, told apart by the numbers of their places ----
make klein flux2 mode bf16 bf16 6 edit
back klein diffsynth --space raw
same klein klein.diffsynth.back
shown klein.diffsynth/0/2.pth 'edit_image_ids'
exchange_dataset vae ae.safetensors || wrong 'no autoencoder'
rm -rf klein.diffsynth klein.diffsynth.back
expect 0 '5 samples' vlat export klein --to diffsynth --out klein.diffsynth
expect 0 '5 samples' vlat import klein.diffsynth --from diffsynth --vae ae.safetensors \
    --out klein.diffsynth.back
output_lacks 'conditions were left out'

# ---- diffusion-pipe keeps one reference, of the sample's size ----
if [ -x "$VLT_BUILD/tests/dpipe_cache" ]; then
    mkdir cache
    make one flux sample f32 bf16 6 edit
    dpipe_cache one cache/flux
    expect 0 '5 samples' vlat import cache/flux --from diffusion-pipe --space raw --out one.back
    output_lacks 'conditions were left out'
    same one one.back
    manifest one.back '"train_mode": *"edit"'
    expect 1 'reference picture of 2x8 latent places beside a sample of 4x6' \
        vlat export one --to diffusion-pipe --out one.dp
    make alike flux sample f32 bf16 8 edit
    expect 0 '5 samples' vlat export alike --to diffusion-pipe --out alike.dp --space raw
    output_lacks 'conditions were left out'
    expect 0 '5 samples' vlat import alike.dp/64x32x1/cache/flux --from diffusion-pipe \
        --family flux --texts alike --out alike.back --space raw
    same alike alike.back
    make qwen8 qwen-image mode bf16 bf16 8 edit
    expect 0 '7 conditions were left out' vlat export qwen8 --to diffusion-pipe --out qwen8.dp
fi
make moments flux moments f32 bf16 6 edit
expect 0 '5 conditions were left out' vlat export moments --to finetrainers --out ft

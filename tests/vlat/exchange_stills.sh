#!/usr/bin/env bash
# vlat export and import of Z-Image and FLUX.2 through the caches of the trainers that have them.
. "$(dirname "$0")/../lib/exchange.sh"

# musubi-tuner: Z-Image's latents are raw, in f32; FLUX.2's are those behind the batch norm
round_trip zm z-image mode f32 bf16 musubi
same zm.lmdb zm.back
manifest zm.back '"latents": *"raw"'
manifest zm.back '"class": *"Qwen3Model"'
ls zm.1 >list
[ "$(grep -c '_0096x0064_zi.safetensors$' list)" = 5 ] || wrong "$(cat list)"
[ "$(grep -c '_zi_te.safetensors$' list)" = 5 ] || wrong "$(cat list)"
grep -aq '"latents_1x4x6_float32":{"dtype":"F32","shape":\[16,4,6\]' \
    'zm.1/a_b 1_0096x0064_zi.safetensors' || wrong 'latents_1x4x6_float32 [16,4,6]'
grep -aq varlen_llm_embed_bfloat16 'zm.1/a_b 1_zi_te.safetensors' || wrong varlen_llm_embed

# Krea 2: Qwen-Image's normalised latents in bf16, and the states of twelve layers
round_trip km krea2 mode bf16 bf16 musubi
manifest km.back '"class": *"Qwen3VLModel"'
manifest km.back '"latents": *"normalized"'
make kmr krea2 mode bf16 bf16
expect 0 '5 samples' vlat export kmr --to musubi --space raw --out kmr.1
grep -aq '"latents_1x4x6_bfloat16":{"dtype":"BF16","shape":\[16,1,4,6\]' \
    'kmr.1/a_b 1_0096x0064_kr2.safetensors' || wrong 'latents_1x4x6_bfloat16 [16,1,4,6]'
grep -aq '"varlen_krea2_vl_embed_bfloat16":{"dtype":"BF16","shape":\[5,12,2\]' \
    'kmr.1/a_b 1_kr2_te.safetensors' || wrong varlen_krea2_vl_embed
expect 0 '5 samples' vlat import kmr.1 --from musubi --space raw --out kmr.back
same kmr kmr.back
LC_ALL=C sed -i 's/\[5,12,2\]/[5,3, 8]/' 'kmr.1/a_b 1_kr2_te.safetensors'
expect 1 'varlen_krea2_vl_embed_TYPE: \[n,12,D\] expected' \
    vlat import kmr.1 --from musubi --space raw --out none.3

# HunyuanVideo 1.5: raw latents in f16, and glyphs, of which a prompt without quotes has none
round_trip gm hunyuanvideo1.5 mode f16 bf16 musubi
same gm.lmdb gm.back
manifest gm.back '"latents": *"raw"'
manifest gm.back '"class": *"T5EncoderModel"'
[ -e 'gm.1/images/a_b 0_hv15_te.safetensors' ] || wrong "$(find gm.1)"
grep -aq '"varlen_byt5_embed_bfloat16":{"dtype":"BF16","shape":\[0,4\]' \
    'gm.1/images/a_b 0_hv15_te.safetensors' || wrong 'varlen_byt5_embed [0,4]'
grep -aq '"varlen_byt5_embed_bfloat16":{"dtype":"BF16","shape":\[2,4\]' \
    'gm.1/a_b 1_hv15_te.safetensors' || wrong 'varlen_byt5_embed [2,4]'

# models that are not read are named
mkdir other && cp 'gm.1/a_b 1_hv15_te.safetensors' other/a_0096x0064_fp.safetensors
expect 1 'a_0096x0064_fp.safetensors: of FramePack, whose caches are not read' \
    vlat import other --from musubi --out none.4

make fm.lmdb flux2 mode f32 bf16
expect 0 '5 samples' vlat export fm.lmdb --to musubi --out fm.1
grep -aq '"latents_4x6_float32":{"dtype":"F32","shape":\[128,4,6\]' \
    'fm.1/a_b 1_0096x0064_f2k4b.safetensors' || wrong 'latents_4x6_float32 [128,4,6]'
grep -aq ctx_vec_bfloat16 'fm.1/a_b 1_f2k4b_te.safetensors' || wrong ctx_vec
expect 1 "the constants of flux2's VAE lie in its weights: give its folder or file as --vae" \
    vlat import fm.1 --from musubi --out none
echo '{"batch_norm_eps": 0.0001}' >config.json
expect 1 "the constants of flux2's VAE lie in its weights, and config.json has none" \
    vlat import fm.1 --from musubi --vae config.json --out none
exchange_dataset vae ae.safetensors || wrong 'no autoencoder'
expect 0 '5 samples' vlat import fm.1 --from musubi --vae ae.safetensors --out fm.back
expect 0 'no damage' vlat verify fm.back
manifest fm.back '"class": *"Qwen3ForCausalLM"'
manifest fm.back '"latents": *"normalized"'
manifest fm.back '"max_length": *512'
expect 0 '5 samples' vlat export fm.back --to musubi --out fm.2
expect 0 '5 samples' vlat import fm.2 --from musubi --vae ae.safetensors --out fm.again
same fm.back fm.again
expect 0 '5 samples' vlat export fm.lmdb --to musubi --space raw --out fm.raw
expect 0 '5 samples' vlat import fm.raw --from musubi --space raw --out fm.same
same fm.lmdb fm.same
expect 1 "sample 000000000000/000: the constants of flux2's VAE lie in its weights: give its" \
    vlat export fm.same --to musubi --out none
expect 0 '5 samples' vlat export fm.same --to musubi --vae ae.safetensors --out fm.given
mkdir fm.dev
for f in fm.1/*_f2k4b*; do
    cp "$f" "fm.dev/$(basename "${f/f2k4b/f2d}")"
done
expect 0 '5 samples' vlat import fm.dev --from musubi --space raw --out fm.mistral
manifest fm.mistral '"class": *"Mistral3ForConditionalGeneration"'
mv 'zm.1/a_b 1_0096x0064_zi.safetensors' 'zm.1/a_b 1_0096x0064_z.safetensors'
expect 1 'a_b 1_0096x0064_z.safetensors: STEM_WxH_ARCH.safetensors expected' \
    vlat import zm.1 --from musubi --out none.2

# FLUX.2's reference pictures; texts of a width that no model of the trainer has
make fe flux2 mode f32 bf16 6 edit
expect 0 '5 samples' vlat export fe --to musubi --space raw --out fe.1
grep -aq '"latents_control_1_4x8_float32":{"dtype":"F32","shape":\[128,4,8\]' \
    'fe.1/a_b 3_0096x0064_f2k4b.safetensors' || wrong 'latents_control_1_4x8_float32'
expect 0 '5 samples' vlat import fe.1 --from musubi --space raw --out fe.back
same fe fe.back
manifest fe.back '"train_mode": *"edit"'
cp -r fe narrow
sed -i 's/"width": *7680/"width":24/' narrow/manifest.json
expect 1 'narrow: texts of width 24: musubi-tuner has flux2 with texts of width 7680, 12288' \
    vlat export narrow --to musubi --out none.1

# DiffSynth-Studio: normalised means in bf16; FLUX.2's latents are a list of tokens
round_trip zs z-image mode bf16 bf16 diffsynth
manifest zs.back '"shift_factor": *0.1159'
make zsr z-image mode bf16 bf16
expect 0 '5 samples' vlat export zsr --to diffsynth --space raw --out zsr.1
expect 0 '5 samples' vlat import zsr.1 --from diffsynth --space raw --out zsr.back
same zsr zsr.back
make fs flux2 mode bf16 bf16
expect 0 '5 samples' vlat export fs --to diffsynth --out fs.1
expect 0 '5 samples' vlat import fs.1 --from diffsynth --vae ae.safetensors --out fs.back
manifest fs.back '"latents": *"normalized"'
manifest fs.back '"class": *"Qwen3ForCausalLM"'
expect 0 '5 samples' vlat export fs --to diffsynth --space raw --out fsr.1
expect 0 '5 samples' vlat import fsr.1 --from diffsynth --space raw --out fsr.back
same fs fsr.back

# diffusion-pipe: normalised draws, whose keys do not tell the model
if [ -x "$VLT_BUILD/tests/dpipe_cache" ]; then
    make zd z-image sample bf16 bf16
    dpipe_cache zd cache/z_image
    expect 0 '5 samples' vlat import cache/z_image --from diffusion-pipe --space raw --out zd.back
    same zd zd.back
    manifest zd.back '"values": *"sample"'
    expect 0 '5 samples' vlat import cache/z_image/ --from diffusion-pipe --out zd.norm
    manifest zd.norm '"shift_factor": *0.1159'
    make fd flux2 sample bf16 bf16
    dpipe_cache fd cache/flux2_klein_4b
    expect 0 '5 samples' vlat import cache/flux2_klein_4b --from diffusion-pipe --space raw \
        --out fd.back
    same fd fd.back
    manifest fd.back '"family": *"flux2"'
    # the width of the texts tells dev from klein, whatever the folder is called
    cp -r cache/flux2_klein_4b cache/flux2
    expect 0 '5 samples' vlat import cache/flux2 --from diffusion-pipe --space raw --out fd.klein
    manifest fd.klein '"class": *"Qwen3ForCausalLM"'
    make fdd flux2 sample bf16 bf16 6 dev
    dpipe_cache fdd cache/dev
    expect 0 '5 samples' vlat import cache/dev --from diffusion-pipe --space raw --family flux2 \
        --out fd.dev
    manifest fd.dev '"class": *"Mistral3ForConditionalGeneration"'
    make fdn z-image sample bf16 bf16
    dpipe_cache fdn cache/flux2_klein_9b
    expect 1 'flux2, whose texts are 7680, 12288 or 15360 numbers wide' vlat import \
        cache/flux2_klein_9b --from diffusion-pipe --space raw --family flux2 --out none.5
    cp -r cache/flux2_klein_4b cache/unknown
    expect 1 'z_image, ltx2 or flux2, whose caches have the folder.s name or --family' \
        vlat import cache/unknown --from diffusion-pipe --space raw --out none.3
    expect 0 '5 samples' vlat import cache/unknown --from diffusion-pipe --space raw \
        --family flux2 --out fd.said
    same fd fd.said
    expect 1 "the constants of flux2's VAE" vlat import cache/flux2_klein_4b \
        --from diffusion-pipe --out none.4
    expect 0 '5 text embeddings were left out' vlat export fd --to diffusion-pipe --out fd.1
    expect 0 '5 samples' vlat import fd.1/96x64x1/cache/flux2_klein_4b --from diffusion-pipe \
        --vae ae.safetensors --texts fd --family flux2 --out fd.two
    expect 0 '5 text embeddings were left out' vlat export zd --to diffusion-pipe --out zd.1
    [ -d zd.1/48x32x1/cache/z_image ] || wrong "$(find zd.1)"
fi

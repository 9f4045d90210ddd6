#!/usr/bin/env bash
# Makes a small cache of each trainer in $VLT_BUILD/tests/caches, which test_import reads.
. "$(dirname "$0")/../lib/exchange.sh"
caches="$VLT_BUILD/tests/caches"
rm -rf "$caches"
mkdir "$caches" || exit 1
# cache FORMAT FAMILY STORE LATENT TEXT [CONDITION]: exports the samples that CONDITION selects.
cache()
{
    make "$1.lmdb" "$2" "$3" "$4" "$5"
    expect 0 '' vlat select "$1.lmdb" "${6:-sample >= 0}" --out "$1.part"
    expect 0 '' vlat export "$1.part" --to "$1" --out "$caches/$1"
}
cache safetensors wan2.1 mode f32 bf16
cache webdataset hunyuanvideo moments f16 f16
cache musubi hunyuanvideo sample f16 f16
cache finetrainers hunyuanvideo moments f16 f32
cache causvid wan2.1 mode f16 bf16 'frames > 1'
cache ttt-video cogvideox moments bf16 bf16
cache diffsynth wan2.1 mode bf16 bf16
cache cogvideo cogvideox sample bf16 bf16 'frames > 1'
tar xf "$lib/../golden/ltx2_caches.tar" || exit 1
mkdir "$caches/ltx2" && mv vae audio_vae "$caches/ltx2" && mv ltx-trainer-2.0 "$caches/ltx-trainer"
factory_cache ttt-video.lmdb "$caches/cogvideox-factory"
[ ! -x "$VLT_BUILD/tests/dpipe_cache" ] || dpipe_cache musubi.lmdb "$caches/diffusion-pipe"

#!/usr/bin/env bash
# vlat export and import of FLUX.1, whose first text encoder gives the pooled text and the second one
# the states of tokens, through the caches of the trainers that have it.
. "$(dirname "$0")/../lib/exchange.sh"

# raw moments; all rows of a text are kept
round_trip ft flux moments bf16 bf16 finetrainers --empty zeros
same ft.lmdb ft.back
manifest ft.back '"slot": *"text_encoder_2"'

# normalised means, and normalised draws
round_trip ds flux mode bf16 bf16 diffsynth
manifest ds.back '"latents": *"normalized"'
manifest ds.back '"shift_factor": *0.1159'
make dsr flux mode bf16 bf16
expect 0 '5 samples' vlat export dsr --to diffsynth --space raw --out dsr.1
expect 0 '5 samples' vlat import dsr.1 --from diffsynth --space raw --out dsr.back
same dsr dsr.back

if [ -x "$VLT_BUILD/tests/dpipe_cache" ]; then
    make dp flux sample bf16 bf16
    dpipe_cache dp dp.cache
    expect 0 '5 samples' vlat import dp.cache --from diffusion-pipe --space raw --out dp.back
    same dp dp.back
    manifest dp.back '"family": *"flux"'
    expect 0 '10 text embeddings were left out' \
        vlat export dp --to diffusion-pipe --out dp.1
    expect 0 '5 samples' vlat import dp.1/48x32x1/cache/flux --from diffusion-pipe --family flux \
        --texts dp --out dp.two
    expect 0 '5 samples' vlat export dp.two --to diffusion-pipe --out dp.2
    expect 0 '5 samples' vlat import dp.2/48x32x1/cache/flux --from diffusion-pipe --family flux \
        --texts dp --out dp.three
    same dp.two dp.three
    manifest dp.two '"latents": *"normalized"'
fi

# musubi-tuner has FLUX.1 Kontext alone, whose samples have a second picture
expect 1 'of family flux, of which musubi-tuner keeps no cache' vlat export dsr --to musubi --out x

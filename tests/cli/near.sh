#!/usr/bin/env bash
# Mistyped verbs, flags and values of vlat and vdecode get a suggestion; tests/switch/all.txt has
# those of vprep and vtrain.
. "$(dirname "$0")/../lib/check.sh"
# near SUGGESTION PROGRAM ARGS...: the run is refused, and the message has the suggestion.
near() {
    local want=$1
    shift
    expect 2 "did you mean $want?" "$@"
}
near export vlat exprot a.lmdb
near verify vlat verfy a.lmdb
near list vlat ls a.lmdb
near info vlat infos a.lmdb
near gc vlat compact a.lmdb
near average vlat ema a b
near select vlat filter a 'width > 3'
near merge vlat concat a b --out c
near --version vlat version
expect 2 'no such verb; there are info, .*gc, average$' vlat zebra a.lmdb
near --to vlat export --format musubi a
near --from vlat import --format musubi a
near --out vlat merge a b --output c
near --out vlat select a 'width > 3' --out_dir c
near --out vlat pull a --dest c
near musubi vlat export a --to musubbi --out c
near diffusion-pipe vlat import a --from diffusion_pip --out c
near --out vdecode a --output b
near --out vdecode a --output_dir b
near --format vdecode a --fromat png
near png vdecode a --format pgn
near --fps vdecode a --frame_rate 8
near --sheet vdecode a --contact_sheet
near --overwrite vdecode a --force
near --vae_dtype vdecode a --vae_type bf16
expect 2 'unknown flag --zebra: see vdecode --help' vdecode a --zebra

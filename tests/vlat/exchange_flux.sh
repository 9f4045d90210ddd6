#!/usr/bin/env bash
# vlat export and import of FLUX.1, whose first text encoder gives the pooled text and the second
# one the states of tokens, through the caches of the trainers that have it.
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

# kohya's sd-scripts: f32 files beside the pictures, in folders that name their repeats
make ko flux sample f32 f32
expect 0 '5 samples' vlat export ko --to kohya --space raw --out ko.1
mkdir ko.1/7_cat && mv ko.1/a_b\ [34]*.npz ko.1/7_cat
rm ko.1/a_b\ [34].txt
printf ' a cat \r\nand more\n' >'ko.1/7_cat/a_b 4.caption'
expect 0 '5 samples' vlat import ko.1 --from kohya --space raw --out ko.back
vlat list ko.back --json >list
[ "$(grep -c '"weight": *7' list)" = 2 ] || wrong "weights: $(cat list)"
holds list '"path": *"7_cat/a_b 3".*"text": *"cat"'
holds list '"path": *"7_cat/a_b 4".*"text": *"a cat"'
holds list '"path": *"a_b 1".*"source": *{"w": *96, *"h": *64}'
expect 0 'no damage' vlat verify ko.back
make kn flux mode bf16 bf16
expect 0 '5 samples' vlat export kn --to kohya --out kn.1
expect 0 '5 samples' vlat import kn.1 --from kohya --out kn.back
expect 0 '5 samples' vlat export kn.back --to kohya --out kn.2
expect 0 '5 samples' vlat import kn.2 --from kohya --out kn.again
same kn.back kn.again
manifest kn.back '"values": *"sample"'
cp -r kn.1 kn.latin
printf '\xef\xbb\xbfa cat\n' >'kn.latin/a_b 1.txt'
printf 'caf\xe9\n' >'kn.latin/a_b 2.txt'
expect 1 'kn.latin/a_b 2.txt: line 1: byte 4 is not UTF-8 (0xe9): save it as UTF-8' \
    vlat import kn.latin --from kohya --out none.utf8
expect 3 'left out: .*a_b 2.txt: line 1: byte 4 is not UTF-8' \
    vlat import kn.latin --from kohya --allow_partial --out none.utf8
vlat list none.utf8 --json >list
holds list '"path": *"a_b 1".*"text": *"a cat"'
printf 'a cat\ncaf\xe9\n' >'kn.latin/a_b 2.txt'        # of which the first line is read
expect 0 '5 samples' vlat import kn.latin --from kohya --out none.first
rm 'kn.1/a_b 2_flux_te.npz'
expect 1 'a_b 2_flux_te.npz: missing: run sd-scripts with --cache_text_encoder_outputs_to_disk' \
    vlat import kn.1 --from kohya --out none
expect 0 '5 samples' vlat import kn.1 --from kohya --texts kn --out kn.texts
truncate -s 300 'kn.1/a_b 2_0096x0064_flux.npz'
expect 1 'a_b 2_0096x0064_flux.npz: ' vlat import kn.1 --from kohya --texts kn --out none.2
mv 'kn.1/a_b 3_0096x0064_flux.npz' 'kn.1/a_b 3_flux.npz'
expect 3 'a_b 3_flux.npz: STEM_WxH_flux.npz expected' vlat import kn.1 --from kohya --texts kn \
    --allow_partial --out none.3
make made.wan wan2.1 mode bf16 bf16
expect 1 'of family wan2.1, of which kohya.s sd-scripts keeps no cache: --to kohya exports flux' \
    vlat export made.wan --to kohya --out x

# musubi-tuner has FLUX.1 Kontext alone, whose samples have a second picture
expect 1 'of family flux musubi-tuner keeps samples with reference pictures alone' \
    vlat export dsr --to musubi --out x

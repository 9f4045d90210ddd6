#!/usr/bin/env bash
# vlat import and export of LTX-2, with its sound, on files that scripts/golden/ltx2_caches.py wrote
# as the trainers write them.
. "$(dirname "$0")/../lib/exchange.sh"
tar xf "$lib/../golden/ltx2_caches.tar" || exit 1

# tensor DATASET SAMPLE WHAT FILE: the value of a sample (latent_key, audio, or its text) ends with
# the bytes of FILE.
tensor()
{
    values=values.$1
    [ -d "$values" ] || vlat export "$1" --to safetensors --out "$values" >log.values 2>&1 ||
        wrong "$1: $(cat log.values)"
    case $3 in
    text) field='"keys": *\[' ;;
    *) field="\"$3\": *" ;;
    esac
    key=$(sed -n "$2p" "$values/samples.jsonl" | sed "s/.*$field\"\([0-9a-f]*\)\".*/\1/")
    set -- "$1" "$2" "$3" "$4" "$values"/*/"$key.safetensors"
    [ -s "$4" ] && tail -c "$(stat -c %s "$4")" "$5" | cmp - "$4" || wrong "$1: sample $2: $3"
}
# expected DATASET NAME N...: the tensors of samples 1, 2, ... are those of expected/NAME.
expected()
{
    for i in "${@:3}"; do
        tensor "$1" $((i + 1)) latent_key expected/$2/$i.latent
        tensor "$1" $((i + 1)) text expected/$2/$i.text
        [ ! -e expected/$2/$i.sound ] || tensor "$1" $((i + 1)) audio expected/$2/$i.sound
    done
}

# ---- ltx-trainer: three folders of .pt files; 2.0 has the same features for video and sound ----
import() { vlat import "$1" --from ltx-trainer --out "$2" "${@:3}"; }
set -- --vae vae --audio_vae audio_vae --empty zeros
expect 1 "the constants of ltx-2's VAE lie in its weights" \
    import ltx-trainer-2.0 none --audio_vae audio_vae --empty zeros
expect 2 'audio_latents/a.pt: .*--audio_vae' import ltx-trainer-2.0 none --vae vae --empty zeros
rm -rf none
expect 0 '3 samples of ltx-trainer' import ltx-trainer-2.0 a "$@"
output_has '1 of the sounds .* 1 latent frame .* left out'
expected a ltx-trainer-2.0 0 1 2
expect 0 'no damage' vlat verify a
expect 0 'with sound *1 sample' vlat info a
manifest a '"class": *"AutoencoderKLLTX2Audio"'
expect 0 '3840' vlat info a
expect 0 '"fps": *25' vlat show a 0
expect 0 'more/b.pt' vlat list a
expect 0 '2 samples' import ltx-trainer-2.3 b "$@"
expected b ltx-trainer-2.3 0 1
expect 0 'no damage' vlat verify b
expect 0 '6144' vlat info b

# out again: latents are the bytes of the trainer's, sound too but for the last digit of f32
for name in a b; do
    expect 0 '' vlat export $name --to ltx-trainer --out $name.1
    output_lacks 'conditions were left out'
    expect 0 '' import $name.1 $name.back "$@"
    same $name $name.back
    expect 0 '' vlat export $name.back --to ltx-trainer --out $name.2
    alike $name.1 $name.2 || wrong "$name: the second export differs from the first"
done
for pair in a.1:ltx-trainer-2.0 b.1:ltx-trainer-2.3; do
    for files in ${pair%:*} ${pair#*:}; do
        expect 0 '' import $files $files.raw "$@" --space raw
    done
    same ${pair%:*}.raw ${pair#*:}.raw
done
absent a.1/audio_latents/b.pt a.1/audio_latents/still.pt

# the folder of the dataset, whose .precomputed is meant
mkdir set && cp -r ltx-trainer-2.0 set/.precomputed
expect 0 '3 samples' import set c "$@"
same a c

# raw files, without constants
expect 0 '3 samples' vlat export a --to ltx-trainer --space raw --out a.files
expect 0 '3 samples' import a.files raw --space raw --audio_vae audio_vae --empty zeros
tensor raw 1 audio expected/ltx-trainer-2.0/0.sound

# the form of earlier files: tokens, features that are the same for both, and names with numbers
expect 0 '1 sample of ltx-trainer' import ltx-trainer-old old "$@"
expected old ltx-trainer-old 0

while read -r name error; do
    rm -rf none
    expect 1 "$error" import broken/$name none "$@"
done <<END
latents      a.pt: latents: element 5 is nan
sizes        latents/a.pt: latents of 2x1x2, and num_frames, height and width are others
mask         conditions/a.pt: prompt_attention_mask: a gap at row 2
unmarked     conditions/a.pt: prompt_attention_mask: no row is marked
width        conditions/a.pt: features of 3584 numbers: those of LTX-2.0 have 3840
text         a.pt: text 1: element 7 is nan
nan_sound    a.pt: sound: latents: element 3 is nan
long_sound   a.pt: sound: 12 latent frames, and a clip of 9 frames at 25 a second lasts for 9.0
still_sound  a.pt: sound: a still, or a clip without a rate, has sound
rate         latents/a.pt: fps: 0
END
rm -rf none lost && cp -r ltx-trainer-2.0 lost && rm lost/conditions/a.pt
expect 1 'conditions/a.pt: No such file' import lost none "$@"
rm -rf none
expect 3 '2 samples' import lost none "$@" --allow_partial
mkdir other && cp -r ltx-trainer-2.0/* other && mkdir other/video_masks
echo >other/video_masks/a.pt
expect 0 '1 conditions were left out' import other d "$@"

# ---- musubi-tuner's fork for LTX-2: latents, sound; its texts are the connectors' outputs ----
set -- --vae vae --audio_vae audio_vae
musubi() { vlat import "$1" --from musubi --out "$2" "${@:3}"; }
# latents DATASET N...: those and the sound of samples 1, 2, ... are expected/musubi's.
latents()
{
    for i in "${@:2}"; do
        tensor "$1" $((i + 1)) latent_key expected/musubi/$i.latent
        [ ! -e expected/musubi/$i.sound ] || tensor "$1" $((i + 1)) audio expected/musubi/$i.sound
    done
}
rm -rf none
expect 2 'a_b_00000-017_0096x0048_ltx2.*--audio_vae' musubi musubi none --vae vae
expect 0 '3 samples of musubi-tuner' musubi musubi m "$@"
output_has 'the texts were left out: .*--texts DATASET'
latents m 0 1 2
expect 0 'no damage' vlat verify m
expect 0 'with sound *2 samples' vlat info m
vlat list m --json | grep -o '"fps": *[0-9.]*' | tr -d ' \n' >rates
holds rates '^"fps":24"fps":24"fps":25$'
expect 0 '3 samples' vlat export m --to musubi --out m.1
output_has 'ltx2_cache_text_encoder_outputs.py makes them'
output_lacks 'conditions were left out'
for f in a_b c d; do
    cp musubi/${f}_ltx2_te.safetensors m.1
done
for files in musubi m.1; do
    expect 0 '3 samples' musubi $files raw.$files --space raw --audio_vae audio_vae
done
same raw.musubi raw.m.1
expect 0 '3 samples' musubi m.1 m.back "$@"
same m m.back
latents m.back 0 1 2

# features for its captions, of a dataset that vprep made; here of an import with these captions
expect 0 '' vlat export b --to safetensors --out named
sed -i '1s/(conditions\/a.pt: no caption kept)/a_b/;2s/(conditions\/b.pt: no caption kept)/c/' \
    named/samples.jsonl
expect 0 '' vlat import named --from safetensors --out named.lmdb
rm -rf pair && mkdir pair && cp musubi/a_b* musubi/c_* pair
expect 0 '2 samples' musubi pair m.texts "$@" --texts named.lmdb
output_lacks 'the texts were left out'
expect 0 '6144' vlat info m.texts
# a name of other sizes, and a tensor that is none of the format's
while read -r name from to error; do
    rm -rf damaged none && cp -r musubi damaged
    LC_ALL=C sed -i "s/$from/$to/" damaged/a_b_00000-017_0096x0048_ltx2_audio.safetensors
    expect 1 "$error" musubi damaged none "$@"
done <<END
sizes audio_latents_18x audio_latents_17x its sound: tensor "audio_latents_17x16x8_fp32": the name
type x8_fp32 x8_fp64 its sound: tensor "audio_latents_18x16x8_fp64": the name
other audio_lengths_int32 audio_lengths_int64 its sound: tensor "audio_lengths_int64": unknown
rate :"24.0" :"2x.0" target_fps: "2x.0"
END

# ---- diffusion-pipe: LTX-2.3 without sound; the folder's name tells it from Z-Image ----
if vlat import --help | grep -q diffusion-pipe; then
    expect 0 '2 samples of diffusion-pipe' vlat import cache/ltx2 --from diffusion-pipe \
        --vae vae --out dp
    expected dp ltx2 0 1
    manifest dp '"family": *"ltx-2"'
    expect 0 '"fps": *24' vlat show dp 0
    expect 0 'no damage' vlat verify dp
    expect 0 'text embeddings were left out' vlat export dp --to diffusion-pipe --vae vae --out dp.1
    expect 0 '2 samples' vlat import dp.1/64x32x9/cache/ltx2 --from diffusion-pipe --vae vae \
        --family ltx-2 --texts dp --out dp.back
    same dp dp.back
fi

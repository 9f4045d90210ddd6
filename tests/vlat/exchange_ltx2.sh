#!/usr/bin/env bash
# vlat import and export of LTX-2, with its sound, on files that scripts/golden/ltx2_caches.py wrote
# as the trainers write them.
. "$(dirname "$0")/../lib/exchange.sh"
tar xf "$lib/../golden/ltx2_caches.tar" || exit 1

# tensor DATASET SAMPLE WHAT FILE: the value of a sample (latent_key, audio, or its text) ends with
# the bytes of FILE.
tensor()
{
    rm -rf values && vlat export "$1" --to safetensors --out values >log.values 2>&1 ||
        wrong "$1: $(cat log.values)"
    case $3 in
    text) key=$(sed -n "$2p" values/samples.jsonl | sed 's/.*"keys": *\["\([0-9a-f]*\)".*/\1/') ;;
    *) key=$(sed -n "$2p" values/samples.jsonl | sed "s/.*\"$3\": *\"\([0-9a-f]*\)\".*/\1/") ;;
    esac
    set -- "$1" "$2" "$3" "$4" values/*/"$key.safetensors"
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
mkdir other && cp -r ltx-trainer-2.0/* other && mkdir other/video_masks && echo >other/video_masks/a.pt
expect 0 '1 conditions were left out' import other d "$@"

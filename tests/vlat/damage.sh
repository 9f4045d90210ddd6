#!/usr/bin/env bash
# Every command that reads a damaged record, latent, text, thumbnail or shard fails, and its error
# names the remedy once.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"

small_set media 4
need vprep --meta media/metadata.json --out good "${sampling[@]}" --quiet
need exchange_dataset make wan wan2.1 mode f32 bf16
need vlat split wan --by bucket --out wan
need exchange_dataset make fine wan2.1 moments bf16 bf16
need exchange_dataset make ttt cogvideox moments bf16 bf16
need exchange_dataset make cog cogvideox sample bf16 bf16
need vlat split cog --by bucket --out cog
need vlat export wan --to musubi --out cache

# hurt SET record|latent|text|name|lost|thumb|cut: makes the folder hurt, a copy of SET whose
# records, latents, texts or pages of thumbnails are damaged, whose latents' tensors have other
# names (name), whose texts have other keys (lost), or whose shard is cut short.
hurt()
{
    local in=shard edit='s/"xxh3":"..../"xxh3":"0000/g' at
    rm -rf hurt && cp -r "$1" hurt
    case $2 in
    record) edit='s/{"sample":/{"sampl\xff":/g' ;;
    text) in=text ;;
    thumb)                                   # changes the flags of pages that begin with a JPEG
        for at in $(LC_ALL=C grep -aboP '\xff\xd8\xff' hurt/shard-00000.lmdb |
            awk -F: '$1 % 4096 == 16 { print $1 - 6 }'); do
            poke hurt/shard-00000.lmdb $at '\xff'
        done
        return ;;
    cut)
        truncate -s -4096 hurt/shard-00000.lmdb
        return ;;
    name) edit='s/"mean":{/"meen":{/g; s/"sample":{/"simple":{/g' ;;
    lost) in=text edit='s/[0-9a-f]\{32\}/00000000000000000000000000000000/g' ;;
    esac
    LC_ALL=C sed -i "$edit" hurt/$in-00000.lmdb
}
small_model='--max_train_steps 9 --dit_width 16 --dit_layers 1 --dit_heads 1'
key=$(vlat list good --json | sed -n '2s/.*"latent_key":"\([0-9a-f]*\)".*/\1/p')

# Each row is: SET | kinds of damage | a command that reads the damage.
while IFS='|' read -r set kinds command; do
    for kind in $kinds; do
        hurt $set $kind
        rm -rf out out-00 out.part
        check "$command: a damaged $kind" 1 eval "$command"
        stderr_has '; vlat verify hurt --repair keeps what is good'
        stderr_lacks 'vlat verify.*vlat verify'
    done
done <<'TABLE'
good|cut|vlat info hurt
good|record cut|vlat list hurt
good|record cut|vlat list hurt --json
good|record latent text name lost cut|vlat show hurt 1
good|thumb|vlat show hurt 3
good|latent name cut|vlat show hurt $key
good|record thumb cut|vlat report hurt --out out
good|record cut|vlat diff hurt good
good|record cut|vlat diff good hurt
good|record cut|vlat select hurt 'sample >= 0' --out out
good|record cut|vlat select hurt 'path = nothing' --out out
good|record latent text name lost thumb cut|vlat merge hurt good --out out
good|record latent text name lost thumb cut|vlat split hurt --n 1 --out out
good|record latent text name lost thumb cut|vlat gc hurt
good|record latent text name lost thumb cut|vlat export hurt --to safetensors --out out
good|record latent text name lost thumb cut|vlat export hurt --to webdataset --out out
wan|record latent text name lost cut|vlat export hurt --to musubi --out out
wan|record latent text name lost cut|vlat export hurt --to diffsynth --out out
wan|record latent text name lost cut|vlat export hurt --to diffusion-pipe --out out
wan-3x4x6|record latent text name lost cut|vlat export hurt --to causvid --out out
fine|record latent text name lost cut|vlat export hurt --to finetrainers --out out
ttt|record latent text name lost cut|vlat export hurt --to ttt-video --out out
cog-3x4x6|record latent text name lost cut|vlat export hurt --to cogvideo --out out
wan|record text lost cut|vlat import cache --from musubi --texts hurt --out out
good|record latent name cut|vdecode hurt --out out
good|record latent text name lost cut|vtrain --latents hurt --output_dir out $small_model
TABLE

# An export's error names the sample too.
while read -r set format; do
    hurt $set latent
    rm -rf out
    check "export --to $format" 1 vlat export hurt --to $format --out out </dev/null
    stderr_has '^vlat: sample [0-9]*/[0-9]*: shard-00000.lmdb: latent'
done <<'TABLE'
good safetensors
good webdataset
wan musubi
TABLE

# A damaged name is found, and what is good is kept.
hurt good name
expect 1 'tensor "meen": no such tensor .*' vlat verify hurt
output_has ' findings; --repair keeps what is good$'
expect 0 '0 samples saved, 4 to be encoded again' vlat verify hurt --repair

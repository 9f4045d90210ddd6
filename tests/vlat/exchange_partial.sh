#!/usr/bin/env bash
# A part of an export or a cache is missing: an import names the missing part and finishes no
# dataset; with --allow_partial it imports the rest and ends with exit status 3.
. "$(dirname "$0")/../lib/exchange.sh"

# lacking FORMAT PATTERN HAVE FOLDER [FLAGS...]: the import of FOLDER fails with PATTERN; with
# --allow_partial HAVE samples are imported, unless HAVE is "none".
lacking()
{
    local format=$1 pattern=$2 have=$3 folder=$4
    shift 4
    rm -rf part.lmdb
    expect 1 "$pattern" vlat import "$folder" --from "$format" --out part.lmdb "$@"
    ! whole part.lmdb || wrong "$format, $pattern: the dataset is finished"
    rm -rf part.lmdb
    [ "$have" = none ] && return
    expect 3 "$have samples" vlat import "$folder" --from "$format" --out part.lmdb \
        --allow_partial "$@"
    expect 0 'no damage' vlat verify part.lmdb
}
# fresh FOLDER: hurt becomes a copy of FOLDER.
fresh() { rm -rf hurt; cp -r "$1" hurt; }

# ---- whole formats ----
expect 0 '60 samples' vlat export made.lmdb --to webdataset --out tars --shard_size 1MiB
expect 0 '60 samples' vlat export made.lmdb --to safetensors --out folder
grep -q '"samples":60' tars/vlat-export.json || wrong 'vlat-export.json lacks the number of samples'
fresh folder
sed -i 41,60d hurt/samples.jsonl
lacking safetensors '40 of the 60 samples' 40 hurt
fresh folder
head -c -20 folder/samples.jsonl >hurt/samples.jsonl
lacking safetensors 'samples.jsonl: line 60' none hurt
fresh folder
rm "hurt/latents/$(ls hurt/latents | sed -n 5p)"
lacking safetensors 'latents/.*No such file' 59 hurt

# Several tars, with vlat-export.json, or without one as older versions of vlat wrote them.
make_tars()
{
    [ "$(ls tars/*.tar | wc -l)" -gt 2 ] && return
    vlat merge made.lmdb made.lmdb --out big.lmdb >/dev/null 2>&1
    rm -rf tars
    local first=tars/shard-000000.tar
    expect 0 '60 samples' vlat export made.lmdb --to webdataset --out tars
    mkdir three
    (cd three && tar xf ../$first && ls | sort >../members)
    cp -r tars three.out
    rm three.out/*.tar
    for i in 0 1 2; do
        awk -F. -v from=$((20 * i)) '{ n = substr($1, 1, 12) + 0 } n >= from && n < from + 20' \
            members >part
        tar cf three.out/shard-00000$i.tar --format=ustar -C three -T part
    done
    printf '{"format":"WebDataset","samples":60,"root":"%s","files":{%s,%s,%s}}' \
        "$(root made.lmdb)" '"shard-000000.tar":20' '"shard-000001.tar":20' \
        '"shard-000002.tar":20' >three.out/vlat-export.json
    rm -rf tars
    mv three.out tars
}
make_tars
expect 0 '60 samples' vlat import tars --from webdataset --out tars.lmdb
same made.lmdb tars.lmdb
size=$(stat -c %s tars/shard-000001.tar)
for note in with without; do
    fresh tars
    [ $note = with ] || rm hurt/vlat-export.json
    cp -r hurt kept
    rm hurt/shard-000001.tar
    lacking webdataset 'shard-000001.tar is missing' 40 hurt
    rm -rf hurt; cp -r kept hurt
    head -c "$size" /dev/zero >hurt/shard-000001.tar
    lacking webdataset 'shard-000001.tar' 40 hurt
    rm -rf hurt; cp -r kept hurt
    truncate -s $((size / 2)) hurt/shard-000001.tar
    lacking webdataset 'shard-000001.tar' none hurt
    rm -rf hurt; cp -r kept hurt
    truncate -s $((size / 4 / 512 * 512)) hurt/shard-000002.tar &&
        truncate -s "$size" hurt/shard-000002.tar
    lacking webdataset 'shard-000002.tar' none hurt
    : >hurt/shard-000002.tar
    lacking webdataset 'shard-000002.tar' 40 hurt
    rm -rf kept
done
fresh tars
rm hurt/shard-000002.tar
lacking webdataset 'shard-000002.tar is missing, with 20 samples' 40 hurt

# a tensor of another name, of which no reader knows: the checksum covers the values alone
for name in mean logvar prompt_embeds; do
    fresh folder
    file=$(grep -laF "\"$name\"" hurt/*/*.safetensors | head -1)
    [ -n "$file" ] || { wrong "no value has the tensor $name"; continue; }
    sed -i "s/\"$name\"/\"${name/[ao]/e}\"/" "$file"
    lacking safetensors "${file#hurt/}: tensor \"${name/[ao]/e}\": " none hurt
done

# ---- trainers' formats ----
# format NAME FAMILY STORE FORMAT: makes an export NAME.out of five samples
format()
{
    make "$1.lmdb" "$2" "$3" bf16 bf16
    expect 0 '5 samples' vlat export "$1.lmdb" --to "$4" --out "$1.out"
}
format wan wan2.1 mode musubi
fresh wan.out
files=(hurt/*_wan.safetensors hurt/images/*_wan.safetensors)
rm "${files[3]}"
lacking musubi '4 of the 5 samples' 4 hurt --empty zeros
: >"${files[2]}"
lacking musubi '_wan.safetensors' 3 hurt --empty zeros
# values that are no numbers, in latents and in texts (bfloat16 at the end of the files); names that
# do not fit their tensors
for kind in 'wan.safetensors latents' 'te.safetensors text 1'; do
    read -r ending what <<<"$kind"
    for bits in '\xc0\x7f' '\x80\xff'; do
        fresh wan.out
        files=(hurt/*_$ending)
        poke "${files[0]}" $(($(stat -c %s "${files[0]}") - 8)) "$bits"
        lacking musubi "$what: element [0-9]* is -\?\(nan\|inf\)" 4 hurt --empty zeros
    done
done
for name in 's/latents_3x4x6_/latents_3x4x7_/' 's/_bfloat16/_bfloat61/' \
    's/"caption1"/"caption9"/'; do
    fresh wan.out
    sed -i "$name" hurt/*1_00002-009*.safetensors hurt/*1_wan_te.safetensors
    diff -rq wan.out hurt >/dev/null && wrong "nothing was damaged by $name"
    lacking musubi 'expected\|missing' 4 hurt --empty zeros
done
format fine wan2.1 moments finetrainers
for inside in hurt hurt/finetrainers-precomputed-data; do
    fresh fine.out
    rm hurt/finetrainers-precomputed-data/*-2.pt
    lacking finetrainers 'latent-2.pt is missing' 4 $inside --empty zeros
done
fresh fine.out
rm hurt/finetrainers-precomputed-data/latent-4.pt hurt/vlat-export.json
lacking finetrainers 'latent-4.pt is missing: its condition' 4 hurt --empty zeros
fresh fine.out
rm hurt/finetrainers-precomputed-data/*-4.pt
lacking finetrainers '4 of the 5 samples' 4 hurt --empty zeros
format ds wan2.1 mode diffsynth
fresh ds.out
rm hurt/0/1.pth
lacking diffsynth '0//*1.pth is missing' 4 hurt
fresh ds.out
rm hurt/0/4.pth
lacking diffsynth '4 of the 5 samples' 4 hurt
format ttt cogvideox moments ttt-video
fresh ttt.out
sed -i 4,5d hurt/metadata.jsonl
lacking ttt-video '3 of the 5 samples' 3 hurt --empty zeros
rm "hurt/$(sed -n '2s/.*"vid_emb": *"\([^"]*\)".*/\1/p' hurt/metadata.jsonl)"
lacking ttt-video 'No such file' 2 hurt --empty zeros
make cog.all cogvideox sample bf16 bf16
expect 0 '' vlat split cog.all --by bucket --out cog
expect 0 '2 samples' vlat export cog-3x4x6 --to cogvideo --out cog.out
fresh cog.out
sed -i 2d hurt/prompts.txt hurt/videos.txt
lacking cogvideo '1 of the 2 samples' 1 hurt/cache/video_latent/cogvideox-t2v/9x32x48 --empty zeros

# A list whose line never ends is refused, without the memory of a machine.
fresh ttt.out
truncate -s 6G hurt/metadata.jsonl
expect 1 'metadata.jsonl: line 6: longer than 4194304 bytes' \
    vlat import hurt --from ttt-video --empty zeros --out endless.lmdb
fresh cog.out
truncate -s 6G hurt/prompts.txt
expect 1 'longer than 4194304 bytes' vlat import hurt/cache/video_latent/cogvideox-t2v/9x32x48 \
    --from cogvideo --empty zeros --out endless2.lmdb

#!/usr/bin/env bash
# vlat export and import: a round trip through every format keeps the bytes; refused commands.
. "$(dirname "$0")/../lib/exchange.sh"

# usage
expect 2 'there are safetensors, webdataset' vlat export made.lmdb --to parquet --out x
expect 2 '--to says' vlat export made.lmdb --out x
expect 2 '--out says' vlat export made.lmdb --to safetensors
expect 2 '--from says' vlat import x --out y
mkdir mine && echo 1 >mine/notes.txt
expect 1 'mine is there and holds "notes.txt"' vlat import x --from causvid --out mine
expect 1 'of family builtin, of which musubi-tuner keeps no cache: --to musubi exports wan2.1, ' \
    vlat export made.lmdb --to musubi --out x
expect 2 'there are cogvideox' vlat import x --from causvid --family sdxl --out y
cp -r made.lmdb nameless.lmdb && sed -i 's/"family": *"builtin"/"family":""/' \
    nameless.lmdb/manifest.json
expect 1 'is of family , of which musubi-tuner keeps' timeout -s KILL 300 \
    vlat export nameless.lmdb --to musubi --out x
[ ! -e x ] && [ ! -e x.part ] && [ ! -e y ] || wrong 'a refused command wrote something'

# formats of whole datasets, with records, prompts and thumbnails
for f in safetensors webdataset; do
    expect 0 '60 samples' vlat export made.lmdb --to $f --out $f.out --shard_size 1MiB
    expect 1 'there already' vlat export made.lmdb --to $f --out $f.out
    expect 0 '60 samples' vlat import $f.out --from $f --out $f.lmdb
    same_root made.lmdb $f.lmdb
    same made.lmdb $f.lmdb
    expect 0 'no damage' vlat verify $f.lmdb
    expect 0 '60 the same, 0 changed' vlat diff made.lmdb $f.lmdb
    expect 0 'prompts *1' vlat info $f.lmdb
    expect 1 'finished dataset already' vlat import $f.out --from $f --out $f.lmdb
done
# a manifest that also has the fields that a dataset's writer makes, as one that was copied by hand
for f in safetensors webdataset; do
    cp -r $f.out more.out
    sed -i '1s/{/{"samples": 7, "root": "x", "buckets": [], "shards": {}, "complete": false,/
        1s/{/{"program": "x", "format": 1,/' more.out/manifest.json
    expect 0 '60 samples' vlat import more.out --from $f --out more.lmdb
    same_root made.lmdb more.lmdb
    expect 0 'no damage' vlat verify more.lmdb
    expect 0 '60 the same, 0 changed' vlat diff made.lmdb more.lmdb
    rm -r more.out more.lmdb
done
tar tf webdataset.out/shard-000000.tar | sed -n 1,5p >got
printf '000000000000-000.%s\n' json latent.safetensors text.0.0.safetensors jpg >want
sed -n 1,4p got | cmp - want || wrong 'webdataset: the members differ'

# a sample's empty caption and the encoder's empty prompt share one value
make shared.lmdb wan2.1 mode f16 bf16
for f in safetensors webdataset; do
    expect 0 '5 samples' vlat export shared.lmdb --to $f --out shared.$f
    expect 0 '5 samples' vlat import shared.$f --from $f --out shared.$f.back
    same_root shared.lmdb shared.$f.back
done

# a sample's own empty prompt, which image editing has, is a value like any other
make own.lmdb wan2.1 mode bf16 bf16 6 own
for f in safetensors webdataset; do
    expect 0 '5 samples' vlat export own.lmdb --to $f --out own.$f
    expect 0 '5 samples' vlat import own.$f --from $f --out own.$f.back
    same_root own.lmdb own.$f.back
    expect 0 'no damage' vlat verify own.$f.back
done
own=$(vlat show own.lmdb 000000000002/000 | sed -n '/"empty"/,/]/s/.*"\([0-9a-f]\{32\}\)".*/\1/p')
expect 0 "^text $own" vlat show own.lmdb 000000000002/000

# damage in transit is found
cp -r safetensors.out hurt.out
first=$(ls hurt.out/latents | head -1)
poke "hurt.out/latents/$first" 400 'X'
expect 1 "$first" vlat import hurt.out --from safetensors --out hurt.lmdb
rm "hurt.out/latents/$first"
expect 1 'No such file' vlat import hurt.out --from safetensors --out hurt.lmdb
cp "safetensors.out/latents/$first" hurt.out/latents/
expect 0 '60 samples' vlat import hurt.out --from safetensors --out hurt.lmdb
same_root made.lmdb hurt.lmdb
cp -r webdataset.out cut.out
truncate -s 30000 cut.out/shard-000000.tar
expect 1 'shard-000000.tar' vlat import cut.out --from webdataset --out cut.lmdb

# a tar with a damaged byte is refused, or imported without damage if nothing depends on this byte
i=0
while [ $i -lt 30 ]; do
    rm -rf cut.out cut.lmdb
    cp -r webdataset.out cut.out
    at=$((i < 20 ? i * 26 : i * 997 + 512))
    poke cut.out/shard-000000.tar $at '\3777'
    check "tar damaged at $at" '0 1' vlat import cut.out --from webdataset --out cut.lmdb
    if [ $status -gt 1 ] || { [ $status -eq 0 ] && ! vlat verify cut.lmdb >/dev/null 2>&1; }; then
        wrong "tar damaged at $at: status $status"
    fi
    i=$((i + 1))
done

# formats of raw latents keep the dataset's bytes
round_trip hv hunyuanvideo sample f16 f16 musubi
same hv.lmdb hv.back
# musubi reads clips and stills from folders of their own
[ "$(ls hv.1/*x*_hv.safetensors | wc -l) $(ls hv.1/images/*x*_hv.safetensors | wc -l)" = '2 3' ] ||
    wrong "hv.1: $(find hv.1)"
manifest hv.back '"values": *"sample"'
round_trip ft-hv hunyuanvideo moments f16 f32 finetrainers --empty zeros
same ft-hv.lmdb ft-hv.back
round_trip ft-ltx ltx-video moments f16 f32 finetrainers --empty zeros
same ft-ltx.lmdb ft-ltx.back
manifest ft-ltx.back '"mean": *\[-0.757'
vlat list ft-ltx.back --json >list
[ "$(grep -c '"fps": *25' list)" = "$(grep -c '"type": *"video"' list)" ] ||
    wrong "rates: $(cat list)"
for f in musubi diffsynth cogvideo ttt-video causvid; do
    expect 1 'is of family ltx-video, of which .* keeps no cache' \
        vlat export ft-ltx.lmdb --to $f --out x
done
expect 2 '.-family ltx-video: musubi-tuner keeps no cache of it' vlat import hv.1 --from musubi \
    --family ltx-video --out x
round_trip ft-wan wan2.1 moments bf16 bf16 finetrainers --empty zeros
same ft-wan.lmdb ft-wan.back
manifest ft-wan.back '"latents": *"raw"'
round_trip ttt cogvideox moments bf16 bf16 ttt-video --empty zeros
same ttt.lmdb ttt.back
# CogVideoX's transformer attends to all rows of a text, so that imports keep the padding too
make ft-cog.lmdb cogvideox moments bf16 bf16
expect 0 '5 samples' vlat export ft-cog.lmdb --to finetrainers --out ft-cog.1
expect 0 '5 samples' vlat import ft-cog.1 --from finetrainers --out ft-cog.back --empty zeros
expect 0 '5 samples' vlat export ft-cog.back --to finetrainers --out ft-cog.2
expect 0 '5 samples' vlat import ft-cog.2 --from finetrainers --out ft-cog.again --empty zeros
same ft-cog.back ft-cog.again
same_root ft-cog.back ft-cog.again
diff -rq ft-cog.1 ft-cog.2 | grep latent && wrong 'ft-cog: the latents differ'

# formats of normalised latents: the second export equals the first
round_trip wan wan2.1 mode f32 bf16 musubi
manifest wan.back '"latents": *"normalized"'
round_trip qwen qwen-image mode bf16 bf16 musubi
round_trip ds wan2.1 mode f32 bf16 diffsynth
manifest ds.back '"latents": *"normalized"'
make dsq.all qwen-image mode bf16 bf16
expect 1 '3 frames: qwen-image has stills' vlat export dsq.all --to diffsynth --out dsq.x
expect 0 '' vlat split dsq.all --by bucket --out dsq
expect 0 '3 samples' vlat export dsq-1x4x6 --to diffsynth --out dsq.1
expect 0 '3 samples' vlat import dsq.1 --from diffsynth --out dsq.back
expect 0 '3 samples' vlat export dsq.back --to diffsynth --out dsq.2
alike dsq.1 dsq.2
make dsr.all wan2.1 mode bf16 bf16
expect 0 '5 samples' vlat export dsr.all --to diffsynth --space raw --out dsr.1
expect 0 '5 samples' vlat import dsr.1 --from diffsynth --space raw --out dsr.back
same dsr.all dsr.back
cp dsq.1/0/0.pth dsr.1/0/5.pth
expect 1 '0/5.pth: of qwen-image, the samples before it are of wan2.1' vlat import dsr.1 \
    --from diffsynth --out mixed
# CogVideo has one shape and a line for each caption; imports keep all rows of the texts
make cog.all cogvideox sample bf16 bf16
expect 1 'an empty caption' vlat export cog.all --to cogvideo --out cog.x
expect 0 '4 samples' vlat select cog.all 'sample > 0' --out cog.two
expect 1 'vlat split --by bucket' vlat export cog.two --to cogvideo --out cog.x
expect 0 '' vlat split cog.all --by bucket --out cog
expect 0 '2 samples' vlat export cog-3x4x6 --to cogvideo --out cog.1
latents=cache/video_latent/cogvideox-t2v/9x32x48
expect 0 '2 samples' vlat import cog.1/$latents --from cogvideo --out cog.back --empty zeros
manifest cog.back '"values": *"sample"'
expect 0 '2 samples' vlat export cog.back --to cogvideo --out cog.2
cp -r cog.1 cog.latin
sed -i '2s/./\xe9/3' cog.latin/prompts.txt
expect 1 'prompts.txt: line 2: byte 3 is not UTF-8 (0xe9): save it as UTF-8' \
    vlat import cog.latin/$latents --from cogvideo --out cog.none
expect 3 "1 samples" vlat import cog.latin/$latents --from cogvideo --allow_partial \
    --empty zeros --out cog.none
alike cog.1 cog.2
expect 0 '2 samples' vlat export cog.back --to cogvideo --space raw --out cogr.1
expect 0 '2 samples' vlat import cogr.1/$latents --from cogvideo --space raw --out cogr.back \
    --empty zeros
expect 0 '2 samples' vlat export cogr.back --to cogvideo --space raw --out cogr.2
alike cogr.1 cogr.2
# families with the same VAE and text encoder merge, and --texts takes texts of the other family
expect 0 '2 samples' vlat import cog.1/$latents --from cogvideo --family cogvideox1.5 --out cog15 \
    --empty zeros
expect 0 '"cogvideox1.5" there, "cogvideox" now' vlat merge cog.back cog15 --out cog.both
expect 0 'family *cogvideox, cogvideox1.5, train mode' vlat info cog.both
manifest cog.both '"family": *"cogvideox"'
expect 0 '2 samples' vlat merge cog15 cog.both --out cog.three
manifest cog.three '"families": *\["cogvideox1.5","cogvideox"\]'
expect 0 '2 samples' vlat import cog.1/$latents --from cogvideo --family cogvideox1.5 \
    --texts cog.back --out cog15.texts
expect 2 'give the folder of latents' vlat import cog.1 --from cogvideo --out none
echo one more >>cog.2/prompts.txt
expect 1 'another number of prompts' vlat import cog.2/$latents --from cogvideo --out uneven \
    --empty zeros
sed -i 's/another/changed/' cog.1/prompts.txt
expect 1 'prompt_embeddings/[0-9a-f]*.safetensors' vlat import cog.1/$latents --from cogvideo \
    --out changed --empty zeros
make cv.all wan2.1 mode f32 bf16
expect 1 'vlat split --by bucket' vlat export cv.all --to causvid --out cv.x
expect 0 '' vlat split cv.all --by bucket --out cv
expect 0 '2 samples' vlat export cv-3x4x6 --to causvid --out cv.1
expect 0 '2 samples' vlat import cv.1 --from causvid --out cv.back
expect 0 'no damage' vlat verify cv.back
expect 0 '2 samples' vlat export cv.back --to causvid --out cv.2
cmp cv.1/data.mdb cv.2/data.mdb
make raw.all wan2.1 mode f16 bf16
expect 0 '' vlat split raw.all --by bucket --out raw
expect 0 '2 samples' vlat export raw-3x4x6 --to causvid --space raw --out raw.1
expect 0 '2 samples' vlat import raw.1 --from causvid --space raw --out raw.back
same raw-3x4x6 raw.back

# --texts takes text embeddings from another dataset, by caption
expect 0 '2 samples' vlat import raw.1 --from causvid --space raw --texts raw-3x4x6 --out texts.back
same raw-3x4x6 texts.back
expect 0 'no damage' vlat verify texts.back
manifest texts.back "\"texts\": *\"$(root raw-3x4x6)\""
expect 2 'leave --empty out' vlat import raw.1 --from causvid --texts raw-3x4x6 --empty zeros \
    --out none
expect 2 'has the dataset whole' vlat import safetensors.out --from safetensors --texts raw-3x4x6 \
    --out none
expect 0 '2 samples' vlat export texts.back --to musubi --out texts.musubi
expect 0 '1 sample,' vlat select raw.all 'sample = 0' --out raw.0
expect 1 'no sample of --texts has the caption "a caption' vlat import raw.1 --from causvid \
    --texts raw.0 --out textless
expect 1 'of family hunyuanvideo, what is imported is of wan2.1' vlat import raw.1 --from causvid \
    --texts hv.lmdb --out none

# a clip of ttt-video's list may have several segments of text
sed 's/"text_chunk_emb": *\[\(.*\)\]/"text_chunk_emb":[\1,\1,\1]/' ttt.1/metadata.jsonl \
    >ttt.1/chunks.jsonl
expect 0 '5 samples' vlat import ttt.1/chunks.jsonl --from ttt-video --out chunks.back --empty zeros
expect 0 '5 samples' vlat export chunks.back --to ttt-video --out chunks.1
[ "$(ls chunks.1/texts | wc -l)" -eq 15 ] || wrong 'ttt-video: not 15 segments'

# without an empty prompt the import fails; its samples are kept for the next run
expect 1 'run this again with --empty' vlat import ttt.1 --from ttt-video --out later.lmdb
expect 0 '5 samples' vlat import ttt.1 --from ttt-video --out later.lmdb --empty zeros
same ttt.lmdb later.lmdb

# imports of the same format merge, of unlike formats do not
expect 0 '5 samples occur twice' vlat merge ttt.back later.lmdb --out both.lmdb
expect 1 'different encoders' vlat merge ttt.back ft-cog.back --out none

# errors name the damaged file
cp ttt.1/videos/"$(ls ttt.1/videos | head -1)" ds.1/0/3.pth
expect 1 '0/3.pth: a tuple of three' vlat import ds.1 --from diffsynth --out none
printf 'no tensor' >ttt.1/videos/"$(ls ttt.1/videos | head -1)"
expect 1 'videos/.*no zip of torch.save' vlat import ttt.1 --from ttt-video --out none --empty zeros
truncate -s 9000 cv.2/data.mdb
expect 1 'data.mdb' vlat import cv.2 --from causvid --out none
rm wan.1/*_te.safetensors wan.1/images/*_te.safetensors
expect 1 '_te.safetensors' vlat import wan.1 --from musubi --out none
mkdir empty
expect 1 'nothing of finetrainers' vlat import empty --from finetrainers --out none
expect 1 'nothing of DiffSynth-Studio' vlat import empty --from diffsynth --out none
expect 1 'nothing of musubi' vlat import empty --from musubi --out none
touch empty/x.safetensors
expect 1 'STEM_WxH_ARCH' vlat import empty --from musubi --out none
[ ! -e none ] || [ -z "$(ls none 2>/dev/null | grep -v lmdb$ | grep -v manifest)" ] ||
    wrong 'a refused import left files'

# trainers whose caches are not read are named with what to do instead
for name in ai-toolkit simpletuner OneTrainer fastvideo; do
    expect 2 "from $name: its .* not read: vprep --.* again" \
        vlat import wan.1 --from $name --out none
done
expect 2 'from videox-fun: it stores no latents: vprep --meta' \
    vlat import wan.1 --from videox-fun --out none

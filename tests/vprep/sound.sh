#!/usr/bin/env bash
# The sound of clips becomes values beside their latents: of clips with several layouts, codecs and
# beginnings, without sound, and of stills, in one set. It is kept, verified, shown, trained past,
# and decoded into MP4s.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

heard_clip 2 stereo.mp4 'sin(2764*t)|sin(5529*t):s=48000' -c:a aac
heard_clip 2 mono.mkv 'sin(2764*t):s=22050' -c:a pcm_s16le
heard_clip 2 six.mkv '0|0|sin(2764*t)|0|0|0:c=5.1:s=44100' -c:a flac
heard_clip 2 none.mp4 ''
ffmpeg -v error -y -f lavfi -i testsrc2=s=96x64:r=1:d=1 -frames:v 1 media/still.png
echo "[$heard,{\"file_path\": \"still.png\", \"type\": \"image\", \"text\": \"a still\"}]" \
    >media/list.json

need make_model m20 LTX2Pipeline 20
need make_model m23 LTX2Pipeline 23
sampling+=(--image_sample_size 64)
encode() # encode VERSION OUT FLAG...
{
    vprep --meta media/list.json "${sampling[@]}" --model "m$1" --out "$2" "${@:3}"
}

# ---- without the flag nothing changes; with it sound alone is encoded, once ----
expect 0 '5 encoded' encode 20 set
grep -q audio set/manifest.json && wrong 'sound without --with_audio'
expect 0 '0 encoded, 5 reused' encode 20 set --with_audio
stderr_has 'the longest sound, 0.90 s, takes .*iB in its autoencoder'
expect 0 '' vlat show set 000000000000/000
stdout_has 'audio'
stdout_has 'mean .*\[4,22,1,4\]'             # 9 frames of 10 a second: round(0.9 * 25)
holds set/manifest.json '"audio_vae": {"class":"AutoencoderKLLTX2Audio"'
expect 0 '0 encoded, 5 reused' encode 20 set --with_audio
need vlat verify set
expect 0 '^audio .*AutoencoderKLLTX2Audio' vlat info set
stdout_has '^with sound    3 samples (2.7 s)$'
expect 0 '"with_sound":3,"sound_seconds":2.7[0,]' vlat info set --json
expect 0 '' vlat list set
[ "$(grep -c ' tokens  sound  ' "$stdout")" -eq 3 ] || wrong "vlat list: $(cat "$stdout")"
[ "$(grep -c ' tokens         ' "$stdout")" -eq 2 ] || wrong "vlat list: $(cat "$stdout")"
expect 0 '' vlat report set --out page.html
holds page.html '3 samples, 2.7 s'
expect 0 '' vlat report set --browse browse.html
holds browse.data/0/index.js '"3 with sound (2.7 s)"'
holds browse.data/0/c0/0.js '"a":\[\(0,0.9,0.9,0.9,0\|0.9,0.9,0.9,0,0\|0,0,0.9,0.9,0.9\)\]'
holds browse.data/0/a0/0.js '{"channels":4,"frames":22,"bins":4,"columns":22,"pixels":"[^"]*"}'
for i in 0 1 2; do
    expect 0 '' vlat show set 00000000000$i/000
    stdout_has '"audio"\|audio '
    stdout_has '^sound of 0.90 s$'
done
# The thumbnail of a clip with sound has its wave: of tones of full height, which a part of the time
# (4.7 ms, two periods) reaches; the centre of six channels has a share in each of two.
need vlat export set --to safetensors --out files
for i in 0 1 2; do
    thumb=files/thumbs/00000000000$i-000.jpg
    at=$(LC_ALL=C grep -obUa 'vlt wave' $thumb | head -1 | cut -d: -f1)
    tail -c +$((at + 10)) $thumb | head -c 384 | od -An -v -td1 -w2 >wave$i
    ffprobe -v error $thumb 2>broken
    [ ! -s broken ] || wrong "the thumbnail of $i: $(cat broken)"
    height=110; [ $i != 2 ] || height=30
    awk -v h=$height '$1 > -h || $2 < h { few++ } END { exit NR != 192 || few > 2 }' wave$i ||
        wrong "the wave of $i: $(tr '\n' ';' <wave$i)"
done
for i in 3 4; do
    ! grep -qa 'vlt wave' files/thumbs/00000000000$i-000.jpg || wrong "a wave of $i, without sound"
done
for i in 3 4; do                             # a clip without sound, a still
    expect 0 '' vlat show set 00000000000$i/000
    stdout_lacks audio
    stdout_has '^no sound$'
done

cp -r set wrong
sed -i '/"audio_vae"/s/"bins":4/"bins":5/' wrong/manifest.json
expect 1 "latent \[4,22,1,4\], the manifest's audio_vae has \[4,f,1,5\]" vlat verify wrong
cp set/manifest.json wrong
sed -i '/"audio_vae"/s/"std":\[[^,]*,/"std":[/' wrong/manifest.json
expect 1 "sound [0-9a-f]*: the manifest's audio_vae has no mean and std of 16 numbers" \
    vlat report wrong --browse wrong.html
absent wrong.html wrong.data
cp set/manifest.json wrong
sed -i '/"audio_vae"/s/"hop":640/"hop":320/' wrong/manifest.json
expect 1 "audio .*: 22 frames, the record's clip of 9 frames at 10 a second has 45" \
    vlat verify wrong

# ---- the same values, made in one go; other frames have other sound ----
expect 0 '5 encoded' encode 20 one --with_audio
values() { "$VLT_BUILD/tests/dump_dataset" "$1" | grep -v '^sample\|^thumb' | sort -u; }
need diff <(values set) <(values one)        # set has older records and thumbnails too
need vlat export one --to safetensors --out one.files
need diff -r files/thumbs one.files/thumbs
# a thumbnail that is made where all values are there already has the wave too
expect 0 '5 encoded' encode 20 plain --with_audio --thumbnails 0
expect 0 '0 encoded, 5 reused' encode 20 thumbs --with_audio --reuse plain
need vlat export thumbs --to safetensors --out thumbs.files
need diff -r files/thumbs thumbs.files/thumbs

# ---- a set without sound does not join one with sound unnoticed ----
expect 0 '5 encoded' encode 20 bare
expect 0 '' vlat info bare
stdout_lacks 'with sound'
expect 0 '' vlat report bare --browse bare.html
absent bare.data/0/a0
holds bare.data/0/keys.js '"sound":\[0,0,0,0,0\]'
expect 0 '' vlat list bare
[ "$(grep -c ' tokens  [a-z]*\.' "$stdout")" -eq 5 ] || wrong "vlat list: $(cat "$stdout")"
expect 1 'different encoders (audio_vae' vlat merge bare set --out both
absent both

# ---- training reads past sound; MP4s have it ----
expect 0 . vtrain --latents set --model m20 --output_dir run --training_type lora --rank 2 \
    --train_batch_size 1 --max_train_steps 2 --threads 1 --workers 1
for v in 20 23; do
    [ $v = 20 ] || expect 0 '5 encoded' encode 23 set23 --with_audio
    set=set; [ $v = 20 ] || set=set23
    expect 0 '5 decoded' vdecode $set --model m$v --out out$v
    for i in 0 1 2; do
        ffprobe -v error -select_streams a -show_entries stream=codec_name,channels,sample_rate \
            -of csv=p=0 out$v/00000000000$i-000.mp4 >streams
        rate=24000; [ $v = 20 ] || rate=48000
        grep -q "^aac,$rate,2" streams || wrong "sound of $i: $(cat streams)"
        ffprobe -v error -select_streams a -show_entries format=duration -of csv=p=0 \
            out$v/00000000000$i-000.mp4 >length
        grep -q '^0\.[89]\|^1\.0' length || wrong "seconds of $i: $(cat length)"
    done
    ffprobe -v error -select_streams a -show_entries stream=codec_name -of csv=p=0 \
        out$v/000000000003-000.mp4 >streams
    [ ! -s streams ] || wrong 'a clip without sound has some'
done
expect 0 'the sound of set is left out: give --model' vdecode set --vae m20 --out quiet
expect 0 '5 decoded' vdecode set --model m20 --out pictures --format png

# ---- a clip whose sound is damaged is skipped, with the second and the remedy ----
ffmpeg -v error -y -f lavfi -i color=c=red:s=96x64:r=10:d=2 -f lavfi \
    -i anoisesrc=d=2:a=0.3:r=48000:seed=7 -c:v mpeg4 -c:a flac media/flaw.mkv
printf '\125' | dd of=media/flaw.mkv bs=1 seek=$(($(stat -c %s media/flaw.mkv) / 2)) conv=notrunc \
    status=none
row='{"file_path": "%s", "text": "a"}'
printf "[$row,$row]" flaw.mkv mono.mkv >media/flaw.json
flaw()
{
    vprep --meta media/flaw.json "${sampling[@]}" --video_sample_n_frames 17 --model m20 "$@"
}
expect 3 'flaw.mkv: sound: damaged at [01]\.[0-9]* s: CRC error.*--with_audio out' flaw \
    --out flaw --with_audio
holds flaw/errors.jsonl 'sound: damaged at'
expect 0 '2 encoded' flaw --out pictures_alone

# ---- refusals: another family, a folder without its parts ----
expect 2 '--with_audio: models of builtin have no sound' vprep --meta media/list.json \
    "${sampling[@]}" --out none --with_audio
absent none
mv m20/audio_vae away
expect 2 '--model m20 has no folder audio_vae, which encodes the sound' encode 20 none \
    --with_audio
absent none
expect 0 '5 decoded' vdecode bare --model m20 --out plain
expect 2 '--model m20 has no folder audio_vae, which decodes the sound' vdecode set --model m20 \
    --out none
mv away m20/audio_vae

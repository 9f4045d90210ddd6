#!/usr/bin/env bash
# Folders with real clips in the layouts of other trainers: all clips are encoded with their
# captions, under the same keys as from a list of these clips and captions.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"

# run STATUS OUT META FLAGS...
run() {
    check "$3 ${*:4}" "$1" vprep --meta "$dir/$3" "${sampling[@]}" --out "$dir/$2" "${@:4}"
}
# same OUT LIST: the dataset OUT equals the dataset of the list
same() { same_values "$dir/$2" "$dir/$1" || wrong "$1: other values than from the list"; }

small_set "$dir/clips" 3
captions=("one, and more" "two" "three")
# list OUT WHERE: makes the dataset of a list whose paths begin with WHERE
list() {
    mkdir -p "$dir/$1/$2"
    cp "$dir"/clips/clip-*.mp4 "$dir/$1/$2"
    for i in 0 1 2; do
        printf '{"file_path": "%sclip-%d.mp4", "type": "video", "text": "%s"}\n' "$2" $i \
            "${captions[i]}"
    done >"$dir/$1/list.jsonl"
    run 0 "list-$1" "$1/list.jsonl"
    output_has 'captions: 3 of 3 samples have one; from text: 3$'
}
list flat ""
list deep videos/

# layout NAME WHERE: makes the folder NAME with the clips in its folder WHERE
layout() { mkdir -p "$dir/$1/$2"; cp "$dir"/clips/clip-*.mp4 "$dir/$1/$2"; }

layout lines videos
printf '%s\n' "${captions[@]}" >"$dir/lines/prompts.txt"
printf 'videos/clip-%d.mp4\n' 0 1 2 >"$dir/lines/videos.txt"
run 0 out-lines lines
output_has 'captions: 3 of 3 samples have one; from prompts.txt: 3$'
output_has '^    one, and more$'
same out-lines list-deep
echo four >>"$dir/lines/prompts.txt"
run 1 no lines
output_has 'prompts.txt has 4 captions, videos.txt 3 media'
absent "$dir/no"

layout hf .
for i in 0 1 2; do printf '{"file_name": "clip-%d.mp4", "text": "%s"}\n' $i "${captions[i]}"; done \
    >"$dir/hf/metadata.jsonl"
run 0 out-hf hf
output_has 'from text in metadata.jsonl: 3$'
same out-hf list-flat

layout sat videos
mkdir "$dir/sat/labels"
for i in 0 1 2; do echo "${captions[i]}" >"$dir/sat/labels/clip-$i.txt"; done
run 0 out-sat sat
output_has 'from labels/: 3$'
same out-sat list-deep
run 0 out-sat-videos sat/videos
same out-sat-videos list-flat

layout dpipe .
printf '{"clip-2.mp4": ["three"], "clip-0.mp4": "one, and more", "clip-1.mp4": ["two"]}' \
    >"$dir/dpipe/captions.json"
run 0 out-dpipe dpipe
output_has 'from captions.json: 3$'
same out-dpipe list-flat
printf '{"clip-2.mp4": ["three"], "clip-0.mp4": "one, and more", "clip-9.mp4": "nine"}' \
    >"$dir/dpipe/captions.json"
run 3 out-dpipe-some dpipe
output_has '2 encoded, 0 reused, 2 skipped'
cp "$dir/out-dpipe-some/errors.jsonl" "$log"
output_has '"clip-1.mp4",.*no caption: none of captions.json'
output_has '"clip-9.mp4",.*No such file'

layout fastvideo videos
printf '[{"path": "clip-0.mp4", "cap": ["one, and more"]}, {"path": "clip-1.mp4", "cap": "two"},
 {"path": "clip-2.mp4", "cap": "three"}]' >"$dir/fastvideo/videos2caption.json"
run 0 out-fastvideo fastvideo
output_has 'from cap in videos2caption.json: 3$'
same out-fastvideo list-flat
run 0 out-fastvideo-file fastvideo/videos2caption.json
same out-fastvideo-file list-flat

# WebDataset: a tar and a folder of the tar's name, whose files have the members' names, make the
# same dataset
list x.tar ""
mkdir "$dir/tarred"
mv "$dir/x.tar" "$dir/tarred/x.tar"
for i in 0 1 2; do
    printf '{"file_path": "x.tar/clip-%d.mp4", "type": "video", "text": "%s"}\n' $i "${captions[i]}"
done >"$dir/tarred/list.jsonl"
run 0 list-tarred tarred/list.jsonl
mkdir "$dir/wds"
echo "${captions[0]}" >"$dir/tarred/x.tar/clip-0.txt"
printf '{"caption": "%s", "width": 9}' "${captions[1]}" >"$dir/tarred/x.tar/clip-1.json"
printf '{"caption": "not this"}' >"$dir/tarred/x.tar/clip-2.json"
echo "${captions[2]}" >"$dir/tarred/x.tar/clip-2.txt"
ffmpeg -v error -f lavfi -i testsrc2=s=64x64:d=1:r=1 -frames:v 1 "$dir/tarred/x.tar/clip-2.jpg"
(cd "$dir/tarred/x.tar" && tar --sort=name -cf "$dir/wds/x.tar" clip-*)
run 0 out-wds wds
output_has 'captions: 3 of 3 samples have one; from .txt in tar: 2, caption in tar.s .json: 1$'
output_has '^    one, and more$'
same out-wds list-tarred
run 0 out-wds-file wds/x.tar
same out-wds-file list-tarred
run 0 out-wds wds
output_has '0 encoded, 3 reused'
run 1 no wds/x.tar --caption_column words
output_has 'x.tar: no row has a caption; found: .*caption.*; known: words'
run 3 out-wds-column wds/x.tar --caption_column caption
output_has '2 encoded, 0 reused, 1 skipped'
# captions before, behind and far from their media, links, long names, and names that are twice
# there: the clips and captions are those of the unpacked tar
mkdir -p "$dir/packed/sub"
cp "$dir/clips/clip-0.mp4" "$dir/packed/b.mp4"
echo "${captions[0]}" >"$dir/packed/b.txt"
ln "$dir/packed/b.mp4" "$dir/packed/a.mp4"
ln -s b.txt "$dir/packed/a.txt"
long=sub/$(printf '%0180d' 7)é
cp "$dir/clips/clip-1.mp4" "$dir/packed/$long.mp4"
echo "${captions[1]}" >"$dir/packed/$long.txt"
for format in gnu pax; do
    tar -C "$dir/packed" --format=$format -cf "$dir/own.tar" b.txt "$long.mp4" a.txt b.mp4 a.mp4
    cp "$dir/clips/clip-2.mp4" "$dir/packed/b.mp4.new"
    tar -C "$dir/packed" --format=$format --transform 's/mp4.new/mp4/' -rf "$dir/own.tar" \
        "$long.txt" b.mp4.new
    rm -rf "$dir/own" "$dir/unpacked" "$dir/out-own" "$dir/out-unpacked"
    mkdir -p "$dir/unpacked/own.tar"
    tar -C "$dir/unpacked/own.tar" -xf "$dir/own.tar"
    run 0 out-own own.tar
    output_has '^ignored: member 1 (own.tar/b.mp4: a later one has the same name)'
    run 0 out-unpacked unpacked
    values() { dump_dataset "$dir/$1" | awk '$1 ~ /^(latent|text)$/ { print $1, $3 }' | sort; }
    [ "$(values out-own | wc -l)" -ge 5 ] || wrong "$format: values are missing"
    [ "$(values out-own)" = "$(values out-unpacked)" ] || wrong "$format: other values"
    rm "$dir/packed/b.mp4.new"
done
gzip -c "$dir/wds/x.tar" >"$dir/packed.tar"
run 1 no packed.tar
output_has 'packed.tar: no plain tar, but a packed file: unpack it with gunzip'
mv "$dir/packed.tar" "$dir/packed.tar.gz"
run 1 no packed.tar.gz
output_has 'packed.tar.gz: a packed file is not read: unpack it, and give the folder or the .tar'
head -c 30000 "$dir/wds/x.tar" >"$dir/short.tar"
run 3 short short.tar
cp "$dir/short/errors.jsonl" "$log"
output_has '"short.tar",.*no plain tar, or damaged from here on'

# a folder of frames is a clip with the same values as a lossless file of these frames with this
# path
mkdir -p "$dir/file" "$dir/frames/clip"
ffmpeg -v error -i "$dir/clips/clip-1.mp4" -frames:v 12 "$dir/frames/clip/%03d.png"
ffmpeg -v error -framerate 25 -i "$dir/frames/clip/%03d.png" -c:v png -f mov "$dir/file/clip"
echo '{"video_path": "clip", "caption": "x"}' | tee "$dir/file/list.jsonl" >"$dir/frames/list.jsonl"
run 0 frames-file file/list.jsonl
run 0 frames-folder frames/list.jsonl
output_has '1 encoded'
latents() { dump_dataset "$dir/$1" | grep -E '^(latent|thumb) ' | awk '{ print $1, $3 }'; }
[ -n "$(latents frames-file)" ] && [ "$(latents frames-file)" = "$(latents frames-folder)" ] ||
    wrong "frames differ"
# numbers without padding are in the same order
mkdir -p "$dir/unpadded/clip"
for i in {1..12}; do cp "$dir/frames/clip/$(printf %03d $i).png" "$dir/unpadded/clip/$i.png"; done
cp "$dir/frames/list.jsonl" "$dir/unpadded"
run 0 unpadded.lmdb unpadded/list.jsonl
same unpadded.lmdb frames-folder
cp "$dir/unpadded/clip/1.png" "$dir/unpadded/clip/01.png"
run 1 unpadded.lmdb unpadded/list.jsonl
cp "$dir/unpadded.lmdb/errors.jsonl" "$log"
output_has '01.png and 1.png have the same number'
run 0 frames-folder frames/list.jsonl
output_has '0 encoded, 1 reused'
cp "$dir/frames/clip/007.png" "$dir/frames/clip/004.png"
run 0 frames-folder frames/list.jsonl
output_has '1 encoded, 0 reused'
ffmpeg -v error -y -f lavfi -i testsrc2=s=32x32:d=1:r=1 -frames:v 1 "$dir/frames/clip/005.png"
run 1 frames-other frames/list.jsonl
cp "$dir/frames-other/errors.jsonl" "$log"
output_has '005.png: 32x32, and the first frame is '
rm "$dir"/frames/clip/*
run 1 frames-none frames/list.jsonl
cp "$dir/frames-none/errors.jsonl" "$log"
output_has 'a folder without pictures'

# the numbers of kohya's folders are weights, unless the flag says otherwise, which encodes nothing
layout kohya 10_cats
for i in 0 1 2; do echo "${captions[i]}" >"$dir/kohya/10_cats/clip-$i.txt"; done
weights() { vlat list "$dir/kohya.lmdb" --json | grep -c "\"weight\":$1[,}]"; }
run 0 kohya.lmdb kohya
output_has '^repeats: .* --no_folder_repeats'
[ "$(weights 10)" -eq 3 ] || wrong "the weights are not 10"
# a stray picture leaves them as they are
cp "$dir/clips/clip-0.mp4" "$dir/kohya/stray.mp4"; echo stray >"$dir/kohya/stray.txt"
run 0 kohya-stray.lmdb kohya
output_has '^repeats: .*; 1 in no such folder count once: stray.mp4$'
vlat list "$dir/kohya-stray.lmdb" --json | grep -c '"weight":10[,}]' | grep -qx 3 ||
    wrong "the weights are not 10"
rm "$dir"/kohya/stray.*
run 0 kohya.lmdb kohya --no_folder_repeats
output_has '0 encoded, 3 reused' && output_lacks '^repeats:'
[ "$(weights 1)" -eq 3 ] || wrong "the weights are not 1"

# files of every ending that FFmpeg reads are samples; a line reports what else lies there
mkdir "$dir/endings"
(cd "$dir/endings" && ffmpeg -v error -i "$dir/clips/clip-0.mp4" -r 10 \
    -c copy a.mov -c copy b.m4v -c copy c.mkv -c copy d.AVI -c copy e.3gp -c copy f.nut \
    -r 25 -c:v mpeg2video g.ts -r 25 -c:v mpeg2video -mpegts_m2ts_mode 1 h.m2ts \
    -r 25 -c:v mpeg2video i.mpg -r 25 -c:v mpeg2video j.vob -r 25 -c:v mpeg2video k.m2v \
    -r 25 -c:v mpeg2video l.mxf -c:v wmv2 m.wmv -c:v msmpeg4v3 n.asf -c:v flv o.flv \
    -pix_fmt yuv420p -f yuv4mpegpipe p.y4m -f apng q.apng -c:v rv20 r.rm \
    $(for e in jpg:mjpeg jfif:mjpeg JPE:mjpeg jp2:jpeg2000 bmp:bmp tif:tiff tga:targa qoi:qoi \
               ppm:ppm pgm:pgm pbm:pbm pam:pam png:png; do
          echo "-frames:v 1 -update 1 -f image2 -c:v ${e#*:} still.${e%:*}"; done) 2>&1
    for f in still.*; do mv "$f" "${f#*.}-$f"; done
    for f in *.*; do echo "the file $f" >"${f%.*}.txt"; done
    mkdir .cache __MACOSX; cp a.mov .cache; cp a.mov __MACOSX; cp a.mov ._a.mov
    touch notes.txt x.psd README.md Thumbs.db
    ln -s ../clips more; ln -s .. more/up) || wrong ffmpeg
run 0 endings.lmdb endings --allow_empty_captions
output_has '34 encoded, 0 reused, 0 skipped'
output_has '^ignored: .psd 1 (x.psd: .* not read: save it as .png), .txt 1 (notes.txt: no medium'
output_has 'captions: 31 of 34 samples'
frames=$(vlat list "$dir/endings.lmdb" --json | grep -o '"frames":[0-9]*,"fps"' | sort | uniq -c |
    awk '{ gsub(/[^0-9]/, "", $2); printf "%s of %s; ", $1, $2 }')
[ "$frames" = "13 of 1; 16 of 10; 1 of 20; 4 of 25; " ] || wrong "frames: $frames"

# a folder of other files does not become a dataset, even with --overwrite; a job's own files may
# lie in a new dataset's folder, and a dataset in the folder of its media
for flag in "" --overwrite --dry_run; do
    run 2 kohya/10_cats flat/list.jsonl $flag
    output_has '--out: .*/10_cats holds no dataset, but other files (clip-.*, .*, clip-.*, ...): '
done
mkdir "$dir/web" && echo '{"name": "an application"}' >"$dir/web/manifest.json"
run 2 web flat/list.jsonl --overwrite
output_has 'web holds no dataset, but other files (manifest.json): give a new or an empty folder'
grep -q application "$dir/web/manifest.json" || wrong "the manifest is gone"
# a place that takes no folder is refused before weights are hashed and files are read
touch "$dir/taken" && ln -s nowhere "$dir/dangling"
for place in taken/set:'/taken is no folder' dangling:'/dangling is a link that leads nowhere'; do
    run 2 "${place%%:*}" flat/list.jsonl
    output_has "vprep: --out: .*${place#*:}: give another place"
    output_lacks 'probing'
done
expect 2 'vprep: --out: the path is empty, as where .*: give a path, or leave the flag out' \
    vprep --meta flat/list.jsonl --out ''
# in a file it counts as not given: those of GUIs have all their fields
printf 'validation_prompts: ""\nmodel: ""\n' >empty.yaml
run 0 empty flat/list.jsonl --config empty.yaml
mkdir "$dir/job" && touch "$dir/job/vprep.log" "$dir/job/settings.yaml" "$dir/job/.nfs1"
run 0 job flat/list.jsonl
touch "$dir/job/notes.txt" && rm "$dir/job/manifest.json"
run 1 job flat/list.jsonl
output_has 'holds .* but no manifest.json: give --overwrite'
run 0 job flat/list.jsonl --overwrite
run 0 kohya/latents.lmdb kohya
run 0 kohya/latents.lmdb kohya
output_has '0 encoded, 3 reused' && output_lacks '^ignored:'

layout none .
run 2 no none --caption_column words
output_has '--caption_column words: this folder has no list with columns'

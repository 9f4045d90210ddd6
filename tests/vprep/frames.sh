#!/usr/bin/env bash
# The frames that vprep stores are those that a player shows: of videos whose packets have decoding
# times, of joined streams, of loss masks with another frame rate, and of files with odd names.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"

make() { ffmpeg -nostdin -v error -y "$@"; }
# row DIR FIELDS: writes the list of one video
row() {
    echo "[{\"file_path\": \"clip.mp4\", \"type\": \"video\", \"text\": \"a\"$2}]" >"$1/list.json"
}
values() { dump_dataset "$1" | awk '$1 == "latent" { print $3 }' | sort; }
keys() { dump_dataset "$1" | awk '$1 == "latent" { print $2 }' | sort; }
same_frames() { # same_frames A B: the same values
    [ -n "$(values "$1")" ] && [ "$(values "$1")" = "$(values "$2")" ] || wrong "$1 and $2 differ"
}
vprep_of() { vprep --meta "$1/list.json" "${sampling[@]}" --out "$1.lmdb" "${@:2}"; }

# ---- B-frames of an AVI file, copied into MP4 without times of presentation ----
mkdir avi mp4
make -f lavfi -i "testsrc2=s=96x64:r=10:d=6" -c:v mpeg4 -g 12 -bf 2 -q:v 3 avi/clip.avi
make -i avi/clip.avi -c copy mp4/clip.mp4
mv avi/clip.avi avi/clip.mp4                       # the same id, so the same draws
row avi '' && row mp4 ''
need vprep_of avi --variants 3
need vprep_of mp4 --variants 3
cmp <(sed 's/"source_hash":"[^"]*"//' avi.lmdb/plan.jsonl) \
    <(sed 's/"source_hash":"[^"]*"//' mp4.lmdb/plan.jsonl) || wrong "the plans differ"
same_frames avi.lmdb mp4.lmdb
check again 0 vprep_of mp4 --variants 3 && stderr_has "0 encoded, 3 reused"
check verify 0 vlat verify mp4.lmdb

# ---- loss masks of half the frame rate, at the times of the source's frames ----
mkdir half full part
make -f lavfi -i "testsrc2=s=96x64:r=30:d=3" -c:v mpeg4 -q:v 3 full/clip.mp4
make -f lavfi -i "testsrc2=s=96x64:r=15:d=3" -c:v ffv1 half/mask.mkv
make -i half/mask.mkv -vf fps=30 -c:v ffv1 full/mask.mkv
make -f lavfi -i "testsrc2=s=96x64:r=15:d=1" -c:v ffv1 part/mask.mkv
cp full/clip.mp4 half && cp full/clip.mp4 part
for name in full half part; do row $name ', "loss_mask_path": "mask.mkv"'; done
need vprep_of full && output_lacks "another frame rate"
check half 0 vprep_of half
stderr_has "1 control clips or loss masks have another frame rate than their sources, so "
stderr_has "mask.mkv: 15 frames a second, its source has 30"
same_frames full.lmdb half.lmdb
check part 0 vprep_of part --start_rule first
stderr_has "all the same, since they do not last as long; the first is mask.mkv: 15 frames at 15"
check peer 0 vprep_of half --sampling peer --start_rule first --overwrite
stderr_has "all the same, since --sampling peer does so"

# ---- two streams one after the other, and a picture with the name of a pattern ----
mkdir joined
make -f lavfi -i "testsrc2=s=96x64:r=25:d=0.4" -c:v mpeg4 -bf 2 -q:v 3 -f mpegts one.ts
cat one.ts one.ts >joined/clip.mp4
make -f lavfi -i "testsrc2=s=96x64" -frames:v 1 joined/%%03d.png
mv joined/*.png joined/%03d.png
echo '[{"file_path": "clip.mp4", "text": "a"}, {"file_path": "%03d.png", "text": "b"}]' \
    >joined/list.json
check joined 0 vprep_of joined --video_sample_n_frames 17 --variants 4 && stderr_has "8 encoded"

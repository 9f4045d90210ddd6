#!/usr/bin/env bash
# vprep stores no value under the hash of other bytes when sources are replaced, or written in
# place, while vprep reads them. The changes happen at counted calls, one after another.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/fault.sh"

small_set "$dir/media" 4
white() { ffmpeg -v error -y -f lavfi -i "color=white:s=96x64:r=10:d=1" "$@"; }
white -vf "drawbox=x=0:y=0:w=48:h=64:color=black:t=fill" -frames:v 1 "$dir/media/mask.png"
sed -i '2s/"text"/"loss_mask_path": "mask.png", "text"/' "$dir/media/metadata.json"
# without a size of its own the prompt would have that of a sample, and others if one is skipped
printf '[{"prompt": "a picture", "image_path": "still-3.png", "height": 64, "width": 64}]' \
    >"$dir/media/prompts.json"
# the files that replace the sources
ffmpeg -v error -y -f lavfi -i "mandelbrot=s=96x64:r=10" -t 2 -c:v mpeg4 -q:v 4 "$dir/other.mp4"
ffmpeg -v error -y -f lavfi -i "mandelbrot=s=64x64:r=1" -frames:v 1 "$dir/other.png"
white -vf "drawbox=x=48:y=0:w=48:h=64:color=black:t=fill" -frames:v 1 "$dir/mask.png"
cp -r "$dir/media" "$dir/before"
make=(vprep --meta "$dir/media/metadata.json" "${sampling[@]}" --train_mode i2v --workers 1
      --validation_prompts "$dir/media/prompts.json")
reset() { rm -rf "$dir/media"; cp -r "$dir/before" "$dir/media"; }

# FILE of the set becomes OTHER at the Nth CALL on FILE, by a rename or in place; the next of the
# files has at each call the other way. With any exit status, a key of the dataset
# has the same bytes as in a dataset of the files before or after the change; and the next run's
# dataset equals a new one.
# values_are_true WHAT: all values of the run are in the datasets of the files before or after
values_are_true() {
    local wrong
    wrong=$(dump_dataset "$dir/run" | grep '^latent\|^text' | sort -u | comm -23 - "$dir/true")
    [ -z "$wrong" ] || wrong "$1: stored under another's key: $wrong"
}
ways=("mv OTHER.new" "cp OTHER") turn=0
for name in clip-0.mp4:other.mp4 still-3.png:other.png mask.png:mask.png; do
    file=${name%:*} other=$dir/${name#*:}
    reset
    rm -rf "$dir/one" "$dir/two"
    check "$file: before" 0 "${make[@]}" --out "$dir/one"
    cp "$other" "$dir/media/$file"
    check "$file: after" 0 "${make[@]}" --out "$dir/two"
    dump_dataset "$dir/one" >"$dir/true"
    dump_dataset "$dir/two" >>"$dir/true"
    sort -u "$dir/true" -o "$dir/true"
    for at in open:1 open:2 open:4 read:2 read:3 read:5 close:1 close:2 close:3; do
        how=${ways[turn = (turn + 1) % 2]/OTHER/$other}
        reset
        rm -rf "$dir/run"
        cp "$other" "$other.new"
        export VLT_FAULT_RUN="$how $dir/media/$file"
        status=0
        fault "${at%:*}@media/$file:${at#*:}:run" "${make[@]}" --out "$dir/run" >"$log" \
            2>&1 || status=$?
        [ $status -ne 2 ] && [ $status -lt 4 ] || wrong "$file, $how, $at: status $status"
        cmp -s "$dir/media/$file" "$other" || continue               # vprep makes fewer calls
        [ $status -eq 1 ] || values_are_true "$file, $how, $at"
        check "$file, $how, $at: the next run" 0 "${make[@]}" --out "$dir/run"
        values_are_true "$file, $how, $at, the next run"
        same_root "$dir/two" "$dir/run"
        check "$file, $how, $at: damage" 0 vlat verify "$dir/run"
    done
done

# A touched file with the same bytes is encoded like an untouched one.
reset
rm -rf "$dir/one" "$dir/run"
"${make[@]}" --out "$dir/one" >"$log" 2>&1
export VLT_FAULT_RUN="touch $dir/media/clip-0.mp4"
check "a touched file" 0 fault "open@media/clip-0.mp4:4:run" "${make[@]}" --out "$dir/run"
same_values "$dir/one" "$dir/run"

# Where a file is replaced while it is decoded, the dataset keeps the file's old sample.
cp "$dir/media/clip-2.mp4" "$dir/media/clip-0.mp4"
cp "$dir/other.mp4" "$dir/other.new"
export VLT_FAULT_RUN="mv $dir/other.new $dir/media/clip-0.mp4"
check "replaced" 3 fault "open@media/clip-0.mp4:4:run" "${make[@]}" --out "$dir/run"
holds "$dir/run/errors.jsonl" '"stage":"decode","reason":.*changed while this ran'
same_root "$dir/one" "$dir/run"

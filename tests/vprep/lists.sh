#!/usr/bin/env bash
# A broken or empty list, one without a usable row, and one that lacks most rows of the dataset stop
# vprep before anything of the dataset changes; whatever is skipped is named on the screen.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/fault.sh"

small_set "$dir/media" 9
list=$dir/media/metadata.json
rows=$(sed 's/^\[//; s/\]$//; s/^,$//; s/,$//' "$list" | grep .)     # one row a line
make=(vprep "${sampling[@]}")
check whole 0 "${make[@]}" --meta "$list" --out "$dir/whole"
cp -r "$dir/whole" "$dir/a"

# stays NAME: the dataset in a is the one of the whole list, every file of it.
stays() {
    local f
    for f in manifest.json plan.jsonl vprep.yaml shard-00000.lmdb text-00000.lmdb; do
        cmp "$dir/whole/$f" "$dir/a/$f" || wrong "$1: $f changed"
    done
}
# refused NAME LIST PATTERN FLAG...: a run stops on an existing and on a new dataset.
refused() {
    local name=$1 file=$2 pattern=$3
    shift 3
    check "$name" 1 timeout -s KILL 300 "${make[@]}" --meta "$file" --out "$dir/a" "$@"
    stderr_has "$pattern"
    stays "$name"
    check "$name, new" 1 timeout -s KILL 300 "${make[@]}" --meta "$file" --out "$dir/none" "$@"
    stderr_has "$pattern"
    absent "$dir/none/manifest.json" "$dir/none/plan.jsonl"
    rm -rf "$dir/none"
}
put() { cat >"$dir/media/$1"; }

# ---- no row ----
echo '[]' | put empty.json
echo '{}' | put object.json
: | put empty.jsonl
printf '\n  \n' | put blank.jsonl
: | put none.json
echo 'file_path,text' | put header.csv
: | put none.csv
tar cf "$dir/media/empty.tar" -T /dev/null
for f in empty.json object.json empty.jsonl blank.jsonl header.csv empty.tar; do
    refused "$f" "$dir/media/$f" "$f: no row"
done
for how in --append --overwrite --allow_missing "--shard 1/2" "--plan $dir/whole/plan.jsonl" \
    --dry_run; do
    check "no row $how" 1 "${make[@]}" --meta "$dir/media/empty.json" --out "$dir/a" $how
    stays "no row $how"
done
refused none.json "$dir/media/none.json" 'expected an array'
refused none.csv "$dir/media/none.csv" 'no header'

# ---- zeros, cut, other encodings ----
for f in zeros.json zeros.jsonl zeros.csv; do
    head -c 100000 /dev/zero | put "$f"
    refused "$f" "$dir/media/$f" 'begins with zero bytes'
done
echo "$rows" | head -n 1 | head -c 30 | put cut.jsonl
refused cut.jsonl "$dir/media/cut.jsonl" 'none of its rows can be used: row 1: line 1, column'
head -c 50 "$list" | put cut.json
refused cut.json "$dir/media/cut.json" 'cut.json: row 1: '
echo "$rows" | sed 's/picture/caf\xe9/' | put latin.jsonl
refused latin.jsonl "$dir/media/latin.jsonl" 'not UTF-8: save it as UTF-8'
echo "$rows" | sed 's/picture/caf\xe9/' | sed '1s/^/[/; $!s/$/,/; $s/$/]/' | put latin.json
refused latin.json "$dir/media/latin.json" 'not UTF-8: save it as UTF-8'
iconv -f UTF-8 -t UTF-16LE "$list" | put wide.json
refused wide.json "$dir/media/wide.json" 'UTF-16: save it as UTF-8'
echo "$rows" | sed 's/file_path/file_pth/' | put misspelt.jsonl
refused misspelt.jsonl "$dir/media/misspelt.jsonl" 'no medium.*file_pth'
stderr_has 'data_file_keys'
refused "misspelt, part" "$dir/media/misspelt.jsonl" 'no medium' --shard 2/2
echo "$rows" | put lines.csv
refused lines.csv "$dir/media/lines.csv" 'JSON'

# ---- rows under the ending of the other form are read ----
echo "$rows" | put lines.json
cp "$list" "$dir/media/array.jsonl"
for f in lines.json array.jsonl; do
    check "$f" 0 "${make[@]}" --meta "$dir/media/$f" --out "$dir/b"
    same_root "$dir/whole" "$dir/b"
done
mkdir "$dir/media/sub" && cp "$dir/media/clip-0.mp4" "$dir/media/sub/"
echo '{"file_path": "sub\\clip-0.mp4", "text": "a"}' | put back.jsonl
check backslashes 0 "${make[@]}" --meta "$dir/media/back.jsonl" --out "$dir/back"
echo '{"file_path": "C:\\sub\\clip-0.mp4", "text": "a"}' | put drive.jsonl
check "drive" 1 "${make[@]}" --meta "$dir/media/drive.jsonl" --out "$dir/drive" &&
    output_has 'Windows'

# ---- no row can be used ----
mkdir "$dir/media/broken"
for f in $(cd "$dir/media" && echo *.mp4 *.png); do echo damaged >"$dir/media/broken/$f"; done
refused broken "$list" 'no row of .* can be used' --data "$dir/media/broken"
stderr_has 'probe: 9 (row 1, clip-0.mp4: '
check "broken, dry" 3 "${make[@]}" --meta "$list" --data "$dir/media/broken" --out "$dir/a" \
    --dry_run && output_has 'a run will be refused: no row of'
stays "broken, dry"
for how in --append --overwrite "--plan $dir/whole/plan.jsonl"; do
    check "broken $how" 1 "${make[@]}" --meta "$list" --data "$dir/media/broken" --out "$dir/a" $how
    stays "broken $how"
done
check "broken, allowed" 3 "${make[@]}" --meta "$list" --data "$dir/media/broken" \
    --out "$dir/empty" --allow_missing
check "vtrain, empty" 1 vtrain --latents "$dir/empty" --output_dir "$dir/run"
stderr_has '0 samples: vprep could use no row of its list.*errors.jsonl'
refused filtered "$list" 'select: 9 (row 1, clip-0.mp4: ' --on_small drop --video_sample_size 512 \
    --image_sample_size 4096 --reuse "$dir/a"
mkdir "$dir/folder"
for i in 0 1; do
    cp "$dir/media/clip-$i.mp4" "$dir/folder/"
    iconv -t UTF-16 <<<"a caption" >"$dir/folder/clip-$i.txt"
done
refused sidecars "$dir/folder" 'its .txt caption is not UTF-8 text: UTF-16: save it as UTF-8'
printf 'a caf\xe9' >"$dir/folder/clip-0.txt"
printf 'a cafe' >"$dir/folder/clip-1.txt"
check "one sidecar" 3 "${make[@]}" --meta "$dir/folder" --out "$dir/side"
stderr_has \
    'metadata: 1 skipped: row 1, clip-0.mp4: its .txt caption is not UTF-8 text: byte 6 is not UTF-8 (0xe9): save it'
# Damage that shows only when frames are decoded: the dataset keeps its samples.
mkdir "$dir/late"
for f in $(cd "$dir/media" && echo *.mp4 *.png); do
    cp "$dir/media/$f" "$dir/late/$f"
    case $f in
    *.png) poke "$dir/late/$f" 60 'xxxxxxxxxxxxxxxxxxxxxxxxx' ;;
    *) at=$(grep -abo mdat "$dir/late/$f" | head -n 1 | cut -d: -f1)
        poke "$dir/late/$f" $((at + 4)) "$(head -c 2000 /dev/zero | tr '\0' x)" ;;
    esac
done
cp -r "$dir/whole" "$dir/l"
check "late" 1 "${make[@]}" --meta "$list" --data "$dir/late" --out "$dir/l"
stderr_has 'drop [5-9] of the 9 samples in .*decode: [5-9] (row'
[ "$(count "$dir/l")" = 9 ] && whole "$dir/l" || wrong "late: the samples are lost"
check "late, new" 1 "${make[@]}" --meta "$list" --data "$dir/late" --out "$dir/l2"
stderr_has 'no row of'
not_done "$dir/l2"
# A part of a list may have no row, or none that can be used, as other parts have more.
check "an empty part" 0 "${make[@]}" --meta "$dir/folder" --out "$dir/part" --shard 40/100
check "a part" '0 3' "${make[@]}" --meta "$list" --data "$dir/media/broken" --out "$dir/part2" \
    --shard 1/9

# ---- most samples would go ----
echo "$rows" | head -n 4 | put four.jsonl
echo "$rows" | head -n 5 | put five.jsonl
check most 1 "${make[@]}" --meta "$dir/media/four.jsonl" --out "$dir/a"
stderr_has 'drop 5 of the 9 samples'
stderr_has 'allow_missing'
stays most
check "most, dry" 0 "${make[@]}" --meta "$dir/media/four.jsonl" --out "$dir/a" --dry_run
stderr_has 'a run will be refused: .*drop 5 of the 9'
stays "most, dry"
if have_ranks; then
    check "most, ranks" 1 "$lib/ranks.sh" 2 "${make[@]}" --meta "$dir/media/four.jsonl" \
        --out "$dir/a" && stderr_has 'drop 5 of the 9'
    stays "most, ranks"
    check "broken, ranks" 1 "$lib/ranks.sh" 2 "${make[@]}" --meta "$list" \
        --data "$dir/media/broken" --out "$dir/a" && stderr_has 'no row of'
    stays "broken, ranks"
fi
# Moved files have other names, and the clips of most are the same.
echo "$rows" | sed 's|"file_path": "|&./|' | put moved.jsonl
cp -r "$dir/whole" "$dir/moved"
check moved 0 "${make[@]}" --meta "$dir/media/moved.jsonl" --out "$dir/moved"
output_has ' 0 skipped, 9 gone'
(for f in clip-0.mp4 clip-1.mp4 clip-2.mp4; do cp "$dir/media/$f" "$dir/media/$f.kept"
    echo damaged >"$dir/media/$f"; done)
echo "$rows" | head -n 7 | put seven.jsonl
check "most, in two ways" 1 "${make[@]}" --meta "$dir/media/seven.jsonl" --out "$dir/a"
stderr_has 'drop 5 of the 9 samples'
stderr_has 'probe: 3 (row 1, clip-0.mp4: '
stays "most, in two ways"
for f in clip-0.mp4 clip-1.mp4 clip-2.mp4; do mv "$dir/media/$f.kept" "$dir/media/$f"; done
cp -r "$dir/a" "$dir/c"
check append 0 "${make[@]}" --meta "$dir/media/four.jsonl" --out "$dir/c" --append
check "half stays" 0 "${make[@]}" --meta "$dir/media/five.jsonl" --out "$dir/c"
output_has ' 4 gone'
check allowed 0 "${make[@]}" --meta "$dir/media/four.jsonl" --out "$dir/a" --allow_missing
output_has ' 5 gone'
check back 0 "${make[@]}" --meta "$list" --out "$dir/a"
[ "$(count "$dir/a")" = 9 ] || wrong "back: not 9 samples"

# ---- files that are none, or never end ----
mkfifo "$dir/media/pipe.json" "$dir/media/pipe.jsonl" "$dir/pipe.yaml"
ln -s /dev/zero "$dir/media/endless.json"
ln -s /dev/zero "$dir/endless.yaml"
for f in media/pipe.json media/pipe.jsonl media/endless.json; do
    check "$f" 1 timeout -s KILL 300 "${make[@]}" --meta "$dir/$f" --out "$dir/a" &&
        stderr_has 'not a regular file'
    check "$f as a plan" 1 timeout -s KILL 300 "${make[@]}" --meta "$list" --out "$dir/a" \
        --plan "$dir/$f"
    check "$f as prompts" 1 timeout -s KILL 300 "${make[@]}" --meta "$list" --out "$dir/n" \
        --validation_prompts "$dir/$f"
done
for f in pipe.yaml endless.yaml; do
    check "$f" '1 2' timeout -s KILL 300 vprep --config "$dir/$f"
    check "$f" '1 2' timeout -s KILL 300 vtrain --config "$dir/$f"
done

# ---- columns that are not used, and two columns of captions ----
{
    echo '{"file_path":"clip-0.mp4","text":"a","prompt":"b","fps":"30000/1001","frames":"N/A"}'
    echo '{"file_path":"clip-1.mp4","text":"a","prompt":"b","fps":-1,"frames":[0,48],"width":"x"}'
    echo '{"file_path":"clip-2.mp4","text":"a","prompt":"b","fps":"nan","frames":0,"height":null}'
} | put unused.jsonl
check unused 0 "${make[@]}" --meta "$dir/media/unused.jsonl" --out "$dir/unused"
output_has 'from text and prompt: 3'
check "unused, trusted" 0 "${make[@]}" --meta "$dir/media/unused.jsonl" --out "$dir/unused" \
    --trust_metadata

# ---- a medium of many rows is opened once ----
for i in $(seq 40); do echo "{\"file_path\":\"clip-$((i % 2)).mp4\",\"text\":\"$i\"}"; done |
    put many.jsonl
for f in clip-0.mp4 still-3.png; do echo damaged >"$dir/media/bad-$f"; done
for i in $(seq 20); do echo '{"file_path":"bad-clip-0.mp4","text":"x"}'; done \
    >>"$dir/media/many.jsonl"
opens() { # opens FILE COMMAND...: the number of times that a command opens it
    local file=$1 n=0
    shift
    while fault "open@$file:$((n + 1)):kill" "$@" >/dev/null 2>&1; [ $? -gt 100 ] && ((n < 50)); do
        n=$((n + 1))
    done
    echo $n
}
run=("${make[@]}" --meta "$dir/media/many.jsonl" --out "$dir/many" --dry_run --workers 2)
n=$(opens media/clip-0.mp4 "${run[@]}") && [ "$n" -le 3 ] || wrong "clip-0.mp4 is opened $n times"
n=$(opens media/bad-clip-0.mp4 "${run[@]}") && [ "$n" -le 3 ] || wrong "a bad file: $n times"
check many 3 "${make[@]}" --meta "$dir/media/many.jsonl" --out "$dir/many"
[ "$(wc -l <"$dir/many/errors.jsonl")" = 20 ] || wrong "many: not 20 rows are skipped"
[ "$(count "$dir/many")" = 40 ] || wrong "many: not 40 samples"

# ---- a disk that fails while a folder is read: the list is not cut short ----
check "a failing folder" 1 fault "list@$dir/folder:1:EIO" "${make[@]}" --meta "$dir/folder" \
    --out "$dir/none"

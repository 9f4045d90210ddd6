#!/usr/bin/env bash
# Lists in Parquet and Arrow files. A build without Arrow's library refuses them before it reads
# anything, and names the command of scripts/unpack_parquet.py; a build with it makes the same
# dataset from bytes in columns as from files. The script itself is tested where Python has pyarrow.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
unpack=$VLT_SOURCE/scripts/unpack_parquet.py

# run STATUS OUT META FLAGS...
run() { check "$3 ${*:4}" "$1" vprep --meta "$3" "${sampling[@]}" --out "$2" "${@:4}"; }
same() { same_values "$2" "$1" || wrong "$1: other values than $2"; }

small_set clips 4
names=(clip-0.mp4 clip-1.mp4 clip-2.mp4 still-3.png)
captions=("one" "two" "three" "four")

# ---- without the library ----

echo x >x.parquet
mkdir -p hub/data saved/train
echo x | tee hub/data/train-0.parquet >saved/train/a.arrow
echo '{"splits": ["train"]}' >saved/dataset_dict.json
echo '{"_data_files": [{"filename": "a.arrow"}]}' >saved/train/state.json
run '1 2' no x.parquet
if [ "$status" -eq 2 ]; then
    echo "without Arrow's library: such lists are refused, and reading them is not tested"
    output_has 'python3 scripts/unpack_parquet.py x.parquet FOLDER'
    for list in hub saved; do
        run 2 no $list
        output_has "python3 scripts/unpack_parquet.py $list FOLDER"
        output_lacks 'probing'
    done
    mv hub/data/train-0.parquet x.feather
    run 2 no x.feather
    run 2 no clips/metadata.json --validation_prompts x.parquet
    output_has '^vprep: --validation_prompts: x.parquet: .*'
    output_lacks 'probing'
    absent no
fi

# ---- with it ----

# list OUT WHERE: makes the dataset of a list whose paths begin with WHERE, a folder of the media,
# with the further columns that columnar_make adds
list() {
    mkdir -p "in-$1/$2"
    for i in 0 1 2 3; do
        cp "clips/${names[i]}" "in-$1/$2"
        printf '{"video": "%s/%s", "text": "%s", "tags": ["a", "b"], "fps": %s}\n' "$2" \
            "${names[i]}" "${captions[i]}" "$([ $i -eq 0 ] && echo null || echo 10)"
    done >"in-$1/list.jsonl"
    run 0 "$1" "in-$1/list.jsonl"
}
# make FILE FORM FROM TO: writes the media FROM..TO into a file
make() {
    local i args=()
    for ((i = $3; i < $4; i++)); do args+=("${captions[i]}" "${names[i]}"); done
    (cd clips && need columnar_make "$dir/$1" "$2" "${args[@]}")
}

if command -v columnar_make >/dev/null; then
    list from-parquet l.parquet
    list from-arrow l.arrow
    for form in "parquet snappy groups" "parquet zstd old dictionary"; do
        make l.parquet "$form" 0 4
        rm -rf out
        run 0 out l.parquet
        output_has 'captions: 4 of 4 samples have one; from text: 4$'
        same out from-parquet
    done
    run 0 out l.parquet
    output_has '0 encoded, 4 reused'
    make l.arrow "stream groups" 0 4
    run 0 out-arrow l.arrow
    same out-arrow from-arrow

    # other rows around the same bytes: nothing is encoded again
    make l.parquet "parquet groups" 0 3
    run 0 out l.parquet
    output_has '0 encoded, 3 reused, 0 skipped, 1 gone'

    # validation prompts
    columnar_make in-prompts.parquet "parquet direct" "a prompt" - "another" -
    run 0 out-prompts clips/metadata.json --validation_prompts in-prompts.parquet
    output_has '7 of 7 prompts encoded'
    columnar_make in-prompts.parquet "parquet" - -
    run 1 out-none clips/metadata.json --validation_prompts in-prompts.parquet
    output_has 'in-prompts.parquet: .*row 1: no prompt'

    # shards in order; a caption's column that is misspelt; a file that is cut
    rm -rf hub && mkdir -p hub/data
    make hub/data/train-00000-of-00002.parquet "parquet snappy" 0 2
    make hub/data/train-00001-of-00002.parquet "parquet snappy" 2 4
    make hub/data/test-00000-of-00001.parquet parquet 0 1
    run 0 out-hub hub
    output_has '^list: train; not read: test$'
    output_has 'captions: 4 of 4 samples'
    vlat list out-hub --json >"$log"
    output_has '"path": *"train-00001-of-00002.parquet/still-3.png"'
    run 0 out-test 'hub/data/test-*.parquet'
    output_has 'captions: 1 of 1 samples'
    run 1 no hub --caption_column words
    output_has 'hub: no row has a caption; found: text, video'
    head -c 20000 l.parquet >cut.parquet
    run 1 no cut.parquet
    output_has 'cut.parquet: .*Parquet'
    absent no
fi

# ---- the script ----

if ! python3 -c 'import pyarrow.parquet' 2>"$log"; then
    echo "without Python's pyarrow: scripts/unpack_parquet.py is not tested"
    exit 0
fi
python3 - <<'END' || wrong "pyarrow failed"
import pyarrow as pa, pyarrow.parquet as pq, os
names = ["clip-0.mp4", "clip-1.mp4", "clip-2.mp4", "still-3.png"]
media = [{"bytes": open(f"clips/{n}", "rb").read(), "path": "../" + n} for n in names]
media[3]["path"] = None
def table(a, b):
    return pa.table({"text": ["one", "two", "three", "four"][a:b], "clip": media[a:b],
                     "fps": [float("nan")] * (b - a), "tags": [["a"]] * (b - a)})
os.makedirs("py/data")
for i in range(2):
    pq.write_table(table(2 * i, 2 * i + 2), f"py/data/train-0000{i}-of-00002.parquet")
os.makedirs("paths/media")
os.link("clips/clip-0.mp4", "paths/media/clip.mp4")
pq.write_table(pa.table({"video": ["media/clip.mp4"], "text": ["x"]}), "paths/list.parquet")
pq.write_table(table(0, 1), "py/data/test-00000-of-00001.parquet")
with pa.OSFile("py.arrow", "wb") as f, pa.ipc.new_stream(f, table(0, 4).schema) as to:
    to.write_table(table(0, 4))
END
for from in py py.arrow; do
    check "$from" 0 python3 "$unpack" $from "un-$from"
    output_has '^4 rows, 4 media files: give vprep --meta un-'
    run 0 "out-un-$from" "un-$from/metadata.jsonl"
    output_has 'captions: 4 of 4 samples have one; from text: 4$'
    cmp -s clips/clip-2.mp4 "un-$from/media/clip-2.mp4" || wrong "$from: other bytes"
done
cmp -s clips/still-3.png un-py/media/0000004.png || wrong "a picture without a name"
same out-un-py out-un-py.arrow
check paths 0 python3 "$unpack" paths/list.parquet un-paths
run 0 out-un-paths un-paths/metadata.jsonl
output_has '1 encoded'
check test 0 python3 "$unpack" py un-test --split test
output_has '^split test; not read: train'
check again 1 python3 "$unpack" py un-py
output_has 'un-py is not empty'
check cut 1 python3 "$unpack" x.parquet un-x
output_has 'x.parquet: after row 0'
absent un-x/metadata.jsonl

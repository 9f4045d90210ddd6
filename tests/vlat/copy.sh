#!/usr/bin/env bash
# merge, split, select, diff and gc on the dataset that make_dataset made.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/fault.sh"
cp -r "$VLT_BUILD/tests/made.lmdb" a.lmdb


# split, then merge: the same samples with the same numbers
expect 2 'either --n N or --by' vlat split a.lmdb --out p
expect 2 'has 60 samples' vlat split a.lmdb --out p --n 61
expect 2 '--out is required' vlat split a.lmdb --n 3
expect 0 'p-02: 20 samples' vlat split a.lmdb --n 3 --out p
expect 1 'p-00 is a finished dataset already' vlat split a.lmdb --n 2 --out p
cp -r p-01 was-p-01
rm -r p-01                                   # as if split had been stopped: whole parts are kept
at=$(stat -c %i p-02/manifest.json)
expect 0 'p-01: 20 samples' vlat split a.lmdb --n 3 --out p
[ "$(stat -c %i p-02/manifest.json)" = "$at" ] || wrong 'split made a finished part again'
expect 0 'no damage' vlat verify p-01
same_files p-01 was-p-01
expect 0 '60 samples' vlat merge p-00 p-01 p-02 --out back.lmdb --shard_size 1MiB
same_root a.lmdb back.lmdb
expect 0 '60 samples' vlat merge p-00 p-01 p-02 --out again.lmdb --shard_size 1MiB
same_files back.lmdb again.lmdb
expect 0 '60 the same, 0 changed' vlat diff a.lmdb back.lmdb
expect 0 'one: 1 sample, root' vlat select a.lmdb 'sample = 0' --out one
rm -r one
expect 0 'b-1x8x4: 20 samples' vlat split a.lmdb --by bucket --out b
expect 0 'samples *40' vlat info b-3x4x6
expect 2 'takes DATASET' vlat merge a.lmdb --out one

# --out is refused if the folder holds anything but an unfinished copy
mkdir mine fresh && echo 1 >mine/notes.txt && cp p-00/state.lmdb fresh
expect 1 'mine is there and holds "notes.txt"' vlat merge p-00 p-01 --out mine
expect 1 'holds "notes.txt"' vlat select a.lmdb 'sample >= 40' --out mine
mkdir s-01 && echo 1 >s-01/notes.txt
expect 1 's-01 is there' vlat split a.lmdb --n 2 --out s
absent s-00
sed 's/"complete": true/"complete": false/' p-01/manifest.json >fresh/manifest.json &&
    echo 1 >fresh/plan.jsonl
expect 1 'holds "plan.jsonl"' vlat select a.lmdb 'sample >= 40' --out fresh
expect 1 'Not a directory' vlat select a.lmdb 'sample >= 40' --out mine/notes.txt
[ "$(ls mine)" = notes.txt ] || wrong 'a refused verb wrote something'
rm -r fresh && mkdir fresh
expect 0 '20 samples' vlat select a.lmdb 'sample >= 40' --out fresh

# samples that occur twice are copied once; new numbers follow the old ones
expect 0 '60 samples occur twice' vlat merge a.lmdb back.lmdb --out twice.lmdb
same_root a.lmdb twice.lmdb
expect 0 '^000000000059/000' vlat list twice.lmdb
expect 0 '40 samples' vlat merge p-02 p-00 --out swapped.lmdb
expect 0 '^000000000039/000' vlat list swapped.lmdb
expect 0 'prompts *1' vlat info swapped.lmdb
expect 0 'no damage' vlat verify swapped.lmdb

# select keeps numbers
expect 2 'no name "size"' vlat select a.lmdb 'size > 3' --out none
expect 1 'no sample fits' vlat select a.lmdb 'sample > 100' --out none
absent none
expect 0 '20 samples' vlat select a.lmdb 'sample >= 40' --out last.lmdb
expect 0 '^000000000040/000' vlat list last.lmdb
same_files p-02 last.lmdb                    # the same samples, by another verb
expect 0 'no damage' vlat verify last.lmdb
expect 1 '20 the same, 0 changed, 40 only in the first, 0 only' vlat diff a.lmdb last.lmdb
expect 1 '^+ 000000000000/000' vlat diff last.lmdb a.lmdb
# equal records are compared without being parsed: a parsed one takes a hundred allocations
if [ "${VLT_FAULT_MEMORY:-0}" = 1 ]; then
    n=$(calls_of memory vlat diff a.lmdb a.lmdb)
    n=$((n - $(calls_of memory vlat --help)))   # what libraries allocate when they are loaded
    [ "$n" -lt 3600 ] || wrong "diff of 60 equal samples allocated $n times"
fi

# different encoders
sed 's/"fingerprint":"[0-9a-f]*"/"fingerprint":"ffffffffffffffffffffffffffffffff"/' \
    p-01/manifest.json >p-01/m &&
    mv p-01/m p-01/manifest.json
expect 1 'different encoders (vae.fingerprint' vlat merge p-00 p-01 --out none
output_lacks '0 samples'
absent none

# gc changes no sample, keeps the user's own files, and removes the rest of a killed copy
cp -r a.lmdb a.lmdb.gc
mkdir a.lmdb/mine && echo 1 >a.lmdb/mine/clip.mp4 && echo 2 >a.lmdb/report.html &&
    echo 3 >a.lmdb.gc/notes
cp -r a.lmdb was.lmdb
find a.lmdb a.lmdb.gc -type f -exec md5sum {} + | sort >before
expect 0 '^0 B of .* would be freed: of 0 latents and 0 texts that no sample refers to' \
    vlat gc a.lmdb --dry_run
find a.lmdb a.lmdb.gc -type f -exec md5sum {} + | sort | diff before - || wrong 'gc --dry_run wrote'
expect 0 ' freed' vlat gc a.lmdb
same_root a.lmdb back.lmdb
cp -r a.lmdb once.lmdb
expect 0 '^0 B of .* freed' vlat gc a.lmdb
expect 0 ' freed' vlat gc was.lmdb
same_files a.lmdb once.lmdb
same_files a.lmdb was.lmdb
expect 0 'no damage' vlat verify a.lmdb
absent a.lmdb.gc
[ "$(cat a.lmdb/mine/clip.mp4 a.lmdb/report.html a.lmdb/notes)" = "$(printf '1\n2\n3')" ] ||
    wrong "gc removed the user's files"

# info --of lists the datasets of a checkpoint
mkdir checkpoint-7
trainer='{"step":7,"family":"builtin","training_type":"lora","data":['
printf "$trainer"'{"path":"back.lmdb","root":"%s","samples":60,"plan":"0123abcd"},
    {"path":"p-02","root":"0","samples":2},{"path":"gone","root":"0","samples":2}]}' \
    "$(root back.lmdb)" >checkpoint-7/trainer.json
expect 0 'back.lmdb: 60 samples.*, unchanged' vlat info --of checkpoint-7
expect 0 '^  plan  *0123abcd$' vlat info --of checkpoint-7
expect 0 'p-02: 2 samples.*, changed since' vlat info --of checkpoint-7
expect 0 'gone: 2 samples.*, not there now' vlat info --of checkpoint-7
expect 1 'checkpoint-N is meant' vlat info --of back.lmdb
expect 2 'leave back.lmdb out' vlat info back.lmdb --of checkpoint-7
echo "$trainer"'],"epochs":[{"epoch":0,"data":[{"shards":1,"samples":20}]},
    {"epoch":4,"data":[{"shards":3,"samples":60}]}]}' >checkpoint-7/trainer.json
expect 0 'from 4 on, 60 samples in 3 shards' vlat info --of checkpoint-7

# repair removes the samples of a shard that is cut short, and lists them by the plan
for i in $(seq 0 59); do printf '{"sample":%d,"variant":0,"status":"ok","path":"row %d"}\n' "$i" \
    "$i"; done >back.lmdb/plan.jsonl
expect 0 'latents from -' vlat verify back.lmdb
truncate -s 20000 a.lmdb/shard-00000.lmdb
cp back.lmdb/plan.jsonl a.lmdb/
check 'cut short' 1 vlat verify a.lmdb
good=$(sed -n 's/^\([0-9]*\) samples.*/\1/p' "$stdout")
expect 0 "$good samples saved, $((60 - good)) to be encoded again" vlat verify a.lmdb --repair
expect 0 'no damage' vlat verify a.lmdb
[ "$(wc -l <a.lmdb/repair.jsonl)" -eq $((60 - good)) ] || wrong 'repair.jsonl: a wrong length'
[ -d a.lmdb.damaged ] || wrong 'repair did not keep the damaged dataset'
[ "$(cat a.lmdb/mine/clip.mp4 a.lmdb/notes)" = "$(printf '1\n3')" ] ||
    wrong "repair removed the user's files"
expect 1 'only in the second' vlat diff a.lmdb back.lmdb

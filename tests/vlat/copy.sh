#!/bin/sh
# merge, split, select, diff and gc on the dataset that make_dataset made.
set -u
vlat="$VLT_BUILD/vlat"
data=$(mktemp -d /tmp/vlat-copy-XXXXXX)
trap 'rm -rf "$data"' EXIT
cp -r "$VLT_BUILD/tests/made.lmdb" "$data/a.lmdb"
cd "$data" || exit 1
bad=0

# expect STATUS PATTERN ARGUMENTS...: the exit status, and a pattern in stdout and stderr together
expect()
{
    want=$1 pattern=$2
    shift 2
    got=$("$vlat" "$@" 2>&1)
    status=$?
    if [ $status -ne "$want" ] || ! printf '%s\n' "$got" | grep -q -- "$pattern"; then
        printf 'vlat %s: status %d, expected %d and "%s" in\n%s\n' "$*" $status "$want" "$pattern" "$got"
        bad=1
    fi
}
root() { sed -n 's/.*"root": "\([0-9a-f]*\)".*/\1/p' "$1/manifest.json"; }
same_root() { [ -n "$(root "$1")" ] && [ "$(root "$1")" = "$(root "$2")" ] || { echo "$1 and $2: other roots"; bad=1; }; }

# split and put together again: the same samples, numbers and all
expect 2 'either --n N or --by' split a.lmdb --out p
expect 2 'has 60 samples' split a.lmdb --out p --n 61
expect 2 '--out says' split a.lmdb --n 3
expect 0 'p-02: 20 samples' split a.lmdb --n 3 --out p
expect 1 'p-00 is a finished dataset already' split a.lmdb --n 2 --out p
rm -r p-01                                   # as if it had been stopped: what is whole stays
at=$(stat -c %i p-02/manifest.json)
expect 0 'p-01: 20 samples' split a.lmdb --n 3 --out p
[ "$(stat -c %i p-02/manifest.json)" = "$at" ] || { echo 'split made a finished part again'; bad=1; }
expect 0 'no damage' verify p-01
expect 0 '60 samples' merge p-00 p-01 p-02 --out back.lmdb --shard_size 1MiB
same_root a.lmdb back.lmdb
expect 0 '60 the same, 0 changed' diff a.lmdb back.lmdb
expect 0 'b-1x8x4: 20 samples' split a.lmdb --by bucket --out b
expect 0 'samples *40' info b-3x4x6
expect 2 'takes DATASET' merge a.lmdb --out one

# a folder that holds something else than an unfinished copy is nobody's --out
mkdir mine fresh && echo 1 >mine/notes.txt && cp p-00/state.lmdb fresh
expect 1 'mine is there and holds "notes.txt"' merge p-00 p-01 --out mine
expect 1 'holds "notes.txt"' select a.lmdb 'sample >= 40' --out mine
mkdir s-01 && echo 1 >s-01/notes.txt
expect 1 's-01 is there' split a.lmdb --n 2 --out s
[ ! -e s-00 ] || { echo 'a refused split wrote something'; bad=1; }
sed 's/"complete": true/"complete": false/' p-01/manifest.json >fresh/manifest.json && echo 1 >fresh/plan.jsonl
expect 1 'holds "plan.jsonl"' select a.lmdb 'sample >= 40' --out fresh
expect 1 'Not a directory' select a.lmdb 'sample >= 40' --out mine/notes.txt
[ "$(ls mine)" = notes.txt ] || { echo 'a refused verb wrote something'; bad=1; }
rm -r fresh && mkdir fresh
expect 0 '20 samples' select a.lmdb 'sample >= 40' --out fresh

# what occurs twice is kept once; new numbers follow the old ones
expect 0 '60 samples were there twice' merge a.lmdb back.lmdb --out twice.lmdb
same_root a.lmdb twice.lmdb
expect 0 '^000000000059/000' list twice.lmdb
expect 0 '40 samples' merge p-02 p-00 --out turned.lmdb
expect 0 '^000000000039/000' list turned.lmdb
expect 0 'prompts *1' info turned.lmdb
expect 0 'no damage' verify turned.lmdb

# select keeps numbers
expect 2 'no name "size"' select a.lmdb 'size > 3' --out none
expect 1 'no sample fits' select a.lmdb 'sample > 100' --out none
[ ! -e none ] || { echo 'select wrote something'; bad=1; }
expect 0 '20 samples' select a.lmdb 'sample >= 40' --out last.lmdb
expect 0 '^000000000040/000' list last.lmdb
expect 0 'no damage' verify last.lmdb
expect 1 '20 the same, 0 changed, 40 only in the first, 0 only' diff a.lmdb last.lmdb
expect 1 '^+ 000000000000/000' diff last.lmdb a.lmdb

# unlike encoders
sed 's/"fingerprint":"[0-9a-f]*"/"fingerprint":"ffffffffffffffffffffffffffffffff"/' p-01/manifest.json >p-01/m &&
    mv p-01/m p-01/manifest.json
expect 1 'unlike encoders (vae.fingerprint' merge p-00 p-01 --out none
[ ! -e none ] || { echo 'merge wrote something'; bad=1; }

# gc changes no sample and takes no file that is not the dataset's; a copy that a killed one left is forgotten
cp -r a.lmdb a.lmdb.gc
mkdir a.lmdb/mine && echo 1 >a.lmdb/mine/clip.mp4 && echo 2 >a.lmdb/report.html && echo 3 >a.lmdb.gc/notes
expect 0 'given back' gc a.lmdb
same_root a.lmdb back.lmdb
expect 0 'no damage' verify a.lmdb
[ ! -e a.lmdb.gc ] || { echo 'gc left its copy'; bad=1; }
[ "$(cat a.lmdb/mine/clip.mp4 a.lmdb/report.html a.lmdb/notes)" = "$(printf '1\n2\n3')" ] ||
    { echo 'gc took files that were not its own'; bad=1; }

# a checkpoint's data
mkdir checkpoint-7
printf '{"step":7,"family":"builtin","training_type":"lora","data":[{"path":"back.lmdb","root":"%s","samples":60,"plan":"0123abcd"},{"path":"p-02","root":"0","samples":2},{"path":"gone","root":"0","samples":2}]}' \
    "$(root back.lmdb)" >checkpoint-7/trainer.json
expect 0 'back.lmdb: 60 samples.*, unchanged' info --of checkpoint-7
expect 0 '^  plan  *0123abcd$' info --of checkpoint-7
expect 0 'p-02: 2 samples.*, changed since' info --of checkpoint-7
expect 0 'gone: 2 samples.*, not there now' info --of checkpoint-7
expect 1 'checkpoint-N is meant' info --of back.lmdb
expect 2 'leave back.lmdb out' info back.lmdb --of checkpoint-7
printf '{"step":7,"family":"builtin","training_type":"lora","data":[],"epochs":[{"epoch":0,"data":[{"shards":1,"samples":20}]},{"epoch":4,"data":[{"shards":3,"samples":60}]}]}' \
    >checkpoint-7/trainer.json
expect 0 'from 4 on, 60 samples in 3 shards' info --of checkpoint-7

# repair: a flipped bit costs one sample, a shard that is cut short its samples; the plan says which
for i in $(seq 0 59); do printf '{"sample":%d,"variant":0,"status":"ok","path":"row %d"}\n' "$i" "$i"; done >back.lmdb/plan.jsonl
expect 0 'latents from -' verify back.lmdb
truncate -s 20000 a.lmdb/shard-00000.lmdb
cp back.lmdb/plan.jsonl a.lmdb/
had=$("$vlat" verify a.lmdb | sed -n 's/^\([0-9]*\) samples.*/\1/p')
expect 0 "$had samples saved, $((60 - had)) to be encoded again" verify a.lmdb --repair
expect 0 'no damage' verify a.lmdb
[ "$(wc -l <a.lmdb/repair.jsonl)" -eq $((60 - had)) ] || { echo 'repair.jsonl: other length'; bad=1; }
[ -d a.lmdb.damaged ] || { echo 'repair kept nothing'; bad=1; }
[ "$(cat a.lmdb/mine/clip.mp4 a.lmdb/notes)" = "$(printf '1\n3')" ] || { echo 'repair took files that were not its own'; bad=1; }
expect 1 'only in the second' diff a.lmdb back.lmdb
exit $bad

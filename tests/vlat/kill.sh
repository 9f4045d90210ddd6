#!/usr/bin/env bash
# Verbs that write are killed at random moments and run again, or write to a full disk: their inputs
# stay unchanged, no incomplete dataset is marked complete, and the next run gives the undisturbed
# result.
. "$(dirname "$0")/../lib/exchange.sh"
kills=${VLT_KILLS:-8}
RANDOM=1

# judge CONDITION TEXT: reports TEXT unless the condition, a command, succeeds.
judge() { eval "$1" || wrong "$name: $2"; }

on_a_full_disk() { (ulimit -f 1; exec vlat "$@"); }
full='[Tt]oo large\|[Ff]ull\|[Nn]o space'

# data_or_none OUT UNDISTURBED: dataset OUT is unfinished or absent, or has the root of the other.
data_or_none() { ! whole "$1" || [ "$(root "$1")" = "$(root "$2")" ]; }
# folder_or_none OUT UNDISTURBED: folder OUT is absent, or equals the other but for dataset.toml,
# which names its own folder.
folder_or_none() { [ ! -e "$1" ] || diff -r -x dataset.toml "$1" "$2" >/dev/null; }

done_already() { if [ "$1" = data ]; then whole "$2"; else [ -e "$2" ]; fi; }

# kill_now PID: kills the process, if it still runs, and waits for its end.
kill_now() { kill -9 "$1" 2>/dev/null || true; wait "$1" 2>/dev/null || true; }

# disturb NAME KIND OUT UNDISTURBED ARGUMENTS...: disturbs vlat ARGUMENTS, which makes OUT, a
# dataset (KIND data) or a folder (KIND folder); the undisturbed result is made in UNDISTURBED.
disturb()
{
    local kind=$2 out=$3 undisturbed=$4 begin took pid i
    name=$1
    shift 4
    begin=$(date +%s%N)
    vlat "${@//$out/$undisturbed}" >/dev/null 2>&1 || { wrong "$name: failed undisturbed"; return; }
    took=$((($(date +%s%N) - begin) / 1000))
    for ((i = 0; i < kills; i++)); do
        (exec vlat "$@") >/dev/null 2>&1 &
        pid=$!
        sleep "0.$(printf '%06d' $((RANDOM * 31 % (took + 1) % 1000000)))"
        kill_now $pid
        judge "${kind}_or_none '$out' '$undisturbed'" "an incomplete output is marked complete"
        ((i % 2)) || continue                # two kills, then a run to the end
        done_already "$kind" "$out" || check "$name: run again" 0 vlat "$@"
        judge "[ -e '$out' ] && ${kind}_or_none '$out' '$undisturbed'" "the result differs"
        rm -rf "$out"
    done
    # On a full disk the error names the cause, no output is complete, and the next run succeeds.
    rm -rf "$out"
    check "$name: a full disk" 1 on_a_full_disk "$@"
    output_has "$full"
    judge "[ ! -e '$out' ] || ! whole '$out'" "a complete dataset on a full disk"
    judge "[ ! -e '$out.part' ] && [ ! -e '$out.part.lock' ]" "a full disk: $out.part was left"
    expect 0 '' vlat "$@"
    judge "[ -e '$out' ] && ${kind}_or_none '$out' '$undisturbed'" \
        "the result differs after a full disk"
    judge "[ \"\$(root made.lmdb)\" = '$source' ] && whole made.lmdb" "the source was changed"
}

source=$(root made.lmdb)
need whole made.lmdb
cp -r made.lmdb other.lmdb
disturb merge data m.lmdb M.lmdb merge made.lmdb other.lmdb --out m.lmdb
disturb select data s.lmdb S.lmdb select made.lmdb 'sample >= 20' --out s.lmdb
for f in safetensors webdataset; do
    disturb "export $f" folder $f.e $f.E export made.lmdb --to $f --out $f.e
    disturb "import $f" data $f.i $f.I import $f.E --from $f --out $f.i
done
make w.lmdb wan2.1 mode f32 bf16
for f in musubi diffsynth; do
    disturb "export $f" folder $f.e $f.E export w.lmdb --to $f --out $f.e
    disturb "import $f" data $f.i $f.I import $f.E --from $f --out $f.i
done
[ ! -x "$VLT_BUILD/tests/dpipe_cache" ] ||
    disturb 'export diffusion-pipe' folder dp.e dp.E export w.lmdb --to diffusion-pipe --out dp.e

# gc replaces the dataset's folder: the samples are complete at every moment
cp -r made.lmdb g.lmdb
for ((i = 0; i < 2 * kills; i++)); do
    (exec vlat gc g.lmdb) >/dev/null 2>&1 &
    sleep "0.0$((RANDOM % 10))$((RANDOM % 10))"
    kill_now $!
    whole g.lmdb && [ "$(root g.lmdb)" = "$source" ] || wrong 'gc: the dataset changed'
done
check 'gc: a full disk' 1 on_a_full_disk gc g.lmdb
whole g.lmdb && [ "$(root g.lmdb)" = "$source" ] || wrong 'gc: a full disk changed the dataset'
expect 0 ' freed' vlat gc g.lmdb
whole g.lmdb && [ ! -e g.lmdb.gc ] || wrong 'gc: g.lmdb.gc was left'

# repair replaces a damaged dataset by its undamaged samples and keeps the user's own files; the
# next repair finishes one that was stopped at any moment
cp -r made.lmdb broken.lmdb
echo mine >broken.lmdb/notes
truncate -s 20000 "$(ls -d broken.lmdb/shard-*.lmdb | head -1)"
cp -r broken.lmdb R.lmdb
check repair 0 vlat verify R.lmdb --repair
for ((i = 0; i < kills; i++)); do
    rm -rf r.lmdb r.lmdb.*
    cp -r broken.lmdb r.lmdb
    (exec vlat verify r.lmdb --repair) >/dev/null 2>&1 &
    sleep "0.0$((RANDOM % 6))$((RANDOM % 10))"
    kill_now $!
    expect 0 '' vlat verify r.lmdb --repair
    whole r.lmdb && same_root r.lmdb R.lmdb
    [ "$(cat r.lmdb/notes)" = mine ] || wrong "repair: the user's file was removed"
    [ ! -e r.lmdb.repair ] && [ -e r.lmdb.damaged ] || wrong 'repair: r.lmdb.repair was left'
done
# a repair that was stopped right after it exchanged the folders
rm -rf r.lmdb r.lmdb.*
cp -r R.lmdb r.lmdb
rm r.lmdb/notes
echo >r.lmdb/repair.pending
cp -r broken.lmdb r.lmdb.repair
expect 0 'stopped near its end' vlat verify r.lmdb --repair
[ "$(cat r.lmdb/notes)" = mine ] && [ ! -e r.lmdb.repair ] || wrong 'repair: not finished'

# split finishes each part on its own
vlat split made.lmdb --n 3 --out P >/dev/null
for ((i = 0; i < kills; i++)); do
    (exec vlat split made.lmdb --n 3 --out p) >/dev/null 2>&1 &
    sleep "0.0$((RANDOM % 10))$((RANDOM % 10))"
    kill_now $!
    for k in 00 01 02; do
        data_or_none p-$k P-$k || wrong "split: an incomplete p-$k is marked complete"
    done
    ((i % 3 == 2)) && rm -rf p-0?
done
# the next run continues after the last kill
expect 0 'p-02: 20 samples' vlat split made.lmdb --n 3 --out p
for k in 00 01 02; do
    whole p-$k && data_or_none p-$k P-$k || wrong "split: run again: p-$k differs"
done

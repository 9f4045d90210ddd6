#!/bin/sh
# The verbs of vlat on the dataset that make_dataset made: what they print, and the exit status.
set -u
vlat="$VLT_BUILD/vlat"
data=$(mktemp -d /tmp/vlat-run-XXXXXX)
trap 'rm -rf "$data"' EXIT
cp -r "$VLT_BUILD/tests/made.lmdb" "$data/a.lmdb"
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

expect 0 'vlat VERB' --help
expect 0 'LMDB' --version
expect 0 'usage: vlat list' list --help
expect 2 'info, list, show' nosuch "$data/a.lmdb"
expect 2 'a verb is needed'
expect 2 'takes DATASET, not 0' info
expect 2 'not 1 word' show "$data/a.lmdb"
expect 2 '--jsonl' list --jsonl "$data/a.lmdb"
expect 1 'no latent dataset' info "$data/none"
expect 0 'samples *60' info "$data/a.lmdb/"
expect 0 '^000000000059/000  video' list "$data/a.lmdb"
expect 0 '^{"sample":59,' list --json "$data/a.lmdb"
expect 0 'mean f16 \[4,3,4,6\]' show "$data/a.lmdb" 1
expect 0 'thumbnail' show "$data/a.lmdb" 1/0
expect 0 'not drawn' show "$data/a.lmdb" 1 --thumbnail sixel       # four bytes that are no JPEG
expect 2 'auto, none' show "$data/a.lmdb" 1 --thumbnail ascii
expect 1 'no sample 60' show "$data/a.lmdb" 60
expect 2 'NUMBER/VARIANT' show "$data/a.lmdb" first
expect 0 'prompt_embeds' show "$data/a.lmdb" 99aa06d3014798d86001c324468d497f
expect 1 'no latent or text' show "$data/a.lmdb" 00000000000000000000000000000000
expect 0 'no damage' verify "$data/a.lmdb"
expect 0 'report.html' report "$data/a.lmdb"
grep -q 'caption 3' "$data/a.lmdb/report.html" || { echo 'report: no captions'; bad=1; }
expect 0 'other.html' report "$data/a.lmdb" --out "$data/other.html" --limit 5

lines=$("$vlat" list "$data/a.lmdb" | wc -l)
[ "$lines" -eq 60 ] || { echo "list: $lines lines"; bad=1; }

printf 'x' | dd of="$data/a.lmdb/shard-00000.lmdb" bs=1 seek=9000 conv=notrunc 2>/dev/null
expect 1 'checksum differs' verify "$data/a.lmdb"
truncate -s 20000 "$data/a.lmdb/shard-00000.lmdb"
expect 1 'cut short' info "$data/a.lmdb"
expect 1 'shard-00000.lmdb' verify "$data/a.lmdb"
exit $bad

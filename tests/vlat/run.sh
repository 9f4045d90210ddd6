#!/usr/bin/env bash
# The output and the exit status of vlat's verbs on the dataset of make_dataset.
. "$(dirname "$0")/../lib/check.sh"
cp -r "$VLT_BUILD/tests/made.lmdb" a.lmdb


expect 0 'vlat VERB' vlat --help
expect 0 'LMDB' vlat --version
expect 0 'usage: vlat list' vlat list --help
expect 2 'info, list, show' vlat nosuch a.lmdb
expect 2 'a verb is needed' vlat
expect 2 'takes DATASET, not 0' vlat info
expect 2 'not 1 word' vlat show a.lmdb
expect 2 '--jsonl' vlat list --jsonl a.lmdb
expect 1 'no latent dataset (no manifest.json)$' vlat info none
mkdir planned && : >planned/plan.jsonl
expect 1 'planned: no latent dataset .*only the plan of `vprep --dry_run`' vlat info planned
expect 0 'samples *60' vlat info a.lmdb/
expect 0 '"family":"builtin"' vlat info a.lmdb --json
[ "$(wc -l <"$stdout")" -eq 1 ] || wrong 'info --json: not one line'
stdout_has '"complete":true,.*"totals":{"samples":60,"clips":40,"stills":20,"rows":60'
stdout_has '"bytes":[0-9]*,"shards":4,"latents":60,"texts":9}}$'
stdout_has '"buckets":\[{"key":"'
expect 0 '^000000000059/000  video' vlat list a.lmdb
expect 0 '^{"sample":59,' vlat list --json a.lmdb
expect 0 'mean f16 \[4,3,4,6\]' vlat show a.lmdb 1
expect 0 'thumbnail of 4 bytes, no JPEG' vlat show a.lmdb 1/0
expect 1 'no sample 60' vlat show a.lmdb 60
expect 2 'NUMBER/VARIANT' vlat show a.lmdb first
expect 0 'prompt_embeds' vlat show a.lmdb 99aa06d3014798d86001c324468d497f
expect 1 'no latent or text' vlat show a.lmdb 00000000000000000000000000000000
expect 0 'no damage' vlat verify a.lmdb
expect 0 'report.html' vlat report a.lmdb
grep -q 'caption 3' a.lmdb/report.html || wrong 'report: no captions'
expect 0 'other.html' vlat report a.lmdb --out other.html --limit 5

lines=$(vlat list a.lmdb | wc -l)
[ "$lines" -eq 60 ] || wrong "list: $lines lines"
path=$(vlat list --json --limit 1 a.lmdb | sed 's/.*"path":"\([^"]*\)".*/\1/')
expect 0 "  $path  " vlat list a.lmdb --limit 1
[ "$(wc -l <"$stdout")" -eq 1 ] || wrong 'list --limit 1: not one line'
expect 0 '^000000000007/000' vlat list a.lmdb --where 'sample >= 7' --limit 3
[ "$(wc -l <"$stdout")" -eq 3 ] || wrong 'list --where --limit 3: not three lines'
expect 0 '^{"sample":59,' vlat list a.lmdb --json --where 'caption ~ "caption" and sample = 59'
[ "$(wc -l <"$stdout")" -eq 1 ] || wrong 'list --where: not one line'
expect 0 '' vlat list a.lmdb --where 'sample > 1000'
[ ! -s "$stdout" ] || wrong 'list --where: a sample that does not fit'
expect 2 'no name "hight"' vlat list a.lmdb --where 'hight > 3'

poke a.lmdb/shard-00000.lmdb 9000 'x'
expect 1 'checksum differs' vlat verify a.lmdb
truncate -s 20000 a.lmdb/shard-00000.lmdb
expect 1 'cut short' vlat info a.lmdb
expect 1 'shard-00000.lmdb' vlat verify a.lmdb

#!/usr/bin/env bash
# libvlat exports the functions of vlat.h and nothing else, shared and static, and loads no library
# that a reader does not need. examples/read.c prints a dataset with both.
. "$(dirname "$0")/../lib/check.sh"
built=$VLT_BUILD/formats/libvlat
set=$VLT_BUILD/tests/made.lmdb

grep -o '\bvlat_[a-z0-9_]*(' "$VLT_SOURCE/formats/libvlat/vlat.h" | tr -d '(' | sort -u >declared
[ "$(wc -l <declared)" -gt 15 ] || wrong "vlat.h declares only $(wc -l <declared) functions"
nm -D --defined-only "$built/libvlat.so" | awk '$2 == "T" { print $3 }' >exported
grep -v '@@VLAT_0$' exported && wrong "a symbol has no version"
sed 's/@@VLAT_0$//' exported | sort | cmp -s - declared ||
    wrong "libvlat.so exports: $(tr '\n' ' ' <exported)"
nm -g --defined-only "$built/libvlat.a" | awk 'NF == 3 { print $3 }' | sort >symbols
cmp -s symbols declared || wrong "libvlat.a defines: $(head -c 2000 symbols | tr '\n' ' ')"
check needed 0 readelf -d "$built/libvlat.so"
stdout_has "NEEDED.*libcjson"
stdout_lacks 'liblmdb\|libgomp\|libdnnl\|libmpi\|libav\|libyaml\|libstdc'

[ "$(wc -l <"$VLT_SOURCE/examples/read.c")" -le 50 ] || wrong "examples/read.c is too long"
for read in example_read example_read_static; do
    check "$read" 0 "$read" "$set"
    stdout_has '^42/0  '
    stdout_has ' mean \[4,'
    stdout_has ' prompt_embeds \[5,8\]'
    [ "$(grep -c '^[0-9]*/0  ' "$stdout")" -eq "$(count "$set")" ] || wrong "other samples"
    expect 1 'usage: read DATASET' "$read"
    expect 1 'none: no latent dataset' "$read" none
done
fresh "$set" damaged.lmdb
hurt_value damaged.lmdb
expect 1 'shard-00000.lmdb: latent [0-9a-f]*: .*--repair' example_read damaged.lmdb

#!/usr/bin/env bash
# The table of docs/export.md names the families of each format as `vlat export` does where it
# refuses a dataset of another family.
. "$(dirname "$0")/../lib/check.sh"
cp -r "$VLT_BUILD/tests/made.lmdb" a.lmdb
page=$lib/../../docs/export.md

# families FORMAT: those of its row's second column, sorted, one a line.
families() {
    awk -F '|' -v f="\`$1\`" 'index($2, f) { print $3; exit }' "$page" |
        { grep -oE '`[^`]+`' || true; } | tr -d '`' | sort
}
n=0
while read -r format; do
    n=$((n + 1))
    check "--to $format" 1 vlat export a.lmdb --to "$format" --out other
    sed -n "s/.*--to $format exports //p" "$log" | tr -d ' ' | tr , '\n' | sort >refused
    [ -s refused ] || wrong "--to $format: no families in the refusal"
    families "$format" | diff - refused >differ || wrong "$page: $format: $(cat differ)"
done < <({ vlat export a.lmdb --to nothing --out other 2>&1 || true; } |
         sed -n 's/.*there are //p' | tr -d ' ' | tr , '\n' | grep -vxE 'safetensors|webdataset')
[ $n -ge 8 ] || wrong "only $n formats were compared"

#!/usr/bin/env bash
# One command serves vprep and vtrain: each knows the other's flags, and says "used by" of no flag that is not there.
. "$(dirname "$0")/../lib/check.sh"
cd "${VLT_SOURCE:?}"
# flags PROGRAM: all names in its part of docs/flags.md, which is made from --help
flags() {
    sed -n "/^## $1\$/,/^## /p" docs/flags.md | grep -E '^ +(also )?--' | grep -oE -- '--(\[no_\])?[a-z0-9_.]+' |
        sed 's/^--\(\[no_\]\)\?//' | sort -u
}
# table NAME: the names in a table of common/cli/foreign.c
table() { sed -n "/^const vc_foreign $1\[\]/,/^};/p" common/cli/foreign.c | grep -o '"[^"]*"' | tr -d '"' | tr ' ' '\n' | sort -u; }
for pair in "vprep vtrain" "vtrain vprep"; do
    read -r one other <<<"$pair"
    missing=$(comm -23 <(flags "$one") <(sort -u <(flags "$other") <(table "vc_${one}_flags")))
    gone=$(comm -23 <(table "vc_${one}_flags") <(flags "$one"))
    [ -z "$missing" ] || wrong "$other does not know of $one's" $missing
    [ -z "$gone" ] || wrong "$other says that $one uses" $gone
done

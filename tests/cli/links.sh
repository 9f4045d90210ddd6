#!/usr/bin/env bash
# Every link of the pages leads to a file of this repository and to a heading in it; addresses on
# the web are not opened. Files of this repository that pages name exist. In README.md every mention
# of a page is a link, but for the tour of the source.
. "$(dirname "$0")/../lib/check.sh"
cd "$(cd "$lib/../.." && pwd)" || exit 1

# anchors PAGE: the anchors that its headings have, as GitHub makes them.
anchors() {
    awk '/^```/ { code = !code } !code && /^#+ / { sub(/^#+ /, ""); print tolower($0) }' "$1" |
        sed -E 's/\[([^]]*)\]\([^)]*\)/\1/g; s/[^a-z0-9 _-]//g; s/ /-/g'
}
# links PAGE: the targets of its links, outside of code.
links() {
    awk '/^ *```/ { code = !code; next } !code' "$1" | sed -E 's/`[^`]*`//g' |
        { grep -oE '\]\([^) ]+\)' || true; } | sed -E 's/^\]\(//; s/\)$//'
}
folders='common|formats|precompute|train|buckets|tests|scripts|configs|examples|cmake|packaging'
n=0
for page in README.md CONTRIBUTING.md docs/*.md; do
    while read -r target; do
        n=$((n + 1))
        case $target in http*) continue ;; esac
        file=${target%%#*} anchor=""
        [[ $target != *#* ]] || anchor=${target#*#}
        path=$page
        [ -z "$file" ] || path=$(dirname "$page")/$file
        if [ ! -e "$path" ]; then
            wrong "$page: $target: no such file"
        elif [ -n "$anchor" ] && ! anchors "$path" | grep -qxF -- "$anchor"; then
            wrong "$page: $target: no such heading"
        fi
    done < <(links "$page")
    while read -r mention; do
        [ -e "$mention" ] || wrong "$page: $mention: no such page"
    done < <({ grep -oE '\bdocs/[A-Za-z0-9_-]+\.md' "$page" || true; } | sort -u)
    [ "$page" != docs/others.md ] || continue      # it names files of other programs
    while read -r file; do
        [ -e "$file" ] || wrong "$page: $file: no such file"
    done < <({ grep -oE "\`($folders)/[A-Za-z0-9_./-]*\`" "$page" || true; } | tr -d '`' |
             sed '/NAME/d' | sort -u)
done
[ $n -ge 20 ] || wrong "only $n links were found"
plain=$(sed '/^## Source tour/,/^## Build/d' README.md | grep -oE '`docs/[a-z-]+\.md`' || true)
[ -z "$plain" ] || wrong "README.md names pages without a link:" $plain
[ "$(wc -l <README.md)" -le 160 ] || wrong "README.md is longer than a few screens"

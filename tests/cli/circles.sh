#!/usr/bin/env bash
# Reads the calls between the sources out of the objects (nm). The sources of a folder do not call
# each other in a circle, nor do folders, and no folder has more than 25 sources. A circle that is
# not cut yet has a row with a reason below; a source that is in a row, but in no circle any more,
# fails the test too. Sources that are not built, as those of CUDA, are not read.
set -euo pipefail
root=${VLT_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${VLT_BUILD:-$1}
most=25

# The circles that are not cut yet: a reason that ends in a colon, and in lines below it, which
# begin with a blank, the sources or folders that may call each other. There is none.
known=''

cd "$build"
find common buckets formats precompute train -path '*/CMakeFiles/*' -name '*.o' -print0 | sort -z |
xargs -0 nm -A -P -g |
awk -v root="$root/" -v known="$known" -v most="$most" '
# FOLDER/CMakeFiles/LIBRARY.dir/x.c.o is the object of FOLDER/x.c, or "" if that is gone: the object
# is left of an earlier build.
function source_of(object,    s, line) {
    s = object
    sub(/CMakeFiles\/[^\/]*\//, "", s); sub(/\.o:$/, "", s)
    if ((getline line < (root s)) < 0) return ""
    close(root s)
    return s
}
function folder_of(s) { sub(/\/[^\/]*$/, "", s); return s }
function add(a, b, why) {
    if (a == b || ((a, b) in arrow)) return
    arrow[a, b] = why; out[a] = out[a] " " b
    if (!(a in node)) node[a] = 1
    if (!(b in node)) node[b] = 1
}
# Tarjan: the strongly connected nodes from v on.
function visit(v,    n, w, i, list) {
    low[v] = at[v] = ++clock; stack[++top] = v; on[v] = 1
    n = split(out[v], list, " ")
    for (i = 1; i <= n; i++) {
        w = list[i]
        if (!(w in at)) { visit(w); if (low[w] < low[v]) low[v] = low[w] }
        else if (on[w] && at[w] < low[v]) low[v] = at[w]
    }
    if (low[v] != at[v]) return
    n = 0
    do { w = stack[top--]; on[w] = 0; list[++n] = w } while (w != v)
    if (n > 1) circle(list, n)
}
function circle(list, n,    i, j, t, text) {
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && list[j] < list[j - 1]; j--) {
            t = list[j]; list[j] = list[j - 1]; list[j - 1] = t
        }
    for (t in row) {
        for (i = 1; i <= n && index(row[t], " " list[i] " "); i++) ;
        if (i <= n) continue
        for (i = 1; i <= n; i++) circled[t, list[i]] = 1
        return
    }
    for (i = 1; i <= n; i++) text = text " " list[i]
    print "a circle of calls:" text; bad = 1
    for (i = 1; i <= n; i++)
        for (j = 1; j <= n; j++)
            if ((list[i], list[j]) in arrow)
                print "    " list[i] " calls " list[j] " (" arrow[list[i], list[j]] ")"
}
BEGIN {
    n = split(known, line, "\n")
    for (i = 1; i <= n; i++)
        if (line[i] ~ /^[^ ].*:/) title = line[i]
        else row[title] = row[title] line[i] " "
    delete row[""]
}
{
    if (!($1 in source)) source[$1] = source_of($1)
    if (source[$1] == "") next
    $1 = source[$1]
    if (!($1 in seen)) {
        seen[$1] = 1; n_sources++
        sources[folder_of($1)]++; folders[folder_of($1) "/"] = 1
    }
    if ($3 == "U") { uses[++n_uses] = $1 " " $2 }
    else if (!($2 in home)) home[$2] = $1
}
END {
    if (n_sources < 100) { print "only " n_sources + 0 " objects were read"; bad = 1 }
    for (f in sources)
        if (sources[f] > most) { print f " has " sources[f] " sources, above " most; bad = 1 }
    for (i = 1; i <= n_uses; i++) {
        split(uses[i], w, " ")
        if (!(w[2] in home)) continue
        if (folder_of(w[1]) == folder_of(home[w[2]])) add(w[1], home[w[2]], w[2])
        else add(folder_of(w[1]) "/", folder_of(home[w[2]]) "/", w[2] " by " w[1])
    }
    for (v in node) if (!(v in at)) visit(v)
    for (t in row) {
        n = split(row[t], w, " ")
        for (i = 1; i <= n; i++)
            if ((w[i] in seen || w[i] in folders) && !((t, w[i]) in circled)) {
                print w[i] " is in no circle any more: remove it below \"" t "\""; bad = 1
            }
    }
    exit bad
}'

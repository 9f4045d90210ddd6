#!/usr/bin/env bash
# vprep --edits: samples that a reader of the page excluded, and captions that it changed.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"

small_set "$dir/media" 7                     # 6 clips, 1 still; 7 captions
at=(--meta "$dir/media/metadata.json" "${sampling[@]}")
need vprep "${at[@]}" --out a
id_of() { vlat list a --json | sed -n "$(($1 + 1))s/.*\"id\":\"\([0-9a-f]*\)\".*/\1/p"; }
[ "$(count a)" -eq 7 ] || wrong "$(count a) samples"

# of two lines for one id the last counts, and a line of another list's sample is named
cat >edits.jsonl <<END
{"id":"$(id_of 1)","path":"x","exclude":true}
{"id":"$(id_of 2)","exclude":true}
{"id":"$(id_of 2)","captions":["a \"new\" caption"]}

{"id":"00000000000000ff","exclude":true}
END
check fresh 0 vprep "${at[@]}" --out b --edits edits.jsonl
stderr_has '^vprep: --edits: 1 rows excluded, 1 with other captions$'
stderr_has '--edits edits.jsonl: 1 lines are for no row'
[ "$(count b)" -eq 6 ] || wrong "$(count b) samples"
vlat list b --json >list
holds list '"text":"a \\"new\\" caption"'
lacks list "$(id_of 1)"
whole b || wrong "b is not whole"

# with the dataset there, only the new text is encoded, and the excluded sample goes
check again 0 vprep "${at[@]}" --out a --edits edits.jsonl
stdout_has '^reuse 6, encode 0, drop 1$'
stdout_has '^texts: reuse 6, encode 1$'
[ "$(count a)" -eq 6 ] || wrong "$(count a) samples"
whole a || wrong "a is not whole"
check "without it" 0 vprep "${at[@]}" --out a
[ "$(count a)" -eq 7 ] || wrong "$(count a) samples"

# lists that are none
bad() { printf '%s\n' "$1" >bad.jsonl; expect 1 "$2" vprep "${at[@]}" --out c --edits bad.jsonl; }
bad '[]' 'bad.jsonl: line 1: '
bad '{"id":"1"}' 'line 1: id: 16 hex digits expected'
bad '{"id":"00000000000000ff"}' 'line 1: exclude or captions expected'
bad '{"id":"00000000000000ff","exclude":1}' 'exclude: true or false expected'
bad '{"id":"00000000000000ff","captions":[]}' 'a list of 1 to'
bad '{"id":"00000000000000ff","captions":[1]}' 'a list of strings expected'
bad $'{"id":"00000000000000ff","exclude":true}\n{' 'bad.jsonl: line 2: '
bad '' 'bad.jsonl: no edit: is it cut short, or another file?'
expect 1 'none.jsonl' vprep "${at[@]}" --out c --edits none.jsonl
absent c/manifest.json
for i in 0 1 2 3 4 5 6; do echo "{\"id\":\"$(id_of $i)\",\"exclude\":true}"; done >all.jsonl
expect 1 'no row' vprep "${at[@]}" --out c --edits all.jsonl

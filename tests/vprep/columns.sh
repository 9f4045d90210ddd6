#!/usr/bin/env bash
# Further columns of the list (several captions, tags, weights, the user's own columns) are in the
# records, and vlat select reads them in conditions.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"

small_set "$dir/media" 4
cat >"$dir/media/list.csv" <<'CSV'
file_path,type,text,text_2,tags,weight,score
clip-0.mp4,video,one,uno,"draft, night",0.1,0.93
clip-1.mp4,video,two,,day,2.5,0.5
clip-2.mp4,video,three,,,,
still-3.png,image,four,quattro,day,0,high
CSV
make() { vprep --meta "$dir/media/list.csv" "${sampling[@]}" --out "$dir/$1" "${@:2}" >"$log" \
    2>&1 || wrong "$1"; }
make set --extra_inputs score
vlat list "$dir/set" --json >"$log"
has() { sed -n "$1p" "$log" | grep -qF -- "$2" || wrong "record $1: no $2"; }
has 1 '"captions":[{"text":"one",'
has 1 '{"text":"uno",'
has 1 '"tags":["draft","night"],"weight":0.1,"extra":{"score":"0.93"}}'
has 2 '"tags":["day"],"weight":2.5,"extra":{"score":"0.5"}}'
has 3 '"tags":[],"weight":1}'
has 4 '"weight":0,"extra":{"score":"high"}}'

# select_is NUMBERS CONDITION: the condition selects the samples with these numbers
select_is() {
    rm -rf "$dir/part"
    check "$2" 0 vlat select "$dir/set" "$2" -o "$dir/part"
    local got
    got=$(vlat list "$dir/part" | sed 's,^0*\([0-9]\).*,\1,' | tr '\n' ' ')
    [ "$got" = "$1 " ] || wrong "$2: samples $got, not $1"
}
select_is 0 'weight = 0.1'
select_is '1 2' 'weight >= 1'
select_is '0 3' 'caption ~ "uno|quat"'
select_is '1 3' 'tag = day'
select_is 0 'extra.score > 0.5'
select_is '0 1' 'extra.score <= 0.93'
select_is 3 'extra.score = high'
select_is '2 3' 'not extra.score < 1'

# A changed column is written, and no picture is encoded again.
make set
output_has ' 0 encoded'
vlat list "$dir/set" --json >"$log"
output_lacks '"extra"'
check "damage" 0 vlat verify "$dir/set"

#!/usr/bin/env bash
# The first page of --help and the page of each topic fit a screen; every flag is in a topic.
. "$(dirname "$0")/../lib/check.sh"
most=60                         # lines

# names: the flags on stdin, without other names of theirs.
names() { grep -oE -- '^  --(\[no_\])?[a-z0-9_]+' | sed 's/^  --//; s/\[no_\]//' |
    LC_ALL=C sort -u; }
for program in vprep vtrain; do
    expect 0 '^Flags of most runs$' $program --help
    lines=$(wc -l <"$stdout")
    [ "$lines" -le $most ] || wrong "$program --help has $lines lines"
    sed -n '/^  --help TOPIC/,/^  --help WORD/p' "$stdout" | grep -v WORD |
        grep -oE '[a-z0-9]+(, *$|, |$)' |
        tr -d ', ' >topics
    [ "$(wc -l <topics)" -ge 8 ] || wrong "$program --help: few topics"
    : >found
    while read -r topic; do
        check "$program --help $topic" 0 $program --help "$topic"
        lines=$(wc -l <"$stdout")
        [ "$lines" -le $most ] || wrong "$program --help $topic has $lines lines"
        # pages without flags
        names <"$stdout" >>found || [[ $topic =~ ^(families|refused|others)$ ]]
    done <topics
    check "$program --help all" 0 $program --help all
    names <"$stdout" | grep -vxE 'config|help|version' >all
    LC_ALL=C sort -u found | diff all - ||
        wrong "$program: flags of --help all and of the topics differ"
done
expect 0 '^LoRA$' env -u GOMP_SPINCOUNT vtrain --help lora     # it starts again with the variable
stdout_has '^  --rank N'
expect 0 '^Captions$' vprep --help tags
stdout_has '^  --caption_column'
expect 0 '^  --comm_timeout' vtrain --help nccl_timeout
expect 2 'no flag has to do with "zebra"; topics are data' vtrain --help zebra
expect 2 'topics are .*families, refused, others, all' vprep --help zebra
expect 0 'krea2  *Krea 2' vprep --help families
expect 0 'layers of a picture (Qwen-Image-Layered)' vprep --help refused
expect 0 'Wan 2.2 Animate (poses and a face)' vprep --help others
expect 0 '^  --limit N' vlat list --help all
expect 0 '^  --sheet\|--\[no_\]sheet' vdecode --help

#!/usr/bin/env bash
# Runs every command of docs/first-hour.md, in its order. Each line of a block of output must be in
# the output of the commands before it, with any numbers in place of those of the page.
. "$(dirname "$0")/../lib/check.sh"
command -v ffmpeg >/dev/null || { echo "skipped: no ffmpeg program"; exit 77; }
page=$(cd "$lib/../.." && pwd)/docs/first-hour.md
numbers() { sed -E 's/[0-9]+([.,:][0-9]+)*( (KiB|MiB|GiB|B)\b)?/N/g'; }

commands=0 lines=0 kind="" text=""
while IFS= read -r line; do
    case $kind:$line in
    ':```sh') kind=sh text="" ;;
    ':```text') kind=text text="" ;;
    sh:'```')
        kind=""
        commands=$((commands + 1))
        check "$text" 0 bash -euc "$text"
        numbers <"$log" >output ;;
    text:'```') kind="" ;;
    sh:*) text+=$line$'\n' ;;
    text:*)
        lines=$((lines + 1))
        grep -qF -- "$(numbers <<<"$line")" output || wrong "the output lacks: $line" ;;
    esac
done <"$page"
[ $commands -ge 8 ] && [ $lines -ge 15 ] || wrong "$commands blocks of commands, $lines lines"

#!/usr/bin/env bash
# stdin, stdout and stderr are closed or full: no data file gets one of their descriptors, and a
# failed print is an error. Text from files cannot control a terminal.
. "$(dirname "$0")/../lib/exchange.sh"

# ---- with a full or closed stdout every command that prints fails with a message ----
# refused PROGRAM ARGUMENTS...: the program fails with status 1 and names stdout.
refused()
{
    for where in /dev/full closed; do
        status=0
        if [ $where = closed ]; then
            "$@" 2>got >&- || status=$?
        else
            "$@" 2>got >$where || status=$?
        fi
        [ $status -eq 1 ] && grep -q 'stdout' got || wrong "$* >$where: status $status, $(cat got)"
    done
}
refused vlat --help
refused vlat --version
for verb in info list show verify report merge split select diff export import gc; do
    refused vlat $verb --help
done
refused vlat info made.lmdb
refused vlat list made.lmdb
refused vlat list --json made.lmdb
refused vlat show made.lmdb 1
refused vlat verify made.lmdb
refused vlat diff made.lmdb made.lmdb
for program in vprep vtrain vdecode; do
    refused $program --help
    refused $program --version
done

# ---- with closed descriptors the programs write the same files as with open ones ----
for f in safetensors webdataset; do
    expect 0 '60 samples' vlat export made.lmdb --to $f --out $f.whole
    vlat export made.lmdb --to $f --out $f.1 2>&- >got || wrong "$f, 2>&-: status $?"
    status=0
    vlat export made.lmdb --to $f --out $f.2 <&- >&- 2>&- || status=$?
    [ $status -eq 1 ] || wrong "$f, all closed: status $status, though no message was printed"
    for n in 1 2; do
        diff -r $f.whole $f.$n
    done
done
cp -r made.lmdb other.lmdb
poke other.lmdb/shard-00000.lmdb 9000 'x'
cp -r other.lmdb hurt.lmdb
status=0
vlat verify hurt.lmdb <&- 2>&- >got || status=$?
[ $status -eq 1 ] && grep -q 'checksum differs' got && diff -r other.lmdb hurt.lmdb ||
    wrong "verify, 2>&-: status $status, $(cat got)"
if command -v ffmpeg >/dev/null; then
    . "$lib/media.sh"
    small_set media 4
    meta=(--meta media/metadata.json "${sampling[@]}")
    refused vprep "${meta[@]}" --out dry --dry_run
    vprep "${meta[@]}" --out vprep.whole >/dev/null 2>&1
    vprep "${meta[@]}" --out vprep.closed <&- >&- 2>&- || wrong "vprep: status $?"
    same_root vprep.whole vprep.closed
    expect 0 'no damage' vlat verify vprep.closed
    vdecode vprep.whole --out pictures --format png >/dev/null 2>&1
    vdecode vprep.whole --out closed --format png <&- >&- 2>&- || wrong "vdecode: $?"
    diff -r pictures closed
    files() { LC_ALL=C grep -la "vprep: \|encoding" "$1"/* 2>/dev/null |
        grep -v '\.log\|errors\|manifest\|yaml'; }
    [ -z "$(files vprep.closed)" ] || wrong "vprep: messages in $(files vprep.closed)"
fi

# ---- control characters in captions and names are escaped when they are printed ----
make_odd()
{
    vlat export made.lmdb --to safetensors --out odd.out >/dev/null 2>&1
    local odd='red \\u001b[31m \\u009b \\u202egnp.\\u00a0ok\\u007f'
    LC_ALL=C sed -i '2s/"text":"[^"]*"/"text":"'"$odd"'"/' odd.out/samples.jsonl
    grep -q u202e odd.out/samples.jsonl || wrong 'no caption was changed'
    expect 0 '60 samples' vlat import odd.out --from safetensors --out odd.lmdb
}
# plain NAME: the file `got` has no control characters of terminals.
plain() { ! LC_ALL=C grep -qP \
    '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]' got ||
    wrong "$1: control characters: $(cat -v got)"; }
make_odd
vlat list odd.lmdb >got && plain list
grep -q 'red \\x1b\[31m \\x9b \\u202egnp' got || wrong 'list: no escapes'
vlat list --json odd.lmdb >got && plain 'list --json'
grep -q 'red \\u001b\[31m \\u009b \\u202egnp' got || wrong 'list --json: no escapes'
key=$(sed -n 2p got | sed 's/.*"sample":\([0-9]*\).*/\1/')
vlat show odd.lmdb "$key" --thumbnail none >got && plain show
vlat info odd.lmdb >got && plain info
vlat diff made.lmdb odd.lmdb >got 2>/dev/null || plain diff
bad_name=$(printf 'no\033[31m\342\200\256such')
vlat info "$bad_name" 2>got && wrong "status 0"
plain 'error message'
for program in vprep vtrain vdecode; do
    $program --meta "$bad_name" --latents "$bad_name" --out x "$bad_name" 2>got && wrong "status 0"
    plain "$program: error message"
done

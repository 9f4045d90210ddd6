#!/usr/bin/env bash
# vlat push and pull between folders and over ssh: whole, of a dataset that changed, after kills and
# cut connections at each point, and refusals. The ssh here runs the script on this machine.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/fault.sh"
cp -r "$VLT_BUILD/tests/made.lmdb" set.lmdb
mkdir want.lmdb
cp set.lmdb/manifest.json set.lmdb/*-0*.lmdb want.lmdb
same_files() { diff -r "$1" "$2" >diff || wrong "$1 and $2 differ: $(head -c 500 diff)"; }
none_or_whole() { [ ! -e "$1/manifest.json" ] || whole "$1" || wrong "$1 is a damaged dataset"; }

# ---- a folder ----
expect 0 'has the 60 samples' vlat push set.lmdb mounted/set.lmdb
same_files want.lmdb mounted/set.lmdb
expect 0 '; 0 B came' vlat push set.lmdb mounted/set.lmdb
expect 0 'has the 60 samples' vlat pull mounted/set.lmdb --out back.lmdb
same_files want.lmdb back.lmdb
expect 1 'no such file\|No such file' vlat push none.lmdb mounted/none.lmdb
absent mounted/none.lmdb
expect 2 'writes to a folder' vlat push set.lmdb http://127.0.0.1:1/set.lmdb
# only one transfer at a time writes to a folder
mkdir -p busy.lmdb/pull
exec 9<busy.lmdb/pull && flock 9
expect 1 'busy.lmdb/pull: another vlat' vlat push set.lmdb busy.lmdb
exec 9<&-
# a lock on a folder that the transfer before has removed is none
export VLT_FAULT_RUN='vlat push set.lmdb passed.lmdb >first 2>&1'
expect 0 '; 0 B came' fault 'flock@passed.lmdb/pull:1:run' vlat push set.lmdb passed.lmdb
holds first 'has the 60 samples'
same_files want.lmdb passed.lmdb
# each write, rename and sync may be the last
n=$(calls_of change vlat push set.lmdb counted.lmdb --connections 1)
for ((i = 1; i <= n; i += n / 12 + 1)); do
    rm -rf killed.lmdb
    check "kill $i" 137 fault "change:$i:kill" vlat push set.lmdb killed.lmdb --connections 1
    none_or_whole killed.lmdb
    expect 0 'has the 60 samples' vlat push set.lmdb killed.lmdb
    same_files want.lmdb killed.lmdb
done
rm -rf full.lmdb
expect 1 'full.lmdb/pull/.*: No space left' \
    fault 'write@full.lmdb/pull/shard:2+:ENOSPC' vlat push set.lmdb full.lmdb
absent full.lmdb/manifest.json
# a dataset that grew or shrank: the closed shards that both have stay
vlat merge set.lmdb set.lmdb --out grown.lmdb --shard_size 1MiB >/dev/null 2>&1
fresh want.lmdb target.lmdb
echo mine >target.lmdb/notes.txt
need vlat select set.lmdb 'sample < 30' --out less.lmdb
expect 1 'target.lmdb/.*is another file than that of less.lmdb: .*--delete' \
    vlat push less.lmdb target.lmdb
same_root want.lmdb target.lmdb
# a kill while shards are replaced leaves no mixture that looks whole
for call in 1 2 3; do
    fresh want.lmdb mixed.lmdb
    check "replace $call" 137 fault "rename@mixed.lmdb:$call:kill" \
        vlat push less.lmdb mixed.lmdb --delete
    none_or_whole mixed.lmdb
    expect 0 'has the 30 samples' vlat push less.lmdb mixed.lmdb --delete
    whole mixed.lmdb || wrong "mixed.lmdb is damaged"
done
expect 0 'has the 30 samples' vlat push less.lmdb target.lmdb --delete
whole target.lmdb || wrong "target.lmdb is damaged"
holds target.lmdb/notes.txt mine
flip set.lmdb/shard-00000.lmdb 9000
expect 1 'shard-00000.lmdb: .*checksum is not that of the manifest' vlat push set.lmdb hurt.lmdb
absent hurt.lmdb/manifest.json hurt.lmdb/shard-00000.lmdb
flip set.lmdb/shard-00000.lmdb 9000
cp -r less.lmdb less.done
sed -i 's/"complete": true/"complete": false/' less.lmdb/manifest.json
expect 1 'has not finished' vlat push less.lmdb unfinished.lmdb

# ---- ssh ----
mkdir bin home
cat >bin/ssh <<'END'
#!/usr/bin/env bash
# ssh [-T] HOST COMMAND: runs COMMAND in the folder $FAKE_HOME. Calls whose command has the words of
# $FAKE_PART are counted in $FAKE_HOME/../calls; call number $FAKE_CUT loses the connection after
# 20000 bytes in each direction.
[ "$1" = -T ] && shift
echo "$1" >>"$FAKE_HOME/../hosts"
cd "$FAKE_HOME" || exit 255
if [[ -n ${FAKE_CUT:-} && $2 == *"$FAKE_PART"* ]]; then
    echo >>../calls
    if [ "$(wc -l <../calls)" -le "$FAKE_CUT" ]; then
        head -c 20000 | sh -c "$2" | head -c 20000
        exit 255
    fi
fi
exec sh -c "$2"
END
chmod +x bin/ssh
PATH=$PWD/bin:$PATH
export FAKE_HOME=$PWD/home
far="ann@box:it's a/set.lmdb"
expect 0 'has the 60 samples' vlat push set.lmdb "$far"
same_files want.lmdb "home/it's a/set.lmdb"
holds hosts '^ann@box$'
expect 0 '; 0 B came' vlat push set.lmdb "$far"
expect 0 'has the 60 samples' vlat pull "$far" --out near.lmdb
same_files want.lmdb near.lmdb
expect 0 '; 0 B came' vlat pull "$far" --out near.lmdb
expect 0 'has the 60 samples' vlat pull "box:~/it's a/set.lmdb" --out near2.lmdb
same_files want.lmdb near2.lmdb
expect 1 'box:none: no such folder or file' vlat pull box:none --out none.lmdb
expect 2 'USER@HOST:FOLDER expected' vlat push set.lmdb -- -oProxyCommand=x:y
# connections that are lost are made again, with the bytes that have come
for part in 'cat >' 'tail -c'; do
    rm -rf calls "home/cut.lmdb" cut.lmdb
    [ "$part" = 'cat >' ] || cp -r want.lmdb home/cut.lmdb
    export FAKE_PART=$part FAKE_CUT=3
    if [ "$part" = 'cat >' ]; then
        expect 0 'has the 60 samples' vlat push set.lmdb box:cut.lmdb --connections 1
        same_files want.lmdb home/cut.lmdb
    else
        FAKE_PART='tail -c +1 '"'\\''shard"   # not the manifest
        expect 0 'has the 60 samples' vlat pull box:cut.lmdb --out cut.lmdb --connections 1
        same_files want.lmdb cut.lmdb
    fi
    [ "$(wc -l <calls)" -ge 3 ] || wrong "$part: no connection was cut"
done
unset FAKE_PART FAKE_CUT
# killed, and continued with the bytes that are there
rm -rf home/killed.lmdb
n=$(wc -c <set.lmdb/shard-00000.lmdb)
hash=$(grep -o 'shard-00000.lmdb.*' set.lmdb/manifest.json | sed 's/.*"xxh3":"\([0-9a-f]*\)".*/\1/')
mkdir -p home/killed.lmdb/pull
head -c $((n / 2)) set.lmdb/shard-00000.lmdb >"home/killed.lmdb/pull/shard-00000.lmdb.$hash"
expect 0 'has the 60 samples' vlat push set.lmdb box:killed.lmdb
same_files want.lmdb home/killed.lmdb
# bytes that another program put there are found, and the next push begins the file anew
rm -rf home/killed.lmdb && mkdir -p home/killed.lmdb/pull
head -c 30000 /dev/zero >"home/killed.lmdb/pull/shard-00000.lmdb.$hash"
expect 1 'arrived with another checksum' vlat push set.lmdb box:killed.lmdb
absent home/killed.lmdb/manifest.json
expect 0 'has the 60 samples' vlat push set.lmdb box:killed.lmdb
same_files want.lmdb home/killed.lmdb
# A second push to the same folder is refused, over ssh and from that machine, also while it is the
# first that came over ssh; the error names the first, which brings the whole dataset.
busy='another vlat push writes there, process [0-9]* on .*the folder box:two.lmdb/pull/lock'
while read -r first second error; do
    rm -rf home/two.lmdb second
    export VLT_FAULT_RUN="vlat push set.lmdb $second >second 2>&1; echo status \$? >>second"
    expect 0 'has the 60 samples' fault 'open@set.lmdb/shard:1:run' vlat push set.lmdb $first
    holds second "$error" && holds second '^status 1'
    same_files want.lmdb home/two.lmdb
done <<TABLE
box:two.lmdb box:two.lmdb $busy
box:two.lmdb home/two.lmdb another vlat push writes there, process [0-9]* on
home/two.lmdb box:two.lmdb another vlat push writes there: wait
TABLE
# The lock of a push that was killed ends with its process; one of another machine is named.
rm -rf home/two.lmdb
check 'a killed push' 137 fault 'open@set.lmdb/shard:1:kill' vlat push set.lmdb box:two.lmdb
lock=$(ls home/two.lmdb/pull/lock)
expect 0 'has the 60 samples' vlat push set.lmdb box:two.lmdb
same_files want.lmdb home/two.lmdb
for owner in "$lock" "elsewhere,7,${lock#*,*,}" "${lock%,*},0123456789abcdef" 'odd; name' ''; do
    rm -rf home/two.lmdb && mkdir -p home/two.lmdb/pull/lock
    [ -z "$owner" ] || : >"home/two.lmdb/pull/lock/$owner"
    want=1
    case $owner in "$lock" | elsewhere*) want=0 ;; esac
    for to in box:two.lmdb home/two.lmdb; do
        check "lock '$owner' of $to" $want vlat push set.lmdb $to
        [ $want = 0 ] || stderr_has "writes there.*remove its lock, the folder $to/pull/lock"
    done
done
rm -r home/two.lmdb/pull/lock
expect 0 'has the 60 samples' vlat push set.lmdb box:two.lmdb
# a push that fails removes its lock
rm -rf home/two.lmdb
expect 1 'Input/output' fault 'open@set.lmdb/shard:1+:EIO' vlat push set.lmdb box:two.lmdb
absent home/two.lmdb/pull/lock
# A shell that prints a line of its own before each command, or runs none, is named, and nothing is
# changed there.
mv bin/ssh bin/real
printf '#!/bin/sh\nprintf "$FAKE_SAYS"\n[ -z "$FAKE_RUNS" ] || exec real "$@"\n' >bin/ssh
chmod +x bin/ssh
cp -r want.lmdb home/loud.lmdb
while IFS='|' read -r runs says error; do
    export FAKE_RUNS=$runs FAKE_SAYS=$says
    expect 1 "$error" vlat pull box:loud.lmdb --out far.lmdb
    expect 1 "$error" vlat pull box:loud.lmdb --where 'sample < 3' --out far.lmdb
    expect 1 "$error" vlat push less.done box:loud.lmdb --delete
    output_lacks 'another vlat push'
    expect 1 "$error" vlat push set.lmdb box:new.lmdb
    [ ! -e home/new.lmdb/manifest.json ] || wrong "$says: the dataset came"
done <<'TABLE'
yes|Welcome to box\n|the shell of box prints text before a command ("Welcome to box"): .*bashrc
yes|no end|the shell of box prints text before a command ("no end
yes|\n\n  two\n|the shell of box prints text before a command ("two
yes|\033[1mbold|the shell of box prints text before a command ("?\[1mbold
yes|vlat|the shell of box prints text before a command ("vlat
|Go away\n|the shell of box prints text before a command ("Go away")
||the shell of box did not run a command
TABLE
unset FAKE_RUNS FAKE_SAYS
mv bin/real bin/ssh
rm -r home/new.lmdb
rmdir home/loud.lmdb/pull                    # no lock is left
same_files want.lmdb home/loud.lmdb
expect 0 'has the 60 samples' vlat push set.lmdb box:new.lmdb
# A connection whose file stands still is closed and made again, a command that never answers is
# named, and a file of which a few bytes come is given up.
mv bin/ssh bin/real
cat >bin/ssh <<'END'
#!/usr/bin/env bash
# $FAKE_SLOW: words of the commands that stand still; with a first call that does, if $FAKE_ONCE.
# After $FAKE_BYTES bytes no byte comes or goes any more.
[ "$1" = -T ] && shift
if [[ $2 == *"$FAKE_SLOW"* && ! -e $FAKE_HOME/../stood ]]; then
    [ -z "${FAKE_ONCE:-}" ] || touch "$FAKE_HOME/../stood"
    [ "$FAKE_BYTES" = 0 ] || (cd "$FAKE_HOME" && sh -c "$2" | head -c "$FAKE_BYTES")
    exec sleep 60
fi
exec real "$@"
END
chmod +x bin/ssh
export FAKE_SLOW='tail -c +1 '"'\\''shard" FAKE_BYTES=5000 FAKE_ONCE=1
expect 0 'has the 60 samples' timeout -k 1 300 vlat pull box:new.lmdb --out stood.lmdb --timeout 3
same_files want.lmdb stood.lmdb
FAKE_SLOW='cat >' FAKE_BYTES=0
rm -rf stood home/stood.lmdb
expect 0 'has the 60 samples' timeout -k 1 300 vlat push set.lmdb box:stood.lmdb --timeout 3 \
    --connections 1
same_files want.lmdb home/stood.lmdb
[ -e stood ] || wrong "no push stood still"
unset FAKE_ONCE
rm -f stood
FAKE_SLOW='tail -c' FAKE_BYTES=200
expect 1 'less than 1024 bytes a second came or went for 1 s (--lowest_speed, --timeout)' \
    timeout -k 1 300 vlat pull box:new.lmdb --out stood2.lmdb --timeout 1
FAKE_SLOW='mkdir -p' FAKE_BYTES=0
expect 1 \
    'a command there has not answered for 10 s (10 times --timeout): does `ssh box true` work' \
    timeout -k 1 300 vlat push set.lmdb box:stood2.lmdb --timeout 1
stderr_has 'warning: box:stood2.lmdb has not answered for [0-9.]* s (--timeout and --max_time'
expect 1 'the 2 s of --max_time are over' \
    timeout -k 1 300 vlat push set.lmdb box:stood2.lmdb --max_time 2
unset FAKE_SLOW FAKE_BYTES
mv bin/real bin/ssh
# no connection at all
printf '#!/bin/sh\nexit 255\n' >bin/ssh
expect 1 'does `ssh box true` work' vlat pull box:set.lmdb --out far.lmdb
# ssh takes no password: an address with one is refused, and no message shows it
for where in ann:S3CRET@box:set.lmdb ann:S3/CRET@box:set.lmdb ann:S3CRET@box/set.lmdb \
    ann:a:S3CRET@box:~/set.lmdb ssh://ann:S3CRET@box/set.lmdb; do
    expect 2 'ann:\*\*\*@box[:/][~/]*set.lmdb: ' vlat pull $where --out far.lmdb
    output_lacks 'S3'
    expect 2 'ann:\*\*\*@box[:/][~/]*set.lmdb: ' vlat push want.lmdb $where
    output_lacks 'S3'
    expect 1 'ann:\*\*\*@box[:/][~/]*set.lmdb: ' vlat info $where
    output_lacks 'S3'
done
for where in box:./S3@box:set.lmdb box:/S3@box:set.lmdb box:set@2; do
    expect 1 'ssh ' vlat pull $where --out far.lmdb
done
rm bin/ssh
expect 1 'ssh, which reaches box, could not be started' \
    env PATH="$PWD/bin" "$VLT_BUILD/vlat" pull box:set.lmdb --out far.lmdb

#!/usr/bin/env bash
# vlat pull from a server of static files: whole, after cut connections and kills, from a server
# that is busy or has no ranges, of a dataset that changed, of a part of the samples, and refusals
# of damaged and foreign files. $1 is Python.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/fault.sh"
python=$1 server= here=$(dirname "$0")
mkfifo port
if vlat pull http://x --out y 2>&1 | grep -q 'no libcurl'; then
    echo "skipped: vlat has no libcurl"
    exit 77
fi
cp -r "$VLT_BUILD/tests/made.lmdb" set.lmdb
trap 'status=$?; stop_server; end_of_test $status' EXIT

stop_server()
{
    [ -z "$server" ] || kill "$server"
    wait
    server=
}
# serve SETTINGS...: starts the server; $url is the dataset on it, requests.log has its requests.
serve()
{
    stop_server
    "$python" "$here/http_server.py" requests.log "$@" >port &
    server=$!
    read -r port <port
    url=http://127.0.0.1:$port/set.lmdb
}
same_files() { diff -r "$1" "$2" >diff || wrong "$1 and $2 differ: $(head -c 500 diff)"; }
requests() { grep -c "$1" requests.log; }
# the files of the dataset without those that no reader needs
mkdir want.lmdb
cp set.lmdb/manifest.json set.lmdb/*-0*.lmdb want.lmdb
files=$(ls set.lmdb/*-0*.lmdb | wc -l)

serve
expect 0 'has the 60 samples' vlat pull "$url" --out one.lmdb
same_files want.lmdb one.lmdb
whole one.lmdb || wrong "one.lmdb is damaged"
[ "$(requests lmdb/)" -eq $((files + 1)) ] || wrong "$(requests lmdb/) requests"
# nothing changed: the manifest alone is requested
serve
expect 0 'has the 60 samples' vlat sync "$url" --out one.lmdb
[ "$(requests lmdb/)" -eq 1 ] || wrong "a second pull made $(requests lmdb/) requests"

serve cut=20000 cuts=5
expect 0 'has the 60 samples' vlat pull "$url" --out cut.lmdb
same_files want.lmdb cut.lmdb
holds requests.log '0.lmdb bytes=20000- '
serve cut=20000 cuts=3 ranges=no
expect 0 'has the 60 samples' vlat pull "$url" --out whole.lmdb
same_files want.lmdb whole.lmdb
# a server that gives no byte more ends the pull, and the next one continues
serve cut=0 cuts=5
expect 1 '00000.lmdb: Transferred a partial file' vlat pull "$url" --out later.lmdb --connections 1
absent later.lmdb/manifest.json
serve
expect 0 'has the 60 samples' vlat pull "$url" --out later.lmdb
same_files want.lmdb later.lmdb

# a busy server is asked again
serve busy=2
expect 0 'has the 60 samples' vlat pull "$url" --out busy.lmdb
same_files want.lmdb busy.lmdb
# ... for the manifest too, and after as long as the server asks for
serve busy=3 all=yes
expect 0 'has the 60 samples' vlat pull "$url" --out busy2.lmdb
same_files want.lmdb busy2.lmdb
serve busy=2 all=yes
expect 0 '3 samples, root' vlat pull "$url" --where 'sample < 3' --out busy3.lmdb
serve busy=1 wait=2
begin=$(date +%s)
expect 0 'has the 60 samples' vlat pull "$url" --out busy4.lmdb --connections 1
[ $(($(date +%s) - begin)) -ge 2 ] || wrong "the server asked for 2 seconds of peace"
serve busy=99 all=yes
expect 1 'manifest.json: the server answers 503' vlat pull "$url" --out busy5.lmdb
[ "$(requests refused)" -eq 5 ] || wrong "$(requests refused) attempts"

# a server that is slower than the lowest speed, or silent, is asked again and then given up
serve drip=100
expect 1 'lmdb: less than 1024 bytes a second came for 1 s (--lowest_speed, --timeout)' \
    timeout -k 1 300 vlat pull "$url" --out slow.lmdb --timeout 1 --connections 1
absent slow.lmdb/manifest.json
serve drip=40000
expect 0 '1 sample, root' timeout -k 1 300 vlat pull "$url" --where 'sample < 1' --out slow2.lmdb \
    --timeout 2 --lowest_speed 10B
stderr_lacks 'has not answered'
serve drip=2 all=yes
expect 1 'manifest.json: less than 1024 bytes a second' \
    timeout -k 1 300 vlat pull "$url" --out slow3.lmdb --timeout 1
serve silent=yes all=yes
expect 1 'manifest.json: less than 1024 bytes a second came for 1 s' \
    timeout -k 1 300 vlat pull "$url" --out silent.lmdb --timeout 1
stderr_has 'warning: http.* has not answered for [0-9.]* s (--timeout and --max_time end the wait)'
# the time of the whole copy is over; the same command continues
serve drip=3000
expect 1 'the 2 s of --max_time are over; the same command continues' \
    timeout -k 1 300 vlat pull "$url" --out late.lmdb --max_time 2
absent late.lmdb/manifest.json
serve silent=yes
expect 1 'the 2 s of --max_time are over' \
    timeout -k 1 300 vlat pull "$url" --out late2.lmdb --max_time 2 --shards shard-00000
serve
expect 0 'has the 60 samples' vlat pull "$url" --out late.lmdb
same_files want.lmdb late.lmdb

# a manifest of many values needs no memory of a machine
mkdir hostile.lmdb
"$python" -c 'print("{\"a\":[" + "0," * 16000000 + "0]}", end="")' >hostile.lmdb/manifest.json
expect 1 'hostile.lmdb/manifest.json: more than 3145728 values' \
    bash -c '[ "$VLT_FAULT_MEMORY" = 0 ] || ulimit -v 600000; exec "$@"' - vlat pull \
    "${url%set.lmdb}hostile.lmdb" --out no.lmdb

# the files come at the same time: the server answers only then
serve together=$files
expect 0 'has the 60 samples' vlat pull "$url" --out together.lmdb --connections $files
same_files want.lmdb together.lmdb
lacks requests.log 'refused'
# the name of a file comes before the query of a signed address
expect 0 'has the 60 samples' vlat pull "$url/?sig=a/b" --out signed.lmdb
same_files want.lmdb signed.lmdb
holds requests.log '^set.lmdb/manifest.json?sig=a/b '

# secret STATUS SHOWN ARGUMENTS...: of the secrets in addresses no message and no file shows any.
secret()
{
    local status=$1 shown=$2
    shift 2
    expect "$status" '' vlat "$@" --out secret.lmdb
    output_has "$shown"
    output_lacks 'S3CRET'
    [ ! -d secret.lmdb ] || ! grep -rqa 'S3CRET' secret.lmdb || wrong "$*: a file has the secret"
    rm -rf secret.lmdb
}
at=${url#http://}
secret 0 "of http://ann:\*\*\*@$at; " pull "http://ann:S3CRET@$at?sig=S3CRET"
secret 0 "of http://\*\*\*@$at; " pull "http://S3CRET@$at"
secret 0 "of HTTP://ann:\*\*\*@$at; " pull "HTTP://ann:S3CRET:S3CRET@$at?a=S3CRET&b=http://S3CRET@c"
secret 0 "came from http://ann:\*\*\*@$at\$" \
    pull "http://ann:S3CRET@$at?sig=S3CRET" --where 'sample < 3'
secret 1 "\*\*\*@${at}x/manifest.json: the server answers 404" \
    pull "http://ann:S3CRET@${at}x?sig=S3CRET"
secret 1 "\*\*\*@127.0.0.1:1/set/manifest.json: .*onnect" \
    pull "http://ann:S3CRET@127.0.0.1:1/set?sig=S3CRET"
secret 1 "http://ann:\*\*\*@$at/manifest.json: " pull "http://ann:S3CRET/x?S3CRET@$at"
secret 2 'ftp://ann:\*\*\*@host/set: give an address' pull 'ftp://ann:S3CRET@host/set?S3CRET'
expect 2 'http://ann:\*\*\*@host/set: vlat writes' \
    vlat push set.lmdb 'http://ann:S3CRET@host/set?sig=S3CRET'
output_lacks 'S3CRET'
expect 1 'http://ann:\*\*\*@host/set' vlat info 'http://ann:S3CRET@host/set?sig=S3CRET'
output_lacks 'S3CRET'
for where in 'http://ann:S3CRET@host/set?sig=S3CRET' ssh://ann:S3CRET@host/set \
    ann:S3CRET@host:set; do
    expect '1 2' 'ann:\*\*\*@host[/:]set' vtrain --latents "$where" --output_dir none
    output_lacks 'S3CRET'
    expect '1 2' 'ann:\*\*\*@host[/:]set' vprep --meta "$where" --out none
    output_lacks 'S3CRET'
    expect '1 2' 'ann:\*\*\*@host[/:]set' vdecode "$where" --out none
    output_lacks 'S3CRET'
done
expect 2 'ann:\*\*\*@host' vtrain --latents set.lmdb --model http://ann:S3CRET@host/m \
    --output_dir none
output_lacks 'S3CRET'

# killed before each of some writes and renames, and started again
for call in write@/pull:3 write@/pull:6 rename:2 rename:3 sync:3; do
    rm -rf killed.lmdb
    check "$call" 137 fault "$call:kill" vlat pull "$url" --out killed.lmdb --connections 1
    absent killed.lmdb/manifest.json
    expect 0 'has the 60 samples' vlat pull "$url" --out killed.lmdb
    same_files want.lmdb killed.lmdb
done

# stopped by a signal, while other connections wait, and continued
serve drip=20000
rm -rf killed.lmdb
expect 140 '^vlat: SIGUSR2: .*stopped; the same command continues' \
    fault 'write@/pull/shard:2:run' env VLT_FAULT_RUN='kill -USR2 $PPID' vlat pull "$url" \
    --out killed.lmdb
absent killed.lmdb/manifest.json
serve
expect 0 'has the 60 samples' vlat pull "$url" --out killed.lmdb
same_files want.lmdb killed.lmdb

# another dataset in the folder is refused and stays
mv set.lmdb all.lmdb
need vlat select all.lmdb 'sample < 30' --out set.lmdb
expect 1 'one.lmdb/.*-00000.lmdb is another file than that of http' vlat pull "$url" --out one.lmdb
rm -r one.lmdb/pull
same_files want.lmdb one.lmdb
# ... unless the user asks for that
cp -r one.lmdb two.lmdb
expect 0 'has the 30 samples' vlat pull "$url" --out two.lmdb --delete
same_root set.lmdb two.lmdb
whole two.lmdb || wrong "two.lmdb is damaged"
rm -r set.lmdb && mv all.lmdb set.lmdb
# a shard that the folder lacks is brought alone
serve
rm one.lmdb/text-00000.lmdb
expect 0 'has the 60 samples' vlat pull "$url" --out one.lmdb
same_files want.lmdb one.lmdb
[ "$(requests lmdb/)" -eq 2 ] || wrong "$(requests lmdb/) requests"
# so is a shard that was cut short in the folder
truncate -s 9000 one.lmdb/text-00000.lmdb
expect 0 'has the 60 samples' vlat pull "$url" --out one.lmdb
same_files want.lmdb one.lmdb

flip set.lmdb/shard-00000.lmdb 9000
expect 1 'shard-00000.lmdb: .*checksum is not that of the manifest' vlat pull "$url" --out bad.lmdb
absent bad.lmdb/manifest.json bad.lmdb/shard-00000.lmdb bad.lmdb/pull/shard-00000.lmdb
flip set.lmdb/shard-00000.lmdb 9000
truncate -s +4096 set.lmdb/shard-00000.lmdb
expect 1 'shard-00000.lmdb: .*more than the' vlat pull "$url" --out bad.lmdb
expect 1 'answers 404' vlat pull "${url%set.lmdb}none" --out none.lmdb
expect 2 'file:///etc: give an address' vlat pull file:///etc --out none.lmdb
expect 2 'needs --out' vlat pull "$url"
expect 2 'connections' vlat pull "$url" --out none.lmdb --connections 0

# ---- a part of the samples ----
serve
need random_dataset set2.lmdb 40 4 16 16 64 64
url=${url%set.lmdb}set2.lmdb
expect 0 '3 samples, root' vlat pull "$url" --where 'sample < 3' --out part.lmdb
need vlat select set2.lmdb 'sample < 3' --out selected.lmdb
same_files selected.lmdb part.lmdb
came=$(awk '/shard-|text-/ { n += $NF } END { print n }' requests.log)
[ "$came" -lt $(($(cat set2.lmdb/*-0*.lmdb | wc -c) / 4)) ] || wrong "$came bytes came for 3 of 40"
url=${url%set2.lmdb}set.lmdb
truncate -s -4096 set.lmdb/shard-00000.lmdb  # as it was
expect 0 'samples, root' vlat pull "$url" --shards shard-00001,shard-00002.lmdb --out shards.lmdb
whole shards.lmdb || wrong "shards.lmdb is damaged"
[ "$(count shards.lmdb)" -lt 60 ] || wrong "all samples came"
expect 0 ' samples, root' \
    vlat pull "$url" --shards shard-00001 --where 'type = video' --out both.lmdb
[ "$(count both.lmdb)" -lt "$(count shards.lmdb)" ] || wrong "--where changed nothing"
expect 2 'shards text-00000: the dataset has no such shard' \
    vlat pull "$url" --shards text-00000 --out none.lmdb
expect 2 'no name "colour"' vlat pull "$url" --where 'colour = red' --out none.lmdb
expect 1 'no sample fits' vlat pull "$url" --where 'sample > 99' --out none.lmdb
expect 1 'part.lmdb is a finished dataset already' vlat pull "$url" --where 'sample < 3' \
    --out part.lmdb
# cut connections, and a value that is damaged at the server
serve cut=9000 cuts=7
expect 0 '30 samples, root' vlat pull "$url" --where 'sample < 30' --out some.lmdb
need vlat select set.lmdb 'sample < 30' --out some2.lmdb
same_files some2.lmdb some.lmdb
serve
hurt_value set.lmdb
expect 1 'set.lmdb: sample 00000000.*latent ' \
    vlat pull "$url" --where 'sample < 60' --out damaged.lmdb
not_done damaged.lmdb
# a kill leaves no folder but the unfinished copy, and the same command continues
cp "$VLT_BUILD/tests/made.lmdb/shard-00000.lmdb" set.lmdb
check kill 137 fault 'write@some3.lmdb/:4:kill' \
    vlat pull "$url" --where 'sample < 30' --out some3.lmdb
expect 0 '30 samples, root' vlat pull "$url" --where 'sample < 30' --out some3.lmdb
same_root some2.lmdb some3.lmdb
ls | grep 'pull-' && wrong "sparse files are left"

# few descriptors: a run ends well, or names what is missing; no folder of its own is left or named
need vlat split set.lmdb --n 30 --out many
need vlat merge many-?? --out many.lmdb
for few in 5 6 7 8 9 10 12 16 28; do
    rm -rf few.lmdb
    check "$few descriptors" '0 1' bash -c 'ulimit -n $1; shift; exec "$@"' - $few \
        vlat pull "${url%set.lmdb}many.lmdb" --where 'sample < 3' --out few.lmdb
    [ "$status" = 0 ] || output_has 'Too many open files\|not enough\|Could.* not \|Couldn.t'
    output_lacks 'pull-'
    ls | grep 'pull-' && wrong "$few descriptors: the folder is left"
done
[ "$status" = 0 ] || wrong "28 descriptors are too few"

# ---- real servers ----
# real COMMAND...: starts a server whose command ends with the port.
real()
{
    stop_server
    until [ -n "$server" ] && (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
        if [ -z "$(jobs -rp)" ]; then        # not started, or the port is in use
            port=$((20000 + RANDOM % 20000))
            "$@$port" 2>/dev/null &
            server=$!
        fi
    done
    url=http://127.0.0.1:$port/set.lmdb
}
# begun DIR: a pull to DIR has brought the first bytes of each file.
begun()
{
    mkdir -p "$1/pull"
    for f in want.lmdb/*.lmdb; do
        name=${f##*/}
        hash=$(grep -o "$name.*" set.lmdb/manifest.json | sed 's/.*"xxh3":"\([0-9a-f]*\)".*/\1/')
        head -c 30000 "$f" >"$1/pull/$name.$hash"
    done
}
if command -v busybox >/dev/null && busybox httpd --help 2>&1 | grep -q Usage; then
    real busybox httpd -f -h . -p 127.0.0.1:
    begun busybox.lmdb
    expect 0 'has the 60 samples' vlat pull "$url" --out busybox.lmdb
    same_files want.lmdb busybox.lmdb
else
    echo "not tested: busybox's server, as there is none"
fi
# a store that rclone reaches, with the options of docs/interface.md; a folder stands for it
if command -v rclone >/dev/null; then
    export RCLONE_CONFIG=$PWD/rclone.conf
    : >rclone.conf
    send() { rclone copy "$1" store/set.lmdb --include '{shard,text}-[0-9]*.lmdb' --checksum \
        --immutable; }
    touch set.lmdb/shard-open-00000.lmdb     # a file of a running vprep
    check 'shards are sent' 0 send set.lmdb
    rm set.lmdb/shard-open-00000.lmdb
    echo '{}' >store/set.lmdb/manifest.json
    real rclone serve http store --read-only --dir-cache-time 0s --addr 127.0.0.1:
    check 'an old manifest' 1 vlat pull "$url" --out rclone.lmdb
    rclone copyto set.lmdb/manifest.json store/set.lmdb/manifest.json
    same_files want.lmdb store/set.lmdb
    begun rclone.lmdb
    expect 0 'has the 60 samples' vlat pull "$url" --out rclone.lmdb
    same_files want.lmdb rclone.lmdb
    touch rclone.lmdb/*.lmdb                 # a copy has other times
    check 'a copy is sent' 0 send rclone.lmdb
    check 'another dataset is refused' 6 send some.lmdb
    same_files want.lmdb store/set.lmdb
else
    echo "not tested: rclone's server, as there is no rclone"
fi

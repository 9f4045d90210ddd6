#!/usr/bin/env bash
# vlat report --serve: pages, pictures and their parts, refusals, hostile requests, a run that
# grows, runs that come and go. The pages in a browser are in pages.sh.
. "$(dirname "$0")/../lib/check.sh"

png='\x89PNG\r\n\x1a\n'
run()                                        # run DIR STEPS
{
    mkdir -p "$1/validation/step-10"
    echo 'seed: 42' >"$1/config.yaml"
    for ((i = 1; i <= $2; i++)); do
        echo "{\"step\":$i,\"loss\":0.$((90 - i))}"
    done >"$1/metrics.jsonl"
    { printf "$png"; printf 'one of %s' "$1"; } >"$1/validation/step-10/000.png"
}
run runs/first 20
run runs/second 30
run 'runs/a <b> & %41' 3

expect 2 'PORT is needed' vlat report runs --serve 80x
expect 2 'PORT is needed' vlat report runs --serve 70000
expect 2 'PORT is needed' vlat report runs --serve :80
if vlat report runs --serve 80x 2>&1 | grep -q 'libmicrohttpd-dev'; then
    echo "not tested: the server, as the build found no libmicrohttpd"
    exit 0
fi
command -v curl >/dev/null || { echo "not tested: the server, as there is no curl"; exit 0; }

# serve RUN...: starts a server, whose address is then in $url and whose process in $pid
serve()
{
    : >address
    vlat report "$@" >address 2>serve.log &
    pid=$!
    until [ -s address ] || ! kill -0 $pid 2>/dev/null; do sleep 0.05; done
    url=$(cat address)
}
# get STATUS PATH [ARGS]: the answer's body is in the file body, its headers in the file head
get()
{
    local want=$1 path=$2 got
    shift 2
    got=$(curl -s --path-as-is -D head -o body -w '%{http_code}' "$@" "${url%/}$path") || true
    [ "$got" = "$want" ] || wrong "$path: status $got, expected $want"
    cat head body >"$log"
}
done_serving() { kill -TERM $pid; wait $pid || wrong "the server ended with status $?"; }

serve runs --serve 0
[[ $url == http://127.0.0.1:*/ ]] || wrong "the address is $url"
get 200 /
output_has '<title>Training runs'
output_has '>Order by loss<'
output_has 'href="run/first/"'
output_has 'href="run/a%20%3Cb%3E%20%26%20%2541/"'
output_has 'src="run/second/file/step-10/000.png"'
output_has '^Content-Security-Policy: '
output_lacks 'a <b>'
get 200 /run/first/
output_has 'Step 20 of 20'
output_has 'src="file/step-10/000.png"'
get 200 '/run/a%20%3Cb%3E%20%26%20%2541/'
get 200 /run/first/file/step-10/000.png
[ "$(tail -c +9 body)" = 'one of runs/first' ] || wrong "another picture"
get 206 /run/first/file/step-10/000.png -H 'Range: bytes=1-3'
holds body '^PNG$'
output_has '^Content-Range: bytes 1-3/25'
get 206 /run/first/file/step-10/000.png -H 'Range: bytes=-5'
holds body '^first$'
get 206 /run/first/file/step-10/000.png -H 'Range: bytes=20-'
get 206 /run/first/file/step-10/000.png -H 'Range: bytes=20-99999999999999999'
get 416 /run/first/file/step-10/000.png -H 'Range: bytes=25-'
for range in 'bytes=3-1' 'bytes=x' 'bytes=--1' 'bytes=1-2,4-5' 'lines=1-2' 'bytes=' 'bytes=-0' \
    'bytes=99999999999999999999999999-3'; do
    get 200 /run/first/file/step-10/000.png -H "Range: $range"
done
tag=$(sed -n 's/^ETag: \(.*\)\r/\1/p' head)
get 304 /run/first/file/step-10/000.png -H "If-None-Match: $tag"

# what is no page and no picture
head -c 3000000 /dev/zero >big
echo secret >runs/first/validation/secret.png
ln -s "$dir/runs/first/config.yaml" runs/first/validation/step-10/001.png
mkfifo runs/first/validation/step-10/002.png
mkdir runs/first/validation/step-10/003.png
printf "$png" >runs/first/validation/step-10/.png
printf "$png" >runs/first/validation/step-10/x.txt
for path in /run/first /run/third/ /run/ /x /run/first/metrics.jsonl /run/first/file/ \
    /file/step-10/000.png \
    /run/first/file/step-10/00{1,2,3}.png /run/first/file/step-10/.png \
    /run/first/file/step-10/x.txt \
    /run/first/file/step-10/../secret.png /run/first/file/step-10/..%2fsecret.png \
    /run/first/file/../secret.png /run/first/file/step-11/000.png /run/first/file/step-/000.png \
    /run/first/file/step-10/000.png/ /run/first/file/step-10%00/000.png /run/first/file/step-10 \
    /../etc/passwd /run/first/../../../etc/passwd '/run/%' '/%ff%fe' \
    "/$(printf 'a%.0s' {1..5000})"; do
    get 404 "$path"
done
get 405 / -X DELETE
get 405 / -X PUT -d x
get 405 / -d x
get 405 / --data-binary @big
get 403 / -H 'Host: evil.example'
get 403 / -H "Host: localhost.evil.example:${url##*:}"
get 200 / -H 'Host: LOCALHOST:1'
get 200 / -I
output_has '^Last-Modified: .* GMT'

# requests that are none, and clients that wait
port=${url##*:} port=${port%/}
for bytes in 'GET' '\r\n\r\n' 'GET / HTTP/9.9\r\n\r\n' 'GET  HTTP/1.1\r\n\r\n' \
    '\x16\x03\x01\x02\x00\x01\x00' \
    'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n' \
    'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\nx' \
    'POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n' \
    'GET / HTTP/1.1\r\nHost: localhost\r\nRange: bytes=%n%s\r\n\r\n' \
    'GET / HTTP/1.1\r\nHost: [\r\n\r\n'; do
    timeout 5 bash -c "exec 3<>/dev/tcp/127.0.0.1/$port; printf '$bytes' >&3" 2>/dev/null || true
done
head -c 300000 /dev/urandom | timeout 5 bash -c "cat >/dev/tcp/127.0.0.1/$port" 2>/dev/null || true
for i in {1..20}; do                         # half a request each; they are closed after 30 s
    exec {held[i]}<>/dev/tcp/127.0.0.1/"$port"
    printf 'GET / HTTP/1.1\r\nHost: loc' >&"${held[i]}"
done
get 200 /
for i in {1..20}; do exec {held[i]}>&-; done
for i in {1..30}; do curl -s -o "many.$i" "$url" & done
wait $(jobs -p | grep -v "^$pid$")
[ "$(md5sum many.* | cut -c-32 | sort -u | wc -l)" -eq 1 ] || wrong "answers at one time differ"

# runs that grow, are cut, come and go
get 200 /run/first/ -I
tag=$(sed -n 's/^ETag: \(.*\)\r/\1/p' head)
printf '{"step":21,"loss":0.5}\n{"step":22,"lo' >>runs/first/metrics.jsonl
get 200 /run/first/
output_has 'Step 21 of 21'
! grep -qF "$tag" head || wrong "the tag of a page that changed is the same"
head -n 5 runs/first/metrics.jsonl >cut && cp cut runs/first/metrics.jsonl
get 200 /run/first/
output_has 'Step 5 of 5'
head -c 100000 /dev/urandom >runs/first/metrics.jsonl
get 200 /run/first/
rm runs/first/metrics.jsonl && mkdir runs/first/metrics.jsonl
get 200 /run/first/
output_has 'no step yet'
rm -r runs/first
get 404 /run/first/
run runs/third 7
get 200 /run/third/
rm -r runs
get 200 /
output_has 'no step yet'
done_serving

# the page of a dataset: the page and its scripts, and nothing else
need browse_dataset set.lmdb 60
expect 2 'give --browse NAME.html too' vlat report set.lmdb --serve 0
echo secret >notes
serve set.lmdb --browse 'my page.html' --serve 0
until [ "$(wc -l <address)" -eq 2 ]; do sleep 0.05; done
url=$(sed -n 2p address)
get 302 /
output_has '^Location: my%20page.html'
get 200 /my%20page.html
output_has 'default-src'
get 200 /my%20page.data/0/index.js
output_has '^Content-Type: text/javascript'
output_has '^vlt("0/index"'
get 200 /my%20page.data/0/c0/1.js
for path in /notes /my%20page.data /my%20page.data/ /my%20page.data/vlat-browse \
    /my%20page.data/0/../../notes \
    /my%20page.data/0/none.js /my%20page.data/0//index.js /my%20page.data/0/c0 \
    /set.lmdb/manifest.json; do
    get 404 "$path"
done
done_serving

# the sources of a dataset's samples: clips that browsers play, through links too, with ranges, and
# no other file, even where a record names it
mkdir clips
for i in 1 2; do
    ffmpeg -v error -f lavfi -i "testsrc=s=64x64:r=8:d=1,format=yuv420p" "clips/$i.mp4"
    echo "clip $i" >clips/$i.txt
done
mv clips/2.mp4 two.mp4 && ln -s ../two.mp4 clips/2.mp4
ffmpeg -v error -f lavfi -i "testsrc=s=64x64:r=8:d=1" -frames:v 1 clips/3.png &&
    echo a still >clips/3.txt
need vprep --meta clips --out clips.lmdb --video_sample_size 64 --video_sample_n_frames 5
size=$(stat -c %s two.mp4)
serve clips.lmdb --browse clips.html --serve 0
until [ "$(wc -l <address)" -eq 2 ]; do sleep 0.05; done
url=$(sed -n 2p address)
for i in 0 1; do
    get 200 /media/0/00000000000$i/000
    output_has '^Content-Type: video/mp4'
done
get 206 /media/0/000000000001/000 -r 0-99
output_has "^Content-Range: bytes 0-99/$size"
get 404 /media/0/000000000002/000                  # a still
for path in /media /media/ /media/0 /media/0/ /media/1/000000000000/000 /media/9/000000000000/000 \
    /media/0/000000000007/000 /media/0/../notes /media/0/000000000000/000/../../../../two.mp4 \
    /media/x; do
    get 404 "$path"
done
echo 'the text of a secret' >clips/1.mp4           # no clip any more
get 404 /media/0/000000000000/000
rm clips/1.mp4 && mkfifo clips/1.mp4
get 404 /media/0/000000000000/000
done_serving

# what samples are made from: pictures and clips that browsers show, by their roles alone
mkdir inputs
cp clips/3.png inputs/2.png && cp two.mp4 inputs/control.mp4 && echo 'a secret' >inputs/1.png
need browse_dataset edits.lmdb 64 "$PWD/inputs"
serve edits.lmdb --browse edits.html --serve 0
until [ "$(wc -l <address)" -eq 2 ]; do sleep 0.05; done
url=$(sed -n 2p address)
get 200 /media/0/000000000063/000/reference_2
output_has '^Content-Type: image/png'
get 200 /media/0/000000000063/000/control
output_has '^Content-Type: video/mp4'
for role in reference_1 reference_3 reference_4 reference_0 reference_-1 reference_2x reference_ \
    image \
    control/ / /control ../000 path target; do
    get 404 "/media/0/000000000063/000/$role"
done
get 404 /media/0/000000000064/000/reference_2      # there is no such sample
get 404 /media/1/000000000063/000/reference_2
done_serving

# one run, which has not begun
mkdir waits && echo 'seed: 1' >waits/config.yaml
serve waits --serve localhost:0
get 200 /
output_has 'no step yet'
run waits 4
get 200 /
output_has 'Step 4 of 4'
get 200 /file/step-10/000.png
get 404 /run/waits/
port=${url##*:} port=${port%/}
expect 1 'the address cannot be used' vlat report waits --serve "$port"
kill -INT $pid && wait $pid || wrong "SIGINT: status $?"
serve waits --serve 0.0.0.0:0
holds serve.log 'warning: any machine'
done_serving

#!/usr/bin/env bash
# scripts/bench without any timing: its parts run programs that only print numbers, and canned JSON
# files are compared, kept and shown on pages.
. "$(dirname "$0")/../lib/check.sh"
PYTHON=${PYTHON:-python3}
command -v "$PYTHON" >/dev/null || { echo "skipped: no python3"; exit 77; }
bench=$VLT_SOURCE/scripts/bench
PYTHON=$("$PYTHON" -c 'import sys; print(sys.executable)')        # not a slow wrapper of it
export PYTHON

# ---- compare ----

# run_of FILE MACHINE ROWS: a canned file of scripts/bench.
run_of() { printf '{"machine": "%s", "rows": [%s]}\n' "$2" "$3" >"$1"; }
# part_row WHAT PART UNIT OURS MEMBERS: a row, with `,` between rows
part_row()
{
    printf '{"what":"%s","part":"%s","unit":"%s","ours":%s,"date":"2026-11-01","threads":2%s}' "$@"
}
step() { part_row "a step" step s "$1" "${2:-}"; }
product() { part_row "a product" kernels GFLOP/s "$1" "${2:-}"; }
compare() { expect "$1" "$2" "$bench" compare old.json new.json; }

run_of old.json "AMD, avx2" "$(step 1.0), $(product 100)"
run_of new.json "AMD, avx2" "$(step 1.0), $(product 100)"
compare 0 '^ok  *a step, 2 threads: 1.00 times the speed'
# At least 5 % are noise, in both directions of better: a time and a rate.
run_of new.json "AMD, avx2" "$(step 1.04), $(product 96)"
compare 0 '^ok  *a product'
run_of new.json "AMD, avx2" "$(step 1.1), $(product 100)"
compare 1 '^SLOWER  *a step.*0.91 times.*1.10 s, before 1.00 s; noise 5 %'
stdout_has '^ok  *a product'
run_of new.json "AMD, avx2" "$(step 1.0), $(product 90)"
compare 1 '^SLOWER  *a product.*0.90 times'
stdout_has '^ok  *a step'
run_of new.json "AMD, avx2" "$(step 0.5), $(product 200)"
compare 0 '^ok  *a step.*2.00 times'
# The noise of both runs counts.
run_of old.json "AMD, avx2" "$(step 1.0 ',"noise":0.08'), $(product 100)"
run_of new.json "AMD, avx2" "$(step 1.12 ',"noise":0.04'), $(product 100)"
compare 0 '^ok  *a step.*0.89 times.*noise 12 %'
run_of new.json "AMD, avx2" "$(step 1.2 ',"noise":0.04'), $(product 100)"
compare 1 '^SLOWER  *a step.*noise 12 %'
# A row may be missing only if its part did not run.
run_of new.json "AMD, avx2" "$(step 1.0)"
compare 0 '^not run  *kernels, 2 threads'
run_of new.json "AMD, avx2" "$(step 1.0), $(part_row "another product" kernels GFLOP/s 100 '')"
compare 1 '^MISSING  *a product, 2 threads: new.json ran the part `kernels`'
stdout_has '^new  *another product'
run_of new.json "AMD, avx2" "$(part_row "a clip" decode s 1 '')"
compare 1 'no row in common'
# Other threads are another row.
run_of new.json "AMD, avx2" "$(step 1.0), $(step 2.0 | sed 's/"threads":2/"threads":1/')"
compare 0 '^new  *a step, 1 threads'

run_of new.json "Intel, avx512" "$(step 1.0), $(product 100)"
compare 1 'old.json is of another machine: AMD, avx2; new.json is of Intel, avx512'
run_of new.json "AMD, avx2" "$(part_row "a step" step "CPU s" 1 '')"
compare 1 'row `a step`: s in the old file, CPU s in the new one'

# ---- damaged files ----
for row in "$(step 0)" "$(step NaN)" "$(step -1)" "$(step '"1"')"; do
    run_of new.json "AMD, avx2" "$row"
    compare 1 'new.json: row `a step`: `ours` is .*, not a number above 0'
done
run_of new.json "AMD, avx2" "$(part_row "a step" step hours 1 '')"
compare 1 'new.json: row `a step`: the unit `hours` is none of'
run_of new.json "AMD, avx2" "$(step 1 | sed 's/"threads"/"thread"/')"
compare 1 'new.json: row `a step` has no `threads`'
run_of new.json "AMD, avx2" "$(step 1), $(step 2)"
compare 1 'new.json: two rows have the same'
echo '{"rows": 1}' >new.json
compare 1 'new.json: no file of scripts/bench'
echo '{' >new.json
compare 1 'new.json: no JSON'
rm new.json
compare 1 'new.json: No such file'

# ---- keep ----
run_of old.json "AMD, avx2" "$(step 1.0 ',"brief":true'), $(product 100)"
run_of new.json "AMD, avx2" "$(step 0.5), $(part_row "a clip" decode s 1 '')"
expect 0 'old.json: 2 rows of new.json, 3 in all' "$bench" keep old.json new.json
holds old.json '"what": "a step".*"ours": 0.5.*"brief": true'
holds old.json '"what": "a product".*"ours": 100'
lacks old.json '"ours": 1\.0'
cp old.json before.json
run_of new.json "Intel, avx512" "$(step 0.5)"
expect 1 'of another machine' "$bench" keep old.json new.json
cmp -s old.json before.json || wrong "a refused file changed the rows"

# ---- pages ----
table=("$PYTHON" "$VLT_SOURCE/scripts/bench_table.py")
# page PARTS: a page with a table of kept.json that is out of date
page()
{
    printf 'before\n<!-- bench %s %s -->\nan old table\n<!-- bench end -->\nafter\n' \
        "$PWD/kept.json" "$1"
}
members=',"theirs":3,"peer":"PyTorch","memory":[1073741824,3221225472],"rate":90,"peak":100'
run_of kept.json "AMD, avx2" "$(step 1.5 "$members,\"brief\":true"), $(product 80 ',"peak":100')"
page "step kernels" >page.md
expect 1 'page.md: a table is not that of its JSON file' "${table[@]}" docs --check page.md
check "a page's table" 0 "${table[@]}" docs page.md
check "the table is there" 0 "${table[@]}" docs --check page.md
columns="| measurement | vlt | other | times as fast | peak memory, vlt / other |"
cat >want.md <<PAGE
before
<!-- bench $PWD/kept.json step kernels -->
AMD, avx2; measured 2026-11-01:

$columns machine's peak | our share | threads | date |
|---|---|---|---|---|---|---|---|---|
| a step | 1.50 s | PyTorch: 3.00 s | 2.00 | 1.00 / 3.00 GiB | 100 GFLOP/s | 90 % | 2 | 2026-11-01 |
| a product | 80.0 GFLOP/s | - | - | - | 100 GFLOP/s | 80 % | 2 | 2026-11-01 |
<!-- bench end -->
after
PAGE
check "the page" 0 diff want.md page.md
page brief >page.md
check "a brief table" 0 "${table[@]}" docs page.md
holds page.md '^| a step | 1.50 s | PyTorch: 3.00 s | 2.00 | 1.00 / 3.00 GiB |$'
lacks page.md 'a product'
sed -i 's/2.00/2.50/' page.md
expect 1 'run scripts/bench docs' "${table[@]}" docs --check page.md
page decode >page.md
expect 1 'kept.json has no row of decode' "${table[@]}" docs page.md
page step | sed '/bench end/d' >page.md
expect 1 'page.md: 1 tables begin' "${table[@]}" docs page.md
expect 0 '' "$bench" docs --check

# ---- every part gives rows ----

# The programs print numbers that a run could print.
mkdir -p build/tests bin none
program() { { echo '#!/bin/sh'; cat; } >"$1" && chmod +x "$1"; }
program build/tests/bench_media <<<'echo 0.5'
program build/tests/bench_loader <<<'echo 100.0 2.50'
program build/tests/random_dataset <<<'mkdir -p "$1" && echo value >"$1/shard-00000.lmdb"'
program build/tests/bench_dataset <<'SH'
mkdir -p "$1"
echo 'write              2.50 s  9 samples'
echo 'open              0.125 s  9 samples'
echo 'random reads        52.0 us each, 9.000 GB/s'
echo 'random reads        51.0 us each, 10.000 GB/s'
echo 'random reads        99.0 us each, 12.000 GB/s, checked'
echo 'memcpy           20.000 GB/s: a read is 0.50x'
SH
program build/tests/bench_kernels <<'SH'
echo 'avx2, oneDNN 9, 2 threads'
echo 'f32 blocks in the cache: the peak            1.00 ms   200.0 GF'
[ -z "$3" ] || exit 0
echo 'matmul f32 forward 1x2x3      0.01 ms   150.0 GF    5.00x of plain    1.50x of oneDNN'
echo 'attention f32 forward 8x1024x64  20.00 ms    80.0 GF    4.00x of plain'
SH
program build/tests/bench_device <<'SH'
echo 'a GPU, 1 device'
echo 'product 8192 x 8192 x 8192     1.000 ms    500.00 TFLOP/s  62.5%   first 9 ms'
echo 'rope    1.000 ms   1500.00 GB/s     75.0%   first 9 ms'
echo 'peak of products 800 TFLOP/s, of copies 2e+03 GB/s'
SH
program build/vtrain <<'SH'
while [ $# -gt 0 ]; do
    [ "$1" != --output_dir ] || mkdir -p "$2"
    [ "$1" != --output_dir ] || printf '{"step_s":9}\n{"step_s":0.25}\n{"step_s":0.5}\n' \
        >"$2/metrics.jsonl"
    shift
done
echo 'steps: 2, 1 an epoch, so 2 epochs; batch 4 x accumulation 1; 30 GFLOP a step' >&2
SH
for name in build/vprep build/vlat build/tests/plan_ranks bin/ffmpeg bin/xxh128sum; do
    program $name <<<'true'
done
for name in av torchcodec torch lmdb diffusers; do
    echo 'raise ImportError' >none/$name.py
done
export PATH=$PWD/bin:$PATH PYTHONPATH=$PWD/none BUILD_DIR=$PWD/build PREBUILT=1
export THREADS=2 ROUNDS=2 JSON=all.json SAMPLES=9

check "all parts of a CPU" 0 "$bench" decode clips dataset scale loader kernels step families
for part in decode clips dataset scale loader kernels step; do
    holds all.json "\"part\": \"$part\""
done
output_has 'torch is not installed for'
holds all.json '^{"machine": ".*, avx2",$'
# row NAME MEMBER...: one row has this name and these members.
row()
{
    grep -e "$1" all.json | grep -e "$2" | grep -q -e "$3" ||
        wrong "$*: $(grep -e "$1" all.json)"
}
row 'training step of the built-in DiT' '"ours": 0.25' '"rate": 120.0.*"peak": 200.0'
row 'clips of 33 frames.*"threads": 64' '"ours": 128.0' '"unit": "clips/CPU s"'
row 'matmul f32 forward 1x2x3' '"theirs": 100' '"peer": "oneDNN"'
row 'attention f32 forward' '"theirs": 20' '"peer": "plain C"'
row 'random reads of latents' '"ours": 10' '"theirs": 20.*"peak": 20'
row "vtrain's loader, means" '"ours": 2.5' '"unit": "CPU ms"'
row 'vlat verify of large latents, cold' '"unit": "GB/s"' '"theirs"'
stdout_has '^| training step of the built-in DiT.* | 0.250 s .*| 200 GFLOP/s | 60 % | 2 |'
expect 0 '^ok  *training step' "$bench" compare all.json all.json

check "the part gpu" 0 "$bench" gpu
holds all.json '^{"machine": "a GPU, 1 device",$'
row 'product 8192' '"ours": 500000' '"peak": 800000'
row 'rope, bf16' '"unit": "GB/s", "ours": 1500' '"peak": 2000'
stdout_has '| product 8192.* | 500 TFLOP/s | 800 TFLOP/s | 62 % |'

expect 2 'gpu runs alone' "$bench" gpu kernels
expect 2 'clip: expected decode clips' "$bench" clip
program build/tests/bench_media <<<'echo no frame >&2; exit 1'
expect 1 'bench_media.*status 1: no frame' "$bench" decode

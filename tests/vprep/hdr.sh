#!/usr/bin/env bash
# vprep --tonemap: HDR clips and stills become SDR by the curve that the flag names, which keys,
# records and the manifest have; SDR sources, and HDR without the flag, are as ever.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"

# source NAME TRANSFER PIXELS: a lossless clip of four frames.
source_of()
{
    ffmpeg -v error -y -f lavfi -i "testsrc2=s=96x64:r=8" -frames:v 4 -c:v ffv1 \
        -vf "format=$3,setparams=color_trc=$2:color_primaries=bt2020:colorspace=bt2020nc:range=tv" \
        "media/$1"
}
# keys DATASET: the path and the latent key of each record.
keys() { vlat list "$1" --json | sed 's/.*"path":"\([^"]*\)".*"latent_key":"\([^"]*\)".*/\1 \2/'; }
# same_keys A B N: the two datasets have N latent keys in common.
same_keys()
{
    local n
    n=$(comm -12 <(keys "$1" | sort) <(keys "$2" | sort) | wc -l)
    [ "$n" -eq "$3" ] || wrong "$1 and $2 have $n keys in common, not $3"
}
prep() { vprep --meta media/list.csv "${sampling[@]}" "$@"; }

mkdir media
source_of pq.mkv smpte2084 yuv420p10le
source_of hlg.mkv arib-std-b67 yuv420p10le
source_of sdr.mkv bt709 yuv420p
cat >media/list.csv <<'CSV'
file_path,text,type
sdr.mkv,one,video
pq.mkv,two,video
hlg.mkv,three,video
CSV

# ---- without the flag: as ever, and one warning with the remedy ----
expect 0 'warning: 2 of 3 sources are HDR .* the first is pq.mkv: give --tonemap hable' \
    prep --out none.lmdb
[ "$(grep -c HDR "$stderr")" -eq 1 ] || wrong 'more than one warning'
lacks none.lmdb/manifest.json tonemap
check "show" 0 vlat show none.lmdb 1 && stdout_lacks tonemap
expect 0 '0 encoded, 3 reused' prep --out none.lmdb --tonemap none
expect 0 'warning: 2 of 3 sources are HDR' prep --out dry.lmdb --dry_run

# ---- with it: other keys and pixels of the HDR clips alone ----
expect 0 '3 encoded' prep --out hable.lmdb --tonemap hable
stderr_lacks HDR
holds hable.lmdb/manifest.json '"tonemap": *"hable"'
same_keys none.lmdb hable.lmdb 1
check "show" 0 vlat show hable.lmdb 0 && stdout_lacks tonemap
for sample in 1 2; do
    check "show" 0 vlat show hable.lmdb $sample && stdout_has '"tonemap": *"hable"'
done
check verify 0 vlat verify hable.lmdb
expect 0 '0 encoded, 3 reused' prep --out hable.lmdb --tonemap hable
expect 0 '2 encoded, 1 reused' prep --out mobius.lmdb --tone_mapping mobius \
    --reuse hable.lmdb
same_keys none.lmdb mobius.lmdb 1 && same_keys hable.lmdb mobius.lmdb 1
expect 1 'tonemap' prep --out hable.lmdb

# the value and its key belong together: a plan that is replayed has the run's curve
expect 0 '3 encoded' prep --out replayed.lmdb --plan none.lmdb/plan.jsonl --tonemap hable
same_values hable.lmdb replayed.lmdb

# ---- a list cannot say whether a file is HDR, so that its file is opened ----
cat >media/trusted.csv <<'CSV'
file_path,text,type,width,height,frames,fps
sdr.mkv,one,video,96,64,4,8
pq.mkv,two,video,96,64,4,8
hlg.mkv,three,video,96,64,4,8
CSV
expect 0 '3 encoded' vprep --meta media/trusted.csv "${sampling[@]}" --trust_metadata \
    --out trusted.lmdb --tonemap hable
same_values hable.lmdb trusted.lmdb

# ---- a list without HDR: the flag changes no bit ----
sed -i '3,$d' media/list.csv
check "sdr" 0 prep --out a.lmdb && stderr_lacks HDR
check "sdr, hable" 0 prep --out b.lmdb --tonemap hable
same_root a.lmdb b.lmdb
same_values a.lmdb b.lmdb

expect 2 'tonemap' prep --out x.lmdb --tonemap filmic

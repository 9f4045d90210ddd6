#!/usr/bin/env bash
# vlat and vdecode run with one failing call at a time (lib/fault.c): a run ends with the
# undisturbed result and status 0, or with a message and status 1. By default 2 calls of each kind
# fail, one in each run; with VLT_FAULTS=N N calls do, with VLT_FAULTS=all every call. VLT_RULES has
# the kinds of calls and their errors.
. "$(dirname "$0")/../lib/exchange.sh"
. "$lib/fault.sh"
faults=${VLT_FAULTS:-2}
rules=${VLT_RULES:-memory:ENOMEM open:EMFILE read:EIO read:short write:ENOSPC write:short rename:EIO
    sync:EIO close:EIO mmap:ENOMEM thread:EAGAIN}

# places COUNT: prints the numbers of the calls to disturb among COUNT calls.
places()
{
    if [ "$faults" = all ] || [ "$1" -le "$faults" ]; then
        seq 1 "$1"
        return
    fi
    for ((i = 0; i < faults; i++)); do
        echo $((1 + (i + 1) * ($1 - 1) / (faults + 1)))
    done
}

# walk NAME OUT UNDISTURBED PROGRAM ARGUMENTS...: OUT is the path of the result, or "none" if the
# program prints it, and UNDISTURBED is the path of the expected result. Datasets are compared by
# their roots, other results by all files.
walk()
{
    local name=$1 out=$2 want=$3 counts kind action n all
    shift 3
    rm -rf "$out"
    VLT_FAULT_COUNT=$dir/counts fault '' "$@" >good 2>/dev/null ||
        { wrong "$name: failed undisturbed"; return; }
    counts=$(cat counts)
    rm -f counts
    for rule in $rules; do
        kind=${rule%:*} action=${rule#*:}
        [ "$kind" = memory ] && [ "${VLT_FAULT_MEMORY:-1}" = 0 ] && continue
        all=$(awk -v kind="$kind" '$1 == kind { n += $2 } END { print n + 0 }' <<<"$counts")
        for n in $(places "$all"); do
            [ "$n" -gt 0 ] || continue
            rm -rf "$out" "$out.part" "$out.part.lock"
            status=0
            timeout 300 env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" \
                LD_PRELOAD=$VLT_FAULT_LIB VLT_FAULT="$kind:$n:$action" "$@" \
                >got 2>errors || status=$?
            judge || wrong "$name, $kind:$n:$action: status $status, $(head -c 300 errors)"
        done
    done
}
# judge: succeeds if the disturbed run may end like this.
judge()
{
    case $name:$kind:$status in     # libarchive's writer of zips crashes (docs/tests.md)
        'export finetrainers:memory:139' | 'export ttt-video:memory:139' | \
            'export diffsynth:memory:139' | 'export diffusion-pipe:memory:139') return ;;
    esac
    [ $status -eq 0 ] || { [ $status -eq 1 ] && grep -q '[a-z]: ..' errors; return; }
    cmp -s got good || return 1
    [ "$out" = none ] && return
    if [ -e "$want/manifest.json" ] && [ -e "$want/shard-00000.lmdb" ]; then
        [ "$(root "$out")" = "$(root "$want")" ]
    else
        diff -r -x dataset.toml "$out" "$want" >/dev/null
    fi
}

vlat select made.lmdb 'sample < 6' --out small.lmdb >/dev/null 2>&1
vlat select made.lmdb 'sample < 5' --out smaller.lmdb >/dev/null 2>&1
for verb in info list 'list --json'; do
    walk "$verb" none none vlat $verb small.lmdb
done
walk show none none vlat show small.lmdb 1
walk diff none none vlat diff small.lmdb small.lmdb
vlat report small.lmdb --out want.html >/dev/null 2>&1
walk report got.html want.html vlat report small.lmdb --out got.html
make w.lmdb wan2.1 mode f32 bf16
make fine.lmdb wan2.1 moments bf16 bf16
make ttt.lmdb cogvideox moments bf16 bf16
vlat split w.lmdb --by bucket --out w >/dev/null 2>&1
make cog.lmdb cogvideox sample bf16 bf16
vlat split cog.lmdb --by bucket --out cog >/dev/null 2>&1
formats='safetensors:small.lmdb webdataset:small.lmdb musubi:w.lmdb diffsynth:w.lmdb causvid:w-3x4x6
         finetrainers:fine.lmdb ttt-video:ttt.lmdb cogvideo:cog-3x4x6'
[ ! -x "$VLT_BUILD/tests/dpipe_cache" ] || formats="$formats diffusion-pipe:w.lmdb"
for pair in $formats; do
    format=${pair%:*} set=${pair#*:} empty=
    case $format in finetrainers | ttt-video | cogvideo) empty='--empty zeros' ;; esac
    vlat export $set --to $format --out $format.want >/dev/null 2>&1
    walk "export $format" $format.got $format.want vlat export $set --to $format --out $format.got
    from=$format.want
    [ $format = cogvideo ] && from=$format.want/cache/video_latent/cogvideox-t2v/9x32x48
    [ $format = diffusion-pipe ] && from=$(ls -d $format.want/*/cache/wan | head -1) &&
        empty='--empty zeros' && continue
    vlat import $from --from $format --out $format.lmdb $empty >/dev/null 2>&1
    walk "import $format" $format.back $format.lmdb \
        vlat import $from --from $format --out $format.back $empty
done
# vdecode decodes a still of the built-in codec.
if command -v vdecode >/dev/null; then
    latents()
    {
        local head="{\"latents\":{\"dtype\":\"F32\",\"shape\":[$1,1,4,4],"
        head+="\"data_offsets\":[0,$(($1 * 64))]}}"
        printf "\\x$(printf %02x ${#head})\0\0\0\0\0\0\0%s" "$head"
        head -c $(($1 * 64)) /dev/zero
    }
    latents 1 >still.safetensors
    expect 1 'decodes \[[0-9]*,f' vdecode still.safetensors --out x
    channels=$(sed 's/.*decodes \[\([0-9]*\),f.*/\1/' "$log")
    latents "$channels" >still.safetensors
    for format in png jpg mp4; do
        vdecode still.safetensors --format $format --out d.$format >/dev/null 2>&1
        walk "vdecode $format" d.got d.$format \
            vdecode still.safetensors --format $format --out d.got
    done
fi

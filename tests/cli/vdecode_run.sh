#!/usr/bin/env bash
# vdecode on a latents file made by hand: what cannot be decoded is an error that names it, and no picture.
set -u
vdecode=$VLT_BUILD/vdecode
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
bad=0

# latents FILE CHANNELS VALUE: [CHANNELS,1,2,2] of zeros but for the last, VALUE's four bytes in printf's escapes
latents()
{
    local n=$(($2 * 4))
    local head="{\"latents\":{\"dtype\":\"F32\",\"shape\":[$2,1,2,2],\"data_offsets\":[0,$((4 * n))]}}"
    {
        printf "\\x$(printf %02x ${#head})\0\0\0\0\0\0\0%s" "$head"
        head -c $((4 * n - 4)) /dev/zero
        printf "$3"
    } >"$1"
}
# expect STATUS PATTERN ARGUMENTS...
expect()
{
    local want=$1 pattern=$2 status
    shift 2
    "$vdecode" "$@" >got 2>&1
    status=$?
    [ $status -eq "$want" ] && grep -q -- "$pattern" got || { echo "vdecode $*: $status, $(cat got)"; bad=1; }
}

latents few.safetensors 1 '\0\0\0\0'
expect 1 'decodes \[[0-9]*,f,h,w\]' few.safetensors --out x
channels=$(sed 's/.*decodes \[\([0-9]*\),f.*/\1/' got)
latents good.safetensors "$channels" '\0\0\200\077'
expect 0 '1 decoded' good.safetensors --out x
[ -s x/good.png ] || { echo 'no picture'; bad=1; }
latents nan.safetensors "$channels" '\0\0\300\177'
expect 1 'nan.safetensors: latents: 1 of [0-9]* values are NaN or infinite' nan.safetensors --out x
latents inf.safetensors "$channels" '\0\0\200\377'
expect 1 'inf.safetensors: latents: 1 of' inf.safetensors --out x
[ ! -e x/nan.png ] && [ ! -e x/inf.png ] || { echo 'a picture of NaN'; bad=1; }
exit $bad

#!/usr/bin/env bash
# vdecode decodes a file of latents; it refuses latents with other channels or with NaNs and
# infinities, and writes no picture of these.
. "$(dirname "$0")/../lib/check.sh"

# latents FILE CHANNELS VALUE: writes latents [CHANNELS,1,2,2] of zeros; the last element has the
# four bytes VALUE, which are written in printf's escapes.
latents()
{
    local n=$(($2 * 4))
    local head="{\"latents\":{\"dtype\":\"F32\",\"shape\":[$2,1,2,2],"
    head+="\"data_offsets\":[0,$((4 * n))]}}"
    {
        printf "\\x$(printf %02x ${#head})\0\0\0\0\0\0\0%s" "$head"
        head -c $((4 * n - 4)) /dev/zero
        printf "$3"
    } >"$1"
}

latents few.safetensors 1 '\0\0\0\0'
expect 1 'decodes \[[0-9]*,f,h,w\]' vdecode few.safetensors --out x
channels=$(sed 's/.*decodes \[\([0-9]*\),f.*/\1/' "$log")
latents good.safetensors "$channels" '\0\0\200\077'
expect 0 '1 decoded' vdecode good.safetensors --out x
[ -s x/good.png ] || wrong 'no picture'
. "$lib/fault.sh"
cp good.safetensors next.safetensors
expect 138 '^vdecode: SIGUSR1: stopped' fault 'open@good.safetensors:1:run' env \
    VLT_FAULT_RUN='kill -USR1 $PPID' vdecode good.safetensors next.safetensors --out stopped
[ -s stopped/good.png ] || wrong "the picture in work is lost"
absent stopped/next.png
latents nan.safetensors "$channels" '\0\0\300\177'
expect 1 'nan.safetensors: latents: 1 of [0-9]* values are NaN or infinite' vdecode \
    nan.safetensors --out x
latents inf.safetensors "$channels" '\0\0\200\377'
expect 1 'inf.safetensors: latents: 1 of' vdecode inf.safetensors --out x
[ ! -e x/nan.png ] && [ ! -e x/inf.png ] || wrong 'a picture of NaNs was written'

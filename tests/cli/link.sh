#!/usr/bin/env bash
# vtrain and vlat contain no decoder or encoder of media, and link no library of them.
. "$(dirname "$0")/../lib/check.sh"
# defined FILE: prints the external symbols that the file defines.
defined() { nm --defined-only --extern-only "$1" 2>/dev/null | awk 'NF == 3 { print $3 }' |
    LC_ALL=C sort -u; }
find "$VLT_BUILD" -name libvlt_precompute.a >archive
defined "$(cat archive)" >precompute
for program in vtrain vlat; do
    check "$program" 0 ldd "$VLT_BUILD/$program"
    stdout_lacks 'libav\|libsw\|zimg\|jpeg\|libx26\|libvpx\|utf8proc'
    code=$(LC_ALL=C comm -12 precompute <(defined "$VLT_BUILD/$program") | sed -n 1,20p)
    [ -z "$code" ] || wrong "$program contains symbols of precompute:" $code
done
# The same checks must find the libraries and symbols of vprep.
check vprep 0 ldd "$VLT_BUILD/vprep"
stdout_has libavcodec
[ "$(LC_ALL=C comm -12 precompute <(defined "$VLT_BUILD/vprep") | wc -l)" -gt 50 ] ||
    wrong "no symbols of $(cat archive) were found in vprep"

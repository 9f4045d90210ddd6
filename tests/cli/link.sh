#!/usr/bin/env bash
# vtrain and vlat must start without any decoder or encoder: neither linked nor inside.
set -euo pipefail
build=${VLT_BUILD:?}
bad=0
for program in vtrain vlat; do
    libraries=$(ldd "$build/$program" | awk '{ print $1 }')
    if grep -E 'libav|libsw|jpeg|libx26|libvpx|pcre2|utf8proc' <<<"$libraries"; then
        echo "$program links the libraries above"
        bad=1
    fi
    if nm "$build/$program" 2>/dev/null | grep -E ' [TDR] (media_|vae_|text_builtin|tok_|tokenizer_|resize_|vprep_)'; then
        echo "$program holds the code above"
        bad=1
    fi
done
# the check itself must be able to fail
[[ $(ldd "$build/vprep") == *libavcodec* ]] || { echo "vprep does not link libavcodec: this test sees nothing"; bad=1; }
exit $bad

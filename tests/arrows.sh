#!/usr/bin/env bash
# Who may include whom: common <- formats, buckets <- precompute, train. Prints each breach.
set -euo pipefail
root=${VLT_SOURCE:-$(cd "$(dirname "$0")/.." && pwd)}
cd "$root"
bad=0

# allowed FOLDER "FOLDER ..." : what sources of the first may include
allowed() {
    local folder=$1 may=$2 file line included
    while IFS=: read -r file line; do
        included=$(sed -E 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"([^/"]+)\/.*/\1/' <<<"$line")
        case " $may " in
        *" $included "*) ;;
        *) echo "$file includes from $included/, which $folder/ must not: $line"; bad=1 ;;
        esac
    done < <(grep -rE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$folder" --include='*.[ch]' || true)
}

allowed common "common"
allowed formats "common formats"
allowed buckets "common buckets"
allowed precompute "common formats buckets precompute"
allowed train "common formats buckets train"

# libraries that only some folders may see
only() {
    local pattern=$1 folders=$2 file
    while IFS= read -r file; do
        case " $folders " in
        *" ${file%%/*} "*) ;;
        *) echo "$file includes <$pattern>, which only $folders may"; bad=1 ;;
        esac
    done < <(grep -rlE "^[[:space:]]*#[[:space:]]*include[[:space:]]*<($pattern)" common formats buckets precompute train \
                  --include='*.[ch]' || true)
}
only 'libav[a-z]+/|libsw[a-z]+/|turbojpeg\.h|pcre2\.h|utf8proc\.h' precompute
only 'lmdb\.h|csv\.h|sqlite3\.h' formats
only 'oneapi/|dnnl' common
only 'mpi\.h' common
exit $bad

# exchange.sh - what the tests of vlat export and import share: made.lmdb in the folder that check.sh made.
# Sourced.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
cp -r "$VLT_BUILD/tests/made.lmdb" made.lmdb

make() { exchange_dataset make "$@"; }
same() { exchange_dataset same "$1" "$2" || wrong "$1 and $2 differ"; }
# Two exports hold the same; only their notes say another root.
alike() { diff -r -x vlat-export.json "$1" "$2"; }
manifest() { holds "$1/manifest.json" "$2"; }

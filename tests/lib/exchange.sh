# exchange.sh - the common part of the tests of vlat export and import, which source this file. It
# copies the dataset made.lmdb into check.sh's folder.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
cp -r "$VLT_BUILD/tests/made.lmdb" made.lmdb

make() { exchange_dataset make "$@"; }
same() { exchange_dataset same "$1" "$2" || wrong "$1 and $2 differ"; }
# alike A B: two exports are equal, apart from the root that their vlat-export.json names.
alike() { diff -r -x vlat-export.json "$1" "$2"; }
manifest() { holds "$1/manifest.json" "$2"; }

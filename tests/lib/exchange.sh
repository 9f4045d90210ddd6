# exchange.sh - what the tests of vlat export and import share: a folder to work in, and checks that set
# bad=1. Sourced.
set -u
vlat="$VLT_BUILD/vlat" tool="$VLT_BUILD/tests/xport_dataset"
data=$(mktemp -d "${TMPDIR:-/tmp}/vlat-xport-XXXXXX")
trap 'rm -rf "$data"' EXIT
cp -r "$VLT_BUILD/tests/made.lmdb" "$data/made.lmdb"
cd "$data" || exit 1
bad=0

# expect STATUS PATTERN ARGUMENTS...: the exit status, and a pattern in stdout and stderr together
expect()
{
    want=$1 pattern=$2
    shift 2
    got=$("$vlat" "$@" 2>&1)
    status=$?
    if [ $status -ne "$want" ] || ! printf '%s\n' "$got" | grep -q -- "$pattern"; then
        printf 'vlat %s: status %d, expected %d and "%s" in\n%s\n' "$*" $status "$want" "$pattern" "$got"
        bad=1
    fi
}
make() { "$tool" make "$@" || bad=1; }
same() { "$tool" same "$1" "$2" || { echo "$1 and $2 differ"; bad=1; }; }
# Two exports hold the same; only their notes say another root.
alike() { diff -r -x vlat-export.json "$1" "$2"; }
root() { sed -n 's/.*"root": "\([0-9a-f]*\)".*/\1/p' "$1/manifest.json"; }
same_root() { [ -n "$(root "$1")" ] && [ "$(root "$1")" = "$(root "$2")" ] || { echo "$1 and $2: other roots"; bad=1; }; }
says() { grep -q "$2" "$1/manifest.json" || { echo "$1: no $2 in the manifest"; bad=1; }; }

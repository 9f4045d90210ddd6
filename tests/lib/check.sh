# check.sh - the common part of the tests that are shell scripts, which source it first.
#
# The file makes an empty folder, $dir, the working folder, which is removed at the end, and puts
# vlt's programs and those of the tests on the PATH. A failed check prints its line number and the
# output of the last command, and the script continues: it reports all failures, and then ends with
# status 1. A command that fails outside of a check (where `set -e` would end the script) is
# reported too. PATTERN is a basic regular expression.
#
#   check NAME STATUS COMMAND...       COMMAND ends with STATUS, or with one of several ('0 3'); its
#                                      output is left in the files $stdout, $stderr and (both) $log
#   expect STATUS PATTERN COMMAND...   the same, and its output has a line with PATTERN, unless
#                                      PATTERN is ''
#   stdout_has, stderr_has PATTERN     the last command's stdout, or stderr, has such a line
#   output_has PATTERN                 one of the two has such a line
#   stdout_lacks, stderr_lacks, output_lacks PATTERN      there is no such line
#   holds, lacks FILE PATTERN          a file has such a line, or has none
#   absent FILE...                     none of the files exists
#   wrong TEXT...                      reports any other failure
#   need COMMAND...                    later checks need this command: its failure ends the test
set -uE -o pipefail
VLT_BUILD=$(cd "${VLT_BUILD:?}" && pwd) || exit 1
lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH=$VLT_BUILD:$VLT_BUILD/tests:$PATH
top=$(mktemp -d "${TMPDIR:-/tmp}/vlt-test-XXXXXX") || exit 1
dir=$top/dir stdout=$top/stdout stderr=$top/stderr log=$top/log
mkdir "$dir" && cd "$dir" && : >"$log" || exit 1
export OMPI_MCA_orte_tmpdir_base=$top      # else tests share a folder, which each may remove
trap 'end_of_test $?' EXIT
trap 'wrong "failed: $BASH_COMMAND"' ERR

end_of_test()
{
    local status=$1
    [ "$status" -ne 0 ] || [ ! -e "$top/wrong" ] || status=1
    rm -rf "$top"
    exit "$status"
}

wrong()
{
    {
        echo "${0##*/}: line ${BASH_LINENO[-2]}: $*"
        [ "$top/wrong" -nt "$log" ] || tail -n 40 "$log" | sed 's/^/    /'  # once for each command
    } >&2
    : >"$top/wrong"
}

check()
{
    local name=$1 want=$2
    shift 2
    status=0
    "$@" >"$stdout" 2>"$stderr" || status=$?
    cat "$stdout" "$stderr" >"$log"
    [[ " $want " == *" $status "* ]] || wrong "$name: status $status, expected $want"
}
need() { check "$*" 0 "$@"; [ "$status" -eq 0 ] || exit 1; }
expect()
{
    local want=$1 pattern=$2
    shift 2
    check "$*" "$want" "$@"
    [ -z "$pattern" ] || grep -q -e "$pattern" "$log" || wrong "$*: expected \"$pattern\""
}
stderr_has() { grep -q -e "$1" "$stderr" || wrong "expected \"$1\" in stderr"; }
stdout_has() { grep -q -e "$1" "$stdout" || wrong "expected \"$1\" in stdout"; }
output_has() { grep -q -e "$1" "$log" || wrong "expected \"$1\""; }
stderr_lacks() { ! grep -q -e "$1" "$stderr" || wrong "unexpected \"$1\" in stderr"; }
stdout_lacks() { ! grep -q -e "$1" "$stdout" || wrong "unexpected \"$1\" in stdout"; }
output_lacks() { ! grep -q -e "$1" "$log" || wrong "unexpected \"$1\""; }
holds() { grep -q -e "$2" "$1" || wrong "$1: expected \"$2\" in: $(head -c 2000 "$1")"; }
lacks() { [ -e "$1" ] && ! grep -q -e "$2" "$1" || wrong "$1: unexpected \"$2\", or no such file"; }
absent() { local f; for f; do [ ! -e "$f" ] || wrong "$f exists"; done; }

# ---- datasets ----
root() { sed -n 's/.*"root": "\([0-9a-f]*\)".*/\1/p' "$1/manifest.json"; }
same_root() { [ -n "$(root "$1")" ] && [ "$(root "$1")" = "$(root "$2")" ] ||
    wrong "$1 and $2: the roots differ"; }
# same_files A B: two datasets have the same shards, byte for byte.
same_files()
{
    local a b
    a=$(cd "$1" && sha256sum shard-* text-*) && b=$(cd "$2" && sha256sum shard-* text-*) &&
        [ "$a" = "$b" ] || wrong "$1 and $2: the shards differ: $(diff <(echo "$a") <(echo "$b"))"
}
count() { vlat list "$1" | wc -l; }
# whole DATASET: the dataset is finished and undamaged.
whole() { grep -q '"complete": *true' "$1/manifest.json" 2>/dev/null &&
    vlat verify "$1" >/dev/null 2>&1; }
not_done() { ! grep -qs '"complete": *true' "$1/manifest.json" ||
    wrong "$1 is marked complete"; }

# ---- damage ----
# poke FILE OFFSET BYTES: overwrites bytes of a file with BYTES, which are written in printf's
# escapes.
poke() { printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
# flip FILE OFFSET: inverts one bit of the byte at OFFSET.
flip() { poke "$1" "$2" "$(printf '\\%03o' $(($(od -An -tu1 -j "$2" -N 1 "$1") ^ 16)))"; }
# hurt_value DATASET: damages bytes of the first shard's first value.
hurt_value()
{
    poke "$1/shard-00000.lmdb" $(($(grep -abo '"xxh3"' "$1/shard-00000.lmdb" |
        sed -n '1s/:.*//p') + 200)) '\xff\xff\xff'
}

have_ranks() { [ "${VLT_MPI:-}" = ON ] && command -v mpirun >/dev/null; }
# fresh FROM TO: TO becomes a copy of FROM.
fresh() { rm -rf "$2" && cp -r "$1" "$2"; }
# gone NAME FILE...: processes whose ids the files have are gone, or go within a minute: mpirun
# ends before the ranks that it kills. NAME is put in front of what is wrong.
gone()
{
    local name=$1 pid i
    shift
    for pid in "$@"; do
        for ((i = 0; i < 600; i++)); do
            [ -n "$(pgrep -r D,R,S,T -F "$pid")" ] || break
            sleep 0.1
        done
        ((i < 600)) || wrong "$name: $pid lives"
    done
}

# vtrain.sh - what the scripts that disturb vtrain share: a folder with a small dataset, runs of a
# small model, and checks that set bad=1. Sourced.
set -u
. "$(dirname "$0")/../lib/fault.sh"
source=$(cd "$(dirname "$0")" && pwd)
vtrain="$VLT_BUILD/vtrain" vlat="$VLT_BUILD/vlat"
dir=$(mktemp -d "${TMPDIR:-/tmp}/vlt-train-XXXXXX")
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
"$VLT_BUILD/tests/make_toy" "$dir/set.lmdb" >/dev/null 2>&1 || { echo "no dataset"; exit 1; }
bad=0
small=(--latents "$dir/set.lmdb" --train_batch_size 2 --seed 5 --threads 1 --workers 1)
model=(--dit_width 32 --dit_layers 1 --dit_heads 2)

wrong() { echo "$*"; bad=1; }

# expect STATUS PATTERN COMMAND...: exit status, and a pattern in stdout and stderr together
expect()
{
    local want=$1 pattern=$2 status
    shift 2
    "$@" >got 2>&1
    status=$?
    { [ $status -eq "$want" ] && grep -q -e "$pattern" got; } ||
        wrong "$*: status $status, expected $want and \"$pattern\" in: $(cat got)"
}

# flip FILE OFFSET: one bit of a byte
flip()
{
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1") || return 1
    printf "$(printf '\\%03o' $((byte ^ 16)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# The run's weights and state are those of another.
same_end() { cmp -s "$1/optimizer.safetensors" "$2/optimizer.safetensors"; }

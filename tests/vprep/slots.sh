#!/usr/bin/env bash
# Text encoders' slots with rules of their own (tests/fixtures/slots_family.c): pooled only, and in a
# template; through vprep, vlat and vtrain.
set -euo pipefail
. "$(dirname "$0")/../lib/media.sh"
vprep=$VLT_BUILD/vprep slots=$VLT_BUILD/tests/vprep_slots vlat=$VLT_BUILD/vlat vtrain=$VLT_BUILD/vtrain
dump=$VLT_BUILD/tests/dump_dataset
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

check() { # check WHAT STATUS command...
    local what=$1 want=$2 got=0
    shift 2
    "$@" >"$dir/stdout" 2>"$dir/stderr" || got=$?
    [ "$got" -eq "$want" ] || { echo "$what: exit status $got, expected $want"; cat "$dir/stderr"; exit 1; }
}
says() { grep -q -- "$1" "$dir/stderr" || { echo "expected \"$1\" in:"; cat "$dir/stderr"; exit 1; }; }
has() { grep -q -- "$1" "$dir/three/manifest.json" || { echo "expected $1 in:"; cat "$dir/three/manifest.json"; exit 1; }; }

small_set "$dir/media" 4                     # 3 clips, 1 still
echo '[{"prompt": "a disc", "negative_prompt": "mud"}]' >"$dir/prompts.json"
meta=(--meta "$dir/media/metadata.json" "${sampling[@]}" --validation_prompts "$dir/prompts.json")

check "one slot" 0 "$vprep" "${meta[@]}" --out "$dir/one"
check "three slots" 0 "$slots" "${meta[@]}" --out "$dir/three" --trace_dir "$dir/trace"
check verify 0 "$vlat" verify "$dir/three"
has '"slot":"text_encoder_2","class":"Letters"' && has '"max_length":5,"width":6' && has '"max_length":32,"width":256'

# ---- the usual slot's keys and bytes are what they were; each other slot has as many texts ----
"$dump" "$dir/one" | sort -u >"$dir/one.txt"
"$dump" "$dir/three" | sort -u >"$dir/three.txt"
texts() { grep -c '^text ' "$1" || true; }
n=$(texts "$dir/one.txt")
[ "$n" -gt 3 ] || { echo "$n texts"; head "$dir/one.txt"; exit 1; }
[ "$(texts "$dir/three.txt")" -eq $((3 * n)) ] || { echo "not three times $n texts"; exit 1; }
lost=$(comm -23 <(grep '^text ' "$dir/one.txt") <(grep '^text ' "$dir/three.txt"))
[ -z "$lost" ] || { echo "texts of the usual slot are others: $lost"; exit 1; }

# ---- what is stored and traced: the slot that is pooled only has no states of tokens ----
trace=$dir/trace/000000000000-000.safetensors
for name in prompt_embeds_1 pooled_2 input_ids_2 prompt_embeds_3; do
    head -c 6000 "$trace" | grep -qa "\"$name\"" || { echo "no $name in the trace"; exit 1; }
done
! head -c 6000 "$trace" | grep -qa '"prompt_embeds_2"' || { echo "states of the pooled slot"; exit 1; }
check again 0 "$slots" "${meta[@]}" --out "$dir/three" && says "0 encoded, 4 reused"

# ---- vtrain reads all three; a transformer that reads the tokens of a pooled slot is refused ----
train=(--dit_width 32 --dit_layers 1 --dit_heads 2 --max_train_steps 2 --train_batch_size 1 --threads 1)
check train 0 "$vtrain" --latents "$dir/three" --output_dir "$dir/run" "${train[@]}"
echo "all as expected"

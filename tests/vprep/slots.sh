#!/usr/bin/env bash
# vprep, vlat and vtrain with text slots that have rules of their own (tests/fixtures/
# slots_family.c): a pooled state alone, and prompts in a template.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"

has() { holds three/manifest.json "$1"; }

small_set "$dir/media" 4                     # 3 clips, 1 still
echo '[{"prompt": "a disc", "negative_prompt": "mud"}]' >"$dir/prompts.json"
meta=(--meta "$dir/media/metadata.json" "${sampling[@]}" --validation_prompts "$dir/prompts.json")

check "one slot" 0 vprep "${meta[@]}" --out "$dir/one"
check "three slots" 0 vprep_slots "${meta[@]}" --out "$dir/three" --trace_dir "$dir/trace"
check verify 0 vlat verify "$dir/three"
has '"slot":"text_encoder_2","class":"Letters"' && has '"max_length":5,"width":6' &&
    has '"max_length":32,"width":256'

# ---- the first slot has the keys and bytes of a dataset with one slot; each other slot has as many
# texts ----
dump_dataset "$dir/one" | sort -u >"$dir/one.txt"
dump_dataset "$dir/three" | sort -u >"$dir/three.txt"
texts() { grep -c '^text ' "$1" || true; }
n=$(texts "$dir/one.txt")
[ "$n" -gt 3 ] || wrong "$n texts: $(head "$dir/one.txt")"
[ "$(texts "$dir/three.txt")" -eq $((3 * n)) ] || wrong "not three times $n texts"
lost=$(comm -23 <(grep '^text ' "$dir/one.txt") <(grep '^text ' "$dir/three.txt"))
[ -z "$lost" ] || wrong "texts of the first slot changed: $lost"

# ---- a pooled-only slot stores and traces no states of tokens ----
trace=$dir/trace/000000000000-000.safetensors
for name in prompt_embeds_1 pooled_2 input_ids_2 prompt_embeds_3; do
    head -c 6000 "$trace" | grep -qa "\"$name\"" || wrong "no $name in the trace"
done
! head -c 6000 "$trace" | grep -qa '"prompt_embeds_2"' || wrong "states of the pooled slot"
check again 0 vprep_slots "${meta[@]}" --out "$dir/three" && stderr_has "0 encoded, 4 reused"

# ---- vtrain reads all three slots; a transformer that reads tokens of a pooled slot is refused
# ----
train=(--dit_width 32 --dit_layers 1 --dit_heads 2 --max_train_steps 2 --train_batch_size 1 \
    --threads 1)
check train 0 vtrain --latents "$dir/three" --output_dir "$dir/run" "${train[@]}"

# ---- a text that fails in a batch drops its own row alone ----
names=(clip-0.mp4 clip-1.mp4 clip-2.mp4 still-3.png)
for i in 0 1 2 3; do
    word=word
    [ $i -ne 1 ] || word=unspeakable
    printf '{"file_path": "%s", "text": "%s number %d"}\n' "${names[i]}" $word $i
done >"$dir/media/picky.jsonl"
check "a text that fails" 3 vprep_slots --meta "$dir/media/picky.jsonl" "${sampling[@]}" \
    --out "$dir/picky"
[ "$(wc -l <"$dir/picky/errors.jsonl")" -eq 1 ] && holds picky/errors.jsonl '"row":2' &&
    holds picky/errors.jsonl 'unspeakable number 1'
check "the other rows" 0 vlat verify "$dir/picky" && stdout_has "3 samples"

#!/usr/bin/env bash
# Captions as other trainers word them: a caption a line, trigger words, texts in front and behind,
# and variants with shuffled and dropped tags.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"

# words OUT LIST FLAGS...: encodes the list.
words() { check "$1" "${want:-0}" vprep --meta "$2" "${sampling[@]}" --out "$1" "${@:3}"; }
# texts OUT: the captions of the first sample, a line each.
texts() { vlat list "$1" --json | head -1 | grep -o '"text":"[^"]*"' |
    sed 's/"text":"\(.*\)"/\1/'; }
# are OUT TEXT...: the first sample has these captions.
are() {
    local found
    found=$(texts "$1")
    [ "$found" = "$(printf '%s\n' "${@:2}")" ] || wrong "$1: captions: $found"
}

small_set media 1
printf 'a red lake\n\n  a blue lake \r\n' >media/clip-0.txt
rm media/metadata.json

# ---- several captions a clip ----
words whole media
are whole 'a red lake\n\n  a blue lake'
words lines media --caption_lines
are lines 'a red lake' 'a blue lake'
output_has 'captions: 1 of 1 samples have one; from .txt: 1$'
output_has '3 of 3 prompts encoded'
tar -C media -cf media.tar clip-0.mp4 clip-0.txt
words tar media.tar --caption_lines
are tar 'a red lake' 'a blue lake'
mkdir list && cp media/clip-0.mp4 list
echo '{"clip-0.mp4": ["one", "two", "one"]}' >list/captions.json
words listed list
are listed one two one
output_has '3 of 4 prompts encoded'
for i in lines listed; do check "verify $i" 0 vlat verify $i; done
check merge 0 vlat merge lines tar --out merged
are merged 'a red lake' 'a blue lake'

# ---- texts in front and behind, and trigger words ----
rows='{"file_path": "clip-0.mp4", "text": "a photo of [trigger], red"}'
echo "$rows" >media/one.jsonl
words ends media/one.jsonl --caption_prefix 'film, ' --caption_suffix 'end'
are ends 'film, a photo of [trigger], red end'
words token media/one.jsonl --id_token BW_STYLE
are token 'BW_STYLE a photo of [trigger], red'
words trigger media/one.jsonl --trigger_word ohwx
are trigger 'a photo of ohwx, red'
echo '{"file_path": "clip-0.mp4", "text": "red", "text_2": "a ohwx lake"}' >media/two.jsonl
echo '{"prompt": "the [trigger] here"}' >media/prompts.jsonl
words front media/two.jsonl --trigger_word ohwx --validation_prompts media/prompts.jsonl
are front 'ohwx red' 'a ohwx lake'
check prompts 0 vlat list front --json
strings -n 4 front/text-00000.lmdb | grep -q 'the ohwx here' ||
    wrong "the prompt has no trigger word"
# A caption that does not change keeps its text: nothing is encoded again.
words front media/two.jsonl --trigger_word ohwx
output_has '0 encoded, 1 reused'
words front media/two.jsonl --trigger_word ohwx2
output_has '2 of 3 prompts encoded'

# ---- tags ----
echo '{"file_path": "clip-0.mp4", "text": "me, a, b, c, d, e"}' >media/tags.jsonl
words tags media/tags.jsonl --shuffle_caption --keep_tokens 1 --caption_variants 6
texts tags >of-tags
[ "$(wc -l <of-tags)" = 6 ] || wrong "not six variants: $(cat of-tags)"
[ "$(head -1 of-tags)" = 'me, a, b, c, d, e' ] || wrong "the first variant: $(head -1 of-tags)"
[ "$(sort -u of-tags | wc -l)" -gt 3 ] || wrong "not shuffled"
while read -r line; do
    [[ $line == me,* ]] && [ "$(tr -d ', \n' <<<"$line" | fold -w1 | sort | tr -d '\n')" \
        = abcdeem ] ||
        wrong "$line"
done <of-tags
words again media/tags.jsonl --shuffle_caption --keep_tokens 1 --caption_variants 6
same_files tags again
words seeded media/tags.jsonl --shuffle_caption --keep_tokens 1 --caption_variants 6 --seed 5
[ "$(texts seeded)" != "$(cat of-tags)" ] || wrong "--seed has no effect"
# More variants keep the first ones.
words more media/tags.jsonl --shuffle_caption --keep_tokens 1 --caption_variants 8
[ "$(texts more | head -6)" = "$(cat of-tags)" ] || wrong "other variants: $(texts more)"
words usual media/tags.jsonl --caption_tag_dropout_rate 0.5 --caption_prefix 'new,' --keep_tokens 2
[ "$(texts usual | wc -l)" = 10 ] || wrong "not ten variants"
[ "$(texts usual | grep -c '^new, me')" = 10 ] || wrong "a kept tag is dropped: $(texts usual)"
[ "$(texts usual | awk '{ n += NF - 2 } END { print (n > 15 && n < 45) }')" = 1 ] ||
    wrong "not half of the tags are dropped: $(texts usual)"
echo '{"file_path": "clip-0.mp4", "text": "x, y ||| a;;b, c ||| z"}' >media/kept.jsonl
words kept media/kept.jsonl --shuffle_caption --keep_tokens_separator '|||' \
    --secondary_separator ';;' --caption_variants 8
[ "$(texts kept | sort -u)" = "$(printf 'x, y, a,b, c, z\nx, y, c, a,b, z')" ] ||
    wrong "kept: $(texts kept)"
echo '{"file_path": "clip-0.mp4", "text": "a {red|blue} {{x}} {lake}"}' >media/wild.jsonl
words wild media/wild.jsonl --enable_wildcard --caption_variants 12
[ "$(texts wild | sort -u)" = "$(printf 'a blue {x} lake\na red {x} lake')" ] ||
    wrong "wild: $(texts wild)"
# A caption of one tag has one text.
echo '{"file_path": "clip-0.mp4", "text": "alone"}' >media/alone.jsonl
words alone media/alone.jsonl --shuffle_caption
are alone alone

# ---- flags that do not go together ----
refused() { expect 2 "$1" vprep --meta media/one.jsonl --out no "${@:2}"; absent no; }
refused 'keep_tokens says which tags are shuffled or dropped: give --shuffle_caption' \
    --keep_tokens 1
refused 'the variants would be equal: give' --caption_variants 4
refused 'give 2 or more' --shuffle_caption --caption_variants 1
echo '{"file_path": "clip-0.mp4", "text_chunks": ["a", "b"]}' >media/chunks.jsonl
expect 2 'row 1, clip-0.mp4: text_chunks: captions of segments are taken' vprep \
    --meta media/chunks.jsonl --out no --trigger_word x

# ---- training draws one of a clip's captions at each visit, the same ones however it runs ----
small_set many 3
sed -i 's/"text": "picture/"text": "a, b, c, d, picture/' many/metadata.json
words drawn many/metadata.json --shuffle_caption --caption_variants 8
words first many/metadata.json
toy=(--latents drawn --dit_width 32 --dit_layers 1 --dit_heads 2 --threads 1 \
    --checkpointing_steps 3 --learning_rate 1e-2)
losses() { grep -o '"loss":[0-9.e-]*' "$1/metrics.jsonl"; }
expect 0 . vtrain "${toy[@]}" --global_batch_size 2 --train_batch_size 2 --max_train_steps 6 \
    --output_dir whole-run
expect 0 . vtrain "${toy[@]}" --global_batch_size 2 --train_batch_size 2 --max_train_steps 3 \
    --output_dir resumed
expect 0 . vtrain "${toy[@]}" --global_batch_size 2 --train_batch_size 2 --max_train_steps 6 \
    --output_dir resumed --resume_from_checkpoint latest
[ "$(losses whole-run)" = "$(losses resumed)" ] || wrong "a resumed run draws other captions"
cmp -s {whole-run,resumed}/checkpoint-6/optimizer.safetensors ||
    wrong "a resumed run has other weights"
expect 0 . vtrain --latents first "${toy[@]:2}" --global_batch_size 2 --train_batch_size 2 \
    --max_train_steps 6 --output_dir plain-run
[ "$(losses whole-run)" != "$(losses plain-run)" ] || wrong "the first caption alone is trained"
if have_ranks; then
    expect 0 . "$lib/ranks.sh" 2 vtrain "${toy[@]}" --global_batch_size 2 --train_batch_size 1 \
        --max_train_steps 6 --output_dir ranks
    paste <(losses whole-run | cut -d: -f2) <(losses ranks | cut -d: -f2) |
        awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-5 * $1) exit 1 }' ||
        wrong "ranks draw other captions: $(losses ranks)"
fi

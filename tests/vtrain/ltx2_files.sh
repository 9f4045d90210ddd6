#!/usr/bin/env bash
# LTX-2's files of its authors and of ComfyUI, 2.0 and 2.3: vprep makes the same dataset, and vtrain
# the same bits, as with the folder in diffusers' layout that has the same weights.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

small_set media 4                            # 3 clips, 1 still
prep() { vprep --meta media/metadata.json "${sampling[@]}" --image_sample_size 64 "$@"; }
train() # train SET OUT FLAG...
{
    vtrain --latents "$1" --output_dir "$2" --training_type lora --rank 2 --train_batch_size 1 \
        --max_train_steps 2 --seed 5 --threads 1 --workers 1 "${@:3}"
}
root() { grep -o '"root": *"[0-9a-f]*"' "$1/manifest.json"; }
same_set() { [ -n "$(root "$1")" ] && [ "$(root "$1")" = "$(root "$2")" ] ||
    wrong "roots: $(root "$1") $(root "$2")"; }
same_run() { cmp -s "$1/checkpoint-2/optimizer.safetensors" \
    "$2/checkpoint-2/optimizer.safetensors" || wrong "$1 and $2 differ"; }

for v in 20 23; do
    need make_model m$v LTX2Pipeline $v
    file=m$v/first.safetensors
    texts=(--text_encoder m$v/text_encoder --tokenizer m$v/tokenizer)
    need prep --model m$v --out a$v
    expect 0 . train a$v run-a$v --model m$v

    # ---- one file of all parts but the text encoder ----
    expect 0 '4 encoded' prep --model $file "${texts[@]}" --out b$v
    stderr_lacks warning
    same_set a$v b$v
    expect 0 '0 encoded, 4 reused' prep --model $file "${texts[@]}" --out b$v
    expect 0 . train a$v run-b$v --model $file
    same_run run-a$v run-b$v
    expect 0 '4 decoded' vdecode b$v --model $file --format png --out pictures$v
    stderr_lacks warning

    # ---- its parts by the flags of parts, in a folder without them ----
    expect 0 '4 encoded' prep --vae $file --connectors $file "${texts[@]}" --out c$v
    same_set a$v c$v
    expect 0 . train a$v run-c$v --transformer $file
    same_run run-a$v run-c$v
    expect 0 . train a$v run-d$v --transformer m$v/transformer --connectors $file
    same_run run-a$v run-d$v
    expect 0 . train a$v run-e$v --transformer $file --connectors m$v/connectors
    same_run run-a$v run-e$v

    # ---- the folder of a text encoder may hold the tokenizer ----
    cp -r m$v/text_encoder gemma$v
    cp m$v/tokenizer/* gemma$v
    expect 0 '0 encoded, 4 reused' prep --model $file --text_encoder gemma$v --out b$v
    expect 0 '0 encoded, 4 reused' prep --model $file --tokenizer gemma$v --out b$v \
        --text_encoder gemma$v/*.safetensors

    # ---- what is missing is named ----
    expect 2 'no folder connectors.*or --connectors' prep --vae $file "${texts[@]}" --out none
    expect 2 'no folder connectors.*or --connectors' train a$v none --transformer m$v/transformer
    expect 2 '--text_encoder is missing' prep --model $file --out none
    absent none
done

# ---- files of the two versions are never mixed ----
expect 1 'other weights .* than a20 was made with' train a20 none --model m23/first.safetensors
absent none

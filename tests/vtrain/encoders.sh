#!/usr/bin/env bash
# vtrain with a model whose VAE or text encoder did not make the dataset: the hash of its weights
# differs from the hash in the manifest. The run's weights.json keeps computed hashes.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"

small_set media 3
need make_model "$dir/m" CogVideoXPipeline 4
prep() { vprep --meta media/metadata.json "${sampling[@]}" --image_sample_size 64 \
    --tokenizer_max_length 12 --model "$1" --out "$2" "${@:3}"; }
expect 0 'hashing' prep m a
train() { vtrain --latents "$1" --output_dir "$2" --train_batch_size 1 --seed 5 --threads 1 \
    --workers 1 "${@:3}"; }
lora=(--training_type lora --rank 2 --max_train_steps 1)

# A transformer that fits the latents replaces the fixture's.
expect 0 . train a first --model builtin "${model[@]}" --max_train_steps 1
rm -r m/transformer
need cp -r first/checkpoint-1/transformer m
vae=vae/diffusion_pytorch_model.safetensors text=text_encoder/diffusion_pytorch_model.safetensors
cp -r m v && flip v/$vae $(($(stat -c %s v/$vae) - 2))
cp -r m t && flip t/$text $(($(stat -c %s t/$text) - 2))
cp -r m both && cp v/$vae both/vae && cp t/$text both/text_encoder
absent m/text_encoder/model.safetensors

# ---- the model that made the dataset is accepted in any folder ----
expect 0 'm/vae: hashing' train a same --model m "${lora[@]}"
holds same/weights.json '"path"'
expect 0 'no damage' vlat verify same
cp -r m n
expect 0 . train a copied --model n "${lora[@]}"

# ---- another VAE is refused before the first step, with both names ----
expect 1 'v/vae: other weights.*a was made with.*--allow_mismatch' train a out \
    --model v "${lora[@]}"
absent out
expect 1 'v/vae: other weights' train a out --model v "${lora[@]}" --dry_run
expect 0 'warning: .*v/vae: other weights' train a allowed --model v "${lora[@]}" --allow_mismatch
expect 0 . train a own --model v --transformer m/transformer "${lora[@]}" --allow_mismatch
expect 0 . train a none --transformer v/transformer "${lora[@]}"

# ---- another text encoder is refused before the first checkpoint, or once its hash is known ----
expect 1 't/text_encoder: other weights.*a was made with.*--allow_mismatch' train a out \
    --model t "${lora[@]}"
absent out/checkpoint-1
rm -rf out
expect 1 't/text_encoder: other weights' train a out --model t --training_type lora --rank 2 \
    --max_train_steps 100000000 \
    --checkpointing_steps 100000000
# Its hash is in weights.json now.
expect 1 't/text_encoder: other weights' train a out --model t "${lora[@]}" --dry_run
rm -rf out
expect 0 'warning: .*t/text_encoder: other weights' train a allowed-2 --model t "${lora[@]}" \
    --allow_mismatch
expect 0 'warning: .*both/text_encoder: other weights' train a allowed-3 --model both "${lora[@]}" \
    --allow_mismatch
expect 1 'both/vae: .*; both/text_encoder: .*--allow_mismatch' train a allowed-3 \
    --model both "${lora[@]}" \
    --resume_from_checkpoint latest

# ---- a checkpoint waits for a long hash, a signal does not; a hash that cannot be written ----
held=open@t/text_encoder/diffusion:1:run                        # until there is a checkpoint
hold() { export VLT_FAULT_RUN="i=0
    until [ -e $1/checkpoint-1 ] || [ \$i = $2 ]; do i=\$((i+1)); sleep 0.05; done"; }
hold long 40
expect 1 't/text_encoder: other weights' fault $held vtrain --latents a --output_dir long \
    --train_batch_size 1 --threads 1 \
    --model t "${lora[@]}"
absent long/checkpoint-1
rm -rf long
hold long 1000
expect 143 'stopped after step 1' fault "$held;write@metrics.jsonl:1:term" vtrain --latents a \
    --output_dir long \
    --train_batch_size 1 --threads 1 --model t --training_type lora --rank 2 \
    --max_train_steps 100000000
[ -e long/checkpoint-1 ] || wrong "a stop lost its step"
expect 1 't/text_encoder: other weights' train a long --model t "${lora[@]}" --max_train_steps 2 \
    --resume_from_checkpoint latest
expect 0 'warning: .*weights.json' fault write@weights.json:1+:ENOSPC vtrain --latents a \
    --output_dir full --model m \
    --train_batch_size 1 --threads 1 "${lora[@]}"
expect 0 'm/vae: hashing' train a full --model m "${lora[@]}" --max_train_steps 2 \
    --resume_from_checkpoint latest

# A file is truncated while it is read: the steps that were done are saved.
cp -r m torn
export VLT_FAULT_RUN="until grep -q '\"step\":3,' torn-out/metrics.jsonl; do sleep 0.05; done
    truncate -s 45056 torn/$text"
expect 1 'was cut short' fault close@torn/text_encoder/diffusion:1:run vtrain --latents a \
    --output_dir torn-out --model torn \
    --train_batch_size 1 --threads 1 --training_type lora --rank 2 --max_train_steps 100000000 \
    --checkpointing_steps 100000000
output_has 'step [0-9]* is saved'

# ---- resumed: unchanged files are not read again; touched files are, and may have equal bytes ----
resume() { train a "$1" --model m --training_type lora --rank 2 --max_train_steps "$2" \
    --resume_from_checkpoint latest "${@:3}"; }
expect 0 . resume same 2
output_lacks 'hashing'
touch -d 2001-02-03 m/$vae m/$text
expect 0 'm/vae: hashing' resume same 3
output_has 'm/text_encoder'
cp m/$vae good-vae && cp v/$vae m/$vae
expect 1 'm/vae: other weights' resume same 4
cp good-vae m/$vae && cp m/$text good-text && cp t/$text m/$text
expect 1 'm/text_encoder: other weights' resume same 4
absent same/checkpoint-4
cp good-text m/$text
echo '{"weights": [7' >same/weights.json
expect 0 'm/vae: hashing' resume same 4

# ---- an encoder that cannot be compared gives a warning, and no error ----
cp -r m cut && truncate -s 100 cut/$text
expect 0 'warning: .*cut/text_encoder.*not compared' train a cut-out --model cut "${lora[@]}"
cp -r m bare && rm bare/$vae bare/$text
expect 0 . train a bare-out --model bare "${lora[@]}"

# ---- older datasets lack the hash: vprep adds the field, merge keeps the field, info prints it
# ----
holds a/manifest.json '"weights": {"vae":"[0-9a-f]\{32\}","text_encoder":"[0-9a-f]\{32\}"}'
expect 0 'weights *vae [0-9a-f]\{32\}, text_encoder [0-9a-f]\{32\}' vlat info a
cp -r a old && sed -i '/^ "weights"/d' old/manifest.json
lacks old/manifest.json '"weights"'
expect 0 . train old before --model v "${lora[@]}"
expect 0 . train old before-2 --model m "${lora[@]}" --latents a
expect 1 'other weights.* a was made with' train old before-3 --model v "${lora[@]}" --latents a
expect 0 . vlat merge old a --out merged
cp -r old old-2
expect 0 . vlat merge old old-2 --out merged-old
holds merged/manifest.json '"weights"'
lacks merged-old/manifest.json '"weights"'
root=$(grep -o '"root": "[0-9a-f]*"' a/manifest.json)
expect 0 '0 encoded, 3 reused' prep m old
cmp -s a/manifest.json old/manifest.json ||
    wrong "continued: $(diff a/manifest.json old/manifest.json)"
[ "$root" = "$(grep -o '"root": "[0-9a-f]*"' old/manifest.json)" ] || wrong "another root"
sed -i 's/"weights": {"vae":"../"weights": {"vae":"xy/' old/manifest.json
expect 1 'weights: vae: 32 hex digits' train old before-4 --model m "${lora[@]}"

# ---- ranks: rank 0 compares, all ranks stop ----
if have_ranks; then
    ranks() { # ranks OUT MODEL args...
        "$lib/ranks.sh" 2 vtrain --latents a --output_dir "$1" --train_batch_size 1 --threads 1 \
            --workers 1 --model "${@:2}"
    }
    expect 1 'v/vae: other weights' ranks two v "${lora[@]}"
    expect 1 't/text_encoder: other weights' ranks two t "${lora[@]}"
    [ ! -e two/checkpoint-1 ] || wrong "two ranks wrote a checkpoint"
    rm -rf two
    expect 1 't/text_encoder: other weights' ranks two t --training_type lora --rank 2 \
        --max_train_steps 100000000 \
        --checkpointing_steps 100000000
    expect 0 . ranks three m "${lora[@]}"
fi

#!/usr/bin/env bash
# vprep with a folder of HunyuanVideo's image-to-video pipeline: texts that have their clip's first
# frame, and folders whose parts do not belong together. The folder's models are tiny, made of the
# goldens' weights.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/fault.sh"
export VLT_SOURCE

small_set media 4                            # 3 clips, 1 still
sed -i 's/picture [0-9], [0-9x]*/one caption/' media/metadata.json
need make_model m HunyuanVideoImageToVideoPipeline 4
echo '[{"prompt": "a disc", "negative_prompt": "mud",' \
    '"image_path": "media/still-3.png", "num_frames": 9}]' >prompts.json
sampling+=(--image_sample_size 64)
prep() { vprep --meta media/metadata.json "${sampling[@]}" --model m --train_mode i2v \
    --validation_prompts prompts.json --out "$@"; }

# ---- texts of the first encoder are those of a caption with a first frame, of the second of the
# caption ----
expect 0 '4 encoded' prep a --trace_dir trace
stderr_lacks warning
# LLaVA: 4 clips, "", the prompt and its negative; CLIP: one caption
stderr_has '11 of 14 prompts encoded'
need vlat verify a
holds a/manifest.json '"class":"LlavaForConditionalGeneration"'
holds a/manifest.json '"max_length":256,"image_embed_interleave":4'
keys_of() { vlat show a "00000000000$1/000" |
    sed -n 's/.*"keys": \["\([0-9a-f]*\)", "\([0-9a-f]*\)"\].*/\'"$2"'/p'; }
[ "$(for i in 0 1 2 3; do keys_of $i 1; done | sort -u | wc -l)" = 4 ] ||
    wrong "captions of several clips share a text"
[ "$(for i in 0 1 2 3; do keys_of $i 2; done | sort -u | wc -l)" = 1 ] ||
    wrong "CLIP's texts depend on the clip"
vlat show a 000000000000/000 >record
lacks record image_noised
for name in input_ids_1 prompt_embeds_1 pooled_2 cond.image.pixels cond.image.mean \
    cond.vision.pixels \
    cond.vision.image_embeds; do
    grep -qa "\"$name\"" <(head -c 8000 trace/000000000000-000.safetensors) ||
        wrong "no $name in the trace"
done
expect 0 'texts: reuse 11, encode 0' prep a
stderr_has '0 encoded, 4 reused' && stderr_has '0 of 14 prompts encoded'

# ---- a still is the picture of another text after its file changed; other crops make other texts
# ----
ffmpeg -v error -y -f lavfi -i 'testsrc2=s=64x64:r=1:d=1,hue=h=200' -frames:v 1 media/still-3.png
expect 0 '1 encoded, 3 reused' prep a
stderr_has '2 of 14 prompts encoded'               # the still's, and the validation prompt's
expect 0 . prep flipped --reuse a --random_flip
whole flipped || wrong "not whole after a change of the crops"

# ---- the transformer's kind decides how many states of the picture there are ----
expect 0 '4 encoded' prep dense --image_condition_type latent_concat
holds dense/manifest.json '"max_length":260,"image_embed_interleave":2'
mv m/transformer/config.json config.json
expect 2 \
    'm: its transformer/config.json has no image_condition_type.*give --image_condition_type token_replace or' \
    prep b
expect 0 '4 encoded' prep b --image_condition_type latent_concat
same_values dense b || wrong "a flag and a file give other values"
mv config.json m/transformer
expect 2 'image_noise_variants: hunyuanvideo trains on first frames without noise' prep b \
    --image_noise_variants 2

# ---- ranks share the texts ----
if have_ranks; then
    need prep fresh
    check ranks 0 "$lib/ranks.sh" 2 vprep --meta media/metadata.json "${sampling[@]}" --model m \
        --train_mode i2v --validation_prompts prompts.json --out two
    same_values fresh two || wrong "two ranks make other values"
fi

# ---- rows that cannot be encoded are skipped: the template's words in a caption, an unreadable
# frame ----
sed 's/one caption/an <image> of it/;1,/an <image>/!s/an <image> of it/fine/' media/metadata.json \
    >media/words.json
check words 3 vprep --meta media/words.json "${sampling[@]}" --model m --train_mode i2v --out words
stderr_has '3 encoded' && holds words/errors.jsonl \
    'holds <image>, which stands for the clip.s first frame'
cp -r media cut && truncate -s 6000 cut/clip-0.mp4
check cut 3 vprep --meta cut/metadata.json "${sampling[@]}" --model m --train_mode i2v \
    --out cut.lmdb
whole cut.lmdb || wrong "not whole without the damaged clip"

# ---- the system's errors at any call on a clip: the run ends well, and the next one makes the same
# dataset ----
need prep whole
for at in open:{1..5} read:{1..9..2}; do
    rm -rf new
    check "$at" '0 3' fault "${at%:*}@clip-1.mp4:${at#*:}:EIO" vprep --meta media/metadata.json \
        "${sampling[@]}" --model m \
        --train_mode i2v --validation_prompts prompts.json --out new
    whole new || wrong "$at: not whole"
    [ $status = 0 ] || check "after $at" 0 prep new
    same_values whole new || wrong "$at: other values"
done

# ---- folders whose parts are not the model's ----
refused() { # refused STATUS PATTERN FLAGS...
    expect "$1" "$2" prep none "${@:3}"
    absent none
}
need make_model t HunyuanVideoPipeline 4
need make_model c CogVideoXPipeline 4
refused 1 \
    't/tokenizer: this tokenizer makes .* tokens of the template in front of a prompt, not 103: give the tokenizer' \
    --tokenizer t/tokenizer
refused 1 't/text_encoder/config.json.*model_type' --text_encoder t/text_encoder
refused 2 \
    'c/vae: .* AutoencoderKLCogVideoX, and models of hunyuanvideo are .*: give --vae DIR with such a VAE' \
    --vae c/vae
mkdir small && sed 's/56/48/' m/image_processor/preprocessor_config.json \
    >small/preprocessor_config.json
sed -i 's/"height": 48/"height": 56/' small/preprocessor_config.json
refused 1 'small/preprocessor_config.json: crop_size: .*a square' --image_processor small
sed 's/56/48/g' m/image_processor/preprocessor_config.json >small/preprocessor_config.json
refused 1 \
    'small/preprocessor_config.json: crop_size: pictures of 48 pixels a side, the vision model takes 56' \
    --image_processor small
mv m/image_processor away
refused 2 'image_processor is missing: m/image_processor is no folder'
mv away m/image_processor
sed 's/"image_path": "[^"]*", //' prompts.json >plain.json && mv plain.json prompts.json
expect 1 'prompts.json: row 1: no image_path: texts of this model have the clip.s first frame' \
    prep none

#!/usr/bin/env bash
# FLUX.2 dev as its authors publish it: a folder with flux2-dev.safetensors, whose text encoder's
# and tokenizer's folders lie beside it, and ae.safetensors or a folder vae. No file names the
# pipeline: the transformer's tensors say that prompts are Mistral's.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

mkdir media
for i in 1 2 3; do
    ffmpeg -v error -y -f lavfi -i "testsrc2=s=64x64:r=1:d=1,hue=h=$((i * 50))" -frames:v 1 \
        "media/$i.png"
    echo "picture $i" >"media/$i.txt"
done
echo '{"prompt": "a b c", "height": 64, "width": 64, "seed": 3}' >prompts.jsonl
prep() { vprep --meta media --image_sample_size 64 "$@"; }

# ---- the autoencoder's file ----
need make_model d Flux2 32
expect 0 '3 encoded' prep --model d --out d.lmdb
holds d.lmdb/manifest.json '"Mistral3ForConditionalGeneration"'
holds d.lmdb/manifest.json '"AutoencoderKLFlux2"'
expect 0 '3 decoded' vdecode d.lmdb --model d --format png --out pictures

# ---- a LoRA, with samples that are guided as Flux2Pipeline guides ----
need make_model m Flux2 16
expect 0 '3 encoded' prep --model m --out m.lmdb --validation_prompts prompts.jsonl
train() { vtrain --latents m.lmdb --output_dir "$@" --training_type lora --rank 2 --threads 1; }
expect 0 'model: flux2, LoRA' train run --model m --max_train_steps 2 --validation_steps 2 \
    --num_inference_steps 3
grep -aq '"guidance_scale":"4"' run/validation/step-2/000.safetensors || wrong "guidance is not 4"
holds run/config.yaml '^model: *m$'
expect 0 . train file --transformer m/flux2-dev.safetensors --max_train_steps 2
same_end run/checkpoint-2 file/checkpoint-2 || wrong "the file trains another LoRA"

# ---- a text encoder of another width than the transformer's ----
need make_model klein Flux2KleinPipeline 16
expect 1 . prep --model m --text_encoder klein/text_encoder --tokenizer klein/tokenizer --out no
absent no

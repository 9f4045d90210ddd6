#!/usr/bin/env bash
# scripts/random_model.py makes folders of LTX-2: a toy, from which scripts/demo goes the whole way
# from clips to a picture, and files of zeros at the widths of 2.0 and 2.3, whose parameters vtrain
# counts. $1 is Python; without diffusers and transformers the test is skipped.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
python=$1
"$python" -c 'import diffusers, transformers, safetensors' 2>"$log" || {
    echo "skipped: $(tail -n 1 "$log")"
    exit 77
}
random_model() { "$python" "$VLT_SOURCE/scripts/random_model.py" "$@"; }
lora=(--training_type lora --rank 2 --threads 1)

# ---- the toy: clips, latents and features, a LoRA, a sample, pictures ----
need random_model toy --size ltx-2-toy
small_set media 4
echo '[{"prompt": "a red ball", "height": 64, "width": 64, "num_frames": 9, "seed": 1}]' >p.json
expect 0 '4 encoded' vprep --meta media/metadata.json "${sampling[@]}" --image_sample_size 64 \
    --model toy --out toy.lmdb --validation_prompts p.json
expect 0 '1 stored prompts' vtrain --latents toy.lmdb --model toy --output_dir run "${lora[@]}" \
    --max_train_steps 2 --train_batch_size 1 --validation_steps 2 --num_inference_steps 2
expect 0 '1 decoded' vdecode run --model toy --format png

# ---- real widths: 18.9 and 19.0 billion parameters, of which the sound has 5.8 ----
for row in "2.0 3840 13,041,520,768" "2.3 4096 13,124,316,288"; do
    read -r version width parameters <<<"$row"
    need random_model "$version" --size "ltx-$version" --sparse
    need random_dataset "$version.lmdb" 1 3 4 4 128 "$width" ltx-2
    expect 0 "$parameters frozen" vtrain --latents "$version.lmdb" --model "$version" \
        --output_dir none "${lora[@]}" --dry_run
done
absent none

# demo_family.sh - scripts/demo --family, which sources this file: the whole path of a family with a
# toy of random weights. Three stills, or two clips and a still of a family of videos, become
# latents and prompts' states by the toy's encoders, a LoRA of its transformer is trained on them,
# and its samples become pictures, which random weights make noise of. With the hub's folder in
# place of the toy the commands are the same.
model=$out/$family-toy set=$out/$family.lmdb run=$out/$family-run

if [ ! -f "$model/model_index.json" ]; then
    echo "demo: making a toy of $family in $model"
    "${PYTHON:-python3}" "$here/scripts/random_model.py" "$model" --size "$family-toy" \
        --parts transformer,unconditional_transformer,vae,text_encoder,connectors,tokenizer,processor,scheduler || {
        echo "demo: scripts/random_model.py failed: PYTHON names a Python that has torch," \
            "diffusers, transformers, numpy and safetensors" >&2
        exit 1
    }
fi
# A family of videos is trained on clips, and its picture is a clip.
frames=() length='' format=(--format png)
case $family in
ltx-2 | hunyuanvideo1.5 | kandinsky5 | skyreels-v2 | wan-vace)
    frames=(--video_sample_size 256 --video_sample_n_frames 17 --video_sample_stride 1)
    length='"num_frames": 17, ' format=()
    if [ -z "$meta" ]; then
        meta=$out/clips
        mkdir -p "$meta"
        clip "$meta/blue-disc.mkv" 320x256 24 1 \
            "$(shape 40 90 230 230 220 170 'W*(0.2+0.6*T)' H/2 disc)" -c:v ffv1
        clip "$meta/pink-square.mkv" 256x320 24 1 \
            "$(shape 230 90 160 30 60 40 W/2 'H*(0.8-0.6*T)' square)" -c:v ffv1
        still "$meta/lime-ring.png" 256x384 "$(shape 150 240 30 60 30 20 W/2 H/2 ring)" \
            -pix_fmt rgb24
        echo "A blue disc moves to the right." >"$meta/blue-disc.txt"
        echo "A pink square rises." >"$meta/pink-square.txt"
        echo "A lime ring on a brown ground." >"$meta/lime-ring.txt"
    fi ;;
esac
if [ -z "$meta" ]; then
    meta=$out/stills
    mkdir -p "$meta"
    still "$meta/orange-disc.jpg" 384x288 "$(shape 250 140 20 20 60 70 W/2 H/2 disc)" -q:v 2 \
        -pix_fmt yuvj444p
    still "$meta/violet-square.png" 320x320 "$(shape 130 50 220 220 230 120 W/2 H/2 square)" \
        -pix_fmt rgb24
    still "$meta/lime-ring.png" 256x384 "$(shape 150 240 30 60 30 20 W/2 H/2 ring)" -pix_fmt rgb24
    echo "An orange disc on a teal ground." >"$meta/orange-disc.txt"
    echo "A violet square on a pale green ground." >"$meta/violet-square.txt"
    echo "A lime ring on a brown ground." >"$meta/lime-ring.txt"
fi
# A model that edits gets, for each still, a picture of the same name that the still is made from.
pairs=() edit= forced=()
[ "$family" != skyreels-v2 ] || forced=(--diffusion_forcing increasing)
# One that edits clips gets, for each, a white shape that moves alike, and a picture of the shape.
if [ "$family" = wan-vace ]; then
    pairs=(--train_mode vace)
    mkdir -p "$out/poses"
    clip "$out/poses/disc.mkv" 320x256 24 1 \
        "$(shape 255 255 255 0 0 0 'W*(0.2+0.6*T)' H/2 disc)" -c:v ffv1
    clip "$out/poses/square.mkv" 256x320 24 1 \
        "$(shape 255 255 255 0 0 0 W/2 'H*(0.8-0.6*T)' square)" -c:v ffv1
    still "$out/poses/blue.png" 128x96 "$(shape 40 90 230 230 220 170 W/2 H/2 disc)" -pix_fmt rgb24
    cat >"$out/edits.jsonl" <<JSONL
{"video": "clips/blue-disc.mkv", "vace_video": "poses/disc.mkv", "vace_reference_image": "poses/blue.png", "prompt": "A blue disc moves to the right."}
{"video": "clips/pink-square.mkv", "vace_video": "poses/square.mkv", "prompt": "A pink square rises."}
{"video": "clips/blue-disc.mkv", "vace_video_mask": "poses/disc.mkv", "prompt": "A blue disc moves to the right."}
JSONL
    [ "$meta" != "$out/clips" ] || meta=$out/edits.jsonl
    edit='"vace_video": "poses/disc.mkv", "vace_reference_image": "poses/blue.png", '
fi
if [ "$family" = qwen-edit ] && [ "$meta" = "$out/stills" ]; then
    mkdir -p "$out/before"
    for name in orange-disc violet-square lime-ring; do
        still "$out/before/$name.png" 320x256 "$(shape 90 90 200 200 120 120 W/2 H/2 square)" \
            -pix_fmt rgb24
    done
    pairs=(--control_directory "$out/before" --reference_size 256)
    edit='"edit_image": "before/lime-ring.png", '
fi
cat >"$out/$family-prompts.json" <<JSON
[{"prompt": "A violet disc on a brown ground.", $edit$length"height": 256, "width": 256, "seed": 1}]
JSON

echo "demo: phase 1, vprep: $meta -> $set"
"$build/vprep" --meta "$meta" --model "$model" --out "$set" --overwrite --image_sample_size 256 \
    --validation_prompts "$out/$family-prompts.json" ${frames[@]+"${frames[@]}"} \
    ${pairs[@]+"${pairs[@]}"}

echo "demo: phase 2, vtrain: $set -> $run"
rm -rf "$run"
"$build/vtrain" --latents "$set" --model "$model" --output_dir "$run" --training_type lora \
    --rank 4 --max_train_steps "${steps:-20}" --validation_steps "${steps:-20}" \
    --num_inference_steps 8 ${forced[@]+"${forced[@]}"} "${extra[@]}"

echo "demo: pictures, vdecode"
"$build/vdecode" "$run" --model "$model" ${format[@]+"${format[@]}"} --sheet

last=$(find "$run/validation" -maxdepth 1 -name 'step-*' | sort -V | tail -n 1)
lora=$(find "$run" -name pytorch_lora_weights.safetensors | sort -V | tail -n 1)
cat <<END

Done:
  $lora
      the LoRA, which diffusers, ComfyUI (lora_comfyui) and musubi-tuner (lora_kohya) load
  $last/sheet.png    a sampled picture, of noise since the weights are random
  $run/report.html    the run
END

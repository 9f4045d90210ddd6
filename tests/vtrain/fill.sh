#!/usr/bin/env bash
# FLUX.1 Fill from a list of pictures and masks: vprep encodes each picture without its masked
# places and stores the mask's pixels, and vtrain trains on both.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

picture() { ffmpeg -v error -y -f lavfi -i "$1" -frames:v 1 "$2"; }
mkdir media
for i in 0 1 2 3; do
    picture "testsrc2=s=96x64:r=1:d=1,hue=h=$((i * 60))" media/$i.png
done
picture 'color=black:s=96x64,drawbox=x=16:y=8:w=40:h=21:c=white:t=fill' media/box.png
picture 'color=black:s=48x32,drawbox=x=24:y=0:w=24:h=32:c=white:t=fill' media/half.png
picture 'color=white:s=64x64' media/square.png
ffmpeg -v error -y -f lavfi -i "testsrc2=s=96x64:r=10:d=1" -c:v mpeg4 media/clip.mp4
cat >media/list.jsonl <<'END'
{"image": "0.png", "mask_file_path": "box.png", "prompt": "a red thing"}
{"image": "1.png", "mask_file_path": "half.png", "prompt": "a blue thing"}
{"image": "2.png", "mask_file_path": "box.png", "prompt": "a flat thing"}
{"image": "3.png", "prompt": "a picture whose mask is drawn"}
END
need make_model m FluxFillPipeline flux-fill
prep() { vprep --meta "media/$1" --out "$2" --image_sample_size 64 --model m "${@:3}"; }
inpaint=(--train_mode inpaint)

# ---- what is stored ----
check prepared 0 prep list.jsonl a "${inpaint[@]}"
stderr_has '4 encoded' && stderr_has ' 7 conditions encoded'
check verified 0 vlat verify a
check first 0 vlat show a 0
stdout_has 'mask.*\[64,1,6,8\].*mean 0.1562' && stdout_has '"draws": \[\]'
check last 0 vlat show a 3 && stdout_has '"purpose": *"mask"'
check again 0 prep list.jsonl a "${inpaint[@]}" && stderr_has '0 encoded, 4 reused'
stderr_has ' 0 conditions encoded'

# ---- another mask encodes the masked picture, and no picture; the mask is also another row's ----
sed '1s/box/half/' media/list.jsonl >media/other.jsonl
check changed 0 prep other.jsonl a "${inpaint[@]}" && stderr_has '0 encoded, 4 reused' &&
    stderr_has ' 1 conditions encoded'
check back 0 prep list.jsonl a "${inpaint[@]}"

# ---- masks that cannot be used ----
cat >media/bad.jsonl <<'END'
{"image": "0.png", "mask_file_path": "box.png", "prompt": "good"}
{"image": "1.png", "mask_file_path": "square.png", "prompt": "another shape"}
{"image": "2.png", "mask_file_path": "gone.png", "prompt": "gone"}
{"image": "3.png", "mask_file_path": "clip.mp4", "prompt": "a clip"}
END
check skipped 3 prep bad.jsonl b "${inpaint[@]}" --allow_missing && stderr_has '1 encoded'
holds b/errors.jsonl \
    '"row":2.*mask_file_path square.png: 64x64, but the source is 96x64: a mask covers'
holds b/errors.jsonl '"row":3.*mask_file_path.*gone.png'
holds b/errors.jsonl '"row":4.*clip.mp4: 10 frames: a mask is a picture'

# ---- DiffSynth's columns: the mask, and the picture that it covers, which may be another one ----
cat >media/fill.csv <<'END'
image,prompt,flux_fill_image,flux_fill_mask
0.png,a red thing,0.png,box.png
1.png,a blue thing,2.png,box.png
2.png,a flat thing,square.png,box.png
3.png,a clip,clip.mp4,box.png
END
check columns 3 prep fill.csv c --extra_inputs flux_fill_image,flux_fill_mask
stderr_has '--extra_inputs flux_fill_mask selects --train_mode inpaint' && stderr_has '2 encoded'
holds c/errors.jsonl '"row":3.*flux_fill_image square.png: 64x64, but the source is 96x64: the p'
holds c/errors.jsonl '"row":4.*clip.mp4: 10 frames: a mask is a picture'
check own 0 vlat show a 0 && sed -n 's/.*"video": *"\([0-9a-f]*\)".*/\1/p' "$stdout" >own
check filled 0 vlat show c 0 && sed -n 's/.*"video": *"\([0-9a-f]*\)".*/\1/p' "$stdout" >filled
[ -s own ] && cmp own filled || wrong 'flux_fill_image that is the image makes another value'
check covered 0 vlat show a 2 && sed -n 's/.*"video": *"\([0-9a-f]*\)".*/\1/p' "$stdout" >own
check other 0 vlat show c 1 && sed -n 's/.*"video": *"\([0-9a-f]*\)".*/\1/p' "$stdout" >filled
[ -s own ] && cmp own filled || wrong 'flux_fill_image is not the picture that is masked'

# ---- a folder of masks, by stem ----
mkdir -p pairs masks/deep pairs/deep
cp media/[01].png pairs && cp media/2.png pairs/deep && cp media/3.png pairs
for i in 0 1 2 3; do echo "a thing" >pairs/$i.txt; done
echo "a thing" >pairs/deep/2.txt
cp media/box.png masks/0.png && cp media/half.png masks/1.png && cp media/box.png masks/deep/2.png
check paired 3 vprep --meta pairs --mask_data_dir masks --out d --image_sample_size 64 --model m
stderr_has '--mask_data_dir selects --train_mode inpaint' && stderr_has '3 encoded'
holds d/errors.jsonl '3.png.*no picture 3.. in masks'
check nested 0 vlat show d 3 && stdout_has 'mask.*mean 0.1562'

# ---- OneTrainer's masks, beside the pictures; a picture without one is masked as flags say ----
mkdir -p beside/deep
cp media/0.png media/1.png media/3.png beside && cp media/2.png beside/deep
cp media/box.png beside/0-masklabel.png && cp media/half.png beside/deep/2-masklabel.png
cp media/1.png beside/1-condlabel.png && cp media/half.png beside/gone-masklabel.png
for i in 0 1 3 deep/2; do echo "a thing" >beside/$i.txt; done
beside() {
    vprep --meta beside --out "$1" --image_sample_size 64 --model m "${inpaint[@]}" "${@:2}"
}
check beside 0 beside f --without_mask all && stderr_has '4 encoded'
stdout_has '-masklabel.png 1 (gone-masklabel.png: no medium of this name lies beside it)'
stdout_has '-condlabel.png 1 (1-condlabel.png: a masked picture is made of the picture and its'
check 'beside it' 0 vlat show f 0 && stdout_has '"path": *"0.png"' && stdout_has 'mean 0.1562'
check 'no mask beside it' 0 vlat show f 1 && stdout_has '"pick": *"all"'
stdout_has 'mask.*mean 1'
check 'in a subfolder' 0 vlat show f 3 && stdout_has '"path": *"deep/2.png"'
stdout_has 'mask.*mean 0.5'
check 'beside, again' 0 beside f --without_mask all && stderr_has ' 0 conditions encoded'
check 'all masked' 0 beside g --without_mask all --unmasked_probability 1
check 'of everything' 0 vlat show g 0 && stdout_has '"pick": *"all"' && stdout_has 'mask.*mean 1'
check 'now and then' 0 beside h --unmasked_probability 0.5 --variants 8
n=0
for i in 0 1 2 3 4 5 6 7; do vlat show h 0/$i | grep -q '"pick": *"all"' && n=$((n + 1)); done
[ $n -gt 0 ] && [ $n -lt 8 ] || wrong "$n of 8 variants are masked whole"
check 'other mode' 0 vprep --meta beside --out n --image_sample_size 64 --model m \
    --train_mode normal
stderr_has '2 rows have a mask_file_path, which --train_mode inpaint and vace read'

# ---- validation prompts with pictures and masks of their own ----
size='"height": 64, "width": 96, "seed": 3'
cat >media/prompts.jsonl <<END
{"prompt": "a", "image_path": "0.png", "mask_file_path": "box.png", $size}
{"prompt": "a", "image_path": "0.png", "mask_file_path": "half.png", $size}
{"prompt": "a", "flux_fill_image": "2.png", "flux_fill_mask": "box.png", $size}
END
no() { echo "{\"prompt\": \"a\", $1 $size}" >media/no.jsonl; }
no '"image_path": "0.png",'
check "no mask" 1 prep list.jsonl p "${inpaint[@]}" --validation_prompts media/no.jsonl
stderr_has 'row 1: no mask_file_path: each sample of this model needs a picture'
no ''
check "no picture" 1 prep list.jsonl p "${inpaint[@]}" --validation_prompts media/no.jsonl
stderr_has 'row 1: no image_path'
no '"image_path": "0.png", "mask_file_path": "square.png",'
check "shape" 1 prep list.jsonl p "${inpaint[@]}" --validation_prompts media/no.jsonl
stderr_has 'square.png: 64x64, but the picture is 96x64'
no '"image_path": "0.png", "mask_file_path": "clip.mp4",'
check "clip" 1 prep list.jsonl p "${inpaint[@]}" --validation_prompts media/no.jsonl
stderr_has 'clip.mp4: 10 frames: a mask is a picture'
check prompts 0 prep list.jsonl p "${inpaint[@]}" --validation_prompts media/prompts.jsonl
check "again with prompts" 0 prep list.jsonl p "${inpaint[@]}" \
    --validation_prompts media/prompts.jsonl
stderr_has ' 0 conditions encoded'
check "verified prompts" 0 vlat verify p

# ---- training; captions are sampled beside their own pictures and masks ----
train() {
    vtrain --latents "$1" --model m --output_dir "$2" --train_batch_size 2 --seed 5 --threads 1 \
        --workers 1 "${@:3}"
}
lora=(--training_type lora --rank 2)
expect 0 'memory: peak' train a whole "${lora[@]}" --max_train_steps 6 --validation_steps 6
output_lacks 'conditions are not used'
ends_as whole cut 6 train a cut "${lora[@]}"
expect 0 . train a full --training_type full-finetune --max_train_steps 2 --gradient_checkpointing
[ -s whole/validation/step-6/000.safetensors ] || wrong 'no sample'
expect 0 . train p prompted "${lora[@]}" --max_train_steps 2 --validation_steps 2 \
    --num_inference_steps 3
samples_differ prompted/validation/step-2 2 'another mask or picture'
expect 0 decoded vdecode prompted --model m --format png
expect 0 decoded vdecode whole --model m --format png
expect 0 '--out elsewhere: pictures of the run whole lie beside its latents' \
    vdecode whole --model m --format png --out elsewhere
[ ! -e elsewhere ] || wrong 'a folder that nothing is in'

# ---- the mask changes the loss ----
need prep other.jsonl other "${inpaint[@]}"
expect 0 . train other other-run "${lora[@]}" --max_train_steps 6
cmp -s <(losses whole) <(losses other-run) && wrong 'another mask changes no loss'

# ---- a dataset without masks, and stored prompts ----
check plain 0 prep list.jsonl plain --train_mode normal --validation_prompts media/prompts.jsonl
stderr_has '3 rows have a mask_file_path, which --train_mode inpaint and vace read'
expect 1 'inpaint' train plain plain-run "${lora[@]}" --max_train_steps 1

# ---- models of clips: the mask holds for all frames ----
ffmpeg -v error -y -f lavfi -i "testsrc2=s=96x64:r=24:d=2" -c:v mpeg4 media/long.mp4
echo '{"video": "long.mp4", "mask_file_path": "box.png", "prompt": "a clip"}' >media/clips.jsonl
check clips 0 vprep --meta media/clips.jsonl --out clips "${inpaint[@]}" --video_sample_size 64 \
    --video_sample_n_frames 9
stderr_has '2 conditions encoded'
check 'a clip' 0 vlat show clips 0 && stdout_has 'mask f16 \[1,3,6,8\].*mean 0.8333'

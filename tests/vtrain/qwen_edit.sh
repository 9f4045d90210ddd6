#!/usr/bin/env bash
# Qwen-Image-Edit from pairs: vprep encodes the references in sizes of their own and the texts with
# the pictures, vtrain trains on one to three references of unequal sizes, samples with references
# and resumes. Of the first model, of Plus (2509), and of 2511.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
. "$lib/vtrain.sh"
export VLT_SOURCE

picture() { ffmpeg -v error -y -f lavfi -i "testsrc2=s=$1:r=1:d=1,hue=h=$2" -frames:v 1 "$3"; }
mkdir -p media/before
for i in 0 1 2 3 4; do picture 96x64 $((i * 60)) media/$i.png; done
picture 160x80 10 media/before/0.png
picture 160x80 20 media/before/1.png
picture 48x96 30 media/before/2.png
cat >media/list.jsonl <<'END'
{"image": "0.png", "edit_image": "before/0.png", "prompt": "make it red"}
{"image": "1.png", "edit_image": ["before/1.png"], "prompt": "make it blue"}
{"image": "2.png", "edit_image": ["before/2.png", "before/0.png"], "prompt": "join the two"}
{"image": "3.png", "edit_image": ["before/0.png", "before/2.png", "before/1.png"], "prompt": "3"}
{"image": "4.png", "prompt": "a picture"}
END
head -2 media/list.jsonl >media/one.jsonl
size='"height": 64, "width": 96, "seed": 3'
cat >media/prompts.jsonl <<END
{"prompt": "make it green", "edit_image": "before/2.png", $size}
{"prompt": "make it green", "edit_image": "before/2.png", "negative_prompt": "no", $size}
{"prompt": "make it green", "edit_image": "before/0.png", "edit_image_2": "before/2.png", $size}
{"prompt": "make it green", $size}
END
need make_model m QwenImageEditPlusPipeline qwen-edit
prep() { vprep --meta "media/$1" --out "$2" --image_sample_size 64 --reference_size 64 "${@:3}"; }

# ---- Plus: each sample with references has an empty prompt of its own ----
plus=(--model m --validation_prompts media/prompts.jsonl)
check prepared 0 prep list.jsonl a "${plus[@]}" --train_mode edit
stderr_has '5 encoded'
check verified 0 vlat verify a
check third 0 vlat show a 3 && stdout_has 'reference_3' && stdout_has '"empty"'
check last 0 vlat show a 4 && stdout_lacks reference && stdout_lacks '"empty"'
check again 0 prep list.jsonl a "${plus[@]}" --train_mode edit && stderr_has '0 encoded, 5 reused'

# ---- texts depend on the pictures: with another one a caption is encoded again; the empty prompt
# of that picture is stored, as a negative text ----
cp -r media other && sed -i '1s#before/0#before/2#' other/list.jsonl
check changed 0 vprep --meta other/list.jsonl --out a --image_sample_size 64 --reference_size 64 \
    "${plus[@]}" --train_mode edit
stderr_has '0 encoded, 5 reused' && stderr_has '1 of 14 prompts encoded'

# ---- a caption that spells the picture's token, and too many references, are skipped ----
cat >media/bad.jsonl <<'END'
{"image": "0.png", "edit_image": "before/0.png", "prompt": "make it red"}
{"image": "1.png", "edit_image": "before/1.png", "prompt": "an <|image_pad|>"}
END
printf '{"image": "2.png", "edit_image": "before/0.png", "prompt": "%s"}\n' "$(seq -s ' ' 2000)" \
    >>media/bad.jsonl
check skipped 3 prep bad.jsonl b --model m --train_mode edit
stdout_has 'reads 1024 tokens: 1 of 3 captions have more and are skipped, as texts of this model'
holds b/errors.jsonl '"row":3.*and this model.s texts are not cut: shorten the caption'
holds b/errors.jsonl '"row":2.*holds <|image_pad|>'
check copied 0 vlat merge a b --out both && check "verified copy" 0 vlat verify both
check "empty prompts" 0 vlat gc both --dry_run
need make_model first QwenImageEditPipeline qwen-edit
check "first model" 3 prep list.jsonl f --model first --train_mode edit
holds f/errors.jsonl '"row":3.*2 reference pictures, models of QwenImageEditPipeline take 1'
need make_model plain QwenImagePipeline 16
check "no model that edits" 2 prep list.jsonl o --model plain --train_mode edit
stderr_has 'models of QwenImagePipeline take no reference pictures'

# ---- training: groups by target and references; dropped captions; a stopped run resumes ----
train() {
    vtrain --latents a --model "$M" --output_dir "$1" --train_batch_size 2 --seed 5 --threads 1 \
        --workers 1 --training_type lora --rank 2 "${@:2}"
}
M=m
drop=(--caption_dropout_p 0.5 --reference_dropout_p 0.5)
expect 0 'flow' train dry --dry_run
output_has '6x8+12x6+6x12: 1 sample' && output_has '6x8+6x12+12x6+6x12: 1 sample'
expect 0 'memory: peak' train whole --max_train_steps 6 --validation_steps 6 \
    --num_inference_steps 3 "${drop[@]}"
output_has 'references: [1-9][0-9.]*% of [1-6] left out, 50% expected'
expect 0 . train cut --max_train_steps 3 "${drop[@]}"
expect 0 'resumes after step 3' train cut --max_train_steps 6 --resume_from_checkpoint latest \
    "${drop[@]}"
same_end whole/checkpoint-6 cut/checkpoint-6 || wrong "a resumed run has other values"
# samples of one prompt and seed differ by their references, their negative text, or having none
for ((i = 1; i < 4; i++)); do
    cmp -s whole/validation/step-6/000.safetensors whole/validation/step-6/00$i.safetensors &&
        wrong "samples 0 and $i are equal"
done
expect 0 "4 decoded" vdecode whole --model m --format png

# ---- 2511 has the same weights and other losses ----
need make_model n QwenImageEditPlusPipeline qwen-edit-2511
M=n
expect 0 . train zero --max_train_steps 6 "${drop[@]}"
cmp -s whole/metrics.jsonl zero/metrics.jsonl && wrong "zero_cond_t changes nothing"
# weights whose config.json does not say it, by the flag and by musubi-tuner's name of the model
M=m
expect 0 . train asked --max_train_steps 6 "${drop[@]}" --zero_cond_t
expect 0 . train named --max_train_steps 6 "${drop[@]}" --model_version edit-2511
M=n
expect 0 . train off --max_train_steps 6 "${drop[@]}" --no_zero_cond_t
steps() { sed 's/.*"loss":\([^,]*\),.*/\1/' "$1/metrics.jsonl"; }
for run in asked named; do
    cmp <(steps zero) <(steps $run) || wrong "$run: other losses than 2511's"
done
cmp <(steps whole) <(steps off) || wrong "--no_zero_cond_t: other losses than 2509's"

# ---- the first model by two commands, from folders that are paired by stems ----
mkdir after before
for i in 0 1; do
    cp media/$i.png after && cp media/before/$i.png before && echo "make it $i" >after/$i.txt
done
check paired 0 vprep --meta after --control_directory before --out g --image_sample_size 64 \
    --reference_size 64 --model first
stderr_has '2 encoded' && stderr_has 'control_directory selects --train_mode edit'
check shown 0 vlat show g 1 && stdout_has '"path": "before/1.png"'
# several pictures of a row: numbered files, and several folders
mkdir numbered && cp media/before/0.png numbered/0_0.png && cp media/before/1.png numbered/0_1.png
cp media/before/2.png numbered/1.png
check numbered 0 vprep --meta after --control_directory numbered before --out k \
    --image_sample_size 64 --reference_size 64 --model m
check three 0 vlat show k 0
stdout_has '"path": "numbered/0_0.png"' && stdout_has '"path": "numbered/0_1.png"' &&
    stdout_has '"path": "before/0.png"' && stdout_has 'reference_3'
# two pictures of one stem, of which none is the row's; a subfolder of the same name comes first
cp before/1.png numbered/1.jpg && mkdir -p after/sub numbered/sub && cp media/2.png after/sub/1.png
cp media/before/2.png numbered/sub/1.png && echo 'make it 2' >after/sub/1.txt
check "one stem" 3 vprep --meta after --control_directory numbered --out k2 \
    --image_sample_size 64 --reference_size 64 --model m
holds k2/errors.jsonl \
    '"path":"1.png".*numbered has both 1.jpg and 1.png: leave one picture of a stem'
check "below" 0 vlat list k2 --json && stdout_has 'numbered/sub/1.png'
rm -r after/sub
rm before/1.png
check unpaired 3 vprep --meta after --control_directory before --out l --image_sample_size 64 \
    --reference_size 64 --model first
holds l/errors.jsonl '1.png.*no picture 1.. or 1_0.. in before'
check "no folder" 1 vprep --meta after --control_directory nowhere --out n2 --model first
stderr_has 'nowhere: No such file'
expect 0 . vtrain --latents g --model first --output_dir h --train_batch_size 2 --threads 1 \
    --training_type lora --rank 2 --max_train_steps 2

# ---- musubi-tuner's cache of the dataset, imported, has its references and trains alike ----
expect 0 '5 samples' vlat export a --to musubi --out mu
expect 0 '5 samples' vlat import mu --from musubi --vae m/vae --empty zeros --out back
losses() { sed 's/.*"loss":\([^,]*\),.*/\1/' "$1/metrics.jsonl"; }
M=m
for set in a back; do
    expect 0 . vtrain --latents $set --model m --output_dir of-$set --train_batch_size 1 --seed 5 \
        --threads 1 --workers 1 --training_type lora --rank 2 --max_train_steps 5
done
paste <(losses of-a) <(losses of-back) |
    awk '{ d = ($1 - $2) / $1; if (d * d > 1e-4) exit 1 }' || wrong 'the import trains otherwise'
# With the dataset's texts each sample has its own empty prompt, and dropped captions train alike.
expect 0 '5 samples' vlat import mu --from musubi --vae m/vae --texts a --out own
output_lacks 'the one empty prompt'
check "own empty prompt" 0 vlat show own 3 && stdout_has '"empty"'
for set in a own; do
    expect 0 . vtrain --latents $set --model m --output_dir dropped-$set --train_batch_size 1 \
        --seed 5 --threads 1 --workers 1 --training_type lora --rank 2 --max_train_steps 5 \
        --caption_dropout_p 1
done
paste <(losses dropped-a) <(losses dropped-own) |
    awk '{ d = ($1 - $2) / $1; if (d * d > 1e-4) exit 1 }' || wrong 'dropped captions differ'

# ---- batches of unequal references train as their samples do by themselves ----
for M in m n; do
    same_as_singles a --model $M
    rm -r batch-*
done

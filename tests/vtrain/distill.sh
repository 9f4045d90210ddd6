#!/usr/bin/env bash
# Distillation to few steps from a list of pictures with seeds, as DiffSynth-Studio has it: vprep
# keeps the columns of --extra_inputs, and vtrain begins with the seeds' noise and takes the list's
# number of steps. Qwen-Image has the levels of DiffSynth-Studio's scheduler by --like diffsynth.
. "$(dirname "$0")/../lib/check.sh"
export VLT_SOURCE

mkdir media
for i in 0 1 2; do
    ffmpeg -v error -y -f lavfi -i "testsrc2=s=64x64:r=1:d=1,hue=h=$((i * 60))" -frames:v 1 \
        media/$i.png
done
cat >media/metadata.csv <<'END'
image,prompt,seed,rand_device,num_inference_steps,cfg_scale
0.png,a red thing,7,cpu,4,1
1.png,a blue thing,8,cpu,4,1
2.png,a flat thing,9,cpu,4,1
END
need make_model m QwenImagePipeline qwen
prep() { vprep --dataset_base_path media --dataset_metadata_path "media/$1" --height 64 --width 64 \
    --model m --extra_inputs "seed,rand_device,num_inference_steps,cfg_scale" --out "$2"; }
train() { vtrain --latents "$1" --model m --output_dir "$2" --train_batch_size 1 --threads 1 \
    --lora_base_model dit --lora_rank 2 --task direct_distill "${@:3}"; }

check prepared 0 prep metadata.csv a && stderr_has '3 encoded'
check shown 0 vlat show a 0 && stdout_has '"seed": *"7"' && stdout_has '"num_inference_steps": *"4"'
check planned 0 train a out --max_train_steps 2 --like diffsynth --dry_run
stdout_has 'loss: the result of 4 steps from noise (levels 1, 0.7776, 0.4708, 0.02) against the'
check seeded 0 train a same --max_train_steps 2 --like diffsynth --learning_rate 1e-20
check other 0 train a other --max_train_steps 2 --like diffsynth --learning_rate 1e-20 \
    --distill_steps 2
losses() { grep -o '"loss":[0-9.]*' "$1/metrics.jsonl"; }
[ "$(losses same)" != "$(losses other)" ] ||
    wrong "two steps have the loss of four"

# ---- noise of a GPU cannot be repeated; without seeds the noise is the run's ----
sed 's/,cpu,/,cuda,/' media/metadata.csv >media/cuda.csv
check gpu 0 prep cuda.csv b
check refused 1 train b no --max_train_steps 2
stderr_has 'sample 0*[0-2]/000.*extra.rand_device: noise of the seed on "cuda"'
cut -d, -f1,2,4- media/cuda.csv >media/own.csv
check own 0 prep own.csv c
check unseeded 0 train c own --max_train_steps 2

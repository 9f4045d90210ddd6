#!/usr/bin/env bash
# Which of Wan 2.2 A14B's two transformers a file or a folder is: by its place, its name, the flags
# and the dataset; and both in one run, from the files of all layouts.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
export VLT_SOURCE

small_set media 8
need make_model m WanModel 16
prep() { vprep --meta media/metadata.json "${sampling[@]}" --image_sample_size 64 --vae_dtype f32 \
    "$@"; }
need prep --model m/diffusers --out a
n=0
# train FLAGS...: a short run on dataset $data in a new folder; `same` compares what it trained.
data=a
train() { n=$((n + 1)); vtrain --latents $data --output_dir run-$n --training_type lora --rank 2 \
    --train_batch_size 2 --max_train_steps 2 --threads 1 --workers 1 --report_to none "$@"; }
# is SIDE PATTERN FLAGS...: the run trains this half, and its output has the pattern.
is()
{
    expect 0 "LoRA of $2:.* trained" train --dry_run "${@:3}"
    output_has "only levels $1"
}
low() { is 'below 0.875' transformer_2 "$@"; }
high() { is 'from 0.875' transformer "$@"; }

# ---- the layouts: first authors', diffusers', single files of several makers ----
file=m/first/diffusion_pytorch_model.safetensors
mkdir -p Wan2.2-T2V-A14B/{low,high}_noise_model w files hub/HighNoise plain
for half in low high; do
    cp m/first/config.json $file Wan2.2-T2V-A14B/${half}_noise_model
    for name in wan2.2_t2v_${half}_noise_14B_fp16 wan2.2_t2v_${half}_noise_14B_fp8_scaled \
        Wan2_2-T2V-A14B-${half^^}_fp8_e4m3fn_scaled_KJ Wan2.2-T2V-A14B-${half^}Noise-Q8_0; do
        cp $file files/$name.safetensors
    done
done
cp -r m/diffusers/transformer w/transformer
cp -r m/diffusers/transformer w/transformer_2
echo '{"_class_name": "WanPipeline", "boundary_ratio": 0.875}' >w/model_index.json
cp $file hub/HighNoise/wan.safetensors
cp $file plain/slow_noise.safetensors
cp $file plain/wan2.1_t2v_14B.safetensors
cp $file files/wan2.2_t2v_14B_high_low_merged.safetensors
cp $file files/wan2.2_14B.safetensors
mkdir -p wan2.2_and_more/models
cp $file wan2.2_and_more/models/wan2.1_low_noise_look.safetensors
ln -s ../Wan2.2-T2V-A14B/low_noise_model/diffusion_pytorch_model.safetensors plain/link.safetensors

# ---- by place and by name ----
for half in low high; do
    $half --transformer Wan2.2-T2V-A14B/${half}_noise_model
    $half --model Wan2.2-T2V-A14B/${half}_noise_model
    $half --dit Wan2.2-T2V-A14B/${half}_noise_model/diffusion_pytorch_model.safetensors
    for name in files/*"${half}_noise"* files/*"-${half^^}_"* files/*"${half^}Noise"*; do
        $half --transformer "$name"
    done
done
low --transformer w/transformer_2
expect 0 'the transformer for low noise, as its name or its folder says' train \
    --transformer w/transformer_2
holds run-$n/config.yaml 'boundary_type: low'
expect 0 'the transformer for high noise' train --transformer w/transformer
one=run-$n
high --transformer w/transformer
high --transformer w/transformer/diffusion_pytorch_model.safetensors --task t2v-A14B
low --model w --boundary_type low
low --model w --max_t 0.875
high --model Wan2.2-T2V-A14B --min_timestep 900 --preserve_distribution_shape
low --model w --transformer files/Wan2.2-T2V-A14B-LowNoise-Q8_0.safetensors
high --transformer hub/HighNoise/wan.safetensors
low --transformer plain/link.safetensors
cd Wan2.2-T2V-A14B/low_noise_model
data=../../a
low --transformer .
cd ../..
data=a

# ---- a model of one transformer trains all levels ----
for name in plain/slow_noise plain/wan2.1_t2v_14B wan2.2_and_more/models/wan2.1_low_noise_look; do
    expect 0 'wan2.1, LoRA: ' train --dry_run --transformer $name.safetensors
    output_lacks 'only levels'
done

# ---- an A14B of which nothing tells the half ----
asks='not known which: give --boundary_type high .* from 0.875 up, low .*, or both of them, --[a-z]* LOW --transformer_high HIGH'
expect 2 "$asks" train --transformer files/wan2.2_14B.safetensors
expect 2 "$asks" train --transformer files/wan2.2_t2v_14B_high_low_merged.safetensors
expect 2 ".--task says so.*$asks" train --dit plain/slow_noise.safetensors --task t2v-A14B
expect 2 ".--timestep_boundary says so" train --dit plain/slow_noise.safetensors \
    --timestep_boundary 0.875
absent run-$n
low --transformer files/wan2.2_14B.safetensors --boundary_type low
high --transformer files/wan2.2_14B.safetensors --max_timestep_boundary 0.417
low --transformer files/wan2.2_14B.safetensors --min_timestep 0 --max_timestep 875
high --transformer files/wan2.2_14B.safetensors --min_t 0.875 --max_t 1
low --transformer plain/slow_noise.safetensors --task t2v-A14B --max_t 0.875
is 'from 0.8' transformer --transformer plain/slow_noise.safetensors --boundary_type high \
    --timestep_boundary 800
expect 0 'is trained at all levels' train --dry_run --transformer files/wan2.2_14B.safetensors \
    --boundary_type full
output_lacks 'only levels'
expect 2 'below 1, or as a timestep below 1000' train --transformer files/wan2.2_14B.safetensors \
    --timestep_boundary 1000

# ---- the dataset was made with a model of two transformers ----
cp -r a with-w
sed -i 's,^model: .*,model: w,' with-w/vprep.yaml
data=with-w
expect 2 "the dataset was made with a model of two transformers.*$asks" train \
    --transformer plain/wan2.1_t2v_14B.safetensors
expect 0 'is trained at all levels' train --dry_run --transformer plain/wan2.1_t2v_14B.safetensors \
    --boundary_type full
sed -i 's,^model: .*,model: /none/Wan2.2-T2V-A14B,' with-w/vprep.yaml       # of 40 blocks
expect 0 'wan2.1, LoRA: ' train --dry_run --transformer plain/wan2.1_t2v_14B.safetensors
data=a

# ---- contradictions ----
mkdir models && cp -r Wan2.2-T2V-A14B models/A14B
expect 2 'low_noise_model is a second transformer: leave one out, or give both with' train \
    --model_id_with_origin_paths \
    'A14B:high_noise_model/*.safetensors,A14B:low_noise_model/*.safetensors'
low --model_id_with_origin_paths 'A14B:low_noise_model/*.safetensors'
expect 2 '.--boundary_type high: .*low_noise_14B_fp16.safetensors is the transformer for low noise.* give --boundary_type low, or the other' \
    train --transformer files/wan2.2_t2v_low_noise_14B_fp16.safetensors --boundary_type high
expect 2 'is the transformer for low noise' train --transformer Wan2.2-T2V-A14B/low_noise_model \
    --max_timestep_boundary 0.417
expect 2 'is the transformer for high noise' train --model w --transformer w/transformer \
    --boundary_type low
expect 2 'trains the levels from 875 alone' train --transformer Wan2.2-T2V-A14B/high_noise_model \
    --min_timestep 0 --max_timestep 875
expect 2 'trains the levels below 875 alone' train --transformer Wan2.2-T2V-A14B/low_noise_model \
    --min_t 0.875
expect 2 'it belongs to --dit$' train --dit Wan2.2-T2V-A14B/high_noise_model \
    --dit_high_noise Wan2.2-T2V-A14B/low_noise_model
expect 2 'is the transformer for high noise.*belongs to' train \
    --dit Wan2.2-T2V-A14B/high_noise_model --dit_high_noise plain/slow_noise.safetensors
expect 2 'transformer and --transformer_high are the same: ' train \
    --transformer plain/slow_noise.safetensors --transformer_high plain/slow_noise.safetensors
mkdir -p empty/low_noise_model
expect "1 2" 'empty/low_noise_model/config.json: No such file' train \
    --transformer empty/low_noise_model
expect 2 'trains one transformer at all levels' train --dit plain/slow_noise.safetensors \
    --dit_high_noise Wan2.2-T2V-A14B/high_noise_model --boundary_type full
expect 2 'one transformer: give the one for low noise' train --dit Wan2.2-T2V-A14B/low_noise_model \
    --boundary_type both

# ---- both, from the files of each layout: the same bits ----
both() { expect 0 'LoRA of transformer and transformer_2: .* trained' train \
    --weighting_scheme uniform "$@"; }
expect 0 'levels from 0.875 for transformer (30% of micro-batches), below for transformer_2' train \
    --dry_run --model w --boundary_type both --weighting_scheme uniform
both --model w --boundary_type both
first=$n
a14b=Wan2.2-T2V-A14B
for flags in "--model Wan2.2-T2V-A14B --boundary_type both" \
    "--task t2v-A14B --dit $a14b/low_noise_model --dit_high_noise $a14b/high_noise_model
        --timestep_boundary 0.875" \
    "--dit files/wan2.2_t2v_low_noise_14B_fp16.safetensors
        --dit_high_noise files/wan2.2_t2v_high_noise_14B_fp16.safetensors" \
    "--model w --transformer w/transformer_2 --boundary_type both" \
    "--model Wan2.2-T2V-A14B --transformer_high hub/HighNoise/wan.safetensors"; do
    both $flags
    cmp -s run-$first/checkpoint-2/optimizer.safetensors run-$n/checkpoint-2/optimizer.safetensors \
        || wrong "$flags: another training"
done
grep -q '"loss_low":' run-$n/metrics.jsonl || wrong "no loss of the half"
for f in pytorch_lora_weights transformer_2/pytorch_lora_weights \
    lora_{kohya,comfyui}_{high,low}_noise; do
    [ -s run-$n/checkpoint-2/$f.safetensors ] || wrong "no $f"
done
both --model w --boundary_type both --lora_checkpoint run-$n/checkpoint-2 \
    --preset_lora_path run-$n/checkpoint-2
for half in low high; do
    expect 0 "LoRA of transformer" train --model w --boundary_type $half \
        --lora_checkpoint run-$((first + 1))/checkpoint-2 \
        --preset_lora_path run-$((first + 1))/checkpoint-2
done
expect "1 2" 'for two transformers a checkpoint that has LoRAs of both' train --model w \
    --boundary_type both --lora_checkpoint $one/checkpoint-2
cp -r w other && sed -i 's/"ffn_dim": *[0-9]*/"ffn_dim": 8/' other/transformer_2/config.json
expect "1 2" 'transformer_2: .*ffn_dim' vtrain --latents a --output_dir other-run --model other \
    --boundary_type both --training_type lora

# ---- I2V: the boundary is 0.9, and a file without a vision model is A14B's ----
need make_model i2v WanModel 36
need prep --train_mode i2v --model i2v/first --out i2v.lmdb
data=i2v.lmdb
cp i2v/first/diffusion_pytorch_model.safetensors files/wan2.2_i2v_high_noise_14B_fp16.safetensors
expect 0 'LoRA of transformer:' train --dry_run \
    --transformer files/wan2.2_i2v_high_noise_14B_fp16.safetensors
output_has 'only levels from 0.9$'

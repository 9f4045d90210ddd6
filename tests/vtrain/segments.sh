#!/usr/bin/env bash
# Clips whose segments have captions of their own, from videos to samples of a model with TTT
# layers: a validation prompt has a caption for each segment too.
. "$(dirname "$0")/../lib/check.sh"
. "$lib/media.sh"
mkdir media
ffmpeg -v error -y -f lavfi -i "testsrc2=s=96x64:r=16" -frames:v 97 -c:v mpeg4 -q:v 4 media/six.mp4
need make_model "$dir/m" CogVideoXPipeline 16
need random_transformer cog '{"_class_name": "CogVideoXTransformer3DModel",
    "num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 1, "time_embed_dim": 16,
    "text_embed_dim": 32, "in_channels": 4, "out_channels": 4,
    "use_rotary_positional_embeddings": true}'
echo '{"file_path": "six.mp4", "text_chunks": ["abc", "de"]}' >media/list.jsonl
prompts() { echo "[$1]" >prompts.json; }
prep()
{
    vprep --meta media/list.jsonl --model m --video_sample_size 64 --vae_dtype f32 \
        --text_encoder_dtype f32 --validation_prompts prompts.json --out "$1"
}

# ---- a prompt's captions are one text, which it shares with a clip of the same captions ----
size='"height": 48, "width": 64'
prompts '{"text_chunks": ["abc", "fg"], "seed": 3, '"$size"'},
    {"text_chunks": ["abc", "de"], "negative_prompt": "x", "seed": 3, "num_frames": 97, '"$size"'}'
expect 0 '1 encoded' prep a
expect 0 ' 4 texts' vlat verify a            # "", "x", those of the clip and of the first prompt

# ---- samples of as many segments ----
train()
{
    vtrain --latents a --transformer cog --ssm_layer ttt_mlp --mini_batch_size 12 --threads 1 \
        --train_batch_size 1 --max_train_steps 1 --validation_steps 1 --num_inference_steps 2 \
        --output_dir "$@"
}
expect 0 '2 stored prompts' train run
for i in 0 1; do
    holds run/validation/step-1/00$i.safetensors '"shape":\[1,4,25,6,8\]\|"shape":\[4,25,6,8\]'
done

# ---- a negative text for each segment: the same text for all gives the sample of one text ----
# sample NAME TEXT [CAPTION]: NAME holds the latents of a sample with this negative prompt, and with
# this caption of the second segment, without the header of their file. It is its run's first
# sample, as the noise depends on the sample's number too.
sample()
{
    prompts '{"text_chunks": ["abc", "'"${3:-fg}"'"], "negative_prompt": '"$2, $size}"
    rm -rf a
    expect 0 '' prep a
    expect 0 '' vlat verify a
    expect 0 '1 stored prompt' train "run-$1"
    tail -c $((4 * 4 * 25 * 6 * 8)) "run-$1/validation/step-1/000.safetensors" >"$1"
}
sample one '"x"'
sample same '["x", "x"]'
sample own '["x", "yz"]'
sample swapped '["yz", "x"]'
sample caption '"x"' de
cmp one same || wrong 'a list of equal negative texts is not the text for all segments'
! cmp -s one caption || wrong 'the caption of the second segment changes no sample'
! cmp -s one own || wrong 'the negative text of the second segment changes no sample'
! cmp -s own swapped || wrong 'the order of negative texts changes no sample'
holds run-own/validation/step-1/000.safetensors '"negative_prompt":"x\\nyz"'

# ---- refused lists ----
prompts '{"text_chunks": "abc"}'
expect 1 'row 1: text_chunks: expected a list of 1 to 256 strings' prep b
prompts '{"text_chunks": ["abc", 7]}'
expect 1 'row 1: text_chunks: expected a list of 1 to 256 strings' prep b
prompts '{"text_chunks": ["abc", "de"], "num_frames": 49}'
expect 1 'row 1: num_frames: 49, but the 2 captions of text_chunks are 97 frames' prep b
prompts '{"seed": 3}'
expect 1 'row 1: no prompt (a column prompt, caption or text, or text_chunks)' prep b
prompts '{"text_chunks": ["abc", "de"], "negative_prompt": ["x", "y", "z"]}'
expect 1 'row 1: negative_prompt: a list of 3 texts, but the prompt has 2 segments' prep b

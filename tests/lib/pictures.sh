# Sourced by tests of families of pictures, after check.sh, media.sh and vtrain.sh: a set of
# pictures with two validation prompts, a tiny model in m, and what every such family shows.

# make_set PIPELINE CHANNELS GUIDANCE LONGER: six pictures of two sizes, each with a caption that is
# LONGER characters longer than that before; prompts, of which the second has a GUIDANCE of its own;
# the model m; and the dataset a.
make_set() {
    local i size
    mkdir media
    for ((i = 0; i < 6; i++)); do
        size=$([ $((i % 2)) = 0 ] && echo 96x64 || echo 64x64)
        ffmpeg -v error -y -f lavfi -i "testsrc2=s=$size:r=1:d=1,hue=h=$((i * 50))" -frames:v 1 \
            "media/$i.png"
        echo "picture $i$(printf '%*s' $(($4 * i)) '' | tr ' ' x)" >"media/$i.txt"
    done
    cat >prompts.jsonl <<END
{"prompt": "a b c", "height": 64, "width": 96, "seed": 3}
{"prompt": "def ghi jkl", "negative_prompt": "a", "height": 64, "width": 64, "guidance_scale": $3}
END
    need make_model m "$1" "$2"
    need vprep --meta media --image_sample_size 64 --video_sample_size 64 --model m --out a \
        --validation_prompts prompts.jsonl
}

train() {
    vtrain --latents a --model m --output_dir "$1" --train_batch_size 2 --seed 5 --threads 1 \
        --workers 1 "${@:2}"
}
lora=(--training_type lora --rank 2)

# guided_at STEP FIRST SECOND: the guidance of the two samples of run `shown`, as JSON has them.
guided_at() {
    grep -aq "\"guidance_scale\":\"$2\"" "shown/validation/step-$1/000.safetensors" ||
        wrong "the first sample is not guided at $2"
    grep -aq "\"guidance_scale\":\"$3\"" "shown/validation/step-$1/001.safetensors" ||
        wrong "the second sample is guided"
}

# decoded STEP: vdecode makes the pictures of both samples.
decoded() {
    local name
    expect 0 '2 decoded' vdecode shown --model m --format png
    for name in 000 001; do
        [ -s "shown/validation/step-$1/$name-000.png" ] ||
            [ -s "shown/validation/step-$1/$name.png" ] ||
            wrong "pictures: $(ls "shown/validation/step-$1")"
    done
}

# resume_alike STEPS: a LoRA, also with frozen weights in 8 bits, and a full finetune that are cut
# in half end with the same bits.
resume_alike() {
    local how type name
    for how in "lora --rank 2" "lora --rank 2 --transformer_dtype fp8" full-finetune; do
        read -ra type <<<"--training_type $how"
        name=${how// /_}
        expect 0 'memory: peak' train "$name" "${type[@]}" --max_train_steps "$1" \
            --caption_dropout_p 0.5
        expect 0 . train "$name-cut" "${type[@]}" --max_train_steps $(($1 / 2)) \
            --caption_dropout_p 0.5
        expect 0 . train "$name-cut" "${type[@]}" --max_train_steps "$1" --caption_dropout_p 0.5 \
            --resume_from_checkpoint latest
        same_end "$name/checkpoint-$1" "$name-cut/checkpoint-$1" || wrong "$name: other weights"
    done
}

#!/usr/bin/env bash
# vtrain's predicted peak of memory, where captions are short: 20 tokens of the 512 that the dataset
# allows. It is within 10 % of the real one for Z-Image, FLUX.2, Qwen-Image, LTX-2, Wan,
# HunyuanVideo and Kandinsky 5 at a width of 256, and a dry run predicts the same. The longest
# possible caption is taken for a dataset that may grow, and where a LoRA's dropout asks for texts
# of one length.
. "$(dirname "$0")/../lib/check.sh"
[ "$VLT_FAULT_MEMORY" = 1 ] || { echo "skipped: sanitizers have memory of their own"; exit 77; }

predicted() { sed -n 's/.*memory: peak \([0-9.]*\) MiB predicted.*/\1/p' "$1"; }
# near_to A B: they differ by 1 % at most, the bytes of strings, and by the last digit printed
near_to() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0.1 > 0.99 * b && b + 0.1 > 0.99 * a) }'; }
# near NAME F H W CONFIG FLAG...: two kinds of training; the next family has others. VLT_ALL=1: all.
# SHOW=1 shows the numbers.
kinds=("none bf16 lora --rank 16" "block bf16 lora --rank 16" "none no full-finetune")
near()
{
    local how i checkpointing precision type dry off text=20/512
    [ "$1" != flux2 ] || text=512              # its texts have this many tokens in any case
    need random_transformer "$1" "$5"
    need random_dataset "$1.lmdb" 2 "$2" "$3" "$4" $text 256 "$1" 256
    for i in $((turn++ % 3)) $((turn++ % 3)) ${VLT_ALL:+0 1 2}; do
        how=${kinds[i]}
        read -r checkpointing precision type <<<"$how"
        rm -rf out
        run=(vtrain --transformer "$1" --latents "$1.lmdb" --output_dir out --threads 2
             --max_train_steps 3 --train_batch_size 1 --training_type $type
             --gradient_checkpointing=$checkpointing --mixed_precision $precision "${@:6}")
        expect 0 . "${run[@]}" --dry_run
        dry=$(predicted "$log")
        expect 0 . "${run[@]}"
        off=$(sed -n 's/.*memory: peak .* which is \([.0-9]*\)% .* were predicted.*/\1/p' "$log")
        [ -z "${SHOW:-}" ] || sed -n "s/.*\(memory: peak.*which\)/$1, $how: \1/p" "$log" >&2
        awk -v off="${off:-100}" 'BEGIN { exit !(off <= 10) }' || wrong "$1, $how: $off %"
        near_to "$dry" "$(predicted "$log")" ||
            wrong "$1, $how: a dry run predicts $dry MiB, the run $(predicted "$log")"
    done
}
turn=0
near z-image 1 16 16 '{"_class_name": "ZImageTransformer2DModel", "n_layers": 3,
    "n_refiner_layers": 1, "dim": 256, "n_heads": 2, "cap_feat_dim": 256}'
near flux2 1 8 8 '{"_class_name": "Flux2Transformer2DModel", "num_layers": 2,
    "num_single_layers": 2, "num_attention_heads": 2, "joint_attention_dim": 256,
    "guidance_embeds": false}'
near qwen-image 1 16 16 '{"_class_name": "QwenImageTransformer2DModel", "num_layers": 3,
    "num_attention_heads": 2, "joint_attention_dim": 256}'
need random_transformer beside '{"_class_name": "LTX2TextConnectors", "rope_type": "split",
    "video_connector_num_attention_heads": 4, "video_connector_attention_head_dim": 64,
    "audio_connector_num_attention_heads": 4, "audio_connector_attention_head_dim": 64}'
near ltx-2 3 8 8 '{"_class_name": "LTX2VideoTransformer3DModel", "num_layers": 3,
    "rope_type": "split", "num_attention_heads": 4, "attention_head_dim": 64,
    "cross_attention_dim": 256, "caption_channels": 256, "audio_num_attention_heads": 4,
    "audio_attention_head_dim": 32, "audio_cross_attention_dim": 128}' --connectors beside
near wan2.1 2 16 16 '{"_class_name": "WanTransformer3DModel", "num_layers": 3,
    "num_attention_heads": 2, "attention_head_dim": 128, "ffn_dim": 768, "text_dim": 256,
    "in_channels": 16, "out_channels": 16}'
near hunyuanvideo 2 16 16 '{"_class_name": "HunyuanVideoTransformer3DModel", "num_layers": 2,
    "num_single_layers": 2, "num_refiner_layers": 1, "num_attention_heads": 2,
    "text_embed_dim": 256, "pooled_projection_dim": 256}'
near hunyuanvideo1.5 2 16 16 '{"_class_name": "HunyuanVideo15Transformer3DModel",
    "num_layers": 3, "num_refiner_layers": 1, "num_attention_heads": 2, "text_embed_dim": 256,
    "text_embed_2_dim": 256, "image_embed_dim": 256, "task_type": "t2v"}'
near kandinsky5 2 16 16 '{"_class_name": "Kandinsky5Transformer3DModel", "in_visual_dim": 16,
    "out_visual_dim": 16, "in_text_dim": 256, "in_text_dim2": 256, "time_dim": 256,
    "model_dim": 256, "ff_dim": 1024, "num_text_blocks": 1, "num_visual_blocks": 3,
    "visual_cond": true}'

# ---- the longest possible caption ----
for flag in --follow "--lora_dropout 0.1"; do
    expect 0 . vtrain --transformer z-image --latents z-image.lmdb --output_dir none --threads 2 \
        --max_train_steps 1 --train_batch_size 1 --rank 16 --gradient_checkpointing=none \
        --mixed_precision bf16 --dry_run $flag
    awk -v all="$(predicted "$log")" 'BEGIN { exit !(all > 30) }' ||    # 11 MiB with 20 tokens
        wrong "$flag: $(predicted "$log") MiB, but a caption may have 512 tokens"
done

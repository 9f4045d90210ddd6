#!/usr/bin/env bash
# vtrain's predicted peak of memory is within 10 % of the real one for HunyuanVideo, LTX-Video and
# vtrain's predicted peak of memory is within 10 % of the real one for HunyuanVideo, LTX-Video,
# Qwen-Image and FLUX.1, at a width of 512 and several hundred tokens: LoRA and full finetune, with
# and without recomputation.
. "$(dirname "$0")/../lib/check.sh"
[ "$VLT_FAULT_MEMORY" = 1 ] || { echo "skipped: sanitizers have memory of their own"; exit 77; }

# near NAME...: the last run's predicted peak is 10 % or less from the real one
near()
{
    local off
    off=$(sed -n 's/.*memory: peak .* which is \([.0-9]*\)% .* were predicted.*/\1/p' "$log")
    [ -n "$off" ] || { wrong "$*: no peak"; return; }
    awk -v off="$off" 'BEGIN { exit !(off <= 10) }' || wrong "$*: $off %"
}
runs() # runs FAMILY TRANSFORMER
{
    local how checkpointing precision
    for how in "lora --rank 16" full-finetune; do
        for checkpointing in none block; do
            for precision in bf16 no; do
                [ "$how $precision" != "full-finetune no" ] || continue      # seconds for little
                rm -rf out
                expect 0 . vtrain --transformer "$2" --latents "$1.lmdb" --output_dir out --threads 2 \
                    --max_train_steps 1 --train_batch_size 1 --training_type $how \
                    --gradient_checkpointing=$checkpointing --mixed_precision $precision
                near "$1, $how, $checkpointing, $precision"
            done
        done
    done
}

need random_transformer ltx '{"_class_name": "LTXVideoTransformer3DModel", "num_layers": 4,
    "num_attention_heads": 8, "cross_attention_dim": 512, "caption_channels": 512}'
need random_dataset ltx-video.lmdb 2 5 12 12 64 512 ltx-video
runs ltx-video ltx
need random_transformer hunyuan '{"_class_name": "HunyuanVideoTransformer3DModel", "num_layers": 2,
    "num_single_layers": 2, "num_refiner_layers": 1, "num_attention_heads": 4, "text_embed_dim": 512,
    "pooled_projection_dim": 256}'
need random_dataset hunyuanvideo.lmdb 2 5 24 24 64 512 hunyuanvideo 256
runs hunyuanvideo hunyuan
need random_transformer qwen '{"_class_name": "QwenImageTransformer2DModel", "num_layers": 3,
    "num_attention_heads": 4, "joint_attention_dim": 512}'
need random_dataset qwen-image.lmdb 2 1 40 40 64 512 qwen-image
runs qwen-image qwen
need random_transformer flux '{"_class_name": "FluxTransformer2DModel", "num_layers": 2,
    "num_single_layers": 2, "num_attention_heads": 4, "joint_attention_dim": 512,
    "pooled_projection_dim": 256, "guidance_embeds": true}'
need random_dataset flux.lmdb 2 1 48 64 64 512 flux 256
runs flux flux

#!/usr/bin/env bash
# vtrain's predicted peak of memory is within 5 % of the real one for HunyuanVideo and 1.5,
# LTX-Video, LTX-2 with and without its sound, Qwen-Image, Z-Image, Chroma, SD3, Krea 2, Ideogram 4,
# ERNIE-Image, Cosmos-Predict2, FLUX.1, FLUX.2, Wan and its VACE, SkyReels V2, CogVideoX and
# Kandinsky 5, at a width of 256 and some hundred tokens: LoRA and full finetune, with and without
# recomputation; for the built-in model on a few samples, on many, and on two ranks; for LoRA's
# relatives; for bases in fewer bits;
# for a distillation to few steps and ControlNets, of which two ranks share samples too. A limit is
# kept by recomputation, also where the run is to recompute nothing.
. "$(dirname "$0")/../lib/check.sh"
[ "$VLT_FAULT_MEMORY" = 1 ] || { echo "skipped: sanitizers have memory of their own"; exit 77; }

# near NAME...: the last run's predicted peak is $most (5) % or less from the real one
near()
{
    local off
    off=$(sed -n 's/.*memory: peak .* which is \([.0-9]*\)% .* were predicted.*/\1/p' "$log")
    [ -n "$off" ] || { wrong "$*: no peak"; return; }
    awk -v off="$off" -v most="${most:-5}" 'BEGIN { exit !(off <= most) }' || wrong "$*: $off %"
}
# runs DATASET TRANSFORMER FLAG...: of each kind of training one run recomputes and one does not, in
# bf16 or in f32; the next family has the other precisions. VLT_ALL=1 has all of them for each.
halves=("none bf16 lora --rank 16,block no lora --rank 16,block bf16 full-finetune"
        "block bf16 lora --rank 16,none no lora --rank 16,none bf16 full-finetune")
runs()
{
    local checkpointing precision how rows=${halves[turn = (turn + 1) % 2]}
    [ -z "${VLT_ALL:-}" ] || rows=${halves[0]},${halves[1]}
    while read -r checkpointing precision how; do
        rm -rf out
        expect 0 . vtrain --transformer "$2" --latents "$1.lmdb" --output_dir out --threads 2 \
            --max_train_steps ${steps:-1} --train_batch_size 1 --training_type $how \
            --gradient_checkpointing=$checkpointing --mixed_precision $precision "${@:3}"
        near "$1, $how, $checkpointing, $precision${3:+, ${*:3}}"
    done <<<"${rows//,/$'\n'}"
}
turn=0

need random_transformer ltx '{"_class_name": "LTXVideoTransformer3DModel", "num_layers": 4,
    "num_attention_heads": 4, "cross_attention_dim": 256, "caption_channels": 256}'
need random_dataset ltx-video.lmdb 2 5 12 12 64 256 ltx-video
runs ltx-video ltx
ways=("none bf16" "block bf16" "block no")
for adapter in rslora dora loha lokr "lokr --lokr_full_matrix" doha dokr; do
    for how in "${ways[turn = (turn + 1) % 3]}" ${VLT_ALL:+"${ways[@]}"}; do
        rm -rf out
        expect 0 . vtrain --transformer ltx --latents ltx-video.lmdb --output_dir out --threads 2 \
            --max_train_steps 1 --train_batch_size 1 --rank 16 --adapter $adapter \
            --target_name all-linear --gradient_checkpointing=${how% *} \
            --mixed_precision ${how#* }
        near "--adapter $adapter, $how"
    done
done
turn=0
# LTX-2, whose connectors of prompts run with it
size='"num_layers": 3, "rope_type": "split", "num_attention_heads": 4, "attention_head_dim": 64,
    "cross_attention_dim": 256, "caption_channels": 256, "audio_num_attention_heads": 4,
    "audio_attention_head_dim": 32, "audio_cross_attention_dim": 128'
gated='"gated_attn": true, "cross_attn_mod": true, "audio_gated_attn": true,
    "audio_cross_attn_mod": true, "use_prompt_embeddings": false'
beside='"_class_name": "LTX2TextConnectors", "rope_type": "split",
    "video_connector_num_attention_heads": 4, "video_connector_attention_head_dim": 64,
    "audio_connector_num_attention_heads": 4'
class='"_class_name": "LTX2VideoTransformer3DModel"'
need random_transformer ltx2-20 "{$class, $size}"
need random_transformer ltx2-23 "{$class, $size, $gated}"
need random_transformer beside-20 "{$beside, \"audio_connector_attention_head_dim\": 64}"
need random_transformer beside-23 "{$beside, \"audio_connector_attention_head_dim\": 32,
    \"video_gated_attn\": true, \"audio_gated_attn\": true}"
for v in 20 23; do
    width=$((v == 20 ? 256 : 256 + 128))       # of 2.3 the features of the sound are behind
    need random_dataset ltx-2-$v.lmdb 2 3 16 16 64 $width ltx-2+sound
    runs ltx-2-$v ltx2-$v --connectors beside-$v
    runs ltx-2-$v ltx2-$v --connectors beside-$v --with_audio
done
# Tiny ones, of whose 5 MiB a fifth is names and descriptions of tensors and of files. What comes
# behind the plan, such as the files of a checkpoint, is 0.2 MiB: within 10 %. After four steps the
# loader has used all of its buffers, which are 0.4 MiB.
size='"num_layers": 2, "rope_type": "split", "num_attention_heads": 2, "attention_head_dim": 16,
    "cross_attention_dim": 32, "caption_channels": 32, "audio_num_attention_heads": 2,
    "audio_attention_head_dim": 8, "audio_cross_attention_dim": 16'
beside='"_class_name": "LTX2TextConnectors", "rope_type": "split",
    "video_connector_num_attention_heads": 2, "video_connector_attention_head_dim": 16,
    "audio_connector_num_attention_heads": 2'
need random_transformer tiny-20 "{$class, $size}"
need random_transformer tiny-23 "{$class, $size, $gated}"
need random_transformer tiny-beside-20 "{$beside, \"audio_connector_attention_head_dim\": 16}"
need random_transformer tiny-beside-23 "{$beside, \"audio_connector_attention_head_dim\": 8,
    \"video_gated_attn\": true, \"audio_gated_attn\": true}"
most=10 steps=4
for v in 20 23; do
    width=$((v == 20 ? 32 : 32 + 16))
    need random_dataset tiny-$v.lmdb 2 2 2 2 12 $width ltx-2+sound
    runs tiny-$v tiny-$v --connectors tiny-beside-$v
    runs tiny-$v tiny-$v --connectors tiny-beside-$v --with_audio
done
most='' steps=''
turn=0
need random_transformer hunyuan '{"_class_name": "HunyuanVideoTransformer3DModel", "num_layers": 2,
    "num_single_layers": 2, "num_refiner_layers": 1, "num_attention_heads": 2,
    "text_embed_dim": 256, "pooled_projection_dim": 256}'
need random_dataset hunyuanvideo.lmdb 2 5 24 24 64 256 hunyuanvideo 256
runs hunyuanvideo hunyuan
need random_transformer hunyuan15 '{"_class_name": "HunyuanVideo15Transformer3DModel",
    "num_layers": 3, "num_refiner_layers": 1, "num_attention_heads": 2, "text_embed_dim": 256,
    "text_embed_2_dim": 256, "image_embed_dim": 256, "task_type": "t2v"}'
need random_dataset hunyuanvideo1.5.lmdb 2 5 12 12 64 256 hunyuanvideo1.5
runs hunyuanvideo1.5 hunyuan15
need random_transformer qwen '{"_class_name": "QwenImageTransformer2DModel", "num_layers": 3,
    "num_attention_heads": 2, "joint_attention_dim": 256}'
need random_dataset qwen-image.lmdb 2 1 40 40 64 256 qwen-image
runs qwen-image qwen
for how in "none bf16 lora --rank 16" "block bf16 lora --rank 16" "block no full-finetune"; do
    read -r checkpointing precision type <<<"$how"
    rm -rf out
    expect 0 . vtrain --transformer qwen --latents qwen-image.lmdb --output_dir out --threads 2 \
        --max_train_steps 1 --train_batch_size 1 --task direct_distill --distill_steps 3 \
        --training_type $type --gradient_checkpointing=$checkpointing --mixed_precision $precision
    near "direct_distill, $how"
done
need random_dataset control.lmdb 2 1 40 40 64 256 qwen-image+control
for how in "none bf16" "block bf16" "block no"; do
    rm -rf out
    expect 0 . vtrain --transformer qwen --latents control.lmdb --output_dir out --threads 2 \
        --max_train_steps 1 --train_batch_size 1 --trainable_models blockwise_controlnet \
        --blockwise_controlnet new --gradient_checkpointing=${how% *} --mixed_precision ${how#* }
    near "blockwise_controlnet, $how"
done
need random_transformer zimage '{"_class_name": "ZImageTransformer2DModel", "n_layers": 3,
    "n_refiner_layers": 1, "dim": 256, "n_heads": 2, "cap_feat_dim": 256}'
need random_dataset z-image.lmdb 2 1 40 40 64 256 z-image
runs z-image zimage
need random_transformer chroma '{"_class_name": "ChromaTransformer2DModel", "num_layers": 2,
    "num_single_layers": 2, "num_attention_heads": 2, "joint_attention_dim": 256,
    "approximator_hidden_dim": 256}'
need random_dataset chroma.lmdb 2 1 40 40 64 256 chroma
runs chroma chroma
need random_transformer sd3 '{"_class_name": "SD3Transformer2DModel", "num_layers": 4,
    "num_attention_heads": 4, "caption_projection_dim": 256, "joint_attention_dim": 256,
    "pooled_projection_dim": 256, "qk_norm": "rms_norm", "dual_attention_layers": [0, 1]}'
need random_dataset sd3.lmdb 2 1 40 40 64 256 sd3 256
runs sd3 sd3
need random_transformer krea2 '{"_class_name": "Krea2Transformer2DModel", "num_layers": 3,
    "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 768,
    "text_hidden_dim": 128, "num_text_layers": 4, "text_num_attention_heads": 2,
    "text_num_key_value_heads": 2, "text_intermediate_size": 256}'
need random_dataset krea2.lmdb 2 1 40 40 64 512 krea2
runs krea2 krea2
need random_transformer cosmos2 '{"_class_name": "CosmosTransformer3DModel", "num_layers": 3,
    "num_attention_heads": 2, "text_embed_dim": 256, "adaln_lora_dim": 64,
    "rope_scale": [1, 4, 4]}'
need random_dataset cosmos2.lmdb 2 1 40 40 64 256 cosmos2
runs cosmos2 cosmos2
need random_transformer ernie '{"_class_name": "ErnieImageTransformer2DModel", "num_layers": 3,
    "num_attention_heads": 2, "hidden_size": 256, "ffn_hidden_size": 768, "text_in_dim": 256}'
need random_dataset ernie-image.lmdb 2 1 20 20 64 256 ernie-image
runs ernie-image ernie
need random_transformer ideogram4 '{"_class_name": "Ideogram4Transformer2DModel", "num_layers": 3,
    "num_attention_heads": 2, "attention_head_dim": 128, "intermediate_size": 768,
    "adaln_dim": 128, "llm_features_dim": 256}'
need random_dataset ideogram4.lmdb 2 1 20 20 64 256 ideogram4
runs ideogram4 ideogram4
need random_transformer flux2 '{"_class_name": "Flux2Transformer2DModel", "num_layers": 2,
    "num_single_layers": 2, "num_attention_heads": 2, "joint_attention_dim": 256,
    "guidance_embeds": false}'
need random_dataset flux2.lmdb 2 1 20 20 64 256 flux2
runs flux2 flux2
need random_transformer flux '{"_class_name": "FluxTransformer2DModel", "num_layers": 2,
    "num_single_layers": 2, "num_attention_heads": 2, "joint_attention_dim": 256,
    "pooled_projection_dim": 256, "guidance_embeds": true}'
need random_dataset flux.lmdb 2 1 48 64 64 256 flux 256
runs flux flux
need random_dataset flux-control.lmdb 2 1 40 40 64 256 flux+control 256
for how in "none bf16 flux" "block bf16 flux" "block no flux" "none no qwen" "block bf16 qwen"; do
    read -r checkpointing precision family <<<"$how"
    rm -rf out
    latents=control.lmdb
    [ $family = qwen ] || latents=flux-control.lmdb
    expect 0 . vtrain --transformer $family --latents $latents --output_dir out --threads 2 \
        --max_train_steps 1 --train_batch_size 1 --trainable_models controlnet --controlnet new \
        --num_double_layers 3 --num_single_layers 2 --gradient_checkpointing=$checkpointing \
        --mixed_precision $precision
    near "controlnet, $how"
done
need random_transformer wan '{"_class_name": "WanTransformer3DModel", "num_layers": 3,
    "num_attention_heads": 2, "attention_head_dim": 128, "ffn_dim": 768, "text_dim": 256,
    "in_channels": 16, "out_channels": 16}'
need random_dataset wan2.1.lmdb 2 5 24 24 64 256 wan2.1
runs wan2.1 wan
for base in fp8 int8 nf4 "nf4 --use_dora"; do
    for precision in bf16 no; do
        rm -rf out
        expect 0 . vtrain --transformer wan --latents wan2.1.lmdb --output_dir out --threads 2 \
            --max_train_steps 1 --train_batch_size 1 --rank 16 --target_name all-linear \
            --mixed_precision $precision --transformer_dtype $base
        near "--transformer_dtype $base, $precision"
    done
done
need random_transformer vace '{"_class_name": "WanVACETransformer3DModel", "num_layers": 3,
    "num_attention_heads": 2, "attention_head_dim": 128, "ffn_dim": 768, "text_dim": 256,
    "vace_layers": [0, 2]}'
need random_dataset wan-vace.lmdb 2 5 24 24 64 256 wan-vace+vace
runs wan-vace vace
need random_transformer skyreels '{"_class_name": "SkyReelsV2Transformer3DModel", "num_layers": 3,
    "num_attention_heads": 2, "attention_head_dim": 128, "ffn_dim": 768, "text_dim": 256,
    "inject_sample_info": true}'
need random_dataset skyreels-v2.lmdb 2 5 24 24 64 256 skyreels-v2
runs skyreels-v2 skyreels
steps=2 runs skyreels-v2 skyreels --diffusion_forcing increasing
need random_transformer cogvideox '{"_class_name": "CogVideoXTransformer3DModel", "num_layers": 3,
    "num_attention_heads": 4, "attention_head_dim": 64, "text_embed_dim": 256, "in_channels": 16,
    "out_channels": 16, "use_rotary_positional_embeddings": true}'
need random_dataset cogvideox.lmdb 2 5 24 24 226 256 cogvideox
runs cogvideox cogvideox
need random_transformer kandinsky5 '{"_class_name": "Kandinsky5Transformer3DModel",
    "in_visual_dim": 16, "out_visual_dim": 16, "in_text_dim": 256, "in_text_dim2": 256,
    "time_dim": 256, "model_dim": 256, "ff_dim": 1024, "num_text_blocks": 1,
    "num_visual_blocks": 3, "visual_cond": true}'
need random_dataset kandinsky5.lmdb 2 5 24 24 64 256 kandinsky5 256
runs kandinsky5 kandinsky5

# The built-in model: buckets of three samples and fewer than a batch, and an index of many samples.
need random_dataset few.lmdb 3 3 24 40 4 32 builtin 32
need random_dataset many.lmdb 300000 1 4 4 4 32 builtin 32 5000
for set in "few 1" "few 8" "many 2"; do
    rm -rf out
    expect 0 . vtrain --latents "${set% *}.lmdb" --output_dir out --threads 2 --max_train_steps 3 \
        --train_batch_size "${set#* }"
    near "built-in, $set"
done
if [ "$VLT_MPI" = ON ] && command -v mpirun >/dev/null; then
    for parallel in ddp zero2 fsdp; do
        rm -rf out
        expect 0 . "$lib/ranks.sh" 2 vtrain --latents few.lmdb --output_dir out --threads 1 \
            --max_train_steps 3 --train_batch_size 1 --parallel $parallel
        near "two ranks, $parallel"
    done
    for how in "none flux flux-control" "block qwen control"; do
        read -r checkpointing family latents <<<"$how"
        rm -rf out
        expect 0 . "$lib/ranks.sh" 2 vtrain --transformer $family --latents $latents.lmdb \
            --output_dir out --threads 1 --max_train_steps 1 --train_batch_size 1 --sp 2 \
            --trainable_models controlnet --controlnet new --num_double_layers 3 \
            --num_single_layers 2 --gradient_checkpointing=$checkpointing --mixed_precision bf16
        near "two ranks share samples, controlnet, $how"
    done
fi

# limited SIZE STATUS PATTERN...: a run that is to recompute nothing, within a limit
limited()
{
    rm -rf out
    expect "$2" "$3" vtrain --latents few.lmdb --output_dir out --threads 2 --max_train_steps 2 \
        --train_batch_size 1 --gradient_checkpointing=none --memory_limit "$1"
}
limited 1G 0 .
output_lacks 'in spite of'
limited 76M 0 'recomputes blocks in spite of --gradient_checkpointing none'
output_has '[1-4] of 4 blocks recomputed\|blocks recomputed in backward'
near "a limit of 76 MiB"
limited 40M 1 'is predicted, but --memory_limit is 40.0 MiB'
output_lacks '--gradient_checkpointing=block'

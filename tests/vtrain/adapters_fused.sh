#!/usr/bin/env bash
# Adapters of FLUX.1, whose first authors have q, k and v in one module, and the last norm's shift
# before its scale: every file that a run writes makes the same model, folded into the base and
# trained further; a LoKr of fused modules has no such files, which a line says.
. "$(dirname "$0")/../lib/check.sh"
need random_transformer flux '{"_class_name": "FluxTransformer2DModel", "num_layers": 1,
    "num_single_layers": 1, "num_attention_heads": 2, "attention_head_dim": 16,
    "axes_dims_rope": [4, 6, 6], "joint_attention_dim": 24, "pooled_projection_dim": 20,
    "guidance_embeds": true}'
need random_dataset flux.lmdb 6 1 4 4 16 24 flux 20

trains() # trains OUT STEPS FLAGS...
{
    local out=$1 steps=$2
    shift 2
    need vtrain --transformer flux --latents flux.lmdb --output_dir "$out" --threads 1 \
        --max_train_steps "$steps" --train_batch_size 2 --mixed_precision no --eval_split 0.4 \
        --eval_steps "$steps" --training_type lora --quiet "$@"
}
loss() { tail -n 1 "$1/metrics.jsonl" | sed -n 's/.*"eval_loss":\([-0-9.e+]*\).*/\1/p'; }
same() # same WHAT A B MOST: two losses differ by this, relative, at most
{
    awk -v a="$2" -v b="$3" -v m="$4" \
        'BEGIN { d = a - b; exit !(a > 0 && d <= m * a && -d <= m * a) }' ||
        wrong "$1: the loss is $3, not $2"
}
trains none 1 --learning_rate 1e-20 --target_name to_q
for adapter in rslora dora loha; do
    for bake in bake_scale no_bake_scale; do
        rm -rf run
        trains run 4 --adapter $adapter --rank 2 --alpha_pattern to_k=3 --$bake \
            --learning_rate 1e-2 --target_name to_q,to_k,to_out.0,add_q_proj
        awk -v a="$(loss run)" -v b="$(loss none)" 'BEGIN { exit !((a - b)^2 > 4e-8 * a * a) }' ||
            wrong "$adapter: the loss $(loss run) is that of the base, $(loss none)"
        for file in pytorch_lora_weights lora_kohya lora_comfyui; do
            path=run/checkpoint-4/$file.safetensors
            [ -f "$path" ] || wrong "$adapter: no $file"
            if [ "$adapter $file" = "dora lora_comfyui" ]; then
                cp "$path" dora.safetensors
                continue
            fi
            rm -rf folded further
            trains folded 1 --preset_lora_path "$path" --learning_rate 1e-20
            # the folded weights are rounded to the file's bf16
            same "$adapter, $bake, $file folded in" "$(loss run)" "$(loss folded)" 3e-5
            [ $file != pytorch_lora_weights ] || one=$(loss folded)
            same "$adapter, $bake, $file folded in as the first" "$one" "$(loss folded)" 4e-7
            [ $adapter != loha ] || [ $file = pytorch_lora_weights ] || continue
            trains further 1 --lora_checkpoint "$path" --learning_rate 1e-20
            same "$adapter, $bake, $file trained further" "$(loss run)" "$(loss further)" 2e-6
        done
    done
done
# ---- the last norm, with exchanged halves; a LoKr's first matrix has 4 rows, or one ----
for how in lora rslora dora loha "lokr --lokr_factor 4" "lokr --lokr_factor 1"; do
    rm -rf run
    trains run 4 --rank 2 --learning_rate 1e-2 --target_name norm_out.linear --adapter $how
    one=
    for file in pytorch_lora_weights lora_kohya lora_comfyui; do
        path=run/checkpoint-4/$file.safetensors
        [ $file = pytorch_lora_weights ] ||
            grep -aq '"\(lora_unet_\|diffusion_model.\)final_layer.adaLN_modulation.1\.' "$path" ||
            wrong "$how: $file has no norm_out.linear by its first authors' name"
        rm -rf folded further
        [ "$how $file" != "dora lora_comfyui" ] || continue
        trains folded 1 --preset_lora_path "$path" --learning_rate 1e-20
        one=${one:-$(loss folded)}
        same "$how, $file folded in as the first" "$one" "$(loss folded)" 4e-7
        trains further 1 --lora_checkpoint "$path" --learning_rate 1e-20
        same "$how, $file trained further" "$(loss run)" "$(loss further)" 2e-6
    done
done

rm -rf run
expect 0 'lora_kohya.safetensors is not written: it has .*to_q and others in one' \
    vtrain --transformer flux --latents flux.lmdb --output_dir run --threads 1 \
    --max_train_steps 1 --train_batch_size 2 --mixed_precision no --adapter lokr --rank 2
[ ! -f run/checkpoint-1/lora_comfyui.safetensors ] || wrong "a LoKr has lora_comfyui"
[ -f run/checkpoint-1/pytorch_lora_weights.safetensors ] || wrong "a LoKr has no file"
expect 1 'pytorch_lora_weights.safetensors beside it' \
    vtrain --transformer flux --latents flux.lmdb --output_dir more --threads 1 \
    --max_train_steps 1 --train_batch_size 2 --lora_checkpoint dora.safetensors

#!/usr/bin/env bash
# vtrain with TTT layers: from a CogVideoX transformer and a list of ttt-video's clips of three
# segments to a checkpoint, which is resumed to the same bits and trained further; the parameters of
# each --adapter_method; the predicted memory; refused flags, models and datasets.
. "$(dirname "$0")/../lib/check.sh"

cog() # cog DIR HEADS HEAD: a CogVideoX transformer of random weights
{
    need random_transformer "$1" '{"_class_name": "CogVideoXTransformer3DModel",
        "num_attention_heads": '"$2"', "attention_head_dim": '"$3"', "num_layers": 2,
        "time_embed_dim": 16, "text_embed_dim": 32, "in_channels": 16, "out_channels": 16,
        "use_rotary_positional_embeddings": true}'
}
cog cog 2 16
need random_dataset one.lmdb 4 37 4 6 6 32 cogvideox
need vlat export one.lmdb --to ttt-video --out list
sed -i 's/"text_chunk_emb": *\[\(.*\)\]/"text_chunk_emb":[\1,\1,\1]/' list/metadata.jsonl
need vlat import list/metadata.jsonl --from ttt-video --empty zeros --out a.lmdb
train() # train OUT FLAG...
{
    vtrain --latents a.lmdb --output_dir "$1" --train_batch_size 2 --threads 1 --workers 1 \
        --seed 5 \
        --mini_batch_size 8 --learning_rate 2e-3 --mixed_precision no "${@:2}"
}
mlp=(--transformer cog --ssm_layer ttt_mlp)
weights=diffusion_pytorch_model.safetensors
# names FILE PATTERN: the number of tensors whose names have the pattern
names() { tr '{' '\n' <"$1" | tr -d '\0' | head -c 400000 | grep -ac "$2" || true; }
loss() { grep -o '"loss":[0-9.]*' "$1/metrics.jsonl" | sed -n "$2p" | cut -d: -f2; }

# ---- from CogVideoX to a checkpoint with the authors' names ----
for layer in ttt_mlp ttt_linear; do
    expect 0 'TTTCogVideoX.*0 frozen' train $layer --transformer cog --ssm_layer $layer \
        --max_train_steps 30
    awk -v a="$(loss $layer 1)" -v b="$(loss $layer 30)" 'BEGIN { exit !(b < 0.9 * a) }' ||
        wrong "$layer: the loss went from $(loss $layer 1) to $(loss $layer 30)"
    holds $layer/checkpoint-30/transformer/config.json "\"ssm_layer\":.*\"$layer\""
done
file=ttt_mlp/checkpoint-30/transformer/$weights
[ "$(names $file 'dit.layers.1.seq_modeling_block.ssm.ttt')" -gt 0 ] || wrong 'no names of TTT'
[ "$(names $file 'transformer_blocks')" -eq 0 ] || wrong 'names of CogVideoX'

# ---- resumed to the same bits, with frozen weights and without ----
for how in sft qkvo; do
    expect 0 . train $how "${mlp[@]}" --adapter_method $how --max_train_steps 6
    expect 0 . train $how-cut "${mlp[@]}" --adapter_method $how --max_train_steps 3
    expect 0 . train $how-cut "${mlp[@]}" --adapter_method $how --max_train_steps 6 \
        --resume_from_checkpoint latest
    for f in optimizer.safetensors transformer/$weights; do
        cmp -s $how/checkpoint-6/$f $how-cut/checkpoint-6/$f || wrong "$how: $f differs"
    done
done

# ---- the weights that start from noise follow from the seed alone ----
zero=(--max_train_steps 1 --learning_rate 1e-30 --lr_warmup_steps 0)
expect 0 . train noise "${mlp[@]}" "${zero[@]}"
expect 0 . train noise-2 "${mlp[@]}" "${zero[@]}" --threads 2
cmp -s noise/checkpoint-1/transformer/$weights noise-2/checkpoint-1/transformer/$weights ||
    wrong 'threads change the noise'
expect 0 . train noise-3 "${mlp[@]}" "${zero[@]}" --seed 6
! cmp -s noise/checkpoint-1/transformer/$weights noise-3/checkpoint-1/transformer/$weights ||
    wrong 'the seed does not change the noise'

# ---- a folder with TTT layers is trained further: the same weights, settings of its own ----
more=(--transformer sft/checkpoint-6/transformer --training_type full-finetune)
expect 0 '0 frozen' train more "${more[@]}" "${zero[@]}"
cmp -s {sft/checkpoint-6,more/checkpoint-1}/transformer/$weights || wrong 'weights changed'
expect 0 . train file "${zero[@]}" --training_type full-finetune \
    --transformer sft/checkpoint-6/transformer/$weights
cmp -s {sft/checkpoint-6,file/checkpoint-1}/transformer/$weights ||
    wrong 'weights of a file changed'
expect 0 . train slower "${more[@]}" --max_train_steps 1 --ttt_base_lr 0.02
holds slower/checkpoint-1/transformer/config.json '"ttt_base_lr":.*0.02'

# ---- parameters ----
expect 0 '26,180 parameters trained, 37,280 frozen' train dry "${mlp[@]}" --adapter_method qkvo \
    --dry_run
expect 0 '26,052 parameters trained, 37,408 frozen' train dry "${mlp[@]}" --adapter_method none \
    --dry_run

# ---- the trace has the gradients of all parameters ----
expect 0 . train traced "${mlp[@]}" --max_train_steps 1 --trace_dir trace
for name in encoder_hidden_states grad/dit.layers.0.seq_modeling_block.ssm.ttt.W1 \
    grad/dit.layers.1.seq_modeling_block.backward_ssm_gating_text.gating_alpha; do
    [ "$(names trace/step-000001-mb-00-rank-00.safetensors "$name")" -gt 0 ] || wrong "no $name"
done

# ---- memory ----
if [ "$VLT_FAULT_MEMORY" = 1 ]; then
    cog wide 4 64
    need random_dataset m.lmdb 1 13 12 12 12 32 cogvideox   # 480 tokens
    for how in "none no" "block bf16"; do
        read -r remat precision <<<"$how"
        expect 0 'memory: peak .*, which is [0-9]\.[0-9]% .* were predicted' vtrain \
            --latents m.lmdb \
            --transformer wide --ssm_layer ttt_mlp --mini_batch_size 16 --output_dir "m-$remat" \
            --threads 2 --max_train_steps 1 --train_batch_size 1 --mixed_precision "$precision" \
            --gradient_checkpointing=$remat
    done
fi

# ---- refused ----
expect 2 '--ssm_layer adds them' train x --transformer cog --max_train_steps 1 \
    --training_type full-finetune
expect 2 'ttt_linear, but the transformer has ttt_mlp' train x "${more[@]}" --ssm_layer ttt_linear
expect 2 '--adapter_method qkvo' train x "${mlp[@]}" --training_type lora
expect 2 '--adapter_method qkvo' train x --transformer sft/checkpoint-6/transformer
expect 2 'give one of them' train x "${mlp[@]}" --adapter_method qkvo --trainable_modules q
expect 2 'give --model' vtrain --latents a.lmdb --output_dir x --ssm_layer ttt_mlp
expect 1 \
    'bucket 37x4x6: 37 .* 6 tokens and 3 prompts of 6 .* 240 tokens.*64: prompts of 54 tokens' \
    train x "${mlp[@]}" --mini_batch_size 64
need random_dataset frames.lmdb 2 36 4 6 18 32 cogvideox
expect 1 'bucket 36x4x6: latents of 36 frames' vtrain --latents frames.lmdb --output_dir x \
    "${mlp[@]}"
need random_dataset texts.lmdb 2 37 4 6 17 32 cogvideox
expect 1 'prompts of 17 tokens for 3 segments' vtrain --latents texts.lmdb --output_dir x \
    "${mlp[@]}"
absent x

/* sd3_names.c - the names of Stable Diffusion 3's modules in other programs; see sd3.h */
#include "train/models/sd3.h"

#define BLOCK "transformer_blocks.#."
#define PICTURE "joint_blocks.#.x_block."
#define TEXT "joint_blocks.#.context_block."
#define TIMES "time_text_embed."

const vtrain_rename sd3_names[] = {
    { PICTURE "attn.qkv", .ours = { BLOCK "attn.to_q", BLOCK "attn.to_k", BLOCK "attn.to_v" } },
    { PICTURE "attn.proj", .ours = { BLOCK "attn.to_out.0" } },
    { PICTURE "attn2.qkv",
      .ours = { BLOCK "attn2.to_q", BLOCK "attn2.to_k", BLOCK "attn2.to_v" } },
    { PICTURE "attn2.proj", .ours = { BLOCK "attn2.to_out.0" } },
    { PICTURE "mlp.fc1", .ours = { BLOCK "ff.net.0.proj" } },
    { PICTURE "mlp.fc2", .ours = { BLOCK "ff.net.2" } },
    { PICTURE "adaLN_modulation.1", .ours = { BLOCK "norm1.linear" } },
    { TEXT "attn.qkv",
      .ours = { BLOCK "attn.add_q_proj", BLOCK "attn.add_k_proj", BLOCK "attn.add_v_proj" } },
    { TEXT "attn.proj", .ours = { BLOCK "attn.to_add_out" } },
    { TEXT "mlp.fc1", .ours = { BLOCK "ff_context.net.0.proj" } },
    { TEXT "mlp.fc2", .ours = { BLOCK "ff_context.net.2" } },
    { TEXT "adaLN_modulation.1", .ours = { BLOCK "norm1_context.linear" } },
    { "x_embedder.proj", .ours = { "pos_embed.proj" } },
    { "t_embedder.mlp.0", .ours = { TIMES "timestep_embedder.linear_1" } },
    { "t_embedder.mlp.2", .ours = { TIMES "timestep_embedder.linear_2" } },
    { "y_embedder.mlp.0", .ours = { TIMES "text_embedder.linear_1" } },
    { "y_embedder.mlp.2", .ours = { TIMES "text_embedder.linear_2" } },
    { "context_embedder", .ours = { "context_embedder" } },
    { "final_layer.linear", .ours = { "proj_out" } },
    VTRAIN_SWAPPED_HEAD("weight"), VTRAIN_SWAPPED_HEAD("bias"),
    { 0 }
};

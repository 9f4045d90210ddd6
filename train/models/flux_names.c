/* flux_names.c - the names of FLUX.1's modules in other programs; see flux.h */
#include "train/models/flux.h"

#define DUAL "transformer_blocks.#."
#define SINGLE "single_transformer_blocks.#."
#define TIMES "time_text_embed."

/* proj_mlp is four times as wide as q, k and v. */
#define LINEAR1 { SINGLE "attn.to_q", SINGLE "attn.to_k", SINGLE "attn.to_v", SINGLE "proj_mlp" }, \
                { 1, 1, 1, 4 }
#define QKV { DUAL "attn.to_q", DUAL "attn.to_k", DUAL "attn.to_v" }, { 0 }
#define TEXT_QKV { DUAL "attn.add_q_proj", DUAL "attn.add_k_proj", DUAL "attn.add_v_proj" }, { 0 }

/* norm_out.linear has no row: the first authors' final_layer.adaLN_modulation.1 has shift before
 * scale, and a row cannot exchange halves. */
const vtrain_rename flux_names[] = {
    { "double_blocks.#.img_attn.qkv", QKV },
    { "double_blocks.#.txt_attn.qkv", TEXT_QKV },
    { "double_blocks.#.img_attn.proj", { DUAL "attn.to_out.0" }, { 0 } },
    { "double_blocks.#.txt_attn.proj", { DUAL "attn.to_add_out" }, { 0 } },
    { "double_blocks.#.img_mod.lin", { DUAL "norm1.linear" }, { 0 } },
    { "double_blocks.#.txt_mod.lin", { DUAL "norm1_context.linear" }, { 0 } },
    { "double_blocks.#.img_mlp.0", { DUAL "ff.net.0.proj" }, { 0 } },
    { "double_blocks.#.img_mlp.2", { DUAL "ff.net.2" }, { 0 } },
    { "double_blocks.#.txt_mlp.0", { DUAL "ff_context.net.0.proj" }, { 0 } },
    { "double_blocks.#.txt_mlp.2", { DUAL "ff_context.net.2" }, { 0 } },
    { "single_blocks.#.linear1", LINEAR1 },
    { "single_blocks.#.linear2", { SINGLE "proj_out" }, { 0 } },
    { "single_blocks.#.modulation.lin", { SINGLE "norm.linear" }, { 0 } },
    { "time_in.in_layer", { TIMES "timestep_embedder.linear_1" }, { 0 } },
    { "time_in.out_layer", { TIMES "timestep_embedder.linear_2" }, { 0 } },
    { "guidance_in.in_layer", { TIMES "guidance_embedder.linear_1" }, { 0 } },
    { "guidance_in.out_layer", { TIMES "guidance_embedder.linear_2" }, { 0 } },
    { "vector_in.in_layer", { TIMES "text_embedder.linear_1" }, { 0 } },
    { "vector_in.out_layer", { TIMES "text_embedder.linear_2" }, { 0 } },
    { "img_in", { "x_embedder" }, { 0 } },
    { "txt_in", { "context_embedder" }, { 0 } },
    { "final_layer.linear", { "proj_out" }, { 0 } },
    { 0 }
};

const vtrain_rename flux_diffsynth_names[] = {
    { "blocks.#.attn.a_to_qkv", QKV },
    { "blocks.#.attn.b_to_qkv", TEXT_QKV },
    { "blocks.#.attn.a_to_out", { DUAL "attn.to_out.0" }, { 0 } },
    { "blocks.#.attn.b_to_out", { DUAL "attn.to_add_out" }, { 0 } },
    { "blocks.#.norm1_a.linear", { DUAL "norm1.linear" }, { 0 } },
    { "blocks.#.norm1_b.linear", { DUAL "norm1_context.linear" }, { 0 } },
    { "blocks.#.ff_a.0", { DUAL "ff.net.0.proj" }, { 0 } },
    { "blocks.#.ff_a.2", { DUAL "ff.net.2" }, { 0 } },
    { "blocks.#.ff_b.0", { DUAL "ff_context.net.0.proj" }, { 0 } },
    { "blocks.#.ff_b.2", { DUAL "ff_context.net.2" }, { 0 } },
    { "single_blocks.#.to_qkv_mlp", LINEAR1 },
    { "single_blocks.#.proj_out", { SINGLE "proj_out" }, { 0 } },
    { "single_blocks.#.norm.linear", { SINGLE "norm.linear" }, { 0 } },
    { "time_embedder.timestep_embedder.0", { TIMES "timestep_embedder.linear_1" }, { 0 } },
    { "time_embedder.timestep_embedder.2", { TIMES "timestep_embedder.linear_2" }, { 0 } },
    { "guidance_embedder.timestep_embedder.0", { TIMES "guidance_embedder.linear_1" }, { 0 } },
    { "guidance_embedder.timestep_embedder.2", { TIMES "guidance_embedder.linear_2" }, { 0 } },
    { "pooled_text_embedder.0", { TIMES "text_embedder.linear_1" }, { 0 } },
    { "pooled_text_embedder.2", { TIMES "text_embedder.linear_2" }, { 0 } },
    { "final_norm_out.linear", { "norm_out.linear" }, { 0 } },
    { "final_proj_out", { "proj_out" }, { 0 } },
    { 0 }
};

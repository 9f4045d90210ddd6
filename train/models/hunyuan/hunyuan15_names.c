/* hunyuan15_names.c - the names that HunyuanVideo 1.5's modules have in LoRA files of other
 * programs; see hunyuan.h.
 *
 * Where Tencent's own model, which musubi-tuner has too, keeps queries, keys and values apart,
 * ComfyUI has one matrix of them; in the refiner both have one. */
#include "train/models/hunyuan/hunyuan.h"
#include "train/models/hunyuan/hunyuan_rows.h"

const vtrain_rename hunyuan15_names[] = {
    HUNYUAN_DUAL_ROWS,
    HUNYUAN_TEXT_ROWS,
    { "time_in.mlp.0", .ours = { "time_embed.timestep_embedder.linear_1" },
      .comfyui = "time_in.in_layer" },
    { "time_in.mlp.2", .ours = { "time_embed.timestep_embedder.linear_2" },
      .comfyui = "time_in.out_layer" },
    { "byt5_in.fc1", .ours = { "context_embedder_2.linear_1" } },
    { "byt5_in.fc2", .ours = { "context_embedder_2.linear_2" } },
    { "byt5_in.fc3", .ours = { "context_embedder_2.linear_3" } },
    { "vision_in.proj.1", .ours = { "image_embedder.linear_1" } },
    { "vision_in.proj.3", .ours = { "image_embedder.linear_2" } },
    { "img_in.proj", .ours = { "x_embedder.proj" } },
    { "final_layer.linear", .ours = { "proj_out" } },
    { 0 }
};

/* Tencent's names, and those of modules in ComfyUI's own model; both are read. */
const vtrain_rename hunyuan15_peer_names[] = {
    { "double_blocks.#.img_attn_q", .ours = { DUAL_OURS "attn.to_q" } },
    { "double_blocks.#.img_attn_k", .ours = { DUAL_OURS "attn.to_k" } },
    { "double_blocks.#.img_attn_v", .ours = { DUAL_OURS "attn.to_v" } },
    { "double_blocks.#.txt_attn_q", .ours = { DUAL_OURS "attn.add_q_proj" } },
    { "double_blocks.#.txt_attn_k", .ours = { DUAL_OURS "attn.add_k_proj" } },
    { "double_blocks.#.txt_attn_v", .ours = { DUAL_OURS "attn.add_v_proj" } },
    { "double_blocks.#.img_attn.proj", .ours = { DUAL_OURS "attn.to_out.0" } },
    { "double_blocks.#.txt_attn.proj", .ours = { DUAL_OURS "attn.to_add_out" } },
    { "double_blocks.#.img_mod.lin", .ours = { DUAL_OURS "norm1.linear" } },
    { "double_blocks.#.txt_mod.lin", .ours = { DUAL_OURS "norm1_context.linear" } },
    { "double_blocks.#.img_mlp.0", .ours = { DUAL_OURS "ff.net.0.proj" } },
    { "double_blocks.#.img_mlp.2", .ours = { DUAL_OURS "ff.net.2" } },
    { "double_blocks.#.txt_mlp.0", .ours = { DUAL_OURS "ff_context.net.0.proj" } },
    { "double_blocks.#.txt_mlp.2", .ours = { DUAL_OURS "ff_context.net.2" } },
    { 0 }
};

/* hunyuan15_names.c - the names that HunyuanVideo 1.5's modules have in LoRA files of other
 * programs; see hunyuan.h.
 *
 * Where Tencent's own model, which musubi-tuner has too, keeps queries, keys and values apart,
 * ComfyUI has one matrix of them; in the refiner both have one. */
#include "train/models/hunyuan.h"

#define REFINER_OURS "context_embedder.token_refiner.refiner_blocks.#."
#define REFINER "txt_in.individual_token_refiner.blocks.#."
#define TEXT_OURS "context_embedder.time_text_embed."
#define DUAL_OURS "transformer_blocks.#."

const vtrain_rename hunyuan15_names[] = {
    { "double_blocks.#.img_attn_qkv",
      .ours = { DUAL_OURS "attn.to_q", DUAL_OURS "attn.to_k", DUAL_OURS "attn.to_v" } },
    { "double_blocks.#.txt_attn_qkv",
      .ours = { DUAL_OURS "attn.add_q_proj", DUAL_OURS "attn.add_k_proj",
                DUAL_OURS "attn.add_v_proj" } },
    { "double_blocks.#.img_attn_proj", .ours = { DUAL_OURS "attn.to_out.0" } },
    { "double_blocks.#.txt_attn_proj", .ours = { DUAL_OURS "attn.to_add_out" } },
    { "double_blocks.#.img_mod.linear", .ours = { DUAL_OURS "norm1.linear" } },
    { "double_blocks.#.txt_mod.linear", .ours = { DUAL_OURS "norm1_context.linear" } },
    { "double_blocks.#.img_mlp.fc1", .ours = { DUAL_OURS "ff.net.0.proj" } },
    { "double_blocks.#.img_mlp.fc2", .ours = { DUAL_OURS "ff.net.2" } },
    { "double_blocks.#.txt_mlp.fc1", .ours = { DUAL_OURS "ff_context.net.0.proj" } },
    { "double_blocks.#.txt_mlp.fc2", .ours = { DUAL_OURS "ff_context.net.2" } },
    { REFINER "self_attn_qkv",
      .ours = { REFINER_OURS "attn.to_q", REFINER_OURS "attn.to_k", REFINER_OURS "attn.to_v" } },
    { REFINER "self_attn_proj", .ours = { REFINER_OURS "attn.to_out.0" } },
    { REFINER "mlp.fc1", .ours = { REFINER_OURS "ff.net.0.proj" } },
    { REFINER "mlp.fc2", .ours = { REFINER_OURS "ff.net.2" } },
    { REFINER "adaLN_modulation.1", .ours = { REFINER_OURS "norm_out.linear" } },
    { "txt_in.input_embedder", .ours = { "context_embedder.proj_in" } },
    { "txt_in.t_embedder.mlp.0", .ours = { TEXT_OURS "timestep_embedder.linear_1" },
      .comfyui = "txt_in.t_embedder.in_layer" },
    { "txt_in.t_embedder.mlp.2", .ours = { TEXT_OURS "timestep_embedder.linear_2" },
      .comfyui = "txt_in.t_embedder.out_layer" },
    { "txt_in.c_embedder.linear_1", .ours = { TEXT_OURS "text_embedder.linear_1" },
      .comfyui = "txt_in.c_embedder.in_layer" },
    { "txt_in.c_embedder.linear_2", .ours = { TEXT_OURS "text_embedder.linear_2" },
      .comfyui = "txt_in.c_embedder.out_layer" },
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

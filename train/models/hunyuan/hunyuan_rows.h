/* hunyuan_rows.h - rows of renaming that HunyuanVideo and HunyuanVideo 1.5 share: Tencent's names
 * of the dual blocks, and of the refiner of prompts with what it embeds. */
#ifndef TRAIN_MODELS_HUNYUAN_ROWS_H
#define TRAIN_MODELS_HUNYUAN_ROWS_H

#define REFINER_OURS "context_embedder.token_refiner.refiner_blocks.#."
#define REFINER_THEIRS "txt_in.individual_token_refiner.blocks.#."
#define TEXT_OURS "context_embedder.time_text_embed."
#define DUAL_OURS "transformer_blocks.#."

#define HUNYUAN_DUAL_ROWS                                                                          \
    { "double_blocks.#.img_attn_qkv",                                                              \
      .ours = { DUAL_OURS "attn.to_q", DUAL_OURS "attn.to_k", DUAL_OURS "attn.to_v" } },           \
    { "double_blocks.#.txt_attn_qkv",                                                              \
      .ours = { DUAL_OURS "attn.add_q_proj", DUAL_OURS "attn.add_k_proj",                          \
                DUAL_OURS "attn.add_v_proj" } },                                                   \
    HUNYUAN_DUAL_OTHERS

/* Those without queries, keys and values. */
#define HUNYUAN_DUAL_OTHERS                                                                        \
    { "double_blocks.#.img_attn_proj", .ours = { DUAL_OURS "attn.to_out.0" } },                    \
    { "double_blocks.#.txt_attn_proj", .ours = { DUAL_OURS "attn.to_add_out" } },                  \
    { "double_blocks.#.img_mod.linear", .ours = { DUAL_OURS "norm1.linear" } },                    \
    { "double_blocks.#.txt_mod.linear", .ours = { DUAL_OURS "norm1_context.linear" } },            \
    { "double_blocks.#.img_mlp.fc1", .ours = { DUAL_OURS "ff.net.0.proj" } },                      \
    { "double_blocks.#.img_mlp.fc2", .ours = { DUAL_OURS "ff.net.2" } },                           \
    { "double_blocks.#.txt_mlp.fc1", .ours = { DUAL_OURS "ff_context.net.0.proj" } },              \
    { "double_blocks.#.txt_mlp.fc2", .ours = { DUAL_OURS "ff_context.net.2" } }

#define HUNYUAN_TEXT_ROWS                                                                          \
    { REFINER_THEIRS "self_attn_qkv",                                                              \
      .ours = { REFINER_OURS "attn.to_q", REFINER_OURS "attn.to_k", REFINER_OURS "attn.to_v" } },  \
    { REFINER_THEIRS "self_attn_proj", .ours = { REFINER_OURS "attn.to_out.0" } },                 \
    { REFINER_THEIRS "mlp.fc1", .ours = { REFINER_OURS "ff.net.0.proj" } },                        \
    { REFINER_THEIRS "mlp.fc2", .ours = { REFINER_OURS "ff.net.2" } },                             \
    { REFINER_THEIRS "adaLN_modulation.1", .ours = { REFINER_OURS "norm_out.linear" } },           \
    { "txt_in.input_embedder", .ours = { "context_embedder.proj_in" } },                           \
    { "txt_in.t_embedder.mlp.0", .ours = { TEXT_OURS "timestep_embedder.linear_1" },               \
      .comfyui = "txt_in.t_embedder.in_layer" },                                                   \
    { "txt_in.t_embedder.mlp.2", .ours = { TEXT_OURS "timestep_embedder.linear_2" },               \
      .comfyui = "txt_in.t_embedder.out_layer" },                                                  \
    { "txt_in.c_embedder.linear_1", .ours = { TEXT_OURS "text_embedder.linear_1" },                \
      .comfyui = "txt_in.c_embedder.in_layer" },                                                   \
    { "txt_in.c_embedder.linear_2", .ours = { TEXT_OURS "text_embedder.linear_2" },                \
      .comfyui = "txt_in.c_embedder.out_layer" }

#endif

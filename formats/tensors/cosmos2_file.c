/* cosmos2_file.c - see cosmos2_file.h */
#include "formats/tensors/cosmos2_file.h"

#include <stddef.h>

const vf_rename vf_cosmos2_names[] = {
    /* what positions are made of, and counts of the authors' training */
    { .from = "pos_embedder" },
    { .from = "accum_video_sample_counter" },
    { .from = "accum_image_sample_counter" },
    { .from = "accum_iteration" },
    { .from = "accum_train_in_hours" },
    { .from = "_extra_state" },
    { .from = "t_embedder.1", .to = "time_embed.t_embedder" },
    { .from = "t_embedding_norm", .to = "time_embed.norm" },
    { .from = "x_embedder.proj.1", .to = "patch_embed.proj" },
    { .from = "final_layer.linear", .to = "proj_out" },
    { .from = "final_layer.adaln_modulation.#", .to = "norm_out.linear_#" },
    { .from = "blocks", .to = "transformer_blocks" },
    { .from = "adaln_modulation_self_attn.#", .to = "norm1.linear_#" },
    { .from = "adaln_modulation_cross_attn.#", .to = "norm2.linear_#" },
    { .from = "adaln_modulation_mlp.#", .to = "norm3.linear_#" },
    { .from = "self_attn", .to = "attn1" },
    { .from = "cross_attn", .to = "attn2" },
    { .from = "q_proj", .to = "to_q" },
    { .from = "k_proj", .to = "to_k" },
    { .from = "v_proj", .to = "to_v" },
    { .from = "output_proj", .to = "to_out.0" },
    { .from = "q_norm", .to = "norm_q" },
    { .from = "k_norm", .to = "norm_k" },
    { .from = "mlp.layer1", .to = "ff.net.0.proj" },
    { .from = "mlp.layer2", .to = "ff.net.2" },
    { 0 }
};

#define BLOCK "transformer_blocks.0."
/* Heads are 128 wide, and a token has four places. */
const vf_sized vf_cosmos2_sizes[] = {
    { .field = "num_attention_heads", .tensor = "patch_embed.proj.weight", .divide = 128 },
    { .field = "in_channels", .tensor = "proj_out.weight", .divide = 4 },
    { .field = "out_channels", .tensor = "proj_out.weight", .divide = 4 },
    { .field = "num_layers", .tensor = "transformer_blocks.#.attn2.to_q.weight",
      .kind = VF_SIZE_COUNT },
    { .field = "text_embed_dim", .tensor = BLOCK "attn2.to_k.weight", .axis = 1 },
    { .field = "adaln_lora_dim", .tensor = BLOCK "norm1.linear_1.weight" },
    { 0 }
};

/* Text2Image's; no tensor shows by what its positions were slowed down. */
const char vf_cosmos2_config[] = "{\"attention_head_dim\":128,\"rope_scale\":[1,4,4]}";

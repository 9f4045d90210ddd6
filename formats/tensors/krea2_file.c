/* krea2_file.c - see krea2_file.h */
#include "formats/tensors/krea2_file.h"

#include <stddef.h>

const vf_rename vf_krea2_names[] = {
    { .from = "last.down" },             /* which no model of the class has */
    { .from = "last.up" },
    { .from = "first", .to = "img_in" },
    { .from = "tmlp.0", .to = "time_embed.linear_1" },
    { .from = "tmlp.2", .to = "time_embed.linear_2" },
    { .from = "tproj.1", .to = "time_mod_proj" },
    { .from = "txtmlp.0.scale", .to = "txt_in.norm.weight" },
    { .from = "txtmlp.1", .to = "txt_in.linear_1" },
    { .from = "txtmlp.3", .to = "txt_in.linear_2" },
    { .from = "txtfusion", .to = "text_fusion" },
    { .from = "blocks", .to = "transformer_blocks" },
    { .from = "last.linear", .to = "final_layer.linear" },
    { .from = "last.norm.scale", .to = "final_layer.norm.weight" },
    { .from = "last.modulation.lin", .to = "final_layer.scale_shift_table" },
    { .from = "attn.wq", .to = "attn.to_q" },
    { .from = "attn.wk", .to = "attn.to_k" },
    { .from = "attn.wv", .to = "attn.to_v" },
    { .from = "attn.wo", .to = "attn.to_out.0" },
    { .from = "attn.gate", .to = "attn.to_gate" },
    { .from = "attn.qknorm.qnorm.scale", .to = "attn.norm_q.weight" },
    { .from = "attn.qknorm.knorm.scale", .to = "attn.norm_k.weight" },
    { .from = "mlp", .to = "ff" },
    { .from = "prenorm.scale", .to = "norm1.weight" },
    { .from = "postnorm.scale", .to = "norm2.weight" },
    { .from = "mod.lin", .to = "scale_shift_table", .rows = 6 },
    { 0 }
};
/* Heads are 128 wide. */
#define TEXT "text_fusion.layerwise_blocks."
const vf_sized vf_krea2_sizes[] = {
    { .field = "in_channels", .tensor = "img_in.weight", .axis = 1 },
    { .field = "num_layers", .tensor = "transformer_blocks.#.attn.to_q.weight",
      .kind = VF_SIZE_COUNT },
    { .field = "num_attention_heads", .tensor = "img_in.weight", .divide = 128 },
    { .field = "num_key_value_heads", .tensor = "transformer_blocks.0.attn.to_k.weight",
      .divide = 128 },
    { .field = "intermediate_size", .tensor = "transformer_blocks.0.ff.up.weight" },
    { .field = "timestep_embed_dim", .tensor = "time_embed.linear_1.weight", .axis = 1 },
    { .field = "text_hidden_dim", .tensor = "txt_in.norm.weight" },
    { .field = "num_text_layers", .tensor = "text_fusion.projector.weight", .axis = 1 },
    { .field = "text_num_attention_heads", .tensor = "txt_in.norm.weight", .divide = 128 },
    { .field = "text_num_key_value_heads", .tensor = TEXT "0.attn.to_k.weight",
      .divide = 128 },
    { .field = "text_intermediate_size", .tensor = TEXT "0.ff.up.weight" },
    { .field = "num_layerwise_text_blocks", .tensor = TEXT "#.attn.to_q.weight",
      .kind = VF_SIZE_COUNT },
    { .field = "num_refiner_text_blocks",
      .tensor = "text_fusion.refiner_blocks.#.attn.to_q.weight", .kind = VF_SIZE_COUNT },
    { 0 }
};

/* hunyuan15_names.c - the names that HunyuanVideo 1.5's modules have in LoRA files of other
 * programs; see hunyuan.h.
 *
 * Where Tencent's own model, which musubi-tuner has too, keeps queries, keys and values apart,
 * ComfyUI has one matrix of them; in the refiner both have one. Then the names of the tensors in
 * files of whole models, Tencent's own and those that are repackaged for ComfyUI, which differ in
 * these matrices alone. */
#include "train/models/hunyuan/hunyuan.h"
#include "train/models/hunyuan/hunyuan_rows.h"

#include <stdio.h>
#include <string.h>

#include "train/models/dit.h"

#define HUNYUAN15_OTHERS                                                                           \
    { "time_in.mlp.0", .ours = { "time_embed.timestep_embedder.linear_1" },                        \
      .comfyui = "time_in.in_layer" },                                                             \
    { "time_in.mlp.2", .ours = { "time_embed.timestep_embedder.linear_2" },                        \
      .comfyui = "time_in.out_layer" },                                                            \
    { "time_r_in.mlp.0", .ours = { "time_embed.timestep_embedder_r.linear_1" },                    \
      .comfyui = "time_r_in.in_layer" },                                                           \
    { "time_r_in.mlp.2", .ours = { "time_embed.timestep_embedder_r.linear_2" },                    \
      .comfyui = "time_r_in.out_layer" },                                                          \
    { "byt5_in.fc1", .ours = { "context_embedder_2.linear_1" } },                                  \
    { "byt5_in.fc2", .ours = { "context_embedder_2.linear_2" } },                                  \
    { "byt5_in.fc3", .ours = { "context_embedder_2.linear_3" } },                                  \
    { "vision_in.proj.1", .ours = { "image_embedder.linear_1" } },                                 \
    { "vision_in.proj.3", .ours = { "image_embedder.linear_2" } },                                 \
    { "img_in.proj", .ours = { "x_embedder.proj" } },                                              \
    { "final_layer.linear", .ours = { "proj_out" } }

const vtrain_rename hunyuan15_names[] = {
    HUNYUAN_DUAL_ROWS,
    HUNYUAN_TEXT_ROWS,
    HUNYUAN15_OTHERS,
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

#define PAIR(theirs_, ours_)                                                                       \
    { theirs_ ".weight", .ours = { ours_ ".weight" } },                                            \
    { theirs_ ".bias", .ours = { ours_ ".bias" } }
#define NORM(theirs_, ours_) { theirs_ ".weight", .ours = { ours_ ".weight" } }

#define TENSORS                                                                                    \
    HUNYUAN_TEXT_ROWS,                                                                             \
    HUNYUAN15_OTHERS,                                                                              \
    VTRAIN_SWAPPED_HEAD("weight"), VTRAIN_SWAPPED_HEAD("bias"),                                    \
    NORM("double_blocks.#.img_attn_q_norm", DUAL_OURS "attn.norm_q"),                              \
    NORM("double_blocks.#.img_attn_k_norm", DUAL_OURS "attn.norm_k"),                              \
    NORM("double_blocks.#.txt_attn_q_norm", DUAL_OURS "attn.norm_added_q"),                        \
    NORM("double_blocks.#.txt_attn_k_norm", DUAL_OURS "attn.norm_added_k"),                        \
    PAIR(REFINER_THEIRS "norm1", REFINER_OURS "norm1"),                                            \
    PAIR(REFINER_THEIRS "norm2", REFINER_OURS "norm2"),                                            \
    PAIR("byt5_in.layernorm", "context_embedder_2.norm"),                                          \
    PAIR("vision_in.proj.0", "image_embedder.norm_in"),                                            \
    PAIR("vision_in.proj.4", "image_embedder.norm_out"),                                           \
    NORM("cond_type_embedding", "cond_type_embed")

const vtrain_rename hunyuan15_packed_names[] = { HUNYUAN_DUAL_ROWS, TENSORS, { 0 } };
const vtrain_rename hunyuan15_first_names[] = {
    { "double_blocks.#.img_attn_q", .ours = { DUAL_OURS "attn.to_q" } },
    { "double_blocks.#.img_attn_k", .ours = { DUAL_OURS "attn.to_k" } },
    { "double_blocks.#.img_attn_v", .ours = { DUAL_OURS "attn.to_v" } },
    { "double_blocks.#.txt_attn_q", .ours = { DUAL_OURS "attn.add_q_proj" } },
    { "double_blocks.#.txt_attn_k", .ours = { DUAL_OURS "attn.add_k_proj" } },
    { "double_blocks.#.txt_attn_v", .ours = { DUAL_OURS "attn.add_v_proj" } },
    HUNYUAN_DUAL_OTHERS, TENSORS, { 0 }
};

/* ---- a file of Tencent's ---- */

static bool word_is(const cJSON *config, const char *field, const char *word)
{
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(config, field);
    return cJSON_IsString(x) && !strcmp(x->valuestring, word);
}

/* All facts but the task and the size of clips are in sizes of tensors; a file without a
 * config.json is one of text to video at 480p. */
int hunyuan15_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err)
{
    const bool pictured = word_is(theirs, "ideal_task", "i2v");
    const bool large = word_is(theirs, "ideal_resolution", "720p");
    const int64_t width = vtrain_size_in(src, "img_in.proj.weight", 0);
    const int64_t patch_t = vtrain_size_in(src, "img_in.proj.weight", 2);
    const int64_t patch = vtrain_size_in(src, "img_in.proj.weight", 3);
    const int64_t rows = vtrain_size_in(src, "final_layer.linear.weight", 0);
    const int64_t head = vtrain_size_in(src, "double_blocks.0.img_attn_q_norm.weight", 0);
    if (head < 16 || head % 16 || width % head || patch < 1 || patch_t < 1)
        return vc_fail(err, VC_EFORMAT, "img_in.proj.weight has %lld rows and patches of "
                       "%lldx%lld, and the queries' norm has %lld numbers: this is no HunyuanVideo "
                       "1.5", (long long)width, (long long)patch_t, (long long)patch,
                       (long long)head);
    char text[900];
    snprintf(text, sizeof text, "{\"_class_name\":\"" HUNYUAN15_CLASS "\","
             "\"num_attention_heads\":%lld,\"attention_head_dim\":%lld,\"in_channels\":%lld,"
             "\"out_channels\":%lld,\"patch_size\":%lld,\"patch_size_t\":%lld,"
             "\"text_embed_dim\":%lld,\"text_embed_2_dim\":%lld,"
             "\"text_embed_2_hidden_dim\":%lld,\"image_embed_dim\":%lld,\"num_layers\":%lld,"
             "\"num_refiner_layers\":%lld,\"rope_axes_dim\":[%lld,%lld,%lld],"
             "\"use_meanflow\":%s,\"task_type\":\"%s\",\"target_size\":%d}",
             (long long)(width / head), (long long)head,
             (long long)vtrain_size_in(src, "img_in.proj.weight", 1),
             (long long)(rows / (patch_t * patch * patch)), (long long)patch, (long long)patch_t,
             (long long)vtrain_size_in(src, "txt_in.input_embedder.weight", 1),
             (long long)vtrain_size_in(src, "byt5_in.fc1.weight", 1),
             (long long)vtrain_size_in(src, "byt5_in.fc1.weight", 0),
             (long long)vtrain_size_in(src, "vision_in.proj.1.weight", 1),
             (long long)vtrain_blocks_in(src, "double_blocks.%d.img_mod.linear.weight"),
             (long long)vtrain_blocks_in(src, "txt_in.individual_token_refiner.blocks.%d."
                                              "self_attn_qkv.weight"),
             (long long)(head / 8), (long long)(head / 16 * 7), (long long)(head / 16 * 7),
             vtrain_size_in(src, "time_r_in.mlp.0.weight", 0) ? "true" : "false",
             pictured ? "i2v" : "t2v", large ? HUNYUAN15_720P : HUNYUAN15_480P);
    *config = cJSON_Parse(text);
    return *config ? 0 : vc_no_memory(err);
}

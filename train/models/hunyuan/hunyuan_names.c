/* hunyuan_names.c - Tencent's names of HunyuanVideo's modules, and its files; see hunyuan.h */
#include "train/models/hunyuan/hunyuan.h"
#include "train/models/hunyuan/hunyuan_rows.h"

#include <stdio.h>

#include "train/models/dit.h"

#define REFINER "txt_in.individual_token_refiner.blocks."
#define TIMES_OURS "time_text_embed."
#define SINGLE_OURS "single_transformer_blocks.#."

#define NORM(theirs_, ours_) { theirs_ ".weight", .ours = { ours_ ".weight" } }

/* The modules, then tensors of whole weights that no LoRA has. Tencent's
 * final_layer.adaLN_modulation.1 has shift before scale. */
const vtrain_rename hunyuan_names[] = {
    HUNYUAN_DUAL_ROWS,
    /* proj_mlp is four times as wide as q, k and v */
    { "single_blocks.#.linear1",
      .ours = { SINGLE_OURS "attn.to_q", SINGLE_OURS "attn.to_k", SINGLE_OURS "attn.to_v",
                SINGLE_OURS "proj_mlp" }, .share = { 1, 1, 1, 4 } },
    { "single_blocks.#.linear2", .ours = { SINGLE_OURS "proj_out" } },
    { "single_blocks.#.modulation.linear", .ours = { SINGLE_OURS "norm.linear" } },
    HUNYUAN_TEXT_ROWS,
    { "time_in.mlp.0", .ours = { TIMES_OURS "timestep_embedder.linear_1" },
      .comfyui = "time_in.in_layer" },
    { "time_in.mlp.2", .ours = { TIMES_OURS "timestep_embedder.linear_2" },
      .comfyui = "time_in.out_layer" },
    { "guidance_in.mlp.0", .ours = { TIMES_OURS "guidance_embedder.linear_1" },
      .comfyui = "guidance_in.in_layer" },
    { "guidance_in.mlp.2", .ours = { TIMES_OURS "guidance_embedder.linear_2" },
      .comfyui = "guidance_in.out_layer" },
    { "vector_in.in_layer", .ours = { TIMES_OURS "text_embedder.linear_1" } },
    { "vector_in.out_layer", .ours = { TIMES_OURS "text_embedder.linear_2" } },
    { "img_in.proj", .ours = { "x_embedder.proj" } },
    { "final_layer.linear", .ours = { "proj_out" } },
    VTRAIN_SWAPPED_HEAD("weight"), VTRAIN_SWAPPED_HEAD("bias"),
    NORM("double_blocks.#.img_attn_q_norm", DUAL_OURS "attn.norm_q"),
    NORM("double_blocks.#.img_attn_k_norm", DUAL_OURS "attn.norm_k"),
    NORM("double_blocks.#.txt_attn_q_norm", DUAL_OURS "attn.norm_added_q"),
    NORM("double_blocks.#.txt_attn_k_norm", DUAL_OURS "attn.norm_added_k"),
    NORM("single_blocks.#.q_norm", SINGLE_OURS "attn.norm_q"),
    NORM("single_blocks.#.k_norm", SINGLE_OURS "attn.norm_k"),
    NORM(REFINER_THEIRS "norm1", REFINER_OURS "norm1"),
    { REFINER_THEIRS "norm1.bias", .ours = { REFINER_OURS "norm1.bias" } },
    NORM(REFINER_THEIRS "norm2", REFINER_OURS "norm2"),
    { REFINER_THEIRS "norm2.bias", .ours = { REFINER_OURS "norm2.bias" } },
    { 0 }
};

/* The names that ComfyUI gives the modules. Others, such as linear1, have Tencent's. */
const vtrain_rename hunyuan_comfyui_names[] = {
    { "double_blocks.#.img_attn.qkv",
      .ours = { DUAL_OURS "attn.to_q", DUAL_OURS "attn.to_k", DUAL_OURS "attn.to_v" } },
    { "double_blocks.#.txt_attn.qkv",
      .ours = { DUAL_OURS "attn.add_q_proj", DUAL_OURS "attn.add_k_proj",
                DUAL_OURS "attn.add_v_proj" } },
    { "double_blocks.#.img_attn.proj", .ours = { DUAL_OURS "attn.to_out.0" } },
    { "double_blocks.#.txt_attn.proj", .ours = { DUAL_OURS "attn.to_add_out" } },
    { "double_blocks.#.img_mod.lin", .ours = { DUAL_OURS "norm1.linear" } },
    { "double_blocks.#.txt_mod.lin", .ours = { DUAL_OURS "norm1_context.linear" } },
    { "double_blocks.#.img_mlp.0", .ours = { DUAL_OURS "ff.net.0.proj" } },
    { "double_blocks.#.img_mlp.2", .ours = { DUAL_OURS "ff.net.2" } },
    { "double_blocks.#.txt_mlp.0", .ours = { DUAL_OURS "ff_context.net.0.proj" } },
    { "double_blocks.#.txt_mlp.2", .ours = { DUAL_OURS "ff_context.net.2" } },
    { "single_blocks.#.modulation.lin", .ours = { SINGLE_OURS "norm.linear" } },
    { "single_blocks.#.linear1_qkv",
      .ours = { SINGLE_OURS "attn.to_q", SINGLE_OURS "attn.to_k", SINGLE_OURS "attn.to_v" } },
    { REFINER_THEIRS "self_attn.qkv",
      .ours = { REFINER_OURS "attn.to_q", REFINER_OURS "attn.to_k", REFINER_OURS "attn.to_v" } },
    { REFINER_THEIRS "self_attn.proj", .ours = { REFINER_OURS "attn.to_out.0" } },
    { REFINER_THEIRS "mlp.0", .ours = { REFINER_OURS "ff.net.0.proj" } },
    { REFINER_THEIRS "mlp.2", .ours = { REFINER_OURS "ff.net.2" } },
    { 0 }
};

/* ---- a file of Tencent's ---- */

/* The released files have no config.json: all facts are in sizes. A file of 16 channels that was
 * trained with the first frame in the latents (token_replace) has the sizes of a text-to-video
 * model, and is opened as one. */
int hunyuan_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err)
{
    (void)theirs;
    const int64_t width = vtrain_size_in(src, "img_in.proj.weight", 0);
    const int64_t in = vtrain_size_in(src, "img_in.proj.weight", 1);
    const int64_t patch_t = vtrain_size_in(src, "img_in.proj.weight", 2);
    const int64_t patch = vtrain_size_in(src, "img_in.proj.weight", 3);
    const int64_t rows = vtrain_size_in(src, "final_layer.linear.weight", 0);
    const int64_t head = vtrain_size_in(src, "double_blocks.0.img_attn_q_norm.weight", 0);
    if (head < 16 || head % 16 || width % head || patch < 1 || patch_t < 1)
        return vc_fail(err, VC_EFORMAT, "img_in.proj.weight has %lld rows and patches of "
                       "%lldx%lld, and the queries' norm has %lld numbers: this is no HunyuanVideo",
                       (long long)width, (long long)patch_t, (long long)patch, (long long)head);
    const int64_t out = rows / (patch_t * patch * patch);
    char text[900];
    snprintf(text, sizeof text, "{\"_class_name\":\"%s\",\"num_attention_heads\":%lld,"
             "\"attention_head_dim\":%lld,\"in_channels\":%lld,\"out_channels\":%lld,"
             "\"patch_size\":%lld,\"patch_size_t\":%lld,\"text_embed_dim\":%lld,"
             "\"pooled_projection_dim\":%lld,\"num_layers\":%lld,\"num_single_layers\":%lld,"
             "\"num_refiner_layers\":%lld,\"rope_axes_dim\":[%lld,%lld,%lld],"
             "\"guidance_embeds\":%s,\"image_condition_type\":%s}", HUNYUAN_CLASS,
             (long long)(width / head), (long long)head, (long long)in, (long long)out,
             (long long)patch, (long long)patch_t,
             (long long)vtrain_size_in(src, "txt_in.input_embedder.weight", 1),
             (long long)vtrain_size_in(src, "vector_in.in_layer.weight", 1),
             (long long)vtrain_blocks_in(src, "double_blocks.%d.img_mod.linear.weight"),
             (long long)vtrain_blocks_in(src, "single_blocks.%d.linear1.weight"),
             (long long)vtrain_blocks_in(src, REFINER "%d.self_attn_qkv.weight"),
             (long long)(head / 8), (long long)(head / 16 * 7), (long long)(head / 16 * 7),
             vtrain_size_in(src, "guidance_in.mlp.0.weight", 0) > 0 ? "true" : "false",
             in == 2 * out + 1 ? "\"latent_concat\"" : "null");
    *config = cJSON_Parse(text);
    return *config ? 0 : vc_no_memory(err);
}

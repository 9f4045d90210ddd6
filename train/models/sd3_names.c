/* sd3_names.c - the names of Stable Diffusion 3's modules in other programs; see sd3.h */
#include "train/models/sd3.h"

#include <math.h>

#define BLOCK "transformer_blocks.#."
#define PICTURE "joint_blocks.#.x_block."
#define TEXT "joint_blocks.#.context_block."
#define TIMES "time_text_embed."
#define NORM(theirs_, ours_) { theirs_ ".weight", .ours = { ours_ ".weight" } }

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
    /* diffusers has scale and shift of the last block in this order, like those of the head */
    { TEXT "adaLN_modulation.1", .ours = { BLOCK "norm1_context.linear" },
      .share = { VTRAIN_SWAPPED_PAIR } },
    NORM(PICTURE "attn.ln_q", BLOCK "attn.norm_q"), NORM(PICTURE "attn.ln_k", BLOCK "attn.norm_k"),
    NORM(PICTURE "attn2.ln_q", BLOCK "attn2.norm_q"),
    NORM(PICTURE "attn2.ln_k", BLOCK "attn2.norm_k"),
    NORM(TEXT "attn.ln_q", BLOCK "attn.norm_added_q"),
    NORM(TEXT "attn.ln_k", BLOCK "attn.norm_added_k"),
    { "pos_embed", .ours = { "pos_embed.pos_embed" } },
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

/* ---- a file of the first authors ---- */

/* Fields that are sizes of tensors. */
static const struct { const char *field, *tensor; int axis; } sizes[] = {
    { "in_channels", "x_embedder.proj.weight", 1 }, { "out_channels", "x_embedder.proj.weight", 1 },
    { "patch_size", "x_embedder.proj.weight", 2 },
    { "caption_projection_dim", "x_embedder.proj.weight", 0 },
    { "joint_attention_dim", "context_embedder.weight", 1 },
    { "pooled_projection_dim", "y_embedder.mlp.0.weight", 1 },
};

static bool add_number(cJSON *o, const char *field, int64_t v)
{
    return cJSON_AddNumberToObject(o, field, (double)v) != NULL;
}

/* The layers of a second attention are the first ones. */
static bool add_layers(cJSON *o, const vt_source *src)
{
    const int64_t n = vtrain_blocks_in(src, "joint_blocks.%d.x_block.attn2.qkv.weight");
    cJSON *dual = cJSON_AddArrayToObject(o, "dual_attention_layers");
    bool ok = dual && add_number(o, "num_layers",
                                 vtrain_blocks_in(src, "joint_blocks.%d.x_block.mlp.fc1.weight"));
    for (int64_t i = 0; ok && i < n; i++)
        ok = cJSON_AddItemToArray(dual, cJSON_CreateNumber((double)i));
    return ok;
}

/* There is no config.json: all facts are in sizes. Heads of models without norms are 64 wide. */
int sd3_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err)
{
    enum { HEAD = 64 };
    const int64_t norm = vtrain_size_in(src, "joint_blocks.0.x_block.attn.ln_q.weight", 0);
    const int64_t width = vtrain_size_in(src, "x_embedder.proj.weight", 0);
    const int64_t head = norm ? norm : HEAD, places = vtrain_size_in(src, "pos_embed", 1);
    const int64_t side = (int64_t)lround(sqrt((double)places));
    (void)theirs;
    if (!width || width % head || side * side != places)
        return vc_fail(err, VC_EFORMAT, "x_embedder.proj.weight has %lld rows, a head %lld numbers "
                       "and pos_embed %lld places: this is no Stable Diffusion 3",
                       (long long)width, (long long)head, (long long)places);
    cJSON *o = cJSON_CreateObject();
    bool ok = cJSON_AddStringToObject(o, "_class_name", "SD3Transformer2DModel") &&
              add_number(o, "attention_head_dim", head) &&
              add_number(o, "num_attention_heads", width / head) &&
              add_number(o, "pos_embed_max_size", side) && add_layers(o, src) &&
              (!norm || cJSON_AddStringToObject(o, "qk_norm", "rms_norm"));
    for (size_t i = 0; ok && i < sizeof sizes / sizeof *sizes; i++)
        ok = add_number(o, sizes[i].field, vtrain_size_in(src, sizes[i].tensor, sizes[i].axis));
    if (!ok) {
        cJSON_Delete(o);
        return vc_no_memory(err);
    }
    *config = o;
    return 0;
}

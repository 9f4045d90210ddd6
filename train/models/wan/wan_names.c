/* wan_names.c - see wan.h */
#include "train/models/wan/wan.h"

#include "formats/json/config.h"

#define EMBEDDER "condition_embedder."

/* Modules, then norms and tables, which a LoRA lacks. Others, such as patch_embedding, have one
 * name. norm2 and norm3 change places. */
#define MODULES(block) \
    { block "self_attn.q", .ours = { block "attn1.to_q" } }, \
    { block "self_attn.k", .ours = { block "attn1.to_k" } }, \
    { block "self_attn.v", .ours = { block "attn1.to_v" } }, \
    { block "self_attn.o", .ours = { block "attn1.to_out.0" } }, \
    { block "cross_attn.q", .ours = { block "attn2.to_q" } }, \
    { block "cross_attn.k", .ours = { block "attn2.to_k" } }, \
    { block "cross_attn.v", .ours = { block "attn2.to_v" } }, \
    { block "cross_attn.o", .ours = { block "attn2.to_out.0" } }, \
    { block "ffn.0", .ours = { block "ffn.net.0.proj" } }, \
    { block "ffn.2", .ours = { block "ffn.net.2" } }
#define NORMS(block) \
    { block "norm3", .ours = { block "norm2" } }, \
    { block "self_attn.norm_q", .ours = { block "attn1.norm_q" } }, \
    { block "self_attn.norm_k", .ours = { block "attn1.norm_k" } }, \
    { block "cross_attn.norm_q", .ours = { block "attn2.norm_q" } }, \
    { block "cross_attn.norm_k", .ours = { block "attn2.norm_k" } }, \
    { block "modulation", .ours = { block "scale_shift_table" } }
#define OTHERS \
    { "time_embedding.0", .ours = { EMBEDDER "time_embedder.linear_1" } }, \
    { "time_embedding.2", .ours = { EMBEDDER "time_embedder.linear_2" } }, \
    { "time_projection.1", .ours = { EMBEDDER "time_proj" } }, \
    { "text_embedding.0", .ours = { EMBEDDER "text_embedder.linear_1" } }, \
    { "text_embedding.2", .ours = { EMBEDDER "text_embedder.linear_2" } }, \
    { "head.head", .ours = { "proj_out" } }
#define MODULATION { "head.modulation", .ours = { "scale_shift_table" } }

#define BLOCK "blocks.#."
#define PICTURE_MODULES \
    { BLOCK "cross_attn.k_img", .ours = { BLOCK "attn2.add_k_proj" } }, \
    { BLOCK "cross_attn.v_img", .ours = { BLOCK "attn2.add_v_proj" } }, \
    { "img_emb.proj.1", .ours = { EMBEDDER "image_embedder.ff.net.0.proj" } }, \
    { "img_emb.proj.3", .ours = { EMBEDDER "image_embedder.ff.net.2" } }
#define PICTURE_NORMS \
    { BLOCK "cross_attn.norm_k_img", .ours = { BLOCK "attn2.norm_added_k" } }, \
    { "img_emb.proj.0", .ours = { EMBEDDER "image_embedder.norm1" } }, \
    { "img_emb.proj.4", .ours = { EMBEDDER "image_embedder.norm2" } }, \
    { "img_emb.emb_pos", .ours = { EMBEDDER "image_embedder.pos_embed" } }
const vtrain_rename wan_names[] = {
    MODULES(BLOCK), OTHERS, PICTURE_MODULES, NORMS(BLOCK), MODULATION, PICTURE_NORMS, { 0 }
};

const vtrain_rename skyreels2_names[] = {
    MODULES(BLOCK), OTHERS, PICTURE_MODULES,
    { "fps_projection.0", .ours = { "fps_projection.net.0.proj" } },
    { "fps_projection.2", .ours = { "fps_projection.net.2" } },
    NORMS(BLOCK), MODULATION, PICTURE_NORMS, { 0 }
};

#define VACE "vace_blocks.#."
const vtrain_rename wan_vace_names[] = {
    MODULES(BLOCK), OTHERS, MODULES(VACE),
    { VACE "before_proj", .ours = { VACE "proj_in" } },
    { VACE "after_proj", .ours = { VACE "proj_out" } },
    NORMS(BLOCK), MODULATION, NORMS(VACE), { 0 }
};

typedef struct first_config {
    int64_t width, hidden, time, heads, layers, in, out;
    int64_t vace[WAN_MOST_VACE], vace_in;
    int type, n_vace;
    double eps;
} first_config;

static const vf_config_row rows[] = {
    VF_INT_NEEDED(first_config, width, "dim", 8, 65536),
    VF_INT_NEEDED(first_config, hidden, "ffn_dim", 1, 65536),
    VF_INT_NEEDED(first_config, heads, "num_heads", 1, 256),
    VF_INT_NEEDED(first_config, layers, "num_layers", 1, 256),
    VF_INT(first_config, time, "freq_dim", 256, 2, 65536),
    VF_INT(first_config, in, "in_dim", 16, 1, 1024),
    VF_INT(first_config, out, "out_dim", 16, 1, 1024),
    VF_NUM(first_config, eps, "eps", 1e-6, 1e-12, 1),
    VF_WORD(first_config, type, "model_type", "t2v", "t2v|i2v|flf2v|ti2v|vace"),
    VF_INTS(first_config, vace, n_vace, "vace_layers", 1, 0, 255),
    VF_INT(first_config, vace_in, "vace_in_dim", 96, 1, 4096),
    { 0 }
};

/* The widths of texts and of CLIP embeddings, which 2.1's file has and 2.2's has not, are those of
 * the tensors: the file of fields has neither. */
static int convert(cJSON **config, first_config *out, const char *class, const cJSON *theirs,
                   const vt_source *src, vc_err *err)
{
    first_config c = { 0 };
    int rc = vf_config_read(&c, rows, theirs, err);
    *out = c;
    if (rc)
        return rc;
    if (c.width % c.heads)
        return vc_fail(err, VC_EFORMAT, "dim: %lld is no multiple of num_heads, which is %lld",
                       (long long)c.width, (long long)c.heads);
    const double image = (double)vtrain_size_in(src, "img_emb.proj.0.weight", 0);
    const struct { const char *name; double value; } fields[] = {
        { "num_attention_heads", (double)c.heads },
        { "attention_head_dim", (double)(c.width / c.heads) },
        { "in_channels", (double)c.in }, { "out_channels", (double)c.out },
        { "text_dim", (double)vtrain_size_in(src, "text_embedding.0.weight", 1) },
        { "freq_dim", (double)c.time }, { "ffn_dim", (double)c.hidden },
        { "num_layers", (double)c.layers }, { "eps", c.eps },
        { "image_dim", image }, { "added_kv_proj_dim", image > 0 ? (double)c.width : 0 },
        { "pos_embed_seq_len", (double)vtrain_size_in(src, "img_emb.emb_pos", 1) },
    };
    cJSON *o = cJSON_CreateObject();
    bool ok = cJSON_AddStringToObject(o, "_class_name", class);
    for (size_t i = 0; ok && i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value > 0)
            ok = cJSON_AddNumberToObject(o, fields[i].name, fields[i].value);
    if (!ok) {
        cJSON_Delete(o);
        return vc_no_memory(err);
    }
    *config = o;
    return 0;
}

int wan_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err)
{
    first_config c;
    return convert(config, &c, WAN_CLASS, theirs, src, err);
}

int skyreels2_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err)
{
    first_config c;
    int rc = convert(config, &c, SKYREELS2_CLASS, theirs, src, err);
    if (rc || cJSON_AddBoolToObject(*config, "inject_sample_info", true))
        return rc;
    cJSON_Delete(*config);
    *config = NULL;
    return vc_no_memory(err);
}

/* A file alone has no vace_layers: they are evenly spaced, as those of the released models. */
int wan_vace_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err)
{
    first_config c;
    int rc = convert(config, &c, WAN_VACE_CLASS, theirs, src, err);
    if (rc)
        return rc;
    const int64_t in = vtrain_size_in(src, "vace_patch_embedding.weight", 1);
    const int64_t found = vtrain_blocks_in(src, "vace_blocks.%d.after_proj.weight");
    const int64_t n = c.n_vace ? c.n_vace : found, step = n ? (c.layers + n - 1) / n : 1;
    cJSON *list = cJSON_AddArrayToObject(*config, "vace_layers");
    bool ok = list && cJSON_AddNumberToObject(*config, "vace_in_channels",
                                              (double)(in > 0 ? in : c.vace_in));
    for (int64_t i = 0; ok && i < n; i++)
        ok = cJSON_AddItemToArray(list, cJSON_CreateNumber((double)(c.n_vace ? c.vace[i]
                                                                             : i * step)));
    if (ok)
        return 0;
    cJSON_Delete(*config);
    *config = NULL;
    return vc_no_memory(err);
}

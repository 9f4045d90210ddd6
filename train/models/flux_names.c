/* flux_names.c - the names of FLUX.1's and Chroma's modules in other programs; see flux.h */
#include "train/models/flux.h"

#define DUAL "transformer_blocks.#."
#define SINGLE "single_transformer_blocks.#."
#define TIMES "time_text_embed."

/* proj_mlp is four times as wide as q, k and v. */
#define LINEAR1 \
    .ours = { SINGLE "attn.to_q", SINGLE "attn.to_k", SINGLE "attn.to_v", SINGLE "proj_mlp" }, \
    .share = { 1, 1, 1, 4 }
#define QKV .ours = { DUAL "attn.to_q", DUAL "attn.to_k", DUAL "attn.to_v" }
#define TEXT_QKV .ours = { DUAL "attn.add_q_proj", DUAL "attn.add_k_proj", DUAL "attn.add_v_proj" }

#define SINGLE_QKV .ours = { SINGLE "attn.to_q", SINGLE "attn.to_k", SINGLE "attn.to_v" }

#define NORM(theirs_, ours_) { theirs_ ".scale", .ours = { ours_ ".weight" } }

/* The names that FLUX.1 and Chroma share, those of tensors that no LoRA has at the end. */
#define SHARED \
    { "double_blocks.#.img_attn.qkv", QKV }, \
    { "double_blocks.#.txt_attn.qkv", TEXT_QKV }, \
    { "double_blocks.#.img_attn.proj", .ours = { DUAL "attn.to_out.0" } }, \
    { "double_blocks.#.txt_attn.proj", .ours = { DUAL "attn.to_add_out" } }, \
    { "double_blocks.#.img_mlp.0", .ours = { DUAL "ff.net.0.proj" } }, \
    { "double_blocks.#.img_mlp.2", .ours = { DUAL "ff.net.2" } }, \
    { "double_blocks.#.txt_mlp.0", .ours = { DUAL "ff_context.net.0.proj" } }, \
    { "double_blocks.#.txt_mlp.2", .ours = { DUAL "ff_context.net.2" } }, \
    { "single_blocks.#.linear1", LINEAR1 }, \
    { "single_blocks.#.linear2", .ours = { SINGLE "proj_out" } }, \
    { "img_in", .ours = { "x_embedder" } }, \
    { "txt_in", .ours = { "context_embedder" } }, \
    { "final_layer.linear", .ours = { "proj_out" } }, \
    NORM("double_blocks.#.img_attn.norm.query_norm", DUAL "attn.norm_q"), \
    NORM("double_blocks.#.img_attn.norm.key_norm", DUAL "attn.norm_k"), \
    NORM("double_blocks.#.txt_attn.norm.query_norm", DUAL "attn.norm_added_q"), \
    NORM("double_blocks.#.txt_attn.norm.key_norm", DUAL "attn.norm_added_k"), \
    NORM("single_blocks.#.norm.query_norm", SINGLE "attn.norm_q"), \
    NORM("single_blocks.#.norm.key_norm", SINGLE "attn.norm_k")

/* The first authors' final_layer.adaLN_modulation.1 has shift before scale. */
const vtrain_rename flux_names[] = {
    SHARED,
    { "double_blocks.#.img_mod.lin", .ours = { DUAL "norm1.linear" } },
    { "double_blocks.#.txt_mod.lin", .ours = { DUAL "norm1_context.linear" } },
    { "single_blocks.#.modulation.lin", .ours = { SINGLE "norm.linear" } },
    { "time_in.in_layer", .ours = { TIMES "timestep_embedder.linear_1" } },
    { "time_in.out_layer", .ours = { TIMES "timestep_embedder.linear_2" } },
    { "guidance_in.in_layer", .ours = { TIMES "guidance_embedder.linear_1" } },
    { "guidance_in.out_layer", .ours = { TIMES "guidance_embedder.linear_2" } },
    { "vector_in.in_layer", .ours = { TIMES "text_embedder.linear_1" } },
    { "vector_in.out_layer", .ours = { TIMES "text_embedder.linear_2" } },
    VTRAIN_SWAPPED_HEAD("weight"), VTRAIN_SWAPPED_HEAD("bias"),
    { 0 }
};

#define GUIDANCE "distilled_guidance_layer."
const vtrain_rename chroma_names[] = {
    SHARED,
    { GUIDANCE "in_proj", .ours = { GUIDANCE "in_proj" } },
    { GUIDANCE "out_proj", .ours = { GUIDANCE "out_proj" } },
    { GUIDANCE "layers.#.in_layer", .ours = { GUIDANCE "layers.#.linear_1" } },
    { GUIDANCE "layers.#.out_layer", .ours = { GUIDANCE "layers.#.linear_2" } },
    NORM(GUIDANCE "norms.#", GUIDANCE "norms.#"),
    { 0 }
};

const vtrain_rename flux_diffsynth_names[] = {
    { "blocks.#.attn.a_to_qkv", QKV },
    { "blocks.#.attn.b_to_qkv", TEXT_QKV },
    { "blocks.#.attn.a_to_out", .ours = { DUAL "attn.to_out.0" } },
    { "blocks.#.attn.b_to_out", .ours = { DUAL "attn.to_add_out" } },
    { "blocks.#.norm1_a.linear", .ours = { DUAL "norm1.linear" } },
    { "blocks.#.norm1_b.linear", .ours = { DUAL "norm1_context.linear" } },
    { "blocks.#.ff_a.0", .ours = { DUAL "ff.net.0.proj" } },
    { "blocks.#.ff_a.2", .ours = { DUAL "ff.net.2" } },
    { "blocks.#.ff_b.0", .ours = { DUAL "ff_context.net.0.proj" } },
    { "blocks.#.ff_b.2", .ours = { DUAL "ff_context.net.2" } },
    { "single_blocks.#.to_qkv_mlp", LINEAR1 },
    { "single_blocks.#.proj_out", .ours = { SINGLE "proj_out" } },
    { "single_blocks.#.norm.linear", .ours = { SINGLE "norm.linear" } },
    { "time_embedder.timestep_embedder.0", .ours = { TIMES "timestep_embedder.linear_1" } },
    { "time_embedder.timestep_embedder.2", .ours = { TIMES "timestep_embedder.linear_2" } },
    { "guidance_embedder.timestep_embedder.0", .ours = { TIMES "guidance_embedder.linear_1" } },
    { "guidance_embedder.timestep_embedder.2", .ours = { TIMES "guidance_embedder.linear_2" } },
    { "pooled_text_embedder.0", .ours = { TIMES "text_embedder.linear_1" } },
    { "pooled_text_embedder.2", .ours = { TIMES "text_embedder.linear_2" } },
    { "final_norm_out.linear", .ours = { "norm_out.linear" } },
    { "final_proj_out", .ours = { "proj_out" } },
    /* XLabs' and USO's processors of attention, and ComfyUI's name of a part of linear1 */
    { "double_blocks.#.processor.qkv_lora1", QKV },
    { "double_blocks.#.processor.qkv_lora2", TEXT_QKV },
    { "double_blocks.#.processor.proj_lora1", .ours = { DUAL "attn.to_out.0" } },
    { "double_blocks.#.processor.proj_lora2", .ours = { DUAL "attn.to_add_out" } },
    { "single_blocks.#.processor.qkv_lora", SINGLE_QKV },
    { "single_blocks.#.processor.proj_lora", .ours = { SINGLE "proj_out" } },
    { "single_blocks.#.linear1_qkv", SINGLE_QKV },
    { 0 }
};

/* ---- a file of the first authors ---- */

/* A field whose value is the size of an axis of a tensor, or with axis -1 the number of a kind's
 * blocks, of which `tensor` is a format. */
typedef struct sized { const char *field, *tensor; int axis; } sized;

#define SHARED_SIZES \
    { "in_channels", "img_in.weight", 1 }, { "out_channels", "final_layer.linear.weight", 0 }, \
    { "joint_attention_dim", "txt_in.weight", 1 }, \
    { "num_layers", "double_blocks.%d.img_mlp.0.weight", -1 }, \
    { "num_single_layers", "single_blocks.%d.linear1.weight", -1 }

static const sized flux_sizes[] = {
    SHARED_SIZES, { "pooled_projection_dim", "vector_in.in_layer.weight", 1 }, { NULL, NULL, 0 }
};
static const sized chroma_sizes[] = {
    SHARED_SIZES, { "approximator_hidden_dim", GUIDANCE "in_proj.weight", 0 },
    { "approximator_num_channels", GUIDANCE "in_proj.weight", 1 },
    { "approximator_layers", GUIDANCE "layers.%d.in_layer.weight", -1 }, { NULL, NULL, 0 }
};

static bool add_sizes(cJSON *o, const sized *row, const vt_source *src)
{
    bool ok = true;
    for (; ok && row->field; row++) {
        const int64_t n = row->axis < 0 ? vtrain_blocks_in(src, row->tensor)
                                        : vtrain_size_in(src, row->tensor, row->axis);
        ok = cJSON_AddNumberToObject(o, row->field, (double)n);
    }
    return ok;
}

/* There is no config.json: all facts are in sizes. */
static int convert(cJSON **config, const vt_source *src, const char *class, const sized *sizes,
                   const char *is, vc_err *err)
{
    int64_t width = vtrain_size_in(src, "img_in.weight", 0);
    int64_t head = vtrain_size_in(src, "double_blocks.0.img_attn.norm.query_norm.scale", 0);
    if (head < 16 || head % 16 || width % head)
        return vc_fail(err, VC_EFORMAT, "img_in.weight has %lld rows, and the queries' norm has "
                       "%lld numbers: this is no %s", (long long)width, (long long)head, is);
    const int axes[3] = { (int)head / 8, (int)head / 16 * 7, (int)head / 16 * 7 };
    cJSON *o = cJSON_CreateObject();
    if (!cJSON_AddStringToObject(o, "_class_name", class) ||
        !cJSON_AddItemToObject(o, "axes_dims_rope", cJSON_CreateIntArray(axes, 3)) ||
        !cJSON_AddNumberToObject(o, "num_attention_heads", (double)(width / head)) ||
        !cJSON_AddNumberToObject(o, "attention_head_dim", (double)head) ||
        !add_sizes(o, sizes, src)) {
        cJSON_Delete(o);
        return vc_no_memory(err);
    }
    *config = o;
    return 0;
}

int flux_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err)
{
    const bool guidance = vtrain_size_in(src, "guidance_in.in_layer.weight", 0) > 0;
    (void)theirs;
    int rc = convert(config, src, FLUX_CLASS, flux_sizes, "FLUX.1", err);
    if (!rc && !cJSON_AddBoolToObject(*config, "guidance_embeds", guidance)) {
        cJSON_Delete(*config);
        *config = NULL;
        rc = vc_no_memory(err);
    }
    return rc;
}

int chroma_convert(cJSON **config, const cJSON *theirs, const vt_source *src, vc_err *err)
{
    (void)theirs;
    return convert(config, src, CHROMA_CLASS, chroma_sizes, "Chroma", err);
}

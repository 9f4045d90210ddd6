/* clip_vision.c - CLIP's vision model, and SigLIP's: see clip_vision.h */
#include "precompute/text/clip_vision.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/nn/embeddings.h"
#include "precompute/text/clip_layers.h"

typedef struct config {
    clip_config layers;
    int64_t size, patch, tokens;
    int64_t used;                                 /* layers that are run */
    bool part;                                    /* of a larger model */
    bool siglip;
} config;

struct clip_vision {
    config c;
    text_stack s;
    vt_tensor *class_token, *positions;           /* [D], [tokens,D] */
    vt_lin patch;                                 /* [D,3,patch,patch] */
    clip_norm norm_before, norm_after;            /* norm_after is bound where all layers run */
    clip_layer *layer;
};

/* ---- weights ---- */

enum { PATCH = -CLIP_SIZES, TOKENS = PATCH - 1, N_SIZES = CLIP_SIZES + 2 };

static const vt_weight table[] = {
    { "embeddings.class_embedding", VT_W_TENSOR, offsetof(clip_vision, class_token), { CLIP_D },
      VT_INIT_ZERO },
    { "embeddings.patch_embedding", VT_W_CONV, offsetof(clip_vision, patch),
      { CLIP_D, 3, PATCH, PATCH }, VT_INIT_ZERO },
    { "embeddings.position_embedding.weight", VT_W_TENSOR, offsetof(clip_vision, positions),
      { TOKENS, CLIP_D }, VT_INIT_ZERO },
    CLIP_NORM(clip_vision, norm_before, "pre_layrnorm"),      /* the spelling of checkpoints */
    { 0 }
};
static const vt_weight siglip_table[] = {
    { "embeddings.patch_embedding", VT_W_CONV, offsetof(clip_vision, patch),
      { CLIP_D, 3, PATCH, PATCH }, VT_INIT_ZERO },
    { "embeddings.patch_embedding.bias", VT_W_TENSOR, offsetof(clip_vision, patch.b), { CLIP_D },
      VT_INIT_ZERO },
    { "embeddings.position_embedding.weight", VT_W_TENSOR, offsetof(clip_vision, positions),
      { TOKENS, CLIP_D }, VT_INIT_ZERO },
    { 0 }
};
static const vt_weight after_table[] = {
    CLIP_NORM(clip_vision, norm_after, "post_layernorm"), { 0 }
};

/* Whether a tensor may stay unread: the tensor belongs to a layer or a norm that is not run, or to
 * SigLIP's head, or holds the position ids, which older programs stored. */
static bool is_unused(const config *c, const char *name)
{
    static const char layers[] = "encoder.layers.";
    char *end;

    if (c->siglip)
        return !strcmp(name, "embeddings.position_ids") || !strncmp(name, "head.", 5);
    if (!strcmp(name, "embeddings.position_ids") || !strncmp(name, "post_layernorm.", 15))
        return true;
    if (strncmp(name, layers, sizeof layers - 1))
        return false;
    long i = strtol(name + sizeof layers - 1, &end, 10);
    return *end == '.' && i >= c->used && i < c->layers.layers;
}

/* The part of names before "embeddings.": transformers has changed it twice, in the files of CLIP
 * and in those of models that CLIP is a part of. */
static const char *find_prefix(const clip_vision *m)
{
    static const char *const prefixes[] = { "vision_model.", "", "vision_tower.vision_model.",
                                            "model.vision_tower.vision_model.", "vision_tower.",
                                            "model.vision_tower." };
    const size_t first = m->c.part ? 2 : 0, end = m->c.part ? 6 : 2;
    vf_view v;

    for (size_t i = first; i < end; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s%s", prefixes[i], table[2].name);     /* positions */
        if (vf_model_get(m->s.model, name, &v, NULL) == 0)
            return prefixes[i];
    }
    return prefixes[first];
}

static int check_left_over(const clip_vision *m, const char *prefix, vc_err *err)
{
    size_t n = strlen(prefix);

    for (int i = 0; i < vf_model_count(m->s.model); i++) {
        const char *name = vf_model_at(m->s.model, i)->name;
        const bool below = !strncmp(name, prefix, n);
        bool mine = below ? is_unused(&m->c, name + n) : m->c.part;
        if (!mine && strcmp(name, "visual_projection.weight") && !vt_params_find(m->s.p, name))
            return vc_fail(err, VC_EMISMATCH, "tensor %s is not used: config.json describes a "
                           "model without this tensor", name);
    }
    return 0;
}

static int bind(clip_vision *m, vc_err *err)
{
    const config *c = &m->c;
    const int64_t sizes[N_SIZES] = { 0, c->layers.width, c->layers.hidden, c->patch, c->tokens };
    const vt_source src = vf_model_source(m->s.model);
    const char *prefix = find_prefix(m);

    int rc = vt_params_bind(m->s.p, c->siglip ? siglip_table : table, prefix, 0, m, sizes, &src,
                            err);
    if (!rc)
        rc = clip_layers_bind(&m->layer, &m->s, &c->layers, c->used, prefix, err);
    if (!rc && c->used == c->layers.layers)
        rc = vt_params_bind(m->s.p, after_table, prefix, 0, m, sizes, &src, err);
    return rc ? rc : check_left_over(m, prefix, err);
}

/* ---- open and close ---- */

#define CLIP_TYPE "clip_vision_model"
#define SIGLIP_TYPE "siglip_vision_model"
static const vf_config_row clip_type[] = { VF_ONLY("model_type", CLIP_TYPE, NULL), { 0 } };
static const vf_config_row siglip_type[] = { VF_ONLY("model_type", SIGLIP_TYPE, NULL), { 0 } };
static const vf_config_row rows[] = {
    VF_INT_NEEDED(config, size, "image_size", 1, 1 << 12),
    VF_INT_NEEDED(config, patch, "patch_size", 1, 1 << 12),
    VF_ONLY_INT("num_channels", 3),
    { 0 }
};

static int read_config(config *c, int skip, const cJSON *o, vc_err *err)
{
    int rc = vf_config_read(c, c->siglip ? siglip_type : clip_type, o, err);

    if (!rc)
        rc = vf_config_read(c, rows, o, err);
    if (!rc)
        rc = clip_config_read(&c->layers, c->siglip, o, err);
    if (rc)
        return rc;
    if (c->size < c->patch || (!c->siglip && c->size % c->patch))
        return vc_fail(err, VC_EFORMAT, "image_size: %lld is not a multiple of patch_size: %lld",
                       (long long)c->size, (long long)c->patch);
    if (skip < 0 || skip > c->layers.layers)
        return vc_fail(err, VC_EINVAL, "num_hidden_layers: %lld, of which the last %d layers "
                       "cannot be left out", (long long)c->layers.layers, skip);
    c->tokens = (c->size / c->patch) * (c->size / c->patch) + (c->siglip ? 0 : 1);
    c->used = c->layers.layers - skip;
    return 0;
}

static int set_up(clip_vision *m, const encoder_opts *o, int skip, vc_err *err)
{
    static const char part[] = "vision_config";
    cJSON *json;
    int rc = text_config_open(&json, o, m->c.siglip ? SIGLIP_TYPE : CLIP_TYPE, err);
    const cJSON *vision = json;

    m->c.part = cJSON_HasObjectItem(json, part);
    if (!rc && m->c.part)
        rc = vf_json_obj(json, part, &vision, err);
    if (!rc)
        rc = text_config_bad(o, read_config(&m->c, skip, vision, err), err);
    cJSON_Delete(json);
    if (!rc)
        rc = text_stack_open(&m->s, o, false, err);
    return rc ? rc : vc_context(err, bind(m, err), "%s", o->dir);
}

static vf_key fingerprint_of(const config *c, vf_key weights)
{
    vf_hasher h;

    vf_hasher_begin(&h, c->siglip ? "SigLIP vision 1" : "CLIP vision 1");
    vf_hasher_bytes(&h, "weights", weights.b, sizeof weights.b);
    clip_config_hash(&h, &c->layers);
    vf_hasher_int(&h, "image_size", c->size);
    vf_hasher_int(&h, "patch_size", c->patch);
    vf_hasher_int(&h, "layers", c->used);
    return vf_hasher_end(&h);
}

static int open_kind(clip_vision **out, bool siglip, const encoder_opts *o, int skip,
                     clip_vision_info *info, vc_err *err)
{
    *out = NULL;
    clip_vision *m = calloc(1, sizeof *m);
    if (!m)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", siglip ? SIGLIP_TYPE : CLIP_TYPE);

    m->c.siglip = siglip;
    int rc = set_up(m, o, skip, err);
    if (rc) {
        clip_vision_close(m);
        return rc;
    }
    *info = (clip_vision_info){ fingerprint_of(&m->c, o->weights), (int)m->c.size,
                                (int)m->c.tokens, (int)m->c.layers.width };
    *out = m;
    return 0;
}

int clip_vision_open(clip_vision **out, const encoder_opts *o, int skip, clip_vision_info *info,
                     vc_err *err)
{
    return open_kind(out, false, o, skip, info, err);
}

int clip_vision_open_siglip(clip_vision **out, const encoder_opts *o, clip_vision_info *info,
                            vc_err *err)
{
    return open_kind(out, true, o, 0, info, err);
}

void clip_vision_close(clip_vision *m)
{
    if (!m)
        return;
    text_stack_close(&m->s);
    free(m->layer);
    free(m);
}

vt_usage clip_vision_usage(const clip_vision *m) { return vt_usage_of(m->s.g); }

/* ---- forward ---- */

/* The first n rows of a table [rows,D], in the compute type: [1,n,D] */
static vt_tensor *rows_of(vt_ctx *g, vt_tensor *of, int64_t n)
{
    int32_t *id = malloc((size_t)n * sizeof *id);

    if (!id)
        return vt_fail(g, VC_ENOMEM, "out of memory for %lld tokens", (long long)n);

    for (int32_t i = 0; i < n; i++)
        id[i] = i;
    vt_tensor *ids = vt_from_host(g, VC_I32, 2, (int64_t[]){ 1, n }, id, VC_I32);
    free(id);
    return vt_embedding(g, of, ids);
}

/* pixels [size,size,3] -> tokens f32 [1,tokens,D] with their positions, of CLIP normalised */
static vt_tensor *embed(const clip_vision *m, const float *pixels)
{
    vt_ctx *g = m->s.g;
    const config *c = &m->c;
    const int64_t dim[5] = { 1, 1, c->size, c->size, 3 };
    const int patch[3] = { 1, (int)c->patch, (int)c->patch };
    const int64_t seen = c->size / c->patch * c->patch;
    vt_tensor *x = vt_from_host(g, VC_F32, 5, dim, pixels, VC_F32);

    x = vt_slice(g, vt_slice(g, x, 2, 0, seen), 3, 0, seen);
    x = nn_patches(g, vt_permute(g, x, (int[]){ 0, 4, 1, 2, 3 }), patch);
    x = nn_embed_patches(g, x, &m->patch);
    if (c->siglip)
        return vt_add(g, vt_cast(g, x, VC_F32), rows_of(g, m->positions, c->tokens));
    vt_tensor *class_table = vt_reshape(g, m->class_token, 2, (int64_t[]){ 1, -1 });
    x = vt_concat(g, 1, 2, (vt_tensor *[]){ rows_of(g, class_table, 1), x });
    x = vt_add(g, vt_cast(g, x, VC_F32), rows_of(g, m->positions, c->tokens));
    return clip_norm_run(g, &c->layers, &m->norm_before, x);
}

/* pixels [size,size,3] -> states f32 [1,tokens,D] of the last layer that is run */
static vt_tensor *run(const clip_vision *m, const float *pixels)
{
    const config *c = &m->c;
    const text_ids all = { .n = (int)c->tokens };

    vt_tensor *x = clip_layers_run(m->s.g, &c->layers, m->layer, c->used, false, embed(m, pixels),
                                   &all, 1);
    return c->siglip ? clip_norm_run(m->s.g, &c->layers, &m->norm_after, x) : x;
}

int clip_vision_encode(clip_vision *m, const float *pixels, float *states, float *pooled,
                       vc_err *err)
{
    const config *c = &m->c;
    vt_ctx *g = m->s.g;

    if (pooled && c->siglip)
        return vc_fail(err, VC_EINVAL, "SigLIP's pooled state is not made");
    if (pooled && c->used < c->layers.layers)
        return vc_fail(err, VC_EINVAL, "a pooled state needs all layers, but the last %lld are "
                       "left out", (long long)(c->layers.layers - c->used));
    vt_step_begin(g, 0);
    vt_tensor *x = run(m, pixels);
    int rc = 0;
    if (pooled) {
        vt_tensor *first = vt_pack(g, vt_slice(g, x, 1, 0, 1));
        rc = vt_to_host(g, clip_norm_run(g, &c->layers, &m->norm_after, first), pooled, err);
    }
    int end = text_stack_end(&m->s, x, states, err);
    if (!end)
        end = rc;
    return end || !pooled ? end : text_finite(&m->s, pooled, (size_t)c->layers.width, err);
}

int clip_vision_memory(clip_vision *m, size_t *bytes, vc_err *err)
{
    vt_ctx *g = m->s.g;

    vt_step_begin(g, VT_DRY);
    run(m, NULL);
    int rc = vt_step_end(g, err);
    *bytes = vt_usage_of(g).pool_peak;
    return rc;
}

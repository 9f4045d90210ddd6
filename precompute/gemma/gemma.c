/* gemma.c - Gemma 3 as a text encoder: see gemma.h */
#include "precompute/gemma/gemma.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/gemma/config.h"

/* The norms of a layer: before and after each half, and of a head's queries and keys. */
enum { BEFORE_ATTENTION, AFTER_ATTENTION, BEFORE_FEED, AFTER_FEED, OF_Q, OF_K, NORMS };

typedef struct layer {
    vt_tensor *stored[NORMS], *norm[NORMS];       /* the file's values, and one plus these, f32 */
    vt_lin q, k, v, o, gate, up, down;
} layer;

struct gemma {
    gemma_config c;
    text_stack s;
    vt_tensor *embed;                             /* [V,D] */
    vt_tensor *stored, *norm;                     /* the last norm's, as a layer's */
    float scale;                                  /* of the embeddings */
    layer *layer;                                 /* [layers] */
    float frequency[GEMMA_KINDS][GEMMA_HEAD / 2];
};

/* ---- weights ---- */

enum { D = -1, Q = -2, KV = -3, HIDDEN = -4, VOCAB = -5, HEAD = -6, N_SIZES = 7 };

#define TENSOR(type, field, name, ...) \
    { name, VT_W_TENSOR, offsetof(type, field), { __VA_ARGS__ }, VT_INIT_ZERO }
#define LIN(field, name, out, in) \
    { name, VT_W_LINEAR_NO_BIAS, offsetof(layer, field), { out, in }, VT_INIT_ZERO }

static const vt_weight model_table[] = {
    TENSOR(gemma, embed, "embed_tokens.weight", VOCAB, D),
    TENSOR(gemma, stored, "norm.weight", D),
    { 0 }
};
static const vt_weight layer_table[] = {          /* names follow "layers.%d." */
    TENSOR(layer, stored[BEFORE_ATTENTION], "input_layernorm.weight", D),
    TENSOR(layer, stored[AFTER_ATTENTION], "post_attention_layernorm.weight", D),
    TENSOR(layer, stored[BEFORE_FEED], "pre_feedforward_layernorm.weight", D),
    TENSOR(layer, stored[AFTER_FEED], "post_feedforward_layernorm.weight", D),
    TENSOR(layer, stored[OF_Q], "self_attn.q_norm.weight", HEAD),
    TENSOR(layer, stored[OF_K], "self_attn.k_norm.weight", HEAD),
    LIN(q, "self_attn.q_proj", Q, D), LIN(k, "self_attn.k_proj", KV, D),
    LIN(v, "self_attn.v_proj", KV, D), LIN(o, "self_attn.o_proj", D, Q),
    LIN(gate, "mlp.gate_proj", HIDDEN, D), LIN(up, "mlp.up_proj", HIDDEN, D),
    LIN(down, "mlp.down_proj", D, HIDDEN),
    { 0 }
};

/* The prefix of the decoder's tensors, which depends on the version of transformers and on whether
 * the file has a vision part. */
static const char *find_prefix(const vf_model *m)
{
    static const char *const prefixes[] = { "model.language_model.", "language_model.model.",
                                            "model.", "" };
    vf_view v;

    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefixes[i], model_table[0].name);
        if (vf_model_get(m, name, &v, NULL) == 0)
            return prefixes[i];
    }
    return prefixes[0];
}

/* Whether a tensor is outside of the decoder's layers: a vision part's, or a head's. */
static bool is_outside(const void *arg, const char *name)
{
    (void)arg;
    return strncmp(name, "layers.", 7) != 0;
}

/* Makes *norm of the stored values: each plus one. */
static int add_one(gemma *m, vt_tensor *stored, vt_tensor **norm, vc_err *err)
{
    const int64_t n = vt_count(stored);
    float *w = malloc((size_t)n * sizeof *w);
    int rc = w ? vt_to_host(m->s.g, stored, w, err) : vc_no_memory(err);

    for (int64_t i = 0; !rc && i < n; i++)
        w[i] += 1;
    if (!rc) {
        *norm = vt_param_new(m->s.g, VC_F32, 1, &n, w, VC_F32, false, err);
        rc = *norm ? 0 : err->code;
    }
    free(w);
    return rc;
}

static int bind(gemma *m, vc_err *err)
{
    const gemma_config *c = &m->c;
    const int64_t sizes[N_SIZES] = { 0, c->width, c->heads * c->head, c->kv_heads * c->head,
                                     c->hidden, c->vocab, c->head };
    const vt_source src = vf_model_source(m->s.model);
    const char *prefix = find_prefix(m->s.model);
    char layers[64];

    snprintf(layers, sizeof layers, "%slayers.%%d.", prefix);
    int rc = vt_params_bind(m->s.p, model_table, prefix, 0, m, sizes, &src, err);
    if (!rc)
        rc = add_one(m, m->stored, &m->norm, err);
    for (int i = 0; !rc && i < c->layers; i++) {
        layer *w = &m->layer[i];
        rc = vt_params_bind(m->s.p, layer_table, layers, i, w, sizes, &src, err);
        for (int k = 0; !rc && k < NORMS; k++)
            rc = add_one(m, w->stored[k], &w->norm[k], err);
    }
    return rc ? rc : text_stack_all_bound(&m->s, prefix, is_outside, NULL, err);
}

/* ---- open and close ---- */

/* The square root of the width in the type of the table, in which the model was trained. */
static float embedding_scale(const gemma *m)
{
    const float scale = (float)sqrt((double)m->c.width);

    return m->embed->dtype == VC_BF16 ? vc_bf16_to_f32(vc_f32_to_bf16(scale)) : scale;
}

static int set_up(gemma *m, const encoder_opts *o, vc_err *err)
{
    cJSON *json;
    int rc = text_config_open(&json, o, "gemma3", err);

    if (!rc)
        rc = text_config_bad(o, gemma_config_read(&m->c, &o->text, json, err), err);
    cJSON_Delete(json);
    if (rc)
        return rc;
    for (int i = 0; i < GEMMA_KINDS; i++)
        gemma_config_frequencies(&m->c, (gemma_layer)i, m->frequency[i]);
    m->layer = calloc((size_t)m->c.layers, sizeof *m->layer);
    if (!m->layer)
        return vc_no_memory(err);
    rc = text_stack_open(&m->s, o, false, err);
    if (!rc)
        rc = vc_context(err, bind(m, err), "%s", o->dir);
    if (!rc)
        m->scale = embedding_scale(m);
    return rc;
}

int gemma_open(gemma **out, const encoder_opts *o, vf_key *fingerprint, vc_err *err)
{
    *out = NULL;
    gemma *m = calloc(1, sizeof *m);
    int rc = m ? set_up(m, o, err) : vc_no_memory(err);

    if (rc) {
        gemma_close(m);
        return rc;
    }
    *fingerprint = gemma_config_fingerprint(&m->c, o->weights);
    *out = m;
    return 0;
}

void gemma_close(gemma *m)
{
    if (!m)
        return;
    for (int64_t i = 0; m->layer && i < m->c.layers; i++)
        for (int k = 0; k < NORMS; k++)
            vt_param_free(m->s.g, m->layer[i].norm[k]);
    vt_param_free(m->s.g, m->norm);
    text_stack_close(&m->s);
    free(m->layer);
    free(m);
}

int gemma_width(const gemma *m) { return (int)m->c.width; }
int gemma_states(const gemma *m) { return (int)m->c.layers + 1; }
int64_t gemma_vocab(const gemma *m) { return m->c.vocab; }
vt_ctx *gemma_context(const gemma *m) { return m->s.g; }

/* ---- forward ---- */

/* Cosines and sines [n,head / 2] of the places 0..n-1 in the layers of a kind. */
static void rotations(const gemma *m, int kind, int64_t n, vt_tensor *table[2])
{
    const int64_t pairs = m->c.head / 2, dim[2] = { n, pairs };
    const size_t count = (size_t)(n * pairs);
    float *host = malloc(2 * count * sizeof *host);

    if (!host) {
        vt_fail(m->s.g, VC_ENOMEM, "out of memory for %lld tokens", (long long)n);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const float angle = (float)(i / (size_t)pairs) * m->frequency[kind][i % (size_t)pairs];
        host[i] = cosf(angle);
        host[count + i] = sinf(angle);
    }
    for (int i = 0; i < 2; i++)
        table[i] = vt_from_host(m->s.g, VC_F32, 2, dim, host + (size_t)i * count, VC_F32);
    free(host);
}

/* The norm of x in the type of activations. */
static vt_tensor *norm(const gemma *m, vt_tensor *x, vt_tensor *w)
{
    return vt_cast(m->s.g, vt_rms_norm(m->s.g, x, w, (float)m->c.eps), vt_compute(m->s.g));
}

/* The residual stream x (f32) plus the norm of y. */
static vt_tensor *add_normed(const gemma *m, vt_tensor *x, vt_tensor *y, vt_tensor *w)
{
    return vt_add(m->s.g, x, vt_rms_norm(m->s.g, vt_cast(m->s.g, y, VC_F32), w, (float)m->c.eps));
}

static vt_tensor *attend(const gemma *m, const text_ids *t, const layer *w, vt_tensor *x,
                         vt_tensor *const rotation[2])
{
    vt_ctx *g = m->s.g;
    const gemma_config *c = &m->c;
    const vt_attn how = { .causal = 1, .scale = (float)(1 / sqrt(c->scalar)) };
    vt_tensor *y = norm(m, x, w->norm[BEFORE_ATTENTION]);
    vt_tensor *q = text_heads(g, vt_linear(g, y, &w->q), c->heads);
    vt_tensor *k = text_heads(g, vt_linear(g, y, &w->k), c->kv_heads);
    vt_tensor *v = text_heads(g, vt_linear(g, y, &w->v), c->kv_heads);

    q = vt_rope_halves(g, norm(m, q, w->norm[OF_Q]), rotation[0], rotation[1], 0);
    k = vt_rope_halves(g, norm(m, k, w->norm[OF_K]), rotation[0], rotation[1], 0);
    y = text_attention(g, q, k, v, t, 1, NULL, NULL, NULL, &how);
    return add_normed(m, x, vt_linear(g, y, &w->o), w->norm[AFTER_ATTENTION]);
}

static vt_tensor *feed(const gemma *m, const layer *w, vt_tensor *x)
{
    vt_ctx *g = m->s.g;
    vt_tensor *y = norm(m, x, w->norm[BEFORE_FEED]);
    vt_tensor *h = vt_mul(g, vt_gelu(g, vt_linear(g, y, &w->gate)), vt_linear(g, y, &w->up));

    return add_normed(m, x, vt_linear(g, h, &w->down), w->norm[AFTER_FEED]);
}

/* Copies the states x of layer i to the host. */
static void keep(const gemma *m, vt_tensor *x, int64_t i, float *states)
{
    vc_err err;

    if (x && vt_to_host(m->s.g, x, states + (size_t)i * (size_t)vt_count(x), &err))
        vt_fail(m->s.g, err.code, "%s", err.text);
}

/* Runs all layers on the ids, and returns the last states, which are not copied yet. */
static vt_tensor *forward(const gemma *m, const text_ids *t, const int32_t *id, float *states)
{
    vt_ctx *g = m->s.g;
    vt_tensor *rotation[GEMMA_KINDS][2] = { { NULL } };

    for (int k = 0; k < GEMMA_KINDS; k++)
        rotations(m, k, t->n, rotation[k]);
    vt_scope s = vt_scope_begin(g);
    vt_tensor *x = vt_from_host(g, VC_I32, 2, (int64_t[]){ 1, t->n }, id, VC_I32);
    x = vt_scale(g, vt_cast(g, vt_embedding(g, m->embed, x), VC_F32), m->scale);
    for (int64_t i = 0; i < m->c.layers; i++) {
        keep(m, x, i, states);
        x = attend(m, t, &m->layer[i], x, rotation[m->c.kind[i]]);
        vt_scope_end(g, s, 1, &x);
        x = feed(m, &m->layer[i], x);
        vt_scope_end(g, s, 1, &x);
    }
    return vt_rms_norm(g, x, m->norm, (float)m->c.eps);
}

int gemma_encode(gemma *m, const text_ids *t, float *states, vc_err *err)
{
    const size_t each = (size_t)t->n * (size_t)m->c.width, before = (size_t)m->c.layers * each;
    int32_t *id;
    int rc = text_ids_copy(&id, t, 1, m->c.vocab, err);

    if (rc)
        return rc;
    vt_step_begin(m->s.g, 0);
    rc = text_stack_end(&m->s, forward(m, t, id, states), states + before, err);
    free(id);
    return rc ? rc : text_finite(&m->s, states, before, err);
}

/* t5.c - T5 v1.0 and v1.1 and UMT5 encoder stacks: see t5.h */
#include "precompute/text/t5.h"

#include <stdlib.h>
#include <string.h>

#include "precompute/text/stack.h"

enum { BUCKETS = 32, REACH = 128, EXACT = 8 };    /* of relative positions: see bucket() */

typedef struct config {
    int64_t width, hidden, head, heads, layers, vocab;
    double eps;
    int gated;                                    /* 0: T5 v1.0, whose feed-forward layer is a
                                                   * ReLU between two linear layers */
    bool own_tables;                              /* UMT5: each layer has a position table */
} config;

typedef struct layer {
    vt_tensor *norm1, *norm2;                     /* [D] */
    vt_tensor *table;                             /* [BUCKETS,H]; NULL where layer 0's is used */
    vt_lin q, k, v, o, wi, wi_0, wi_1, wo;        /* wi, or wi_0 and wi_1 */
} layer;

struct t5 {
    config c;
    text_stack s;
    bool hides;                                   /* no token sees padding */
    vt_tensor *embed, *norm;                      /* [V,D], [D] */
    layer *layer;                                 /* [layers] */
};

/* ---- weights ---- */

enum { D = -1, INNER = -2, HIDDEN = -3, HEADS = -4, VOCAB = -5, PLAIN = -6, GATED = -7,
       N_SIZES = 8 };

#define SHARED "shared.weight"
#define EMBED "encoder.embed_tokens.weight"

#define TENSOR(type, field, name, ...) \
    { name, VT_W_TENSOR, offsetof(type, field), { __VA_ARGS__ }, VT_INIT_ZERO }
#define LIN(field, name, out, in) \
    { name, VT_W_LINEAR_NO_BIAS, offsetof(layer, field), { out, in }, VT_INIT_ZERO }

static const vt_weight shared_table[] = { TENSOR(t5, embed, SHARED, VOCAB, D), { 0 } };
static const vt_weight embed_table[] = { TENSOR(t5, embed, EMBED, VOCAB, D), { 0 } };
static const vt_weight final_table[] = {
    TENSOR(t5, norm, "encoder.final_layer_norm.weight", D), { 0 }
};

#define LAYER "encoder.block.%d.layer."
static const vt_weight layer_table[] = {
    TENSOR(layer, norm1, "0.layer_norm.weight", D),
    LIN(q, "0.SelfAttention.q", INNER, D),
    LIN(k, "0.SelfAttention.k", INNER, D),
    LIN(v, "0.SelfAttention.v", INNER, D),
    LIN(o, "0.SelfAttention.o", D, INNER),
    TENSOR(layer, norm2, "1.layer_norm.weight", D),
    LIN(wi, "1.DenseReluDense.wi", PLAIN, D),
    LIN(wi_0, "1.DenseReluDense.wi_0", GATED, D),
    LIN(wi_1, "1.DenseReluDense.wi_1", GATED, D),
    LIN(wo, "1.DenseReluDense.wo", D, HIDDEN),
    { 0 }
};
static const vt_weight position_table[] = {
    TENSOR(layer, table, "0.SelfAttention.relative_attention_bias.weight", BUCKETS, HEADS), { 0 }
};

/* Other tensors of checkpoints that hold the whole model, or the embedding by both names. */
static const char *const spare[] = { SHARED, EMBED, "decoder.*", "lm_head.*", NULL };

/* Sets *table by the name under which the file holds the embedding. Where the file has both names,
 * the two tensors must be equal, since programs differ in which of the two they read. */
static int find_embedding(const vt_weight **table, const vf_model *m, vc_err *err)
{
    vf_view a, b;
    bool shared = vf_model_get(m, SHARED, &a, NULL) == 0;
    bool own = vf_model_get(m, EMBED, &b, NULL) == 0;

    *table = own && !shared ? embed_table : shared_table;
    if (shared && own &&
        (a.dtype != b.dtype || a.bytes != b.bytes || memcmp(a.data, b.data, a.bytes)))
        return vc_fail(err, VC_EMISMATCH, "tensors %s and %s differ, and only one embedding is "
                       "used: remove the wrong one", SHARED, EMBED);
    return 0;
}

static int bind(t5 *m, vc_err *err)
{
    const config *c = &m->c;
    const int64_t sizes[N_SIZES] = { 0, c->width, c->heads * c->head, c->hidden, c->heads,
                                     c->vocab, c->gated ? VT_ABSENT : c->hidden,
                                     c->gated ? c->hidden : VT_ABSENT };
    vt_source src = vf_model_source(m->s.model);
    const vt_weight *embedding;

    int rc = find_embedding(&embedding, m->s.model, err);
    if (!rc)
        rc = vt_params_bind(m->s.p, embedding, "", 0, m, sizes, &src, err);
    if (!rc)
        rc = vt_params_bind(m->s.p, final_table, "", 0, m, sizes, &src, err);
    for (int i = 0; !rc && i < c->layers; i++) {
        layer *w = &m->layer[i];
        rc = vt_params_bind(m->s.p, layer_table, LAYER, i, w, sizes, &src, err);
        if (!rc && (i == 0 || c->own_tables))
            rc = vt_params_bind(m->s.p, position_table, LAYER, i, w, sizes, &src, err);
    }
    return rc ? rc : vf_model_all_bound(m->s.model, m->s.p, spare, err);
}

/* ---- config.json ---- */

static const vf_config_row rows[] = {
    VF_INT_NEEDED(config, width, "d_model", 1, 1 << 16),
    VF_INT_NEEDED(config, hidden, "d_ff", 1, 1 << 18),
    VF_INT_NEEDED(config, head, "d_kv", 1, 256),
    VF_INT_NEEDED(config, heads, "num_heads", 1, 1 << 10),
    VF_INT_NEEDED(config, layers, "num_layers", 1, 1 << 10),
    VF_INT_NEEDED(config, vocab, "vocab_size", 1, 1 << 24),
    VF_NUM(config, eps, "layer_norm_epsilon", 1e-6, 0, 1),
    VF_WORD(config, gated, "feed_forward_proj", NULL, "relu|gated-gelu"),
    VF_ONLY_INT("relative_attention_num_buckets", BUCKETS),       /* older files lack these two */
    VF_ONLY_INT("relative_attention_max_distance", REACH),
    VF_UNSET("quantization_config", "use the f32, bf16 or f16 files"),
    { 0 }
};

/* Of T5 v1.0 and of the others; older files lack it. */
static const vf_config_row gate_rows[2][2] = {
    { VF_ONLY_FLAG("is_gated_act", false), { 0 } }, { VF_ONLY_FLAG("is_gated_act", true), { 0 } }
};

static int read_config(config *c, const cJSON *o, const char *model_type, vc_err *err)
{
    const vf_config_row type[] = { VF_ONLY("model_type", model_type, NULL), { 0 } };

    c->own_tables = !strcmp(model_type, "umt5");
    int rc = vf_config_read(c, type, o, err);
    if (!rc)
        rc = vf_config_read(c, rows, o, err);
    if (!rc)
        rc = vf_config_read(c, gate_rows[c->gated], o, err);
    if (!rc && c->head % 8)
        rc = vc_fail(err, VC_EFORMAT, "d_kv: %lld is not a multiple of 8", (long long)c->head);
    return rc;
}

/* ---- open and close ---- */

static vf_key fingerprint_of(const config *c, vf_key weights)
{
    vf_hasher h;

    vf_hasher_begin(&h, c->own_tables ? "UMT5 encoder 1" : "T5 encoder 1");
    if (!c->gated)
        vf_hasher_int(&h, "gated", c->gated);
    vf_hasher_bytes(&h, "weights", weights.b, sizeof weights.b);
    vf_hasher_int(&h, "d_model", c->width);
    vf_hasher_int(&h, "d_ff", c->hidden);
    vf_hasher_int(&h, "d_kv", c->head);
    vf_hasher_int(&h, "num_heads", c->heads);
    vf_hasher_int(&h, "num_layers", c->layers);
    vf_hasher_bytes(&h, "layer_norm_epsilon", &c->eps, sizeof c->eps);
    return vf_hasher_end(&h);
}

static int set_up(t5 *m, const encoder_opts *o, const char *model_type, vc_err *err)
{
    cJSON *json;
    int rc = text_config_open(&json, o, model_type, err);

    if (!rc)
        rc = text_config_bad(o, read_config(&m->c, json, model_type, err), err);
    cJSON_Delete(json);
    if (rc)
        return rc;
    m->layer = calloc((size_t)m->c.layers, sizeof *m->layer);
    if (!m->layer)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", o->dir);
    rc = text_stack_open(&m->s, o, true, err);
    return rc ? rc : vc_context(err, bind(m, err), "%s", o->dir);
}

int t5_open(t5 **out, const encoder_opts *o, const char *model_type, vf_key *fingerprint,
            vc_err *err)
{
    *out = NULL;
    t5 *m = calloc(1, sizeof *m);
    if (!m)
        return vc_fail(err, VC_ENOMEM, "%s text encoder: out of memory", model_type);

    int rc = set_up(m, o, model_type, err);
    if (rc) {
        t5_close(m);
        return rc;
    }
    m->hides = o->text.unpadded;
    *fingerprint = fingerprint_of(&m->c, o->weights);
    *out = m;
    return 0;
}

void t5_close(t5 *m)
{
    if (!m)
        return;
    text_stack_close(&m->s);
    free(m->layer);
    free(m);
}

int t5_width(const t5 *m) { return (int)m->c.width; }
int64_t t5_vocab(const t5 *m) { return m->c.vocab; }
int t5_batch(const t5 *m) { return text_batch(&m->s); }
vt_usage t5_usage(const t5 *m) { return vt_usage_of(m->s.g); }

/* ---- forward ---- */

/* The bucket of the distance d = key - query. Keys after the query have the upper half of the
 * buckets. Each half has one bucket per distance below EXACT, and one bucket from each distance of
 * `from` to the next, whose logarithms are evenly spaced up to REACH. */
static int32_t bucket(int64_t d)
{
    static const int8_t from[] = { 8, 12, 16, 23, 32, 46, 64, 91 };
    int64_t far = d < 0 ? -d : d;
    int32_t b = 0;

    if (far < EXACT)
        b = (int32_t)far;
    else
        while (b < BUCKETS / 2 - EXACT && far >= from[b])
            b++;
    return (far < EXACT ? b : EXACT - 1 + b) + (d > 0 ? BUCKETS / 2 : 0);
}

/* i32 [2n-1]: buckets of the distances 1-n .. n-1 */
static vt_tensor *buckets(vt_ctx *g, int n)
{
    int64_t count = 2 * (int64_t)n - 1;
    int32_t *b = malloc((size_t)count * sizeof *b);

    if (!b)
        return vt_fail(g, VC_ENOMEM, "out of memory for %lld distances", (long long)count);

    for (int64_t i = 0; i < count; i++)
        b[i] = bucket(i + 1 - n);
    vt_tensor *t = vt_from_host(g, VC_I32, 1, &count, b, VC_I32);
    free(b);
    return t;
}

/* table [BUCKETS,H] -> the bias [H,n,n] of each text, a view of [H,2m-1], where m is the number of
 * tokens of the longest */
static void bias_of(vt_ctx *g, vt_tensor *table, vt_tensor *of_distance, const text_ids *t,
                    int texts, vt_tensor **bias)
{
    vt_tensor *b = vt_cast(g, vt_embedding(g, table, of_distance), VC_F32);

    b = vt_pack(g, vt_permute(g, b, (int[]){ 1, 0 }));
    for (int i = 0; i < texts; i++) {
        const int64_t n = t[i].n, zero = b ? (b->dim[1] - 1) / 2 : 0;
        bias[i] = vt_distances(g, vt_slice(g, b, 1, zero - n + 1, zero + n), n);
    }
}

/* The input of each half of a layer: the norm of the residual stream x (f32), in the type of
 * activations. */
static vt_tensor *norm(vt_ctx *g, const config *c, vt_tensor *x, vt_tensor *w)
{
    return vt_cast(g, vt_rms_norm(g, x, w, (float)c->eps), vt_compute(g));
}

/* i32 [1]: the number of keys of each text that has padding which no token sees; else NULL */
static void seen_of(const t5 *m, const text_ids *t, int texts, vt_tensor **seen)
{
    for (int i = 0; i < texts; i++) {
        const int32_t keys = t[i].seen;
        seen[i] = m->hides && keys && keys < t[i].n
                  ? vt_from_host(m->s.g, VC_I32, 1, (int64_t[]){ 1 }, &keys, VC_I32) : NULL;
    }
}

/* x [1,total,D] + attention of the norm of x; bias [H,n,n] and seen of each text */
static vt_tensor *attend(vt_ctx *g, const config *c, const layer *w, vt_tensor *x,
                         const text_ids *t, int texts, vt_tensor *const *bias,
                         vt_tensor *const *seen)
{
    vt_tensor *y = norm(g, c, x, w->norm1);
    vt_tensor *q = text_heads(g, vt_linear(g, y, &w->q), c->heads);
    vt_tensor *k = text_heads(g, vt_linear(g, y, &w->k), c->heads);
    vt_tensor *v = text_heads(g, vt_linear(g, y, &w->v), c->heads);
    vt_tensor *o = text_attention(g, q, k, v, t, texts, bias, seen, NULL,
                                  &(vt_attn){ .scale = 1.0f });

    return vt_add(g, x, vt_linear(g, o, &w->o));
}

/* x [1,total,D] + wo(gelu(wi_0 y) * wi_1 y), or wo(relu(wi y)), where y is the norm of x */
static vt_tensor *feed(vt_ctx *g, const config *c, const layer *w, vt_tensor *x)
{
    vt_tensor *y = norm(g, c, x, w->norm2);
    vt_tensor *h = c->gated ? vt_gelu(g, vt_linear(g, y, &w->wi_0))
                            : vt_relu(g, vt_linear(g, y, &w->wi));
    if (c->gated)
        h = vt_mul(g, h, vt_linear(g, y, &w->wi_1));

    return vt_add(g, x, vt_linear(g, h, &w->wo));
}

/* ids i32 [total] of the texts -> states [1,total,D] */
static vt_tensor *forward(const t5 *m, const int32_t *ids, const text_ids *t, int texts)
{
    vt_ctx *g = m->s.g;
    const config *c = &m->c;
    vt_tensor *bias[TEXT_BATCH], *seen[TEXT_BATCH];
    int most = t->n;

    for (int i = 1; i < texts; i++)
        most = t[i].n > most ? t[i].n : most;
    vt_tensor *of_distance = buckets(g, most);
    bias_of(g, m->layer[0].table, of_distance, t, texts, bias);
    seen_of(m, t, texts, seen);

    vt_scope s = vt_scope_begin(g);               /* its end frees the tensors of each half */
    vt_tensor *x = vt_from_host(g, VC_I32, 2, (int64_t[]){ 1, text_total(t, texts) }, ids, VC_I32);
    x = vt_cast(g, vt_embedding(g, m->embed, x), VC_F32);
    for (int64_t i = 0; i < c->layers; i++) {
        const layer *w = &m->layer[i];
        if (i > 0 && c->own_tables)
            bias_of(g, w->table, of_distance, t, texts, bias);
        x = attend(g, c, w, x, t, texts, bias, seen);
        vt_scope_end(g, s, 1, &x);
        x = feed(g, c, w, x);
        vt_scope_end(g, s, 1, &x);
    }
    return vt_rms_norm(g, x, m->norm, (float)c->eps);
}

int t5_encode(t5 *m, const text_ids *t, int texts, float *states, vc_err *err)
{
    int32_t *id;
    int rc = text_ids_copy(&id, t, texts, m->c.vocab, err);

    if (rc)
        return rc;
    vt_step_begin(m->s.g, 0);
    rc = text_stack_end(&m->s, forward(m, id, t, texts), states, err);
    free(id);
    return rc;
}

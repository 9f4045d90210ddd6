/* llm.c - decoders with LLaMA's architecture as text encoders: see llm.h */
#include "precompute/text/llm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/text/llm_config.h"

typedef struct layer {
    vt_tensor *norm1, *norm2;                     /* [D] */
    vt_tensor *norm_q, *norm_k;                   /* [head], or NULL */
    vt_lin q, k, v, o, gate, up, down;
} layer;

/* The tokens with which all texts begin, those of the template. No token attends to a later one, so
 * their keys and values are the same in all texts, and are computed once. */
typedef struct opening {
    int n;                                        /* tokens; 0: there is none */
    int64_t *id;                                  /* [n]; NULL: nothing is computed yet */
    vt_tensor *query;                             /* [1,n,H,d]: zeros; nobody reads the results */
    vt_tensor **kv;                               /* [used][2]: [1,n,KV,d] */
} opening;

struct llm {
    llm_config c;
    text_stack s;
    vt_tensor *embed, *norm;                      /* [V,D]; [D] or NULL */
    layer *layer;                                 /* [used] */
    opening opening;
    float frequency[LLM_MAX_HEAD / 2];            /* [head / 2]: radians per token */
};

const llm_kind llm_llama = { .model_type = "llama" };
const llm_kind llm_qwen2_5_vl = { .model_type = "qwen2_5_vl", .part = "text_config",
                                  .qkv_bias = true };
const llm_kind llm_qwen2_5_vl_text = { .model_type = "qwen2_5_vl_text", .qkv_bias = true };
const llm_kind llm_qwen3 = { .model_type = "qwen3", .head_norms = true, .head = 128 };
const llm_kind llm_qwen3_vl = { .model_type = "qwen3_vl", .part = "text_config",
                                .part_type = "qwen3_vl_text", .head_norms = true, .head = 128 };
const llm_kind llm_mistral3 = { .model_type = "mistral3", .part = "text_config",
                                .part_type = "mistral", .windowed = true };
const llm_kind llm_ministral3 = { .model_type = "mistral3", .part = "text_config",
                                  .part_type = "mistral|ministral3", .part_default = "mistral",
                                  .windowed = true };
const llm_kind llm_llava = { .model_type = "llava", .part = "text_config", .part_type = "llama",
                             .part_defaults = true };

/* ---- weights ---- */

enum { D = -1, Q = -2, KV = -3, HIDDEN = -4, VOCAB = -5, HEAD = -6, N_SIZES = 7 };

#define TENSOR(type, field, name, ...) \
    { name, VT_W_TENSOR, offsetof(type, field), { __VA_ARGS__ }, VT_INIT_ZERO }
#define LIN(field, name, out, in) \
    { name, VT_W_LINEAR_NO_BIAS, offsetof(layer, field), { out, in }, VT_INIT_ZERO }

static const vt_weight embed_table[] = {
    TENSOR(llm, embed, "embed_tokens.weight", VOCAB, D), { 0 }
};
static const vt_weight final_table[] = { TENSOR(llm, norm, "norm.weight", D), { 0 } };

static const vt_weight layer_table[] = {
    TENSOR(layer, norm1, "input_layernorm.weight", D),
    LIN(q, "self_attn.q_proj", Q, D),
    LIN(k, "self_attn.k_proj", KV, D),
    LIN(v, "self_attn.v_proj", KV, D),
    LIN(o, "self_attn.o_proj", D, Q),
    TENSOR(layer, norm2, "post_attention_layernorm.weight", D),
    LIN(gate, "mlp.gate_proj", HIDDEN, D),
    LIN(up, "mlp.up_proj", HIDDEN, D),
    LIN(down, "mlp.down_proj", D, HIDDEN),
    { 0 }
};
static const vt_weight qkv_bias_table[] = {
    TENSOR(layer, q.b, "self_attn.q_proj.bias", Q),
    TENSOR(layer, k.b, "self_attn.k_proj.bias", KV),
    TENSOR(layer, v.b, "self_attn.v_proj.bias", KV),
    { 0 }
};
static const vt_weight head_norm_table[] = {
    TENSOR(layer, norm_q, "self_attn.q_norm.weight", HEAD),
    TENSOR(layer, norm_k, "self_attn.k_norm.weight", HEAD),
    { 0 }
};
static const vt_weight o_bias_table[] = {
    TENSOR(layer, o.b, "self_attn.o_proj.bias", D), { 0 }
};
static const vt_weight mlp_bias_table[] = {
    TENSOR(layer, gate.b, "mlp.gate_proj.bias", HIDDEN),
    TENSOR(layer, up.b, "mlp.up_proj.bias", HIDDEN),
    TENSOR(layer, down.b, "mlp.down_proj.bias", D),
    { 0 }
};

/* The prefix of the decoder's tensors: empty where the file holds the decoder alone, longer where
 * the model also has a head or a vision part. */
static const char *find_prefix(const vf_model *m)
{
    static const char *const prefixes[] = { "", "model.", "model.language_model.",
                                            "language_model.model.", "language_model." };
    vf_view v;

    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefixes[i], embed_table[0].name);
        if (vf_model_get(m, name, &v, NULL) == 0)
            return prefixes[i];
    }
    return "";
}

static int bind_layer(llm *m, layer *w, const char *prefix, int i, const int64_t *sizes,
                      const vt_source *src, vc_err *err)
{
    const llm_config *c = &m->c;
    vt_params *p = m->s.p;

    int rc = vt_params_bind(p, layer_table, prefix, i, w, sizes, src, err);
    if (!rc && c->qkv_bias)
        rc = vt_params_bind(p, qkv_bias_table, prefix, i, w, sizes, src, err);
    if (!rc && c->head_norms)
        rc = vt_params_bind(p, head_norm_table, prefix, i, w, sizes, src, err);
    if (!rc && c->o_bias)
        rc = vt_params_bind(p, o_bias_table, prefix, i, w, sizes, src, err);
    if (!rc && c->mlp_bias)
        rc = vt_params_bind(p, mlp_bias_table, prefix, i, w, sizes, src, err);
    return rc;
}

/* Whether a tensor of the decoder may stay unread: the tensor belongs to a layer, the last norm or
 * a head that is not run, or holds the frequencies, which older programs stored and config.json
 * determines. */
static bool is_unused(const void *arg, const char *name)
{
    const llm_config *c = arg;
    static const char stored[] = "rotary_emb.inv_freq";
    size_t n = strlen(name);
    char *end;
    long i;

    if (!strncmp(name, "lm_head.", 8) || !strcmp(name, final_table[0].name))
        return true;
    if (n >= sizeof stored && !strcmp(name + n - sizeof stored + 1, stored))
        return true;
    if (strncmp(name, "layers.", 7))
        return false;
    i = strtol(name + 7, &end, 10);
    return *end == '.' && i >= c->used && i < c->layers;
}

static int bind(llm *m, vc_err *err)
{
    const llm_config *c = &m->c;
    const int64_t sizes[N_SIZES] = { 0, c->width, c->heads * c->head, c->kv_heads * c->head,
                                     c->hidden, c->vocab, c->head };
    const vt_source src = vf_model_source(m->s.model);
    const char *prefix = find_prefix(m->s.model);
    char layers[64];

    snprintf(layers, sizeof layers, "%slayers.%%d.", prefix);
    int rc = vt_params_bind(m->s.p, embed_table, prefix, 0, m, sizes, &src, err);
    if (!rc && c->used == c->layers && c->final_norm)
        rc = vt_params_bind(m->s.p, final_table, prefix, 0, m, sizes, &src, err);
    for (int i = 0; !rc && i < c->used; i++)
        rc = bind_layer(m, &m->layer[i], layers, i, sizes, &src, err);
    return rc ? rc : text_stack_all_bound(&m->s, prefix, is_unused, c, err);
}

/* The texts of a call. */
typedef struct row {
    text_ids own[TEXT_BATCH];                     /* the tokens of each that are computed */
    int from[TEXT_BATCH];                         /* tokens in front of these, the opening's */
    int texts;
    const llm_given *given;                       /* [n_given] of a single text */
    int n_given;
    const int32_t *place;                         /* [3][n] of a single text's tokens; or NULL */
    vt_tensor *seen[TEXT_BATCH];                  /* i32 [1]: the keys of each, where it has padding
                                                   * that no token sees; or NULL */
    bool blind;                                   /* no token sees any */
    float *kept;                                  /* [used,2,n,KV * d]: gets the keys and values of
                                                   * a single text; NULL: nobody wants them */
} row;

/* ---- rotations ---- */

/* The axis on which pair j of a head is rotated. */
static int axis_of(const llm_rope *r, int64_t j)
{
    int axis = 0;

    for (int64_t end = r->section[0]; axis < 2 && j >= end; end += r->section[axis])
        axis++;
    return axis;
}

/* Where token i of text k stands on the axis of pair j. */
static float place_of(const llm *m, const row *r, int k, int i, int64_t j)
{
    return (float)(r->place ? r->place[axis_of(&m->c.rope, j) * r->own[k].n + i]
                            : r->own[k].at + r->from[k] + i);
}

/* Cosines and sines [total, head / 2] of the row's tokens by their places in their texts. */
static void rotations(const llm *m, const row *r, vt_tensor *table[2])
{
    const int64_t total = text_total(r->own, r->texts), pairs = m->c.head / 2;
    const int64_t dim[2] = { total, pairs };
    size_t count = (size_t)(total * pairs), at = 0;
    float *host = malloc(2 * count * sizeof *host);

    if (!host) {
        vt_fail(m->s.g, VC_ENOMEM, "out of memory for %lld tokens", (long long)total);
        return;
    }
    for (int k = 0; k < r->texts; k++)
        for (int i = 0; i < r->own[k].n; i++)
            for (int64_t j = 0; j < pairs; j++, at++) {
                float angle = place_of(m, r, k, i, j) * m->frequency[j];
                host[at] = cosf(angle);
                host[count + at] = sinf(angle);
            }
    for (int i = 0; i < 2; i++)
        table[i] = vt_from_host(m->s.g, VC_F32, 2, dim, host + (size_t)i * count, VC_F32);
    free(host);
}

/* ---- open and close ---- */

static int set_up(llm *m, const llm_kind *kind, const encoder_opts *o, vc_err *err)
{
    cJSON *json;
    int rc = text_config_open(&json, o, kind->model_type, err);

    if (!rc)
        rc = text_config_bad(o, llm_config_read(&m->c, kind, &o->text, json, err), err);
    cJSON_Delete(json);
    if (rc)
        return rc;
    llm_config_frequencies(&m->c, m->frequency);
    m->opening.n = o->text.crop;
    m->layer = calloc((size_t)m->c.used + 1, sizeof *m->layer);
    if (!m->layer)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", o->dir);
    rc = text_stack_open(&m->s, o, !o->text.interleave, err);
    return rc ? rc : vc_context(err, bind(m, err), "%s", o->dir);
}

int llm_open(llm **out, const llm_kind *kind, const encoder_opts *o, vf_key *fingerprint,
             vc_err *err)
{
    *out = NULL;
    llm *m = calloc(1, sizeof *m);
    if (!m)
        return vc_fail(err, VC_ENOMEM, "%s text encoder: out of memory", kind->model_type);

    int rc = set_up(m, kind, o, err);
    if (rc) {
        llm_close(m);
        return rc;
    }
    *fingerprint = llm_config_fingerprint(&m->c, kind, o->weights);
    *out = m;
    return 0;
}

static void forget_opening(llm *m)
{
    opening *p = &m->opening;

    for (int64_t i = 0; p->kv && i < 2 * m->c.used; i++)
        vt_param_free(m->s.g, p->kv[i]);
    vt_param_free(m->s.g, p->query);
    free(p->kv);
    free(p->id);
    *p = (opening){ .n = p->n };
}

void llm_close(llm *m)
{
    if (!m)
        return;
    forget_opening(m);
    text_stack_close(&m->s);
    free(m->layer);
    free(m);
}

int llm_width(const llm *m) { return (int)m->c.width * (m->c.taps ? m->c.taps : 1); }
int64_t llm_vocab(const llm *m) { return m->c.vocab; }
int llm_batch(const llm *m) { return text_batch(&m->s); }
vt_usage llm_usage(const llm *m) { return vt_usage_of(m->s.g); }

/* ---- forward ---- */

/* The input of each half of a layer: the norm of the residual stream x (f32), in the type of
 * activations. */
static vt_tensor *norm(vt_ctx *g, const llm_config *c, vt_tensor *x, vt_tensor *w)
{
    return vt_cast(g, vt_rms_norm(g, x, w, (float)c->eps), vt_compute(g));
}

/* Copies keys and values [1,n,KV,d] of layer i to r->kept. */
static void keep(vt_ctx *g, const row *r, int64_t i, vt_tensor *k, vt_tensor *v)
{
    vt_tensor *kv[2] = { k, v };
    vc_err err;

    for (int j = 0; j < 2 && k && v; j++) {
        float *to = r->kept + (size_t)(2 * i + j) * (size_t)vt_count(kv[j]);
        if (vt_to_host(g, kv[j], to, &err))
            vt_fail(g, err.code, "%s", err.text);
    }
}

/* x [1,total,D] + attention of the norm of x; rotation holds cosines and sines [total, head / 2] */
static vt_tensor *attend(const llm *m, const row *r, int64_t i, vt_tensor *x,
                         vt_tensor *const rotation[2])
{
    vt_ctx *g = m->s.g;
    const llm_config *c = &m->c;
    const layer *w = &m->layer[i];
    text_front front = { .n = r->from };

    if (r->blind)
        return x;
    vt_tensor *y = norm(g, c, x, w->norm1);
    vt_tensor *q = text_heads(g, vt_linear(g, y, &w->q), c->heads);
    vt_tensor *k = text_heads(g, vt_linear(g, y, &w->k), c->kv_heads);
    vt_tensor *v = text_heads(g, vt_linear(g, y, &w->v), c->kv_heads);
    if (c->head_norms) {
        q = vt_rms_norm(g, q, w->norm_q, (float)c->eps);
        k = vt_rms_norm(g, k, w->norm_k, (float)c->eps);
    }
    q = vt_rope_halves(g, q, rotation[0], rotation[1], 0);
    k = vt_rope_halves(g, k, rotation[0], rotation[1], 0);
    if (r->kept)
        keep(g, r, i, k, v);
    if (m->opening.id)
        front = (text_front){ m->opening.query, m->opening.kv[2 * i], m->opening.kv[2 * i + 1],
                              r->from };
    vt_tensor *o = text_attention(g, q, k, v, r->own, r->texts, NULL, r->seen, &front,
                                  &(vt_attn){ .causal = 1 });
    return vt_add(g, x, vt_linear(g, o, &w->o));
}

/* x [1,total,D] + down(silu(gate y) * up y), where y is the norm of x */
static vt_tensor *feed(vt_ctx *g, const llm_config *c, const layer *w, vt_tensor *x)
{
    vt_tensor *y = norm(g, c, x, w->norm2);
    vt_tensor *gate = vt_silu(g, vt_linear(g, y, &w->gate));
    vt_tensor *h = vt_mul(g, gate, vt_linear(g, y, &w->up));

    return vt_add(g, x, vt_linear(g, h, &w->down));
}

/* Returns x [1,n,D] with the given rows in place of embeddings. */
static vt_tensor *splice(vt_ctx *g, vt_tensor *x, const llm_given *given, int n)
{
    vt_tensor *part[2 * LLM_GIVEN + 1];
    int parts = 0, at = 0;

    for (int i = 0; x && i < n; i++) {
        const int64_t dim[3] = { 1, given[i].count, x->dim[2] };
        if (given[i].at > at)
            part[parts++] = vt_slice(g, x, 1, at, given[i].at);
        part[parts++] = vt_from_host(g, VC_F32, 3, dim, given[i].rows, VC_F32);
        at = given[i].at + given[i].count;
    }
    if (parts && at < x->dim[1])
        part[parts++] = vt_slice(g, x, 1, at, x->dim[1]);
    return parts > 1 ? vt_concat(g, 1, parts, part) : parts ? part[0] : x;
}

/* Makes r->seen of the texts that have padding. */
static void hide_padding(vt_ctx *g, row *r)
{
    for (int i = 0; i < r->texts; i++) {
        const text_ids *own = &r->own[i];
        const int32_t keys = r->from[i] + own->seen;
        r->seen[i] = own->seen && own->seen < own->n
                         ? vt_from_host(g, VC_I32, 1, (int64_t[]){ 1 }, &keys, VC_I32) : NULL;
    }
}

/* The states x after the last layer that was run, as a token has them. */
static vt_tensor *finished(const llm *m, vt_tensor *x, int64_t layers)
{
    return layers == m->c.layers && m->norm ? vt_rms_norm(m->s.g, x, m->norm, (float)m->c.eps) : x;
}

/* Joins the states of the taps, [1,total,D] each. */
static vt_tensor *join_taps(vt_ctx *g, const llm_config *c, vt_tensor **tap)
{
    if (!c->inner)
        return vt_concat(g, 2, c->taps, tap);
    for (int k = 0; k < c->taps; k++)
        tap[k] = vt_reshape(g, tap[k], 4, (int64_t[]){ 1, -1, c->width, 1 });
    vt_tensor *all = vt_concat(g, 3, c->taps, tap);
    return vt_reshape(g, all, 3, (int64_t[]){ 1, -1, c->width * c->taps });
}

/* Runs the layers on x, and joins the states of the taps: [1,total,taps * D] */
static vt_tensor *run_layers(const llm *m, const row *r, vt_tensor *x, vt_tensor *const *rotation,
                             vt_scope s)
{
    vt_ctx *g = m->s.g;
    const llm_config *c = &m->c;
    vt_tensor *keep[1 + VC_TAPS] = { NULL }, **tap = keep + 1;

    for (int64_t i = 0; i < c->used; i++) {
        x = attend(m, r, i, x, rotation);
        keep[0] = x;
        vt_scope_end(g, s, 1 + c->taps, keep);    /* its end frees the tensors of each half */
        x = feed(g, c, &m->layer[i], x);
        for (int k = 0; k < c->taps; k++)
            if (c->tap[k] == i + 1)
                tap[k] = finished(m, x, i + 1);
        keep[0] = x;
        vt_scope_end(g, s, 1 + c->taps, keep);
    }
    return !c->taps ? finished(m, x, c->used) : c->taps == 1 ? tap[0]
                    : join_taps(g, c, tap);
}

/* ids i32 [total] of the row -> states [1,total,D] */
static vt_tensor *forward(const llm *m, const int32_t *ids, row *r)
{
    vt_ctx *g = m->s.g;
    vt_tensor *rotation[2] = { NULL, NULL };

    rotations(m, r, rotation);
    hide_padding(g, r);
    vt_scope s = vt_scope_begin(g);
    vt_tensor *x = vt_from_host(g, VC_I32, 2, (int64_t[]){ 1, text_total(r->own, r->texts) }, ids,
                                VC_I32);
    x = splice(g, vt_cast(g, vt_embedding(g, m->embed, x), VC_F32), r->given, r->n_given);
    return run_layers(m, r, x, rotation, s);
}

static int run(llm *m, row *r, float *states, vc_err *err)
{
    int32_t *id;
    int rc = text_ids_copy(&id, r->own, r->texts, m->c.vocab, err);

    if (rc)
        return rc;
    vt_step_begin(m->s.g, 0);
    rc = text_stack_end(&m->s, forward(m, id, r), states, err);
    free(id);
    return rc;
}

/* ---- the opening ---- */

/* Makes the tensors of the opening from the keys and values of all layers. */
static int hold(llm *m, const float *kept, vc_err *err)
{
    const llm_config *c = &m->c;
    opening *p = &m->opening;
    const int64_t kv[4] = { 1, p->n, c->kv_heads, c->head }, q[4] = { 1, p->n, c->heads, c->head };
    const size_t each = (size_t)(p->n * c->kv_heads * c->head);
    const vc_dtype type = vt_compute(m->s.g);

    p->kv = calloc((size_t)(2 * c->used) + 1, sizeof *p->kv);
    p->query = p->kv ? vt_param_new(m->s.g, type, 4, q, NULL, type, false, err) : NULL;
    for (int64_t i = 0; p->query && i < 2 * c->used; i++) {
        p->kv[i] = vt_param_new(m->s.g, type, 4, kv, kept + (size_t)i * each, VC_F32, false, err);
        if (!p->kv[i])
            return err->code;
    }
    return p->query ? 0 : p->kv ? err->code : vc_no_memory(err);
}

/* Computes the opening of a text. */
static int make_opening(llm *m, const int64_t *id, vc_err *err)
{
    const llm_config *c = &m->c;
    opening *p = &m->opening;
    const size_t n = (size_t)p->n, width = (size_t)(c->kv_heads * c->head);
    float *kept = malloc((size_t)c->used * 2 * n * width * sizeof *kept + 1);
    float *states = malloc(n * (size_t)llm_width(m) * sizeof *states);
    int64_t *copy = malloc(n * sizeof *copy);
    row r = { .own = { { id, p->n, 0, 0 } }, .texts = 1, .kept = kept };

    int rc = kept && states && copy ? run(m, &r, states, err) : vc_no_memory(err);
    if (!rc)
        rc = hold(m, kept, err);
    free(kept);
    free(states);
    if (rc) {
        free(copy);
        forget_opening(m);
        return rc;
    }
    p->id = memcpy(copy, id, n * sizeof *copy);
    return 0;
}

/* Leaves the opening out of the row's texts. Of each text at least TEXT_FEW tokens are computed. */
static int cut_opening(llm *m, row *r, vc_err *err)
{
    const opening *p = &m->opening;
    int rc = 0;

    for (int i = 0; !rc && i < r->texts; i++) {
        text_ids *own = &r->own[i];
        rc = text_ids_known(own, m->c.vocab, err);
        if (rc || own->n <= p->n || own->n <= TEXT_FEW)
            continue;
        if (!p->id)
            rc = make_opening(m, own->id, err);
        if (rc || memcmp(own->id, p->id, (size_t)p->n * sizeof *own->id))
            continue;
        r->from[i] = own->n - p->n < TEXT_FEW ? own->n - TEXT_FEW : p->n;
        *own = (text_ids){ own->id + r->from[i], own->n - r->from[i],
                           own->seen ? own->seen - r->from[i] : 0, own->at };
    }
    return rc;
}

/* ---- texts ---- */

/* Moves the states of the row's tokens to those of whole texts. */
static void spread(const row *r, float *states, size_t width)
{
    size_t from = (size_t)text_total(r->own, r->texts), to = from;

    for (int i = 0; i < r->texts; i++)
        to += (size_t)r->from[i];
    for (int i = r->texts - 1; i >= 0; i--) {
        const size_t n = (size_t)r->own[i].n;
        from -= n;
        to -= n;
        memmove(states + to * width, states + from * width, n * width * sizeof *states);
        to -= (size_t)r->from[i];
    }
}

int llm_encode(llm *m, const text_ids *t, int texts, float *states, vc_err *err)
{
    row r = { .texts = texts };

    memcpy(r.own, t, (size_t)texts * sizeof *t);
    int rc = m->opening.n ? cut_opening(m, &r, err) : 0;
    if (!rc)
        rc = run(m, &r, states, err);
    if (!rc)
        spread(&r, states, (size_t)llm_width(m));
    return rc;
}

int llm_padding(llm *m, int64_t id, float *state, vc_err *err)
{
    row r = { .own = { { &id, 1, 0, 0 } }, .texts = 1, .blind = true };

    return run(m, &r, state, err);
}

int llm_encode_with(llm *m, const text_ids *t, const llm_given *given, int n, const int32_t *place,
                    float *states, vc_err *err)
{
    row r = { .own = { *t }, .texts = 1, .given = given, .n_given = n, .place = place };

    if (n > LLM_GIVEN)
        return vc_fail(err, VC_EINVAL, "%d pictures in a text; %d are possible", n, LLM_GIVEN);
    return run(m, &r, states, err);
}

int llm_hash_axes(const llm *m, vf_hasher *h, vc_err *err)
{
    const int *n = m->c.rope.section;

    if ((int64_t)n[0] + n[1] + n[2] != m->c.head / 2)
        return vc_fail(err, VC_EFORMAT, "mrope_section: %d, %d, %d are not the %lld angles of a "
                       "head", n[0], n[1], n[2], (long long)m->c.head / 2);
    for (int i = 0; i < 3; i++)
        vf_hasher_int(h, "mrope_section", n[i]);
    return 0;
}

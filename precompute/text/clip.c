/* clip.c - CLIP's text model: see clip.h */
#include "precompute/text/clip.h"

#include <stdlib.h>
#include <string.h>

#include "precompute/text/clip_layers.h"

enum { LEGACY_EOS = 2 };                          /* eos_token_id of older files: see clip.h */

typedef struct config {
    clip_config layers;
    int64_t vocab, positions, eos, projection;
} config;

struct clip {
    config c;
    text_stack s;
    bool projected;
    int skip;                                     /* layers behind the states of tokens */
    vt_tensor *tokens, *positions;                /* [V,D], [positions,D] */
    clip_norm norm;
    vt_lin projection;                            /* [P,D]; w NULL: not projected */
    clip_layer *layer;
};

/* ---- weights ---- */

enum { VOCAB = -CLIP_SIZES, POSITIONS = VOCAB - 1, PROJECTION = POSITIONS - 1,
       N_SIZES = CLIP_SIZES + 3 };

static const vt_weight table[] = {
    { "embeddings.token_embedding.weight", VT_W_TENSOR, offsetof(clip, tokens), { VOCAB, CLIP_D },
      VT_INIT_ZERO },
    { "embeddings.position_embedding.weight", VT_W_TENSOR, offsetof(clip, positions),
      { POSITIONS, CLIP_D }, VT_INIT_ZERO },
    CLIP_NORM(clip, norm, "final_layer_norm"),
    { 0 }
};

static const vt_weight projection_table[] = {
    { "text_projection", VT_W_LINEAR_NO_BIAS, offsetof(clip, projection), { PROJECTION, CLIP_D },
      VT_INIT_ZERO },
    { 0 }
};

/* Files of older programs, and of models with a projection, also hold these tensors. */
static const char *const spare[] = { "embeddings.position_ids",
                                     "text_model.embeddings.position_ids",
                                     "text_projection.weight", NULL };

static int bind(clip *m, vc_err *err)
{
    const config *c = &m->c;
    const int64_t sizes[N_SIZES] = { 0, c->layers.width, c->layers.hidden, c->vocab, c->positions,
                                     c->projection };
    const vt_source src = vf_model_source(m->s.model);
    vf_view v;
    bool bare = vf_model_get(m->s.model, table[0].name, &v, NULL) == 0;
    const char *prefix = bare ? "" : "text_model.";

    int rc = vt_params_bind(m->s.p, table, prefix, 0, m, sizes, &src, err);
    if (!rc && m->projected)
        rc = vt_params_bind(m->s.p, projection_table, "", 0, m, sizes, &src, err);
    if (!rc)
        rc = clip_layers_bind(&m->layer, &m->s, &c->layers, c->layers.layers, prefix, err);
    return rc ? rc : vf_model_all_bound(m->s.model, m->s.p, spare, err);
}

/* ---- open and close ---- */

static const vf_config_row rows[] = {
    VF_ONLY("model_type", "clip_text_model", NULL),
    VF_INT_NEEDED(config, vocab, "vocab_size", 1, 1 << 24),
    VF_INT_NEEDED(config, positions, "max_position_embeddings", 1, 1 << 15),
    VF_INT(config, eos, "eos_token_id", 49407, 0, 1 << 24),
    VF_INT(config, projection, "projection_dim", 512, 1, 1 << 16),
    { 0 }
};

static int set_up(clip *m, const encoder_opts *o, vc_err *err)
{
    cJSON *json;
    int rc = text_config_open(&json, o, "clip_text_model", err);

    if (!rc) {
        rc = vf_config_read(&m->c, rows, json, err);
        if (!rc)
            rc = clip_config_read(&m->c.layers, false, json, err);
        rc = text_config_bad(o, rc, err);
    }
    cJSON_Delete(json);
    m->skip = o->text.skip;
    if (!rc && m->skip >= m->c.layers.layers)
        rc = vc_fail(err, VC_EFORMAT, "%s: num_hidden_layers: %lld; the states are those in front "
                     "of the last %d layers, so more are needed", o->dir,
                     (long long)m->c.layers.layers, m->skip);
    if (!rc)
        rc = text_stack_open(&m->s, o, true, err);
    return rc ? rc : vc_context(err, bind(m, err), "%s", o->dir);
}

/* Plain models have the keys that they had before there were others. */
static vf_key fingerprint_of(const clip *m, vf_key weights)
{
    const config *c = &m->c;
    vf_hasher h;

    vf_hasher_begin(&h, "CLIP text 1");
    vf_hasher_bytes(&h, "weights", weights.b, sizeof weights.b);
    clip_config_hash(&h, &c->layers);
    vf_hasher_int(&h, "eos_token_id", c->eos);
    if (m->projected)
        vf_hasher_int(&h, "projection_dim", c->projection);
    if (m->skip)
        vf_hasher_int(&h, "skip", m->skip);
    return vf_hasher_end(&h);
}

int clip_open(clip **out, const encoder_opts *o, bool projected, vf_key *fingerprint, vc_err *err)
{
    *out = NULL;
    clip *m = calloc(1, sizeof *m);
    if (!m)
        return vc_fail(err, VC_ENOMEM, "clip_text_model text encoder: out of memory");

    m->projected = projected;
    int rc = set_up(m, o, err);
    if (rc) {
        clip_close(m);
        return rc;
    }
    *fingerprint = fingerprint_of(m, o->weights);
    *out = m;
    return 0;
}

void clip_close(clip *m)
{
    if (!m)
        return;
    text_stack_close(&m->s);
    free(m->layer);
    free(m);
}

int clip_width(const clip *m) { return (int)m->c.layers.width; }
int clip_pooled(const clip *m)
{
    return (int)(m->projected ? m->c.projection : m->c.layers.width);
}
int clip_positions(const clip *m) { return (int)m->c.positions; }
int clip_batch(const clip *m) { return text_batch(&m->s); }
vt_usage clip_usage(const clip *m) { return vt_usage_of(m->s.g); }

/* ---- forward ---- */

int clip_end(const clip *m, const text_ids *t, int *end, vc_err *err)
{
    const int64_t eos = m->c.eos, *id = t->id;
    int at = 0;
    int rc = text_ids_known(t, m->c.vocab, err);

    if (rc)
        return rc;
    if (t->n > m->c.positions)
        return vc_fail(err, VC_EINVAL, "a text of %d tokens; the text encoder has positions for "
                       "%lld", t->n, (long long)m->c.positions);
    for (int i = 1; i < t->n && eos == LEGACY_EOS; i++)
        if (id[i] > id[at])
            at = i;
    while (eos != LEGACY_EOS && at < t->n && id[at] != eos)
        at++;
    if (at == t->n)
        return vc_fail(err, VC_EINVAL, "no token of the text has id %lld, the end of a text by "
                       "eos_token_id of the encoder's config.json: give the tokenizer that this "
                       "model was trained with, which ends texts with this token", (long long)eos);
    *end = at;
    return 0;
}

/* i32 [1,total]: the position of each token in its text */
static vt_tensor *places(vt_ctx *g, const text_ids *t, int texts)
{
    const int total = text_total(t, texts);
    int32_t *place = malloc((size_t)total * sizeof *place);
    int n = 0;

    if (!place)
        return vt_fail(g, VC_ENOMEM, "out of memory for %d tokens", total);
    for (int k = 0; k < texts; k++)
        for (int i = 0; i < t[k].n; i++)
            place[n++] = i;
    vt_tensor *x = vt_from_host(g, VC_I32, 2, (int64_t[]){ 1, total }, place, VC_I32);
    free(place);
    return x;
}

/* ids i32 [total] of the texts -> the input of the first layer, f32 [1,total,D] */
static vt_tensor *embedded(const clip *m, const int32_t *ids, const text_ids *t, int texts)
{
    vt_ctx *g = m->s.g;
    const int64_t dim[2] = { 1, text_total(t, texts) };
    vt_tensor *id = vt_from_host(g, VC_I32, 2, dim, ids, VC_I32);
    vt_tensor *x = vt_cast(g, vt_embedding(g, m->tokens, id), VC_F32);

    return vt_add(g, x, vt_embedding(g, m->positions, places(g, t, texts)));
}

/* x [1,total,D] -> [1,texts,D], the states of the texts' ends */
static vt_tensor *ends_of(vt_ctx *g, vt_tensor *x, const text_ids *t, int texts, const int *end)
{
    vt_tensor *row[TEXT_BATCH];

    for (int i = 0, at = 0; i < texts; at += t[i++].n)
        row[i] = vt_slice(g, x, 1, at + end[i], at + end[i] + 1);
    return vt_concat(g, 1, texts, row);
}

/* The pooled states [1,texts,P] of the last layer's states x [1,total,D]. */
static vt_tensor *pooled_of(const clip *m, vt_tensor *x, const text_ids *t, int texts,
                            const int *end)
{
    vt_ctx *g = m->s.g;
    x = clip_norm_run(g, &m->c.layers, &m->norm, ends_of(g, x, t, texts, end));
    return m->projected ? vt_linear_f32(g, x, &m->projection) : x;
}

/* States without skipped layers are those after the last norm, of which the ends' are the pooled
 * ones of a model without a projection. */
static int run(clip *m, const int32_t *ids, const text_ids *t, int texts, const int *end,
               float *states, float *pooled, vc_err *err)
{
    const clip_config *c = &m->c.layers;
    const int64_t first = c->layers - m->skip;
    const size_t n = (size_t)text_total(t, texts) * (size_t)c->width;
    vt_ctx *g = m->s.g;

    vt_step_begin(g, 0);
    vt_tensor *x = embedded(m, ids, t, texts);
    vt_tensor *kept = clip_layers_run(g, c, m->layer, first, true, x, t, texts);
    x = clip_layers_run(g, c, m->layer + first, m->skip, true, kept, t, texts);
    if (states && !m->skip)
        kept = clip_norm_run(g, c, &m->norm, kept);
    int rc = states ? vt_to_host(g, kept, states, err) : 0;
    int end_rc = text_stack_end(&m->s, pooled_of(m, x, t, texts, end), pooled, err);
    if (end_rc || rc || !states)
        return end_rc ? end_rc : rc;
    return text_finite(&m->s, states, n, err);
}

/* The tokens of a text up to its end, and at least TEXT_FEW if there are so many. */
static text_ids up_to(const text_ids *t, int end)
{
    const int n = end < TEXT_FEW ? TEXT_FEW : end + 1;

    return (text_ids){ .id = t->id, .n = n < t->n ? n : t->n };
}

int clip_encode(clip *m, const text_ids *t, int texts, float *states, float *pooled, vc_err *err)
{
    text_ids used[TEXT_BATCH];
    int end[TEXT_BATCH];
    int32_t *id;

    for (int i = 0; i < texts; i++) {
        int rc = clip_end(m, &t[i], &end[i], err);
        if (rc)
            return rc;
        used[i] = states ? t[i] : up_to(&t[i], end[i]);
    }
    int rc = text_ids_copy(&id, used, texts, m->c.vocab, err);
    if (rc)
        return rc;
    rc = run(m, id, used, texts, end, states, pooled, err);
    free(id);
    return rc;
}

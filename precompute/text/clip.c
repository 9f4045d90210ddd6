/* clip.c - CLIP's text model: see clip.h */
#include "precompute/text/clip.h"

#include <stdlib.h>
#include <string.h>

#include "precompute/text/clip_layers.h"

enum { LEGACY_EOS = 2 };                          /* eos_token_id of older files: see clip.h */

typedef struct config {
    clip_config layers;
    int64_t vocab, positions, eos;
} config;

struct clip {
    config c;
    text_stack s;
    vt_tensor *tokens, *positions;                /* [V,D], [positions,D] */
    clip_norm norm;
    clip_layer *layer;
};

/* ---- weights ---- */

enum { VOCAB = -CLIP_SIZES, POSITIONS = VOCAB - 1, N_SIZES = CLIP_SIZES + 2 };

static const vt_weight table[] = {
    { "embeddings.token_embedding.weight", VT_W_TENSOR, offsetof(clip, tokens), { VOCAB, CLIP_D },
      VT_INIT_ZERO },
    { "embeddings.position_embedding.weight", VT_W_TENSOR, offsetof(clip, positions),
      { POSITIONS, CLIP_D }, VT_INIT_ZERO },
    CLIP_NORM(clip, norm, "final_layer_norm"),
    { 0 }
};

/* Files of older programs, and of models with a projection, also hold these tensors. */
static const char *const spare[] = { "embeddings.position_ids",
                                     "text_model.embeddings.position_ids",
                                     "text_projection.weight", NULL };

static int bind(clip *m, vc_err *err)
{
    const config *c = &m->c;
    const int64_t sizes[N_SIZES] = { 0, c->layers.width, c->layers.hidden, c->vocab, c->positions };
    const vt_source src = vf_model_source(m->s.model);
    vf_view v;
    bool bare = vf_model_get(m->s.model, table[0].name, &v, NULL) == 0;
    const char *prefix = bare ? "" : "text_model.";

    int rc = vt_params_bind(m->s.p, table, prefix, 0, m, sizes, &src, err);
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
    { 0 }
};

static int set_up(clip *m, const encoder_opts *o, vc_err *err)
{
    cJSON *json;
    int rc = text_config_open(&json, o, "clip_text_model", err);

    if (!rc) {
        rc = vf_config_read(&m->c, rows, json, err);
        if (!rc)
            rc = clip_config_read(&m->c.layers, json, err);
        rc = text_config_bad(o, rc, err);
    }
    cJSON_Delete(json);
    if (!rc)
        rc = text_stack_open(&m->s, o, err);
    return rc ? rc : vc_context(err, bind(m, err), "%s", o->dir);
}

static vf_key fingerprint_of(const config *c, vf_key weights)
{
    vf_hasher h;

    vf_hasher_begin(&h, "CLIP text 1");
    vf_hasher_bytes(&h, "weights", weights.b, sizeof weights.b);
    clip_config_hash(&h, &c->layers);
    vf_hasher_int(&h, "eos_token_id", c->eos);
    return vf_hasher_end(&h);
}

int clip_open(clip **out, const encoder_opts *o, vf_key *fingerprint, vc_err *err)
{
    *out = NULL;
    clip *m = calloc(1, sizeof *m);
    if (!m)
        return vc_fail(err, VC_ENOMEM, "clip_text_model text encoder: out of memory");

    int rc = set_up(m, o, err);
    if (rc) {
        clip_close(m);
        return rc;
    }
    *fingerprint = fingerprint_of(&m->c, o->weights);
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
int clip_positions(const clip *m) { return (int)m->c.positions; }
vt_usage clip_usage(const clip *m) { return vt_usage_of(m->s.g); }

/* ---- forward ---- */

int clip_end(const clip *m, const int64_t *ids, int n, int *end, vc_err *err)
{
    const int64_t eos = m->c.eos;
    int at = 0;
    int rc = text_ids_known(ids, n, m->c.vocab, err);

    if (rc)
        return rc;
    if (n > m->c.positions)
        return vc_fail(err, VC_EINVAL, "a text of %d tokens; the text encoder has positions for "
                       "%lld", n, (long long)m->c.positions);
    for (int i = 1; i < n && eos == LEGACY_EOS; i++)
        if (ids[i] > ids[at])
            at = i;
    while (eos != LEGACY_EOS && at < n && ids[at] != eos)
        at++;
    if (at == n)
        return vc_fail(err, VC_EINVAL, "no token of the text has id %lld, the end of a text by "
                       "eos_token_id of the encoder's config.json: give the tokenizer that this "
                       "model was trained with, which ends texts with this token", (long long)eos);
    *end = at;
    return 0;
}

/* ids i32 [n] -> states of the last layer, f32 [1,n,D] */
static vt_tensor *forward(const clip *m, const int32_t *ids, const int32_t *places, int n)
{
    vt_ctx *g = m->s.g;
    const int64_t dim[2] = { 1, n };
    vt_tensor *id = vt_from_host(g, VC_I32, 2, dim, ids, VC_I32);
    vt_tensor *place = vt_from_host(g, VC_I32, 2, dim, places, VC_I32);
    vt_tensor *x = vt_cast(g, vt_embedding(g, m->tokens, id), VC_F32);

    x = vt_add(g, x, vt_embedding(g, m->positions, place));
    return clip_layers_run(g, &m->c.layers, m->layer, m->c.layers.layers, true, x);
}

static int run(clip *m, const int32_t *ids, const int32_t *places, int n, int end, float *states,
               float *pooled, vc_err *err)
{
    size_t width = (size_t)m->c.layers.width;
    vt_ctx *g = m->s.g;

    vt_step_begin(g, 0);
    vt_tensor *x = forward(m, ids, places, n);
    if (!states)
        x = vt_pack(g, vt_slice(g, x, 1, end, end + 1));
    x = clip_norm_run(g, &m->c.layers, &m->norm, x);
    int rc = text_stack_end(&m->s, x, states ? states : pooled, err);
    if (!rc && states)
        memcpy(pooled, states + (size_t)end * width, width * sizeof *pooled);
    return rc;
}

int clip_encode(clip *m, const int64_t *ids, int n, float *states, float *pooled, vc_err *err)
{
    int32_t *id, *places;
    int end;
    int rc = clip_end(m, ids, n, &end, err);

    if (rc)
        return rc;
    if (!states)
        n = end + 1;
    rc = text_ids(&id, ids, n, m->c.vocab, err);
    if (rc)
        return rc;
    places = malloc((size_t)n * sizeof *places);
    for (int i = 0; places && i < n; i++)
        places[i] = i;
    rc = places ? run(m, id, places, n, end, states, pooled, err)
                : vc_fail(err, VC_ENOMEM, "out of memory for %d tokens", n);
    free(places);
    free(id);
    return rc;
}

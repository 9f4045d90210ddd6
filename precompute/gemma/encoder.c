/* encoder.c - prompts through Gemma 3 to the features that LTX-2's connectors read: see
 * prompt.h. No token attends to a later one, and places are relative, so padding, in front or
 * behind, changes no state and is not encoded. */
#include <stdlib.h>

#include "precompute/gemma/gemma.h"
#include "precompute/gemma/features.h"
#include "precompute/text/prompt.h"

typedef struct encoder {
    gemma *model;
    ltx2_features *features;
    float *states;                                /* [states,max_length,width] */
} encoder;

static void close_encoder(void *model)
{
    encoder *e = model;

    if (!e)
        return;
    free(e->states);
    ltx2_features_close(e->features);             /* its weights are in the model's context */
    gemma_close(e->model);
    free(e);
}

/* The fingerprint is that of the states and of the layer that makes features of them. */
static int fingerprint(const encoder *e, vf_key *key, vc_err *err)
{
    vf_hasher h;

    vf_hasher_begin(&h, "gemma features");
    vf_hasher_bytes(&h, "states", key->b, sizeof key->b);
    int rc = ltx2_features_hash(e->features, &h, err);
    *key = vf_hasher_end(&h);
    return rc;
}

static int set_up(encoder *e, const encoder_opts *o, text_info *info, vc_err *err)
{
    int rc = o->beside ? gemma_open(&e->model, o, &info->fingerprint, err)
                       : vc_fail(err, VC_EINVAL, "%s: no folder of connectors is given", o->dir);
    if (!rc)
        rc = ltx2_features_open(&e->features, gemma_context(e->model), o->beside,
                                gemma_states(e->model), gemma_width(e->model),
                                o->sound, err);
    if (!rc)
        rc = fingerprint(e, &info->fingerprint, err);
    if (rc)
        return rc;
    info->width = ltx2_features_width(e->features);
    e->states = malloc((size_t)gemma_states(e->model) * (size_t)o->text.max_length *
                       (size_t)gemma_width(e->model) * sizeof *e->states);
    return e->states ? 0 : vc_no_memory(err);
}

static int open_encoder(void **model, const void *kind, const encoder_opts *o, text_info *info,
                        vc_err *err)
{
    (void)kind;
    encoder *e = calloc(1, sizeof *e);
    int rc = e ? set_up(e, o, info, err) : vc_no_memory(err);

    if (rc) {
        close_encoder(e);
        return rc;
    }
    *model = e;
    return 0;
}

static int check(void *model, const text_tokens *t, vc_err *err)
{
    return text_ids_known(t->ids, gemma_vocab(((encoder *)model)->model), err);
}

static int encode(void *model, const text_tokens *t, float *states, float *pooled, vc_err *err)
{
    encoder *e = model;
    int rc = gemma_encode(e->model, &t->ids[0], e->states, err);

    (void)pooled;
    return rc ? rc : ltx2_features_make(e->features, e->states, t->ids[0].n, states, err);
}

static const text_model gemma3 = {
    .class = "Gemma3ForConditionalGeneration", .masked = true, .open = open_encoder,
    .close = close_encoder, .check = check, .encode = encode
};

const text_class text_gemma3 = { "Gemma3ForConditionalGeneration", &gemma3, NULL };

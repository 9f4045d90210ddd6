/* encoder_clip.c - prompts through CLIP's text model, without its projection (HunyuanVideo, FLUX)
 * and with it (Stable Diffusion 3): see prompt.h.
 *
 * The pipelines of these models pass no mask to CLIP: padding is encoded like any other token. The
 * pooled state does not depend on tokens after the end of the text. */
#include "precompute/text/clip.h"
#include "precompute/text/prompt.h"

static int open_model(void **model, const void *kind, const encoder_opts *o, text_info *info,
                      vc_err *err)
{
    clip *m;
    int rc = clip_open(&m, o, kind != NULL, &info->fingerprint, err);

    if (rc)
        return rc;
    *model = m;
    if (o->text.max_length + o->text.crop > clip_positions(m))
        return vc_fail(err, VC_EINVAL, "%s: prompts of %d tokens; max_position_embeddings of its "
                       "config.json is %d", o->dir, o->text.max_length + o->text.crop,
                       clip_positions(m));
    info->batch = clip_batch(m);
    info->pooled = clip_pooled(m);
    info->width = o->text.pooled_only ? 0 : clip_width(m);
    return 0;
}

static void close_model(void *model)
{
    clip_close(model);
}

/* Where the largest id marks the end, every text has an end, even if the tokenizer adds no special
 * tokens. Such a tokenizer is recognised by its empty prompt, in which no token precedes the
 * end. */
static int check(void *model, const text_tokens *t, vc_err *err)
{
    int end;
    int rc = clip_end(model, t->ids, &end, err);

    if (rc || end)
        return rc;
    return vc_fail(err, VC_EINVAL, "no token begins the empty prompt, whose end is id %lld: give "
                   "the tokenizer that this model was trained with, which begins and ends texts "
                   "with special tokens", (long long)t->ids->id[0]);
}

static int encode(void *model, const text_tokens *t, float *states, float *pooled, vc_err *err)
{
    return clip_encode(model, t->ids, t->prompts, states, pooled, err);
}

static const char projected[] = "the pooled state is projected";

#define MODEL(name, kind_) \
    { .class = name, .kind = kind_, .open = open_model, .close = close_model, .check = check, \
      .encode = encode }
static const text_model model = MODEL("CLIPTextModel", NULL);
static const text_model with_projection = MODEL("CLIPTextModelWithProjection", projected);

const text_class text_clip = { "CLIPTextModel", &model, NULL };
const text_class text_clip_projected = { "CLIPTextModelWithProjection", &with_projection, NULL };

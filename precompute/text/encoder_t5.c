/* encoder_t5.c - prompts through T5 v1.1 (CogVideoX, LTX, FLUX, Chroma), T5 v1.0 (Cosmos-Predict2)
 * and UMT5 (Wan): see prompt.h.
 *
 * The pipelines of CogVideoX, LTX-Video and FLUX pass no mask to T5: tokens attend to the padding,
 * which changes every state. States of padding are stored too, except for LTX-Video, whose
 * transformer masks the padding (text_rule.masked).
 * Wan and LTX-Video from 0.9.5 on (text_rule.unpadded) mask the padding's keys and use the states
 * of the prompt alone. Positions are relative, so these states do not depend on padding, and the
 * prompt is encoded without padding.
 * Chroma does so too, and uses the state of one row of padding (text_rule.padding), which sees the
 * prompt and not itself. */
#include "precompute/text/prompt.h"
#include "precompute/text/stack.h"
#include "precompute/text/t5.h"

static int open_model(void **model, const void *type, const encoder_opts *o, text_info *info,
                      vc_err *err)
{
    t5 *m;
    int rc = t5_open(&m, o, type, &info->fingerprint, err);

    if (rc)
        return rc;
    info->width = t5_width(m);
    info->batch = t5_batch(m);
    *model = m;
    return 0;
}

static void close_model(void *model)
{
    t5_close(model);
}

static int check(void *model, const text_tokens *t, vc_err *err)
{
    return text_ids_known(t->ids, t5_vocab(model), err);
}

static int encode(void *model, const text_tokens *t, float *states, float *pooled, vc_err *err)
{
    (void)pooled;
    return t5_encode(model, t->ids, t->prompts, states, err);
}

static const text_model t5_model = {
    .class = "T5EncoderModel", .kind = "t5", .open = open_model, .close = close_model,
    .check = check, .encode = encode
};
static const text_model umt5_model = {
    .class = "UMT5EncoderModel", .kind = "umt5", .masked = true, .open = open_model,
    .close = close_model, .check = check, .encode = encode
};

const text_class text_t5 = { "T5EncoderModel", &t5_model, NULL };
const text_class text_umt5 = { "UMT5EncoderModel", &umt5_model, NULL };

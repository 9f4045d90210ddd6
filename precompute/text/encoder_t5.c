/* encoder_t5.c - prompts through T5 v1.1 (CogVideoX, LTX, FLUX) and UMT5 (Wan): see encoder.h.
 *
 * T5's users give it no mask: padding is attended to, changes every state and is stored. Wan masks
 * the padding's keys and stores the states of the prompt alone. Positions are relative, so those
 * are the states of the prompt alone without any padding: the encoder never sees it. */
#include <stdlib.h>

#include "precompute/text/t5.h"
#include "precompute/tokenizer/tokenizer.h"

enum { MAX_TOKENS = 1 << 15 };

struct text_enc {
    t5 *model;
    tokenizer *tok;
    bool masked;
    int max_length;
    int64_t *ids, *mask;                          /* [max_length] */
    float *embeds;                                /* [max_length, width] */
};

typedef struct kind {
    const char *class, *model_type;
    bool masked;
} kind;

static void text_close(text_enc *t)
{
    if (!t)
        return;
    t5_close(t->model);
    tokenizer_close(t->tok);
    free(t->ids);
    free(t->mask);
    free(t->embeds);
    free(t);
}

static int set_up(text_enc *t, const kind *k, const encoder_opts *o, text_info *info, vc_err *err)
{
    size_t n = (size_t)o->max_length;

    int rc = tokenizer_open(&t->tok, o->tokenizer, err);
    if (!rc) rc = t5_open(&t->model, o, k->model_type, &info->fingerprint, err);
    if (rc)
        return rc;
    t->masked = k->masked;
    t->max_length = o->max_length;
    t->ids = calloc(n, sizeof *t->ids);
    t->mask = calloc(n, sizeof *t->mask);
    t->embeds = calloc(n, (size_t)t5_width(t->model) * sizeof *t->embeds);
    if (!t->ids || !t->mask || !t->embeds)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory for %d tokens", k->class, o->max_length);
    info->class = k->class;
    info->tokenizer = tokenizer_fingerprint(t->tok);
    info->max_length = o->max_length;
    info->width = t5_width(t->model);
    return 0;
}

static int text_open(text_enc **out, const kind *k, const encoder_opts *o, text_info *info,
                     vc_err *err)
{
    *out = NULL;
    *info = (text_info){ 0 };
    if (!o->tokenizer)
        return vc_fail(err, VC_EINVAL, "%s: it needs a tokenizer's folder", k->class);
    if (o->max_length < 1 || o->max_length > MAX_TOKENS)
        return vc_fail(err, VC_EINVAL, "%s: prompts of %d tokens; 1 to %d are possible", k->class,
                       o->max_length, MAX_TOKENS);
    text_enc *t = calloc(1, sizeof *t);
    if (!t)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", k->class);

    int rc = set_up(t, k, o, info, err);
    if (rc) {
        text_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

static int text_encode(text_enc *t, const char *prompt, text_result *r, vc_err *err)
{
    int n = 0, rc = tokenizer_prompt(t->tok, prompt, t->max_length, t->ids, t->mask, &n, err);
    if (rc)
        return rc;

    int run = t->masked ? n : t->max_length;
    rc = t5_encode(t->model, t->ids, run, t->embeds, err);
    if (rc)
        return rc;
    *r = (text_result){ .n = run, .width = t5_width(t->model), .embeds = t->embeds,
                        .length = t->max_length, .ids = t->ids, .mask = t->mask };
    return 0;
}

static int open_t5(text_enc **out, const encoder_opts *o, text_info *info, vc_err *err)
{
    return text_open(out, &(kind){ "T5EncoderModel", "t5", false }, o, info, err);
}

static int open_umt5(text_enc **out, const encoder_opts *o, text_info *info, vc_err *err)
{
    return text_open(out, &(kind){ "UMT5EncoderModel", "umt5", true }, o, info, err);
}

const text_class text_t5 = { "T5EncoderModel", open_t5, text_close, text_encode };
const text_class text_umt5 = { "UMT5EncoderModel", open_umt5, text_close, text_encode };

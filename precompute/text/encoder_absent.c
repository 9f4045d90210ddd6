/* encoder_absent.c - the place of a text encoder that was left out: each prompt is one row of zeros,
 * as wide as the transformer's tokens (families.h: vc_text.optional). */
#include "precompute/text/prompt.h"

#include <string.h>

#include "common/families.h"

static int open_absent(void **model, const void *kind, const encoder_opts *o, text_info *info,
                       vc_err *err)
{
    vf_hasher h;

    (void)kind, (void)err;
    *model = NULL;
    info->width = o->text.absent;
    info->rows = 1;
    vf_hasher_begin(&h, "no text encoder 1");
    vf_hasher_int(&h, "width", o->text.absent);
    info->fingerprint = vf_hasher_end(&h);
    info->tokenizer = vf_hash("no tokenizer 1", 14);
    return 0;
}

static void close_absent(void *model)
{
    (void)model;
}

/* The row is the state of one token, the same for every prompt. */
static void words(const char *text, int length, int64_t *ids, int64_t *mask)
{
    (void)text;
    memset(ids, 0, (size_t)length * sizeof *ids);
    memset(mask, 0, (size_t)length * sizeof *mask);
    mask[0] = 1;
}

/* The areas of states begin as zeros, and nothing writes to them. */
static int encode(void *model, const text_tokens *t, float *states, float *pooled, vc_err *err)
{
    (void)model, (void)t, (void)states, (void)pooled, (void)err;
    return 0;
}

static const text_model model = {
    .class = VC_NO_TEXT, .masked = true, .open = open_absent, .close = close_absent,
    .words = words, .encode = encode
};

const text_class text_absent = { VC_NO_TEXT, &model, NULL };

/* sink_check.c - checks the values of an item that an importer reads. See exchange_parts.h */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/peers/exchange_parts.h"
#include "formats/tensors/values.h"

/* True for latents of zeros, which no VAE makes. */
static bool all_zero(const vf_view *v)
{
    const uint8_t *p = v->data;
    return v->bytes && !p[0] && !memcmp(p, p + 1, v->bytes - 1);
}

int exchange_check_finite(const vf_view *v, const char *what, vc_err *err)
{
    enum { SOME = 4096 };
    float x[SOME];
    const size_t all = v->data ? (size_t)vf_view_count(v) : 0;
    for (size_t at = 0; at < all; at += SOME) {
        size_t n = all - at < SOME ? all - at : SOME, i = 0;
        vf_view_f32(x, v, at, n);
        if (vf_all_finite(x, n))
            continue;
        while (isfinite(x[i]))
            i++;
        return vc_fail(err, VC_ENUMERIC, "%s: element %zu is %g: the file is damaged, or its "
                       "encoder failed: make it again", what, at + i, (double)x[i]);
    }
    return 0;
}

int exchange_check_latent(const exchange_item *m, vc_err *err)
{
    const vf_view *v = &m->mean, *l = &m->logvar;
    if (v->nd != 4 || v->dim[0] < 1 || v->dim[0] > EXCHANGE_CHANNELS)
        return vc_fail(err, VC_EFORMAT, "latents of %d dimensions, %" PRId64 " channels: [C,f,h,w] "
                       "expected", v->nd, v->nd ? v->dim[0] : 0);
    for (int i = 1; i < 4; i++)
        if (v->dim[i] < 1 || v->dim[i] > UINT16_MAX)
            return vc_fail(err, VC_EFORMAT, "latents: a side of %" PRId64, v->dim[i]);
    if (v->dtype > VC_F64)
        return vc_fail(err, VC_EFORMAT, "latents of type %s", vc_dtype_name(v->dtype));
    if (l->data && (l->nd != 4 || l->dtype != v->dtype ||
                    (l->dim[0] != 1 && l->dim[0] != v->dim[0]) ||
                    memcmp(l->dim + 1, v->dim + 1, 3 * sizeof *v->dim)))
        return vc_fail(err, VC_EFORMAT, "logvar: its shape or type is not that of the mean");
    if (all_zero(v))
        return vc_fail(err, VC_EFORMAT,
                       "latents: all of them are zero, as in a file that was not written "
                       "to its end");
    int rc = exchange_check_finite(v, "latents", err);
    return rc ? rc : exchange_check_finite(l, "logvar", err);
}

int exchange_check_references(const exchange_item *m, vc_err *err)
{
    int rc = 0;
    for (int k = 0; !rc && k < m->n_references; k++) {
        const exchange_item as = { .mean = m->reference[k] };
        rc = exchange_check_latent(&as, err);
        if (!rc && (as.mean.dim[0] != m->mean.dim[0] || as.mean.dim[1] != 1))
            rc = vc_fail(err, VC_EFORMAT, "[%" PRId64 ",1,h,w] expected", m->mean.dim[0]);
        rc = vc_context(err, rc, "reference picture %d", k + 1);
    }
    return rc;
}

int exchange_check_text(const struct exchange_encoder *t, const exchange_item *m, int i,
                        vc_err *err)
{
    const vf_view *e = &m->text[i].embeds, *p = &m->text[i].pooled;
    char what[40];
    if ((e->data && (e->nd != 2 || e->dim[0] < 1 || e->dtype > VC_F64)) ||
        (p->data && (p->nd != 1 || p->dtype > VC_F64)) || (!e->data && !p->data))
        return vc_fail(err, VC_EFORMAT, "text %d: [n,D] expected", i + 1);
    snprintf(what, sizeof what, "text %d", i + 1);
    int rc = exchange_check_finite(e, what, err);
    if (!rc)
        rc = exchange_check_finite(p, what, err);
    if (rc || !t)
        return rc;
    if (t->embeds != (e->data != NULL))
        return vc_fail(err, VC_EMISMATCH, "text %d: with and without states of its tokens", i + 1);
    if ((e->data ? e->dim[1] : p->dim[0]) != t->width || (p->data ? p->dim[0] : 0) != t->pooled)
        return vc_fail(err, VC_EMISMATCH, "text %d: width %" PRId64 ", the first was %" PRId64,
                       i + 1, e->data ? e->dim[1] : p->dim[0], t->width);
    const int64_t most = t->max_length * (m->chunks > 1 ? m->chunks : 1);
    if (e->data && e->dim[0] > most)
        return vc_fail(err, VC_EMISMATCH,
                       "text %d: %" PRId64 " tokens, at most %" PRId64 " expected "
                       "after the first", i + 1, e->dim[0], most);
    return 0;
}

int exchange_check_value(bool text, const vf_safetensors *st, vc_err *err)
{
    char what[80];
    vc_err e;
    int rc = vf_value_names(text, st, &e);
    if (rc)
        return vc_fail(err, rc, "%s: the file is damaged: export it again", e.text);
    for (int i = 0; !rc && i < vf_safetensors_count(st); i++) {
        const vf_view *v = vf_safetensors_at(st, i);
        snprintf(what, sizeof what, "tensor \"%.60s\"", v->name);
        rc = exchange_check_finite(v, what, err);
    }
    return rc;
}

void exchange_say_empties(const exchange *x)
{
    const exchange_sink *s = x->sink;
    if (s->edit && x->family->references.look && !s->own_empty && !s->whole)
        vc_warn(x->v->progress, "a dropped caption of these samples is the one empty prompt, "
                "without their reference pictures: the cache has no others. Train with "
                "--caption_dropout_p 0, or import with --texts DATASET, which vprep made of the "
                "same media with --train_mode edit: each sample then has its own");
}

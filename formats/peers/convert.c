/* convert.c - converts types and orders of latents. See exchange.h */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/peers/exchange_parts.h"

enum { BLOCK = 4096 };
#define POINT (-30.0f)                       /* the lowest logvar that diffusers allows */

int exchange_convert(void *dst, vc_dtype t, const vf_view *v, size_t from, size_t n, vc_err *err)
{
    size_t size = vc_dtype_size(v->dtype), to = vc_dtype_size(t);
    const uint8_t *src = (const uint8_t *)v->data + from * size;
    uint8_t *out = dst;
    float f[BLOCK];
    if (t == v->dtype) {
        memcpy(dst, src, n * size);
        return 0;
    }
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t k = n - i < BLOCK ? n - i : BLOCK;
        vc_to_f32(f, src + i * size, v->dtype, k);
        for (size_t j = 0; t == VC_F16 && j < k; j++)
            if (fabsf(f[j]) > 65504)
                return vc_fail(err, VC_ENUMERIC, "%g does not fit f16, which the format asks for",
                               (double)f[j]);
        vc_from_f32(out + i * to, t, f, k);
    }
    return 0;
}

void exchange_swap(void *dst, const void *src, size_t a, size_t b, size_t n, size_t size)
{
    for (size_t i = 0; i < a; i++)
        for (size_t j = 0; j < b; j++)
            memcpy((uint8_t *)dst + (j * a + i) * n * size,
                   (const uint8_t *)src + (i * b + j) * n * size, n * size);
}

/* Writes logvar [C,..] as type t; one channel stands for all, no logvar for POINT. */
static int put_logvar(uint8_t *dst, const exchange_sample *s, vc_dtype t, vc_err *err)
{
    size_t channels = (size_t)s->mean.dim[0], plane = (size_t)vf_view_count(&s->mean) / channels;
    size_t size = vc_dtype_size(t);
    const float point = POINT;
    int rc = 0;
    for (size_t c = 0; !rc && c < channels; c++) {
        uint8_t *at = dst + c * plane * size;
        if (s->logvar.data)
            rc = exchange_convert(at, t, &s->logvar, s->logvar.dim[0] == 1 ? 0 : c * plane, plane,
                                  err);
        for (size_t i = 0; !s->logvar.data && i < plane; i++)
            vc_from_f32(at + i * size, t, &point, 1);
    }
    return rc;
}

int exchange_moments(const exchange_sample *s, vc_dtype t, bool frames_first, void **out,
                     vc_err *err)
{
    size_t n = (size_t)vf_view_count(&s->mean), size = vc_dtype_size(t);
    uint8_t *m = *out = malloc(2 * n * size);
    if (!m)
        return vc_fail(err, VC_ENOMEM, "out of memory for %zu values", 2 * n);
    int rc = exchange_convert(m, t, &s->mean, 0, n, err);
    if (!rc)
        rc = put_logvar(m + n * size, s, t, err);
    if (rc || !frames_first || s->mean.dim[1] == 1)
        return rc;
    uint8_t *swapped = malloc(2 * n * size);
    if (!swapped)
        return vc_fail(err, VC_ENOMEM, "out of memory for %zu values", 2 * n);
    exchange_swap(swapped, m, 2 * (size_t)s->mean.dim[0], (size_t)s->mean.dim[1],
                  (size_t)(s->mean.dim[2] * s->mean.dim[3]), size);
    free(m);
    *out = swapped;
    return 0;
}

int exchange_split(const vf_view *v, bool frames_first, exchange_item *item, void **own,
                   vc_err *err)
{
    int c = frames_first ? 1 : 0;
    *own = NULL;
    if (v->nd != 4 || v->dim[c] < 2 || v->dim[c] % 2 || v->dtype > VC_F64)
        return vc_fail(err, VC_EFORMAT, "moments: four dimensions with an even number of channels "
                       "expected");
    size_t size = vc_dtype_size(v->dtype), half = v->bytes / 2;
    const uint8_t *data = v->data;
    if (frames_first && v->dim[0] != 1) {
        if (!(*own = malloc(v->bytes + 1)))
            return vc_fail(err, VC_ENOMEM, "out of memory for %zu bytes", v->bytes);
        exchange_swap(*own, data, (size_t)v->dim[0], (size_t)v->dim[1],
                      (size_t)(v->dim[2] * v->dim[3]), size);
        data = *own;
    }
    item->mean = (vf_view){ "mean", v->dtype, 4,
                            { v->dim[c] / 2, v->dim[1 - c], v->dim[2], v->dim[3] }, data, half };
    item->logvar = item->mean;
    item->logvar.name = "logvar";
    item->logvar.data = data + half;
    return 0;
}

int exchange_mask_rows(const vf_view *mask, int64_t *rows, vc_err *err)
{
    int64_t n = vf_view_count(mask), ones = 0;
    size_t size = vc_dtype_size(mask->dtype);
    bool ended = false;
    for (int64_t i = 0; i < n; i++) {
        float f;
        vc_to_f32(&f, (const uint8_t *)mask->data + (size_t)i * size, mask->dtype, 1);
        if (f != 0 && ended)
            return vc_fail(err, VC_EFORMAT, "a mask with a gap: padding in front is not read");
        ones += f != 0;
        ended |= f == 0;
    }
    *rows = ones ? ones : 1;                 /* a text without tokens keeps one row */
    return n ? 0 : vc_fail(err, VC_EFORMAT, "an empty mask");
}

void exchange_trim_rows(vf_view *e, int64_t rows)
{
    if (rows < 1)
        rows = 1;
    if (rows < e->dim[0]) {
        e->bytes = e->bytes / (size_t)e->dim[0] * (size_t)rows;
        e->dim[0] = rows;
    }
}

int exchange_trim_mask(vf_view *e, const vf_view *mask, vc_err *err)
{
    int64_t rows;
    if (mask->nd != 1 || mask->dim[0] != e->dim[0])
        return vc_fail(err, VC_EFORMAT, "a mask of %" PRId64 " numbers expected", e->dim[0]);
    int rc = exchange_mask_rows(mask, &rows, err);
    if (!rc)
        exchange_trim_rows(e, rows);
    return rc;
}

void exchange_trim_zeros(vf_view *e)
{
    const uint8_t *data = e->data;
    size_t row = e->bytes / (size_t)e->dim[0], used = e->bytes;
    while (used && !data[used - 1])
        used--;
    exchange_trim_rows(e, row ? (int64_t)((used + row - 1) / row) : e->dim[0]);
}

int exchange_latent_f32(const exchange *x, const exchange_sample *s, float **out, vc_err *err)
{
    size_t n = (size_t)vf_view_count(&s->mean), plane = n / (size_t)s->mean.dim[0];
    *out = NULL;
    int rc = x->normalized && x->family
                 ? exchange_norm_check(&x->norm, x->family, x->v->o->vae, err) : 0;
    if (rc)
        return rc;
    float *f = *out = malloc(n * sizeof *f);
    if (!f)
        return vc_fail(err, VC_ENOMEM, "out of memory for %zu values", n);
    vc_to_f32(f, s->mean.data, s->mean.dtype, n);
    for (int c = 0; x->normalized && c < s->mean.dim[0]; c++)
        exchange_normalize(&x->norm, c, f + (size_t)c * plane, plane);
    return 0;
}

int exchange_denormalized(exchange *x, vf_view *v, float **own, vc_err *err)
{
    exchange_sink *s = x->sink;
    size_t n = (size_t)vf_view_count(v), plane = n / (size_t)v->dim[0];
    size_t size = vc_dtype_size(v->dtype);
    float *raw = *own = malloc(n * sizeof *raw), *back = malloc(plane * sizeof *back);
    uint8_t *bytes = malloc(plane * size);
    if (!raw || !back || !bytes) {
        free(back);
        free(bytes);
        return vc_fail(err, VC_ENOMEM, "out of memory for %zu values", n);
    }
    vc_to_f32(raw, v->data, v->dtype, n);
    for (int c = 0; c < v->dim[0]; c++) {
        const uint8_t *was = (const uint8_t *)v->data + (size_t)c * plane * size;
        exchange_denormalize(&x->norm, c, raw + (size_t)c * plane, plane);
        memcpy(back, raw + (size_t)c * plane, plane * sizeof *back);
        exchange_normalize(&x->norm, c, back, plane);
        vc_from_f32(bytes, v->dtype, back, plane);
        for (size_t i = 0; i < plane; i++)
            s->inexact += memcmp(bytes + i * size, was + i * size, size) != 0;
    }
    s->values += n;
    free(back);
    free(bytes);
    *v = (vf_view){ v->name, VC_F32, 4, { v->dim[0], v->dim[1], v->dim[2], v->dim[3] }, raw,
                    4 * n };
    return 0;
}

/* load.c - a weight's values from a source: borrowed, copied, or converted, and the scales of fp8
 * files; see weights.h */
#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tensor/engine.h"
#include "common/tensor/params.h"

/* ---- values with scales ---- */

static int64_t row_size(const vt_host *h)
{
    int64_t n = 1;
    for (int i = 1; i < h->nd; i++)
        n *= h->dim[i];
    return n;
}

static float scale_at(const vt_host *h, int64_t row, int64_t block)
{
    const int64_t at = (h->scales[0] > 1 ? row : 0) * h->scales[1] + block;
    float f;
    vc_to_f32(&f, (const char *)h->scale + (size_t)at * vc_dtype_size(h->scale_type),
              h->scale_type, 1);
    return f;
}

void vt_host_row(float *to, const vt_host *h, int64_t row)
{
    const int64_t n = row_size(h);
    vc_to_f32(to, (const char *)h->data + (size_t)(row * n) * vc_dtype_size(h->dtype), h->dtype,
              (size_t)n);
    if (!h->scale)
        return;
    const int64_t wide = n / h->scales[1];
    for (int64_t b = 0; b < h->scales[1]; b++) {
        const float by = scale_at(h, row, b);
        for (int64_t i = 0; i < wide; i++)
            to[b * wide + i] *= by;
    }
}

/* Removes scales that are all 1, with which some programs mark weights that they left alone. */
static void drop_ones(vt_host *h)
{
    bool ones = h->scale != NULL;
    for (int64_t i = 0; ones && i < h->scales[0]; i++)
        for (int64_t b = 0; ones && b < h->scales[1]; b++)
            ones = scale_at(h, i, b) == 1;
    if (ones)
        h->scale = NULL;
}

/* The scales of a weight's rows, or of their blocks, in f32. */
static int make_scale(vt_tensor **scale, vt_ctx *g, const vt_host *h, vc_err *err)
{
    const int64_t dim[2] = { h->dim[0], h->scales[1] };
    float *f = malloc((size_t)(dim[0] * dim[1]) * sizeof *f);
    if (!f)
        return vc_no_memory(err);
    for (int64_t i = 0; i < dim[0]; i++)
        for (int64_t b = 0; b < dim[1]; b++)
            f[i * dim[1] + b] = scale_at(h, i, b);
    *scale = vt_param_new(g, VC_F32, dim[1] > 1 ? 2 : 1, dim, f, VC_F32, false, err);
    free(f);
    return *scale ? 0 : VC_ENOMEM;
}

/* Makes a copy of type `as`, whose values are multiplied in f32 and rounded once. */
static int load_scaled(vt_tensor **t, vt_ctx *g, vc_dtype as, const vt_host *h, bool on_host,
                       vc_err *err)
{
    const size_t n = (size_t)row_size(h), rows = (size_t)h->dim[0];
    const int threads = vt_host_threads(g);
    float *all = g->sizes_only ? NULL : malloc(rows * n * sizeof *all);

    if (!g->sizes_only && !all)
        return vc_no_memory(err);
    #pragma omp parallel for num_threads(threads) if(threads > 1)
    for (size_t i = 0; i < (all ? rows : 0); i++)
        vt_host_row(all + i * n, h, (int64_t)i);
    const void *from = all ? (const void *)all : h->data;
    *t = on_host ? vt_param_on_host(g, as, h->nd, h->dim, from, VC_F32, false, err)
                 : vt_param_new(g, as, h->nd, h->dim, from, VC_F32, false, err);
    free(all);
    return *t ? 0 : VC_ENOMEM;
}

int vt_unscale(vt_ctx *g, vt_tensor *t, const vt_tensor *scale, vc_err *err)
{
    const size_t n = (size_t)vt_count(t), each = n / (size_t)vt_count(scale);
    float *w = malloc(n * sizeof *w), *s = malloc((size_t)vt_count(scale) * sizeof *s);
    int rc = w && s ? 0 : vc_no_memory(err);

    if (!rc) {
        const float *values = vt_param_get(g, t, w), *by = vt_param_get(g, scale, s);
        for (size_t i = 0; i < n; i++)
            w[i] = values[i] * by[i / each];
        vt_param_set(g, t, w, VC_F32);
    }
    free(w);
    free(s);
    return rc;
}

/* ---- conversion to fp8 ---- */

/* Converts the n values of a row to e4m3, scaled by the power of two that brings them into +-448.
 * Returns false if a value is not finite. */
static bool to_fp8(uint8_t *code, float *scale, float *row, size_t n)
{
    float most = 0;
    bool finite = true;
    int e;

    for (size_t k = 0; k < n; k++) {
        most = fmaxf(most, fabsf(row[k]));
        finite &= isfinite(row[k]);
    }
    if (!finite)
        return false;
    frexpf(most / 448, &e);                    /* 0.5..1 times 2^e */
    *scale = most > 0 ? ldexpf(1, e > -126 ? e : -126) : 1;
    float by = 1 / *scale;
    for (size_t k = 0; k < n; k++)
        row[k] *= by;
    vc_from_f32(code, VC_F8E4M3, row, n);
    return true;
}

/* Converts each row of h by all threads; `room` has room for a row of each thread. */
static int to_rows_of_fp8(uint8_t *code, float *scale, const vt_host *h, const char *name,
                          float *room, int threads, vc_err *err)
{
    size_t n = (size_t)h->dim[1];
    int64_t bad = h->dim[0];                   /* the first row with a value that is not finite */

    #pragma omp parallel for num_threads(threads) if(threads > 1) reduction(min : bad)
    for (int64_t i = 0; i < h->dim[0]; i++) {
        float *row = room + (size_t)omp_get_thread_num() * n;
        vt_host_row(row, h, i);
        if (!to_fp8(code + (size_t)i * n, scale + i, row, n))
            bad = i < bad ? i : bad;
    }
    return bad == h->dim[0] ? 0
         : vc_fail(err, VC_EMISMATCH, "tensor \"%s\": row %lld holds a value that is not finite, "
                   "which fp8 cannot", name, (long long)bad);
}

/* Fills a weight and the scales of its rows with the converted values of h. */
static int fill_fp8(vt_tensor *t, vt_tensor *scale, vt_ctx *g, const vt_host *h, const char *name,
                    vc_err *err)
{
    size_t rows = (size_t)h->dim[0], n = (size_t)h->dim[1];
    int threads = vt_host_threads(g);
    uint8_t *own = vt_param_host_memory(g, t), *code = own ? own : malloc(rows * n);
    float *s = malloc(rows * sizeof *s), *room = malloc((size_t)threads * n * sizeof *room);
    int rc = code && s && room ? to_rows_of_fp8(code, s, h, name, room, threads, err)
                               : vc_fail(err, VC_ENOMEM, "%s: out of memory", name);

    if (!rc && !own)
        vt_param_set(g, t, code, VC_F8E4M3);
    if (!rc)
        vt_param_set(g, scale, s, VC_F32);
    if (!own)
        free(code);
    free(s);
    free(room);
    return rc;
}

static int load_fp8(vt_tensor **t, vt_tensor **scale, vt_ctx *g, const vt_host *h, bool on_host,
                    const char *name, vc_err *err)
{
    const vc_dtype fp8 = VC_F8E4M3;
    *t = on_host ? vt_param_on_host(g, fp8, 2, h->dim, NULL, fp8, false, err)
                 : vt_param_new(g, fp8, 2, h->dim, NULL, fp8, false, err);
    *scale = *t ? vt_param_new(g, VC_F32, 1, h->dim, NULL, VC_F32, false, err) : NULL;
    int rc = *scale ? 0 : vc_context(err, VC_ENOMEM, "%s", name);

    if (!rc && !g->sizes_only)
        rc = fill_fp8(*t, *scale, g, h, name, err);
    if (rc) {
        vt_param_free(g, *t);
        vt_param_free(g, *scale);
        *t = *scale = NULL;
    }
    return rc;
}

/* ---- one weight ---- */

static bool is_fp8(vc_dtype type)
{
    return type == VC_F8E4M3 || type == VC_F8E5M2;
}

static int borrow(vt_tensor **t, vt_ctx *g, vc_dtype as, const vt_host *h, const vt_source *src,
                  bool on_host, vc_err *err)
{
    *t = on_host
             ? vt_param_on_host(g, as, h->nd, h->dim, h->data, h->dtype, src->mapped, err)
             : vt_param_new(g, as, h->nd, h->dim, h->data, h->dtype, src->mapped, err);
    return *t ? 0 : VC_ENOMEM;
}

void vt_shape_text(char text[VT_SHAPE_TEXT], int nd, const int64_t *dim)
{
    size_t n = (size_t)snprintf(text, VT_SHAPE_TEXT, "[");

    for (int i = 0; i < nd; i++)
        n += (size_t)snprintf(text + n, VT_SHAPE_TEXT - n, "%s%lld", i ? "," : "",
                              (long long)dim[i]);
    snprintf(text + n, VT_SHAPE_TEXT - n, "]");
}

/* Loads values of which the type and the shape fit. */
static int load(vt_tensor **t, vt_tensor **scale, vt_ctx *g, const vt_source *src, vt_host *h,
                const char *name, vc_err *err)
{
    const bool on_host = scale && src->on_host, converts = scale && src->converts;
    vc_dtype as = h->dtype == VC_F64 ? VC_F32 : h->dtype;
    if (converts)
        as = src->to;
    drop_ones(h);
    const bool codes = h->scale && scale && as == h->dtype && is_fp8(as);
    if (scale && as == VC_F8E4M3 && h->dtype != as)
        return load_fp8(t, scale, g, h, on_host, name, err);
    if (h->scale && !codes)
        return load_scaled(t, g, converts ? as : VC_F32, h, on_host, err);
    int rc = borrow(t, g, as, h, src, on_host, err);
    if (!rc && codes && make_scale(scale, g, h, err)) {
        vt_param_free(g, *t);
        *t = NULL;
        rc = VC_ENOMEM;
    }
    return rc;
}

int vt_load(vt_tensor **t, vt_tensor **scale, vc_dtype *from, vt_ctx *g, const vt_source *src,
            int nd, const int64_t *dim, const char *name, vc_err *err)
{
    char want[VT_SHAPE_TEXT], have[VT_SHAPE_TEXT];
    vt_host h = { 0 };

    vt_shape_text(want, nd, dim);
    int rc = src->get(src->arg, name, &h, err);
    if (rc == VC_ENOENT)
        return vc_fail(err, VC_ENOENT, "tensor \"%s\" is missing; it should be %s", name, want);
    if (rc)
        return vc_context(err, rc, "%s", name);
    vt_shape_text(have, h.nd, h.dim);
    if (h.nd != nd || memcmp(h.dim, dim, (size_t)nd * sizeof *dim))
        return vc_fail(err, VC_EMISMATCH, "tensor \"%s\" is %s, %s was expected", name, have, want);
    if (h.dtype < 0 || h.dtype > VC_F64)
        return vc_fail(err, VC_EMISMATCH, "tensor \"%s\" holds %s, no weight has that type", name,
                       h.dtype < 0 ? "no known type" : vc_dtype_name(h.dtype));
    *from = h.dtype;
    rc = load(t, scale, g, src, &h, name, err);
    return rc == VC_ENOMEM ? vc_context(err, VC_ENOMEM, "%s", name) : rc;
}

/* load.c - a weight's values from a source: borrowed, copied, converted or packed, and the scales
 * of files' codes; see weights.h */
#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/tensor/engine.h"
#include "common/tensor/packing.h"
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
    vc_to_f32(to, (const char *)h->data + vc_dtype_bytes(h->dtype, (size_t)(row * n)), h->dtype,
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
    bool ones = h->scale && h->dtype <= VC_F64;
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

/* ---- packing ---- */

/* Packs each row of h by all threads; `room` has room for a row of each thread. */
static int pack_rows(char *code, float *scale, const vt_packing *p, const vt_host *h,
                     const char *name, float *room, int threads, vc_err *err)
{
    const size_t n = (size_t)h->dim[1], bytes = vc_dtype_bytes(p->type, n);
    const int64_t scales = vt_packing_scales(p, h->dim[1]);
    int64_t bad = h->dim[0];                   /* the first row with a value that is not finite */

    #pragma omp parallel for num_threads(threads) if(threads > 1) reduction(min : bad)
    for (int64_t i = 0; i < h->dim[0]; i++) {
        float *row = room + (size_t)omp_get_thread_num() * n;
        vt_host_row(row, h, i);
        if (!vt_pack_codes(p, code + (size_t)i * bytes, scale + i * scales, row, h->dim[1]))
            bad = i < bad ? i : bad;
    }
    return bad == h->dim[0] ? 0
         : vc_fail(err, VC_EMISMATCH, "tensor \"%s\": row %lld holds a value that is not finite, "
                   "which %s cannot", name, (long long)bad, vc_dtype_name(p->type));
}

/* Fills a weight and its scales with the packed values of h. */
static int fill_packed(vt_tensor *t, vt_tensor *scale, vt_ctx *g, const vt_host *h,
                       const char *name, vc_err *err)
{
    const size_t n = (size_t)h->dim[1];
    const int threads = vt_host_threads(g);
    char *own = vt_param_host_memory(g, t);
    char *code = own ? own : malloc(vc_dtype_bytes(t->dtype, (size_t)vt_count(t)));
    float *s = malloc((size_t)vt_count(scale) * sizeof *s);
    float *room = malloc((size_t)threads * n * sizeof *room);
    int rc = code && s && room
                 ? pack_rows(code, s, vt_packing_of(t->dtype), h, name, room, threads, err)
                 : vc_fail(err, VC_ENOMEM, "%s: out of memory", name);

    if (!rc && !own)
        vt_param_set(g, t, code, t->dtype);
    if (!rc)
        vt_param_set(g, scale, s, VC_F32);
    if (!own)
        free(code);
    free(s);
    free(room);
    return rc;
}

static int load_packed(vt_tensor **t, vt_tensor **scale, vt_ctx *g, const vt_packing *p,
                       const vt_host *h, bool on_host, const char *name, vc_err *err)
{
    const int64_t dim[2] = { h->dim[0], vt_packing_scales(p, h->dim[1]) };
    *t = on_host ? vt_param_on_host(g, p->type, 2, h->dim, NULL, p->type, false, err)
                 : vt_param_new(g, p->type, 2, h->dim, NULL, p->type, false, err);
    *scale = *t ? vt_param_new(g, VC_F32, dim[1] > 1 ? 2 : 1, dim, NULL, VC_F32, false, err) : NULL;
    int rc = *scale ? 0 : vc_context(err, VC_ENOMEM, "%s", name);

    if (!rc && !g->sizes_only)
        rc = fill_packed(*t, *scale, g, h, name, err);
    if (rc) {
        vt_param_free(g, *t);
        vt_param_free(g, *scale);
        *t = *scale = NULL;
    }
    return rc;
}

/* ---- one weight ---- */

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
    const bool on_host = scale && src->on_host;
    const vt_packing *to = scale && src->converts ? vt_packing_of(src->to) : NULL;
    const bool converts = scale && src->converts && (!to || vt_packing_scales(to, h->dim[1]));
    vc_dtype as = h->dtype == VC_F64 ? VC_F32 : h->dtype;
    if (converts)
        as = src->to;
    drop_ones(h);
    const bool codes = h->scale && scale && as == h->dtype && vt_is_code(as);
    if (converts && to && h->dtype != as)
        return load_packed(t, scale, g, to, h, on_host, name, err);
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
    if (h.dtype < 0 || (h.dtype > VC_F64 && !(h.scale && vt_is_code(h.dtype))))
        return vc_fail(err, VC_EMISMATCH, "tensor \"%s\" holds %s, no weight has that type", name,
                       h.dtype < 0 ? "no known type" : vc_dtype_name(h.dtype));
    *from = h.dtype;
    rc = load(t, scale, g, src, &h, name, err);
    return rc == VC_ENOMEM ? vc_context(err, VC_ENOMEM, "%s", name) : rc;
}

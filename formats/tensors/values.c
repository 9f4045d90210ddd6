/* values.c - writes tensors to files and reads them, one tensor in host memory at a time; see
 * values.h */
#include "formats/tensors/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "common/tensor/weights.h"

bool vf_all_finite(const float *x, size_t n)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &x[i], sizeof u);
        bad |= (u & 0x7f800000) == 0x7f800000;
    }
    return !bad;
}

int vf_view_finite(const vf_view *v, vc_err *err)
{
    enum { SOME = 4096 };
    float x[SOME];
    size_t all = (size_t)vf_view_count(v), size = vc_dtype_size(v->dtype);
    for (size_t at = 0; at < all; at += SOME) {
        size_t n = all - at < SOME ? all - at : SOME, i = 0;
        vc_to_f32(x, (const char *)v->data + at * size, v->dtype, n);
        if (vf_all_finite(x, n))
            continue;
        while (isfinite(x[i]))
            i++;
        return vc_fail(err, VC_ENUMERIC, "tensor \"%s\": element %zu is %g", v->name, at + i,
                       (double)x[i]);
    }
    return 0;
}

static int other_shape(const vt_tensor *t, const vf_view *v, vc_err *err)
{
    char have[VT_SHAPE_TEXT], want[VT_SHAPE_TEXT];
    vt_shape_text(have, v->nd, v->dim);
    vt_shape_text(want, t->nd, t->dim);
    return vc_fail(err, VC_EMISMATCH, "tensor \"%s\" is %s, %s was expected", v->name, have, want);
}

int vf_values_set(vt_ctx *g, vt_tensor *t, const vf_view *v, vc_err *err)
{
    bool same = v->nd == t->nd;
    for (int i = 0; same && i < t->nd; i++)
        same = v->dim[i] == t->dim[i];
    if (!same || !vt_packed(t))
        return other_shape(t, v, err);
    if ((t->dtype == VC_U8) != (v->dtype == VC_U8))
        return vc_fail(err, VC_EMISMATCH, "tensor \"%s\" holds %s, %s was expected", v->name,
                       vc_dtype_name(v->dtype), vc_dtype_name(t->dtype));
    vt_param_set(g, t, v->data, v->dtype);
    return 0;
}

/* ---- files of several tensors ---- */

typedef struct vf_view_source {
    const vt_tensor *t;
    double scale;
} value;

int vf_views_open(vf_views *s, vt_ctx *g, int room, vc_err *err)
{
    *s = (vf_views){ .g = g, .room = room };
    s->v = calloc((size_t)room + 1, sizeof *s->v);
    s->name = calloc((size_t)room + 1, sizeof *s->name);
    s->from = calloc((size_t)room + 1, sizeof *s->from);
    return s->v && s->name && s->from ? 0 : vc_no_memory(err);
}

void vf_views_close(vf_views *s)
{
    for (int i = 0; i < s->n; i++)
        free(s->name[i]);
    free(s->v);
    free(s->name);
    free(s->from);
    free(s->held);
    free(s->converted);
    *s = (vf_views){ 0 };
}

int vf_views_add(vf_views *s, const char *prefix, const char *name, const char *suffix,
                 const vt_tensor *t, vc_dtype type, double scale, vc_err *err)
{
    char *full = s->name[s->n] = vc_format("%s%s%s", prefix, name, suffix);
    if (!full)
        return vc_no_memory(err);
    vf_view *v = &s->v[s->n];
    *v = (vf_view){ .name = full, .dtype = type, .nd = t->nd,
                    .bytes = (size_t)vt_count(t) * vc_dtype_size(type) };
    memcpy(v->dim, t->dim, sizeof *t->dim * (size_t)t->nd);
    s->from[s->n++] = (value){ t, scale };
    return 0;
}

int vf_views_add_view(vf_views *s, const vf_view *v, vc_err *err)
{
    char *name = s->name[s->n] = strdup(v->name);
    if (!name)
        return vc_no_memory(err);
    s->v[s->n] = *v;
    s->v[s->n].name = name;
    s->from[s->n++] = (value){ 0 };
    return 0;
}

enum { CHUNK = 1 << 14 };                    /* elements converted at a time */

/* Converts n elements from type `of` to `type`, times scale. */
static void convert(void *to, vc_dtype type, const void *from, vc_dtype of, size_t n, double scale)
{
    for (size_t at = 0; at < n; at += CHUNK) {
        float f[CHUNK];
        size_t some = n - at < CHUNK ? n - at : CHUNK;
        vc_to_f32(f, (const char *)from + at * vc_dtype_size(of), of, some);
        for (size_t k = 0; scale != 1 && k < some; k++)
            f[k] *= (float)scale;
        vc_from_f32((char *)to + at * vc_dtype_size(type), type, f, some);
    }
}

/* Frees *area and allocates room for `bytes` bytes in its place. */
static int renew(void **area, size_t bytes, const vf_view *v, vc_err *err)
{
    free(*area);
    *area = malloc(bytes + 1);
    return *area ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for %s", v->name);
}

/* Whether n values of a type are all finite; integers and bytes are. */
static bool all_finite(const void *x, vc_dtype type, size_t n)
{
    const uint32_t *wide = x, mask32 = 0x7f800000;
    const uint16_t *half = x, mask16 = type == VC_BF16 ? 0x7f80 : 0x7c00;
    bool bad = false;
    if (type == VC_F32)
        for (size_t i = 0; i < n; i++)
            bad |= (wide[i] & mask32) == mask32;
    if (type == VC_BF16 || type == VC_F16)
        for (size_t i = 0; i < n; i++)
            bad |= (half[i] & mask16) == mask16;
    return !bad;
}

static int check_finite(const void *x, const vf_view *v, vc_err *err)
{
    if (all_finite(x, v->dtype, (size_t)vf_view_count(v)))
        return 0;
    return vc_fail(err, VC_ENUMERIC, "%s: a value is NaN or infinite", v->name);
}

/* Ends the last tensor, and begins t. */
static void next(vf_views *s, const vt_tensor *t)
{
    if (s->written && s->last)
        s->written(s->written_arg, s->last);
    s->last = t;
}

/* Gets the values of view i from the device, converted to the type in the file. */
static int get(void *arg, int i, const void **data, vc_err *err)
{
    vf_views *s = arg;
    const value *from = &s->from[i];
    const vf_view *v = &s->v[i];
    size_t n = (size_t)vf_view_count(v);
    next(s, from->t);
    if (!from->t) {
        *data = v->data;
        return check_finite(*data, v, err);
    }
    size_t room = vt_host_memory(s->g) ? 0 : n * vc_dtype_size(from->t->dtype);
    int rc = renew(&s->held, room, v, err);
    if (rc)
        return rc;
    *data = vt_param_get(s->g, from->t, s->held);
    if (from->t->dtype == v->dtype && from->scale == 1)
        return check_finite(*data, v, err);
    rc = renew(&s->converted, v->bytes, v, err);
    if (rc)
        return rc;
    convert(s->converted, v->dtype, *data, from->t->dtype, n, from->scale);
    *data = s->converted;
    return check_finite(*data, v, err);
}

int vf_views_write(vf_views *s, const char *dir, const char *file, const vf_meta *meta,
                   int n_meta, bool sealed, vf_sums *sums, vc_err *err)
{
    const vf_feed feed = { get, s };
    char *path = vc_path_join(dir, file);
    if (!path)
        return vc_no_memory(err);
    int rc = vf_safetensors_stream(path, s->v, s->n, meta, n_meta, &feed, sealed, sums,
                                   err);
    next(s, NULL);
    free(path);
    return rc;
}

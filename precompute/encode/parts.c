/* parts.c - see parts.h */
#include "precompute/encode/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int prep_grow(float **a, size_t *room, size_t n, vc_err *err)
{
    if (n <= *room)
        return 0;
    free(*a);
    *a = malloc(n * sizeof **a);
    *room = *a ? n : 0;
    return *a ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for %zu values", n);
}

/* ---- traces ---- */

int prep_trace(prep_encoder *e, const char *name, vc_dtype dtype, int nd, const int64_t *dim,
               const void *data, vc_err *err)
{
    trace_set *s = &e->trace;
    vf_view *t = &s->t[s->n];

    if (!e->p->c.trace_dir)
        return 0;
    snprintf(s->name[s->n], sizeof s->name[0], "%s", name);
    *t = (vf_view){ .name = s->name[s->n], .dtype = dtype, .nd = nd };
    memcpy(t->dim, dim, (size_t)nd * sizeof *dim);
    t->bytes = (size_t)vf_view_count(t) * vc_dtype_size(dtype);
    void *copy = malloc(t->bytes ? t->bytes : 1);
    if (!copy)
        return vc_fail(err, VC_ENOMEM, "out of memory for the trace of %s", name);
    t->data = memcpy(copy, data, t->bytes);
    s->n++;
    return 0;
}

/* Traces the outputs of the VAE for a value, by the names of docs/interface.md. */
int prep_trace_moments(prep_encoder *e, int v, int nd, const int64_t *dim, vc_err *err)
{
    const char *role = vc_roles[v].name;
    char name[40];

    snprintf(name, sizeof name, role ? "cond.%s.mean" : "moments.mean", role);
    int rc = prep_trace(e, name, VC_F32, nd, dim, e->mean, err);
    snprintf(name, sizeof name, role ? "cond.%s.logvar" : "moments.logvar", role);
    if (!rc)
        rc = prep_trace(e, name, VC_F32, nd, dim, e->logvar, err);
    return rc;
}

/* ---- moments ---- */

/* v [..,C,f,h,w] becomes [..,1,f,h,w]: the first channel. */
static void keep_one_channel(float *v, int nd, int64_t *dim)
{
    int64_t times = nd > 4 ? dim[0] : 1, channels = dim[nd - 4];
    size_t one = (size_t)(dim[nd - 3] * dim[nd - 2] * dim[nd - 1]);

    for (int64_t i = 1; i < times; i++)
        memmove(v + (size_t)i * one, v + (size_t)(i * channels) * one, one * sizeof *v);
    dim[nd - 4] = 1;
}

int prep_pack_moments(prep_encoder *e, uint8_t **value, size_t *bytes, int nd, const int64_t *dim,
                      const vprep_item *it, uint32_t place, bool logvar, bool one, vc_err *err)
{
    const vprep *p = e->p;
    bool sample = p->c.latent_store == STORE_SAMPLE;
    vf_view t[2] = { { .name = sample ? "sample" : "mean", .nd = nd },
                     { .name = "logvar", .nd = nd } };
    const float *values[2] = { e->mean, e->logvar };
    void *data[2] = { 0 };
    int count = p->c.latent_store == STORE_MOMENTS ? 2 : 1, rc = 0;
    size_t n = 1;

    for (int i = 0; i < nd; i++)
        n *= (size_t)dim[i];
    if (sample && logvar && it) {
        vprep_normals z = vprep_normals_of(p, it, VC_DRAW_POSTERIOR, place);
        for (size_t i = 0; i < n; i++)
            e->mean[i] += expf(0.5f * e->logvar[i]) * vprep_normal(&z);
    }
    for (size_t i = 0; i < n; i++)
        if (!isfinite(e->mean[i]) || (count > 1 && !isfinite(e->logvar[i])))
            return vc_fail(err, VC_ENUMERIC, "the encoder gave a value that is not finite");
    for (int i = 0; !rc && i < count; i++) {
        memcpy(t[i].dim, dim, (size_t)nd * sizeof *dim);
        if (i && one)
            keep_one_channel(e->logvar, nd, t[i].dim);
        n = (size_t)vf_view_count(&t[i]);
        rc = vprep_pack_dtype(&t[i].dtype, &data[i], values[i], n, p->c.dtype, err);
        t[i].data = data[i];
        t[i].bytes = n * vc_dtype_size(t[i].dtype);
    }
    if (!rc)
        rc = vf_safetensors_pack(value, bytes, t, count, NULL, 0, 1, err);
    free(data[0]);
    free(data[1]);
    return rc;
}

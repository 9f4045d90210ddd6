/* second_stream.c - rows of values and the second stream; see second_stream.h */
#include "common/memory/second_stream.h"

#include <stdlib.h>
#include <string.h>

#include "common/tensor/engine.h"

/* ---- rows ---- */

static vt_tensor row(void *x, vc_dtype type, size_t n)
{
    return (vt_tensor){ .dtype = type, .nd = 1, .dim = { (int64_t)n }, .stride = { 1 }, .data = x };
}

float *vt_values_new(vt_ctx *g, size_t n, vc_err *err)
{
    float *x = g->be->alloc(g->dev, n * sizeof *x);

    if (!x)
        vc_fail(err, VC_ENOMEM, "no memory for %zu bytes on the device", n * sizeof *x);
    return x;
}

void vt_values_free(vt_ctx *g, float *x, size_t n)
{
    if (x)
        g->be->free(g->dev, x, n * sizeof *x);
}

void vt_values_zero(vt_ctx *g, float *y, size_t n)
{
    vt_tensor t = row(y, VC_F32, n);

    if (n && g->be->host_memory)
        memset(y, 0, n * sizeof *y);
    else if (n)
        g->be->fill(g->dev, &t, 0.0f);
}

void vt_values_copy(vt_ctx *g, float *y, const float *x, size_t n)
{
    vt_values_cast(g, y, VC_F32, x, VC_F32, n);
}

void vt_values_add(vt_ctx *g, float *y, const float *x, size_t n)
{
    vt_tensor t = row(y, VC_F32, n), f = row((float *)x, VC_F32, n);

    if (g->be->host_memory)
        for (size_t i = 0; i < n; i++)
            y[i] += x[i];
    else if (n)
        g->be->scale(g->dev, &t, &f, 1.0f);
}

void vt_values_cast(vt_ctx *g, void *y, vc_dtype to, const void *x, vc_dtype from, size_t n)
{
    vt_tensor t = row(y, to, n), f = row((void *)(uintptr_t)x, from, n);

    if (n && g->be->host_memory && to == from)
        memcpy(y, x, n * vc_dtype_size(to));
    else if (n)
        g->be->copy(g->dev, &t, &f);
}

void vt_values_put(vt_ctx *g, void *y, vc_dtype to, const void *x, vc_dtype from, size_t n)
{
    vt_tensor t = row(y, to, n);

    if (n)
        vt_param_set(g, &t, x, from);
}

void vt_values_get(vt_ctx *g, void *y, const void *x, size_t bytes)
{
    if (bytes)
        g->be->download(g->dev, y, x, bytes);
}

/* ---- a second stream ---- */

int vt_second_stream_open(vt_ctx **out, vt_ctx *g, vc_err *err)
{
    *out = NULL;
    vt_ctx *second = calloc(1, sizeof *second);
    if (!second)
        return vc_no_memory(err);
    second->be = g->be;
    second->compute = g->compute;
    int rc = g->be->second ? g->be->second(&second->dev, g->dev, err) : 0;
    if (rc) {
        free(second);
        return rc;
    }
    *out = second;
    return 0;
}

void vt_adopt(vt_ctx *g)
{
    if (g->be->adopt)
        g->be->adopt(g->dev);
}

int vt_second_stream_status(vt_ctx *second, vc_err *err)
{
    return second->be->second ? second->be->status(second->dev, err) : 0;
}

int vt_event_open(vt_event **out, vt_ctx *g, vc_err *err)
{
    *out = NULL;
    if (!g->be->second)
        return 0;
    *out = g->be->event_open(g->dev);
    return *out ? 0 : g->be->status(g->dev, err);
}

void vt_event_close(vt_ctx *g, vt_event *e)
{
    if (e)
        g->be->event_close(e);
}

void vt_record_event(vt_ctx *g, vt_event *e)
{
    if (e)
        g->be->record(g->dev, e);
}

void vt_after(vt_ctx *g, vt_event *e)
{
    if (e)
        g->be->after(g->dev, e);
}

const vt_links *vt_links_of(const vt_ctx *second, vt_dev **dev)
{
    *dev = second->dev;
    return second->be->links;
}

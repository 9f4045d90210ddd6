/* trace.c - collects the tensors of a micro-batch, and writes them to a file; see trace.h */
#include "train/steps/trace.h"

#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"

struct vtrain_trace {
    char *dir;
    int rank;
    vf_view *view;               /* owns its names and data */
    int n, room;
};

int vtrain_trace_open(vtrain_trace **out, const char *dir, int rank, vc_err *err)
{
    *out = NULL;
    vtrain_trace *t = calloc(1, sizeof *t);
    if (!t)
        return vc_no_memory(err);
    t->rank = rank;
    t->dir = strdup(dir);
    int rc = t->dir ? vc_mkdirs(dir, err) : vc_no_memory(err);
    if (rc) {
        vtrain_trace_close(t);
        return vc_context(err, rc, "--trace_dir");
    }
    *out = t;
    return 0;
}

static void forget(vtrain_trace *t)
{
    for (int i = 0; i < t->n; i++) {
        free((char *)t->view[i].name);
        free((void *)t->view[i].data);
    }
    t->n = 0;
}

void vtrain_trace_close(vtrain_trace *t)
{
    if (!t)
        return;
    forget(t);
    free(t->view);
    free(t->dir);
    free(t);
}

/* Adds floats of sizes dim under a name, both malloc'ed, and owns both even on an error. */
static int take(vtrain_trace *t, char *name, int nd, const int64_t *dim, float *x, vc_err *err)
{
    if (t->n == t->room) {
        int room = t->room ? 2 * t->room : 64;
        vf_view *view = realloc(t->view, sizeof *view * (size_t)room);
        if (view) {
            t->view = view;
            t->room = room;
        }
    }
    if (!name || !x || t->n == t->room) {
        free(name);
        free(x);
        return vc_fail(err, VC_ENOMEM, "trace: out of memory");
    }
    vf_view *v = &t->view[t->n++];
    *v = (vf_view){ .name = name, .dtype = VC_F32, .nd = nd, .data = x };
    memcpy(v->dim, dim, sizeof *dim * (size_t)nd);
    v->bytes = (size_t)vf_view_count(v) * sizeof(float);
    return 0;
}

int vtrain_trace_tensor(vtrain_trace *t, vt_ctx *g, const char *name, const vt_tensor *x,
                        vc_err *err)
{
    if (!x)
        return vc_fail(err, VC_EFAIL, "trace: the tensor %s is missing", name);
    float *copy = malloc(sizeof *copy * (size_t)vt_count(x));
    int rc = copy ? vt_to_host(g, x, copy, err) : 0;
    if (rc) {
        free(copy);
        return rc;
    }
    return take(t, strdup(name), x->nd, x->dim, copy, err);
}

int vtrain_trace_values(vtrain_trace *t, const char *name, int nd, const int64_t *dim,
                        const float *x, vc_err *err)
{
    size_t n = 1;
    for (int i = 0; i < nd; i++)
        n *= (size_t)dim[i];
    float *copy = malloc(sizeof *copy * n);
    if (copy)
        memcpy(copy, x, sizeof *copy * n);
    return take(t, strdup(name), nd, dim, copy, err);
}

int vtrain_trace_param(vtrain_trace *t, vt_ctx *g, const vt_param *p, bool grad, float scale,
                       vc_err *err)
{
    const vt_tensor *x = grad ? p->grad : p->t;
    char *name = vc_format("%s/%s%s", grad ? "grad" : "param", p->model ? "transformer_2." : "",
                           p->name);
    if (!name)
        return vc_fail(err, VC_ENOMEM, "trace: out of memory");
    int rc = vtrain_trace_tensor(t, g, name, x, err);
    free(name);
    if (rc || !grad)
        return rc;
    float *v = (float *)t->view[t->n - 1].data;
    for (int64_t i = 0; i < vt_count(x); i++)
        v[i] *= scale;
    return 0;
}

int vtrain_trace_write(vtrain_trace *t, int64_t step, int64_t micro_in_step, vc_err *err)
{
    char *path = vc_format("%s/step-%06lld-mb-%02lld-rank-%02d.safetensors", t->dir,
                           (long long)step, (long long)micro_in_step, t->rank);
    if (!path)
        return vc_fail(err, VC_ENOMEM, "trace: out of memory");
    int rc = vf_safetensors_write(path, t->view, t->n, NULL, 0, err);
    free(path);
    forget(t);
    return vc_context(err, rc, "--trace_dir");
}

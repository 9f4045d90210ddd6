#include "train/values.h"

#include <stdlib.h>
#include <string.h>

#include "common/file.h"

int vtrain_values_set(vt_tensor *t, const vf_view *v, vc_err *err)
{
    bool same = v->nd == t->nd;
    for (int i = 0; same && i < t->nd; i++)
        same = v->dim[i] == t->dim[i];
    if (!same || t->dtype != VC_F32 || !vt_packed(t))
        return vc_fail(err, VC_EMISMATCH, "tensor \"%s\": another shape than the model's",
                       v->name);
    vc_to_f32(t->data, v->data, v->dtype, (size_t)vt_count(t));
    return 0;
}

vf_view vtrain_values_view(const vt_tensor *t, const char *name)
{
    vf_view v = { .name = name, .dtype = t->dtype, .nd = t->nd, .data = t->data,
                  .bytes = (size_t)vt_count(t) * vc_dtype_size(t->dtype) };
    memcpy(v.dim, t->dim, sizeof *t->dim * (size_t)t->nd);
    return v;
}

/* ---- many ---- */

int vtrain_views_open(vtrain_views *s, int room, vc_err *err)
{
    *s = (vtrain_views){ .room = room };
    s->v = calloc((size_t)room + 1, sizeof *s->v);
    s->name = calloc((size_t)room + 1, sizeof *s->name);
    s->area = calloc((size_t)room + 1, sizeof *s->area);
    return s->v && s->name && s->area ? 0 : vc_fail(err, VC_ENOMEM, "out of memory");
}

void vtrain_views_close(vtrain_views *s)
{
    for (int i = 0; i < s->n; i++) {
        free(s->name[i]);
        free(s->area[i]);
    }
    free(s->v);
    free(s->name);
    free(s->area);
    *s = (vtrain_views){ 0 };
}

/* Values of their own, in another type or size. */
static int convert(vf_view *v, void **own, vc_dtype type, double scale, vc_err *err)
{
    size_t n = (size_t)vf_view_count(v), bytes = n * vc_dtype_size(type);
    float *f = malloc(n * sizeof *f + 1);
    void *area = *own = malloc(bytes + 1);
    if (f && area) {
        vc_to_f32(f, v->data, v->dtype, n);
        for (size_t i = 0; scale != 1 && i < n; i++)
            f[i] *= (float)scale;
        vc_from_f32(area, type, f, n);
    }
    free(f);
    if (!f || !area) return vc_fail(err, VC_ENOMEM, "out of memory for %s", v->name);
    v->dtype = type;
    v->data = area;
    v->bytes = bytes;
    return 0;
}

int vtrain_views_add(vtrain_views *s, const char *prefix, const char *name, const char *suffix,
                     const vt_tensor *t, vc_dtype type, double scale, vc_err *err)
{
    char *full = s->name[s->n] = vc_format("%s%s%s", prefix, name, suffix);
    if (!full) return vc_fail(err, VC_ENOMEM, "out of memory");
    vf_view *v = &s->v[s->n];
    *v = vtrain_values_view(t, full);
    void **own = &s->area[s->n++];
    return v->dtype == type && scale == 1 ? 0 : convert(v, own, type, scale, err);
}

int vtrain_views_write(const vtrain_views *s, const char *dir, const char *file,
                       const vf_meta *meta, int n_meta, vc_err *err)
{
    char *path = vc_path_join(dir, file);
    if (!path) return vc_fail(err, VC_ENOMEM, "out of memory");
    int rc = vf_safetensors_write(path, s->v, s->n, meta, n_meta, err);
    free(path);
    return rc;
}

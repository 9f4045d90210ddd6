/* model_tensors.c - the tensors of an open component, sorted by name; see model.h */
#include <stdlib.h>
#include <string.h>

#include "formats/tensors/model_parts.h"

static int by_name(const void *pa, const void *pb)
{
    return strcmp(((const vf_view *)pa)->name, ((const vf_view *)pb)->name);
}

static int sort(vf_view *v, int n, const char *what, vc_err *err)
{
    if (n)
        qsort(v, (size_t)n, sizeof *v, by_name);
    for (int i = 1; i < n; i++)
        if (!strcmp(v[i - 1].name, v[i].name))
            return vc_fail(err, VC_EFORMAT, "two %s %s", what, v[i].name);
    return 0;
}

int vf_model_sort(vf_model *m, vc_err *err)
{
    return sort(m->tensor, m->n, "tensors are called", err);
}

int vf_model_sort_scales(vf_model *m, vc_err *err)
{
    return sort(m->scale, m->n_scales, "tensors are the scale of", err);
}

const vf_view *vf_model_find(const vf_view *v, int n, const char *name)
{
    const vf_view key = { .name = name };
    return n ? bsearch(&key, v, (size_t)n, sizeof key, by_name) : NULL;
}

int vf_model_get(const vf_model *m, const char *name, vf_view *v, vc_err *err)
{
    const vf_view *hit = vf_model_find(m->tensor, m->n, name);
    *v = hit ? *hit : (vf_view){ 0 };
    return hit ? 0 : vc_fail(err, VC_ENOENT, "no tensor %s", name);
}

int vf_model_count(const vf_model *m)
{
    return m->n;
}

const vf_view *vf_model_at(const vf_model *m, int i)
{
    return &m->tensor[i];
}

void vf_model_release(const vf_model *m)
{
    for (int i = 0; i < m->n_shards; i++)
        vf_safetensors_release(m->shard[i]);
    if (m->pt)
        vf_pt_release(m->pt);
}

void vf_model_close(vf_model *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->n_shards; i++)
        vf_safetensors_close(m->shard[i]);
    for (int i = 0; i < m->n_names; i++)
        free(m->name[i]);
    for (int i = 0; i < m->n_made; i++)
        free(m->made[i]);
    free(m->made);
    vf_pt_close(m->pt);
    free(m->shard);
    free(m->tensor);
    free(m->scale);
    free(m->name);
    free(m);
}

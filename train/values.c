#include "train/values.h"

#include <string.h>

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

/* net.c - see net.h */
#include "precompute/sound/net.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/tensors/component.h"

int sound_net_begin(sound_net *n, const encoder_opts *o, vc_err *err)
{
    const vt_options device = encoder_device(o);
    int rc = vf_component_open(&n->file, o->dir, "audio_vae", err);

    n->dir = o->dir;
    n->err = err;
    if (!rc)
        rc = vt_open(&n->g, &device, err);
    return n->rc = rc ? rc : vt_params_open(&n->params, n->g, err);
}

void sound_net_bind(sound_net *n, const vt_weight *table, void *base, int64_t out, int64_t in,
                    const char *name, ...)
{
    const vt_source from = vf_model_source(n->file);
    char prefix[160];
    va_list ap;

    va_start(ap, name);
    vsnprintf(prefix, sizeof prefix, name, ap);
    va_end(ap);
    if (!n->rc)
        n->rc = vt_params_bind(n->params, table, prefix, 0, base, (int64_t[]){ 0, out, in }, &from,
                               n->err);
}

int sound_net_end(sound_net *n, const char *const *spare)
{
    if (!n->rc)
        n->rc = vf_model_all_bound(n->file, n->params, spare, n->err);
    return vc_context(n->err, n->rc, "%s", n->dir);
}

void sound_net_close(sound_net *n)
{
    vt_params_close(n->params);
    vt_close(n->g);
    vf_model_close(n->file);
}

int sound_net_numbers(const sound_net *n, const char *name, int count, double *out, vc_err *err)
{
    vf_view v;
    int rc = vf_model_get(n->file, name, &v, err);

    if (rc)
        return rc;
    if (vf_view_count(&v) != count || v.dtype > VC_F16)
        return vc_fail(err, VC_EMISMATCH, "tensor %s has %lld values of type %s; it must have %d "
                       "numbers", name, (long long)vf_view_count(&v), vc_dtype_name(v.dtype),
                       count);
    float *values = malloc((size_t)count * sizeof *values);
    if (!values)
        return vc_no_memory(err);
    vc_to_f32(values, v.data, v.dtype, (size_t)count);
    for (int i = 0; !rc && i < count; i++) {
        out[i] = (double)values[i];
        if (!isfinite(values[i]))
            rc = vc_fail(err, VC_EFORMAT, "tensor %s: value %d is %g, not a finite number", name, i,
                         out[i]);
    }
    free(values);
    return rc;
}

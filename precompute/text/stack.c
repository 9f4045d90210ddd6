/* stack.c - a text encoder's folder, ids and states: see stack.h */
#include "precompute/text/stack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tensors/component.h"

/* ---- open and close ---- */

int text_config_open(cJSON **out, const encoder_opts *o, const char *model_type, vc_err *err)
{
    *out = NULL;
    if (!o->dir)
        return vc_fail(err, VC_EINVAL, "%s text encoder: no folder is given", model_type);
    if (o->dtype != VC_F32 && o->dtype != VC_BF16)
        return vc_fail(err, VC_EINVAL, "%s: activations in %s are not possible: give f32 or bf16 "
                       "(the sums of the layers exceed the range of f16)", o->dir,
                       o->dtype < 0 ? "no type" : vc_dtype_name(o->dtype));
    return vf_component_config(out, o->dir, NULL, model_type, err);
}

int text_config_bad(const encoder_opts *o, int rc, vc_err *err)
{
    return vc_context(err, rc, "%s/config.json", o->dir);
}

int text_stack_open(text_stack *s, const encoder_opts *o, bool batches, vc_err *err)
{
    vt_options opts = encoder_device(o);

    opts.batches = s->batches = batches;
    int rc = vf_component_open(&s->model, o->dir, "text_encoder", err);
    if (!rc)
        rc = vt_open(&s->g, &opts, err);
    return rc ? rc : vt_params_open(&s->p, s->g, err);
}

void text_stack_close(text_stack *s)
{
    vt_params_close(s->p);
    vt_close(s->g);
    vf_model_close(s->model);
    *s = (text_stack){ 0 };
}

int text_stack_all_bound(const text_stack *s, const char *prefix, text_spare *spare,
                         const void *arg, vc_err *err)
{
    const size_t n = strlen(prefix);

    for (int i = 0; i < vf_model_count(s->model); i++) {
        const char *name = vf_model_at(s->model, i)->name;
        if (!strncmp(name, prefix, n) && !(spare && spare(arg, name + n)) &&
            !vt_params_find(s->p, name))
            return vc_fail(err, VC_EMISMATCH, "tensor %s is not used: config.json describes a "
                           "model without this tensor", name);
    }
    return 0;
}

/* ---- a text ---- */

int text_batch(const text_stack *s)
{
    return s->batches && vt_batch_keeps_bits(s->g) ? TEXT_BATCH : 1;
}

int text_total(const text_ids *t, int texts)
{
    int n = 0;

    for (int i = 0; i < texts; i++)
        n += t[i].n;
    return n;
}

int text_ids_known(const text_ids *t, int64_t vocab, vc_err *err)
{
    if (t->n < 1)
        return vc_fail(err, VC_EINVAL, "text encoder: no token to encode");
    for (int i = 0; i < t->n; i++)
        if (t->id[i] < 0 || t->id[i] >= vocab)
            return vc_fail(err, VC_EINVAL, "token %d has id %lld, and the text encoder has ids "
                           "0..%lld: is this its tokenizer?", i, (long long)t->id[i],
                           (long long)vocab - 1);
    return 0;
}

int text_ids_copy(int32_t **out, const text_ids *t, int texts, int64_t vocab, vc_err *err)
{
    const int total = text_total(t, texts);
    int rc = 0, n = 0;

    *out = NULL;
    for (int i = 0; !rc && i < texts; i++)
        rc = text_ids_known(&t[i], vocab, err);
    if (rc)
        return rc;
    int32_t *id = malloc((size_t)total * sizeof *id);
    if (!id)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d tokens", total);

    for (int i = 0; i < texts; i++)
        for (int k = 0; k < t[i].n; k++)
            id[n++] = (int32_t)t[i].id[k];
    *out = id;
    return 0;
}

int text_finite(const text_stack *s, const float *x, size_t n, vc_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return vc_fail(err, VC_ENUMERIC, "the encoder's states are not finite: its weights are "
                           "damaged, or out of the range of %s", vc_dtype_name(vt_compute(s->g)));
    return 0;
}

int text_stack_end(text_stack *s, const vt_tensor *x, float *states, vc_err *err)
{
    size_t n = x ? (size_t)vt_count(x) : 0;
    int rc = vt_to_host(s->g, x, states, err);
    int end = vt_step_end(s->g, err);             /* the step's first failure */

    if (!end)
        end = rc;
    return end ? end : text_finite(s, states, n, err);
}

vt_tensor *text_heads(vt_ctx *g, vt_tensor *x, int64_t heads)
{
    return x ? vt_reshape(g, x, 4, (int64_t[]){ x->dim[0], x->dim[1], heads, x->dim[2] / heads })
             : NULL;
}

static vt_tensor *joined(vt_ctx *g, vt_tensor *x)
{
    return x ? vt_reshape(g, x, 3, (int64_t[]){ x->dim[0], x->dim[1], x->dim[2] * x->dim[3] })
             : NULL;
}

/* Rows begin..end-1 of x [1,total,.,d] behind the first n of `front`. */
static vt_tensor *behind(vt_ctx *g, vt_tensor *front, int n, vt_tensor *x, int64_t begin,
                         int64_t end)
{
    vt_tensor *own = vt_slice(g, x, 1, begin, end);
    vt_tensor *part[2] = { n ? vt_slice(g, front, 1, 0, n) : NULL, own };

    return n ? vt_concat(g, 1, 2, part) : own;
}

vt_tensor *text_attention(vt_ctx *g, vt_tensor *q, vt_tensor *k, vt_tensor *v, const text_ids *t,
                          int texts, vt_tensor *const *bias, vt_tensor *const *seen,
                          const text_front *front, const vt_attn *how)
{
    const text_front none = { 0 }, *f = front ? front : &none;
    vt_tensor *out[TEXT_BATCH];
    int64_t at = 0;

    for (int i = 0; i < texts; at += t[i++].n) {
        const int64_t end = at + t[i].n;
        const int n = f->n ? f->n[i] : 0;
        vt_attn own = *how;
        own.bias = bias ? bias[i] : NULL;
        own.kv_len = seen ? seen[i] : NULL;
        out[i] = vt_attention(g, behind(g, f->q, n, q, at, end), behind(g, f->k, n, k, at, end),
                              behind(g, f->v, n, v, at, end), &own);
        out[i] = vt_slice(g, out[i], 1, n, n + t[i].n);
    }
    return joined(g, texts > 1 ? vt_concat(g, 1, texts, out) : out[0]);
}

/* cogvideox_model.c - the small CogVideoX models of the goldens; see cogvideox_model.h */
#include "tests/lib/ok.h"
#include "tests/train/models/cogvideox_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void cog_open_parts(cog *m, const char *name, vc_dtype stored, vc_dtype compute)
{
    const vt_options o = { .device = golden_device(), .threads = 1, .compute = compute };
    const char *dir = golden_tmp(name), *text;
    vc_err err = { 0 };
    *m = (cog){ .golden = golden_open(name) };
    text = vf_safetensors_meta(m->golden, "config");
    golden_model(m->golden, dir, stored);
    if (vf_json_parse(&m->config, text, strlen(text), &err) ||
        vf_model_open(&m->file, dir, &err) || vt_open(&m->g, &o, &err) ||
        vt_params_open(&m->params, m->g, &err))
        fail_msg("%s: %s", name, err.text);
}

void cog_open(cog *m, const char *name, vc_dtype stored, vc_dtype compute)
{
    vc_err err = { 0 };
    cog_open_parts(m, name, stored, compute);
    const vt_source src = vf_model_source(m->file);
    if (vtrain_dit_open(&m->model, &vtrain_cogvideox, m->config, m->params, &src, &err) ||
        vf_model_all_bound(m->file, m->params, NULL, &err))
        fail_msg("%s: %s", name, err.text);
}

void cog_close(cog *m)
{
    vtrain_dit_close(m->model);
    vt_params_close(m->params);
    vt_close(m->g);
    vf_model_close(m->file);
    cJSON_Delete(m->config);
    vf_safetensors_close(m->golden);
}

float *cog_read(const cog *m, const vt_tensor *t)
{
    vc_err err = { 0 };
    float *x = malloc((size_t)vt_count(t) * sizeof *x);
    assert_ok(vt_to_host(m->g, t, x, &err), &err);
    return x;
}

static float *values(const vf_safetensors *f, const char *name, const char *what, int64_t *dim)
{
    char full[96];
    int64_t d[8];
    vf_view v;
    snprintf(full, sizeof full, "%s/%s", name, what);
    if (vf_safetensors_get(f, full, &v, NULL)) return NULL;
    float *x = golden_values(f, full, d);
    if (dim) memcpy(dim, d, sizeof *d * (size_t)v.nd);
    return x;
}

void cog_case_open(cog_case *c, const vf_safetensors *f, const char *name)
{
    static const char *const roles[VTRAIN_ROLES] = {
        [VTRAIN_ROLE_IMAGE] = "cond.image", [VTRAIN_ROLE_VIDEO] = "cond.video",
        [VTRAIN_ROLE_MASK] = "cond.mask",
    };
    *c = (cog_case){ 0 };
    c->x = values(f, name, "x", c->dim);
    c->target = values(f, name, "target", NULL);
    c->t = values(f, name, "t", NULL);
    c->text = values(f, name, "text", c->text_dim);
    c->output = values(f, name, "output", NULL);
    float *loss = values(f, name, "loss", NULL);
    c->loss = loss ? loss[0] : 0;
    free(loss);
    for (int i = 0; i < VTRAIN_ROLES; i++)
        c->cond[i] = values(f, name, roles[i], c->cond_dim[i]);
    for (int i = 0; i < c->dim[0]; i++)
        c->length[i] = (int32_t)c->text_dim[1];
    assert_true(c->x && c->target && c->t && c->text && c->dim[0] <= 8);
}

void cog_case_close(cog_case *c)
{
    free(c->x);
    free(c->target);
    free(c->t);
    free(c->text);
    free(c->output);
    for (int i = 0; i < VTRAIN_ROLES; i++)
        free(c->cond[i]);
}

vt_tensor *cog_forward(cog *m, const cog_case *c, vt_remat remat)
{
    vtrain_in in = {
        .x = vt_from_host(m->g, VC_F32, 5, c->dim, c->x, VC_F32),
        .t = vt_from_host(m->g, VC_F32, 1, c->dim, c->t, VC_F32),
        .n_texts = 1, .recompute = remat == VT_RECOMPUTE ? 1000 : 0,
        .text = { { .embeds = vt_from_host(m->g, VC_F32, 3, c->text_dim, c->text, VC_F32),
                    .length = c->length } },
    };
    for (int i = 0; i < VTRAIN_ROLES; i++)
        if (c->cond[i])
            in.cond[i] = vt_from_host(m->g, VC_F32, 5, c->cond_dim[i], c->cond[i], VC_F32);
    return vtrain_forward(m->g, m->model, &in);
}

float cog_step(cog *m, const cog_case *c, vt_remat remat, float *out)
{
    bool train = vt_params_bytes(m->params).trained > 0;
    vc_err err = { 0 };
    vt_params_zero_grad(m->params);
    vt_step_begin(m->g, train ? VT_RECORD : 0);
    vt_tensor *y = cog_forward(m, c, remat);
    vt_tensor *target = vt_from_host(m->g, VC_F32, 5, c->dim, c->target, VC_F32);
    vt_tensor *loss = vt_mse(m->g, y, target, NULL);
    assert_ok(out && y && vt_to_host(m->g, y, out, &err), &err);
    if (train) vt_backward(m->g, loss);
    float value = vt_item(m->g, loss);
    assert_ok(vt_step_end(m->g, &err), &err);
    if (train) vt_params_settle(m->params);
    return value;
}

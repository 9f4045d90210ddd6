/* test_lora_forms.c - LoRA files in every naming in use, on the tiny models of all families: each
 * weight becomes W + scale B A. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/model.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "train/models/dit.h"
#include "train/models/flux.h"
#include "train/models/hunyuan.h"
#include "train/models/lora.h"
#include "train/models/ltx.h"
#include "train/models/wan.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { MOST = 400, RANK = 3 };
#define ALPHA 1.5f

static const struct model { const vtrain_family *family; const char *golden; } models[] = {
    { &vtrain_cogvideox, "cogvideox-2b" }, { &vtrain_hunyuan, "hunyuan" }, { &vtrain_ltx, "ltx" },
    { &vtrain_wan, "wan" },                { &vtrain_qwen, "qwen" },       { &vtrain_flux, "flux-dev" },
};

/* `theirs`: modules have the names of the family's first authors, where it has a table; `peer`:
 * those of the other table. */
static const struct naming {
    const char *prefix, *a, *b;
    bool flat, theirs, peer, alpha;
    const char *transformer;
} namings[] = {
#define PEFT ".lora_A.weight", ".lora_B.weight"
#define NAMED ".lora_A.default.weight", ".lora_B.default.weight"
#define KOHYA ".lora_down.weight", ".lora_up.weight"
    { "transformer.", PEFT, false, false, false, false, NULL },              /* diffusers */
    { "transformer.", KOHYA, false, false, false, true, NULL },
    { "transformer.", ".lora_A", ".lora_B", false, false, false, false, NULL },
    { "transformer.", ".lora.down.weight", ".lora.up.weight", false, false, false, false, NULL },
    { "", PEFT, false, false, false, false, NULL },                          /* VideoX-Fun */
    { "base_model.model.", PEFT, false, false, false, false, NULL },         /* PEFT */
    { "base_model.model.", NAMED, false, false, false, false, NULL },
    { "transformer.base_model.model.", PEFT, false, false, false, false, NULL },
    { "", NAMED, false, true, false, false, NULL },                          /* DiffSynth-Studio */
    { "pipe.dit.", NAMED, false, true, true, false, NULL },
    { "module.", PEFT, false, false, false, false, NULL },
    { "_orig_mod.", PEFT, false, false, false, false, NULL },
    { "dit.", PEFT, false, true, false, false, NULL },
    { "unet.", PEFT, false, false, false, false, NULL },
    { "unet.base_model.model.", PEFT, false, false, false, false, NULL },
    { "diffusion_model.", PEFT, false, true, false, false, NULL },           /* diffusion-pipe */
    { "diffusion_model.", KOHYA, false, true, false, true, NULL },           /* ComfyUI */
    { "model.diffusion_model.", PEFT, false, true, false, false, NULL },
    { "lora_unet_", KOHYA, true, true, false, true, NULL },                  /* musubi-tuner, kohya */
    { "lora_unet__", KOHYA, true, true, false, true, NULL },                 /* VideoX-Fun */
    { "lora_unet__", KOHYA, true, false, false, true, NULL },
    { "lora_transformer_", KOHYA, true, false, false, true, NULL },          /* OneTrainer */
    { "lora_transformer_", KOHYA, true, true, false, true, NULL },
    { "lycoris_", KOHYA, true, false, false, true, NULL },                   /* SimpleTuner */
    { "transformer_2.", PEFT, false, false, false, false, "transformer_2" },
    { "transformer_2.", KOHYA, false, true, false, true, "transformer_2" },
    { "pipe.dit2.", NAMED, false, true, false, false, "transformer_2" },
};

static float value(size_t i) { return sinf((float)(i % 1013) * 0.7f); }

/* A LoRA's file while it is made. */
typedef struct making {
    vf_view v[MOST];
    char *name[MOST];
    float *held[MOST];
    int n;
} making;

static void add(making *m, const struct naming *how, const char *module, const char *end, int nd,
                int64_t rows, int64_t columns)
{
    vf_view *v = &m->v[m->n];
    assert_true(m->n < MOST);
    char *name = m->name[m->n] = vc_format("%s%s%s", how->prefix, module, end);
    const size_t n = nd ? (size_t)(rows * columns) : 1, path = strlen(how->prefix) + strlen(module);
    float *f = m->held[m->n++] = malloc(sizeof *f * n);
    for (size_t i = 0; how->flat && i < path; i++)
        if (name[i] == '.')
            name[i] = '_';
    for (size_t i = 0; i < n; i++)
        f[i] = nd ? value(i + (size_t)m->n) : ALPHA;
    *v = (vf_view){ .name = name, .dtype = VC_F32, .nd = nd, .dim = { rows, columns }, .data = f,
                    .bytes = sizeof *f * n };
}

static int64_t rows_of(const vf_model *file, const char *module, int64_t *in)
{
    char *name = vc_format("%s.weight", module);
    vf_view v;
    const bool found = !vf_model_get(file, name, &v, NULL) && v.nd == 2;
    free(name);
    if (found)
        *in = v.dim[1];
    return found ? v.dim[0] : 0;
}

/* Adds the pair of a module, or, when called for the first of the modules that are fused with it,
 * of their row. */
static void add_module(making *m, const struct naming *how, const vtrain_rename *table,
                       const vf_model *file, const char *module)
{
    vtrain_renamed r = { 0 };
    vc_err err = { 0 };
    int64_t in = 0, rows = rows_of(file, module, &in);
    assert_ok(vtrain_rename_find(&r, table, module, &err), &err);
    if (!r.part) {
        for (int i = 1; i < r.parts; i++) {
            char *other = vtrain_rename_sibling(&r, i);
            rows += rows_of(file, other, &in);
            free(other);
        }
        const char *name = r.row ? r.theirs : module;
        add(m, how, name, how->a, 2, RANK, in);
        add(m, how, name, how->b, 2, rows, RANK);
        if (how->alpha)
            add(m, how, name, ".alpha", 0, 1, 1);
    }
    free(r.theirs);
}

static char *module_of(const vf_view *v)
{
    const size_t n = strlen(v->name);
    return v->nd == 2 && strstr(v->name, "blocks.") && n > 7 && !strcmp(v->name + n - 7, ".weight")
               ? strndup(v->name, n - 7) : NULL;
}

static const vf_view *made(const making *m, const struct naming *how, const char *module,
                           const char *end)
{
    char *name = vc_format("%s%s%s", how->prefix, module, end);
    for (size_t i = 0; how->flat && i < strlen(how->prefix) + strlen(module); i++)
        if (name[i] == '.')
            name[i] = '_';
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->name[i], name)) {
            free(name);
            return &m->v[i];
        }
    fail_msg("%s was not made", name);
    return NULL;
}

/* Compares a merged weight with W + scale B A. */
static void check_weight(const making *m, const struct naming *how, const vtrain_rename *table,
                         const vf_view *w, const vt_host *got, const char *module)
{
    vtrain_renamed r = { 0 };
    vc_err err = { 0 };
    const int64_t out = w->dim[0], in = w->dim[1];
    assert_ok(vtrain_rename_find(&r, table, module, &err), &err);
    const char *name = r.row ? r.theirs : module;
    const float *a = made(m, how, name, how->a)->data, *b;
    const vf_view *up = made(m, how, name, how->b);
    int64_t first = 0, rows = out;
    if (r.row)
        assert_true(vtrain_rename_rows(&r, up->dim[0], &first, &rows));
    assert_int_equal(rows, out);
    b = (const float *)up->data + first * RANK;
    float *want = malloc(sizeof *want * (size_t)(out * in));
    memcpy(want, w->data, sizeof *want * (size_t)(out * in));
    vtrain_lora_merge(want, out, in, a, b, RANK, how->alpha ? (double)ALPHA / RANK : 1);
    if (memcmp(want, got->data, sizeof *want * (size_t)(out * in)))
        fail_msg("%s%s: another weight", how->prefix, module);
    free(want);
    free(r.theirs);
}

static void check(const struct model *model, const struct naming *how)
{
    vf_safetensors *golden = golden_open(model->golden);
    const char *dir = golden_tmp(model->golden);
    const vtrain_rename *table = how->peer && model->family->peer_names ? model->family->peer_names
                               : how->theirs ? model->family->lora_names : NULL;
    making *m = calloc(1, sizeof *m);
    vf_model *file;
    vtrain_lora *l;
    vc_err err = { 0 };
    golden_model(golden, dir, VC_F32);
    assert_ok(vf_model_open(&file, dir, &err), &err);
    for (int i = 0; i < vf_model_count(file); i++) {
        char *module = module_of(vf_model_at(file, i));
        if (module)
            add_module(m, how, table, file, module);
        free(module);
    }
    char *path = vc_path_join(golden_tmp("forms"), "x.safetensors");
    assert_ok(vf_safetensors_write(path, m->v, m->n, NULL, 0, &err), &err);
    if (vtrain_lora_open(&l, path, &err))
        fail_msg("%s, %s: %s", model->golden, how->prefix, err.text);
    vtrain_lora_rename(l, model->family->lora_names, model->family->peer_names);
    assert_ok(vtrain_lora_check_of(l, how->transformer ? how->transformer : "transformer", &err),
              &err);
    const vt_source base = vf_model_source(file), src = vtrain_lora_source(l, &base, false);
    for (int i = 0; i < vf_model_count(file); i++) {
        const vf_view *w = vf_model_at(file, i);
        vt_host got;
        char *module = module_of(w);
        assert_ok(src.get(src.arg, w->name, &got, &err), &err);
        if (module)
            check_weight(m, how, table, w, &got, module);
        else
            assert_ptr_equal(got.data, w->data);
        free(module);
    }
    if (vtrain_lora_all_used(l, NULL, &err))
        fail_msg("%s, %s: %s", model->golden, how->prefix, err.text);
    vtrain_lora_close(l);
    vf_model_close(file);
    vf_safetensors_close(golden);
    for (int i = 0; i < m->n; i++) {
        free(m->name[i]);
        free(m->held[i]);
    }
    free(m);
    free(path);
}

static void test_namings(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(models); i++)
        for (size_t k = 0; k < COUNT(namings); k++)
            check(&models[i], &namings[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_namings) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

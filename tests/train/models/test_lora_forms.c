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
    const char *from;                        /* the first row of the other table that is used;
                                              * modules without a row are left out */
} namings[] = {
#define PEFT ".lora_A.weight", ".lora_B.weight"
#define NAMED ".lora_A.default.weight", ".lora_B.default.weight"
#define KOHYA ".lora_down.weight", ".lora_up.weight"
    { "transformer.", PEFT, false, false, false, false, NULL, NULL },              /* diffusers */
    { "transformer.", KOHYA, false, false, false, true, NULL, NULL },
    { "transformer.", ".lora_A", ".lora_B", false, false, false, false, NULL, NULL },
    { "transformer.", ".lora.down.weight", ".lora.up.weight", false, false, false, false, NULL, NULL },
    { "", PEFT, false, false, false, false, NULL, NULL },                          /* VideoX-Fun */
    { "base_model.model.", PEFT, false, false, false, false, NULL, NULL },         /* PEFT */
    { "base_model.model.", NAMED, false, false, false, false, NULL, NULL },
    { "transformer.base_model.model.", PEFT, false, false, false, false, NULL, NULL },
    { "", NAMED, false, true, false, false, NULL, NULL },                          /* DiffSynth-Studio */
    { "pipe.dit.", NAMED, false, true, true, false, NULL, NULL },
    { "module.", PEFT, false, false, false, false, NULL, NULL },
    { "_orig_mod.", PEFT, false, false, false, false, NULL, NULL },
    { "dit.", PEFT, false, true, false, false, NULL, NULL },
    { "unet.", PEFT, false, false, false, false, NULL, NULL },
    { "unet.base_model.model.", PEFT, false, false, false, false, NULL, NULL },
    { "diffusion_model.", PEFT, false, true, false, false, NULL, NULL },           /* diffusion-pipe */
    { "diffusion_model.", KOHYA, false, true, false, true, NULL, NULL },           /* ComfyUI */
    { "diffusion_model.", KOHYA, false, true, true, true, NULL, NULL },
    { "model.diffusion_model.", PEFT, false, true, false, false, NULL, NULL },
    { "lora_unet_", KOHYA, true, true, false, true, NULL, NULL },                  /* musubi-tuner, kohya */
    { "lora_unet__", KOHYA, true, true, false, true, NULL, NULL },                 /* VideoX-Fun */
    { "lora_unet__", KOHYA, true, false, false, true, NULL, NULL },
    { "lora_transformer_", KOHYA, true, false, false, true, NULL, NULL },          /* OneTrainer */
    { "lora_transformer_", KOHYA, true, true, false, true, NULL, NULL },
    { "lycoris_", KOHYA, true, false, false, true, NULL, NULL },                   /* SimpleTuner */
    { "transformer_2.", PEFT, false, false, false, false, "transformer_2", NULL },
    { "transformer_2.", KOHYA, false, true, false, true, "transformer_2", NULL },
    { "pipe.dit2.", NAMED, false, true, false, false, "transformer_2", NULL },
};

/* XLabs' layers of attention's processors. */
static const struct naming processors = {
    "", ".down.weight", ".up.weight", false, false, true, false, NULL,
    "double_blocks.#.processor.qkv_lora1"
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
    if (!r.part && (r.row || !how->from)) {
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
    if (!r.row && how->from) {
        assert_ptr_equal(got->data, w->data);
        return;
    }
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
    while (how->from && strcmp(table->theirs, how->from))
        table++;
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
    check(&models[COUNT(models) - 1], &processors);
}

/* ---- two transformers in a file ---- */

static void test_halves(void **state)
{
    static const float one[2] = { 1, 2 }, two[2] = { 3, 4 };
    const vf_view v[] = {
        { "transformer.a.lora_A.weight", VC_F32, 2, { 1, 2 }, one, 8 },
        { "transformer.a.lora_B.weight", VC_F32, 2, { 2, 1 }, one, 8 },
        { "transformer_2.a.lora_A.weight", VC_F32, 2, { 1, 2 }, two, 8 },
        { "transformer_2.a.lora_B.weight", VC_F32, 2, { 2, 1 }, two, 8 },
    };
    char *path = vc_path_join(golden_tmp("halves"), "x.safetensors");
    vtrain_lora *l;
    vtrain_lora_pair p;
    vc_err err = { 0 };
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *of = i ? "transformer_2" : "transformer";
        assert_ok(vf_safetensors_write(path, v, 4, NULL, 0, &err) ||
                  vtrain_lora_open(&l, path, &err) || vtrain_lora_check_of(l, of, &err) ||
                  vtrain_lora_get(l, "a", &p, &err), &err);
        assert_memory_equal(p.a.data, i ? two : one, 8);
        assert_non_null(strstr(vtrain_lora_note(l), of));
        assert_ok(vtrain_lora_all_used(l, NULL, &err), &err);
        vtrain_lora_close(l);
    }
    assert_ok(vf_safetensors_write(path, v + 2, 2, NULL, 0, &err) ||
              vtrain_lora_open(&l, path, &err), &err);
    assert_fails(vtrain_lora_check_of(l, "transformer", &err), VC_EMISMATCH, &err,
                 "has modules of transformer_2 alone");
    vtrain_lora_close(l);
    free(path);
}

/* ---- other adapters ---- */

static const struct { const char *tensor, *says; } refused[] = {
    { "lora_te1_text_model_encoder_layers_0_mlp_fc1.lora_down.weight", "is of a text encoder" },
    { "lora_te_x.alpha", "is of a text encoder" },
    { "text_encoder.text_model.encoder.layers.0.mlp.fc1.lora_A.weight", "is of a text encoder" },
    { "text_encoders.t5xxl.x.lora_up.weight", "is of a text encoder" },
    { "transformer.a.lora_magnitude_vector.default.weight", "a DoRA" },
    { "lora_unet_a.dora_scale", "a DoRA" },
    { "model.diffusion_model.a.lokr_w1", "a LoKr" },
    { "lycoris_a.lokr_w1_a", "a LoKr" },
    { "lycoris_a.hada_w2_b", "a LoHa" },
    { "diffusion_model.a.diff", "a change of a whole layer" },
    { "model.diffusion_model.a.diff_b", "a change of a bias" },
    { "lora_unet_a.w_norm", "a change of a norm" },
    { "img_in.lora_B.bias", "a change of a bias" },
    { "diffusion_model.img_in.reshape_weight", "another shape" },
    { "lora_unet_a.oft_blocks", "an OFT" },
    { "lora_unet_a.lora_mid.weight", "a middle convolution" },
    { "bundle_emb.x.t5_out", "an embedding" },
    { "transformer.layers.0.attention.query_key_value.matrix_A.0", "SAT" },
    { "model.diffusion_model.blocks.0.weight", "is not part of a LoRA" },
    { "module.a.weight", "is not part of a LoRA" },
};

static void test_refused(void **state)
{
    char *path = vc_path_join(golden_tmp("refused"), "x.safetensors");
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        static const float one[4] = { 1, 1, 1, 1 };
        const vf_view v = { refused[i].tensor, VC_F32, 2, { 2, 2 }, one, sizeof one };
        vtrain_lora *l;
        vc_err err = { 0 };
        assert_ok(vf_safetensors_write(path, &v, 1, NULL, 0, &err), &err);
        assert_fails(vtrain_lora_open(&l, path, &err), VC_EFORMAT, &err, refused[i].says);
        assert_says(&err, refused[i].tensor);
    }
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_namings), cmocka_unit_test(test_halves), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

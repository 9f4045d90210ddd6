/* test_lora_names.c - LoRA files are written and read with the names of a family's first authors.
 * The test's own family has a renamed prefix, a renamed ending, a renamed block, and a fused
 * row. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/adapters/adapter.h"
#include "common/os/file.h"
#include "tests/lib/golden.h"
#include "tests/lib/ok.h"
#include "train/lora/lora.h"
#include "train/output/export.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { IN = 6, RANK = 2, MODULES = 7 };

#define ATTN "transformer_blocks.#.attn."
static const vtrain_rename renames[] = {
    { "img_in", .ours = { "x_embedder" } },
    { "double_blocks.#.proj", .ours = { ATTN "to_out.0" } },
    { "double_blocks.#.linear1", .ours = { ATTN "to_q", ATTN "to_k", "transformer_blocks.#.mlp",
                                           ATTN "to_v" }, .share = { 1, 1, 2 } },
    { 0 }
};

/* ---- names ---- */

static const struct { const char *ours, *theirs; int part, first, share, all; } names[] = {
    { "x_embedder", "img_in", 0, 0, 1, 1 },
    { "transformer_blocks.0.attn.to_out.0", "double_blocks.0.proj", 0, 0, 1, 1 },
    { "transformer_blocks.12.attn.to_q", "double_blocks.12.linear1", 0, 0, 1, 5 },
    { "transformer_blocks.12.attn.to_v", "double_blocks.12.linear1", 3, 4, 1, 5 },
    { "transformer_blocks.3.mlp", "double_blocks.3.linear1", 2, 2, 2, 5 },
    { "x_embedder.0", NULL, 0, 0, 0, 0 },
    { "transformer_blocks.x.mlp", NULL, 0, 0, 0, 0 },
    { "transformer_blocks.3.mlp2", NULL, 0, 0, 0, 0 },
    { "transformer_blocks..mlp", NULL, 0, 0, 0, 0 },
    { "single_transformer_blocks.3.mlp", NULL, 0, 0, 0, 0 },
};

static void names_follow_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        vtrain_renamed r;
        assert_int_equal(vtrain_rename_find(&r, renames, names[i].ours, NULL), 0);
        assert_int_equal(r.row != NULL, names[i].theirs != NULL);
        if (!r.row)
            continue;
        assert_string_equal(r.theirs, names[i].theirs);
        assert_int_equal(r.part, names[i].part);
        assert_int_equal(r.first, names[i].first);
        assert_int_equal(r.share, names[i].share);
        assert_int_equal(r.all, names[i].all);
        char *self = vtrain_rename_sibling(&r, r.part);
        assert_string_equal(self, names[i].ours);
        free(self);
        free(r.theirs);
    }
    vtrain_renamed none;
    assert_int_equal(vtrain_rename_find(&none, NULL, "x_embedder", NULL), 0);
    assert_null(none.row);
}

/* ---- a model ---- */

typedef struct tiny {
    vt_lin lin[MODULES];
    vt_ctx *g;
    vt_params *p;
} tiny;
#define LIN(i, name, out) { name, VT_W_LINEAR, offsetof(tiny, lin[i]), { out, IN }, VT_INIT_XAVIER }
static const vt_weight table[] = {
    LIN(0, "x_embedder", 4),
    LIN(1, "transformer_blocks.0.attn.to_q", 4), LIN(2, "transformer_blocks.0.attn.to_k", 4),
    LIN(3, "transformer_blocks.0.mlp", 8), LIN(4, "transformer_blocks.0.attn.to_v", 4),
    LIN(5, "transformer_blocks.0.attn.to_out.0", 6), LIN(6, "head", 4),
    { 0 }
};

static bool no_k(void *arg, const char *module)
{
    (void)arg;
    return !strstr(module, "to_k");
}

static void open_tiny(tiny *m)
{
    const vt_options o = { .device = "cpu", .compute = VC_F32, .threads = 1 };
    const vt_source none = { .seed = 1 };
    int matched;
    vc_err err = { 0 };
    *m = (tiny){ 0 };
    assert_ok(vt_open(&m->g, &o, &err), &err);
    assert_ok(vt_params_open(&m->p, m->g, &err), &err);
    assert_ok(vt_params_bind(m->p, table, "", 0, m, NULL, &none, &err), &err);
    assert_ok(vt_params_lora(m->p, no_k, NULL, RANK, 6, 3, &matched, &err), &err);
    assert_int_equal(matched, MODULES - 1);
    for (int i = 0; i < vt_params_count(m->p); i++) {
        const vt_param *x = vt_params_at(m->p, i);
        for (int64_t k = 0; x->role == VT_P_LORA_B && k < vt_count(x->t); k++)
            ((float *)x->t->data)[k] = (float)sin((double)(k + 7 * i));
    }
}

static void close_tiny(tiny *m)
{
    vt_params_close(m->p);
    vt_close(m->g);
}

/* Checks that scale * B A of a module in the file equals the model's, or is zero where the module
 * is not trained. */
static void same_product(vtrain_lora *l, const vt_lin *lin, const char *module)
{
    float want[8 * IN] = { 0 }, got[8 * IN] = { 0 };
    int64_t out = lin->w->dim[0];
    vtrain_lora_pair p;
    vc_err err = { 0 };
    if (vtrain_lora_get(l, module, &p, &err))
        fail_msg("%s", err.text);
    assert_int_equal(p.b.dim[0], out);
    assert_int_equal(p.b.bytes, (size_t)(out * p.a.dim[0]) * sizeof(float));
    if (lin->lora_a)
        vtrain_lora_merge(want, out, IN, lin->lora_a->data, lin->lora_b->data, RANK,
                          (double)lin->lora_scale);
    vtrain_lora_merge(got, out, IN, p.a.data, p.b.data, p.a.dim[0], p.scale);
    for (int64_t i = 0; i < out * IN; i++)
        assert_true(fabs((double)got[i] - (double)want[i]) < 1e-5);
}

/* ---- files ---- */

static const struct { const char *file, *alpha, *plain; } files[] = {
    { "lora_kohya.safetensors", "lora_unet__double_blocks_0_linear1.alpha",
      "lora_unet__double_blocks_0_proj.lora_up.weight" },
    { "lora_comfyui.safetensors", "diffusion_model.double_blocks.0.linear1.alpha",
      "diffusion_model.img_in.lora_down.weight" },
};

/* diffusers' file has our names. The two others have the first authors' names, with q, v and the
 * MLP as one matrix of three times the rank, and are read as the same LoRA. */
static void written_and_read(void **state)
{
    (void)state;
    static const char *const targets[] = { "to_q" };
    for (int bake = 0; bake < 2; bake++) {
        tiny m;
        open_tiny(&m);
        const char *dir = golden_tmp(bake ? "baked" : "plain");
        const vtrain_export_lora_opts o = {
            .target = targets, .n_targets = 1, .rank = RANK, .alpha = 6, .bake = bake,
            .kohya = &vtrain_kohya, .comfyui = true, .renames = renames,
        };
        vc_err err = { 0 };
        if (vtrain_export_lora(dir, m.p, &o, &err))
            fail_msg("%s", err.text);
        vtrain_lora *l;
        if (vtrain_lora_open(&l, dir, &err))
            fail_msg("%s", err.text);
        same_product(l, &m.lin[1], table[1].name);
        vtrain_lora_close(l);
        for (size_t i = 0; i < COUNT(files); i++) {
            char *path = vc_path_join(dir, files[i].file);
            vf_safetensors *f;
            vf_view v;
            float alpha;
            if (vf_safetensors_open(&f, path, &err) ||
                vf_safetensors_get(f, files[i].plain, &v, &err) ||
                vf_safetensors_get(f, files[i].alpha, &v, &err))
                fail_msg("%s", err.text);
            memcpy(&alpha, v.data, sizeof alpha);
            assert_true(alpha == (bake ? 3 * RANK : 3 * 6));
            assert_int_equal(vf_safetensors_count(f), 3 * 4);
            vf_safetensors_close(f);
            if (vtrain_lora_open(&l, path, &err))
                fail_msg("%s", err.text);
            vtrain_lora_pair p;
            assert_int_equal(vtrain_lora_get(l, table[1].name, &p, NULL), VC_ENOENT);
            vtrain_lora_rename(l, renames, NULL);
            for (int k = 0; k < MODULES; k++) {
                bool whole = vtrain_lora_all_used(l, NULL, NULL) == 0;
                assert_false(whole);                             /* true after the last module */
                same_product(l, &m.lin[k], table[k].name);
            }
            if (vtrain_lora_all_used(l, NULL, &err))
                fail_msg("%s", err.text);
            vtrain_lora_close(l);
            free(path);
        }
        close_tiny(&m);
    }
}

/* ---- files of others ---- */

static const float a_values[2 * IN] = { 1, 2, 3, 4, 5, 6, -1, 0, 1, 0, 1, 0 };
static float b_values[20 * 2];

/* Opens a file with the pair of `theirs`, whose B has `rows` rows, and, unless NULL, a pair of
 * `ours`. */
static vtrain_lora *open_pair(int rows, const char *theirs, const char *ours)
{
    char name[4][100];
    vf_view v[4];
    vc_err err = { 0 };
    for (int i = 0; i < 4; i++) {
        bool a = i % 2 == 0;
        snprintf(name[i], sizeof name[i], "%s.%s.weight", i < 2 ? theirs : ours ? ours : "",
                 a ? "lora_down" : "lora_up");
        v[i] = (vf_view){ .name = name[i], .dtype = VC_F32, .nd = 2,
                          .dim = { a ? 2 : rows, a ? IN : 2 },
                          .data = a ? a_values : b_values };
        v[i].bytes = (size_t)(v[i].dim[0] * v[i].dim[1]) * sizeof(float);
    }
    char *path = vc_path_join(golden_tmp("others"), "theirs.safetensors");
    vtrain_lora *l;
    assert_ok(vf_safetensors_write(path, v, ours ? 4 : 2, NULL, 0, &err), &err);
    assert_ok(vtrain_lora_open(&l, path, &err), &err);
    vtrain_lora_rename(l, renames, NULL);
    free(path);
    return l;
}

static void authors_names_are_read(void **state)
{
    (void)state;
    static const char *const written[] = {
        "lora_unet_double_blocks_0_linear1", "lora_unet__double_blocks_0_linear1",
        "diffusion_model.double_blocks.0.linear1", "double_blocks.0.linear1",
    };
    for (int i = 0; i < 40; i++)
        b_values[i] = (float)i;
    for (size_t i = 0; i < COUNT(written); i++) {
        vtrain_lora *l = open_pair(20, written[i], NULL);
        vtrain_lora_pair p;
        vc_err err = { 0 };
        const float *b = b_values;
        for (int k = 1; k < 5; k++) {                            /* q, k, mlp, v: 4, 4, 8, 4 rows */
            if (vtrain_lora_get(l, table[k].name, &p, &err))
                fail_msg("%s", err.text);
            assert_int_equal(p.b.dim[0], k == 3 ? 8 : 4);
            assert_memory_equal(p.b.data, b, p.b.bytes);
            b += p.b.dim[0] * 2;
            assert_memory_equal(p.a.data, a_values, sizeof a_values);
            if (k == 4)
                break;
            assert_int_equal(vtrain_lora_all_used(l, NULL, &err), VC_EMISMATCH);
            assert_non_null(strstr(err.text, "linear1"));
        }
        assert_int_equal(vtrain_lora_all_used(l, NULL, &err), 0);
        vtrain_lora_close(l);
    }
}

static void odd_files_are_refused(void **state)
{
    (void)state;
    vtrain_lora_pair p;
    vc_err err = { 0 };
    vtrain_lora *l = open_pair(19, "double_blocks.0.linear1", NULL);
    assert_int_equal(vtrain_lora_get(l, table[1].name, &p, &err), VC_EFORMAT);
    assert_non_null(strstr(err.text, "19 rows, which 5 parts cannot share"));
    vtrain_lora_close(l);
    l = open_pair(20, "lora_unet_double_blocks_0_linear1", "transformer_blocks.0.attn.to_q");
    assert_int_equal(vtrain_lora_get(l, table[1].name, &p, &err), VC_EFORMAT);
    assert_non_null(strstr(err.text, "is in the file twice"));
    vtrain_lora_close(l);
}

/* A row of the table with a module that the transformer lacks makes no wrong file. */
static void odd_rows_are_refused(void **state)
{
    (void)state;
    static const vtrain_rename odd[] = { { "qkv", .ours = { "head", "tail" } }, { 0 } };
    static const char *const targets[] = { "to_q" };
    tiny m;
    vc_err err = { 0 };
    open_tiny(&m);
    const vtrain_export_lora_opts o = { .target = targets, .n_targets = 1, .rank = RANK, .alpha = 6,
                                        .kohya = &vtrain_kohya, .renames = odd };
    assert_int_equal(vtrain_export_lora(golden_tmp("odd"), m.p, &o, &err), VC_EINVAL);
    assert_non_null(strstr(err.text, "no module \"tail\""));
    close_tiny(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_follow_rows),        cmocka_unit_test(written_and_read),
        cmocka_unit_test(authors_names_are_read),       cmocka_unit_test(odd_files_are_refused),
        cmocka_unit_test(odd_rows_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

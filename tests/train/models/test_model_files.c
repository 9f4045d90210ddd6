/* test_model_files.c - LoRAs and whole transformers are written in every form and read again, a
 * LoRA is trained further, and frozen weights stay in the file's map. */
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
#include "train/models/weights.h"
#include "train/output/export.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

/* ---- writing ---- */

/* A model of two linears, which have a LoRA, and a norm. */
typedef struct tiny {
    vt_lin q, out;
    vt_tensor *norm, *table;
    vt_ctx *g;
    vt_params *p;
} tiny;
static const vt_weight tiny_table[] = {
    { "blocks.0.to_q", VT_W_LINEAR, offsetof(tiny, q), { 4, 6 }, VT_INIT_XAVIER },
    { "blocks.0.to_out.0", VT_W_LINEAR, offsetof(tiny, out), { 6, 4 }, VT_INIT_XAVIER },
    { "norm.weight", VT_W_TENSOR, offsetof(tiny, norm), { 6 }, VT_INIT_ONE },
    { "table", VT_W_TENSOR, offsetof(tiny, table), { 2, 6 }, VT_INIT_NORMAL },
    { 0 }
};

static void tiny_open(tiny *m, const vt_source *src)
{
    const vt_options o = { .device = "cpu", .compute = VC_F32, .threads = 1 };
    vc_err err = { 0 };
    *m = (tiny){ 0 };
    assert_ok(vt_open(&m->g, &o, &err) || vt_params_open(&m->p, m->g, &err) ||
              vt_params_bind(m->p, tiny_table, "", 0, m, NULL, src, &err), &err);
}

static void tiny_close(tiny *m)
{
    vt_params_close(m->p);
    vt_close(m->g);
}

static void tiny_lora(tiny *m, int rank, double alpha)
{
    int matched;
    vc_err err = { 0 };
    assert_ok(vt_params_lora(m->p, NULL, NULL, rank, alpha, 3, &matched, &err), &err);
    assert_int_equal(matched, 2);
    for (int i = 0; i < vt_params_count(m->p); i++) {
        const vt_param *x = vt_params_at(m->p, i);
        for (int64_t k = 0; x->role == VT_P_LORA_B && k < vt_count(x->t); k++)
            ((float *)x->t->data)[k] = (float)sin((double)(k + i));
    }
}

static bool is_q(void *arg, const char *module)
{
    (void)arg;
    return strstr(module, "to_q") != NULL;
}

/* Checks that scale * B A of a module in a file equals the model's. */
static void same_product(const char *path, const vt_lin *lin, const char *module)
{
    vtrain_lora *l;
    vtrain_lora_pair p;
    vc_err err = { 0 };
    assert_ok(vtrain_lora_open(&l, path, &err) || vtrain_lora_get(l, module, &p, &err), &err);
    int64_t out = lin->w->dim[0], in = lin->w->dim[1], r = lin->lora_a->dim[0];
    assert_int_equal(p.a.dim[0], r);
    float want[24] = { 0 }, got[24] = { 0 };
    vtrain_lora_merge(want, out, in, lin->lora_a->data, lin->lora_b->data, r,
                      (double)lin->lora_scale);
    vtrain_lora_merge(got, out, in, p.a.data, p.b.data, r, p.scale);
    assert_true(golden_error(got, want, out * in) < 1e-6);       /* baking rounds B once */
    vtrain_lora_close(l);
}

static void lora_is_written(void **state)
{
    (void)state;
    static const char *const names[] = { "to_q", "to_out.0" };
    tiny m;
    const vt_source none = { .seed = 1 };
    tiny_open(&m, &none);
    tiny_lora(&m, 3, 6);
    static const struct { const char *file, *alpha; } beside[] = {
        { "lora_kohya.safetensors", "lora_unet__blocks_0_to_out_0.alpha" },
        { "lora_comfyui.safetensors", "diffusion_model.blocks.0.to_out.0.alpha" },
    };
    for (int form = 0; form < 8; form++) {
        bool bake = form & 1, have[2] = { form & 2, form & 4 };
        const vtrain_export_lora_opts o = { .target = names, .n_targets = 2, .rank = 3, .alpha = 6,
                                            .bake = bake, .comfyui = have[1],
                                            .kohya = have[0] ? &vtrain_kohya : NULL };
        char sub[32];
        snprintf(sub, sizeof sub, "lora-%d", form);
        const char *dir = golden_tmp(sub);
        vc_err err = { 0 };
        assert_ok(vtrain_export_lora(dir, m.p, &o, &err), &err);
        char *main_file = vc_path_join(dir, "pytorch_lora_weights.safetensors");
        same_product(main_file, &m.q, "blocks.0.to_q");
        same_product(main_file, &m.out, "blocks.0.to_out.0");
        vf_safetensors *f;
        assert_int_equal(vf_safetensors_open(&f, main_file, &err), 0);
        assert_string_equal(vf_safetensors_meta(f, "lora_adapter_metadata"),
                            bake ? "{\"transformer.r\":3,\"transformer.lora_alpha\":3,"
                                   "\"transformer.target_modules\":[\"to_q\",\"to_out.0\"]}"
                                 : "{\"transformer.r\":3,\"transformer.lora_alpha\":6,"
                                   "\"transformer.target_modules\":[\"to_q\",\"to_out.0\"]}");
        assert_int_equal(vf_safetensors_count(f), 4);
        for (int i = 0; i < 4; i++)                              /* diffusers refuses other names */
            assert_non_null(strstr(vf_safetensors_at(f, i)->name, ".lora_"));
        if (bake)
            assert_string_equal(vf_safetensors_meta(f, "vlt_network_alpha"), "6");
        vf_safetensors_close(f);
        for (size_t k = 0; k < COUNT(beside); k++) {
            char *second = vc_path_join(dir, beside[k].file);
            assert_int_equal(vc_file_exists(second), have[k]);
            if (have[k]) {
                vf_view v;
                float alpha;
                same_product(second, &m.q, "blocks.0.to_q");
                same_product(second, &m.out, "blocks.0.to_out.0");
                assert_int_equal(vf_safetensors_open(&f, second, &err), 0);
                assert_int_equal(vf_safetensors_get(f, beside[k].alpha, &v, &err), 0);
                assert_int_equal(v.nd, 0);
                memcpy(&alpha, v.data, sizeof alpha);
                assert_true(alpha == (bake ? 3 : 6));
                assert_int_equal(vf_safetensors_count(f), 6);
                vf_safetensors_close(f);
            }
            free(second);
        }
        free(main_file);
    }
    tiny_close(&m);
}

/* A file that this program wrote is loaded; errors name the modules, ranks or alphas in which
 * another file differs. */
static void lora_is_trained_further(void **state)
{
    (void)state;
    static const char *const names[] = { "to_q", "to_out.0" };
    static const struct { int rank; double alpha; bool bake, one; const char *says; } rows[] = {
        { 3, 6, false, false, NULL },
        { 3, 6, true, false, NULL },
        { 2, 4, false, false,
          "module \"blocks.0.to_q\" has rank 2, but this run's is 3: give --rank 2" },
        { 3, 3, false, false, "has alpha 3, but this run's is 6: give --network_alpha 3" },
        { 3, 3, true, false, "has alpha 3, but this run's is 6: give --network_alpha 3" },
        { 3, 12, true, false, "has alpha 12, but this run's is 6: give --network_alpha 12" },
        { 3, 0, false, false,
          "\"blocks.0.to_q\" has alpha 0, but training needs an alpha above 0" },
        { 3, 6, false, true, "no module \"blocks.0.to_out.0\", which --target_name matches" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        tiny from, to;
        const vt_source none = { .seed = 1 };
        const char *dir = golden_tmp("continued");
        const vtrain_export_lora_opts o = {
            .target = names, .n_targets = 2, .rank = rows[i].rank, .alpha = rows[i].alpha,
            .bake = rows[i].bake,
        };
        vtrain_lora *l = NULL;
        int matched;
        vc_err err = { 0 };
        tiny_open(&from, &none);
        assert_ok(vt_params_lora(from.p, rows[i].one ? is_q : NULL, NULL, rows[i].rank,
                  rows[i].alpha, 3, &matched, &err), &err);
        float *b = from.q.lora_b->data;
        for (int64_t k = 0; k < vt_count(from.q.lora_b); k++)
            b[k] = (float)k / 7;
        assert_ok(vtrain_export_lora(dir, from.p, &o, &err) ||
                  vtrain_lora_open(&l, dir, &err), &err);
        tiny_open(&to, &none);
        tiny_lora(&to, 3, 6);
        int rc = vtrain_lora_load(to.p, l, 0, &err);
        if (rows[i].says ? rc != VC_EMISMATCH || !strstr(err.text, rows[i].says) : rc)
            fail_msg("%d: %s", rc, err.text);
        if (!rc) {
            assert_memory_equal(to.q.lora_a->data, from.q.lora_a->data, 3 * 6 * sizeof(float));
            assert_memory_equal(to.q.lora_b->data, b, (size_t)vt_count(to.q.lora_b) * sizeof *b);
        }
        vtrain_lora_close(l);
        tiny_close(&from);
        tiny_close(&to);
    }
}

/* ---- whole transformers ---- */

static const char config_text[] =
    "{\n  \"_class_name\": \"Tiny\",\n  \"eps\": 1e-05,\t\"x\": 1.0}\n";

/* Writes a folder with the tiny model: linears in `type`, other tensors in f32. */
static const char *tiny_folder(const char *name, vc_dtype type)
{
    tiny m;
    const vt_source none = { .seed = 9 };
    const char *dir = golden_tmp(name);
    vf_view v[8];
    void *area[8];
    vc_err err = { 0 };
    tiny_open(&m, &none);
    int n = vt_params_count(m.p);
    for (int i = 0; i < n; i++) {
        const vt_param *x = vt_params_at(m.p, i);
        size_t k = (size_t)vt_count(x->t);
        v[i] = (vf_view){ .name = x->name, .dtype = x->lin ? type : VC_F32, .nd = x->t->nd };
        memcpy(v[i].dim, x->t->dim, sizeof *v[i].dim * (size_t)x->t->nd);
        v[i].bytes = k * vc_dtype_size(v[i].dtype);
        v[i].data = area[i] = malloc(v[i].bytes);
        vc_from_f32(area[i], v[i].dtype, x->t->data, k);
    }
    char *path = vc_path_join(dir, "diffusion_pytorch_model.safetensors");
    char *config = vc_path_join(dir, "config.json");
    assert_ok(vf_safetensors_write(path, v, n, NULL, 0, &err) ||
              vc_file_write(config, config_text, strlen(config_text), &err), &err);
    while (n)
        free(area[--n]);
    free(path);
    free(config);
    tiny_close(&m);
    return dir;
}

static char *file_text(const char *dir, const char *name)
{
    char *path = vc_path_join(dir, name), *text;
    size_t n;
    vc_err err = { 0 };
    assert_ok(vc_file_read(&text, &n, path, 1 << 20, &err), &err);
    free(path);
    return text;
}

/* A saved model that is opened again has the same values in the same types, and the same bytes of
 * config.json. */
static void whole_model_is_written(void **state)
{
    (void)state;
    static const struct { vc_dtype type; size_t most; int files; } rows[] = {
        { VC_F32, 1 << 20, 1 }, { VC_BF16, 1 << 20, 1 }, { VC_F16, 1 << 20, 1 },
        { VC_F16, 100, 3 }, { VC_F32, 1, 6 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *from = strdup(tiny_folder("from", rows[i].type));
        vtrain_weights *w, *again;
        vc_err err = { 0 };
        tiny m;
        assert_ok(vtrain_weights_open(&w, NULL, "transformer", from, VC_DTYPE_NONE, &err),
                  &err);
        vt_source src = vtrain_weights_source(w, false);
        tiny_open(&m, &src);
        assert_int_equal(vt_params_train(m.p, NULL, NULL, &err), 0);
        char name[40];
        snprintf(name, sizeof name, "full-%zu", i);
        const char *to = golden_tmp(name);
        assert_ok(vtrain_export_full(to, m.p, w, NULL, rows[i].most, NULL, &err), &err);
        char *text = file_text(to, "config.json");
        assert_string_equal(text, config_text);
        free(text);
        char *index = vc_path_join(to, "diffusion_pytorch_model.safetensors.index.json");
        char *single = vc_path_join(to, "diffusion_pytorch_model.safetensors");
        char *last = vc_format("%s/diffusion_pytorch_model-%05d-of-%05d.safetensors", to,
                               rows[i].files, rows[i].files);
        assert_int_equal(vc_file_exists(single), rows[i].files == 1);
        assert_int_equal(vc_file_exists(index), rows[i].files > 1);
        assert_int_equal(vc_file_exists(last), rows[i].files > 1);
        assert_ok(vtrain_weights_open(&again, NULL, "transformer", to, VC_DTYPE_NONE, &err),
                  &err);
        assert_int_equal(vtrain_weights_check(again, m.p, &err), 0);
        vt_source b = vtrain_weights_source(again, false);
        for (int k = 0; k < vt_params_count(m.p); k++) {
            vt_host x, y;
            const char *param = vt_params_at(m.p, k)->name;
            assert_ok(src.get(src.arg, param, &x, &err) || b.get(b.arg, param, &y, &err), &err);
            assert_int_equal(x.dtype, y.dtype);
            size_t n = vc_dtype_size(x.dtype);
            for (int d = 0; d < x.nd; d++)
                n *= (size_t)x.dim[d];
            assert_memory_equal(x.data, y.data, n);
        }
        tiny_close(&m);
        vtrain_weights_close(w);
        vtrain_weights_close(again);
        free(from);
        free(index);
        free(single);
        free(last);
    }
}

/* ---- frozen weights ---- */

/* A LoRA's base stays in the file's map in the file's type, for two readers too. If matrices are
 * held in another type, they are private copies, and other tensors stay in the map. */
static void frozen_weights_are_mapped(void **state)
{
    (void)state;
    static const struct { vc_dtype file, held; bool mapped; } rows[] = {
        { VC_F32, VC_DTYPE_NONE, true }, { VC_BF16, VC_DTYPE_NONE, true },
        { VC_F16, VC_DTYPE_NONE, true }, { VC_F16, VC_F16, true }, { VC_BF16, VC_F8E4M3, false },
        { VC_F32, VC_BF16, false },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *dir = tiny_folder("frozen", rows[i].file);
        vtrain_weights *w;
        vc_err err = { 0 };
        tiny m;
        assert_ok(vtrain_weights_open(&w, NULL, "transformer", dir, rows[i].held, &err),
                  &err);
        vt_source src = vtrain_weights_source(w, false);
        tiny_open(&m, &src);
        tiny_lora(&m, 2, 2);
        for (int k = 0; k < vt_params_count(m.p); k++) {
            const vt_param *x = vt_params_at(m.p, k);
            if (x->role != VT_P_BASE)
                continue;
            bool cast = !rows[i].mapped && x->lin && x->t->nd > 1;
            vc_dtype file = x->lin ? rows[i].file : VC_F32, type = cast ? rows[i].held : file;
            if (x->t->dtype != type)
                fail_msg("%s is %s", x->name, vc_dtype_name(x->t->dtype));
            vt_host h;
            assert_int_equal(src.get(src.arg, x->name, &h, &err), 0);
            assert_int_equal(vt_param_mapped(x->t), !cast);
            if (!cast)
                assert_ptr_equal(x->t->data, h.data);
        }
        size_t lora = vt_params_bytes(m.p).grads, own = rows[i].mapped ? 0 : 48;
        size_t scales = rows[i].held == VC_F8E4M3 ? 10 * sizeof(float) : 0;
        assert_int_equal(vt_params_bytes(m.p).values - lora,
                         own ? own * vc_dtype_size(rows[i].held) + scales : 0);
        float x[6] = { 1, -2, 0.5f, 3, -1, 0.25f }, y[4];
        vt_step_begin(m.g, 0);
        vt_tensor *in = vt_from_host(m.g, VC_F32, 2, (int64_t[]){ 1, 6 }, x, VC_F32);
        assert_ok(vt_to_host(m.g, vt_linear(m.g, in, &m.q), y, &err) ||
                  vt_step_end(m.g, &err), &err);
        float w32[24], a[24] = { 0 };
        vc_to_f32(w32, m.q.w->data, m.q.w->dtype, 24);
        for (int k = 0; m.q.w->scale && k < 24; k++)
            w32[k] *= ((const float *)m.q.w->scale->data)[k / 6];
        vtrain_lora_merge(a, 4, 6, m.q.lora_a->data, m.q.lora_b->data, 2, 1);
        for (int o = 0; o < 4; o++) {
            double sum = 0;                                       /* the bias starts at zero */
            for (int k = 0; k < 6; k++)
                sum += ((double)w32[o * 6 + k] + (double)a[o * 6 + k]) * (double)x[k];
            assert_true(fabs(sum - (double)y[o]) < 1e-5);
        }
        tiny_close(&m);
        vtrain_weights_close(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lora_is_trained_further),
        cmocka_unit_test(lora_is_written),
        cmocka_unit_test(whole_model_is_written),
        cmocka_unit_test(frozen_weights_are_mapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

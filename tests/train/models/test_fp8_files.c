/* test_fp8_files.c - transformers of every family from files of fp8 weights with scales: outputs
 * are those of a file with the products in f32, bit for bit, also with a LoRA folded in. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/cpu/simd/isa.h"
#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/lib/scaled_files.h"
#include "tests/train/models/reference.h"
#include "train/models/flux.h"
#include "train/models/hunyuan/hunyuan.h"
#include "train/models/ltx/ltx.h"
#include "train/models/wan/wan.h"
#include "train/models/weights.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static const struct { const vtrain_family *family; const char *golden; } models[] = {
    { &vtrain_cogvideox, "cogvideox-2b" }, { &vtrain_hunyuan, "hunyuan" },
    { &vtrain_hunyuan, "hunyuan-first" },  { &vtrain_ltx, "ltx" }, { &vtrain_wan, "wan" },
    { &vtrain_qwen, "qwen" },              { &vtrain_flux, "flux-dev" },
    { &vtrain_flux, "flux-first" },
};

/* The path of weights in DIR/NAME.safetensors, or, with a config, in the folder DIR/NAME. */
static char *weights_of(const cJSON *config, const char *dir, const char *name)
{
    vc_err err = { 0 };
    char *text = config->child ? cJSON_Print(config) : NULL;
    char *json = vc_format("%s/%s/config.json", dir, name), *folder = vc_path_join(dir, name);
    if (text)
        assert_ok(vc_mkdirs(folder, &err) || vc_file_write(json, text, strlen(text), &err), &err);
    char *file = vc_format("%s%s.safetensors", folder, text ? "/diffusion_pytorch_model" : "");
    free(folder);
    free(text);
    free(json);
    return file;
}

/* Writes a LoRA of a block's linear, and returns the path. */
static char *write_lora(const ref_model *m, const char *dir)
{
    const vf_view *v = NULL;
    float x[2048];
    vc_err err = { 0 };
    for (int i = 0; !v && i < vf_model_count(m->file); i++)
        if (scaled_is_linear(vf_model_at(m->file, i)) &&
            strstr(vf_model_at(m->file, i)->name, "blocks."))
            v = vf_model_at(m->file, i);
    assert_true(v && v->dim[0] + v->dim[1] <= (int64_t)COUNT(x));
    for (size_t i = 0; i < COUNT(x); i++)
        x[i] = sinf((float)i);
    const int module = (int)(strlen(v->name) - strlen(".weight"));
    char *path = vc_path_join(dir, "lora.safetensors");
    char *a = vc_format("%.*s.lora_A.weight", module, v->name);
    char *b = vc_format("%.*s.lora_B.weight", module, v->name);
    const vf_view pair[2] = {
        { a, VC_F32, 2, { 1, v->dim[1] }, x, sizeof *x * (size_t)v->dim[1] },
        { b, VC_F32, 2, { v->dim[0], 1 }, x, sizeof *x * (size_t)v->dim[0] },
    };
    assert_ok(vf_safetensors_write(path, pair, 2, NULL, 0, &err), &err);
    free(a);
    free(b);
    return path;
}

/* Writes the fp8 file, the file of the products, and a LoRA, and returns the LoRA's path. */
static char *make_files(const ref_model *m, const char *dir, const scaled_form *f)
{
    char *fp8 = weights_of(m->config, dir, "fp8"), *plain = weights_of(m->config, dir, "plain");
    scaled_files_write(vf_model_at(m->file, 0), vf_model_count(m->file), f, fp8, plain);
    free(fp8);
    free(plain);
    return write_lora(m, dir);
}

/* The output of the golden's case `base` with the weights of DIR/FILE. */
static float *output_of(const vtrain_family *family, const char *golden, const char *file,
                        const char *lora, vc_dtype held, int64_t *n, bool *scales)
{
    ref_model m;
    ref_case c;
    vtrain_weights *w;
    vc_err err = { 0 };
    ref_open_parts(&m, golden, VC_F32, VC_F32);
    char *path = vc_format("%s/%s%s", golden_tmp(golden), file,
                           m.config->child ? "" : ".safetensors");
    assert_ok(vtrain_weights_open(&w, NULL, "transformer", path, held, &err) ||
              (lora && vtrain_weights_fold(w, lora, 1, "transformer", &err)) ||
              vtrain_weights_family(w, family, &err), &err);
    const vt_source src = vtrain_weights_source(w, false);
    assert_ok(vtrain_dit_open(&m.model, family, vtrain_weights_config(w), m.params, &src, &err) ||
              vtrain_weights_check(w, m.params, &err), &err);
    *scales = false;
    for (int i = 0; i < vt_params_count(m.params); i++) {
        const vt_param *p = vt_params_at(m.params, i);
        *scales |= p->scale != NULL;
        if (p->scale)                                       /* trained, it is written in bf16 */
            assert_int_equal(vtrain_weights_type(w, p->name), VC_BF16);
    }
    ref_case_open(&c, m.golden, "base");
    *n = c.dim[0] * c.dim[1] * c.dim[2] * c.dim[3] * c.dim[4];
    float *out = malloc(sizeof *out * (size_t)*n);
    ref_step(&m, &c, VT_KEEP, out);
    ref_case_close(&c);
    ref_close(&m);
    vtrain_weights_close(w);
    free(path);
    return out;
}

static void check(const vtrain_family *family, const char *golden, const scaled_form *f)
{
    ref_model m;
    int64_t n;
    bool scales;
    ref_open_parts(&m, golden, VC_F32, VC_F32);
    char *lora = make_files(&m, golden_tmp(golden), f);
    ref_close(&m);
    float *want = output_of(family, golden, "plain", NULL, VC_DTYPE_NONE, &n, &scales);
    float *got = output_of(family, golden, "fp8", NULL, VC_DTYPE_NONE, &n, &scales);
    assert_true(scales);                                    /* held as codes */
    /* With AVX-512 small products of f32 weights are oneDNN's, which sums in another order. */
    cpu_isa isa;
    vc_err err = { 0 };
    assert_ok(cpu_isa_open(&isa, NULL, &err), &err);
    const double far = golden_error(got, want, n);
    if (isa.avx512 ? far > 2e-6 : memcmp(got, want, sizeof *got * (size_t)n) != 0)
        fail_msg("%s, %s: %g", golden, f->end, far);
    float *as = output_of(family, golden, "fp8", NULL, VC_F32, &n, &scales);
    assert_false(scales);
    assert_memory_equal(as, want, sizeof *got * (size_t)n);
    /* A weight with a LoRA is bf16, whose rounding the plain file's lacks. */
    float *with = output_of(family, golden, "fp8", lora, VC_DTYPE_NONE, &n, &scales);
    float *plain = output_of(family, golden, "plain", lora, VC_DTYPE_NONE, &n, &scales);
    const double moved = golden_error(plain, want, n), off = golden_error(with, plain, n);
    if (!(moved > 1e-4) || !(off < 0.02 * moved + 1e-3))
        fail_msg("%s, %s: the LoRA moves %g, off by %g", golden, f->end, moved, off);
    free(want);
    free(got);
    free(as);
    free(with);
    free(plain);
    free(lora);
}

static void test_forms(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(models); i++)
        for (const scaled_form *f = scaled_forms; f->end; f++)
            check(models[i].family, models[i].golden, f);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_forms) };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}

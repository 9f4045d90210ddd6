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

#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/train/models/reference.h"
#include "train/models/flux.h"
#include "train/models/hunyuan.h"
#include "train/models/ltx.h"
#include "train/models/wan.h"
#include "train/models/weights.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))
enum { MOST = 512, BLOCKS = 2 };

static const struct { const vtrain_family *family; const char *golden; } models[] = {
    { &vtrain_cogvideox, "cogvideox-2b" }, { &vtrain_hunyuan, "hunyuan" },
    { &vtrain_hunyuan, "hunyuan-first" },  { &vtrain_ltx, "ltx" }, { &vtrain_wan, "wan" },
    { &vtrain_qwen, "qwen" },              { &vtrain_flux, "flux-dev" },
    { &vtrain_flux, "flux-first" },
};
static const struct form { const char *end, *input; vc_dtype type; int nd; bool rows, blocks; }
    forms[] = {
    { "scale_weight", "scale_input", VC_F8E4M3, 0, false, false },
    { "scale_weight", NULL, VC_F8E5M2, 1, false, false },
    { "weight_scale", "input_scale", VC_F8E4M3, 1, true, false },
    { "scale_weight", NULL, VC_F8E4M3, 2, true, false },
    { "scale_weight", NULL, VC_F8E4M3, 3, true, true },
};

/* A file while it is made: views, and the memory that they hold. */
typedef struct making { vf_view v[MOST]; void *held[2 * MOST]; int n, n_held; } making;

static void *room(making *m, size_t bytes)
{
    void *p = m->held[m->n_held++] = calloc(1, bytes + 1);
    assert_true(p && m->n_held < 2 * MOST);
    return p;
}

static void add(making *m, const char *name, vc_dtype type, int nd, const int64_t *dim,
                const void *data)
{
    vf_view *v = &m->v[m->n++];
    assert_true(m->n < MOST);
    *v = (vf_view){ .name = name, .dtype = type, .nd = nd, .data = data };
    if (nd)
        memcpy(v->dim, dim, sizeof *dim * (size_t)nd);
    v->bytes = (size_t)vf_view_count(v) * vc_dtype_size(type);
}

static char *beside(making *m, const vf_view *v, const char *end)
{
    const size_t n = strlen(v->name) - strlen("weight");
    char *name = m->held[m->n_held++] = vc_format("%.*s%s", (int)n, v->name, end);
    assert_non_null(name);
    return name;
}

/* Adds a weight to both files: as codes and scales, and as their products. */
static void add_weight(making *fp8, making *plain, const vf_view *v, const struct form *f)
{
    const int64_t rows = v->dim[0], columns = v->dim[1], blocks = f->blocks ? BLOCKS : 1;
    const int64_t n = rows * columns, scales = f->rows ? rows * blocks : 1;
    float *w = room(plain, sizeof *w * (size_t)n), *s = room(fp8, sizeof *s * (size_t)scales);
    uint8_t *code = room(fp8, (size_t)n);
    vc_to_f32(w, v->data, v->dtype, (size_t)n);
    for (int64_t i = 0; i < scales; i++)
        s[i] = 0.003f + 0.0001f * (float)(i % 29);
    for (int k = 0; k < 2; k++)                             /* to codes, and back */
        for (int64_t i = 0; i < n; i++) {
            const int64_t row = i / columns, block = i % columns / (columns / blocks);
            const float by = s[f->rows ? row * blocks + block : 0];
            float x = w[i] / by;
            if (!k)
                vc_from_f32(code + i, f->type, &x, 1);
            vc_to_f32(&x, code + i, f->type, 1);
            if (k)
                w[i] = x * by;
        }
    const int64_t dim[3] = { f->rows ? rows : 1, blocks, 1 };
    add(plain, v->name, VC_F32, 2, v->dim, w);
    add(fp8, v->name, f->type, 2, v->dim, code);
    add(fp8, beside(fp8, v, f->end), VC_F32, f->nd, dim, s);
    if (f->input)
        add(fp8, beside(fp8, v, f->input), VC_F32, 0, NULL, s);
}

static bool is_linear(const vf_view *v)
{
    const size_t n = strlen(v->name);
    return v->nd == 2 && n > 7 && !strcmp(v->name + n - 7, ".weight") && v->dim[1] % BLOCKS == 0;
}

/* Writes DIR/NAME.safetensors, or, with a config, a folder DIR/NAME with config.json. */
static void write_to(making *m, const char *dir, const char *name, const cJSON *config)
{
    vc_err err = { 0 };
    char *folder = vc_path_join(dir, name), *text = config ? cJSON_Print(config) : NULL;
    char *json = vc_path_join(folder, "config.json");
    char *file = vc_format("%s%s.safetensors", folder, text ? "/diffusion_pytorch_model" : "");
    if (text)
        assert_ok(vc_mkdirs(folder, &err) || vc_file_write(json, text, strlen(text), &err), &err);
    assert_ok(vf_safetensors_write(file, m->v, m->n, NULL, 0, &err), &err);
    free(folder);
    free(text);
    free(json);
    free(file);
    while (m->n_held)
        free(m->held[--m->n_held]);
}

/* Writes the two files and a LoRA of one module below dir. */
static char *make_files(const ref_model *m, const char *dir, const struct form *f)
{
    making *fp8 = calloc(1, sizeof *fp8), *plain = calloc(1, sizeof *plain);
    making *lora = calloc(1, sizeof *lora);
    char *module = NULL;
    vc_err err = { 0 };
    for (int i = 0; i < vf_model_count(m->file); i++) {
        const vf_view *v = vf_model_at(m->file, i);
        if (is_linear(v))
            add_weight(fp8, plain, v, f);
        else {
            add(fp8, v->name, v->dtype, v->nd, v->dim, v->data);
            add(plain, v->name, v->dtype, v->nd, v->dim, v->data);
        }
        if (is_linear(v) && !module && strstr(v->name, "blocks.")) {
            const int64_t a[2] = { 1, v->dim[1] }, b[2] = { v->dim[0], 1 };
            float *x = room(lora, sizeof *x * (size_t)(v->dim[0] + v->dim[1]));
            for (int64_t k = 0; k < v->dim[0] + v->dim[1]; k++)
                x[k] = sinf((float)k);
            module = strdup(v->name);
            add(lora, beside(lora, v, "lora_A.weight"), VC_F32, 2, a, x);
            add(lora, beside(lora, v, "lora_B.weight"), VC_F32, 2, b, x);
        }
    }
    add(fp8, "scaled_fp8", f->type, 1, (int64_t[]){ 0 }, "");
    const cJSON *config = m->config->child ? m->config : NULL;
    write_to(fp8, dir, "fp8", config);
    write_to(plain, dir, "plain", config);
    write_to(lora, dir, "lora", NULL);
    free(fp8);
    free(plain);
    free(lora);
    assert_int_equal(err.text[0], 0);
    free(module);
    return vc_path_join(dir, "lora.safetensors");
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
    assert_ok(vtrain_weights_open(&w, NULL, "transformer", path, held, lora, &err) ||
              vtrain_weights_family(w, family, &err), &err);
    const vt_source src = vtrain_weights_source(w, false);
    assert_ok(vtrain_dit_open(&m.model, family, vtrain_weights_config(w), m.params, &src, &err) ||
              vtrain_weights_check(w, m.params, &err), &err);
    *scales = false;
    for (int i = 0; i < vt_params_count(m.params); i++)
        *scales |= vt_params_at(m.params, i)->scale != NULL;
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

static void check(const vtrain_family *family, const char *golden, const struct form *f)
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
    if (memcmp(got, want, sizeof *got * (size_t)n))
        fail_msg("%s, %s: %g", golden, f->end, golden_error(got, want, n));
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
        for (size_t k = 0; k < COUNT(forms); k++)
            check(models[i].family, models[i].golden, &forms[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_forms) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

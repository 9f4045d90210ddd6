/* test_lora_files.c - LoRA files in the layouts of other programs are folded in like by peft, with
 * every form of alpha in their metadata; damaged files cause no crash. The golden is `lora`. */
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
#include "formats/json/json.h"
#include "tests/lib/golden.h"
#include "tests/lib/mutate.h"
#include "tests/lib/ok.h"
#include "train/lora/lora.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static const char *text_of(const cJSON *o, const char *field)
{
    const char *v = NULL;
    vc_err err = { 0 };
    assert_ok(vf_json_str(o, field, &v, &err), &err);
    return v;
}

/* ---- every layout ---- */

/* Writes a case of the golden like the case's program: names and header are the case's, and values
 * follow from the names "<module>.lora_A" and "<module>.lora_B". */
static char *write_case(const cJSON *c, vc_dtype type)
{
    vf_view v[64];
    void *area[64];
    int n = 0;
    for (const cJSON *t = cJSON_GetObjectItem(c, "tensors")->child; t; t = t->next, n++) {
        const cJSON *shape = cJSON_GetObjectItem(t, "shape"), *value;
        v[n] = (vf_view){ .name = t->string, .dtype = type, .nd = cJSON_GetArraySize(shape) };
        for (int i = 0; i < v[n].nd; i++)
            v[n].dim[i] = cJSON_GetArrayItem(shape, i)->valueint;
        int64_t k = vf_view_count(&v[n]);
        float *f = malloc(sizeof *f * (size_t)k);
        value = cJSON_GetObjectItem(t, "value");
        for (int64_t i = 0; i < k; i++)
            f[i] = value ? (float)value->valuedouble
                         : golden_fill(text_of(t, "fill"), v[n].nd, v[n].dim, i);
        v[n].bytes = (size_t)k * vc_dtype_size(type);
        v[n].data = area[n] = malloc(v[n].bytes);
        vc_from_f32(area[n], type, f, (size_t)k);
        free(f);
    }
    vf_meta meta[4] = { { "format", "pt" } };
    int n_meta = 1;
    for (const cJSON *m = cJSON_GetObjectItem(c, "meta")->child; m; m = m->next)
        meta[n_meta++] = (vf_meta){ m->string, m->valuestring };
    char *path = vc_path_join(golden_tmp("layouts"), text_of(c, "file"));
    vc_err err = { 0 };
    assert_ok(vf_safetensors_write(path, v, n, meta, n_meta, &err), &err);
    while (n)
        free(area[--n]);
    return path;
}

static int base_get(void *arg, const char *name, vt_host *v, vc_err *err)
{
    vf_view x;
    int rc = vf_safetensors_get(arg, name, &x, err);
    *v = (vt_host){ .dtype = x.dtype, .nd = x.nd, .data = x.data };
    memcpy(v->dim, x.dim, sizeof v->dim);
    return rc;
}

/* Compares with peft, which merges in f32, while our merge sums in f64 and rounds once: results
 * differ by 4 roundings of sums of a few terms near 1. A file in f16 or bf16 also rounds A, B and
 * alpha, as in peft. */
static void same_merge(const vf_safetensors *golden, const vf_safetensors *base, const cJSON *c,
                       vc_dtype type, double tolerance)
{
    char *path = write_case(c, type);
    vtrain_lora *l;
    vc_err err = { 0 };
    assert_ok(vtrain_lora_open(&l, path, &err), &err);
    const vt_source file = { .get = base_get, .arg = (void *)base };
    vt_source merged = vtrain_lora_source(l, &file, false);
    int changed = 0;
    for (int i = 0; i < vf_safetensors_count(base); i++) {
        const char *name = vf_safetensors_at(base, i)->name;
        char *want_name = vc_format("%s/%s", c->string, name);
        vt_host h, was;
        if (merged.get(merged.arg, name, &h, &err))
            fail_msg("%s: %s", c->string, err.text);
        assert_int_equal(base_get((void *)base, name, &was, &err), 0);
        vf_view value;
        if (vf_safetensors_get(golden, want_name, &value, NULL)) {
            assert_ptr_equal(h.data, was.data);              /* without a pair, the base's values */
        } else {
            float *want = golden_values(golden, want_name, NULL);
            double error = golden_error(h.data, want, h.dim[0] * h.dim[1]);
            if (!(error <= tolerance))
                fail_msg("%s: %g", want_name, error);
            free(want);
            changed++;
        }
        free(want_name);
    }
    assert_int_equal(changed, cJSON_GetObjectItem(c, "pairs")->valueint);
    if (vtrain_lora_all_used(l, NULL, &err))
        fail_msg("%s: %s", c->string, err.text);
    vtrain_lora_close(l);
    free(path);
}

/* Opens the golden's base weights as a file in f32. */
static vf_safetensors *open_base(const vf_safetensors *golden)
{
    const char *dir = golden_tmp("base");
    golden_model(golden, dir, VC_F32);
    char *path = vc_path_join(dir, "diffusion_pytorch_model.safetensors");
    vf_safetensors *f;
    vc_err err = { 0 };
    assert_ok(vf_safetensors_open(&f, path, &err), &err);
    free(path);
    return f;
}

static void every_layout_merges(void **state)
{
    (void)state;
    vf_safetensors *golden = golden_open("lora"), *base = open_base(golden);
    cJSON *cases = golden_json(golden, "cases");
    int n = 0;
    for (const cJSON *c = cases->child; c; c = c->next, n++) {
        same_merge(golden, base, c, VC_F32, 1e-6);
        /* peft's values have f32 factors. Rounding both factors changes B A by 2^-12 each in f16
         * and by 2^-9 each in bf16; alpha, a small integer, stays. */
        same_merge(golden, base, c, VC_F16, 1e-3);
        same_merge(golden, base, c, VC_BF16, 8e-3);
    }
    assert_int_equal(n, 11);
    cJSON_Delete(cases);
    vf_safetensors_close(base);
    vf_safetensors_close(golden);
}

/* Adapters that are no plain pairs, of a weight of 4 x 6, by the ends of their tensors' names. */
static const struct {
    const char *module;
    struct { const char *end; int nd; int64_t dim[2]; } part[6];
} others[] = {
    { "lora_unet_x", { { ".hada_w1_a", 2, { 4, 2 } }, { ".hada_w1_b", 2, { 2, 6 } },
                       { ".hada_w2_a", 2, { 4, 2 } }, { ".hada_w2_b", 2, { 2, 6 } },
                       { ".alpha", 0, { 0 } } } },
    { "lora_unet_x", { { ".lokr_w1", 2, { 2, 2 } }, { ".lokr_w2_a", 2, { 2, 1 } },
                       { ".lokr_w2_b", 2, { 1, 3 } }, { ".alpha", 0, { 0 } } } },
    { "lora_unet_x", { { ".lokr_w1", 2, { 2, 2 } }, { ".lokr_w2", 2, { 2, 3 } },
                       { ".dora_scale", 2, { 4, 1 } } } },
    { "lora_unet_x", { { ".lora_down.weight", 2, { 2, 6 } }, { ".lora_up.weight", 2, { 4, 2 } },
                       { ".alpha", 0, { 0 } }, { ".dora_scale", 2, { 4, 1 } } } },
    { "x", { { ".lora_A.weight", 2, { 2, 6 } }, { ".lora_B.weight", 2, { 4, 2 } },
             { ".lora_magnitude_vector", 1, { 4 } } } },
};

static char *write_other(size_t i)
{
    static const float ones[24] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    vf_view v[COUNT(others[0].part)] = { { 0 } };
    char *path = vc_path_join(golden_tmp("layouts"), "other.safetensors");
    int n = 0;
    vc_err err = { 0 };
    for (; n < (int)COUNT(v) && others[i].part[n].end; n++) {
        v[n] = (vf_view){ .name = vc_format("%s%s", others[i].module, others[i].part[n].end),
                          .dtype = VC_F32, .nd = others[i].part[n].nd, .data = ones };
        memcpy(v[n].dim, others[i].part[n].dim, sizeof others[i].part[n].dim);
        v[n].bytes = (size_t)vf_view_count(&v[n]) * sizeof *ones;
    }
    assert_ok(vf_safetensors_write(path, v, n, NULL, 0, &err), &err);
    while (n)
        free((char *)(uintptr_t)v[--n].name);
    return path;
}

static void damage_file(const char *path, uint32_t seed)
{
    vtrain_lora *l;
    char *data;
    size_t n;
    vc_err err = { 0 };
    assert_ok(vtrain_lora_open(&l, path, &err), &err);
    vtrain_lora_close(l);
    assert_ok(vc_file_read(&data, &n, path, 1 << 20, &err), &err);
    mutate_run(data, n, seed, 300, LLVMFuzzerTestOneInput);
    free(data);
}

/* Files of all layouts, damaged. */
static void damage(void **state)
{
    (void)state;
    vf_safetensors *golden = golden_open("lora");
    cJSON *cases = golden_json(golden, "cases");
    uint32_t seed = 0;
    for (const cJSON *c = cases->child; c; c = c->next) {
        char *path = write_case(c, VC_F16);
        damage_file(path, ++seed);
        free(path);
    }
    for (size_t i = 0; i < COUNT(others); i++) {
        char *path = write_other(i);
        damage_file(path, ++seed);
        free(path);
    }
    cJSON_Delete(cases);
    vf_safetensors_close(golden);
}

/* The merge of rows longer than a tile equals single sums. */
static void long_rows_merge(void **state)
{
    (void)state;
    enum { OUT = 2, IN = 1100, R = 3 };
    static float w[OUT * IN], a[R * IN], b[OUT * R];
    for (int i = 0; i < R * IN; i++)
        a[i] = (float)(i % 37) - 18;
    for (int i = 0; i < OUT * R; i++)
        b[i] = (float)(i + 1) / 4;
    for (int i = 0; i < OUT * IN; i++)
        w[i] = (float)i;
    vtrain_lora_merge(w, OUT, IN, a, b, R, 0.5);
    for (int o = 0; o < OUT; o++)
        for (int i = 0; i < IN; i++) {
            double sum = 0;
            for (int k = 0; k < R; k++)
                sum += (double)b[o * R + k] * (double)a[k * IN + i];
            assert_true((double)w[o * IN + i] == o * IN + i + 0.5 * sum);    /* exact in f32 */
        }
}

/* ---- odd metadata ---- */

#define A "m.lora_A.weight"
#define B "m.lora_B.weight"
static const struct { const char *key, *text, *says; double scale; } metas[] = {
    { "lora_adapter_metadata", "{\"transformer.lora_alpha\":6}", NULL, 3 },
    { "lora_adapter_metadata", "{\"transformer.lora_alpha\":0}", NULL, 0 },
    { "lora_adapter_metadata", "{\"transformer.lora_alpha\":null}", NULL, 1 },
    { "lora_adapter_metadata", "{\"text_encoder.lora_alpha\":6}", NULL, 1 },
    { "lora_adapter_metadata", "{\"transformer.lora_alpha\":6,\"transformer.use_rslora\":true}",
      NULL, 6 / M_SQRT2 },
    { "lora_adapter_metadata", "{\"transformer.lora_alpha\":6,\"transformer.alpha_pattern\":"
      "{\"x.m\":1,\"^m\":10,\"m\":4}}", NULL, 5 },
    { "lora_config", "{\"r\":2,\"lora_alpha\":3,\"target_modules\":[\"m\"]}", NULL, 1.5 },
    { "lora_adapter_metadata", "{", "line 1", 0 },
    { "lora_adapter_metadata", "[]", NULL, 1 },
    { "lora_adapter_metadata", "{\"transformer.lora_alpha\":-1}", "out of range", 0 },
    { "lora_adapter_metadata", "{\"transformer.lora_alpha\":1e300}", "out of range", 0 },
    { "lora_adapter_metadata", "{\"transformer.lora_alpha\":\"8\"}", "expected a number", 0 },
    { "lora_adapter_metadata", "{\"transformer.use_dora\":true}", "DoRA", 0 },
    { "lora_adapter_metadata", "{\"transformer.alpha_pattern\":[1]}", "expected an object", 0 },
    { "lora_adapter_metadata", "{\"transformer.alpha_pattern\":{\"k|n\":3,\"m|n\":1}}", NULL, 0.5 },
    { "lora_adapter_metadata", "{\"transformer.alpha_pattern\":{\"m\\\\d\":3,\"[lm]\":7}}", NULL,
      3.5 },
    { "lora_adapter_metadata", "{\"transformer.alpha_pattern\":{\".m\":3}}", NULL, 1 },
    { "lora_adapter_metadata", "{\"transformer.alpha_pattern\":{\"(?=n)m\":3,\"(?!n).\":1}}",
      NULL, 0.5 },
    { "lora_adapter_metadata", "{\"transformer.alpha_pattern\":{\"m{2}\":3,\"m{1,3}\":1}}", NULL,
      0.5 },
    { "lora_adapter_metadata", "{\"transformer.alpha_pattern\":{\"(\":1}}", "not a regular", 0 },
    { "lora_adapter_metadata", "{\"transformer.alpha_pattern\":{\"m\":-1}}", "out of range", 0 },
};

static void metadata_is_read(void **state)
{
    (void)state;
    static const float one[6] = { 1, 1, 1, 1, 1, 1 };
    char *path = vc_path_join(golden_tmp("meta"), "x.safetensors");
    for (size_t i = 0; i < COUNT(metas); i++) {
        const vf_view v[] = {
            { A, VC_F32, 2, { 2, 3 }, one, 24 }, { B, VC_F32, 2, { 3, 2 }, one, 24 },
        };
        const vf_meta meta = { metas[i].key, metas[i].text };
        vtrain_lora *l;
        vtrain_lora_pair p;
        vc_err err = { 0 };
        assert_int_equal(vf_safetensors_write(path, v, 2, &meta, 1, &err), 0);
        int rc = vtrain_lora_open(&l, path, &err);
        assert_int_equal(rc == 0, metas[i].says == NULL);
        if (rc) {
            assert_null(l);
            if (!strstr(err.text, metas[i].says) || !strstr(err.text, metas[i].key))
                fail_msg("%s: %s", metas[i].text, err.text);
            continue;
        }
        assert_int_equal(vtrain_lora_get(l, "m", &p, &err), 0);
        if (fabs(p.scale - metas[i].scale) > 1e-12)
            fail_msg("%s: %g", metas[i].text, p.scale);
        vtrain_lora_close(l);
    }
    free(path);
}

/* An expression that tries too many ways to divide a module's path is an error of the module, not
 * taken for no match. */
static void an_endless_pattern_is_an_error(void **state)
{
    static const float one[6] = { 1, 1, 1, 1, 1, 1 };
    static const char module[] = "transformer_blocks.0.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    char *path = vc_path_join(golden_tmp("meta"), "endless.safetensors"), a[96], b[96];
    const vf_meta meta = { "lora_adapter_metadata",
                           "{\"transformer.alpha_pattern\":{\"((\\\\w+)+\\\\.?)+[!%]\":3}}" };
    vtrain_lora_pair p;
    vtrain_lora *l;
    vc_err err = { 0 };
    (void)state;
    snprintf(a, sizeof a, "%s.lora_A.weight", module);
    snprintf(b, sizeof b, "%s.lora_B.weight", module);
    const vf_view v[] = {
        { a, VC_F32, 2, { 2, 3 }, one, 24 }, { b, VC_F32, 2, { 3, 2 }, one, 24 },
    };
    assert_ok(vf_safetensors_write(path, v, 2, &meta, 1, &err), &err);
    assert_ok(vtrain_lora_open(&l, path, &err), &err);
    assert_fails(vtrain_lora_get(l, module, &p, &err), VC_EFORMAT, &err,
                 "alpha_pattern: matching a text takes more than");
    assert_non_null(strstr(err.text, path));
    vtrain_lora_close(l);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_merges),
        cmocka_unit_test(damage),
        cmocka_unit_test(long_rows_merge),
        cmocka_unit_test(metadata_is_read),
        cmocka_unit_test(an_endless_pattern_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_train_lora.c - targets are matched, LoRA files of all layouts are read, and LoRAs are folded
 * in. */
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
#include "tests/lib/train_dataset.h"
#include "train/lora/lora.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

static const char *const modules[] = {
    "patch_embed.proj", "transformer_blocks.0.attn1.to_q", "transformer_blocks.0.attn1.to_k",
    "transformer_blocks.0.attn1.to_v", "transformer_blocks.0.attn1.to_out.0",
    "transformer_blocks.0.ff.net.0.proj", "transformer_blocks.0.ff.net.2",
    "transformer_blocks.1.attn1.to_q", "transformer_blocks.1.attn1.to_k",
    "transformer_blocks.1.attn1.to_v", "transformer_blocks.1.attn1.to_out.0",
    "transformer_blocks.1.ff.net.0.proj", "transformer_blocks.1.ff.net.2", "proj_out", NULL
};

static const char *const convs[] = { "patch_embed.proj", NULL };

/* ---- targets ---- */

static const struct { const char *value; int matches; const char *names; bool note; } targets[] = {
    { "to_q", 2, "attn1.to_q", false },
    { "to_q,to_k, to_v  to_out.0", 8, "attn1.to_q attn1.to_k attn1.to_v attn1.to_out.0", false },
    { "transformer_blocks.1.attn1.to_q", 1, "attn1.to_q", false },
    { "proj", 3, "patch_embed.proj ff.net.0.proj", false },
    { "net.2", 2, "ff.net.2", false },
    { "to_q,ff.0,ff.2", 2, "attn1.to_q", true },
    { "ff.2,to_q", 2, "attn1.to_q", true },
    { "all-linear", 13, NULL, false },
    { "(transformer_blocks|single_transformer_blocks).*(to_q|to_k|to_v|to_out.0)", 8, NULL, false },
    { ".*to_q", 2, "attn1.to_q", false },
    { "transformer_blocks\\.[0-9]+\\.ff\\.net\\.2", 2, "ff.net.2", false },
    { "a|proj_out", 1, "proj_out", false },         /* the alternation as a whole */
};

static void test_targets(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(targets); i++) {
        vtrain_targets *t;
        char *note, names[400] = "";
        vc_err err = { 0 };
        if (vtrain_targets_open(&t, targets[i].value, modules, convs, NULL, &note, &err))
            fail_msg("%s: %s", targets[i].value, err.text);
        int matches = 0, n;
        for (int k = 0; modules[k]; k++)
            matches += vtrain_targets_match(t, modules[k]);
        const char *const *list = vtrain_targets_names(t, &n);
        for (int k = 0; k < n; k++)
            sprintf(names + strlen(names), "%s%s", k ? " " : "", list[k]);
        assert_int_equal(matches, targets[i].matches);
        if (targets[i].names)
            assert_string_equal(names, targets[i].names);
        assert_int_equal(note != NULL, targets[i].note);
        if (note)
            assert_non_null(strstr(note, "are left out: ff."));
        free(note);
        vtrain_targets_close(t);
    }
}

static const struct { const char *value, *says; } bad_targets[] = {
    { "to_qq", "attn1.to_q" },                      /* the error lists near names */
    { "to_q,to_x", "to_x" },
    { "ff.0,ff.2", "ff.net.2" },                    /* both left out, none remains */
    { "q", "matches no linear" },
    { "attn1", "matches no linear" },               /* a container */
    { "to_.", "matches no linear" },                /* a dot is not an expression */
    { "(to_q", "is not a regular expression" },
    { "to_[qk]", "matches no linear" },             /* matches no whole path */
    { "", "matches no linear" },
};

static void test_bad_targets(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_targets); i++) {
        vtrain_targets *t;
        char *note;
        vc_err err = { 0 };
        assert_int_equal(vtrain_targets_open(&t, bad_targets[i].value, modules, convs, NULL, &note,
                                             &err),
                         VC_EUSAGE);
        assert_null(t);
        assert_null(note);
        assert_says(&err, bad_targets[i].says);
    }
}

/* ---- files ---- */

enum { OUT = 3, IN = 5, RANK = 2 };

typedef struct layout {
    const char *a, *b, *alpha, *meta;   /* names; metadata */
    double scale;
} layout;
#define MODULE "transformer_blocks.0.attn1.to_out.0"
#define FLAT "transformer_blocks_0_attn1_to_out_0"
static const layout layouts[] = {
    { "transformer." MODULE ".lora_A.weight", "transformer." MODULE ".lora_B.weight", NULL,
      "{\"transformer.r\":2,\"transformer.lora_alpha\":8,\"transformer.target_modules\":[]}", 4 },
    { "transformer." MODULE ".lora_A.weight", "transformer." MODULE ".lora_B.weight", NULL, NULL,
      1 },
    { MODULE ".lora_A.weight", MODULE ".lora_B.weight", NULL, NULL, 1 },
    { MODULE ".lora_A.default.weight", MODULE ".lora_B.default.weight", NULL, NULL, 1 },
    { "diffusion_model." MODULE ".lora_A.weight", "diffusion_model." MODULE ".lora_B.weight", NULL,
      NULL, 1 },
    { "transformer.base_model.model." MODULE ".lora_A.mine.weight",
      "base_model.model.transformer." MODULE ".lora_B.mine.weight", MODULE ".alpha", NULL, 0.5 },
    { "lora_unet__" FLAT ".lora_down.weight", "lora_unet__" FLAT ".lora_up.weight",
      "lora_unet__" FLAT ".alpha", NULL, 0.5 },
    { "lora_unet_" FLAT ".lora_down.weight", "lora_unet_" FLAT ".lora_up.weight",
      "lora_unet_" FLAT ".alpha", NULL, 0.5 },
};

static const float a_values[RANK * IN] = { 1, -2, 3, 0.5f, 0, 2, 1, -1, 4, 0.25f };
static const float b_values[OUT * RANK] = { 1, 0.5f, -1, 2, 0, 3 };

static void write_layout(const char *path, const layout *l)
{
    static const float alpha = 1;
    const vf_view v[] = {
        { l->a, VC_F32, 2, { RANK, IN }, a_values, sizeof a_values },
        { l->b, VC_F32, 2, { OUT, RANK }, b_values, sizeof b_values },
        { l->alpha, VC_F32, 0, { 0 }, &alpha, sizeof alpha },
    };
    const vf_meta meta = { "lora_adapter_metadata", l->meta };
    vc_err err = { 0 };
    assert_ok(vf_safetensors_write(path, v, l->alpha ? 3 : 2, &meta, l->meta ? 1 : 0, &err), &err);
}

static void test_layouts(void **state)
{
    const char *dir = *state;
    char *path = vc_path_join(dir, "pytorch_lora_weights.safetensors");
    for (size_t i = 0; i < COUNT(layouts); i++) {
        vtrain_lora *l;
        vtrain_lora_pair p;
        vc_err err = { 0 };
        write_layout(path, &layouts[i]);
        assert_ok(vtrain_lora_open(&l, i % 2 ? path : dir, &err), &err);
        assert_int_equal(vtrain_lora_get(l, "transformer_blocks.0.attn1.to_q", &p, &err),
                         VC_ENOENT);
        assert_int_equal(vtrain_lora_all_used(l, NULL, &err), VC_EMISMATCH);
        assert_ok(vtrain_lora_get(l, MODULE, &p, &err), &err);
        assert_int_equal(vtrain_lora_all_used(l, NULL, &err), 0);
        assert_true(p.scale == layouts[i].scale);
        assert_int_equal(p.a.dim[0], RANK);
        assert_int_equal(p.b.dim[0], OUT);
        assert_memory_equal(p.a.data, a_values, sizeof a_values);
        vtrain_lora_close(l);
    }
    free(path);
}

/* Files that are not a LoRA are refused. */
static void test_bad_files(void **state)
{
    const struct { const char *a, *b, *says; int64_t rank_b; } bad[] = {
        { "x.lora_A.weight", "x.weight", "\"x.weight\" is not part of a LoRA", RANK },
        { "x.lora_A.weight", "x.lora_B.a.b.weight", "not part of a LoRA", RANK },
        { "x.lora_A.weight", "x.lora_magnitude_vector", "lacks half of its pair", RANK },
        { "lora_unet_x.dora_scale", "lora_unet_x.alpha", "lacks half of its pair", RANK },
        { "lora_unet_x.lokr_w1", "lora_unet_x.lokr_w2", "has a LoKr", RANK },
        { "lora_unet_x.hada_w1_a", "lora_unet_x.hada_w1_b", "has a LoHa", RANK },
        { "x.lora_A.weight", "x.lora_B.bias", "a change of a bias", RANK },
        { "x.diff", "x.diff_b", "has a change of a whole layer", RANK },
        { "x.lora_A.weight", "x.lora_down.weight", "twice", RANK },
        { "x.lora_A.weight", "lora_unet_x.lora_up.weight", "twice", RANK },
        { "x.lora_A.weight", "y.lora_B.weight", "half", RANK },
        { "x.lora_A.weight", "x.lora_B.weight", "of [2,5] and [3,1]", 1 },
    };
    char *path = vc_path_join(*state, "bad.safetensors");
    for (size_t i = 0; i < COUNT(bad); i++) {
        const vf_view v[] = {
            { bad[i].a, VC_F32, 2, { RANK, IN }, a_values, sizeof a_values },
            { bad[i].b, VC_F32, 2, { OUT, bad[i].rank_b }, b_values,
              sizeof(float) * OUT * (size_t)bad[i].rank_b },
        };
        vtrain_lora *l;
        vtrain_lora_pair p;
        vc_err err = { 0 };
        assert_int_equal(vf_safetensors_write(path, v, 2, NULL, 0, &err), 0);
        int rc = vtrain_lora_open(&l, path, &err);
        if (!rc)
            rc = vtrain_lora_get(l, "x", &p, &err);
        assert_int_equal(rc, VC_EFORMAT);
        assert_says(&err, bad[i].says);
        vtrain_lora_close(l);
    }
    free(path);
}

/* An alpha of any type is read; the error about an alpha that is not a number, or about a half of
 * integers, names the tensor. */
static void test_values(void **state)
{
    static const int64_t whole = 1;
    static const double exact = 1;
    static const float bad[] = { NAN, INFINITY };
    const struct { const char *says; vf_view a, alpha; } rows[] = {
        { NULL, { "", VC_F32, 2, { RANK, IN }, a_values, sizeof a_values },
          { "x.alpha", VC_I64, 0, { 0 }, &whole, 8 } },
        { NULL, { "", VC_F32, 2, { RANK, IN }, a_values, sizeof a_values },
          { "x.alpha", VC_F64, 1, { 1 }, &exact, 8 } },
        { "x.alpha\" has 2 values, but an alpha is one number",
          { "", VC_F32, 2, { RANK, IN }, a_values, sizeof a_values },
          { "x.alpha", VC_F32, 1, { 2 }, a_values, 8 } },
        { "x.alpha\": element 0 is inf", { "", VC_F32, 2, { RANK, IN }, a_values, sizeof a_values },
          { "x.alpha", VC_F32, 0, { 0 }, &bad[1], 4 } },
        { "x.lora_A.weight\": element 0 is nan", { "", VC_F32, 2, { 1, 1 }, bad, 4 },
          { "x.alpha", VC_I64, 0, { 0 }, &whole, 8 } },
        { "x.lora_A.weight\" holds i16", { "", VC_I16, 2, { RANK, IN }, a_values, 2 * RANK * IN },
          { "x.alpha", VC_I64, 0, { 0 }, &whole, 8 } },
    };
    char *path = vc_path_join(*state, "values.safetensors");
    for (size_t i = 0; i < COUNT(rows); i++) {
        vf_view v[] = {
            rows[i].a, { "x.lora_B.weight", VC_F32, 2, { OUT, RANK }, b_values, sizeof b_values },
            rows[i].alpha,
        };
        v[0].name = "x.lora_A.weight";
        vtrain_lora *l;
        vtrain_lora_pair p;
        vc_err err = { 0 };
        assert_int_equal(vf_safetensors_write(path, v, 3, NULL, 0, &err), 0);
        int rc = vtrain_lora_open(&l, path, &err);
        if (!rc)
            rc = vtrain_lora_get(l, "x", &p, &err);
        if (!rows[i].says) {
            assert_true(!rc && p.scale == 1.0 / RANK);
        } else if (!rc || !strstr(err.text, rows[i].says) || !strstr(err.text, path)) {
            fail_msg("%s: %s", rows[i].says, err.text);
        }
        vtrain_lora_close(l);
    }
    free(path);
}

/* In a folder that PEFT saves, adapter_config.json holds alpha. */
static void test_peft_folder(void **state)
{
    static const layout l = { "base_model.model." MODULE ".lora_A.weight",
                              "base_model.model." MODULE ".lora_B.weight", NULL, NULL, 0 };
    static const char *const configs[] = {
        "{\"r\":2,\"lora_alpha\":8,\"alpha_pattern\":{}}", "{\"lora_alpha\":8,\"use_dora\":true}"
    };
    char *dir = vc_path_join(*state, "peft");
    char *path = vc_path_join(dir, "adapter_model.safetensors");
    char *config = vc_path_join(dir, "adapter_config.json");
    vtrain_lora *lora;
    vtrain_lora_pair p;
    vc_err err = { 0 };
    assert_int_equal(vc_mkdirs(dir, &err), 0);
    assert_fails(vtrain_lora_open(&lora, dir, &err), VC_ENOENT, &err,
                 "give the LoRA's file itself");
    write_layout(path, &l);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(vc_file_write(config, configs[i], strlen(configs[i]), &err), 0);
        int rc = vtrain_lora_open(&lora, dir, &err);
        if (i) {
            assert_fails(rc, VC_EFORMAT, &err,
                         "adapter_config.json, but the file has no magnitudes");
        } else {
            assert_int_equal(rc, 0);
            assert_int_equal(vtrain_lora_get(lora, MODULE, &p, &err), 0);
            assert_true(p.scale == 4);
        }
        vtrain_lora_close(lora);
    }
    free(dir);
    free(path);
    free(config);
}

/* ---- folding in ---- */

static void test_merge(void **state)
{
    (void)state;
    float w[OUT * IN];
    for (int i = 0; i < OUT * IN; i++)
        w[i] = (float)i;
    vtrain_lora_merge(w, OUT, IN, a_values, b_values, RANK, 0.5);
    for (int o = 0; o < OUT; o++)
        for (int i = 0; i < IN; i++) {
            double sum = 0;
            for (int k = 0; k < RANK; k++)
                sum += (double)(b_values[o * RANK + k] * a_values[k * IN + i]);
            assert_true((double)w[o * IN + i] == o * IN + i + 0.5 * sum);
        }
}

static int plain_get(void *arg, const char *name, vt_host *v, vc_err *err)
{
    if (strcmp(name, MODULE ".weight"))
        return vc_fail(err, VC_ENOENT, "no %s", name);
    *v = (vt_host){ .dtype = VC_F32, .nd = 2, .dim = { OUT, IN }, .data = arg };
    return 0;
}

static int half_get(void *arg, const char *name, vt_host *v, vc_err *err)
{
    int rc = plain_get(arg, name, v, err);
    v->dtype = VC_F16;
    return rc;
}

/* The largest number of f16 is 65504. */
static void test_overflow(void **state)
{
    static const float alpha = 4e4f;
    static const layout l = { MODULE ".lora_A.weight", MODULE ".lora_B.weight", MODULE ".alpha",
                              NULL, 0 };
    const vf_view v[] = {
        { l.a, VC_F32, 2, { RANK, IN }, a_values, sizeof a_values },
        { l.b, VC_F32, 2, { OUT, RANK }, b_values, sizeof b_values },
        { l.alpha, VC_F32, 0, { 0 }, &alpha, 4 },
    };
    uint16_t w[OUT * IN] = { 0 };
    char *path = vc_path_join(*state, "big.safetensors");
    vtrain_lora *lora;
    vt_host h;
    vc_err err = { 0 };
    assert_int_equal(vf_safetensors_write(path, v, 3, NULL, 0, &err), 0);
    assert_ok(vtrain_lora_open(&lora, path, &err), &err);
    const vt_source base = { .get = half_get, .arg = w };
    vt_source src = vtrain_lora_source(lora, &base, false);
    assert_fails(src.get(src.arg, MODULE ".weight", &h, &err), VC_ENUMERIC, &err,
                 "folded into f16");
    vtrain_lora_close(lora);
    free(path);
}

static int folded(const char *path, float *w, float *out)
{
    vtrain_lora *l;
    vt_host v;
    vc_err err = { 0 };
    int rc = vtrain_lora_open(&l, path, &err);
    assert_int_equal(rc, 0);
    const vt_source base = { .get = plain_get, .arg = w, .mapped = true };
    vt_source src = vtrain_lora_source(l, &base, false);
    rc = src.get(src.arg, MODULE ".weight", &v, &err);
    if (!rc)
        memcpy(out, v.data, sizeof(float) * OUT * IN);
    assert_int_equal(src.get(src.arg, "other.weight", &v, &err), VC_ENOENT);
    vtrain_lora_close(l);
    return rc;
}

static void test_source(void **state)
{
    char *path = vc_path_join(*state, "fold.safetensors");
    float w[OUT * IN], out[OUT * IN], want[OUT * IN];
    for (int i = 0; i < OUT * IN; i++)
        want[i] = w[i] = (float)(i % 7);
    vtrain_lora_merge(want, OUT, IN, a_values, b_values, RANK, 4);
    write_layout(path, &layouts[0]);
    assert_int_equal(folded(path, w, out), 0);
    assert_memory_equal(out, want, sizeof out);
    assert_true(w[1] == 1);                         /* the file's own values are unchanged */
    free(path);
}

static int bf16_get(void *arg, const char *name, vt_host *v, vc_err *err)
{
    int rc = plain_get(arg, name, v, err);
    v->dtype = VC_BF16;
    return rc;
}

/* Several files are folded in one after the other, each at its own strength, as by hand: a weight
 * has the type of the file between them. One copy of it stays. */
static void test_presets(void **state)
{
    static const double strength[] = { 0.5, 1, -2 };
    enum { FILES = 3, N = OUT * IN };
    vc_err err = { 0 };
    vtrain_lora *l[2][FILES];
    uint16_t w[N];
    float want[N], out[N];
    char *path = vc_path_join(*state, "several.safetensors");
    vt_source src[2] = { { .get = bf16_get, .arg = w }, { .get = bf16_get, .arg = w } };
    vt_host v;
    write_layout(path, &layouts[0]);
    for (int i = 0; i < N; i++)
        want[i] = (float)(i % 7) / 3;
    vc_from_f32(w, VC_BF16, want, N);
    vc_to_f32(want, w, VC_BF16, N);
    for (int i = 0; i < FILES; i++) {
        uint16_t rounded[N];
        vtrain_lora_merge(want, OUT, IN, a_values, b_values, RANK, 4 * strength[i]);
        vc_from_f32(rounded, VC_BF16, want, N);
        vc_to_f32(want, rounded, VC_BF16, N);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(vtrain_lora_open(&l[k][i], path, &err), 0);
            assert_int_equal(vtrain_lora_weaken(l[k][i], strength[i], &err), 0);
            src[k] = vtrain_lora_source(l[k][i], &src[k], k);
        }
    }
    for (int k = 0; k < 2; k++) {
        assert_int_equal(src[k].get(src[k].arg, MODULE ".weight", &v, &err), 0);
        assert_int_equal(v.dtype, VC_BF16);
        assert_int_equal(vtrain_lora_bytes(l[k][FILES - 1]), sizeof w);
        vc_to_f32(out, v.data, VC_BF16, N);
        if (!k)
            assert_memory_equal(out, want, sizeof out);
    }
    for (int i = 0; i < 2 * FILES; i++)
        vtrain_lora_close(l[i / FILES][i % FILES]);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets), cmocka_unit_test(test_bad_targets),
        cmocka_unit_test(test_layouts), cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_merge),   cmocka_unit_test(test_source),
        cmocka_unit_test(test_values),  cmocka_unit_test(test_peft_folder),
        cmocka_unit_test(test_overflow), cmocka_unit_test(test_presets),
    };
    return cmocka_run_group_tests(tests, toy_dir_setup, toy_dir_teardown);
}

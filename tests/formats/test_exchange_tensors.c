/* test_exchange_tensors.c - rows of formats/peers/tensors.h find the tensors of a file by their
 * names, axes and masks, and refuse names and sizes that do not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/peers/tensors.h"

static const exchange_names clips = {
    .family = "wan2.1", .latents = "latents_FxHxW_TYPE", .conditions = { "control" }, .n_text = 1,
    .text = { { .embeds = "llm_TYPE", .mask = "llm_mask", .whole = true,
                .trim = EXCHANGE_BY_MASK } }
};
static const exchange_names batches = {
    .family = "flux", .latents = "latents", .axes = EXCHANGE_CHW, .batch = true, .drawn = true,
    .n_text = 2,
    .text = { { .pooled = "pooled" }, { .embeds = "rows", .length = "length", .whole = true,
                                        .trim = EXCHANGE_ALL_ROWS } }
};
static const float values[64];

static void put(exchange_dict *d, const char *name, vc_dtype t, int nd, int64_t a, int64_t b,
                int64_t c, int64_t e)
{
    exchange_dict_view(d, name, (vf_view){ .dtype = t, .nd = nd, .dim = { a, b, c, e } }, values);
}

static void test_full_names(void **state)
{
    static const struct { const char *name, *full; vc_dtype type; size_t start; } rows[] = {
        { "latents_FxHxW_TYPE", "latents_3x4x6_bfloat16", VC_BF16, 8 },
        { "latents_image_FxHxW", "latents_image_3x4x6", VC_BF16, 14 },
        { "clip_TYPE", "clip_float16", VC_F16, 5 }, { "context", "context", VC_F32, 7 },
        { "a_TYPE", "a_float8_e4m3fn", VC_F8E4M3, 2 }, { "a_TYPE", "a_", VC_I64, 2 },
        { "latents_HxW_TYPE", "latents_4x6_float32", VC_F32, 8 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const vf_view v = { .dtype = rows[i].type, .nd = 4, .dim = { 16, 3, 4, 6 } };
        char buf[EXCHANGE_FULL_NAME];
        assert_string_equal(exchange_full_name(buf, rows[i].name, &v), rows[i].full);
        assert_int_equal(exchange_name_start(rows[i].name), rows[i].start);
    }
}

static void test_clips(void **state)
{
    static const float mask[3] = { 1, 1, 0 };
    exchange_dict d = { .n = 0 };
    exchange x = { .no_conditions = 0 };
    exchange_item m = { .path = "a" };
    void *own;
    (void)state;
    put(&d, "control", VC_F32, 1, 1, 0, 0, 0);
    put(&d, "latents_image_1x2x3_float32", VC_F32, 4, 2, 1, 2, 3);
    put(&d, "latents_1x2x3_float32", VC_F32, 4, 2, 1, 2, 3);
    put(&d, "llm_float32", VC_F32, 2, 3, 4, 0, 0);
    exchange_dict_view(&d, "llm_mask", (vf_view){ .dtype = VC_F32, .nd = 1, .dim = { 3 } }, mask);
    const vf_pt_value v = exchange_dict_value(&d);
    assert_int_equal(exchange_take_latents(&m, &x, &clips, &v, &own, NULL), 0);
    assert_int_equal(m.mean.dim[0], 2);
    assert_int_equal(m.mean.nd, 4);
    assert_false(m.drawn);
    assert_null(own);
    assert_int_equal(x.no_conditions, 1);
    assert_int_equal(exchange_take_texts(&m, &clips, &v, NULL), 0);
    assert_int_equal(m.n_text, 1);
    assert_int_equal(m.text[0].embeds.dim[0], 2);            /* the mask's ones */
    assert_int_equal(m.text[0].embeds.bytes, 2 * 4 * sizeof(float));
    assert_int_equal(m.text[0].length, 3);
    const exchange_names rows[] = { batches, clips, { .family = NULL } };
    assert_ptr_equal(exchange_guess(rows, &v, &v), &rows[1]);
}

static void test_batches(void **state)
{
    exchange_dict d = { .n = 0 };
    exchange x = { .no_conditions = 0 };
    exchange_item m = { .path = "a" };
    void *own;
    (void)state;
    put(&d, "latents", VC_F32, 4, 1, 2, 3, 4);
    put(&d, "pooled", VC_F32, 2, 1, 5, 0, 0);
    put(&d, "rows", VC_F32, 3, 1, 3, 4, 0);
    put(&d, "length", VC_F32, 0, 0, 0, 0, 0);
    const vf_pt_value v = exchange_dict_value(&d);
    assert_int_equal(exchange_take_latents(&m, &x, &batches, &v, &own, NULL), 0);
    assert_true(m.drawn && m.mean.nd == 4 && m.mean.dim[0] == 2 && m.mean.dim[1] == 1 &&
                m.mean.dim[3] == 4);
    assert_int_equal(exchange_take_texts(&m, &batches, &v, NULL), 0);
    assert_true(m.n_text == 2 && m.text[0].pooled.dim[0] == 5 && m.text[1].embeds.dim[0] == 3);
    assert_true(exchange_has_text(&batches, 1, &v) && !exchange_has_text(&clips, 0, &v));
}

/* Tokens of 2 x 3 places, whose sides are numbers of pixels; texts that are a list. */
static void test_tokens(void **state)
{
    static const exchange_names of_tokens = {
        .family = "flux2", .latents = "latents", .axes = EXCHANGE_TOKENS, .batch = true,
        .sides = { "height", "width" }, .n_text = 1,
        .text = { { .embeds = "rows", .list = true, .most = 2 } }
    }, of_tensor = { .family = "flux2", .latents = "latents", .axes = EXCHANGE_TOKENS, .n_text = 1,
                     .text = { { .embeds = "rows" } } };
    static const float tokens[12] = { 0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11 };
    const exchange_names rows[] = { of_tensor, of_tokens, { .family = NULL } };
    const vf_view text = { .dtype = VC_F32, .nd = 2, .dim = { 3, 4 }, .data = values, .bytes = 48 };
    const vf_pt_value one = { .kind = VF_PT_TENSOR, .tensor = &text }, *item = &one;
    (void)state;
    for (int k = 0; k < 2; k++) {
        exchange_dict d = { .n = 0 };
        exchange x = { .no_conditions = 0 };
        exchange_item m = { .path = "a" };
        vc_err err = { 0 };
        void *own;
        exchange_dict_view(&d, "latents", (vf_view){ .dtype = VC_F32, .nd = 3, .dim = { 1, 6, 2 } },
                           tokens);
        exchange_dict_add(&d, "height", VF_PT_INT)->i = 32 + 16 * k;
        exchange_dict_add(&d, "width", VF_PT_INT)->i = 48;
        vf_pt_value *list = exchange_dict_add(&d, "rows", VF_PT_LIST);
        list->item = &item;
        list->n = k ? 0 : 1;
        const vf_pt_value v = exchange_dict_value(&d);
        assert_ptr_equal(exchange_guess(rows, &v, &v), &rows[1]);
        int rc = exchange_take_latents(&m, &x, &of_tokens, &v, &own, &err);
        if (k) {
            assert_int_equal(rc, VC_EFORMAT);
            assert_string_equal(err.text, "latents: 6 tokens, not those of height / 16 and width / "
                                "16, 3 x 3");
            assert_int_equal(exchange_take_texts(&m, &of_tokens, &v, &err), VC_EFORMAT);
            continue;
        }
        assert_int_equal(rc, 0);
        assert_memory_equal(m.mean.dim, ((int64_t[]){ 2, 1, 2, 3 }), 4 * sizeof(int64_t));
        for (int i = 0; i < 12; i++)
            assert_int_equal(((const float *)m.mean.data)[i], i);
        free(own);
        assert_int_equal(exchange_take_texts(&m, &of_tokens, &v, &err), 0);
        assert_int_equal(m.text[0].embeds.dim[0], 2);        /* as many as the model reads */
    }
}

/* A file with one tensor of another name, size or type. */
static void test_refused(void **state)
{
    static const struct { const char *name; vc_dtype type; int nd; int64_t w; const char *says; }
    rows[] = {
        { "latents_1x2x3_float16", VC_F32, 4, 3, "latents_1x2x3_float32, of its sizes and type" },
        { "latents_1x2x3_float32", VC_F32, 4, 4, "latents_1x2x4_float32" },
        { "latents_1x2x3_float32x", VC_F32, 4, 3, "the file is damaged" },
        { "latents_1x2x3_float32", VC_F32, 2, 3, "latents_FxHxW_TYPE: 4 dimensions expected" },
        { "latents_x", VC_F32, 4, 3, "latents_FxHxW_TYPE: missing" },
        { "latent", VC_F32, 4, 3, "latents_FxHxW_TYPE: missing" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        exchange_dict d = { .n = 0 };
        exchange x = { .no_conditions = 0 };
        exchange_item m = { .path = "a" };
        vc_err err = { 0 };
        void *own;
        put(&d, rows[i].name, rows[i].type, rows[i].nd, 2, 1, 2, rows[i].w);
        const vf_pt_value v = exchange_dict_value(&d);
        assert_true(exchange_take_latents(&m, &x, &clips, &v, &own, &err) < 0);
        if (!strstr(err.text, rows[i].says))
            fail_msg("%s: \"%s\"", rows[i].name, err.text);
        assert_int_equal(exchange_take_texts(&m, &clips, &v, &err), VC_ENOENT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_names), cmocka_unit_test(test_clips),
        cmocka_unit_test(test_batches), cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_exchange.c - orders, types and constants of other trainers' latents are compared with
 * numbers computed by hand: a round trip alone would not find a mistake in both directions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/sha256.h"
#include "formats/peers/exchange_parts.h"
#include "tests/lib/tmp_dir.h"

static void test_swap(void **state)
{
    static const uint8_t src[12] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };     /* [2,3,2] */
    static const uint8_t want[12] = { 0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11 };    /* [3,2,2] */
    uint8_t dst[12];
    (void)state;
    exchange_swap(dst, src, 2, 3, 2, 1);
    assert_memory_equal(dst, want, 12);
}

/* The latent has two channels, two frames and one pixel, with the mean 1..4 and the logvar 5..8. */
static void test_moments(void **state)
{
    static const float mean[4] = { 1, 2, 3, 4 }, logvar[4] = { 5, 6, 7, 8 };
    static const float frames_first[8] = { 1, 3, 5, 7, 2, 4, 6, 8 },
        point[8] = { 1, 2, 3, 4, -30, -30, -30, -30 };
    exchange_sample s = { .mean = { "mean", VC_F32, 4, { 2, 2, 1, 1 }, mean, 16 },
                       .logvar = { "logvar", VC_F32, 4, { 2, 2, 1, 1 }, logvar, 16 } };
    void *m, *own;
    (void)state;
    assert_int_equal(exchange_moments(&s, VC_F32, true, &m, NULL), 0);
    assert_memory_equal(m, frames_first, sizeof frames_first);
    const vf_view v = { NULL, VC_F32, 4, { 2, 4, 1, 1 }, m, 32 };
    exchange_item item = { 0 };
    assert_int_equal(exchange_split(&v, true, &item, &own, NULL), 0);
    assert_memory_equal(item.mean.data, mean, 16);
    assert_memory_equal(item.logvar.data, logvar, 16);
    free(own);
    free(m);
    s.logvar.data = NULL;
    assert_int_equal(exchange_moments(&s, VC_F32, false, &m, NULL), 0);
    assert_memory_equal(m, point, sizeof point);
    free(m);
}

static void test_constants(void **state)
{
    exchange_norm n;
    float x = 2.0613f;                       /* -0.7571 + 2.8184 */
    (void)state;
    exchange_norm_family(&n, exchange_family_find("wan2.1"));
    exchange_normalize(&n, 0, &x, 1);
    assert_true(x > 0.99999f && x < 1.00001f);
    exchange_denormalize(&n, 0, &x, 1);
    assert_true(x > 2.06129f && x < 2.06131f);
    exchange_norm_family(&n, exchange_family_find("hunyuanvideo"));
    x = 1;
    exchange_normalize(&n, 3, &x, 1);
    assert_true(x == 0.476986f);
    assert_null(exchange_family_find("none"));
    exchange_norm_family(&n, exchange_family_find("flux"));
    x = 1.1159f;
    exchange_normalize(&n, 3, &x, 1);
    assert_true(x > 0.36109f && x < 0.36111f);
    assert_null(exchange_family_find("builtin"));           /* no other trainer has this family */
}

/* Constants of the file of --vae are refused unless each list has a number for each channel. */
static void test_constants_of_a_file(void **state)
{
    static const struct { const char *text, *message; } rows[] = {
        { "{\"latents_mean\":\"x\",\"latents_std\":\"x\"}", "latents_mean: expected an array" },
        { "{\"latents_mean\":[0,1],\"latents_std\":[1,1]}", "lists of 2 and 2, 3 numbers each" },
        { "{\"latents_mean\":[0,1,2]}", "lists of 3 and 0, 3 numbers each" },
        { "{\"latents_mean\":[0,1,2],\"latents_std\":[1,1,0]}",
          "latents_std[2]: 0 is not above 0" },
        { "{\"latents_mean\":[0,null,2],\"latents_std\":[1,1,1]}", "latents_mean[1]: expected" },
        { "{\"scaling_factor\":0}", "scaling_factor: 0 is not above 0" },
        { "[]", "no JSON object" },
        { "{\"latents_mean\":[0,1,2],\"latents_std\":[1,1,4],\"shift_factor\":0.5}", NULL },
        { "{\"latents_mean\":null,\"latents_std\":null}", NULL },
    };
    char *path = vc_path_join(*state, "config.json");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        exchange_norm n = { .channels = 3, .scaling = 2, .per_channel = true };
        vc_err err = { 0 };
        assert_int_equal(vc_file_write(path, rows[i].text, strlen(rows[i].text), &err), 0);
        int rc = exchange_norm_config(&n, i % 2 ? path : *state, &err);
        if (!rows[i].message ? rc : rc != VC_EFORMAT || !strstr(err.text, rows[i].message) ||
                                 !strstr(err.text, path))
            fail_msg("%s: %s", rows[i].text, err.text);
        if (rows[i].message)
            continue;
        assert_true(n.scaling == 2 && n.channels == 3);
        assert_int_equal(n.per_channel, rows[i].text[16] == '[');
        if (n.per_channel)
            assert_true(n.shift == 0.5 && n.mean[2] == 2 && n.std[2] == 4);
    }
    free(path);
}

/* Every family that a row of the table of formats names exists. */
static void test_formats(void **state)
{
    static const exchange_format *const all[] = {
        &exchange_musubi, &exchange_finetrainers, &exchange_causvid, &exchange_ttt,
        &exchange_diffsynth,
        &exchange_cogvideo, &exchange_factory, &exchange_kohya,
#ifdef VLT_SQLITE
        &exchange_dpipe,
#endif
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const exchange_format *f = all[i];
        assert_non_null(exchange_family_find(f->family));
        assert_int_equal(exchange_layout(f, f->family) != NULL, f->layouts != NULL);
        assert_null(exchange_layout(f, ""));
        assert_null(exchange_layout(f, "wan"));
        const char *row = f->layouts, *name, *last = NULL;
        for (; row && (name = *(const char *const *)(const void *)row); row += f->layout_size) {
            assert_non_null(exchange_family_find(name));
            if (!last || strcmp(name, last)) /* the rows of a family follow one another */
                assert_ptr_equal(exchange_layout(f, name), row);
            last = name;
        }
    }
}

static void test_types(void **state)
{
    static const float f[2] = { 1, 70000 };
    const vf_view v = { NULL, VC_F32, 1, { 2 }, f, 8 };
    uint16_t half[2];
    vc_err err = { 0 };
    (void)state;
    assert_int_equal(exchange_convert(half, VC_F16, &v, 0, 1, &err), 0);
    assert_int_equal(half[0], 0x3c00);
    assert_int_equal(exchange_convert(half, VC_F16, &v, 0, 2, &err), VC_ENUMERIC);
}

static void test_masks(void **state)
{
    static const uint8_t plain[4] = { 1, 1, 0, 0 }, gap[4] = { 1, 0, 1, 0 }, none[4] = { 0 };
    vf_view v = { NULL, VC_BOOL, 1, { 4 }, plain, 4 };
    int64_t rows;
    (void)state;
    assert_int_equal(exchange_mask_rows(&v, &rows, NULL), 0);
    assert_int_equal(rows, 2);
    v.data = gap;
    assert_int_equal(exchange_mask_rows(&v, &rows, NULL), VC_EFORMAT);
    v.data = none;
    assert_int_equal(exchange_mask_rows(&v, &rows, NULL), 0);
    assert_int_equal(rows, 1);
}

/* The rows are the examples of FIPS 180-4, and lengths whose padding needs another block. */
static void test_sha256(void **state)
{
    static const struct { const char *text, *want; } rows[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
        { "0123456789012345678901234567890123456789012345678901234",
          "f34d5a0f80c0cbf84c8c0b90218c22637abd199965249da736a20143c8c9c9d9" },
        { "0123456789012345678901234567890123456789012345678901234567890123456789",
          "57445fa40b08c60cdcba7ca39c756de614d11482e3f15a925f548688c19e58f4" },
    };
    char hex[VC_SHA256_HEX];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(vc_sha256(hex, rows[i].text, strlen(rows[i].text)), rows[i].want);
}

/* Values of a dataset with names or numbers that no reader can use. */
static void test_values(void **state)
{
    static const float good[4] = { 1, 2, 3, 4 }, bad[4] = { 1, 2, 3, (float)INFINITY },
        none[4] = { 1, (float)NAN, 3, 4 };
    static const struct { bool text; const char *a, *b; const float *data; const char *message; }
    rows[] = {
        { false, "mean", NULL, good, NULL }, { false, "mean", "logvar", good, NULL },
        { false, "sample", NULL, good, NULL }, { false, "mask", NULL, good, NULL },
        { false, "image_embeds", NULL, good, NULL }, { true, "prompt_embeds", NULL, good, NULL },
        { true, "prompt_embeds", "pooled", good, NULL }, { true, "pooled", NULL, good, NULL },
        { false, "meen", NULL, good, "tensor \"meen\": no such tensor" },
        { false, "mean", "lagvar", good, "tensor \"lagvar\"" },
        { false, "meen", "logvar", good, "tensor \"meen\"" },
        { false, "logvar", NULL, good, "no tensor \"mean\"" },
        { false, "sample", "logvar", good, "tensor \"sample\"" },
        { false, "mask", "mean", good, "tensor \"mask\"" },
        { false, "prompt_embeds", NULL, good, "tensor \"prompt_embeds\"" },
        { true, "prompt_embeds", "pooked", good, "tensor \"pooked\"" },
        { true, "mean", NULL, good, "tensor \"mean\"" },
        { false, "mean", "logvar", bad, "tensor \"logvar\": element 3 is inf" },
        { true, "pooled", NULL, none, "tensor \"pooled\": element 1 is nan" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vc_err err = { 0 };
        vf_view v[2] = { { rows[i].a, VC_F32, 1, { 4 }, rows[i].b ? good : rows[i].data, 16 },
                         { rows[i].b, VC_F32, 1, { 4 }, rows[i].data, 16 } };
        uint8_t *bytes;
        size_t size;
        vf_safetensors *st;
        assert_int_equal(vf_safetensors_pack(&bytes, &size, v, rows[i].b ? 2 : 1, NULL, 0, 1, NULL),
                         0);
        assert_int_equal(vf_safetensors_parse(&st, bytes, size, NULL), 0);
        int rc = exchange_check_value(rows[i].text, st, &err);
        if (!rows[i].message ? rc : !rc || !strstr(err.text, rows[i].message))
            fail_msg("row %zu: %d, %s", i, rc, err.text);
        vf_safetensors_close(st);
        free(bytes);
    }
}

/* Latents and texts of other trainers' files, with a value that is no number in each place. */
static void test_finite(void **state)
{
    static const struct { float value; bool fails; } rows[] = {
        { 1, false }, { (float)NAN, true }, { (float)INFINITY, true }, { -(float)INFINITY, true },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int at = 0; at < 4; at++) {
            float f[4][4] = { { 1, 2, 3, 4 }, { 1, 2, 3, 4 }, { 1, 2, 3, 4 }, { 1, 2, 3, 4 } };
            vc_err err = { 0 };
            f[at][at] = rows[i].value;
            exchange_item m = { .mean = { "", VC_F32, 4, { 4, 1, 1, 1 }, f[0], 16 }, .n_text = 1,
                                .logvar = { "", VC_F32, 4, { 4, 1, 1, 1 }, f[1], 16 } };
            m.text[0].embeds = (vf_view){ "", VC_F32, 2, { 2, 2 }, f[2], 16 };
            m.text[0].pooled = (vf_view){ "", VC_F32, 1, { 4 }, f[3], 16 };
            int latent = exchange_check_latent(&m, at < 2 ? &err : NULL);
            int text = exchange_check_text(NULL, &m, 0, at < 2 ? NULL : &err);
            assert_int_equal(latent, rows[i].fails && at < 2 ? VC_ENUMERIC : 0);
            assert_int_equal(text, rows[i].fails && at >= 2 ? VC_ENUMERIC : 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_swap), cmocka_unit_test(test_moments),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_types), cmocka_unit_test(test_formats),
        cmocka_unit_test_setup_teardown(test_constants_of_a_file, tmp_dir_setup, tmp_dir_teardown),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_values), cmocka_unit_test(test_finite),
    };
    return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}

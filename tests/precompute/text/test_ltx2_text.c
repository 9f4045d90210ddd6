/* test_ltx2_text.c - the row of LTX-2 encodes prompts like diffusers' pipeline (tests/golden/
 * ltx2-text): white space at the ends, tokens, and features of 2.0 and 2.3; without the folder of
 * connectors the encoder does not open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/families.h"
#include "precompute/text/prompt.h"
#include "tests/lib/ok.h"
#include "tests/precompute/text/text_folder.h"

enum { WIDTH = 32, PROMPTS = 4 };

/* The features of 2.0 are differences from a mean, which amplify the rounding of f32. */
#define F32 5e-5

static encoder_opts options(const char *dir, const char *beside)
{
    const vc_text *t = &vc_family_find("ltx-2")->text[0];

    assert_true(t->beside && t->stripped && t->masked);
    return (encoder_opts){ .dir = dir, .tokenizer = dir, .beside = beside, .dtype = VC_F32,
                           .device = golden_device(), .threads = 1,
                           .text = { .max_length = t->max_length, .stripped = true,
                                     .masked = true } };
}

static void put_tokenizer(const tf_fixture *f)
{
    tf_put_text(f->dir, "tokenizer.json", vf_safetensors_meta(f->gold, "tokenizer"));
    tf_put_text(f->dir, "tokenizer_config.json", "{\"pad_token\":\"<pad>\"}");
}

/* Checks the tokens and the features of prompt i. */
static void check(const tf_fixture *f, const char *version, int i, const text_result *r)
{
    char name[32];
    int64_t dim[8];
    vf_view v;
    vc_err err = { 0 };

    snprintf(name, sizeof name, "ids_%d", i);
    assert_ok(vf_safetensors_get(f->gold, name, &v, &err), &err);
    assert_int_equal(r->n, v.dim[0]);
    assert_memory_equal(r->ids, v.data, v.bytes);
    snprintf(name, sizeof name, "features_%s_%d", version, i);
    float *want = golden_values(f->gold, name, dim);
    assert_true(dim[0] == r->n && dim[1] == WIDTH && r->width == WIDTH);
    double e = golden_error(r->embeds, want, (int64_t)r->n * WIDTH);
    if (!(e <= F32))
        fail_msg("%s: the error is %.3g, the limit %.3g", name, e, F32);
    free(want);
}

static vf_key encode_all(const char *version)
{
    char golden[32];
    tf_fixture f = tf_open("ltx2-text", VC_F32);

    snprintf(golden, sizeof golden, "ltx2-connectors-%s", version);
    tf_fixture beside = tf_open(golden, VC_BF16);
    const encoder_opts o = options(f.dir, beside.dir);
    cJSON *prompts = cJSON_Parse(vf_safetensors_meta(f.gold, "prompts"));
    text_info info = { 0 };
    text_enc *t;
    vc_err err = { 0 };

    put_tokenizer(&f);
    assert_ok(text_open(&t, &text_gemma3, &o, &info, &err), &err);
    assert_true(info.width == WIDTH && !info.padded && !info.front);
    assert_int_equal(cJSON_GetArraySize(prompts), PROMPTS);
    for (int i = 0; i < PROMPTS; i++) {
        const text_input in = { .prompt = cJSON_GetArrayItem(prompts, i)->valuestring };
        text_result r;
        assert_ok(text_encode(t, &in, 1, &r, &err), &err);
        check(&f, version, i, &r);
    }
    text_close(t);
    cJSON_Delete(prompts);
    tf_close(&beside);
    tf_close(&f);
    return info.fingerprint;
}

static void equals_the_pipeline(void **state)
{
    (void)state;
    vf_key one = encode_all("20"), other = encode_all("23");
    assert_memory_not_equal(one.b, other.b, sizeof one.b);
}

static void needs_connectors(void **state)
{
    tf_fixture f = tf_open("ltx2-text", VC_F32);
    const encoder_opts o = options(f.dir, NULL);
    text_info info = { 0 };
    text_enc *t;
    vc_err err = { 0 };

    (void)state;
    put_tokenizer(&f);
    assert_fails(text_open(&t, &text_gemma3, &o, &info, &err), VC_EINVAL, &err,
                 "no folder of connectors");
    assert_null(t);
    tf_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_pipeline), cmocka_unit_test(needs_connectors),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}

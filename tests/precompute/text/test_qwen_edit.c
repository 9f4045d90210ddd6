/* test_qwen_edit.c - prompts with reference pictures as Qwen-Image-Edit's pipelines encode them, of
 * the first model and of Plus, against diffusers (tests/golden/qwen-edit-text); keys; captions and
 * folders that are refused; the crop of the real tokenizer (where VLT_TEST_DATA is set). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "buckets/references.h"
#include "formats/json/json.h"
#include "tests/lib/ok.h"
#include "tests/precompute/text/pictured.h"

#define COUNT(a) (sizeof (a) / sizeof *(a))

#define GOLDEN "qwen-edit-text", "<|endoftext|>"
enum { CROP = 64, WIDTH = 32, EVERY = 11, FIRST = 0, PLUS = 1 };

static const char *const pipelines[] = { "QwenImageEditPipeline", "QwenImageEditPlusPipeline" };

static const vc_pipeline *pipeline(int kind)
{
    return vc_family_pipeline(vc_family_find("qwen-image"), pipelines[kind]);
}

static text_rule rule_of(int kind)
{
    const vc_text *t = vc_family_texts(vc_family_find("qwen-image"), pipeline(kind));

    assert_true(t->crop == CROP && t->each);
    return (text_rule){ .max_length = t->max_length, .template = t->template, .crop = t->crop,
                        .masked = t->masked, .each = t->each, .picture_rows = 1600 };
}

/* Picture i, in the size in which the pipeline's text encoder gets it. */
static text_picture picture_of(const tf_fixture *f, int kind, int i)
{
    const vb_reference_rule rule = { .family = vc_family_find("qwen-image"),
                                     .references = pipeline(kind)->references };
    text_picture t = pictured_picture(f, i);
    vb_choice c;

    vb_reference_look(&c, &rule, t.w, t.h);
    t.look_h = c.target_h;
    t.look_w = c.target_w;
    return t;
}

static void equals(const tf_fixture *f, int i, int kind, const text_result *r, vc_dtype type)
{
    const vf_view ids = pictured_view(f, "ids", i), states = pictured_view(f, "states", i);
    const int every = kind == FIRST ? EVERY : 1, n = (r->n + every - 1) / every;
    float *have = malloc((size_t)n * WIDTH * sizeof *have);

    assert_int_equal(r->length, ids.dim[0]);
    assert_memory_equal(r->ids, ids.data, ids.bytes);
    for (int k = 0; k < r->length; k++)
        assert_int_equal(r->mask[k], 1);
    assert_true(r->width == WIDTH && states.dim[1] == WIDTH);
    assert_int_equal(n, states.dim[0]);
    for (int k = 0; k < n; k++)
        memcpy(have + k * WIDTH, r->embeds + (size_t)(k * every) * WIDTH, WIDTH * sizeof *have);
    const double e = golden_error(have, states.data, (int64_t)n * WIDTH);
    free(have);
    if (!(e <= (type == VC_F32 ? PICTURED_F32 : PICTURED_BF16)))
        fail_msg("text %d, %s: %g", i, vc_dtype_name(type), e);
}

/* All texts of one pipeline; one without pictures between those with some changes nothing. */
static void pipeline_equals(const tf_fixture *f, int kind, vc_dtype type)
{
    const encoder_opts o = pictured_options(f->dir, rule_of(kind), type);
    cJSON *texts = cJSON_Parse(vf_safetensors_meta(f->gold, "texts"));
    text_enc *t;
    text_info info;
    text_result r;
    vc_err err = { 0 };

    assert_ok(text_open(&t, &text_qwen2_5_vl, &o, &info, &err), &err);
    assert_true(info.width == WIDTH && info.batch == 1 && !info.padded);
    for (int i = 0; i < cJSON_GetArraySize(texts); i++) {
        const cJSON *row = cJSON_GetArrayItem(texts, i);
        const int n = cJSON_GetArrayItem(row, 2)->valueint;
        text_picture picture[VC_REFERENCES];
        if (cJSON_GetArrayItem(row, 0)->valueint != kind)
            continue;
        for (int k = 0; k < n; k++)
            picture[k] = picture_of(f, kind, k);
        const text_input in = { cJSON_GetArrayItem(row, 1)->valuestring, n ? picture : NULL, n };
        const text_input none = { "a", NULL, 0 };
        assert_ok(text_encode(t, &none, 1, &r, &err), &err);
        assert_ok(text_encode(t, &in, 1, &r, &err), &err);
        assert_true(r.n <= info.rows);
        equals(f, i, kind, &r, type);
    }
    text_close(t);
    cJSON_Delete(texts);
}

static void equals_pipelines(void **state)
{
    tf_fixture f = pictured_open(GOLDEN);

    (void)state;
    assert_string_equal(vf_safetensors_meta(f.gold, "template"), rule_of(PLUS).template);
    for (vc_dtype type = VC_F32; type <= VC_BF16; type++)
        for (int kind = FIRST; kind <= PLUS; kind++)
            pipeline_equals(&f, kind, type);
    tf_close(&f);
}

/* ---- what does not belong together ---- */

static void other_models(void **state)
{
    tf_fixture f = pictured_open(GOLDEN);
    encoder_opts o = pictured_options(f.dir, rule_of(PLUS), VC_F32);
    cJSON *config = golden_json(f.gold, "config");
    cJSON *part = cJSON_GetObjectItemCaseSensitive(config, "text_config");
    char *text;

    (void)state;
    pictured_refused_with(&text_qwen2_5_vl, &f, &o, "image_token_id", "3", VC_EMISMATCH,
                          "no token of a text with a picture is <|image_pad|>, id 3");
    cJSON *rope = cJSON_GetObjectItemCaseSensitive(part, "rope_parameters");
    cJSON_DeleteItemFromObjectCaseSensitive(rope, "mrope_section");
    text = vf_json_line(config);
    tf_put_config(&f, text);
    free(text);
    pictured_refused(&text_qwen2_5_vl, &o, VC_EFORMAT,
                     "config.json: mrope_section: 0, 0, 0 are not the 8 angles of a head");
    o.text.each = NULL;
    text_enc *t;
    text_info info;
    vc_err err = { 0 };
    assert_ok(text_open(&t, &text_qwen2_5_vl, &o, &info, &err), &err);      /* texts alone */
    text_close(t);
    tf_put_config(&f, vf_safetensors_meta(f.gold, "config"));
    o = pictured_options(f.dir, rule_of(PLUS), VC_F32);
    o.image_processor = "/nowhere";
    pictured_refused(&text_qwen2_5_vl, &o, VC_ENOENT, "/nowhere/preprocessor_config.json");
    cJSON_Delete(config);
    tf_close(&f);
}

/* A caption that spells the picture's token, or that is longer than the limit, is an error of its
 * row. */
static void captions_refused(void **state)
{
    tf_fixture f = pictured_open(GOLDEN);
    encoder_opts o = pictured_options(f.dir, rule_of(PLUS), VC_F32);
    const text_picture picture = picture_of(&f, PLUS, 0);
    vc_err err = { 0 };
    text_enc *t;
    text_info info;
    text_result r;
    char longer[400] = "";

    (void)state;
    o.text.max_length = 300;
    assert_ok(text_open(&t, &text_qwen2_5_vl, &o, &info, &err), &err);
    for (int n = 0; n < 2; n++)
        assert_fails(text_encode(t, &(text_input){ "a <|image_pad|>",
                     n ? &picture : NULL, n }, 1, &r, &err), VC_EINVAL, &err,
                     "holds <|image_pad|>");
    memset(longer, 'b', sizeof longer - 1);
    assert_fails(text_encode(t, &(text_input){ longer, &picture, 1 }, 1, &r, &err),
                 VC_EINVAL, &err, "not cut");
    text_close(t);
    o.text.max_length = 100;
    o.text.picture_rows = 100;
    assert_ok(text_open(&t, &text_qwen2_5_vl, &o, &info, &err), &err);
    assert_int_equal(info.rows, 200);
    assert_fails(text_encode(t, &(text_input){ "a", &picture, 1 }, 1, &r, &err),
                 VC_EINVAL, &err, "of 200 that a text may have");
    text_close(t);
    tf_close(&f);
}

/* Every picture's key, their order, and the words around them are in a text's key. */
static void keys(void **state)
{
    text_info info[2] = { { .rule = rule_of(FIRST) }, { .rule = rule_of(PLUS) } };
    const text_picture a = { .key = vf_hash("a", 1) }, b = { .key = vf_hash("b", 1) };
    const text_picture ab[] = { a, b }, ba[] = { b, a };
    const struct { int kind; text_input in; } row[] = {
        { PLUS, { "a", NULL, 0 } }, { PLUS, { "a", &a, 1 } }, { PLUS, { "a", &b, 1 } },
        { PLUS, { "a", ab, 2 } }, { PLUS, { "a", ba, 2 } }, { FIRST, { "a", &a, 1 } },
        { PLUS, { "", &a, 1 } },
    };
    vf_key key[COUNT(row)];

    (void)state;
    for (size_t i = 0; i < COUNT(row); i++) {
        key[i] = text_prompt_key(&info[row[i].kind], VC_F32, VC_F32, &row[i].in);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(&key[i], &key[k], sizeof *key);
    }
}

/* ---- the real tokenizer ---- */

/* Qwen2.5's, in front of the golden's tiny model, whose vocabulary is too small for it: the crop is
 * compared first. */
static void real_crop(void **state)
{
    char *dir = pictured_data("tokenizers/qwen2.5");

    (void)state;
    tf_fixture f = pictured_open(GOLDEN);
    encoder_opts o = pictured_options(f.dir, rule_of(PLUS), VC_F32);
    o.tokenizer = dir;
    pictured_refused(&text_qwen2_5_vl, &o, VC_EINVAL,
                     "token 0 has id 151644");      /* behind the crop of 64 */
    free(dir);
    tf_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_pipelines), cmocka_unit_test(other_models),
        cmocka_unit_test(captions_refused), cmocka_unit_test(keys), cmocka_unit_test(real_crop),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}

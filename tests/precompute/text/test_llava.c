/* test_llava.c - prompts with a picture as HunyuanVideo's image-to-video pipeline encodes them, and
 * the picture as its image processor does, against diffusers and Pillow (tests/golden/
 * hunyuanvideo-llava); weights in transformers' older names; folders that are another model's; the
 * crop of the real tokenizer (where VLT_TEST_DATA is set). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/families.h"
#include "formats/json/json.h"
#include "precompute/pictures/image_processor.h"
#include "tests/lib/ok.h"
#include "tests/precompute/text/pictured.h"

#define PAD "<pad>"
#define GOLDEN "hunyuanvideo-llava", PAD
enum { PICTURES = 4, PROMPTS = 9, SIDE = 56, CROP = 103 };

static text_rule rule_of(int interleave)
{
    const vc_family *f = vc_family_find("hunyuanvideo");
    const vc_pipeline *p = vc_family_pipeline(f, "HunyuanVideoImageToVideoPipeline");
    const vc_text *t = vc_family_texts(f, p);

    assert_true(t[0].picture && t[0].crop == CROP && t[1].pooled_only);
    return (text_rule){ .max_length = t->max_length, .template = t->template, .crop = t->crop,
                        .skip = t->skip, .masked = t->masked, .interleave = interleave };
}

static void is_near(const tf_fixture *f, const char *kind, int i, const float *have, int n,
                    int width, double most)
{
    char name[32];
    int64_t dim[8] = { 0 };

    snprintf(name, sizeof name, i < 0 ? "%s" : "%s_%d", kind, i);
    float *want = golden_values(f->gold, name, dim);
    assert_int_equal(dim[0], n);
    assert_int_equal(dim[1], width);
    double e = golden_error(have, want, (int64_t)n * width * (dim[2] ? dim[2] : 1));
    free(want);
    if (!(e <= most))
        fail_msg("%s: %g", name, e);
}

/* ---- the picture ---- */

static void pictures_are_pillows(void **state)
{
    tf_fixture f = pictured_open(GOLDEN);
    image_processor p;
    float pixels[SIDE * SIDE * 3];
    vc_err err = { 0 };

    (void)state;
    assert_ok(image_processor_open(&p, f.dir, SIDE, false, &err), &err);
    for (int i = 0; i < PICTURES; i++) {
        const text_picture t = pictured_picture(&f, i);
        assert_ok(image_processor_run(&p, t.rgb, t.h, t.w, pixels, &err), &err);
        is_near(&f, "pixels", i, pixels, SIDE, SIDE, 1e-6);
    }
    tf_close(&f);
}

static void refuses_processor(const tf_fixture *f, const char *field, const char *value, int rc,
                              const char *says)
{
    image_processor p;
    vc_err err = { 0 };
    cJSON *o = cJSON_Parse(vf_safetensors_meta(f->gold, "image_processor"));

    cJSON_ReplaceItemInObjectCaseSensitive(o, field, cJSON_Parse(value));
    char *text = vf_json_line(o);
    tf_put_text(f->dir, "preprocessor_config.json", text);
    assert_fails(image_processor_open(&p, f->dir, SIDE, false, &err), rc, &err, says);
    assert_non_null(strstr(err.text, "preprocessor_config.json"));
    free(text);
    cJSON_Delete(o);
}

static void other_processors(void **state)
{
    tf_fixture f = pictured_open(GOLDEN);
    image_processor p;
    vc_err err = { 0 };

    (void)state;
    refuses_processor(&f, "crop_size", "{\"height\": 48, \"width\": 48}", VC_EMISMATCH,
                      "crop_size: pictures of 48 pixels a side, the vision model takes 56: give");
    refuses_processor(&f, "crop_size", "{\"height\": 56, \"width\": 48}", VC_EFORMAT, "a square");
    refuses_processor(&f, "size", "40", VC_EFORMAT, "size: 40 is less than crop_size: 56");
    refuses_processor(&f, "resample", "2", VC_EFORMAT, "resample");
    refuses_processor(&f, "do_normalize", "false", VC_EFORMAT, "do_normalize");
    refuses_processor(&f, "image_std", "[0.5]", VC_EFORMAT, "image_std");
    tf_put_text(f.dir, "preprocessor_config.json", "{\"size\": 56, \"crop_size\": 56}");
    assert_ok(image_processor_open(&p, f.dir, SIDE, false, &err), &err);
    assert_true(p.size == SIDE && p.side == SIDE);
    tf_close(&f);
}

/* ---- texts ---- */

static void same_ids(const tf_fixture *f, int i, const text_result *r)
{
    const vf_view ids = pictured_view(f, "ids", i), mask = pictured_view(f, "mask", i);

    assert_int_equal(r->length, ids.dim[0]);
    assert_memory_equal(r->ids, ids.data, ids.bytes);
    assert_memory_equal(r->mask, mask.data, mask.bytes);
}

/* All prompts with picture 0, then the first with none, from the model in dir. */
static void equals_pipeline(const tf_fixture *f, const char *dir, int interleave, vc_dtype type)
{
    const encoder_opts o = pictured_options(dir, rule_of(interleave), type);
    const double most = type == VC_F32 ? PICTURED_F32 : PICTURED_BF16;
    const text_picture picture = pictured_picture(f, 0);
    cJSON *prompts = cJSON_Parse(vf_safetensors_meta(f->gold, "prompts"));
    text_enc *t;
    text_info info;
    text_result r;
    vc_err err = { 0 };

    assert_ok(text_open(&t, &text_llava, &o, &info, &err), &err);
    assert_true(info.width == 32 && !info.pooled);
    assert_int_equal(info.rows, 16 / interleave + 252);
    assert_int_equal(cJSON_GetArraySize(prompts), PROMPTS);
    for (int i = 0; i < PROMPTS; i++) {
        const text_input in = { cJSON_GetArrayItem(prompts, i)->valuestring, &picture, 1 };
        assert_ok(text_encode(t, &in, 1, &r, &err), &err);
        assert_true(r.n <= info.rows);
        same_ids(f, i, &r);
        is_near(f, interleave == 4 ? "states" : "dense", i, r.embeds, r.n, r.width, most);
    }
    is_near(f, "pixels", 0, r.pixels, r.side, r.side, 1e-6);
    is_near(f, "features", -1, r.image_embeds, r.features, r.width, most);
    assert_ok(text_encode(t, &(text_input){ "", NULL, 0 }, 1, &r, &err), &err);
    if (interleave == 4)
        is_near(f, "black", -1, r.embeds, r.n, r.width, most);
    text_close(t);
    cJSON_Delete(prompts);
}

static void equals_pipelines(void **state)
{
    tf_fixture f = pictured_open(GOLDEN);

    (void)state;
    assert_string_equal(vf_safetensors_meta(f.gold, "template"), rule_of(4).template);
    equals_pipeline(&f, f.dir, 4, VC_F32);
    equals_pipeline(&f, f.dir, 2, VC_F32);
    equals_pipeline(&f, f.dir, 4, VC_BF16);
    tf_close(&f);
}

/* Names as transformers wrote them before 5, and as files on the hub have them. */
static bool older_name(vf_view *v, const void *arg)
{
    static const char *const renames[][2] = {
        { "model.language_model.", "language_model.model." },
        { "model.vision_tower.", "vision_tower.vision_model." },
        { "model.multi_modal_projector.", "multi_modal_projector." },
        { "lm_head.", "language_model.lm_head." },
    };
    static char name[TF_TENSORS][128];
    static int n;

    (void)arg;
    for (size_t i = 0; i < sizeof renames / sizeof *renames; i++) {
        const size_t from = strlen(renames[i][0]);
        if (strncmp(v->name, renames[i][0], from))
            continue;
        snprintf(name[n % TF_TENSORS], sizeof *name, "%s%s", renames[i][1], v->name + from);
        v->name = name[n++ % TF_TENSORS];
        return true;
    }
    fail_msg("%s", v->name);
    return false;
}

static void older_names(void **state)
{
    tf_fixture f = pictured_open(GOLDEN);
    char dir[600];

    (void)state;
    snprintf(dir, sizeof dir, "%s/older", f.dir);
    tf_write(&f, dir, NULL, older_name, NULL, 2, NULL, 0);
    pictured_put(&f, dir, PAD);
    equals_pipeline(&f, dir, 4, VC_F32);
    tf_close(&f);
}

/* ---- what does not belong together ---- */

/* The golden's tokenizer with a special token that is spelled otherwise. */
static void spell_otherwise(const tf_fixture *f, const char *gone)
{
    char *changed = strdup(vf_safetensors_meta(f->gold, "tokenizer")), quoted[64];

    snprintf(quoted, sizeof quoted, "\"%s\"", gone);
    for (char *at = changed; (at = strstr(at, quoted));)
        at[3] = '_';
    pictured_tokenizer(f->dir, changed, PAD);
    free(changed);
}

static void other_models(void **state)
{
    static const char *const words[] = { "<image>", "<|start_header_id|>", "<|end_header_id|>" };
    tf_fixture f = pictured_open(GOLDEN);
    encoder_opts o = pictured_options(f.dir, rule_of(4), VC_F32);

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        spell_otherwise(&f, words[i]);
        pictured_refused(&text_llava, &o, VC_EMISMATCH,
                         "tokens of the template in front of a prompt, not 103: give the "
                "tokenizer that this model was trained with, with all its special tokens");
    }
    pictured_put(&f, f.dir, PAD);
    pictured_refused_with(&text_llava, &f, &o, "image_token_index", "3", VC_EMISMATCH,
                          "no token of the template is <image>, id 3");
    pictured_refused_with(&text_llava, &f, &o, "vision_feature_layer", "-1", VC_EFORMAT,
                          "vision_feature_layer");
    pictured_refused_with(&text_llava, &f, &o, "text_config",  /* without some sizes */
                          "{\"model_type\": \"llama\", \"vocab_size\": 152}", VC_EMISMATCH, "4096");
    tf_put_config(&f, "{\"model_type\": \"llama\"}");
    pictured_refused(&text_llava, &o, VC_EFORMAT, "model_type");
    tf_put_config(&f, vf_safetensors_meta(f.gold, "config"));
    o.text.interleave = 0;
    pictured_refused(&text_llava, &o, VC_EINVAL, "interleave");
    o.text.interleave = 4;
    o.image_processor = "/nowhere";
    pictured_refused(&text_llava, &o, VC_ENOENT, "/nowhere/preprocessor_config.json");
    tf_close(&f);
}

/* A caption that spells the template's words is an error of its row. */
static void captions_refused(void **state)
{
    tf_fixture f = pictured_open(GOLDEN);
    const encoder_opts o = pictured_options(f.dir, rule_of(4), VC_F32);
    vc_err err = { 0 };
    text_enc *t;
    text_info info;
    text_result r;

    (void)state;
    assert_ok(text_open(&t, &text_llava, &o, &info, &err), &err);
    assert_fails(text_encode(t, &(text_input){ "an <image>", NULL, 0 }, 1, &r, &err),
                 VC_EINVAL, &err, "holds <image>");
    assert_fails(text_encode(t, &(text_input){ "a <pad> b", NULL, 0 }, 1, &r, &err),
                 VC_EINVAL, &err, "holds the token that pads texts");
    char cut[400] = "<|end_header_id|>";
    memset(cut + strlen(cut), 'b', 300);
    assert_fails(text_encode(t, &(text_input){ cut, NULL, 0 }, 1, &r, &err), VC_EINVAL, &err,
                 "begins with <|end_header_id|>");
    text_close(t);
    tf_close(&f);
}

/* The picture's key and the interleave are in a text's key. */
static void keys(void **state)
{
    text_info info = { .rule = rule_of(4) };
    const text_picture a = { .key = vf_hash("a", 1) }, b = { .key = vf_hash("b", 1) };
    const text_picture *const picture[] = { NULL, &a, &b };
    vf_key key[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        info.rule.interleave = i < 3 ? 4 : 2;
        const text_input in = { "a", picture[i % 3], i % 3 > 0 };
        key[i] = text_prompt_key(&info, VC_F32, VC_F32, &in);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(&key[i], &key[k], sizeof *key);
    }
}

/* ---- the real tokenizer ---- */

/* LLaMA 3's with the two tokens that LLaVA adds, in front of the golden's tiny model, whose
 * vocabulary is too small for it: the crop is compared first. */
static void real_crop(void **state)
{
    char *path = pictured_data("tokenizers/llama-3/tokenizer.json"), *text;
    static const char *const added[] = { "<image>", "<pad>" };
    cJSON *json;
    vc_err err = { 0 };

    (void)state;
    tf_fixture f = pictured_open(GOLDEN);
    const encoder_opts o = pictured_options(f.dir, rule_of(4), VC_F32);
    assert_ok(vf_json_read(&json, path, 64 << 20, &err), &err);
    cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "added_tokens");
    for (int i = 0; i < 2; i++) {
        cJSON *token = cJSON_Duplicate(list->child, true);
        cJSON_SetNumberHelper(cJSON_GetObjectItem(token, "id"), 128256 + i);
        cJSON_SetValuestring(cJSON_GetObjectItem(token, "content"), added[i]);
        cJSON_AddItemToArray(list, token);
    }
    text = vf_json_line(json);
    pictured_tokenizer(f.dir, text, PAD);
    pictured_refused(&text_llava, &o, VC_EINVAL,
                     "token 0 has id 128000");      /* behind the crop of 103 */
    cJSON_Delete(json);
    free(text);
    free(path);
    tf_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pictures_are_pillows), cmocka_unit_test(other_processors),
        cmocka_unit_test(equals_pipelines), cmocka_unit_test(older_names),
        cmocka_unit_test(other_models), cmocka_unit_test(captions_refused),
        cmocka_unit_test(keys), cmocka_unit_test(real_crop),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}

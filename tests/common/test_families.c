/* test_families.c - the table of families: consistent rows, and the encoders that vprep finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cjson/cJSON.h>

#include "common/families.h"
#include "common/os/file.h"
#include "precompute/encoder.h"
#include "tests/lib/ok.h"

static void rows_are_consistent(void **state)
{
    (void)state;
    for (const vc_family *f = vc_families(); f->name; f++) {
        assert_ptr_equal(vc_family_find(f->name), f);                    /* names are unique */
        assert_true(f->patch >= 1 && f->patch_t >= 1);
        for (int i = 0; i < 3; i++)
            assert_true(f->ratio[i] >= 1);
        assert_int_equal(f->multiple % (f->ratio[1] * f->patch), 0);
        assert_int_equal(f->ratio[1], f->ratio[2]);
        assert_true(!f->mean == !f->std);
        if (f->cached)
            assert_true(f->vae && f->text[0].class && f->channels && f->scaling > 0);
        if (f->transformer)
            assert_ptr_equal(vc_family_of_transformer(f->transformer), f);
        assert_true(!f->title == !f->pipeline[0].class);
        if (f->pipeline[0].class)
            assert_true(f->vae && f->text[0].class && f->transformer);
        if (!f->patch_t_field)
            continue;
        const vc_family *other = vc_family_find(f->patched);
        assert_true(other && other->patch_t > 1 && other->multiple == f->multiple);
    }
    assert_null(vc_family_find(""));
    assert_null(vc_family_find("cogvideo"));
    assert_null(vc_family_of_transformer("UNet3DConditionModel"));
}

/* No two families have the same class of pipeline. */
static void pipelines_are_unique(void **state)
{
    const char *seen[64];
    int n = 0;

    (void)state;
    for (const vc_family *f = vc_families(); f->name; f++)
        for (int i = 0; i < VC_FAMILY_PIPELINES && f->pipeline[i].class; i++) {
            for (int k = 0; k < n; k++)
                assert_string_not_equal(seen[k], f->pipeline[i].class);
            assert_true(n < 64);
            seen[n++] = f->pipeline[i].class;
        }
    assert_int_equal(n, 49);
}

static void encoders_of_families(void **state)
{
    prep_family p;
    vc_err err = { 0 };

    (void)state;
    assert_int_equal(prep_family_of(&p, NULL, &err), 0);
    assert_true(p.is == vc_families() && p.vae == &vae_builtin && p.text[0] == &text_builtin);
    assert_true(!p.text[1] && !p.from_files);
    assert_int_equal(prep_family_by_vae(&p, "AutoencoderKLCogVideoX", 1, &err), 0);
    assert_string_equal(p.is->name, "cogvideox");
    assert_true(p.vae == &vae_cogvideox && p.text[0] == &text_t5 && !p.text[1] && p.from_files);
    assert_int_equal(prep_family_by_vae(&p, "AutoencoderKLLTXVideo", 1, &err), 0);
    assert_true(p.vae == &vae_ltx && p.text[0] == &text_t5 && !p.text[1]);
    assert_int_equal(prep_vae_by_class(&p.vae, "AutoencoderKLHunyuanVideo", &err), 0);
    assert_ptr_equal(p.vae, &vae_hunyuan);
    assert_int_equal(prep_family_by_vae(&p, "AutoencoderKLWan", 1, &err), 0);
    assert_true(p.vae == &vae_wan && p.text[0] == &text_umt5 && p.is->text[0].clean);
    assert_int_equal(prep_family_by_vae(&p, "AutoencoderKLQwenImage", 1, &err), 0);
    assert_true(p.vae == &vae_qwen_image && p.text[0] == &text_qwen2_5_vl && !p.text[1]);
    assert_int_equal(prep_family_by_version(&p, "chroma", &err), 0);
    assert_true(p.vae == &vae_kl && p.text[0] == &text_t5 && !p.text[1]);
    assert_int_equal(prep_family_by_version(&p, "sd3", &err), 0);
    assert_true(p.vae == &vae_kl && p.text[0] == &text_clip_projected &&
                p.text[1] == &text_clip_projected && p.text[2] == &text_t5);
    assert_int_equal(prep_family_by_version(&p, "krea2", &err), 0);
    assert_true(p.vae == &vae_qwen_image && p.text[0] == &text_qwen3_vl && !p.text[1]);
    assert_int_equal(prep_family_by_version(&p, "kandinsky5", &err), 0);
    assert_true(p.vae == &vae_hunyuan && p.text[0] == &text_qwen2_5_vl && p.text[1] == &text_clip);
    assert_int_equal(prep_family_by_version(&p, "cosmos2", &err), 0);
    assert_true(p.vae == &vae_wan && p.text[0] == &text_t5 && !p.text[1]);
    assert_int_equal(prep_family_by_version(&p, "ernie-image", &err), 0);
    assert_true(p.vae == &vae_flux2 && p.text[0] == &text_ministral3 && !p.text[1]);
    assert_int_equal(prep_family_by_version(&p, "ideogram4", &err), 0);
    assert_true(p.vae == &vae_flux2 && p.text[0] == &text_qwen3_vl && !p.text[1]);
    assert_int_equal(prep_family_by_vae(&p, "AutoencoderKLFlux2", 1, &err), 0);
    assert_true(p.vae == &vae_flux2 && p.text[0] == &text_qwen3_whole && !p.text[1]);
    assert_fails(prep_family_by_vae(&p, "AutoencoderKL", 1, &err), VC_EUSAGE, &err,
                 "AutoencoderKL belongs to flux and to z-image: give --model or --model_version");
    assert_int_equal(prep_family_by_vae(&p, "AutoencoderKL", 2, &err), 0);
    assert_string_equal(p.is->name, "flux");
    assert_fails(prep_family_by_vae(&p, "AutoencoderKLMochi", 1, &err), VC_EUSAGE, &err,
                 "no autoencoder \"AutoencoderKLMochi\"");
}

/* The row of the built-in family agrees with the built-in codec. */
static void row_of_the_codec(void **state)
{
    const vc_family *f = vc_families();
    encoder_opts o = { .dtype = VC_F32, .device = "cpu" };
    vae_info info;
    vae *v;
    vc_err err = { 0 };

    (void)state;
    assert_ok(vae_builtin.open(&v, &o, &info, &err), &err);
    assert_string_equal(info.class, f->vae);
    assert_int_equal(info.channels, f->channels);
    assert_memory_equal(info.ratio, f->ratio, sizeof f->ratio);
    vae_builtin.close(v);
}

static const char *field(const cJSON *row, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(row, name));
}

/* The page's row of an encoder, of a pipeline or (NULL) of any of the family; NULL: it has none. */
static const cJSON *page_row(const cJSON *rows, const vc_family *f, const char *pipeline,
                             const vc_text *t)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        const char *of = field(row, "pipeline");
        if (!strcmp(field(row, "family"), f->name) && !strcmp(field(row, "class"), t->class) &&
            (!of || (pipeline && !strcmp(of, pipeline))) && (of || !pipeline || !t->each))
            return row;
    }
    return NULL;
}

static void same_text(const char *have, const char *want)
{
    if (want)
        assert_string_equal(have, want);
    else
        assert_null(have);
}

static int page_has_texts(const cJSON *rows, const vc_family *f, const char *pipeline,
                          const vc_text *t)
{
    int n = 0;
    for (int i = 0; t && i < VC_FAMILY_TEXTS && t[i].class; i++) {
        const cJSON *row = page_row(rows, f, pipeline, &t[i]);
        if (!t[i].template) {
            assert_null(row);
            continue;
        }
        assert_non_null(row);
        assert_string_equal(field(row, "template"), t[i].template);
        same_text(field(row, "each"), t[i].each);
        same_text(field(row, "without"), t[i].without);
        assert_int_equal(cJSON_GetNumberValue(cJSON_GetObjectItem(row, "crop")), t[i].crop);
        const cJSON *tail = cJSON_GetObjectItem(row, "tail");
        assert_int_equal(tail ? tail->valueint : 0, t[i].tail);
        n++;
    }
    return n;
}

/* docs/format.md has the templates and crops, without which nobody else can make a text's key. */
static void templates_are_in_the_page(void **state)
{
    char path[4096], *page;
    size_t size;
    vc_err err = { 0 };
    int n = 0;

    (void)state;
    if (!getenv("VLT_SOURCE"))
        skip();
    snprintf(path, sizeof path, "%s/docs/format.md", getenv("VLT_SOURCE"));
    assert_ok(vc_file_read(&page, &size, path, 1 << 20, &err), &err);
    const char *begin = strstr(page, "[{\"family\":");
    assert_non_null(begin);
    cJSON *rows = cJSON_ParseWithOpts(begin, NULL, false);
    assert_non_null(rows);
    for (const vc_family *f = vc_families(); f->name; f++) {
        n += page_has_texts(rows, f, NULL, f->text);
        for (int i = 0; i < VC_FAMILY_PIPELINES && f->pipeline[i].class; i++)
            n += page_has_texts(rows, f, f->pipeline[i].class, f->pipeline[i].text);
    }
    assert_int_equal(n, cJSON_GetArraySize(rows));
    cJSON_Delete(rows);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_consistent),   cmocka_unit_test(pipelines_are_unique),
        cmocka_unit_test(encoders_of_families), cmocka_unit_test(row_of_the_codec),
        cmocka_unit_test(templates_are_in_the_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_text_keys.c - the keys of texts depend on everything that changes them; Wan's prompts are
 * cleaned as its pipeline does (tests/golden/clean.json); and what long prompts lose is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/json/json.h"
#include "precompute/text/clean.h"
#include "precompute/text/cut.h"
#include "precompute/text/prompt.h"
#include "precompute/tokenizer/text.h"
#include "tests/lib/ok.h"
#include "tests/precompute/text/text_folder.h"

/* ---- Wan's cleaning ---- */

/* 2,000 prompts, most of them damaged, become what the pipeline makes of them. */
static void cleans_like_wan(void **state)
{
    char *path = vc_path_join(getenv("VLT_SOURCE"), "tests/golden/clean.json");
    cJSON *file, *list, *pair;
    vc_err err = { 0 };
    int n = 0, repaired = 0;

    (void)state;
    assert_ok(vf_json_read(&file, path, 1 << 20, &err), &err);
    list = cJSON_GetObjectItem(file, "pairs");
    cJSON_ArrayForEach(pair, list) {
        const char *prompt = cJSON_GetArrayItem(pair, 0)->valuestring;
        char *clean = text_clean(prompt);
        assert_string_equal(clean, cJSON_GetArrayItem(pair, 1)->valuestring);
        repaired += text_is_repaired(prompt);
        free(clean);
        n++;
    }
    assert_int_equal(n, 2000);
    assert_between(repaired, 1000, 1900);
    free(path);
    cJSON_Delete(file);
}

/* ---- keys ---- */

/* The key of a text depends on everything that changes its states: length, template, layers and
 * cleaning. */
static void keys(void **state)
{
    tf_fixture f = tf_open("hunyuanvideo-llama", VC_F32);
    const text_input in = { .prompt = "a cat" };
    vf_key key[5];
    vc_err err = { 0 };
    text_info info;
    text_enc *t;

    (void)state;
    tf_put_tokenizer(&f, "<pad>");
    for (int i = 0; i < 5; i++) {
        encoder_opts o = tf_options(&f, "hunyuanvideo", 0, VC_F32);
        if (i == 1)
            o.text.skip = 0;
        if (i == 2)
            o.text.max_length = 128;
        if (i == 3)
            o.text.template = NULL, o.text.crop = 1;
        if (i == 4)
            o.text.clean = true;
        assert_ok(text_open(&t, &text_llama, &o, &info, &err), &err);
        key[i] = text_prompt_key(&info, VC_F32, VC_F32, &in);
        text_close(t);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(&key[i], &key[k], sizeof *key);
    }
    tf_close(&f);
}

/* Texts that a dataset has from before LTX-Video's T5 got no padding are not taken for others, nor
 * those with a row of padding for those without. */
static void unpadded_keys(void **state)
{
    const text_info info[] = {
        { .rule = { .max_length = 256, .masked = true } },
        { .rule = { .max_length = 256, .masked = true, .unpadded = true } },
        { .rule = { .max_length = 256, .masked = true, .unpadded = true, .padding = 1 } }
    };
    const text_input in = { .prompt = "a cat" };
    vf_key key[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        key[i] = text_prompt_key(&info[i], VC_F32, VC_F32, &in);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(&key[i], &key[k], sizeof *key);
    }
}

/* A prompt that the repair changes has another key than it had without the repair; others keep
 * theirs. */
static void repaired_keys(void **state)
{
    static const struct { const char *pipeline, *prompt; int clean; } rows[] = {
        { "WanPipeline", "a cat", 1 }, { "WanPipeline", "a  &amp;cat", 1 },
        { "WanPipeline", "caf\u00E9", 1 }, { "WanPipeline", "\u201Ca\u201D", 2 },
        { "WanPipeline", "caf\u00C3\u00A9", 2 }, { "WanPipeline", "a\abc", 2 },
        /* VideoX-Fun's prompts were cleaned once, without the repair */
        { "WanFunPipeline", "a cat", 1 }, { "WanFunInpaintPipeline", "\u201Ca\u201D", 1 },
        { "WanFunControlPipeline", "a  cat", 0 }, { "WanFunPipeline", "a &amp; b", 0 }
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const text_info info = { .class = "UMT5EncoderModel",
                                 .rule = tf_pipeline_rule("wan2.1", rows[i].pipeline, 0) };
        const vf_key zero = { { 0 } };
        vf_hasher h;
        vf_hasher_begin(&h, "text");
        vf_hasher_str(&h, "prompt", rows[i].prompt);
        vf_hasher_bytes(&h, "tokenizer", zero.b, sizeof zero.b);
        vf_hasher_bytes(&h, "encoder", zero.b, sizeof zero.b);
        vf_hasher_int(&h, "max_length", 512);
        if (rows[i].clean)
            vf_hasher_int(&h, "clean", rows[i].clean);
        vf_hasher_int(&h, "masked", 1);
        vf_hasher_str(&h, "precision", "bf16");
        vf_hasher_str(&h, "dtype", "f16");
        vf_key want = vf_hasher_end(&h);
        const text_input in = { rows[i].prompt, NULL, 0 };
        vf_key is = text_prompt_key(&info, VC_BF16, VC_F16, &in);
        assert_memory_equal(&is, &want, sizeof want);
    }
}

/* ---- lost ends ---- */

/* The part of a prompt that is kept has room, and has none with one more character. */
static void check_end(const text_cut *cut, const char *prompt, bool longer)
{
    text_words words = { 0 };
    size_t lost, len;
    vc_err err = { 0 };
    char *end;

    assert_ok(text_cut_tokens(cut, prompt, &lost, &err), &err);
    assert_ok(text_cut_end(cut, prompt, &end, &err), &err);
    assert_int_equal(lost > 0, longer);
    assert_int_equal(text_cut_is_longer(cut, &words, prompt), longer);
    assert_int_equal(*end != 0, longer);
    const size_t kept = strlen(prompt) - strlen(end);
    assert_string_equal(prompt + kept, end);
    char *begin = strdup(prompt);
    begin[kept] = 0;
    assert_ok(text_cut_tokens(cut, begin, &lost, &err), &err);
    assert_int_equal(lost, 0);
    if (longer) {
        tok_char(end, &len);
        memcpy(begin + kept, end, len);
        begin[kept + len] = 0;
        assert_ok(text_cut_tokens(cut, begin, &lost, &err), &err);
        assert_int_equal(lost, 1);
    }
    free(begin);
    free(end);
    text_words_free(&words);
}

static void lost_ends(void **state)
{
    static const struct { const char *golden, *family, *pad; int slot; } rows[] = {
        { "hunyuanvideo-llama", "hunyuanvideo", "<pad>", 0 },
        { "hunyuanvideo-clip", "hunyuanvideo", "<|endoftext|>", 1 },
        { "qwen-image-text", "qwen-image", "<|endoftext|>", 0 },
        { "wan-text", "wan2.1", "<pad>", 0 }, { "flux-t5", "flux", "<pad>", 1 },
        { "flux2-text", "flux2", "<|endoftext|>", 0 },
    };
    static const struct { const char *prompt; bool longer; } prompts[] = {
        { "", false }, { "a red fox", false }, { "aaaaaaaaaaaaaaaaaaaaaaaaaaa", false },
        { "foxes xylophone quartz jumping vexed zebra quickly", true },
        { "foxesxylophonequartzjumpingvexedzebraquicklyfoxes", true },
        { "fox \u732bxylophone\u732b quartz\u732b jumping\u732b vexed zebra", true },
    };
    vc_err err = { 0 };
    text_cut *cut;

    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        tf_fixture f = tf_open(rows[k].golden, VC_F32);
        encoder_opts o = tf_options(&f, rows[k].family, rows[k].slot, VC_F32);
        tf_put_tokenizer(&f, rows[k].pad);
        o.text.max_length = 32;
        assert_ok(text_cut_open(&cut, &o, &o.text, &err), &err);
        for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++)
            check_end(cut, prompts[i].prompt, prompts[i].longer);
        text_cut_close(cut);
        tf_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cleans_like_wan), cmocka_unit_test(keys), cmocka_unit_test(repaired_keys),
        cmocka_unit_test(unpadded_keys), cmocka_unit_test(lost_ends),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}

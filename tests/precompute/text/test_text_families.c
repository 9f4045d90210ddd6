/* test_text_families.c - the rows of common/families.c encode prompts like diffusers' pipelines
 * (tests/golden/hunyuanvideo-*, qwen-image-text, wan-text, flux-t5, chroma-t5, ltx-*text,
 * z-image-text, ideogram4-text, hunyuan15-*, kandinsky5-*, flux2-text, flux2-dev-text,
 * ernie-image-text, sd3-*, cosmos2-t5): template, crop, mask, cleaning and pooled states; and the
 * crops fit real tokenizers (where VLT_TEST_DATA is set). test_text_keys.c has the keys of these
 * texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/families.h"
#include "common/os/file.h"
#include "formats/json/json.h"
#include "precompute/text/prompt.h"
#include "tests/lib/ok.h"
#include "tests/precompute/text/text_folder.h"

/* The tolerances of test_llm.c, relative to the greatest state. */
#define F32 1e-5
#define BF16 3e-2
/* T5's scores are not scaled, and random weights make them sharp: see scripts/golden/t5.py. */
#define SHARP 3
/* 28 layers in place of three: PyTorch's own states in bf16 are up to 6.8e-2 from its f32. */
#define DEEP 2

/* ---- slots ---- */

static cJSON *prompts_of(const tf_fixture *f)
{
    cJSON *list = cJSON_Parse(vf_safetensors_meta(f->gold, "prompts"));
    assert_true(cJSON_GetArraySize(list) >= 4);
    return list;
}

static void same_ids(const tf_fixture *f, int i, const text_result *r)
{
    char name[2][16];
    vf_view v[2];
    vc_err err = { 0 };

    snprintf(name[0], sizeof *name, "ids_%d", i);
    snprintf(name[1], sizeof *name, "mask_%d", i);
    for (int k = 0; k < 2; k++)
        assert_ok(vf_safetensors_get(f->gold, name[k], &v[k], &err), &err);
    assert_int_equal(r->length, v[0].dim[0]);
    assert_memory_equal(r->ids, v[0].data, v[0].bytes);
    assert_memory_equal(r->mask, v[1].data, v[1].bytes);
}

static void is_near(const tf_fixture *f, const char *kind, int i, const float *have, int n,
                    int width, double tol)
{
    char name[32];
    int64_t dim[8] = { 0 };

    snprintf(name, sizeof name, "%s_%d", kind, i);
    float *want = golden_values(f->gold, name, dim);
    assert_int_equal(dim[1] ? dim[0] : 1, n);
    assert_int_equal(dim[1] ? dim[1] : dim[0], width);
    double e = golden_error(have, want, (int64_t)n * width);
    free(want);
    if (!(e <= tol))
        fail_msg("%s: error %.3g, at most %.3g is right", name, e, tol);
}

typedef struct slot_row {
    const char *golden, *family, *pad;
    int slot;
    const text_class *class;
    int width;
    double slack;                    /* of the tolerances */
    const char *pipeline;            /* NULL: any of the family */
    int pooled;                      /* beside the states; 0: none */
    int length;                      /* tokens of a prompt in the golden; 0: the rule's */
} slot_row;

#define SD3_ROWS \
    { "sd3-clip-l", "sd3", "<|endoftext|>", 0, &text_clip_projected, 16, 1, NULL, 24, 0 }, \
    { "sd3-clip-g", "sd3", "!", 1, &text_clip_projected, 24, 1, NULL, 20, 0 }, \
    { "sd3-t5", "sd3", "<pad>", 2, &text_t5, 48, SHARP, NULL, 0, 0 }

#define KANDINSKY5_ROW \
    { "kandinsky5-text", "kandinsky5", "<|endoftext|>", 0, &text_qwen2_5_vl, 32, 1, NULL, 0, 0 }

static text_rule rule_of(const slot_row *row)
{
    text_rule rule = tf_pipeline_rule(row->family, row->pipeline, row->slot);
    rule.max_length = row->length ? row->length : rule.max_length;
    return rule;
}

/* Compares a prompt's ids, its mask and its states; for a pooled-only slot its pooled state. */
static void check_prompt(const slot_row *row, const tf_fixture *f, int i, const text_result *r,
                         vc_dtype type)
{
    const text_rule rule = rule_of(row);
    const double tol = row->slack * (type == VC_F32 ? F32 : BF16);

    same_ids(f, i, r);
    if (rule.pooled_only) {
        assert_true(r->n == 0 && !r->embeds);
        is_near(f, "pooled", i, r->pooled, 1, r->pooled_width, tol);
        return;
    }
    assert_true(r->n <= rule.max_length && r->pooled_width == row->pooled);
    is_near(f, "states", i, r->embeds, r->n, r->width, tol);
    if (row->pooled)
        is_near(f, "pooled", i, r->pooled, 1, row->pooled, tol);
}

static void equals_pipelines(void **state)
{
    static const slot_row rows[] = {
        { "hunyuanvideo-llama", "hunyuanvideo", "<pad>", 0, &text_llama, 32, 1, NULL, 0, 0 },
        { "hunyuanvideo-clip", "hunyuanvideo", "<|endoftext|>", 1, &text_clip, 32, 1,
          NULL, 0, 0 },
        { "qwen-image-text", "qwen-image", "<|endoftext|>", 0, &text_qwen2_5_vl, 32, 1,
          NULL, 0, 0 },
        { "wan-text", "wan2.1", "<pad>", 0, &text_umt5, 32, SHARP, NULL, 0, 0 },
        { "hunyuanvideo-clip", "flux", "<|endoftext|>", 0, &text_clip, 32, 1, NULL, 0, 0 },
        { "flux-t5", "flux", "<pad>", 1, &text_t5, 16, SHARP, NULL, 0, 0 },
        { "chroma-t5", "chroma", "<pad>", 0, &text_t5, 16, SHARP, NULL, 0, 0 },
        { "cosmos2-t5", "cosmos2", "<pad>", 0, &text_t5, 32, SHARP, NULL, 0, 0 },
        { "ltx-text", "ltx-video", "<pad>", 0, &text_t5, 16, SHARP, "LTXPipeline", 0, 0 },
        { "ltx-text", "ltx-video", "<pad>", 0, &text_t5, 16, SHARP,
          "LTXImageToVideoPipeline", 0, 0 },
        { "ltx-condition-text", "ltx-video", "<pad>", 0, &text_t5, 16, SHARP,
          "LTXConditionPipeline", 0, 0 },
        { "z-image-text", "z-image", "<|endoftext|>", 0, &text_qwen3, 32, 1, NULL, 0, 0 },
        { "krea2-text", "krea2", "<|endoftext|>", 0, &text_qwen3_vl, 192, 1.25 * DEEP,
          NULL, 0, 0 },
        { "ideogram4-text", "ideogram4", "<|endoftext|>", 0, &text_qwen3_vl, 208, 1.25 * DEEP,
          NULL, 0, 512 },
        { "hunyuan15-text", "hunyuanvideo1.5", "<|endoftext|>", 0, &text_qwen2_5_vl_text, 32, 1,
          NULL, 0, 0 },
        { "hunyuan15-glyphs", "hunyuanvideo1.5", "<pad>", 1, &text_t5, 32, SHARP, NULL, 0, 0 },
        KANDINSKY5_ROW,
        { "kandinsky5-clip", "kandinsky5", "<|endoftext|>", 1, &text_clip, 32, 1, NULL, 0, 0 },
        { "flux2-text", "flux2", "<|endoftext|>", 0, &text_qwen3_whole, 48, DEEP, NULL, 0, 0 },
        { "flux2-dev-text", "flux2", "<pad>", 0, &text_mistral3, 48, DEEP, "Flux2Pipeline", 0, 0 },
        { "ernie-image-text", "ernie-image", "<pad>", 0, &text_ministral3, 32, 1, NULL, 0, 500 },
        SD3_ROWS,
    };
    vc_err err = { 0 };
    text_info info;
    text_result r;
    text_enc *t;

    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        tf_fixture f = tf_open(rows[k].golden, VC_F32);
        const text_rule rule = rule_of(&rows[k]);
        cJSON *prompts = prompts_of(&f);
        tf_put_tokenizer(&f, rows[k].pad);
        if (rule.template)
            assert_string_equal(vf_safetensors_meta(f.gold, "template"), rule.template);
        for (vc_dtype type = VC_F32; type <= VC_BF16; type++) {
            encoder_opts o = tf_options(&f, rows[k].family, rows[k].slot, type);
            o.text = rule;
            assert_ok(text_open(&t, rows[k].class, &o, &info, &err), &err);
            assert_int_equal(info.width, rule.pooled_only ? 0 : rows[k].width);
            assert_int_equal(info.pooled, rule.pooled_only ? rows[k].width : rows[k].pooled);
            for (int i = 0; i < cJSON_GetArraySize(prompts); i++) {
                const text_input in = { .prompt = cJSON_GetArrayItem(prompts, i)->valuestring };
                assert_ok(text_encode(t, &in, 1, &r, &err), &err);
                check_prompt(&rows[k], &f, i, &r, type);
            }
            text_close(t);
        }
        cJSON_Delete(prompts);
        tf_close(&f);
    }
}

/* ---- captions ---- */

/* The sums of a caption's states, row i times weights[i]. */
static void add_up(const text_result *r, const float *weights, float *sums)
{
    for (int c = 0; c < r->width; c++) {
        double sum = 0;
        for (int i = 0; i < r->n; i++)
            sum += (double)weights[i] * (double)r->embeds[(size_t)i * (size_t)r->width + (size_t)c];
        sums[c] = (float)sum;
    }
}

static void same_caption(const tf_fixture *f, int i, const text_result *r)
{
    vf_view v;
    vc_err err = { 0 };

    assert_ok(vf_safetensors_get(f->gold, "caption_ids", &v, &err), &err);
    assert_true(v.dtype == VC_I16 && v.dim[1] == r->length);
    const int16_t *ids = (const int16_t *)v.data + (size_t)i * (size_t)r->length;
    for (int k = 0; k < r->length; k++)
        if (r->ids[k] != ids[k])
            fail_msg("caption %d: token %d is %d, not %d", i, k, (int)r->ids[k], (int)ids[k]);
}

/* Compares the pooled states, where there are some. */
static void same_pooled(const tf_fixture *f, const slot_row *row, const float *have, int captions)
{
    int64_t dim[8];

    if (!row->pooled)
        return;
    float *want = golden_values(f->gold, "caption_pooled", dim);
    assert_true(dim[0] == captions && dim[1] == row->pooled);
    assert_true(golden_error(have, want, (int64_t)captions * row->pooled) <= F32);
    free(want);
}

/* 100 captions, most of them odd, in batches. */
static void equals_on_captions(void **state)
{
    static const slot_row rows[] = {
        { "chroma-t5", "chroma", "<pad>", 0, &text_t5, 16, SHARP, NULL, 0, 0 },
        { "cosmos2-t5", "cosmos2", "<pad>", 0, &text_t5, 32, SHARP, NULL, 0, 0 },
        { "z-image-text", "z-image", "<|endoftext|>", 0, &text_qwen3, 32, 1, NULL, 0, 0 },
        { "krea2-text", "krea2", "<|endoftext|>", 0, &text_qwen3_vl, 192, 1, NULL, 0, 0 },
        { "ideogram4-text", "ideogram4", "<|endoftext|>", 0, &text_qwen3_vl, 208, 1, NULL, 0,
          512 },
        { "hunyuan15-text", "hunyuanvideo1.5", "<|endoftext|>", 0, &text_qwen2_5_vl_text, 32, 1,
          NULL, 0, 0 },
        { "hunyuan15-glyphs", "hunyuanvideo1.5", "<pad>", 1, &text_t5, 32, SHARP, NULL, 0, 0 },
        KANDINSKY5_ROW,
        { "flux2-text", "flux2", "<|endoftext|>", 0, &text_qwen3_whole, 48, 1, NULL, 0, 0 },
        { "flux2-dev-text", "flux2", "<pad>", 0, &text_mistral3, 48, 1, "Flux2Pipeline", 0, 0 },
        { "ernie-image-text", "ernie-image", "<pad>", 0, &text_ministral3, 32, 1, NULL, 0, 500 },
        SD3_ROWS,
    };
    enum { MANY = 100 };
    vc_err err = { 0 };
    text_info info;
    text_enc *t;

    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        tf_fixture f = tf_open(rows[k].golden, VC_F32);
        encoder_opts o = tf_options(&f, rows[k].family, rows[k].slot, VC_F32);
        o.text = rule_of(&rows[k]);
        cJSON *list = cJSON_Parse(vf_safetensors_meta(f.gold, "captions"));
        int64_t dim[8];
        float *weights = golden_values(f.gold, "row_weights", dim), sums[MANY * 208];
        float pooled[MANY * 24];
        float *want = golden_values(f.gold, "caption_sums", dim);
        tf_put_tokenizer(&f, rows[k].pad);
        assert_ok(text_open(&t, rows[k].class, &o, &info, &err), &err);
        assert_true(dim[0] == MANY && cJSON_GetArraySize(list) == MANY && dim[1] == info.width);
        for (int i = 0, n; i < MANY; i += n) {
            text_input in[8] = { { 0 } };
            text_result r[8];
            n = MANY - i < info.batch ? MANY - i : info.batch;
            for (int j = 0; j < n; j++)
                in[j].prompt = cJSON_GetArrayItem(list, i + j)->valuestring;
            assert_ok(text_encode(t, in, n, r, &err), &err);
            for (int j = 0; j < n; j++) {
                same_caption(&f, i + j, &r[j]);
                add_up(&r[j], weights, sums + (i + j) * info.width);
                if (r[j].pooled_width)
                    memcpy(pooled + (i + j) * info.pooled, r[j].pooled,
                           (size_t)info.pooled * sizeof *pooled);
            }
        }
        double e = golden_error(sums, want, MANY * info.width);
        if (!(e <= rows[k].slack * F32))
            fail_msg("%s: error %.3g", rows[k].golden, e);
        same_pooled(&f, &rows[k], pooled, MANY);
        text_close(t);
        free(weights), free(want);
        cJSON_Delete(list);
        tf_close(&f);
    }
}

/* ---- the tokenizer of another model ---- */

/* Writes the golden's tokenizer with another spelling of the special token `token`. */
static void spell_otherwise(const tf_fixture *f, const char *token)
{
    const char *text = vf_safetensors_meta(f->gold, "tokenizer");
    char *changed = strdup(text), quoted[64];

    snprintf(quoted, sizeof quoted, "\"%s\"", token);
    for (char *at = changed; (at = strstr(at, quoted));)
        at[3] = '_';
    tf_put_text(f->dir, "tokenizer.json", changed);
    free(changed);
}

/* Writes the golden's tokenizer without the rule that adds tokens to a text. */
static void put_tokenizer_without_ends(const tf_fixture *f)
{
    cJSON *o = cJSON_Parse(vf_safetensors_meta(f->gold, "tokenizer"));

    cJSON_DeleteItemFromObject(o, "post_processor");
    char *text = vf_json_line(o);
    tf_put_text(f->dir, "tokenizer.json", text);
    tf_put_text(f->dir, "tokenizer_config.json", "{\"pad_token\": \"a\"}");
    free(text);
    cJSON_Delete(o);
}

static void refused(const text_class *class, const encoder_opts *o, int rc, const char *says,
                    const char *and_says)
{
    vc_err err = { 0 };
    text_info info;
    text_enc *t;

    int have = text_open(&t, class, o, &info, &err);
    assert_null(t);
    if (have != rc || !strstr(err.text, says) || !strstr(err.text, and_says))
        fail_msg("%d, not %d; \"%s\" or \"%s\" is missing from: %s", have, rc, says, and_says,
                 err.text);
}

static void wrong_tokenizers(void **state)
{
    tf_fixture f = tf_open("hunyuanvideo-llama", VC_F32), c = tf_open("hunyuanvideo-clip", VC_F32);
    encoder_opts o = tf_options(&f, "hunyuanvideo", 0, VC_F32);
    encoder_opts o_2 = tf_options(&c, "hunyuanvideo", 1, VC_F32);

    (void)state;
    tf_put_tokenizer(&f, "<pad>");
    spell_otherwise(&f, "<|start_header_id|>");           /* 19 letters, twice */
    refused(&text_llama, &o, VC_EMISMATCH, f.dir, "makes 131 tokens of the template in front of a "
            "prompt, not 95: give the tokenizer that this model was trained with");
    tf_put_tokenizer(&f, "<pad>");
    spell_otherwise(&f, "<pad>");
    tf_put_text(f.dir, "tokenizer_config.json", "{}");
    refused(&text_llama, &o, VC_EINVAL, f.dir, "names no pad token: add pad_token");
    tf_put_tokenizer(&f, "<pad>");
    o.text.crop = 94;
    refused(&text_llama, &o, VC_EMISMATCH, f.dir, "makes 95 tokens of the template in front of a "
            "prompt, not 94");

    o_2.tokenizer = f.dir;                                /* its ids exceed CLIP's vocabulary */
    refused(&text_clip, &o_2, VC_EINVAL, f.dir, "the text encoder has ids 0..");
    char *text = tf_changed(&c, "eos_token_id", "5");
    tf_put_tokenizer(&c, "<|endoftext|>");
    tf_put_config(&c, text);
    o_2.tokenizer = c.dir;
    refused(&text_clip, &o_2, VC_EINVAL, c.dir, "no token of the text has id 5");
    put_tokenizer_without_ends(&c);
    /* Here the largest id ends a text. */
    tf_put_config(&c, vf_safetensors_meta(c.gold, "config"));
    refused(&text_clip, &o_2, VC_EINVAL, c.dir, "no token begins the empty prompt");
    tf_put_tokenizer(&c, "<|endoftext|>");
    o_2.text.max_length = 78;
    refused(&text_clip, &o_2, VC_EINVAL, c.dir, "max_position_embeddings of its config.json is 77");
    free(text);
    tf_close(&f);
    tf_close(&c);
}

/* ---- chat templates ---- */

/* The folder of a tokenizer must have the chat template that the row's template is made of. */
static void check_chats(const char *golden, const char *family, const text_class *class,
                        const char *word)
{
    char lacks[64], *list = vc_format("{\"pad_token\": \"<|endoftext|>\", "
                "\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"\"}, "
                "{\"name\": \"default\", \"template\": \"{{ %s }}\"}]}", word);
    assert_non_null(list);
    snprintf(lacks, sizeof lacks, "the chat template lacks %s", word);
    tf_fixture f = tf_open(golden, VC_F32);
    encoder_opts o = tf_options(&f, family, 0, VC_F32);
    vc_err err = { 0 };
    text_info info;
    text_enc *t;

    tf_put_tokenizer(&f, "<|endoftext|>");
    tf_put_text(f.dir, "tokenizer_config.json", "{\"pad_token\": \"<|endoftext|>\"}");
    refused(class, &o, VC_ENOENT, f.dir, "there is no chat template");
    tf_put_text(f.dir, "chat_template.jinja", "{{ messages }}");
    refused(class, &o, VC_EMISMATCH, f.dir, lacks);
    tf_put_text(f.dir, "chat_template.jinja", vf_safetensors_meta(f.gold, "chat_template"));
    assert_ok(text_open(&t, class, &o, &info, &err), &err);
    text_close(t);

    /* a list of templates in the config */
    char *file = vc_path_join(f.dir, "chat_template.jinja");
    assert_int_equal(unlink(file), 0);
    free(file);
    tf_put_text(f.dir, "tokenizer_config.json", list);
    free(list);
    assert_ok(text_open(&t, class, &o, &info, &err), &err);
    text_close(t);
    tf_put_text(f.dir, "tokenizer_config.json", "{\"pad_token\": \"<|endoftext|>\", "
                "\"chat_template\": [{\"name\": \"default\"}]}");
    refused(class, &o, VC_ENOENT, f.dir, "chat_template: template: missing");

    tf_put_text(f.dir, "chat_template.jinja", vf_safetensors_meta(f.gold, "chat_template"));
    spell_otherwise(&f, "<|im_start|>");
    refused(class, &o, VC_EMISMATCH, f.dir, "makes 14 tokens of the template in front of a "
            "prompt, not 3");
    tf_close(&f);
}

static void chat_templates(void **state)
{
    (void)state;
    check_chats("z-image-text", "z-image", &text_qwen3, "enable_thinking");
    check_chats("flux2-text", "flux2", &text_qwen3_whole, "enable_thinking");
    check_chats("ideogram4-text", "ideogram4", &text_qwen3_vl, "<|im_start|>");
}

/* ---- the side of padding ---- */

/* Padding of FLUX.2 dev's prompts is in front, unless the tokenizer's files have it behind. Texts
 * of both have other keys. */
static void padding_sides(void **state)
{
    static const char *const sides[] = { "\"left\"", "\"right\"", "\"up\"" };
    tf_fixture f = tf_open("flux2-dev-text", VC_F32);
    cJSON *prompts = prompts_of(&f);
    const text_input in = { .prompt = cJSON_GetArrayItem(prompts, 1)->valuestring };
    encoder_opts o = tf_options(&f, "flux2", 0, VC_F32);
    vf_key key[2];
    vc_err err = { 0 };
    text_info info;
    text_result r;
    text_enc *t;

    (void)state;
    o.text = tf_pipeline_rule("flux2", "Flux2Pipeline", 0);
    tf_put_tokenizer(&f, "<pad>");
    tf_put_text(f.dir, "chat_template.jinja", vf_safetensors_meta(f.gold, "chat_template"));
    for (int i = 0; i < 3; i++) {
        char *config = vc_format("{\"pad_token\": \"<pad>\", \"padding_side\": %s}", sides[i]);
        tf_put_text(f.dir, "tokenizer_config.json", config);
        free(config);
        if (i == 2) {
            refused(&text_mistral3, &o, VC_EFORMAT, f.dir, "padding_side: \"up\" is neither left");
            break;
        }
        assert_ok(text_open(&t, &text_mistral3, &o, &info, &err), &err);
        assert_ok(text_encode(t, &in, 1, &r, &err), &err);
        assert_true(info.padded && r.n == 512 && info.front == !i);
        assert_true(r.mask[0] == i && r.mask[511] == !i);
        is_near(&f, i ? "right" : "states", 1, r.embeds, r.n, r.width, F32);
        key[i] = text_prompt_key(&info, VC_F32, VC_F32, &in);
        text_close(t);
    }
    assert_memory_not_equal(&key[0], &key[1], sizeof *key);
    cJSON_Delete(prompts);
    tf_close(&f);
}

/* ---- real tokenizers ---- */

/* Writes a decoder whose only layer is left out, so that its embedding alone is used. */
static void put_embedding(const char *dir, const char *model_type, int64_t vocab)
{
    char config[400], *file = vc_path_join(dir, "model.safetensors");
    float *values = calloc((size_t)vocab * 8, sizeof *values);
    const vf_view t = { "embed_tokens.weight", VC_F32, 2, { vocab, 8 }, values,
                        (size_t)vocab * 8 * sizeof *values };
    vc_err err = { 0 };

    assert_ok(vc_mkdirs(dir, &err), &err);
    const bool part = !strcmp(model_type, "qwen3_vl");
    snprintf(config, sizeof config, "{\"model_type\": \"%s\", %s\"hidden_size\": 8, "
             "\"intermediate_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 1, "
             "\"vocab_size\": %lld}%s", model_type,
             part ? "\"text_config\": {\"model_type\": \"qwen3_vl_text\", " : "",
             (long long)vocab, part ? "}" : "");
    tf_put_text(dir, "config.json", config);
    assert_ok(vf_safetensors_write(file, &t, 1, NULL, 0, &err), &err);
    free(values);
    free(file);
}

static void real_crop(const text_class *class, const char *family, const char *model_type,
                      const char *tokenizer, const char *pad, int64_t vocab)
{
    char from[1200], dir[600], to[700], config[80];
    const char *data = getenv("VLT_TEST_DATA");
    vc_err err = { 0 };
    text_info info;
    text_result r;
    text_enc *t;

    snprintf(from, sizeof from, "%s/tokenizers/%s/tokenizer.json", data ? data : "", tokenizer);
    if (!data || !vc_file_exists(from))
        skip();
    snprintf(dir, sizeof dir, "%s", golden_tmp(family));
    snprintf(to, sizeof to, "%s/tokenizer.json", dir);
    assert_int_equal(symlink(from, to), 0);
    snprintf(config, sizeof config, "{\"pad_token\": \"%s\"}", pad);
    tf_put_text(dir, "tokenizer_config.json", config);
    put_embedding(dir, model_type, vocab);
    encoder_opts o = { .dir = dir, .tokenizer = dir, .text = tf_rule(family, 0), .dtype = VC_F32,
                       .device = golden_device(), .threads = 1 };
    o.text.skip = 1;
    memset(o.text.taps, 0, sizeof o.text.taps);
    if (o.text.chat)
        tf_put_text(dir, "chat_template.jinja", o.text.chat);
    assert_ok(text_open(&t, class, &o, &info, &err), &err);
    const text_input in = { .prompt = "a corgi \xe5\xa5\xbd" };
    assert_ok(text_encode(t, &in, 1, &r, &err), &err);
    assert_int_equal(r.length, o.text.max_length + o.text.crop);
    assert_true(r.n > 3 && r.n < 20);
    text_close(t);
}

static void llama_crop(void **state)
{
    (void)state;
    real_crop(&text_llama, "hunyuanvideo", "llama", "llama-3", "<|reserved_special_token_0|>",
              128256);
}

static void qwen_crop(void **state)
{
    (void)state;
    real_crop(&text_qwen2_5_vl, "qwen-image", "qwen2_5_vl", "qwen2.5", "<|endoftext|>", 152064);
    real_crop(&text_qwen2_5_vl, "kandinsky5", "qwen2_5_vl", "qwen2.5", "<|endoftext|>", 152064);
    real_crop(&text_qwen2_5_vl_text, "hunyuanvideo1.5", "qwen2_5_vl_text", "qwen2.5",
              "<|endoftext|>", 152064);
}

/* Qwen3's tokenizer has Qwen2.5's tokens, and more. */
static void qwen3_lead(void **state)
{
    (void)state;
    real_crop(&text_qwen3_vl, "krea2", "qwen3_vl", "qwen2.5", "<|endoftext|>", 151936);
    real_crop(&text_qwen3, "z-image", "qwen3", "qwen2.5", "<|endoftext|>", 151936);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_pipelines), cmocka_unit_test(equals_on_captions),
        cmocka_unit_test(wrong_tokenizers),
        cmocka_unit_test(chat_templates), cmocka_unit_test(padding_sides),
        cmocka_unit_test(llama_crop), cmocka_unit_test(qwen_crop),
        cmocka_unit_test(qwen3_lead),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}

/* test_gemma.c - Gemma 3 as a text encoder equals transformers' (tests/golden/gemma3): states of
 * all layers, with weights and activations in f32 and bf16; older forms of config.json; refused
 * files and ids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "precompute/gemma/gemma.h"
#include "tests/lib/ok.h"
#include "tests/precompute/text/text_folder.h"

enum { WIDTH = 32, MOST = 40, STATES = 7 };

/* Norms after each half divide by small numbers here: transformers' own states in bf16 differ from
 * those in f32 by up to 0.10 in the last layers. */
#define BF16 0.2
/* Sums in another order differ by 1.2e-5 in the last layers. */
#define F32 2e-5

static encoder_opts options(const char *dir, vc_dtype type)
{
    return (encoder_opts){ .dir = dir, .text = { .max_length = MOST }, .dtype = type,
                           .device = golden_device(), .threads = 1 };
}

static gemma *open_in(const char *dir, vc_dtype type, vf_key *key)
{
    const encoder_opts o = options(dir, type);
    vc_err err = { 0 };
    gemma *m;

    assert_ok(gemma_open(&m, &o, key, &err), &err);
    assert_true(gemma_width(m) == WIDTH && gemma_states(m) == STATES && gemma_vocab(m) == 64);
    return m;
}

/* The largest error of a layer's states, relative to its largest state. */
static double error_of(gemma *m, const vf_safetensors *gold, const char *ids, const char *want)
{
    static float states[STATES * MOST * WIDTH];
    int64_t dim[8];
    vf_view v;
    vc_err err = { 0 };
    double most = 0;

    assert_ok(vf_safetensors_get(gold, ids, &v, &err), &err);
    int n = (int)v.dim[0];
    float *w = golden_values(gold, want, dim);
    assert_true(dim[0] == STATES && dim[1] == n && dim[2] == WIDTH);
    assert_ok(gemma_encode(m, &(text_ids){ v.data, n, 0, 0 }, states, &err), &err);
    for (int i = 0; i < STATES; i++) {
        double e = golden_error(states + i * n * WIDTH, w + i * n * WIDTH, (int64_t)n * WIDTH);
        most = e > most ? e : most;
    }
    free(w);
    return most;
}

static void within(double e, double limit, const char *what)
{
    if (!(e <= limit))
        fail_msg("%s: the error is %.3g, the limit %.3g", what, e, limit);
}

static void equals_transformers(void **state)
{
    tf_fixture f = tf_open("gemma3", VC_F32);
    vf_key key;

    (void)state;
    gemma *m = open_in(f.dir, VC_F32, &key);
    within(error_of(m, f.gold, "ids_5", "states_5"), F32, "f32, 5 tokens");
    within(error_of(m, f.gold, "ids_40", "states_40"), F32, "f32, 40 tokens");
    gemma_close(m);
    m = open_in(f.dir, VC_BF16, &key);
    within(error_of(m, f.gold, "ids_40", "states_40"), BF16, "activations in bf16");
    gemma_close(m);
    tf_close(&f);
    f = tf_open("gemma3", VC_BF16);
    m = open_in(f.dir, VC_F32, &key);
    within(error_of(m, f.gold, "ids_40", "bf16_40"), F32, "weights in bf16");
    gemma_close(m);
    tf_close(&f);
}

/* The text part's config.json with these fields in place of its own; NULL: without the field. */
static char *changed_text(const tf_fixture *f, const char *const (*fields)[2], int n)
{
    cJSON *config = cJSON_Parse(vf_safetensors_meta(f->gold, "config"));
    cJSON *text = cJSON_GetObjectItem(config, "text_config");

    for (int i = 0; i < n; i++) {
        cJSON_DeleteItemFromObject(text, fields[i][0]);
        if (fields[i][1])
            cJSON_AddItemToObject(text, fields[i][0], cJSON_Parse(fields[i][1]));
    }
    char *made = cJSON_PrintUnformatted(config);
    cJSON_Delete(config);
    return made;
}

/* The form of released files: fields that are transformers' defaults are missing. */
static void reads_older_configs(void **state)
{
    static const char *const old[][2] = {
        { "rope_parameters", NULL }, { "layer_types", NULL }, { "_sliding_window_pattern", NULL },
        { "rope_scaling", "{\"factor\":8.0,\"rope_type\":\"linear\"}" },
        { "hidden_activation", NULL }, { "attn_logit_softcapping", NULL },
        { "rms_norm_eps", NULL }, { "attention_bias", NULL },
    };
    tf_fixture f = tf_open("gemma3", VC_F32);
    vf_key key[2];

    (void)state;
    gemma_close(open_in(f.dir, VC_F32, &key[0]));
    char *config = changed_text(&f, old, (int)(sizeof old / sizeof *old));
    tf_put_config(&f, config);
    gemma *m = open_in(f.dir, VC_F32, &key[1]);
    within(error_of(m, f.gold, "ids_40", "states_40"), F32, "older config.json");
    assert_memory_equal(key[0].b, key[1].b, sizeof key[0].b);
    gemma_close(m);
    cJSON_free(config);
    tf_close(&f);
}

static void refuses_configs(void **state)
{
    static const char *const rows[][3] = {
        { "model_type", "\"gemma2_text\"", "model_type: \"gemma2_text\"" },
        { "sliding_window", "39", "sliding_window: 39 is less than the 40 tokens" },
        { "hidden_activation", "\"silu\"", "hidden_activation" },
        { "attn_logit_softcapping", "50", "attn_logit_softcapping" },
        { "use_bidirectional_attention", "true", "use_bidirectional_attention" },
        { "num_key_value_heads", "3", "num_attention_heads: 4 is not a multiple" },
        { "head_dim", "12", "head_dim: 12 is not a multiple of 8" },
        { "layer_types", "[\"full_attention\"]", "layer_types has 1 entries" },
        { "layer_types", "[\"chunked_attention\"]", "layer_types[0]" },
        { "rope_parameters", "{\"full_attention\":{}}", "rope_parameters: sliding_attention" },
        { "num_hidden_layers", "5", "layer_types has 6 entries" },
        { "vocab_size", "65", "embed_tokens.weight" },
    };
    tf_fixture f = tf_open("gemma3", VC_F32);
    const encoder_opts o = options(f.dir, VC_F32);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *config = changed_text(&f, (const char *const[][2]){ { rows[i][0], rows[i][1] } }, 1);
        vc_err err = { 0 };
        vf_key key;
        gemma *m;
        tf_put_config(&f, config);
        assert_true(gemma_open(&m, &o, &key, &err) < 0 && !m);
        assert_says(&err, rows[i][2]);
        cJSON_free(config);
    }
    tf_close(&f);
}

static void refuses_ids(void **state)
{
    static float states[STATES * WIDTH];
    const int64_t id[] = { 64 };
    tf_fixture f = tf_open("gemma3", VC_F32);
    vc_err err = { 0 };
    vf_key key;

    (void)state;
    gemma *m = open_in(f.dir, VC_F32, &key);
    assert_fails(gemma_encode(m, &(text_ids){ id, 1, 0, 0 }, states, &err), VC_EINVAL, &err,
                 "id 64");
    gemma_close(m);
    tf_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_transformers), cmocka_unit_test(reads_older_configs),
        cmocka_unit_test(refuses_configs), cmocka_unit_test(refuses_ids),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}

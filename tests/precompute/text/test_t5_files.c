/* test_t5_files.c - all forms of T5 checkpoints are read, and wrong tensors, configs and inputs are
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/json/json.h"
#include "formats/tensors/model.h"
#include "tests/lib/ok.h"
#include "tests/precompute/text/t5_model.h"

static bool rename_embedding(vf_view *v, const void *name)
{
    if (!strcmp(v->name, "shared.weight"))
        v->name = name;
    return true;
}

static bool cut_rows(vf_view *v, const void *name)
{
    if (!strcmp(v->name, name)) {
        v->bytes -= v->bytes / (size_t)v->dim[0];
        v->dim[0]--;
    }
    return true;
}

static bool as_integers(vf_view *v, const void *name)
{
    if (!strcmp(v->name, name))
        v->dtype = VC_I32;
    return true;
}

/* The golden's shared.weight under another name. */
static vf_view embedding_as(const tf_fixture *f, vf_model **m, const char *name)
{
    vf_view v;
    vc_err err = { 0 };
    assert_ok(vf_model_open(m, f->dir, &err) || vf_model_get(*m, "shared.weight", &v, &err), &err);
    v.name = name;
    return v;
}

static void checkpoint_forms(void **state)
{
    const float extra[6] = { 0 };
    const vf_view decoder[] = {
        { "decoder.block.0.layer.0.layer_norm.weight", VC_F32, 1, { 6 }, extra, sizeof extra },
        { "lm_head.weight", VC_F32, 2, { 2, 3 }, extra, sizeof extra },
    };
    tf_fixture f = tt_open("t5", VC_F32);
    char dir[600];
    vf_model *m;

    (void)state;
    snprintf(dir, sizeof dir, "%s/sharded", f.dir);
    tf_write(&f, dir, NULL, NULL, NULL, 2, decoder, 2);
    assert_true(tt_error_in(dir, f.gold, VC_F32) <= TT_F32);
    snprintf(dir, sizeof dir, "%s/embed", f.dir);
    tf_write(&f, dir, NULL, rename_embedding, "encoder.embed_tokens.weight", 1, NULL, 0);
    assert_true(tt_error_in(dir, f.gold, VC_F32) <= TT_F32);
    snprintf(dir, sizeof dir, "%s/both", f.dir);
    const vf_view again = embedding_as(&f, &m, "encoder.embed_tokens.weight");
    tf_write(&f, dir, NULL, NULL, NULL, 1, &again, 1);
    assert_true(tt_error_in(dir, f.gold, VC_F32) <= TT_F32);

    vf_view other = again;                        /* other values of the same shape and type */
    float *values = malloc(other.bytes);
    memcpy(values, other.data, other.bytes);
    values[7] += 1;
    other.data = values;
    tf_write(&f, dir, NULL, NULL, NULL, 1, &other, 1);
    tt_refused(dir, "t5", VC_EMISMATCH, "encoder.embed_tokens.weight differ");
    free(values);
    vf_model_close(m);
    tf_close(&f);
}

static void tensors_refused(void **state)
{
    static const struct { const char *tensor; tf_edit *edit; int rc; const char *says; } rows[] = {
        { "shared.weight", tf_without, VC_ENOENT, "\"shared.weight\" is missing" },
        { "encoder.final_layer_norm.weight", tf_without, VC_ENOENT, "final_layer_norm.weight" },
        { "encoder.block.1.layer.1.DenseReluDense.wi_1.weight", tf_without, VC_ENOENT,
          "block.1.layer.1.DenseReluDense.wi_1.weight\" is missing; it should be [64,32]" },
        { "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", tf_without,
          VC_ENOENT, "relative_attention_bias.weight" },
        { "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", cut_rows,
          VC_EMISMATCH, "is [31,4], [32,4] was expected" },
        { "shared.weight", cut_rows, VC_EMISMATCH, "is [63,32], [64,32] was expected" },
        { "encoder.block.0.layer.0.SelfAttention.q.weight", as_integers, VC_EMISMATCH, "i32" },
    };
    const float extra[6] = { 0 };
    const vf_view left = { "encoder.block.2.layer.1.layer_norm.weight", VC_F32, 1, { 6 }, extra,
                           sizeof extra };
    tf_fixture f = tt_open("t5", VC_F32);
    char dir[600];

    (void)state;
    snprintf(dir, sizeof dir, "%s/changed", f.dir);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tf_write(&f, dir, NULL, rows[i].edit, rows[i].tensor, 1, NULL, 0);
        tt_refused(dir, "t5", rows[i].rc, rows[i].says);
    }
    tf_write(&f, dir, NULL, NULL, NULL, 1, &left, 1);
    tt_refused(dir, "t5", VC_EMISMATCH, "encoder.block.2.layer.1.layer_norm.weight is not used");
    tf_close(&f);

    f = tt_open("umt5", VC_F32);             /* UMT5: each layer has a position table */
    snprintf(dir, sizeof dir, "%s/changed", f.dir);
    tf_write(&f, dir, NULL, tf_without,
                "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight", 1, NULL, 0);
    tt_refused(dir, "umt5", VC_ENOENT, "block.1.layer.0.SelfAttention.relative_attention_bias");
    tf_close(&f);
}

/* ---- config.json ---- */

static void config_refused(void **state)
{
    static const struct { const char *field, *value; int rc; const char *says; } rows[] = {
        { "model_type", "\"bert\"", VC_EFORMAT, "model_type: \"bert\"; only \"t5\"" },
        { "model_type", "\"umt5\"", VC_EFORMAT, "only \"t5\"" },
        { "model_type", NULL, VC_ENOENT, "model_type: missing" },
        { "model_type", "7", VC_EFORMAT, "model_type: expected" },
        { "d_model", "0", VC_EFORMAT, "d_model: 0 is not within" },
        { "d_model", "-32", VC_EFORMAT, "d_model: -32" },
        { "d_model", "64", VC_EMISMATCH, "[64,32], [64,64] was expected" },
        { "d_model", "9007199254740991", VC_EFORMAT, "d_model: 9007199254740991" },
        { "d_model", "1e300", VC_EFORMAT, "d_model" },
        { "d_model", "\"32\"", VC_EFORMAT, "d_model: expected" },
        { "d_ff", NULL, VC_ENOENT, "d_ff: missing" },
        { "d_ff", "128", VC_EMISMATCH, "[128,32] was expected" },
        { "d_kv", "12", VC_EFORMAT, "d_kv: 12 is not a multiple of 8" },
        { "d_kv", "512", VC_EFORMAT, "d_kv: 512 is not within 1..256" },
        { "num_heads", "2000000", VC_EFORMAT, "num_heads" },
        { "num_heads", "3", VC_EMISMATCH, "[24,32] was expected" },
        { "num_layers", "1", VC_EMISMATCH, "encoder.block.1.layer.0" },
        { "num_layers", "3", VC_ENOENT, "encoder.block.2.layer.0" },
        { "num_layers", "100000000", VC_EFORMAT, "num_layers" },
        { "vocab_size", "65", VC_EMISMATCH, "[65,32] was expected" },
        { "vocab_size", "4294967296", VC_EFORMAT, "vocab_size" },
        { "feed_forward_proj", "\"relu\"", VC_EFORMAT, "is_gated_act: true; only false" },
        { "feed_forward_proj", "\"gated-silu\"", VC_EFORMAT, "feed_forward_proj: \"gated-silu\"" },
        { "feed_forward_proj", NULL, VC_ENOENT, "feed_forward_proj: missing" },
        { "is_gated_act", "false", VC_EFORMAT, "is_gated_act: false" },
        { "layer_norm_epsilon", "-1e-6", VC_EFORMAT, "layer_norm_epsilon" },
        { "layer_norm_epsilon", "2", VC_EFORMAT, "layer_norm_epsilon: 2 is not" },
        { "relative_attention_num_buckets", "64", VC_EFORMAT, "num_buckets: 64; only 32" },
        { "relative_attention_max_distance", "256", VC_EFORMAT, "max_distance: 256; only 128" },
        { "quantization_config", "{}", VC_EFORMAT, "quantization_config" },
    };
    tf_fixture f = tt_open("t5", VC_F32);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = tf_changed(&f, rows[i].field, rows[i].value);
        tf_put_config(&f, text);
        tt_refused(f.dir, "t5", rows[i].rc, rows[i].says);
        free(text);
    }
    tf_put_config(&f, "[]");
    tt_refused(f.dir, "t5", VC_EFORMAT, "config.json: no JSON object");
    tf_put_config(&f, "{\"d_model\": ");
    tt_refused(f.dir, "t5", VC_EFORMAT, "config.json");
    tf_close(&f);
}

/* Fields that older files lack have their defaults; another epsilon changes the states. */
static void config_defaults(void **state)
{
    static const char *const optional[] = { "relative_attention_num_buckets", "is_gated_act",
                                            "relative_attention_max_distance",
                                            "layer_norm_epsilon" };
    tf_fixture f = tt_open("t5", VC_F32);
    char *text;

    (void)state;
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
        tf_put_config(&f, text = tf_changed(&f, optional[i], NULL));
        assert_true(tt_error_in(f.dir, f.gold, VC_F32) <= TT_F32);
        free(text);
    }
    tf_put_config(&f, text = tf_changed(&f, "layer_norm_epsilon", "0.5"));
    assert_true(tt_error_in(f.dir, f.gold, VC_F32) > 1e-2);
    free(text);
    tf_close(&f);
}

/* ---- inputs that are refused ---- */

static void inputs_refused(void **state)
{
    tf_fixture f = tt_open("t5", VC_F32);
    encoder_opts o = tt_opts(f.dir, VC_F16);
    float states[3 * TT_WIDTH];
    int64_t ids[3] = { 5, 64, 1 };
    vc_err err = { 0 };
    vf_key k;
    t5 *m;

    (void)state;
    assert_fails(t5_open(&m, &o, "t5", &k, &err), VC_EINVAL, &err, "f16");
    o = tt_opts(NULL, VC_F32);
    assert_int_equal(t5_open(&m, &o, "t5", &k, &err), VC_EINVAL);
    tt_refused("/nowhere", "t5", VC_ENOENT, "/nowhere/config.json");
    o = tt_opts(f.dir, VC_F32);
    o.device = "abacus";
    assert_int_equal(t5_open(&m, &o, "t5", &k, &err), VC_EINVAL);

    m = tt_model(f.dir, "t5", VC_F32);
    assert_fails(t5_encode(m, &(text_ids){ .id = ids, .n = 3 }, 1, states, &err), VC_EINVAL, &err,
                 "token 1 has id 64, and the text encoder has ids 0..63");
    ids[1] = INT64_C(1) << 32;                    /* the lower 32 bits are 0 */
    assert_int_equal(t5_encode(m, &(text_ids){ .id = ids, .n = 3 }, 1, states, &err), VC_EINVAL);
    ids[1] = -1;
    assert_int_equal(t5_encode(m, &(text_ids){ .id = ids, .n = 3 }, 1, states, &err), VC_EINVAL);
    assert_int_equal(t5_encode(m, &(text_ids){ .id = ids, .n = 0 }, 1, states, &err), VC_EINVAL);
    ids[1] = 63;
    assert_int_equal(t5_encode(m, &(text_ids){ .id = ids, .n = 3 }, 1, states, &err), 0);
    t5_close(m);
    t5_close(NULL);
    tf_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoint_forms), cmocka_unit_test(tensors_refused),
        cmocka_unit_test(config_refused), cmocka_unit_test(config_defaults),
        cmocka_unit_test(inputs_refused),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}

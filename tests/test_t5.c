/* test_t5.c - the T5 and UMT5 encoders against transformers (tests/golden/t5, umt5): states, types
 * of files and of activations, forms of checkpoints, what is refused. The tokenizer is a double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/file.h"
#include "formats/json.h"
#include "formats/model.h"
#include "precompute/t5.h"
#include "precompute/tokenizer.h"
#include "tests/golden.h"

enum { WIDTH = 32, MOST = 150, TENSORS = 64 };

/* Of the greatest state. f32: sums of some tens of terms in another order. bf16 activations: a
 * handful of roundings of 2^-9 in each of two layers. */
#define TOL_F32 1e-5
#define TOL_BF16 2e-2

/* ---- the tokenizer's double: a prompt is numbers, the end is 1, padding 0 ---- */

struct tokenizer { int64_t end; };

int tokenizer_open(tokenizer **out, const char *dir, vc_err *err)
{
    *out = NULL;
    if (strcmp(dir, "double"))
        return vc_fail(err, VC_ENOENT, "%s: no tokenizer", dir);
    *out = calloc(1, sizeof **out);
    (*out)->end = 1;
    return 0;
}

void tokenizer_close(tokenizer *t) { free(t); }

vf_key tokenizer_fingerprint(const tokenizer *t) { return vf_hash(t, sizeof *t); }

int tokenizer_prompt(const tokenizer *t, const char *text, int max_length, int64_t *ids,
                     int64_t *mask, int *n, vc_err *err)
{
    char *end;

    (void)err;
    *n = 0;
    for (long id; *n < max_length - 1 && (id = strtol(text, &end, 10), end != text); text = end)
        ids[(*n)++] = id;
    ids[(*n)++] = t->end;
    for (int i = 0; i < max_length; i++) {
        mask[i] = i < *n;
        ids[i] = mask[i] ? ids[i] : 0;
    }
    return 0;
}

/* ---- models ---- */

typedef struct fixture {
    vf_safetensors *gold;
    char dir[512];
} fixture;

/* The golden's queries are a quarter of what fill() gives: see scripts/golden/t5.py. */
static void quarter_queries(const char *from, const char *to)
{
    vf_model *m;
    vf_view t[TENSORS];
    float x[WIDTH * WIDTH], *q[TENSORS] = { 0 };
    vc_err err = { 0 };

    if (vf_model_open(&m, from, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < vf_model_count(m); i++) {
        t[i] = *vf_model_at(m, i);
        if (!strstr(t[i].name, ".q.weight")) continue;
        size_t n = (size_t)vf_view_count(&t[i]);
        vc_to_f32(x, t[i].data, t[i].dtype, n);
        for (size_t k = 0; k < n; k++)
            x[k] *= 0.25f;
        t[i].data = q[i] = malloc(t[i].bytes);
        vc_from_f32(q[i], t[i].dtype, x, n);
    }
    if (vf_safetensors_write(to, t, vf_model_count(m), NULL, 0, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < TENSORS; i++)
        free(q[i]);
    vf_model_close(m);
}

static fixture fixture_open(const char *name, vc_dtype stored)
{
    fixture f = { .gold = golden_open(name) };
    snprintf(f.dir, sizeof f.dir, "%s", golden_tmp(name));
    golden_model(f.gold, f.dir, stored);
    char *file = vc_path_join(f.dir, "diffusion_pytorch_model.safetensors");
    quarter_queries(f.dir, file);
    free(file);
    return f;
}

static void fixture_close(fixture *f)
{
    vc_err err;
    if (vc_remove_tree(f->dir, &err)) fail_msg("%s", err.text);
    vf_safetensors_close(f->gold);
}

static encoder_opts opts(const char *dir, vc_dtype dtype)
{
    return (encoder_opts){ .dir = dir, .tokenizer = "double", .max_length = 40, .dtype = dtype,
                           .device = golden_device(), .threads = 1 };
}

static t5 *open_model(const char *dir, const char *type, vc_dtype dtype)
{
    encoder_opts o = opts(dir, dtype);
    vc_err err = { 0 };
    vf_key k;
    t5 *m;
    if (t5_open(&m, &o, type, &k, &err)) fail_msg("%s", err.text);
    return m;
}

/* Error of the states of the golden's `ids` against its `want`, of as many tokens as want has. */
static double error_of(t5 *m, const vf_safetensors *gold, const char *ids, const char *want)
{
    float states[MOST * WIDTH];
    int64_t dim[8];
    vf_view v;
    vc_err err = { 0 };

    float *w = golden_values(gold, want, dim);
    assert_int_equal(vf_safetensors_get(gold, ids, &v, &err), 0);
    int64_t id[MOST];
    memcpy(id, v.data, v.bytes);
    if (t5_encode(m, id, (int)dim[0], states, &err)) fail_msg("%s", err.text);
    double e = golden_error(states, w, dim[0] * dim[1]);
    free(w);
    return e;
}

static double error_in(const char *dir, const vf_safetensors *gold, vc_dtype dtype)
{
    t5 *m = open_model(dir, "t5", dtype);
    double e = error_of(m, gold, "ids_40", "states_40");
    t5_close(m);
    return e;
}

/* What opening says. */
static void refused(const char *dir, const char *type, int rc, const char *says)
{
    encoder_opts o = opts(dir, VC_F32);
    vc_err err = { 0 };
    vf_key k;
    t5 *m = (t5 *)&o;

    int have = t5_open(&m, &o, type, &k, &err);
    assert_null(m);
    if (have != rc || !strstr(err.text, says))
        fail_msg("%s: %d, not %d; \"%s\" is missing from: %s", dir, have, rc, says, err.text);
}

/* ---- states ---- */

static void equals_transformers(void **state)
{
    static const struct { const char *name, *ids, *want; } rows[] = {
        { "t5", "ids_40", "states_40" }, { "t5", "ids_150", "states_150" },
        { "umt5", "ids_40", "states_40" }, { "umt5", "ids_150", "states_150" },
        { "umt5", "ids_40", "masked_40" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (vc_dtype type = VC_F32; type <= VC_BF16; type++) {
            fixture f = fixture_open(rows[i].name, VC_F32);
            t5 *m = open_model(f.dir, rows[i].name, type);
            double e = error_of(m, f.gold, rows[i].ids, rows[i].want);
            if (!(e <= (type == VC_F32 ? TOL_F32 : TOL_BF16)))
                fail_msg("%s %s, activations %s: %g", rows[i].name, rows[i].want,
                         vc_dtype_name(type), e);
            t5_close(m);
            fixture_close(&f);
        }
}

/* Files in bf16 and f16 are read as they are: what they hold is exact. */
static void stored_types(void **state)
{
    static const struct { const char *name, *want; vc_dtype stored; } rows[] = {
        { "t5", "bf16_40", VC_BF16 }, { "t5", "f16_40", VC_F16 },
        { "umt5", "bf16_40", VC_BF16 }, { "umt5", "f16_40", VC_F16 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (vc_dtype type = VC_F32; type <= VC_BF16; type++) {
            fixture f = fixture_open(rows[i].name, rows[i].stored);
            t5 *m = open_model(f.dir, rows[i].name, type);
            double e = error_of(m, f.gold, "ids_40", rows[i].want);
            if (!(e <= (type == VC_F32 ? TOL_F32 : TOL_BF16)))
                fail_msg("%s %s, activations %s: %g", rows[i].name, rows[i].want,
                         vc_dtype_name(type), e);
            t5_close(m);
            fixture_close(&f);
        }
}

/* The same bits twice, whatever was encoded in between. */
static void repeats(void **state)
{
    fixture f = fixture_open("t5", VC_BF16);
    t5 *m = open_model(f.dir, "t5", VC_F32);
    float a[3 * WIDTH], b[3 * WIDTH], other[MOST * WIDTH];
    const int64_t ids[3] = { 5, 63, 1 }, many[MOST] = { 7, 9 };
    vc_err err;

    (void)state;
    assert_int_equal(t5_encode(m, ids, 3, a, &err), 0);
    assert_int_equal(t5_encode(m, many, MOST, other, &err), 0);
    assert_int_equal(t5_encode(m, ids, 3, b, &err), 0);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(t5_encode(m, ids, 1, b, &err), 0);        /* one token: one distance */
    t5_close(m);
    fixture_close(&f);
}

/* ---- forms of checkpoints ---- */

/* How a tensor of the fixture goes into a changed copy: false leaves it out. */
typedef bool edit_fn(vf_view *v, const void *arg);

static void put_text(const char *dir, const char *name, const char *text)
{
    char *path = vc_path_join(dir, name);
    vc_err err = { 0 };
    if (vc_file_write(path, text, strlen(text), &err)) fail_msg("%s", err.text);
    free(path);
}

/* Writes tensor i into shard i % shards of dir, with their index; one shard: a whole file. */
static void write_shards(const char *dir, const vf_view *t, int n, int shards)
{
    vc_err err = { 0 };
    cJSON *index = cJSON_CreateObject(), *map = cJSON_AddObjectToObject(index, "weight_map");

    for (int s = 0; s < shards; s++) {
        vf_view mine[TENSORS];
        int k = 0;
        char *name = shards == 1 ? vc_format("model.safetensors")
                                 : vc_format("model-%05d-of-%05d.safetensors", s + 1, shards);
        char *path = vc_path_join(dir, name);
        for (int i = s; i < n; i += shards) {
            cJSON_AddStringToObject(map, t[i].name, name);
            mine[k++] = t[i];
        }
        if (vf_safetensors_write(path, mine, k, NULL, 0, &err)) fail_msg("%s", err.text);
        free(path);
        free(name);
    }
    char *text = vf_json_line(index);
    if (shards > 1) put_text(dir, "model.safetensors.index.json", text);
    free(text);
    cJSON_Delete(index);
}

/* f's tensors through edit, and n_more, into a new folder. config NULL: the golden's. */
static void write_model(const fixture *f, const char *dir, const char *config, edit_fn *edit,
                        const void *arg, int shards, const vf_view *more, int n_more)
{
    vf_model *m;
    vf_view t[TENSORS];
    vc_err err = { 0 };
    int n = 0;

    if (vc_mkdirs(dir, &err) || vf_model_open(&m, f->dir, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < vf_model_count(m); i++) {
        t[n] = *vf_model_at(m, i);
        n += !edit || edit(&t[n], arg);
    }
    for (int i = 0; i < n_more; i++)
        t[n++] = more[i];
    write_shards(dir, t, n, shards);
    put_text(dir, "config.json", config ? config : vf_safetensors_meta(f->gold, "config"));
    vf_model_close(m);
}

static bool drop(vf_view *v, const void *name) { return strcmp(v->name, name) != 0; }

static bool rename_embedding(vf_view *v, const void *name)
{
    if (!strcmp(v->name, "shared.weight")) v->name = name;
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
    if (!strcmp(v->name, name)) v->dtype = VC_I32;
    return true;
}

/* The golden's shared.weight again, under another name. */
static vf_view embedding_as(const fixture *f, vf_model **m, const char *name)
{
    vf_view v;
    vc_err err = { 0 };
    if (vf_model_open(m, f->dir, &err) || vf_model_get(*m, "shared.weight", &v, &err))
        fail_msg("%s", err.text);
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
    fixture f = fixture_open("t5", VC_F32);
    char dir[600];
    vf_model *m;

    (void)state;
    snprintf(dir, sizeof dir, "%s/sharded", f.dir);
    write_model(&f, dir, NULL, NULL, NULL, 2, decoder, 2);
    assert_true(error_in(dir, f.gold, VC_F32) <= TOL_F32);
    snprintf(dir, sizeof dir, "%s/embed", f.dir);
    write_model(&f, dir, NULL, rename_embedding, "encoder.embed_tokens.weight", 1, NULL, 0);
    assert_true(error_in(dir, f.gold, VC_F32) <= TOL_F32);
    snprintf(dir, sizeof dir, "%s/both", f.dir);
    const vf_view again = embedding_as(&f, &m, "encoder.embed_tokens.weight");
    write_model(&f, dir, NULL, NULL, NULL, 1, &again, 1);
    assert_true(error_in(dir, f.gold, VC_F32) <= TOL_F32);

    vf_view other = again;                        /* the same shape and type, other values */
    float *values = malloc(other.bytes);
    memcpy(values, other.data, other.bytes);
    values[7] += 1;
    other.data = values;
    write_model(&f, dir, NULL, NULL, NULL, 1, &other, 1);
    refused(dir, "t5", VC_EMISMATCH, "encoder.embed_tokens.weight differ");
    free(values);
    vf_model_close(m);
    fixture_close(&f);
}

static void tensors_refused(void **state)
{
    static const struct { const char *tensor; edit_fn *edit; int rc; const char *says; } rows[] = {
        { "shared.weight", drop, VC_ENOENT, "\"shared.weight\" is missing" },
        { "encoder.final_layer_norm.weight", drop, VC_ENOENT, "final_layer_norm.weight" },
        { "encoder.block.1.layer.1.DenseReluDense.wi_1.weight", drop, VC_ENOENT,
          "block.1.layer.1.DenseReluDense.wi_1.weight\" is missing; it should be [64,32]" },
        { "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", drop, VC_ENOENT,
          "relative_attention_bias.weight" },
        { "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", cut_rows,
          VC_EMISMATCH, "is [31,4], [32,4] was expected" },
        { "shared.weight", cut_rows, VC_EMISMATCH, "is [63,32], [64,32] was expected" },
        { "encoder.block.0.layer.0.SelfAttention.q.weight", as_integers, VC_EMISMATCH, "i32" },
    };
    const float extra[6] = { 0 };
    const vf_view left = { "encoder.block.2.layer.1.layer_norm.weight", VC_F32, 1, { 6 }, extra,
                           sizeof extra };
    fixture f = fixture_open("t5", VC_F32);
    char dir[600];

    (void)state;
    snprintf(dir, sizeof dir, "%s/changed", f.dir);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_model(&f, dir, NULL, rows[i].edit, rows[i].tensor, 1, NULL, 0);
        refused(dir, "t5", rows[i].rc, rows[i].says);
    }
    write_model(&f, dir, NULL, NULL, NULL, 1, &left, 1);
    refused(dir, "t5", VC_EMISMATCH, "encoder.block.2.layer.1.layer_norm.weight is left over");
    fixture_close(&f);

    f = fixture_open("umt5", VC_F32);             /* each layer has a table of its own */
    snprintf(dir, sizeof dir, "%s/changed", f.dir);
    write_model(&f, dir, NULL, drop,
                "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight", 1, NULL, 0);
    refused(dir, "umt5", VC_ENOENT, "block.1.layer.0.SelfAttention.relative_attention_bias");
    fixture_close(&f);
}

/* ---- config.json ---- */

/* The golden's config with a field replaced (value NULL: removed), or added. */
static char *changed(const fixture *f, const char *field, const char *value)
{
    const char *text = vf_safetensors_meta(f->gold, "config");
    cJSON *o, *v;
    vc_err err = { 0 };
    if (vf_json_parse(&o, text, strlen(text), &err)) fail_msg("%s", err.text);
    cJSON_DeleteItemFromObjectCaseSensitive(o, field);
    if (value) {
        if (vf_json_parse(&v, value, strlen(value), &err)) fail_msg("%s", err.text);
        cJSON_AddItemToObject(o, field, v);
    }
    char *line = vf_json_line(o);
    cJSON_Delete(o);
    return line;
}

static void put_config(const fixture *f, const char *text)
{
    put_text(f->dir, "config.json", text);
}

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
        { "d_kv", "12", VC_EFORMAT, "d_kv: 12 is no multiple of 8" },
        { "d_kv", "512", VC_EFORMAT, "d_kv: 512 is not within 1..256" },
        { "num_heads", "2000000", VC_EFORMAT, "num_heads" },
        { "num_heads", "3", VC_EMISMATCH, "[24,32] was expected" },
        { "num_layers", "1", VC_EMISMATCH, "encoder.block.1.layer.0" },
        { "num_layers", "3", VC_ENOENT, "encoder.block.2.layer.0" },
        { "num_layers", "100000000", VC_EFORMAT, "num_layers" },
        { "vocab_size", "65", VC_EMISMATCH, "[65,32] was expected" },
        { "vocab_size", "4294967296", VC_EFORMAT, "vocab_size" },
        { "feed_forward_proj", "\"relu\"", VC_EFORMAT, "feed_forward_proj: \"relu\"" },
        { "feed_forward_proj", NULL, VC_ENOENT, "feed_forward_proj: missing" },
        { "is_gated_act", "false", VC_EFORMAT, "is_gated_act: false" },
        { "layer_norm_epsilon", "-1e-6", VC_EFORMAT, "layer_norm_epsilon" },
        { "layer_norm_epsilon", "2", VC_EFORMAT, "layer_norm_epsilon: 2 is not" },
        { "relative_attention_num_buckets", "64", VC_EFORMAT, "num_buckets: 64; only 32" },
        { "relative_attention_max_distance", "256", VC_EFORMAT, "max_distance: 256; only 128" },
        { "quantization_config", "{}", VC_EFORMAT, "quantization_config" },
    };
    fixture f = fixture_open("t5", VC_F32);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = changed(&f, rows[i].field, rows[i].value);
        put_config(&f, text);
        refused(f.dir, "t5", rows[i].rc, rows[i].says);
        free(text);
    }
    put_config(&f, "[]");
    refused(f.dir, "t5", VC_ENOENT, "config.json: model_type");
    put_config(&f, "{\"d_model\": ");
    refused(f.dir, "t5", VC_EFORMAT, "config.json");
    fixture_close(&f);
}

/* Fields that older files leave out have their usual values; the epsilon counts. */
static void config_defaults(void **state)
{
    static const char *const optional[] = { "relative_attention_num_buckets", "is_gated_act",
                                            "relative_attention_max_distance",
                                            "layer_norm_epsilon" };
    fixture f = fixture_open("t5", VC_F32);
    char *text;

    (void)state;
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
        put_config(&f, text = changed(&f, optional[i], NULL));
        assert_true(error_in(f.dir, f.gold, VC_F32) <= TOL_F32);
        free(text);
    }
    put_config(&f, text = changed(&f, "layer_norm_epsilon", "0.5"));
    assert_true(error_in(f.dir, f.gold, VC_F32) > 1e-2);
    free(text);
    fixture_close(&f);
}

/* ---- what else is refused ---- */

static void inputs_refused(void **state)
{
    fixture f = fixture_open("t5", VC_F32);
    encoder_opts o = opts(f.dir, VC_F16);
    float states[3 * WIDTH];
    int64_t ids[3] = { 5, 64, 1 };
    vc_err err = { 0 };
    vf_key k;
    t5 *m;

    (void)state;
    assert_int_equal(t5_open(&m, &o, "t5", &k, &err), VC_EINVAL);
    assert_non_null(strstr(err.text, "f16"));
    o = opts(NULL, VC_F32);
    assert_int_equal(t5_open(&m, &o, "t5", &k, &err), VC_EINVAL);
    refused("/nowhere", "t5", VC_ENOENT, "/nowhere/config.json");
    o = opts(f.dir, VC_F32);
    o.device = "abacus";
    assert_int_equal(t5_open(&m, &o, "t5", &k, &err), VC_EINVAL);

    m = open_model(f.dir, "t5", VC_F32);
    assert_int_equal(t5_encode(m, ids, 3, states, &err), VC_EINVAL);
    assert_non_null(strstr(err.text, "token 1 has id 64, the text encoder knows 0..63"));
    ids[1] = INT64_C(1) << 32;                    /* 0 if it were cut to 32 bits */
    assert_int_equal(t5_encode(m, ids, 3, states, &err), VC_EINVAL);
    ids[1] = -1;
    assert_int_equal(t5_encode(m, ids, 3, states, &err), VC_EINVAL);
    assert_int_equal(t5_encode(m, ids, 0, states, &err), VC_EINVAL);
    ids[1] = 63;
    assert_int_equal(t5_encode(m, ids, 3, states, &err), 0);
    t5_close(m);
    t5_close(NULL);
    fixture_close(&f);
}

static bool poison(vf_view *v, const void *name)
{
    static float row[WIDTH];
    if (strcmp(v->name, name)) return true;
    for (int i = 0; i < WIDTH; i++)
        row[i] = strtof("nan", NULL);
    v->data = row;
    return true;
}

static void nan_is_an_error(void **state)
{
    fixture f = fixture_open("t5", VC_F32);
    char dir[600];
    float states[WIDTH];
    vc_err err = { 0 };

    (void)state;
    snprintf(dir, sizeof dir, "%s/nan", f.dir);
    write_model(&f, dir, NULL, poison, "encoder.block.1.layer.1.layer_norm.weight", 1, NULL, 0);
    t5 *m = open_model(dir, "t5", VC_F32);
    assert_int_equal(t5_encode(m, (int64_t[]){ 1 }, 1, states, &err), VC_ENUMERIC);
    t5_close(m);
    fixture_close(&f);
}

/* ---- memory, fingerprints ---- */

static bool below(vf_view *v, const void *prefix)
{
    return strncmp(v->name, prefix, strlen(prefix)) != 0;
}

/* Pool bytes of encoding MOST tokens. */
static size_t peak_of(const char *dir, const char *type)
{
    const int64_t ids[MOST] = { 7, 9 };
    float states[MOST * WIDTH];
    vc_err err = { 0 };
    t5 *m = open_model(dir, type, VC_F32);
    if (t5_encode(m, ids, MOST, states, &err)) fail_msg("%s", err.text);
    size_t peak = t5_usage(m).pool_peak;
    t5_close(m);
    return peak;
}

/* Temporaries are those of one layer, within the bound that t5.h names. */
static void memory_is_one_layers(void **state)
{
    enum { HIDDEN = 64, HEADS = 4, SLACK = 4096 };             /* each buffer is rounded up */
    size_t bound = 4 * (MOST * 4 * (WIDTH + HIDDEN) + 6 * HEADS * (2 * MOST - 1)) + SLACK;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *type = i ? "umt5" : "t5";
        fixture f = fixture_open(type, VC_F32);
        char dir[600], *one = changed(&f, "num_layers", "1");
        snprintf(dir, sizeof dir, "%s/one", f.dir);
        write_model(&f, dir, one, below, "encoder.block.1.", 1, NULL, 0);
        size_t one_layer = peak_of(dir, type), two_layers = peak_of(f.dir, type);
        /* umt5: the second layer's own table comes to the first's */
        size_t more = i ? 3 * HEADS * (2 * MOST - 1) * 4 : 0;
        if (two_layers > one_layer + more + SLACK || two_layers > bound)
            fail_msg("%s: one layer %zu, two %zu, bound %zu", type, one_layer, two_layers, bound);
        free(one);
        fixture_close(&f);
    }
}

static vf_key fingerprint(const char *dir, const encoder_opts *o, const char *type)
{
    encoder_opts mine = *o;
    vc_err err = { 0 };
    vf_key k;
    t5 *m;
    mine.dir = dir;
    if (t5_open(&m, &mine, type, &k, &err)) fail_msg("%s", err.text);
    t5_close(m);
    return k;
}

static void fingerprints(void **state)
{
    fixture f = fixture_open("t5", VC_F32);
    encoder_opts o = opts(f.dir, VC_F32);
    char *text;

    (void)state;
    vf_key a = fingerprint(f.dir, &o, "t5"), b;
    o.threads = 2;
    put_config(&f, text = changed(&f, "dropout_rate", "0.5"));
    free(text);
    b = fingerprint(f.dir, &o, "t5");
    assert_memory_equal(a.b, b.b, sizeof a.b);
    put_config(&f, text = changed(&f, "layer_norm_epsilon", "1e-5"));
    free(text);
    b = fingerprint(f.dir, &o, "t5");
    assert_memory_not_equal(a.b, b.b, sizeof a.b);
    put_config(&f, vf_safetensors_meta(f.gold, "config"));
    o.weights.b[3] ^= 1;
    b = fingerprint(f.dir, &o, "t5");
    assert_memory_not_equal(a.b, b.b, sizeof a.b);
    fixture_close(&f);
}

/* ---- the classes ---- */

/* The golden's first words as a prompt. */
static void prompt_of(char *text, size_t size, const vf_safetensors *gold, int words)
{
    float *ids = golden_values(gold, "ids_40", NULL);
    size_t n = 0;
    for (int i = 0; i < words; i++)
        n += (size_t)snprintf(text + n, size - n, "%d ", (int)ids[i]);
    free(ids);
}

static void class_gives(const char *name, const text_class *class, const char *want, int n)
{
    fixture f = fixture_open(name, VC_F32);
    encoder_opts o = opts(f.dir, VC_F32);
    vc_err err = { 0 };
    char prompt[400];
    text_enc *t;
    text_info info;
    text_result r;

    o.threads = 2;
    prompt_of(prompt, sizeof prompt, f.gold, 30);
    if (class->open(&t, &o, &info, &err)) fail_msg("%s", err.text);
    assert_string_equal(info.class, class->name);
    assert_int_equal(info.width, WIDTH);
    assert_int_equal(info.max_length, 40);
    if (class->encode(t, prompt, &r, &err)) fail_msg("%s", err.text);
    assert_int_equal(r.n, n);
    assert_int_equal(r.length, 40);
    assert_int_equal(r.ids[30], 1);
    assert_true(r.mask[30] == 1 && r.mask[31] == 0 && r.pooled_width == 0);
    float *w = golden_values(f.gold, want, NULL);
    assert_true(golden_error(r.embeds, w, (int64_t)n * WIDTH) <= TOL_F32);
    free(w);
    if (class->encode(t, "", &r, &err)) fail_msg("%s", err.text);
    assert_int_equal(r.n, n == 40 ? 40 : 1);
    assert_int_equal(class->encode(t, "99", &r, &err), VC_EINVAL);
    class->close(t);
    class->close(NULL);

    o.tokenizer = "nowhere";
    assert_int_equal(class->open(&t, &o, &info, &err), VC_ENOENT);
    assert_null(t);
    o.tokenizer = NULL;
    assert_int_equal(class->open(&t, &o, &info, &err), VC_EINVAL);
    o = opts(f.dir, VC_F32);
    o.max_length = 0;
    assert_int_equal(class->open(&t, &o, &info, &err), VC_EINVAL);
    fixture_close(&f);
}

static void t5_class(void **state)
{
    (void)state;
    class_gives("t5", &text_t5, "states_40", 40);
}

static void umt5_class(void **state)
{
    (void)state;
    class_gives("umt5", &text_umt5, "masked_40", 31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_transformers), cmocka_unit_test(stored_types),
        cmocka_unit_test(repeats), cmocka_unit_test(checkpoint_forms),
        cmocka_unit_test(tensors_refused), cmocka_unit_test(config_refused),
        cmocka_unit_test(config_defaults), cmocka_unit_test(inputs_refused),
        cmocka_unit_test(nan_is_an_error), cmocka_unit_test(memory_is_one_layers),
        cmocka_unit_test(fingerprints), cmocka_unit_test(t5_class), cmocka_unit_test(umt5_class),
    };
    return golden_has_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}

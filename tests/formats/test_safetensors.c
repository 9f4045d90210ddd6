/* test_safetensors.c - written files have the bytes of the reference and read back; every kind of
 * forged header is refused with the right reason; models are read from one file and from shards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/tensors/model.h"
#include "tests/lib/mutate.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

/* ---- helpers ---- */

static uint8_t *container(const char *header, size_t data, size_t *size)
{
    size_t n = strlen(header);
    uint8_t *p = calloc(1, 8 + n + data);
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)((uint64_t)n >> 8 * i);
    memcpy(p + 8, header, n);
    *size = 8 + n + data;
    return p;
}

typedef struct folder {
    char path[TMP_DIR];
} folder;

static const float six[6] = { 1, 2, 3, 4, 5, 6 };
static const uint8_t three[3] = { 1, 2, 3 };
static const uint16_t four[4] = { 1, 2, 3, 4 };
static const int64_t one = -1;

static const vf_view sample[] = {
    { "b\"x\n\xc3\xa9", VC_F32, 2, { 2, 3 }, six, 24 }, { "a", VC_U8, 1, { 3 }, three, 3 },
    { "c", VC_BF16, 1, { 4 }, four, 8 }, { "c2", VC_F16, 1, { 4 }, four, 8 },
    { "e", VC_F32, 1, { 0 }, NULL, 0 }, { "s", VC_I64, 0, { 0 }, &one, 8 },
};
enum { N_SAMPLE = sizeof sample / sizeof *sample };

/* ---- writing ---- */

/* The header that the reference implementation writes for the same tensors and metadata. */
static void test_reference_bytes(void **state)
{
    static const char header[] =
        "{\"__metadata__\":{\"k\":\"v\\n\\\"\\\\\"},"
        "\"s\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"b\\\"x \xc3\xa9\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
        "\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[32,32]},"
        "\"c\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[32,40]},"
        "\"c2\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[40,48]},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[48,51]}}";
    (void)state;
    vf_view views[N_SAMPLE];
    memcpy(views, sample, sizeof views);
    views[0].name = "b\"x \xc3\xa9";
    vf_meta meta = { "k", "v\n\"\\" };
    uint8_t *p;
    size_t n, len = sizeof header - 1, padded = (len + 7) / 8 * 8;
    vc_err err;

    assert_int_equal(vf_safetensors_pack(&p, &n, views, N_SAMPLE, &meta, 1, 0, &err), 0);
    assert_int_equal(n, 8 + padded + 51);
    assert_int_equal(p[0] | p[1] << 8, padded);
    assert_memory_equal(p + 8, header, len);
    for (size_t i = len; i < padded; i++)
        assert_int_equal(p[8 + i], ' ');
    assert_memory_equal(p + 8 + padded, &one, 8);
    assert_memory_equal(p + 8 + padded + 8, six, 24);
    assert_memory_equal(p + 8 + padded + 48, three, 3);
    free(p);
}

static void check_sample(const vf_safetensors *f)
{
    assert_int_equal(vf_safetensors_count(f), N_SAMPLE);
    for (int i = 0; i < N_SAMPLE; i++) {
        vf_view v;
        vc_err err;
        const char *name = i ? sample[i].name : "b\"x\xc3\xa9";
        assert_int_equal(vf_safetensors_get(f, name, &v, &err), 0);
        assert_int_equal(v.dtype, sample[i].dtype);
        assert_int_equal(v.nd, sample[i].nd);
        assert_int_equal(v.bytes, sample[i].bytes);
        assert_memory_equal(v.dim, sample[i].dim, (size_t)v.nd * sizeof *v.dim);
        if (v.bytes)
            assert_memory_equal(v.data, sample[i].data, v.bytes);
        if (i)
            assert_true(strcmp(vf_safetensors_at(f, i - 1)->name,
                               vf_safetensors_at(f, i)->name) < 0);
    }
}

static void test_round_trip(void **state)
{
    folder *dir = *state;
    vf_view views[N_SAMPLE];
    memcpy(views, sample, sizeof views);
    views[0].name = "b\"x\xc3\xa9";
    vf_meta meta[] = { { "k", "v\n\"\\\x01" }, { "", "empty key" } };
    vc_err err = { 0 };
    uint8_t *p, *again;
    size_t n, m;

    assert_int_equal(vf_safetensors_pack(&p, &n, views, N_SAMPLE, meta, 2, 1, &err), 0);
    assert_int_equal(vf_safetensors_pack(&again, &m, views, N_SAMPLE, meta, 2, 1, &err), 0);
    assert_int_equal(n, m);
    assert_memory_equal(p, again, n);
    vf_safetensors *f;
    assert_int_equal(vf_safetensors_parse(&f, p, n, &err), 0);
    check_sample(f);
    assert_string_equal(vf_safetensors_meta(f, "k"), "v\n\"\\\x01");
    assert_string_equal(vf_safetensors_meta(f, ""), "empty key");
    assert_null(vf_safetensors_meta(f, "none"));
    assert_int_equal(vf_safetensors_check(f, &err), 0);
    vf_view v;
    assert_int_equal(vf_safetensors_get(f, "none", &v, &err), VC_ENOENT);
    vf_safetensors_close(f);

    p[n - 1] ^= 1;                                  /* one bit of the data */
    assert_int_equal(vf_safetensors_parse(&f, p, n, &err), 0);
    assert_int_equal(vf_safetensors_check(f, &err), VC_EFORMAT);
    vf_safetensors_close(f);
    free(p);
    free(again);

    char *path = vc_path_join(dir->path, "w.safetensors");
    assert_int_equal(vf_safetensors_write(path, views, N_SAMPLE, meta, 2, &err), 0);
    assert_int_equal(vf_safetensors_write(path, views, N_SAMPLE, meta, 2, &err), 0);
    assert_int_equal(vf_safetensors_open(&f, path, &err), 0);
    check_sample(f);
    assert_int_equal(vf_safetensors_check(f, &err), VC_ENOENT);
    vf_safetensors_close(f);
    free(path);
    path = vc_path_join(dir->path, "none/w.safetensors");
    assert_int_equal(vf_safetensors_write(path, views, N_SAMPLE, NULL, 0, &err), VC_ENOENT);
    assert_int_equal(vf_safetensors_open(&f, path, &err), VC_ENOENT);
    assert_null(f);
    free(path);
}

static void test_empty(void **state)
{
    (void)state;
    uint8_t *p;
    size_t n;
    vc_err err;
    vf_safetensors *f;

    assert_int_equal(vf_safetensors_pack(&p, &n, NULL, 0, NULL, 0, 0, &err), 0);
    assert_int_equal(n, 16);
    assert_int_equal(vf_safetensors_parse(&f, p, n, &err), 0);
    assert_int_equal(vf_safetensors_count(f), 0);
    vf_view v;
    assert_int_equal(vf_safetensors_get(f, "x", &v, &err), VC_ENOENT);
    vf_safetensors_close(f);
    free(p);
    vf_safetensors_close(NULL);
}

static void test_refused_writes(void **state)
{
    static const vf_view bad[][2] = {
        { { "a", VC_U8, 1, { 3 }, three, 3 }, { "a", VC_U8, 1, { 3 }, three, 3 } },
        { { "a", VC_U8, 1, { 3 }, three, 3 }, { "__metadata__", VC_U8, 1, { 3 }, three, 3 } },
        { { "a", VC_U8, 1, { 3 }, three, 3 }, { "\xff", VC_U8, 1, { 3 }, three, 3 } },
        { { "a", VC_U8, 1, { 3 }, three, 3 }, { "b", VC_U8, 1, { 4 }, three, 3 } },
        { { "a", VC_U8, 1, { 3 }, three, 3 }, { "b", VC_U8, 2, { -1, -3 }, three, 3 } },
        { { "a", VC_U8, 1, { 3 }, three, 3 }, { "b", VC_U8, 9, { 3 }, three, 3 } },
        { { "a", VC_U8, 1, { 3 }, three, 3 }, { "b", VC_F32, 2, { 1ll << 62, 64 }, three, 0 } },
        { { "a", VC_U8, 1, { 3 }, three, 3 }, { "b", VC_DTYPE_NONE, 1, { 3 }, three, 3 } },
    };
    static const vf_meta twice[] = { { "k", "1" }, { "k", "2" } }, own = { "xxh3", "0" };
    (void)state;
    uint8_t *p;
    size_t n;
    vc_err err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(vf_safetensors_pack(&p, &n, bad[i], 2, NULL, 0, 0, &err), VC_EINVAL);
        assert_null(p);
    }
    assert_int_equal(vf_safetensors_pack(&p, &n, NULL, 0, twice, 2, 0, &err), VC_EINVAL);
    assert_int_equal(vf_safetensors_pack(&p, &n, NULL, 0, &own, 1, 1, &err), VC_EINVAL);
}

/* ---- forged headers ---- */

#define T(dtype, shape, from, to) \
    "{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" from "," to "]}"

static const struct {
    const char *header;
    size_t data;                    /* number of bytes after the header */
    const char *why;                /* part of the message, or NULL for a good header */
} headers[] = {
    { "{\"a\":" T("F32", "2", "0", "8") "}", 8, NULL },
    { "{\"a\":" T("F32", "2", "0", "8") "}    ", 8, NULL },
    { "{\"a\":" T("F32", "", "0", "4") ",\"b\":" T("U8", "0,5", "0", "0") "}", 4, NULL },
    { "{\"b\":" T("U8", "4", "4", "8") ",\"a\":" T("F32", "1", "0", "4") "}", 8, NULL },
    { "{\"a\":{\"shape\":[1],\"more\":[{}],\"data_offsets\":[0,1],\"dtype\":\"I8\"}}", 1, NULL },
    { "{\"\\u0061\\/\":" T("I8", "1", "0", "1") "}", 1, NULL },
    { "{\"__metadata__\":{}}", 0, NULL },
    { " {}", 0, "begin with" },
    { "[]", 0, "begin with" },
    { "{", 0, "expected" },
    { "{} x", 0, "after the end" },
    { "{\"a\":" T("F32", "2", "0", "8") "}", 7, "offsets 0..8 in 7 bytes" },
    { "{\"a\":" T("F32", "2", "0", "8") "}", 9, "1 bytes after the last" },
    { "{\"a\":" T("F32", "2", "1", "9") "}", 9, "comes after a hole" },
    { "{\"a\":" T("F32", "3", "0", "8") "}", 8, "shape needs 12 bytes" },
    { "{\"a\":" T("F32", "2", "8", "0") "}", 8, "offsets 8..0" },
    { "{\"a\":" T("F32", "2", "-8", "0") "}", 8, "negative" },
    { "{\"a\":" T("F32", "-2", "0", "8") "}", 8, "negative" },
    { "{\"a\":" T("F32", "-1,-2", "0", "8") "}", 8, "negative" },
    { "{\"a\":" T("F32", "2.0", "0", "8") "}", 8, "expected an integer" },
    { "{\"a\":" T("F32", "2", "0", "8e0") "}", 8, "expected an integer" },
    { "{\"a\":" T("F32", "\"2\"", "0", "8") "}", 8, "not a number" },
    { "{\"a\":" T("F32", "2", "0", "18446744073709551624") "}", 8, "out of range" },
    { "{\"a\":" T("F32", "4611686018427387905,4", "0", "16") "}", 16, "too large" },
    { "{\"a\":" T("U8", "9223372036854775807,0,2", "0", "0") "}", 0, "too large" },
    { "{\"a\":" T("F32", "1,1,1,1,1,1,1,1,1", "0", "4") "}", 4, "more than 8" },
    { "{\"a\":" T("U8", "2", "0", "2") ",\"b\":" T("U8", "2", "1", "3") "}", 3, "overlaps" },
    { "{\"a\":" T("U8", "2", "0", "2") ",\"b\":" T("U8", "2", "0", "2") "}", 2, "overlaps" },
    { "{\"a\":" T("U8", "1", "0", "1") ",\"b\":" T("U8", "1", "2", "3") "}", 3, "hole" },
    { "{\"a\":" T("U8", "1", "0", "1") ",\"\\u0061\":" T("U8", "1", "1", "2") "}", 2, "twice" },
    { "{\"a\":" T("Q7", "1", "0", "1") "}", 1, "unknown dtype Q7" },
    { "{\"a\":" T("F32 ", "1", "0", "4") "}", 4, "unknown dtype" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "no data_offsets" },
    { "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "no shape" },
    { "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "no dtype" },
    { "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
      "twice" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "two numbers" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}", 1, "more than 2" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1, "expected '['" },
    { "{\"a\":[]}", 0, "expected '{'" },
    { "{\"\xff\":" T("U8", "1", "0", "1") "}", 1, "not UTF-8" },
    { "{\"a\\u0000\":" T("U8", "1", "0", "1") "}", 1, "escape" },
    { "{\"a\\u001b\":" T("U8", "1", "0", "1") "}", 1, "control character" },
    { "{\"__metadata__\":{\"a\":1}}", 0, "expected a string" },
    { "{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "twice" },
    { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice" },
    { "{\"__metadata__\":[]}", 0, "expected '{'" },
};

static void test_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        vc_err err = { 0 };
        vf_safetensors *f;
        size_t n;
        uint8_t *p = container(headers[i].header, headers[i].data, &n);
        int rc = vf_safetensors_parse(&f, p, n, &err);
        print_message("%s -> %s\n", headers[i].header, rc ? err.text : "good");
        assert_int_equal(rc, headers[i].why ? VC_EFORMAT : 0);
        if (rc)
            assert_says(&err, headers[i].why);
        vf_safetensors_close(f);
        free(p);
    }
}

static void test_deep_header(void **state)
{
    (void)state;
    enum { DEPTH = 200000 };
    char *text = malloc(DEPTH + 64);
    strcpy(text, "{\"a\":{\"x\":");
    size_t n = strlen(text);
    memset(text + n, '[', DEPTH);
    text[n + DEPTH] = 0;
    vf_safetensors *f;
    vc_err err;
    uint8_t *p = container(text, 0, &n);
    assert_fails(vf_safetensors_parse(&f, p, n, &err), VC_EFORMAT, &err, "deep");
    free(p);
    free(text);
}

static void test_lengths(void **state)
{
    static const uint64_t lengths[] = { 0, 1, 3, 100000001, 1ull << 32, 1ull << 63, UINT64_MAX,
                                        UINT64_MAX - 7 };
    (void)state;
    vf_safetensors *f;
    vc_err err;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t n;
        uint8_t *p = container("{}", 0, &n);
        memcpy(p, &lengths[i], 8);
        assert_int_equal(vf_safetensors_parse(&f, p, n, &err), VC_EFORMAT);
        assert_null(f);
        free(p);
    }
    for (size_t n = 0; n < 10; n++) {               /* cut short */
        size_t full;
        uint8_t *p = container("{}", 0, &full), *cut = malloc(n ? n : 1);
        memcpy(cut, p, n);
        assert_int_equal(vf_safetensors_parse(&f, cut, n, &err), n == 10 ? 0 : VC_EFORMAT);
        free(cut);
        free(p);
    }
}

static void test_mutations(void **state)
{
    (void)state;
    vf_view views[N_SAMPLE];
    memcpy(views, sample, sizeof views);
    views[0].name = "b";
    vf_meta meta = { "k", "v\n\"\\" };
    uint8_t *p;
    size_t n;
    vc_err err;
    assert_int_equal(vf_safetensors_pack(&p, &n, views, N_SAMPLE, &meta, 1, 1, &err), 0);
    LLVMFuzzerTestOneInput(p, n);
    mutate_run(p, n, 1, 10000, LLVMFuzzerTestOneInput);
    free(p);
}

/* ---- models ---- */

static void put(const char *dir, const char *name, const char *tensor, float value)
{
    vf_view v = { tensor, VC_F32, 1, { 1 }, &value, 4 };
    char *path = vc_path_join(dir, name);
    assert_int_equal(vf_safetensors_write(path, &v, 1, NULL, 0, NULL), 0);
    free(path);
}

static void put_text(const char *dir, const char *name, const char *text)
{
    char *path = vc_path_join(dir, name);
    assert_int_equal(vc_file_write(path, text, strlen(text), NULL), 0);
    free(path);
}

/* Returns the first value of the tensor `name`, or -1. */
static float value_of(const vf_model *m, const char *name)
{
    vf_view v;
    float x = -1;
    if (!vf_model_get(m, name, &v, NULL))
        memcpy(&x, v.data, 4);
    return x;
}

/* Files that are no weights are recognized by their names and first bytes. */
static void test_strangers(void **state)
{
    static const struct { const char *name, *text, *message; } rows[] = {
        { "model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
          "git lfs pull" },
        { "model.safetensors", "PK\3\4\24\10\10\10\10\10", "torch.save" },
        { "model.safetensors", "<!doctype html><html>", "failed download" },
        { "model.safetensors", "12345678", "header of" },
        { "pytorch_model.bin", "PK\3\4", "pytorch_model.bin, which is read only where a flag" },
    };
    folder *dir = *state;
    vf_model *m;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vc_err err = { 0 };
        char *path = vc_path_join(dir->path, rows[i].name);
        put_text(dir->path, rows[i].name, rows[i].text);
        assert_true(vf_model_open(&m, dir->path, &err) != 0);
        assert_says(&err, rows[i].message);
        unlink(path);
        free(path);
    }
}

/* Each step adds a file that must be preferred to all earlier ones. */
static void test_preference(void **state)
{
    static const char *const files[] = {
        "model.other.safetensors", "model.fp16.safetensors", "model.bf16.safetensors",
        "model.safetensors", "diffusion_pytorch_model.fp16.safetensors",
        "diffusion_pytorch_model.safetensors",
    };
    folder *dir = *state;
    vf_model *m;
    vc_err err;

    assert_int_equal(vf_model_open(&m, dir->path, &err), VC_ENOENT);
    assert_null(m);
    put(dir->path, "model-00001-of-00002.safetensors", "x", 9);
    assert_fails(vf_model_open(&m, dir->path, &err), VC_ENOENT, &err,
                 "model-00002-of-00002.safetensors: missing, and the folder has no index");
    put(dir->path, "model-00002-of-00002.safetensors", "w", 8);
    assert_ok(vf_model_open(&m, dir->path, &err), &err);
    assert_true(vf_model_count(m) == 2 && value_of(m, "w") == 8 && value_of(m, "x") == 9);
    vf_model_close(m);
    put(dir->path, "model-00002-of-00002.safetensors", "x", 8);
    assert_fails(vf_model_open(&m, dir->path, &err), VC_EFORMAT, &err, "two tensors are called x");
    put(dir->path, "some.safetensors", "x", 50);
    for (int i = 0; i < 6; i++) {
        put(dir->path, files[i], "x", (float)i);
        assert_int_equal(vf_model_open(&m, dir->path, &err), 0);
        assert_true(value_of(m, "x") == (float)i);
        vf_model_close(m);
    }
}

static void test_ambiguous(void **state)
{
    folder *dir = *state;
    vf_model *m;
    vc_err err;
    put(dir->path, "encoder.safetensors", "x", 1);
    assert_int_equal(vf_model_open(&m, dir->path, &err), 0);
    vf_model_close(m);
    put(dir->path, "decoder.safetensors", "x", 2);
    assert_fails(vf_model_open(&m, dir->path, &err), VC_EINVAL, &err,
                 "decoder.safetensors, encoder.safetensors");
    char *path = vc_path_join(dir->path, "encoder.safetensors");
    assert_int_equal(vf_model_open(&m, path, &err), 0);
    vf_model_close(m);
    free(path);
    vf_model_close(NULL);
}

static void test_shards(void **state)
{
    static const struct {
        const char *index;
        int rc;
        const char *why;
    } rows[] = {
        { "{\"metadata\":{},\"weight_map\":{\"b\":\"m-00002-of-00002.safetensors\","
          "\"a\":\"m-00001-of-00002.safetensors\"}}", 0, NULL },
        { "{\"weight_map\":{\"a\":\"../m-00001-of-00002.safetensors\"}}", VC_EFORMAT, "folder" },
        { "{\"weight_map\":{\"a\":\"/etc/passwd\"}}", VC_EFORMAT, "folder" },
        { "{\"weight_map\":{\"a\":7}}", VC_EFORMAT, "folder" },
        { "{\"weight_map\":{\"b\":\"m-00001-of-00002.safetensors\"}}", VC_ENOENT, "no tensor b" },
        { "{\"weight_map\":{\"b\":\"m-00003-of-00003.safetensors\"}}", VC_ENOENT, "00003" },
        { "{\"weight_map\":[]}", VC_EFORMAT, "weight_map" },
        { "{}", VC_ENOENT, "weight_map" },
        { "{", VC_EFORMAT, "line 1" },
    };
    folder *dir = *state;
    put(dir->path, "m-00001-of-00002.safetensors", "a", 1);
    put(dir->path, "m-00002-of-00002.safetensors", "b", 2);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vf_model *m;
        vc_err err = { 0 };
        put_text(dir->path, "model.safetensors.index.fp16.json", rows[i].index);
        assert_int_equal(vf_model_open(&m, dir->path, &err), rows[i].rc);
        if (rows[i].rc) {
            assert_says(&err, rows[i].why);
            assert_null(m);
            continue;
        }
        assert_int_equal(vf_model_count(m), 2);
        assert_string_equal(vf_model_at(m, 0)->name, "a");
        assert_true(value_of(m, "a") == 1 && value_of(m, "b") == 2 && value_of(m, "c") == -1);
        vf_model_close(m);
    }
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, tmp_dir_setup, tmp_dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_bytes), IN_FOLDER(test_round_trip),
        cmocka_unit_test(test_empty), cmocka_unit_test(test_refused_writes),
        cmocka_unit_test(test_headers), cmocka_unit_test(test_deep_header),
        cmocka_unit_test(test_lengths), IN_FOLDER(test_strangers), cmocka_unit_test(test_mutations),
        IN_FOLDER(test_preference), IN_FOLDER(test_ambiguous), IN_FOLDER(test_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_libvlat.c - the shared libvlat returns the same samples, records and bytes as the functions
 * of formats/dataset, which this program links too, and reports damage. */
#include <stdlib.h>

#include "formats/libvlat/vlat.h"
#include "tests/formats/shards_test.h"

enum { SAMPLES = 24 };

static void same_value(const vlat_dataset *d, const vf_dataset *inside, bool text, const char *key)
{
    vlat_value *v;
    vlat_error e;
    vf_safetensors *st;
    vf_key k;
    assert_true(vf_key_parse(&k, key));
    OK((text ? vf_dataset_text : vf_dataset_latent)(inside, k, true, &st, &err));
    assert_int_equal(vlat_value_open(&v, d, text ? VLAT_TEXT : VLAT_LATENT, key, VLAT_CHECK, &e),
                     0);
    assert_int_equal(vlat_value_count(v), vf_safetensors_count(st));
    for (int i = 0; i < vlat_value_count(v); i++) {
        const vf_view *want = vf_safetensors_at(st, i);
        int64_t n = vf_view_count(want);
        vlat_tensor t, named;
        assert_int_equal(vlat_value_at(v, i, &t, sizeof t, &e), 0);
        assert_string_equal(t.name, want->name);
        assert_int_equal(t.dtype, want->dtype);
        assert_int_equal(t.nd, want->nd);
        assert_memory_equal(t.dim, want->dim, (size_t)t.nd * sizeof *t.dim);
        assert_int_equal(t.bytes, want->bytes);
        assert_memory_equal(t.data, want->data, want->bytes);
        assert_int_equal(vlat_value_get(v, t.name, &named, sizeof named, &e), 0);
        assert_ptr_equal(named.data, t.data);

        float *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
        assert_int_equal(vlat_tensor_f32(&t, 1, (uint64_t)n - 1, x, &e), 0);
        vf_view_f32(y, want, 1, (size_t)n - 1);
        assert_memory_equal(x, y, ((size_t)n - 1) * sizeof *x);
        assert_int_equal(vlat_tensor_f32(&t, 1, (uint64_t)n, x, &e), VLAT_EINVAL);
        free(x);
        free(y);
    }
    vlat_tensor t;
    assert_int_equal(vlat_value_at(v, vlat_value_count(v), &t, sizeof t, &e), VLAT_EINVAL);
    assert_int_equal(vlat_value_get(v, "logsigma", &t, sizeof t, &e), VLAT_ENOENT);
    assert_non_null(strstr(e.text, "logsigma"));
    vlat_value_close(&v);
    assert_null(v);
    vf_safetensors_close(st);
}

static void same_sample(const vlat_dataset *d, const vf_dataset *inside, uint32_t i)
{
    const vf_entry *want = vf_dataset_entry(inside, i);
    vlat_sample s;
    vlat_error e;
    vlat_record *r;
    char hex[VF_KEY_HEX];
    const void *jpeg, *want_jpeg, *json;
    size_t n, want_n;
    uint32_t at;
    assert_int_equal(vlat_dataset_sample(d, i, &s, sizeof s, &e), 0);
    assert_int_equal(s.number, want->number);
    assert_int_equal(s.variant, want->variant);
    assert_string_equal(s.latent, vf_key_hex(hex, want->latent));
    assert_int_equal(s.video, want->flags & VF_ENTRY_VIDEO);
    assert_int_equal(s.f * 10000 + s.h * 100 + s.w, want->f * 10000 + want->h * 100 + want->w);
    assert_int_equal(s.tokens, want->tokens);
    assert_int_equal(s.frames, want->frames);
    assert_int_equal(s.captions, want->captions);
    assert_true(s.weight == want->weight && s.fps == want->fps);
    assert_int_equal(vlat_dataset_find(d, s.number, s.variant, &at, &e), 0);
    assert_int_equal(at, i);
    OK(vf_dataset_thumb(inside, i, &want_jpeg, &want_n, &err));
    assert_int_equal(vlat_dataset_thumb(d, i, &jpeg, &n, &e), 0);
    assert_int_equal(n, want_n);
    assert_memory_equal(jpeg, want_jpeg, n);

    assert_int_equal(vlat_record_open(&r, d, i, &e), 0);
    const char *text = vlat_record_json(r, &n);
    OK(vf_dataset_record(inside, i, &json, &want_n, &err));
    assert_int_equal(n, want_n);
    assert_memory_equal(text, json, n);
    assert_non_null(vlat_record_caption(r, 0));
    assert_null(vlat_record_caption(r, s.captions));
    assert_null(vlat_record_text(r, 0, 1));
    assert_null(vlat_record_condition(r, "image"));
    same_value(d, inside, false, s.latent);
    same_value(d, inside, true, vlat_record_text(r, 0, 0));
    vlat_record_close(&r);
}

static void test_same(void **state)
{
    const char *dir = *state;
    vlat_dataset *d;
    vlat_error e;
    vf_dataset *inside;
    OK(make_dataset(dir, SAMPLES, 40000, &err));
    OK(vf_dataset_open(&inside, dir, false, &err));
    assert_int_equal(vlat_dataset_open(&d, dir, &e), 0);
    assert_int_equal(vlat_dataset_count(d), SAMPLES);
    assert_non_null(strstr(vlat_dataset_manifest(d), "\"text_encoders\""));
    for (uint32_t i = 0; i < SAMPLES; i++)
        same_sample(d, inside, i);
    vf_dataset_close(inside);
    vlat_dataset_close(&d);
    assert_null(d);
    vlat_dataset_close(&d);
    vlat_dataset_close(NULL);
}

/* A program that was compiled with fewer or more fields gets those that both know. */
static void test_sizes(void **state)
{
    const char *dir = *state;
    vlat_dataset *d;
    struct { vlat_sample s; char later[8]; } new = { .later = "unknown" };
    uint32_t old[2] = { 7, 77 };
    OK(make_dataset(dir, SAMPLES, 40000, &err));
    assert_int_equal(vlat_dataset_open(&d, dir, NULL), 0);
    assert_int_equal(vlat_dataset_sample(d, 3, (vlat_sample *)old, sizeof *old, NULL), 0);
    assert_int_equal(old[0], 3);
    assert_int_equal(old[1], 77);
    assert_int_equal(vlat_dataset_sample(d, 3, &new.s, sizeof new, NULL), 0);
    assert_int_equal(new.later[0] | new.later[6], 0);
    vlat_dataset_close(&d);
}

static int count_all(void *arg, const char *where, const char *fault)
{
    assert_true(*where && *fault);
    (*(int *)arg)++;
    return 0;
}

static int stop_at_once(void *arg, const char *where, const char *fault)
{
    return count_all(arg, where, fault) + 1;
}

static void fails(int rc, int want, const vlat_error *e, const char *text)
{
    assert_int_equal(rc, want);
    assert_int_equal(e->code, want);
    if (!strstr(e->text, text))
        fail_msg("\"%s\" lacks \"%s\"", e->text, text);
}

static void test_errors(void **state)
{
    const char *dir = *state;
    vlat_dataset *d, *none;
    vlat_sample s;
    vlat_value *v;
    vlat_record *r;
    vlat_error e;
    uint32_t i;
    int found = 0;
    fails(vlat_dataset_open(&none, "no/such", &e), VLAT_ENOENT, &e, "no/such");
    assert_null(none);
    OK(make_dataset(dir, SAMPLES, 40000, &err));
    assert_int_equal(vlat_dataset_open(&d, dir, &e), 0);
    fails(vlat_dataset_sample(d, SAMPLES, &s, sizeof s, &e), VLAT_EINVAL, &e, "sample 24 of 24");
    fails(vlat_record_open(&r, d, SAMPLES, &e), VLAT_EINVAL, &e, "sample 24 of 24");
    fails(vlat_dataset_find(d, SAMPLES, 0, &i, &e), VLAT_ENOENT, &e, "no sample 24/0");
    fails(vlat_dataset_find(d, 0, 5000, &i, &e), VLAT_EINVAL, &e, "0/5000");
    fails(vlat_value_open(&v, d, VLAT_LATENT, "abc", 0, &e), VLAT_EINVAL, &e, "\"abc\"");
    fails(vlat_value_open(&v, d, 9, "00000000000000000000000000000000", 0, &e), VLAT_EINVAL, &e,
          "kind 9");
    fails(vlat_value_open(&v, d, VLAT_TEXT, "00000000000000000000000000000000", 0, &e),
          VLAT_ENOENT, &e, "no text 0000");
    assert_null(v);
    vlat_dataset_close(&d);

    assert_int_equal(vlat_dataset_verify(dir, count_all, &found, &e), 0);
    assert_int_equal(found, 0);
    fails(vlat_dataset_verify("no/such", count_all, &found, &e), VLAT_ENOENT, &e, "no/such");
}

/* Damages bytes of the first latent's tensors. */
static void damage(const char *dir)
{
    char *path = vc_path_join(dir, "shard-00000.lmdb"), *bytes, *sum;
    size_t n;
    OK(vc_file_read(&bytes, &n, path, BIG, &err));
    sum = memmem(bytes, n, "\"xxh3\"", 6);
    assert_non_null(sum);
    sum[300] ^= 1;
    OK(vc_file_write(path, bytes, n, &err));
    free(bytes);
    free(path);
}

static void test_damage(void **state)
{
    const char *dir = *state;
    vlat_dataset *d;
    vlat_error e;
    int found = 0, damaged = 0;
    OK(make_dataset(dir, SAMPLES, 1 << 20, &err));
    damage(dir);
    assert_int_equal(vlat_dataset_open(&d, dir, &e), 0);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        vlat_sample s;
        vlat_value *v;
        assert_int_equal(vlat_dataset_sample(d, i, &s, sizeof s, &e), 0);
        int rc = vlat_value_open(&v, d, VLAT_LATENT, s.latent, VLAT_CHECK, &e);
        if (rc) {
            fails(rc, VLAT_EFORMAT, &e, "shard-00000.lmdb: latent");
            assert_non_null(strstr(e.text, s.latent));
            assert_int_equal(vlat_value_open(&v, d, VLAT_LATENT, s.latent, 0, &e), 0);
            damaged++;
        }
        vlat_value_close(&v);
    }
    assert_int_equal(damaged, 1);
    vlat_dataset_close(&d);
    assert_int_equal(vlat_dataset_verify(dir, count_all, &found, &e), 0);
    assert_true(found >= 1);
    found = 0;
    fails(vlat_dataset_verify(dir, stop_at_once, &found, &e), VLAT_ESTOP, &e, "stopped");
    assert_int_equal(found, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(test_same), FOLDER_TEST(test_sizes), FOLDER_TEST(test_errors),
        FOLDER_TEST(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

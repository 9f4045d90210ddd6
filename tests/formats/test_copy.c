/* test_copy.c - a copy holds the values that its samples need and no others; damage is refused; an
 * interrupted copy continues. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "formats/dataset/copy.h"
#include "tests/lib/ok.h"
#include "tests/lib/shards_make.h"

static char folder[] = "/tmp/test-copy-XXXXXX";

static char *in(const char *name)
{
    char *path = vc_path_join(folder, name);
    assert_non_null(path);
    vc_remove_tree(path, NULL);
    return path;
}

static vf_dataset *open_set(const char *path)
{
    vf_dataset *d;
    vc_err err = { 0 };
    assert_ok(vf_dataset_open(&d, path, false, &err), &err);
    return d;
}

static void count_finding(void *arg, const char *where, const char *finding)
{
    printf("%s: %s\n", where, finding);
    ++*(int *)arg;
}

static vf_verify_report verify(const char *path)
{
    vf_verify_report r;
    int found = 0;
    assert_int_equal(vf_verify(path, count_finding, &found, NULL, &r, NULL), 0);
    assert_int_equal(found, 0);
    return r;
}

/* Makes a dataset of n samples and drops all but the first `kept`. */
static void make_garbage(const char *path, uint32_t n, uint32_t kept)
{
    vf_writer *w;
    uint32_t dropped;
    cJSON *head = make_head(0);
    const vf_writer_opts o = { .head = head, .shard_size = 1 << 30 };
    assert_int_equal(make_dataset(path, n, 1 << 30, NULL), 0);
    assert_int_equal(vf_writer_open(&w, path, &o, NULL), 0);
    for (uint32_t i = 0; i < kept; i++)
        assert_int_equal(vf_writer_keep_sample(w, i, 0), 0);
    assert_int_equal(vf_writer_drop_unseen(w, &dropped, NULL), 0);
    assert_int_equal(dropped, n - kept);
    assert_int_equal(vf_writer_finish(w, NULL), 0);
    vf_writer_close(w);
    cJSON_Delete(head);
}

static int copy_some(const char *path, vf_dataset *d, uint32_t n, bool finish, vc_err *err)
{
    vf_copy *c;
    int rc = vf_copy_open(&c, path, &d, 1, 0, err);
    for (uint32_t i = 0; !rc && i < n; i++)
        rc = vf_copy_sample(c, d, i, vf_dataset_entry(d, i)->number, err);
    if (!rc)
        rc = vf_copy_prompts(c, d, err);
    if (!rc && finish)
        rc = vf_copy_finish(c, err);
    vf_copy_close(c);
    return rc;
}

static void garbage_stays_behind(void **state)
{
    (void)state;
    char *a = in("a"), *b = in("b");
    vc_err err = { 0 };
    make_garbage(a, 30, 12);
    assert_int_equal(verify(a).latents, 30);
    vf_dataset *d = open_set(a);
    assert_int_equal(vf_dataset_count(d), 12);
    assert_ok(copy_some(b, d, 12, true, &err), &err);
    vf_verify_report r = verify(b);
    assert_int_equal(r.samples, 12);
    assert_int_equal(r.latents, 12);
    assert_int_equal(r.thumbs, 12);
    vf_dataset *e = open_set(b);
    const cJSON *ra = cJSON_GetObjectItem(vf_dataset_manifest(d), "root");
    const cJSON *rb = cJSON_GetObjectItem(vf_dataset_manifest(e), "root");
    assert_string_equal(ra->valuestring, rb->valuestring);
    vf_dataset_close(e);
    assert_fails(copy_some(b, d, 12, true, &err), VC_EINVAL, &err, "finished dataset already");
    vf_dataset_close(d);
    free(a);
    free(b);
}

/* A copy that stopped after 20 of 30 samples is continued with 10: it holds these 10 alone. */
static void continues(void **state)
{
    (void)state;
    char *a = in("a"), *b = in("b");
    assert_int_equal(make_dataset(a, 30, 1 << 30, NULL), 0);
    vf_dataset *d = open_set(a);
    assert_int_equal(copy_some(b, d, 20, false, NULL), 0);
    assert_int_equal(copy_some(b, d, 10, true, NULL), 0);
    vf_dataset *e = open_set(b);
    assert_int_equal(vf_dataset_count(e), 10);
    vf_dataset_close(e);
    verify(b);
    vf_dataset_close(d);
    free(a);
    free(b);
}

static void damage_is_refused(void **state)
{
    (void)state;
    char *a = in("a"), *b = in("b"), *shard = NULL;
    vc_err err = { 0 };
    assert_int_equal(make_dataset(a, 6, 1 << 30, NULL), 0);
    vf_dataset *d = open_set(a);
    const void *data;
    size_t n;
    vf_key k = vf_dataset_entry(d, 3)->latent;
    assert_int_equal(vf_dataset_bytes(d, false, k, &data, &n, &err), 0);
    char *last = malloc(n);                  /* one bit of the tensor's last byte is inverted */
    memcpy(last, data, n);
    vf_dataset_close(d);
    shard = vc_path_join(a, "shard-00000.lmdb");
    vc_map m;
    assert_int_equal(vc_map_open(&m, shard, NULL), 0);
    char *all = malloc(m.size);
    memcpy(all, m.data, m.size);
    char *at = memmem(all, m.size, last, n);
    assert_non_null(at);
    at[n - 1] ^= 1;
    size_t size = m.size;
    vc_map_close(&m);
    assert_int_equal(vc_file_write(shard, all, size, NULL), 0);
    d = open_set(a);
    assert_fails(copy_some(b, d, 6, true, &err), VC_EFORMAT, &err, "sample 000000000003/000");
    vf_dataset_close(d);
    free(last);
    free(all);
    free(shard);
    free(a);
    free(b);
}

/* vf_verify() reports infinities and NaNs, and the range of the finite values. */
static void numbers(void **state)
{
    static const struct { vc_dtype t; uint32_t bits; bool bad; } rows[] = {
        { VC_F16, 0x7bff, false }, { VC_F16, 0xfbff, false }, { VC_F16, 0x7c00, true },
        { VC_F16, 0xfc00, true }, { VC_F16, 0x7e00, true }, { VC_F16, 0xfe00, true },
        { VC_BF16, 0x7f7f, false }, { VC_BF16, 0x7f80, true }, { VC_BF16, 0xffc0, true },
        { VC_F32, 0xff7fffff, false }, { VC_F32, 0x7f800000, true }, { VC_F32, 0xffc00000, true },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *a = in("n");
        uint32_t x[3] = { 0, rows[i].bits, 0 };
        uint16_t half[3] = { 0, (uint16_t)rows[i].bits, 0 };
        size_t size = vc_dtype_size(rows[i].t), n;
        vf_view v = { "mean", rows[i].t, 4, { 1, 1, 1, 3 }, size == 4 ? (void *)x : half,
                      3 * size };
        uint8_t *st;
        vf_writer *w;
        cJSON *head = make_head(0);
        const vf_writer_opts o = { .head = head, .shard_size = 1 << 30 };
        vf_verify_report r;
        int found = 0;
        assert_int_equal(vf_writer_open(&w, a, &o, NULL), 0);
        assert_int_equal(make_sample(w, 0, "c", 1, 4, 4, NULL), 0);
        assert_int_equal(vf_safetensors_pack(&st, &n, &v, 1, NULL, 0, 1, NULL), 0);
        assert_int_equal(vf_writer_put_latent(w, vf_hash("x", 1), st, n, NULL), 0);
        assert_int_equal(vf_writer_finish(w, NULL), 0);
        vf_writer_close(w);
        assert_int_equal(vf_verify(a, count_finding, &found, NULL, &r, NULL), 0);
        assert_int_equal(found, rows[i].bad);
        float want;
        vc_to_f32(&want, v.data == x ? (void *)&x[1] : (void *)&half[1], rows[i].t, 1);
        if (!rows[i].bad)
            assert_true(want < 0 ? r.latent.min == want : r.latent.max == want);
        free(st);
        cJSON_Delete(head);
        free(a);
    }
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return vc_remove_tree(folder, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(garbage_stays_behind), cmocka_unit_test(continues),
        cmocka_unit_test(damage_is_refused), cmocka_unit_test(numbers),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

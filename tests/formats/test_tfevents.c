/* test_tfevents.c - checksums with known answers, records compared byte by byte, files that sort
 * after each other, a full disk. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

#include "common/os/file.h"
#include "formats/report/tfevents.h"
#include "tests/lib/tmp_dir.h"

/* The vectors are those of RFC 3720, B.4, and the check value of the CRC catalogue. */
static void test_crc(void **state)
{
    uint8_t zeros[32] = { 0 }, ones[32], up[32];
    (void)state;
    memset(ones, 0xff, sizeof ones);
    for (int i = 0; i < 32; i++)
        up[i] = (uint8_t)i;
    assert_int_equal(vf_crc32c(zeros, 32), 0x8a9136aa);
    assert_int_equal(vf_crc32c(ones, 32), 0x62a8ab43);
    assert_int_equal(vf_crc32c(up, 32), 0x46dd794e);
    assert_int_equal(vf_crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(vf_crc32c("", 0), 0);
}

/* ---- reading back ---- */

typedef struct reader {
    uint8_t *data;
    size_t n, at;
} reader;

static uint64_t le(reader *r, int bytes)
{
    uint64_t v = 0;
    assert_true(r->at + (size_t)bytes <= r->n);
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)r->data[r->at++] << 8 * i;
    return v;
}

static uint32_t masked(const void *p, size_t n)
{
    uint32_t c = vf_crc32c(p, n);
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

/* Returns the next record's bytes, after a check of both checksums. */
static const uint8_t *record(reader *r, size_t *n)
{
    const uint8_t *head = r->data + r->at;
    *n = le(r, 8);
    assert_int_equal(le(r, 4), masked(head, 8));
    const uint8_t *p = r->data + r->at;
    assert_true(r->at + *n <= r->n);
    r->at += *n;
    assert_int_equal(le(r, 4), masked(p, *n));
    return p;
}

/* Skips the field of the wall time, which must be about now. */
static const uint8_t *after_time(const uint8_t *p, size_t *n)
{
    double t;
    assert_true(*n > 9 && p[0] == 0x09);
    memcpy(&t, p + 1, 8);
    assert_true(t > (double)time(NULL) - 60 && t < (double)time(NULL) + 60);
    *n -= 9;
    return p + 9;
}

static void expect(reader *r, const void *bytes, size_t n)
{
    size_t have;
    const uint8_t *p = record(r, &have);
    p = after_time(p, &have);
    assert_int_equal(have, n);
    assert_memory_equal(p, bytes, n);
}

/* Lists the event files of a folder, sorted; returns their number. */
static int list_files(const char *dir, struct dirent ***list)
{
    int n = scandir(dir, list, NULL, alphasort), kept = 0;
    for (int i = 0; i < n; i++) {
        if (strstr((*list)[i]->d_name, "tfevents"))
            (*list)[kept++] = (*list)[i];
        else
            free((*list)[i]);
    }
    return kept;
}

static void free_files(struct dirent **list, int n)
{
    for (int i = 0; i < n; i++)
        free(list[i]);
    free(list);
}

static reader load(const char *dir, const char *name)
{
    reader r = { 0 };
    char *path = vc_path_join(dir, name), *data;
    assert_int_equal(vc_file_read(&data, &r.n, path, 1 << 24, NULL), 0);
    r.data = (uint8_t *)data;
    free(path);
    return r;
}

static void test_records(void **state)
{
    char *dir = vc_path_join(*state, "run/tensorboard");
    vf_tfevents *t;
    vc_err err;
    struct dirent **list;
    assert_int_equal(vf_tfevents_open(&t, dir, 1, &err), 0);
    assert_int_equal(vf_tfevents_scalar(t, 1, "loss", 0.5f, &err), 0);
    assert_int_equal(vf_tfevents_scalar(t, 300, "lr", -2.0f, &err), 0);
    assert_int_equal(vf_tfevents_close(t, &err), 0);

    int n = list_files(dir, &list);
    assert_int_equal(n, 1);
    reader r = load(dir, list[0]->d_name);
    expect(&r, "\x10\x00\x1a\x0d" "brain.Event:2", 17);
    expect(&r, "\x10\x01\x3a\x02\x08\x01", 6);
    expect(&r, "\x10\x01\x2a\x0d\x0a\x0b\x0a\x04" "loss\x15\x00\x00\x00\x3f", 17);
    expect(&r, "\x10\xac\x02\x2a\x0b\x0a\x09\x0a\x02" "lr\x15\x00\x00\x00\xc0", 16);
    assert_int_equal(r.at, r.n);
    free(r.data);
    free_files(list, n);
    free(dir);
}

/* The file of a resumed run sorts last, even if the clock was ahead in the earlier run. */
static void test_resume(void **state)
{
    char *ahead = vc_format("%s/events.out.tfevents.%010" PRId64 ".other", (char *)*state,
                            (int64_t)time(NULL) + 5000);
    vf_tfevents *t;
    vc_err err;
    struct dirent **list;
    assert_int_equal(vc_file_write(ahead, "", 0, NULL), 0);
    for (int64_t step = 1; step <= 501; step += 500) {
        assert_int_equal(vf_tfevents_open(&t, *state, step, &err), 0);
        assert_int_equal(vf_tfevents_close(t, &err), 0);
    }
    int n = list_files(*state, &list);
    assert_int_equal(n, 3);
    reader r = load(*state, list[2]->d_name);
    expect(&r, "\x10\x00\x1a\x0d" "brain.Event:2", 17);
    expect(&r, "\x10\xf5\x03\x3a\x02\x08\x01", 7);
    free(r.data);
    free_files(list, n);
    free(ahead);
}

/* Writes past the limit of a file's size fail; once there is room again, all records are whole. */
static void test_full_disk(void **state)
{
    struct rlimit old, small = { .rlim_cur = 500 };
    vf_tfevents *t;
    vc_err err;
    struct dirent **list;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(vf_tfevents_open(&t, *state, 1, &err), 0);
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    for (int i = 1; i <= 20; i++)
        assert_int_equal(vf_tfevents_scalar(t, i, "loss", 1, &err), 0);
    assert_int_equal(vf_tfevents_flush(t, &err), VC_EFULL);
    assert_int_equal(vf_tfevents_flush(t, &err), VC_EFULL);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(vf_tfevents_close(t, &err), 0);

    int n = list_files(*state, &list);
    reader r = load(*state, list[0]->d_name);
    size_t len;
    for (int i = 0; i < 22; i++)
        record(&r, &len);
    assert_int_equal(r.at, r.n);
    free(r.data);
    free_files(list, n);
}

static void test_refused(void **state)
{
    char *file = vc_path_join(*state, "file"), *below = vc_path_join(*state, "file/tensorboard");
    vf_tfevents *t;
    vc_err err;
    assert_int_equal(vc_file_write(file, "", 0, NULL), 0);
    assert_int_equal(vf_tfevents_open(&t, below, 1, &err), VC_EIO);
    assert_null(t);
    assert_int_equal(vf_tfevents_close(NULL, &err), 0);
    free(file);
    free(below);
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, tmp_dir_setup, tmp_dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc), IN_FOLDER(test_records), IN_FOLDER(test_resume),
        IN_FOLDER(test_full_disk), IN_FOLDER(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

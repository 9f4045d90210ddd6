/* shards_test.h - the common part of the tests of the dataset: a folder for each test, calls that
 * must fail, and the findings of vf_verify() as text. For cmocka programs. */
#ifndef TESTS_FORMATS_SHARDS_TEST_H
#define TESTS_FORMATS_SHARDS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/lib/shards_make.h"

enum { BIG = 1 << 30, SMALL = 60000 };       /* shard sizes that lead to one shard, or to many */

static inline int make_folder(void **state)
{
    char *dir = strdup("/tmp/test-shards-XXXXXX");
    *state = dir;
    return mkdtemp(dir) ? 0 : -1;
}

static inline int drop_folder(void **state)
{
    int rc = vc_remove_tree(*state, NULL);
    free(*state);
    return rc;
}

/* Asserts that CALL, which stores its error in &err, fails with this code and text. */
#define FAILS(code_wanted, text_wanted, call)                             \
    do {                                                                  \
        vc_err err = { 0 };                                               \
        int rc_ = (call);                                                 \
        if (rc_ != (code_wanted) || !strstr(err.text, (text_wanted)))     \
            fail_msg("%s: %d: %s", #call, rc_, err.text);                 \
    } while (0)

static inline int open_writer(vf_writer **w, const char *dir, int seed, bool append, bool overwrite,
                              vc_err *err)
{
    cJSON *head = make_head(seed);
    vf_writer_opts o = {
        .head = head, .shard_size = BIG, .append = append, .overwrite = overwrite
    };
    int rc = vf_writer_open(w, dir, &o, err);
    cJSON_Delete(head);
    return rc;
}

/* Writes a dataset of one clip whose record has the sound `st`, a value of these bytes. Owns head,
 * record and st. */
static inline void make_sound_clip(const char *dir, cJSON *head, cJSON *record, vf_key key,
                                   uint8_t *st, size_t size)
{
    static const uint8_t jpeg[] = { 0xff, 0xd8, 0xff, 0xd9 };
    char hex[VF_KEY_HEX];
    vf_writer *w;
    vf_writer_opts o = { .head = head, .shard_size = BIG };
    OK(vf_writer_open(&w, dir, &o, &err));
    OK(make_sample(w, 0, "a cat", 3, 8, 4, &err));
    OK(vf_writer_put_latent(w, key, st, size, &err));
    cJSON_AddStringToObject(cJSON_AddObjectToObject(record, "conditions"), "audio",
                            vf_key_hex(hex, key));
    OK(vf_writer_put_sample(w, 0, 0, record, jpeg, sizeof jpeg, &err));
    OK(vf_writer_finish(w, &err));
    vf_writer_close(w);
    free(st);
    cJSON_Delete(record);
    cJSON_Delete(head);
}

static inline uint32_t count_samples(const char *dir)
{
    vf_dataset *d;
    OK(vf_dataset_open(&d, dir, false, &err));
    uint32_t n = vf_dataset_count(d);
    vf_dataset_close(d);
    return n;
}

typedef struct findings {
    int n;
    char text[4000];
} findings;

static inline void add_finding(void *arg, const char *where, const char *finding)
{
    findings *f = arg;
    size_t at = strlen(f->text);
    f->n++;
    snprintf(f->text + at, sizeof f->text - at, "%s: %s\n", where, finding);
}

static inline findings verify(const char *dir)
{
    findings f = { 0 };
    vf_verify_report r;
    OK(vf_verify(dir, add_finding, &f, NULL, &r, &err));
    assert_int_equal(r.damaged, f.n);
    return f;
}

static inline void assert_whole(const char *dir)
{
    findings f = verify(dir);
    assert_ok(f.n, &f);
}

/* Replaces every `from` in a file by `to`, of the same length. Every one, because unused parts of
 * pages hold old copies. */
static inline void patch(const char *dir, const char *file, const char *from, const char *to)
{
    char *path = vc_path_join(dir, file), *data;
    size_t n, len = strlen(from), found = 0;
    OK(vc_file_read(&data, &n, path, 1 << 30, &err));
    for (char *p = data; (p = memmem(p, n - (size_t)(p - data), from, len)); found++)
        memcpy(p, to, len);
    assert_true(found > 0);
    OK(vc_file_write(path, data, n, &err));
    free(data);
    free(path);
}

#define FOLDER_TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, drop_folder)

#endif

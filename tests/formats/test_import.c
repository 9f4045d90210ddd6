/* test_import.c - vlat import of caches in which mutate.h damaged one file: the result is an
 * undamaged dataset, or an error with a message. VLT_ROUNDS is the number of damaged copies of each
 * cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/rng.h"
#include "formats/vlat/vlat.h"
#include "tests/lib/mutate.h"
#include "tests/lib/tmp_dir.h"

enum { MAX_FILES = 64, ROUNDS = 20 };

typedef struct file {
    char *path, *from;                       /* its paths in the copy and in the cache */
    uint8_t *data;
    size_t size;
} file;

typedef struct tree {
    file item[MAX_FILES];
    uint32_t n;
} tree;

static void add_file(tree *t, const char *to, const char *from)
{
    vc_map m;
    assert_true(t->n < MAX_FILES);
    file *f = &t->item[t->n++];
    assert_int_equal(vc_map_open(&m, from, NULL), 0);
    *f = (file){ strdup(to), strdup(from), malloc(m.size + 1), m.size };
    if (m.size)
        memcpy(f->data, m.data, m.size);
    vc_map_close(&m);
}

/* Copies a folder and keeps the contents of its files in t. */
static void copy_tree(tree *t, const char *to, const char *from)
{
    DIR *d = opendir(from);
    struct dirent *e;
    struct stat st;
    assert_int_equal(vc_mkdirs(to, NULL), 0);
    assert_non_null(d);
    while ((e = readdir(d))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        char *a = vc_path_join(from, e->d_name), *b = vc_path_join(to, e->d_name);
        assert_int_equal(stat(a, &st), 0);
        if (S_ISDIR(st.st_mode)) {
            copy_tree(t, b, a);
        } else {
            add_file(t, b, a);
            file *f = &t->item[t->n - 1];
            assert_int_equal(vc_file_write(b, f->data, f->size, NULL), 0);
        }
        free(a);
        free(b);
    }
    closedir(d);
}

static void free_tree(tree *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        free(t->item[i].path);
        free(t->item[i].from);
        free(t->item[i].data);
    }
}

/* The files are sorted, because their order in a folder depends on the file system: rounds do the
 * same damage everywhere. */
static int by_path(const void *a, const void *b)
{
    return strcmp(((const file *)a)->from, ((const file *)b)->from);
}

static int import(const char *format, const char *path, const char *out, FILE *null, vc_err *err)
{
    char *constants = vc_format("%s/tests/caches/ltx2", getenv("VLT_BUILD"));
    char *vae = vc_path_join(constants, "vae"), *audio_vae = vc_path_join(constants, "audio_vae");
    const bool given = !strcmp(format, "ltx-trainer");
    const vlat_options o = { .from = (char *)format, .out = (char *)out, .empty = "zeros",
                             .vae = given ? vae : NULL, .audio_vae = given ? audio_vae : NULL,
                             .shard_size = 1 << 20 };
    const vlat v = { .o = &o, .path = path, .out = null };
    const vlat check = { .o = &o, .path = out, .out = null };
    assert_int_equal(vc_remove_tree(out, NULL), 0);
    int rc = vlat_import(&v, err);
    if (!rc)
        rc = vlat_verify(&check, err);
    free(constants);
    free(vae);
    free(audio_vae);
    return rc;
}

/* Damages one file of the cache, imports the cache, and restores the file. */
static void damage(tree *t, const char *format, const char *path, const char *out, FILE *null,
                   uint32_t round)
{
    vc_err err = { 0 };
    vc_draws d = vc_draws_of(11, round, 0, 0);
    const file *f = &t->item[vc_draw_int(&d, t->n)];
    size_t room = 2 * f->size + 64;
    uint8_t *buf = malloc(room);
    if (f->size)
        memcpy(buf, f->data, f->size);
    size_t n = mutate(buf, f->size, room, 13, round);
    assert_int_equal(vc_file_write(f->path, buf, n, NULL), 0);
    int rc = import(format, path, out, null, &err);
    if (rc && (err.code != rc || !*err.text))
        fail_msg("%s: round %u: %s: status %d, error %d \"%s\"", format, round, f->from, rc,
                 err.code,
                 err.text);
    assert_int_equal(vc_file_write(f->path, f->data, f->size, NULL), 0);
    free(buf);
}

static void test_damage(void **state)
{
    static const struct { const char *format, *inside; } rows[] = {
        { "safetensors", "" }, { "webdataset", "" }, { "musubi", "" }, { "finetrainers", "" },
        { "causvid", "" }, { "ttt-video", "" }, { "diffsynth", "" }, { "cogvideox-factory", "" },
        { "cogvideo", "cache/video_latent/cogvideox-t2v/9x32x48" }, { "ltx-trainer", "" },
#ifdef VLT_SQLITE
        { "diffusion-pipe", "" },
#endif
    };
    const char *dir = *state, *wanted = getenv("VLT_ROUNDS");
    uint32_t rounds = wanted ? (uint32_t)atoi(wanted) : ROUNDS;
    FILE *null = fopen("/dev/null", "w");
    assert_non_null(null);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tree t = { .n = 0 };
        vc_err err = { 0 };
        char *from = vc_format("%s/tests/caches/%s", getenv("VLT_BUILD"), rows[i].format);
        char *to = vc_path_join(dir, rows[i].format);
        char *out = vc_format("%s/%s.lmdb", dir, rows[i].format);
        char *path = vc_path_join(to, rows[i].inside);
        copy_tree(&t, to, from);
        qsort(t.item, t.n, sizeof *t.item, by_path);
        if (import(rows[i].format, path, out, null, &err))
            fail_msg("%s: %s", rows[i].format, err.text);
        for (uint32_t r = 0; r < rounds; r++)
            damage(&t, rows[i].format, path, out, null, r);
        free_tree(&t);
        free(from);
        free(to);
        free(out);
        free(path);
    }
    fclose(null);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_damage, tmp_dir_setup, tmp_dir_teardown),
    };
    return cmocka_run_group_tests_name("import", tests, NULL, NULL);
}

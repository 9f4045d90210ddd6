/* test_columnar.c - lists in Parquet and Arrow files: rows and bytes in all forms, folders of such
 * files, damaged files. columnar_make.cpp writes the files. */
#include <fcntl.h>
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
#include "formats/columnar/columnar.h"
#include "formats/metadata/metadata.h"
#include "tests/formats/columnar_make.h"
#include "tests/lib/mutate.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

/* ---- rows and bytes in all forms ---- */

static const columnar_row rows[] = {
    { "one", "x/a.mp4", "bytes of a", 10 },  { "two", NULL, "\0\1\2\0", 4 },
    { "", "b.png", "b", 1 },                 { "four", "none/c.mp4", NULL, 0 },
    { "five", NULL, NULL, 0 },               { NULL, "d.mp4", "d", 1 },
    { "caf\xe9", "e.mp4", "e", 1 },
};
enum { N_ROWS = COUNT(rows), N_GOOD = 6 };       /* Arrow's readers refuse what is no UTF-8 */

/* The bytes of a row's medium. */
static void assert_bytes(const vf_row *r, const columnar_row *want)
{
    vf_part part = vf_row_part(r);
    uint8_t *bytes = NULL, some[16];
    size_t n = sizeof some;
    vc_err err;
    if (part.column) {
        assert_ok(vf_columnar_value(part.values, &part, &bytes, &n, &err), &err);
    } else {
        int fd = open(part.file, O_RDONLY);
        n = (size_t)part.size;
        assert_true(fd >= 0 && n <= sizeof some);
        assert_int_equal(pread(fd, some, n, part.at), n);
        close(fd);
    }
    assert_int_equal(n, want->n);
    assert_memory_equal(bytes ? bytes : some, want->bytes, n);
    free(bytes);
}

/* Rows of the table above, whose caption 2 is the empty one. */
static void assert_row(const vf_row *r, const columnar_row *want, bool direct, const char *base)
{
    char path[64];
    if (!want->bytes && !(want->path && !direct)) {
        assert_non_null(r->bad);
        assert_non_null(strstr(r->bad, "no medium"));
        return;
    }
    assert_null(r->bad);
    assert_string_equal(r->captions[0], want->text ? want->text : "");
    if (!want->bytes) {
        assert_string_equal(r->path, want->path);
        assert_int_equal(r->size || r->column, 0);
        return;
    }
    if (want->path && !direct)
        snprintf(path, sizeof path, "%s/%s", base, vc_path_base(want->path));
    else
        snprintf(path, sizeof path, "%s/%d", base, (int)r->row);
    assert_string_equal(r->path, path);
    assert_int_equal(r->type, direct ? VF_TYPE_UNKNOWN : VF_TYPE_VIDEO);
    assert_bytes(r, want);
}

static const char *const forms[] = {
    "parquet", "parquet snappy groups", "parquet zstd old", "parquet old groups dictionary",
    "parquet large", "parquet view", "parquet direct", "parquet direct old groups",
    "parquet snappy dictionary", "stream", "stream groups", "stream large dictionary",
    "stream view", "stream direct groups", "file", "file groups", "file direct large",
    "file dictionary",
};

static void test_forms(void **state)
{
    static const vf_metadata_opts opts = { .allow_empty_captions = true,
                                           .extra_inputs = "when,count,more" };
    for (int i = 0; i < COUNT(forms); i++) {
        const char *base = strstr(forms[i], "parquet") ? "l.parquet" : "l.arrow";
        char *path = vc_path_join(*state, base);
        vf_metadata m;
        vc_err err;
        print_message("%s\n", forms[i]);
        assert_int_equal(columnar_make(path, forms[i], rows, N_GOOD), 0);
        assert_ok(vf_metadata_read(&m, path, &opts, &err), &err);
        assert_int_equal(m.n, N_GOOD);
        for (int k = N_GOOD; k-- > 0;)           /* backwards: each is found from the start */
            assert_row(&m.rows[k], &rows[k], strstr(forms[i], "direct"), base);
        for (int k = 0; k < N_GOOD; k++)
            assert_row(&m.rows[k], &rows[k], strstr(forms[i], "direct"), base);
        const vf_row *r = &m.rows[0];
        assert_true(r->fps == 0 && m.rows[1].fps == 10);         /* NaN is no value */
        assert_int_equal(r->n_tags, 2);
        assert_string_equal(r->tags[1], "b");
        assert_int_equal(r->n_extra, 3);
        assert_memory_equal(r->extra[0].value, "1970-01-01 00:00:00", 19);
        assert_string_equal(r->extra[1].value, "1152921504606846976");
        assert_string_equal(r->extra[2].value, "{\"inner\":[\"a\",\"b\"]}");
        vf_metadata_free(&m);
        free(path);
    }
}

/* A row that is not UTF-8 is bad; the others of a Parquet file are read. */
static void test_text(void **state)
{
    static const vf_metadata_opts opts = { .allow_empty_captions = true };
    char *path = vc_path_join(*state, "l.parquet");
    vf_metadata m;
    vc_err err;
    assert_int_equal(columnar_make(path, "parquet", rows, N_ROWS), 0);
    assert_ok(vf_metadata_read(&m, path, &opts, &err), &err);
    assert_int_equal(m.n, N_ROWS);
    assert_string_equal(m.rows[N_GOOD].bad, "text: byte 4 is not UTF-8: save it as UTF-8");
    assert_string_equal(m.rows[N_GOOD].path, "l.parquet/7");
    assert_null(m.rows[0].bad);
    vf_metadata_free(&m);
    free(path);
}

/* ---- refused lists ---- */

static void test_refused(void **state)
{
    static const struct {
        const char *form;
        int n;
        const char *columns, *why;
    } lists[] = {
        { "parquet alone", 2, NULL, "no row has a caption; found: video" },
        { "parquet", 2, "words", "no row has a caption; found: text, video, hash, fps" },
        { "parquet", 0, NULL, "it has no rows" },
        { "stream", 0, NULL, "it has no rows" },
    };
    for (int i = 0; i < COUNT(lists); i++) {
        vf_metadata_opts opts = { .caption_columns = lists[i].columns };
        bool parquet = strstr(lists[i].form, "parquet");
        char *path = vc_path_join(*state, parquet ? "l.parquet" : "l.arrow");
        vf_metadata m;
        vc_err err;
        assert_int_equal(columnar_make(path, lists[i].form, rows, lists[i].n), 0);
        assert_int_equal(vf_metadata_read(&m, path, &opts, &err), VC_EFORMAT);
        print_message("%s\n", err.text);
        assert_non_null(strstr(err.text, lists[i].why));
        free(path);
    }
}

/* Bytes in a compressed Arrow file have no place in it. */
static void test_compressed(void **state)
{
    static const vf_metadata_opts opts = { 0 };
    char *path = vc_path_join(*state, "l.feather");
    vf_metadata m;
    vc_err err;
    assert_int_equal(columnar_make(path, "file lz4", rows, 1), 0);
    assert_ok(vf_metadata_read(&m, path, &opts, &err), &err);
    assert_non_null(strstr(m.rows[0].bad, "scripts/unpack_parquet.py"));
    vf_metadata_free(&m);
    free(path);
}

/* The readers keep a few open files: a value is found in any order, from more files than that. */
static void test_many_files(void **state)
{
    static const vf_metadata_opts opts = { 0 };
    char data[24][8], name[32], *path;
    vf_metadata m;
    vc_err err;
    for (int f = 0; f < 12; f++) {
        columnar_row two[2];
        for (int i = 0; i < 2; i++) {
            snprintf(data[2 * f + i], sizeof *data, "%d.%d", f, i);
            two[i] = (columnar_row){ "x", NULL, data[2 * f + i], strlen(data[2 * f + i]) };
        }
        snprintf(name, sizeof name, "many-%02d.parquet", f);
        path = vc_path_join(*state, name);
        assert_int_equal(columnar_make(path, "parquet", two, 2), 0);
        free(path);
    }
    path = vc_path_join(*state, "many-*.parquet");
    assert_ok(vf_metadata_read(&m, path, &opts, &err), &err);
    assert_int_equal(m.n, 24);
    for (int i = 0; i < 3 * 24; i++) {
        const int k = i * 7 % 24;
        assert_int_equal(m.rows[k].row, k + 1);
        assert_bytes(&m.rows[k], &(columnar_row){ NULL, NULL, data[k], strlen(data[k]) });
    }
    vf_metadata_free(&m);
    free(path);
}

/* ---- folders ---- */

/* A file of one row, whose caption is the file's path; with "=", a file of that text. */
typedef struct folder {
    const char *files[6];
    const char *captions;              /* in order, or NULL */
    const char *says;                  /* of the list or the error; NULL: nothing */
} folder;

static const folder folders[] = {
    { { "data/train-00001-of-00002.parquet", "data/train-00000-of-00002.parquet", "README.md=x" },
      "data/train-00000-of-00002.parquet data/train-00001-of-00002.parquet ", NULL },
    { { "data/train-00000-of-00003.parquet", "data/test-00000-of-00001.parquet" },
      "data/train-00000-of-00003.parquet ",
      "train, of which 1 of 3 files are here; not read: test" },
    { { "data/short-00000-of-00001.parquet" }, "data/short-00000-of-00001.parquet ", NULL },
    { { "data/short-00000-of-00001.parquet", "data/long-00000-of-00001.parquet" }, NULL,
      "which split is meant? There are long, short: give its files" },
    { { "test.parquet", "dev.parquet" }, NULL, "which split is meant? There are validation, test" },
    { { "train/0.parquet", "validation/0.parquet" }, "train/0.parquet ",
      "train; not read: validation" },
    { { "en/train.parquet", "fr/train.parquet" }, NULL, "lists lie in several folders" },
    { { "metadata.parquet", "a.mp4=x" }, "metadata.parquet ", NULL },
    { { "a.parquet", "metadata.jsonl={\"file_name\":\"a.mp4\",\"text\":\"x\"}" }, "x ", NULL },
    { { "x-train.arrow", "cache-12.arrow", "x-test.arrow" }, "x-train.arrow ",
      "train; not read: test" },
    { { "b.arrow", "a.arrow", "state.json={\"_data_files\":[{\"filename\":\"b.arrow\"},"
        "{\"filename\":\"a.arrow\"}]}" }, "b.arrow a.arrow ", NULL },
    { { "dataset_dict.json={\"splits\":[\"test\",\"train\"]}", "train/a.arrow",
        "train/state.json={\"_data_files\":[{\"filename\":\"a.arrow\"}]}", "test/a.arrow" },
      "train/a.arrow ", "train; not read: test" },
    { { "dataset_dict.json={\"splits\":[\"a\",\"b\"]}" }, NULL,
      "which split is meant? It has a, b: give the folder of one" },
    { { "a.arrow", "state.json={\"_data_files\":[{\"filename\":\"../a.arrow\"}]}" }, NULL,
      "state.json: filename: ../a.arrow is no name of a file here" },
    { { "a.arrow", "state.json={\"_data_files\":[{\"filename\":\"b.arrow\"}]}" }, NULL,
      "b.arrow: No such file" },
    { { "a.arrow", "state.json={\"_data_files\":[{\"filename\":\"a.arrow\"}],"
        "\"_indices_data_files\":[{\"filename\":\"i.arrow\"}]}" }, NULL, "flatten_indices()" },
};

static void make_file(const char *root, const char *file)
{
    const char *text = strchr(file, '=');
    char *name = vc_format("%.*s", text ? (int)(text - file) : (int)strlen(file), file);
    char *path = vc_path_join(root, name);
    char *parent = vc_format("%.*s", (int)(vc_path_base(path) - path), path);
    const columnar_row row = { name, "a.mp4", "x", 1 };
    vc_err err;
    assert_ok(vc_mkdirs(parent, &err), &err);
    if (text)
        assert_ok(vc_file_write(path, text + 1, strlen(text + 1), &err), &err);
    else
        assert_int_equal(columnar_make(path, strstr(name, "parquet") ? "parquet" : "stream", &row,
                                       1), 0);
    free(parent);
    free(path);
    free(name);
}

static void test_folders(void **state)
{
    static const vf_metadata_opts opts = { 0 };
    for (int i = 0; i < COUNT(folders); i++) {
        const folder *f = &folders[i];
        char captions[256] = "", *root = vc_format("%s/f%d", (char *)*state, i);
        vf_metadata m;
        vc_err err;
        for (int k = 0; k < COUNT(f->files) && f->files[k]; k++)
            make_file(root, f->files[k]);
        int rc = vf_metadata_read(&m, root, &opts, &err);
        print_message("%s: %s\n", f->files[0], rc ? err.text : m.lists ? m.lists : "");
        assert_int_equal(!rc, f->captions != NULL);
        for (int64_t k = 0; !rc && k < m.n; k++) {
            strcat(captions, m.rows[k].captions[0]);
            strcat(captions, " ");
            assert_int_equal(m.rows[k].row, k + 1);
        }
        if (rc) {
            assert_non_null(strstr(err.text, f->says));
        } else {
            assert_string_equal(captions, f->captions);
            assert_string_equal(m.lists ? m.lists : "", f->says ? f->says : "");
        }
        vf_metadata_free(&m);
        free(root);
    }
}

/* ---- damaged files ---- */

static const char *damaged;            /* the file that the damaged bytes are written to */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const vf_metadata_opts opts = { .allow_empty_captions = true };
    vf_metadata m;
    vc_err err;
    FILE *f = fopen(damaged, "wb");              /* vc_file_write waits for the disk */
    assert_true(f && fwrite(data, 1, size, f) == size && !fclose(f));
    if (vf_metadata_read(&m, damaged, &opts, &err))
        return 0;
    for (int64_t i = 0; i < m.n; i++) {
        vf_part part = vf_row_part(&m.rows[i]);
        uint8_t *bytes = NULL;
        size_t n;
        if (!m.rows[i].bad && part.column &&
            !vf_columnar_value(part.values, &part, &bytes, &n, &err))
            mutate_touch(bytes, n);
        else if (!m.rows[i].bad && part.size)
            assert_true(part.at >= 0 && part.size > 0 && (size_t)(part.at + part.size) <= size);
        free(bytes);
    }
    vf_metadata_free(&m);
    return 0;
}

static void test_damage(void **state)
{
    static const char *const some[] = { "parquet snappy groups", "parquet old dictionary",
                                        "stream groups", "file dictionary", "stream view" };
    for (int i = 0; i < COUNT(some); i++) {
        char *path = vc_path_join(*state, strstr(some[i], "parquet") ? "d.parquet" : "d.arrow");
        char *data = NULL;
        size_t n;
        vc_err err;
        assert_int_equal(columnar_make(path, some[i], rows, N_GOOD), 0);
        assert_ok(vc_file_read(&data, &n, path, 1 << 20, &err), &err);
        damaged = path;
        for (size_t cut = 0; cut < n; cut += 97)
            LLVMFuzzerTestOneInput((uint8_t *)data, cut);
        mutate_run(data, n, (uint32_t)i, 300, LLVMFuzzerTestOneInput);
        for (size_t at = 0; !i && at < n; at += 7) {         /* a reader that failed goes on */
            data[at] ^= 6;
            LLVMFuzzerTestOneInput((uint8_t *)data, n);
            data[at] ^= 6;
        }
        free(data);
        free(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms), cmocka_unit_test(test_text), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_compressed), cmocka_unit_test(test_many_files),
        cmocka_unit_test(test_folders), cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, tmp_dir_setup, tmp_dir_teardown);
}

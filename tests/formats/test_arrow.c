/* test_arrow.c - streams that arrow.h writes are read by arrow_read.h, a reader that follows the
 * format's specification. The reader itself is tested with a stream that pyarrow wrote
 * (scripts/golden/arrow.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/buf.h"
#include "formats/peers/arrow.h"
#include "tests/formats/arrow_read.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

enum { LIST, FLAG, NUMBER, TEXT, COLUMNS };
static const vf_arrow_field fields[COLUMNS] = {
    { "list", VF_ARROW_LIST }, { "flag", VF_ARROW_BOOL }, { "number", VF_ARROW_INT64 },
    { "text", VF_ARROW_UTF8 },
};
static const char *const items[] = { "", "ü" };

/* Returns the text that arrow_read() must return for a table of `rows` rows. */
static char *table_of(int64_t rows)
{
    static const char *const lists[] = { "[]", "[]", "[|ü]" };
    vc_buf b = { 0 };
    vc_buf_str(&b, "list:list\tflag:bool\tnumber:int64\ttext:utf8\n");
    for (int64_t i = 0; i < rows; i++)
        vc_buf_printf(&b, "%s\t%d\t%" PRId64 "\t%.*s\n", lists[i % 3], i % 3 == 0,
                      i * 1000000000000 - 7,
                      (int)(i % 5), "xxxx");
    return vc_buf_take(&b);
}

static void check(const char *path, int64_t rows, int batches)
{
    int n;
    char *got = arrow_read(path, &n), *want = table_of(rows);
    assert_string_equal(got, want);
    assert_int_equal(n, batches);
    free(got);
    free(want);
}

static void test_reader(void **state)
{
    char *path = vc_format("%s/tests/golden/table.arrow", getenv("VLT_SOURCE"));
    (void)state;
    check(path, 21, 3);
    free(path);
}

static void write_rows(const char *path, int64_t rows)
{
    vf_arrow *a;
    assert_int_equal(vf_arrow_open(&a, path, fields, COLUMNS, NULL), 0);
    for (int64_t i = 0; i < rows; i++) {
        for (int k = 0; k < i % 3; k++)
            vf_arrow_text(a, LIST, items[k]);
        vf_arrow_int(a, FLAG, i % 3 == 0);
        vf_arrow_int(a, NUMBER, i * 1000000000000 - 7);
        vf_arrow_text(a, TEXT, &"xxxx"[4 - i % 5]);
        assert_int_equal(vf_arrow_row(a, NULL), 0);
    }
    assert_int_equal(vf_arrow_finish(a, NULL), 0);
    vf_arrow_close(a);
}

static void test_writes(void **state)
{
    static const struct { int rows, batches; } cases[] = {
        { 0, 0 }, { 1, 1 }, { 21, 1 }, { 1000, 1 }, { 1001, 2 }, { 2500, 3 },
    };
    char path[TMP_DIR + 32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(path, sizeof path, "%s/%d.arrow", (char *)*state, cases[i].rows);
        write_rows(path, cases[i].rows);
        check(path, cases[i].rows, cases[i].batches);
    }
}

/* A batch with long texts ends before it has a thousand rows. */
static void test_long(void **state)
{
    static const vf_arrow_field text[] = { { "text", VF_ARROW_UTF8 } };
    enum { LONG = 30 << 20 };
    char path[TMP_DIR + 32], *s = malloc(LONG + 1), *got;
    int batches;
    vf_arrow *a;
    snprintf(path, sizeof path, "%s/long.arrow", (char *)*state);
    memset(s, 'y', LONG);
    s[LONG] = 0;
    assert_int_equal(vf_arrow_open(&a, path, text, 1, NULL), 0);
    for (int i = 0; i < 4; i++) {
        vf_arrow_text(a, 0, s);
        assert_int_equal(vf_arrow_row(a, NULL), 0);
    }
    assert_int_equal(vf_arrow_finish(a, NULL), 0);
    vf_arrow_close(a);
    got = arrow_read(path, &batches);
    assert_int_equal(batches, 2);
    assert_int_equal(strlen(got), strlen("text:utf8\n") + 4 * (LONG + 1));
    free(got);
    free(s);
}

static void test_refuses(void **state)
{
    char path[TMP_DIR + 32];
    vf_arrow *a;
    vc_err err = { 0 };
    snprintf(path, sizeof path, "%s/there", (char *)*state);
    write_rows(path, 1);
    assert_fails(vf_arrow_open(&a, path, fields, COLUMNS, &err), VC_EIO, &err, "there");
    assert_null(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reader),
        cmocka_unit_test_setup_teardown(test_writes, tmp_dir_setup, tmp_dir_teardown),
        cmocka_unit_test_setup_teardown(test_long, tmp_dir_setup, tmp_dir_teardown),
        cmocka_unit_test_setup_teardown(test_refuses, tmp_dir_setup, tmp_dir_teardown),
    };
    return cmocka_run_group_tests_name("arrow", tests, NULL, NULL);
}

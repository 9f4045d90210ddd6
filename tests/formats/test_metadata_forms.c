/* test_metadata_forms.c - facts of rows that are none, lists under the ending of another form, and
 * paths of Windows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/folder.h"
#include "tests/lib/ok.h"

/* Facts that are none count as not given, and the row is good. */
static void test_facts(void **state)
{
    static const struct {
        const char *columns;
        int64_t width, height, frames;
        double fps;
    } facts[] = {
        { "\"width\":-1,\"height\":1.5,\"frames\":[0,48],\"fps\":0", 0, 0, 0, 0 },
        { "\"width\":\"12x\",\"height\":\"0x10\",\"frames\":\"N/A\",\"fps\":1e999", 0, 0, 0, 0 },
        { "\"width\":1e300,\"height\":{},\"frames\":\"nan\",\"fps\":\"nan\"", 0, 0, 0, 0 },
        { "\"width\":null,\"height\":\"\",\"frames\":true,\"fps\":-1", 0, 0, 0, 0 },
        { "\"width\":\"64\",\"height\":48.0,\"frames\":\"9\",\"fps\":\"30000/1001\"", 64, 48, 9,
          30000.0 / 1001 },
        { "\"frames\":0,\"fps\":\"25/1\"", 0, 0, 0, 25 },
        { "\"fps\":\"25/0\"", 0, 0, 0, 0 }, { "\"fps\":\"0/0\"", 0, 0, 0, 0 },
        { "\"fps\":\"/\"", 0, 0, 0, 0 }, { "\"fps\":\"1/2/3\"", 0, 0, 0, 0.5 },
        { "\"control_file_path\":7", 0, 0, 0, 0 },
    };

    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        vf_metadata m;
        vc_err err;
        char *text = vc_format("[{\"video\":\"a\",%s}]", facts[i].columns);
        print_message("%s\n", text);
        assert_ok(folder_read(*state, &m, "json", text, strlen(text), NULL, &err), &err);
        const vf_row *r = &m.rows[0];
        assert_null(r->bad);
        assert_true(r->width == facts[i].width && r->height == facts[i].height);
        assert_true(r->frames == facts[i].frames && r->fps == facts[i].fps);
        vf_metadata_free(&m);
        free(text);
    }
}

/* An array in a .jsonl file and lines in a .json file are read; errors name the file's line. */
static void test_forms(void **state)
{
    static const char array[] = "\xef\xbb\xbf\n[{\"video\":\"a\"},\n{\"video\":\"b\"}]";
    static const char lines[] = "{\"video\":\"a\"}\n\n{\"video\":\"b\"}\n{\"video\":\"c\",}\n";
    static const struct {
        const char *ext, *text;
        int64_t n, last;
        const char *bad;
    } lists[] = {
        { "jsonl", array, 2, 2, NULL }, { "ndjson", array, 2, 2, NULL },
        { "json", lines, 3, 4, "line 4, column 14" }, { "jsonl", lines, 3, 4, "line 4, column 14" },
    };

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        vf_metadata m;
        vc_err err;
        const char *text = lists[i].text;
        assert_ok(folder_read(*state, &m, lists[i].ext, text, strlen(text), NULL, &err), &err);
        assert_int_equal(m.n, lists[i].n);
        assert_string_equal(m.rows[1].path, "b");
        assert_int_equal(m.rows[m.n - 1].row, lists[i].last);
        assert_true(!m.rows[m.n - 1].bad == !lists[i].bad);
        if (lists[i].bad)
            assert_non_null(strstr(m.rows[m.n - 1].bad, lists[i].bad));
        vf_metadata_free(&m);
    }
}

/* Paths of Windows are found where the file itself is not. */
static void test_backslashes(void **state)
{
    static const char list[] = "[{\"video\":\"sub\\\\a.mp4\",\"loss_mask_path\":\"sub\\\\m.png\"},"
                               "{\"video\":\"x\\\\b.mp4\"},{\"video\":\"no\\\\c.mp4\"}]";
    static const char *const end[] = { "/sub/a.mp4", "/x\\b.mp4", "/no\\c.mp4" };
    vf_metadata m;
    vc_err err;

    folder_put(*state, "sub/a.mp4", "", 0);
    folder_put(*state, "sub/m.png", "", 0);
    folder_put(*state, "x\\b.mp4", "", 0);
    folder_put(*state, "x/b.mp4", "", 0);
    assert_ok(folder_read(*state, &m, "json", list, sizeof list - 1, NULL, &err), &err);
    for (int i = 0; i < 3; i++)
        assert_string_equal(m.rows[i].file + strlen(m.rows[i].file) - strlen(end[i]), end[i]);
    assert_string_equal(m.rows[0].path, "sub\\a.mp4");
    const char *mask = m.rows[0].beside[VF_LOSS_MASK].file;
    assert_string_equal(mask + strlen(mask) - 10, "/sub/m.png");
    vf_metadata_free(&m);
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, tmp_dir_setup, tmp_dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_facts), IN_FOLDER(test_forms), IN_FOLDER(test_backslashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

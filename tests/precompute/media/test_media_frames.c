/* test_media_frames.c - the order of the pictures in a folder of frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "precompute/media/internal.h"
#include "precompute/run/identity.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

/* Names of files in the order of the frames, or a part of the reason why the folder is refused. */
static const struct {
    const char *names[8], *refused;
    bool reordered;
} orders[] = {
    { { "0.png", "1.png", "2.png", "9.png", "10.png", "11.png", "100.png" }, NULL, true },
    { { "000.png", "001.png", "009.png", "010.png", "100.png" }, NULL, false },
    { { "01.png", "2.png", "003.png", "10.png", "0011.png" }, NULL, true },
    { { "frame_2.jpg", "frame_10.jpg", "frame_11.png" }, NULL, true },
    { { "shot-1_frame-2.png", "shot-1_frame-10.png", "shot-2_frame-1.png", "shot-10_frame-1.png" },
      NULL, true },
    { { "a 1.png", "a 2.png", "a 10.png", "b 1.png" }, NULL, true },
    { { "-10.png", "-9.png", "-1.png", "0.png", "1.png", "10.png" }, NULL, true },
    { { "f_-0010.png", "f_-0009.png", "f_0000.png", "f_0001.png" }, NULL, true },
    { { "f.-2.png", "f.-1.png", "f.0.png" }, NULL, true },
    { { "f-1.png", "f-2.png", "f-10.png" }, NULL, true },
    { { "18446744073709551615.png", "18446744073709551616.png",
        "100000000000000000000000000000000000000001.png" }, NULL, true },
    { { "1 (1).png", "1 (2).png", "1 (10).png" }, NULL, true },
    { { "000a.png", "000f.png", "0010.png", "001a.png" }, NULL, false },
    { { "a.png", "a1.png", "a2.png", "a10.png", "b.png" }, NULL, true },
    { { "1.2.png", "1.10.png", "2.1.png" }, NULL, true },
    { { "F1.PNG", "F2.JPG", "F10.Png" }, NULL, true },
    { { "1.png", "01.png", "2.png" }, "01.png and 1.png have the same number", false },
    { { "f_7.jpg", "f_7.png" }, "f_7.jpg and f_7.png have the same number", false },
    { { "-0.png", "0.png" }, "have the same number", false },
    { { "notes.txt", ".0.png" }, "a folder without pictures", false },
};

static char *make_folder(const char *all, size_t i)
{
    char *folder = vc_format("%s/%zu", all, i);
    assert_int_equal(vc_mkdirs(folder, NULL), 0);
    for (int k = 0; k < 8 && orders[i].names[k]; k++) {
        char *path = vc_path_join(folder, orders[i].names[7 - k] ? orders[i].names[7 - k]
                                                                 : orders[i].names[k]);
        assert_int_equal(vc_file_write(path, "x", 1, NULL), 0);
        free(path);
    }
    return folder;
}

static void test_order(void **state)
{
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        char *folder = make_folder(*state, i);
        media_frames f;
        vc_err err = { 0 };
        int rc = media_frames_list(&f, folder, &err), n = 0;
        while (n < 8 && orders[i].names[n])
            n++;
        if (orders[i].refused) {
            assert_int_equal(rc, VC_EFORMAT);
            assert_says(&err, orders[i].refused);
            assert_true(!f.n && !f.path);
        } else {
            assert_ok(rc, &err);
            assert_int_equal(f.n, n);
            for (int k = 0; k < n; k++)
                assert_string_equal(vc_path_base(f.path[k]), orders[i].names[k]);
            assert_int_equal(f.reordered, orders[i].reordered);
        }
        media_frames_free(&f);
        free(folder);
    }
}

/* Older versions read frames in bytewise order and remembered the hash of this order by the
 * folder's inode: where the order is another one, that hash is not found. */
static void test_identity(void **state)
{
    for (size_t i = 0; i < 2; i++) {
        char *folder = make_folder(*state, i);
        struct stat st;
        prep_identity is;
        OK(prep_identity_of(&is, folder, "frames", &err));
        assert_int_equal(stat(folder, &st), 0);
        assert_int_equal(is.inode == st.st_ino, !orders[i].reordered);
        free(folder);
    }
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, tmp_dir_setup, tmp_dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = { IN_FOLDER(test_order), IN_FOLDER(test_identity) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

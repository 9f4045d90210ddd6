/* test_metadata_folders.c - folders of clips with captions in files beside the clips. */
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
#include "formats/metadata/metadata.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

typedef struct folder {
    char path[TMP_DIR];
} folder;

static void put(const folder *dir, const char *name, const void *text, size_t n)
{
    char *path = vc_path_join(dir->path, name), *parent = vc_format("%.*s",
                                          (int)(vc_path_base(path) - path), path);
    assert_int_equal(vc_mkdirs(parent, NULL), 0);
    assert_int_equal(vc_file_write(path, text, n, NULL), 0);
    free(parent);
    free(path);
}

static void test_folder(void **state)
{
    static const struct {
        const char *path, *caption;
        vf_type type;
        const char *bad;
    } want[] = {
        { "B.MP4", "upper", VF_TYPE_VIDEO, NULL },
        { "a.jpg", "", VF_TYPE_IMAGE, "no caption" },
        { "a.x.mp4", "dotted", VF_TYPE_VIDEO, NULL },
        { "b.mp4", "words", VF_TYPE_VIDEO, NULL },
        { "empty.png", "", VF_TYPE_IMAGE, NULL },
        { "link.png", "", VF_TYPE_IMAGE, "no caption" },
        { "sub/d.png", "", VF_TYPE_IMAGE, "not UTF-8" },
        { "sub/deep/c.webm", "two\nlines", VF_TYPE_VIDEO, NULL },
        { "sub/\xff.png", "", VF_TYPE_IMAGE, "name is not UTF-8" },
    };
    folder *dir = *state;
    put(dir, "a.jpg", "", 0);
    put(dir, "B.MP4", "", 0);
    put(dir, "B.txt", "\xef\xbb\xbfupper\r\n", 10);
    put(dir, "b.mp4", "", 0);
    put(dir, "b.caption", "words\n", 6);
    put(dir, "empty.png", "", 0);
    put(dir, "empty.txt", "", 0);
    put(dir, "a.x.mp4", "", 0);
    put(dir, "a.x.txt", "dotted", 6);
    put(dir, "notes.txt", "none", 4);
    put(dir, ".hidden.mp4", "", 0);
    put(dir, "sub/deep/c.webm", "", 0);
    put(dir, "sub/deep/c.txt", " two\nlines \n\n", 13);
    put(dir, "sub/d.png", "", 0);
    put(dir, "sub/d.txt", "caf\xe9", 4);
    put(dir, "sub/\xff.png", "", 0);
    char *link = vc_path_join(dir->path, "link.png"), *loop = vc_path_join(dir->path, "sub/loop");
    assert_int_equal(symlink("a.jpg", link), 0);
    assert_int_equal(symlink("..", loop), 0);

    vf_metadata m;
    vc_err err = { 0 };
    vf_metadata_opts opts = { .data_dir = "/elsewhere" };
    assert_int_equal(vf_metadata_read(&m, dir->path, &opts, &err), 0);
    assert_int_equal(m.n, sizeof want / sizeof *want);
    for (int i = 0; i < (int)m.n; i++) {
        const vf_row *r = &m.rows[i];
        assert_string_equal(r->path, want[i].path);
        assert_int_equal(r->row, i + 1);
        assert_int_equal(r->type, want[i].type);
        assert_int_equal(r->n_captions, 1);
        assert_string_equal(r->captions[0], want[i].caption);
        assert_true(!r->bad == !want[i].bad);
        if (r->bad)
            assert_non_null(strstr(r->bad, want[i].bad));
        char *file = vc_path_join(dir->path, want[i].path);
        assert_string_equal(r->file, file);
        free(file);
    }
    vf_metadata_free(&m);
    free(link);
    free(loop);
}

static void test_folder_without_media(void **state)
{
    folder *dir = *state;
    vf_metadata m;
    vc_err err;
    assert_fails(vf_metadata_read(&m, dir->path, &(vf_metadata_opts){ 0 }, &err), VC_EFORMAT, &err,
                 "no media files");
    put(dir, "a.mp4", "", 0);
    put(dir, "sub/b.mp4", "", 0);
    put(dir, "sub/b.words", "x", 1);
    assert_int_equal(vf_metadata_read(&m, dir->path, &(vf_metadata_opts){ 0 }, &err), VC_EFORMAT);
    print_message("%s\n", err.text);
    assert_says(&err, "no row has a caption; found: .words; known: ");
    assert_int_equal(vf_metadata_read(&m, dir->path, &(vf_metadata_opts){
                                      .allow_empty_captions = true }, &err), 0);
    assert_true(m.n == 2 && !m.rows[0].bad && !*m.rows[1].captions[0]);
    vf_metadata_free(&m);
}

/* The numbers of kohya's folders are weights, unless a medium lies elsewhere. */
static void test_repeats(void **state)
{
    static const struct { const char *path; double weight; } want[] = {
        { "10_dog/a.png", 10 }, { "10_dog/more/b.png", 10 }, { "2_cat/a.jpg", 2 },
    };
    static const char *const others[] = { "c.png", "pictures/c.png", "0_none/c.png",
                                          "2024_trip/c.png", "10dogs/c.png" };
    folder *dir = *state;
    vf_metadata m;
    vc_err err = { 0 };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        put(dir, want[i].path, "", 0);
    put(dir, "10_dog/a.txt", "a dog", 5);
    assert_ok(vf_metadata_read(&m, dir->path, &(vf_metadata_opts){ 0 }, &err), &err);
    assert_true(m.repeats);
    for (int i = 0; i < (int)m.n; i++) {
        assert_string_equal(m.rows[i].path, want[i].path);
        assert_true(m.rows[i].weight == want[i].weight);
    }
    vf_metadata_free(&m);
    assert_ok(vf_metadata_read(&m, dir->path, &(vf_metadata_opts){ .plain_folders = true }, &err),
              &err);
    assert_true(m.n == 3 && !m.repeats && m.rows[0].weight == 1 && m.rows[2].weight == 1);
    vf_metadata_free(&m);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *path = vc_path_join(dir->path, others[i]);
        put(dir, others[i], "", 0);
        assert_ok(vf_metadata_read(&m, dir->path, &(vf_metadata_opts){ 0 }, &err), &err);
        assert_true(m.n == 4 && !m.repeats && m.rows[0].weight == 1);
        vf_metadata_free(&m);
        assert_int_equal(unlink(path), 0);
        free(path);
    }
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, tmp_dir_setup, tmp_dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_folder), IN_FOLDER(test_folder_without_media),
        IN_FOLDER(test_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

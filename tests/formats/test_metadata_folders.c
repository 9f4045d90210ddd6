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
#include "tests/lib/folder.h"
#include "tests/lib/ok.h"

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
        { "sub/\xff.png", "", VF_TYPE_IMAGE, "name is not UTF-8: rename it" },
    };
    folder *dir = *state;
    folder_put(dir, "a.jpg", "", 0);
    folder_put(dir, "B.MP4", "", 0);
    folder_put(dir, "B.txt", "\xef\xbb\xbfupper\r\n", 10);
    folder_put(dir, "b.mp4", "", 0);
    folder_put(dir, "b.caption", "words\n", 6);
    folder_put(dir, "empty.png", "", 0);
    folder_put(dir, "empty.txt", "", 0);
    folder_put(dir, "a.x.mp4", "", 0);
    folder_put(dir, "a.x.txt", "dotted", 6);
    folder_put(dir, "notes.txt", "none", 4);
    folder_put(dir, ".hidden.mp4", "", 0);
    folder_put(dir, "sub/deep/c.webm", "", 0);
    folder_put(dir, "sub/deep/c.txt", " two\nlines \n\n", 13);
    folder_put(dir, "sub/d.png", "", 0);
    folder_put(dir, "sub/d.txt", "caf\xe9", 4);
    folder_put(dir, "sub/\xff.png", "", 0);
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
    folder_put(dir, "b.psd", "", 0);
    assert_fails(vf_metadata_read(&m, dir->path, &(vf_metadata_opts){ 0 }, &err), VC_EFORMAT, &err,
                 "no media files; found: .psd; .psd: this kind of picture is not read: save it");
    folder_put(dir, "a.mp4", "", 0);
    folder_put(dir, "sub/b.mp4", "", 0);
    folder_put(dir, "sub/b.words", "x", 1);
    assert_int_equal(vf_metadata_read(&m, dir->path, &(vf_metadata_opts){ 0 }, &err), VC_EFORMAT);
    print_message("%s\n", err.text);
    assert_says(&err, "no row has a caption; found: ");
    assert_says(&err, ".words");
    assert_int_equal(vf_metadata_read(&m, dir->path, &(vf_metadata_opts){
                                      .allow_empty_captions = true }, &err), 0);
    assert_true(m.n == 2 && !m.rows[0].bad && !*m.rows[1].captions[0]);
    vf_metadata_free(&m);
}

/* The numbers of kohya's folders are weights; media elsewhere count once, and are reported. */
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
        folder_put(dir, want[i].path, "", 0);
    folder_put(dir, "10_dog/a.txt", "a dog", 5);
    assert_ok(vf_metadata_read(&m, dir->path, &(vf_metadata_opts){ 0 }, &err), &err);
    assert_true(m.repeats && !m.n_once);
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
        folder_put(dir, others[i], "", 0);
        assert_ok(vf_metadata_read(&m, dir->path, &(vf_metadata_opts){ 0 }, &err), &err);
        assert_true(m.n == 4 && m.repeats && m.n_once == 1);
        assert_string_equal(m.rows[m.once].path, others[i]);
        assert_true(m.rows[m.once].weight == 1 && m.rows[m.once ? 0 : 1].weight == 10);
        vf_metadata_free(&m);
        assert_int_equal(unlink(path), 0);
        free(path);
    }
}

static void link_to(const folder *dir, const char *name, const char *to)
{
    char *path = vc_path_join(dir->path, name);
    assert_int_equal(symlink(to, path), 0);
    free(path);
}

/* Asserts the rows' paths, one a line; a line of a bad row begins with '!'. */
static void assert_rows(const vf_metadata *m, const char *want)
{
    char text[2048] = "";
    size_t n = 0;
    for (int64_t i = 0; i < m->n; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %s\n", m->rows[i].bad ? "!" : "",
                              m->rows[i].path, m->rows[i].captions[0]);
    assert_string_equal(text, want);
}

/* Linked folders are read, each folder once; links cannot form a cycle. */
static void test_links(void **state)
{
    folder *dir = *state, set, pets;
    vf_metadata m;
    vc_err err = { 0 };
    snprintf(set.path, sizeof set.path, "%.200s/set", dir->path);
    snprintf(pets.path, sizeof pets.path, "%.200s/pets", dir->path);
    folder_put(&set, "a.png", "", 0);
    folder_put(&set, "a.txt", "a", 1);
    folder_put(&set, "real/b.png", "", 0);
    folder_put(&set, "real/b.txt", "b", 1);
    folder_put(&pets, "dogs/d.png", "", 0);
    folder_put(&pets, "dogs/d.txt", "d", 1);
    folder_put(&pets, "p.png", "", 0);
    folder_put(&pets, "p.txt", "p", 1);
    link_to(&pets, "back", "..");                /* to the folder that has the set too */
    link_to(&pets, "other", "../set/real");
    link_to(&pets, "dogs/self", ".");
    link_to(&set, "10_dog", "../pets/dogs");
    link_to(&set, "3_again", "../pets/dogs");
    link_to(&set, "all", "../pets");
    link_to(&set, "real/up", "..");
    link_to(&set, "linked.png", "a.png");
    link_to(&set, "linked.txt", "real/b.txt");
    assert_ok(vf_metadata_read(&m, set.path, &(vf_metadata_opts){ 0 }, &err), &err);
    assert_rows(&m, "10_dog/d.png d\na.png a\nall/p.png p\nlinked.png b\nreal/b.png b\n");
    assert_true(m.repeats && m.rows[0].weight == 10 && m.n_once == 4);
    assert_string_equal(m.ignored, "linked folder 3 (3_again, ...: it is read at another place), "
                        "linked folder 3 (10_dog/self, ...: it leads to a folder above)");
    vf_metadata_free(&m);

    link_to(&set, "gone", "/no/such/folder");    /* a disk that is not mounted, perhaps */
    link_to(&set, "loop", "loop");
    link_to(&set, "lost.png", "/no/such.png");   /* the media's reader reports this one */
    link_to(&set, "p.txt", "/no/such.txt");
    folder_put(&set, "p.png", "", 0);
    assert_ok(vf_metadata_read(&m, set.path, &(vf_metadata_opts){ .allow_empty_captions = true },
                               &err), &err);
    assert_rows(&m, "10_dog/d.png d\na.png a\nall/p.png p\n!gone/ \nlinked.png b\n!loop/ \n"
                "lost.png \n!p.png \nreal/b.png b\n");
    assert_true(m.rows[3].unread && m.rows[7].unread);
    assert_non_null(strstr(m.rows[3].bad, "gone: a link that cannot be followed: No such file"));
    assert_non_null(strstr(m.rows[7].bad, "p.txt"));
    vf_metadata_free(&m);
}

/* Endings of captions in any case; files of systems; files that are no rows are reported. */
static void test_others(void **state)
{
    static const char *const files[] = {
        "A.JPG", "A.TXT", "b.Mp4", "b.Caption", "c.jpe", "c.txt", "c.TXT", "d.y4m", "d.caption",
        "e.tga", "e.txt", "sub/f.JFIF", "sub/f.txt",
        ".hidden.jpg", "._A.JPG", ".DS_Store", "Thumbs.db", "desktop.ini", ".git/x.jpg",
        "__MACOSX/x.jpg", "@eaDir/A.JPG/SYNO_THUMB.jpg",
        "g.psd", "g.txt", "h.PSD", "notes.txt", "README.md", "sub/k.npz", "LICENSE", "x.tar",
        "y.tar.gz", "c.json",
    };
    folder *dir = *state;
    vf_metadata m;
    vc_err err = { 0 };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        folder_put(dir, files[i], files[i], strlen(files[i]));
    assert_ok(vf_metadata_read(&m, dir->path, &(vf_metadata_opts){ 0 }, &err), &err);
    assert_rows(&m, "A.JPG A.TXT\nb.Mp4 b.Caption\nc.jpe c.txt\nd.y4m d.caption\ne.tga e.txt\n"
                "sub/f.JFIF sub/f.txt\n");
    assert_string_equal(m.rows[0].caption_from, ".txt");
    assert_true(!m.repeats && m.rows[2].type == VF_TYPE_IMAGE && m.rows[3].type == VF_TYPE_VIDEO);
    assert_string_equal(m.ignored,
        ".psd 2 (g.psd, ...: this kind of picture is not read: save it as .png), "
        ".txt 2 (g.txt, ...: no medium of this name lies beside it), "
        ".gz 1 (y.tar.gz: packed: unpack it), "
        ".tar 1 (x.tar: a list is read by itself: give the file instead of the folder), "
        ".json 1 (c.json), .md 1 (README.md), .npz 1 (sub/k.npz), LICENSE 1 (LICENSE)");
    vf_metadata_free(&m);
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, tmp_dir_setup, tmp_dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_folder), IN_FOLDER(test_folder_without_media),
        IN_FOLDER(test_repeats), IN_FOLDER(test_links), IN_FOLDER(test_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_metadata.c - lists of clips: each format and set of columns, bad rows with their reasons,
 * files that are no lists, ids, and thousands of damaged lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <xxhash.h>

#include "common/os/file.h"
#include "tests/lib/folder.h"
#include "tests/lib/mutate.h"
#include "tests/lib/ok.h"

/* ---- rows ---- */

/* One row of a list and its values; captions are joined by '|'. */
static const struct {
    const char *ext, *text;
    const char *bad;                 /* part of the reason, or NULL for a good row */
    const char *path;
    vf_type type;
    const char *captions;
} rows[] = {
    /* columns of VideoX-Fun; without a type the file decides */
    { "json", "[{\"file_path\":\"a.mp4\",\"text\":\"t\",\"type\":\"video\"}]", NULL, "a.mp4",
      VF_TYPE_VIDEO, "t" },
    { "json", "[{\"file_path\":\"a.mp4\",\"text\":\"t\"}]", NULL, "a.mp4", VF_TYPE_UNKNOWN, "t" },
    { "json", "[{\"file_path\":\"a.mp4\",\"text\":\"\",\"type\":\"\"}]", NULL, "a.mp4",
      VF_TYPE_UNKNOWN, "" },
    { "json", "[{\"file_path\":\"a.mp4\",\"type\":\"image\"}]", NULL, "a.mp4", VF_TYPE_IMAGE, "" },
    { "csv", "file_path,text,type\na.mp4,t,video\n", NULL, "a.mp4", VF_TYPE_VIDEO, "t" },
    /* of DiffSynth */
    { "csv", "video,prompt\nv/a.mp4,\"one, \"\"two\"\"\"\n", NULL, "v/a.mp4", VF_TYPE_VIDEO,
      "one, \"two\"" },
    { "csv", "image,prompt\na.mp4,t\n", NULL, "a.mp4", VF_TYPE_IMAGE, "t" },
    { "csv", "image,video,prompt\n,b.mp4,t\n", NULL, "b.mp4", VF_TYPE_VIDEO, "t" },
    /* of Finetrainers */
    { "jsonl", "{\"file_name\":\"a.JPG\",\"caption\":\"t\"}\n", NULL, "a.JPG", VF_TYPE_IMAGE, "t" },
    { "jsonl", "{\"media_path\":\"/x/a.webm\",\"caption\":\"t\"}", NULL, "/x/a.webm",
      VF_TYPE_VIDEO, "t" },
    { "jsonl", "{\"media_path\":\"a.bin\"}", NULL, "a.bin", VF_TYPE_UNKNOWN, "" },
    /* named by the user */
    { "csv", "clip,text\na.mp4,t\n", NULL, "a.mp4", VF_TYPE_VIDEO, "t" },
    /* columns of other trainers, read if a row has none of the columns above */
    { "csv", "Video,Prompt\na.mp4,t\n", NULL, "a.mp4", VF_TYPE_VIDEO, "t" },
    { "csv", "video,video_path,prompt,Prompt,description\na,b,t,u,v\n", NULL, "a", VF_TYPE_VIDEO,
      "t" },
    { "csv", "file_name,caption_text\na.mp4,t\n", NULL, "a.mp4", VF_TYPE_VIDEO, "t" },
    { "csv", "video,description\na,t\n", NULL, "a", VF_TYPE_VIDEO, "t" },
    { "csv", "video,prompt,description\na,,t\n", NULL, "a", VF_TYPE_VIDEO, "" },
    { "jsonl", "{\"video_path\":\"a.mp4\",\"caption\":\"t\"}", NULL, "a.mp4", VF_TYPE_VIDEO, "t" },
    { "jsonl", "{\"image_path\":\"a.png\",\"caption\":\"t\"}", NULL, "a.png", VF_TYPE_IMAGE, "t" },
    { "json", "[{\"path\":\"a.mp4\",\"cap\":[\"t\",\"u\"]}]", NULL, "a.mp4", VF_TYPE_VIDEO,
      "t|u" },
    { "tsv", "video\tprompt\na.mp4\tone, two\n", NULL, "a.mp4", VF_TYPE_VIDEO, "one, two" },
    /* captions */
    { "json", "[{\"file_path\":\"a\",\"text\":[\"x\",\"\",\"y\"],\"captions\":[\"z\"]}]", NULL, "a",
      VF_TYPE_UNKNOWN, "x|y|z" },
    { "csv", "video,text,text_2,text_x,caption_10,prompt\na,1,2,3,4,\n", NULL, "a", VF_TYPE_VIDEO,
      "1|2|4" },
    { "json", "[{\"file_path\":\"a\",\"text\":null}]", NULL, "a", VF_TYPE_UNKNOWN, "" },
    { "json", "[{\"file_path\":\"a\",\"text\":7}]", "text: expected a string", "a",
      VF_TYPE_UNKNOWN,
      "" },
    { "json", "[{\"file_path\":\"a\",\"text\":[[\"x\"]]}]", "text: expected", "a", VF_TYPE_UNKNOWN,
      "" },
    /* captions of segments */
    { "json", "[{\"video\":\"a\",\"text_chunks\":[\"x\",\"\",\"y\"],\"text\":\"z\"}]", NULL, "a",
      VF_TYPE_VIDEO, "x||y" },
    { "jsonl", "{\"mp4\":\"a\",\"text\":\"x\",\"scene_start\":true,\"scene_end\":false}", NULL, "a",
      VF_TYPE_VIDEO, "<start_scene>x" },
    { "jsonl", "{\"mp4\":\"a\",\"text_0\":\"x\",\"text_1\":\"y\",\"scene_end\":[false,true]}", NULL,
      "a", VF_TYPE_VIDEO, "x|y<end_scene>" },
    { "json", "{\"7\":{\"mp4\":\"a\",\"text\":\"x\"},\"8\":{\"mp4\":\"a\",\"text\":\"y\"}}", NULL,
      "a", VF_TYPE_VIDEO, "x|y" },
    { "json", "[{\"video\":\"a\",\"text_chunks\":[]}]", "text_chunks: expected a list of 1 to", "a",
      VF_TYPE_VIDEO, "" },
    { "csv", "video,text_chunks\na,x\n", "text_chunks: expected a list", "a", VF_TYPE_VIDEO, "" },
    { "json", "[{\"video\":\"a\",\"text_chunks\":[\"x\",\"y\"],\"scene_start\":true}]",
      "scene_start: 0 values for 2 segments", "a", VF_TYPE_VIDEO, "" },
    /* byte order mark, line ends, blanks */
    { "csv", "\xef\xbb\xbfvideo,prompt\r\na,b\r\n\r\n", NULL, "a", VF_TYPE_VIDEO, "b" },
    { "csv", " video , prompt\na, b \n", NULL, "a", VF_TYPE_VIDEO, " b " },
    { "csv", "video,prompt\na,\"two\nlines\"", NULL, "a", VF_TYPE_VIDEO, "two\nlines" },
    { "csv", "video,prompt\na,say \"hi\"\n", NULL, "a", VF_TYPE_VIDEO, "say \"hi\"" },
    { "json", "\xef\xbb\xbf [ {\"video\":\"a\",\"prompt\":\"\\u00e9\"} ] ", NULL, "a",
      VF_TYPE_VIDEO, "\xc3\xa9" },
    { "ndjson", "\xef\xbb\xbf{\"video\":\"a\"}\r\n", NULL, "a", VF_TYPE_VIDEO, "" },
    /* bad rows */
    { "csv", "video,prompt\na\n", "1 fields under 2 columns", "", VF_TYPE_UNKNOWN, "" },
    { "csv", "video,prompt\na,b,c\n", "3 fields under 2 columns", "", VF_TYPE_UNKNOWN, "" },
    { "csv", "video,prompt\na,caf\xe9\n", "prompt: byte 4 is not UTF-8", "", VF_TYPE_UNKNOWN, "" },
    { "csv", "video,prompt\n,b\n", "no medium", "", VF_TYPE_UNKNOWN, "" },
    { "json", "[7]", "not an object", "", VF_TYPE_UNKNOWN, "" },
    { "json", "[{}]", "no medium", "", VF_TYPE_UNKNOWN, "" },
    { "json", "[{\"video\":7}]", "video: expected a string", "", VF_TYPE_VIDEO, "" },
    /* the form of Hugging Face's media; bytes in JSON are no media */
    { "json", "[{\"video\":{\"bytes\":null,\"path\":\"a\"},\"text\":\"x\"}]", NULL, "a",
      VF_TYPE_VIDEO, "x" },
    { "json", "[{\"video\":{\"bytes\":\"0 3 0\",\"path\":\"a\"},\"text\":\"x\"}]",
      "video: expected a string", "", VF_TYPE_VIDEO, "" },
    { "json", "[{\"video\":{\"bytes\":null,\"path\":\"\"},\"mp4\":\"b.mp4\",\"text\":\"x\"}]", NULL,
      "b.mp4", VF_TYPE_VIDEO, "x" },
    { "json", "[{\"video\":\"a\",\"video\":\"b\"}]", "occurs twice", "", VF_TYPE_UNKNOWN, "" },
    { "jsonl", "{\"video\":\n", "line 1", "", VF_TYPE_UNKNOWN, "" },
    { "jsonl", "{\"video\":\"\xff\"}", "not UTF-8", "", VF_TYPE_UNKNOWN, "" },
    { "json", "[{\"video\":\"dir/\"}]", "video: names no file", "dir/", VF_TYPE_VIDEO, "" },
    { "json", "[{\"video\":\"..\"}]", "video: names no file", "..", VF_TYPE_VIDEO, "" },
    { "json", "[{\"video\":\"https://x/a.mp4\"}]", "an address", "https://x/a.mp4", VF_TYPE_VIDEO,
      "" },
    { "json", "[{\"video\":\"a\",\"type\":\"audio\"}]", "type: expected image or video, found",
      "a", VF_TYPE_VIDEO, "" },
    { "json", "[{\"video\":\"a\",\"weight\":\"nan\"}]", "weight: expected", "a", VF_TYPE_VIDEO,
      "" },
    { "json", "[{\"video\":\"a\",\"weight\":10001}]", "weight: 10001", "a", VF_TYPE_VIDEO, "" },
    { "json", "[{\"video\":\"a\",\"weight\":-0.5}]", "weight: -0.5", "a", VF_TYPE_VIDEO, "" },
    { "json", "[{\"video\":\"a\",\"tags\":{}}]", "tags: expected", "a", VF_TYPE_VIDEO, "" },
    { "json", "[{\"video\":\"a\",\"tags\":[1]}]", "tags: expected", "a", VF_TYPE_VIDEO, "" },
    { "json", "[{\"video\":\"a\",\"loss_mask_path\":1}]", "loss_mask_path: expected", "a",
      VF_TYPE_VIDEO, "" },
};

static void join(char *to, char *const *list, int n)
{
    *to = 0;
    for (int i = 0; i < n; i++) {
        strcat(to, i ? "|" : "");
        strcat(to, list[i]);
    }
}

static void test_rows(void **state)
{
    vf_metadata_opts opts = { .file_keys = "image, clip", .allow_empty_captions = true };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vf_metadata m;
        vc_err err;
        char captions[256];
        print_message("%s\n", rows[i].text);
        size_t n = strlen(rows[i].text);
        int rc = folder_read(*state, &m, rows[i].ext, rows[i].text, n, &opts, &err);
        if (rc)
            print_message("%s\n", err.text);
        assert_int_equal(rc, 0);
        assert_int_equal(m.n, 1);
        const vf_row *r = &m.rows[0];
        print_message("  -> %s\n", r->bad ? r->bad : "good");
        assert_true(!r->bad == !rows[i].bad);
        if (r->bad)
            assert_non_null(strstr(r->bad, rows[i].bad));
        assert_int_equal(r->row, 1);
        assert_string_equal(r->path, rows[i].path);
        assert_int_equal(r->type, rows[i].type);
        join(captions, r->captions, r->n_captions);
        if (!r->bad)
            assert_string_equal(captions, rows[i].captions);
        vf_metadata_free(&m);
    }
}

static void check_fields(const vf_row *r)
{
    char tags[64];
    assert_null(r->bad);
    assert_int_equal(r->width, 640);
    assert_int_equal(r->height, 360);
    assert_int_equal(r->frames, 49);
    assert_true(r->fps == 23.976 && r->weight == 0.5);
    join(tags, r->tags, r->n_tags);
    assert_string_equal(tags, "cat|sofa bed");
    assert_string_equal(r->beside[VF_LOSS_MASK].path, "m.png");
    assert_int_equal(r->n_extra, 3);
    assert_string_equal(r->extra[0].column, "control_file_path");
    assert_string_equal(r->extra[0].value, "c.mp4");
    assert_string_equal(r->extra[1].column, "pose");
    assert_string_equal(r->extra[1].value, "p.mp4");
    assert_string_equal(r->extra[2].column, "ref");
}

static void test_fields(void **state)
{
    static const char csv[] =
        "file_path,width,height,frames,fps,weight,tags,loss_mask_path,control_file_path,"
        "pose,ref,x\n"
        "a.mp4,640,360.0,49,23.976,.5,\" cat,,sofa bed,\",m.png,c.mp4,p.mp4,r.png,y\n";
    static const char json[] =
        "[{\"file_path\":\"a.mp4\",\"width\":640,\"height\":\"360\",\"frames\":49,\"fps\":23.976,"
        "\"weight\":0.5,\"tags\":[\"cat\",\"sofa bed\"],\"loss_mask_path\":\"m.png\","
        "\"input_image\":null,\"control_file_path\":\"c.mp4\",\"pose\":\"p.mp4\","
        "\"ref\":[\"r.png\", 1],\"x\":{}}]";
    vf_metadata_opts opts = { .data_dir = "/data", .file_keys = "pose",
                              .extra_inputs = "ref,none", .allow_empty_captions = true };
    vf_metadata m;
    vc_err err;
    assert_int_equal(folder_read(*state, &m, "csv", csv, sizeof csv - 1, &opts, &err), 0);
    check_fields(&m.rows[0]);
    assert_string_equal(m.rows[0].extra[2].value, "r.png");
    assert_string_equal(m.rows[0].file, "/data/a.mp4");
    vf_metadata_free(&m);
    assert_int_equal(folder_read(*state, &m, "json", json, sizeof json - 1, &opts, &err), 0);
    check_fields(&m.rows[0]);
    assert_string_equal(m.rows[0].extra[2].value, "[\"r.png\",1]");
    vf_metadata_free(&m);
    assert_int_equal(folder_read(*state, &m, "json", json, sizeof json - 1, NULL, &err), 0);
    char *file = vc_path_join(((folder *)*state)->path, "a.mp4");
    assert_string_equal(m.rows[0].file, file);
    assert_true(m.rows[0].n_extra == 1);
    free(file);
    vf_metadata_free(&m);
}

/* ---- files that are no lists ---- */

static const struct {
    const char *ext, *text;
    size_t n;                        /* 0 means strlen(text) */
    int rc;
    const char *why;
} refused[] = {
    { "json", "{\"video\":\"a\"}", 0, VC_EFORMAT, "expected an array" },
    { "json", "", 0, VC_EFORMAT, "expected an array" },
    { "json", "[{\"video\":\"a\"}", 0, VC_EFORMAT, "expected ','" },
    { "json", "[{\"video\":\"a\"},\n{\"video\":tru]", 0, VC_EFORMAT, "row 2: line 2, column 10" },
    { "json", "[] []", 0, VC_EFORMAT, "after the end" },
    { "jsonl", "[] []", 0, VC_EFORMAT, "after the end" },
    { "json", "{\"video\":\"a\"}", 0, VC_EFORMAT, "one row a line is a .jsonl file" },
    { "csv", " [{\"video\":\"a\"}]", 0, VC_EFORMAT, "is JSON: name the file .json" },
    { "tsv", "{\"video\":\"a\"}\n", 0, VC_EFORMAT, "is JSON: name the file .jsonl" },
    { "json", "\0\0\0\0", 4, VC_EFORMAT, "begins with zero bytes" },
    { "csv", "\0\0\0\0\0", 5, VC_EFORMAT, "begins with zero bytes" },
    { "jsonl", "{\0\"\0a\0", 6, VC_EFORMAT, "UTF-16" },
    { "csv", "\0v\0i\0d", 6, VC_EFORMAT, "UTF-16" },
    { "json", "\xff\xfe[\0]\0", 6, VC_EFORMAT, "UTF-16" },
    { "csv", "", 0, VC_EFORMAT, "no header" },
    { "csv", "\n\n", 0, VC_EFORMAT, "no header" },
    { "csv", "a.mp4,hello\nb.mp4,bye\n", 0, VC_EFORMAT,
      "found: a.mp4, hello; known: file_path, video" },
    { "csv", "video,prompt,prompt\na,b,c\n", 0, VC_EFORMAT, "column \"prompt\" occurs twice" },
    { "csv", "video,prompt\na,b\nc,\"d\ne,f\n", 0, VC_EFORMAT, "row 2: ends within quotes" },
    { "csv", "vid\0eo,prompt\n", 14, VC_EFORMAT, "header" },
    { "csv", "\xff\xfev\0", 4, VC_EFORMAT, "UTF-16" },
    { "jsonl", "\xff\xfe{\0", 4, VC_EFORMAT, "UTF-16" },
    /* a list without a single caption */
    { "csv", "video,title,words\na,b,c\nd,e,f\n", 0, VC_EFORMAT,
      "no row has a caption; found: video, title, words; known: the columns text, prompt, "
      "caption" },
    { "jsonl", "{\"video\":\"a\"}\n{\"video\":\"b\",\"text\":null,\"words\":\"x\"}", 0,
      VC_EFORMAT, "found: video, text, words; known:" },
    { "json", "[{\"video\":\"a\",\"text\":[]},7]", 0, VC_EFORMAT, "--allow_empty_captions" },
    { "xlsx", "x", 0, VC_EINVAL, "expected a .json, .jsonl, .csv, .tsv or .parquet file" },
};

static void test_refused(void **state)
{
    const vf_metadata_opts strict = { 0 };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        vf_metadata m;
        vc_err err;
        size_t n = refused[i].n ? refused[i].n : strlen(refused[i].text);
        int rc = folder_read(*state, &m, refused[i].ext, refused[i].text, n, &strict, &err);
        print_message("%s\n", err.text);
        assert_fails(rc, refused[i].rc, &err, refused[i].why);
        assert_null(m.rows);
    }
    vf_metadata m;
    vc_err err;
    assert_int_equal(vf_metadata_read(&m, "/none/list.json", &(vf_metadata_opts){ 0 }, &err),
                     VC_ENOENT);
    char *fifo = vc_path_join(((folder *)*state)->path, "fifo.csv");
    assert_int_equal(mkfifo(fifo, 0600), 0);       /* the reader must not wait for a writer */
    assert_int_equal(vf_metadata_read(&m, fifo, &(vf_metadata_opts){ 0 }, &err), VC_EFORMAT);
    free(fifo);
}

/* ---- rows without a caption ---- */

/* Each list has four rows, with the first caption of each and its column, or NULL without one. */
static void test_captions(void **state)
{
    static const struct {
        const char *columns, *text;
        const char *from[4], *caption[4];
    } lists[] = {
        { NULL, "{\"video\":\"a\",\"text\":\"x\"}\n{\"video\":\"b\"}\n{\"video\":\"c\","
                "\"prompt\":\"\"}"
          "\n{\"video\":\"d\",\"text\":null,\"caption_2\":[\"\",\"y\"]}",
          { "text", NULL, "prompt", "caption_2" }, { "x", "", "", "y" } },
        { NULL, "{\"video\":\"a\",\"text\":\"x\",\"prompt\":\"y\"}\n{\"video\":\"b\",\"text\":\"\","
                "\"prompt\":\"y\"}\n{\"video\":\"c\",\"text\":[\"x\",\"z\"],\"text_2\":\"y\"}\n"
                "{\"video\":\"d\",\"text\":\"x\",\"prompt\":null,\"caption\":\"\"}",
          { "text and prompt", "prompt", "text and text_2", "text" }, { "x", "y", "x", "x" } },
        { "words,more",
          "{\"video\":\"a\",\"text\":\"x\"}\n{\"video\":\"b\",\"text\":\"x\",\"words\":"
          "\"w\"}\n{\"video\":\"c\",\"more\":\"m\"}\n{\"video\":\"d\",\"words\":\"\"}",
          { NULL, "words", "more", "words" }, { "", "w", "m", "" } },
    };

    for (size_t i = 0; i < 2 * sizeof lists / sizeof *lists; i++) {
        vf_metadata m;
        vc_err err;
        const char *text = lists[i / 2].text;
        vf_metadata_opts opts = { .caption_columns = lists[i / 2].columns,
                                  .allow_empty_captions = i % 2 };
        assert_int_equal(folder_read(*state, &m, "jsonl", text, strlen(text), &opts, &err), 0);
        assert_int_equal(m.n, 4);
        for (int r = 0; r < 4; r++) {
            const char *from = lists[i / 2].from[r];
            assert_true(!m.rows[r].bad == (from || i % 2));
            if (m.rows[r].bad)
                assert_non_null(strstr(m.rows[r].bad, "no caption"));
            assert_true(!from == !m.rows[r].caption_from);
            if (from)
                assert_string_equal(m.rows[r].caption_from, from);
            assert_string_equal(m.rows[r].captions[0], lists[i / 2].caption[r]);
        }
        vf_metadata_free(&m);
    }
}

/* ---- several rows ---- */

static void test_numbers_and_ids(void **state)
{
    static const char text[] = "{\"video\":\"a\"}\n\n  \r\nnonsense\n{\"video\":\"b\"}\n"
                               "{\"video\":\"a\"}\n{\"video\":\"a\"}";
    static const struct {
        int64_t row;
        const char *path;
        uint64_t seed;
    } want[] = { { 1, "a", 0 }, { 4, "", 0 }, { 5, "b", 0 }, { 6, "a", 1 }, { 7, "a", 2 } };
    vf_metadata m;
    vc_err err;

    assert_int_equal(folder_read(*state, &m, "jsonl", text, sizeof text - 1, NULL, &err), 0);
    assert_int_equal(m.n, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(m.rows[i].row, want[i].row);
        assert_string_equal(m.rows[i].path, want[i].path);
        assert_true(m.rows[i].id == XXH3_64bits_withSeed(want[i].path, strlen(want[i].path),
                                                         want[i].seed));
    }
    /* The id of this row is fixed: ids must never change. */
    assert_true(m.rows[0].id == 0xe6c632b61e964e1full);
    vf_metadata_free(&m);
}

/* A file is read in pieces: rows lie across their borders, and one row is longer than a piece. */
static void test_long_lists(void **state)
{
    enum { ROWS = 20000, LONG = 700000 };
    for (int csv = 0; csv < 2; csv++) {
        char *text = malloc(ROWS * 100 + LONG + 100), *p = text;
        char *big = malloc(LONG + 1);
        memset(big, 'x', LONG);
        big[LONG] = 0;
        p += sprintf(p, "%s", csv ? "video,prompt\n" : "");
        for (int i = 0; i < ROWS; i++) {
            const char *caption = i == ROWS / 2 ? big : "a,\nb";
            p += sprintf(p, csv ? "clips/%d.mp4,\"%s\"\n"
                                : "{\"video\":\"clips/%d.mp4\",\"prompt\":\"%.700000s\"}\n",
                         i, csv || i == ROWS / 2 ? caption : "a, b");
        }
        vf_metadata m;
        vc_err err;
        assert_int_equal(folder_read(*state, &m, csv ? "csv" : "jsonl", text, (size_t)(p - text),
                                     NULL, &err), 0);
        assert_int_equal(m.n, ROWS);
        for (int i = 0; i < ROWS; i++) {
            char want[32];
            sprintf(want, "clips/%d.mp4", i);
            assert_null(m.rows[i].bad);
            assert_string_equal(m.rows[i].path, want);
            assert_int_equal(strlen(m.rows[i].captions[0]), i == ROWS / 2 ? LONG : 4);
        }
        vf_metadata_free(&m);
        free(text);
        free(big);
    }
}

/* Expects a good row, a row with the reason `bad`, and a good row. */
static void expect_middle_bad(const folder *dir, const char *ext, const char *text, size_t n,
                              const char *bad)
{
    vf_metadata m;
    vc_err err;
    assert_int_equal(folder_read(dir, &m, ext, text, n, NULL, &err), 0);
    assert_int_equal(m.n, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(m.rows[i].row, i + 1);
        if (i != 1)
            assert_null(m.rows[i].bad);
    }
    assert_non_null(m.rows[1].bad);
    assert_non_null(strstr(m.rows[1].bad, bad));
    assert_string_equal(m.rows[2].path, "c");
    vf_metadata_free(&m);
}

static void test_row_too_long(void **state)
{
    static const struct { const char *ext, *before, *after; } lists[] = {
        { "jsonl", "{\"video\":\"a\"}\n{\"video\":\"b\",\"text\":\"", "\"}\n{\"video\":\"c\"}" },
        { "json", "[{\"video\":\"a\"},{\"video\":\"b\",\"text\":\"", "\"},{\"video\":\"c\"}]" },
        { "csv", "video,text\na,\nb,", "\nc,\n" },
        { "csv", "video,text\na,\nb,\"", "\"\nc,\n" },
    };
    size_t n = 40u << 20;
    char *text = malloc(n);

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        memset(text, 'x', n);
        memcpy(text, lists[i].before, strlen(lists[i].before));
        memcpy(text + n - strlen(lists[i].after), lists[i].after, strlen(lists[i].after));
        expect_middle_bad(*state, lists[i].ext, text, n, "more than 16777216 bytes in a row");
    }
    free(text);
}

static void test_row_too_deep(void **state)
{
    enum { DEEP = 100000 };
    char *open = malloc(DEEP + 1), *close = malloc(DEEP + 1);

    memset(open, '[', DEEP);
    memset(close, ']', DEEP);
    open[DEEP] = close[DEEP] = 0;
    char *json =
        vc_format("[{\"video\":\"a\"},{\"video\":\"b\",\"x\":%s\"]\\\"\"%s},{\"video\":\"c\"}]",
                           open, close);
    char *jsonl = vc_format("{\"video\":\"a\"}\n{\"video\":\"b\",\"x\":%s%s}\n{\"video\":\"c\"}\n",
                            open, close);
    expect_middle_bad(*state, "json", json, strlen(json), "levels deep");
    expect_middle_bad(*state, "jsonl", jsonl, strlen(jsonl), "levels deep");
    free(open);
    free(close);
    free(json);
    free(jsonl);
}

/* A fault in one row does not affect the next row if the beginning of the next row is certain. */
static void test_row_spoilt(void **state)
{
    static const struct { const char *row; size_t n; const char *bad; } spoilt[] = {
#define ROW(text, bad) { text, sizeof text - 1, bad }
        ROW("{\"video\":\"b\",\"text\":\"x\0y\"}", "control character 0x00"),
        ROW("{\"video\":\"b\",\"text\":\"x\\u0000y\"}", "escape that is not allowed"),
        ROW("{\"video\":\"b\",\"text\":\"C:\\x\"}", "escape that is not allowed"),
        ROW("{\"video\":\"b\",\"text\":\"\\q\\\"}]\"}", "escape that is not allowed"),
        ROW("{\"video\":\"b\",\"text\":\"\xff\"}", "is not UTF-8"),
        ROW("{\"video\":\"b\",\"weight\":NaN}", "expected a value"),
        ROW("{\"video\":\"b\",\0\"text\":\"x\"}", "expected a string"),
        ROW("{\"video\":\"b\",\"tags\":[\"x\",]}", "a value is missing"),
    };
    static const char *const whole[] = {     /* these rows may continue in the next line */
        "[{\"video\":\"b\",\"text\":\"x},\n{\"video\":\"c\"},\n{\"video\":\"d\"}]",
        "[{\"video\":\"b\",\"text\":\"x\",\n{\"video\":\"c\"}]",
        "[{\"video\":\"b\",\"tags\":[\"x\"},{\"video\":\"c\"}]",
        "[{\"video\":\"b\",\"weight\":NaN} {\"video\":\"c\"}]",
        "[NaN,{\"video\":\"c\"}]",
    };
    vf_metadata m;
    vc_err err;

    for (size_t i = 0; i < sizeof spoilt / sizeof *spoilt; i++)
        for (int array = 0; array < 2; array++) {
            char text[200];
            size_t n = (size_t)sprintf(text, array ? "[{\"video\":\"a\"},\n" :
                                       "{\"video\":\"a\"}\n");
            memcpy(text + n, spoilt[i].row, spoilt[i].n);
            n += spoilt[i].n;
            n += (size_t)sprintf(text + n, array ? ",\n{\"video\":\"c\"}]" : "\n{\"video\":\"c\"}");
            expect_middle_bad(*state, array ? "json" : "jsonl", text, n, spoilt[i].bad);
        }
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        assert_fails(folder_read(*state, &m, "json", whole[i], strlen(whole[i]), NULL, &err),
                     VC_EFORMAT, &err, "row 1: line");
    }
}

/* One row has many captions; growing the list one by one would be slow. */
static void test_many_captions(void **state)
{
    enum { MANY = 300000 };
    char *text = malloc(MANY * 4 + 64), *p = text;
    vf_metadata m;
    vc_err err;

    p += sprintf(p, "[{\"video\":\"a\",\"text\":[\"c\"");
    for (int i = 1; i < MANY; i++)
        p += sprintf(p, ",\"c\"");
    p += sprintf(p, "]}]");
    assert_int_equal(folder_read(*state, &m, "json", text, (size_t)(p - text), NULL, &err), 0);
    assert_int_equal(m.rows[0].n_captions, MANY);
    assert_string_equal(m.rows[0].captions[MANY - 1], "c");
    vf_metadata_free(&m);
    free(text);
}

/* ---- damage ---- */

static void test_mutations(void **state)
{
    static const char csv[] =
        "0video,prompt,width,fps,tags,text_2\r\na.mp4,\"one, \"\"two\"\"\",640,24,\"x,y\","
        "caf\xc3\xa9\r\n\"b\n.mp4\",,,,,\r\nc,d,1,1,e,f\r\n";
    static const char json[] =
        "1[{\"file_path\":\"a.mp4\",\"text\":[\"one\",\"tw\\u00f6\"],\"type\":\"video\",\"width\":"
        "\"640\",\"fps\":24.5},\n {\"clip\":\"b\",\"pose\":{\"x\":[1]},\"tags\":[\"x\"]}]";
    static const char jsonl[] =
        "2{\"media_path\":\"a.mp4\",\"caption\":\"x\",\"weight\":2}\n\n{\"file_name\":\"b.png\"}\n";
    (void)state;
    mutate_run(csv, sizeof csv - 1, 1, 3400, LLVMFuzzerTestOneInput);
    mutate_run(json, sizeof json - 1, 2, 3400, LLVMFuzzerTestOneInput);
    mutate_run(jsonl, sizeof jsonl - 1, 3, 3400, LLVMFuzzerTestOneInput);
}

/* ---- the real set ---- */

static void test_real(void **state)
{
    static const struct {
        const char *name;
        int64_t rows;
        vf_type first;
    } lists[] = { { "metadata.json", 38, VF_TYPE_VIDEO }, { "metadata.csv", 24, VF_TYPE_VIDEO },
                  { "metadata_image.csv", 14, VF_TYPE_IMAGE } };
    (void)state;
    const char *data = getenv("VLT_TEST_DATA");
    if (!data)
        skip();
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        vf_metadata m;
        vc_err err;
        char *path = vc_path_join(data, lists[i].name);
        assert_int_equal(vf_metadata_read(&m, path, &(vf_metadata_opts){ 0 }, &err), 0);
        assert_int_equal(m.n, lists[i].rows);
        assert_int_equal(m.rows[0].type, lists[i].first);
        for (int64_t r = 0; r < m.n; r++) {
            assert_null(m.rows[r].bad);
            assert_true(vc_file_exists(m.rows[r].file));
            assert_true(*m.rows[r].captions[0]);
        }
        vf_metadata_free(&m);
        free(path);
    }
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, tmp_dir_setup, tmp_dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_rows), IN_FOLDER(test_fields), IN_FOLDER(test_refused),
        IN_FOLDER(test_numbers_and_ids), IN_FOLDER(test_long_lists), IN_FOLDER(test_row_too_long),
        IN_FOLDER(test_row_too_deep), IN_FOLDER(test_row_spoilt), IN_FOLDER(test_many_captions),
        IN_FOLDER(test_captions),
        cmocka_unit_test(test_mutations), cmocka_unit_test(test_real),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_layouts.c - folders in the layouts of other trainers: the list that is read, the sources of
 * captions, and refused folders with their reasons. */
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

/* A file is written as NAME=TEXT, or NAME if it is empty. */
typedef struct layout {
    const char *files[12];
    const char *rows;                  /* lines PATH|FILE|FROM|CAPTION|...; ! begins a bad row */
    const char *message;               /* part of the error, or of the bad row's reason */
    const char *caption_columns, *data_dir;
    int code;
} layout;

static const layout layouts[] = {
    /* caption files beside the clips: no list is read */
    { { "a.mp4", "a.txt=own", "b.mp4", "metadata.csv=file_name,text\na.mp4,x\nb.mp4,y\n" },
      "a.mp4|a.mp4|.txt|own\n!b.mp4|b.mp4||\n", "no caption: none of", NULL, NULL, 0 },
    { { "video.mp4", "video.txt=own", "prompt.txt=x" }, "video.mp4|video.mp4|.txt|own\n", NULL,
      NULL, NULL, 0 },
    { { "a.mp4", "a.txt=caf\xe9", "metadata.csv=file_name,text\na.mp4,x\n" },
      "!a.mp4|a.mp4||\n", "not UTF-8", NULL, NULL, 0 },
    /* two lists of lines */
    { { "prompt.txt=one \r\n\r\nthree", "videos.txt=v/a.mp4\nb.mp4\n\xc3\xa9.webm\n\n" },
      "v/a.mp4|v/a.mp4|prompt.txt|one\nb.mp4|b.mp4|prompt.txt|\n"
      "\xc3\xa9.webm|\xc3\xa9.webm|prompt.txt|three\n", NULL, NULL, NULL, 0 },
    { { "prompts.txt=x", "video.txt=a.mp4" }, "a.mp4|a.mp4|prompts.txt|x\n", NULL, NULL, NULL, 0 },
    { { "caption.txt=x\n", "images.txt=a.png\n", "a.png" }, "a.png|a.png|caption.txt|x\n", NULL,
      NULL, NULL, 0 },
    { { "captions.txt=x", "image.txt=a.png" }, "a.png|a.png|captions.txt|x\n", NULL, NULL, NULL,
      0 },
    { { "prompt.txt=x", "videos.txt=a.mp4", "videos/a.mp4" }, "a.mp4|videos/a.mp4|prompt.txt|x\n",
      NULL, NULL, NULL, 0 },
    { { "prompt.txt=x\ncaf\xe9", "videos.txt=a.mp4\nb.mp4" },
      "a.mp4|a.mp4|prompt.txt|x\n!||\n", "prompt.txt: line 2: byte 4 is not UTF-8 (0xe9): save it "
      "as UTF-8, as with iconv", NULL, NULL, 0 },
    { { "prompt.txt=x\ny", "videos.txt=a.mp4\n caf\xe9.mp4", "a.mp4" },
      "a.mp4|a.mp4|prompt.txt|x\n!||\n", "videos.txt: line 2: byte 5 is not UTF-8 (0xe9): save it "
      "as UTF-8, as with iconv", NULL, NULL, 0 },
    { { "prompt.txt=\xff\xfex", "videos.txt=a.mp4" }, NULL, "prompt.txt: UTF-16: save it as UTF-8",
      NULL, NULL, VC_EFORMAT },
    { { "words.txt=x", "videos.txt=a.mp4" }, "a.mp4|a.mp4|words.txt|x\n", NULL, "words.txt", NULL,
      0 },
    { { "prompts.txt=x\ny\nz", "videos.txt=a.mp4\nb.mp4", "a.mp4" }, NULL,
      "prompts.txt has 3 captions, videos.txt 2 media", NULL, NULL, VC_EFORMAT },
    { { "prompts.txt=x", "prompt.txt=x", "videos.txt=a.mp4" }, NULL,
      "which list is meant, prompt.txt or prompts.txt?", NULL, NULL, VC_EFORMAT },
    { { "prompts.txt=x", "images.txt=x", "videos.txt=a.mp4" }, NULL,
      "which list is meant, videos.txt or images.txt?", NULL, NULL, VC_EFORMAT },
    /* a Hugging Face folder, and DiffSynth's, VideoX-Fun's and Finetrainers' metadata there */
    { { "a.mp4", "b.mp4", "metadata.jsonl={\"file_name\":\"b.mp4\",\"text\":\"x\"}\n"
        "{\"file_name\":\"no.mp4\",\"text\":\"y\"}" },
      "b.mp4|b.mp4|text in metadata.jsonl|x\nno.mp4|no.mp4|text in metadata.jsonl|y\n", NULL, NULL,
      NULL, 0 },
    { { "a.mp4", "metadata.csv=video,Prompt\na.mp4,x\n" }, "a.mp4|a.mp4|Prompt in metadata.csv|x\n",
      NULL, NULL, NULL, 0 },
    { { "a.mp4", "metadata.csv=video,words\na.mp4,x\n" }, "a.mp4|a.mp4|words in metadata.csv|x\n",
      NULL, "words", NULL, 0 },
    { { "metadata.json=[{\"file_path\":\"a.mp4\",\"text\":\"x\"}]" },
      "a.mp4|/d/a.mp4|text in metadata.json|x\n", NULL, NULL, "/d", 0 },
    { { "a.mp4", "metadata.tsv=video\tprompt\na.mp4\tx\n" },
      "a.mp4|a.mp4|prompt in metadata.tsv|x\n", NULL, NULL, NULL, 0 },
    { { "a.mp4", "metadata.csv=video,words\na.mp4,x\n" }, NULL,
      "metadata.csv: no row has a caption; found: video, words; known: the columns text", NULL,
      NULL, VC_EFORMAT },
    { { "metadata.csv=video,text\na.mp4,x\n", "metadata.jsonl={}" }, NULL,
      "which list is meant, metadata.jsonl or metadata.csv? Remove one, or give the file itself",
      NULL, NULL, VC_EFORMAT },
    { { "train/a.mp4", "train/metadata.jsonl={\"file_name\":\"a.mp4\",\"text\":\"x\"}" }, NULL,
      "no row has a caption; found: train/metadata.jsonl; known:", NULL, NULL, VC_EFORMAT },
    /* FastVideo */
    { { "videos/a.mp4", "videos/b.mp4",
        "videos2caption.json=[{\"path\":\"b.mp4\",\"cap\":[\"x\",\"y\"]"
        "},{\"path\":\"videos/a.mp4\",\"cap\":\"z\"}]" },
      "b.mp4|videos/b.mp4|cap in videos2caption.json|x|y\n"
      "videos/a.mp4|videos/a.mp4|cap in videos2caption.json|z\n", NULL, NULL, NULL, 0 },
    /* diffusion-pipe */
    { { "a.mp4", "b.mp4", "c.mp4", "sub/d.png",
        "captions.json={\"sub/d.png\":\"w\",\"b.mp4\":[\"x\",\"y\"],\"a.mp4\":\"z\","
        "\"e.mp4\":\"v\"}" },
      "a.mp4|a.mp4|captions.json|z\nb.mp4|b.mp4|captions.json|x|y\n!c.mp4|c.mp4||\n"
      "sub/d.png|sub/d.png|captions.json|w\ne.mp4|e.mp4|captions.json|v\n",
      "no caption: none of captions.json", NULL, NULL, 0 },
    { { "a.mp4", "b.mp4", "captions.json={\"a.mp4\":7,\"b.mp4\":\"x\"}" },
      "!a.mp4|a.mp4||\nb.mp4|b.mp4|captions.json|x\n", "expected a string", NULL, NULL, 0 },
    { { "a.mp4", "captions.json=[{\"video\":\"a.mp4\",\"text\":\"x\"}]" },
      "a.mp4|a.mp4|text in captions.json|x\n", NULL, NULL, NULL, 0 },
    { { "a.mp4", "captions.json={\"a\":" }, NULL, "captions.json: ", NULL, NULL, VC_EFORMAT },
    { { "a.mp4", "captions.json={\"a.mp4\":null}" }, NULL, "no row has a caption", NULL, NULL,
      VC_EFORMAT },
    /* SAT */
    { { "videos/a.mp4", "videos/sub/b.mp4", "videos/c.mp4", "labels/a.txt=x\n",
        "labels/sub/b.txt=y" },
      "videos/a.mp4|videos/a.mp4|labels/|x\n!videos/c.mp4|videos/c.mp4||\n"
      "videos/sub/b.mp4|videos/sub/b.mp4|labels/|y\n", "no caption: none of", NULL, NULL, 0 },
    { { "videos/a.mp4", "videos/b.mp4", "labels/a.txt=caf\xe9", "labels/b.txt=x" },
      "!videos/a.mp4|videos/a.mp4||\nvideos/b.mp4|videos/b.mp4|labels/|x\n", "not UTF-8", NULL,
      NULL, 0 },
    /* --caption_column with a folder that has no list */
    { { "a.mp4", "a.txt=x" }, NULL, "--caption_column words: this folder has no list with columns",
      "words", NULL, VC_EUSAGE },
    { { "a.mp4", "captions.json={\"a.mp4\":\"x\"}" }, NULL, "--caption_column words: this folder",
      "words", NULL, VC_EUSAGE },
    { { "a.mp4" }, NULL, "--caption_column words: this folder", "words", NULL, VC_EUSAGE },
};

static void put(const folder *dir, const char *file)
{
    const char *text = strchr(file, '=');
    char *name = vc_format("%s/%.*s", dir->path, (int)(text ? text - file : (long)strlen(file)),
                           file);
    char *parent = vc_format("%.*s", (int)(vc_path_base(name) - name), name);
    assert_int_equal(vc_mkdirs(parent, NULL), 0);
    assert_int_equal(vc_file_write(name, text ? text + 1 : "", text ? strlen(text + 1) : 0, NULL),
                     0);
    free(parent);
    free(name);
}

static char *rows_as_text(const folder *dir, const vf_metadata *m)
{
    static char text[4096];
    size_t n = 0, own = strlen(dir->path);
    for (int64_t i = 0; i < m->n; i++) {
        const vf_row *r = &m->rows[i];
        const char *file = strncmp(r->file, dir->path, own) ? r->file : r->file + own + 1;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s|%s|", r->bad ? "!" : "", r->path,
                              file);
        if (r->bad && !*r->path)
            n--;                       /* a bad row without a path has no fields */
        else if (r->caption_from)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s", r->caption_from);
        for (int k = 0; k < r->n_captions; k++)
            n += (size_t)snprintf(text + n, sizeof text - n, "|%s", r->captions[k]);
        n += (size_t)snprintf(text + n, sizeof text - n, "\n");
    }
    return text;
}

static void check(const folder *dir, const layout *l)
{
    vf_metadata m;
    vc_err err = { 0 };
    vf_metadata_opts opts = { .caption_columns = l->caption_columns, .data_dir = l->data_dir };
    for (int i = 0; l->files[i]; i++)
        put(dir, l->files[i]);
    int rc = vf_metadata_read(&m, dir->path, &opts, &err);
    if (rc != l->code)
        print_error("%s: %d, expected %d: %s\n", l->files[0], rc, l->code, err.text);
    assert_int_equal(rc, l->code);
    if (rc) {
        if (!strstr(err.text, l->message))
            print_error("\"%s\" lacks \"%s\"\n", err.text, l->message);
        assert_says(&err, l->message);
        assert_int_equal(strncmp(err.text, dir->path, strlen(dir->path)), 0);
        return;
    }
    assert_string_equal(rows_as_text(dir, &m), l->rows);
    for (int64_t i = 0; i < m.n; i++) {
        assert_int_equal(m.rows[i].row, i + 1);
        if (m.rows[i].bad && !strstr(m.rows[i].bad, l->message))
            print_error("\"%s\" lacks \"%s\"\n", m.rows[i].bad, l->message);
        assert_true(!m.rows[i].bad || strstr(m.rows[i].bad, l->message));
    }
    vf_metadata_free(&m);
}

static void test_layouts(void **state)
{
    const folder *all = *state;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        folder dir;
        snprintf(dir.path, sizeof dir.path, "%.100s/%zu", all->path, i);
        check(&dir, &layouts[i]);
    }
}

/* Many entries of captions.json are found fast, because they are sorted. */
static void test_many(void **state)
{
    enum { MANY = 20000 };
    const folder *dir = *state;
    char *text = malloc(MANY * 40), *p = text;
    vf_metadata m;
    vc_err err;

    p += sprintf(p, "captions.json={\"z.mp4\":\"last\"");
    for (int i = MANY; i-- > 0;)
        p += sprintf(p, ",\"%d.mp4\":\"caption %d\"", i, i);
    sprintf(p, "}");
    put(dir, text);
    put(dir, "7.mp4");
    put(dir, "z.mp4");
    assert_int_equal(vf_metadata_read(&m, dir->path, &(vf_metadata_opts){ 0 }, &err), 0);
    assert_int_equal(m.n, MANY + 1);
    assert_string_equal(m.rows[0].captions[0], "caption 7");
    assert_string_equal(m.rows[1].captions[0], "last");
    assert_string_equal(m.rows[2].captions[0], "caption 0");
    vf_metadata_free(&m);
    free(text);
}

/* ---- tars ---- */

/* Appends a member of the type '0', a file, '5', a folder, or '1' or '2', a hard or a symbolic link
 * to text. */
static size_t tar_member(char *to, const char *name, char type, const char *text, size_t n)
{
    unsigned sum = 0;
    memset(to, 0, 512);
    snprintf(to, 100, "%s", name);
    if (type == '1' || type == '2') {
        memcpy(to + 157, text, n);
        n = 0;
    }
    memcpy(to + 100, "0000644\0000000000\0000000000\0", 24);
    snprintf(to + 124, 12, "%011o", (unsigned)n);
    memcpy(to + 136, "00000000000\0        ", 20);
    to[156] = type;
    memcpy(to + 257, "ustar\00000", 8);
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)to[i];
    snprintf(to + 148, 8, "%06o", sum);
    memset(to + 512, 0, (n + 511) / 512 * 512);
    memcpy(to + 512, text, n);
    return 512 + (n + 511) / 512 * 512;
}

static const struct { const char *name; char type; const char *text; } members[] = {
    { "README.md", '0', "words" },
    { "d/", '5', "" },
    { "d/._a.mp4", '0', "rubbish" },
    { "d/a.mp4", '0', "video a" },
    { "d/a.jpg", '0', "thumbnail" },
    { "d/a.txt", '0', " one\n" },
    { "b.left.png", '0', "left" },
    { "b.right.png", '0', "right" },
    { "b.json", '0', "{\"caption\":[\"x\",\"y\"],\"id\":7}" },
    { "c.mp4", '0', "c" },
    { "c.json", '0', "{\"id\":7}" },
    { "e.mp4", '0', "" },
    { "e.txt", '0', "empty" },
    { "f.mp4", '0', "f" },
    { "f.txt", '0', "caf\xe9" },
    { "g.mp4", '0', "g" },
    { "g.json", '0', "[" },
    { "h.txt", '0', "no medium" },
};
static const struct { const char *path, *text, *caption, *from, *bad; } tarred[] = {
    { "README", NULL, "", NULL, "no video or picture" },
    { "d/a.mp4", "video a", "one", ".txt in tar", NULL },
    { "b.left.png", "left", "x", "caption in tar's .json", NULL },
    { "b.right.png", "right", "x", "caption in tar's .json", NULL },
    { "c.mp4", "c", "", NULL, "no caption" },
    { "e.mp4", NULL, "", NULL, "the member is empty" },
    { "f.mp4", "f", "", NULL, ".txt is not UTF-8" },
    { "g.mp4", "g", "", NULL, "its .json: " },
    { "h", NULL, "", NULL, "no video or picture" },
};

static size_t make_tar(char *to)
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        n += tar_member(to + n, members[i].name, members[i].type, members[i].text,
                        strlen(members[i].text));
    memset(to + n, 0, 1024);
    return n + 1024;
}

static void test_tar(void **state)
{
    const folder *dir = *state;
    static char text[1 << 16];
    size_t n = make_tar(text);
    char *path = vc_path_join(dir->path, "x.tar");
    vf_metadata m;
    vc_err err = { 0 };
    assert_int_equal(vc_file_write(path, text, n, NULL), 0);
    for (int whole = 0; whole < 2; whole++) {
        assert_int_equal(vf_metadata_read(&m, whole ? dir->path : path, &(vf_metadata_opts){ 0 },
                                          &err), 0);
        assert_int_equal(m.n, sizeof tarred / sizeof *tarred);
        for (int64_t i = 0; i < m.n; i++) {
            const vf_row *r = &m.rows[i];
            assert_string_equal(r->file, path);
            assert_memory_equal(r->path, "x.tar/", 6);
            assert_string_equal(r->path + 6, tarred[i].path);
            assert_true(!tarred[i].text == !r->size);
            if (r->size)
                assert_memory_equal(text + r->at, tarred[i].text, (size_t)r->size);
            assert_string_equal(r->captions[0], tarred[i].caption);
            assert_true(!tarred[i].from == !r->caption_from);
            if (r->caption_from)
                assert_string_equal(r->caption_from, tarred[i].from);
            assert_true(!tarred[i].bad == !r->bad);
            if (r->bad)
                assert_non_null(strstr(r->bad, tarred[i].bad));
        }
        vf_metadata_free(&m);
    }
    free(path);
}

/* Members in any order: NAME=TEXT is a file, NAME>NAME a hard link, NAME~NAME a symbolic one. */
static const struct {
    const char *members[16];
    const char *rows;                  /* lines PATH|DATA|CAPTION; ! begins a bad row */
    const char *ignored, *bad;         /* bad: part of the reason of bad rows */
} orders[] = {
    /* a folder's order; captions before, behind and far from their media */
    { { "./b.txt=B", "./c.jpg=c", "./a.jpg=a", "./b.jpg=b", "./c.txt=C", "./a.txt=A" },
      "./b.jpg|b|B\n./c.jpg|c|C\n./a.jpg|a|A\n", NULL, NULL },
    { { "a.json={\"caption\":\"A\"}", "b.json={\"caption\":\"B\"}", "b.png=b", "a.png=a" },
      "a.png|a|A\nb.png|b|B\n", NULL, NULL },
    /* one name in several folders, with and without "./" */
    { { "d/a.jpg=1", "e/a.jpg=2", "a.jpg=3", "./e/a.txt=E", "a.txt=0", "./d/a.txt=D" },
      "d/a.jpg|1|D\ne/a.jpg|2|E\na.jpg|3|0\n", NULL, NULL },
    /* names with dots, as a folder has them: the whole stem counts before the key */
    { { "v.2.mp4=2", "v.1.txt=A", "v.1.mp4=1", "v.2.txt=B", "v.3.png=3", "v.3.txt=C" },
      "v.2.mp4|2|B\nv.1.mp4|1|A\nv.3.png|3|C\n", NULL, NULL },
    { { "a.left.png=l", "a.txt=A", "a.right.png=r", "a.left.txt=L" },
      "a.left.png|l|L\na.right.png|r|A\n", NULL, NULL },
    { { "a.mp4=v", "a.jpg=t", "a.first.png=f", "a.txt=A" }, "a.mp4|v|A\n",
      "still 2 (x.tar/a.first.png, ...: the thumbnail of the video of its key)", NULL },
    /* other captions */
    { { "a.jpg=a", "a.txt=\xef\xbb\xbf" "A\r\n" }, "a.jpg|a|A\n", NULL, NULL },
    { { "a.jpg=a", "a.TXT=A", "b.JPG=b", "b.caption=B" }, "a.jpg|a|A\nb.JPG|b|B\n", NULL, NULL },
    { { "a.jpg=a", "a.json={\"id\":7}", "a.caption=A" }, "a.jpg|a|A\n", NULL, NULL },
    { { "a.jpg=a", "a.txt=A", "a.json={\"caption\":\"no\"}", "a.caption=no" }, "a.jpg|a|A\n", NULL,
      NULL },
    { { "a.jpg=a", "a.txt=A", "a.0.txt=x", "a.1.txt=y", "a.cls=1" }, "a.jpg|a|A\n",
      ".0.txt 1 (x.tar/a.0.txt: it is no medium's caption), "
      ".1.txt 1 (x.tar/a.1.txt: it is no medium's caption), .cls 1 (x.tar/a.cls)", NULL },
    { { "a.jpg=a", "a.txt=A", "a.psd=h" }, "a.jpg|a|A\n",
      ".psd 1 (x.tar/a.psd: this kind of picture is not read: save it as .png)", NULL },
    /* the last of several members of one name counts, as it does when the tar is unpacked */
    { { "a.jpg=old", "a.txt=OLD", "b.jpg=b", "b.txt=B", "./a.jpg=new", "a.txt=NEW" },
      "./a.jpg|new|NEW\nb.jpg|b|B\n",
      "member 2 (x.tar/a.jpg, ...: a later one has the same name)", NULL },
    /* links */
    { { "a.jpg=a", "a.txt=A", "b.jpg>a.jpg", "b.txt>./a.txt", "d/c.jpg~../a.jpg",
        "d/c.txt~./../d/../b.txt" },
      "a.jpg|a|A\nb.jpg|a|A\nd/c.jpg|a|A\n", NULL, NULL },
    { { "a.jpg=old", "b.jpg>a.jpg", "c.jpg~a.jpg", "a.jpg=new", "a.txt=A", "b.txt=B", "c.txt=C" },
      "a.jpg|new|A\nb.jpg|old|B\nc.jpg|new|C\n",
      "member 1 (x.tar/a.jpg: a later one has the same name)", NULL },
    { { "a.jpg=a", "a.txt=A", "10_dog~../pets" }, "a.jpg|a|A\n",
      "link 1 (x.tar/10_dog: pack the files that it leads to with tar -h)", NULL },
    { { "a.jpg~/pets/a.jpg", "a.txt=A" }, "!a.jpg||\n", NULL, "a link to a file that is not in" },
    { { "a.jpg=a", "a.txt~a.txt" }, "!a.jpg||\n", NULL, "its .txt: a link to a file" },
    /* files of systems */
    { { "__MACOSX/._a.jpg=x", "__MACOSX/a.jpg=x", "a.jpg=a", "a.txt=A", ".git/a.jpg=x",
        "./._a.jpg=x", "Thumbs.db=x", "@eaDir/a.jpg/S.jpg=x" }, "a.jpg|a|A\n", NULL, NULL },
};

static size_t put_members(char *to, const char *const *member)
{
    size_t n = 0;
    for (int i = 0; i < 16 && member[i]; i++) {
        size_t name = strcspn(member[i], "=>~");
        const char *text = member[i] + name + 1;
        char type = member[i][name] == '>' ? '1' : member[i][name] == '~' ? '2' : '0';
        char own[100];
        snprintf(own, sizeof own, "%.*s", (int)name, member[i]);
        n += tar_member(to + n, own, type, text, strlen(text));
    }
    memset(to + n, 0, 1024);
    return n + 1024;
}

static void test_tar_order(void **state)
{
    const folder *dir = *state;
    static char tar[1 << 16], rows[4096];
    char *path = vc_path_join(dir->path, "x.tar");
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        vf_metadata m;
        size_t n = put_members(tar, orders[i].members), at = 0;
        OK(vc_file_write(path, tar, n, &err));
        OK(vf_metadata_read(&m, path, &(vf_metadata_opts){ .allow_empty_captions = true }, &err));
        *rows = 0;
        for (int64_t k = 0; k < m.n; k++) {
            const vf_row *r = &m.rows[k];
            at += (size_t)snprintf(rows + at, sizeof rows - at, "%s%s|%.*s|%s\n",
                                   r->bad ? "!" : "", r->path + 6, r->bad ? 0 : (int)r->size,
                                   tar + r->at, r->captions[0]);
            assert_true(!r->bad || strstr(r->bad, orders[i].bad));
        }
        assert_string_equal(rows, orders[i].rows);
        assert_string_equal(m.ignored ? m.ignored : "", orders[i].ignored ? orders[i].ignored : "");
        vf_metadata_free(&m);
    }
    free(path);
}

/* A tar that is cut short or has a changed byte is refused, or its rows' media lie inside. */
static void test_tar_damage(void **state)
{
    const folder *dir = *state;
    static char good[1 << 16], text[1 << 16];
    size_t whole = make_tar(good);
    char *path = vc_path_join(dir->path, "x.tar");
    for (size_t i = 0; i < whole + whole / 64; i++) {
        size_t n = i < whole ? whole : (i - whole) * 64;
        vf_metadata m;
        vc_err err = { 0 };
        if (i < whole && i % 512 > 160 && i % 7)
            continue;
        memcpy(text, good, whole);
        if (i < whole)
            text[i] ^= (char)(1 << i % 8);
        unlink(path);                  /* a file that is written anew would be flushed */
        FILE *f = fopen(path, "wb");
        assert_true(f && fwrite(text, 1, n, f) == n && !fclose(f));
        int rc = vf_metadata_read(&m, path, &(vf_metadata_opts){ 0 }, &err);
        for (int64_t r = 0; !rc && r < m.n; r++)
            assert_true(m.rows[r].at >= 0 && m.rows[r].size >= 0
                        && m.rows[r].at + m.rows[r].size <= (int64_t)n);
        if (rc)
            assert_true(rc == VC_EFORMAT && *err.text);
        else
            vf_metadata_free(&m);
    }
    free(path);
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, tmp_dir_setup, tmp_dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = { IN_FOLDER(test_layouts), IN_FOLDER(test_many),
                                        IN_FOLDER(test_tar), IN_FOLDER(test_tar_order),
                                        IN_FOLDER(test_tar_damage) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

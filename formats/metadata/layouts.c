/* layouts.c - reads lists that lie in a folder, in the layouts of other trainers; see metadata.h.
 *
 * If no medium has a caption file, the lists are looked up in the order of `layouts` below, and the
 * first that exists is read. */
#include "formats/metadata/parts.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/utf8.h"
#include "common/os/file.h"
#include "formats/json/json.h"
#include "formats/json/table.h"

#define CAPTIONS_JSON "captions.json"

enum { MAX_LIST = 1 << 30 };

/* Sets *path to the one of `names` that is in the folder, or to NULL; several are an error. */
static int find_one(char **path, const char *folder, const char *const *names, vc_err *err)
{
    int rc = 0;

    *path = NULL;
    for (; *names && !rc; names++) {
        char *p = vc_path_join(folder, *names);
        if (!p)
            rc = vc_no_memory(err);
        else if (vc_file_exists(p) && *path)
            rc = vc_fail(err, VC_EFORMAT, "%s: which list is meant, %s or %s? Remove one%s", folder,
                         vc_path_base(*path), *names, strcasecmp(vc_path_ext(p), ".txt")
                         ? ", or give the file itself" : "");
        else if (vc_file_exists(p)) {
            *path = p;
            continue;
        }
        free(p);
    }
    if (rc) {
        free(*path);
        *path = NULL;
    }
    return rc;
}

/* ---- tables: a Hugging Face folder, DiffSynth's, FastVideo's ---- */

/* Sets caption_from to "text in metadata.csv", for example. */
static int say_column(vf_row *r, const char *path, vc_err *err)
{
    char *from = vc_format("%s in %s", r->caption_from, vc_path_base(path));
    int rc = from ? metadata_say_from(r, from, err) : vc_no_memory(err);

    free(from);
    return rc;
}

static int read_table(metadata_list *l, const char *path, vc_err *err)
{
    metadata_begin_list(l);
    int rc = metadata_read_table(l, path, err);
    for (int64_t i = 0; i < l->list.n && !rc; i++)
        if (l->list.rows[i].caption_from)
            rc = say_column(&l->list.rows[i], path, err);
    return rc;
}

static int find_table(metadata_list *l, const char *folder, const char *const *names, bool *found,
                      vc_err *err)
{
    char *path;
    int rc = find_one(&path, folder, names, err);

    *found = path != NULL;
    if (!rc && path)
        rc = read_table(l, path, err);
    free(path);
    return rc;
}

static int find_metadata(metadata_list *l, const char *folder, bool *found, vc_err *err)
{
    static const char *const names[] = { "metadata.jsonl", "metadata.csv", "metadata.json",
                                         "metadata.tsv", NULL };
    return find_table(l, folder, names, found, err);
}

static int find_fastvideo(metadata_list *l, const char *folder, bool *found, vc_err *err)
{
    static const char *const names[] = { "videos2caption.json", NULL };
    return find_table(l, folder, names, found, err);
}

/* ---- captions.json of diffusion-pipe: an object, file name to caption or captions ---- */

static int by_key(const void *a, const void *b)
{
    return strcmp((*(cJSON *const *)a)->string, (*(cJSON *const *)b)->string);
}

/* Returns the object's entries in bytewise order, the order of the folder's files. */
static cJSON **sorted(const cJSON *o, int *n, vc_err *err)
{
    int i = 0;
    *n = cJSON_GetArraySize(o);
    cJSON **entry = malloc(((size_t)*n + 1) * sizeof *entry);

    if (!entry) {
        vc_no_memory(err);
        return NULL;
    }
    for (cJSON *v = o->child; v; v = v->next)
        entry[i++] = v;
    qsort(entry, (size_t)*n, sizeof *entry, by_key);
    return entry;
}

/* Makes a row of two columns. */
static int make_row(cJSON **row, const char *path, cJSON *captions, vc_err *err)
{
    *row = cJSON_CreateObject();
    if (*row && cJSON_AddStringToObject(*row, "path", path)
        && cJSON_AddItemReferenceToObject(*row, "captions", captions))
        return 0;
    cJSON_Delete(*row);
    *row = NULL;
    return vc_no_memory(err);
}

static int take_captions(vf_row *r, cJSON *v, vc_err *err)
{
    static const vf_metadata_opts none = { 0 };
    vc_err why = { 0 };
    cJSON *row;

    int rc = make_row(&row, r->path, v, err);
    if (rc)
        return rc;
    rc = metadata_read_captions(r, row, &none, &why);
    cJSON_Delete(row);
    if (rc && rc != VC_ENOMEM)
        rc = (r->bad = strdup(why.text)) ? 0 : VC_ENOMEM;
    return rc ? vc_no_memory(err) : r->caption_from ? metadata_say_from(r, CAPTIONS_JSON, err) : 0;
}

static int add_row(metadata_list *l, const char *path, cJSON *v, const char *from, vc_err *err)
{
    cJSON *row;
    int rc = make_row(&row, path, v, err);

    if (!rc)
        rc = metadata_take_row(l, l->list.n + 1, row, NULL, err);
    cJSON_Delete(row);
    if (rc)
        return rc;
    vf_row *r = &l->list.rows[l->list.n - 1];
    return r->caption_from ? metadata_say_from(r, from, err) : 0;
}

/* Matches files and entries in one pass, as both are in order. An entry without a file becomes a
 * row too, so that the loss of its caption is reported. */
static int match(metadata_list *l, const cJSON *o, vc_err *err)
{
    int n, k = 0, left = 0, rc = 0;
    int64_t files = l->list.n;
    cJSON **entry = sorted(o, &n, err);
    if (!entry)
        return VC_ENOMEM;

    for (int64_t i = 0; i < files && !rc; i++) {
        vf_row *r = &l->list.rows[i];
        for (; k < n && strcmp(entry[k]->string, r->path) < 0; k++)
            entry[left++] = entry[k];
        bool same = k < n && !strcmp(entry[k]->string, r->path);
        if (same && !r->bad)
            rc = take_captions(r, entry[k], err);
        k += same;
    }
    for (; k < n; k++)
        entry[left++] = entry[k];
    if (!rc)
        rc = metadata_check_rows(l, err);
    for (int i = 0; i < left && !rc; i++)
        rc = add_row(l, entry[i]->string, entry[i], CAPTIONS_JSON, err);
    free(entry);
    return rc;
}

static int find_captions_json(metadata_list *l, const char *folder, bool *found, vc_err *err)
{
    static const char *const names[] = { CAPTIONS_JSON, NULL };
    char *path;
    cJSON *o = NULL;

    int rc = find_one(&path, folder, names, err);
    if (rc || !path)
        return rc;
    rc = vf_json_read(&o, path, MAX_LIST, err);
    bool table = !rc && !cJSON_IsObject(o);
    *found = rc || table || !l->opts->caption_columns;
    if (table) {
        rc = read_table(l, path, err);
    } else if (!rc && *found) {
        l->known = CAPTIONS_JSON;
        rc = match(l, o, err);
        if (!rc)
            rc = vc_context(err, metadata_need_captions(l, err), "%s", path);
    }
    cJSON_Delete(o);
    free(path);
    return rc;
}

/* ---- two lists of lines: Finetrainers', CogVideoX-Factory's ---- */

typedef struct lines {
    char *path, **v;
    int n;
} lines;

static void free_lines(lines *t)
{
    for (int i = 0; i < t->n; i++)
        free(t->v[i]);
    free(t->v);
    free(t->path);
}

enum { NOT_TEXT = '\xff' };                      /* and the reason replace a line that is no text */

static int take_line(lines *t, const char *from, size_t length, vc_err *err)
{
    vc_err why = { 0 };
    char *bad = NULL;

    if (vc_utf8_check(from, length, &why)) {
        bad = vc_format("%c%s: line %d: %s", NOT_TEXT, vc_path_base(t->path), t->n + 1, why.text);
        if (!bad)
            return vc_no_memory(err);
        from = bad;
        length = strlen(bad);
    }
    metadata_trim(&from, &length);
    int rc = metadata_append(&t->v, &t->n, from, length, err);
    free(bad);
    return rc;
}

/* The reason why a line is no text, or NULL. */
static const char *bad_line(const char *line)
{
    return *line == NOT_TEXT ? line + 1 : NULL;
}

static int read_lines(lines *t, vc_err *err)
{
    char *all = NULL;
    size_t n = 0;

    int rc = vc_file_read(&all, &n, t->path, MAX_LIST, err);
    if (!rc)
        rc = vc_utf16_check(all, n < 4 ? n : 4, err);
    for (size_t at = n >= 3 && !memcmp(all, "\xef\xbb\xbf", 3) ? 3 : 0; at < n && !rc;) {
        const char *from = all + at, *nl = memchr(from, '\n', n - at);
        size_t length = nl ? (size_t)(nl - from) : n - at;
        at += length + 1;
        rc = take_line(t, from, length, err);
    }
    free(all);
    return vc_context(err, rc, "%s", t->path);
}

/* Removes blank lines at the end while the list is longer than the other list. */
static void drop_blank(lines *a, const lines *b)
{
    while (a->n > b->n && !*a->v[a->n - 1])
        free(a->v[--a->n]);
}

static int pair(metadata_list *l, lines *captions, lines *media, vc_err *err)
{
    const char *path = captions->path, *name = vc_path_base(path);
    int rc = 0;

    drop_blank(captions, media);
    drop_blank(media, captions);
    if (captions->n != media->n)
        return vc_fail(err, VC_EFORMAT, "%.*s: %s has %d captions, %s %d media: one a line each",
                       (int)(name - path - 1), path, name, captions->n, vc_path_base(media->path),
                       media->n);
    for (int i = 0; i < media->n && !rc; i++) {
        cJSON *v = cJSON_CreateString(captions->v[i]);
        const char *caption = bad_line(captions->v[i]), *medium = bad_line(media->v[i]);
        const char *bad = caption ? caption : medium;
        rc = !v ? vc_no_memory(err) : bad ? metadata_take_row(l, i + 1, NULL, bad, err)
                                       : add_row(l, media->v[i], v, name, err);
        cJSON_Delete(v);
    }
    return rc;
}

/* Finds the file of captions. --caption_column may name the file, as in CogVideoX-Factory. */
static int find_captions(char **path, const char *folder, const char *own, vc_err *err)
{
    static const char *const names[] = { "prompt.txt", "prompts.txt", "caption.txt",
                                         "captions.txt", NULL };
    const char *const named[] = { own, NULL };

    return find_one(path, folder, own ? named : names, err);
}

static int find_lines(metadata_list *l, const char *folder, bool *found, vc_err *err)
{
    static const char *const names[] = { "video.txt", "videos.txt", "image.txt", "images.txt",
                                         NULL };
    vf_metadata_opts opts = *l->opts;
    const vf_metadata_opts *given = l->opts;
    lines captions = { 0 }, media = { 0 };

    int rc = find_captions(&captions.path, folder, opts.caption_columns, err);
    if (!rc && captions.path)
        rc = find_one(&media.path, folder, names, err);
    if (!rc && media.path) {
        *found = true;
        opts.caption_columns = NULL;             /* --caption_column named a file, not a column */
        l->opts = &opts;
        metadata_begin_list(l);
        rc = read_lines(&captions, err);
        if (!rc)
            rc = read_lines(&media, err);
        if (!rc)
            rc = pair(l, &captions, &media, err);
        l->opts = given;
    }
    free_lines(&captions);
    free_lines(&media);
    return rc;
}

/* ---- SAT: videos/NAME.mp4 and labels/NAME.txt ---- */

/* Returns the label's path, or NULL if the file is in no folder videos (*why has code 0) or memory
 * ran out. */
static char *label_of(const char *file, vc_err *why)
{
    static const char videos[] = "/videos/";
    const char *at = NULL, *ext = vc_path_ext(file);

    for (const char *p = file; (p = strstr(p, videos)); p++)
        at = p;
    if (!at)
        return NULL;
    const char *rest = at + sizeof videos - 1;
    char *path = vc_format("%.*s/labels/%.*s.txt", (int)(at - file), file, (int)(ext - rest), rest);
    if (!path)
        vc_no_memory(why);
    return path;
}

static int find_labels(metadata_list *l, const char *folder, bool *found, vc_err *err)
{
    for (int64_t i = 0; i < l->list.n && !l->opts->caption_columns; i++) {
        vf_row *r = &l->list.rows[i];
        vc_err why = { 0 };
        char *path = r->bad ? NULL : label_of(r->file, &why);
        int rc = path ? metadata_read_text(r, path, "labels/", l->opts->caption_lines, &why)
                      : why.code;
        free(path);
        if (path && rc != VC_ENOENT)
            *found = true;
        r->unread = r->unread || rc == VC_EIO;
        if (rc && rc != VC_ENOENT && rc != VC_ENOMEM)
            rc = (r->bad = strdup(why.text)) ? 0 : VC_ENOMEM;
        if (rc == VC_ENOMEM)
            return vc_no_memory(err);
    }
    if (!*found)
        return 0;
    l->known = "labels/NAME.txt";
    int rc = metadata_check_rows(l, err);
    return rc ? rc : vc_context(err, metadata_need_captions(l, err), "%s", folder);
}

/* ---- all layouts ---- */

int metadata_find_list(metadata_list *l, const char *folder, bool *found, vc_err *err)
{
    static int (*const layouts[])(metadata_list *l, const char *folder, bool *found,
                                  vc_err *err) = {
        find_metadata, find_fastvideo, find_captions_json, find_lines, metadata_find_tars,
        find_labels, metadata_find_hub,
    };
    int rc = 0;

    *found = false;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts && !rc && !*found; i++)
        rc = layouts[i](l, folder, found, err);
    return rc;
}

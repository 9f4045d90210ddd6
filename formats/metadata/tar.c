/* tar.c - reads WebDataset's tars, in which members of one stem are a sample; see metadata.h.
 *
 * The tar is mapped, so that libarchive's pointers to a member's data lie in the map, and a row
 * holds the byte of the tar at which its medium begins. Only plain tars allow this; WebDataset's
 * are plain. */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/utf8.h"
#include "common/os/file.h"
#include "formats/json/json.h"
#include "formats/metadata/parts.h"

enum { MAX_MEDIA = 32, MAX_CAPTION = 1 << 20 };

typedef struct member {
    char *name;
    int64_t at, size;                  /* size -1: the data do not lie in one piece of the tar */
} member;

typedef struct tar {
    metadata_list *l;
    const char *path, *name;           /* name: the first part of the rows' paths */
    vc_map map;
    char *stem;                        /* stem of the sample that is being read, or NULL */
    member medium[MAX_MEDIA], text, json;
    int n;
} tar;

static void clear(tar *t)
{
    for (int i = 0; i < t->n; i++)
        free(t->medium[i].name);
    free(t->text.name);
    free(t->json.name);
    free(t->stem);
    t->text = t->json = (member){ 0 };
    t->stem = NULL;
    t->n = 0;
}

/* ---- one sample ---- */

static const char *data_of(const tar *t, const member *m)
{
    return (const char *)t->map.data + m->at;
}

static int read_text(vf_row *r, const tar *t, vc_err *why)
{
    const char *s = data_of(t, &t->text);
    size_t n = (size_t)t->text.size;

    if (t->text.size < 0 || t->text.size > MAX_CAPTION)
        return vc_fail(why, VC_EFORMAT, "its .txt cannot be read");
    metadata_trim(&s, &n);
    if (n && (vc_utf8_prefix(s, n) < n || memchr(s, 0, n)))
        return vc_fail(why, VC_EFORMAT, "its .txt is not UTF-8 text");
    int rc = metadata_append(&r->captions, &r->n_captions, s, n, why);
    return rc ? rc : metadata_say_from(r, ".txt in tar", why);
}

static int read_json(vf_row *r, const tar *t, vc_err *why)
{
    cJSON *o = NULL;

    if (t->json.size < 0 || t->json.size > MAX_CAPTION)
        return vc_fail(why, VC_EFORMAT, "its .json cannot be read");
    int rc = vf_json_parse(&o, data_of(t, &t->json), (size_t)t->json.size, why);
    if (!rc && !cJSON_IsObject(o))
        rc = vc_fail(why, VC_EFORMAT, "not an object");
    rc = vc_context(why, rc, "its .json");
    if (!rc)
        rc = metadata_read_captions(r, o, t->l->opts, why);
    char *from = !rc && r->caption_from ? vc_format("%s in tar's .json", r->caption_from) : NULL;
    if (from)
        rc = metadata_say_from(r, from, why);
    for (const cJSON *v = !rc && !from ? o->child : NULL; v && !rc; v = v->next)
        rc = metadata_saw(t->l, v->string, why);
    free(from);
    cJSON_Delete(o);
    return rc;
}

static int read_medium(vf_row *r, const tar *t, const member *m, vc_err *why)
{
    if (vc_utf8_prefix(m->name, strlen(m->name)) < strlen(m->name))
        return vc_fail(why, VC_EFORMAT, "the member's name is not UTF-8");
    if (m->size < 0)
        return vc_fail(why, VC_EFORMAT, "its data do not lie in one piece of the tar, or are cut "
                       "short: unpack it with tar -xf, and give the folder");
    if (!m->size)
        return vc_fail(why, VC_EFORMAT, "the member is empty");
    r->at = m->at;
    r->size = m->size;
    if (t->text.name && !t->l->opts->caption_columns)
        return read_text(r, t, why);
    return t->json.name ? read_json(r, t, why) : 0;
}

/* Adds a row for a medium, or a bad row if m is NULL. */
static int add(tar *t, const char *name, const member *m, const char *bad, vc_err *err)
{
    vf_row *r;
    vc_err why = { 0 };
    int rc = metadata_add(t->l, t->l->list.n + 1, &r, err);

    if (rc)
        return rc;
    r->path = *name ? vc_format("%s/%s", t->name, name) : strdup(t->name);
    r->file = strdup(t->path);
    r->type = vf_type_of_name(name);
    if (!r->path || !r->file)
        return vc_no_memory(err);
    rc = m ? read_medium(r, t, m, &why) : vc_fail(&why, VC_EFORMAT, "%s", bad);
    if (rc == VC_ENOMEM || (rc && !(r->bad = strdup(why.text))))
        return vc_no_memory(err);
    if (!r->n_captions && metadata_append(&r->captions, &r->n_captions, "", 0, err))
        return VC_ENOMEM;
    return metadata_check_caption(t->l, r, err);
}

/* Adds the rows of a sample. A still beside a video is the video's thumbnail and is left out. */
static int end_sample(tar *t, vc_err *err)
{
    bool video = false;
    int rc = 0;

    for (int i = 0; i < t->n; i++)
        video |= vf_type_of_name(t->medium[i].name) == VF_TYPE_VIDEO;
    for (int i = 0; i < t->n && !rc; i++)
        if (!video || vf_type_of_name(t->medium[i].name) == VF_TYPE_VIDEO)
            rc = add(t, t->medium[i].name, &t->medium[i], NULL, err);
    if (!rc && t->stem && !t->n)
        rc = add(t, t->stem, NULL, "no video or picture among the members of this stem", err);
    clear(t);
    return rc;
}

/* ---- members ---- */

/* Sets the place of the entry's data in the tar. */
static void place(const tar *t, struct archive *a, struct archive_entry *e, member *m)
{
    const void *p = NULL;
    size_t n = 0;
    la_int64_t from = 0;

    m->size = archive_entry_size(e);
    if (!m->size)
        return;
    int got = archive_read_data_block(a, &p, &n, &from);
    uintptr_t base = (uintptr_t)t->map.data, at = (uintptr_t)p;
    bool whole = got == ARCHIVE_OK && !from && (int64_t)n == m->size && at >= base
                 && at - base <= t->map.size && n <= t->map.size - (at - base);
    m->at = whole ? (int64_t)(at - base) : 0;
    m->size = whole ? m->size : -1;
}

/* Returns the member of the sample to fill from the file, or NULL if the file is not read. */
static member *slot(tar *t, const char *name, const char *ending, vc_err *err, int *rc)
{
    if (vf_type_of_name(name) != VF_TYPE_UNKNOWN && t->n == MAX_MEDIA)
        *rc = vc_fail(err, VC_EFORMAT, "%s: more than %d media of one stem", name, MAX_MEDIA);
    else if (vf_type_of_name(name) != VF_TYPE_UNKNOWN)
        return &t->medium[t->n++];
    else if (!strcasecmp(ending, ".txt") && !t->text.name)
        return &t->text;
    else if (!strcasecmp(ending, ".json") && !t->json.name)
        return &t->json;
    else
        *rc = metadata_saw(t->l, ending, err);
    return NULL;
}

/* Takes an entry of the tar into its sample. As in WebDataset, a stem ends at the first dot of the
 * last part of the path. */
static int take(tar *t, struct archive *a, struct archive_entry *e, vc_err *err)
{
    const char *name = archive_entry_pathname(e), *base = name ? vc_path_base(name) : "";
    size_t stem = (size_t)(base - name) + strcspn(base, ".");
    int rc = 0;

    if (archive_entry_filetype(e) != AE_IFREG || !*base || *base == '.')
        return 0;
    if (!t->stem || strncmp(t->stem, name, stem) || t->stem[stem]) {
        rc = end_sample(t, err);
        if (!rc && !(t->stem = vc_format("%.*s", (int)stem, name)))
            rc = vc_no_memory(err);
    }
    member *m = rc ? NULL : slot(t, name, name + stem, err, &rc);
    if (!m)
        return rc;
    if (!(m->name = strdup(name)))
        return vc_no_memory(err);
    place(t, a, e, m);
    return 0;
}

/* Reads all members. A damaged tar gets a bad row, so that the damage is reported; the rows before
 * the damage stay. */
static int read_members(tar *t, struct archive *a, vc_err *err)
{
    struct archive_entry *e;
    int rc = 0, got = 0;

    if (archive_read_support_format_tar(a) || archive_read_open_memory(a, t->map.data, t->map.size))
        got = ARCHIVE_FATAL;
    while (!rc && got == ARCHIVE_OK && ((got = archive_read_next_header(a, &e)) == ARCHIVE_OK
                                        || got == ARCHIVE_WARN)) {
        rc = take(t, a, e, err);
        got = ARCHIVE_OK;
    }
    if (!rc)
        rc = end_sample(t, err);
    if (rc || got == ARCHIVE_EOF)
        return rc;
    char *bad = vc_format("no plain tar, or damaged from here on: %s", archive_error_string(a));
    rc = bad ? add(t, "", NULL, bad, err) : vc_no_memory(err);
    free(bad);
    return rc;
}

int metadata_read_tar(metadata_list *l, const char *path, vc_err *err)
{
    tar t = { .l = l, .path = path, .name = vc_path_base(path) };
    const char *own = l->opts->caption_columns;

    l->known = own ? own : "a .txt of the medium's stem, or a .json with the columns "
                           METADATA_CAPTIONS;
    int rc = vc_map_open(&t.map, path, err);
    if (rc)
        return rc;
    struct archive *a = archive_read_new();
    rc = a ? read_members(&t, a, err) : vc_no_memory(err);
    if (a)
        archive_read_free(a);
    clear(&t);
    vc_map_close(&t.map);
    return vc_context(err, rc, "%s", path);
}

/* ---- a folder of tars ---- */

static int is_tar(const struct dirent *e)
{
    return *e->d_name != '.' && !strcasecmp(vc_path_ext(e->d_name), ".tar");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int metadata_find_tars(metadata_list *l, const char *folder, bool *found, vc_err *err)
{
    struct dirent **name = NULL;
    int n = scandir(folder, &name, is_tar, by_name), rc = 0;

    if (n < 0)
        return vc_fail_errno(err, "%s", folder);
    if (n)
        metadata_begin_list(l);
    *found = n > 0;
    for (int i = 0; i < n; i++) {
        char *path = rc ? NULL : vc_path_join(folder, name[i]->d_name);
        if (!rc)
            rc = path ? metadata_read_tar(l, path, err) : vc_no_memory(err);
        free(path);
        free(name[i]);
    }
    free(name);
    return rc || !n ? rc : vc_context(err, metadata_need_captions(l, err), "%s", folder);
}

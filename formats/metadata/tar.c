/* tar.c - reads WebDataset's tars, in which members of one key are a sample; see metadata.h.
 *
 * All members are listed before the first row is made, so that their order, which is a folder's
 * arbitrary one after `tar cf x.tar FOLDER`, has no influence on captions. */
#include "formats/metadata/tar_members.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/utf8.h"
#include "common/os/file.h"
#include "formats/json/json.h"

enum { MAX_CAPTION = 1 << 20 };

typedef struct tar {
    metadata_list *l;
    const char *path, *name;           /* name: the first part of the rows' paths */
    vc_map map;
    tar_members members;
    metadata_stems stems;              /* captions and videos, whose rank is twice their kind, and 1
                                          more for an ending in capitals */
} tar;

/* ---- one row ---- */

static const char *data_of(const tar *t, const tar_member *m)
{
    return (const char *)t->map.data + m->at;
}

static int check_caption(const tar_member *m, const char *ending, vc_err *why)
{
    if (m->size < 0)
        return vc_fail(why, VC_EFORMAT, "its %s: %s", ending, m->why);
    if (m->size > MAX_CAPTION)
        return vc_fail(why, VC_EFORMAT, "its %s has %" PRId64 " bytes, more than %d", ending,
                       m->size, MAX_CAPTION);
    return 0;
}

static int read_text(vf_row *r, const tar *t, const tar_member *m, const char *ending, vc_err *why)
{
    const char *s = data_of(t, m);
    size_t n = (size_t)m->size;
    int rc = check_caption(m, ending, why);

    if (rc)
        return rc;
    size_t bom = n >= 3 && !memcmp(s, "\xef\xbb\xbf", 3) ? 3 : 0;
    s += bom;
    n -= bom;
    rc = vc_context(why, vc_utf8_check(s, n, why), "its %s is not UTF-8 text", ending);
    if (rc)
        return rc;
    rc = metadata_add_text(r, s, n, t->l->opts->caption_lines, why);
    char *from = rc ? NULL : vc_format("%s in tar", ending);
    if (!rc)
        rc = from ? metadata_say_from(r, from, why) : vc_no_memory(why);
    free(from);
    return rc;
}

static int read_json(vf_row *r, const tar *t, const tar_member *m, vc_err *why)
{
    cJSON *o = NULL;
    int rc = check_caption(m, ".json", why);

    if (rc)
        return rc;
    rc = vf_json_parse(&o, data_of(t, m), (size_t)m->size, why);
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

static metadata_stem *find_stem(const tar *t, const tar_member *m, size_t stem, tar_kind k)
{
    metadata_stem *s = metadata_stems_find(&t->stems, m->clean, stem, 2 * (int)k);
    return s && s->rank / 2 == (int)k ? s : NULL;
}

/* Returns the member of a kind that has the medium's stem, else its key, or NULL: a.left.png has
 * the caption a.left.txt, else a.txt. */
static const tar_member *find(const tar *t, const tar_member *m, tar_kind k)
{
    metadata_stem *s = find_stem(t, m, m->stem, k);

    s = s ? s : find_stem(t, m, m->key, k);
    if (s)
        s->used = true;
    return s ? &t->members.v[s->of] : NULL;
}

/* of[kind]: the medium's member of this kind, or NULL. */
static int read_caption(vf_row *r, const tar *t, const tar_member *const *of, vc_err *why)
{
    const bool columns = t->l->opts->caption_columns;
    int rc = 0;

    if (of[TAR_TEXT] && !columns)
        return read_text(r, t, of[TAR_TEXT], ".txt", why);
    if (of[TAR_JSON])
        rc = read_json(r, t, of[TAR_JSON], why);
    if (rc || !of[TAR_CAPTION] || r->caption_from || columns)
        return rc;
    while (r->n_captions)                        /* the empty one of a .json without captions */
        free(r->captions[--r->n_captions]);
    return read_text(r, t, of[TAR_CAPTION], ".caption", why);
}

static int read_medium(vf_row *r, const tar *t, const tar_member *m, vc_err *why)
{
    const tar_member *const of[] = { [TAR_TEXT] = find(t, m, TAR_TEXT),
                                     [TAR_JSON] = find(t, m, TAR_JSON),
                                     [TAR_CAPTION] = find(t, m, TAR_CAPTION) };

    if (vc_utf8_prefix(m->name, strlen(m->name)) < strlen(m->name))
        return vc_fail(why, VC_EFORMAT, "the member's name is not UTF-8: rename the file "
                       "and make the tar again");
    if (m->size < 0)
        return vc_fail(why, VC_EFORMAT, "%s", m->why);
    if (!m->size)
        return vc_fail(why, VC_EFORMAT, "the member is empty");
    r->at = m->at;
    r->size = m->size;
    return read_caption(r, t, of, why);
}

/* Adds a row for a medium, or a bad row if m is NULL. */
static int add(tar *t, const char *name, const tar_member *m, const char *bad, vc_err *err)
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

/* ---- samples ---- */

static int ignore(const tar *t, const tar_member *m, const char *what, const char *why, vc_err *err)
{
    char *path = vc_format("%s/%s", t->name, m->name);
    int rc = path ? metadata_ignore(t->l, what, path, why, err) : vc_no_memory(err);

    free(path);
    return rc;
}

/* A still beside a video of its key is the video's thumbnail, unless it has a caption of its own,
 * as in a packed folder with clip.1.mp4 and clip.2.png. */
static bool is_thumbnail(const tar *t, const tar_member *m)
{
    bool own = find_stem(t, m, m->stem, TAR_TEXT) || find_stem(t, m, m->stem, TAR_JSON)
               || find_stem(t, m, m->stem, TAR_CAPTION);

    return m->kind == TAR_STILL && (!own || find_stem(t, m, m->stem, TAR_VIDEO));
}

static int add_media(tar *t, tar_member *const *of, int64_t n, bool *any, vc_err *err)
{
    bool video = false;
    int rc = 0;

    for (int64_t i = 0; i < n; i++)
        video |= !of[i]->replaced && of[i]->kind == TAR_VIDEO;
    for (int64_t i = 0; i < n && !rc; i++) {
        const tar_member *m = of[i];
        if (m->replaced || (m->kind != TAR_VIDEO && m->kind != TAR_STILL))
            continue;
        *any = true;
        if (video && is_thumbnail(t, m))
            rc = ignore(t, m, "still", "the thumbnail of the video of its key", err);
        else
            rc = add(t, m->name, m, NULL, err);
    }
    return rc;
}

static int ignore_other(const tar *t, const tar_member *m, vc_err *err)
{
    if (m->link && !m->hard)                     /* to a folder, perhaps */
        return ignore(t, m, "link", "pack the files that it leads to with tar -h", err);
    return ignore(t, m, m->clean + m->key, metadata_why_ignored(m->clean), err);
}

/* Adds the rows of the members of one key, or a bad row if there is no medium. */
static int add_sample(tar *t, tar_member *const *of, int64_t n, vc_err *err)
{
    const tar_member *last = of[n - 1];
    bool any = false;
    int rc = add_media(t, of, n, &any, err);

    if (!rc && !any && n == 1 && last->kind == TAR_OTHER && last->link && !last->hard)
        return ignore_other(t, last, err);
    for (int64_t i = 0; i < n && any && !rc; i++)
        if (!of[i]->replaced && of[i]->kind == TAR_OTHER)
            rc = ignore_other(t, of[i], err);
    if (rc || any)
        return rc;
    char *key = vc_format("%.*s", (int)(last->clean - last->name + (long)last->key), last->name);
    rc = key ? add(t, key, NULL, "no video or picture among the members of this stem", err)
             : vc_no_memory(err);
    free(key);
    return rc;
}

static bool same_key(const tar_member *a, const tar_member *b)
{
    return a->key == b->key && !memcmp(a->clean, b->clean, a->key);
}

typedef struct sample {
    tar_member **of;
    int64_t n, order;                  /* order: of its first tar_member */
} sample;

static int by_order(const void *a, const void *b)
{
    const sample *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

/* Adds the samples in the order of their first members. */
static int add_samples(tar *t, vc_err *err)
{
    sample *s = malloc(((size_t)t->members.n + 1) * sizeof *s);
    int64_t n = 0;
    int rc = s ? 0 : vc_no_memory(err);

    for (int64_t i = 0; i < t->members.n && !rc; i++) {
        if (!i || !same_key(t->members.by_key[i - 1], t->members.by_key[i]))
            s[n++] = (sample){ .of = t->members.by_key + i, .order = t->members.by_key[i]->order };
        s[n - 1].n++;
    }
    if (n)
        qsort(s, (size_t)n, sizeof *s, by_order);
    for (int64_t i = 0; i < n && !rc; i++)
        rc = add_sample(t, s[i].of, s[i].n, err);
    free(s);
    return rc;
}

/* Reports captions of no medium, and members that later ones replace. */
static int say_unused(tar *t, vc_err *err)
{
    int rc = 0;

    for (int64_t i = 0; i < t->stems.n && !rc; i++) {
        const metadata_stem *s = &t->stems.v[i];
        const tar_member *m = &t->members.v[s->of];
        if (s->used || (m->kind != TAR_TEXT && m->kind != TAR_CAPTION))
            continue;
        rc = ignore(t, m, m->clean + m->key, "it is no medium's caption", err);
        if (!rc)
            rc = metadata_saw(t->l, m->clean + m->key, err);
    }
    for (int64_t i = 0; i < t->members.n && !rc; i++)
        if (t->members.v[i].kind == TAR_OTHER)
            rc = metadata_saw(t->l, t->members.v[i].clean + t->members.v[i].key, err);
        else if (t->members.v[i].replaced)
            rc = ignore(t, &t->members.v[i], "member", "a later one has the same name", err);
    return rc;
}

/* Lists captions and videos by their stems. */
static int list_stems(tar *t, vc_err *err)
{
    static const char *const exact[] = { [TAR_TEXT] = ".txt", [TAR_JSON] = ".json",
                                         [TAR_CAPTION] = ".caption" };
    int rc = 0;

    for (int64_t i = 0; i < t->members.n && !rc; i++) {
        const tar_member *m = &t->members.v[i];
        if (m->replaced || m->kind > TAR_VIDEO)
            continue;
        bool other = m->kind != TAR_VIDEO && strcmp(m->clean + m->stem, exact[m->kind]);
        rc = metadata_stems_add(&t->stems, (metadata_stem){
                                    .path = m->clean, .stem = m->stem,
                                    .rank = 2 * (int)m->kind + other, .of = i }, err);
    }
    metadata_stems_sort(&t->stems);
    return rc;
}

/* A damaged tar gets a bad row, so that the damage is reported; the rows before the damage stay. */
static int add_rows(tar *t, vc_err *err)
{
    int rc = tar_members_read(&t->members, &t->map, err);

    if (!rc)
        rc = list_stems(t, err);
    if (!rc)
        rc = add_samples(t, err);
    if (!rc)
        rc = say_unused(t, err);
    return rc || !t->members.damage ? rc : add(t, "", NULL, t->members.damage, err);
}

int metadata_read_tar(metadata_list *l, const char *path, vc_err *err)
{
    tar t = { .l = l, .path = path, .name = vc_path_base(path) };
    const char *own = l->opts->caption_columns;

    l->known = own ? own : "a .txt or .caption of the medium's stem, or a .json with the "
                           "columns " METADATA_CAPTIONS;
    int rc = vc_map_open(&t.map, path, err);
    if (rc)
        return rc;
    rc = add_rows(&t, err);
    tar_members_free(&t.members);
    free(t.stems.v);
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

/* Reports the media of the folder, which are no rows if its tars are. */
static int begin_tars(metadata_list *l, vc_err *err)
{
    vf_metadata beside = l->list;
    int rc = 0;

    l->list = (vf_metadata){ 0 };
    metadata_begin_list(l);
    for (int64_t i = 0; i < beside.n && !rc; i++)
        rc = metadata_ignore(l, vc_path_ext(beside.rows[i].path), beside.rows[i].path,
                             "not in a tar, and the folder's tars are read", err);
    vf_metadata_free(&beside);
    return rc;
}

int metadata_find_tars(metadata_list *l, const char *folder, bool *found, vc_err *err)
{
    struct dirent **name = NULL;
    int n = scandir(folder, &name, is_tar, by_name), rc = 0;

    if (n < 0)
        return vc_fail_errno(err, "%s", folder);
    if (n)
        rc = begin_tars(l, err);
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

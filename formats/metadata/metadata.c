/* metadata.c - collects, numbers and frees the rows of a list; see metadata.h. row.c reads one row,
 * folder.c a folder, layouts.c a list that lies in a folder, tar.c a tar, kinds.c the endings of
 * names. */
#include "formats/metadata/metadata.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "formats/columnar/columnar.h"
#include "formats/json/table.h"
#include "formats/metadata/parts.h"

vf_part vf_row_part(const vf_row *r)
{
    return (vf_part){ .name = r->size || r->column ? r->path : r->file, .file = r->file,
                      .at = r->at, .size = r->size, .column = r->column, .values = r->values };
}

const vf_side *vf_row_side(const vf_row *r, vf_beside which)
{
    const int k = (int)which - VF_REFERENCE;
    if (k < 0)
        return r->beside[which].path ? &r->beside[which] : NULL;
    return k < r->n_references ? &r->references[k] : NULL;
}

void metadata_free_row(vf_row *r)
{
    free(r->path);
    free(r->file);
    for (int i = 0; i < r->n_captions; i++)
        free(r->captions[i]);
    free(r->captions);
    free(r->caption_from);
    for (int i = 0; i < r->n_tags; i++)
        free(r->tags[i]);
    free(r->tags);
    for (int i = 0; i < VF_COLUMNS; i++) {
        free(r->beside[i].path);
        free(r->beside[i].file);
    }
    metadata_free_references(r);
    for (int i = 0; i < r->n_extra; i++) {
        free(r->extra[i].column);
        free(r->extra[i].value);
    }
    free(r->extra);
    free(r->bad);
}

void vf_metadata_free(vf_metadata *m)
{
    for (int64_t i = 0; i < m->n; i++)
        metadata_free_row(&m->rows[i]);
    free(m->rows);
    free(m->ignored);
    free(m->lists);
    vf_columnar_close(m->values);
    *m = (vf_metadata){ 0 };
}

int metadata_add(metadata_list *l, int64_t number, vf_row **row, vc_err *err)
{
    vf_metadata *m = &l->list;

    if (m->n == l->cap) {
        int64_t cap = l->cap ? l->cap + l->cap / 2 : 64;
        vf_row *more = realloc(m->rows, (size_t)cap * sizeof *more);
        if (!more)
            return vc_fail(err, VC_ENOMEM, "out of memory for %lld rows", (long long)cap);
        m->rows = more;
        l->cap = cap;
    }
    *row = &m->rows[m->n++];
    **row = (vf_row){ .row = number, .weight = 1 };
    return 0;
}

/* ---- ids ---- */

/* A slot of the hash table: a path, borrowed from a row, and the number of rows with this path. */
typedef struct slot {
    const char *path;
    uint64_t rows;
} slot;

static slot *find_slot(slot *table, size_t mask, const char *path, uint64_t hash)
{
    size_t i = hash & mask;

    while (table[i].path && strcmp(table[i].path, path))
        i = (i + 1) & mask;
    return &table[i];
}

static int set_ids(vf_metadata *m, vc_err *err)
{
    size_t size = 16;
    while (size < (size_t)m->n * 2)
        size *= 2;
    slot *table = calloc(size, sizeof *table);
    if (!table)
        return vc_fail(err, VC_ENOMEM, "out of memory for %lld rows", (long long)m->n);

    for (int64_t i = 0; i < m->n; i++) {
        vf_row *r = &m->rows[i];
        size_t n = strlen(r->path);
        slot *s = find_slot(table, size - 1, r->path, XXH3_64bits(r->path, n));
        s->path = r->path;
        r->id = XXH3_64bits_withSeed(r->path, n, s->rows++);
    }
    free(table);
    return 0;
}

/* ---- reading ---- */

int metadata_check_header(void *arg, char *const *column, int n, vc_err *err)
{
    metadata_list *l = arg;
    vc_buf found = { 0 };

    for (int i = 0; i < n; i++)
        if (metadata_is_medium(l->opts, column[i]))
            return 0;
    for (int i = 0; i < n; i++)
        vc_buf_printf(&found, "%s%.40s", i ? ", " : "", column[i]);
    char *text = vc_buf_take(&found);
    int rc = vc_fail(err, VC_EFORMAT, "header: no column names the media; found: %.400s; known: "
                     METADATA_MEDIA, text ? text : "?");
    free(text);
    return rc;
}

int metadata_take_row(void *arg, int64_t number, const cJSON *o, const char *bad, vc_err *err)
{
    metadata_list *l = arg;
    vf_row *r = NULL;

    int rc = metadata_add(l, number, &r, err);
    if (!rc)
        rc = metadata_read_row(r, o, bad, l->opts, l->dir, err);
    if (!rc)
        rc = metadata_check_caption(l, r, err);
    for (const cJSON *v = o && !r->caption_from ? o->child : NULL; v && !rc; v = v->next)
        rc = metadata_saw(l, v->string, err);
    return rc;
}

int metadata_read_table(metadata_list *l, const char *path, vc_err *err)
{
    vf_table_sink sink = { .header = metadata_check_header, .row = metadata_take_row, .arg = l };
    const char *own = l->opts->caption_columns;

    l->known = own ? own : "the columns " METADATA_CAPTIONS;
    bool annotations;
    int rc = metadata_is_annotations(&annotations, path, err);
    if (!rc)
        rc = annotations ? metadata_read_annotations(l, path, err)
                         : vf_table_read(path, &sink, err);
    return rc ? rc : vc_context(err, metadata_need_captions(l, err), "%s", path);
}

static int read_tar(metadata_list *l, const char *path, vc_err *err)
{
    int rc = metadata_read_tar(l, path, err);
    const vf_row *r = rc || l->list.n != 1 ? NULL : l->list.rows;

    if (r && r->bad && !strchr(r->path, '/'))            /* the only row stands for the tar
                                                          * itself */
        return vc_fail(err, VC_EFORMAT, "%s: %s", path, r->bad);
    return rc ? rc : vc_context(err, metadata_need_captions(l, err), "%s", path);
}

int vf_metadata_read(vf_metadata *m, const char *path, const vf_metadata_opts *o, vc_err *err)
{
    struct stat st = { 0 };
    *m = (vf_metadata){ 0 };
    bool pattern = stat(path, &st) && errno == ENOENT && metadata_is_pattern(path);
    if (!pattern && stat(path, &st))
        return vc_fail_errno(err, "%s", path);
    if (S_ISREG(st.st_mode) && metadata_is_packed(path))
        return vc_fail(err, VC_EINVAL, "%s: a packed file is not read: unpack it, and give the "
                       "folder or the .tar", path);

    bool folder = !pattern && S_ISDIR(st.st_mode);
    char *own = folder ? strdup(path) : vc_format("%.*s", (int)(vc_path_base(path) - path), path);
    if (!own)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", path);

    metadata_list l = { .opts = o, .dir = !folder && o->data_dir ? o->data_dir : own };
    int rc = folder ? metadata_read_folder(&l, path, err)
             : pattern ? metadata_read_pattern(&l, path, err)
             : vf_columnar_named(path)
                 ? metadata_read_columnar(&l, (char *[]){ (char *)path }, 1, path, err)
             : !strcasecmp(vc_path_ext(path), ".tar") ? read_tar(&l, path, err)
             : metadata_read_table(&l, path, err);
    if (!rc)
        rc = set_ids(&l.list, err);
    if (!rc)
        rc = metadata_say_ignored(&l, err);
    free(own);
    metadata_forget_seen(&l);
    metadata_forget_ignored(&l);
    if (rc) {
        vf_metadata_free(&l.list);
        return rc;
    }
    *m = l.list;
    m->folder = folder && !l.listed;
    return 0;
}

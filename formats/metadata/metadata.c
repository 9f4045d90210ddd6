/* metadata.c - chooses the reader of a list, and numbers its rows; see metadata.h. row.c reads one
 * row, folder.c a folder, layouts.c a list that lies in a folder, tables.c a table, tar.c a tar,
 * kinds.c the endings of names. */
#include "formats/metadata/metadata.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "common/os/file.h"
#include "formats/columnar/columnar.h"
#include "formats/metadata/parts.h"

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

int metadata_set_ids(vf_metadata *m, vc_err *err)
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
        rc = metadata_set_ids(&l.list, err);
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

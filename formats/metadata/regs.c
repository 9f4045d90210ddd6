/* regs.c - adds regularisation pictures to a list: vf_metadata_add_regs of metadata.h */
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/metadata/parts.h"

/* The class in "N_class/..", malloc'ed; NULL: the path has none, or out of memory. */
static char *class_of(const char *path)
{
    const size_t digits = strspn(path, "0123456789");
    const char *end = strchr(path, '/');
    return digits && path[digits] == '_' && end > path + digits + 1
               ? strndup(path + digits + 1, (size_t)(end - path) - digits - 1) : NULL;
}

/* A picture without a caption has its class, as in sd-scripts; its path gets the folder's name in
 * front, as another may have it in the list. */
static int take_row(vf_row *r, const char *folder, vc_err *err)
{
    char *path = vc_format("%s/%s", folder, r->path), *class = NULL;

    if (!path)
        return vc_no_memory(err);
    if (!r->bad && !r->caption_from && r->n_captions == 1)
        class = class_of(r->path);
    free(r->path);
    r->path = path;
    r->held = VF_HELD_REG;
    if (!class)
        return 0;
    free(r->captions[0]);
    r->captions[0] = class;
    r->caption_from = strdup("the names of folders N_class");
    return r->caption_from ? 0 : vc_no_memory(err);
}

/* Lets the regularisation rows from `first` on count as often as all rows before, as sd-scripts
 * does: each by its folder's number, until they are enough, and the others not at all; or all of
 * them once more, one after the other, until they are. */
static void balance(vf_metadata *m, int64_t first)
{
    double want = 0, n = 0;
    int64_t usable = 0;

    for (int64_t i = 0; i < first; i++)
        want += m->rows[i].bad ? 0 : m->rows[i].weight;
    for (int64_t i = first; i < m->n; i++) {
        vf_row *r = &m->rows[i];
        if (r->bad)
            continue;
        r->weight = n < want ? r->weight : 0;
        n += r->weight;
        usable++;
    }
    for (int64_t i = first; usable && n < want; i = i + 1 < m->n ? i + 1 : first) {
        m->rows[i].weight += !m->rows[i].bad;
        n += !m->rows[i].bad;
    }
}

int vf_metadata_add_regs(vf_metadata *m, const char *path, const vf_metadata_opts *o, vc_err *err)
{
    vf_metadata more;
    vf_metadata_opts own = *o;
    const int64_t first = m->n;

    own.data_dir = NULL;
    own.allow_empty_captions = true;
    int rc = vf_metadata_read(&more, path, &own, err);
    if (!rc && more.values)
        rc = vc_fail(err, VC_EINVAL, "%s: pictures in the rows of Parquet files are not read here: "
                     "give a folder of pictures, or a list of paths", path);
    if (!rc && !more.n)
        rc = vc_fail(err, VC_EFORMAT, "%s: no row: is it cut short, or another file?", path);
    char *full = rc ? NULL : realpath(path, NULL);
    vf_row *rows = rc ? NULL : realloc(m->rows, sizeof *rows * (size_t)(m->n + more.n + 1));
    if (rows)
        m->rows = rows;
    if (!rc && (!full || !rows))
        rc = vc_no_memory(err);
    for (int64_t i = 0; !rc && i < more.n; i++) {
        rows[m->n] = more.rows[i];
        more.rows[i] = (vf_row){ 0 };
        rows[m->n].row = m->n + 1;
        rc = take_row(&rows[m->n++], vc_path_base(full), err);
    }
    if (!rc) {
        balance(m, first);
        rc = metadata_set_ids(m, err);
    }
    free(full);
    vf_metadata_free(&more);
    return rc;
}

/* columnar.c - reads lists in Parquet and Arrow files, whose media may be bytes in a column; see
 * metadata.h. Such a row's path is FILE/NAME, with the name that the row gives for its bytes, else
 * with its number. */
#include "formats/columnar/columnar.h"

#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/metadata/parts.h"

typedef struct columnar {
    metadata_list *l;
    const char *path;
    int64_t before;                    /* rows of the files before this one */
    vf_metadata_opts opts;
    char *keys;                        /* opts.file_keys with one more column, or NULL */
} columnar;

/* ---- columns ---- */

static int no_medium(const columnar *c, const vf_column *column, int n, vc_err *err)
{
    char **names = calloc((size_t)n + 1, sizeof *names);

    if (!names)
        return vc_no_memory(err);
    for (int i = 0; i < n; i++)
        names[i] = (char *)column[i].name;
    int rc = metadata_check_header(c->l, names, n, err);
    free(names);
    return rc;
}

/* Takes the only column with bytes as the medium if no column has a medium's name. */
static int on_header(void *arg, const vf_column *column, int n, vc_err *err)
{
    columnar *c = arg;
    const char *only = NULL;
    int many = 0;

    for (int i = 0; i < n; i++) {
        if (metadata_is_medium(c->l->opts, column[i].name))
            return 0;
        if (column[i].bytes) {
            only = column[i].name;
            many++;
        }
    }
    if (many != 1)
        return no_medium(c, column, n, err);
    const char *keys = c->opts.file_keys;
    c->keys = vc_format("%s%s%s", keys ? keys : "", keys ? "," : "", only);
    c->opts.file_keys = c->keys;
    c->l->opts = &c->opts;
    return c->keys ? 0 : vc_no_memory(err);
}

/* ---- rows ---- */

/* Completes a row whose medium is bytes of the file, or a bad row that has no path. */
static int name_row(vf_row *r, const columnar *c, int64_t number, vc_err *err)
{
    const char *base = vc_path_base(c->path);
    char *file = strdup(c->path);
    char *path = *r->path ? vc_format("%s/%s", base, r->path)
                          : vc_format("%s/%" PRId64, base, number);

    free(r->file);
    free(r->path);
    r->file = file;
    r->path = path;
    r->values = c->l->list.values;
    return file && path ? 0 : vc_no_memory(err);
}

static int on_row(void *arg, int64_t number, const cJSON *o, const char *bad, vc_err *err)
{
    columnar *c = arg;
    int rc = metadata_take_row(c->l, c->before + number, o, bad, err);
    vf_row *r = rc ? NULL : &c->l->list.rows[c->l->list.n - 1];

    return r && (r->size || r->column || !*r->path) ? name_row(r, c, number, err) : rc;
}

static int read_file(metadata_list *l, const char *path, vc_err *err)
{
    const vf_metadata_opts *given = l->opts;
    columnar c = { .l = l, .path = path, .before = l->list.n, .opts = *given };
    const vf_columnar_sink sink = { .header = on_header, .row = on_row, .arg = &c };

    int rc = l->list.values ? 0 : vf_columnar_open(&l->list.values, err);
    if (!rc)
        rc = vf_columnar_read(path, &sink, err);
    l->opts = given;
    free(c.keys);
    return rc;
}

int metadata_read_columnar(metadata_list *l, char *const *path, int n, const char *list,
                           vc_err *err)
{
    const char *own = l->opts->caption_columns;
    int rc = n ? vf_columnar_check(path[0], list, err) : 0;

    l->known = own ? own : "the columns " METADATA_CAPTIONS;
    for (int i = 0; i < n && !rc; i++)
        rc = read_file(l, path[i], err);
    if (!rc && !l->list.n)
        rc = vc_fail(err, VC_EFORMAT, "%s: it has no rows", list);
    return rc ? rc : vc_context(err, metadata_need_captions(l, err), "%s", list);
}

/* ---- several files by a pattern ---- */

bool metadata_is_pattern(const char *path)
{
    return vf_columnar_named(path) && strpbrk(path, "*?[");
}

int metadata_read_pattern(metadata_list *l, const char *pattern, vc_err *err)
{
    glob_t g = { 0 };
    int got = glob(pattern, GLOB_ERR, NULL, &g), rc;

    if (got == GLOB_NOSPACE)
        rc = vc_no_memory(err);
    else if (got == GLOB_NOMATCH)
        rc = vc_fail(err, VC_ENOENT, "%s: no file has such a name", pattern);
    else if (got)
        rc = vc_fail_errno(err, "%s", pattern);
    else
        rc = metadata_read_columnar(l, g.gl_pathv, (int)g.gl_pathc, pattern, err);
    globfree(&g);
    return rc;
}

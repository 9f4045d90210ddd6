/* pairs.c - pairs rows with the pictures of other folders by their stems; see metadata.h
 *
 * A row of the medium a/cat.png has, of each folder, the picture cat.* or, without one, all
 * pictures cat_0.*, cat_1.* .. in the order of their numbers. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/metadata/parts.h"

typedef struct names {
    char **v;
    int64_t n, cap;
} names;

typedef struct folder {
    const char *dir;
    names file;
    metadata_stems stems;                         /* rank 0, or 1 + the number behind the stem */
} folder;

static void free_folder(folder *f)
{
    for (int64_t i = 0; i < f->file.n; i++)
        free(f->file.v[i]);
    free(f->file.v);
    free(f->stems.v);
}

/* The length of a name's stem. */
static size_t stem_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

/* The number behind the last '_' of a stem, and the length in front of it; below 0: there is
 * none. */
static int number_of(const char *name, size_t stem, size_t *before)
{
    enum { DIGITS = 6 };
    size_t at = stem;
    int n = 0;

    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9')
        at--;
    if (at == stem || stem - at > DIGITS || at < 2 || name[at - 1] != '_')
        return -1;
    for (size_t i = at; i < stem; i++)
        n = 10 * n + name[i] - '0';
    *before = at - 1;
    return n;
}

static int add_name(folder *f, const char *name, vc_err *err)
{
    if (f->file.n == f->file.cap) {
        const int64_t cap = f->file.cap ? 2 * f->file.cap : 64;
        char **more = realloc(f->file.v, (size_t)cap * sizeof *more);
        if (!more)
            return vc_no_memory(err);
        f->file.v = more;
        f->file.cap = cap;
    }
    char *copy = f->file.v[f->file.n] = strdup(name);
    if (!copy)
        return vc_no_memory(err);
    f->file.n++;
    size_t stem = stem_of(copy), before;
    const int n = number_of(copy, stem, &before);
    int rc = metadata_stems_add(&f->stems, (metadata_stem){ .path = copy, .stem = stem }, err);
    if (!rc && n >= 0)
        rc = metadata_stems_add(&f->stems, (metadata_stem){ .path = copy, .stem = before,
                                                            .rank = 1 + n }, err);
    return rc;
}

static int read_folder(folder *f, vc_err *err)
{
    DIR *d = opendir(f->dir);
    int rc = 0;

    if (!d)
        return vc_fail_errno(err, "%s", f->dir);
    for (const struct dirent *e; !rc && (e = readdir(d));)
        if (*e->d_name != '.' && vf_type_of_name(e->d_name) == VF_TYPE_IMAGE)
            rc = add_name(f, e->d_name, err);
    closedir(d);
    metadata_stems_sort(&f->stems);
    return rc;
}

static int add_picture(vf_row *r, const folder *f, const char *name, vc_err *err)
{
    vf_side *more = realloc(r->references, ((size_t)r->n_references + 1) * sizeof *more);

    if (!more)
        return vc_no_memory(err);
    r->references = more;
    vf_side *s = &more[r->n_references++];
    *s = (vf_side){ .path = vc_path_join(f->dir, name) };
    s->file = s->path ? strdup(s->path) : NULL;
    return s->file ? 0 : vc_no_memory(err);
}

/* Adds the folder's pictures of a row, or makes the row bad where there is none. */
static int pair(vf_row *r, const folder *f, vc_err *err)
{
    const char *name = vc_path_base(r->path);
    const size_t stem = stem_of(name);
    const metadata_stem *at = metadata_stems_find(&f->stems, name, stem, 0);
    const metadata_stem *end = f->stems.v + f->stems.n;
    const bool numbered = at && at->rank;
    int rc = 0;

    if (!at && !r->bad) {
        r->bad = vc_format("no picture %.*s.* or %.*s_0.* in %s", (int)stem, name, (int)stem, name,
                           f->dir);
        return r->bad ? 0 : vc_no_memory(err);
    }
    for (; at && at < end && !rc; at++) {
        if (at->stem != stem || memcmp(at->path, name, stem) || (at->rank > 0) != numbered)
            break;
        rc = add_picture(r, f, at->path, err);
        if (!numbered)
            break;
    }
    return rc;
}

int vf_metadata_pair(vf_metadata *m, char *const *dirs, int n, vc_err *err)
{
    bool *own = calloc(m->n ? (size_t)m->n : 1, sizeof *own);    /* rows whose list names some */
    int rc = own ? 0 : vc_no_memory(err);

    for (int64_t i = 0; !rc && i < m->n; i++)
        own[i] = m->rows[i].n_references != 0;
    for (int k = 0; !rc && k < n; k++) {
        folder f = { .dir = dirs[k] };
        rc = read_folder(&f, err);
        for (int64_t i = 0; !rc && i < m->n; i++)
            if (!own[i] && !m->rows[i].bad)
                rc = pair(&m->rows[i], &f, err);
        free_folder(&f);
    }
    free(own);
    return rc;
}

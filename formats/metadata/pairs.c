/* pairs.c - pairs rows with the pictures of other folders by their stems; see metadata.h
 *
 * A row of the medium a/cat.png has, of each folder, the picture cat.* or, without one, all
 * pictures cat_0.*, cat_1.* .. in the order of their numbers: those of the folder a below it, or
 * else of itself. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/keys/keymap.h"
#include "formats/metadata/parts.h"

typedef struct names {
    char **v;
    int64_t n, cap;
} names;

/* A folder, or one below it that has the name of a folder of media. */
typedef struct folder {
    char *dir;
    bool there;
    names file;
    metadata_stems stems;                         /* rank 0, or 1 + the number behind the stem */
} folder;

/* The folders that were read of one that the user gave: itself, and those below it. */
typedef struct folders {
    const char *dir;
    folder *v;
    uint64_t n;
    vf_keymap at;                                 /* path below dir -> its place in v */
} folders;

static void free_folders(folders *fs)
{
    for (uint64_t k = 0; k < fs->n; k++) {
        folder *f = &fs->v[k];
        for (int64_t i = 0; i < f->file.n; i++)
            free(f->file.v[i]);
        free(f->file.v);
        free(f->stems.v);
        free(f->dir);
    }
    free(fs->v);
    vf_keymap_free(&fs->at);
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

static int read_folder(folder *f, bool below, vc_err *err)
{
    DIR *d = opendir(f->dir);
    int rc = 0;

    if (!d)
        return below && (errno == ENOENT || errno == ENOTDIR) ? 0
                                                              : vc_fail_errno(err, "%s", f->dir);
    f->there = true;
    for (const struct dirent *e; (e = vc_dir_next(d, f->dir, &rc, err));)
        if (*e->d_name != '.' && vf_type_of_name(e->d_name) == VF_TYPE_IMAGE)
            rc = add_name(f, e->d_name, err);
    closedir(d);
    metadata_stems_sort(&f->stems);
    return rc;
}

/* Finds the folder `sub` of n bytes below that of fs, and reads it where it was not read yet. */
static int find_folder(folders *fs, const char *sub, size_t n, const folder **found, vc_err *err)
{
    const vf_key key = vf_hash(sub, n);
    uint64_t at;

    *found = NULL;
    if (!vf_keymap_get(&fs->at, key, &at)) {
        folder *more = realloc(fs->v, (size_t)(fs->n + 1) * sizeof *more);
        if (!more)
            return vc_no_memory(err);
        fs->v = more;
        at = fs->n++;
        fs->v[at] = (folder){ .dir = n ? vc_format("%s/%.*s", fs->dir, (int)n, sub)
                                       : strdup(fs->dir) };
        int rc = fs->v[at].dir ? read_folder(&fs->v[at], n > 0, err) : vc_no_memory(err);
        if (!rc)
            rc = vf_keymap_put(&fs->at, key, at, err);
        if (rc)
            return rc;
    }
    *found = &fs->v[at];
    return 0;
}

static int make_side(vf_side *s, const folder *f, const char *name, vc_err *err)
{
    *s = (vf_side){ .path = vc_path_join(f->dir, name) };
    s->file = s->path ? strdup(s->path) : NULL;
    return s->file ? 0 : vc_no_memory(err);
}

static int add_picture(vf_row *r, const folder *f, const char *name, vc_err *err)
{
    vf_side *more = realloc(r->references, ((size_t)r->n_references + 1) * sizeof *more);

    if (!more)
        return vc_no_memory(err);
    r->references = more;
    int rc = make_side(&more[r->n_references++], f, name, err);
    if (!rc && !r->references_from && !(r->references_from = strdup("--control_directory")))
        rc = vc_no_memory(err);
    return rc;
}

/* Whether two files have one stem and one number: none of them is the row's. */
static bool ambiguous(const metadata_stems *s, const metadata_stem *at)
{
    const metadata_stem *next = at + 1;
    return next < s->v + s->n && next->stem == at->stem && next->rank == at->rank &&
           !memcmp(next->path, at->path, at->stem);
}

/* Finds the first picture of a row: in the folder below fs that has the name of its own, else in
 * that of fs. */
static int find_picture(folders *fs, const vf_row *r, const folder **f, const metadata_stem **at,
                        vc_err *err)
{
    const char *name = vc_path_base(r->path);
    const size_t stem = stem_of(name);
    const bool outside = *r->path == '/' || !strncmp(r->path, "../", 3) || strstr(r->path, "/../");
    size_t below = outside ? 0 : (size_t)(name - r->path);

    while (below && r->path[below - 1] == '/')
        below--;
    *at = NULL;
    for (size_t n = below; !*at; n = 0) {
        int rc = find_folder(fs, r->path, n, f, err);
        if (rc)
            return rc;
        *at = (*f)->there ? metadata_stems_find(&(*f)->stems, name, stem, 0) : NULL;
        if (!n)
            break;
    }
    return 0;
}

static int make_bad(vf_row *r, char *reason, vc_err *err)
{
    r->bad = reason;
    return reason ? 0 : vc_no_memory(err);
}

/* Adds the folder's pictures of a row, or makes the row bad where there is none. A mask is one
 * picture, which has no number. */
static int pair(vf_row *r, folders *fs, bool mask, vc_err *err)
{
    const char *name = vc_path_base(r->path);
    const size_t stem = stem_of(name);
    const folder *f;
    const metadata_stem *at;
    int rc = find_picture(fs, r, &f, &at, err);

    if (rc)
        return rc;
    const metadata_stem *end = f->stems.v + f->stems.n;
    const bool numbered = at && at->rank;
    if (!at || (mask && numbered))
        return make_bad(r, mask ? vc_format("no picture %.*s.* in %s", (int)stem, name, fs->dir)
                                : vc_format("no picture %.*s.* or %.*s_0.* in %s", (int)stem, name,
                                            (int)stem, name, fs->dir), err);
    for (; at && at < end && !rc; at++) {
        if (at->stem != stem || memcmp(at->path, name, stem) || (at->rank > 0) != numbered)
            break;
        if (ambiguous(&f->stems, at))
            return make_bad(r, vc_format("%s has both %s and %s: leave one picture of a stem",
                                         f->dir, at->path, at[1].path), err);
        rc = mask ? make_side(&r->beside[VF_MASK], f, at->path, err)
                  : add_picture(r, f, at->path, err);
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
        folders fs = { .dir = dirs[k] };
        const folder *f;
        rc = find_folder(&fs, "", 0, &f, err);
        for (int64_t i = 0; !rc && i < m->n; i++)
            if (!own[i] && !m->rows[i].bad)
                rc = pair(&m->rows[i], &fs, false, err);
        free_folders(&fs);
    }
    free(own);
    return rc;
}

int vf_metadata_pair_masks(vf_metadata *m, const char *dir, vc_err *err)
{
    folders fs = { .dir = dir };
    const folder *f;
    int rc = find_folder(&fs, "", 0, &f, err);

    for (int64_t i = 0; !rc && i < m->n; i++)
        if (!m->rows[i].beside[VF_MASK].path && !m->rows[i].bad)
            rc = pair(&m->rows[i], &fs, true, err);
    free_folders(&fs);
    return rc;
}

/* folder.c - reads a folder of media files as a list; see metadata.h */
#include "formats/metadata/parts.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/utf8.h"
#include "common/os/file.h"

#define OWN "a .txt or .caption file of the medium's name"

enum { MAX_CAPTION = 1 << 20, MAX_LEVELS = 32, MAX_REPEATS = 1000 };

/* A file's path relative to the folder, and why == NULL; or the path of a subfolder that could not
 * be read, with a '/' at its end, and the reason. */
typedef struct entry {
    char *path, *why;
} entry;

typedef struct names {
    entry *v;
    int64_t n, cap;
    metadata_list *list;               /* collects the name endings of other files */
} names;

/* Takes ownership of path and why, even when the function fails. */
static int add_name(names *l, char *path, char *why, vc_err *err)
{
    if (l->n == l->cap) {
        int64_t cap = l->cap ? l->cap * 2 : 64;
        entry *more = cap > INT32_MAX ? NULL : realloc(l->v, (size_t)cap * sizeof *more);
        if (!more) {
            free(path);
            free(why);
            return vc_fail(err, VC_ENOMEM, "out of memory for %lld files", (long long)cap);
        }
        l->v = more;
        l->cap = cap;
    }
    l->v[l->n++] = (entry){ path, why };
    return 0;
}

static int add_unread(names *l, const char *below, const vc_err *why, vc_err *err)
{
    char *path = vc_format("%s/", below), *text = vc_format("%s", why->text);
    if (path && text)
        return add_name(l, path, text, err);
    free(path);
    free(text);
    return vc_no_memory(err);
}

static int walk(names *l, const char *root, const char *below, int level, vc_err *err);

/* Adds a file or walks a subfolder. Links to files are followed; links to folders are not, as they
 * could form a cycle. */
static int visit(names *l, const char *root, const char *below, const char *name, int level,
                 vc_err *err)
{
    struct stat st;
    char *path = vc_path_join(below, name), *full = path ? vc_path_join(root, path) : NULL;
    if (!full) {
        free(path);
        return vc_no_memory(err);
    }

    vc_err why = { 0 };
    int rc = 0, unseen = lstat(full, &st) ? vc_fail_errno(&why, "%s", full) : 0;
    bool folder = !unseen && S_ISDIR(st.st_mode);
    bool medium = !folder && vf_type_of_name(name) != VF_TYPE_UNKNOWN;
    if (folder)
        rc = walk(l, root, path, level + 1, err);
    else if (!medium && unseen && unseen != VC_ENOENT)       /* the entry may be a folder */
        rc = add_unread(l, path, &why, err);
    else if (!medium && !strncmp(name, "metadata.", 9))      /* a list of one split of the data */
        rc = metadata_saw(l->list, path, err);
    else if (!medium)
        rc = metadata_saw(l->list, *vc_path_ext(name) ? vc_path_ext(name) : name, err);
    free(full);
    if (medium)
        return add_name(l, path, NULL, err);
    free(path);
    return rc;
}

/* Returns the next entry, or NULL at the end and after an error; an error is in *why. */
static struct dirent *next_entry(DIR *d, const char *path, vc_err *why)
{
    errno = 0;
    struct dirent *e = readdir(d);
    if (!e && errno)
        vc_fail_errno(why, "%s", path);
    return e;
}

static int walk(names *l, const char *root, const char *below, int level, vc_err *err)
{
    vc_err why = { 0 };
    char *full = vc_path_join(root, below);
    if (!full)
        return vc_no_memory(err);
    DIR *d = level > MAX_LEVELS ? NULL : opendir(full);
    int rc = 0;
    if (level > MAX_LEVELS)
        vc_fail(&why, VC_EFORMAT, "%s: over %d folders deep", full, MAX_LEVELS);
    else if (!d)
        vc_fail_errno(&why, "%s", full);

    for (struct dirent *e; d && !rc && (e = next_entry(d, full, &why));)
        if (e->d_name[0] != '.')
            rc = visit(l, root, below, e->d_name, level, err);
    if (d)
        closedir(d);
    free(full);
    if (rc || !why.code)
        return rc;
    if (level && why.code != VC_ENOMEM)
        return add_unread(l, below, &why, err);
    *err = why;
    return why.code;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->path, ((const entry *)b)->path);
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void metadata_trim(const char **s, size_t *n)
{
    while (*n && blank(**s))
        ++*s, --*n;
    while (*n && blank((*s)[*n - 1]))
        --*n;
}

int metadata_read_text(vf_row *r, const char *path, const char *from, vc_err *why)
{
    char *text = NULL;
    size_t n = 0;

    int rc = vc_file_read(&text, &n, path, MAX_CAPTION, why);
    if (rc)
        return rc;
    size_t bom = n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
    const char *s = text + bom;
    n -= bom;
    metadata_trim(&s, &n);
    rc = n && (vc_utf8_prefix(s, n) < n || memchr(s, 0, n))
             ? vc_fail(why, VC_EFORMAT, "its %s caption is not UTF-8 text", from)
             : metadata_append(&r->captions, &r->n_captions, s, n, why);
    free(text);
    return rc ? rc : metadata_say_from(r, from, why);
}

static int read_beside(vf_row *r, const char *file, const char *end, vc_err *why)
{
    char *path = vc_format("%.*s%s", (int)(vc_path_ext(file) - file), file, end);
    int rc = path ? metadata_read_text(r, path, end, why) : vc_no_memory(why);

    free(path);
    return rc;
}

/* Reads the caption file of a medium; *own becomes true if the medium has one. */
static int read_caption(vf_row *r, const char *file, bool *own, vc_err *why)
{
    vc_err e = { 0 };
    int rc = read_beside(r, file, ".txt", &e);

    if (rc == VC_ENOENT)
        rc = read_beside(r, file, ".caption", &e);
    *own = *own || rc != VC_ENOENT;
    if (!rc || rc == VC_ENOENT)
        return 0;
    *why = e;
    return rc;
}

static int fill_row(vf_row *r, const char *root, const entry *of, bool *own, vc_err *why)
{
    const char *path = of->path;
    r->path = strdup(path);
    r->file = vc_path_join(root, path);
    r->type = vf_type_of_name(path);
    if (!r->path || !r->file)
        return vc_no_memory(why);

    int rc = of->why ? vc_fail(why, VC_EIO, "%s", of->why)
                     : read_caption(r, r->file, own, why);
    r->unread = rc == VC_EIO;
    if (!rc && vc_utf8_prefix(path, strlen(path)) < strlen(path))
        rc = vc_fail(why, VC_EFORMAT, "the file's name is not UTF-8");
    if (!rc || rc == VC_ENOMEM)
        return rc;
    r->bad = strdup(why->text);
    return r->bad ? 0 : VC_ENOMEM;
}

static int fill_rows(metadata_list *l, const char *root, const names *found, bool *own,
                     vc_err *err)
{
    int rc = 0;

    for (int64_t i = 0; i < found->n && !rc; i++) {
        vc_err why = { 0 };
        vf_row *r;
        rc = metadata_add(l, i + 1, &r, err);
        if (!rc && fill_row(r, root, &found->v[i], own, &why))
            rc = vc_fail(err, VC_ENOMEM, "%s: %s", found->v[i].path, why.text);
    }
    return rc;
}

/* The number N of a path "N_name/..", or 0. */
static int repeats_of(const char *path)
{
    char *end;
    long n = strspn(path, "0123456789") ? strtol(path, &end, 10) : 0;
    return n > 0 && n <= MAX_REPEATS && *end == '_' && strchr(end, '/') ? (int)n : 0;
}

/* Weighs rows like kohya's sd-scripts, where each medium lies in a subfolder "N_name" and counts N
 * times. */
static void take_repeats(metadata_list *l)
{
    vf_metadata *m = &l->list;
    bool all = m->n > 0 && !l->opts->plain_folders;
    for (int64_t i = 0; i < m->n && all; i++)
        all = repeats_of(m->rows[i].path) > 0;
    for (int64_t i = 0; i < m->n && all; i++)
        m->rows[i].weight = repeats_of(m->rows[i].path);
    m->repeats = all;
}

/* Checks the rows of a folder in which no list was found. */
static int check_unlisted(metadata_list *l, const char *path, vc_err *err)
{
    const char *own = l->opts->caption_columns;

    if (own)
        return vc_fail(err, VC_EUSAGE, "%s: --caption_column %s: this folder has no list with "
                       "columns: leave the flag out if captions are in files of the media's names, "
                       "or give the list itself", path, own);
    if (!l->list.n)
        return metadata_no_media(l, path, err);
    take_repeats(l);
    int rc = metadata_check_rows(l, err);
    return rc ? rc : vc_context(err, metadata_need_captions(l, err), "%s", path);
}

int metadata_read_folder(metadata_list *l, const char *path, vc_err *err)
{
    names found = { .list = l };
    bool own = false, listed = false;

    int rc = walk(&found, path, "", 0, err);
    if (found.n)
        qsort(found.v, (size_t)found.n, sizeof *found.v, by_bytes);
    if (!rc)
        rc = fill_rows(l, path, &found, &own, err);
    l->known = own ? OWN " (where any medium has one, lists in the folder are not read)"
                   : OWN ", labels/NAME.txt beside videos/, metadata.jsonl or .csv, captions.json, "
                     "videos2caption.json, prompts.txt with videos.txt, WebDataset's tars";
    if (!rc && !own)
        rc = metadata_find_list(l, path, &listed, err);
    if (!rc && !listed)
        rc = check_unlisted(l, path, err);
    for (int64_t i = 0; i < found.n; i++) {
        free(found.v[i].path);
        free(found.v[i].why);
    }
    free(found.v);
    return rc;
}

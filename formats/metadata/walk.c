/* walk.c - see walk.h. The folders behind links are read after all others, so that the paths of
 * files do not depend on the order in which the system lists a folder. */
#include "formats/metadata/walk.h"

#include <dirent.h>
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/os/file.h"

enum { MAX_LEVELS = 32 };

typedef struct place {
    dev_t device;
    ino_t inode;
} place;

typedef struct walk {
    walk_files *files;
    metadata_list *list;
    const char *root;
    walk_list links;                   /* to folders, not read yet */
    void *read;                        /* tree of the places of folders that were read */
    bool behind_link;                  /* the folders that are read now lie behind a link */
} walk;

/* Takes ownership of path and why, even when the function fails. */
static int add(walk_list *l, char *path, char *why, vc_err *err)
{
    if (l->n == l->cap) {
        int64_t cap = l->cap ? l->cap * 2 : 64;
        walk_entry *more = cap > INT32_MAX ? NULL : realloc(l->v, (size_t)cap * sizeof *more);
        if (!more) {
            free(path);
            free(why);
            return vc_fail(err, VC_ENOMEM, "out of memory for %lld files", (long long)cap);
        }
        l->v = more;
        l->cap = cap;
    }
    l->v[l->n++] = (walk_entry){ path, why };
    return 0;
}

static int add_unread(walk *w, const char *below, const vc_err *why, vc_err *err)
{
    char *path = vc_format("%s/", below), *text = vc_format("%s", why->text);
    if (path && text)
        return add(&w->files->media, path, text, err);
    free(path);
    free(text);
    return vc_no_memory(err);
}

static void clear(walk_list *l)
{
    for (int64_t i = 0; i < l->n; i++) {
        free(l->v[i].path);
        free(l->v[i].why);
    }
    free(l->v);
    *l = (walk_list){ 0 };
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(((const walk_entry *)a)->path, ((const walk_entry *)b)->path);
}

static void sort(walk_list *l)
{
    if (l->n)
        qsort(l->v, (size_t)l->n, sizeof *l->v, by_bytes);
}

/* ---- folders that were read ---- */

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    int d = (x->device > y->device) - (x->device < y->device);
    return d ? d : (x->inode > y->inode) - (x->inode < y->inode);
}

static int mark_read(walk *w, const struct stat *st, bool *again, vc_err *err)
{
    place *p = malloc(sizeof *p);
    if (!p)
        return vc_no_memory(err);
    *p = (place){ st->st_dev, st->st_ino };
    place **found = tsearch(p, &w->read, by_place);
    *again = found && *found != p;
    if (!found || *again)
        free(p);
    return found ? 0 : vc_no_memory(err);
}

/* ---- entries of a folder ---- */

static bool is_caption(const char *name)
{
    const char *ending = vc_path_ext(name);
    return !strcasecmp(ending, ".txt") || !strcasecmp(ending, ".caption");
}

/* Takes a file that is neither a medium nor a caption. */
static int take_other(walk *w, const char *path, const char *name, vc_err *err)
{
    const char *ending = *vc_path_ext(name) ? vc_path_ext(name) : name;
    bool split = !strncmp(name, "metadata.", 9);     /* a list of one split of the data */
    int rc = metadata_saw(w->list, split ? path : ending, err);

    return rc ? rc : metadata_ignore(w->list, ending, path, metadata_why_ignored(name), err);
}

static int walk_below(walk *w, const char *below, int level, vc_err *err);

/* The stat of an entry, and of the file that a link leads to. */
typedef struct facts {
    struct stat st;
    bool link;
    int unseen;                        /* code of *why: stat failed */
    vc_err why;
} facts;

static void look(facts *f, const char *path)
{
    *f = (facts){ 0 };
    if (lstat(path, &f->st))
        f->unseen = vc_fail_errno(&f->why, "%s", path);
    f->link = !f->unseen && S_ISLNK(f->st.st_mode);
    if (f->link && stat(path, &f->st))
        f->unseen = vc_fail_errno(&f->why, "%s: a link that cannot be followed", path);
}

/* Takes ownership of path. */
static int take(walk *w, char *path, const char *name, const facts *f, int level, vc_err *err)
{
    bool folder = !f->unseen && S_ISDIR(f->st.st_mode);
    int rc = 0;

    if (folder && f->link)
        return add(&w->links, path, NULL, err);
    if (!folder && vf_type_of_name(name) != VF_TYPE_UNKNOWN)
        return add(&w->files->media, path, NULL, err);
    if (!folder && is_caption(name))
        return add(&w->files->captions, path, NULL, err);
    if (folder)
        rc = walk_below(w, path, level + 1, err);
    else if (f->unseen && (f->link || f->unseen != VC_ENOENT))   /* the entry may be a folder */
        rc = add_unread(w, path, &f->why, err);
    else if (!f->unseen)
        rc = take_other(w, path, name, err);
    free(path);
    return rc;
}

static int visit(walk *w, const char *below, const char *name, int level, vc_err *err)
{
    facts f;
    char *path = vc_path_join(below, name), *full = path ? vc_path_join(w->root, path) : NULL;

    if (metadata_is_system(name)) {
        free(full);
        free(path);
        return 0;
    }
    if (!full) {
        free(path);
        return vc_no_memory(err);
    }
    look(&f, full);
    free(full);
    return take(w, path, name, &f, level, err);
}

/* True for a dataset, or a plan, that vprep wrote into the folder of its media. */
static bool is_dataset(const char *folder)
{
    return vc_file_exists_in(folder, "plan.jsonl")
           && (vc_file_exists_in(folder, "errors.jsonl")
               || vc_file_exists_in(folder, "manifest.json"));
}

/* Reads the folder full, unless another link led to it before. */
static int read_entries(walk *w, DIR *d, const char *full, const char *below, int level,
                        vc_err *why, vc_err *err)
{
    struct stat st;
    bool again = false;
    int unread = 0;                     /* *why has the reason */

    if (fstat(dirfd(d), &st)) {
        vc_fail_errno(why, "%s", full);
        return 0;
    }
    if (level && is_dataset(full))
        return 0;
    int rc = mark_read(w, &st, &again, err);
    if (!rc && again && w->behind_link)
        return metadata_ignore(w->list, "linked folder", below, "it is read at another place", err);
    for (struct dirent *e; !rc && (e = vc_dir_next(d, full, &unread, why));)
        rc = visit(w, below, e->d_name, level, err);
    return rc;
}

static int walk_below(walk *w, const char *below, int level, vc_err *err)
{
    vc_err why = { 0 };
    char *full = vc_path_join(w->root, below);
    if (!full)
        return vc_no_memory(err);
    DIR *d = level > MAX_LEVELS ? NULL : opendir(full);
    int rc = 0;
    if (level > MAX_LEVELS)
        vc_fail(&why, VC_EFORMAT, "%s: over %d folders deep", full, MAX_LEVELS);
    else if (!d)
        vc_fail_errno(&why, "%s", full);
    else
        rc = read_entries(w, d, full, below, level, &why, err);
    if (d)
        closedir(d);
    free(full);
    if (rc || !why.code)
        return rc;
    if (level && why.code != VC_ENOMEM)
        return add_unread(w, below, &why, err);
    *err = why;
    return why.code;
}

/* ---- folders behind links ---- */

static bool contains(const char *folder, const char *path)
{
    size_t n = strlen(folder);
    return n == 1 || (!strncmp(folder, path, n) && (!path[n] || path[n] == '/'));
}

/* True if the link leads to a folder that contains the link, or the whole list's folder. */
static bool leads_up(const walk *w, const char *link)
{
    char *full = vc_path_join(w->root, link);
    char *parent = full ? vc_format("%.*s", (int)(vc_path_base(full) - full), full) : NULL;
    char *to = full ? realpath(full, NULL) : NULL, *from = parent ? realpath(parent, NULL) : NULL;
    char *root = realpath(w->root, NULL);
    bool up = to && ((from && contains(to, from)) || (root && contains(to, root)));

    free(full);
    free(parent);
    free(to);
    free(from);
    free(root);
    return up;
}

static int level_of(const char *path)
{
    int level = 1;
    for (; *path; path++)
        level += *path == '/';
    return level;
}

static int walk_link(walk *w, const char *path, vc_err *err)
{
    if (leads_up(w, path))
        return metadata_ignore(w->list, "linked folder", path, "it leads to a folder above", err);
    return walk_below(w, path, level_of(path), err);
}

/* Folders behind links may have further links, which are read after the links found so far. */
static int walk_links(walk *w, vc_err *err)
{
    int rc = 0;

    w->behind_link = true;
    while (w->links.n && !rc) {
        walk_list now = w->links;
        w->links = (walk_list){ 0 };
        sort(&now);
        for (int64_t i = 0; i < now.n && !rc; i++)
            rc = walk_link(w, now.v[i].path, err);
        clear(&now);
    }
    return rc;
}

int walk_folder(walk_files *f, metadata_list *l, const char *root, vc_err *err)
{
    walk w = { .files = f, .list = l, .root = root };

    int rc = walk_below(&w, "", 0, err);
    if (!rc)
        rc = walk_links(&w, err);
    sort(&f->media);
    clear(&w.links);
    tdestroy(w.read, free);
    return rc;
}

void walk_free(walk_files *f)
{
    clear(&f->media);
    clear(&f->captions);
    clear(&f->masks);
    free(f->mask_stems.v);
}

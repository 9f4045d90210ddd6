/* tar_members.c - see tar_members.h */
#include "formats/metadata/tar_members.h"

#include <archive.h>
#include <archive_entry.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/os/file.h"

enum { MAX_LINKS = 16 };

/* ---- members by name ---- */

static int by_name(const void *a, const void *b)
{
    const tar_member *x = *(tar_member *const *)a, *y = *(tar_member *const *)b;
    int d = strcmp(x->clean, y->clean);
    return d ? d : (x->order > y->order) - (x->order < y->order);
}

static int by_key(const void *a, const void *b)
{
    const tar_member *x = *(tar_member *const *)a, *y = *(tar_member *const *)b;
    int d = memcmp(x->clean, y->clean, x->key < y->key ? x->key : y->key);

    d = d ? d : (x->key > y->key) - (x->key < y->key);
    return d ? d : (x->order > y->order) - (x->order < y->order);
}

static int sort(tar_members *t, vc_err *err)
{
    t->by_name = malloc(((size_t)t->n + 1) * sizeof *t->by_name);
    t->by_key = malloc(((size_t)t->n + 1) * sizeof *t->by_key);
    if (!t->by_name || !t->by_key)
        return vc_no_memory(err);
    for (int64_t i = 0; i < t->n; i++)
        t->by_name[i] = t->by_key[i] = &t->v[i];
    qsort(t->by_name, (size_t)t->n, sizeof *t->by_name, by_name);
    qsort(t->by_key, (size_t)t->n, sizeof *t->by_key, by_key);
    for (int64_t i = 1; i < t->n; i++)
        t->by_name[i - 1]->replaced = !strcmp(t->by_name[i - 1]->clean, t->by_name[i]->clean);
    return 0;
}

/* Returns the last member of a name among those before number `before`, or NULL. */
static tar_member *find_name(const tar_members *t, const char *name, int64_t before)
{
    int64_t from = 0, to = t->n;

    while (from < to) {
        int64_t at = from + (to - from) / 2;
        int d = strcmp(t->by_name[at]->clean, name);
        if (d < 0 || (!d && t->by_name[at]->order < before))
            from = at + 1;
        else
            to = at;
    }
    return from && !strcmp(t->by_name[from - 1]->clean, name) ? t->by_name[from - 1] : NULL;
}

/* Gives a link the data of the member that it leads to, as unpacking the tar would: a hard link
 * keeps the file that has the name when the link is made, a symbolic one leads to the last. */
static void follow(const tar_members *t, tar_member *m)
{
    const tar_member *to = m;

    for (int i = 0; to && to->link && i < MAX_LINKS; i++)
        to = find_name(t, to->link, to->hard ? to->order : t->n);
    m->size = to && !to->link ? to->size : -1;
    m->at = m->size < 0 ? 0 : to->at;
    m->why = to && !to->link ? to->why : "a link to a file that is not in the tar: pack it with "
                                         "tar -h";
}

static int settle(tar_members *t, vc_err *err)
{
    int rc = sort(t, err);

    for (int64_t i = 0; i < t->n && !rc; i++)
        if (t->v[i].link)
            follow(t, &t->v[i]);
    return rc;
}

/* ---- reading the tar ---- */

/* Sets the place of the entry's data in the tar. */
static void place(const vc_map *map, struct archive *a, struct archive_entry *e, tar_member *m)
{
    const void *p = NULL;
    size_t n = 0;
    la_int64_t from = 0;

    m->size = archive_entry_size(e);
    if (!m->size)
        return;
    int got = archive_read_data_block(a, &p, &n, &from);
    uintptr_t base = (uintptr_t)map->data, at = (uintptr_t)p;
    bool whole = got == ARCHIVE_OK && !from && (int64_t)n == m->size && at >= base
                 && at - base <= map->size && n <= map->size - (at - base);
    m->at = whole ? (int64_t)(at - base) : 0;
    m->size = whole ? m->size : -1;
    m->why = "its data do not lie in one piece of the tar, or are cut short: unpack it with "
             "tar -xf, and give the folder";
}

static tar_kind kind_of(const char *name)
{
    const char *ending = vc_path_ext(name);
    vf_type type = vf_type_of_name(name);

    return type == VF_TYPE_VIDEO ? TAR_VIDEO : type == VF_TYPE_IMAGE ? TAR_STILL
           : !strcasecmp(ending, ".txt") ? TAR_TEXT : !strcasecmp(ending, ".json") ? TAR_JSON
           : !strcasecmp(ending, ".caption") ? TAR_CAPTION : TAR_OTHER;
}

static const char *clean(const char *name)
{
    while (name[0] == '.' && name[1] == '/')
        name += 2 + strspn(name + 2, "/");
    return name;
}

/* True if a part of the path is a hidden file or folder, or one that systems leave. */
static bool is_system(const char *path)
{
    for (size_t n; *path; path += n + (path[n] == '/')) {
        char part[64];
        n = strcspn(path, "/");
        snprintf(part, sizeof part, "%.*s", (int)(n < sizeof part ? n : sizeof part - 1), path);
        if (n && strcmp(part, "..") && metadata_is_system(part))
            return true;
    }
    return false;
}

/* Returns the path to which a symbolic link in the folder of the member `name` leads, without
 * "." and ".."; NULL: out of memory. */
static char *join_link(const char *name, const char *to)
{
    char *all = vc_format("%.*s%s", *to == '/' ? 0 : (int)(vc_path_base(name) - name), name, to);
    size_t n = 0;

    for (char *p = all; p && *p;) {
        size_t len = strcspn(p, "/"), slash = p[len] == '/';
        bool up = len == 2 && !strncmp(p, "..", 2);
        for (n -= up && n > 0; up && n && all[n - 1] != '/';)
            n--;
        if (len && !up && !(len == 1 && *p == '.')) {
            memmove(all + n, p, len + slash);
            n += len + slash;
        }
        p += len + slash;
    }
    if (all)
        all[n] = 0;
    return all;
}

/* libarchive has a name as bytes, or, where the locale cannot hold it, as UTF-8 alone. */
static const char *either(const char *bytes, const char *utf8)
{
    return bytes ? bytes : utf8;
}

static int take_link(tar_member *m, struct archive_entry *e, vc_err *err)
{
    const char *hard = either(archive_entry_hardlink(e), archive_entry_hardlink_utf8(e));
    const char *soft = either(archive_entry_symlink(e), archive_entry_symlink_utf8(e));

    m->hard = hard && archive_entry_size(e) <= 0;
    if (m->hard)
        m->link = strdup(clean(hard));
    else if (!hard && soft && archive_entry_filetype(e) == AE_IFLNK)
        m->link = join_link(m->clean, soft);
    else
        return 0;
    return m->link ? 0 : vc_no_memory(err);
}

static int room(tar_members *t, vc_err *err)
{
    if (t->n < t->cap)
        return 0;
    int64_t cap = t->cap ? t->cap * 2 : 256;
    tar_member *more = cap > INT32_MAX ? NULL : realloc(t->v, (size_t)cap * sizeof *more);
    if (!more)
        return vc_fail(err, VC_ENOMEM, "out of memory for %" PRId64 " members", cap);
    t->v = more;
    t->cap = cap;
    return 0;
}

/* As in WebDataset, a key ends at the first dot of the last part of the path. */
static int take(tar_members *t, const vc_map *map, struct archive *a, struct archive_entry *e,
                vc_err *err)
{
    const char *name = either(archive_entry_pathname(e), archive_entry_pathname_utf8(e));
    bool link = archive_entry_hardlink(e) || archive_entry_hardlink_utf8(e)
                || archive_entry_filetype(e) == AE_IFLNK;

    if (!name || !*vc_path_base(name) || is_system(clean(name))
        || (!link && archive_entry_filetype(e) != AE_IFREG))
        return 0;
    int rc = room(t, err);
    if (rc)
        return rc;
    tar_member *m = &t->v[t->n];
    *m = (tar_member){ .order = t->n, .name = strdup(name) };
    if (!m->name)
        return vc_no_memory(err);
    t->n++;
    m->clean = clean(m->name);
    const char *base = vc_path_base(m->clean);
    m->key = (size_t)(base - m->clean) + strcspn(base, ".");
    m->stem = (size_t)(vc_path_ext(m->clean) - m->clean);
    m->kind = kind_of(m->clean);
    rc = take_link(m, e, err);
    if (!rc && !m->link && m->kind != TAR_OTHER)
        place(map, a, e, m);
    return rc;
}

/* Names the program that packed the file, if one did. */
static const char *unpacker(const vc_map *map)
{
    static const struct { const char *begin; size_t n; const char *program; } packed[] = {
        { "\x1f\x8b", 2, "gunzip" }, { "BZh", 3, "bunzip2" }, { "\xfd" "7zXZ", 5, "unxz" },
        { "\x28\xb5\x2f\xfd", 4, "unzstd" }, { "\x04\x22\x4d\x18", 4, "unlz4" },
        { "PK\x03\x04", 4, "unzip" },
    };

    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        if (map->size >= packed[i].n && !memcmp(map->data, packed[i].begin, packed[i].n))
            return packed[i].program;
    return NULL;
}

static char *say_damage(const vc_map *map, struct archive *a)
{
    const char *program = unpacker(map), *why = archive_error_string(a);

    if (program)
        return vc_format("no plain tar, but a packed file: unpack it with %s", program);
    return vc_format("no plain tar, or damaged from here on: %s", why ? why : "unknown");
}

static int read_all(tar_members *t, const vc_map *map, struct archive *a, vc_err *err)
{
    struct archive_entry *e;
    int rc = 0, got = 0;

    if (archive_read_support_format_tar(a) || archive_read_open_memory(a, map->data, map->size))
        got = ARCHIVE_FATAL;
    while (!rc && got == ARCHIVE_OK && ((got = archive_read_next_header(a, &e)) == ARCHIVE_OK
                                        || got == ARCHIVE_WARN)) {
        rc = take(t, map, a, e, err);
        got = ARCHIVE_OK;
    }
    if (!rc && got != ARCHIVE_EOF && !(t->damage = say_damage(map, a)))
        rc = vc_no_memory(err);
    return rc;
}

int tar_members_read(tar_members *t, const vc_map *map, vc_err *err)
{
    struct archive *a = archive_read_new();
    int rc = a ? read_all(t, map, a, err) : vc_no_memory(err);

    if (a)
        archive_read_free(a);
    return rc ? rc : settle(t, err);
}

void tar_members_free(tar_members *t)
{
    for (int64_t i = 0; i < t->n; i++) {
        free(t->v[i].name);
        free(t->v[i].link);
    }
    free(t->v);
    free(t->by_name);
    free(t->by_key);
    free(t->damage);
}

/* place_folder.c - a folder of this machine, or of a file server that is mounted here, as a place
 * of a dataset. See place.h */
#include "formats/vlat/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.h"
#include "common/os/lock.h"
#include "formats/vlat/owner.h"

enum { BLOCK = 1 << 18 };

typedef struct folder {
    vlat_place place;
    int lock, fd;                            /* of VLAT_COMING; of the file that comes; or -1 */
    char *path;                              /* of the file that comes */
    uint8_t block[BLOCK];
} folder;

static int give(folder *f, int fd, const char *path, uint64_t n, const vlat_sink *to, vc_err *err)
{
    int rc = 0;
    while (!rc && n) {
        ssize_t k = read(fd, f->block, n < BLOCK ? (size_t)n : BLOCK);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return vc_fail_errno(err, "%s", path);
        if (!k)
            break;
        n -= (uint64_t)k;
        rc = to->take(to->arg, f->block, (size_t)k, err);
        if (!rc)
            rc = vlat_place_stopped(&f->place, err);
    }
    return rc;
}

static int get(vlat_place *p, const char *name, uint64_t from, uint64_t n, const vlat_sink *to,
               bool *again, vc_err *err)
{
    struct stat st;
    int fd = -1;
    char *path = vc_path_join(p->where, name);
    int rc = path ? vc_file_open(&fd, &st, path, err) : vc_no_memory(err);
    *again = false;
    if (!rc && lseek(fd, (off_t)from, SEEK_SET) < 0)
        rc = vc_fail_errno(err, "%s", path);
    if (!rc)
        rc = give((folder *)p, fd, path, n, to, err);
    if (fd >= 0)
        close(fd);
    free(path);
    return rc;
}

/* Opens and locks VLAT_COMING at path. *there is false if another transfer has removed it
 * meanwhile. */
static int lock(folder *f, const char *path, bool *there, vc_err *err)
{
    struct stat mine, now;
    if (f->lock >= 0)
        close(f->lock);
    f->lock = -1;
    int rc = vc_mkdirs(path, err);
    if (rc)
        return rc;
    f->lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *there = f->lock >= 0 || errno != ENOENT;
    if (f->lock < 0)
        return *there ? vc_fail_errno(err, "%s", path) : 0;
    rc = vc_lock_open(f->lock, false, path, err);
    if (rc == VC_EBUSY)
        return vc_fail(err, VC_EBUSY, "%s: another vlat pull or push writes there", path);
    if (rc)
        return rc;
    *there = !fstat(f->lock, &mine) && !stat(path, &now) && mine.st_dev == now.st_dev &&
             mine.st_ino == now.st_ino;
    return 0;
}

/* Refuses a folder to which a push over ssh writes, unless the process that did so has ended. */
static int look_for_push(const vlat_place *p, vc_err *err)
{
    char *path = vc_path_join(p->where, VLAT_LOCK);
    DIR *d = path ? opendir(path) : NULL;
    int rc = path ? 0 : vc_no_memory(err);
    bool found = false;
    for (struct dirent *e; d && (e = vc_dir_next(d, path, &rc, err));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        found = true;
        if (!vlat_owner_gone(e->d_name))
            rc = vlat_owner_busy(e->d_name, p->where, VLAT_LOCK, err);
    }
    if (d && !rc && !found)
        rc = vlat_owner_busy("", p->where, VLAT_LOCK, err);
    if (d)
        closedir(d);
    free(path);
    return rc;
}

/* The lock comes first: a push over ssh makes its own first, too, and then looks for this one. */
static int prepare(vlat_place *p, vc_err *err)
{
    folder *f = (folder *)p;
    bool there = false;
    char *path = vc_path_join(p->where, VLAT_COMING);
    int rc = path ? 0 : vc_no_memory(err);
    while (!rc && !there)
        rc = lock(f, path, &there, err);
    free(path);
    return rc ? rc : look_for_push(p, err);
}

static int release(vlat_place *p, bool done, vc_err *err)
{
    folder *f = (folder *)p;
    char *path = vc_path_join(p->where, VLAT_COMING);
    int rc = path ? 0 : vc_no_memory(err);
    if (!rc && done)
        rc = vc_remove_tree(path, err);
    close(f->lock);
    f->lock = -1;
    free(path);
    return rc;
}

static int sizes(vlat_place *p, char *const *name, int n, int64_t *size, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < n; i++) {
        struct stat st;
        char *path = vc_path_join(p->where, name[i]);
        if (!path)
            return vc_no_memory(err);
        size[i] = -1;
        if (!lstat(path, &st))
            size[i] = (int64_t)st.st_size;
        else if (errno != ENOENT && errno != ENOTDIR)
            rc = vc_fail_errno(err, "%s", path);
        if (size[i] >= 0 && !S_ISREG(st.st_mode))
            rc = vc_fail(err, VC_EFORMAT, "%s: no regular file: move it away", path);
        free(path);
    }
    return rc;
}

static int put_begin(vlat_place *p, const char *name, uint64_t from, vc_err *err)
{
    folder *f = (folder *)p;
    free(f->path);
    f->path = vc_path_join(p->where, name);
    if (!f->path)
        return vc_no_memory(err);
    f->fd = open(f->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (f->fd < 0 || ftruncate(f->fd, (off_t)from) || lseek(f->fd, (off_t)from, SEEK_SET) < 0)
        return vc_fail_errno(err, "%s", f->path);
    return 0;
}

static int put(vlat_place *p, const void *data, size_t n, vc_err *err)
{
    folder *f = (folder *)p;
    for (size_t at = 0; at < n;) {
        ssize_t k = write(f->fd, (const char *)data + at, n - at);
        if (k < 0 && errno != EINTR)
            return vc_fail_errno(err, "%s", f->path);
        at += k > 0 ? (size_t)k : 0;
    }
    return 0;
}

/* The bytes of a local file were compared on their way: the checksum adds nothing here. */
static int put_end(vlat_place *p, const uint32_t *sum, vc_err *err)
{
    folder *f = (folder *)p;
    int rc = f->fd >= 0 && sum && fsync(f->fd) ? vc_fail_errno(err, "%s", f->path) : 0;
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    return rc;
}

static int rename_all(vlat_place *p, char *const *from, char *const *to, int n, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < n; i++) {
        char *a = vc_path_join(p->where, from[i]), *b = vc_path_join(p->where, to[i]);
        rc = a && b ? 0 : vc_no_memory(err);
        if (!rc && rename(a, b))
            rc = vc_fail_errno(err, "%s", b);
        free(a);
        free(b);
    }
    return rc ? rc : vc_sync_dir(p->where, err);
}

static int remove_all(vlat_place *p, char *const *name, int n, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < n; i++) {
        char *path = vc_path_join(p->where, name[i]);
        rc = path ? vc_remove_tree(path, err) : vc_no_memory(err);
        free(path);
    }
    return rc;
}

static void close_folder(vlat_place *p)
{
    folder *f = (folder *)p;
    put_end(p, NULL, NULL);
    if (f->lock >= 0)
        close(f->lock);
    free(f->path);
    free(f);
}

static const vlat_place_kind kind = {
    .near = true, .get = get, .close = close_folder, .prepare = prepare,
    .release = release, .sizes = sizes,
    .put_begin = put_begin, .put = put, .put_end = put_end, .rename = rename_all,
    .remove = remove_all
};

int vlat_folder_open(vlat_place **out, const char *where, vc_err *err)
{
    folder *f = calloc(1, sizeof *f);
    (void)where;
    if (!f)
        return vc_no_memory(err);
    f->lock = f->fd = -1;
    f->place.kind = &kind;
    *out = &f->place;
    return 0;
}

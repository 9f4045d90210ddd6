/* spill.c - memory in a file without a name; see spill.h */
#include "common/os/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/os/file.h"
#include "common/os/map.h"
#include "common/os/progress.h"

struct vc_spill {
    vc_map map;
    char *base;                              /* of the map, or of a dry one's addresses */
    size_t bytes, used;
    char *name;                              /* "FOLDER: WHAT" */
    int fd;                                  /* -1: dry */
    int failed;                              /* errno of the first failed write, or 0 */
    vc_err lacks;                            /* of a dry one */
};

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

size_t vc_spill_room(size_t bytes)
{
    return (bytes + page() - 1) / page() * page();
}

/* ---- open, close ---- */

/* A file without a name, or, where the file system has none, one whose name is removed at once. */
static int open_file(int *fd, const char *dir, vc_err *err)
{
    *fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (*fd >= 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        return vc_fail_errno(err, "%s: cannot make a file there", dir);
    char *path = vc_format("%s/.spill-XXXXXX", dir);
    if (!path)
        return vc_no_memory(err);
    *fd = mkostemp(path, O_CLOEXEC);
    int rc = *fd < 0 ? vc_fail_errno(err, "%s", path) : 0;
    if (!rc && unlink(path))
        rc = vc_fail_errno(err, "%s", path);
    free(path);
    return rc;
}

static int no_room(const vc_spill *s, double is_free, vc_err *err)
{
    char a[32], b[32];
    return vc_fail(err, VC_EFULL, "%s: %s (%zu bytes) are needed, but only %s are free there",
                   s->name, vc_human_bytes(a, (double)s->bytes), s->bytes,
                   vc_human_bytes(b, is_free));
}

/* Checks the room in dir, or of a dry spill in the nearest folder above that exists. */
static int check_room(const vc_spill *s, const char *dir, bool dry, vc_err *err)
{
    struct statvfs fs;
    char *path = strdup(dir);
    if (!path)
        return vc_no_memory(err);
    int rc = statvfs(path, &fs);
    for (char *slash; dry && rc && errno == ENOENT && (slash = strrchr(path, '/'));) {
        slash[slash == path] = '\0';
        rc = statvfs(path, &fs);
        if (slash == path)
            break;
    }
    if (dry && rc && errno == ENOENT)
        rc = statvfs(".", &fs);
    rc = rc ? vc_fail_errno(err, "%s", s->name) : 0;
    const double is_free = rc ? 0 : (double)fs.f_bavail * (double)fs.f_frsize;
    if (!rc && is_free < (double)s->bytes)
        rc = no_room(s, is_free, err);
    free(path);
    return rc;
}

/* Takes the file's space: where the file system cannot promise it, zeroes are written. */
static int make_file(vc_spill *s, const char *dir, vc_err *err)
{
    int rc = open_file(&s->fd, dir, err);
    if (rc)
        return vc_context(err, rc, "%s", s->name);
    int e = posix_fallocate(s->fd, 0, (off_t)s->bytes);
    if (e) {
        errno = e;
        return vc_fail_errno(err, "%s: no %zu bytes", s->name, s->bytes);
    }
    rc = vc_map_own(&s->map, s->fd, s->bytes, s->name, err);
    s->base = (char *)(uintptr_t)s->map.data;
    return rc;
}

static int reserve(vc_spill *s, vc_err *err)
{
    void *p = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return vc_fail_errno(err, "%s", s->name);
    s->base = p;
    return 0;
}

int vc_spill_open(vc_spill **out, const char *dir, size_t bytes, const char *what, bool dry,
                  vc_err *err)
{
    vc_spill *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return vc_no_memory(err);
    s->fd = -1;
    s->bytes = vc_spill_room(bytes ? bytes : 1);
    s->name = vc_format("%s: %s", dir, what);
    int rc = s->name ? check_room(s, dir, dry, dry ? &s->lacks : err) : vc_no_memory(err);
    if (!rc || (dry && s->name))
        rc = dry ? reserve(s, err) : make_file(s, dir, err);
    if (rc) {
        vc_spill_close(s);
        return rc;
    }
    *out = s;
    return 0;
}

void vc_spill_close(vc_spill *s)
{
    if (!s)
        return;
    if (s->fd < 0 && s->base)
        munmap(s->base, s->bytes);
    vc_map_close(&s->map);
    if (s->fd >= 0)
        close(s->fd);
    free(s->name);
    free(s);
}

/* ---- memory ---- */

void *vc_spill_take(vc_spill *s, size_t bytes)
{
    const size_t n = vc_spill_room(bytes), at = s->used;
    if (n > s->bytes - at)
        return NULL;
    s->used += n;
    return s->base + at;
}

void vc_spill_take_back(vc_spill *s, size_t bytes)
{
    s->used -= bytes < s->used ? bytes : s->used;
}

size_t vc_spill_bytes(const vc_spill *s)
{
    return s ? s->bytes : 0;
}

/* Widens the range to whole pages; false: it is not of a file. */
static bool pages_of(const vc_spill *s, const void *p, size_t bytes, size_t *at, size_t *n)
{
    const uintptr_t base = s ? (uintptr_t)s->base : 0, from = (uintptr_t)p;
    if (!s || s->fd < 0 || from < base || from >= base + s->bytes)
        return false;
    *at = (from - base) / page() * page();
    *n = vc_spill_room(from - base + bytes) - *at;
    return true;
}

void vc_spill_want(const vc_spill *s, const void *p, size_t bytes)
{
    size_t at, n;
    if (pages_of(s, p, bytes, &at, &n))
        madvise(s->base + at, n, MADV_WILLNEED);
}

/* The pages leave first, so that the kernel knows which of them were written. Waiting for the
 * writing that an earlier call began, which has long ended, gives its errors. */
void vc_spill_rest(vc_spill *s, const void *p, size_t bytes)
{
    enum { HOW = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE };
    size_t at, n;
    if (!pages_of(s, p, bytes, &at, &n))
        return;
    madvise(s->base + at, n, MADV_DONTNEED);
    if (sync_file_range(s->fd, (off_t)at, (off_t)n, HOW) && !s->failed && errno != ENOSYS)
        s->failed = errno;
}

int vc_spill_check(const vc_spill *s, vc_err *err)
{
    if (!s)
        return 0;
    if (s->lacks.code)
        return vc_fail(err, s->lacks.code, "%s", s->lacks.text);
    if (s->failed) {
        errno = s->failed;
        return vc_fail_errno(err, "%s: cannot be written", s->name);
    }
    return vc_map_check(s->map.data, s->map.size, err);
}

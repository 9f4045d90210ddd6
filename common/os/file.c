/* file.c - whole files, folders and paths; see file.h */
#include "common/os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/progress.h"
#include "common/os/temp.h"

enum { PIECE = 64 << 20 };                   /* bytes between looks at the stop flag */

int vc_file_read(char **data, size_t *size, const char *path, size_t max, vc_err *err)
{
    *data = NULL;
    *size = 0;

    struct stat st;
    int fd, rc = vc_file_open(&fd, &st, path, err);
    if (rc)
        return rc;

    char *buf = NULL;
    size_t n = (size_t)st.st_size, got = 0;
    if (n > max)
        rc = vc_fail(err, VC_EFORMAT, "%s: %zu bytes, at most %zu expected", path, n, max);
    else if (!(buf = malloc(n + 1)))
        rc = vc_fail(err, VC_ENOMEM, "%s: out of memory for %zu bytes", path, n);
    while (!rc && got < n) {
        if (got >= PIECE && *vc_stop_flag()) {       /* small files are read after a stop too */
            rc = vc_fail(err, VC_ESTOP, "stopped");
            break;
        }
        ssize_t r = read(fd, buf + got, n - got < PIECE ? n - got : PIECE);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            rc = vc_fail_errno(err, "%s", path);
        if (r <= 0)
            break;
        got += (size_t)r;
    }
    close(fd);
    if (rc) {
        free(buf);
        return rc;
    }
    buf[got] = 0;
    *data = buf;
    *size = got;
    return 0;
}

static int write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return -1;
        p += w;
        n -= (size_t)w;
    }
    return 0;
}

int vc_file_write(const char *path, const void *data, size_t size, vc_err *err)
{
    int fd;
    char *tmp;
    int rc = vc_temp_open(&fd, &tmp, path, err);
    if (rc)
        return rc;
    if (write_all(fd, data, size) || fsync(fd))
        rc = vc_fail_errno(err, "%s", path);
    rc = vc_maps_check(rc, err);
    if (!rc && rename(tmp, path))
        rc = vc_fail_errno(err, "%s", path);
    if (rc)
        unlink(tmp);
    if (close(fd) && !rc)
        rc = vc_fail_errno(err, "%s", path);
    free(tmp);
    if (rc)
        return rc;

    char *dir = vc_format("%.*s", (int)(vc_path_base(path) - path), path);
    if (!dir)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", path);
    rc = vc_sync_dir(*dir ? dir : ".", err);
    free(dir);
    return rc;
}

int vc_mkdirs(const char *path, vc_err *err)
{
    char *p = vc_format("%s", path);
    if (!p)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", path);

    int rc = 0;
    for (char *s = p + 1; !rc; s++) {
        if (*s != '/' && *s)
            continue;
        char c = *s;
        *s = 0;
        struct stat st;
        if (mkdir(p, 0777) && (errno != EEXIST || stat(p, &st) || !S_ISDIR(st.st_mode)))
            rc = vc_fail_errno(err, "cannot make folder %s", p);
        *s = c;
        if (!c)
            break;
    }
    free(p);
    return rc;
}

int vc_sync_dir(const char *path, vc_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return vc_fail_errno(err, "%s", path);
    /* some network file systems cannot sync a folder */
    int rc = fsync(fd) && errno != EINVAL && errno != EBADF && errno != EOPNOTSUPP &&
             errno != ENOSYS ? vc_fail_errno(err, "%s", path) : 0;
    close(fd);
    return rc;
}

/* Opens folders by descriptor, so that a folder that is meanwhile replaced by a link is not
 * followed, and no path gets too long. */
static int remove_at(int dir, const char *name, vc_err *err)
{
    if (!unlinkat(dir, name, 0) || errno == ENOENT)
        return 0;
    if (errno != EISDIR)
        return vc_fail_errno(err, "%s", name);

    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        int rc = vc_fail_errno(err, "%s", name);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    int rc = 0;
    for (struct dirent *e; (e = vc_dir_next(d, name, &rc, err));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            rc = vc_context(err, remove_at(fd, e->d_name, err), "%s", name);
    closedir(d);
    if (!rc && unlinkat(dir, name, AT_REMOVEDIR))
        rc = vc_fail_errno(err, "%s", name);
    return rc;
}

int vc_remove_tree(const char *path, vc_err *err)
{
    char *p = vc_format("%s", path);
    if (!p)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", path);
    /* the system would follow a link whose path ends with a slash */
    for (size_t n = strlen(p); n > 1 && p[n - 1] == '/'; n--)
        p[n - 1] = 0;
    int rc = remove_at(AT_FDCWD, p, err);
    free(p);
    return rc;
}

struct dirent *vc_dir_next(DIR *d, const char *path, int *rc, vc_err *err)
{
    errno = 0;
    struct dirent *e = *rc ? NULL : readdir(d);
    if (!e && !*rc && errno)
        *rc = vc_fail_errno(err, "%s", path);
    return e;
}

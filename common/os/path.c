/* path.c - the texts of paths, and what lies at them. See file.h. */
#include "common/os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *vc_path_join(const char *dir, const char *name)
{
    if (name[0] == '/' || !dir || !*dir)
        return vc_format("%s", name);
    return vc_format("%s%s%s", dir, dir[strlen(dir) - 1] == '/' ? "" : "/", name);
}

const char *vc_path_base(const char *path)
{
    const char *s = strrchr(path, '/');
    return s ? s + 1 : path;
}

const char *vc_path_ext(const char *path)
{
    const char *base = vc_path_base(path), *dot = strrchr(base, '.');
    return dot && dot != base ? dot : base + strlen(base);
}

char *vc_format(const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *s = n < 0 ? NULL : malloc((size_t)n + 1);
    if (s)
        vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    return s;
}

/* O_NONBLOCK keeps open() from hanging on a FIFO that hostile metadata names. */
int vc_file_open(int *fd, struct stat *st, const char *path, vc_err *err)
{
    while ((*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0 && errno == EINTR)
        ;
    if (*fd < 0)
        return vc_fail_errno(err, "%s", path);
    int rc = fstat(*fd, st) ? vc_fail_errno(err, "%s", path) : 0;
    if (!rc && !S_ISREG(st->st_mode))
        rc = vc_fail(err, VC_EFORMAT, "%s: not a regular file", path);
    if (rc) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

bool vc_file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

bool vc_file_exists_in(const char *dir, const char *name)
{
    char *path = vc_path_join(dir, name);
    bool there = path && vc_file_exists(path);
    free(path);
    return there;
}

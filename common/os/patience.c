/* patience.c - waits for locks; see patience.h */
#include "common/os/patience.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/os/lock.h"

/* Seconds: between tries, which grow; until a wait is a warning. */
#define FIRST_NAP 0.01
#define LONGEST_NAP 0.5
#define WARN 30.0

/* Notes the holder in the file: other machines do not see its process. It is only a hint, which a
 * full disk may leave out. */
static void sign(int fd)
{
    char text[128], host[64] = "";
    (void)gethostname(host, sizeof host - 1);
    int n = snprintf(text, sizeof text, "process %d on %s\n", (int)getpid(), host);
    if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)n, 0) != n)
        return;
}

/* Describes the holder, by the system's list of locks or else by what it wrote. */
static void find_holder(char holder[VC_LOCK_HOLDER], const char *path)
{
    char text[128];
    vc_lock_held(holder, path);
    int fd = *holder ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof text - 1, 0);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (*text)
        snprintf(holder, VC_LOCK_HOLDER, ": %s", text);
}

static void warn(const vc_patience *p, const char *path, double waited)
{
    char holder[VC_LOCK_HOLDER], time[32], limit[32], end[64] = "";
    find_holder(holder, path);
    if (p->seconds > 0)
        snprintf(end, sizeof end, "; the wait ends after %s", vc_human_time(limit, p->seconds));
    vc_warn(p->ui, "%s: locked by another process for %s%s%s", path, vc_human_time(time, waited),
            holder, end);
}

static int too_long(const char *path, double waited, vc_err *err)
{
    char holder[VC_LOCK_HOLDER], time[32];
    find_holder(holder, path);
    return vc_fail(err, VC_EBUSY, "%s: another process has locked it for %s%s: let it go on (kill "
                   "-CONT) or end it", path, vc_human_time(time, waited), holder);
}

/* Tries again and again, since a call that waits for a lock cannot be left. */
int vc_lock_patiently(int *fd, const char *path, const vc_patience *p, vc_err *err)
{
    double from = vc_seconds(), nap = FIRST_NAP, limit = p->seconds > 0 ? p->seconds : INFINITY;
    double early = fmin(WARN, limit / 2), warn_at = early;
    int rc;
    while ((rc = vc_lock_file(fd, path, err)) == VC_EBUSY) {
        double waited = vc_seconds() - from;
        if (p->look && (rc = p->look(p->arg, err)))
            return rc;
        if (waited >= (*vc_stop_flag() ? early : limit))
            return too_long(path, waited, err);
        if (waited >= warn_at) {
            warn(p, path, waited);
            warn_at = 2 * waited;
        }
        nanosleep(&(struct timespec){ .tv_nsec = (long)(nap * 1e9) }, NULL);
        nap = fmin(2 * nap, LONGEST_NAP);
    }
    if (!rc)
        sign(*fd);
    return rc;
}

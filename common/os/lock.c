/* lock.c - file locks; see lock.h */
#include "common/os/lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    HOLDER = VC_LOCK_HOLDER,                 /* bytes of text about a process */
    TRIES = 1000,                            /* limit for a file that is replaced again and again */
    GLANCES = 5, GLANCE = 20                 /* times and ms to wait for a vc_lock_held */
};

/* ---- the holder of a lock ---- */

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Returns true if process pid has the file open: a process id in the list of locks may meanwhile
 * belong to another process. */
static bool has_open(long pid, const struct stat *file)
{
    char path[64], name[sizeof path + 256];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%ld/fd", pid);
    DIR *d = opendir(path);
    bool found = false;
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        found = *e->d_name != '.' && !stat(name, &st) && same_file(&st, file);
    }
    if (d)
        closedir(d);
    return found;
}

static bool is_stopped(long pid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "re");
    char *end = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    if (f)
        fclose(f);
    return end && end[1] && (end[2] == 'T' || end[2] == 't');
}

/* Describes a process by its command line: ": vprep --out x (process 71, which is stopped)". */
static void describe(char out[HOLDER], long pid)
{
    char path[64], line[HOLDER - 64];
    snprintf(path, sizeof path, "/proc/%ld/cmdline", pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(line, 1, sizeof line - 1, f) : 0;
    if (f)
        fclose(f);
    while (n && !line[n - 1])
        n--;
    line[n] = 0;
    for (size_t i = 0; i < n; i++)           /* a terminal obeys control characters */
        if ((unsigned char)line[i] < 32 || line[i] == 127)
            line[i] = ' ';
    snprintf(out, HOLDER, ": %s (process %ld%s)", n ? line : "a program without a name", pid,
             is_stopped(pid) ? ", which is stopped" : "");
}

/* Describes the holder if the system's list of locks names it and the file is open in it. Else out
 * is empty: the holder may run on another machine, in another container or for another user. */
static void find_holder(char out[HOLDER], int fd)
{
    struct stat st;
    char line[256], kind[16];
    FILE *f = fopen("/proc/locks", "re");
    *out = 0;
    while (f && !*out && !fstat(fd, &st) && fgets(line, sizeof line, f)) {
        long pid;
        unsigned long long inode;
        if (sscanf(line, "%*d: %15s %*s %*s %ld %*x:%*x:%llu", kind, &pid, &inode) == 3 &&
            !strcmp(kind, "FLOCK") && inode == st.st_ino && has_open(pid, &st))
            describe(out, pid);
    }
    if (f)
        fclose(f);
}

static int busy(const char *path, int fd, vc_err *err)
{
    char holder[HOLDER];
    find_holder(holder, fd);
    return vc_fail(err, VC_EBUSY, "%s: another process is writing here%s: wait until it ends, "
                   "or stop it", path, *holder ? holder : ", maybe on another machine");
}

/* ---- locking ---- */

static int try_lock(int fd, int how)
{
    int rc;
    while ((rc = flock(fd, how)) && errno == EINTR)
        ;
    return rc;
}

static pthread_mutex_t missing_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool missing;
static char missing_path[PATH_MAX], missing_why[64];     /* of the first file without a lock */

/* True if flock failed because the file system has no locks. */
static bool has_none(const char *path)
{
    const int code = errno;
    if (code != ENOSYS && code != EOPNOTSUPP && code != ENOLCK)
        return false;
    pthread_mutex_lock(&missing_lock);
    if (!missing) {
        snprintf(missing_path, sizeof missing_path, "%s", path);
        snprintf(missing_why, sizeof missing_why, "%s", strerror(code));
        missing = true;
    }
    pthread_mutex_unlock(&missing_lock);
    return true;
}

bool vc_lock_missing(void)
{
    return missing;
}

void vc_lock_say_missing(vc_progress *p)
{
    if (missing)
        vc_warn(p, "%s: its file system has no locks (flock: %s): nothing keeps a second process "
                "from writing there, so start one at a time", missing_path, missing_why);
}

int vc_lock_open(int fd, bool shared, const char *path, vc_err *err)
{
    if (!try_lock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) || has_none(path))
        return 0;
    return errno == EWOULDBLOCK ? busy(path, fd, err) : vc_fail_errno(err, "%s: flock", path);
}

/* Takes the lock. A vc_lock_held elsewhere may hold it for a moment, so a busy file is tried
 * again a few times. */
static int take(int fd, const char *path, int wait, vc_err *err)
{
    const struct timespec pause = { .tv_nsec = GLANCE * 1000000L };
    int rc = try_lock(fd, LOCK_EX | wait);
    for (int i = 0; i < GLANCES && rc && errno == EWOULDBLOCK; i++) {
        nanosleep(&pause, NULL);
        rc = try_lock(fd, LOCK_EX | wait);
    }
    if (!rc || has_none(path))
        return 0;
    return errno == EWOULDBLOCK ? busy(path, fd, err) : vc_fail_errno(err, "%s: flock", path);
}

/* Returns true if path still names the open file. */
static bool is_there(int fd, const char *path)
{
    struct stat mine, there;
    return !fstat(fd, &mine) && !stat(path, &there) && same_file(&mine, &there);
}

static int lock(int *fd, const char *path, int wait, vc_err *err)
{
    for (int i = 0; i < TRIES; i++) {
        *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (*fd < 0)
            return vc_fail_errno(err, "%s", path);
        int rc = take(*fd, path, wait, err);
        if (!rc && is_there(*fd, path))
            return 0;
        close(*fd);
        *fd = -1;
        if (rc)
            return rc;
    }
    return vc_fail(err, VC_EBUSY, "%s: the file was replaced each of the %d times that it was "
                   "locked; stop the process that replaces it", path, TRIES);
}

int vc_lock_file(int *fd, const char *path, vc_err *err)
{
    return lock(fd, path, LOCK_NB, err);
}

int vc_lock_wait(int *fd, const char *path, vc_err *err)
{
    return lock(fd, path, 0, err);
}

bool vc_lock_held(char holder[VC_LOCK_HOLDER], const char *path)
{
    *holder = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool held = fd >= 0 && try_lock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    if (held)
        find_holder(holder, fd);
    if (fd >= 0)
        close(fd);
    return held;
}

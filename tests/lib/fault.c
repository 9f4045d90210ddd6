/* fault.c - a library to preload that fails, kills, stops or disturbs a program at a counted call.
 *
 *   LD_PRELOAD=libvlt_fault.so VLT_FAULT='RULE;RULE...' PROGRAM
 *
 * A rule is CALL[@PART]:N[+]:ACTION.
 *   CALL    open (also fopen, openat, opendir), read (pread, fread), write (pwrite, writev, fwrite,
 *           fflush, fclose), sync (fsync, fdatasync, msync), rename, unlink (unlinkat, remove,
 *           rmdir), mkdir, truncate, close, mmap, share (of these MAP_SHARED alone), flock, link
 *           (symlink), thread (pthread_create), memory (malloc, calloc, realloc, posix_memalign,
 *           aligned_alloc), any (all of these but memory), list (readdir, of which any counts
 *           none), change (the calls that change the disk: write, sync, rename, unlink, mkdir,
 *           truncate), space (statvfs: with ENOSPC it reports that no byte is free)
 *   @PART   restricts the rule to calls on a path that contains PART, or on a descriptor of such a
 *           path
 *   N       the number of the call that the rule disturbs, from 1; N+ for this call and all later
 *           ones
 *   ACTION  the name of an error (ENOSPC, EDQUOT, EIO, EMFILE, EACCES, EINTR, EAGAIN, ENOMEM,
 *           ENOENT, EBUSY, ENODEV, ENOSYS, ENOLCK, EPERM); short: the call reads or writes half of
 *           the bytes; kill, stop, term, hup: the program receives SIGKILL, SIGSTOP, SIGTERM or
 *           SIGHUP before the call; run: /bin/sh runs $VLT_FAULT_RUN before the call, without this
 *           library
 * With VLT_FAULT_COUNT=FILE a program that exits appends a line "CALL NUMBER" for each kind of call
 * to FILE, so that a script knows the number of calls to disturb. Each rule has its own count, over
 * all threads; a forked child continues the count for itself, and a program that the child executes
 * counts from 0. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    OPEN, READ, WRITE, SYNC, RENAME, UNLINK, MKDIR, TRUNCATE, CLOSE, MMAP, SHARE, FLOCK, LINK,
    THREAD, MEMORY, LIST, ANY, CHANGE, SPACE, CALLS
};
static const char *const call_name[CALLS] = {
    "open", "read", "write", "sync", "rename", "unlink", "mkdir", "truncate", "close", "mmap",
    "share", "flock", "link", "thread", "memory", "list", "any", "change", "space"
};
enum { SHORT = -1, KILL = -2, STOP = -3, TERM = -4, HUP = -5, RUN = -6 };
static const struct { const char *name; int action; } actions[] = {
    { "ENOSPC", ENOSPC }, { "EDQUOT", EDQUOT }, { "EIO", EIO }, { "EMFILE", EMFILE },
    { "EACCES", EACCES }, { "EINTR", EINTR }, { "EAGAIN", EAGAIN }, { "ENOMEM", ENOMEM },
    { "ENOENT", ENOENT }, { "EBUSY", EBUSY },
    { "ENODEV", ENODEV }, { "ENOSYS", ENOSYS }, { "ENOLCK", ENOLCK }, { "EPERM", EPERM },
    { "short", SHORT }, { "kill", KILL },
    { "stop", STOP }, { "term", TERM }, { "hup", HUP }, { "run", RUN },
};

typedef struct rule {
    int call, action;
    char part[256];
    long n;
    bool on;
    atomic_long seen;
} rule;

static rule rules[16];
static int rule_count;
static atomic_long calls[CALLS];
static char count_file[512], run_command[1024];
static _Thread_local bool inside;          /* this thread runs code of this library: not counted */

static void complain(const char *text)
{
    fprintf(stderr, "fault.c: VLT_FAULT: %s\n", text);
    _exit(99);
}

static void read_rule(char *text)
{
    rule *r = &rules[rule_count];
    char *number = strchr(text, ':'), *action = number ? strchr(number + 1, ':') : NULL;
    if (!action || rule_count == 16)
        complain(text);
    *number++ = *action++ = 0;
    char *part = strchr(text, '@');
    if (part) {
        *part++ = 0;
        snprintf(r->part, sizeof r->part, "%s", part);
    }
    for (r->call = 0; r->call < CALLS && strcmp(call_name[r->call], text); r->call++)
        ;
    char *end;
    r->n = strtol(number, &end, 10);
    r->on = *end == '+';
    bool known = false;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (!strcmp(actions[i].name, action)) {
            r->action = actions[i].action;
            known = true;
        }
    if (r->call == CALLS || r->n < 1 || !known)
        complain(text);
    rule_count++;
}

__attribute__((constructor)) static void fault_begin(void)
{
    inside = true;
    const char *text = getenv("VLT_FAULT"), *count = getenv("VLT_FAULT_COUNT");
    const char *run = getenv("VLT_FAULT_RUN");
    char copy[4096], *save;

    snprintf(count_file, sizeof count_file, "%s", count ? count : "");
    snprintf(run_command, sizeof run_command, "%s", run ? run : "");
    snprintf(copy, sizeof copy, "%s", text ? text : "");
    for (char *t = strtok_r(copy, ";", &save); t; t = strtok_r(NULL, ";", &save))
        read_rule(t);
    inside = false;
}

/* Whether a rule about one kind of calls counts a call of another. */
static bool counts(int rule_call, int call)
{
    static const bool changes[CALLS] = { [WRITE] = true, [SYNC] = true, [RENAME] = true,
                                         [UNLINK] = true, [MKDIR] = true, [TRUNCATE] = true };
    const bool any = call != MEMORY && call != SPACE && call != LIST;
    return rule_call == call || (rule_call == ANY && any) ||
           (rule_call == MMAP && call == SHARE) ||
           (rule_call == CHANGE && changes[call]);
}

__attribute__((destructor)) static void fault_end(void)
{
    inside = true;
    FILE *f = count_file[0] ? fopen(count_file, "a") : NULL;
    for (int i = 0; f && i < CALLS; i++) {
        long n = 0;
        for (int j = 0; j < ANY; j++)
            n += counts(i, j) ? atomic_load(&calls[j]) : 0;
        fprintf(f, "%s %ld\n", call_name[i], n);
    }
    if (f)
        fclose(f);
    inside = false;
}

/* The shell gets an environment without this library: its own calls would match the rules again. */
static void run_the_command(void)
{
    char *line[] = { (char *)"sh", (char *)"-c", run_command, NULL }, *clean[1024];
    int n = 0, status = -1;
    for (char **e = environ; *e && n < 1023; e++)
        if (strncmp(*e, "LD_PRELOAD=", 11) && strncmp(*e, "VLT_FAULT", 9))
            clean[n++] = *e;
    clean[n] = NULL;
    pid_t child = fork();
    if (child == 0) {
        execve("/bin/sh", line, clean);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (status)
        fprintf(stderr, "fault.c: VLT_FAULT_RUN failed: %s\n", run_command);
}

/* Counts the call. Returns 0 for a call that proceeds, SHORT for one that processes half of its
 * bytes, and otherwise the errno of a call that fails. */
static int fault(int call, const char *path, int fd)
{
    if (inside)
        return 0;
    inside = true;
    int keep = errno, rc = 0;
    char of_fd[512] = "";

    atomic_fetch_add(&calls[call], 1);
    for (int i = 0; i < rule_count; i++) {
        rule *r = &rules[i];
        if (!counts(r->call, call))
            continue;
        if (r->part[0] && !path && fd >= 0 && !of_fd[0]) {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
            ssize_t n = readlink(link, of_fd, sizeof of_fd - 1);
            of_fd[n > 0 ? n : 0] = 0;
        }
        if (r->part[0] && !strstr(path ? path : of_fd, r->part))
            continue;
        long seen = atomic_fetch_add(&r->seen, 1) + 1;
        if (r->on ? seen < r->n : seen != r->n)
            continue;
        static const int signals[] = { [-KILL] = SIGKILL, [-TERM] = SIGTERM, [-HUP] = SIGHUP };
        if (r->action == RUN)
            run_the_command();
        else if (r->action == STOP)
            raise(SIGSTOP);      /* kill() may stop another thread first, and this call goes on */
        else if (r->action <= KILL)
            kill(getpid(), signals[-r->action]);
        else
            rc = r->action;
    }
    errno = keep;
    inside = false;
    return rc;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) { \
        bool was = inside; \
        inside = true; \
        real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name); \
        inside = was; \
    }
/* Returns `value` from the wrapper, with the errno of fault(), if the call is to fail. */
#define FAIL(value, call, path, fd) \
    do { \
        int e_ = fault(call, path, fd); \
        if (e_ > 0) { \
            errno = e_; \
            return value; \
        } \
    } while (0)

#define HALF(n, e) ((e) == SHORT && (n) > 1 ? (n) / 2 : (n))

static mode_t mode_of(int flags, va_list ap)
{
    return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(ap, int) : 0;
}

#define OPENS(name) \
    int name(const char *path, int flags, ...); \
    int name(const char *path, int flags, ...) \
    { \
        va_list ap; \
        va_start(ap, flags); \
        mode_t mode = mode_of(flags, ap); \
        va_end(ap); \
        REAL(int, name, const char *, int, ...) \
        FAIL(-1, OPEN, path, -1); \
        return real(path, flags, mode); \
    }
#define OPENS_AT(name) \
    int name(int dir, const char *path, int flags, ...); \
    int name(int dir, const char *path, int flags, ...) \
    { \
        va_list ap; \
        va_start(ap, flags); \
        mode_t mode = mode_of(flags, ap); \
        va_end(ap); \
        REAL(int, name, int, const char *, int, ...) \
        FAIL(-1, OPEN, path, -1); \
        return real(dir, path, flags, mode); \
    }
/* Defines the wrapper of a function without variable arguments. */
#define WRAP(type, name, params, types, args, value, call, path, fd) \
    type name params; \
    type name params \
    { \
        REAL(type, name, types) \
        FAIL(value, call, path, fd); \
        return real args; \
    }
#define T(...) __VA_ARGS__

OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)
WRAP(FILE *, fopen, (const char *p, const char *m), T(const char *, const char *), (p, m), NULL,
     OPEN, p, -1)
WRAP(FILE *, fopen64, (const char *p, const char *m), T(const char *, const char *), (p, m), NULL,
     OPEN, p, -1)
WRAP(DIR *, opendir, (const char *p), T(const char *), (p), NULL, OPEN, p, -1)

#define SIZED(type, name, params, types, args, call, fd, n) \
    type name params; \
    type name params \
    { \
        REAL(type, name, types) \
        int e = fault(call, NULL, fd); \
        if (e > 0) { \
            errno = e; \
            return (type)-1; \
        } \
        n = HALF(n, e); \
        return real args; \
    }
SIZED(ssize_t, read, (int fd, void *p, size_t n), T(int, void *, size_t), (fd, p, n), READ, fd, n)
SIZED(ssize_t, pread, (int fd, void *p, size_t n, off_t o), T(int, void *, size_t, off_t),
      (fd, p, n, o), READ, fd, n)
SIZED(ssize_t, pread64, (int fd, void *p, size_t n, off_t o), T(int, void *, size_t, off_t),
      (fd, p, n, o), READ, fd, n)
SIZED(ssize_t, write, (int fd, const void *p, size_t n), T(int, const void *, size_t), (fd, p, n),
      WRITE, fd, n)
SIZED(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t o),
      T(int, const void *, size_t, off_t), (fd, p, n, o), WRITE, fd, n)
SIZED(ssize_t, pwrite64, (int fd, const void *p, size_t n, off_t o),
      T(int, const void *, size_t, off_t), (fd, p, n, o), WRITE, fd, n)
SIZED(ssize_t, writev, (int fd, const struct iovec *v, int n), T(int, const struct iovec *, int),
      (fd, v, n), WRITE, fd, n)
SIZED(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t o),
      T(int, const struct iovec *, int, off_t), (fd, v, n, o), WRITE, fd, n)

/* A call that fails on a stream sets the stream's error flag, as in the C library: ferror() returns
 * the flag. */
static int fault_stream(int call, FILE *f)
{
    int e = fault(call, NULL, f ? fileno(f) : -1);
    if (e > 0 && f)
        f->_flags |= 0x20;                 /* glibc's _IO_ERR_SEEN */
    return e;
}
#define STREAM(type, name, params, types, args, value, call, f) \
    type name params; \
    type name params \
    { \
        REAL(type, name, types) \
        int e = fault_stream(call, f); \
        if (e > 0) { \
            errno = e; \
            return value; \
        } \
        return real args; \
    }
STREAM(size_t, fread, (void *p, size_t s, size_t n, FILE *f), T(void *, size_t, size_t, FILE *),
       (p, s, n, f), 0, READ, f)
STREAM(size_t, fwrite, (const void *p, size_t s, size_t n, FILE *f),
       T(const void *, size_t, size_t, FILE *), (p, s, n, f), 0, WRITE, f)
STREAM(int, fflush, (FILE *f), T(FILE *), (f), EOF, WRITE, f)

WRAP(int, fsync, (int fd), T(int), (fd), -1, SYNC, NULL, fd)
WRAP(int, fdatasync, (int fd), T(int), (fd), -1, SYNC, NULL, fd)
WRAP(int, msync, (void *p, size_t n, int f), T(void *, size_t, int), (p, n, f), -1, SYNC, NULL, -1)
WRAP(int, rename, (const char *a, const char *b), T(const char *, const char *), (a, b), -1, RENAME,
     b, -1)
WRAP(int, renameat, (int d, const char *a, int e, const char *b),
     T(int, const char *, int, const char *), (d, a, e, b), -1, RENAME, b, -1)
WRAP(int, renameat2, (int d, const char *a, int e, const char *b, unsigned f),
     T(int, const char *, int, const char *, unsigned), (d, a, e, b, f), -1, RENAME, b, -1)
WRAP(int, unlink, (const char *p), T(const char *), (p), -1, UNLINK, p, -1)
WRAP(int, unlinkat, (int d, const char *p, int f), T(int, const char *, int), (d, p, f), -1, UNLINK,
     p, -1)
WRAP(int, remove, (const char *p), T(const char *), (p), -1, UNLINK, p, -1)
WRAP(int, rmdir, (const char *p), T(const char *), (p), -1, UNLINK, p, -1)
WRAP(int, mkdir, (const char *p, mode_t m), T(const char *, mode_t), (p, m), -1, MKDIR, p, -1)
WRAP(int, ftruncate, (int fd, off_t n), T(int, off_t), (fd, n), -1, TRUNCATE, NULL, fd)
WRAP(int, ftruncate64, (int fd, off_t n), T(int, off_t), (fd, n), -1, TRUNCATE, NULL, fd)
WRAP(int, symlink, (const char *a, const char *b), T(const char *, const char *), (a, b), -1, LINK,
     b, -1)
WRAP(int, flock, (int fd, int op), T(int, int), (fd, op), -1, FLOCK, NULL, fd)
WRAP(void *, mmap, (void *a, size_t n, int p, int f, int fd, off_t o),
     T(void *, size_t, int, int, int, off_t), (a, n, p, f, fd, o), MAP_FAILED,
     f & MAP_SHARED ? SHARE : MMAP, NULL, fd)
WRAP(void *, mmap64, (void *a, size_t n, int p, int f, int fd, off_t o),
     T(void *, size_t, int, int, int, off_t), (a, n, p, f, fd, o), MAP_FAILED,
     f & MAP_SHARED ? SHARE : MMAP, NULL, fd)

WRAP(struct dirent *, readdir, (DIR *d), T(DIR *), (d), NULL, LIST, NULL, dirfd(d))

int statvfs(const char *path, struct statvfs *fs)
{
    REAL(int, statvfs, const char *, struct statvfs *)
    int e = fault(SPACE, path, -1), rc = real(path, fs);
    if (e == ENOSPC)
        fs->f_bfree = fs->f_bavail = 0;
    return rc;
}

/* A close() that fails has closed the descriptor nevertheless, as on Linux. */
int close(int fd)
{
    REAL(int, close, int)
    int e = fault(CLOSE, NULL, fd), rc = real(fd);
    if (e > 0) {
        errno = e;
        return -1;
    }
    return rc;
}

int fclose(FILE *f)
{
    REAL(int, fclose, FILE *)
    int e = fault(WRITE, NULL, fileno(f)), rc = real(f);
    if (e > 0) {
        errno = e;
        return EOF;
    }
    return rc;
}

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
    REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)
    int e = fault(THREAD, NULL, -1);
    return e > 0 ? e : real(t, a, fn, arg);
}

/* ---- memory ----
 * The wrappers call glibc's own entry points, because dlsym may allocate. A build with a sanitizer
 * has none of them: the sanitizer's runtime must see every call. */
#ifndef VLT_FAULT_NO_MEMORY
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t a, size_t n);

void *malloc(size_t n)
{
    FAIL(NULL, MEMORY, "", -1);
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    FAIL(NULL, MEMORY, "", -1);
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    FAIL(NULL, MEMORY, "", -1);
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t a, size_t n)
{
    FAIL(NULL, MEMORY, "", -1);
    return __libc_memalign(a, n);
}

int posix_memalign(void **p, size_t a, size_t n)
{
    int e = fault(MEMORY, "", -1);
    if (e <= 0)
        *p = __libc_memalign(a, n);
    return e > 0 ? e : *p ? 0 : ENOMEM;
}
#endif

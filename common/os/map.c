/* map.c - maps whose unreadable pages become zeroes; see map.h
 *
 * The signal handler finds the map of an address in a list that only grows: a guard is never freed,
 * but used again. A guard's `change` is odd while its fields change, and the handler skips guards
 * that change: they cannot belong to the map that it looks for, which is open. */
#include "common/os/map.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.h"

enum { MIN_PAGE = 4096 };                    /* bytes; no system has smaller pages */

typedef _Atomic(uint64_t) word;

typedef struct vc_guard {
    struct vc_guard *next, *next_free;
    atomic_uint change;
    atomic_uintptr_t from, to;               /* the map's addresses; equal: no map */
    atomic_int access;                       /* PROT_READ, and PROT_WRITE in maps of own files */
    _Atomic(word *) torn;                    /* one bit per page, set if it became zeroes */
    atomic_size_t unreported;                /* 1 + offset of a torn page to report; 0: none */
    char *path;
    size_t size;
    dev_t dev;
    ino_t ino;
} guard;

static _Atomic(guard *) guards;
static guard *unused;
static atomic_bool guarded, ever, pending;   /* ever: a page was torn; pending: not yet reported */
static char *closed_path;                    /* of a torn map closed before it was reported */
static size_t closed_size, closed_at;
static bool closed_own;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;    /* the handler takes no lock */
static struct sigaction before;
static uintptr_t page_size;
static _Thread_local sigjmp_buf *way_out;    /* set during vc_map_run */

/* ---- stacks for signals ---- */

enum { STACK = 64 << 10 };                   /* bytes; the registers of AMX alone take 11 KiB */
static pthread_key_t stack_key;              /* frees a thread's stack when the thread ends */
static bool has_key;
static pthread_once_t stack_once = PTHREAD_ONCE_INIT;

static void drop_stack(void *p)
{
    sigaltstack(&(stack_t){ .ss_flags = SS_DISABLE }, NULL);
    munmap(p, STACK);
}

static void make_key(void)
{
    has_key = !pthread_key_create(&stack_key, drop_stack);
}

/* Failures are ignored: only a rare fault needs the stack. */
void vc_signal_stack(void)
{
    static _Thread_local bool done;
    stack_t old;
    if (done)
        return;
    done = true;
    pthread_once(&stack_once, make_key);
    if (!has_key || sigaltstack(NULL, &old) || !(old.ss_flags & SS_DISABLE))
        return;
    void *p = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return;
    if (sigaltstack(&(stack_t){ .ss_sp = p, .ss_size = STACK }, NULL) ||
        pthread_setspecific(stack_key, p))
        drop_stack(p);
}

/* ---- the handler ---- */

/* Marks the page of an address in a guard and replaces it by zeroes, in this order, so that no
 * thread sees zeroes without the mark. False if the guard does not contain the address. */
static bool tear(guard *g, uintptr_t address)
{
    unsigned change = atomic_load(&g->change);
    uintptr_t from = atomic_load(&g->from), to = atomic_load(&g->to);
    word *torn = atomic_load(&g->torn);
    if (change & 1 || atomic_load(&g->change) != change || address < from || address >= to)
        return false;
    uintptr_t page = (address - from) / page_size;
    atomic_fetch_or(&torn[page / 64], UINT64_C(1) << page % 64);
    atomic_store(&g->unreported, page * page_size + 1);
    atomic_store(&ever, true);
    atomic_store(&pending, true);
    void *at = (void *)(from + page * page_size);
    int access = atomic_load(&g->access);
    return mmap(at, page_size, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at;
}

/* A handler may only use async-signal-safe calls: this one uses loads, stores, mmap, sigaction,
 * raise, and siglongjmp out of code that vc_map_run runs. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
    (void)context;
    bool fault = info->si_code > 0;
    for (guard *g = fault ? atomic_load(&guards) : NULL; g; g = g->next)
        if (tear(g, (uintptr_t)info->si_addr))
            return;
    if (fault && way_out)
        siglongjmp(*way_out, 1);
    sigaction(sig, &before, NULL);           /* the fault recurs and reaches that handler */
    if (!fault)
        raise(sig);
}

int vc_maps_guard(vc_err *err)
{
    struct sigaction act = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK },
                     old;
    sigemptyset(&act.sa_mask);
    vc_signal_stack();
    pthread_mutex_lock(&lock);
    page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    int rc = sigaction(SIGBUS, &act, &old) ? vc_fail_errno(err, "cannot catch signals") : 0;
    if (!rc && old.sa_sigaction != on_fault)
        before = old;
    if (!rc)
        atomic_store(&guarded, true);
    pthread_mutex_unlock(&lock);
    return rc;
}

bool vc_maps_guarded(void)
{
    return atomic_load(&guarded);
}

/* ---- maps ---- */

static void set(guard *g, const void *data, size_t size, word *torn)
{
    atomic_fetch_add(&g->change, 1);
    atomic_store(&g->from, (uintptr_t)data);
    atomic_store(&g->to, (uintptr_t)data + size);
    atomic_store(&g->torn, torn);
    atomic_store(&g->unreported, 0);
    g->size = size;
    atomic_fetch_add(&g->change, 1);
}

static bool is_own(guard *g)
{
    return atomic_load(&g->access) & PROT_WRITE;
}

static guard *take(void)
{
    pthread_mutex_lock(&lock);
    guard *g = unused;
    if (g) {
        unused = g->next_free;
    } else if ((g = calloc(1, sizeof *g))) {
        g->next = atomic_load(&guards);
        atomic_store(&guards, g);
    }
    pthread_mutex_unlock(&lock);
    return g;
}

/* Marks a file that now ends inside a page, whose rest reads as zeroes without a fault. */
static void look_at_end(guard *g)
{
    struct stat st;
    if (!atomic_load(&guarded) || stat(g->path, &st) || st.st_dev != g->dev ||
        st.st_ino != g->ino || (uint64_t)st.st_size >= g->size ||
        (uint64_t)st.st_size % page_size == 0)
        return;
    atomic_store(&g->unreported, (size_t)st.st_size + 1);
    atomic_store(&pending, true);
}

static void give_back(guard *g)
{
    pthread_mutex_lock(&lock);
    if (g->path && !atomic_load(&g->unreported))
        look_at_end(g);
    char *path = g->path;
    word *torn = atomic_load(&g->torn);
    if (atomic_load(&g->unreported)) {
        free(closed_path);
        closed_path = path;
        closed_size = g->size;
        closed_at = atomic_load(&g->unreported) - 1;
        closed_own = is_own(g);
        path = NULL;
    }
    set(g, NULL, 0, NULL);
    g->path = NULL;
    g->next_free = unused;
    unused = g;
    pthread_mutex_unlock(&lock);
    free(path);
    free(torn);
}

static int map_file(vc_map *m, int fd, const struct stat *st, off_t at, size_t size, int access,
                    const char *path, vc_err *err)
{
    size_t words = size / (size_t)sysconf(_SC_PAGESIZE) / 64 + 1;
    guard *g = take();
    char *name = strdup(path);
    word *torn = calloc(words, sizeof *torn);
    void *p = g && name && torn ? mmap(NULL, size, access, MAP_SHARED, fd, at) : MAP_FAILED;
    /* some file systems of FUSE and 9P have private maps alone, which read the same */
    if (p == MAP_FAILED && g && name && torn && access == PROT_READ &&
        (errno == ENODEV || errno == EINVAL))
        p = mmap(NULL, size, access, MAP_PRIVATE, fd, at);
    if (p != MAP_FAILED) {
        pthread_mutex_lock(&lock);
        g->path = name;
        g->dev = st->st_dev;
        g->ino = st->st_ino;
        atomic_store(&g->access, access);
        set(g, p, size, torn);
        pthread_mutex_unlock(&lock);
        *m = (vc_map){ .data = p, .size = size, .guard = g };
        return 0;
    }
    int rc = g && name && torn ? vc_fail_errno(err, "%s", path)
                               : vc_fail(err, VC_ENOMEM, "%s: out of memory", path);
    if (g)
        give_back(g);
    free(name);
    free(torn);
    return rc;
}

int vc_map_open(vc_map *m, const char *path, vc_err *err)
{
    *m = (vc_map){ 0 };

    struct stat st;
    int fd, rc = vc_file_open(&fd, &st, path, err);
    if (rc)
        return rc;
    if (st.st_size > 0)
        rc = map_file(m, fd, &st, 0, (size_t)st.st_size, PROT_READ, path, err);
    close(fd);
    return rc;
}

int vc_map_part(vc_map *m, int fd, uint64_t at, size_t size, const char *name, vc_err *err)
{
    struct stat st;
    *m = (vc_map){ 0 };
    if (fstat(fd, &st))
        return vc_fail_errno(err, "%s", name);
    return size ? map_file(m, fd, &st, (off_t)at, size, PROT_READ, name, err) : 0;
}

int vc_map_own(vc_map *m, int fd, size_t size, const char *name, vc_err *err)
{
    struct stat st;
    *m = (vc_map){ 0 };
    if (fstat(fd, &st))
        return vc_fail_errno(err, "%s", name);
    return map_file(m, fd, &st, 0, size, PROT_READ | PROT_WRITE, name, err);
}

void vc_map_release(const vc_map *m)
{
    if (m->size)
        madvise((void *)(uintptr_t)m->data, m->size, MADV_DONTNEED);
}

void vc_map_close(vc_map *m)
{
    if (m->data) {
        give_back(m->guard);
        munmap((void *)(uintptr_t)m->data, m->size);
    }
    *m = (vc_map){ 0 };
}

/* ---- checks ---- */

/* Reports a torn page; the file's size now shows whether it was cut short. own: the file is the
 * process's own, so that nobody can put it back. */
static int torn_at(const char *path, size_t at, size_t size, bool own, vc_err *err)
{
    struct stat st;
    if (own)
        return vc_fail(err, VC_ETORN, "%s: byte %zu of %zu could not be read back: the disk failed",
                       path, at, size);
    if (!stat(path, &st) && (uint64_t)st.st_size < size)
        return vc_fail(err, VC_ETORN, "%s: byte %zu could not be read: the file was cut short, "
                       "from %zu bytes to %zu, while it was in use; put the whole file back and "
                       "start again", path, at, size, (size_t)st.st_size);
    return vc_fail(err, VC_ETORN, "%s: byte %zu of %zu could not be read: the disk or the network "
                   "failed, or the file was exchanged while it was in use; put a whole file there "
                   "and start again", path, at, size);
}

int vc_maps_check(int rc, vc_err *err)
{
    if (!atomic_load_explicit(&pending, memory_order_acquire))
        return rc;
    pthread_mutex_lock(&lock);
    int torn = closed_path ? torn_at(closed_path, closed_at, closed_size, closed_own, err) : 0;
    for (guard *g = atomic_load(&guards); g && !torn; g = g->next) {
        size_t at = atomic_load(&g->unreported);
        if (at)
            torn = torn_at(g->path, at - 1, g->size, is_own(g), err);
    }
    pthread_mutex_unlock(&lock);
    return torn ? torn : rc;
}

int vc_map_check(const void *p, size_t n, vc_err *err)
{
    if (!atomic_load_explicit(&ever, memory_order_acquire) || !n)
        return 0;
    uintptr_t at = (uintptr_t)p;
    int rc = 0;
    pthread_mutex_lock(&lock);
    for (guard *g = atomic_load(&guards); g && !rc; g = g->next) {
        uintptr_t from = atomic_load(&g->from);
        if (at < from || at >= atomic_load(&g->to))
            continue;
        word *torn = atomic_load(&g->torn);
        size_t last = (at + n - 1 - from) / page_size;
        for (size_t i = (at - from) / page_size; i <= last && !rc; i++)
            if (atomic_load(&torn[i / 64]) & UINT64_C(1) << i % 64)
                rc = torn_at(g->path, i * page_size, g->size, is_own(g), err);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

int vc_map_touch(const void *p, size_t n, vc_err *err)
{
    const volatile uint8_t *byte = p;
    for (size_t i = 0; i < n; i += MIN_PAGE)
        (void)byte[i];
    if (n)
        (void)byte[n - 1];
    return vc_map_check(p, n, err);
}

void vc_maps_reported(void)
{
    pthread_mutex_lock(&lock);
    atomic_store(&pending, false);
    for (guard *g = atomic_load(&guards); g; g = g->next)
        atomic_store(&g->unreported, 0);
    free(closed_path);
    closed_path = NULL;
    pthread_mutex_unlock(&lock);
}

int vc_map_run(int (*fn)(void *arg), void *arg, const char *path, vc_err *err)
{
    sigjmp_buf out, *volatile outer = way_out;
    if (sigsetjmp(out, 1)) {
        way_out = outer;
        return vc_fail(err, VC_ETORN, "%s: a part of it could not be read: the file was cut short "
                       "while it was in use, or the disk failed; put the whole file back and start "
                       "again", path);
    }
    way_out = &out;
    int rc = fn(arg);
    way_out = outer;
    return rc;
}

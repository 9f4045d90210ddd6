/* lmdb_write.c - writes an LMDB file by liblmdb. See lmdb_write.h */
#include "formats/lmdb/lmdb_write.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/os/file.h"
#include "formats/lmdb/lmdb_read.h"
#include "formats/keys/keymap.h"

enum {
    MAX_KEY = 511,        /* bytes of the longest key that liblmdb allows */
    SMALLEST = 2 * 4096,  /* bytes of the smallest file that liblmdb makes: two meta pages */
    TREE_SLACK = 1 << 20, /* bytes of tree pages that any commit may rewrite */
    MAP_TRIES = 8
};
/* Bytes by which the map grows, which are address space only: less where that has a limit. */
#define MAP_STEP ((uint64_t)1 << 30)
#define LEAST_MAP_STEP ((uint64_t)16 << 20)
#define RESERVE_STEP ((uint64_t)16 << 20)    /* bytes by which the file grows */
#define MAX_VALUE ((uint64_t)UINT32_MAX - 65536)    /* bytes; liblmdb's maximum less a page */

/* A put that waits for a commit: key, then value, in one allocation. */
typedef struct item {
    int db;
    size_t key_size, size;
    uint8_t *bytes;
} item;

struct vf_env {
    char *path;
    const char *file;                        /* file name within path, for errors */
    MDB_env *env;
    MDB_dbi dbi[VF_ENV_DBS];
    int dbs, fd;                             /* fd: descriptor for reserving space, or -1 */
    uint64_t used, map, reserved, waiting;   /* bytes */
    uint64_t size;                           /* bytes of the file at the last look */
    unsigned page_size;
    item *item;
    size_t items, room;
    vf_keymap at;                            /* (db, key) -> index in item */
    void *copy;                              /* value of the last vf_env_get */
    bool broken;
};

/* ---- errors ---- */

/* True if the disk is full: liblmdb reports any short write as EIO. */
static bool disk_is_full(const vf_env *e)
{
    struct statvfs v;
    struct rlimit r;
    uint64_t need = e->waiting + TREE_SLACK;
    if (!getrlimit(RLIMIT_FSIZE, &r) && r.rlim_cur != RLIM_INFINITY && r.rlim_cur < e->used + need)
        return true;
    return !statvfs(e->path, &v) && (uint64_t)v.f_bavail * v.f_frsize < need;
}

static int full(const vf_env *e, int code, vc_err *err)
{
    return vc_fail(err, VC_EFULL,
                   "%s: no room for %llu MiB more (%s): what was written before is intact; "
                   "%s and start again", e->file, (unsigned long long)(e->waiting >> 20) + 1,
                   mdb_strerror(code), vc_full_remedy(code));
}

static int lmdb_error(vf_env *e, int code, const char *what, vc_err *err)
{
    e->broken = true;
    if (code == ENOSPC || code == EDQUOT || code == EFBIG || (code == EIO && disk_is_full(e)))
        return full(e, code == EIO ? ENOSPC : code, err);
    if (code == ENODEV)
        return vc_fail(err, VC_EIO, "%s: %s: its file system has no shared maps, by which LMDB "
                       "writes: make the dataset on another disk, and copy it", e->file, what);
    return vc_fail(err, code == ENOMEM ? VC_ENOMEM : VC_EIO, "%s: %s: %s", e->file, what,
                   mdb_strerror(code));
}

/* Refuses a file that was truncated after it was opened, as liblmdb trusts its file. */
static int usable(vf_env *e, vc_err *err)
{
    struct stat st;
    if (e->broken)
        return vc_fail(err, VC_EIO, "%s: an earlier write failed", e->file);
    if (fstat(e->fd, &st) || (uint64_t)st.st_size >= e->size)
        return 0;
    e->broken = true;
    return vc_fail(err, VC_ETORN, "%s: byte %llu could not be read: the file was cut short, from "
                   "%llu bytes, while it was being written; start again", e->path,
                   (unsigned long long)st.st_size, (unsigned long long)e->size);
}

/* Arguments and results of a transaction function, which returns liblmdb's code. */
typedef struct env_call {
    vf_env *e;
    const char *const *dbs;                  /* in: names for open_dbs */
    int db;                                  /* in: sub-database for read_value, count_entries */
    MDB_val key;
    size_t size;                             /* out: bytes of the copied value */
    uint64_t n;                              /* out: number of entries */
} env_call;

/* Runs a transaction; *code is liblmdb's. An environment whose transaction met an unreadable page
 * cannot be closed and is abandoned. */
static int run(env_call *j, int (*transaction)(void *job), int *code, vc_err *err)
{
    int rc = vc_map_run(transaction, j, j->e->path, err);
    *code = rc == VC_ETORN ? 0 : rc;
    if (rc != VC_ETORN)
        return 0;
    j->e->broken = true;
    j->e->env = NULL;
    return rc;
}

/* ---- opening ---- */

/* Truncates a file that liblmdb had not finished making, which holds no values; checks any other
 * file. */
static int check_file(const char *path, vc_err *err)
{
    struct stat st;
    if (lstat(path, &st))
        return errno == ENOENT ? 0 : vc_fail_errno(err, "%s", path);
    if (!S_ISREG(st.st_mode))
        return vc_fail(err, VC_EFORMAT, "%s: not a plain file", path);
    if (st.st_size < SMALLEST)
        return truncate(path, 0) ? vc_fail_errno(err, "%s", path) : 0;

    vf_lmdb *m;
    int rc = vf_lmdb_open(&m, path, err);
    if (rc)
        return rc;
    rc = vc_context(err, vf_lmdb_check(m, err), "%s", path);
    vf_lmdb_close(m);
    return rc;
}

static int open_dbs(void *arg)
{
    const env_call *j = arg;
    vf_env *e = j->e;
    MDB_txn *txn;
    int code = mdb_txn_begin(e->env, NULL, 0, &txn);
    if (code)
        return code;
    for (; j->dbs[e->dbs] && !code; e->dbs++)
        code = mdb_dbi_open(txn, j->dbs[e->dbs], MDB_CREATE, &e->dbi[e->dbs]);
    if (!code)
        return mdb_txn_commit(txn);          /* frees txn even when it fails */
    mdb_txn_abort(txn);
    return code;
}

static void look(vf_env *e)
{
    MDB_envinfo info;
    MDB_stat st;
    mdb_env_info(e->env, &info);
    mdb_env_stat(e->env, &st);
    e->page_size = st.ms_psize;
    e->used = ((uint64_t)info.me_last_pgno + 1) * st.ms_psize;
    e->map = info.me_mapsize;
    struct stat file;
    e->size = fstat(e->fd, &file) ? 0 : (uint64_t)file.st_size;
}

/* A writer has three maps beside its weights and files: none shall take much of what a limit of
 * the address space (ulimit -v, h_vmem) leaves. */
static uint64_t map_step(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_AS, &r) || r.rlim_cur == RLIM_INFINITY || r.rlim_cur / 64 >= MAP_STEP)
        return MAP_STEP;
    uint64_t step = (uint64_t)r.rlim_cur / 64 / LEAST_MAP_STEP * LEAST_MAP_STEP;
    return step ? step : LEAST_MAP_STEP;
}

static int open_env(vf_env *e, const char *const *dbs, vc_err *err)
{
    bool made = !vc_file_exists(e->path);
    struct stat st;
    int code;
    int rc = mdb_env_create(&e->env);
    if (!rc)
        rc = mdb_env_set_maxdbs(e->env, VF_ENV_DBS);
    if (!rc)
        rc = mdb_env_set_mapsize(e->env, map_step()); /* raised to the file's size */
    if (!rc)
        rc = mdb_env_open(e->env, e->path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOTLS, 0666);
    if (rc)
        return lmdb_error(e, rc, "open", err);
    if ((e->fd = open(e->path, O_RDWR | O_CLOEXEC)) < 0 || fstat(e->fd, &st))
        return vc_fail_errno(err, "%s", e->path);
    e->reserved = (uint64_t)st.st_size;
    rc = run(&(env_call){ .e = e, .dbs = dbs }, open_dbs, &code, err);
    if (rc || code)
        return rc ? rc : lmdb_error(e, code, "open", err);
    look(e);
    if (!made)
        return 0;
    char *dir = vc_format("%.*s", (int)(e->file - e->path), e->path);
    rc = dir ? vc_sync_dir(dir, err) : vc_fail(err, VC_ENOMEM, "%s: out of memory", e->path);
    free(dir);
    return rc;
}

int vf_env_open(vf_env **out, const char *dir, const char *file, const char *const *dbs,
                vc_err *err)
{
    *out = NULL;
    vf_env *e = calloc(1, sizeof *e);
    if (!e)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", file);
    e->fd = -1;
    e->path = vc_format("%s/%s", dir, file);
    if (e->path)
        e->file = vc_path_base(e->path);
    int rc = e->path ? check_file(e->path, err)
                     : vc_fail(err, VC_ENOMEM, "%s: out of memory", file);
    if (!rc)
        rc = open_env(e, dbs, err);
    if (rc) {
        vf_env_close(e);
        return rc;
    }
    *out = e;
    return 0;
}

void vf_env_lazy(vf_env *e)
{
    mdb_env_set_flags(e->env, MDB_NOSYNC, 1);
}

static void forget(vf_env *e)
{
    for (size_t i = 0; i < e->items; i++)
        free(e->item[i].bytes);
    e->items = 0;
    e->waiting = 0;
    vf_keymap_clear(&e->at);
}

void vf_env_close(vf_env *e)
{
    if (!e)
        return;
    forget(e);
    vf_keymap_free(&e->at);
    if (e->env)
        mdb_env_close(e->env);
    if (e->fd >= 0)
        close(e->fd);
    free(e->copy);
    free(e->item);
    free(e->path);
    free(e);
}

/* ---- puts ---- */

static vf_key place(int db, const void *key, size_t n)
{
    return vf_hash2(&db, sizeof db, key, n);
}

/* Returns the bytes that a pair takes on disk: a value beyond about half a page has pages of its
 * own. */
static uint64_t cost(const vf_env *e, size_t key_size, size_t size)
{
    uint64_t page = e->page_size, node = 16 + key_size;
    return size > page / 4 ? node + (size + 16 + page - 1) / page * page : node + size;
}

int vf_env_put(vf_env *e, int db, const void *key, size_t key_size, const void *value, size_t size,
               vc_err *err)
{
    int rc = usable(e, err);
    if (rc)
        return rc;
    if (!key_size || key_size > MAX_KEY || size > MAX_VALUE)
        return vc_fail(err, VC_EINVAL, "%s: key of %zu bytes, value of %zu: at most %d and %llu",
                       e->file, key_size, size, MAX_KEY, (unsigned long long)MAX_VALUE);
    if (e->items == e->room) {
        size_t room = e->room ? 2 * e->room : 256;
        item *p = realloc(e->item, room * sizeof *p);
        if (!p)
            return vc_fail(err, VC_ENOMEM, "%s: out of memory", e->file);
        e->item = p;
        e->room = room;
    }
    item it = { db, key_size, size, malloc(key_size + size + 1) };
    if (!it.bytes)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory for a value of %zu bytes", e->file, size);
    if ((rc = vf_keymap_put(&e->at, place(db, key, key_size), e->items, err))) {
        free(it.bytes);
        return rc;
    }
    memcpy(it.bytes, key, key_size);
    if (size)
        memcpy(it.bytes + key_size, value, size);
    it.bytes[key_size + size] = 0;
    e->item[e->items++] = it;
    e->waiting += cost(e, key_size, size);
    return 0;
}

/* Copies the value, so that the read transaction can end: without locks the transaction would not
 * keep its pages from being reused. */
static int read_value(void *arg)
{
    env_call *j = arg;
    vf_env *e = j->e;
    MDB_txn *txn;
    MDB_val v;
    int code = mdb_txn_begin(e->env, NULL, MDB_RDONLY, &txn);
    if (code)
        return code;
    code = mdb_get(txn, e->dbi[j->db], &j->key, &v);
    uint8_t *copy = code ? NULL : realloc(e->copy, v.mv_size + 1);
    if (copy) {
        e->copy = copy;
        memcpy(copy, v.mv_data, v.mv_size);
        copy[v.mv_size] = 0;
        j->size = v.mv_size;
    }
    mdb_txn_abort(txn);
    return code || copy ? code : ENOMEM;
}

int vf_env_get(vf_env *e, int db, const void *key, size_t key_size, const void **value,
               size_t *size, vc_err *err)
{
    uint64_t at;
    int code, rc = usable(e, err);
    if (rc)
        return rc;
    if (vf_keymap_get(&e->at, place(db, key, key_size), &at)) {
        *value = e->item[at].bytes + e->item[at].key_size;
        *size = e->item[at].size;
        return 0;
    }

    env_call j = { .e = e, .db = db, .key = { key_size, (void *)(uintptr_t)key } };
    if ((rc = run(&j, read_value, &code, err)))
        return rc;
    if (code == MDB_NOTFOUND)
        return vc_fail(err, VC_ENOENT, "%s: no such key", e->file);
    *value = e->copy;
    *size = j.size;
    return code ? lmdb_error(e, code, "read", err) : 0;
}

/* ---- commit ---- */

static uint64_t round_up(uint64_t v, uint64_t step)
{
    return (v + step - 1) / step * step;
}

/* Returns the most bytes that the waiting puts may take: twice their own bytes (half-empty pages)
 * and the tree pages that a transaction copies. */
static uint64_t worst(const vf_env *e)
{
    return e->used + 2 * e->waiting + 16 * TREE_SLACK;
}

static int grow_map(vf_env *e, uint64_t need, vc_err *err)
{
    if (need <= e->map)
        return 0;
    uint64_t map = round_up(need, map_step());
    int rc = mdb_env_set_mapsize(e->env, map);
    if (rc)
        return lmdb_error(e, rc, "map", err);
    e->map = map;
    return 0;
}

static int reserve_to(vf_env *e, uint64_t end)
{
    int rc;
    while ((rc = fallocate(e->fd, 0, (off_t)e->reserved, (off_t)(end - e->reserved))) &&
           errno == EINTR)
        ;
    if (!rc)
        e->reserved = end;
    return rc ? errno : 0;
}

/* Reserves space on disk. If the file system cannot reserve, liblmdb's own writes meet a full
 * disk. */
static int reserve(vf_env *e, vc_err *err)
{
    uint64_t need = e->used + e->waiting + TREE_SLACK;
    if (need <= e->reserved)
        return 0;
    int code = reserve_to(e, round_up(need, RESERVE_STEP));
    if (code)
        code = reserve_to(e, need);
    if (code != ENOSPC && code != EDQUOT && code != EFBIG)
        return 0;
    e->broken = true;
    return full(e, code, err);
}

/* Writes all waiting puts in one transaction. */
static int write_items(void *arg)
{
    vf_env *e = ((const env_call *)arg)->e;
    MDB_txn *txn;
    int rc = mdb_txn_begin(e->env, NULL, 0, &txn);
    if (rc)
        return rc;
    for (size_t i = 0; i < e->items && !rc; i++) {
        const item *it = &e->item[i];
        MDB_val k = { it->key_size, it->bytes }, v = { it->size, it->bytes + it->key_size };
        rc = mdb_put(txn, e->dbi[it->db], &k, &v, 0);
    }
    if (rc) {
        mdb_txn_abort(txn);
        return rc;
    }
    return mdb_txn_commit(txn);              /* frees txn even when it fails */
}

int vf_env_commit(vf_env *e, vc_err *err)
{
    env_call j = { .e = e };
    int code = 0, rc = vc_maps_check(usable(e, err), err);
    if (rc || !e->items)
        return rc;
    rc = grow_map(e, worst(e), err);
    if (!rc)
        rc = reserve(e, err);
    if (!rc)
        rc = run(&j, write_items, &code, err);
    for (int i = 0; code == MDB_MAP_FULL && i < MAP_TRIES && !rc; i++) {
        rc = grow_map(e, 2 * e->map, err);
        if (!rc)
            rc = run(&j, write_items, &code, err);
    }
    if (rc || code)
        return rc ? rc : lmdb_error(e, code, "write", err);
    forget(e);
    look(e);
    return 0;
}

uint64_t vf_env_waiting(const vf_env *e)
{
    return e->waiting;
}

static int count_entries(void *arg)
{
    env_call *j = arg;
    MDB_txn *txn;
    MDB_stat st = { 0 };
    int code = mdb_txn_begin(j->e->env, NULL, MDB_RDONLY, &txn);
    if (code)
        return code;
    code = mdb_stat(txn, j->e->dbi[j->db], &st);
    mdb_txn_abort(txn);
    j->n = st.ms_entries;
    return code;
}

int vf_env_count(vf_env *e, int db, uint64_t *n, vc_err *err)
{
    env_call j = { .e = e, .db = db };
    int code, rc = usable(e, err);
    if (rc)
        return rc;
    rc = run(&j, count_entries, &code, err);
    *n = j.n;
    return rc || !code ? rc : lmdb_error(e, code, "count", err);
}

int vf_env_finish(vf_env *e, uint64_t *bytes, vc_err *err)
{
    int rc = vf_env_commit(e, err);
    if (!rc) {
        mdb_env_close(e->env);
        e->env = NULL;
        struct stat st;
        if (fstat(e->fd, &st) ||
            ((uint64_t)st.st_size > e->used && ftruncate(e->fd, (off_t)e->used)) || fsync(e->fd) ||
            fstat(e->fd, &st))
            rc = vc_fail_errno(err, "%s", e->file);
        else
            *bytes = (uint64_t)st.st_size;
    }
    vf_env_close(e);
    return rc;
}

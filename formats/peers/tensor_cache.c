/* tensor_cache.c - reads and writes diffusion-pipe's container of items. See tensor_cache.h */
#include "formats/peers/tensor_cache.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"

enum { MAX_SHARDS = 1 << 16 };
/* Instructions of SQLite's virtual machine: a row takes about ten, and six bytes of the file. */
enum { STEPS = 1000, STEPS_PER_BYTE = 16 };

typedef struct pair {
    int64_t a, b;                            /* shard and row in the shard; or offset and size */
} pair;

typedef struct pairs {
    pair *item;
    size_t n;
} pairs;

typedef struct shard {
    bool used;
    vc_map file;
    size_t first, n;                         /* range of the shard's rows in `place` */
} shard;

struct vf_tensor_cache {
    char *dir;
    pairs item;                              /* (shard, row in the shard) of each item */
    pairs place;                             /* (offset, size) of each row, shard after shard */
    shard *shard;
    size_t n_shards;
};

/* ---- the database ---- */

typedef struct reading {
    vf_tensor_cache *c;
    sqlite3 *db;
    uint64_t left;                           /* calls of spend() that are still allowed */
} reading;

static int spend(void *arg)
{
    reading *r = arg;
    return !r->left--;
}

static int sqlite_error(const reading *r, const char *what, vc_err *err)
{
    if (sqlite3_errcode(r->db) == SQLITE_INTERRUPT)
        return vc_fail(err, VC_EFORMAT, "metadata.db: %s: far more work than its size", what);
    return vc_fail(err, VC_EFORMAT, "metadata.db: %s: %s", what, sqlite3_errmsg(r->db));
}

static int add_pair(pairs *p, int64_t a, int64_t b, vc_err *err)
{
    if (!(p->n & (p->n - 1))) {
        pair *more = realloc(p->item, (p->n ? 2 * p->n : 1) * sizeof *more);
        if (!more)
            return vc_no_memory(err);
        p->item = more;
    }
    p->item[p->n++] = (pair){ a, b };
    return 0;
}

/* Appends two integer columns of a table to p, in the order of its rows. */
static int read_table(reading *r, const char *table, const char *a, const char *b, pairs *p,
                      vc_err *err)
{
    char sql[120];
    sqlite3_stmt *s = NULL;
    int rc = 0, got;
    snprintf(sql, sizeof sql, "SELECT %s, %s FROM %s ORDER BY rowid", a, b, table);
    if (sqlite3_prepare_v2(r->db, sql, -1, &s, NULL))
        return sqlite_error(r, table, err);
    while (!rc && (got = sqlite3_step(s)) != SQLITE_DONE) {
        if (got != SQLITE_ROW)
            rc = sqlite_error(r, table, err);
        else if (sqlite3_column_type(s, 0) != SQLITE_INTEGER ||
                 sqlite3_column_type(s, 1) != SQLITE_INTEGER)
            rc = vc_fail(err, VC_EFORMAT, "metadata.db: %s: integers expected", table);
        else
            rc = add_pair(p, sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1), err);
    }
    sqlite3_finalize(s);
    return rc;
}

/* Counts the shards: up to the highest number that an item has. */
static int count_shards(vf_tensor_cache *c, vc_err *err)
{
    for (size_t i = 0; i < c->item.n; i++) {
        int64_t k = c->item.item[i].a;
        if (k < 0 || k >= MAX_SHARDS)
            return vc_fail(err, VC_EFORMAT, "metadata.db: item %zu: shard %" PRId64, i, k);
        if ((size_t)k >= c->n_shards)
            c->n_shards = (size_t)k + 1;
    }
    if (!(c->shard = calloc(c->n_shards + 1, sizeof *c->shard)))
        return vc_no_memory(err);
    for (size_t i = 0; i < c->item.n; i++)
        c->shard[c->item.item[i].a].used = true;
    return 0;
}

static int read_shard(reading *r, size_t k, vc_err *err)
{
    vf_tensor_cache *c = r->c;
    shard *s = &c->shard[k];
    char table[32], file[40];
    snprintf(table, sizeof table, "shard_%zu", k);
    snprintf(file, sizeof file, "%s.bin", table);
    s->first = c->place.n;
    int rc = read_table(r, table, "offset", "size", &c->place, err);
    s->n = c->place.n - s->first;
    char *path = rc ? NULL : vc_path_join(c->dir, file);
    if (!rc)
        rc = path ? vc_map_open(&s->file, path, err) : vc_no_memory(err);
    free(path);
    for (size_t i = 0; !rc && i < s->n; i++) {
        const pair *p = &c->place.item[s->first + i];
        uint64_t size = s->file.size;
        if (p->a < 0 || p->b < 0 || (uint64_t)p->a > size || (uint64_t)p->b > size - (uint64_t)p->a)
            rc = vc_fail(err, VC_EFORMAT,
                         "%s: %" PRIu64 " bytes, row %zu asks for %" PRId64 " from %"
                         PRId64 " on: cut short?", file, size, i, p->b, p->a);
    }
    return rc;
}

static int read_all(reading *r, vc_err *err)
{
    vf_tensor_cache *c = r->c;
    int rc = read_table(r, "items", "shard", "shard_index", &c->item, err);
    if (!rc)
        rc = count_shards(c, err);
    for (size_t k = 0; !rc && k < c->n_shards; k++)
        if (c->shard[k].used)
            rc = read_shard(r, k, err);
    for (size_t i = 0; !rc && i < c->item.n; i++) {
        const pair *p = &c->item.item[i];
        if (p->b < 0 || (uint64_t)p->b >= c->shard[p->a].n)
            rc = vc_fail(err, VC_EFORMAT,
                         "metadata.db: item %zu: row %" PRId64 " of shard_%" PRId64, i, p->b, p->a);
    }
    return rc;
}

static int read_database(vf_tensor_cache *c, const char *path, vc_err *err)
{
    reading r = { .c = c };
    vc_map m;
    int rc = vc_map_open(&m, path, err);
    if (rc)
        return rc;
    r.left = m.size / STEPS * STEPS_PER_BYTE + 1000;
    bool wal = m.size > 19 && (m.data[18] > 1 || m.data[19] > 1);
    vc_map_close(&m);
    if (wal)                                 /* SQLite would make files beside the database */
        return vc_fail(err, VC_EFORMAT,
                       "metadata.db: in WAL mode, which diffusion-pipe does not use: "
                       "sqlite3 metadata.db 'PRAGMA journal_mode=DELETE' changes that");
    if (sqlite3_open_v2(path, &r.db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL)) {
        rc = vc_fail(err, VC_EIO, "metadata.db: %s", r.db ? sqlite3_errmsg(r.db) : "out of memory");
    } else {
        sqlite3_db_config(r.db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)NULL);
        sqlite3_db_config(r.db, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
        sqlite3_limit(r.db, SQLITE_LIMIT_LENGTH, 1 << 20);
        sqlite3_progress_handler(r.db, STEPS, spend, &r);
        rc = read_all(&r, err);
    }
    sqlite3_close(r.db);
    return rc;
}

/* ---- the cache ---- */

int vf_tensor_cache_open(vf_tensor_cache **out, const char *dir, vc_err *err)
{
    *out = NULL;
    vf_tensor_cache *c = calloc(1, sizeof *c);
    char *path = vc_path_join(dir, "metadata.db");
    int rc = c && path && (c->dir = strdup(dir)) ? 0 : vc_no_memory(err);
    if (!rc && !vc_file_exists(path))
        rc = vc_fail(err, VC_ENOENT, "no metadata.db");
    if (!rc)
        rc = read_database(c, path, err);
    free(path);
    if (rc) {
        vf_tensor_cache_close(c);
        return vc_context(err, rc, "%s", dir);
    }
    *out = c;
    return 0;
}

size_t vf_tensor_cache_count(const vf_tensor_cache *c)
{
    return c->item.n;
}

int vf_tensor_cache_get(const vf_tensor_cache *c, size_t i, vf_pt **out, vc_err *err)
{
    const pair *item = &c->item.item[i];
    const shard *s = &c->shard[item->a];
    const pair *place = &c->place.item[s->first + (size_t)item->b];
    const uint8_t *data = s->file.data;
    int rc = vf_pt_parse(out, data ? data + place->a : NULL, (size_t)place->b, err);
    return vc_context(err, rc, "%s: item %zu", c->dir, i);
}

void vf_tensor_cache_close(vf_tensor_cache *c)
{
    if (!c)
        return;
    for (size_t i = 0; c->shard && i < c->n_shards; i++)
        vc_map_close(&c->shard[i].file);
    free(c->shard);
    free(c->item.item);
    free(c->place.item);
    free(c->dir);
    free(c);
}

/* ---- writing ---- */

/* Appends n rows to a table: (offset, size) with `places`, else the items (0, i). */
static int put_rows(sqlite3 *db, const char *sql, const uint64_t *size, bool places, size_t n)
{
    sqlite3_stmt *s = NULL;
    uint64_t offset = 0;
    int rc = sqlite3_prepare_v2(db, sql, -1, &s, NULL);
    for (size_t i = 0; !rc && i < n; i++) {
        sqlite3_bind_int64(s, 1, places ? (int64_t)offset : 0);
        sqlite3_bind_int64(s, 2, (int64_t)(places ? size[i] : i));
        offset += size[i];
        rc = sqlite3_step(s) == SQLITE_DONE ? sqlite3_reset(s) : sqlite3_errcode(db);
    }
    sqlite3_finalize(s);
    return rc;
}

int vf_tensor_cache_index(const char *dir, const uint64_t *size, size_t n, vc_err *err)
{
    char *path = vc_path_join(dir, "metadata.db");
    sqlite3 *db = NULL;
    if (!path)
        return vc_no_memory(err);
    int rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (!rc)
        rc = sqlite3_exec(db, "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; BEGIN;"
                          "CREATE TABLE fingerprint(value); CREATE TABLE items(shard, shard_index);"
                          "CREATE TABLE shard_0(offset, size)", NULL, NULL, NULL);
    if (!rc)
        rc = put_rows(db, "INSERT INTO items VALUES(?, ?)", size, false, n);
    if (!rc)
        rc = put_rows(db, "INSERT INTO shard_0 VALUES(?, ?)", size, true, n);
    if (!rc)
        rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    if (rc)
        rc = vc_fail(err, VC_EIO, "%s: %s", path, db ? sqlite3_errmsg(db) : "out of memory");
    sqlite3_close(db);
    free(path);
    return rc;
}

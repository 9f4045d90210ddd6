/* lmdb_pack.c - writes a file of LMDB pages in one pass; see lmdb_pack.h and, for the bytes,
 * lmdb_page.h
 *
 * Meta pages come first and name pages that come last, so the pages are made twice: the first time
 * they are only counted. */
#include "formats/lmdb/lmdb_pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/os/temp.h"
#include "formats/lmdb/lmdb_page.h"

#define MAGIC 0xBEEFC0DEu

enum {
    VERSION = 1, INTEGER_KEYS = 0x08,
    MAX_DBS = 8,
    MAX_PAGE = 32768,
    BLOCK = 1 << 20,                         /* bytes per write */
    RELEASE_EVERY = 64                       /* blocks before the source's pages are released */
};

typedef struct child {                       /* a page, for the level above */
    vf_bytes key;                            /* its first key, in the source's map */
    uint64_t page;
} child;

typedef struct level {                       /* the pages of one level of a tree */
    child *at;
    uint64_t n, room;
} level;

typedef struct pack {
    const vf_lmdb *from;
    const vf_pack_order *order;
    const char *const *db;
    int dbs;
    vf_tree source[MAX_DBS], made[MAX_DBS];
    vf_bytes *value;                         /* of the ordered sub-database, in key order */
    uint64_t *first;                         /* of each value: its first page, or 0 */
    uint64_t page, last;                     /* next page to make; the last of all */
    uint32_t page_size;
    bool counting;
    const char *path;
    int fd;
    uint8_t *block;                          /* bytes that wait for a write */
    size_t waiting;
    unsigned blocks;                         /* written since the last release */
    vf_hasher hash;
    uint8_t *leaf;                           /* the page that is being filled */
    unsigned lower, upper;
    bool begun;                              /* the page has its header and waits for its end */
} pack;

/* ---- bytes ---- */

static void put16(uint8_t *p, unsigned v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static void put32(uint8_t *p, uint32_t v)
{
    put16(p, v & 0xffff);
    put16(p + 2, v >> 16);
}

static void put64(uint8_t *p, uint64_t v)
{
    put32(p, (uint32_t)v);
    put32(p + 4, (uint32_t)(v >> 32));
}

static int write_failed(const pack *k, int code, vc_err *err)
{
    if (code == ENOSPC || code == EDQUOT || code == EFBIG)
        return vc_fail(err, VC_EFULL,
                       "%s: no room for the %llu MiB of its final file (%s): what was written "
                       "before is intact; %s and start again", vc_path_base(k->path),
                       (unsigned long long)((k->last + 1) * k->page_size >> 20) + 1,
                       strerror(code), vc_full_remedy(code));
    errno = code;
    return vc_fail_errno(err, "%s", k->path);
}

static int flush(pack *k, vc_err *err)
{
    size_t at = 0;
    vf_hasher_add(&k->hash, k->block, k->waiting);
    while (at < k->waiting) {
        ssize_t n = write(k->fd, k->block + at, k->waiting - at);
        if (n < 0 && errno != EINTR)
            return write_failed(k, errno, err);
        at += n > 0 ? (size_t)n : 0;
    }
    k->waiting = 0;
    if (++k->blocks == RELEASE_EVERY) {
        vf_lmdb_release(k->from);
        k->blocks = 0;
    }
    return 0;
}

/* Writes n bytes; data NULL: zeroes. */
static int put(pack *k, const uint8_t *data, uint64_t n, vc_err *err)
{
    int rc = 0;
    while (n && !rc && !k->counting) {
        const size_t room = BLOCK - k->waiting, part = n < room ? (size_t)n : room;
        if (data)
            memcpy(k->block + k->waiting, data, part);
        else
            memset(k->block + k->waiting, 0, part);
        data = data ? data + part : NULL;
        n -= part;
        k->waiting += part;
        rc = k->waiting == BLOCK ? flush(k, err) : 0;
    }
    return rc;
}

/* ---- values in overflow pages ---- */

static bool overflows(const pack *k, vf_bytes key, vf_bytes value)
{
    const unsigned most = (((k->page_size - PAGE_HEADER) / 2) & ~1u) - 2;
    return NODE_HEADER + key.size + value.size > most;
}

static uint64_t pages_of(const pack *k, size_t size)
{
    return (PAGE_HEADER + (uint64_t)size + k->page_size - 1) / k->page_size;
}

static int put_value(pack *k, vf_bytes value, vc_err *err)
{
    uint8_t header[PAGE_HEADER] = { 0 };
    const uint64_t pages = pages_of(k, value.size);
    put64(header, k->page);
    put16(header + 10, P_OVERFLOW);
    put32(header + 12, (uint32_t)pages);
    k->page += pages;
    int rc = put(k, header, sizeof header, err);
    if (!rc)
        rc = put(k, value.data, value.size, err);
    return rc ? rc : put(k, NULL, pages * k->page_size - PAGE_HEADER - value.size, err);
}

/* The order is of this sub-database, if it has one. */
static const vf_pack_order *order_of(const pack *k, int db)
{
    return k->order && !strcmp(k->order->db, k->db[db]) ? k->order : NULL;
}

/* Finds the values of the ordered sub-database that have pages of their own. */
static int list_values(pack *k, const vf_tree *t, const vf_pack_order *o, vc_err *err)
{
    vf_lmdb_cursor c;
    vf_bytes key, value;
    uint64_t i = 0;
    int rc;
    k->value = calloc(o->n + 1, sizeof *k->value);
    k->first = calloc(o->n + 1, sizeof *k->first);
    if (!k->value || !k->first)
        return vc_no_memory(err);
    vf_lmdb_start(&c, k->from, t);
    for (; (rc = vf_lmdb_next(&c, &key, &value, err)) > 0 && i < o->n; i++)
        k->value[i] = overflows(k, key, value) ? value : (vf_bytes){ 0 };
    if (!rc && i != o->n)
        rc = vc_fail(err, VC_EFORMAT, "%s: %llu values, not %llu", o->db, (unsigned long long)i,
                     (unsigned long long)o->n);
    return rc < 0 ? rc : 0;
}

static int put_ordered(pack *k, const vf_pack_order *o, vc_err *err)
{
    int rc = 0;
    for (uint64_t i = 0; i < o->n && !rc; i++) {
        const uint32_t at = o->at[i];
        if (!k->value[at].data)
            continue;
        k->first[at] = k->page;
        rc = put_value(k, k->value[at], err);
    }
    return rc;
}

static int put_values(pack *k, int db, vc_err *err)
{
    const vf_pack_order *o = order_of(k, db);
    const uint64_t before = k->page;
    vf_lmdb_cursor c;
    vf_bytes key, value;
    int rc = 0;
    if (o) {
        rc = k->value ? 0 : list_values(k, &k->source[db], o, err);
        rc = rc ? rc : put_ordered(k, o, err);
    } else {
        vf_lmdb_start(&c, k->from, &k->source[db]);
        while (!rc && (rc = vf_lmdb_next(&c, &key, &value, err)) > 0)
            rc = overflows(k, key, value) ? put_value(k, value, err) : 0;
    }
    k->made[db] = (vf_tree){ .root = NO_PAGE, .overflows = k->page - before };
    return rc;
}

/* ---- pages of trees ---- */

static void begin_page(pack *k, unsigned kind)
{
    memset(k->leaf, 0, k->page_size);
    put64(k->leaf, k->page);
    put16(k->leaf + 10, kind);
    k->lower = PAGE_HEADER;
    k->upper = k->page_size;
    k->begun = true;
}

static unsigned node_bytes(size_t key, size_t data)
{
    return (unsigned)(NODE_HEADER + key + data + 1) & ~1u;
}

static bool fits(const pack *k, size_t key, size_t data)
{
    return k->lower + 2 + node_bytes(key, data) <= k->upper;
}

/* Adds a node; `number` is the child's page, or the value's size with its flags above. */
static void add_node(pack *k, uint64_t number, vf_bytes key, const void *data, size_t n)
{
    k->upper -= node_bytes(key.size, n);
    put16(k->leaf + k->lower, k->upper);
    k->lower += 2;
    uint8_t *p = k->leaf + k->upper;
    put32(p, (uint32_t)number);
    put16(p + 4, (unsigned)(number >> 32) & 0xffff);
    put16(p + 6, (unsigned)key.size);
    if (key.size)
        memcpy(p + NODE_HEADER, key.data, key.size);
    if (n)
        memcpy(p + NODE_HEADER + key.size, data, n);
}

static int end_page(pack *k, vc_err *err)
{
    put16(k->leaf + 12, k->lower);
    put16(k->leaf + 14, k->upper);
    k->page++;
    k->begun = false;
    return put(k, k->leaf, k->page_size, err);
}

static int add_child(level *l, vf_bytes key, uint64_t page, vc_err *err)
{
    if (l->n == l->room) {
        const uint64_t room = l->room ? 2 * l->room : 64;
        child *at = realloc(l->at, room * sizeof *at);
        if (!at)
            return vc_no_memory(err);
        l->at = at;
        l->room = room;
    }
    l->at[l->n++] = (child){ key, page };
    return 0;
}

/* Adds a pair; `first` is the first page of a value that has pages of its own, or 0. */
static int add_pair(pack *k, level *leaves, vf_bytes key, vf_bytes value, uint64_t first,
                    vc_err *err)
{
    uint8_t number[8];
    const size_t n = first ? sizeof number : value.size;
    int rc = 0;
    put64(number, first);
    if (k->begun && !fits(k, key.size, n))
        rc = end_page(k, err);
    if (!rc && !k->begun) {
        begin_page(k, P_LEAF);
        rc = add_child(leaves, key, k->page, err);
    }
    if (!rc)
        add_node(k, value.size | (uint64_t)(first ? F_BIGDATA : 0) << 32, key,
                 first ? number : value.data, n);
    return rc;
}

/* Makes the leaves of a tree, whose values of their own pages begin at `first`. */
static int put_leaves(pack *k, int db, uint64_t first, level *leaves, vc_err *err)
{
    const bool ordered = order_of(k, db) != NULL;
    vf_tree *t = &k->made[db];
    vf_lmdb_cursor c;
    vf_bytes key, value;
    int rc;
    vf_lmdb_start(&c, k->from, &k->source[db]);
    while ((rc = vf_lmdb_next(&c, &key, &value, err)) > 0) {
        const bool apart = overflows(k, key, value);
        const uint64_t page = !apart ? 0 : ordered ? k->first[t->entries] : first;
        first += apart ? pages_of(k, value.size) : 0;
        t->entries++;
        if ((rc = add_pair(k, leaves, key, value, page, err)))
            return rc;
    }
    if (!rc && k->begun)
        rc = end_page(k, err);
    t->leaves = leaves->n;
    t->depth = leaves->n > 0;
    return rc;
}

/* Returns how many children, from `from` on, go into the next branch: as many as fit, but not so
 * many that a single one is left over, as a branch has at least two. */
static uint64_t children_in_page(const pack *k, const level *below, uint64_t from)
{
    unsigned room = k->page_size - PAGE_HEADER;
    uint64_t i = from;
    for (; i < below->n; i++) {
        const unsigned need = 2 + node_bytes(i > from ? below->at[i].key.size : 0, 0);
        if (need > room)
            break;
        room -= need;
    }
    return i - from - (below->n - i == 1);
}

static int put_branches(pack *k, const level *below, level *above, vc_err *err)
{
    int rc = 0;
    for (uint64_t i = 0; i < below->n && !rc;) {
        const uint64_t n = children_in_page(k, below, i), end = i + n;
        if (n < 2)
            return vc_fail(err, VC_EFORMAT, "keys too long for pages of %u bytes",
                           (unsigned)k->page_size);
        begin_page(k, P_BRANCH);
        rc = add_child(above, below->at[i].key, k->page, err);
        add_node(k, below->at[i].page, (vf_bytes){ 0 }, NULL, 0);
        while (++i < end)
            add_node(k, below->at[i].page, below->at[i].key, NULL, 0);
        rc = rc ? rc : end_page(k, err);
    }
    return rc;
}

/* Makes the pages of a tree from its leaves up to its root. */
static int put_tree(pack *k, int db, uint64_t first, vc_err *err)
{
    level below = { 0 };
    vf_tree *t = &k->made[db];
    int rc = put_leaves(k, db, first, &below, err);
    while (!rc && below.n > 1) {
        level above = { 0 };
        rc = put_branches(k, &below, &above, err);
        t->branches += above.n;
        t->depth++;
        free(below.at);
        below = above;
    }
    t->root = below.n ? below.at[0].page : NO_PAGE;
    free(below.at);
    return rc;
}

/* ---- the whole file ---- */

static void tree_record(uint8_t p[TREE_BYTES], const vf_tree *t)
{
    memset(p, 0, TREE_BYTES);
    put16(p + 6, t->depth);
    put64(p + 8, t->branches);
    put64(p + 16, t->leaves);
    put64(p + 24, t->overflows);
    put64(p + 32, t->entries);
    put64(p + 40, t->root);
}

/* A meta page. Of a new file the first is that of an empty one, as liblmdb's own copies have it. */
static int put_meta(pack *k, unsigned number, const vf_tree *main, vc_err *err)
{
    const vf_tree none = { .root = NO_PAGE };
    begin_page(k, P_META);
    uint8_t *p = k->leaf;
    put32(p + 16, MAGIC);
    put32(p + 20, VERSION);
    put64(p + 32, (k->last + 1) * k->page_size);
    tree_record(p + META_FREE, &none);
    put32(p + META_FREE, k->page_size);
    put16(p + META_FREE + 4, INTEGER_KEYS);
    tree_record(p + META_MAIN, main);
    put64(p + META_LAST, number ? k->last : 1);
    put64(p + META_TXN, number);
    k->page++;
    k->begun = false;
    return put(k, p, k->page_size, err);
}

/* Makes the leaf that names the sub-databases, in the order of their names. */
static int put_main(pack *k, vc_err *err)
{
    uint8_t record[TREE_BYTES];
    const char *last = "";
    begin_page(k, P_LEAF);
    for (int i = 0, next; i < k->dbs; i++, last = k->db[next]) {
        next = -1;
        for (int d = 0; d < k->dbs; d++)
            if (strcmp(k->db[d], last) > 0 && (next < 0 || strcmp(k->db[d], k->db[next]) < 0))
                next = d;
        tree_record(record, &k->made[next]);
        add_node(k, TREE_BYTES | (uint64_t)F_SUBDATA << 32,
                 (vf_bytes){ (const uint8_t *)k->db[next], strlen(k->db[next]) }, record,
                 TREE_BYTES);
    }
    return end_page(k, err);
}

/* Makes all pages; the first time, when they are counted, `last` becomes known. */
static int put_file(pack *k, vc_err *err)
{
    uint64_t first[MAX_DBS];
    const vf_tree none = { .root = NO_PAGE };
    const vf_tree main = { .root = k->last, .entries = (uint64_t)k->dbs, .leaves = 1, .depth = 1 };
    k->page = 0;
    int rc = put_meta(k, 0, &none, err);
    if (!rc)
        rc = put_meta(k, 1, &main, err);
    for (int i = 0; i < k->dbs && !rc; i++) {
        first[i] = k->page;
        rc = vc_context(err, put_values(k, i, err), "%s", k->db[i]);
    }
    for (int i = 0; i < k->dbs && !rc; i++)
        rc = vc_context(err, put_tree(k, i, first[i], err), "%s", k->db[i]);
    if (!rc)
        rc = put_main(k, err);
    k->last = k->page - 1;
    return rc;
}

/* Reserves the space, as a full disk ends the work before it begins. */
static int reserve(const pack *k, vc_err *err)
{
    int code;
    while ((code = fallocate(k->fd, 0, 0, (off_t)((k->last + 1) * k->page_size)) ? errno : 0) ==
           EINTR)
        ;
    return code == ENOSPC || code == EDQUOT || code == EFBIG ? write_failed(k, code, err) : 0;
}

static int write_file(pack *k, vc_err *err)
{
    k->counting = false;
    int rc = reserve(k, err);
    if (!rc)
        rc = put_file(k, err);
    if (!rc)
        rc = flush(k, err);
    if (!rc && fsync(k->fd))
        rc = write_failed(k, errno, err);
    return vc_maps_check(rc, err);
}

static int find_trees(pack *k, const char *const *dbs, vc_err *err)
{
    int rc = 0;
    k->db = dbs;
    for (; dbs[k->dbs] && !rc; k->dbs++) {
        if (k->dbs == MAX_DBS)
            return vc_fail(err, VC_EINVAL, "more than %d sub-databases", MAX_DBS);
        rc = vf_lmdb_tree(k->from, dbs[k->dbs], &k->source[k->dbs], err);
        rc = rc == VC_ENOENT ? 0 : rc;
    }
    return rc;
}

int vf_lmdb_pack(const vf_lmdb *from, const char *const *dbs, const vf_pack_order *order,
                 const char *path, uint64_t *bytes, vf_key *hash, vc_err *err)
{
    uint8_t leaf[MAX_PAGE];
    pack k = { .from = from, .order = order, .page_size = from->page_size, .counting = true,
               .path = path, .leaf = leaf, .block = malloc(BLOCK) };
    char *tmp = NULL;
    vf_hasher_plain(&k.hash);
    int rc = k.block ? find_trees(&k, dbs, err) : vc_no_memory(err);
    if (!rc)
        rc = put_file(&k, err);
    if (!rc)
        rc = vc_temp_open(&k.fd, &tmp, path, err);
    if (!rc)
        rc = write_file(&k, err);
    if (!rc && rename(tmp, path))
        rc = vc_fail_errno(err, "%s", path);
    if (rc && tmp)
        unlink(tmp);
    if (tmp && close(k.fd) && !rc)
        rc = vc_fail_errno(err, "%s", path);
    *bytes = (k.last + 1) * k.page_size;
    *hash = vf_hasher_end(&k.hash);
    free(tmp);
    free(k.block);
    free(k.value);
    free(k.first);
    return rc;
}

/* lmdb_read.c - opens LMDB files, looks keys up and iterates. See lmdb_read.h and, for the bytes,
 * lmdb_page.h */
#include "formats/lmdb/lmdb_page.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAGIC 0xBEEFC0DEu

enum {
    VERSION = 1,
    MIN_PAGE = 512, MAX_PAGE = 32768,
    ORDER_FLAGS = 0x7e,                      /* reverse, duplicate and integer keys */
    INTEGER_KEYS = 0x08,
    FETCH = 128 << 10                        /* bytes: Linux reads at most a device's read-ahead for
                                              * a call, 128 KiB unless it is set, and drops the
                                              * rest of the request */
};

/* ---- pages and nodes ---- */

static int outside(const vf_lmdb *m, uint64_t number, vc_err *err)
{
    return vc_fail(err, VC_EFORMAT, "page %llu: outside the file's %llu pages",
                   (unsigned long long)number, (unsigned long long)m->pages);
}

/* Has bytes brought that are not here yet, as far as the file has them. */
static int need(const vf_lmdb *m, uint64_t at, uint64_t n, vc_err *err)
{
    if (!m->fetch || at >= m->size)
        return 0;
    return m->fetch->need(m->fetch->arg, m->file, at, n < m->size - at ? n : m->size - at, err);
}

int vf_lmdb_page(const vf_lmdb *m, uint64_t number, unsigned kind, const uint8_t **page,
                 unsigned *n, vc_err *err)
{
    if (number < 2 || number > m->last || number >= m->pages)
        return outside(m, number, err);
    int rc = need(m, number * m->page_size, m->page_size, err);
    if (rc)
        return rc;

    const uint8_t *p = m->base + number * m->page_size;
    unsigned long long at = number;
    if (le64(p) != number || le16(p + 10) != kind) {
        rc = vc_map_check(p, m->page_size, err);
        const char *name = kind == P_BRANCH ? "branch" : kind == P_LEAF ? "leaf" : "overflow";
        return rc ? rc : vc_fail(err, VC_EFORMAT, "page %llu: no %s page", at, name);
    }
    if (kind != P_OVERFLOW) {
        unsigned lower = le16(p + 12), upper = le16(p + 14);
        if (lower < PAGE_HEADER + 2 || lower & 1 || lower > upper || upper > m->page_size)
            return vc_fail(err, VC_EFORMAT, "page %llu: bad bounds %u, %u", at, lower, upper);
        *n = (lower - PAGE_HEADER) / 2;
    }
    *page = p;
    return 0;
}

static int bad_node(const uint8_t *page, unsigned i, vc_err *err)
{
    return vc_fail(err, VC_EFORMAT, "page %llu: node %u: outside the page",
                   (unsigned long long)le64(page), i);
}

int vf_lmdb_node(const vf_lmdb *m, const uint8_t *page, unsigned i, lmdb_node *node, vc_err *err)
{
    unsigned at = le16(page + PAGE_HEADER + 2 * i);
    if (at & 1 || at < le16(page + 14) || at + NODE_HEADER > m->page_size)
        return bad_node(page, i, err);

    const uint8_t *p = page + at;
    unsigned key = le16(p + 6), room = m->page_size - at - NODE_HEADER;
    if (key > room)
        return bad_node(page, i, err);
    *node = (lmdb_node){ .key = { p + NODE_HEADER, key } };
    if (le16(page + 10) == P_BRANCH) {
        node->child = le32(p) | (uint64_t)le16(p + 4) << 32;
        return 0;
    }
    node->size = le32(p);
    node->flags = le16(p + 4);
    node->data = (vf_bytes){ p + NODE_HEADER + key, node->flags & F_BIGDATA ? 8 : node->size };
    if (node->data.size > room - key)
        return bad_node(page, i, err);
    return 0;
}

int vf_lmdb_value(const vf_lmdb *m, const lmdb_node *node, vf_bytes *value, uint64_t *first,
                  uint64_t *count, vc_err *err)
{
    *count = *first = 0;
    *value = node->data;
    if (!(node->flags & F_BIGDATA))
        return 0;

    const uint8_t *page;
    unsigned n;
    uint64_t number = le64(node->data.data);
    int rc = number < m->pages                   /* the whole value at once */
                 ? need(m, number * m->page_size, (uint64_t)node->size + PAGE_HEADER, err) : 0;
    if (!rc)
        rc = vf_lmdb_page(m, number, P_OVERFLOW, &page, &n, err);
    if (rc)
        return rc;
    uint64_t pages = le32(page + 12), end = m->last < m->pages ? m->last + 1 : m->pages;
    if (pages > end - number || node->size > pages * m->page_size - PAGE_HEADER || !pages)
        return vc_fail(err, VC_EFORMAT,
                       "page %llu: a value of %u bytes does not fit its %llu pages",
                       (unsigned long long)number, node->size, (unsigned long long)pages);
    *first = number;
    *count = pages;
    *value = (vf_bytes){ page + PAGE_HEADER, node->size };
    return 0;
}

int vf_lmdb_compare(vf_bytes a, vf_bytes b)
{
    size_t n = a.size < b.size ? a.size : b.size;
    int c = n ? memcmp(a.data, b.data, n) : 0;
    return c ? c : (a.size > b.size) - (a.size < b.size);
}

int vf_lmdb_tree_of(const vf_lmdb *m, const uint8_t *p, unsigned flags, vf_tree *t, vc_err *err)
{
    *t = (vf_tree){ .root = le64(p + 40), .entries = le64(p + 32), .branches = le64(p + 8),
                    .leaves = le64(p + 16), .overflows = le64(p + 24), .depth = le16(p + 6) };
    if ((le16(p + 4) & ORDER_FLAGS) != flags)
        return vc_fail(err, VC_EFORMAT, "a tree with flags 0x%x, which no dataset has",
                       le16(p + 4));
    bool empty = t->root == NO_PAGE;
    if (t->depth > VF_TREE_DEPTH || empty != !t->depth || (empty && t->entries))
        return vc_fail(err, VC_EFORMAT, "a tree of depth %u with root %lld", t->depth,
                       (long long)t->root);
    if (!empty && (t->root < 2 || t->root > m->last || t->root >= m->pages))
        return outside(m, t->root, err);
    return 0;
}

/* ---- opening ---- */

/* Reads the meta pages. Both must be whole, as liblmdb requires; that of the newer transaction
 * counts. */
static int read_meta(vf_lmdb *m, vc_err *err)
{
    int rc = need(m, 0, 2 * MAX_PAGE, err);
    if (rc)
        return rc;
    const uint8_t *meta[2] = { m->base, NULL };
    uint32_t page_size = m->size < META_END ? 0 : le32(m->base + META_FREE);
    if (page_size < MIN_PAGE || page_size > MAX_PAGE || page_size & (page_size - 1))
        return vc_fail(err, VC_EFORMAT, "no LMDB file, or its first page is damaged");
    if (m->size < 2 * (uint64_t)page_size)
        return vc_fail(err, VC_EFORMAT, "%llu bytes: cut off inside the first two pages",
                       (unsigned long long)m->size);
    meta[1] = m->base + page_size;
    for (int i = 0; i < 2; i++) {
        const uint8_t *p = meta[i];
        if (le16(p + 10) != P_META || le32(p + 16) != MAGIC || le32(p + 20) != VERSION ||
            le32(p + META_FREE) != page_size)
            return vc_fail(err, VC_EFORMAT, "meta page %d: no LMDB data of version %d", i, VERSION);
    }

    const uint8_t *p = meta[le64(meta[0] + META_TXN) < le64(meta[1] + META_TXN)];
    m->page_size = page_size;
    m->pages = m->size / page_size;
    m->last = le64(p + META_LAST);
    if (m->last < 1 || m->last >> 47 || le64(p + META_TXN) >> 62)
        return vc_fail(err, VC_EFORMAT, "meta page: last page %llu, transaction %llu",
                       (unsigned long long)m->last, (unsigned long long)le64(p + META_TXN));
    rc = vf_lmdb_tree_of(m, p + META_MAIN, 0, &m->main, err);
    if (!rc)
        rc = vf_lmdb_tree_of(m, p + META_FREE, INTEGER_KEYS, &m->free, err);
    return vc_context(err, rc, "meta page");
}

static int open_over(vf_lmdb **out, vf_lmdb *m, const void *data, size_t size, vc_err *err)
{
    m->base = data;
    m->size = size;
    int rc = read_meta(m, err);
    if (rc) {
        vf_lmdb_close(m);
        return rc;
    }
    *out = m;
    return 0;
}

int vf_lmdb_open(vf_lmdb **out, const char *path, vc_err *err)
{
    return vf_lmdb_open_fetched(out, path, NULL, NULL, err);
}

int vf_lmdb_open_fetched(vf_lmdb **out, const char *path, const vf_fetch *fetch, const char *file,
                         vc_err *err)
{
    *out = NULL;
    vf_lmdb *m = calloc(1, sizeof *m);
    if (!m)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", path);
    m->fetch = fetch;
    m->file = file;
    int rc = fetch ? fetch->map(fetch->arg, file, &m->map, err)
                   : vc_map_open(&m->map, path, err);
    if (rc) {
        vf_lmdb_close(m);
        return rc;
    }
    vf_lmdb_scattered(m, true);
    rc = open_over(out, m, m->map.data, m->map.size, err);
    if (!rc)
        vf_lmdb_scattered(m, false);
    return vc_context(err, rc, "%s", path);
}

int vf_lmdb_parse(vf_lmdb **out, const void *data, size_t size, vc_err *err)
{
    *out = NULL;
    vf_lmdb *m = calloc(1, sizeof *m);
    return m ? open_over(out, m, data, size, err) : vc_no_memory(err);
}

void vf_lmdb_close(vf_lmdb *m)
{
    if (!m)
        return;
    vc_map_close(&m->map);
    free(m);
}

vf_bytes vf_lmdb_file(const vf_lmdb *m)
{
    return (vf_bytes){ m->base, (size_t)m->size };
}

void vf_lmdb_scattered(const vf_lmdb *m, bool yes)
{
    if (m->map.data)                             /* parsed bytes belong to the caller */
        madvise((void *)(uintptr_t)m->map.data, m->map.size, yes ? MADV_RANDOM : MADV_NORMAL);
}

void vf_lmdb_fetch(vf_bytes v)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = (uintptr_t)v.data + v.size;
    for (uintptr_t at = (uintptr_t)v.data / page * page; at < end; at += FETCH)
        madvise((void *)at, end - at < FETCH ? end - at : FETCH, MADV_WILLNEED);
}

void vf_lmdb_release(const vf_lmdb *m)
{
    if (m->map.data)
        madvise((void *)(uintptr_t)m->map.data, m->map.size, MADV_DONTNEED);
}

/* ---- looking up ---- */

/* Finds the node with the last key <= `key` in a page; *at is -1 if all keys are greater. A
 * branch's first key counts as less than any key. */
static int search(const vf_lmdb *m, const uint8_t *page, unsigned n, vf_bytes key, lmdb_node *node,
                  int *at, vc_err *err)
{
    bool branch = le16(page + 10) == P_BRANCH;
    unsigned lo = branch ? 1 : 0, hi = n;
    while (lo < hi) {
        unsigned mid = (lo + hi) / 2;
        int rc = vf_lmdb_node(m, page, mid, node, err);
        if (rc)
            return rc;
        if (vf_lmdb_compare(node->key, key) <= 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    *at = (int)lo - 1;
    return *at < 0 ? 0 : vf_lmdb_node(m, page, (unsigned)*at, node, err);
}

static int find(const vf_lmdb *m, const vf_tree *t, vf_bytes key, lmdb_node *node, vc_err *err)
{
    uint64_t number = t->root;
    int at = -1;
    for (unsigned level = t->depth; level > 0; level--) {
        const uint8_t *page;
        unsigned n;
        int rc = vf_lmdb_page(m, number, level > 1 ? P_BRANCH : P_LEAF, &page, &n, err);
        if (!rc)
            rc = search(m, page, n, key, node, &at, err);
        if (rc)
            return rc;
        number = at < 0 ? NO_PAGE : node->child;
    }
    if (at < 0 || vf_lmdb_compare(node->key, key))
        return vc_fail(err, VC_ENOENT, "no such key");
    return 0;
}

int vf_lmdb_tree(const vf_lmdb *m, const char *name, vf_tree *t, vc_err *err)
{
    *t = (vf_tree){ .root = NO_PAGE };
    lmdb_node node;
    if (!name) {
        *t = m->main;
        return 0;
    }
    int rc = find(m, &m->main, (vf_bytes){ (const uint8_t *)name, strlen(name) }, &node, err);
    if (!rc && (node.flags != F_SUBDATA || node.data.size != TREE_BYTES))
        rc = vc_fail(err, VC_EFORMAT, "no sub-database");
    if (!rc)
        rc = vf_lmdb_tree_of(m, node.data.data, 0, t, err);
    if (rc)
        *t = (vf_tree){ .root = NO_PAGE };
    return vc_context(err, rc, "sub-database \"%s\"", name);
}

/* Gets the value of a node in a sub-database, which may lie in overflow pages. */
static int plain_value(const vf_lmdb *m, const lmdb_node *node, vf_bytes *value, vc_err *err)
{
    uint64_t first, count;
    if (node->flags & ~(unsigned)F_BIGDATA)
        return vc_fail(err, VC_EFORMAT, "a node with flags 0x%x where a value belongs",
                       node->flags);
    return vf_lmdb_value(m, node, value, &first, &count, err);
}

int vf_lmdb_get(const vf_lmdb *m, const vf_tree *t, const void *key, size_t n, vf_bytes *value,
                vc_err *err)
{
    *value = (vf_bytes){ 0 };
    lmdb_node node;
    int rc = find(m, t, (vf_bytes){ key, n }, &node, err);
    return rc ? rc : plain_value(m, &node, value, err);
}

/* ---- iterating ---- */

void vf_lmdb_start(vf_lmdb_cursor *c, const vf_lmdb *m, const vf_tree *t)
{
    *c = (vf_lmdb_cursor){ .m = m, .t = t, .leaves_left = m->pages };
}

/* Asks the system for all leaves below a branch page at once: one by one each would be waited
 * for. */
static void fetch_leaves(const vf_lmdb *m, const uint8_t *page, unsigned n)
{
    lmdb_node node;
    for (unsigned i = 0; i < n && !vf_lmdb_node(m, page, i, &node, NULL); i++)
        if (node.child < m->pages)
            vf_lmdb_fetch((vf_bytes){ m->base + node.child * m->page_size, m->page_size });
}

/* Pushes the page and the first child of each page, down to a leaf. */
static int descend(vf_lmdb_cursor *c, uint64_t number, vc_err *err)
{
    for (;;) {
        bool leaf = c->level + 1 == c->t->depth;
        int rc = vf_lmdb_page(c->m, number, leaf ? P_LEAF : P_BRANCH, &c->stack[c->level].page,
                              &c->stack[c->level].n, err);
        if (rc)
            return rc;
        c->stack[c->level++].at = 0;
        if (leaf)
            return c->leaves_left-- ? 0 : vc_fail(err, VC_EFORMAT, "a page is reached twice");
        if (c->ahead && c->m->map.data && c->level + 1 == c->t->depth)
            fetch_leaves(c->m, c->stack[c->level - 1].page, c->stack[c->level - 1].n);

        lmdb_node node;
        rc = vf_lmdb_node(c->m, c->stack[c->level - 1].page, 0, &node, err);
        if (rc)
            return rc;
        number = node.child;
    }
}

/* Moves to the next leaf: up to the first page that has a further child, then down. */
static int next_leaf(vf_lmdb_cursor *c, vc_err *err)
{
    while (c->level && ++c->stack[c->level - 1].at >= c->stack[c->level - 1].n)
        c->level--;
    if (!c->level)
        return 0;
    lmdb_node node;
    int rc = vf_lmdb_node(c->m, c->stack[c->level - 1].page, c->stack[c->level - 1].at, &node, err);
    if (!rc)
        rc = descend(c, node.child, err);
    return rc ? rc : 1;
}

/* Moves to the next node of a leaf. Returns what vf_lmdb_next returns. */
static int next_node(vf_lmdb_cursor *c, lmdb_node *node, vc_err *err)
{
    if (!c->t || !c->t->depth)
        return 0;

    int rc = 1;
    if (!c->level)
        rc = descend(c, c->t->root, err);
    else if (++c->stack[c->level - 1].at >= c->stack[c->level - 1].n) {
        c->level--;
        rc = next_leaf(c, err);
        if (rc == 0)
            c->t = NULL;                     /* further calls return 0 */
    }
    if (rc < 0 || !c->t)
        return rc;
    rc = vf_lmdb_node(c->m, c->stack[c->level - 1].page, c->stack[c->level - 1].at, node, err);
    return rc ? rc : 1;
}

int vf_lmdb_next(vf_lmdb_cursor *c, vf_bytes *key, vf_bytes *value, vc_err *err)
{
    lmdb_node node;
    *key = *value = (vf_bytes){ 0 };
    int rc = next_node(c, &node, err);
    if (rc <= 0)
        return rc;
    rc = plain_value(c->m, &node, value, err);
    *key = node.key;
    return rc ? rc : 1;
}

int vf_lmdb_next_size(vf_lmdb_cursor *c, vf_bytes *key, size_t *size, vc_err *err)
{
    lmdb_node node;
    *key = (vf_bytes){ 0 };
    *size = 0;
    int rc = next_node(c, &node, err);
    if (rc <= 0)
        return rc;
    *key = node.key;
    *size = node.size;
    return 1;
}

/* lmdb_check.c - checks every page of an LMDB file. See vf_lmdb_check in lmdb_read.h
 *
 * A file that liblmdb wrote and closed holds each page up to the last exactly once: in a tree, in a
 * run of overflow pages, or in the free list. liblmdb does not check any of them, so all are
 * checked before liblmdb opens a file. Pages in none of the three are lost space and do no harm. */
#include "formats/lmdb/lmdb_page.h"

#include <stdlib.h>

enum {
    FREE_BEYOND = 1 << 24,                   /* free pages that may lie past the file's end */
    MAX_KEY = 511,                           /* bytes of the longest key that liblmdb allows */
    CELLS = 32768 / 2                        /* cells of two bytes in the largest page */
};

typedef struct check {
    const vf_lmdb *m;
    uint8_t *seen;                           /* a bit for each page up to m->last */
    vf_tree count;                           /* pages and entries of the tree being walked */
    vf_bytes last_key;
    unsigned flags;                          /* node flags allowed in a leaf */
    bool integer_keys;
} check;

static int take(check *c, uint64_t first, uint64_t n, vc_err *err)
{
    for (uint64_t p = first; p < first + n; p++) {
        if (c->seen[p / 8] & 1u << p % 8)
            return vc_fail(err, VC_EFORMAT, "page %llu: used twice", (unsigned long long)p);
        c->seen[p / 8] |= (uint8_t)(1u << p % 8);
    }
    return 0;
}

static int compare(const check *c, vf_bytes a, vf_bytes b)
{
    if (!c->integer_keys)
        return vf_lmdb_compare(a, b);
    uint64_t x = le64(a.data), y = le64(b.data);
    return (x > y) - (x < y);
}

/* Checks that keys ascend over the whole tree and stay within the bounds of the branch above. */
static int check_key(check *c, vf_bytes key, const uint8_t *page, unsigned i, const vf_bytes *low,
                     const vf_bytes *high, vc_err *err)
{
    unsigned long long number = le64(page);
    if (c->integer_keys && key.size != 8)
        return vc_fail(err, VC_EFORMAT, "page %llu: node %u: key of %zu bytes", number, i,
                       key.size);
    if ((c->last_key.data && compare(c, key, c->last_key) <= 0) ||
        (low && compare(c, key, *low) < 0) || (high && compare(c, key, *high) >= 0))
        return vc_fail(err, VC_EFORMAT, "page %llu: node %u: key out of order", number, i);
    return 0;
}

/* Checks that nodes fill the page from `upper` on without gaps or overlaps, as liblmdb moves nodes
 * by their sizes, and that values larger than half a page lie in overflow pages. */
static int check_nodes(const check *c, const uint8_t *page, unsigned n, vc_err *err)
{
    uint8_t taken[CELLS / 8] = { 0 };
    unsigned upper = le16(page + 14), sum = 0,
             most = (((c->m->page_size - PAGE_HEADER) / 2) & ~1u) - 2;
    for (unsigned i = 0; i < n; i++) {
        lmdb_node node;
        int rc = vf_lmdb_node(c->m, page, i, &node, err);
        if (rc)
            return rc;
        unsigned at = le16(page + PAGE_HEADER + 2 * i);
        unsigned size = (unsigned)(NODE_HEADER + node.key.size + node.data.size);
        if (size > most || node.key.size > MAX_KEY)
            return vc_fail(err, VC_EFORMAT, "page %llu: node %u: too large",
                           (unsigned long long)le64(page), i);
        size = (size + 1) & ~1u;
        sum += size;
        for (unsigned cell = at / 2; cell < (at + size) / 2 && cell < CELLS; cell++) {
            if (taken[cell / 8] & 1u << cell % 8)
                return vc_fail(err, VC_EFORMAT, "page %llu: node %u: over another one",
                               (unsigned long long)le64(page), i);
            taken[cell / 8] |= (uint8_t)(1u << cell % 8);
        }
    }
    return sum == c->m->page_size - upper
               ? 0 : vc_fail(err, VC_EFORMAT, "page %llu: %u bytes of nodes in %u",
                             (unsigned long long)le64(page), sum, c->m->page_size - upper);
}

static int check_free_list(check *c, vf_bytes ids, vc_err *err)
{
    uint64_t n = ids.size < 8 ? 0 : le64(ids.data), before = NO_PAGE;
    if (ids.size < 8 || n > ids.size / 8 - 1)
        return vc_fail(err, VC_EFORMAT, "free list: a list of %zu bytes for %llu pages", ids.size,
                       (unsigned long long)n);
    for (uint64_t i = 1; i <= n; i++) {
        uint64_t page = le64(ids.data + 8 * i);
        if (page < 2 || page > c->m->last || page >= before)
            return vc_fail(err, VC_EFORMAT, "free list: page %llu", (unsigned long long)page);
        int rc = take(c, page, 1, err);
        if (rc)
            return vc_context(err, rc, "free list");
        before = page;
    }
    return 0;
}

static int check_leaf_node(check *c, const lmdb_node *node, const uint8_t *page, unsigned i,
                           vc_err *err)
{
    if (node->flags & ~c->flags || node->flags == (F_BIGDATA | F_SUBDATA) || !node->key.size ||
        (node->flags & F_SUBDATA && node->size != TREE_BYTES))
        return vc_fail(err, VC_EFORMAT, "page %llu: node %u: flags 0x%x",
                       (unsigned long long)le64(page), i, node->flags);
    vf_bytes value;
    uint64_t first, pages;
    int rc = vf_lmdb_value(c->m, node, &value, &first, &pages, err);
    if (!rc)
        rc = take(c, first, pages, err);
    c->count.overflows += pages;
    if (!rc && c->integer_keys)
        rc = check_free_list(c, value, err);
    return rc;
}

static int check_leaf(check *c, const uint8_t *page, unsigned n, const vf_bytes *low,
                      const vf_bytes *high, vc_err *err)
{
    int rc = 0;
    for (unsigned i = 0; i < n && !rc; i++) {
        lmdb_node node;
        rc = vf_lmdb_node(c->m, page, i, &node, err);
        if (!rc)
            rc = check_key(c, node.key, page, i, low, high, err);
        if (!rc)
            rc = check_leaf_node(c, &node, page, i, err);
        if (!rc)
            c->last_key = node.key;
    }
    c->count.leaves++;
    c->count.entries += n;
    return rc;
}

static int check_page(check *c, uint64_t number, unsigned level, const vf_bytes *low,
                      const vf_bytes *high, vc_err *err);

/* Checks a branch: node i leads to the keys from its own up to that of node i+1; node 0 has an
 * empty key. */
static int check_branch(check *c, const uint8_t *page, unsigned n, unsigned level,
                        const vf_bytes *low, const vf_bytes *high, vc_err *err)
{
    lmdb_node node, next;
    c->count.branches++;
    if (n < 2)
        return vc_fail(err, VC_EFORMAT, "page %llu: a branch with one child",
                       (unsigned long long)le64(page));
    int rc = vf_lmdb_node(c->m, page, 0, &node, err);
    for (unsigned i = 0; i < n && !rc; i++, node = next) {
        if (i + 1 < n)
            rc = vf_lmdb_node(c->m, page, i + 1, &next, err);
        if (!rc && c->integer_keys && i + 1 < n && next.key.size != 8)
            rc = vc_fail(err, VC_EFORMAT, "page %llu: node %u: key of %zu bytes",
                         (unsigned long long)le64(page), i + 1, next.key.size);
        if (!rc)
            rc = check_page(c, node.child, level - 1, i ? &node.key : low,
                            i + 1 < n ? &next.key : high, err);
    }
    return rc;
}

/* Checks a page and the pages below; the tree's depth bounds the recursion. */
static int check_page(check *c, uint64_t number, unsigned level, const vf_bytes *low,
                      const vf_bytes *high, vc_err *err)
{
    const uint8_t *page;
    unsigned n;
    int rc = vf_lmdb_page(c->m, number, level > 1 ? P_BRANCH : P_LEAF, &page, &n, err);
    if (!rc)
        rc = take(c, number, 1, err);
    if (!rc)
        rc = check_nodes(c, page, n, err);
    if (rc)
        return rc;
    return level > 1 ? check_branch(c, page, n, level, low, high, err)
                     : check_leaf(c, page, n, low, high, err);
}

static int check_tree(check *c, const vf_tree *t, unsigned flags, bool integer_keys, vc_err *err)
{
    c->count = (vf_tree){ 0 };
    c->last_key = (vf_bytes){ 0 };
    c->flags = flags;
    c->integer_keys = integer_keys;
    int rc = t->depth ? check_page(c, t->root, t->depth, NULL, NULL, err) : 0;
    if (!rc && (c->count.entries != t->entries || c->count.branches != t->branches ||
                c->count.leaves != t->leaves || c->count.overflows != t->overflows))
        rc = vc_fail(err, VC_EFORMAT, "%llu entries in %llu leaves, not %llu in %llu as it claims",
                     (unsigned long long)c->count.entries, (unsigned long long)c->count.leaves,
                     (unsigned long long)t->entries, (unsigned long long)t->leaves);
    return rc;
}

/* Checks the sub-databases that the leaves of the main tree name; the main tree was checked
 * before. */
static int check_named(check *c, vc_err *err)
{
    const vf_lmdb *m = c->m;
    uint64_t number = m->main.root;
    const uint8_t *page = NULL;
    unsigned n = 0;
    if (m->main.depth > 1)
        return vc_fail(err, VC_EFORMAT, "main tree: more sub-databases than a dataset has");
    int rc = m->main.depth ? vf_lmdb_page(m, number, P_LEAF, &page, &n, err) : 0;
    for (unsigned i = 0; i < n && !rc; i++) {
        lmdb_node node;
        vf_tree t;
        rc = vf_lmdb_node(m, page, i, &node, err);
        if (!rc && (node.flags != F_SUBDATA || node.data.size != TREE_BYTES))
            rc = vc_fail(err, VC_EFORMAT, "flags 0x%x and %zu bytes, which is no tree's record",
                         node.flags, node.data.size);
        if (!rc)
            rc = vf_lmdb_tree_of(m, node.data.data, 0, &t, err);
        if (!rc)
            rc = check_tree(c, &t, F_BIGDATA, false, err);
        if (rc)
            return vc_context(err, rc, "sub-database %u", i);
    }
    return rc;
}

int vf_lmdb_check(const vf_lmdb *m, vc_err *err)
{
    if (m->last >= m->pages + FREE_BEYOND)
        return vc_fail(err, VC_EFORMAT, "last page %llu in a file of %llu pages",
                       (unsigned long long)m->last, (unsigned long long)m->pages);
    check c = { .m = m, .seen = calloc(m->last / 8 + 1, 1) };
    if (!c.seen)
        return vc_fail(err, VC_ENOMEM, "out of memory for %llu pages", (unsigned long long)m->last);

    int rc = vc_context(err, check_tree(&c, &m->main, F_SUBDATA, false, err), "main tree");
    if (!rc)
        rc = check_named(&c, err);
    if (!rc)
        rc = vc_context(err, check_tree(&c, &m->free, F_BIGDATA, true, err), "free list");
    free(c.seen);
    return rc;
}

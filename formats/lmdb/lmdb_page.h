/* lmdb_page.h - the bytes of LMDB's pages and nodes; internal to lmdb_read.c and lmdb_check.c.
 *
 *   page    0 u64 its number   8 u16 pad   10 u16 flags
 *          12 u16 lower, u16 upper (branch, leaf)   12 u32 count of pages (overflow)
 *          16 u16 offsets of the nodes, in key order, up to `lower`; nodes lie from `upper` on
 *   node    0 u16 lo, u16 hi   4 u16 flags   6 u16 key size   8 key, then data
 *           branch: lo, hi, flags are the child's page number (48 bits)
 *           leaf:   lo, hi are the data's size. F_BIGDATA: the data is the u64 number of the first
 *                   overflow page; F_SUBDATA: the data is the 48-byte record of a sub-database
 *   tree    0 u32 pad   4 u16 flags   6 u16 depth   8 u64 branch pages   16 u64 leaf pages
 *          24 u64 overflow pages   32 u64 entries   40 u64 root
 *   meta   16 u32 magic   20 u32 version   24 u64 address   32 u64 map size
 *          40 tree of free pages (its pad: the page size)   88 main tree
 *         136 u64 last page   144 u64 transaction number */
#ifndef FORMATS_DATASET_LMDB_PAGE_H
#define FORMATS_DATASET_LMDB_PAGE_H

#include <stdbool.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/lmdb/lmdb_read.h"

enum {
    PAGE_HEADER = 16, NODE_HEADER = 8, TREE_BYTES = 48, META_END = 152,
    P_BRANCH = 1, P_LEAF = 2, P_OVERFLOW = 4, P_META = 8,
    F_BIGDATA = 1, F_SUBDATA = 2,
    META_FREE = 40, META_MAIN = 88, META_LAST = 136, META_TXN = 144
};

#define NO_PAGE UINT64_MAX

struct vf_lmdb {
    vc_map map;                              /* map of the file; empty after vf_lmdb_parse */
    const uint8_t *base;
    uint64_t size, pages, last;              /* bytes; whole pages in the file; last used page */
    uint32_t page_size;
    vf_tree main, free;
    const vf_fetch *fetch;                   /* NULL: all bytes are here */
    const char *file;                        /* its name for fetch */
};

typedef struct lmdb_node {
    vf_bytes key, data;                      /* data: a leaf's data in the page */
    uint64_t child;                          /* branch: page number of the child */
    uint32_t size;                           /* leaf: bytes of the value */
    unsigned flags;                          /* leaf: F_BIGDATA, F_SUBDATA */
} lmdb_node;

static inline unsigned le16(const uint8_t *p)
{
    return p[0] | (unsigned)p[1] << 8;
}

static inline uint32_t le32(const uint8_t *p)
{
    return le16(p) | (uint32_t)le16(p + 2) << 16;
}

static inline uint64_t le64(const uint8_t *p)
{
    return le32(p) | (uint64_t)le32(p + 4) << 32;
}

/* Gets a page of a tree and checks it; *n is its number of nodes, at least 1. */
int vf_lmdb_page(const vf_lmdb *m, uint64_t number, unsigned kind, const uint8_t **page,
                 unsigned *n, vc_err *err);
/* Gets node i < n of a checked page. */
int vf_lmdb_node(const vf_lmdb *m, const uint8_t *page, unsigned i, lmdb_node *node, vc_err *err);
/* Gets the value of a leaf's node, in the page or in overflow pages; *first and *count are the
 * overflow pages, *count is 0 if the node has none. */
int vf_lmdb_value(const vf_lmdb *m, const lmdb_node *node, vf_bytes *value, uint64_t *first,
                  uint64_t *count, vc_err *err);
/* Reads a tree's 48-byte record; `flags` are the LMDB flags for the order of keys that the tree
 * must have. */
int vf_lmdb_tree_of(const vf_lmdb *m, const uint8_t *record, unsigned flags, vf_tree *t,
                    vc_err *err);
int vf_lmdb_compare(vf_bytes a, vf_bytes b);

#endif

/* lmdb_read.h - a read-only view of one LMDB file (data version 1, little-endian, 64-bit) by our
 * own walker of its B-trees.
 *
 * liblmdb trusts its file: a truncated file raises SIGBUS, a flipped bit makes liblmdb read
 * elsewhere. Here every page is checked before it is followed (inside the file, its own number, the
 * kind that its level must have, sane bounds) and every node before it is read, so that any bytes
 * give a result or VC_EFORMAT. A lookup takes at most `depth` steps, and a cursor visits no more
 * leaves than the file has pages.
 *
 * The missing part of a file that shrinks while it is open reads as zeroes (map.h): a page of a
 * tree there is VC_ETORN or VC_EFORMAT, and the reader has to check values. There is no lock file.
 * A handle is immutable after open and may serve many threads. Trees must be as the dataset has
 * them: without duplicates, integer keys or reversed keys. */
#ifndef FORMATS_DATASET_LMDB_READ_H
#define FORMATS_DATASET_LMDB_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct vf_lmdb vf_lmdb;

/* Bytes in the map, valid until close, with any alignment. */
typedef struct vf_bytes {
    const uint8_t *data;
    size_t size;
} vf_bytes;

typedef struct vf_tree {
    uint64_t root, entries;                  /* page number, ~0 when empty; unchecked count */
    uint64_t branches, leaves, overflows;    /* pages, unchecked counts */
    unsigned depth;                          /* 0 when empty; at most VF_TREE_DEPTH */
} vf_tree;

enum { VF_TREE_DEPTH = 32 };

/* Brings bytes of a file of which not all are here yet. `map` maps the file, of its full size.
 * `need` is called before bytes [at, at+n) of the file are read, and returns when they are in the
 * map; many threads may call it. */
struct vc_map;
typedef struct vf_fetch {
    int (*map)(void *arg, const char *file, struct vc_map *m, vc_err *err);
    int (*need)(void *arg, const char *file, uint64_t at, uint64_t n, vc_err *err);
    void *arg;
} vf_fetch;

/* Opens a file. VC_ENOENT, VC_EIO: cannot open or map; VC_EFORMAT: no LMDB file of this kind. */
int vf_lmdb_open(vf_lmdb **out, const char *path, vc_err *err);
/* The same for a file that `fetch` maps and whose bytes it brings, under the name `file`; `path`
 * is its name in errors. Both are borrowed until close. NULL: the file is at path. */
int vf_lmdb_open_fetched(vf_lmdb **out, const char *path, const vf_fetch *fetch, const char *file,
                         vc_err *err);
/* Opens bytes in memory; the caller keeps them alive and unchanged. */
int vf_lmdb_parse(vf_lmdb **out, const void *data, size_t size, vc_err *err);
void vf_lmdb_close(vf_lmdb *m);                                   /* m may be NULL */
vf_bytes vf_lmdb_file(const vf_lmdb *m);                          /* the whole file */
/* With `yes` the system expects reads of single pages and reads no others ahead (by default it may
 * read megabytes around a page). */
void vf_lmdb_scattered(const vf_lmdb *m, bool yes);
/* Asks the system to read all of these bytes of a map ahead. */
void vf_lmdb_fetch(vf_bytes v);
/* Removes the file's pages from this process's memory; later reads get them from the page cache. */
void vf_lmdb_release(const vf_lmdb *m);

/* Finds a named sub-database, or, with NULL, the main tree. VC_ENOENT (and an empty tree) if the
 * file has no such sub-database. */
int vf_lmdb_tree(const vf_lmdb *m, const char *name, vf_tree *t, vc_err *err);
/* Looks a key up. VC_ENOENT: the key is not in the tree. */
int vf_lmdb_get(const vf_lmdb *m, const vf_tree *t, const void *key, size_t n, vf_bytes *value,
                vc_err *err);

/* Walks a tree in key order: vf_lmdb_start, then vf_lmdb_next until it returns 0. */
typedef struct vf_lmdb_cursor {
    const vf_lmdb *m;
    const vf_tree *t;
    uint64_t leaves_left;                    /* bound, as a hostile tree may reach a page often */
    bool ahead;                              /* leaves are read ahead; set after the start */
    unsigned level;                          /* pages on the stack; 0 before the first step */
    struct { const uint8_t *page; unsigned at, n; } stack[VF_TREE_DEPTH];
} vf_lmdb_cursor;

void vf_lmdb_start(vf_lmdb_cursor *c, const vf_lmdb *m, const vf_tree *t);
/* Returns 1 with the next pair in *key and *value, 0 past the last, VC_EFORMAT at damage, which
 * ends the walk. */
int vf_lmdb_next(vf_lmdb_cursor *c, vf_bytes *key, vf_bytes *value, vc_err *err);
/* The same with the value's size, as its node has it: a long value's own pages are not read. */
int vf_lmdb_next_size(vf_lmdb_cursor *c, vf_bytes *key, size_t *size, vc_err *err);

/* Checks every page of every tree and of the free list: each is reached exactly once, keys ascend
 * and lie within their parents' bounds, counts are right, free pages are unused. liblmdb may open a
 * file that passes. */
int vf_lmdb_check(const vf_lmdb *m, vc_err *err);

#endif

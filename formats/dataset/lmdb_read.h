/* lmdb_read.h - read-only view of one LMDB file (data version 1, little-endian, 64-bit) by our own
 * walker of its B-trees.
 *
 * liblmdb trusts its file: a truncated one is SIGBUS, a flipped bit leads it astray. Here every
 * page is checked before it is followed (inside the file, its own number, the kind that its level
 * asks for, sane bounds) and every node before it is read, so that any bytes give a result or
 * VC_EFORMAT. Trees are left in at most `depth` steps, cursors visit no more leaves than the file
 * has pages.
 *
 * A file that shrinks while it is open reads as zeroes there (map.h), which is VC_ETORN or
 * VC_EFORMAT where a page of a tree is asked for; values are the reader's to check. No lock file.
 * Immutable after open: one handle may serve many threads. Needs plain trees as the dataset has
 * them: no duplicates, no integer or reversed keys. */
#ifndef FORMATS_DATASET_LMDB_READ_H
#define FORMATS_DATASET_LMDB_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct vf_lmdb vf_lmdb;

/* Bytes in the map: valid until close, aligned to nothing. */
typedef struct vf_bytes {
    const uint8_t *data;
    size_t size;
} vf_bytes;

typedef struct vf_tree {
    uint64_t root, entries;                  /* page number, ~0 when empty; as claimed */
    uint64_t branches, leaves, overflows;    /* pages, as claimed */
    unsigned depth;                          /* 0 when empty; at most VF_TREE_DEPTH */
} vf_tree;

enum { VF_TREE_DEPTH = 32 };

/* VC_ENOENT, VC_EIO: cannot open or map; VC_EFORMAT: no LMDB file of this kind. */
int vf_lmdb_open(vf_lmdb **out, const char *path, vc_err *err);
/* The same over bytes that the caller keeps alive and unchanged. */
int vf_lmdb_parse(vf_lmdb **out, const void *data, size_t size, vc_err *err);
void vf_lmdb_close(vf_lmdb *m);                                   /* NULL is fine */
vf_bytes vf_lmdb_file(const vf_lmdb *m);                          /* the whole file */
/* Whether reads will be of single pages here and there, so that the system reads nothing around
 * them (some megabytes, where it is set up so); at first they are not. */
void vf_lmdb_scattered(const vf_lmdb *m, bool yes);
/* Asks the system to read these bytes of a map, all of them, ahead. */
void vf_lmdb_fetch(vf_bytes v);
/* Takes the file's pages out of this process's memory; they come back from the page cache when
 * read. */
void vf_lmdb_release(const vf_lmdb *m);

/* A named sub-database, or (NULL) the main one. VC_ENOENT (and an empty tree) if there is none. */
int vf_lmdb_tree(const vf_lmdb *m, const char *name, vf_tree *t, vc_err *err);
/* VC_ENOENT if the key is not in the tree. */
int vf_lmdb_get(const vf_lmdb *m, const vf_tree *t, const void *key, size_t n, vf_bytes *value,
                vc_err *err);

/* Walks a tree in key order: start, then next until it gives 0. */
typedef struct vf_lmdb_cursor {
    const vf_lmdb *m;
    const vf_tree *t;
    uint64_t leaves_left;                    /* a hostile tree may reach one page many times */
    unsigned level;                          /* pages on the stack; 0 before the first step */
    struct { const uint8_t *page; unsigned at, n; } stack[VF_TREE_DEPTH];
} vf_lmdb_cursor;

void vf_lmdb_start(vf_lmdb_cursor *c, const vf_lmdb *m, const vf_tree *t);
/* 1: *key and *value are the next pair; 0: past the last; VC_EFORMAT: damage, stop here. */
int vf_lmdb_next(vf_lmdb_cursor *c, vf_bytes *key, vf_bytes *value, vc_err *err);

/* Looks at every page of every tree and of the free list: reached exactly once, keys ascending
 * and inside their parents' bounds, counts right, free pages unused. After it liblmdb may open
 * the file. */
int vf_lmdb_check(const vf_lmdb *m, vc_err *err);

#endif

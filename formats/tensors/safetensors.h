/* safetensors.h - the safetensors container: read from memory or a mapped file, written atomically.
 *
 * Layout: u64 header length, JSON header, tensor bytes; little-endian, row-major. Readers check
 * everything before they trust it: header length, JSON, dtype, dims, that offsets are in range,
 * agree with the shape, do not overlap and leave no holes. Immutable after open: one handle may
 * serve many threads. */
#ifndef FORMATS_TENSORS_SAFETENSORS_H
#define FORMATS_TENSORS_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/dtype.h"
#include "common/base/err.h"

enum { VF_MAX_DIMS = 8 };

/* A tensor's bytes inside a file or record. data is not aligned beyond one byte. */
typedef struct vf_view {
    const char *name;
    vc_dtype dtype;
    int nd;
    int64_t dim[VF_MAX_DIMS];     /* outermost first */
    const void *data;             /* little-endian, row-major */
    size_t bytes;
} vf_view;

int64_t vf_view_count(const vf_view *v);             /* number of elements */

typedef struct vf_safetensors vf_safetensors;
struct vf_sums;                  /* sums.h */

/* Opens and validates. VC_EIO, VC_ENOENT: cannot open or map; VC_EFORMAT: bad header. */
int vf_safetensors_open(vf_safetensors **out, const char *path, vc_err *err);
/* The same over bytes that the caller keeps alive and unchanged. */
int vf_safetensors_parse(vf_safetensors **out, const void *data, size_t size, vc_err *err);
void vf_safetensors_close(vf_safetensors *f);        /* NULL is fine */
/* vc_map_release of an opened file: after its values were copied. */
void vf_safetensors_release(const vf_safetensors *f);

/* *v borrows: valid until close. VC_ENOENT if there is no such tensor. */
int vf_safetensors_get(const vf_safetensors *f, const char *name, vf_view *v, vc_err *err);
int vf_safetensors_count(const vf_safetensors *f);
const vf_view *vf_safetensors_at(const vf_safetensors *f, int i);    /* in name order */
/* __metadata__ value of a key, borrowed, or NULL. */
const char *vf_safetensors_meta(const vf_safetensors *f, const char *key);
/* Compares __metadata__'s "xxh3" (XXH3-128 of the bytes after the header, 32 hex digits) with the
 * data: 0 equal, VC_ENOENT: there is none, VC_EFORMAT: different. */
int vf_safetensors_check(const vf_safetensors *f, vc_err *err);

/* Of an opened file the seal, __metadata__'s "vlt_xxh3": XXH3-128 of the whole file with zeros for
 * the seal's 32 digits. 0 equal, VC_ENOENT: there is none, VC_EFORMAT: different. */
#define VF_SEAL "vlt_xxh3"
int vf_safetensors_unbroken(const vf_safetensors *f, vc_err *err);

/* A file to be written: tensors are sorted by (dtype from the widest, name) as the reference
 * implementation does, data starts 8-aligned, the same inputs give the same bytes. VC_EINVAL:
 * tensors or metadata that no file can hold (a name twice, no UTF-8, bytes that do not fit the
 * shape). */
typedef struct vf_meta {
    const char *key, *value;
} vf_meta;

/* Bytes of the whole container, malloc'ed; with_xxh3 adds the checksum to __metadata__. */
int vf_safetensors_pack(uint8_t **out, size_t *size, const vf_view *tensors, int n,
                        const vf_meta *meta, int n_meta, int with_xxh3, vc_err *err);
/* Where the bytes of tensor i come from when they are made while the file is written, tensor by
 * tensor in the file's order: *data lives until the next call. */
typedef struct vf_feed {
    int (*get)(void *arg, int i, const void **data, vc_err *err);
    void *arg;
} vf_feed;
/* As vf_safetensors_write; with a feed the views' data are not looked at. sealed: adds the seal,
 * for which the feed is asked twice. sums: the file is added to them, or NULL. */
int vf_safetensors_stream(const char *path, const vf_view *tensors, int n, const vf_meta *meta,
                          int n_meta, const vf_feed *feed, bool sealed, struct vf_sums *sums,
                          vc_err *err);
/* Straight to a file, atomically, without a copy of the data in memory. */
int vf_safetensors_write(const char *path, const vf_view *tensors, int n, const vf_meta *meta,
                         int n_meta, vc_err *err);

#endif

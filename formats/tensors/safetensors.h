/* safetensors.h - reads the safetensors container from memory or a mapped file, and writes it
 * atomically.
 *
 * Layout: u64 header length, JSON header, tensor bytes; little-endian, row-major. Opening checks
 * the whole header: its length, JSON, dtypes, dims, and that offsets are in range, agree with the
 * shape, do not overlap and leave no holes. A handle is immutable after open and may serve many
 * threads. */
#ifndef FORMATS_TENSORS_SAFETENSORS_H
#define FORMATS_TENSORS_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/dtype.h"
#include "common/base/err.h"

enum { VF_MAX_DIMS = 8 };

/* A tensor's bytes inside a file or record. data may have any alignment. */
typedef struct vf_view {
    const char *name;
    vc_dtype dtype;
    int nd;
    int64_t dim[VF_MAX_DIMS];     /* outermost first */
    const void *data;             /* little-endian, row-major */
    size_t bytes;
} vf_view;

int64_t vf_view_count(const vf_view *v);             /* number of elements */
/* Converts elements first..first+n-1 of a view to f32; the view's data may have any alignment. */
void vf_view_f32(float *dst, const vf_view *v, size_t first, size_t n);

typedef struct vf_safetensors vf_safetensors;
struct vf_sums;                  /* sums.h */

/* Opens and validates a file. VC_EIO, VC_ENOENT: cannot open or map; VC_EFORMAT: bad header. */
int vf_safetensors_open(vf_safetensors **out, const char *path, vc_err *err);
/* Validates bytes in memory; the caller keeps them alive and unchanged. */
int vf_safetensors_parse(vf_safetensors **out, const void *data, size_t size, vc_err *err);
void vf_safetensors_close(vf_safetensors *f);        /* f may be NULL */
/* Calls vc_map_release on an opened file, after its values were copied. */
void vf_safetensors_release(const vf_safetensors *f);

/* Gets a tensor; *v is borrowed and valid until close. VC_ENOENT: the file has no such tensor. */
int vf_safetensors_get(const vf_safetensors *f, const char *name, vf_view *v, vc_err *err);
int vf_safetensors_count(const vf_safetensors *f);
const vf_view *vf_safetensors_at(const vf_safetensors *f, int i);    /* in name order */
/* Returns the value of a key in __metadata__, borrowed, or NULL. */
const char *vf_safetensors_meta(const vf_safetensors *f, const char *key);
/* Compares "xxh3" in __metadata__ (XXH3-128 of the bytes after the header, 32 hex digits) with the
 * data. 0: equal; VC_ENOENT: the file has no "xxh3"; VC_EFORMAT: different. */
int vf_safetensors_check(const vf_safetensors *f, vc_err *err);

/* Compares an opened file with its seal, "vlt_xxh3" in __metadata__: XXH3-128 of the whole file
 * with zeros for the seal's 32 digits. 0: equal; VC_ENOENT: the file has no seal; VC_EFORMAT:
 * different. */
#define VF_SEAL "vlt_xxh3"
int vf_safetensors_check_seal(const vf_safetensors *f, vc_err *err);

/* The functions below write a file. Tensors are sorted by (dtype from the widest, name) as the
 * reference implementation does, data starts 8-aligned, the same inputs give the same bytes.
 * VC_EINVAL: no file can hold the tensors or metadata (a name twice, no UTF-8, bytes that do not
 * fit the shape). */
typedef struct vf_meta {
    const char *key, *value;
} vf_meta;
/* Number of fields in an opened file's __metadata__, and field i in the order of their keys,
 * borrowed. */
int vf_safetensors_metas(const vf_safetensors *f);
const vf_meta *vf_safetensors_meta_at(const vf_safetensors *f, int i);

/* Makes the bytes of the container; the caller frees *out. with_xxh3 adds the checksum to
 * __metadata__. */
int vf_safetensors_pack(uint8_t **out, size_t *size, const vf_view *tensors, int n,
                        const vf_meta *meta, int n_meta, int with_xxh3, vc_err *err);
/* Makes the bytes of tensor i while the file is written, in the file's order; *data lives until the
 * next call. */
typedef struct vf_feed {
    int (*get)(void *arg, int i, const void **data, vc_err *err);
    void *arg;
} vf_feed;
/* Writes like vf_safetensors_write. A feed, unless NULL, replaces the views' data. `sealed` adds
 * the seal, for which the feed is called twice a tensor. The file is added to sums unless NULL. */
int vf_safetensors_stream(const char *path, const vf_view *tensors, int n, const vf_meta *meta,
                          int n_meta, const vf_feed *feed, bool sealed, struct vf_sums *sums,
                          vc_err *err);
/* Writes a file atomically, without a copy of the data in memory. */
int vf_safetensors_write(const char *path, const vf_view *tensors, int n, const vf_meta *meta,
                         int n_meta, vc_err *err);

#endif

/* sums.h - checksums.json: what the files of a folder are, so that a changed, missing, cut or added
 * one is found.
 *
 *   {"format":1,"files":[{"name":"optimizer.safetensors","tensors":{"m/x":"16 digits",...},
 *                         "bytes":4096,"xxh3":"32 digits"}, ...],"xxh3":"32 digits"}
 *
 * `xxh3` of a file is XXH3-128 of its bytes (`xxhsum -H2` prints it), of a tensor XXH3-64: it tells
 * which one changed. The last `xxh3` is that of all that stands before it. Files are hashed while
 * they are written, and checksums.json is written after all of them. */
#ifndef FORMATS_TENSORS_SUMS_H
#define FORMATS_TENSORS_SUMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "formats/keys/keys.h"

#define VF_SUMS_FILE "checksums.json"

/* Of a folder that is being written, by one thread. */
typedef struct vf_sums vf_sums;
int vf_sums_open(vf_sums **out, const char *dir, vc_err *err);
void vf_sums_close(vf_sums *s);                    /* NULL is fine */
/* vc_file_write, and adds the file; s may be NULL. path lies below the folder. */
int vf_sums_put(vf_sums *s, const char *path, const void *data, size_t n, vc_err *err);
/* The same for whoever writes a file in pieces: its tensors (or none), then the file. Running out
 * of memory shows in vf_sums_write. */
void vf_sums_begin(vf_sums *s, const char *path);
void vf_sums_tensor(vf_sums *s, const char *name, uint64_t xxh3);
void vf_sums_end(vf_sums *s, uint64_t bytes, vf_key xxh3);
/* Writes checksums.json. */
int vf_sums_write(const vf_sums *s, vc_err *err);

/* What a check finds: `file` is a name below the folder. */
typedef void (*vf_sums_found)(void *arg, const char *file, const char *what);
typedef struct vf_sums_report {
    uint64_t files, bytes;       /* hashed */
    uint64_t findings;
    bool none;                   /* there is no checksums.json: nothing could be checked */
} vf_sums_report;
/* Compares the folder with its checksums.json: names and sizes of all files, and the bytes of those
 * in `only` (NULL-ended; NULL: all of them). 0 with findings in *r; VC_ESTOP, VC_ENOMEM. */
int vf_sums_check(const char *dir, const char *const *only, vf_sums_found found, void *arg,
                  const atomic_int *stop, vf_sums_report *r, vc_err *err);

#endif

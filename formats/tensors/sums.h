/* sums.h - checksums.json lists the files of a folder with their checksums, so that a changed,
 * missing, truncated or added file is found.
 *
 *   {"format":1,"files":[{"name":"optimizer.safetensors","tensors":{"m/x":"16 digits",...},
 *                         "bytes":4096,"xxh3":"32 digits"}, ...],"xxh3":"32 digits"}
 *
 * `xxh3` of a file is XXH3-128 of its bytes, as `xxhsum -H2` prints; a tensor has XXH3-64, so that
 * a check can name the tensor that changed. The last `xxh3` is the hash of all earlier bytes.
 * Files are hashed while they are written, and checksums.json is written last. */
#ifndef FORMATS_TENSORS_SUMS_H
#define FORMATS_TENSORS_SUMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "formats/keys/keys.h"

#define VF_SUMS_FILE "checksums.json"

/* The checksums of a folder that one thread writes. */
typedef struct vf_sums vf_sums;
int vf_sums_open(vf_sums **out, const char *dir, vc_err *err);
void vf_sums_close(vf_sums *s);                    /* s may be NULL */
/* Writes a file below the folder with vc_file_write and adds its checksum; s may be NULL. */
int vf_sums_put(vf_sums *s, const char *path, const void *data, size_t n, vc_err *err);
/* Add the checksums of a file that the caller writes in pieces: begin, then its tensors if any,
 * then end. vf_sums_write reports when memory ran out here. */
void vf_sums_begin(vf_sums *s, const char *path);
void vf_sums_tensor(vf_sums *s, const char *name, uint64_t xxh3);
void vf_sums_end(vf_sums *s, uint64_t bytes, vf_key xxh3);
/* Writes checksums.json. */
int vf_sums_write(const vf_sums *s, vc_err *err);

/* Gets each finding of a check; `file` is a name below the folder. */
typedef void (*vf_sums_found)(void *arg, const char *file, const char *what);
typedef struct vf_sums_report {
    uint64_t files, bytes;       /* files and bytes that were hashed */
    uint64_t findings;
    bool none;                   /* checksums.json is missing, so nothing was checked */
} vf_sums_report;
/* Compares the folder with its checksums.json: names and sizes of all files, and the bytes of the
 * files in `only` (NULL-ended; NULL: of all files). Returns 0 even with findings, which *r counts;
 * VC_ESTOP, VC_ENOMEM. */
int vf_sums_check(const char *dir, const char *const *only, vf_sums_found found, void *arg,
                  const atomic_int *stop, vf_sums_report *r, vc_err *err);

#endif

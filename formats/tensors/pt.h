/* pt.h - PyTorch's .pt files as data: they are read without executing anything, and written so that
 * torch.load(weights_only=True) loads them.
 *
 * A .pt file is a zip of stored members: `data.pkl`, a pickle, and `data/N`, the bytes of its
 * tensors (PyTorch 1.6 and later). A stack machine reads the pickle and builds only the values
 * below: a class or function that the pickle names, and every object they would make, is
 * VF_PT_OPAQUE. Sizes, references and nesting are bounded by the file's size, so that no file makes
 * the reader hang or run out of memory. A value may contain itself, so a caller that walks values
 * needs a bound of its own. A handle is immutable after open and may serve many threads. */
#ifndef FORMATS_TENSORS_PT_H
#define FORMATS_TENSORS_PT_H

#include <stddef.h>
#include <stdint.h>

#include "formats/tensors/safetensors.h"

typedef enum vf_pt_kind {
    VF_PT_NONE, VF_PT_BOOL, VF_PT_INT, VF_PT_FLOAT, VF_PT_STR, VF_PT_BYTES, VF_PT_TENSOR,
    VF_PT_LIST, VF_PT_TUPLE, VF_PT_DICT, VF_PT_OPAQUE
} vf_pt_kind;

typedef struct vf_pt_value vf_pt_value;
struct vf_pt_value {
    vf_pt_kind kind;
    union {
        int64_t i;                           /* BOOL, INT (an INT beyond 64 bits is OPAQUE) */
        double f;                            /* FLOAT */
        const char *s;                       /* STR (UTF-8), BYTES: n bytes; OPAQUE: class or "" */
        const vf_view *tensor;               /* TENSOR: row-major; name is NULL */
        const vf_pt_value **item;            /* LIST, TUPLE: n items; DICT: n pairs key, value */
    };
    size_t n;
};

typedef struct vf_pt vf_pt;

/* Reads a file, whose map stays open until close. VC_EFORMAT names the fault: no zip, compressed
 * members, a wrong checksum, no pickle, a reference outside of a storage. */
int vf_pt_open(vf_pt **out, const char *path, vc_err *err);
/* The same without checksums, so that the bytes of the tensors are not read yet: for weights of
 * many GiB. */
int vf_pt_open_weights(vf_pt **out, const char *path, vc_err *err);
void vf_pt_release(const vf_pt *p);          /* calls vc_map_release on an opened file */
/* Reads bytes instead of a file; the caller keeps them alive until the function returns. */
int vf_pt_parse(vf_pt **out, const void *data, size_t size, vc_err *err);
void vf_pt_close(vf_pt *p);                                  /* p may be NULL */

/* Returns the value that was saved; the value and all values below are borrowed until close. */
const vf_pt_value *vf_pt_root(const vf_pt *p);
/* Returns the last value of a string key; NULL if v is NULL, no DICT, or has no such key. */
const vf_pt_value *vf_pt_get(const vf_pt_value *v, const char *key);
/* Gets the tensor of a key. VC_ENOENT "latents: missing", VC_EFORMAT "latents: expected a
 * tensor". */
int vf_pt_tensor(const vf_pt_value *v, const char *key, vf_view *t, vc_err *err);

/* Makes the bytes of a file that holds v; the caller frees *out. No value may contain itself or be
 * OPAQUE. The same value gives the same bytes. VC_EINVAL: no .pt file can hold the value. */
int vf_pt_pack(char **out, size_t *size, const vf_pt_value *v, vc_err *err);

#endif

/* pt.h - PyTorch's .pt files as data: read without ever executing anything, written so that
 * torch.load(weights_only=True) takes them.
 *
 * A .pt file is a zip of stored members: `data.pkl`, a pickle, and `data/N`, the bytes of its
 * tensors (PyTorch 1.6 and later). The pickle is read by a machine that builds the values below and
 * nothing else: a class or function that it names, and whatever they would make, is VF_PT_OPAQUE.
 * Sizes, references and nesting are bounded by the file's size, so that no file makes the reader
 * hang or run out of memory; what is reached may contain itself, so a caller must not walk it
 * without a bound of its own. A handle is immutable after open and may serve many threads. */
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
        int64_t i;                           /* BOOL, INT (one beyond 64 bits is OPAQUE) */
        double f;                            /* FLOAT */
        const char *s;                       /* STR (UTF-8), BYTES: n bytes; OPAQUE: its class, or "" */
        const vf_view *tensor;               /* row-major; name is NULL */
        const vf_pt_value **item;            /* LIST, TUPLE: n; DICT: n keys, each with its value */
    };
    size_t n;
};

typedef struct vf_pt vf_pt;

/* VC_EFORMAT names what is wrong: no zip, compressed, no pickle, a reference outside. */
int vf_pt_open(vf_pt **out, const char *path, vc_err *err);
/* The same over bytes that the caller keeps alive until this returns. */
int vf_pt_parse(vf_pt **out, const void *data, size_t size, vc_err *err);
void vf_pt_close(vf_pt *p);                                  /* NULL is fine */

/* The value that was saved. It and all it leads to are borrowed until close. */
const vf_pt_value *vf_pt_root(const vf_pt *p);
/* The last value of a string key; NULL if v is no DICT (or NULL) or has none. */
const vf_pt_value *vf_pt_get(const vf_pt_value *v, const char *key);
/* The tensor of a key. VC_ENOENT "latents: missing", VC_EFORMAT "latents: expected a tensor". */
int vf_pt_tensor(const vf_pt_value *v, const char *key, vf_view *t, vc_err *err);

/* The bytes of a file that holds v, malloc'ed; no value may contain itself and none may be OPAQUE.
 * The same value gives the same bytes. VC_EINVAL: what no file can hold. */
int vf_pt_pack(char **out, size_t *size, const vf_pt_value *v, vc_err *err);

#endif

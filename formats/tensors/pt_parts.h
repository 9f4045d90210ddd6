/* pt_parts.h - types that the reader of .pt files and its pickle machine share. Internal to
 * formats/tensors. */
#ifndef FORMATS_TENSORS_PT_PARTS_H
#define FORMATS_TENSORS_PT_PARTS_H

#include <stdbool.h>

#include "common/os/map.h"
#include "formats/tensors/pt.h"

enum { VF_PT_NODES = 1 << 22 };              /* most values of a pickle; bounds its memory */

/* PyTorch's names of element types: the class of a typed storage, and the dtype. */
typedef struct vf_pt_type {
    vc_dtype dtype;
    const char *storage, *name;              /* "BFloat16Storage" (or NULL), "bfloat16" */
} vf_pt_type;
extern const vf_pt_type vf_pt_types[];       /* ended by a NULL name */

typedef struct vf_pt_member {                /* a member of the zip; of .pt files, named without
                                              * its folder */
    char *name;
    const uint8_t *data;                     /* in the file's map, or in the copy of its bytes */
    size_t size;
} vf_pt_member;

struct vf_pt {
    vc_map map;                              /* empty: the bytes were copied */
    bool numpy;                              /* the file is an .npz */
    vf_pt_member *member;
    size_t n_members;
    struct vf_pt_block *blocks;              /* all memory of the values */
    const vf_pt_value *root;
    size_t packed, may_pack;                 /* bytes of tensors copied to be row-major; their
                                              * bound */
};

/* Adds the members of the zip in data[0..size), which borrow it; check: their checksums are
 * compared. */
int vf_pt_zip(vf_pt *p, const void *data, size_t size, bool check, vc_err *err);
/* Makes the bytes of a zip of these n stored members; the caller frees *out. */
int vf_pt_zip_pack(char **out, size_t *size, const vf_pt_member *m, size_t n, vc_err *err);
const vf_pt_member *vf_pt_find(const vf_pt *p, const char *name);
/* Returns zeroed memory that lives as long as p; NULL when out of memory. */
void *vf_pt_alloc(vf_pt *p, size_t n);

/* Returns item i of a tuple; NULL if t is no tuple or has no such item. */
const vf_pt_value *vf_pt_arg(const vf_pt_value *t, size_t i);
/* Makes the tensor that _rebuild_tensor(storage, offset, size, stride, ...) would make; *out is
 * NULL if the type is VC_DTYPE_NONE. VC_EFORMAT: elements outside the storage, views larger than
 * the file. */
int vf_pt_view(vf_pt *p, const vf_view **out, const vf_pt_member *storage, vc_dtype dtype,
               const vf_pt_value *args, vc_err *err);

/* Runs the pickle in text[0..n) and sets p->root. */
int vf_pt_unpickle(vf_pt *p, const uint8_t *text, size_t n, vc_err *err);

#endif

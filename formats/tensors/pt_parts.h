/* pt_parts.h - what the reader of .pt files and its pickle machine share. Internal to formats/. */
#ifndef FORMATS_TENSORS_PT_PARTS_H
#define FORMATS_TENSORS_PT_PARTS_H

#include "formats/tensors/pt.h"

enum { VF_PT_NODES = 1 << 22 };              /* values of a pickle; bounds its memory */

/* PyTorch's names of element types: of typed storages, and of dtypes. */
typedef struct vf_pt_type {
    vc_dtype dtype;
    const char *storage, *name;              /* "BFloat16Storage" (NULL: none), "bfloat16" */
} vf_pt_type;
extern const vf_pt_type vf_pt_types[];       /* ended by a NULL name */

typedef struct vf_pt_member {                /* of the zip, without the folder it lies in */
    char *name;
    uint8_t *data;
    size_t size;
} vf_pt_member;

struct vf_pt {
    vf_pt_member *member;
    size_t n_members;
    struct vf_pt_block *blocks;              /* all memory that values are in */
    const vf_pt_value *root;
    size_t packed, may_pack;                 /* bytes of tensors that had to be made row-major */
};

const vf_pt_member *vf_pt_find(const vf_pt *p, const char *name);
/* Memory that lives as long as p, zeroed; NULL when there is none. */
void *vf_pt_alloc(vf_pt *p, size_t n);

/* Item i of a tuple; NULL if t is none or has no such item. */
const vf_pt_value *vf_pt_arg(const vf_pt_value *t, size_t i);
/* The tensor that _rebuild_tensor(storage, offset, size, stride, ...) would make: *out is NULL where
 * the type is VC_DTYPE_NONE. VC_EFORMAT: elements outside the storage, views larger than the file. */
int vf_pt_view(vf_pt *p, const vf_view **out, const vf_pt_member *storage, vc_dtype dtype,
               const vf_pt_value *args, vc_err *err);

/* Runs the pickle in text[0..n) and sets p->root. */
int vf_pt_unpickle(vf_pt *p, const uint8_t *text, size_t n, vc_err *err);

#endif

/* pt_tensor.c - makes a tensor of a storage and the arguments of _rebuild_tensor; see pt_parts.h */
#include <stdbool.h>
#include <string.h>

#include "formats/tensors/pt_parts.h"

const vf_pt_value *vf_pt_arg(const vf_pt_value *t, size_t i)
{
    return t->kind == VF_PT_TUPLE && i < t->n ? t->item[i] : NULL;
}

static bool int_arg(const vf_pt_value *v, int64_t *i)
{
    if (!v || v->kind != VF_PT_INT || v->i < 0)
        return false;
    *i = v->i;
    return true;
}

typedef struct layout {
    int nd;
    int64_t offset, dim[VF_MAX_DIMS], stride[VF_MAX_DIMS], count;
    int64_t last;                            /* index of the farthest element in the storage */
} layout;

static const char *read_layout(layout *l, const vf_pt_value *args)
{
    const vf_pt_value *dims = vf_pt_arg(args, 2), *strides = vf_pt_arg(args, 3);
    if (!int_arg(vf_pt_arg(args, 1), &l->offset) || !dims || !strides ||
        dims->kind != VF_PT_TUPLE ||
        strides->kind != VF_PT_TUPLE || dims->n != strides->n || dims->n > VF_MAX_DIMS)
        return "a tensor without offset, size and stride, or of more than 8 dimensions";
    l->nd = (int)dims->n;
    l->count = 1;
    l->last = l->offset;
    for (int i = 0; i < l->nd; i++) {
        int64_t far;
        if (!int_arg(dims->item[i], &l->dim[i]) || !int_arg(strides->item[i], &l->stride[i]) ||
            __builtin_mul_overflow(l->count, l->dim[i], &l->count) ||
            (l->dim[i] && (__builtin_mul_overflow(l->dim[i] - 1, l->stride[i], &far) ||
                           __builtin_add_overflow(l->last, far, &l->last))))
            return "a tensor of impossible size";
    }
    return NULL;
}

static bool row_major(const layout *l)
{
    int64_t want = 1;
    for (int i = l->nd; i-- > 0;) {
        if (l->dim[i] != 1 && l->stride[i] != want)
            return false;
        want *= l->dim[i];
    }
    return true;
}

/* Copies the elements into the order of the dimensions. */
static void pack(uint8_t *dst, const uint8_t *src, const layout *l, size_t size)
{
    int64_t at[VF_MAX_DIMS] = { 0 };
    for (int64_t k = 0; k < l->count; k++) {
        int64_t from = l->offset;
        for (int i = 0; i < l->nd; i++)
            from += at[i] * l->stride[i];
        memcpy(dst + (size_t)k * size, src + (size_t)from * size, size);
        for (int i = l->nd; i-- > 0 && ++at[i] == l->dim[i];)
            at[i] = 0;
    }
}

/* Points the view at its elements: in the storage if they are row-major there, else in a copy. */
static int place(vf_pt *p, vf_view *v, const uint8_t *data, const layout *l, vc_err *err)
{
    size_t size = vc_dtype_size(v->dtype);
    if (!l->count)
        return 0;
    v->bytes = (size_t)l->count * size;      /* cannot overflow, as vf_pt_view has checked */
    v->data = data + (size_t)l->offset * size;
    if (row_major(l))
        return 0;
    uint8_t *packed = vf_pt_alloc(p, v->bytes);
    if (!packed)
        return vc_no_memory(err);
    pack(packed, data, l, size);
    p->packed += v->bytes;
    v->data = packed;
    return 0;
}

int vf_pt_view(vf_pt *p, const vf_view **out, const vf_pt_member *storage, vc_dtype dtype,
               const vf_pt_value *args, vc_err *err)
{
    layout l = { 0 };
    const char *bad = read_layout(&l, args);
    *out = NULL;
    if (bad)
        return vc_fail(err, VC_EFORMAT, "%s", bad);
    if (dtype == VC_DTYPE_NONE)
        return 0;
    size_t size = vc_dtype_size(dtype), have = storage->size / size;
    if (l.count && (uint64_t)l.last >= have)
        return vc_fail(err, VC_EFORMAT, "a tensor up to element %lld of a storage of %zu",
                       (long long)l.last, have);
    /* A row-major tensor needs no check: its last element is inside, so count <= have. */
    if (l.count && !row_major(&l) && (uint64_t)l.count > (p->may_pack - p->packed) / size)
        return vc_fail(err, VC_EFORMAT, "views larger than the file");
    vf_view *v = vf_pt_alloc(p, sizeof *v);
    if (!v)
        return vc_no_memory(err);
    *v = (vf_view){ .dtype = dtype, .nd = l.nd, .data = "" };
    memcpy(v->dim, l.dim, sizeof l.dim);
    int rc = place(p, v, storage->data, &l, err);
    if (!rc)
        *out = v;
    return rc;
}

/* packing.h - the forms in which a linear's frozen weight is held in fewer bits: codes of a type,
 * and f32 scales that they are multiplied by, one for each row or for each block of a row.
 *
 * A row of the table has all that a form is. The loader packs by it (load.c); the products read any
 * codes that have scales (vt_tensor.scale), so files may also bring codes and scales that no row
 * would have made.
 *
 *     fp8     e4m3; a row's scale is the power of two that brings its largest value to 448 at most,
 *             so that only the rounding to four bits loses precision
 *     int8    a row's scale is its largest value / 127 (Dettmers et al. 2022, LLM.int8(), row-wise)
 *     nf4     a block of 64 has its largest value as scale (Dettmers et al. 2023, QLoRA)
 *
 * Thread-safe: no state. */
#ifndef COMMON_TENSOR_PACKING_H
#define COMMON_TENSOR_PACKING_H

#include <stdbool.h>

#include "common/base/dtype.h"

typedef struct vt_packing {
    vc_dtype type;                            /* of the codes; --transformer_dtype has its name */
    int block;                                /* numbers that share a scale; 0: a whole row */
    int least;                                /* rows whose blocks would be shorter, because their
                                               * length is no multiple of block, stay unpacked */
    float most;                               /* the largest code */
    bool power;                               /* scales are powers of two */
} vt_packing;

/* Returns the row of a type; NULL: no weight is packed as this type. */
const vt_packing *vt_packing_of(vc_dtype type);
/* Returns true for types whose elements are codes: a weight of these types may have scales. */
bool vt_is_code(vc_dtype type);
/* Returns the scales of a row of n numbers: 1, or n / block for the largest block of 64, 32 and so
 * on that divides n; 0: such rows are not packed. */
int64_t vt_packing_scales(const vt_packing *p, int64_t n);
/* Packs a row of n numbers, which it changes. Returns false if one of them is not finite. */
bool vt_pack_codes(const vt_packing *p, void *codes, float *scales, float *row, int64_t n);
/* Bytes of a weight [out,in] with its scales. */
int64_t vt_packing_bytes(const vt_packing *p, int64_t out, int64_t in);

#endif

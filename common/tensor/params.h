/* params.h - the inside of vt_params; for weights.c and optim.c only. */
#ifndef COMMON_TENSOR_PARAMS_H
#define COMMON_TENSOR_PARAMS_H

#include "common/tensor/weights.h"

struct vt_swap;                               /* swap.c */

struct vt_params {
    vt_ctx *g;
    vt_param **at;                            /* in bound order; each stays where it is */
    int n, room;
    struct vt_swap *swap;                     /* NULL: nothing is on the host */
};

/* swap.c; NULL is fine. bytes: of the places on the device. */
void vt_swap_close(struct vt_swap *s);
size_t vt_swap_bytes(const struct vt_swap *s);

#endif

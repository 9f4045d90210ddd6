/* params.h - the inside of vt_params; for weights.c, optim.c and common/memory only. */
#ifndef COMMON_TENSOR_PARAMS_H
#define COMMON_TENSOR_PARAMS_H

#include "common/tensor/weights.h"

struct vt_swap;                               /* swap.c */

struct vt_params {
    vt_ctx *g;
    vt_param **at;                            /* in bound order; their addresses never change */
    int n, room;
    int model;                                /* of the weights that are bound next */
    vt_loaded_fn *loaded;                     /* of vt_params_watch, or NULL */
    void *loaded_arg;
    struct vt_swap *swap;                     /* NULL: no weights are swapped */
};

/* swap.c; both take NULL. vt_swap_bytes counts the places on the device. */
void vt_swap_close(struct vt_swap *s);
size_t vt_swap_bytes(const struct vt_swap *s);

#endif

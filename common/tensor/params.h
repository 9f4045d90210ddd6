/* params.h - the inside of vt_params; for weights.c and optim.c only. */
#ifndef VT_PARAMS_H
#define VT_PARAMS_H

#include "common/tensor/weights.h"

struct vt_params {
    vt_ctx *g;
    vt_param **at;                            /* in bound order; each stays where it is */
    int n, room;
};

#endif

/* params.h - the inside of vt_params; for weights.c, load.c, optim.c, optimizer.c,
 * common/memory and common/adapters only. */
#ifndef COMMON_TENSOR_PARAMS_H
#define COMMON_TENSOR_PARAMS_H

#include "common/tensor/weights.h"

/* The places on the device of weights that are on the host (common/memory/swap.c). */
typedef struct vt_places {
    size_t bytes;
    void (*close)(struct vt_places *s);
} vt_places;

struct vt_params {
    vt_ctx *g;
    vt_param **at;                            /* in bound order; their addresses never change */
    int n, room;
    int model;                                /* of the weights that are bound next */
    vt_loaded_fn *loaded;                     /* of vt_params_watch, or NULL */
    void *loaded_arg;
    vt_places *swap;                          /* NULL: no weights are swapped */
    struct vt_host_grads *host_grads;         /* NULL: all gradients are on the device */
    struct vt_host_update *host_update;       /* the optimiser's; NULL: the device updates */
};

/* weights.c. Returns a new entry at the end of the list, of no block; NULL: out of memory. Takes
 * ownership of t in every case. */
vt_param *vt_params_add(vt_params *p, const char *name, const char *module, vt_tensor *t,
                        vt_lin *lin, int role, vc_err *err);
/* Makes a parameter of f32 with initial values of its name; a dry step has none. */
int vt_param_started(vt_tensor **t, vt_ctx *g, vt_init init, int nd, const int64_t *dim,
                     const char *name, uint64_t seed, vc_err *err);
/* Makes one parameter trained, as vt_params_train does. */
int vt_params_train_one(vt_params *p, vt_param *w, vc_err *err);

/* optim.c. Number of trained parameters. */
int vt_params_trained(const vt_params *p);

/* load.c. Loads a tensor of the source, of type *from there. scale is NULL but for a linear's
 * weight, for which *scale becomes the scale of its rows, or of blocks of them, if it is held as
 * codes with scales. */
int vt_load(vt_tensor **t, vt_tensor **scale, vc_dtype *from, vt_ctx *g, const vt_source *src,
            int nd, const int64_t *dim, const char *name, vc_err *err);

#endif

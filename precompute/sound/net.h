/* net.h - functions that the networks of sound share: opening a folder, binding weights, reading
 * numbers. For precompute/sound. */
#ifndef PRECOMPUTE_SOUND_NET_H
#define PRECOMPUTE_SOUND_NET_H

#include "common/nn/video.h"
#include "formats/tensors/model.h"
#include "precompute/encoder.h"

typedef struct sound_net {
    const char *dir;                 /* borrowed while the network is opened */
    vt_ctx *g;
    vf_model *file;
    vt_params *params;
    int rc;                          /* of binding: the first failure stays */
    vc_err *err;
} sound_net;

/* Opens the device and the weights; err stays with n until sound_net_end. The caller closes n after
 * a failure too. */
int sound_net_begin(sound_net *n, const encoder_opts *o, vc_err *err);
/* Binds the weights of a table, whose sizes -1 and -2 are out and in, below the name. */
void sound_net_bind(sound_net *n, const vt_weight *table, void *base, int64_t out, int64_t in,
                    const char *name, ...) __attribute__((format(printf, 6, 7)));
/* The first failure of binding; VC_EMISMATCH: the file has a tensor that is neither bound nor among
 * `spare` (NULL-ended). */
int sound_net_end(sound_net *n, const char *const *spare);
void sound_net_close(sound_net *n);
/* Reads a tensor of n finite numbers of any shape. */
int sound_net_numbers(const sound_net *n, const char *name, int count, double *out, vc_err *err);

#endif

/* values.h - the numbers of persistent tensors, in and out: for checkpoints, LoRA files, traces. */
#ifndef FORMATS_TENSORS_VALUES_H
#define FORMATS_TENSORS_VALUES_H

#include "common/tensor/tensor.h"
#include "formats/tensors/safetensors.h"
#include "formats/tensors/sums.h"

bool vf_all_finite(const float *x, size_t n);
/* VC_ENUMERIC naming the first element that is NaN or infinite. */
int vf_view_finite(const vf_view *v, vc_err *err);

/* t's values become those of v, whose shape must be t's, converted to t's type (codes of eight bits
 * stay what they are); VC_EMISMATCH names v. */
int vf_values_set(vt_ctx *g, vt_tensor *t, const vf_view *v, vc_err *err);

/* Views to be written to one file. Values come from the device, and are converted to another type
 * or scale, when their turn comes: one tensor at a time is in host memory. */
typedef struct vf_views {
    vt_ctx *g;
    vf_view *v;
    char **name;
    struct vtrain_value *from;
    int n, room;
    void *held, *converted;                  /* the last one's values */
} vf_views;
int vf_views_open(vf_views *s, vt_ctx *g, int room, vc_err *err);
void vf_views_close(vf_views *s);                   /* an all-zero one is fine */
/* Adds t as prefix + name + suffix, at most `room` of them, to be written in `type`, times scale (in
 * f32). t is borrowed until close. */
int vf_views_add(vf_views *s, const char *prefix, const char *name, const char *suffix,
                     const vt_tensor *t, vc_dtype type, double scale, vc_err *err);
/* Writes DIR/FILE atomically; sealed and sums as vf_safetensors_stream has them. */
int vf_views_write(vf_views *s, const char *dir, const char *file, const vf_meta *meta,
                       int n_meta, bool sealed, vf_sums *sums, vc_err *err);

#endif

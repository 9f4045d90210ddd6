/* values.h - reads and writes the values of persistent tensors, for checkpoints, LoRA files and
 * traces. */
#ifndef FORMATS_TENSORS_VALUES_H
#define FORMATS_TENSORS_VALUES_H

#include "common/tensor/tensor.h"
#include "formats/tensors/safetensors.h"
#include "formats/tensors/sums.h"

bool vf_all_finite(const float *x, size_t n);
/* Fails with VC_ENUMERIC and names the first element that is NaN or infinite. */
int vf_view_finite(const vf_view *v, vc_err *err);

/* Copies the values of v to t, converted to t's type; 8-bit codes are copied unchanged. The shapes
 * must be equal; VC_EMISMATCH names v. */
int vf_values_set(vt_ctx *g, vt_tensor *t, const vf_view *v, vc_err *err);

/* Views for one file. A tensor's values are copied from the device, and converted to another type
 * or scale, just before they are written: one tensor at a time is in host memory. */
typedef struct vf_views {
    vt_ctx *g;
    vf_view *v;
    char **name;
    struct vf_view_source *from;             /* tensor and scale of each view; no tensor: the
                                              * view has the values */
    int n, room;
    void *held, *converted;                  /* values of the last tensor, before and after */
    void (*written)(void *arg, const vt_tensor *t);      /* NULL, or called with each tensor when
                                              * its values were written */
    void *written_arg;
    const vt_tensor *last;                   /* whose values are being written, or NULL */
} vf_views;
int vf_views_open(vf_views *s, vt_ctx *g, int room, vc_err *err);
void vf_views_close(vf_views *s);                   /* s may be all-zero */
/* Adds t under the name prefix + name + suffix, to be written as `type`, times scale (in f32); at
 * most `room` calls are allowed. t is borrowed until close. */
int vf_views_add(vf_views *s, const char *prefix, const char *name, const char *suffix,
                 const vt_tensor *t, vc_dtype type, double scale, vc_err *err);
/* Adds v with its values as they are, borrowed until close, as one of the `room` calls. */
int vf_views_add_view(vf_views *s, const vf_view *v, vc_err *err);
/* Writes DIR/FILE atomically; sealed and sums mean the same as in vf_safetensors_stream. A value
 * that would be written as NaN or infinite is VC_ENUMERIC. */
int vf_views_write(vf_views *s, const char *dir, const char *file, const vf_meta *meta,
                   int n_meta, bool sealed, vf_sums *sums, vc_err *err);

#endif

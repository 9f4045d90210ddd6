/* values.h - the numbers of persistent tensors, in and out: for checkpoints, LoRA files, traces. */
#ifndef VTRAIN_VALUES_H
#define VTRAIN_VALUES_H

#include "common/tensor/tensor.h"
#include "formats/safetensors.h"

/* t's f32 values become those of v, whose shape must be t's; VC_EMISMATCH names v. */
int vtrain_values_set(vt_tensor *t, const vf_view *v, vc_err *err);
/* A view of a packed parameter under `name`, borrowed from both. */
vf_view vtrain_values_view(const vt_tensor *t, const char *name);

/* Views to be written to one file, with the names and the converted values that are their own. */
typedef struct vtrain_views {
    vf_view *v;
    char **name;
    void **area;
    int n, room;
} vtrain_views;
int vtrain_views_open(vtrain_views *s, int room, vc_err *err);
void vtrain_views_close(vtrain_views *s);                   /* an all-zero one is fine */
/* Adds t as prefix + name + suffix, at most `room` of them. Its values are borrowed where they have
 * `type` and scale is 1, else converted, multiplied in f32. */
int vtrain_views_add(vtrain_views *s, const char *prefix, const char *name, const char *suffix,
                     const vt_tensor *t, vc_dtype type, double scale, vc_err *err);
/* Writes DIR/FILE atomically. */
int vtrain_views_write(const vtrain_views *s, const char *dir, const char *file,
                       const vf_meta *meta, int n_meta, vc_err *err);

#endif

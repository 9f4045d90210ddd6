/* values.h - the numbers of persistent tensors, in and out: for checkpoints, LoRA files, traces. */
#ifndef VTRAIN_VALUES_H
#define VTRAIN_VALUES_H

#include "common/tensor/tensor.h"
#include "formats/safetensors.h"

/* t's f32 values become those of v, whose shape must be t's; VC_EMISMATCH names v. */
int vtrain_values_set(vt_tensor *t, const vf_view *v, vc_err *err);
/* A view of a packed parameter under `name`, borrowed from both. */
vf_view vtrain_values_view(const vt_tensor *t, const char *name);

#endif

/* experts.h - the two transformers of a model whose noise levels they share (Wan 2.2 A14B): one for
 * high noise, `transformer`, one for low noise, `transformer_2`.
 *
 * A run trains one of them or both. With both, the parameters of both are in one list (vt_param
 * .model), each micro-batch goes to the transformer that its levels belong to (objective.h), and a
 * step changes only the transformers that one of its micro-batches went to, on any rank: the
 * optimiser counts the steps of each apart, as torch.optim does. */
#ifndef TRAIN_SETUP_EXPERTS_H
#define TRAIN_SETUP_EXPERTS_H

#include "train/vtrain.h"

/* Decides which transformers the run trains, from --boundary_type, --transformer_high, --task,
 * --timestep_boundary, the range of levels, and the place and the name of the weights; fills in
 * cfg.boundary_type, boundary and half. VC_EUSAGE: the flags contradict the weights or each other,
 * or the model is known to have two transformers and the weights may be either's. Reads the opened
 * data. */
int vtrain_experts_choose(vtrain *t, vc_flags *set, vc_err *err);
/* The folder of a half's LoRA in a checkpoint, malloc'ed: the checkpoint itself, or (low) its
 * folder transformer_2. NULL: out of memory. */
char *vtrain_half_path(const char *path, bool low);
/* The file or folder of a LoRA that is read for a half, malloc'ed: path, or for low noise its
 * folder transformer_2, which it must have where both are trained. NULL: out of memory. */
char *vtrain_half_lora(const vtrain *t, const char *path, bool low);

#endif

/* upload.h - copies the inputs of a forward from the host into tensors of the step. Internal to
 * train/steps. */
#ifndef TRAIN_STEPS_UPLOAD_H
#define TRAIN_STEPS_UPLOAD_H

#include "train/steps/tensors.h"

/* Copy a forward's texts [rows,n,width], its conditions of the bits of `roles`, and the same
 * guidance for all rows, if the model takes guidance as an input. dim: of the latents. */
void vtrain_upload_texts(vt_ctx *g, vtrain_in *in, int n, const vtrain_text *text, int64_t rows);
void vtrain_upload_cond(const vtrain *t, vtrain_in *in, const int64_t dim[5], unsigned roles,
                        const vtrain_own *own, float *const cond[VC_ROLES]);
void vtrain_upload_guidance(const vtrain *t, vtrain_in *in, int64_t rows, double guidance);
/* Copies a micro-batch's inputs. All work queued after depends on shapes only. */
void vtrain_upload(vtrain *t, vtrain_tensors *p, const vtrain_batch *b, const vtrain_levels *v,
                   uint64_t seed, uint64_t number);
/* Starts copying to the device all data of a batch that vtrain_upload will copy. */
void vtrain_upload_ahead(const vtrain *t, const vtrain_batch *b);

#endif

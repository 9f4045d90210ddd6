/* sequence.h - the ranks that share each sequence of tokens (--sp).
 *
 * `sp` consecutive ranks have the same micro-batches, and each computes a share of their tokens
 * (common/tensor/exchange.h). Rank r belongs to data-parallel group r / sp. A rank's gradients are
 * those of its tokens: their sums over all ranks are the gradients of the groups' micro-batches,
 * so dist.h and zero.h need not know which ranks share a sequence. */
#ifndef TRAIN_PARALLEL_SEQUENCE_H
#define TRAIN_PARALLEL_SEQUENCE_H

#include "common/comm/comm.h"

struct vt_ctx;
typedef struct vtrain_sequence vtrain_sequence;

/* Connects the ranks that share sequences, `sp` of `all`, and lets g's steps share them. With sp 1
 * there is nothing to connect. `patience` is as in dist.h. Borrows all and g. Collective.
 * VC_EINVAL: on GPUs, in a build without NCCL. */
int vtrain_sequence_open(vtrain_sequence **out, vc_comm *all, struct vt_ctx *g, int sp,
                         double patience, vc_err *err);
/* Call before g is closed; NULL is fine. */
void vtrain_sequence_close(vtrain_sequence *s);

/* After a step that failed on all ranks, and that they will repeat: connects them anew, so that no
 * exchange of that step remains. Collective. */
int vtrain_sequence_again(vtrain_sequence *s, vc_comm *all, vc_err *err);

/* Called before each micro-batch by all ranks that share it: `rc` is what this rank has met so far.
 * 0 if all pass 0. A rank that passes 0 where another fails gets VC_ESTOP, so that the failing
 * rank's error is the one reported. */
int vtrain_sequence_agree(vtrain_sequence *s, int rc, vc_err *err);
/* Local, after a step that returned rc: returns rc or, if an exchange on GPUs failed, its failure.
 * After a failure, steps of the other ranks that wait for this one fail with VC_ESTOP. */
int vtrain_sequence_end(vtrain_sequence *s, int rc, vc_err *err);

#endif

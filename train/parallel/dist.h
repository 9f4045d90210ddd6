/* dist.h - data-parallel training: each step's gradients are summed over the ranks, block by block,
 * while backward still computes the blocks below.
 *
 *     for each micro-batch i of the step's on this rank:
 *         vtrain_dist_begin(d, i);
 *         ... forward, backward ...  // grads_ready: a block's sum starts in the background
 *     vtrain_dist_finish(d, err);    // the other sums; gradients are then the ranks' sums
 *
 * Whole gradients (shards 1): each rank adds up its micro-batches, and the ranks' gradients are
 * summed in the step's last one. Sharded gradients (ZeRO stage 2, Rajbhandari et al. 2020): the
 * gradients of every micro-batch are summed and each rank keeps only its part, so that full
 * gradients exist for two blocks at a time; zero.h updates the values from the parts. Split values
 * (stage 3, FSDP): blocks' values are split too; a block's values are gathered while the block
 * before runs, in forward and in backward, and freed after the block. Parameters outside blocks
 * stay whole.
 *
 * Blocks are summed in one fixed order, last to first, then the parameters outside blocks. A rank
 * that fails calls finish too: its gradients, although not valid, go into the sums, so that no rank
 * waits for another, and afterwards vc_comm_agree passes the failure to all ranks.
 *
 * A micro-batch may run all blocks several times, one run of the model after another (walks), and
 * their backward in the opposite order. Whole gradients are summed after the last backward of a
 * block, sharded ones after each; split values are gathered for each run.
 *
 * Between begin and finish only a thread of dist.c may use the comm. On one rank these functions do
 * nothing and start no thread.
 *
 * On GPUs the thread queues sums and gathers on a second stream (common/memory/second_stream.h).
 * The two streams wait for each other by events, and the host waits only in finish. The thread
 * watches the queued work: if a rank fails or does not come, the work is ended on all ranks. */
#ifndef TRAIN_PARALLEL_DIST_H
#define TRAIN_PARALLEL_DIST_H

#include "common/comm/comm.h"
#include "common/tensor/optimizer.h"

typedef struct vtrain_dist vtrain_dist;

typedef struct vtrain_dist_opts {
    vc_dtype wire;               /* type in which gradients are sent: VC_F32 or VC_BF16 */
    int shards;                  /* consecutive ranks that split the gradients; 1: whole */
    bool values;                 /* blocks' values are split too, from vtrain_dist_split on */
    vt_optimizer how;           /* optimiser, which sets the type of split values (zero.h) */
    int64_t micros;              /* micro-batches of a step on this rank */
    int walks;                   /* runs of the model in a micro-batch; 0: 1 */
    double patience;             /* seconds on GPUs after which a missing rank is a failure */
} vtrain_dist_opts;

/* Borrows comm, g and p, sets g's hooks and moves the gradients (vt_param_lend_grad). All trained
 * parameters are in p by then. Collective. VC_EUSAGE: some ranks compute on GPUs and some do not;
 * VC_EINVAL: on GPUs, in a build without NCCL. */
int vtrain_dist_open(vtrain_dist **out, vc_comm *comm, vt_ctx *g, vt_params *p,
                     const vtrain_dist_opts *o, vc_err *err);
/* Call after the last use of p's gradients, before p is closed; NULL is fine. */
void vtrain_dist_close(vtrain_dist *d);
/* Begins micro-batch i of the step. */
void vtrain_dist_begin(vtrain_dist *d, int64_t i);
/* Ends the step and waits for all sums. Collective; returns the first failure of a sum. */
int vtrain_dist_finish(vtrain_dist *d, vc_err *err);

/* Splits the values if opts.values, else does nothing. From then on this rank holds its shard of
 * blocks' values, and whole values exist only between begin and finish. Local. */
int vtrain_dist_split(vtrain_dist *d, vc_err *err);
/* For evaluation, samples and checkpoints: gathers all split values. With `keep` this rank has them
 * whole until vtrain_dist_part; a rank without `keep` only sends its shard. Collective. */
int vtrain_dist_whole(vtrain_dist *d, bool keep, vc_err *err);
/* Frees the whole values that vtrain_dist_whole gathered. */
void vtrain_dist_part(vtrain_dist *d);
/* Bytes that d holds, for the prediction of memory; 0 for NULL. */
size_t vtrain_dist_bytes(const vtrain_dist *d);
/* Seconds that vtrain_dist_finish has waited in all. */
double vtrain_dist_waited(const vtrain_dist *d);

#endif

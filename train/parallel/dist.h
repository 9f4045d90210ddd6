/* dist.h - several ranks train as one: each step's gradients are summed over them, block by block,
 * while backward is still at work on the blocks below.
 *
 *     for each micro-batch i of the step's on this rank:
 *         vtrain_dist_begin(d, i);
 *         ... forward, backward ...  // grads_ready: a block's sum starts in the background
 *     vtrain_dist_finish(d, err);    // the rest; gradients are the ranks' sums
 *
 * Whole (shards 1): each rank adds up its micro-batches and all of it is summed in the step's last,
 * after which each parameter's gradient is everyone's sum. Sharded (ZeRO stage 2, Rajbhandari et
 * al. 2020): every micro-batch's gradients are summed and only the rank's part is kept, so that
 * full gradients exist for two blocks at a time; zero.h goes on from there. Split values (stage 3,
 * FSDP): blocks' values are split too; a block's are gathered while the one before it is at work,
 * forwards and backwards, and given up after it. What is in no block stays whole.
 *
 * Blocks are summed in one fixed order, last to first and then what is in no block. A rank that
 * fails calls finish too: what it has, whatever it is worth, goes into the sums, so that no
 * rank waits for another, and all hear of the failure by vc_comm_agree afterwards.
 *
 * Between begin and finish no other call may use the comm: a thread of its own does. On one rank
 * nothing happens and no thread exists.
 *
 * On GPUs the thread queues sums and gathers on a second stream instead (common/memory/second_stream.h);
 * the steps' stream and it wait for each other by events, and the host waits in finish alone. The
 * thread looks after what is queued: a rank that fails or does not come ends it on all. */
#ifndef TRAIN_PARALLEL_DIST_H
#define TRAIN_PARALLEL_DIST_H

#include "common/comm/comm.h"
#include "common/tensor/weights.h"

typedef struct vtrain_dist vtrain_dist;

typedef struct vtrain_dist_opts {
    vc_dtype wire;               /* how gradients travel: VC_F32 or VC_BF16 */
    int shards;                  /* consecutive ranks that split the gradients; 1: whole */
    bool values;                 /* and blocks' values, from vtrain_dist_split on */
    vt_adamw_kind how;           /* what is kept of values, where they are split (zero.h) */
    int64_t micros;              /* of a step on this rank */
    double patience;             /* s: on GPUs, until a rank that does not come is a failure */
} vtrain_dist_opts;

/* comm, g and p are borrowed; sets g's hooks and moves the gradients (vt_param_lend_grad). p: all
 * that is trained is there. Collective. VC_EUSAGE: some ranks
 * compute on GPUs and some do not; VC_EINVAL: on GPUs, in a build without NCCL. */
int vtrain_dist_open(vtrain_dist **out, vc_comm *comm, vt_ctx *g, vt_params *p,
                     const vtrain_dist_opts *o, vc_err *err);
/* After the last use of p's gradients, before p is closed; NULL is fine. */
void vtrain_dist_close(vtrain_dist *d);
void vtrain_dist_begin(vtrain_dist *d, int64_t i);
int vtrain_dist_finish(vtrain_dist *d, vc_err *err);

/* Split values only, else without effect. From now on this rank holds its shard of them, and whole
 * ones exist between begin and finish alone. Local. */
int vtrain_dist_split(vtrain_dist *d, vc_err *err);
/* For evaluation, samples and checkpoints: gathers all values. keep: this rank gets them whole,
 * until vtrain_dist_part; others only give. Collective. */
int vtrain_dist_whole(vtrain_dist *d, bool keep, vc_err *err);
void vtrain_dist_part(vtrain_dist *d);
/* Bytes held, for the prediction of memory (NULL: none); seconds that finish has waited. */
size_t vtrain_dist_bytes(const vtrain_dist *d);
double vtrain_dist_waited(const vtrain_dist *d);

#endif

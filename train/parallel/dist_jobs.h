/* dist_jobs.h - the order of a round's collective work: a list of jobs, the same on all ranks, and
 * the gates at which blocks release jobs and wait for them.
 *
 * Jobs are sums of blocks' gradients and, where values are split, gathers of blocks' values. With
 * split values of three blocks, gathers G and sums S:
 *
 *     forward: G0 G1 G2    backward: G1 S2 G0 S1 S0 S(parameters outside blocks)
 *
 * All blocks share two rows of gradients and two rows of values alternately: G1 waits until block 2
 * is entered, since block 3 had the same row; block 0 waits for S2, whose gradients had its row.
 *
 * A round of several runs of the model (walks) has the forwards of all of them, then the backwards,
 * the last run's first. Sharded gradients are summed in each; whole ones add up in their own rows
 * and are summed in the last backward, that of the first run. */
#ifndef TRAIN_PARALLEL_DIST_JOBS_H
#define TRAIN_PARALLEL_DIST_JOBS_H

#include <stdbool.h>

#include "common/base/err.h"

typedef struct vtrain_job {
    int block;                   /* below 0: the parameters outside blocks */
    bool gather;                 /* gathers the block's values; else sums its gradients */
    bool more;                   /* the round has a sum of the block before this one */
} vtrain_job;

/* At a hook of a block: releases the first `post` jobs, and waits until `need` jobs are done. */
typedef struct vtrain_gate { int post, need; } vtrain_gate;
typedef struct vtrain_gates { vtrain_gate forward, backward, ready; } vtrain_gates;

typedef struct vtrain_jobs {
    vtrain_job *job;             /* [n] */
    int n;
    vtrain_gates *gates;         /* [walks,blocks] */
} vtrain_jobs;

/* sharded: blocks share rows of gradients; values: and of values, which are split. */
int vtrain_jobs_plan(vtrain_jobs *j, int blocks, int walks, bool sharded, bool values,
                     vc_err *err);
void vtrain_jobs_close(vtrain_jobs *j);      /* an all-zero one is fine */

#endif

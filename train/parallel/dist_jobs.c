/* dist_jobs.c - see dist_jobs.h */
#include "train/parallel/dist_jobs.h"

#include <stdlib.h>

enum { SHARED = 2 };                          /* rows that blocks alternate in */

/* Returns the number of jobs up to this one. */
static int add(vtrain_jobs *j, int block, bool gather, bool more)
{
    j->job[j->n++] = (vtrain_job){ block, gather, more };
    return j->n;
}

static int most(int a, int b)
{
    return a > b ? a : b;
}

/* The gathers of a run's forward. A block waits for its own values and releases the gather of the
 * next block's, whose row the block before had. For the first block of a later run, which takes the
 * row of one of the last two, nothing is gathered ahead. */
static void add_forward(vtrain_jobs *j, vtrain_gates *at, int blocks)
{
    const int first = j->n;
    for (int b = 0; b < blocks; b++) {
        const int next = b + 2 < blocks ? b + 2 : blocks;
        at[b].forward = (vtrain_gate){ first + next, add(j, b, true, false) };
    }
}

/* The gathers and sums of a run's backward. After the last forward the last block's values are
 * still in their row; a backward that follows another begins with their gather. */
static void add_backward(vtrain_jobs *j, vtrain_gates *at, int blocks, bool begins, bool sums,
                         bool sharded, bool values)
{
    int need = sharded ? j->n : 0;            /* the last blocks' rows are those of the first */
    if (values)
        need = begins ? at[blocks - 1].forward.need : add(j, blocks - 1, true, false);
    for (int b = blocks - 1; b >= 0; b--) {
        vtrain_gate *g = &at[b].backward;
        g->need = most(g->need, need);
        g->post = most(g->post, g->need);
        if (values && b > 0)
            g->post = need = add(j, b - 1, true, false);
        if (sums)
            at[b].ready.post = add(j, b, false, sharded && !begins);
        if (sharded && !values && b >= SHARED)
            at[b - SHARED].backward = (vtrain_gate){ j->n, j->n };
    }
}

int vtrain_jobs_plan(vtrain_jobs *j, int blocks, int walks, bool sharded, bool values,
                     vc_err *err)
{
    const size_t n = (size_t)walks * (size_t)blocks;
    *j = (vtrain_jobs){ .job = calloc(3 * n + 1, sizeof *j->job) };
    j->gates = calloc(n + 1, sizeof *j->gates);
    if (!j->job || !j->gates)
        return vc_no_memory(err);
    for (int w = 0; values && blocks && w < walks; w++)
        add_forward(j, j->gates + w * blocks, blocks);
    for (int w = walks - 1; blocks && w >= 0; w--)
        add_backward(j, j->gates + w * blocks, blocks, w == walks - 1, sharded || w == 0, sharded,
                     values);
    add(j, -1, false, false);
    return 0;
}

void vtrain_jobs_close(vtrain_jobs *j)
{
    free(j->job);
    free(j->gates);
    *j = (vtrain_jobs){ 0 };
}

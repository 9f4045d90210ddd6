/* profile.c - seconds and FLOPs of each op; see tensor.h */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/tensor/engine.h"

enum { ROWS = 96 };                           /* two per op; all above share the last row */

struct vt_profile {
    vt_op_time row[ROWS];
    int n;
    double flops;                             /* of the step, up to the last kernel */
};

double vt_profile_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void vt_profile_begin(vt_ctx *g)
{
    if (!g->profile)
        g->profile = calloc(1, sizeof *g->profile);      /* NULL: the profile stays empty */
    else
        memset(g->profile, 0, sizeof *g->profile);
}

void vt_profile_free(struct vt_profile *p)
{
    free(p);
}

static vt_op_time *row_of(struct vt_profile *p, const char *op, bool grad)
{
    for (int i = 0; i < p->n; i++)
        if (p->row[i].grad == grad && !strcmp(p->row[i].op, op))
            return &p->row[i];
    if (p->n == ROWS)
        return &p->row[ROWS - 1];
    p->row[p->n] = (vt_op_time){ .op = op, .grad = grad };
    return &p->row[p->n++];
}

void vt_profile_add(vt_ctx *g, double begin)
{
    struct vt_profile *p = g->profile;
    vt_op_time *r = row_of(p, g->op, g->in_grad);
    vc_err err = { 0 };
    int rc = g->be->host_memory ? 0 : g->be->status(g->dev, &err);

    if (rc && !g->err.code)                    /* status gives a fault once */
        g->err = err;
    r->calls++;
    r->seconds += vt_profile_now() - begin;
    if (p->flops > g->usage.flops)                       /* a new step has begun */
        p->flops = 0;
    r->flops += g->usage.flops - p->flops;
    p->flops = g->usage.flops;
}

static int by_time(const void *a, const void *b)
{
    double x = ((const vt_op_time *)a)->seconds, y = ((const vt_op_time *)b)->seconds;
    return x < y ? 1 : x > y ? -1 : 0;
}

int vt_profile_rows(vt_ctx *g, const vt_op_time **rows)
{
    *rows = NULL;
    if (!g->profile)
        return 0;
    qsort(g->profile->row, (size_t)g->profile->n, sizeof *g->profile->row, by_time);
    *rows = g->profile->row;
    return g->profile->n;
}

/* held_out.c - the held-out loss; see step.h */
#include <math.h>
#include <stdio.h>

#include "train/parallel/sequence.h"
#include "train/steps/noised.h"
#include "train/steps/step.h"

/* Sums over the held-out samples: of their losses at each level, of all, and of their number. */
typedef struct held_out {
    double level[VTRAIN_NOISE_LEVELS], sum, rows;
} held_out;

static int eval_batch(vtrain *t, const vtrain_batch *b, held_out *h, vc_err *err)
{
    const bool grows = vtrain_noise_grows(t);
    const int levels = t->distill.steps ? 1 : VTRAIN_NOISE_LEVELS;      /* a walk has no level */
    for (int q = 0; q < levels; q++) {
        vtrain_micro m = {
            .batch = b, .seed = ~(uint64_t)t->cfg.seed, .level = (q + 0.5) / VTRAIN_NOISE_LEVELS,
            .number = b->micro * VTRAIN_NOISE_LEVELS + (uint64_t)q,
        };
        int rc = vtrain_micro_run(t, &m, false, err);
        if (rc)
            return rc;
        h->level[grows ? q : VTRAIN_NOISE_LEVELS - 1 - q] += (double)m.loss * b->rows;
        h->sum += (double)m.loss * b->rows;
        h->rows += b->rows;
    }
    return 0;
}

static void eval_progress(const vtrain *t, uint64_t batch, uint64_t all)
{
    char extra[80];
    snprintf(extra, sizeof extra, "held-out loss: batch %llu of %llu", (unsigned long long)batch,
             (unsigned long long)all);
    vc_progress_at(t->ui, (uint64_t)t->at.step, extra);
}

int vtrain_eval(vtrain *t, vtrain_record *r, vc_err *err)
{
    vtrain_loader_opts o = {
        .plan = { .batch = (uint32_t)t->cfg.train_batch_size, .seed = ~(uint64_t)t->cfg.seed },
        .latent = VTRAIN_LATENT_MEAN, .held_out = true, .threads = 1, .ahead = 1,
        .distill = t->distill.steps, .any_steps = t->cfg.distill_steps > 0,
        .noise_bf16 = t->cfg.mixed_precision == VTRAIN_PRECISION_BF16,
        .check = t->cfg.verify_data, .least_rows = vtrain_least_rows(t),
        .stride = (uint64_t)vtrain_dp_groups(t),
    };
    vtrain_loader *l = NULL;
    int rc = vtrain_loader_pass(t->data, o.plan.batch, &o.end, err);
    o.first = (uint64_t)vtrain_dp_group(t);
    if (o.first > o.end)
        o.first = o.end;                         /* more ranks than batches */
    if (!rc)
        rc = vtrain_loader_open(&l, t->data, &o, err);
    held_out h = { .sum = 0 };
    uint64_t done = 0, batches = (o.end - o.first + o.stride - 1) / o.stride;
    for (bool more = true; more;) {
        const vtrain_batch *b = NULL;
        double waited;
        if (!rc && *t->stop)
            rc = vc_fail(err, VC_ESTOP, "stopped");
        if (!rc)
            rc = vtrain_loader_next(l, &b, &waited, err);
        rc = vtrain_sequence_agree(t->ranks.sequence, rc, err);
        more = !rc && b;
        if (more) {
            eval_progress(t, ++done, batches);
            rc = eval_batch(t, b, &h, err);
        }
        if (b)
            vtrain_loader_give_back(l, b);
    }
    vtrain_loader_close(l);
    vc_context(err, rc, "held-out samples");
    rc = vc_comm_agree(t->comm, rc, err);
    if (!rc)                                     /* ranks that share batches count them alike */
        rc = vc_comm_reduce(t->comm, (double *)&h, sizeof h / sizeof(double), VC_COMM_SUM, err);
    r->eval_loss = h.rows > 0 ? h.sum / h.rows : NAN;
    const bool levels = h.rows > 0 && !t->distill.steps;
    for (int i = 0; i < VTRAIN_NOISE_LEVELS; i++)
        r->eval_level[i] = levels ? VTRAIN_NOISE_LEVELS * h.level[i] / h.rows : NAN;
    return rc;
}

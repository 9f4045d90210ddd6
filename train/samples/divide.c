/* divide.c - divides the samples of a step into micro-batches and parts: see samples.h.
 *
 *     step           8 samples, of one or several micro-batches
 *     micro-batch    |    4    |    4    |     chosen together, of one bucket; draws count its rows
 *     part           | 2  | 2  | 2  | 2  |     a batch of a rank: --train_batch_size
 *     rank             0    1    0    1        with 2 ranks and 2 parts accumulated
 *
 * The order of samples and their draws depend on the micro-batches alone. So a resumed run keeps
 * the micro-batches of its checkpoint as long as a step has as many samples, and divides them anew.
 * A run with --global_batch_size has one micro-batch a step. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "train/samples/samples.h"
#include "train/samples/spans.h"

/* ---- orders ---- */

/* Marks the visits of micro-batches from..end-1, which are of one epoch. */
static int mark(vtrain_order *o, uint64_t from, uint64_t end, uint32_t batch, uint8_t *done,
                vc_err *err)
{
    uint32_t *visit = malloc((size_t)batch * sizeof *visit), n;
    int rc = visit ? 0 : vc_no_memory(err);
    for (uint64_t m = from; !rc && m < end; m++) {
        rc = vtrain_order_visits(o, m, visit, &n, err);
        for (uint32_t i = 0; !rc && i < n; i++)
            done[visit[i]] = 1;
    }
    free(visit);
    return rc;
}

/* Marks the visits of the first epoch of span k that the spans before it have made. */
static int mark_done(const vtrain_samples *all, const vtrain_data *d, int k, uint8_t *done,
                     vc_err *err)
{
    const vtrain_span *s = &all->span[k], *before = s - 1;
    uint64_t epoch, begin, end;
    vtrain_order *o = NULL;
    if (!k || !s->rest)
        return 0;
    uint8_t *earlier = calloc(vtrain_data_visits(d), 1);
    int rc = earlier ? mark_done(all, d, k - 1, earlier, err) : vc_no_memory(err);
    vtrain_order_plan p = vtrain_order_of(before, earlier);
    if (!rc)
        rc = vtrain_order_open(&o, d, &p, err);
    if (!rc)
        rc = vtrain_order_epoch(o, s->micro - 1, &epoch, &begin, &end, err);
    if (!rc && epoch != s->epoch)
        rc = vc_fail(err, VC_EFORMAT, "epochs[%d]: epoch %" PRIu64 ", but its micro-batch is in "
                     "epoch %" PRIu64, k, s->epoch, epoch);
    if (!rc && before->rest && before->epoch == epoch)
        memcpy(done, earlier, vtrain_data_visits(d));
    if (!rc)
        rc = mark(o, begin, s->micro, p.batch, done, err);
    vtrain_order_close(o);
    free(earlier);
    return rc;
}

static int find_done(vtrain_samples *s, const vtrain_data *d, vc_err *err)
{
    free(s->done);
    s->done = NULL;
    if (!vtrain_span_last(s)->rest)
        return 0;
    s->done = calloc(vtrain_data_visits(d), 1);
    return s->done ? mark_done(s, d, s->n_spans - 1, s->done, err) : vc_no_memory(err);
}

/* Adds a span whose order begins at the checkpoint's micro-batch, with the rest of its epoch. */
static int begin_order(vtrain *t, int64_t batch, vc_err *err)
{
    uint64_t begin, end, micro = t->from.state.micro;
    vtrain_origin origin = { .micro = micro };
    vtrain_order *o = NULL;
    int rc = find_done(&t->samples, t->data, err);
    vtrain_order_plan p = vtrain_order_now(&t->samples);
    if (!rc)
        rc = vtrain_order_open(&o, t->data, &p, err);
    if (!rc)
        rc = vtrain_order_epoch(o, micro, &origin.epoch, &begin, &end, err);
    vtrain_order_close(o);
    if (!rc)
        rc = vtrain_span_add(&t->samples, t->data, origin, (double)origin.epoch, err);
    if (rc)
        return rc;
    vtrain_span *s = vtrain_span_last(&t->samples);
    s->batch = batch;
    s->seed = (uint64_t)t->cfg.seed;
    s->visits = s[-1].visits;
    s->rest = begin < micro;
    vc_say(t->ui, "%s, with another order from here on: %s", s->rest ?
           "the rest of the epoch follows" : "the next epoch follows",
           s[-1].seed == s->seed ? "a step has another number of samples than in the checkpoint"
                                 : "--seed differs from the checkpoint's");
    return 0;
}

/* ---- a run's division ---- */

static int64_t greatest_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Samples of the checkpoint's step; 0: the run begins anew. */
static int64_t samples_before(const vtrain *t)
{
    const vtrain_state *s = &t->from.state;
    return t->from.dir ? s->batch * s->accumulation * s->ranks : 0;
}

/* The samples that are chosen together, if the run has the last one's choice no more. */
static int64_t batch_of(const vtrain *t, int64_t step)
{
    return t->cfg.global_batch_size ? step : t->cfg.train_batch_size;
}

/* Decides the micro-batches of the last span: those of the checkpoint where the run keeps them. */
static int choose_batch(vtrain *t, int64_t step, vc_err *err)
{
    vtrain_span *s = vtrain_span_last(&t->samples);
    int64_t batch = batch_of(t, step), had = t->from.dir ? t->from.state.micro_rows : 0;
    bool keeps = had && (step == samples_before(t) || (batch == had && step % had == 0));
    if (keeps)
        batch = had;
    if (s->batch && (s->batch != batch || s->seed != (uint64_t)t->cfg.seed))
        return begin_order(t, batch, err);
    s->batch = batch;
    s->seed = (uint64_t)t->cfg.seed;
    return 0;
}

/* Begins a new epoch where the samples are visited in other numbers than before. */
static int check_visits(vtrain *t, vc_err *err)
{
    vtrain_span *s = vtrain_span_last(&t->samples);
    uint64_t hash;
    int rc = vtrain_visits_hash(&hash, t->data, s->epoch, err);
    if (rc || !s->visits || s->visits == hash) {
        s->visits = hash;
        return rc;
    }
    vc_warn(t->ui, "the samples' repeats (--latents, --dataset_repeat) differ from the "
            "checkpoint's: the run continues with a new epoch");
    rc = vtrain_span_next(&t->samples, t->data, &t->from.state, err);
    s = vtrain_span_last(&t->samples);
    return rc ? rc : vtrain_visits_hash(&s->visits, t->data, s->epoch, err);
}

int vtrain_divide(vtrain *t, vc_err *err)
{
    vtrain_config *c = &t->cfg;
    int64_t step = c->train_batch_size * vtrain_runs(t), typed = c->train_batch_size;
    int rc = check_visits(t, err);
    if (!rc)
        rc = choose_batch(t, step, err);
    if (!rc)
        rc = vc_context(err, find_done(&t->samples, t->data, err), "trainer.json");
    if (rc)
        return rc;
    int64_t batch = vtrain_span_last(&t->samples)->batch;
    c->train_batch_size = greatest_divisor(batch, typed);
    c->gradient_accumulation_steps *= typed / c->train_batch_size;
    if (typed != c->train_batch_size)
        vc_say(t->ui, "--train_batch_size %lld: the run chooses %lld samples together, so it takes "
               "%lld at a time", (long long)typed, (long long)batch,
               (long long)c->train_batch_size);
    if (samples_before(t) && samples_before(t) != step)
        vc_warn(t->ui, "a step has %lld samples from here on (--train_batch_size x "
                "--gradient_accumulation_steps x ranks), in the checkpoint it had %lld",
                (long long)step, (long long)samples_before(t));
    return 0;
}

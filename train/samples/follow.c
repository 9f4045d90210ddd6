/* follow.c - chooses the run's samples: those of whole datasets, or with --follow those of the
 * shards that vprep has closed by the beginning of an epoch.
 *
 *     epoch      0         1         2         3
 *     span       0                   1                    two shards, then five
 *     loader     |--------||--------||--------||---       one for each epoch while it follows
 *
 * A span is a sequence of epochs with the same samples. Checkpoints record all spans, so that a
 * resumed run sees the samples of the run before, however far the dataset has grown by then.
 *
 * Ranks poll the datasets together, before a step in which an epoch ends; then each rank changes to
 * the new samples by itself, where its own micro-batches pass that end. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "train/samples/samples.h"
#include "train/samples/spans.h"

enum { POLL_MS = 500, WHY = 300, PATIENCE = 10 };

static int open_data(vtrain *t, vtrain_data **d, const int *shards, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    const vtrain_data_opts o = {
        .paths = &c->latents, .dataset_repeat = c->dataset_repeat, .eval_split = c->eval_split,
        .seed = (uint64_t)c->seed, .model_dir = c->model, .allow_mismatch = c->allow_mismatch,
        .shards = shards, .scale = c->scale_factor, .prior_loss = c->prior_loss_weight,
    };
    char *note;
    int rc = vtrain_data_open(d, &o, &note, err);
    if (!rc && note && (!t->data || !c->follow))
        vc_warn(t->ui, "%s", note);
    free(note);
    if (!rc && vtrain_data_holds(*d, true) && c->training_type != VTRAIN_LORA)
        return vc_fail(err, VC_EUSAGE, "--latents: :prior=, :blank= and :preserve=, and samples of "
                       "vprep --sample_kind prior, train towards the base, which a full finetune "
                       "changes: give --training_type lora, or :reg=W");
    return rc;
}

/* True if d's samples are those of the span. */
static bool has_samples(const vtrain_span *s, const vtrain_data *d)
{
    bool same = s->n_parts == vtrain_data_sets(d);
    for (int i = 0; same && i < s->n_parts; i++)
        same = !strcmp(s->part[i].root, vtrain_data_root(d, i));
    return same;
}

/* Reads how far the datasets are written, on rank 0, into every rank's shards and complete.
 * Collective. */
static int poll_datasets(vtrain *t, vc_err *err)
{
    vtrain_samples *s = &t->samples;
    int rc = 0;
    if (vtrain_leads(t))
        rc = vtrain_data_progress(&t->cfg.latents, s->shards, &s->complete, err);
    rc = vc_comm_agree(t->comm, rc, err);
    if (!rc)
        rc = vc_comm_broadcast(t->comm, s->shards, (size_t)t->cfg.latents.n * sizeof *s->shards, 0,
                               err);
    return rc ? rc : vc_comm_broadcast(t->comm, &s->complete, sizeof s->complete, 0, err);
}

/* ---- the beginning ---- */

/* Opens whole datasets. A run resumed with other samples begins a new epoch. */
static int open_whole(vtrain *t, vc_err *err)
{
    vtrain_samples *s = &t->samples;
    int rc = open_data(t, &t->data, NULL, err);
    if (rc)
        return rc;
    if (s->n_spans && has_samples(vtrain_span_last(s), t->data))
        return 0;
    return s->n_spans ? vtrain_span_next(s, t->data, &t->from.state, err)
                      : vtrain_span_add(s, t->data, (vtrain_origin){ 0 }, 0, err);
}

/* Opens the samples of the checkpoint's epoch, and none that were written since. */
static int open_again(vtrain *t, vc_err *err)
{
    vtrain_samples *s = &t->samples;
    const vtrain_span *last = vtrain_span_last(s);
    if (last->n_parts != t->cfg.latents.n)
        return vc_fail(err, VC_EMISMATCH, "%d datasets, the checkpoint was trained on %d",
                       t->cfg.latents.n, last->n_parts);
    for (int i = 0; i < last->n_parts; i++)
        s->shards[i] = last->part[i].shards;
    int rc = open_data(t, &t->data, s->shards, err);
    for (int i = 0; !rc && i < last->n_parts; i++)
        if (strcmp(last->part[i].root, vtrain_data_root(t->data, i)))
            rc = vc_fail(err, VC_EMISMATCH, "%s was made anew: its first %d shards have root %s, "
                         "the checkpoint's had %s; without --follow the run continues with the new "
                         "samples", t->cfg.latents.item[i], s->shards[i],
                         vtrain_data_root(t->data, i), last->part[i].root);
    s->following = true;
    return rc;
}

/* Opens the closed shards, unless their samples are too few: then *why gives the reason. */
static int try_open(vtrain *t, char *why, vc_err *err)
{
    vtrain_samples *s = &t->samples;
    vc_err e = { 0 };
    int64_t batch = t->cfg.train_batch_size ? t->cfg.train_batch_size : 1;
    uint32_t most = 0;
    for (int i = 0; i < t->cfg.latents.n; i++)
        if (!s->shards[i]) {
            snprintf(why, WHY, "%s has no closed shard yet", t->cfg.latents.item[i]);
            return 0;
        }
    int rc = open_data(t, &t->data, s->shards, &e);
    if (rc == VC_EINVAL) {                    /* too few to hold some out, or all of weight 0 */
        snprintf(why, WHY, "%.*s", WHY - 1, e.text);
        return 0;
    }
    if (rc) {
        *err = e;
        return rc;
    }
    for (uint32_t i = 0; i < vtrain_data_groups(t->data); i++)
        if (vtrain_data_group(t->data, i)->samples > most)
            most = vtrain_data_group(t->data, i)->samples;
    if (most >= batch)
        return 0;
    snprintf(why, WHY, "no bucket has enough samples for a batch of %lld yet, the largest has %u",
             (long long)batch, most);
    vtrain_data_close(t->data);
    t->data = NULL;
    return 0;
}

/* Fails if no vprep is at work in PATIENCE polls on end: one that starts again has that time. */
static int wait_a_little(const vtrain *t, int *alone, vc_err *err)
{
    const vtrain_samples *s = &t->samples;
    const struct timespec poll = { .tv_nsec = POLL_MS * 1000000L };
    nanosleep(&poll, NULL);
    if (*t->stop)
        return vc_fail(err, VC_ESTOP, "stopped while waiting for samples");
    if (!vtrain_leads(t))
        return 0;
    vc_err ended = { 0 };
    int rc = vtrain_data_awaited(&t->cfg.latents, s->shards, &ended);
    *alone = rc ? *alone + 1 : 0;
    if (*alone < PATIENCE)
        return 0;
    *err = ended;
    return rc;
}

/* Waits until there are samples for a batch; vprep may not even have begun. Collective: all ranks
 * poll equally often. */
static int wait_for_samples(vtrain *t, vc_err *err)
{
    vtrain_samples *s = &t->samples;
    char why[WHY] = "", reported[WHY] = "";
    int alone = 0, rc = poll_datasets(t, err);
    while (!rc && !s->complete) {
        rc = vc_comm_agree(t->comm, try_open(t, why, err), err);
        if (rc || t->data)
            break;
        if (t->cfg.dry_run)
            return vc_fail(err, VC_EINVAL, "%s", why);
        if (strcmp(why, reported))
            vc_say(t->ui, "waiting for vprep: %s", why);
        snprintf(reported, sizeof reported, "%s", why);
        rc = vc_comm_agree(t->comm, wait_a_little(t, &alone, err), err);
        if (!rc)
            rc = poll_datasets(t, err);
    }
    s->following = !s->complete;
    if (!rc && s->complete)
        rc = open_data(t, &t->data, s->shards, err);
    return rc ? rc : vtrain_span_add(s, t->data, (vtrain_origin){ 0 }, 0, err);
}

int vtrain_samples_open(vtrain *t, vc_err *err)
{
    vtrain_samples *s = &t->samples;
    if (!t->cfg.follow)
        return vc_context(err, open_whole(t, err), "--latents");
    s->shards = calloc((size_t)t->cfg.latents.n + 1, sizeof *s->shards);
    int rc = vc_comm_agree(t->comm, s->shards ? 0 : vc_no_memory(err), err);
    if (!rc)
        rc = s->n_spans ? open_again(t, err) : wait_for_samples(t, err);
    return vc_context(err, rc, "--latents");
}

/* ---- the end of an epoch ---- */

int vtrain_samples_begin(vtrain *t, uint64_t micro, vc_err *err)
{
    vtrain_samples *s = &t->samples;
    uint64_t epoch;
    s->epoch_end = UINT64_MAX;
    return s->following ? vtrain_epoch_at(s, t->data, micro, &epoch, &s->epoch_end, err) : 0;
}

int vtrain_samples_look(vtrain *t, vc_err *err)
{
    vtrain_samples *s = &t->samples;
    if (s->epoch_end > t->at.micro + (uint64_t)vtrain_micros(t))
        return 0;
    return vc_context(err, poll_datasets(t, err), "--latents");
}

/* Gives the last span, of more samples, the order of the span before. */
static int keep_order(vtrain *t, vc_err *err)
{
    vtrain_samples *s = &t->samples;
    vtrain_span *last = vtrain_span_last(s);
    last->batch = last[-1].batch;
    last->seed = last[-1].seed;
    free(s->done);
    s->done = NULL;
    return vtrain_visits_hash(&last->visits, t->data, last->epoch, err);
}

/* Adds the shards closed meanwhile, from the end of the epoch on. Shards without samples change
 * nothing. */
static int join(vtrain *t, vc_err *err)
{
    vtrain_samples *s = &t->samples;
    uint32_t before = vtrain_data_samples(t->data);
    vtrain_origin origin = { .micro = s->epoch_end };
    uint64_t end;
    vtrain_data *grown;
    int rc = open_data(t, &grown, s->shards, err);
    if (rc)
        return rc;
    if (has_samples(vtrain_span_last(s), grown)) {
        vtrain_data_close(grown);
        return 0;
    }
    rc = vtrain_epoch_at(s, t->data, s->epoch_end - 1, &origin.epoch, &end, err);
    origin.epoch++;
    vtrain_data_close(t->data);
    t->data = grown;
    if (!rc)
        rc = vtrain_span_add(s, t->data, origin, (double)origin.epoch, err);
    if (!rc)
        rc = keep_order(t, err);
    if (!rc)
        rc = vtrain_fit_data(t, err);
    if (!rc)
        vc_say(t->ui, "epoch %llu, step %lld: %u samples in %u bucket%s, %u before",
               (unsigned long long)origin.epoch, (long long)t->at.step + 1,
               vtrain_data_samples(t->data), vtrain_data_groups(t->data),
               vtrain_data_groups(t->data) == 1 ? "" : "s", before);
    return rc;
}

static int compare_and_join(vtrain *t, vc_err *err)
{
    vtrain_samples *s = &t->samples;
    const vtrain_span *last = vtrain_span_last(s);
    bool more = false;
    for (int i = 0; i < last->n_parts; i++) {
        more |= s->shards[i] > last->part[i].shards;
        if (s->shards[i] < last->part[i].shards)
            return vc_fail(err, VC_EMISMATCH, "%s has %d shards, but had %d before: the dataset "
                           "was removed or is being made anew", t->cfg.latents.item[i],
                           s->shards[i], last->part[i].shards);
    }
    int rc = more ? join(t, err) : 0;
    if (rc)
        return rc;
    s->following = !s->complete;
    if (s->complete)
        vc_say(t->ui, "--latents: complete, no more samples will come");
    return 0;
}

int vtrain_start_loader(vtrain *t, uint64_t own, vc_err *err)
{
    vtrain_samples *s = &t->samples;
    const vtrain_config *c = &t->cfg;
    int64_t left = t->plan.steps > t->at.step ? t->plan.steps - t->at.step : 0;
    uint64_t run = t->at.micro + (uint64_t)(left * vtrain_micros(t));
    uint64_t parts = (uint64_t)vtrain_parts(t);
    uint64_t end = parts * (run < s->epoch_end ? run : s->epoch_end);
    const vtrain_loader_opts o = {
        .plan = vtrain_order_now(s), .parts = (uint32_t)parts,
        .caption_dropout = c->caption_dropout_p, .image_dropout = c->image_dropout_p,
        .mask_dropout = c->mask_all_dropout_p, .control_dropout = c->control_dropout_p,
        .reference_dropout = c->reference_dropout_p,
        .latent = c->posterior == VTRAIN_POSTERIOR_MEAN ? VTRAIN_LATENT_MEAN
                                                        : VTRAIN_LATENT_SAMPLE,
        .threads = (int)c->workers, .ahead = (int)c->workers + 2,
        .first = own < end ? own : end, .end = end, .stride = (uint64_t)vtrain_dp_groups(t),
        .distill = t->distill.steps, .any_steps = c->distill_steps > 0,
        .noise_bf16 = c->mixed_precision == VTRAIN_PRECISION_BF16,
        .check = c->verify_data, .least_rows = vtrain_least_rows(t),
        .full_texts = vtrain_full_texts(c),
    };
    vt_prefetch(t->g, 0, NULL);                /* drops batches of the loader before */
    return vtrain_loader_open(&t->loader, t->data, &o, err);
}

int vtrain_samples_upto(vtrain *t, uint64_t micro, uint64_t own, vc_err *err)
{
    vtrain_samples *s = &t->samples;
    int rc = 0;
    if (s->epoch_end > micro)
        return 0;
    vtrain_loader_close(t->loader);                  /* it borrows the data */
    t->loader = NULL;
    while (!rc && s->epoch_end <= micro) {
        uint64_t begins = s->epoch_end;
        rc = compare_and_join(t, err);
        if (!rc)
            rc = vtrain_samples_begin(t, begins, err);
    }
    vc_context(err, rc, "--latents");
    return rc ? rc : vtrain_start_loader(t, own, err);
}

/* loader.c - the loader's threads and batches; see loader.h
 *
 * The loader has ahead + 1 slots, or as many as batches, each with the memory of one batch. A
 * worker takes a free slot and the next micro-batch number at once, so the lowest number not yet
 * delivered always has a slot, and batches may be given back in any order; next() waits for the
 * slot with its number.
 *
 *     FREE -> FILLING (a worker's) -> READY -> LENT (to the caller's) -> FREE */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/progress.h"
#include "train/data/loader_parts.h"

enum { MAX_BATCH = 1 << 16, MAX_THREADS = 1024, MAX_AHEAD = 4096 };

typedef vtrain_loader_slot slot;
typedef vtrain_pass pass;

/* ---- rows of a micro-batch ---- */

static uint32_t *count_held_out(const vtrain_data *d)
{
    uint32_t *count = calloc((size_t)d->n_groups + 1, sizeof *count);
    for (uint32_t i = 0; count && i < d->n_samples; i++)
        count[d->sample[i].group] += d->sample[i].held_out;
    return count;
}

static uint64_t batches_of(const uint32_t *count, uint32_t n_groups, uint32_t batch)
{
    uint64_t n = 0;
    for (uint32_t g = 0; g < n_groups; g++)
        n += ((uint64_t)count[g] + batch - 1) / batch;
    return n;
}

static void deal_pass(pass *p, const vtrain_data *d, uint32_t batch, const uint32_t *count)
{
    uint32_t at = 0;
    for (uint32_t g = 0, b = 0; g < d->n_groups; g++) {
        for (uint32_t k = 0; k < count[g]; k += batch)
            p->start[b++] = at + k;
        at += count[g];
        p->start[b] = at;
    }
}

static int make_pass(pass *p, const vtrain_data *d, uint32_t batch, vc_err *err)
{
    uint32_t *count = count_held_out(d), *place = calloc((size_t)d->n_groups + 1, sizeof *place);
    p->n = count ? batches_of(count, d->n_groups, batch) : 0;
    p->sample = calloc((size_t)d->n_held_out + 1, sizeof *p->sample);
    p->start = calloc((size_t)p->n + 1, sizeof *p->start);
    int rc = 0;
    if (!count || !place || !p->sample || !p->start) {
        rc = vc_fail(err, VC_ENOMEM, "out of memory for %" PRIu32 " held-out samples",
                     d->n_held_out);
    } else {
        deal_pass(p, d, batch, count);
        for (uint32_t g = 1; g < d->n_groups; g++)
            place[g] = place[g - 1] + count[g - 1];
        for (uint32_t i = 0; i < d->n_samples; i++)
            if (d->sample[i].held_out)
                p->sample[place[d->sample[i].group]++] = i;
    }
    free(place);
    free(count);
    return rc;
}

int vtrain_loader_pass(const vtrain_data *d, uint32_t batch, uint64_t *n, vc_err *err)
{
    *n = 0;
    if (!batch)
        return vc_fail(err, VC_EINVAL, "batches of no rows");
    uint32_t *count = count_held_out(d);
    if (!count)
        return vc_fail(err, VC_ENOMEM, "out of memory for %" PRIu32 " groups", d->n_groups);
    *n = batches_of(count, d->n_groups, batch);
    free(count);
    return 0;
}

/* Keeps the rows of the slot's part, of the micro-batch's n rows. */
static void keep_part(const vtrain_loader *l, slot *s, uint32_t n)
{
    vtrain_batch *b = &s->b;
    uint64_t parts = l->o.parts, part = b->number % parts;
    uint32_t first = (uint32_t)(part * n / parts), end = (uint32_t)((part + 1) * n / parts);
    b->counted = (int)(end - first);
    b->share = (double)b->counted * (double)parts / (double)n;
    b->first = b->counted ? first : 0;
    b->rows = b->counted ? b->counted : 1;
    memmove(s->row, s->row + b->first, (size_t)b->rows * sizeof *s->row);
}

/* Chooses the samples of the slot's micro-batch. Called with the lock held, since only one thread
 * may use the order. */
static int pick_rows(vtrain_loader *l, slot *s)
{
    vtrain_batch *b = &s->b;
    uint32_t n = 0;
    if (l->o.held_out) {
        uint32_t from = l->pass.start[b->micro];
        n = l->pass.start[b->micro + 1] - from;
        memcpy(s->row, l->pass.sample + from, n * sizeof *s->row);
    } else {
        int rc = vtrain_order_get(l->order, b->micro, s->row, &n, &s->err);
        if (rc)
            return rc;
    }
    keep_part(l, s, n);
    b->group = l->d->sample[s->row[0]].group;
    return 0;
}

static slot *find_slot(vtrain_loader *l, vtrain_slot_state want, uint64_t number)
{
    for (int i = 0; i < l->n_slots; i++)
        if (l->slot[i].state == want && (want == FREE || l->slot[i].b.number == number))
            return &l->slot[i];
    return NULL;
}

static void *work(void *arg)
{
    vtrain_loader *l = arg;

    pthread_mutex_lock(&l->lock);
    for (;;) {
        slot *s = NULL;
        while (!l->stop && l->next_in < l->o.end && !(s = find_slot(l, FREE, 0)))
            pthread_cond_wait(&l->room, &l->lock);
        if (!s)
            break;
        s->state = FILLING;
        s->b.number = l->next_in;
        s->b.micro = l->next_in / l->o.parts;
        l->next_in += l->o.stride;
        s->rc = pick_rows(l, s);
        pthread_mutex_unlock(&l->lock);
        if (!s->rc)
            s->rc = vtrain_loader_fill(l, s);
        pthread_mutex_lock(&l->lock);
        s->state = READY;
        if (s->rc)
            l->next_in = l->o.end;       /* no batch after a failure is delivered */
        pthread_cond_signal(&l->ready);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

int vtrain_loader_next(vtrain_loader *l, const vtrain_batch **b, double *waited, vc_err *err)
{
    *b = NULL;
    *waited = 0;
    pthread_mutex_lock(&l->lock);
    slot *s = NULL;
    int rc = 0;
    if (l->next_out < l->o.end && l->lent >= l->o.ahead) {
        rc = vc_fail(err, VC_EINVAL, "%d batches are lent, and one has to be given back first",
                     l->lent);
    } else if (l->next_out < l->o.end && !(s = find_slot(l, READY, l->next_out))) {
        double since = vc_seconds();
        while (!(s = find_slot(l, READY, l->next_out)))
            pthread_cond_wait(&l->ready, &l->lock);
        *waited = vc_seconds() - since;
    }
    if (s && s->rc) {
        rc = s->rc;                      /* the slot stays READY: the next call fails alike */
        if (err)
            *err = s->err;
    } else if (s) {
        s->state = LENT;
        l->lent++;
        l->next_out += l->o.stride;
        *b = &s->b;
    }
    pthread_mutex_unlock(&l->lock);
    return rc;
}

const vtrain_batch *vtrain_loader_peek(vtrain_loader *l)
{
    pthread_mutex_lock(&l->lock);
    slot *s = l->next_out < l->o.end ? find_slot(l, READY, l->next_out) : NULL;
    const vtrain_batch *b = s && !s->rc ? &s->b : NULL;
    pthread_mutex_unlock(&l->lock);
    return b;
}

void vtrain_loader_give_back(vtrain_loader *l, const vtrain_batch *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&l->lock);
    for (int i = 0; i < l->n_slots; i++)
        if (&l->slot[i].b == b && l->slot[i].state == LENT) {
            l->slot[i].state = FREE;
            l->lent--;
            pthread_cond_signal(&l->room);
        }
    pthread_mutex_unlock(&l->lock);
}

size_t vtrain_loader_bytes(const vtrain_loader *l)
{
    return l->bytes;
}

/* ---- open, close ---- */

/* Allocates n * size zeroed bytes and counts them; fails if the product overflows. */
static int take(vtrain_loader *l, void *out, size_t n, size_t size, vc_err *err)
{
    void *p = calloc(n ? n : 1, size);
    memcpy(out, &p, sizeof p);
    if (!p)
        return vc_fail(err, VC_ENOMEM, "out of memory for batches of %" PRIu32
                       " (--train_batch_size): %zu x %zu bytes", l->o.plan.batch / l->o.parts, n,
                       size);
    l->bytes += n * size;
    return 0;
}

/* Rows of the largest possible batch: all groups may have fewer samples than a batch. */
static size_t most_rows(const vtrain_loader *l)
{
    uint64_t most = l->o.held_out ? l->d->n_held_out : 1;
    for (uint32_t i = 0; i < l->d->n_groups && !l->o.held_out; i++)
        most = l->d->group[i].most > most ? l->d->group[i].most : most;
    most = most < l->o.plan.batch ? most : l->o.plan.batch;
    return (size_t)((most + l->o.parts - 1) / l->o.parts);
}

static int make_text(vtrain_loader *l, slot *of, int i, size_t rows, vc_err *err)
{
    const vtrain_slot *s = &l->d->slot[i];
    vtrain_text *t = &of->b.text[i];
    int64_t n = l->o.least_rows;
    for (uint32_t k = 0; k < l->d->n_groups; k++) {
        const int64_t most = vtrain_data_longest(s, l->d->group[k].segments, l->o.full_texts);
        n = n < most ? most : n;
    }
    size_t row = (size_t)(n * s->width) * sizeof *t->embeds;
    int rc = 0;

    t->width = s->width;
    t->pooled_width = s->pooled;
    of->text_room[i] = rows * (size_t)(n * s->width);
    if ((s->embeds && (rc = take(l, &t->embeds, rows, row, err))) ||
        (rc = take(l, &t->length, rows, sizeof *t->length, err)))
        return rc;
    return s->pooled ? take(l, &t->pooled, rows, (size_t)s->pooled * sizeof *t->pooled, err) : 0;
}

/* The largest area of a reference in any bucket. */
static size_t own_area(const vtrain_data *d, int k)
{
    size_t most = 0;
    for (uint32_t i = 0; i < d->n_groups; i++) {
        const uint16_t *size = d->group[i].own.size[k];
        const size_t area = (size_t)size[0] * size[1];
        most = area > most ? area : most;
    }
    return most;
}

/* Elements of a role's value in a row; `clip` and `frame` are those of the largest bucket. */
static size_t role_size(const vtrain_data *d, int role, size_t clip, size_t frame)
{
    if (vc_roles[role].kind == VC_VALUE_EMBEDS)
        return (size_t)(d->embeds[0] * d->embeds[1]);
    if (vc_roles[role].own_size)
        frame = own_area(d, vc_role_reference(role));
    return (vc_roles[role].clip ? clip : frame) * (size_t)d->role_norm[role].channels;
}

/* Elements of the longest sound of a row. */
static size_t sound_size(const vtrain_data *d)
{
    int most = 0;
    for (uint32_t i = 0; i < d->n_groups; i++)
        most = d->group[i].sound > most ? d->group[i].sound : most;
    return (size_t)most * (size_t)d->sound.norm.channels;
}

static int make_slot(vtrain_loader *l, slot *s, vc_err *err)
{
    const vtrain_data *d = l->d;
    size_t rows = most_rows(l), clip = 0, frame = 0, channels = (size_t)d->norm.channels;
    int rc = 0;

    for (uint32_t i = 0; i < d->n_groups; i++) {
        const vtrain_group *g = &d->group[i];
        size_t area = (size_t)g->h * (size_t)g->w, all = (size_t)g->padded * area;
        clip = all > clip ? all : clip;
        frame = area > frame ? area : frame;
    }
    s->b.roles = d->roles;
    s->b.n_texts = d->n_slots;
    if ((rc = take(l, &s->row, l->o.plan.batch, sizeof *s->row, err)) ||
        (rc = take(l, &s->b.key, rows, sizeof *s->b.key, err)) ||
        (rc = take(l, &s->b.fps, rows, sizeof *s->b.fps, err)) ||
        (rc = take(l, &s->b.control_kind, rows, sizeof *s->b.control_kind, err)) ||
        (rc = take(l, &s->b.dropped, rows, sizeof *s->b.dropped, err)) ||
        (rc = take(l, &s->value, rows, (size_t)(d->n_slots + 1) * sizeof *s->value, err)) ||
        (rc = take(l, &s->cond, rows, sizeof *s->cond, err)) ||
        (rc = take(l, &s->segments, rows, sizeof *s->segments, err)) ||
        (rc = take(l, &s->scale, rows, sizeof *s->scale, err)) ||
        (rc = take(l, &s->held, rows, sizeof *s->held, err)) ||
        (rc = take(l, &s->b.cond_dropped, rows, sizeof *s->b.cond_dropped, err)) ||
        (rc = take(l, &s->b.loss_weight, rows, clip * sizeof *s->b.loss_weight, err)) ||
        (rc = take(l, &s->b.latents, rows, clip * channels * sizeof *s->b.latents, err)))
        return rc;
    s->b.loss_scale = s->scale;
    if (d->sound.channels && ((rc = take(l, &s->b.sound_length, rows, sizeof *s->b.sound_length,
                                         err)) ||
                              (rc = take(l, &s->b.sound, rows, sound_size(d) * sizeof *s->b.sound,
                                         err))))
        return rc;
    s->b.held = s->held;
    if (!l->o.held_out && vtrain_data_holds(d, true) &&
        ((rc = take(l, &s->b.target, rows, clip * channels * sizeof *s->b.target, err)) ||
         (d->sound.channels && (rc = take(l, &s->b.sound_target, rows,
                                          sound_size(d) * sizeof *s->b.sound_target, err)))))
        return rc;
    if (l->o.distill &&
        ((rc = take(l, &s->start, rows, sizeof *s->start, err)) ||
         (rc = take(l, &s->b.noise, rows, clip * channels * sizeof *s->b.noise, err))))
        return rc;
    if (d->clean_frames && (rc = take(l, &s->first, channels, frame * sizeof *s->first, err)))
        return rc;
    for (int i = 0; i < VC_ROLES && !rc; i++)
        if (d->roles & 1u << i)
            rc = take(l, &s->b.cond[i], rows, role_size(d, i, clip, frame) * sizeof *s->b.cond[i],
                      err);
    for (int i = 0; i < d->n_slots && !rc; i++)
        rc = make_text(l, s, i, rows, err);
    return rc;
}

static void free_slot(slot *s)
{
    for (int i = 0; i < VTRAIN_TEXTS; i++) {
        free(s->b.text[i].embeds);
        free(s->b.text[i].length);
        free(s->b.text[i].pooled);
    }
    free(s->row);
    free(s->b.key);
    free(s->b.fps);
    free(s->b.control_kind);
    free(s->b.dropped);
    free(s->value);
    free(s->cond);
    free(s->segments);
    free(s->scale);
    free(s->held);
    free(s->b.target);
    free(s->b.sound_target);
    free(s->start);
    free(s->b.noise);
    free(s->first);
    free(s->b.cond_dropped);
    free(s->b.loss_weight);
    free(s->b.sound);
    free(s->b.sound_length);
    free(s->b.latents);
    for (int i = 0; i < VC_ROLES; i++)
        free(s->b.cond[i]);
}

static int check_opts(const vtrain_loader_opts *o, vc_err *err)
{
    uint32_t batch = o->plan.batch;
    if (!batch || batch > MAX_BATCH || (o->parts && batch % o->parts))
        return vc_fail(err, VC_EINVAL, "batches of %" PRIu32 " rows in %" PRIu32 " parts, 1..%d "
                       "rows expected", batch, o->parts, MAX_BATCH);
    if (o->threads < 1 || o->threads > MAX_THREADS || o->ahead < 1 || o->ahead > MAX_AHEAD)
        return vc_fail(err, VC_EINVAL, "%d threads, %d batches ahead: 1..%d and 1..%d expected",
                       o->threads, o->ahead, MAX_THREADS, MAX_AHEAD);
    const struct { const char *of; double p; } drop[] = {
        { "caption", o->caption_dropout }, { "image", o->image_dropout },
        { "control", o->control_dropout }, { "mask", o->mask_dropout },
        { "reference", o->reference_dropout },
    };
    for (size_t i = 0; i < sizeof drop / sizeof *drop; i++)
        if (!(drop[i].p >= 0 && drop[i].p <= 1))
            return vc_fail(err, VC_EINVAL, "%s dropout %g: 0..1 expected", drop[i].of, drop[i].p);
    uint64_t most = ((uint64_t)UINT32_MAX + 1) * (o->parts ? o->parts : 1);
    if (o->first > o->end || o->end > most)
        return vc_fail(err, VC_EINVAL, "micro-batches %" PRIu64 "..%" PRIu64 ": draws number them "
                       "in 32 bits", o->first, o->end);
    return 0;
}

static int make_rows(vtrain_loader *l, vc_err *err)
{
    if (!l->o.held_out) {
        int rc = vtrain_order_open(&l->order, l->d, &l->o.plan, err);
        l->bytes += rc ? 0 : vtrain_order_bytes(l->order);
        return rc;
    }
    int rc = make_pass(&l->pass, l->d, l->o.plan.batch, err);
    if (!rc && l->o.end > l->pass.n)
        rc = vc_fail(err, VC_EINVAL, "batch %" PRIu64 " of a pass of %" PRIu64, l->o.end,
                     l->pass.n);
    return rc;
}

/* Compares the checksums of the empty prompts; those of samples follow at their first read. */
static int start_checks(vtrain_loader *l, vc_err *err)
{
    const vtrain_data *d = l->d;
    int rc = take(l, &l->checked, d->n_samples / 32 + 1, sizeof *l->checked, err);

    for (int set = 0; set < d->n_sets && !rc; set++)
        for (int i = 0; i < d->n_slots && !rc; i++) {
            vtrain_text_value v;
            rc = vtrain_text_open(d, set, i, d->set[set].head.empty[i], 0, true, &v, err);
            vf_safetensors_close(v.st);
            vc_context(err, rc, "%s: empty prompt", vf_dataset_path(d->set[set].data));
        }
    return rc;
}

/* A short run has fewer batches than a loader may have ahead. */
static int slots_of(const vtrain_loader *l)
{
    uint64_t batches = (l->o.end - l->o.first + l->o.stride - 1) / l->o.stride;
    batches = batches ? batches : 1;
    return batches < (uint64_t)l->o.ahead + 1 ? (int)batches : l->o.ahead + 1;
}

static int start(vtrain_loader *l, vc_err *err)
{
    const int slots = slots_of(l);
    int rc = make_rows(l, err);
    if (!rc)
        rc = take(l, &l->slot, (size_t)slots, sizeof *l->slot, err);
    for (int i = 0; i < slots && !rc; i++) {
        l->n_slots++;
        rc = make_slot(l, &l->slot[i], err);
    }
    if (!rc && l->o.check)
        rc = start_checks(l, err);
    if (!rc)
        rc = take(l, &l->thread, (size_t)l->o.threads, sizeof *l->thread, err);
    for (int i = 0; i < l->o.threads && !rc; i++, l->n_threads++)
        if (pthread_create(&l->thread[i], NULL, work, l))
            return vc_fail(err, VC_EFAIL, "cannot start thread %d of the loader", i + 1);
    return rc;
}

int vtrain_loader_open(vtrain_loader **out, const vtrain_data *d, const vtrain_loader_opts *o,
                       vc_err *err)
{
    *out = NULL;
    int rc = check_opts(o, err);
    if (rc)
        return rc;
    vtrain_loader *l = calloc(1, sizeof *l);
    if (!l)
        return vc_no_memory(err);
    l->d = d;
    l->o = *o;
    if (!l->o.stride)
        l->o.stride = 1;
    if (!l->o.parts)
        l->o.parts = 1;
    l->next_in = l->next_out = o->first;
    atomic_init(&l->stop, false);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->room, NULL);
    pthread_cond_init(&l->ready, NULL);
    rc = start(l, err);
    if (rc) {
        vtrain_loader_close(l);
        return rc;
    }
    *out = l;
    return 0;
}

void vtrain_loader_close(vtrain_loader *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    atomic_store(&l->stop, true);
    pthread_cond_broadcast(&l->room);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->n_threads; i++)
        pthread_join(l->thread[i], NULL);
    for (int i = 0; i < l->n_slots; i++)
        free_slot(&l->slot[i]);
    pthread_cond_destroy(&l->ready);
    pthread_cond_destroy(&l->room);
    pthread_mutex_destroy(&l->lock);
    vtrain_order_close(l->order);
    free(l->pass.sample);
    free(l->pass.start);
    free(l->slot);
    free(l->thread);
    free((void *)l->checked);
    free(l);
}

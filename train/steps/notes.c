/* notes.c - see notes.h */
#include "train/steps/notes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


int vtrain_notes_open(vtrain_notes *s, const vtrain *t, vc_err *err)
{
    size_t batch = (size_t)t->cfg.train_batch_size, runs = (size_t)vtrain_runs(t);
    *s = (vtrain_notes){ .size = sizeof(vtrain_micro_note) + batch * VTRAIN_KEY };
    s->note = calloc(runs * (size_t)t->cfg.sp, s->size);
    s->keys = calloc(runs * batch, sizeof *s->keys);
    s->of_bucket = calloc(runs, sizeof *s->of_bucket);
    return s->note && s->keys && s->of_bucket ? 0 : vc_no_memory(err);
}

void vtrain_notes_close(vtrain_notes *s)
{
    free(s->note);
    free(s->keys);
    free(s->of_bucket);
}

/* The note of micro-batch i in a rank's part of the step. */
static vtrain_micro_note *note_of(const vtrain_notes *s, const vtrain *t, int rank, int64_t i)
{
    int64_t at = rank * t->cfg.gradient_accumulation_steps + i;
    return (vtrain_micro_note *)(void *)(s->note + (size_t)at * s->size);
}

vtrain_micro_note *vtrain_notes_batch(vtrain_notes *s, const vtrain *t, int64_t i,
                                      const vtrain_batch *b, double waited)
{
    vtrain_micro_note *n = note_of(s, t, vc_comm_rank(t->comm), i);
    *n = (vtrain_micro_note){ .waited = waited, .tokens = b->tokens, .rows = (uint32_t)b->counted };
    snprintf(n->bucket, sizeof n->bucket, "%s", vtrain_data_group(t->data, b->group)->name);
    for (int row = 0; row < b->counted; row++) {
        memcpy(n->key[row], b->key[row], VTRAIN_KEY);
        n->dropped += b->dropped[row];
        n->zeroed += b->cond_dropped[row];
        n->paired += b->paired;
        n->alone += b->alone;
    }
    return n;
}

static void add_bucket(vtrain_notes *s, const char *name)
{
    size_t n = strlen(name), used = strlen(s->bucket);
    for (const char *p = s->bucket; (p = strstr(p, name)); p += n)
        if ((p == s->bucket || p[-1] == ',') && (p[n] == ',' || !p[n]))
            return;
    if (used + n + 2 > sizeof s->bucket)
        return;
    snprintf(s->bucket + used, sizeof s->bucket - used, "%s%s", used ? "," : "", name);
}

static void add_loss(vtrain_part_loss *p, double sum, int64_t n)
{
    p->sum += sum;
    p->n += n;
}

/* Adds the losses of a micro-batch to those of its bucket and of its rows' noise levels. */
static void add_parts(vtrain_notes *s, vtrain_record *r, const vtrain_micro_note *n)
{
    int i = 0;
    while (i < r->n_buckets && strcmp(s->of_bucket[i].name, n->bucket))
        i++;
    if (i == r->n_buckets)
        s->of_bucket[r->n_buckets++] = (vtrain_bucket_loss){ .name = n->bucket };
    add_loss(&s->of_bucket[i].loss, n->loss, 1);
    for (int k = 0; k < VTRAIN_NOISE_LEVELS; k++)
        add_loss(&r->level[k], n->level[k].sum, n->level[k].n);
    for (int k = 0; k < VTRAIN_KINDS_OF_LOSS; k++)
        add_loss(&r->kind[k], n->kind[k].sum, n->kind[k].n);
}

static void add_note(vtrain_notes *s, vtrain *t, vtrain_record *r, const vtrain_micro_note *n,
                     vtrain_counts *count, uint64_t *tokens)
{
    for (uint32_t i = 0; i < n->rows; i++)
        s->keys[r->n_samples++] = n->key[i];
    t->at.rows += n->rows;
    t->at.dropped += n->dropped;
    count->rows += n->rows;
    count->zeroed += n->zeroed;
    count->paired += n->paired;
    count->alone += n->alone;
    *tokens += n->tokens;
    r->loss += n->loss;
    r->of[n->low].loss += n->loss;
    r->of[n->low].n++;
    add_bucket(s, n->bucket);
    add_parts(s, r, n);
}

int vtrain_notes_gather(vtrain_notes *s, vtrain *t, vtrain_record *r, vtrain_counts *count,
                        uint64_t *tokens, vc_err *err)
{
    int ranks = vc_comm_size(t->comm);
    int64_t own = t->cfg.gradient_accumulation_steps;
    int rc = vc_comm_gather(t->comm, s->note, note_of(s, t, vc_comm_rank(t->comm), 0),
                            (size_t)own * s->size, err);
    if (rc)
        return rc;
    s->bucket[0] = '\0';
    for (int64_t i = 0; i < own; i++)         /* ranks that share samples have the same notes */
        for (int rank = 0; rank < ranks; rank += (int)t->cfg.sp)
            add_note(s, t, r, note_of(s, t, rank, i), count, tokens);
    for (int rank = 0; rank < ranks; rank++) {
        double waited = 0, device = 0, replays = 0;
        for (int64_t i = 0; i < own; i++) {
            const vtrain_micro_note *n = note_of(s, t, rank, i);
            waited += n->waited;
            device += n->device_waits;
            replays += n->graph_replays;
        }
        r->data_wait_s = fmax(r->data_wait_s, waited);
        r->device_waits = fmax(r->device_waits, device);
        r->graph_replays = fmax(r->graph_replays, replays);
    }
    r->loss /= (double)vtrain_runs(t);
    r->halves = vtrain_both(t);
    r->kinds = vtrain_data_holds(t->data, false);
    for (int i = 0; i < VTRAIN_HALVES; i++)
        r->of[i].loss = r->of[i].n ? r->of[i].loss / (double)r->of[i].n : NAN;
    r->bucket = s->bucket;
    r->of_bucket = s->of_bucket;
    r->sample = s->keys;
    return 0;
}

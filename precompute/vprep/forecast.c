/* forecast.c - counts the values that a run is going to reuse, encode and drop; see vprep.h */
#include <stdio.h>

#include "precompute/encode/prompt_clips.h"
#include "precompute/encode/prompt_images.h"
#include "precompute/run/reuse.h"
#include "precompute/vprep/record.h"

#define NO_RATE "hours: not known before a run has encoded some clips: start one, stop it after " \
                "a minute (Ctrl-C; the same command continues) and ask again"

typedef struct tally {
    uint64_t reuse, encode, copy;            /* copy: the part of `reuse` from --reuse */
} tally;

typedef struct forecast {
    tally clips, conditions, texts;
    uint64_t kept;                           /* samples of --out that stay */
    double pixels, bytes;                    /* of the clips, of all values to encode; about */
    vc_buf record;                           /* the latest record */
} forecast;

static void count(tally *t, prep_reuse_place place)
{
    t->reuse += place != REUSE_NONE;
    t->encode += place == REUSE_NONE;
    t->copy += place == REUSE_OTHER;
}

/* Whether the writer has the record with the same bytes. */
static bool keep(vprep *p, const prep_job *j, vc_buf *b)
{
    b->n = 0;
    vprep_record(b, p, j);
    return !b->failed && vf_writer_keep_record(p->writer, j->item->number, j->item->variant,
                                               b->data, b->n);
}

static int count_item(vprep *p, vprep_item *it, forecast *f, vc_err *err)
{
    unsigned values = vprep_values(p, &p->list.meta.rows[it->row]), here = 0;
    prep_job j;
    prep_job_begin(&j, it);
    int rc = vprep_clip_of(p, it, &j.clip, err);

    if (rc)
        return rc;
    prep_job_settle(p, &j);
    for (int v = 0; v < VC_ROLES; v++) {
        if (!(values & VC_ROLE_BIT(v)))
            continue;
        prep_reuse_place place = prep_reuse_find(p, false, j.key[v]);
        count(v == VC_ROLE_CLIP ? &f->clips : &f->conditions, place);
        if (place == REUSE_OUT)
            here |= VC_ROLE_BIT(v);
        if (place != REUSE_NONE)
            continue;
        f->bytes += vprep_value_bytes(p, it, &j.clip.choice, v);
        f->pixels += v == VC_ROLE_CLIP ? vprep_clip_pixels(&j.clip.choice) : 0;
    }
    f->kept += prep_reuse_has_sample(p, it->number, it->variant);
    it->stored = p->writer && !p->c.trace_dir && here == values && keep(p, &j, &f->record);
    vprep_clip_free(&j.clip);
    return 0;
}

static void add(tally *t, const tally *more)
{
    t->reuse += more->reuse;
    t->encode += more->encode;
    t->copy += more->copy;
}

static int count_items(vprep *p, uint32_t from, uint32_t end, forecast *f, vc_err *err)
{
    int rc = 0;

    for (uint32_t i = from; !rc && i < end; i++) {
        if (!p->plan.items[i].drop)
            rc = count_item(p, &p->plan.items[i], f, err);
        if (!rc && *vc_stop_flag())
            rc = vc_fail(err, VC_ESTOP, "stopped");
    }
    return rc;
}

/* All workers count at once, since nothing is put meanwhile. */
static int count_clips(vprep *p, forecast *f, vc_err *err)
{
    const int workers = (int)p->c.workers;
    int first = 0;

#pragma omp parallel for num_threads(workers)
    for (int w = 0; w < workers; w++) {
        forecast own = { 0 };
        vc_err why = { 0 };
        uint32_t from = (uint32_t)((uint64_t)p->plan.n_items * (unsigned)w / (unsigned)workers);
        uint32_t end = (uint32_t)((uint64_t)p->plan.n_items * (unsigned)(w + 1) /
                                  (unsigned)workers);
        int rc = count_items(p, from, end, &own, &why);
        vc_buf_free(&own.record);
#pragma omp critical(vprep_forecast_sum)
        {
            add(&f->clips, &own.clips);
            add(&f->conditions, &own.conditions);
            f->kept += own.kept;
            f->pixels += own.pixels;
            f->bytes += own.bytes;
            if (rc && !first) {
                first = rc;
                *err = why;
            }
        }
    }
    return first;
}

static int count_all(vprep *p, forecast *f, vc_err *err)
{
    int rc = vprep_text_forecast(p, &f->texts.reuse, &f->texts.encode, &f->texts.copy, err);

    if (!rc)
        rc = count_clips(p, f, err);
    for (int i = 0; !rc && i < p->prompts.n; i++) {
        const vf_key *key, *clip;
        const char *name;
        const unsigned values = vprep_prompt_values(p, i, &key);
        for (int v = 0; v < VC_ROLES; v++)
            if (values & VC_ROLE_BIT(v))
                count(&f->conditions, prep_reuse_find(p, false, key[v]));
        for (int k = 0; k < VPREP_PROMPT_CLIPS; k++)
            if ((clip = vprep_prompt_clip_key(p, i, k, &name)) != NULL)
                count(&f->conditions, prep_reuse_find(p, false, *clip));
    }
    return rc;
}

static void say_tally(const char *what, const tally *t, FILE *out)
{
    char a[32], b[32], c[32];

    fprintf(out, "%sreuse %s", what, vc_human_count(a, t->reuse));
    if (t->copy)
        fprintf(out, " (%s copied)", vc_human_count(c, t->copy));
    fprintf(out, ", encode %s", vc_human_count(b, t->encode));
}

/* Prints the size of the values, and their time if the dataset has the rate of an earlier run. */
static void say_cost(const vprep *p, const forecast *f, FILE *out)
{
    vprep_rate rate;
    char bytes[32], t[32];

    if (f->bytes <= 0)
        return;
    fprintf(out, "about %s of latents to encode", vc_human_bytes(bytes, f->bytes));
    if (f->pixels > 0 && prep_reuse_recall(p, VPREP_RATE, &rate, sizeof rate) && rate.pixels > 0 &&
        rate.seconds > 0)
        fprintf(out, "; about %s for the clips, at the rate of the last run: %.3g million pixels a "
                "second", vc_human_time(t, f->pixels / rate.pixels * rate.seconds),
                rate.pixels / rate.seconds / 1e6);
    else if (f->pixels > 0 && p->c.dry_run)
        fprintf(out, "; " NO_RATE);
    fprintf(out, "\n");
}

void vprep_no_forecast(FILE *out)
{
    fprintf(out, NO_RATE "\n");
}

int vprep_forecast(vprep *p, FILE *out, vc_err *err)
{
    forecast f = { 0 };
    char n[32];
    int rc = count_all(p, &f, err);

    if (rc)
        return rc;
    uint32_t there = prep_reuse_samples(p);
    f.kept += vprep_kept_samples(p);
    say_tally("", &f.clips, out);
    fprintf(out, ", drop %s\n", vc_human_count(n, p->c.append ? 0 : there - f.kept));
    say_tally("texts: ", &f.texts, out);
    fprintf(out, "\n");
    if (f.conditions.reuse + f.conditions.encode) {
        say_tally("conditions: ", &f.conditions, out);
        fprintf(out, "\n");
    }
    say_cost(p, &f, out);
    return fflush(out) ? vc_fail_errno(err, "standard output") : 0;
}

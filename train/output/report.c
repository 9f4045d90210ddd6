/* report.c - writes report.html; see report.h */
#include "train/output/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "common/os/progress.h"
#include "formats/report/gallery.h"
#include "train/output/report_parts.h"

/* ---- series ---- */

typedef struct line {                    /* a series with its own numbers */
    double x[2 * VTRAIN_BINS], y[2 * VTRAIN_BINS];
    size_t n;
} line;

static void put_point(line *l, double x, double y)
{
    l->x[l->n] = x;
    l->y[l->n++] = y;
}

static void mean_line(line *l, const vtrain_curve *c)
{
    for (int i = 0; i < c->n; i++)
        put_point(l, c->bin[i].x, c->bin[i].sum / (double)c->bin[i].n);
}

/* Draws the least and greatest value of each bin, so that thinning hides no spike. */
static void raw_line(line *l, const vtrain_curve *c)
{
    for (int i = 0; i < c->n; i++) {
        put_point(l, c->bin[i].x, c->bin[i].least);
        if (c->bin[i].n > 1)
            put_point(l, c->bin[i].x, c->bin[i].greatest);
    }
}

/* Draws the mean over some 4 % of the curve around each point, which does not lag as a running mean
 * does. */
static void smooth_line(line *l, const vtrain_curve *c)
{
    int half = c->n / 50 > 2 ? c->n / 50 : 2;
    for (int i = 0; i < c->n; i++) {
        double sum = 0, n = 0;
        for (int k = i > half ? i - half : 0; k <= i + half && k < c->n; k++) {
            sum += c->bin[k].sum;
            n += (double)c->bin[k].n;
        }
        put_point(l, c->bin[i].x, sum / n);
    }
}

typedef void (*line_fn)(line *l, const vtrain_curve *c);
typedef struct part {
    const char *name;
    const vtrain_curve *curve;
    line_fn make;
    bool faint;
} part;

/* Draws a chart of up to three parts; parts without points are left out. */
static int put_chart(vf_html *h, const char *title, const char *unit, const part *parts, int n,
                     vc_err *err)
{
    vf_series series[3];
    vf_chart chart = { .title = title, .x_label = "step", .y_label = unit, .series = series };
    line *lines = calloc((size_t)n, sizeof *lines);
    if (!lines)
        return vc_fail(err, VC_ENOMEM, "report: out of memory");
    for (int i = 0; i < n; i++) {
        line *l = &lines[chart.n];
        if (!parts[i].curve->n)
            continue;
        parts[i].make(l, parts[i].curve);
        series[chart.n++] = (vf_series){ .name = parts[i].name, .x = l->x, .y = l->y, .n = l->n,
                                         .faint = parts[i].faint };
    }
    if (chart.n)
        vf_html_line_chart(h, &chart);
    free(lines);
    return 0;
}

static int put_charts(vf_html *h, const vtrain_curves *c, vc_err *err)
{
    const part loss[] = { { "each step", &c->loss, raw_line, true },
                          { "smoothed", &c->loss, smooth_line, false },
                          { "held-out samples", &c->eval, mean_line, false } };
    const part rate[] = { { "learning rate", &c->lr, mean_line, false } };
    const part norm[] = { { "each step", &c->grad_norm, raw_line, true },
                          { "smoothed", &c->grad_norm, smooth_line, false } };
    const part speed[] = { { "each step", &c->tokens, raw_line, true },
                           { "smoothed", &c->tokens, smooth_line, false } };
    const part times[] = { { "whole step", &c->step_s, mean_line, false },
                           { "waiting for data", &c->wait, mean_line, false } };
    int rc;

    vf_html_section(h, "Loss");
    if ((rc = put_chart(h, "Loss", "mean squared error", loss, 3, err)))
        return rc;
    vf_html_section(h, "Optimiser");
    if ((rc = put_chart(h, "Learning rate", "", rate, 1, err)) ||
        (rc = put_chart(h, "Gradient norm before clipping", "", norm, 2, err)))
        return rc;
    vf_html_section(h, "Throughput");
    rc = put_chart(h, "Tokens a second", "tokens/s", speed, 2, err);
    return rc ? rc : put_chart(h, "Seconds a step", "s", times, 2, err);
}

/* ---- tables ---- */

static void put_loss_facts(vf_html *h, const vtrain_curves *c)
{
    if (c->loss.points)
        vf_html_fact(h, "Loss, last step", "%.5f", c->loss.last);
    if (c->eval.points)
        vf_html_fact(h, "Held-out loss", "%.5f last, %.5f least (step %.0f)", c->eval.last,
                     c->eval.best, c->eval.best_x);
}

static void put_sample_facts(vf_html *h, const vtrain_report *r, const vtrain_curves *c)
{
    char seen[32], all[32], never[32];
    uint64_t unseen = r->samples > c->seen ? r->samples - c->seen : 0;
    vf_html_fact(h, "Samples seen", "%s of %s; never seen: %s", vc_human_count(seen, c->seen),
                 vc_human_count(all, r->samples), vc_human_count(never, unseen));
    if (isfinite(c->dropout))
        vf_html_fact(h, "Caption dropout achieved", "%.2f %%", 100 * c->dropout);
}

static void put_speed_facts(vf_html *h, const vtrain_curves *c)
{
    char time[32];
    if (!c->step_s.points || !(c->step_s.sum > 0))
        return;
    vf_html_fact(h, "Time in steps", "%s, %.3g s a step", vc_human_time(time, c->step_s.sum),
                 c->step_s.sum / (double)c->step_s.points);
    vf_html_fact(h, "Waiting for data", "%.2f %% of the time in steps",
                 100 * c->wait.sum / c->step_s.sum);
    if (c->tokens.points)
        vf_html_fact(h, "Tokens a second, mean", "%.0f", c->tokens.sum / (double)c->tokens.points);
}

static void put_facts(vf_html *h, const vtrain_report *r, const vtrain_curves *c)
{
    char steps[32], predicted[32], peak[32];
    vf_html_section(h, "Run");
    if (r->model)
        vf_html_fact(h, "Model", "%s", r->model);
    vf_html_fact(h, "Steps", isfinite(c->epoch) ? "%s, %.2f epochs" : "%s",
                 vc_human_count(steps, c->steps), c->epoch);
    put_loss_facts(h, c);
    put_sample_facts(h, r, c);
    put_speed_facts(h, c);
    if (r->peak_bytes > 0 && r->predicted_bytes > 0)
        vf_html_fact(h, "Peak memory", "%s; predicted before step 1: %s (%+.1f %%)",
                     vc_human_bytes(peak, (double)r->peak_bytes),
                     vc_human_bytes(predicted, (double)r->predicted_bytes),
                     100 * ((double)r->predicted_bytes / (double)r->peak_bytes - 1));
    if (c->unreadable)
        vf_html_fact(h, "Unreadable lines", "%" PRIu64 " of metrics.jsonl", c->unreadable);
}

static void put_buckets(vf_html *h, const vtrain_curves *c)
{
    static const char *const columns[] = { "bucket (latent f x h x w)", "steps", "share",
                                           "mean loss" };
    vf_html_section(h, "Buckets seen");
    vf_html_table(h, columns, 4);
    for (int i = 0; i < c->n_buckets; i++) {
        const vtrain_bucket *b = &c->bucket[i];
        char steps[32], share[32], loss[32];
        snprintf(share, sizeof share, "%.1f %%", 100 * (double)b->steps / (double)c->steps);
        snprintf(loss, sizeof loss, b->losses ? "%.5f" : "-", b->loss / (double)b->losses);
        vf_html_row(h, (const char *const[]){ b->name, vc_human_count(steps, b->steps), share,
                                              loss });
    }
}

/* ---- page ---- */

static int put_page(vf_html *h, const vtrain_report *r, const char *dir, vc_err *err)
{
    vtrain_curves *c;
    int rc = vtrain_curves_read(&c, dir, err);
    if (rc)
        return rc;
    put_facts(h, r, c);
    rc = put_charts(h, c, err);
    put_buckets(h, c);
    vtrain_curves_free(c);

    vf_html_section(h, "Validation");
    vf_gallery(h, dir);
    if (r->data) {
        vf_html_section(h, "Data");
        vf_html_text(h, "%s", r->data);
    }
    if (r->settings) {
        vf_html_section(h, "Settings");
        vf_html_fold(h, "config.yaml", r->settings);
    }
    return rc;
}

int vtrain_report_write(const vtrain_report *r, const char *dir, vc_err *err)
{
    vf_html *h;
    char *path = vc_path_join(dir, "report.html");
    if (!path)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", dir);

    int rc = vf_html_open(&h, r->title, err);
    if (!rc)
        rc = put_page(h, r, dir, err);
    if (!rc)
        rc = vf_html_write(h, path, err);
    vf_html_close(h);
    free(path);
    return rc;
}

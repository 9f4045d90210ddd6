/* run_page.c - the content of a page about one run; see run_page.h */
#include "formats/report/run_page.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/os/progress.h"
#include "formats/report/gallery.h"

/* ---- charts ---- */

/* Adds a curve of each of the buckets that trained most steps. */
static int put_bucket_chart(vf_html *h, const vf_curves *c, vc_err *err)
{
    vf_curve_part part[VF_HTML_SERIES];
    int n = 0;
    for (int i = 0; i < c->n_buckets && i < VF_BUCKET_CURVES; i++) {
        int at = n < VF_HTML_SERIES ? n++ : n;
        while (at > 0 && part[at - 1].curve->points < c->bucket[i].curve->points) {
            if (at < VF_HTML_SERIES)
                part[at] = part[at - 1];
            at--;
        }
        if (at < VF_HTML_SERIES)
            part[at] = (vf_curve_part){ .name = c->bucket[i].name, .curve = c->bucket[i].curve,
                                        .style = VF_CURVE_SMOOTH };
    }
    return n < 2 ? 0 : vf_curve_chart(h, "Loss by bucket (latent f x h x w)", "mean squared error",
                                      part, n, err);
}

/* Quarters of the levels; the held-out loss is that of their middles. */
static const char *const level_name[VF_NOISE_LEVELS] = {
    "least noise (0 to 1/4)", "1/4 to 1/2", "1/2 to 3/4", "most noise (3/4 to 1)",
};

static int put_charts(vf_html *h, const vf_curves *c, vc_err *err)
{
#define EACH(curve_) { .name = "each step", .curve = curve_, .style = VF_CURVE_EACH }
#define SMOOTH(name_, curve_) { .name = name_, .curve = curve_, .style = VF_CURVE_SMOOTH }
#define MEAN(name_, curve_) { .name = name_, .curve = curve_, .style = VF_CURVE_MEAN }
    const vf_curve_part loss[] = { EACH(&c->loss), SMOOTH("smoothed", &c->loss),
                                   MEAN("held-out samples", &c->eval) };
    const vf_curve_part kind[] = { SMOOTH("learned samples", &c->own),
                                   SMOOTH("priors, with their weight", &c->prior) };
    const vf_curve_part stream[] = { SMOOTH("video", &c->video), SMOOTH("sound", &c->audio) };
    vf_curve_part level[VF_NOISE_LEVELS], eval_level[VF_NOISE_LEVELS];
    for (int i = 0; i < VF_NOISE_LEVELS; i++) {
        level[i] = (vf_curve_part)SMOOTH(level_name[i], &c->level[i]);
        eval_level[i] = (vf_curve_part)MEAN(level_name[i], &c->eval_level[i]);
    }
    const vf_curve_part rate[] = { MEAN("learning rate", &c->lr) };
    const vf_curve_part found[] = { MEAN("d", &c->d) };
    const vf_curve_part norm[] = { EACH(&c->grad_norm), SMOOTH("smoothed", &c->grad_norm) };
    const vf_curve_part speed[] = { EACH(&c->tokens), SMOOTH("smoothed", &c->tokens) };
    const vf_curve_part times[] = { MEAN("whole step", &c->step_s),
                                    MEAN("waiting for data", &c->wait) };
    const vf_curve_part memory[] = { MEAN("peak", &c->memory) };
    int rc;

    vf_html_section(h, "Loss");
    vf_curve_units(h, c, 0);
    if ((rc = vf_curve_chart(h, "Loss", "mean squared error", loss, 3, err)) ||
        (c->prior.points && (rc = vf_curve_chart(h, "Loss of learned samples and of priors",
                                                 "mean squared error", kind, 2, err))) ||
        (c->audio.points && (rc = vf_curve_chart(h, "Loss of video and of sound",
                                                 "mean squared error", stream, 2, err))) ||
        (rc = vf_curve_chart(h, "Training loss by noise level", "mean squared error", level,
                             VF_NOISE_LEVELS, err)) ||
        (rc = vf_curve_chart(h, "Held-out loss by noise level", "mean squared error", eval_level,
                             VF_NOISE_LEVELS, err)) ||
        (rc = put_bucket_chart(h, c, err)))
        return rc;
    vf_html_section(h, "Optimiser");
    if ((rc = vf_curve_chart(h, "Learning rate", "", rate, 1, err)) ||
        (c->d.points &&
         (rc = vf_curve_chart(h, "Factor of the rate that the optimiser found", "", found, 1,
                              err))) ||
        (rc = vf_curve_chart(h, "Gradient norm before clipping", "", norm, 2, err)))
        return rc;
    vf_html_section(h, "Throughput");
    if ((rc = vf_curve_chart(h, "Tokens a second", "tokens/s", speed, 2, err)) ||
        (rc = vf_curve_chart(h, "Seconds a step", "s", times, 2, err)))
        return rc;
    return vf_curve_chart(h, "Memory", "bytes", memory, 1, err);
}

/* ---- tables ---- */

static void put_loss_facts(vf_html *h, const vf_curves *c)
{
    if (c->loss.points)
        vf_html_fact(h, "Loss, last step", "%.5f", c->loss.last);
    if (c->prior.points)
        vf_html_fact(h, "Loss of priors", "%.5f last, %.5f mean", c->prior.last,
                     c->prior.sum / (double)c->prior.points);
    if (c->audio.points)
        vf_html_fact(h, "Loss of sound", "%.5f last, %.5f mean", c->audio.last,
                     c->audio.sum / (double)c->audio.points);
    if (c->eval.points)
        vf_html_fact(h, "Held-out loss", "%.5f last, %.5f least (step %.0f)", c->eval.last,
                     c->eval.best, c->eval.best_x);
}

static void put_sample_facts(vf_html *h, const vf_run_page *r, const vf_curves *c)
{
    char seen[32], all[32], never[32];
    uint64_t unseen = r->samples > c->seen ? r->samples - c->seen : 0;
    vc_human_count(seen, c->seen);
    if (r->samples)
        vf_html_fact(h, "Samples seen", "%s of %s; never seen: %s", seen,
                     vc_human_count(all, r->samples), vc_human_count(never, unseen));
    else
        vf_html_fact(h, "Samples seen", "%s", seen);
    if (isfinite(c->dropout))
        vf_html_fact(h, "Caption dropout achieved", "%.2f %%", 100 * c->dropout);
}

static void put_speed_facts(vf_html *h, const vf_curves *c)
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

static void put_facts(vf_html *h, const vf_run_page *r, const vf_curves *c)
{
    char steps[32], predicted[32], peak[32];
    vf_html_section(h, "Run");
    if (r->model) {
        const size_t n = strcspn(r->model, "\n");
        vf_html_fact(h, "Model", "%.*s", (int)n, r->model);
        if (r->model[n])
            vf_html_fact(h, "Adapter", "%s", r->model + n + 1);
    }
    vf_html_fact(h, "Steps", isfinite(c->epoch) ? "%s, %.2f epochs" : "%s",
                 vc_human_count(steps, c->steps), c->epoch);
    put_loss_facts(h, c);
    put_sample_facts(h, r, c);
    put_speed_facts(h, c);
    const double off = 100 * ((double)r->peak_bytes / (double)r->predicted_bytes - 1);
    if (r->peak_bytes > 0 && r->predicted_bytes > 0)
        vf_html_fact(h, "Peak memory", "%s, %.1f %% %s than the %s predicted before step 1",
                     vc_human_bytes(peak, (double)r->peak_bytes), fabs(off),
                     off < 0 ? "less" : "more",
                     vc_human_bytes(predicted, (double)r->predicted_bytes));
    if (c->unreadable)
        vf_html_fact(h, "Unreadable lines", "%" PRIu64 " of metrics.jsonl", c->unreadable);
}

static void put_buckets(vf_html *h, const vf_curves *c)
{
    static const char *const columns[] = { "bucket (latent f x h x w)", "steps", "share",
                                           "mean loss" };
    vf_html_section(h, "Buckets seen");
    vf_html_table(h, columns, 4);
    for (int i = 0; i < c->n_buckets; i++) {
        const vf_run_bucket *b = &c->bucket[i];
        char steps[32], share[32], loss[32];
        snprintf(share, sizeof share, "%.1f %%", 100 * (double)b->steps / (double)c->steps);
        snprintf(loss, sizeof loss, b->losses ? "%.5f" : "-", b->loss / (double)b->losses);
        vf_html_row(h, (const char *const[]){ b->name, vc_human_count(steps, b->steps), share,
                                              loss });
    }
}

/* ---- the headline ---- */

/* Adds the mean of the newest tenth of the steps beside that of the tenth before it, with the word
 * that their noise allows. */
static void put_trend(vf_html *h, const vf_curve *loss)
{
    static const char *const words[] = { [0] = "falling", [1] = "level within its noise",
                                         [2] = "rising" };
    vf_trend t;
    if (vf_curve_trend(loss, &t))
        vf_html_lead(h, "Training loss %.5f, %s: the mean of the last %" PRIu64 " steps; %.5f in "
                     "the %" PRIu64 " before", t.now, words[t.sign + 1], t.steps, t.before,
                     t.steps);
    else if (loss->points)
        vf_html_lead(h, "Training loss %.5f: the mean of %" PRIu64 " steps, too few for a trend",
                     loss->sum / (double)loss->points, loss->points);
}

static void put_lead(vf_html *h, const vf_run_page *r, const vf_curves *c)
{
    char seen[32], all[40] = "", left[32] = "";
    if (c->eval.points > 1)
        vf_html_lead(h, "Held-out loss %.5f; least %.5f at step %.0f; %.5f at first", c->eval.last,
                     c->eval.best, c->eval.best_x, c->eval.bin[0].sum / (double)c->eval.bin[0].n);
    put_trend(h, &c->loss);
    const double each = c->step_s.points ? c->step_s.sum / (double)c->step_s.points : 0;
    if (r->live && r->steps > c->step && each > 0)
        vc_human_time(left, each * (double)(r->steps - c->step));
    if (r->samples)
        snprintf(all, sizeof all, " of %" PRIu32, r->samples);
    vf_html_text(h, "Step %" PRId64 " of %" PRId64 ", %s%s samples seen%s%s", c->step,
                 r->steps > c->step ? r->steps : c->step, vc_human_count(seen, c->seen), all,
                 *left ? "; left, without saving and sampling: " : "", left);
}

/* ---- page ---- */

int vf_run_page_put(vf_html *h, const vf_run_page *r, const vf_curves *c, const char *dir,
                    vc_err *err)
{
    put_lead(h, r, c);
    vf_html_section(h, "Validation");
    vf_gallery(h, dir);
    int rc = put_charts(h, c, err);
    put_facts(h, r, c);
    put_buckets(h, c);
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

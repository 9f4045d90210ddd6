/* runs_page.c - the pages of one run and of several runs; see runs.h */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/os/progress.h"
#include "formats/report/gallery.h"
#include "formats/report/run_page.h"
#include "formats/report/settings.h"
#include "formats/report/runs.h"

enum { SHOWN = VF_HTML_SERIES };

/* The runs whose curves are drawn: all that have some, or the best. */
typedef struct shown {
    const vf_run *run[SHOWN];
    int n;
} shown;

static shown choose(const vf_runs *r)
{
    int order[VF_RUNS];
    shown s = { .n = 0 };
    vf_runs_rank(order, r);
    for (int i = 0; i < r->n && s.n < SHOWN; i++) {
        const vf_run *run = &r->run[r->n > SHOWN ? order[i] : i];
        if (run->curves)
            s.run[s.n++] = run;
    }
    return s;
}

/* ---- the order ---- */

static void put_place(vf_html *h, const vf_run *run, int place)
{
    vf_score s;
    char number[16] = "", loss[32] = "-", at[32] = "-", steps[32] = "0";
    const bool any = vf_run_score(&s, run);
    if (any) {
        snprintf(number, sizeof number, "%d", place);
        snprintf(loss, sizeof loss, "%.5f", s.loss);
        snprintf(at, sizeof at, "%.0f", s.step);
    }
    if (run->curves)
        vc_human_count(steps, (uint64_t)run->curves->step);
    const char *by = !any ? "no step yet" : s.held_out ? "least held-out loss"
                                                       : "training loss, newest tenth of the steps";
    vf_html_row(h, (const char *const[]){ number, run->name, loss, by, at, steps });
}

/* Whether the runs have one value of a setting. */
static bool is_same(const vf_runs *r, const char *name)
{
    size_t first, n;
    const char *of_first = vf_setting(r->run[0].settings, name, strlen(name), &first);
    for (int i = 1; i < r->n; i++) {
        const char *of = vf_setting(r->run[i].settings, name, strlen(name), &n);
        if (n != first || memcmp(of, of_first, n))
            return false;
    }
    return true;
}

/* Says why losses of these runs may not be compared, as far as their settings say. */
static void put_doubt(vf_html *h, const vf_runs *r)
{
    static const char *const names[] = { "latents", "eval_split", "seed", "model",
                                         "transformer", "objective", "loss_type" };
    vc_buf b = { 0 };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!is_same(r, names[i]))
            vc_buf_printf(&b, "%s%s", b.n ? ", " : "", names[i]);
    char *list = b.n ? vc_buf_take(&b) : NULL;
    if (list)
        vf_html_text(h, "Losses compare runs only if these hold out the same samples and have one "
                     "objective. These runs differ in: %s.", list);
    free(list);
    vc_buf_free(&b);
}

static void put_order(vf_html *h, const vf_runs *r)
{
    static const char *const columns[] = { "place", "run", "loss", "ranked by", "at step",
                                           "steps" };
    int order[VF_RUNS];
    vf_runs_rank(order, r);
    vf_html_section(h, "Order by loss");
    vf_html_table(h, columns, 6);
    for (int i = 0; i < r->n; i++)
        put_place(h, &r->run[order[i]], i + 1);
    put_doubt(h, r);
    if (r->left_out)
        vf_html_text(h, "%d more runs are left out.", r->left_out);
    if (r->n > SHOWN)
        vf_html_text(h, "The curves and pictures are those of the first %d.", SHOWN);
}

/* ---- facts ---- */

typedef void (*fact_fn)(char out[64], const vf_curves *c);

static void fact_steps(char out[64], const vf_curves *c)
{
    char steps[32];
    snprintf(out, 64, isfinite(c->epoch) ? "%s, %.2f epochs" : "%s",
             vc_human_count(steps, (uint64_t)c->step), c->epoch);
}

static void fact_loss(char out[64], const vf_curves *c)
{
    snprintf(out, 64, c->loss.points ? "%.5f" : "-", c->loss.last);
}

static void fact_held_out(char out[64], const vf_curves *c)
{
    snprintf(out, 64, c->eval.points ? "%.5f at step %.0f" : "-", c->eval.best, c->eval.best_x);
}

static void fact_speed(char out[64], const vf_curves *c)
{
    snprintf(out, 64, c->step_s.points ? "%.3g s" : "-", c->step_s.sum / (double)c->step_s.points);
}

static void fact_tokens(char out[64], const vf_curves *c)
{
    snprintf(out, 64, c->tokens.points ? "%.0f" : "-", c->tokens.sum / (double)c->tokens.points);
}

static void fact_memory(char out[64], const vf_curves *c)
{
    char text[32];
    snprintf(out, 64, "%s", c->peak_bytes ? vc_human_bytes(text, (double)c->peak_bytes) : "-");
}

static const struct { const char *name; fact_fn make; } facts[] = {
    { "Steps", fact_steps }, { "Loss of the last step", fact_loss },
    { "Least held-out loss", fact_held_out }, { "Mean time of a step", fact_speed },
    { "Tokens a second, mean", fact_tokens }, { "Peak memory", fact_memory },
};

/* Starts a table with a column for each run after the first column. */
static void begin_table(vf_html *h, const shown *r, const char *first)
{
    const char *columns[SHOWN + 1] = { first };
    for (int i = 0; i < r->n; i++)
        columns[i + 1] = r->run[i]->name;
    vf_html_table(h, columns, r->n + 1);
}

static void add_facts(vf_html *h, const shown *r)
{
    vf_html_section(h, "Figures");
    begin_table(h, r, "");
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        char text[SHOWN][64];
        const char *cells[SHOWN + 1] = { facts[i].name };
        for (int k = 0; k < r->n; k++) {
            facts[i].make(text[k], r->run[k]->curves);
            cells[k + 1] = text[k];
        }
        vf_html_row(h, cells);
    }
}

/* ---- settings ---- */

/* Adds a row if the runs' values of the setting differ. Long values are cut. */
static void add_setting(vf_html *h, const shown *r, const char *name, size_t n)
{
    char label[64], value[SHOWN][128];
    const char *cells[SHOWN + 1] = { label };
    size_t first, len;
    const char *of_first = vf_setting(r->run[0]->settings, name, n, &first);
    bool differ = false;
    snprintf(label, sizeof label, "%.*s", (int)n, name);
    for (int i = 0; i < r->n; i++) {
        const char *text = vf_setting(r->run[i]->settings, name, n, &len);
        differ = differ || len != first || memcmp(text, of_first, len);
        snprintf(value[i], sizeof value[i], "%.*s", (int)len, text);
        cells[i + 1] = value[i];
    }
    if (differ && strcmp(label, "output_dir"))
        vf_html_row(h, cells);
}

/* Adds the settings of run i that no earlier run has. */
static void add_settings_of(vf_html *h, const shown *r, int i)
{
    for (const char *line = r->run[i]->settings; line; line = strchr(line, '\n')) {
        bool earlier = false;
        size_t len;
        line += *line == '\n';
        size_t n = strspn(line, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (!n || line[n] != ':')
            continue;
        for (int k = 0; k < i; k++)
            earlier = earlier || *vf_setting(r->run[k]->settings, line, n, &len);
        if (!earlier)
            add_setting(h, r, line, n);
    }
}

static void add_settings(vf_html *h, const shown *r)
{
    if (r->n < 2)
        return;
    vf_html_section(h, "Settings that differ");
    begin_table(h, r, "flag");
    for (int i = 0; i < r->n; i++)
        add_settings_of(h, r, i);
}

/* ---- charts ---- */

/* Adds a chart with one curve of each run: the one at `offset` in vf_curves. */
static int add_chart(vf_html *h, const shown *r, const char *title, const char *unit, size_t offset,
                     vf_curve_style style, vc_err *err)
{
    vf_curve_part parts[SHOWN];
    for (int i = 0; i < r->n; i++) {
        const void *curve = (const char *)r->run[i]->curves + offset;
        parts[i] = (vf_curve_part){ .name = r->run[i]->name, .curve = curve, .style = style,
                                    .run = i };
    }
    return vf_curve_chart(h, title, unit, parts, r->n, err);
}

static int add_charts(vf_html *h, const shown *r, vc_err *err)
{
#define CURVE(field) offsetof(vf_curves, field)
    static const struct {
        const char *section, *title, *unit;
        size_t offset;
        vf_curve_style style;
    } charts[] = {
        { "Loss", "Loss, smoothed", "loss", CURVE(loss), VF_CURVE_SMOOTH },
        { NULL, "Held-out loss", "loss", CURVE(eval), VF_CURVE_MEAN },
        { "Optimiser", "Learning rate", "", CURVE(lr), VF_CURVE_MEAN },
        { NULL, "Gradient norm before clipping, smoothed", "", CURVE(grad_norm), VF_CURVE_SMOOTH },
        { "Throughput", "Tokens a second, smoothed", "tokens/s", CURVE(tokens), VF_CURVE_SMOOTH },
        { NULL, "Seconds a step", "s", CURVE(step_s), VF_CURVE_MEAN },
    };
#undef CURVE
    int rc = 0;
    for (size_t i = 0; i < sizeof charts / sizeof *charts && !rc; i++) {
        if (charts[i].section)
            vf_html_section(h, charts[i].section);
        rc = add_chart(h, r, charts[i].title, charts[i].unit, charts[i].offset, charts[i].style,
                       err);
    }
    return rc;
}

/* ---- pages ---- */

int vf_runs_put(vf_html *h, const vf_runs *r, vc_err *err)
{
    const char *dir[SHOWN], *name[SHOWN];
    const shown s = choose(r);
    put_order(h, r);
    for (int i = 0; i < s.n; i++) {
        dir[i] = s.run[i]->dir;
        name[i] = s.run[i]->name;
    }
    vf_html_section(h, "Newest validation pictures");
    vf_gallery_beside(h, dir, name, s.n);
    int rc = add_charts(h, &s, err);
    for (int i = 0; i < s.n; i++)
        vf_curve_units(h, s.run[i]->curves, i);
    add_facts(h, &s);
    add_settings(h, &s);
    return rc;
}

int vf_runs_put_one(vf_html *h, const vf_run *run, bool live, vc_err *err)
{
    size_t n;
    const char *steps = vf_setting(run->settings, "max_train_steps", 15, &n);
    const vf_run_page page = {
        .settings = run->settings, .peak_bytes = run->curves ? run->curves->peak_bytes : 0,
        .steps = n ? strtoll(steps, NULL, 10) : 0, .live = live,
    };
    if (run->curves)
        return vf_run_page_put(h, &page, run->curves, run->dir, err);
    vf_html_text(h, "This run has no step yet.");
    return 0;
}

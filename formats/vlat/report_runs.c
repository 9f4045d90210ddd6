/* report_runs.c - vlat report RUN...: one HTML file that lays training runs over each other. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/report/curves.h"
#include "formats/report/gallery.h"
#include "formats/report/settings.h"
#include "formats/vlat/vlat.h"

enum { MAX_RUNS = VF_HTML_SERIES };

typedef struct runs {
    const char *dir[MAX_RUNS], *name[MAX_RUNS];
    vf_curves *curves[MAX_RUNS];
    char *settings[MAX_RUNS];                /* config.yaml; NULL: the run has none */
    int n;
} runs;

static void runs_close(runs *r)
{
    for (int i = 0; i < r->n; i++) {
        vf_curves_free(r->curves[i]);
        free(r->settings[i]);
    }
}

/* Runs are named by their folders' last parts, or by their whole paths where two of these are
 * equal. */
static void name_runs(runs *r)
{
    bool alike = false;
    for (int i = 0; i < r->n; i++)
        for (int k = 0; k < i; k++)
            alike = alike || !strcmp(vc_path_base(r->dir[i]), vc_path_base(r->dir[k]));
    for (int i = 0; i < r->n; i++)
        r->name[i] = alike ? r->dir[i] : vc_path_base(r->dir[i]);
}

static int open_runs(runs *r, const vc_list *words, vc_err *err)
{
    if (words->n > MAX_RUNS)
        return vc_fail(err, VC_EUSAGE, "vlat report shows %d runs at most, not %d", MAX_RUNS,
                       words->n);
    for (int i = 0; i < words->n; i++) {
        const char *dir = words->item[i];
        r->dir[r->n] = dir;
        int rc = vf_curves_read(&r->curves[r->n++], dir, err);
        if (rc)
            return vc_context(err, rc, "%s is not the output folder of a training run", dir);
        rc = vf_settings_read(&r->settings[i], dir, err);
        if (rc)
            return rc;
    }
    name_runs(r);
    return 0;
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
static void begin_table(vf_html *h, const runs *r, const char *first)
{
    const char *columns[MAX_RUNS + 1] = { first };
    memcpy(columns + 1, r->name, (size_t)r->n * sizeof *r->name);
    vf_html_table(h, columns, r->n + 1);
}

static void add_facts(vf_html *h, const runs *r)
{
    vf_html_section(h, "Runs");
    begin_table(h, r, "");
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        char text[MAX_RUNS][64];
        const char *cells[MAX_RUNS + 1] = { facts[i].name };
        for (int k = 0; k < r->n; k++) {
            facts[i].make(text[k], r->curves[k]);
            cells[k + 1] = text[k];
        }
        vf_html_row(h, cells);
    }
}

/* ---- settings ---- */

/* Adds a row if the runs' values of the setting differ. Long values are cut. */
static void add_setting(vf_html *h, const runs *r, const char *name, size_t n)
{
    char label[64], value[MAX_RUNS][128];
    const char *cells[MAX_RUNS + 1] = { label };
    size_t first, len;
    const char *of_first = vf_setting(r->settings[0], name, n, &first);
    bool differ = false;
    snprintf(label, sizeof label, "%.*s", (int)n, name);
    for (int i = 0; i < r->n; i++) {
        const char *text = vf_setting(r->settings[i], name, n, &len);
        differ = differ || len != first || memcmp(text, of_first, len);
        snprintf(value[i], sizeof value[i], "%.*s", (int)len, text);
        cells[i + 1] = value[i];
    }
    if (differ && strcmp(label, "output_dir"))
        vf_html_row(h, cells);
}

/* Adds the settings of run i that no earlier run has. */
static void add_settings_of(vf_html *h, const runs *r, int i)
{
    for (const char *line = r->settings[i]; line; line = strchr(line, '\n')) {
        bool earlier = false;
        size_t len;
        line += *line == '\n';
        size_t n = strspn(line, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (!n || line[n] != ':')
            continue;
        for (int k = 0; k < i; k++)
            earlier = earlier || *vf_setting(r->settings[k], line, n, &len);
        if (!earlier)
            add_setting(h, r, line, n);
    }
}

static void add_settings(vf_html *h, const runs *r)
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
static int add_chart(vf_html *h, const runs *r, const char *title, const char *unit, size_t offset,
                     vf_curve_style style, vc_err *err)
{
    vf_curve_part parts[MAX_RUNS];
    for (int i = 0; i < r->n; i++) {
        const void *curve = (const char *)r->curves[i] + offset;
        parts[i] = (vf_curve_part){ .name = r->name[i], .curve = curve, .style = style,
                                    .run = i };
    }
    return vf_curve_chart(h, title, unit, parts, r->n, err);
}

static int add_charts(vf_html *h, const runs *r, vc_err *err)
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

/* ---- page ---- */

static int write_page(const vlat *v, const runs *r, const char *path, vc_err *err)
{
    vf_html *h;
    int rc = vf_html_open(&h, "Training runs", err);
    if (rc)
        return rc;
    add_facts(h, r);
    vf_html_section(h, r->n > 1 ? "Newest validation pictures" : "Validation");
    if (r->n > 1)
        vf_gallery_beside(h, r->dir, r->name, r->n);
    else
        vf_gallery(h, r->dir[0]);
    rc = add_charts(h, r, err);
    for (int i = 0; i < r->n; i++)
        vf_curve_units(h, r->curves[i], i);
    add_settings(h, r);
    if (!rc)
        rc = vf_html_write(h, path, err);
    if (!rc)
        fprintf(v->out, "%s\n", path);
    vf_html_close(h);
    return rc;
}

int vlat_report_runs(const vlat *v, vc_err *err)
{
    runs r = { 0 };
    int rc = open_runs(&r, v->words, err);
    if (!rc)
        rc = write_page(v, &r, v->o->out ? v->o->out : "compare.html", err);
    runs_close(&r);
    return rc;
}

/* curves_chart.c - charts of curves; see curves.h */
#include <stdlib.h>

#include "formats/report/curves.h"

typedef struct chart_line {              /* a series with its own numbers */
    double x[2 * VF_CURVE_BINS], y[2 * VF_CURVE_BINS];
    double smooth[VF_CURVE_BINS], weight[VF_CURVE_BINS];
    size_t n;
} chart_line;

static void put_point(chart_line *l, double x, double y)
{
    l->x[l->n] = x;
    l->y[l->n++] = y;
}

static void mean_line(chart_line *l, const vf_curve *c)
{
    for (int i = 0; i < c->n; i++)
        put_point(l, c->bin[i].x, c->bin[i].sum / (double)c->bin[i].n);
}

static void each_line(chart_line *l, const vf_curve *c)
{
    for (int i = 0; i < c->n; i++) {
        put_point(l, c->bin[i].x, c->bin[i].least);
        if (c->bin[i].n > 1)
            put_point(l, c->bin[i].x, c->bin[i].greatest);
    }
}

static void smooth_line(chart_line *l, const vf_curve *c)
{
    int half = c->n / 50 > 2 ? c->n / 50 : 2;
    mean_line(l, c);
    for (int i = 0; i < c->n; i++) {
        double sum = 0, n = 0;
        for (int k = i > half ? i - half : 0; k <= i + half && k < c->n; k++) {
            sum += c->bin[k].sum;
            n += (double)c->bin[k].n;
        }
        l->smooth[i] = sum / n;
        l->weight[i] = (double)c->bin[i].n;
    }
}

typedef void (*line_fn)(chart_line *l, const vf_curve *c);
static const line_fn line_of[] = {
    [VF_CURVE_EACH] = each_line, [VF_CURVE_SMOOTH] = smooth_line, [VF_CURVE_MEAN] = mean_line,
};

int vf_curve_chart(vf_html *h, const char *title, const char *unit, const vf_curve_part *parts,
                   int n, vc_err *err)
{
    vf_series series[VF_HTML_SERIES];
    vf_chart chart = { .title = title, .x_label = "step", .y_label = unit, .series = series };
    chart_line *lines = calloc((size_t)n, sizeof *lines);
    if (!lines)
        return vc_no_memory(err);
    for (int i = 0; i < n && chart.n < VF_HTML_SERIES; i++) {
        const vf_curve_part *p = &parts[i];
        chart_line *l = &lines[chart.n];
        if (!p->curve->n)
            continue;
        line_of[p->style](l, p->curve);
        const bool smooth = p->style == VF_CURVE_SMOOTH;
        series[chart.n++] = (vf_series){ .name = p->name, .x = l->x, .y = l->y, .n = l->n,
                                         .faint = p->style == VF_CURVE_EACH, .run = p->run,
                                         .smooth = smooth ? l->smooth : NULL,
                                         .weight = smooth ? l->weight : NULL };
    }
    if (chart.n)
        vf_html_line_chart(h, &chart);
    free(lines);
    return 0;
}

/* Both curves ascend, so that the least value of a bin is the one at its x. */
static void put_unit(vf_html *h, const char *unit, const vf_curve *c, int run)
{
    double x[VF_CURVE_BINS], value[VF_CURVE_BINS];
    size_t n = 0;
    for (; n < (size_t)c->n; n++) {
        x[n] = c->bin[n].x;
        value[n] = c->bin[n].least;
    }
    if (n)
        vf_html_x_unit(h, unit, run, x, value, n);
}

void vf_curve_units(vf_html *h, const vf_curves *c, int run)
{
    put_unit(h, "epochs", &c->epochs, run);
    put_unit(h, "hours", &c->hours, run);
}

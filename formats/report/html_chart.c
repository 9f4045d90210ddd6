/* html_chart.c - charts as inline SVG, and beside lines their numbers (html_numbers.c); see html.h
 *
 * Only finite numbers of at most DRAWABLE are drawn, so that no difference of two overflows and
 * every coordinate that is printed is a plain number. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/report/html_parts.h"

#define DRAWABLE 1e150

/* Units of the drawing, which the browser scales to the page's width. The y axis is labelled on the
 * left: a narrow screen shows the left end first. */
enum { WIDTH = 900, HEIGHT = 300, LEFT = 76, RIGHT = 28, TOP = 12, BOTTOM = 44 };
enum { PLOT_W = WIDTH - LEFT - RIGHT, PLOT_H = HEIGHT - TOP - BOTTOM };
enum { TICKS = 6, MAX_TICKS = 16, BINS = 20, SHOWN_BARS = 30 };

typedef struct axis {
    double low, high;                  /* range of the axis; log: of the logarithms */
    bool log;
    double tick[MAX_TICKS];            /* in units of low and high */
    int n;
    double step;                       /* distance between ticks */
} axis;

static double round_step(double span, int about)
{
    double raw = span / about, unit = pow(10, floor(log10(raw))), f = raw / unit;

    return unit * (f < 1.5 ? 1 : f < 3.5 ? 2 : f < 7.5 ? 5 : 10);
}

/* Widens a range without length; a log axis by one decade. */
static void open_range(axis *a)
{
    if (!(a->low <= a->high)) {                    /* no points at all */
        a->low = 0;
        a->high = 1;
    }
    double least = fmax(fabs(a->low), fabs(a->high)) * 1e-9;
    if (a->high - a->low <= least || a->high == a->low) {
        double pad = a->log ? 0.5 : a->high == 0 ? 1 : fabs(a->high) * 0.1;
        a->low -= pad;
        a->high += pad;
    }
}

static void set_ticks(axis *a, int about)
{
    double span = a->high - a->low;

    a->step = a->log ? fmax(1, round_step(span, about)) : round_step(span, about);
    for (double i = ceil(a->low / a->step - 1e-9); a->n < MAX_TICKS; i++) {
        double v = i * a->step;
        if (!(v <= a->high + a->step * 1e-9))
            break;
        a->tick[a->n++] = v == 0 ? 0 : v;          /* not -0 */
    }
    /* less than a decade: ticks at round values in between */
    if (a->log && a->n < 2) {
        axis plain = { .low = pow(10, a->low), .high = pow(10, a->high) };
        set_ticks(&plain, about);
        a->n = 0;
        for (int i = 0; i < plain.n; i++)
            if (plain.tick[i] > 0)
                a->tick[a->n++] = log10(plain.tick[i]);
        a->step = 0;
    }
}

/* Formats a tick: "1200", "0.05", "3e+09". The step decides the number of decimals; very large or
 * small axes have exponents. */
static void tick_label(char text[32], const axis *a, double v)
{
    double shown = a->log ? pow(10, v) : v, most = fmax(fabs(a->low), fabs(a->high));

    if (a->log || most >= 1e7 || most < 1e-3) {
        snprintf(text, 32, "%.4g", shown);
        return;
    }
    int decimals = a->step < 1 ? (int)fmin(9, ceil(-log10(a->step) - 1e-9)) : 0;
    snprintf(text, 32, "%.*f", decimals, shown);
}

static double x_of(const axis *a, double v)
{
    return LEFT + (v - a->low) / (a->high - a->low) * PLOT_W;
}

static double y_of(const axis *a, double v)
{
    return TOP + PLOT_H - (v - a->low) / (a->high - a->low) * PLOT_H;
}

static void put_axes(vc_buf *b, const axis *x, const axis *y, const char *x_label,
                     const char *y_label)
{
    char text[32];

    for (int i = 0; i < y->n; i++) {
        double at = y_of(y, y->tick[i]);
        tick_label(text, y, y->tick[i]);
        vc_buf_printf(b, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                      "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT,
                      WIDTH - RIGHT, at, at, LEFT - 8, at + 4, text);
    }
    for (int i = 0; i < x->n; i++) {
        double at = x_of(x, x->tick[i]);
        tick_label(text, x, x->tick[i]);
        vc_buf_printf(b, "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>"
                      "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", at, at,
                      HEIGHT - BOTTOM, HEIGHT - BOTTOM + 4, at, HEIGHT - BOTTOM + 18, text);
    }
    vc_buf_printf(b, "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>\n"
                  "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", LEFT, WIDTH - RIGHT,
                  HEIGHT - BOTTOM, HEIGHT - BOTTOM, LEFT + PLOT_W / 2, HEIGHT - 6);
    html_escape_str(b, x_label);
    vc_buf_printf(b, "</text>\n<text transform=\"translate(%d %d) rotate(-90)\" "
                  "text-anchor=\"middle\">", 14, TOP + PLOT_H / 2);
    html_escape_str(b, y_label);
    vc_buf_str(b, "</text>\n");
}

static void begin_figure(vf_html *h, const char *class, const char *title)
{
    html_end_block(h);
    vc_buf_printf(&h->body, "<figure class=\"%s\"><figcaption>", class);
    html_escape_str(&h->body, title);
}

static void put_figure(vf_html *h, const char *class, const char *title)
{
    begin_figure(h, class, title);
    vc_buf_str(&h->body, "</figcaption>\n");
}

static void put_svg(vf_html *h, const char *title)
{
    vc_buf_printf(&h->body, "<div class=\"chart\"><svg viewBox=\"0 0 %d %d\" role=\"img\" "
                  "aria-label=\"", WIDTH, HEIGHT);
    html_escape_str(&h->body, title);
    vc_buf_str(&h->body, "\">\n");
}

/* ---- lines ---- */

static bool drawable(double v)
{
    return fabs(v) <= DRAWABLE;                    /* false for NaN */
}

/* Sets the point in units of the axes; false if it is a gap. */
static bool point(const vf_chart *c, const vf_series *s, size_t i, double *x, double *y)
{
    *x = s->x[i];
    *y = s->smooth ? s->smooth[i] : s->y[i];
    if (!drawable(*x) || !drawable(*y) || (c->log_y && *y <= 0))
        return false;
    if (c->log_y)
        *y = log10(*y);
    return true;
}

static void find_ranges(const vf_chart *c, int n, axis *x, axis *y)
{
    x->low = y->low = INFINITY;
    x->high = y->high = -INFINITY;
    for (int s = 0; s < n; s++)
        for (size_t i = 0; i < c->series[s].n; i++) {
            double px, py;
            if (!point(c, &c->series[s], i, &px, &py))
                continue;
            x->low = fmin(x->low, px);
            x->high = fmax(x->high, px);
            y->low = fmin(y->low, py);
            y->high = fmax(y->high, py);
        }
}

/* One column of the drawing, in which only the first, least, greatest and last point are
 * visible. */
typedef struct column {
    int at;
    double y[4];                       /* first, least, greatest, last */
    bool least_first;
    size_t n;
} column;

static void flush_column(vc_buf *b, column *col, bool *pen)
{
    if (!col->n)
        return;
    bool begins = !*pen;
    double mid[2] = { col->y[col->least_first ? 1 : 2], col->y[col->least_first ? 2 : 1] };
    double all[4] = { col->y[0], mid[0], mid[1], col->y[3] };
    for (int i = 0; i < 4; i++) {
        if (i && all[i] == all[i - 1])
            continue;
        vc_buf_printf(b, "%s%.1f %.1f", *pen ? "L" : "M", col->at / 2.0, all[i]);
        *pen = true;
    }
    /* a single point is drawn as the round end of a line */
    if (begins && col->n == 1)
        vc_buf_str(b, "h0");
    col->n = 0;
}

static void add_to_column(column *col, double y)
{
    if (col->n++ == 0) {
        for (int i = 0; i < 4; i++)
            col->y[i] = y;
        col->least_first = true;
        return;
    }
    if (y < col->y[1]) {
        col->y[1] = y;
        col->least_first = false;
    }
    if (y > col->y[2]) {
        col->y[2] = y;
        col->least_first = true;
    }
    col->y[3] = y;
}

static void put_path(vc_buf *b, const vf_chart *c, const vf_series *s, int index, const axis *x,
                     const axis *y)
{
    column col = { 0 };
    bool pen = false;

    vc_buf_printf(b, "<path%s stroke=\"var(--c%d)\" d=\"", s->faint ? " class=\"faint\"" : "",
                  index % VF_HTML_SERIES);
    for (size_t i = 0; i < s->n; i++) {
        double px, py;
        if (!point(c, s, i, &px, &py)) {
            flush_column(b, &col, &pen);
            pen = false;
            continue;
        }
        int at = (int)lround(x_of(x, px) * 2);     /* half units: smooth on a fine screen */
        if (at != col.at)
            flush_column(b, &col, &pen);
        col.at = at;
        add_to_column(&col, y_of(y, py));
    }
    flush_column(b, &col, &pen);
    vc_buf_str(b, "\"/>\n");
}

/* Adds the controls of all charts, which charts.js fills and enables. */
static void put_controls(vc_buf *b)
{
    vc_buf_str(b, "<div class=\"controls charts\"><label>Over<select disabled>"
               "<option>step</option></select></label><label>Smoothing<input type=\"range\" "
               "disabled><output></output></label><button type=\"button\" disabled>Show all"
               "</button></div>\n");
}

/* Adds the names of a chart's lines, each with a box that switches the line where scripts run, and
 * the places of the values under the pointer. A picture of one line needs no names. */
static void put_legend(vc_buf *b, const vf_chart *c, int n)
{
    const bool reacts = html_charts_react();
    const char *tag = reacts ? "label" : "span";
    if (n < 2 && !reacts)
        return;
    vc_buf_str(b, "<div class=\"legend\">");
    for (int i = 0; i < n; i++) {
        vc_buf_printf(b, "<%s>%s<i style=\"background:var(--c%d)%s\"></i><span>", tag,
                      reacts ? "<input type=\"checkbox\" checked disabled>" : "", i,
                      c->series[i].faint ? ";opacity:.35" : "");
        html_escape_str(b, c->series[i].name);
        vc_buf_printf(b, "</span>%s</%s>", reacts ? "<output></output>" : "", tag);
    }
    if (reacts)
        vc_buf_str(b, "<output class=\"where\"></output><label class=\"end\"><input "
                   "type=\"checkbox\" disabled>log</label><output class=\"spoken\"></output>");
    vc_buf_str(b, "</div>\n");
}

void vf_html_line_chart(vf_html *h, const vf_chart *c)
{
    int n = c->n < VF_HTML_SERIES ? c->n : VF_HTML_SERIES;
    axis x = { 0 }, y = { .log = c->log_y };
    vc_buf *b = &h->body;

    find_ranges(c, n, &x, &y);
    open_range(&x);
    open_range(&y);
    double pad = (y.high - y.low) * 0.04;
    y.low -= pad;
    y.high += pad;
    set_ticks(&x, TICKS + 2);
    set_ticks(&y, TICKS);

    html_end_block(h);
    if (!h->charts && html_charts_react())
        put_controls(b);
    h->charts = true;
    begin_figure(h, "lines", c->title);
    if (html_charts_react()) {
        vc_buf_printf(b, "<span class=\"axes\"> ");
        html_escape_str(b, c->y_label);
        vc_buf_printf(b, "%sby ", *c->y_label ? " " : "");
        html_escape_str(b, c->x_label);
        vc_buf_str(b, "</span>");
    }
    vc_buf_str(b, "</figcaption>\n");
    html_put_numbers(b, c, n);
    put_legend(b, c, n);
    put_svg(h, c->title);
    put_axes(b, &x, &y, c->x_label, c->y_label);
    for (int pass = 1; pass >= 0; pass--)          /* faint series first, so that they lie behind */
        for (int i = 0; i < n; i++)
            if (c->series[i].faint == (pass == 1))
                put_path(b, c, &c->series[i], i, &x, &y);
    vc_buf_str(b, "</svg></div></figure>\n");
}

/* ---- bars ---- */

static void put_bar(vc_buf *b, const char *label, double value, double most)
{
    bool ok = drawable(value) && value > 0;

    vc_buf_str(b, "<span>");
    html_escape_str(b, label);
    vc_buf_printf(b, "</span><b style=\"width:%.2f%%\"></b><em>%.*g</em>\n",
                  ok ? value / most * 100 : 0, value == trunc(value) ? 15 : 4, value);
}

void vf_html_bars(vf_html *h, const char *title, const char *const *labels, const double *values,
                  int n)
{
    double most = 0;
    for (int i = 0; i < n; i++)
        if (drawable(values[i]) && values[i] > most)
            most = values[i];

    put_figure(h, "ranks", title);
    vc_buf_str(&h->body, "<div class=\"bars\">\n");
    for (int i = 0; i < n; i++) {
        if (i == SHOWN_BARS)
            vc_buf_printf(&h->body, "</div><details><summary>%d more</summary>"
                          "<div class=\"bars\">\n", n - i);
        put_bar(&h->body, labels[i], values[i], most);
    }
    vc_buf_str(&h->body, n > SHOWN_BARS ? "</div></details></figure>\n" : "</div></figure>\n");
}

/* Ranges of round length that hold all values. */
static int count_bins(double count[BINS * 3], axis *x, const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (drawable(values[i])) {
            x->low = fmin(x->low, values[i]);
            x->high = fmax(x->high, values[i]);
        }
    open_range(x);
    double width = round_step(x->high - x->low, BINS);
    double first = floor(x->low / width);
    int bins = (int)fmin(BINS * 3, floor(x->high / width) - first + 1);
    x->low = first * width;
    x->high = (first + bins) * width;
    for (size_t i = 0; i < n; i++)
        if (drawable(values[i])) {
            double bin = floor(values[i] / width) - first;
            count[(int)fmax(0, fmin(bins - 1, bin))]++;
        }
    return bins;
}

static void put_bin(vc_buf *b, const axis *x, const axis *y, int i, int bins, double count)
{
    double width = (double)PLOT_W / bins, top = y_of(y, count);
    char from[32], to[32];
    axis fine = *x;

    if (count == 0)
        return;
    fine.step = (x->high - x->low) / bins;
    tick_label(from, &fine, x->low + i * fine.step);
    tick_label(to, &fine, x->low + (i + 1) * fine.step);
    vc_buf_printf(b, "<rect class=\"bar\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">"
                  "<title>%s to %s: %.0f</title></rect>\n", LEFT + i * width + 0.5, top,
                  width - 1, TOP + PLOT_H - top, from, to, count);
}

void vf_html_histogram(vf_html *h, const char *title, const char *x_label, const double *values,
                       size_t n)
{
    double count[BINS * 3] = { 0 }, most = 0, sum = 0;
    axis x = { .low = INFINITY, .high = -INFINITY }, y = { 0 };
    int bins = count_bins(count, &x, values, n);

    for (int i = 0; i < bins; i++) {
        most = fmax(most, count[i]);
        sum += count[i];
    }
    y.high = fmax(most * 1.05, 1);
    set_ticks(&x, TICKS + 2);
    set_ticks(&y, most < TICKS ? (int)fmax(most, 1) : TICKS);

    put_figure(h, "counts", title);
    put_svg(h, title);
    put_axes(&h->body, &x, &y, x_label, "");
    for (int i = 0; i < bins; i++)
        put_bin(&h->body, &x, &y, i, bins, count[i]);
    vc_buf_str(&h->body, "</svg></div></figure>\n");
    if (sum < (double)n)
        vf_html_text(h, "%.0f of %.0f values are no finite numbers.", (double)n - sum, (double)n);
}

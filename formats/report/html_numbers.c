/* html_numbers.c - the numbers of charts as JSON in the page, which charts.js reads; see html.h */
#include <math.h>
#include <stdio.h>

#include "formats/report/html_parts.h"

enum { POINTS = 4000 };                /* of a series; longer ones keep two of each range */

/* The positions of a series' points that the page has. */
typedef struct thinned {
    const vf_series *s;
    size_t each;                       /* points of a range; 1: all are kept */
} thinned;

typedef struct range { size_t at[2]; int n; } range;

/* The places of the least and the greatest value of the range that begins at `from`. */
static range range_at(const thinned *t, size_t from)
{
    range r = { .n = 0 };
    size_t least = from, greatest = from, end = from + t->each;
    for (size_t i = from; i < end && i < t->s->n; i++) {
        if (!(t->s->y[least] <= t->s->y[i]))
            least = i;
        if (!(t->s->y[greatest] >= t->s->y[i]))
            greatest = i;
    }
    r.at[r.n++] = least < greatest ? least : greatest;
    if (least != greatest)
        r.at[r.n++] = least < greatest ? greatest : least;
    return r;
}

/* Seven digits are more than a screen shows. */
static void put_rounded(vc_buf *b, double v)
{
    char text[32];
    snprintf(text, sizeof text, "%.7g", v);
    vc_buf_str(b, isfinite(v) ? text : "null");
}

static void put_list(vc_buf *b, const char *name, const thinned *t, const double *v)
{
    vc_buf_printf(b, ",\"%s\":[", name);
    for (size_t from = 0; from < t->s->n; from += t->each) {
        const range r = range_at(t, from);
        for (int i = 0; i < r.n; i++) {
            vc_buf_str(b, from || i ? "," : "");
            if (v == t->s->x)
                vc_buf_number(b, v[r.at[i]]);
            else
                put_rounded(b, v[r.at[i]]);
        }
    }
    vc_buf_str(b, "]");
}

static void put_series(vc_buf *b, const vf_series *s)
{
    const thinned t = { s, s->n > POINTS ? (s->n + POINTS / 2 - 1) / (POINTS / 2) : 1 };
    vc_buf_str(b, "{\"name\":");
    html_json_str(b, s->name);
    vc_buf_printf(b, ",\"run\":%d,\"faint\":%s,\"smooth\":%s", s->run, s->faint ? "true" : "false",
                  s->smooth ? "true" : "false");
    put_list(b, "x", &t, s->x);
    put_list(b, "y", &t, s->y);
    if (s->weight)
        put_list(b, "n", &t, s->weight);
    vc_buf_str(b, "}");
}

void html_put_numbers(vc_buf *b, const vf_chart *c, int n)
{
    vc_buf_str(b, "<script type=\"application/json\">{\"x\":");
    html_json_str(b, c->x_label);
    vc_buf_str(b, ",\"y\":");
    html_json_str(b, c->y_label);
    vc_buf_printf(b, ",\"log\":%s,\"series\":[", c->log_y ? "true" : "false");
    for (int i = 0; i < n; i++) {
        vc_buf_str(b, i ? "," : "");
        put_series(b, &c->series[i]);
    }
    vc_buf_str(b, "]}</script>\n");
}

void vf_html_x_unit(vf_html *h, const char *unit, int run, const double *x, const double *value,
                    size_t n)
{
    const vf_series s = { .x = x, .y = value, .n = n };
    const thinned all = { &s, 1 };
    vc_buf *b = &h->body;
    html_end_block(h);
    vc_buf_str(b, "<script type=\"application/json\" class=\"unit\">{\"unit\":");
    html_json_str(b, unit);
    vc_buf_printf(b, ",\"run\":%d", run);
    put_list(b, "x", &all, x);
    put_list(b, "value", &all, value);
    vc_buf_str(b, "}</script>\n");
}

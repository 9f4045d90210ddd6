/* html.h - builds one HTML file that opens anywhere, offline: text, tables, charts, pictures.
 *
 *     vf_html_open(&h, "Run 7", &err);
 *     vf_html_section(h, "Loss");
 *     vf_html_text(h, "%d steps", n);
 *     vf_html_line_chart(h, &chart);
 *     vf_html_write(h, "report.html", &err);
 *     vf_html_close(h);
 *
 * Style, script and pictures are inside the file and a content security policy forbids everything
 * else; light or dark as the browser asks. All text given is shown as text, whatever is in it:
 * nothing is markup, bytes that are no UTF-8 become U+FFFD. Calls may come in any order; what is
 * still open (table, grid, section) is ended by the next part that cannot stand inside it. A lack
 * of memory sticks and is told by vf_html_write. One thread at a time. */
#ifndef FORMATS_REPORT_HTML_H
#define FORMATS_REPORT_HTML_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/err.h"

typedef struct vf_html vf_html;

int vf_html_open(vf_html **out, const char *title, vc_err *err);
void vf_html_close(vf_html *h);                  /* NULL is fine */
/* Replaces path atomically. h may be added to and written again. */
int vf_html_write(vf_html *h, const char *path, vc_err *err);

/* A heading, listed in the contents on top. */
void vf_html_section(vf_html *h, const char *heading);
/* A paragraph; line ends are kept. */
void vf_html_text(vf_html *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A line of its own, "<!-- name -->", so that a program can later replace what stands between two
 * of them. name is letters, digits, blanks and '/'; anything else in it becomes '_'. */
void vf_html_mark(vf_html *h, const char *name);
/* A title that opens to a longer text, set in a fixed width (settings, logs). */
void vf_html_fold(vf_html *h, const char *title, const char *text);

/* Starts a table of n columns; rows follow. Cells that are numbers are set right. */
void vf_html_table(vf_html *h, const char *const *columns, int n);
void vf_html_row(vf_html *h, const char *const *cells);
/* One row of a table of names and values; starts one where there is none. */
void vf_html_fact(vf_html *h, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

typedef struct vf_series {
    const char *name;
    const double *x, *y;           /* x ascending; points that are no finite numbers are gaps */
    size_t n;
    bool faint;                    /* drawn thin and pale, behind the others: raw values */
} vf_series;

enum { VF_HTML_SERIES = 8 };       /* at most in one chart; further ones are left out */

typedef struct vf_chart {
    const char *title, *x_label, *y_label;
    bool log_y;                    /* values <= 0 are gaps */
    const vf_series *series;
    int n;
} vf_chart;

/* Long series are reduced to what can be seen (least and greatest of each pixel's points). */
void vf_html_line_chart(vf_html *h, const vf_chart *c);
/* One bar a label, in the order given, lengths from 0; values that are negative or no finite
 * numbers have none. From the 31st on they are folded away. */
void vf_html_bars(vf_html *h, const char *title, const char *const *labels, const double *values,
                  int n);
/* How often values fall into each of some twenty equal ranges; those that are no finite numbers
 * are left out and counted below. */
void vf_html_histogram(vf_html *h, const char *title, const char *x_label, const double *values,
                       size_t n);

/* Starts a grid of cards; search puts a box above it that hides cards without the words typed. */
void vf_html_grid(vf_html *h, bool search);
/* A card: picture or clip (mime image/... or video/...; NULL media: none), a title, and a caption
 * that is folded when it is long. */
void vf_html_card(vf_html *h, const void *media, size_t size, const char *mime, const char *title,
                  const char *caption);

#endif

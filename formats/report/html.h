/* html.h - builds one HTML file that opens anywhere, offline: text, tables, charts, pictures.
 *
 *     vf_html_open(&h, "Run 7", &err);
 *     vf_html_section(h, "Loss");
 *     vf_html_text(h, "%d steps", n);
 *     vf_html_line_chart(h, &chart);
 *     vf_html_write(h, "report.html", &err);
 *     vf_html_close(h);
 *
 * Style, scripts and pictures are inside the file and a content security policy allows nothing
 * else, scripts by their hashes; the browser chooses the light or the dark style. All text is
 * escaped, so that none of it is markup; bytes that are no UTF-8 become U+FFFD. Calls may come in
 * any order: a part that cannot stand inside an open table, grid or section ends it. A lack of
 * memory is remembered and returned by vf_html_write. One thread at a time. */
#ifndef FORMATS_REPORT_HTML_H
#define FORMATS_REPORT_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"

typedef struct vf_html vf_html;

int vf_html_open(vf_html **out, const char *title, vc_err *err);
void vf_html_close(vf_html *h);                  /* h may be NULL */
/* Replaces path atomically. The page may then be extended and written again. */
int vf_html_write(vf_html *h, const char *path, vc_err *err);

/* The same page as bytes, malloc'ed. */
int vf_html_text_of(vf_html *h, char **page, size_t *n, vc_err *err);

/* Makes the page one that a server gives, for vlat report --serve: it names the gallery's pictures
 * by addresses below its own, and follows its server: while the answer to HEAD has another ETag
 * than `tag`, a script loads the page and takes over what is new. */
void vf_html_serve(vf_html *h, const char *tag);
/* Adds a paragraph of links: words to addresses of the same server. */
void vf_html_links(vf_html *h, const char *const *words, const char *const *addresses, int n);
/* Makes a browser load the page again every `seconds` (0: not), so that it follows a file that is
 * written again and again. */
void vf_html_refresh(vf_html *h, int seconds);
/* Adds a heading, listed in the contents at the top. */
void vf_html_section(vf_html *h, const char *heading);
/* Adds a paragraph in larger letters: what a reader wants to know first. */
void vf_html_lead(vf_html *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds a paragraph; line ends are kept. */
void vf_html_text(vf_html *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds a line "<!-- name -->", so that a program can later replace the text between two marks.
 * name has letters, digits, blanks and '/'; other characters become '_'. */
void vf_html_mark(vf_html *h, const char *name);
/* Adds a title that unfolds to a longer text in a fixed-width font (settings, logs). */
void vf_html_fold(vf_html *h, const char *title, const char *text);

/* Starts a table of n columns; rows follow. Numbers are aligned to the right. */
void vf_html_table(vf_html *h, const char *const *columns, int n);
void vf_html_row(vf_html *h, const char *const *cells);
/* Adds a row to a table of names and values, which it starts if none is open. */
void vf_html_fact(vf_html *h, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

typedef struct vf_series {
    const char *name;
    const double *x, *y;           /* x ascends; points that are not finite are gaps */
    size_t n;
    bool faint;                    /* raw values: drawn thin and pale, behind the others */
    /* y are means, which the page smooths as its reader chooses: smooth is the line that the page
     * has without a script, [n], and weight the number of values in each mean ([n]; NULL: 1). */
    const double *smooth, *weight;
    int run;                       /* whose units x has (vf_html_x_unit) */
} vf_series;

enum { VF_HTML_SERIES = 8 };       /* the most in one chart; further series are left out */

typedef struct vf_chart {
    const char *title, *x_label, *y_label;
    bool log_y;                    /* values <= 0 are gaps */
    const vf_series *series;
    int n;
} vf_chart;

/* Adds a chart of lines. Where scripts run, its reader zooms, reads values under the pointer,
 * switches lines, chooses a log axis and how means are smoothed; all charts of a page have one
 * pointer and one range of x. Without a script it is a picture. Long series are reduced: the
 * least and greatest of each range of x stay. */
void vf_html_line_chart(vf_html *h, const vf_chart *c);
/* Lets the reader choose another unit of x ("epoch"): at x[i] run `run` is at value[i]. Both
 * ascend, and values between are interpolated. Call it for each run, before the charts or after. */
void vf_html_x_unit(vf_html *h, const char *unit, int run, const double *x, const double *value,
                    size_t n);
/* Adds one bar for each label, in the order given, with lengths from 0. Values that are negative or
 * not finite have no bar. Bars from the 31st on are folded. */
void vf_html_bars(vf_html *h, const char *title, const char *const *labels, const double *values,
                  int n);
/* Adds a chart of the number of values in each of about twenty equal ranges. Values that are not
 * finite are left out, and a line below counts them. */
void vf_html_histogram(vf_html *h, const char *title, const char *x_label, const double *values,
                       size_t n);

/* Adds a slider that moves the later step of all rows that follow, where scripts run. */
void vf_html_all_steps(vf_html *h);
/* Starts a row of one thing's pictures by step, under a heading. Where scripts run, the reader lays
 * two steps over each other and moves a handle between them. */
void vf_html_steps(vf_html *h, const char *heading);
/* Adds what stands beside the pictures of the row, before the first of them: a reference picture, a
 * control clip, the clip that they are compared with. */
void vf_html_input(vf_html *h, const void *media, size_t size, const char *mime, const char *title);
/* Adds a picture of the sound of the clip that is added next, to the row or as a card, and a
 * button that plays it where scripts run. */
void vf_html_wave(vf_html *h, const void *media, size_t size, const char *mime, const char *title);
/* Adds a picture or clip to the row; steps ascend. */
void vf_html_step(vf_html *h, const void *media, size_t size, const char *mime, const char *title,
                  int64_t step);
/* Starts a grid of cards. search: a box above the grid hides cards without the words typed. */
void vf_html_grid(vf_html *h, bool search);
/* Adds a card: a picture or clip (mime image/... or video/...; none if media is NULL), a title, and
 * a caption that is folded if it is long. */
void vf_html_card(vf_html *h, const void *media, size_t size, const char *mime, const char *title,
                  const char *caption);

#endif

/* html_parts.h - the page under construction, shared by html.c, html_text.c, html_chart.c,
 * html_numbers.c, html_rows.c and html_page.c; see html.h.
 *
 * What scripts add later has its place from the beginning: the page holds their controls, disabled,
 * and boxes of the size of what they draw, so that nothing moves however slowly a page loads. */
#ifndef FORMATS_REPORT_HTML_PARTS_H
#define FORMATS_REPORT_HTML_PARTS_H

#include "common/base/buf.h"
#include "formats/report/html.h"
#include "formats/report/picture_size.h"

/* The element that is open at the end of the body. */
typedef enum { HTML_NOTHING, HTML_TABLE, HTML_FACTS, HTML_GRID, HTML_STEPS } html_block;

/* The open row of one thing's pictures by step. It is added to the body when it ends, as its form
 * depends on what it has. */
typedef struct html_row {
    vc_buf name, inputs, shots;        /* finished HTML */
    int n;                             /* pictures in shots */
    vf_picture_size first;             /* of the first of them */
} html_row;

struct vf_html {
    vc_buf title, contents, body;      /* finished HTML */
    html_block open;
    int refresh;                       /* seconds; 0: none */
    int columns;                       /* of the open table */
    int sections, grids;
    bool charts;                       /* a line chart is in the body */
    bool served;
    char tag[80];                      /* of a served page */
    const char *address;               /* of the next picture, which the page then does not hold */
    vf_picture_size size;              /* of that picture */
    html_row row;
    vc_buf wave;                       /* of the clip that is added next; finished HTML */
    bool no_memory;                    /* memory was missing for a part */
};

/* Ends the open block. */
void html_end_block(vf_html *h);
/* Adds text with its special characters replaced; safe in elements and in quoted attributes. */
void html_escape(vc_buf *b, const char *s, size_t n);
void html_escape_str(vc_buf *b, const char *s);
/* Adds <tag>text</tag>. */
void html_put_element(vc_buf *b, const char *tag, const char *text);
/* html_rows.c. Adds a picture as data, or its address if h has one, which is used up; returns its
 * size. */
vf_picture_size html_put_media(vf_html *h, vc_buf *b, const void *media, size_t size,
                               const char *mime, const char *title);
/* html_rows.c. Adds the wave of the clip that was added, if it has one. */
void html_put_wave(vf_html *h, vc_buf *b);
/* html_rows.c. Adds the open row to the body. */
void html_put_row(vf_html *h);
/* Whether the page's charts react, as the build found the library that draws them. */
bool html_charts_react(void);

/* Adds a JSON string that stands within a <script> element: it has no '<', '>' and '&'. */
void html_json_str(vc_buf *b, const char *s);
/* html_numbers.c. Adds the numbers of a chart's first n series as JSON, for charts.js. */
void html_put_numbers(vc_buf *b, const vf_chart *c, int n);
/* html_page.c. Adds the whole page: the parts of h, with style and scripts. */
void html_put_page(vc_buf *page, const vf_html *h);

#endif

/* html_parts.h - the page under construction, shared by html.c, html_chart.c, html_numbers.c
 * and html_page.c; see html.h. */
#ifndef FORMATS_REPORT_HTML_PARTS_H
#define FORMATS_REPORT_HTML_PARTS_H

#include "common/base/buf.h"
#include "formats/report/html.h"

/* The element that is open at the end of the body. */
typedef enum { HTML_NOTHING, HTML_TABLE, HTML_FACTS, HTML_GRID, HTML_STEPS } html_block;

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
    bool no_memory;                    /* memory was missing for a part */
};

/* Ends the open block. */
void html_end_block(vf_html *h);
/* Adds text with its special characters replaced; safe in elements and in quoted attributes. */
void html_escape(vc_buf *b, const char *s, size_t n);
void html_escape_str(vc_buf *b, const char *s);

/* Adds a JSON string that stands within a <script> element: it has no '<', '>' and '&'. */
void html_json_str(vc_buf *b, const char *s);
/* html_numbers.c. Adds the numbers of a chart's first n series as JSON, for charts.js. */
void html_put_numbers(vc_buf *b, const vf_chart *c, int n);
/* html_page.c. Adds the whole page: the parts of h, with style and scripts. */
void html_put_page(vc_buf *page, const vf_html *h);

#endif

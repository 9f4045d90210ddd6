/* html_parts.h - the page under construction, shared by html.c and html_chart.c; see html.h. */
#ifndef FORMATS_REPORT_HTML_PARTS_H
#define FORMATS_REPORT_HTML_PARTS_H

#include "common/base/buf.h"
#include "formats/report/html.h"

/* The element that is open at the end of the body. */
typedef enum { HTML_NOTHING, HTML_TABLE, HTML_FACTS, HTML_GRID } html_block;

struct vf_html {
    vc_buf title, contents, body;      /* finished HTML */
    html_block open;
    int refresh;                       /* seconds; 0: none */
    int columns;                       /* of the open table */
    int sections, grids;
    bool no_memory;                    /* memory was missing for a part */
};

/* Ends the open block. */
void html_end_block(vf_html *h);
/* Adds text with its special characters replaced; safe in elements and in quoted attributes. */
void html_escape(vc_buf *b, const char *s, size_t n);
void html_escape_str(vc_buf *b, const char *s);

/* Fixed text of the page: before the title, between title and contents (in the head and in the
 * body), between contents and body,
 * and after the body. */
extern const char html_head[], html_after_title[], html_body[], html_after_contents[], html_end[];

#endif

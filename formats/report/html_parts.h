/* html_parts.h - what html.c and html_chart.c share; see html.h. */
#ifndef FORMATS_REPORT_HTML_PARTS_H
#define FORMATS_REPORT_HTML_PARTS_H

#include "common/base/buf.h"
#include "formats/report/html.h"

/* What stands open at the end of the body. */
typedef enum { HTML_NOTHING, HTML_TABLE, HTML_FACTS, HTML_GRID } html_block;

struct vf_html {
    vc_buf title, contents, body;      /* finished HTML */
    html_block open;
    int columns;                       /* of the open table */
    int sections, grids;
    bool no_memory;                    /* where a part could not be made at all */
};

/* Ends whatever block is open. */
void html_end_block(vf_html *h);
/* Text with its special characters replaced; safe in elements and in quoted attributes. */
void html_escape(vc_buf *b, const char *s, size_t n);
void html_escape_str(vc_buf *b, const char *s);

/* Head of the page up to the title's text, from there to the contents, from there to the body, and
 * the end. */
extern const char html_head[], html_after_title[], html_after_contents[], html_end[];

#endif

/* html_rows.c - the markup of pictures and of rows of one thing's pictures by step; see
 * html_parts.h
 *
 * A clip with sound has the picture of its wave below, and a button that plays it where page.js
 * runs. A row with two pictures or more has a box in front, as large as the first picture, in which
 * page.js lays two steps over each other. */
#include <string.h>

#include "formats/report/html_parts.h"

vf_picture_size html_put_media(vf_html *h, vc_buf *b, const void *media, size_t size,
                               const char *mime, const char *title)
{
    const bool clip = !strncmp(mime, "video/", 6);
    const vf_picture_size shown = h->address ? h->size : vf_picture_size_of(media, size);

    vc_buf_str(b, clip ? "<video controls loop muted playsinline preload=\"metadata\" title=\""
                       : "<img loading=\"lazy\" decoding=\"async\" alt=\"");
    html_escape_str(b, title);
    if (shown.w)
        vc_buf_printf(b, "\" width=\"%d\" height=\"%d", shown.w, shown.h);
    vc_buf_str(b, "\" src=\"");
    if (h->address)
        html_escape_str(b, h->address);
    else {
        vc_buf_str(b, "data:");
        html_escape_str(b, mime);
        vc_buf_str(b, ";base64,");
        vc_buf_base64(b, media, size);
    }
    h->address = NULL;
    vc_buf_str(b, clip ? "\"></video>\n" : "\">\n");
    return shown;
}

void vf_html_wave(vf_html *h, const void *media, size_t size, const char *mime, const char *title)
{
    vc_buf *b = &h->wave;
    b->n = 0;
    vc_buf_str(b, "<div class=\"sound\"><div class=\"wave\">");
    html_put_media(h, b, media, size, mime, title);
    vc_buf_str(b, "<i></i></div><button type=\"button\" class=\"player\" disabled>Play the sound"
               "</button></div>\n");
}

void html_put_wave(vf_html *h, vc_buf *b)
{
    b->failed = b->failed || h->wave.failed;
    vc_buf_add(b, h->wave.data, h->wave.n);
    h->wave.n = 0;
}

/* Adds name="BEFORE NAME OF THE ROW". */
static void put_label(vf_html *h, const char *before)
{
    vc_buf_printf(&h->body, " aria-label=\"%s", before);
    vc_buf_add(&h->body, h->row.name.data, h->row.name.n);
    vc_buf_str(&h->body, "\"");
}

static void put_pair(vf_html *h)
{
    const vf_picture_size s = h->row.first;
    vc_buf_str(&h->body, "<div class=\"pair\"><div class=\"stack\"");
    if (s.w)
        vc_buf_printf(&h->body, " style=\"aspect-ratio: %d / %d\"", s.w, s.h);
    vc_buf_str(&h->body, "></div><div class=\"choice\"></div></div>\n");
}

void html_put_row(vf_html *h)
{
    html_row *row = &h->row;
    vc_buf *b = &h->body;
    const bool pair = row->n > 1;

    b->failed = b->failed || row->name.failed || row->inputs.failed || row->shots.failed;
    vc_buf_printf(b, "<div class=\"prompt%s%s\">\n", row->inputs.n ? " beside" : "",
                  pair ? " two" : "");
    if (row->inputs.n) {
        vc_buf_str(b, "<div class=\"inputs\" role=\"group\"");
        put_label(h, "Inputs of ");
        vc_buf_str(b, ">\n");
        vc_buf_add(b, row->inputs.data, row->inputs.n);
        vc_buf_str(b, "</div>\n");
    }
    if (pair)
        put_pair(h);
    vc_buf_str(b, "<div class=\"steps\"");
    put_label(h, "");
    vc_buf_str(b, ">\n");
    vc_buf_add(b, row->shots.data, row->shots.n);
    vc_buf_str(b, "</div></div>\n");
    row->shots.n = row->inputs.n = 0;
}

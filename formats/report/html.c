/* html.c - see html.h; charts are in html_chart.c, the markup of pictures in html_rows.c, style and
 * script in html_page.c */
#include "formats/report/html.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/report/html_parts.h"

enum { SHORT_CAPTION = 120 };          /* bytes of a caption shown while it is folded */

/* ---- text ---- */

/* Formats and escapes the text. */
static void put_format(vf_html *h, const char *fmt, va_list ap)
{
    char *s = NULL;

    if (vasprintf(&s, fmt, ap) < 0) {
        h->no_memory = true;
        return;
    }
    html_escape_str(&h->body, s);
    free(s);
}

/* ---- page ---- */

int vf_html_open(vf_html **out, const char *title, vc_err *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return vc_no_memory(err);
    html_escape_str(&(*out)->title, title);
    return 0;
}

void vf_html_close(vf_html *h)
{
    if (!h)
        return;
    vc_buf_free(&h->title);
    vc_buf_free(&h->contents);
    vc_buf_free(&h->body);
    vc_buf_free(&h->row.name);
    vc_buf_free(&h->row.inputs);
    vc_buf_free(&h->row.shots);
    vc_buf_free(&h->wave);
    free(h);
}

void html_end_block(vf_html *h)
{
    static const char *const ends[] = {
        [HTML_NOTHING] = "", [HTML_TABLE] = "</table></div>\n", [HTML_FACTS] = "</table></div>\n",
        [HTML_GRID] = "</div>\n", [HTML_STEPS] = "",
    };
    if (h->open == HTML_STEPS)
        html_put_row(h);
    vc_buf_str(&h->body, ends[h->open]);
    h->open = HTML_NOTHING;
}

int vf_html_text_of(vf_html *h, char **text, size_t *n, vc_err *err)
{
    vc_buf page = { 0 };

    html_end_block(h);
    html_put_page(&page, h);
    bool failed = h->no_memory || h->title.failed || h->contents.failed || h->body.failed
                  || page.failed;
    *n = page.n;
    *text = failed ? NULL : vc_buf_take(&page);
    vc_buf_free(&page);
    return *text ? 0 : vc_no_memory(err);
}

int vf_html_write(vf_html *h, const char *path, vc_err *err)
{
    char *page;
    size_t n;
    int rc = vc_context(err, vf_html_text_of(h, &page, &n, err), "%s", path);
    if (!rc)
        rc = vc_file_write(path, page, n, err);
    free(page);
    return rc;
}

void vf_html_serve(vf_html *h, const char *tag)
{
    h->served = true;
    snprintf(h->tag, sizeof h->tag, "%s", tag);
}

void vf_html_links(vf_html *h, const char *const *words, const char *const *addresses, int n)
{
    html_end_block(h);
    vc_buf_str(&h->body, "<nav>\n");
    for (int i = 0; i < n; i++) {
        vc_buf_str(&h->body, "<a href=\"");
        html_escape_str(&h->body, addresses[i]);
        vc_buf_str(&h->body, "\">");
        html_escape_str(&h->body, words[i]);
        vc_buf_str(&h->body, "</a>\n");
    }
    vc_buf_str(&h->body, "</nav>\n");
}

void vf_html_refresh(vf_html *h, int seconds)
{
    h->refresh = seconds;
}

void vf_html_section(vf_html *h, const char *heading)
{
    html_end_block(h);
    h->sections++;
    vc_buf_printf(&h->contents, "<a href=\"#s%d\">", h->sections);
    html_escape_str(&h->contents, heading);
    vc_buf_str(&h->contents, "</a>\n");
    vc_buf_printf(&h->body, "<h2 id=\"s%d\">", h->sections);
    html_escape_str(&h->body, heading);
    vc_buf_str(&h->body, "</h2>\n");
}

void vf_html_text(vf_html *h, const char *fmt, ...)
{
    va_list ap;

    html_end_block(h);
    vc_buf_str(&h->body, "<p>");
    va_start(ap, fmt);
    put_format(h, fmt, ap);
    va_end(ap);
    vc_buf_str(&h->body, "</p>\n");
}

void vf_html_lead(vf_html *h, const char *fmt, ...)
{
    va_list ap;

    html_end_block(h);
    vc_buf_str(&h->body, "<p class=\"lead\">");
    va_start(ap, fmt);
    put_format(h, fmt, ap);
    va_end(ap);
    vc_buf_str(&h->body, "</p>\n");
}

void vf_html_mark(vf_html *h, const char *name)
{
    html_end_block(h);
    vc_buf_str(&h->body, "<!-- ");
    for (; *name; name++)
        vc_buf_add(&h->body, isalnum((unsigned char)*name) || strchr(" /", *name) ? name : "_", 1);
    vc_buf_str(&h->body, " -->\n");
}

void vf_html_fold(vf_html *h, const char *title, const char *text)
{
    html_end_block(h);
    vc_buf_str(&h->body, "<details>");
    html_put_element(&h->body, "summary", title);
    html_put_element(&h->body, "pre", text);
    vc_buf_str(&h->body, "</details>\n");
}

/* ---- tables ---- */

/* Whether the cell is a number, perhaps with a unit: "1,024", "-3.5e-05", "12 %", "4.2 GiB". */
static bool is_number(const char *s)
{
    s += strspn(s, "+-");
    size_t n = strspn(s, "0123456789.,eE+-");

    if (*s < '0' || *s > '9')
        return false;
    s += n;
    return !*s || !strcmp(s, "%") || (*s == ' ' && strlen(s) <= 6 && !strpbrk(s, "0123456789"));
}

/* Whether the cell is short enough to stay on one line beside long cells. */
static bool is_short_word(const char *s)
{
    return strlen(s) <= 12 && !strchr(s, ' ');
}

static void put_cell(vf_html *h, const char *text)
{
    vc_buf_str(&h->body, is_number(text) ? "<td class=\"n\">"
                         : is_short_word(text) ? "<td class=\"w\">" : "<td>");
    html_escape_str(&h->body, text);
    vc_buf_str(&h->body, "</td>");
}

void vf_html_table(vf_html *h, const char *const *columns, int n)
{
    html_end_block(h);
    vc_buf_str(&h->body, "<div class=\"scroll\"><table>\n<tr>");
    for (int i = 0; i < n; i++)
        html_put_element(&h->body, "th", columns[i]);
    vc_buf_str(&h->body, "</tr>\n");
    h->open = HTML_TABLE;
    h->columns = n;
}

void vf_html_row(vf_html *h, const char *const *cells)
{
    if (h->open != HTML_TABLE)
        return;
    vc_buf_str(&h->body, "<tr>");
    for (int i = 0; i < h->columns; i++)
        put_cell(h, cells[i]);
    vc_buf_str(&h->body, "</tr>\n");
}

void vf_html_fact(vf_html *h, const char *name, const char *fmt, ...)
{
    va_list ap;

    if (h->open != HTML_FACTS) {
        html_end_block(h);
        vc_buf_str(&h->body, "<div class=\"scroll\"><table class=\"facts\">\n");
        h->open = HTML_FACTS;
    }
    vc_buf_str(&h->body, "<tr>");
    html_put_element(&h->body, "th", name);
    vc_buf_str(&h->body, "<td>");
    va_start(ap, fmt);
    put_format(h, fmt, ap);
    va_end(ap);
    vc_buf_str(&h->body, "</td></tr>\n");
}

/* ---- rows of pictures by step ---- */

void vf_html_all_steps(vf_html *h)
{
    html_end_block(h);
    vc_buf_str(&h->body, "<div class=\"controls still\"><label>All prompts at "
               "<input type=\"range\" id=\"all-steps\" disabled></label><output></output></div>\n");
}

void vf_html_steps(vf_html *h, const char *heading)
{
    html_end_block(h);
    html_put_element(&h->body, "h3", heading);
    vc_buf_str(&h->body, "\n");
    h->row.name.n = h->row.inputs.n = h->row.shots.n = 0;
    h->row.n = 0;
    html_escape_str(&h->row.name, heading);
    h->open = HTML_STEPS;
}

void vf_html_input(vf_html *h, const void *media, size_t size, const char *mime, const char *title)
{
    if (h->open != HTML_STEPS)
        vf_html_steps(h, "");
    vc_buf *b = &h->row.inputs;
    vc_buf_str(b, "<figure class=\"input\">");
    html_put_media(h, b, media, size, mime, title);
    html_put_element(b, "figcaption", title);
    vc_buf_str(b, "</figure>\n");
}

void vf_html_step(vf_html *h, const void *media, size_t size, const char *mime, const char *title,
                  int64_t step)
{
    if (h->open != HTML_STEPS)
        vf_html_steps(h, "");
    vc_buf *b = &h->row.shots;
    vc_buf_printf(b, "<figure data-step=\"%lld\">", (long long)step);
    const vf_picture_size shown = html_put_media(h, b, media, size, mime, title);
    if (h->row.n++ == 0)
        h->row.first = shown;
    html_put_wave(h, b);
    html_put_element(b, "figcaption", title);
    vc_buf_str(b, "</figure>\n");
}

/* ---- cards ---- */

void vf_html_grid(vf_html *h, bool search)
{
    html_end_block(h);
    h->grids++;
    if (search)
        vc_buf_printf(&h->body, "<div class=\"find\"><input type=\"search\" id=\"find%d\" "
                      "aria-label=\"search\" placeholder=\"search\"><output></output></div>\n",
                      h->grids);
    vc_buf_str(&h->body, "<div class=\"grid\">\n");
    h->open = HTML_GRID;
}

/* Length of the start of a long caption, cut between characters, after a word if one ends
 * nearby. */
static size_t short_length(const char *s)
{
    size_t n = SHORT_CAPTION;

    while (n > SHORT_CAPTION - 30 && s[n] != ' ')
        n--;
    if (s[n] != ' ')
        for (n = SHORT_CAPTION; n > SHORT_CAPTION - 4 && ((unsigned char)s[n] & 0xc0) == 0x80;)
            n--;
    return n;
}

static void put_caption(vc_buf *b, const char *caption)
{
    if (strlen(caption) <= SHORT_CAPTION + 20) {
        if (*caption)
            html_put_element(b, "p", caption);
        return;
    }
    vc_buf_str(b, "<details><summary><span>");
    html_escape(b, caption, short_length(caption));
    vc_buf_str(b, " \xe2\x80\xa6</span></summary>");
    html_put_element(b, "p", caption);
    vc_buf_str(b, "</details>");
}

void vf_html_card(vf_html *h, const void *media, size_t size, const char *mime, const char *title,
                  const char *caption)
{
    if (h->open != HTML_GRID)
        vf_html_grid(h, false);
    vc_buf_str(&h->body, "<div class=\"card\">");
    if (media || h->address)
        html_put_media(h, &h->body, media, size, mime, title);
    html_put_wave(h, &h->body);
    vc_buf_str(&h->body, "<div>");
    html_put_element(&h->body, "h3", title);
    put_caption(&h->body, caption);
    vc_buf_str(&h->body, "</div></div>\n");
}

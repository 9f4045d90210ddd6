/* html_text.c - text that becomes HTML or JSON within it; see html_parts.h */
#include <stdio.h>
#include <string.h>

#include "common/base/utf8.h"
#include "formats/report/html_parts.h"

static const char *entity(unsigned char c)
{
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    case '\n': case '\t': return NULL;
    default: return c < 0x20 || c == 0x7f ? "\xef\xbf\xbd" : NULL;
    }
}

void html_escape(vc_buf *b, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t good = i + vc_utf8_prefix(s + i, n - i), from = i;
        for (; i < good; i++) {
            const char *e = entity((unsigned char)s[i]);
            if (!e)
                continue;
            vc_buf_add(b, s + from, i - from);
            vc_buf_str(b, e);
            from = i + 1;
        }
        vc_buf_add(b, s + from, i - from);
        if (i < n) {
            vc_buf_str(b, "\xef\xbf\xbd");
            i++;
        }
    }
}

void html_escape_str(vc_buf *b, const char *s)
{
    html_escape(b, s, strlen(s));
}

void html_json_str(vc_buf *b, const char *s)
{
    vc_buf text = { 0 };
    vc_buf_json(&text, s, strlen(s));
    for (size_t i = 0; i < text.n; i++) {
        const char c = text.data[i];
        if (c == '<' || c == '>' || c == '&')
            vc_buf_printf(b, "\\u%04x", (unsigned)c);
        else
            vc_buf_add(b, &c, 1);
    }
    b->failed = b->failed || text.failed;
    vc_buf_free(&text);
}

void html_put_element(vc_buf *b, const char *tag, const char *text)
{
    vc_buf_printf(b, "<%s>", tag);
    html_escape_str(b, text);
    vc_buf_printf(b, "</%s>", tag);
}

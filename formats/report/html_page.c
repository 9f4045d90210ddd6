/* html_page.c - the page around the body: head, style, scripts, and the policy that allows these
 * scripts alone, by their hashes. */
#include <stdint.h>
#include <stdlib.h>

#include "common/base/sha256.h"
#include "formats/report/html_parts.h"
#include "formats/report/page_files.h"

/* Adds the source expression of a policy that allows the script: its SHA-256 in base64. */
static void put_hash(vc_buf *page, const vf_page_file *script)
{
    char hex[VC_SHA256_HEX];
    uint8_t bytes[(VC_SHA256_HEX - 1) / 2];
    vc_sha256(hex, script->data, script->n);
    for (size_t i = 0; i < sizeof bytes; i++) {
        const char pair[] = { hex[2 * i], hex[2 * i + 1], 0 };
        bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    vc_buf_str(page, " 'sha256-");
    vc_buf_base64(page, bytes, sizeof bytes);
    vc_buf_str(page, "'");
}

static void put_file(vc_buf *page, const char *tag, const vf_page_file *f)
{
    if (!f->n)
        return;
    vc_buf_printf(page, "<%s>", tag);
    vc_buf_add(page, f->data, f->n);
    vc_buf_printf(page, "</%s>\n", tag);
}

enum { SCRIPTS = 4 };

bool html_charts_react(void)
{
    return vf_page_dygraph_js.n > 0;
}

static bool has_charts(const vf_html *h)
{
    return h->charts && html_charts_react();
}

/* Without scripts their controls and boxes are not shown. */
static const char still[] =
    "<noscript><style>.controls, .legend input, .legend output, .legend .end, .pair, .follows, "
    ".axes, .player { display: none } .lines .chart { height: auto } .lines svg { height: auto } "
    ".prompt { display: block }</style></noscript>\n";

/* The scripts of a page in their order: dygraphs and the charts' script only where charts are. */
static int scripts_of(const vf_html *h, const vf_page_file *list[SCRIPTS])
{
    int n = 0;
    if (has_charts(h))
        list[n++] = &vf_page_dygraph_js;
    list[n++] = &vf_page_js;
    if (has_charts(h))
        list[n++] = &vf_page_charts_js;
    if (h->served)
        list[n++] = &vf_page_live_js;
    return n;
}

static void put_head(vc_buf *page, const vf_html *h, const vf_page_file *const *script, int n)
{
    const char *own = h->served ? " 'self'" : "";
    vc_buf_str(page, "<!doctype html>\n<html lang=\"en\"");
    if (h->served)
        vc_buf_printf(page, " data-tag=\"%s\"", h->tag);
    vc_buf_str(page, ">\n<head>\n<meta charset=\"utf-8\">\n");
    vc_buf_printf(page, "<meta http-equiv=\"Content-Security-Policy\" content=\""
                  "default-src 'none'; img-src data:%s; media-src data:%s; %s"
                  "style-src 'unsafe-inline'; script-src",
                  own, own, h->served ? "connect-src 'self'; " : "");
    for (int i = 0; i < n; i++)
        put_hash(page, script[i]);
    vc_buf_str(page, "\">\n<meta name=\"viewport\" content=\"width=device-width, "
               "initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n");
    if (has_charts(h))
        put_file(page, "style", &vf_page_dygraph_css);
    put_file(page, "style", &vf_page_css);
    vc_buf_str(page, still);
    vc_buf_str(page, "<title>");
    vc_buf_add(page, h->title.data, h->title.n);
    vc_buf_str(page, "</title>\n");
    if (h->refresh > 0)
        vc_buf_printf(page, "<meta http-equiv=\"refresh\" content=\"%d\">\n", h->refresh);
    if (h->served)
        vc_buf_str(page, "<link rel=\"icon\" href=\"data:,\">\n");
    vc_buf_str(page, "</head>\n");
}

void html_put_page(vc_buf *page, const vf_html *h)
{
    const vf_page_file *script[SCRIPTS];
    const int n = scripts_of(h, script);

    put_head(page, h, script, n);
    vc_buf_str(page, "<body>\n<h1>");
    vc_buf_add(page, h->title.data, h->title.n);
    vc_buf_str(page, "</h1>\n");
    if (h->served)
        vc_buf_str(page, "<output class=\"follows\"></output>\n");
    if (h->sections > 1) {
        vc_buf_str(page, "<nav>\n");
        vc_buf_add(page, h->contents.data, h->contents.n);
        vc_buf_str(page, "</nav>\n");
    }
    vc_buf_str(page, "<main>\n");
    vc_buf_add(page, h->body.data, h->body.n);
    vc_buf_str(page, "<hr hidden></main>\n");   /* the last part is whole: see page.css */
    for (int i = 0; i < n; i++)
        put_file(page, "script", script[i]);
    vc_buf_str(page, "</body>\n</html>\n");
}

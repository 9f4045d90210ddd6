/* browse.c - see browse.h */
#include "formats/report/browse.h"

#include "formats/report/html_parts.h"

/* Where a name stands in browse.html, and what stands in front of two datasets' choice alone. */
#define NAME "{names}"
#define ONE " data-one"

static void put_names(vc_buf *page, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        vc_buf_str(page, i ? " and " : "");
        html_escape_str(page, names[i]);
    }
}

void vf_browse_put(vc_buf *page, const char *const *names, int n)
{
    const char *at = (const char *)vf_browse_page, *end = at + vf_browse_page_size;
    while (at < end) {
        const char *name = memmem(at, (size_t)(end - at), NAME, strlen(NAME));
        const char *one = memmem(at, (size_t)(end - at), ONE, strlen(ONE));
        const char *next = name && (!one || name < one) ? name : one;
        vc_buf_add(page, at, (size_t)((next ? next : end) - at));
        if (next && next == name)
            put_names(page, names, n);
        else if (next && n == 1)
            vc_buf_str(page, " hidden");
        at = !next ? end : next + strlen(next == name ? NAME : ONE);
    }
}

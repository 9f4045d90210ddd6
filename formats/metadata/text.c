/* text.c - texts, and lists of texts, that the readers of lists share; see parts.h */
#include "formats/metadata/parts.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/utf8.h"
#include "common/os/file.h"

enum { MAX_CAPTION = 1 << 20 };

int metadata_copy(char **to, const char *s, size_t n, vc_err *why)
{
    char *p = malloc(n + 1);

    if (!p)
        return vc_no_memory(why);
    memcpy(p, s, n);
    p[n] = 0;
    *to = p;
    return 0;
}

int metadata_append(char ***list, int *count, const char *s, size_t n, vc_err *why)
{
    if ((*count & (*count - 1)) == 0) {
        size_t room = *count ? 2 * (size_t)*count : 1;
        char **more = realloc(*list, room * sizeof *more);
        if (!more)
            return vc_no_memory(why);
        *list = more;
    }
    int rc = metadata_copy(&(*list)[*count], s, n, why);
    *count += rc == 0;
    return rc;
}

bool metadata_listed(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *p = list; p && *p;) {
        p += strspn(p, ", ");
        size_t len = strcspn(p, ", ");
        if (len == n && n && !memcmp(p, name, n))
            return true;
        p += len;
    }
    return false;
}

int metadata_say_from(vf_row *r, const char *from, vc_err *err)
{
    char *copy = strdup(from);

    if (!copy)
        return vc_no_memory(err);
    free(r->caption_from);
    r->caption_from = copy;
    return 0;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void metadata_trim(const char **s, size_t *n)
{
    while (*n && blank(**s))
        ++*s, --*n;
    while (*n && blank((*s)[*n - 1]))
        --*n;
}

/* Appends the lines of a text that are not blank, without blanks around them. */
static int add_lines(vf_row *r, const char *s, size_t n, vc_err *why)
{
    int rc = 0;

    for (const char *end = s + n, *next; s < end && !rc; s = next) {
        const char *nl = memchr(s, '\n', (size_t)(end - s)), *line = s;
        size_t length = (size_t)((nl ? nl : end) - s);
        next = nl ? nl + 1 : end;
        metadata_trim(&line, &length);
        if (length)
            rc = metadata_append(&r->captions, &r->n_captions, line, length, why);
    }
    return rc;
}

int metadata_add_text(vf_row *r, const char *s, size_t n, bool lines, vc_err *why)
{
    metadata_trim(&s, &n);
    return lines && n ? add_lines(r, s, n, why)
                      : metadata_append(&r->captions, &r->n_captions, s, n, why);
}

int metadata_read_text(vf_row *r, const char *path, const char *from, bool lines, vc_err *why)
{
    char *text = NULL;
    size_t n = 0;

    int rc = vc_file_read(&text, &n, path, MAX_CAPTION, why);
    if (rc)
        return rc;
    size_t bom = n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
    const char *s = text + bom;
    n -= bom;
    rc = vc_context(why, vc_utf8_check(s, n, why), "its %s caption is not UTF-8 text", from);
    if (!rc)
        rc = metadata_add_text(r, s, n, lines, why);
    free(text);
    return rc ? rc : metadata_say_from(r, from, why);
}

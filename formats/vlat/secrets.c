/* secrets.c - see secrets.h */
#include "formats/vlat/secrets.h"

#include <string.h>

#include "common/base/buf.h"

/* Returns the length of the address at s, which follows "://". */
static size_t length_of(const char *s, bool whole)
{
    static const char blanks[] = " \t\r\n";
    if (whole)
        return strlen(s);
    size_t n = 0;
    while (s[n] && !strchr(" \t\r\n\"'`<>", s[n]) &&
           !(strchr(":;,)", s[n]) && (!s[n + 1] || strchr(blanks, s[n + 1]))))
        n++;
    return n;
}

static size_t until(const char *s, size_t n, const char *any)
{
    size_t i = 0;
    while (i < n && !strchr(any, s[i]))
        i++;
    return i;
}

static size_t last_at(const char *s, size_t n)
{
    while (n && s[n - 1] != '@')
        n--;
    return n ? n - 1 : 0;
}

/* True if "host:text" has a text that is no port, as the beginning of a password with a / in it. */
static bool odd_port(const char *s, size_t n)
{
    size_t colon = until(s, n, ":");
    if (*s == '[' || colon == n)
        return false;
    return colon + 1 == n || strspn(s + colon + 1, "0123456789") < n - colon - 1;
}

/* Returns the place of the '@' behind the user's name and password, or 0. */
static size_t user_end(const char *s, size_t n)
{
    size_t host = until(s, n, "/?#"), at = last_at(s, host);
    return at || !odd_port(s, host) ? at : last_at(s, n);
}

char *vlat_without_secrets(const char *text, bool whole)
{
    vc_buf out = { 0 };
    const char *mark;
    vc_buf_str(&out, "");
    for (; (mark = strstr(text, "://")); text = mark) {
        mark += 3;
        vc_buf_add(&out, text, (size_t)(mark - text));
        size_t n = length_of(mark, whole), at = user_end(mark, n);
        size_t name = at ? until(mark, at, ":") : 0;
        if (at) {
            vc_buf_add(&out, mark, name < at ? name + 1 : 0);
            vc_buf_str(&out, "***");
        }
        vc_buf_add(&out, mark + at, until(mark + at, n - at, "?#"));
        mark += n;
    }
    vc_buf_str(&out, text);
    return vc_buf_take(&out);
}

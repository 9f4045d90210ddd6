/* secrets.c - see secrets.h */
#include "common/base/secrets.h"

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

/* Returns the place of the '@' in USER:PASSWORD@HOST:FOLDER, or HOST/FOLDER, and the length of
 * USER; 0: it is no such text, as HOST:/FOLDER is not, whatever is in the folder's name. */
static size_t login_end(const char *s, size_t n, size_t *user)
{
    static const char *const paths[] = { "/", "./", "../", "~/" };
    static const char host[] = "abcdefghijklmnopqrstuvwxyz" "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789.-_[]";
    *user = until(s, n, ":@/");
    if (!*user || *user == n || s[*user] != ':')
        return 0;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (!strncmp(s + *user + 1, paths[i], strlen(paths[i])))
            return 0;
    for (size_t at = n; at-- > *user + 1;) {
        size_t end = at + 1 + strspn(s + at + 1, host);
        if (s[at] == '@' && end > at + 1 && end < n && strchr(":/", s[end]))
            return at;
    }
    return 0;
}

bool vc_has_password(const char *where)
{
    size_t user;
    return login_end(where, strlen(where), &user) > 0;
}

/* Adds n letters, with *** for the passwords of USER:PASSWORD@HOST:FOLDER. */
static void add_logins(vc_buf *out, const char *s, size_t n, bool whole)
{
    for (size_t some; n; s += some, n -= some) {
        size_t user, at;
        some = whole ? n : until(s, n, " \t\r\n\"'`<>(");
        at = login_end(s, some, &user);
        if (at) {
            vc_buf_add(out, s, user + 1);
            vc_buf_str(out, "***");
        }
        some += some < n;                    /* the letter that ends it */
        vc_buf_add(out, s + at, some - at);
    }
}

char *vc_without_secrets(const char *text, bool whole)
{
    vc_buf out = { 0 };
    const char *mark;
    vc_buf_str(&out, "");
    for (; (mark = strstr(text, "://")); text = mark) {
        mark += 3;
        add_logins(&out, text, (size_t)(mark - 3 - text), false);
        vc_buf_str(&out, "://");
        size_t n = length_of(mark, whole), at = user_end(mark, n);
        size_t name = at ? until(mark, at, ":") : 0;
        if (at) {
            vc_buf_add(&out, mark, name < at ? name + 1 : 0);
            vc_buf_str(&out, "***");
        }
        vc_buf_add(&out, mark + at, until(mark + at, n - at, "?#"));
        mark += n;
    }
    add_logins(&out, text, strlen(text), whole);
    return vc_buf_take(&out);
}

/* clean.c - see clean.h */
#include "precompute/text/clean.h"

#include <stdlib.h>
#include <string.h>

#include "precompute/text/entities.h"
#include "precompute/text/repair.h"
#include "precompute/tokenizer/text.h"

/* Replaces every reference once; NULL: out of memory. */
static char *unescape(const char *s)
{
    vc_buf out = { 0 };

    while (*s) {
        size_t plain = strcspn(s, "&"), n;
        vc_buf_add(&out, s, plain);
        s += plain;
        if (!*s)
            break;
        n = s[1] == '#' ? text_numbered(&out, s + 2) : text_named(&out, s + 1);
        if (!n)
            vc_buf_add(&out, s, 1);
        s += n ? n + 1 + (s[1] == '#') : 1;
    }
    return vc_buf_take(&out);
}

/* The white space that Python removes at the ends of a text: Unicode's and four separators. */
static bool is_end(uint32_t c) { return tok_is(c, TOK_IS_SPACE) || (c >= 0x1C && c <= 0x1F); }

/* The place of the character that ends at `end`. */
static const char *last_char(const char *end)
{
    do
        end--;
    while ((*end & 0xC0) == 0x80);
    return end;
}

/* The text of s without white space at its ends, which begins at the result and ends at *to. */
static const char *inner(const char *s, const char **to)
{
    const char *at = s, *end = s + strlen(s);
    size_t n;

    while (at < end && is_end(tok_char(at, &n)))
        at += n;
    while (at < end && is_end(tok_last_char(at, (size_t)(end - at))))
        end = last_char(end);
    *to = end;
    return at;
}

char *text_strip(const char *prompt)
{
    const char *end, *at = inner(prompt, &end);

    return strndup(at, (size_t)(end - at));
}

/* Makes one blank of each run of white space in valid UTF-8. */
static char *collapse(const char *s)
{
    vc_buf out = { 0 };
    size_t n;

    const char *end, *at = inner(s, &end);
    for (bool blank = false, was; at < end; at += n) {
        was = blank;
        blank = tok_is(tok_char(at, &n), TOK_IS_SPACE);
        if (!blank)
            vc_buf_add(&out, at, n);
        else if (!was)
            vc_buf_str(&out, " ");
    }
    return vc_buf_take(&out);
}

/* Cleans valid UTF-8. */
static char *clean(const char *text)
{
    char *once = unescape(text), *twice = once ? unescape(once) : NULL;
    char *cleaned = twice ? collapse(twice) : NULL;

    free(once);
    free(twice);
    return cleaned;
}

static char *valid(const char *prompt)
{
    vc_buf out = { 0 };

    tok_repair(&out, prompt, strlen(prompt));
    return vc_buf_take(&out);
}

char *text_clean(const char *prompt)
{
    char *text = valid(prompt), *repaired = text ? text_repair(text) : NULL;
    char *cleaned = repaired ? clean(repaired) : NULL;

    free(text);
    free(repaired);
    return cleaned;
}

bool text_is_repaired(const char *prompt)
{
    char *text = text_needs_repair(prompt) ? valid(prompt) : NULL;
    char *without = text ? clean(text) : NULL, *with = without ? text_clean(prompt) : NULL;
    const bool differs = with && strcmp(with, without);

    free(text);
    free(without);
    free(with);
    return differs;
}

bool text_is_clean(const char *prompt)
{
    char *text = valid(prompt), *cleaned = text ? clean(text) : NULL;
    const bool same = cleaned && !strcmp(cleaned, prompt);

    free(text);
    free(cleaned);
    return same;
}

/* ---- texts in quotes ---- */

typedef struct quoted { const char *at; size_t n; } quoted;

/* The pairs of quotes, in UTF-8. */
static const struct { const char *open, *close; } quotes[] = {
    { "\"", "\"" }, { "\xe2\x80\x9c", "\xe2\x80\x9d" }
};

/* The text in quotes that begins at s, and the place behind it in *end; at NULL: none begins. */
static quoted quoted_at(const char *s, const char **end)
{
    for (size_t i = 0; i < sizeof quotes / sizeof *quotes; i++) {
        const size_t n = strlen(quotes[i].open);
        if (strncmp(s, quotes[i].open, n))
            continue;
        const char *close = strstr(s + n, quotes[i].close), *line = strchr(s + n, '\n');
        if (!close || (line && line < close))
            continue;
        *end = close + strlen(quotes[i].close);
        return (quoted){ s + n, (size_t)(close - s) - n };
    }
    return (quoted){ 0 };
}

static bool among(const quoted *list, size_t n, quoted q)
{
    size_t i = 0;
    while (i < n && (list[i].n != q.n || memcmp(list[i].at, q.at, q.n)))
        i++;
    return i < n;
}

char *text_glyphs(const char *prompt)
{
    quoted *list = malloc((strlen(prompt) / 2 + 1) * sizeof *list);
    vc_buf b = { 0 };
    size_t n = 0;

    for (const char *s = prompt, *end; list && *s; s = end) {
        end = s + 1;
        const quoted q = quoted_at(s, &end);
        if (q.at && !among(list, n, q))
            list[n++] = q;
    }
    for (size_t i = 0; i < n; i++)
        vc_buf_printf(&b, "Text \"%.*s\". ", (int)list[i].n, list[i].at);
    const bool failed = !list || b.failed;
    free(list);
    if (failed) {
        vc_buf_free(&b);
        return NULL;
    }
    return n ? vc_buf_take(&b) : strdup("");
}

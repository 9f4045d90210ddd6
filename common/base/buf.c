/* buf.c - a growing buffer of bytes; see buf.h */
#include "common/base/buf.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/utf8.h"

char *vc_buf_room(vc_buf *b, size_t more)
{
    if (b->failed)
        return NULL;
    if (b->data && b->cap - b->n >= more)
        return b->data + b->n;

    size_t need;
    if (__builtin_add_overflow(b->n, more, &need) || need > SIZE_MAX / 2)
        b->failed = true;
    size_t cap = need < 256 ? 256 : need + need / 2;
    char *p = b->failed ? NULL : realloc(b->data, cap);
    if (!p) {
        b->failed = true;
        return NULL;
    }
    b->data = p;
    b->cap = cap;
    return p + b->n;
}

void vc_buf_add(vc_buf *b, const void *p, size_t n)
{
    char *to = vc_buf_room(b, n);

    if (!to || !n)
        return;
    memcpy(to, p, n);
    b->n += n;
}

void vc_buf_printf(vc_buf *b, const char *fmt, ...)
{
    va_list ap, again;

    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *to = n < 0 ? NULL : vc_buf_room(b, (size_t)n + 1);
    if (to) {
        vsnprintf(to, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    } else {
        b->failed = true;
    }
    va_end(again);
}

static void escape(vc_buf *b, unsigned char c)
{
    static const char letter[] = "\"\"\\\\\bb\ff\nn\rr\tt";

    for (const char *p = letter; *p; p += 2)
        if ((unsigned char)*p == c) {
            vc_buf_add(b, (char[]){ '\\', p[1] }, 2);
            return;
        }
    vc_buf_printf(b, "\\u%04x", c);
}

static bool plain(unsigned char c)
{
    return c >= 0x20 && c != '"' && c != '\\';
}

void vc_buf_json(vc_buf *b, const char *s, size_t n)
{
    vc_buf_str(b, "\"");
    for (size_t i = 0; i < n;) {
        size_t end = i + vc_utf8_prefix(s + i, n - i);
        while (i < end) {
            size_t from = i;
            while (i < end && plain((unsigned char)s[i]))
                i++;
            vc_buf_add(b, s + from, i - from);
            if (i < end)
                escape(b, (unsigned char)s[i++]);
        }
        if (i < n) {
            vc_buf_str(b, "\xef\xbf\xbd");
            i++;
        }
    }
    vc_buf_str(b, "\"");
}

void vc_buf_shell(vc_buf *b, const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./,:=+@%";
    if (*s && !s[strspn(s, plain)]) {
        vc_buf_str(b, s);
        return;
    }
    vc_buf_str(b, "'");
    for (size_t n; (n = strcspn(s, "'"), vc_buf_add(b, s, n), s[n]); s += n + 1)
        vc_buf_str(b, "'\\''");
    vc_buf_str(b, "'");
}

void vc_buf_base64(vc_buf *b, const void *data, size_t n)
{
    const uint8_t *p = data;
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *to = n > SIZE_MAX / 2 ? NULL : vc_buf_room(b, (n + 2) / 3 * 4);

    if (!to) {
        b->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t v = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0)
                     | (left > 2 ? p[i + 2] : 0);
        *to++ = digit[v >> 18];
        *to++ = digit[v >> 12 & 63];
        *to++ = left > 1 ? digit[v >> 6 & 63] : '=';
        *to++ = left > 2 ? digit[v & 63] : '=';
    }
    b->n += (n + 2) / 3 * 4;
}

void vc_buf_int(vc_buf *b, int64_t v)
{
    char text[20], *at = text + sizeof text;
    uint64_t left = v < 0 ? -(uint64_t)v : (uint64_t)v;

    do
        *--at = (char)('0' + left % 10);
    while (left /= 10);
    if (v < 0)
        *--at = '-';
    vc_buf_add(b, at, (size_t)(text + sizeof text - at));
}

void vc_buf_number(vc_buf *b, double v)
{
    char text[40];
    int digits = 1;

    if (!isfinite(v)) {
        vc_buf_str(b, "null");
    } else if (v == trunc(v) && fabs(v) < 0x1p53) {
        if (v == 0 && signbit(v))
            vc_buf_str(b, "-");
        vc_buf_int(b, (int64_t)v);
    } else {
        do
            snprintf(text, sizeof text, "%.*g", digits, v);
        while (digits++ < 17 && strtod(text, NULL) != v);
        vc_buf_str(b, text);
    }
}

char *vc_buf_take(vc_buf *b)
{
    char *end = vc_buf_room(b, 1), *data = NULL;

    if (end) {
        *end = 0;
        data = b->data;
        b->data = NULL;
    }
    vc_buf_free(b);
    return data;
}

void vc_buf_free(vc_buf *b)
{
    free(b->data);
    *b = (vc_buf){ 0 };
}

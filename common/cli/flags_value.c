/* flags_value.c - converts text to a flag's value and back. See flags_internal.h. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/near.h"
#include "common/cli/flags_internal.h"

/* Cuts the text between bytes; the rest of a multi-byte character is not printed. */
vc_quoted vc_flags_quote(const char *s, size_t len)
{
    vc_quoted q;
    size_t n = 0, most = sizeof q.s - 6;

    q.s[n++] = '"';
    for (size_t i = 0; i < len && n < most; i++) {
        unsigned char c = (unsigned char)s[i];
        q.s[n++] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    if (n == most) {
        while (n > 1 && ((unsigned char)q.s[n - 1] & 0xc0) == 0x80)
            n--;
        if ((unsigned char)q.s[n - 1] >= 0xc0)
            n--;
        memcpy(q.s + n, "...", 3);
        n += 3;
    }
    q.s[n++] = '"';
    q.s[n] = 0;
    return q;
}

const char *vc_flags_choice(const char *allowed, int index, size_t *len)
{
    const char *s = allowed;

    for (; s && index > 0; index--) {
        s = strchr(s, '|');
        s = s ? s + 1 : NULL;
    }
    if (s)
        *len = strcspn(s, "|");
    return s;
}

static bool same_word(const char *a, size_t n, const char *b, size_t m)
{
    if (n != m)
        return false;
    for (size_t i = 0; i < n; i++) {
        char x = a[i] == '_' ? '-' : a[i], y = b[i] == '_' ? '-' : b[i];
        if (strncasecmp(&x, &y, 1))
            return false;
    }
    return true;
}

/* The name of a class that is written with its module, "torch.optim.AdamW"; else the text. */
static const char *without_module(const char *text)
{
    const char *dot = strrchr(text, '.'), *s = text;

    while (*s && (*s == '.' || *s == '_' || isalnum((unsigned char)*s)))
        s++;
    return dot && dot > text && isalpha((unsigned char)dot[1]) && !*s ? dot + 1 : text;
}

static int choice_index(const char *allowed, const char *text)
{
    size_t len, n = strlen(text);
    const char *s, *name = without_module(text);

    for (int i = 0; (s = vc_flags_choice(allowed, i, &len)); i++)
        if (same_word(s, len, text, n))
            return i;
    return name > text ? choice_index(allowed, name) : -1;
}

int vc_flags_off(const vc_flag *f)
{
    static const char *const words[] = { "none", "no", "off" };

    for (size_t i = 0; f->kind == VC_OPTIONAL && i < sizeof words / sizeof *words; i++) {
        int k = choice_index(f->allowed, words[i]);
        if (k >= 0)
            return k;
    }
    return -1;
}

/* Returns 1 for true, 0 for false, -1 for other text. */
static int truth(const char *text)
{
    static const char *const yes[] = { "true", "yes", "on", "1" };
    static const char *const no[] = { "false", "no", "off", "0" };

    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        if (!strcasecmp(text, yes[i]))
            return 1;
        if (!strcasecmp(text, no[i]))
            return 0;
    }
    return -1;
}

/* Whether a number begins here: strto* would skip blanks first, which are refused. */
static bool like_number(const char *s)
{
    return *s && strchr("0123456789+-.", *s);
}

static bool to_int(const char *text, int64_t *v)
{
    char *end;
    errno = 0;
    *v = strtoll(text, &end, 10);
    return like_number(text) && end != text && !*end && !errno;
}

/* Reads a number, or a share in percent: "10%" is 0.1. */
static bool to_float(const char *text, double *v)
{
    char *end;
    *v = strtod(text, &end);
    bool percent = end != text && end[0] == '%' && !end[1];
    *v = percent ? *v / 100 : *v;
    return like_number(text) && end != text && (percent || !*end) && isfinite(*v);
}

/* Reads "512", "4G", "1.5GiB" or "2GB". */
static bool to_bytes(const char *text, int64_t *v)
{
    char *end;
    double x = strtod(text, &end), scale = 1;
    if (end == text || !like_number(text))
        return false;
    if (!*end)
        return to_int(text, v);               /* exact where a double is not */

    static const char units[] = "KMGTPE";
    char up = *end >= 'a' ? (char)(*end - 32) : *end;
    const char *unit = strchr(units, up);
    if (unit) {
        bool decimal = !strcasecmp(end + 1, "B");
        if (end[1] && !decimal && strcasecmp(end + 1, "iB"))
            return false;
        for (const char *u = units; u <= unit; u++)
            scale *= decimal ? 1000 : 1024;
    } else if (strcasecmp(end, "B")) {
        return false;
    }
    x *= scale;
    if (!(fabs(x) < 0x1p63))
        return false;
    *v = (int64_t)x;
    return true;
}

typedef struct range {
    double lo, hi;
    bool lo_open, hi_open;         /* the bound itself is outside the range */
} range;

static double bound(const char *s, size_t len)
{
    char text[40];
    int64_t v;
    size_t n = len < sizeof text - 1 ? len : sizeof text - 1;

    memcpy(text, s, n);
    text[n] = 0;
    return to_bytes(text, &v) && strpbrk(text, "KMGTP") ? (double)v : strtod(text, NULL);
}

static range range_of(const char *s)
{
    range r = { -INFINITY, INFINITY, false, false };
    if (!s)
        return r;

    const char *dots = strstr(s, "..");
    const char *hi = dots ? dots + 2 : *s == '<' ? s : "";
    size_t lo = dots ? (size_t)(dots - s) : *s == '<' ? 0 : strlen(s);
    if (lo) {
        r.lo_open = *s == '>';
        r.lo = bound(s + r.lo_open, lo - r.lo_open);
    }
    if (*hi) {
        r.hi_open = *hi == '<';
        r.hi = bound(hi + r.hi_open, strlen(hi + r.hi_open));
    }
    return r;
}

void vc_flags_range_text(const char *allowed, char *buf, size_t size)
{
    range r = range_of(allowed);

    if (isinf(r.lo) && isinf(r.hi))
        snprintf(buf, size, "%s", "");
    else if (isinf(r.hi))
        snprintf(buf, size, r.lo_open ? "above %.15g" : "%.15g or more", r.lo);
    else if (isinf(r.lo))
        snprintf(buf, size, r.hi_open ? "below %.15g" : "%.15g or less", r.hi);
    else if (!r.lo_open && !r.hi_open)
        snprintf(buf, size, "%.15g to %.15g", r.lo, r.hi);
    else
        snprintf(buf, size, "%s %.15g, %s %.15g", r.lo_open ? "above" : "from", r.lo,
                 r.hi_open ? "below" : "up to", r.hi);
}

static int in_range(const vc_flag *f, double v, const char *text, vc_err *err)
{
    range r = range_of(f->allowed);
    if ((r.lo_open ? v > r.lo : v >= r.lo) && (r.hi_open ? v < r.hi : v <= r.hi))
        return 0;
    char say[96];
    vc_flags_range_text(f->allowed, say, sizeof say);
    return vc_fail(err, VC_EUSAGE, "%s is out of range: %s",
                   vc_flags_quote(text, strlen(text)).s, say);
}

static int no_number(const vc_flag *f, const char *text, const char *what, vc_err *err)
{
    char say[96];
    vc_flags_range_text(f->allowed, say, sizeof say);
    return vc_fail(err, VC_EUSAGE, "%s is not %s%s%s", vc_flags_quote(text, strlen(text)).s, what,
                   *say ? ", allowed: " : "", say);
}

static int set_int(const vc_flag *f, const char *text, int64_t *dst, vc_err *err)
{
    int64_t v;
    if (!to_int(text, &v))
        return no_number(f, text, "a whole number", err);
    *dst = v;
    return in_range(f, (double)v, text, err);
}

static int set_bytes(const vc_flag *f, const char *text, int64_t *dst, vc_err *err)
{
    int64_t v;
    if (!to_bytes(text, &v))
        return no_number(f, text, "a number of bytes (512M, 4GiB)", err);
    *dst = v;
    return in_range(f, (double)v, text, err);
}

static int set_float(const vc_flag *f, const char *text, double *dst, vc_err *err)
{
    if (!to_float(text, dst))
        return no_number(f, text, "a number", err);
    return in_range(f, *dst, text, err);
}

/* Formats "a|b|c" as "a, b, c". */
static void commas(const char *allowed, char *buf, size_t size)
{
    size_t n = 0;
    for (const char *s = allowed; *s && n + 3 < size; s++) {
        buf[n++] = *s == '|' ? ',' : *s;
        if (*s == '|')
            buf[n++] = ' ';
    }
    buf[n] = 0;
}

static int not_one_of(const char *text, const char *allowed, vc_err *err)
{
    char say[400];
    bool half = vc_dtype_from_name(text) == VC_F16 && strstr(allowed, "bf16");
    size_t n = 0;
    const char *near = half ? NULL : vc_near_choice(allowed, text, &n);
    commas(allowed, say, sizeof say);
    return vc_fail(err, VC_EUSAGE, "%s is not one of %s%s%.*s%s",
                   vc_flags_quote(text, strlen(text)).s, say,
                   half ? ": f16 overflows in what these models compute, bf16 is as small and does "
                   "not: write bf16" : near ? ": did you mean " : "", (int)n, near ? near : "",
                   near ? "?" : "");
}

static int set_choice(const vc_flag *f, const char *text, int *dst, vc_err *err)
{
    int i = choice_index(f->allowed, text), t = truth(text);

    if (i < 0 && f->kind == VC_OPTIONAL && t >= 0)      /* true and false, as for a boolean */
        i = t ? 0 : vc_flags_off(f);
    if (i < 0)
        return not_one_of(text, f->allowed, err);
    *dst = i;
    return 0;
}

static int set_dtype(const vc_flag *f, const char *text, vc_dtype *dst, vc_err *err)
{
    vc_dtype t = vc_dtype_from_name(text);
    const char *s = f->allowed;
    size_t len;

    bool ok = t != VC_DTYPE_NONE && !s;
    for (int i = 0; t != VC_DTYPE_NONE && s && (s = vc_flags_choice(f->allowed, i, &len)); i++) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)len, s);
        ok = ok || vc_dtype_from_name(name) == t;
    }
    if (!ok)
        return not_one_of(text, f->allowed ? f->allowed : "f32|bf16|f16|fp8", err);
    *dst = t;
    return 0;
}

static int set_pair(const vc_flag *f, const char *text, int64_t dst[2], vc_err *err)
{
    char first[32];
    size_t n = strcspn(text, "xX, ");

    if (!text[n] || n >= sizeof first)
        return vc_fail(err, VC_EUSAGE, "%s is not a pair of whole numbers (384 672 or 384x672)",
                       vc_flags_quote(text, strlen(text)).s);
    memcpy(first, text, n);
    first[n] = 0;
    const char *second = text + n + 1;
    second += strspn(second, " ");
    int rc = set_int(f, first, &dst[0], err);
    return rc ? rc : set_int(f, second, &dst[1], err);
}

static int append(vc_flags *set, vc_list *l, const char *text, vc_err *err)
{
    char *item = vc_flags_keep_text(set, text, strlen(text));
    bool full = !(l->n & (l->n - 1));              /* 0, 1, 2, 4, ...: the array doubles */
    char **grown = full ? vc_flags_keep(set, (l->n ? 2 * (size_t)l->n : 1) * sizeof *grown) : NULL;

    if (!item || (full && !grown))
        return vc_no_memory(err);
    if (full) {
        for (int i = 0; i < l->n; i++)
            grown[i] = l->item[i];
        l->item = grown;
    }
    l->item[l->n++] = item;
    return 0;
}

int vc_flags_value(vc_flags *set, const vc_flag *f, int part, const char *text, void *dst,
                   vc_err *err)
{
    switch (f->kind) {
    case VC_BOOLEAN: {
        int t = truth(text);
        if (t < 0)
            return not_one_of(text, "true|false", err);
        *(bool *)dst = t;
        return 0;
    }
    case VC_INT: return set_int(f, text, dst, err);
    case VC_FLOAT: return set_float(f, text, dst, err);
    case VC_BYTES: return set_bytes(f, text, dst, err);
    case VC_CHOICE:
    case VC_OPTIONAL: return set_choice(f, text, dst, err);
    case VC_DTYPE_KIND: return set_dtype(f, text, dst, err);
    case VC_PAIR:
        return part < 0 ? set_pair(f, text, dst, err)
                        : set_int(f, text, (int64_t *)dst + part, err);
    case VC_LIST: return append(set, dst, text, err);
    case VC_STRING:
    case VC_WORDS:
    case VC_PATH: {
        char *s = vc_flags_keep_text(set, text, strlen(text));
        if (!s)
            return vc_no_memory(err);
        *(char **)dst = s;
        return 0;
    }
    case VC_GROUP: break;
    }
    return vc_fail(err, VC_EFAIL, "no flag");
}

/* Whether 0 means "not set": the flag has no default and does not allow 0. */
static bool unset(const vc_flag *f, double v)
{
    return !f->value && v == 0 && in_range(f, 0, "", NULL);
}

bool vc_flags_no_value(const vc_flag *f, const void *src)
{
    const int64_t *i = src;

    switch (f->kind) {
    case VC_INT:
    case VC_BYTES: return unset(f, (double)*i);
    case VC_FLOAT: return unset(f, *(const double *)src);
    case VC_PAIR: return !f->value && !i[0] && !i[1];
    case VC_STRING:
    case VC_WORDS:
    case VC_PATH: return !*(char *const *)src;
    case VC_DTYPE_KIND: return *(const vc_dtype *)src == VC_DTYPE_NONE;
    case VC_LIST: return !((const vc_list *)src)->n;
    case VC_GROUP: return true;
    default: return false;
    }
}

/* Formats the shortest text that reads back as the same double. */
static void float_text(double v, char *buf, size_t size)
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(buf, size, "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            return;
    }
}

static void bytes_text(int64_t v, char *buf, size_t size)
{
    static const char *const unit[] = { "", "KiB", "MiB", "GiB", "TiB", "PiB" };
    int u = 0;
    while (v && v % 1024 == 0 && u < 5) {
        v /= 1024;
        u++;
    }
    snprintf(buf, size, "%lld%s", (long long)v, unit[u]);
}

void vc_flags_text(const vc_flag *f, const void *src, char *buf, size_t size)
{
    const int64_t *i = src;
    size_t len = 0;
    const char *s;

    switch (f->kind) {
    case VC_BOOLEAN: snprintf(buf, size, "%s", *(const bool *)src ? "true" : "false"); break;
    case VC_INT: snprintf(buf, size, "%lld", (long long)*i); break;
    case VC_FLOAT: float_text(*(const double *)src, buf, size); break;
    case VC_BYTES: bytes_text(*i, buf, size); break;
    case VC_PAIR: snprintf(buf, size, "[%lld, %lld]", (long long)i[0], (long long)i[1]); break;
    case VC_DTYPE_KIND: snprintf(buf, size, "%s", vc_dtype_name(*(const vc_dtype *)src)); break;
    case VC_CHOICE:
    case VC_OPTIONAL:
        s = vc_flags_choice(f->allowed, *(const int *)src, &len);
        snprintf(buf, size, "%.*s", (int)len, s ? s : "");
        break;
    default: *buf = 0; break;
    }
}

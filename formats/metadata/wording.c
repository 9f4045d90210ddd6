/* wording.c - see wording.h */
#include "formats/metadata/wording.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/rng.h"
#include "formats/metadata/parts.h"

static bool given(const char *s)
{
    return s && *s;
}

/* ---- one text ---- */

/* Replaces *text, which was made with malloc, by what a buffer has. */
static int take(char **text, vc_buf *b, vc_err *err)
{
    char *made = vc_buf_take(b);
    if (!made)
        return vc_no_memory(err);
    free(*text);
    *text = made;
    return 0;
}

static int replace(char **text, const char *old, const char *by, vc_err *err)
{
    const char *from = *text, *at;
    vc_buf b = { 0 };

    if (!strstr(from, old))
        return 0;
    for (; (at = strstr(from, old)); from = at + strlen(old))
        vc_buf_printf(&b, "%.*s%s", (int)(at - from), from, by);
    vc_buf_printf(&b, "%s", from);
    return take(text, &b, err);
}

int vf_word_trigger(char **text, const char *trigger, vc_err *err)
{
    int rc = replace(text, "[trigger]", trigger, err);
    return rc ? rc : replace(text, "[name]", trigger, err);
}

static int add_trigger(char **text, const char *trigger, vc_err *err)
{
    vc_buf b = { 0 };
    int rc = vf_word_trigger(text, trigger, err);

    if (rc || strstr(*text, trigger))
        return rc;
    vc_buf_printf(&b, "%s%s%s", trigger, **text ? " " : "", *text);
    return take(text, &b, err);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The blank between two texts, unless one is empty, or one is there. */
static const char *between(const char *front, const char *behind)
{
    const size_t n = strlen(front);
    return n && *behind && !is_blank(front[n - 1]) && !is_blank(*behind) ? " " : "";
}

static int add_ends(char **text, const vf_wording *w, vc_err *err)
{
    const char *front = given(w->prefix) ? w->prefix : "", *end = given(w->suffix) ? w->suffix : "";
    const char *middle = **text ? *text : "";
    vc_buf b = { 0 };

    if (!*front && !*end)
        return 0;
    vc_buf_printf(&b, "%s%s%s", front, between(front, middle), middle);
    int rc = take(text, &b, err);
    if (rc || !*end)
        return rc;
    vc_buf_printf(&b, "%s%s%s", *text, between(*text, end), end);
    return take(text, &b, err);
}

/* Appends one of the texts of a wildcard, s[0..n), that '|' divides. */
static void add_choice(vc_buf *b, const char *s, size_t n, vc_draws *d)
{
    uint32_t texts = 1;
    for (size_t i = 0; i < n; i++)
        texts += s[i] == '|';
    for (uint32_t skip = vc_draw_int(d, texts); skip; skip--) {
        const size_t part = (size_t)((const char *)memchr(s, '|', n) - s) + 1;
        s += part;
        n -= part;
    }
    const char *end = memchr(s, '|', n);
    vc_buf_printf(b, "%.*s", (int)(end ? (size_t)(end - s) : n), s);
}

static int choose(char **text, vc_draws *d, vc_err *err)
{
    vc_buf b = { 0 };

    if (!strpbrk(*text, "{}"))
        return 0;
    for (const char *s = *text; *s;) {
        const char *end = *s == '{' ? strchr(s, '}') : NULL;
        if ((*s == '{' || *s == '}') && s[1] == *s) {
            vc_buf_printf(&b, "%c", *s);
            s += 2;
        } else if (end && end > s + 1) {
            add_choice(&b, s + 1, (size_t)(end - s - 1), d);
            s = end + 1;
        } else {
            vc_buf_printf(&b, "%c", *s++);
        }
    }
    return take(text, &b, err);
}

/* ---- tags ---- */

typedef struct tags {
    char **v;
    int n;
} tags;

static void free_tags(tags *t)
{
    for (int i = 0; i < t->n; i++)
        free(t->v[i]);
    free(t->v);
}

/* Appends the tags of s[0..n). Those that are empty stay where `empty` says so. */
static int split(tags *t, const char *s, size_t n, const char *separator, bool empty, vc_err *err)
{
    const size_t gap = strlen(separator);
    int rc = 0;

    for (bool more = true; more && !rc;) {
        const char *end = memmem(s, n, separator, gap), *tag = s;
        size_t length = end ? (size_t)(end - s) : n;
        more = end != NULL;
        n -= more ? length + gap : 0;
        s = more ? end + gap : s;
        metadata_trim(&tag, &length);
        if (length || empty)
            rc = metadata_append(&t->v, &t->n, tag, length, err);
    }
    return rc;
}

/* The three parts of a caption: tags that stay in front, tags that move, tags that stay behind. */
static int divide(tags part[3], const char *text, const vf_wording *w, vc_err *err)
{
    const char *separator = given(w->separator) ? w->separator : ",", *at = text;
    const char *mark = given(w->keep_separator) ? strstr(text, w->keep_separator) : NULL;
    int rc = 0;

    if (mark) {
        for (int i = 0; i < 3 && at && !rc; i++) {
            const char *end = i < 2 ? strstr(at, w->keep_separator) : NULL;
            rc = split(&part[i], at, end ? (size_t)(end - at) : strlen(at), separator, false, err);
            at = end ? end + strlen(w->keep_separator) : NULL;
        }
        return rc;
    }
    rc = split(&part[1], text, strlen(text), separator, true, err);
    for (int64_t i = 0; i < w->keep_tokens && i < part[1].n && !rc; i++)
        rc = metadata_append(&part[0].v, &part[0].n, part[1].v[i], strlen(part[1].v[i]), err);
    for (int i = 0; !rc && i < part[0].n; i++)
        free(part[1].v[i]);
    if (!rc && part[0].n) {
        part[1].n -= part[0].n;
        memmove(part[1].v, part[1].v + part[0].n, (size_t)part[1].n * sizeof *part[1].v);
    }
    return rc;
}

static void shuffle(tags *t, vc_draws *d)
{
    for (int i = t->n - 1; i > 0; i--) {
        const uint32_t j = vc_draw_int(d, (uint32_t)i + 1);
        char *was = t->v[i];
        t->v[i] = t->v[j];
        t->v[j] = was;
    }
}

static void leave_out(tags *t, double drop, vc_draws *d)
{
    int kept = 0;
    for (int i = 0; i < t->n; i++) {
        if (vc_draw_unit(d) >= drop)
            t->v[kept++] = t->v[i];
        else
            free(t->v[i]);
    }
    t->n = kept;
}

/* Puts the tags of a caption in order. first: the variant that keeps all of them as they are. */
static int word_tags(char **text, const vf_wording *w, bool first, vc_draws *d, vc_err *err)
{
    tags part[3] = { { 0 } };
    vc_buf b = { 0 };
    int rc = divide(part, *text, w, err), n = 0;

    if (!rc && !first && w->shuffle)
        shuffle(&part[1], d);
    if (!rc && !first && w->drop > 0)
        leave_out(&part[1], w->drop, d);
    for (int i = 0; i < 3 && !rc; i++)
        for (int k = 0; k < part[i].n; k++)
            vc_buf_printf(&b, "%s%s", n++ ? ", " : "", part[i].v[k]);
    if (!rc && !n)
        vc_buf_printf(&b, "%s", "");
    rc = rc ? rc : take(text, &b, err);
    if (!rc && given(w->second_separator))
        rc = replace(text, w->second_separator, given(w->separator) ? w->separator : ",", err);
    for (int i = 0; i < 3; i++)
        free_tags(&part[i]);
    return rc;
}

/* ---- a row ---- */

static bool has_tags(const vf_wording *w)
{
    return w->shuffle || w->drop > 0;
}

bool vf_wording_draws(const vf_wording *w)
{
    return has_tags(w) || w->wildcards;
}

/* Words caption k of a row as variant v. The caller frees *text. */
static int word_one(char **text, const vf_row *r, int k, int v, const vf_wording *w, vc_err *err)
{
    vc_draws d = vc_draws_of(w->seed, r->id, (uint32_t)k * 256 + (uint32_t)v, VC_DRAW_WORDING);
    int rc = (*text = strdup(r->captions[k])) ? 0 : vc_no_memory(err);

    if (!rc)
        rc = add_ends(text, w, err);
    if (!rc && w->wildcards)
        rc = choose(text, &d, err);
    if (!rc && has_tags(w))
        rc = word_tags(text, w, v == 0, &d, err);
    if (!rc && given(w->trigger))
        rc = add_trigger(text, w->trigger, err);
    return rc;
}

/* Whether the variants of each caption are one text. They stay several if one caption has several,
 * so that each caption is drawn as often as another. */
static bool all_equal(char *const *text, int captions, int variants)
{
    for (int i = 0; i < captions * variants; i++)
        if (strcmp(text[i], text[i / variants * variants]))
            return false;
    return true;
}

static void free_texts(char **text, int n)
{
    for (int i = 0; i < n; i++)
        free(text[i]);
    free(text);
}

static int word_row(vf_row *r, const vf_wording *w, int variants, vc_err *err)
{
    const int all = r->n_captions * variants;
    char **text = calloc((size_t)all + 1, sizeof *text);
    int rc = text ? 0 : vc_no_memory(err), n = 0;

    for (int i = 0; i < all && !rc; i++)
        rc = word_one(&text[i], r, i / variants, i % variants, w, err);
    if (rc) {
        if (text)
            free_texts(text, all);
        return rc;
    }
    const int step = all_equal(text, r->n_captions, variants) ? variants : 1;
    for (int i = 0; i < all; i++) {
        if (i % step)
            free(text[i]);
        else
            text[n++] = text[i];
    }
    free_texts(r->captions, r->n_captions);
    r->captions = text;
    r->n_captions = n;
    return 0;
}

int vf_metadata_word(vf_metadata *m, const vf_wording *w, vc_err *err)
{
    const bool draws = vf_wording_draws(w);
    const int variants = !draws ? 1 : w->variants ? (int)w->variants : VF_WORDING_USUAL;
    int rc = 0;

    if (!draws && !given(w->prefix) && !given(w->suffix) && !given(w->trigger))
        return 0;
    for (int64_t i = 0; i < m->n && !rc; i++) {
        vf_row *r = &m->rows[i];
        if (r->bad)
            continue;
        rc = r->segments
                 ? vc_fail(err, VC_EUSAGE, "row %lld, %.200s: text_chunks: captions of segments "
                           "are taken as they are: leave out --caption_prefix, --trigger_word and "
                           "the other flags that change captions", (long long)r->row, r->path)
                 : word_row(r, w, variants, err);
    }
    return rc;
}

/* ---- preserved captions ---- */

static int preserve_row(vf_row *r, const char *trigger, const char *class, vc_err *err)
{
    int rc = 0;

    if (r->segments)
        return vc_fail(err, VC_EUSAGE, "--preserve: row %lld, %.200s: text_chunks: captions of "
                       "segments are not preserved", (long long)r->row, r->path);
    r->preserved = calloc((size_t)r->n_captions, sizeof *r->preserved);
    if (!r->preserved)
        return vc_no_memory(err);
    for (int i = 0; i < r->n_captions && !rc; i++) {
        if (!strstr(r->captions[i], trigger))
            return vc_fail(err, VC_EUSAGE, "--preserve: row %lld, %.200s: the caption \"%.80s\" "
                           "has no \"%.80s\": write it there, or give --trigger_word too",
                           (long long)r->row, r->path, r->captions[i], trigger);
        r->preserved[i] = strdup(r->captions[i]);
        rc = r->preserved[i] ? replace(&r->preserved[i], trigger, class, err) : vc_no_memory(err);
    }
    return rc;
}

int vf_metadata_preserve(vf_metadata *m, const char *words, vc_err *err)
{
    const char *equals = strchr(words, '=');
    char *trigger = equals ? strndup(words, (size_t)(equals - words)) : NULL;
    int rc = 0;

    if (!equals || equals == words || !equals[1])
        rc = vc_fail(err, VC_EUSAGE, "--preserve \"%s\": expected \"TRIGGER=CLASS\": "
                     "\"ohwx man=man\"", words);
    else if (!trigger)
        rc = vc_no_memory(err);
    for (int64_t i = 0; i < m->n && !rc; i++)
        if (!m->rows[i].bad)
            rc = preserve_row(&m->rows[i], trigger, equals + 1, err);
    free(trigger);
    return rc;
}

/* config.c - checks and stores the fields of a config.json, row by row. See config.h */
#include "formats/json/config.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef struct reader {
    char *to;
    const vf_config_row *f;
    char where[96];                          /* field in errors: "name", or "name[3]" in a list */
    vc_err *err;
} reader;

/* ---- errors ---- */

enum { TEXT = 48 };

static void value_text(char buf[TEXT], const reader *r, double v)
{
    bool whole = r->f->kind == VF_CONFIG_INT || r->f->kind == VF_CONFIG_INTS;

    if (r->f->kind == VF_CONFIG_FLAG)
        snprintf(buf, TEXT, "%s", v != 0 ? "true" : "false");
    else
        snprintf(buf, TEXT, "%.*g", whole ? 17 : 9, v);
}

static int refuse(const reader *r, double v)
{
    const vf_config_row *f = r->f;
    char is[TEXT], low[TEXT], high[TEXT];

    value_text(is, r, v);
    value_text(low, r, f->min);
    value_text(high, r, f->max);
    if (f->min == f->max)
        return vc_fail(r->err, VC_EFORMAT, "%s: %s; only %s is supported", r->where, is, low);
    if (f->min != VF_ABOVE_0)
        return vc_fail(r->err, VC_EFORMAT, "%s: %s is not within %s..%s", r->where, is, low, high);
    if (isinf(f->max))
        return vc_fail(r->err, VC_EFORMAT, "%s: %s is not above 0", r->where, is);
    return vc_fail(r->err, VC_EFORMAT, "%s: %s is not above 0 and at most %s", r->where, is, high);
}

/* Writes "a|b|c" as "a", "b" or "c". */
static void words_text(char *buf, size_t size, const char *words)
{
    size_t n = 0;

    for (const char *w = words; n < size; w += strcspn(w, "|") + 1) {
        bool last = !w[strcspn(w, "|")], first = w == words;
        n += (size_t)snprintf(buf + n, size - n, "%s\"%.*s\"", first ? "" : last ? " or " : ", ",
                              (int)strcspn(w, "|"), w);
        if (last)
            break;
    }
}

static int refuse_word(const reader *r, const char *word, bool missing)
{
    char all[400];

    words_text(all, sizeof all, r->f->words);
    return vc_fail(r->err, VC_EFORMAT, "%s: %s\"%.60s\"; only %s is supported", r->where,
                   missing ? "missing, which means " : "", word, all);
}

/* ---- values ---- */

static void keep(const reader *r, size_t at, double v)
{
    const vf_config_row *f = r->f;
    void *to = r->to + at;

    if (!f->size)
        return;
    if (f->kind == VF_CONFIG_NUM || f->kind == VF_CONFIG_NUMS)
        *(double *)to = v;
    else if (f->kind == VF_CONFIG_FLAG || f->kind == VF_CONFIG_FLAGS)
        *(bool *)to = v != 0;
    else if (f->size == sizeof (int))
        *(int *)to = (int)v;
    else
        *(int64_t *)to = (int64_t)v;
}

static bool within(const vf_config_row *f, double v)
{
    return v >= f->min && v <= f->max;
}

static int take(const reader *r, int rc, double v)
{
    const vf_config_row *f = r->f;

    if (!rc && !within(f, v) && (f->needed || v != f->value))
        rc = refuse(r, v);
    if (!rc)
        keep(r, f->at, v);
    return rc;
}

static int read_int(const reader *r, const cJSON *o)
{
    int64_t v = (int64_t)r->f->value;
    int rc = vf_json_int_opt(o, r->f->name, &v, r->err);

    assert(r->f->size != sizeof (int) || (r->f->min >= INT_MIN && r->f->max <= INT_MAX));
    return take(r, rc, (double)v);
}

static int read_num(const reader *r, const cJSON *o)
{
    double v = r->f->value;
    int rc = vf_json_num_opt(o, r->f->name, &v, r->err);

    return take(r, rc, v);
}

static int read_flag(const reader *r, const cJSON *o)
{
    bool v = r->f->value != 0;
    int rc = vf_json_bool_opt(o, r->f->name, &v, r->err);

    return take(r, rc, v);
}

/* Returns the index of a word among "a|b|c", or -1. */
static int place_of(const char *word, const char *words)
{
    size_t n = strlen(word);
    int place = 0;

    for (const char *w = words;; w += strcspn(w, "|") + 1, place++) {
        if (strcspn(w, "|") == n && !strncmp(w, word, n))
            return place;
        if (!w[strcspn(w, "|")])
            return -1;
    }
}

static int read_word(const reader *r, const cJSON *o)
{
    const vf_config_row *f = r->f;
    const char *word = NULL;
    int rc = vf_json_str_opt(o, f->name, &word, r->err);

    if (rc)
        return rc;
    int place = place_of(word ? word : f->word, f->words);
    if (place < 0)
        return refuse_word(r, word ? word : f->word, !word);
    keep(r, f->at, place);
    return 0;
}

/* ---- lists ---- */

/* A number of a list of integers or numbers. */
static int check_number(reader *r, const cJSON *e)
{
    double v = e->valuedouble;

    if (!cJSON_IsNumber(e) || !isfinite(v))
        return vc_fail(r->err, VC_EFORMAT, "%s: expected a number", r->where);
    if (r->f->kind == VF_CONFIG_INTS && v != trunc(v))
        return vc_fail(r->err, VC_EFORMAT, "%s: expected an integer, found %g", r->where, v);
    return within(r->f, v) ? 0 : refuse(r, v);
}

static int read_element(reader *r, const cJSON *e, int i)
{
    const vf_config_row *f = r->f;
    double v = e->valuedouble;
    int rc = 0;

    snprintf(r->where, sizeof r->where, "%.80s[%d]", f->name, i);
    if (f->kind == VF_CONFIG_WORDS) {
        if (!cJSON_IsString(e))
            return vc_fail(r->err, VC_EFORMAT, "%s: expected a string", r->where);
        v = place_of(e->valuestring, f->words);
        rc = v < 0 ? refuse_word(r, e->valuestring, false) : 0;
    } else if (f->kind == VF_CONFIG_FLAGS) {
        v = cJSON_IsTrue(e);
        if (!cJSON_IsBool(e))
            rc = vc_fail(r->err, VC_EFORMAT, "%s: expected true or false", r->where);
    } else {
        rc = check_number(r, e);
    }
    if (!rc)
        keep(r, f->at + (size_t)i * f->size, v);
    return rc;
}

static int read_list(reader *r, const cJSON *o)
{
    const vf_config_row *f = r->f;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, f->name), *e;
    int n = 0;

    if (!list || cJSON_IsNull(list))
        return 0;
    int rc = vf_json_arr(o, f->name, &list, r->err);
    if (rc)
        return rc;
    n = cJSON_GetArraySize(list);
    if (n < f->least || n > f->most)
        return vc_fail(r->err, VC_EFORMAT, "%s: %d entries; %d to %d are allowed", f->name, n,
                       f->least, f->most);
    n = 0;
    cJSON_ArrayForEach(e, list)
        if (!rc)
            rc = read_element(r, e, n++);
    memcpy(r->to + f->count, &n, sizeof n);
    return rc;
}

/* ---- rows ---- */

static int read_unset(const reader *r, const cJSON *o)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, r->f->name);

    if (!v || cJSON_IsNull(v) || cJSON_IsFalse(v) || (cJSON_IsArray(v) && !v->child))
        return 0;
    return vc_fail(r->err, VC_EFORMAT, "%s: it is set; only models without %s are supported"
                   "%s%s", r->where, r->f->name, r->f->why ? ": " : "",
                   r->f->why ? r->f->why : "");
}

static int read_row(reader *r, const cJSON *o)
{
    const vf_config_row *f = r->f;
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, f->name);
    bool missing = !v || cJSON_IsNull(v), word = f->kind == VF_CONFIG_WORD;

    snprintf(r->where, sizeof r->where, "%.90s", f->name);
    if (missing && (f->needed || (word && !f->word)))
        return vc_fail(r->err, VC_ENOENT, "%s: missing", f->name);
    switch (f->kind) {
    case VF_CONFIG_INT:
        return read_int(r, o);
    case VF_CONFIG_NUM:
        return read_num(r, o);
    case VF_CONFIG_FLAG:
        return read_flag(r, o);
    case VF_CONFIG_WORD:
        return read_word(r, o);
    case VF_CONFIG_INTS:
    case VF_CONFIG_NUMS:
    case VF_CONFIG_FLAGS:
    case VF_CONFIG_WORDS:
        return read_list(r, o);
    case VF_CONFIG_UNSET:
        break;
    }
    return read_unset(r, o);
}

int vf_config_read(void *to, const vf_config_row *rows, const cJSON *o, vc_err *err)
{
    reader r = { .to = to, .err = err };
    int rc = cJSON_IsObject(o) ? 0 : vc_fail(err, VC_EFORMAT, "no JSON object");

    for (r.f = rows; !rc && r.f->name; r.f++)
        rc = read_row(&r, o);
    return rc;
}

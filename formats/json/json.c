/* json.c - parses JSON strictly and reads typed fields of it. See json.h
 *
 * cJSON is too lenient (blanks, numbers, control characters, U+0000 that ends a string early) and
 * does not report where it failed. The text is therefore scanned first, and cJSON builds the tree
 * of a text that is known to be right. */
#include "formats/json/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "formats/json/scan.h"

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sets *twice to the first key that o has twice. */
static int find_twice(const cJSON *o, const char **twice, vc_err *err)
{
    size_t n = 0;
    for (const cJSON *c = o->child; c; c = c->next)
        n++;
    const char **names = n > 1 ? malloc(n * sizeof *names) : NULL;
    if (n > 1 && !names)
        return vc_fail(err, VC_ENOMEM, "out of memory for %zu keys", n);

    n = 0;
    for (const cJSON *c = o->child; c && names; c = c->next)
        names[n++] = c->string;
    if (n)
        qsort(names, n, sizeof *names, by_name);
    for (size_t i = 1; i < n && !*twice; i++)
        if (!strcmp(names[i - 1], names[i]))
            *twice = names[i];
    free(names);
    return 0;
}

/* Checks that no object in v has the same key twice: readers would differ in the entry they
 * take. */
static int check_keys(const cJSON *v, vc_err *err)
{
    const char *twice = NULL;
    int rc = cJSON_IsObject(v) ? find_twice(v, &twice, err) : 0;

    if (!rc && twice)
        rc = vc_fail(err, VC_EFORMAT, "key \"%.100s\" occurs twice in one object", twice);
    for (const cJSON *c = v->child; c && !rc; c = c->next)
        if (c->child)
            rc = check_keys(c, err);
    return rc;
}

/* Returns at most how many values a text has: a comma or a bracket comes before each but the first,
 * and those within strings are counted too. */
static size_t count_values(const char *text, size_t n)
{
    size_t values = 1;
    for (size_t i = 0; i < n; i++)
        values += text[i] == ',' || text[i] == '[' || text[i] == '{';
    return values;
}

/* Parses a text of n bytes, at whose beginning s is. */
static int parse(cJSON **out, vf_scan *s, size_t n, vc_err *err)
{
    const char *text = s->text;
    *out = NULL;

    int rc = vf_scan_skip(s, err);
    if (!rc)
        rc = vf_scan_done(s, err);
    if (!rc && count_values(text, n) > VF_JSON_VALUES)
        rc = vc_fail(err, VC_EFORMAT, "more than %d values in one text", VF_JSON_VALUES);
    if (rc)
        return rc;

    cJSON *v = cJSON_ParseWithLength(text, n);
    if (!v)
        return vc_fail(err, VC_ENOMEM, "out of memory for %zu bytes of JSON", n);
    rc = check_keys(v, err);
    if (rc) {
        cJSON_Delete(v);
        return rc;
    }
    *out = v;
    return 0;
}

int vf_json_parse(cJSON **out, const char *text, size_t n, vc_err *err)
{
    vf_scan s = vf_scan_of(text, n);
    return parse(out, &s, n, err);
}

int vf_json_parse_after(cJSON **out, const char *text, size_t n, size_t before, vc_err *err)
{
    vf_scan s = vf_scan_of(text, n);
    s.before = before;
    return parse(out, &s, n, err);
}

int vf_json_parse_line(cJSON **out, const char *text, size_t n, vc_err *err)
{
    vf_scan s = vf_scan_of(text, n);
    s.one_line = true;
    return parse(out, &s, n, err);
}

int vf_json_read(cJSON **out, const char *path, size_t max, vc_err *err)
{
    char *text;
    size_t n;

    *out = NULL;
    int rc = vc_file_read(&text, &n, path, max, err);
    if (rc)
        return rc;
    size_t bom = n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
    rc = vf_json_parse(out, text + bom, n - bom, err);
    free(text);
    return vc_context(err, rc, "%s", path);
}

static int read_in(cJSON **out, const char *dir, const char *name, size_t max, bool needed,
                   vc_err *err)
{
    *out = NULL;
    char *path = vc_path_join(dir, name);
    if (!path)
        return vc_fail(err, VC_ENOMEM, "%s/%s: out of memory", dir, name);
    int rc = needed || vc_file_exists(path) ? vf_json_read(out, path, max, err) : 0;
    free(path);
    return rc;
}

int vf_json_read_in(cJSON **out, const char *dir, const char *name, size_t max, vc_err *err)
{
    return read_in(out, dir, name, max, true, err);
}

int vf_json_read_in_opt(cJSON **out, const char *dir, const char *name, size_t max, vc_err *err)
{
    return read_in(out, dir, name, max, false, err);
}

/* ---- getters ---- */

static const char *kind_of(const cJSON *v)
{
    if (cJSON_IsNull(v))
        return "null";
    if (cJSON_IsBool(v))
        return "a boolean";
    if (cJSON_IsNumber(v) || cJSON_IsRaw(v))
        return "a number";
    if (cJSON_IsString(v))
        return "a string";
    if (cJSON_IsArray(v))
        return "an array";
    return "an object";
}

static const cJSON *present(const cJSON *o, const char *field)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, field);
    return v && !cJSON_IsNull(v) ? v : NULL;
}

static int wrong(const cJSON *v, const char *field, const char *expected, vc_err *err)
{
    return vc_fail(err, VC_EFORMAT, "%s: expected %s, found %s", field, expected, kind_of(v));
}

int vf_json_str_opt(const cJSON *o, const char *field, const char **v, vc_err *err)
{
    const cJSON *f = present(o, field);

    if (f && !cJSON_IsString(f))
        return wrong(f, field, "a string", err);
    if (f)
        *v = f->valuestring;
    return 0;
}

int vf_json_num_opt(const cJSON *o, const char *field, double *v, vc_err *err)
{
    const cJSON *f = present(o, field);

    if (!f)
        return 0;
    double x = cJSON_IsRaw(f) ? strtod(f->valuestring, NULL) : f->valuedouble;
    if (!cJSON_IsNumber(f) && !cJSON_IsRaw(f))
        return wrong(f, field, "a number", err);
    if (!isfinite(x))
        return vc_fail(err, VC_EFORMAT, "%s: number out of range", field);
    *v = x;
    return 0;
}

int vf_json_int_opt(const cJSON *o, const char *field, int64_t *v, vc_err *err)
{
    double x = 0;
    const cJSON *f = present(o, field);

    if (!f)
        return 0;
    if (!cJSON_IsNumber(f) && !cJSON_IsRaw(f))
        return wrong(f, field, "an integer", err);
    int rc = vf_json_num_opt(o, field, &x, err);
    if (rc)
        return rc;
    if (x != trunc(x))
        return vc_fail(err, VC_EFORMAT, "%s: expected an integer, found %g", field, x);
    if (fabs(x) >= 0x1p53)
        return vc_fail(err, VC_EFORMAT, "%s: integer out of range", field);
    *v = (int64_t)x;
    return 0;
}

int vf_json_bool_opt(const cJSON *o, const char *field, bool *v, vc_err *err)
{
    const cJSON *f = present(o, field);

    if (f && !cJSON_IsBool(f))
        return wrong(f, field, "true or false", err);
    if (f)
        *v = cJSON_IsTrue(f);
    return 0;
}

static int need(const cJSON *o, const char *field, vc_err *err)
{
    return present(o, field) ? 0 : vc_fail(err, VC_ENOENT, "%s: missing", field);
}

int vf_json_str(const cJSON *o, const char *field, const char **v, vc_err *err)
{
    int rc = need(o, field, err);
    return rc ? rc : vf_json_str_opt(o, field, v, err);
}

int vf_json_int(const cJSON *o, const char *field, int64_t *v, vc_err *err)
{
    int rc = need(o, field, err);
    return rc ? rc : vf_json_int_opt(o, field, v, err);
}

int vf_json_id(uint64_t *id, const cJSON *o, vc_err *err)
{
    const char *hex;
    int rc = vf_json_str(o, "id", &hex, err);
    if (rc)
        return rc;
    if (strspn(hex, "0123456789abcdef") != 16 || hex[16])
        return vc_fail(err, VC_EFORMAT, "id: 16 hex digits expected");
    *id = strtoull(hex, NULL, 16);
    return 0;
}

int vf_json_bool(const cJSON *o, const char *field, bool *v, vc_err *err)
{
    int rc = need(o, field, err);
    return rc ? rc : vf_json_bool_opt(o, field, v, err);
}

int vf_json_obj(const cJSON *o, const char *field, const cJSON **v, vc_err *err)
{
    int rc = need(o, field, err);
    if (rc)
        return rc;
    const cJSON *f = present(o, field);
    *v = cJSON_IsObject(f) ? f : NULL;
    return *v ? 0 : wrong(f, field, "an object", err);
}

int vf_json_arr(const cJSON *o, const char *field, const cJSON **v, vc_err *err)
{
    int rc = need(o, field, err);
    if (rc)
        return rc;
    const cJSON *f = present(o, field);
    *v = cJSON_IsArray(f) ? f : NULL;
    return *v ? 0 : wrong(f, field, "an array", err);
}

/* ---- writing ---- */

static void put_value(vc_buf *b, const cJSON *v)
{
    if (cJSON_IsString(v)) {
        vc_buf_json(b, v->valuestring, strlen(v->valuestring));
    } else if (cJSON_IsNumber(v)) {
        vc_buf_number(b, v->valuedouble);
    } else if (cJSON_IsRaw(v)) {
        vc_buf_str(b, v->valuestring);
    } else if (cJSON_IsArray(v) || cJSON_IsObject(v)) {
        bool object = cJSON_IsObject(v);
        vc_buf_str(b, object ? "{" : "[");
        for (const cJSON *c = v->child; c; c = c->next) {
            if (object) {
                vc_buf_json(b, c->string, strlen(c->string));
                vc_buf_str(b, ":");
            }
            put_value(b, c);
            if (c->next)
                vc_buf_str(b, ",");
        }
        vc_buf_str(b, object ? "}" : "]");
    } else {
        vc_buf_str(b, cJSON_IsTrue(v) ? "true" : cJSON_IsFalse(v) ? "false" : "null");
    }
}

char *vf_json_line(const cJSON *o)
{
    vc_buf b = { 0 };
    put_value(&b, o);
    return vc_buf_take(&b);
}

int vf_json_add_int(cJSON *o, const char *field, int64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, v);
    return cJSON_AddRawToObject(o, field, text) ? 0 : VC_ENOMEM;
}

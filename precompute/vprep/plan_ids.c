/* plan_ids.c - the samples of a plan's lines, and the numbers that it gave to rows; see
 * plan_lines.h */
#include "precompute/vprep/plan_lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/lines.h"

enum { MAX_LINE = 16 << 20 };               /* bytes */

/* ---- lines ---- */

static int set_head(plan_head *h, const char *hex, int64_t number, int64_t variant, vc_err *err)
{
    char *end;
    *h = (plan_head){ strtoull(hex, &end, 16), number, variant };
    if (*end || strlen(hex) != 16)
        return vc_fail(err, VC_EFORMAT, "id: expected 16 hex digits");
    if (number < 0 || number > UINT32_MAX - 1 || variant < 0 || variant > UINT16_MAX)
        return vc_fail(err, VC_EFORMAT, "sample or variant out of range");
    return 0;
}

int plan_head_parse(plan_head *h, const char *text, size_t n, vc_err *err)
{
    const char *hex;
    int64_t number, variant;
    cJSON *o;
    int rc = vf_json_parse_line(&o, text, n, err);

    if (!rc)
        rc = vf_json_str(o, "id", &hex, err);
    if (!rc)
        rc = vf_json_int(o, "sample", &number, err);
    if (!rc)
        rc = vf_json_int(o, "variant", &variant, err);
    if (!rc)
        rc = set_head(h, hex, number, variant, err);
    cJSON_Delete(o);
    return rc;
}

/* The same of a line that vprep wrote, of which the beginning suffices. */
static bool peek_head(plan_head *h, const char *text, size_t n)
{
    char start[96], hex[17];
    long long number, variant;
    int end = 0;

    snprintf(start, sizeof start, "%.*s", (int)(n < sizeof start ? n : sizeof start), text);
    return sscanf(start, "{\"sample\":%lld,\"id\":\"%16[0-9a-f]\",\"variant\":%lld,%n", &number,
                  hex, &variant, &end) == 3 && end && !set_head(h, hex, number, variant, NULL);
}

int plan_each_line(const vc_map *m, const char *path,
                   int (*each)(void *arg, const char *text, size_t n, vc_err *err), void *arg,
                   vc_err *err)
{
    vc_lines l = vc_lines_of(m->data, m->size, MAX_LINE);
    const char *line;
    size_t n;
    int rc;
    while (!(rc = vc_lines_next(&l, &line, &n, err)) && line) {
        rc = n ? each(arg, line, n, err) : 0;
        if (vc_context(err, rc, "line %" PRId64, l.number))
            break;
    }
    return vc_context(err, rc, "%s", path);
}

int plan_head_of(plan_head *h, const char *text, size_t n, vc_err *err)
{
    return peek_head(h, text, n) ? 0 : plan_head_parse(h, text, n, err);
}

vf_key plan_line_key(uint32_t number, uint16_t variant)
{
    const uint32_t both[2] = { number, variant };
    return vf_hash(both, sizeof both);
}

/* ---- ids ---- */

static int add_known(void *arg, const char *text, size_t n, vc_err *err)
{
    plan_head h;
    int rc = plan_head_of(&h, text, n, err);
    return rc || h.variant ? rc : plan_ids_add(arg, h.id, (uint32_t)h.number, err);
}

int plan_ids_read(plan_ids *l, const char *path, vc_err *err)
{
    vc_map m;
    int rc = vc_map_open(&m, path, err);

    if (!rc)
        rc = plan_each_line(&m, path, add_known, l, err);
    vc_map_close(&m);
    plan_ids_sort(l);
    return rc;
}

typedef struct below {
    plan_ids *l;
    const char *folder;
} below;

static int add_below(void *arg, const char *text, size_t n, vc_err *err)
{
    const below *b = arg;
    const char *path;
    plan_head h;
    cJSON *o;
    int rc = vf_json_parse_line(&o, text, n, err);

    if (!rc)
        rc = vf_json_str(o, "path", &path, err);
    if (!rc)
        rc = plan_head_parse(&h, text, n, err);
    if (!rc && !h.variant && !strncmp(path, b->folder, strlen(b->folder)))
        rc = plan_ids_add(b->l, h.id, (uint32_t)h.number, err);
    cJSON_Delete(o);
    return rc;
}

int plan_ids_below(plan_ids *l, const char *path, const char *folder, vc_err *err)
{
    vc_map m;
    below b = { l, folder };
    int rc = vc_map_open(&m, path, err);

    if (!rc)
        rc = plan_each_line(&m, path, add_below, &b, err);
    vc_map_close(&m);
    return rc;
}

int plan_ids_add(plan_ids *l, uint64_t id, uint32_t number, vc_err *err)
{
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 1024;
        struct plan_id *grown = realloc(l->v, room * sizeof *grown);
        if (!grown)
            return vc_fail(err, VC_ENOMEM, "out of memory for %zu rows", room);
        l->v = grown;
        l->room = room;
    }
    l->v[l->n++] = (struct plan_id){ id, number };
    return 0;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct plan_id *)a)->id, y = ((const struct plan_id *)b)->id;
    return (x > y) - (x < y);
}

void plan_ids_sort(plan_ids *l)
{
    if (l->n)
        qsort(l->v, l->n, sizeof *l->v, by_id);
}

bool plan_ids_find(const plan_ids *l, uint64_t id, uint32_t *number)
{
    struct plan_id want = { .id = id };
    const struct plan_id *k = l->n ? bsearch(&want, l->v, l->n, sizeof want, by_id) : NULL;
    if (k)
        *number = k->number;
    return k != NULL;
}

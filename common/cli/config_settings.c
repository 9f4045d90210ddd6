/* config_settings.c - what the rows of peers.h make of one setting. See config_internal.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cli/config_internal.h"
#include "common/os/file.h"

/* ---- the text of a setting ---- */

static int put_environment(FILE *f, const char **s, vc_err *err)
{
    char name[200];
    size_t n = strcspn(*s + 2, "}");
    snprintf(name, sizeof name, "%.*s", (int)n, *s + 2);
    const char *value = getenv(name);
    if (!value)
        return vc_fail(err, VC_EUSAGE, "the environment has no variable %s", name);
    fputs(value, f);
    *s += 2 + n + ((*s)[2 + n] == '}');
    return 0;
}

/* The value of a setting, in which names of variables are replaced where the peer does so. */
static int value_text(const vc_peer_reader *r, const yaml_node_t *n, const char **out, vc_err *err)
{
    const char *s = vc_peer_text(n);
    char *text = NULL;
    size_t size;
    int rc = 0;

    if (!s)
        return vc_fail(err, VC_EUSAGE, "one value is expected");
    if (strlen(s) != n->data.scalar.length)
        return vc_fail(err, VC_EUSAGE, "a NUL character in the text");
    *out = s;
    if (!r->peer->expands || !strpbrk(s, "$["))
        return 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return vc_no_memory(err);
    while (!rc && *s) {
        if (s[0] == '$' && s[1] == '{')
            rc = put_environment(f, &s, err);
        else if (r->run_name && !strncmp(s, "[name]", 6))
            s += fputs(r->run_name, f) < 0 ? 6 : 6;
        else
            fputc(*s++, f);
    }
    if (fclose(f) && !rc)
        rc = vc_no_memory(err);
    *out = rc ? NULL : vc_flags_keep_text(r->set, text, size);
    free(text);
    return rc || *out ? rc : vc_no_memory(err);
}

/* The texts of a value or of a list of values. */
int vc_peer_texts(const vc_peer_reader *r, const yaml_node_t *n, const char **out, int *count,
                       vc_err *err)
{
    *count = 1;
    if (n->type != YAML_SEQUENCE_NODE)
        return value_text(r, n, &out[0], err);
    int rc = 0;
    *count = (int)(n->data.sequence.items.top - n->data.sequence.items.start);
    if (*count > MOST_ITEMS)
        return vc_fail(err, VC_EUSAGE, "more than %d values", MOST_ITEMS);
    const yaml_node_item_t *item = n->data.sequence.items.start;
    for (int i = 0; !rc && i < *count; i++)
        rc = value_text(r, yaml_document_get_node(r->doc, item[i]), &out[i], err);
    return rc;
}

/* ---- what a row makes of a setting ---- */

int vc_peer_give(vc_peer_reader *r, const char *flag, size_t len, const char *text, bool each,
                const vc_place *at, vc_err *err)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)len, flag);
    vc_given g = { .flag = name, .text = text, .at = *at, .each = each };
    return vc_commands_add(r->commands, &g, err);
}

/* Gives each flag of "FLAG=VALUE FLAG"; a flag without a value takes `text`. */
static int give_all(vc_peer_reader *r, const char *flags, size_t len, const char *text,
                    const vc_place *at, vc_err *err)
{
    int rc = 0;
    for (const char *end = flags + len; !rc && flags < end;) {
        size_t n = strcspn(flags, " |"), k;
        n = n < (size_t)(end - flags) ? n : (size_t)(end - flags);
        const char *equals = memchr(flags, '=', n);
        k = equals ? (size_t)(equals - flags) : n;
        char *own = equals ? vc_flags_keep_text(r->set, equals + 1, n - k - 1) : NULL;
        if (equals && !own)
            return vc_no_memory(err);
        rc = vc_peer_give(r, flags, k, own ? own : text, false, at, err);
        flags += n + (flags + n < end);
    }
    return rc;
}

/* The flags that the map has for a value, with their length; NULL: none. */
const char *vc_peer_mapped(const char *map, const char *text, size_t *len)
{
    for (size_t n; *map; map += n + (map[n] == '|')) {
        n = strcspn(map, "|");
        const char *arrow = memchr(map, '>', n);
        if (!arrow || !vc_peer_same(text, map, (size_t)(arrow - map)))
            continue;
        *len = n - (size_t)(arrow + 1 - map);
        return arrow + 1;
    }
    return NULL;
}

/* Whether the command line has a flag that a value of the map stands for. */
static bool decided(const vc_peer_reader *r, const vc_peer_row *row)
{
    if (row->flag && vc_commands_typed(r->set, row->flag, strlen(row->flag)))
        return true;
    for (const char *s = row->map; s && (s = strpbrk(s, "> "));) {
        size_t n = strcspn(++s, "= |");
        if (n && vc_commands_typed(r->set, s, n))
            return true;
    }
    return false;
}

static int note_typed(vc_peer_reader *r, const vc_place *at)
{
    vc_flags_line(r->set, &r->set->notes, at, "", "the command line's flag counts");
    return 0;
}

/* The expression that matches names with a part of "a,b": ".*(a|b).*". raw: the parts are
 * expressions. */
static const char *parts_text(const vc_peer_reader *r, const char *text, bool raw)
{
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);
    if (!f)
        return NULL;
    fputs(".*(", f);
    for (; *text; text++) {
        if (*text == '.' && !raw)
            fputc('\\', f);
        if (*text != ' ')
            fputc(*text == ',' ? '|' : *text, f);
    }
    fputs(").*", f);
    char *kept = fclose(f) ? NULL : vc_flags_keep_text(r->set, out, size);
    free(out);
    return kept;
}

/* Whether the setting KEY_regex beside this one is true. */
static bool is_regex(const vc_peer_reader *r, const vc_peer_row *row, const yaml_node_t *beside)
{
    char name[80];
    int n = snprintf(name, sizeof name, "%s_regex", row->key);
    const char *text = vc_peer_text(vc_peer_below(r->doc, beside, name, (size_t)n));
    return text && !strcasecmp(text, "true");
}

static int map_value(vc_peer_reader *r, const vc_peer_row *row, const yaml_node_t *beside,
                     const char *text, const vc_place *at, vc_err *err)
{
    const char *key = text;
    char both[160];
    size_t len = 0;

    if (row->by) {
        const yaml_node_t *by = vc_peer_below(r->doc, beside, row->by, strlen(row->by));
        key = by && !vc_config_null(by) ? vc_peer_text(by) : row->otherwise;
        snprintf(both, sizeof both, "%s/%s", key ? key : "", text);
        key = row->both ? both : key;
    }
    const char *flags = key ? vc_peer_mapped(row->map, key, &len) : NULL;
    if (flags && len && row->kind == VC_SETTING_PARTS && !strncmp(flags, "target_name", len))
        text = parts_text(r, text, is_regex(r, row, beside));
    if (!text)
        return vc_no_memory(err);
    if (flags && len)
        return give_all(r, flags, len, text, at, err);
    if (flags || decided(r, row))
        return flags ? 0 : note_typed(r, at);
    vc_quoted q = vc_flags_quote(text, strlen(text));
    return vc_fail(err, VC_EUSAGE, "%s is not available here: %s", q.s, row->say);
}

static bool is_off(const char *text)
{
    return !strcasecmp(text, "false") || !strcasecmp(text, "none") || !*text ||
           !strcmp(text, "0") || !strcmp(text, "0.0");
}

/* A setting without a flag: its text is NULL if it is a list or a section. */
int vc_peer_no_flag(vc_peer_reader *r, const vc_peer_row *row, const char *text, const vc_place *at)
{
    bool refused = row->kind == VC_SETTING_REFUSED;
    bool fits = (text && row->only && vc_peer_listed(row->only, text, '|')) ||
                (row->unless && vc_peer_signs(r->doc, vc_peer_root(r->doc, r->peer), row->unless));

    if (refused && (fits || (text && is_off(text))))
        return 0;
    if (refused && decided(r, row))
        return note_typed(r, at);
    if (!refused && row->only && text && !fits)
        refused = true;
    if (refused)
        vc_flags_line(r->set, &r->set->wrong, at, "not available here: ", row->say);
    else if (!row->only)
        vc_flags_line(r->set, &r->set->notes, at, "has no effect here: ", row->say);
    return 0;
}

int vc_peer_put_later(vc_peer_part *p, vc_later l, vc_err *err)
{
    if (p->n_later == MOST_LISTS)
        return vc_fail(err, VC_EUSAGE, "more than %d lists", MOST_LISTS);
    p->later[p->n_later++] = l;
    return 0;
}

/* The length of the first pair of "name=value,name=value"; a comma without a name and '=' behind it
 * belongs to the value. */
static size_t pair_length(const char *text)
{
    size_t n = 0;
    for (n = strcspn(text, ","); text[n]; n += 1 + strcspn(text + n + 1, ",")) {
        size_t k = strspn(text + n + 1, "abcdefghijklmnopqrstuvwxyz_0123456789. ");
        if (text[n + 1 + k] == '=')
            break;
    }
    return n;
}

static int read_pair(vc_peer_reader *r, vc_peer_part *p, const char *path, const char *text,
                     size_t len, const vc_place *at, vc_err *err)
{
    size_t k = strcspn(text, "=");
    k = k < len ? k : len;
    char name[160];
    snprintf(name, sizeof name, "%s.%.*s", path, (int)k, text);
    vc_place own = *at;
    snprintf(own.name, sizeof own.name, "%.99s", name);
    char *value = vc_flags_keep_text(r->set, text + k + (k < len), len - k - (k < len));
    if (!value)
        return vc_no_memory(err);
    const char *item[MOST_ITEMS];
    int m = 0;
    for (char *s = strtok(value, "(),[] "); s && m < MOST_ITEMS; s = strtok(NULL, "(),[] "))
        item[m++] = s;
    const vc_peer_row *row = vc_peer_row_of(r->peer, name);
    if (row && m)
        return vc_peer_value(r, p, row, NULL, name, item, m, &own, err);
    return row ? 0 : vc_flags_take(r->set, &own, NULL, vc_fail(err, VC_EUSAGE, "not known here: "
                                                               "leave it out"), err);
}

/* "name=value" texts, settings of their own; Python's tuples are lists. */
static int read_pairs(vc_peer_reader *r, vc_peer_part *p, const char *path,
                      const char *const *text, int n, const vc_place *at, vc_err *err)
{
    int rc = 0;
    for (int i = 0; i < n; i++)
        for (const char *s = text[i]; !rc && *s;) {
            size_t len = pair_length(s);
            rc = read_pair(r, p, path, s, len, at, err);
            s += len + (s[len] == ',');
        }
    return rc;
}

/* One side, "512", or two, [960, 544] and "960,544": a size, or, with buckets, the area of all. */
static int read_area(vc_peer_reader *r, const vc_peer_row *row, const yaml_node_t *beside,
                     const char *const *text, int n, const vc_place *at, vc_err *err)
{
    const yaml_node_t *root = yaml_document_get_root_node(r->doc);
    const yaml_node_t *by = vc_peer_below(r->doc, beside ? beside : root, row->by, strlen(row->by));
    long width = strtol(text[0], NULL, 10);
    const char *comma = strchr(text[0], ',');
    long height = n == 2 ? strtol(text[1], NULL, 10) : comma ? strtol(comma + 1, NULL, 10) : width;
    char size[2][24];

    if (!by)
        by = vc_peer_below(r->doc, vc_peer_below(r->doc, root, "general", 7), row->by,
                           strlen(row->by));
    if (n > 2 || width < 1 || height < 1 || width > 16384 || height > 16384)
        return vc_fail(err, VC_EUSAGE, "a side is expected, or width and height");
    bool buckets = by && vc_peer_text(by) && !strcasecmp(vc_peer_text(by), "true");
    long side = lround(sqrt((double)width * (double)height));
    snprintf(size[0], sizeof size[0], "%ld", buckets ? side : width);
    snprintf(size[1], sizeof size[1], "%ld", buckets ? side : height);
    int rc = give_all(r, buckets ? "video_sample_size" : "width", buckets ? 17 : 5, size[0], at,
                      err);
    return rc ? rc : give_all(r, buckets ? "image_sample_size" : "height", buckets ? 17 : 6,
                              size[1], at, err);
}

/* Sizes of a list, or of a text, "512,768". */
static int put_sizes(vc_peer_reader *r, vc_peer_part *p, const char *const *text, int n,
                     vc_err *err)
{
    p->n_sizes = 0;
    for (int i = 0; i < n; i++)
        for (const char *s = text[i]; *s; s += strcspn(s, ", "), s += strspn(s, ", ")) {
            char *size = vc_flags_keep_text(r->set, s, strcspn(s, ", "));
            if (!size)
                return vc_no_memory(err);
            if (p->n_sizes == MOST_ITEMS)
                return vc_fail(err, VC_EUSAGE, "more than %d values", MOST_ITEMS);
            p->size[p->n_sizes++] = size;
        }
    return 0;
}

/* A number that the flags get after a change: one more, or the side of a square, which is given as
 * such ("pixel_area") or by its megapixels ("area"). */
static int give_number(vc_peer_reader *r, const vc_peer_row *row, const yaml_node_t *beside,
                       const char *text, const vc_place *at, vc_err *err)
{
    char *end, number[24];
    double x = strtod(text, &end);

    if (end == text || *end || !(x >= 0 && x < 1e6))
        return vc_fail(err, VC_EUSAGE, "a number from 0 to a million is expected");
    if (row->kind == VC_SETTING_MORE) {
        x += 1;
    } else {
        const char *by = vc_peer_text(vc_peer_below(r->doc, beside, row->by, strlen(row->by)));
        by = by ? by : row->otherwise;
        if (!strcmp(by, "area"))
            x = sqrt(x * 1e6);
        else if (strcmp(by, row->otherwise) && decided(r, row))
            return note_typed(r, at);
        else if (strcmp(by, row->otherwise))
            return vc_fail(err, VC_EUSAGE, "%s %s is not available here: %s", row->by, by,
                           row->say);
    }
    snprintf(number, sizeof number, "%ld", lround(x));
    const char *kept = vc_flags_keep_text(r->set, number, strlen(number));
    return kept ? give_all(r, row->flag, strlen(row->flag), kept, at, err) : vc_no_memory(err);
}

int vc_peer_value(vc_peer_reader *r, vc_peer_part *p, const vc_peer_row *row,
                  const yaml_node_t *beside, const char *path, const char *const *text, int n,
                  const vc_place *at, vc_err *err)
{
    const char *flags = row->flag, *all = text[0];
    int part_of_pair, rc = 0;
    size_t len;

    switch (row->kind) {
    case VC_SETTING_DATASETS:
        rc = put_sizes(r, p, text, n, err);
        p->size_flags = row->flag;
        n = p->n_sizes;
        text = p->size;
        if (rc || !n)
            return rc;
        return n > 1 ? 0 : give_all(r, row->flag, strlen(row->flag), text[0], at, err);
    case VC_SETTING_AREA:
        return read_area(r, row, beside, text, n, at, err);
    case VC_SETTING_SQUARE:
    case VC_SETTING_MORE:
        return give_number(r, row, beside, text[0], at, err);
    case VC_SETTING_EACH:
        for (int i = 0; !rc && i < n; i++)
            rc = vc_peer_give(r, row->flag, strlen(row->flag), text[i], true, at, err);
        return rc;
    case VC_SETTING_SPLIT:
        for (int i = 0; !rc && i < n; i++) {
            const char *flag = vc_flags_next_name(&flags, &len, &part_of_pair);
            if (!flag)
                return vc_fail(err, VC_EUSAGE, "fewer values are expected");
            rc = vc_peer_give(r, flag, len, text[i], false, at, err);
        }
        return rc;
    case VC_SETTING_PAIRS:
        return read_pairs(r, p, path, text, n, at, err);
    case VC_SETTING_FILE:
        return vc_peer_put_later(p, (vc_later){ .path = row->flag, .file = text[0], .at = *at },
                                 err);
    case VC_SETTING_NOTE:
    case VC_SETTING_REFUSED:
        return vc_peer_no_flag(r, row, n == 1 ? text[0] : NULL, at);
    case VC_SETTING_FLAG:
    case VC_SETTING_PARTS:
        break;
    }
    for (int i = 1; i < n; i++) {
        char *longer = vc_format("%s,%s", all, text[i]);
        all = longer ? vc_flags_keep_text(r->set, longer, strlen(longer)) : NULL;
        free(longer);
        if (!all)
            return vc_no_memory(err);
    }
    if (row->map)
        return map_value(r, row, beside, all, at, err);
    if (row->say)
        vc_flags_line(r->set, &r->set->notes, at, "", row->say);
    return give_all(r, row->flag, strlen(row->flag), all, at, err);
}

/* A key without a row, in a file whose keys are flags: the flag is looked up by its own name. */
int vc_peer_flag(vc_peer_reader *r, vc_peer_part *p, const yaml_node_t *beside,
                 const yaml_node_t *value, const char *path, vc_place *at, vc_err *err)
{
    const char *dot = strrchr(path, '.'), *key = dot ? dot + 1 : path;
    const char *text[MOST_ITEMS] = { NULL };
    vc_found own;
    bool negated;
    int n = 0;

    int rc = value->type == YAML_MAPPING_NODE ? 0 : vc_peer_texts(r, value, text, &n, err);
    if (rc || !n)
        return rc;
    const vc_peer_row *row = vc_peer_row_of(r->peer, key);
    if (row)
        return vc_peer_value(r, p, row, beside, key, text, n, at, err);
    const vc_foreign *f = vc_flags_find_foreign(r->set->prog, key, strlen(key), &negated);
    bool partners = f && f->say && !strncmp(f->say, "used by ", 8);
    if (vc_flags_find(r->set->prog, key, strlen(key), &own) || partners) {
        const vc_peer_row same = { .kind = VC_SETTING_FLAG, .flag = key };
        return vc_peer_value(r, p, &same, NULL, key, text, n, at, err);
    }
    if (f)
        return vc_flags_set_foreign(r->set, f, at, negated, n == 1 ? text[0] : NULL, err);
    return vc_flags_unknown(r->set->prog, "", path, strlen(path), err);
}

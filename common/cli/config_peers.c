/* config_peers.c - reads the settings of another trainer's file by the rows of peers.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/near.h"
#include "common/cli/config_internal.h"
#include "common/os/file.h"

enum { MOST_LISTS = 64, MOST_ITEMS = 32, DEEPEST_FILE = 2 };

typedef struct reader {
    vc_flags *set;
    const vc_peer_file *peer;
    yaml_document_t *doc;
    const char *path;                /* of the file, for messages */
    const char *run_name;            /* what [name] stands for, or NULL */
    vc_commands *commands;
    int depth;                       /* of files that files name */
} reader;

/* A list of sections, or a file, which is read after the settings beside it. */
typedef struct later {
    const char *path, *file;
    const yaml_node_t *list;
    vc_place at;
} later;

/* A part of the file that may be a dataset: the file itself, or one section of a list. */
typedef struct part {
    later later[MOST_LISTS];
    int n_later;
    const char *size[MOST_ITEMS], *size_flags;     /* sizes that each make a dataset */
    int n_sizes;
} part;

static int read_section(reader *r, part *p, const yaml_node_t *section, const char *path,
                        vc_err *err);

/* ---- finding a setting by its path ---- */

static const yaml_node_t *node(const reader *r, int id)
{
    return yaml_document_get_node(r->doc, id);
}

static const char *text_of(const yaml_node_t *n)
{
    return n && n->type == YAML_SCALAR_NODE ? (const char *)n->data.scalar.value : NULL;
}

static const yaml_node_t *first_item(yaml_document_t *doc, const yaml_node_t *n)
{
    while (n && n->type == YAML_SEQUENCE_NODE)
        n = n->data.sequence.items.start < n->data.sequence.items.top
                ? yaml_document_get_node(doc, *n->data.sequence.items.start) : NULL;
    return n;
}

static bool same_text(const char *s, const char *pattern, size_t n)
{
    if (n && pattern[n - 1] == '*')
        return !strncmp(s, pattern, n - 1);
    return strlen(s) == n && !strncmp(s, pattern, n);
}

/* The setting of a path below n, through the first section of each list. */
static const yaml_node_t *below(yaml_document_t *doc, const yaml_node_t *n, const char *path,
                                size_t len)
{
    while (len) {
        size_t k = 0;
        while (k < len && path[k] != '.')
            k++;
        n = first_item(doc, n);
        if (!n || n->type != YAML_MAPPING_NODE)
            return NULL;
        const yaml_node_t *value = NULL;
        for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
            const char *key = text_of(yaml_document_get_node(doc, p->key));
            if (key && same_text(key, path, k))
                value = yaml_document_get_node(doc, p->value);
        }
        n = value;
        path += k + (k < len);
        len -= k + (k < len);
    }
    return n;
}

/* Whether the file has "a.b", or "a.b=text*"; a path without a dot may be in any section. */
static bool has_sign(yaml_document_t *doc, const yaml_node_t *root, const char *sign, size_t len)
{
    const char *equals = memchr(sign, '=', len);
    size_t n = equals ? (size_t)(equals - sign) : len;
    const yaml_node_t *found = below(doc, root, sign, n);

    for (yaml_node_pair_t *p = root->data.mapping.pairs.start;
         !found && !memchr(sign, '.', n) && p < root->data.mapping.pairs.top; p++) {
        const yaml_node_t *section = yaml_document_get_node(doc, p->value);
        found = section->type == YAML_MAPPING_NODE ? below(doc, section, sign, n) : NULL;
    }
    if (!found || !equals)
        return found;
    const char *text = text_of(found);
    return text && same_text(text, equals + 1, len - n - 1);
}

static const yaml_node_t *root_of(yaml_document_t *doc, const vc_peer_file *peer)
{
    const yaml_node_t *root = yaml_document_get_root_node(doc);
    return first_item(doc, below(doc, root, peer->root, strlen(peer->root)));
}

/* Whether the file has all signs of one alternative, "a b|c". */
static bool has_signs(yaml_document_t *doc, const yaml_node_t *root, const char *signs)
{
    bool all = true;
    for (size_t n; *signs; signs += n) {
        n = strcspn(signs, " |");
        if (n)
            all = all && has_sign(doc, root, signs, n);
        else if (*signs == '|' && all)
            return true;
        else if (*signs == '|')
            all = true;
        n += !n;
    }
    return all;
}

const vc_peer_file *vc_peer_of(yaml_document_t *doc)
{
    const yaml_node_t *root = yaml_document_get_root_node(doc);
    if (!root || root->type != YAML_MAPPING_NODE)
        return NULL;
    for (const vc_peer_file *const *p = vc_peer_files; *p; p++)
        if (has_signs(doc, root, (*p)->signs))
            return *p;
    return NULL;
}

static bool in_list(const char *list, const char *text, char between)
{
    for (size_t n; list && *list; list += n + (list[n] == between)) {
        const char *end = strchr(list, between);
        n = end ? (size_t)(end - list) : strlen(list);
        if (same_text(text, list, n))
            return true;
    }
    return false;
}

static const vc_peer_row *row_of(const vc_peer_file *peer, const char *path)
{
    for (const vc_peer_row *row = peer->rows; row->key; row++)
        if (in_list(row->key, path, ' '))
            return row;
    return NULL;
}

/* Whether a row has a path below this one. */
static bool has_deeper(const vc_peer_file *peer, const char *path)
{
    size_t len = strlen(path), n;
    int half;
    for (const vc_peer_row *row = peer->rows; row->key; row++) {
        const char *list = row->key, *s;
        while ((s = vc_flags_next_name(&list, &n, &half)))
            if (n > len + 1 && !strncmp(s, path, len) && s[len] == '.' && s[len + 1] != '*')
                return true;
    }
    return false;
}

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
static int value_text(const reader *r, const yaml_node_t *n, const char **out, vc_err *err)
{
    const char *s = text_of(n);
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
static int value_texts(const reader *r, const yaml_node_t *n, const char **out, int *count,
                       vc_err *err)
{
    *count = 1;
    if (n->type != YAML_SEQUENCE_NODE)
        return value_text(r, n, &out[0], err);
    int rc = 0;
    *count = (int)(n->data.sequence.items.top - n->data.sequence.items.start);
    if (*count > MOST_ITEMS)
        return vc_fail(err, VC_EUSAGE, "more than %d values", MOST_ITEMS);
    for (int i = 0; !rc && i < *count; i++)
        rc = value_text(r, node(r, n->data.sequence.items.start[i]), &out[i], err);
    return rc;
}

/* ---- what a row makes of a setting ---- */

static int give(reader *r, const char *flag, size_t len, const char *text, bool each,
                const vc_place *at, vc_err *err)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)len, flag);
    vc_given g = { .flag = name, .text = text, .at = *at, .each = each };
    return vc_commands_add(r->commands, &g, err);
}

/* Gives each flag of "FLAG=VALUE FLAG"; a flag without a value takes `text`. */
static int give_all(reader *r, const char *flags, size_t len, const char *text, const vc_place *at,
                    vc_err *err)
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
        rc = give(r, flags, k, own ? own : text, false, at, err);
        flags += n + (flags + n < end);
    }
    return rc;
}

/* The flags that the map has for a value, with their length; NULL: none. */
static const char *mapped(const char *map, const char *text, size_t *len)
{
    for (size_t n; *map; map += n + (map[n] == '|')) {
        n = strcspn(map, "|");
        const char *arrow = memchr(map, '>', n);
        if (!arrow || !same_text(text, map, (size_t)(arrow - map)))
            continue;
        *len = n - (size_t)(arrow + 1 - map);
        return arrow + 1;
    }
    return NULL;
}

/* Whether the command line has a flag that a value of the map stands for. */
static bool decided(const reader *r, const vc_peer_row *row)
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

static int note_typed(reader *r, const vc_place *at)
{
    vc_flags_line(r->set, &r->set->notes, at, "", "the command line's flag counts");
    return 0;
}

/* The expression that matches names with a part of "a,b": ".*(a|b).*". raw: the parts are
 * expressions. */
static const char *parts_text(const reader *r, const char *text, bool raw)
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
static bool is_regex(const reader *r, const vc_peer_row *row, const yaml_node_t *beside)
{
    char name[80];
    int n = snprintf(name, sizeof name, "%s_regex", row->key);
    const char *text = text_of(below(r->doc, beside, name, (size_t)n));
    return text && !strcasecmp(text, "true");
}

static int map_value(reader *r, const vc_peer_row *row, const yaml_node_t *beside,
                     const char *text, const vc_place *at, vc_err *err)
{
    const char *key = text;
    char both[160];
    size_t len = 0;

    if (row->by) {
        const yaml_node_t *by = below(r->doc, beside, row->by, strlen(row->by));
        key = by && !vc_config_null(by) ? text_of(by) : row->otherwise;
        snprintf(both, sizeof both, "%s/%s", key ? key : "", text);
        key = row->both ? both : key;
    }
    const char *flags = key ? mapped(row->map, key, &len) : NULL;
    bool regex = row->kind == VC_SETTING_PARTS && is_regex(r, row, beside);
    if (regex && strstr(text, "(?"))
        flags = NULL;                            /* POSIX's expressions do not look ahead */
    else if (flags && len && row->kind == VC_SETTING_PARTS && !strncmp(flags, "target_name", len))
        text = parts_text(r, text, regex);
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
static int no_flag(reader *r, const vc_peer_row *row, const char *text, const vc_place *at)
{
    bool refused = row->kind == VC_SETTING_REFUSED;
    bool fits = text && row->only && in_list(row->only, text, '|');

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

static int put_later(part *p, later l, vc_err *err)
{
    if (p->n_later == MOST_LISTS)
        return vc_fail(err, VC_EUSAGE, "more than %d lists", MOST_LISTS);
    p->later[p->n_later++] = l;
    return 0;
}

static int read_value(reader *r, part *p, const vc_peer_row *row, const yaml_node_t *beside,
                      const char *path, const char *const *text, int n, const vc_place *at,
                      vc_err *err);

/* "name=value" texts, settings of their own; Python's tuples are lists. */
static int read_pairs(reader *r, part *p, const char *path, const char *const *text, int n,
                      const vc_place *at, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < n; i++) {
        size_t k = strcspn(text[i], "=");
        char name[160];
        snprintf(name, sizeof name, "%s.%.*s", path, (int)k, text[i]);
        vc_place own = *at;
        snprintf(own.name, sizeof own.name, "%.99s", name);
        char *value = vc_flags_keep_text(r->set, text[i] + k + (text[i][k] == '='),
                                         strlen(text[i] + k + (text[i][k] == '=')));
        if (!value)
            return vc_no_memory(err);
        const char *item[MOST_ITEMS];
        int m = 0;
        for (char *s = strtok(value, "(),[] "); s && m < MOST_ITEMS; s = strtok(NULL, "(),[] "))
            item[m++] = s;
        const vc_peer_row *row = row_of(r->peer, name);
        if (row && m)
            rc = read_value(r, p, row, NULL, name, item, m, &own, err);
        else if (!row)
            rc = vc_flags_take(r->set, &own, NULL,
                               vc_fail(err, VC_EUSAGE, "not known here: leave it out"), err);
    }
    return rc;
}

/* One side, "512", or two, [960, 544] and "960,544": a size, or, with buckets, the area of all. */
static int read_area(reader *r, const vc_peer_row *row, const yaml_node_t *beside,
                     const char *const *text, int n, const vc_place *at, vc_err *err)
{
    const yaml_node_t *root = yaml_document_get_root_node(r->doc);
    const yaml_node_t *by = below(r->doc, beside ? beside : root, row->by, strlen(row->by));
    long width = strtol(text[0], NULL, 10);
    const char *comma = strchr(text[0], ',');
    long height = n == 2 ? strtol(text[1], NULL, 10) : comma ? strtol(comma + 1, NULL, 10) : width;
    char size[2][24];

    if (!by)
        by = below(r->doc, below(r->doc, root, "general", 7), row->by, strlen(row->by));
    if (n > 2 || width < 1 || height < 1 || width > 16384 || height > 16384)
        return vc_fail(err, VC_EUSAGE, "a side is expected, or width and height");
    bool buckets = by && text_of(by) && !strcasecmp(text_of(by), "true");
    long side = lround(sqrt((double)width * (double)height));
    snprintf(size[0], sizeof size[0], "%ld", buckets ? side : width);
    snprintf(size[1], sizeof size[1], "%ld", buckets ? side : height);
    int rc = give_all(r, buckets ? "video_sample_size" : "width", buckets ? 17 : 5, size[0], at,
                      err);
    return rc ? rc : give_all(r, buckets ? "image_sample_size" : "height", buckets ? 17 : 6,
                              size[1], at, err);
}

static int read_value(reader *r, part *p, const vc_peer_row *row, const yaml_node_t *beside,
                      const char *path, const char *const *text, int n, const vc_place *at,
                      vc_err *err)
{
    const char *flags = row->flag, *all = text[0];
    int part_of_pair, rc = 0;
    size_t len;

    switch (row->kind) {
    case VC_SETTING_DATASETS:
        for (int i = 0; i < n; i++)
            p->size[i] = text[i];
        p->n_sizes = n;
        p->size_flags = row->flag;
        return n > 1 ? 0 : give_all(r, row->flag, strlen(row->flag), text[0], at, err);
    case VC_SETTING_AREA:
        return read_area(r, row, beside, text, n, at, err);
    case VC_SETTING_EACH:
        for (int i = 0; !rc && i < n; i++)
            rc = give(r, row->flag, strlen(row->flag), text[i], true, at, err);
        return rc;
    case VC_SETTING_SPLIT:
        for (int i = 0; !rc && i < n; i++) {
            const char *flag = vc_flags_next_name(&flags, &len, &part_of_pair);
            if (!flag)
                return vc_fail(err, VC_EUSAGE, "fewer values are expected");
            rc = give(r, flag, len, text[i], false, at, err);
        }
        return rc;
    case VC_SETTING_PAIRS:
        return read_pairs(r, p, path, text, n, at, err);
    case VC_SETTING_FILE:
        return put_later(p, (later){ .path = row->flag, .file = text[0], .at = *at }, err);
    case VC_SETTING_NOTE:
    case VC_SETTING_REFUSED:
        return no_flag(r, row, n == 1 ? text[0] : NULL, at);
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
static int read_flag(reader *r, part *p, const yaml_node_t *value, const char *path, vc_place *at,
                     vc_err *err)
{
    const char *dot = strrchr(path, '.'), *key = dot ? dot + 1 : path;
    const char *text[MOST_ITEMS] = { NULL };
    vc_found own;
    bool negated;
    int n = 0;

    int rc = value->type == YAML_MAPPING_NODE ? 0 : value_texts(r, value, text, &n, err);
    if (rc || !n)
        return rc;
    const vc_peer_row *row = row_of(r->peer, key);
    if (row)
        return read_value(r, p, row, NULL, key, text, n, at, err);
    const vc_foreign *f = vc_flags_find_foreign(r->set->prog, key, strlen(key), &negated);
    bool partners = f && f->say && !strncmp(f->say, "used by ", 8);
    if (vc_flags_find(r->set->prog, key, strlen(key), &own) || partners) {
        const vc_peer_row same = { .kind = VC_SETTING_FLAG, .flag = key };
        return read_value(r, p, &same, NULL, key, text, n, at, err);
    }
    if (f)
        return vc_flags_set_foreign(r->set, f, at, negated, n == 1 ? text[0] : NULL, err);
    return vc_flags_unknown(r->set->prog, "", path, strlen(path), err);
}

static int unknown(const reader *r, const char *path, vc_err *err)
{
    vc_near g = vc_near_begin(path, strlen(path));
    for (const vc_peer_row *row = r->peer->rows; row->key; row++) {
        const char *list = row->key, *s;
        size_t n;
        int half;
        while ((s = vc_flags_next_name(&list, &n, &half)))
            if (s[n - 1] != '*')
                vc_near_try(&g, s, n, s, n, false);
    }
    if (g.best)
        return vc_fail(err, VC_EUSAGE, "not a known setting of %s: did you mean %.*s?",
                       r->peer->name, (int)g.best_len, g.best);
    return vc_fail(err, VC_EUSAGE, "not a known setting of %s: leave it out, or write the flag "
                   "that it is here", r->peer->name);
}

/* ---- walking through the file ---- */

static bool is_sections(const reader *r, const yaml_node_t *n)
{
    return n->type == YAML_SEQUENCE_NODE && n->data.sequence.items.start <
           n->data.sequence.items.top &&
           node(r, *n->data.sequence.items.start)->type == YAML_MAPPING_NODE;
}

static int read_setting(reader *r, part *p, const yaml_node_t *beside, const char *path,
                        const yaml_node_t *value, vc_place *at, vc_err *err)
{
    const vc_peer_row *row = row_of(r->peer, path);
    const char *text[MOST_ITEMS] = { NULL };
    bool values = value->type == YAML_SCALAR_NODE ||
                  (value->type == YAML_SEQUENCE_NODE && !is_sections(r, value));
    int n = 0;

    if (value->type == YAML_SCALAR_NODE && vc_config_null(value))
        return 0;
    if (value->type == YAML_MAPPING_NODE && (!row || has_deeper(r->peer, path)))
        return read_section(r, p, value, path, err);
    if (!row && is_sections(r, value))
        return put_later(p, (later){ .path = path, .list = value, .at = *at }, err);
    if (!row && r->peer->is_flags)
        return read_flag(r, p, value, path, at, err);
    if (!row)
        return unknown(r, path, err);
    if (row->kind == VC_SETTING_NOTE || row->kind == VC_SETTING_REFUSED) {
        if (value->type == YAML_SCALAR_NODE)
            return read_value(r, p, row, beside, path, (text[0] = text_of(value), text), 1, at,
                              err);
        bool empty = values && value->data.sequence.items.start == value->data.sequence.items.top;
        return empty ? 0 : no_flag(r, row, NULL, at);
    }
    int rc = values ? value_texts(r, value, text, &n, err)
                    : vc_fail(err, VC_EUSAGE, "a value is expected, not a section");
    return rc || !n ? rc : read_value(r, p, row, beside, path, text, n, at, err);
}

/* The path below the peer's root. */
static const char *below_root(const vc_peer_file *peer, const char *path)
{
    size_t n = strlen(peer->root);
    if (!n || strncmp(path, peer->root, n) || (path[n] && path[n] != '.'))
        return path;
    return path + n + (path[n] == '.');
}

static int read_section(reader *r, part *p, const yaml_node_t *section, const char *path,
                        vc_err *err)
{
    int rc = 0;

    for (const yaml_node_pair_t *i = section->data.mapping.pairs.start;
         !rc && i < section->data.mapping.pairs.top && r->set->faults < VC_MOST_FAULTS; i++) {
        const yaml_node_t *key = node(r, i->key);
        const char *name = text_of(key);
        vc_place at = { .file = r->path, .line = key->start_mark.line + 1 };
        if (!name)
            return vc_fail(err, VC_EUSAGE, "%s: line %zu: a key is a text", r->path, at.line);
        char *full = vc_format("%s%s%s", path, *path ? "." : "", name);
        const char *own = full ? vc_flags_keep_text(r->set, full, strlen(full)) : NULL;
        free(full);
        if (!own)
            return vc_no_memory(err);
        own = below_root(r->peer, own);
        snprintf(at.name, sizeof at.name, "%s", *own ? own : name);
        rc = read_setting(r, p, section, own, node(r, i->value), &at, err);
        rc = vc_flags_take(r->set, &at, NULL, rc, err);
    }
    return rc;
}

static int read_file(const reader *r, const later *l, vc_err *err);

/* Reads a section that may be a dataset, then its lists and files. */
static int read_part(reader *r, const yaml_node_t *section, const char *path, vc_err *err)
{
    part *p = calloc(1, sizeof *p);
    if (!p)
        return vc_no_memory(err);
    int mark = r->commands->vprep.n, before = r->commands->n_datasets;
    int rc = read_section(r, p, section, path, err);

    for (int i = 0; !rc && i < p->n_later; i++) {
        const yaml_node_t *list = p->later[i].list;
        if (!list) {
            rc = vc_flags_take(r->set, &p->later[i].at, NULL, read_file(r, &p->later[i], err), err);
            continue;
        }
        for (yaml_node_item_t *k = list->data.sequence.items.start;
             !rc && k < list->data.sequence.items.top; k++)
            if (node(r, *k)->type == YAML_MAPPING_NODE)
                rc = read_part(r, node(r, *k), p->later[i].path, err);
    }
    bool folder = false;
    for (int i = mark; i < r->commands->vprep.n; i++)
        folder |= !strcmp(r->commands->vprep.given[i].flag, "meta");
    if (!rc && folder && r->commands->n_datasets == before)
        rc = vc_commands_dataset(r->commands, mark, p->size_flags, p->size,
                                 p->n_sizes > 1 ? p->n_sizes : 0, err);
    free(p);
    return rc;
}

/* Reads the file that a setting names, unless --meta stands for it. */
static int read_file(const reader *r, const later *l, vc_err *err)
{
    reader own = *r;
    yaml_document_t doc;
    const char *path = vc_flags_keep_text(r->set, l->file, strlen(l->file));

    if (!path)
        return vc_no_memory(err);
    if (r->depth == DEEPEST_FILE)
        return vc_fail(err, VC_EUSAGE, "%s: files name files", path);
    int rc = vc_config_load(&doc, path, err);
    if (rc && (rc == VC_ENOMEM || vc_commands_typed(r->set, "meta", 4) ||
               strcmp(r->set->prog->name, "vprep"))) {
        if (rc != VC_ENOMEM)
            vc_flags_say(r->set, "%s: line %zu: %s is not read: %s", l->at.file, l->at.line,
                         l->at.name, err->text);
        return rc == VC_ENOMEM ? rc : 0;
    }
    if (rc)
        return rc;
    own.doc = &doc;
    own.path = path;
    own.depth++;
    const yaml_node_t *root = yaml_document_get_root_node(&doc);
    if (root && root->type == YAML_MAPPING_NODE)
        rc = read_part(&own, root, l->path, err);
    for (yaml_node_item_t *k = root && root->type == YAML_SEQUENCE_NODE
             ? root->data.sequence.items.start : NULL;
         k && !rc && k < root->data.sequence.items.top; k++)
        if (node(&own, *k)->type == YAML_MAPPING_NODE)
            rc = read_part(&own, node(&own, *k), l->path, err);
    yaml_document_delete(&doc);
    return rc;
}

/* Gives one default, "FLAG=VALUE[??SIGN][!!SIGN]", if the file has the first sign and not the
 * second. */
static int give_default(reader *r, const char *word, size_t len, vc_err *err)
{
    const yaml_node_t *root = root_of(r->doc, r->peer);
    char text[400];
    snprintf(text, sizeof text, "%.*s", (int)len, word);
    char *no = strstr(text, "!!"), *yes = strstr(text, "??"), *value = strchr(text, '=');
    if (no)
        *no = 0, no += 2;
    if (yes)
        *yes = 0, yes += 2;
    if (!value || (yes && !has_sign(r->doc, root, yes, strlen(yes))) ||
        (no && has_sign(r->doc, root, no, strlen(no))))
        return 0;
    *value++ = 0;
    vc_given g = { .flag = text, .text = value, .at = { .file = r->path }, .by_default = true };
    return vc_commands_add(r->commands, &g, err);
}

/* --like with the peer's name, and its defaults. */
static int give_defaults(reader *r, vc_err *err)
{
    const vc_place at = { .file = r->path };
    int rc = 0;

    if (r->peer->like)
        rc = give(r, "like", 4, r->peer->like, false, &at, err);
    for (const char *s = r->peer->defaults; !rc && s && *s;) {
        size_t n = strcspn(s, " ");
        rc = give_default(r, s, n, err);
        s += n + (s[n] == ' ');
    }
    return rc;
}

/* Refuses a file whose kind of run or family is not here, by that setting alone. */
static int check_kind(const reader *r, vc_err *err)
{
    const yaml_node_t *top = yaml_document_get_root_node(r->doc), *root = root_of(r->doc, r->peer);
    size_t len;
    int half;

    for (const vc_peer_row *row = r->peer->rows; row->key; row++) {
        const char *list = row->key, *s;
        while (row->kind_of_run && (s = vc_flags_next_name(&list, &len, &half))) {
            const yaml_node_t *found = below(r->doc, root, s, len);
            const char *text = text_of(found ? found : below(r->doc, top, s, len));
            size_t n;
            if (text && !mapped(row->map, text, &n))
                return vc_fail(err, VC_EUSAGE, "%s of %s: %.*s: %s: %s", r->path, r->peer->name,
                               (int)len, s, text, row->say);
        }
    }
    if (r->peer->needs && !has_signs(r->doc, root, r->peer->needs))
        return vc_fail(err, VC_EUSAGE, "%s of %s: %s", r->path, r->peer->name, r->peer->without);
    return 0;
}

int vc_peer_read(vc_flags *set, const vc_peer_file *peer, yaml_document_t *doc, const char *path,
                 vc_err *err)
{
    const yaml_node_t *root = yaml_document_get_root_node(doc);
    vc_commands commands = { .set = set };
    reader r = { .set = set, .peer = peer, .doc = doc, .path = path, .commands = &commands };

    if (!set->prog->partner)
        return vc_fail(err, VC_EUSAGE, "%s is a file of %s, which vprep and vtrain read", path,
                       peer->name);
    r.run_name = peer->expands ? text_of(below(doc, root, "config.name", 11)) : NULL;
    int rc = check_kind(&r, err);
    if (!rc)
        rc = give_defaults(&r, err);
    if (!rc)
        rc = read_part(&r, root, "", err);
    if (!rc)
        rc = vc_commands_take(&commands, peer->name, path, err);
    vc_commands_free(&commands);
    return rc;
}

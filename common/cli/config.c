/* config.c - flags from a YAML or TOML file, and the resolved settings as YAML. See flags.h. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "common/base/utf8.h"
#include "common/cli/config_env.h"
#include "common/cli/config_internal.h"
#include "common/os/file.h"

/* ---- reading ---- */

typedef struct config {
    vc_flags *set;
    const char *path;
    yaml_document_t *doc;
    unsigned char *seen;             /* [row]: bits of the halves that the file has set */
} config;

static ptrdiff_t sequence_length(const yaml_node_t *n)
{
    return n->data.sequence.items.top - n->data.sequence.items.start;
}

/* The text of a node; a text with a zero byte is refused. */
static int scalar(const yaml_node_t *n, const char **text, vc_err *err)
{
    if (n->type != YAML_SCALAR_NODE)
        return vc_fail(err, VC_EUSAGE, "one value is expected, not a %s",
                       n->type == YAML_SEQUENCE_NODE ? "sequence" : "mapping");
    *text = vc_config_text(n);
    if (strlen(*text) != n->data.scalar.length)
        return vc_fail(err, VC_EUSAGE, "a NUL character in the text");
    return 0;
}

static int set_list(config *c, const vc_found *found, const yaml_node_t *value, vc_err *err)
{
    const yaml_node_item_t *i = value->data.sequence.items.start;
    const yaml_node_item_t *end = value->data.sequence.items.top;
    const char *text;
    int rc = 0;

    for (; !rc && i < end; i++) {
        rc = scalar(yaml_document_get_node(c->doc, *i), &text, err);
        if (!rc)
            rc = vc_flags_set(c->set, found, &text, 1, VC_FROM_FILE, err);
    }
    return rc;
}

/* Joins the texts of a sequence by commas. */
static int set_words(config *c, const vc_found *found, const yaml_node_t *value, vc_err *err)
{
    const yaml_node_item_t *i = value->data.sequence.items.start;
    const yaml_node_item_t *end = value->data.sequence.items.top;
    const char *text = "", *all = "";
    int rc = 0;

    for (; !rc && i < end; i++) {
        rc = scalar(yaml_document_get_node(c->doc, *i), &text, err);
        char *longer = rc ? NULL : vc_flags_keep(c->set, strlen(all) + strlen(text) + 2);
        if (longer)
            sprintf(longer, "%s%s%s", all, *all ? "," : "", text);
        else if (!rc)
            rc = vc_no_memory(err);
        all = longer;
    }
    return rc || !*all ? rc : vc_flags_set(c->set, found, &all, 1, VC_FROM_FILE, err);
}

static int set_pair(config *c, const vc_found *found, const yaml_node_t *value, vc_err *err)
{
    const yaml_node_item_t *i = value->data.sequence.items.start;
    const char *text[2];

    if (value->data.sequence.items.top - i != 2)
        return vc_fail(err, VC_EUSAGE, "two numbers are expected, [384, 672]");
    int rc = scalar(yaml_document_get_node(c->doc, i[0]), &text[0], err);
    if (!rc)
        rc = scalar(yaml_document_get_node(c->doc, i[1]), &text[1], err);
    return rc ? rc : vc_flags_set(c->set, found, text, 2, VC_FROM_FILE, err);
}

static int set_own(config *c, vc_found *found, const yaml_node_t *value, vc_err *err)
{
    const vc_flag *f = found->flag;
    unsigned char *seen = &c->seen[f - c->set->prog->flags];
    unsigned char halves = found->part < 0 ? 3 : (unsigned char)(1 << found->part);
    const char *text;

    if (*seen & halves)
        return vc_fail(err, VC_EUSAGE, "set twice (as %s before)", f->name);
    *seen |= halves;
    if (f->kind == VC_LIST && value->type == YAML_SEQUENCE_NODE)
        return set_list(c, found, value, err);
    if (f->kind == VC_WORDS && value->type == YAML_SEQUENCE_NODE)
        return set_words(c, found, value, err);
    if (f->kind == VC_PAIR && found->part < 0 && value->type == YAML_SEQUENCE_NODE)
        return set_pair(c, found, value, err);

    int rc = scalar(value, &text, err);
    if (rc || vc_config_null(value))
        return rc;
    if (found->negated) {                        /* no_x: true is x: false */
        bool yes = !strcasecmp(text, "true") || !strcasecmp(text, "yes");
        if (!yes && strcasecmp(text, "false") && strcasecmp(text, "no"))
            return vc_fail(err, VC_EUSAGE, "true or false is expected");
        found->negated = yes;
        text = "true";
    }
    return vc_flags_set(c->set, found, &text, 1, VC_FROM_FILE, err);
}

/* The flag's name in a key: keys of SimpleTuner's files begin with dashes. */
static const char *name_of(const char *key)
{
    return key + (strncmp(key, "--", 2) ? 0 : 2);
}

static int set_foreign(config *c, const vc_foreign *f, const vc_place *at, bool negated,
                       const yaml_node_t *value, vc_err *err)
{
    const char *text = value->type == YAML_SCALAR_NODE ? vc_config_text(value) : NULL;

    bool empty = value->type == YAML_SEQUENCE_NODE && !sequence_length(value);
    if (empty || (text && vc_config_null(value)))
        return 0;
    return vc_flags_set_foreign(c->set, f, at, negated, text, err);
}

static int set_section(config *c, const yaml_node_t *section, const char *prefix, vc_err *err);

/* Whether the value is a list of sections, as "[[datasets]]" makes. */
static bool is_sections(const config *c, const yaml_node_t *value)
{
    return value->type == YAML_SEQUENCE_NODE && sequence_length(value) > 0 &&
           yaml_document_get_node(c->doc, *value->data.sequence.items.start)->type ==
               YAML_MAPPING_NODE;
}

/* Applies each section of the list; other items are left to the flag that takes the list. */
static int set_sections(config *c, const yaml_node_t *list, const char *prefix, vc_err *err)
{
    const yaml_node_item_t *i = list->data.sequence.items.start;
    const yaml_node_item_t *end = list->data.sequence.items.top;
    int rc = 0;

    for (; !rc && i < end && c->set->faults < VC_MOST_FAULTS; i++) {
        const yaml_node_t *section = yaml_document_get_node(c->doc, *i);
        if (section->type == YAML_MAPPING_NODE)
            rc = set_section(c, section, prefix, err);
    }
    return rc;
}

/* Whether the value is a section of the file: "model: {type: wan, dtype: bf16}". */
static bool is_section(const config *c, const char *name, size_t len, const char *prefix,
                       const yaml_node_t *value)
{
    vc_found found;
    bool negated;

    if (value->type != YAML_MAPPING_NODE || *prefix || vc_flags_builtin_name(name, len))
        return false;
    if (!vc_flags_find(c->set->prog, name, len, &found))
        return !vc_flags_find_foreign(c->set->prog, name, len, &negated);
    return found.flag->kind == VC_PATH || found.flag->kind == VC_CHOICE;
}

/* Applies one line of the file. In a section, "optimizer: {type: adamw}", the name is first looked
 * up with the section's, "optimizer.type", then alone. */
static int set_key(config *c, const char *prefix, const char *name, const yaml_node_t *value,
                   vc_place *at, const vc_flag **flag, vc_err *err)
{
    char *full = vc_flags_keep(c->set, strlen(prefix) + strlen(name) + 2);
    vc_found found;
    bool negated;

    if (!full)
        return vc_no_memory(err);
    sprintf(full, "%s%s%s", prefix, *prefix ? "." : "", name);
    size_t n = strlen(full), len = strlen(name);
    const vc_foreign *f = vc_flags_find_foreign(c->set->prog, full, n, &negated);
    if (!f && *prefix && vc_flags_find(c->set->prog, full, n, &found))
        name = full, len = n;
    if (!f && is_section(c, name, len, prefix, value))
        return set_section(c, value, full, err);
    if (!f && vc_flags_find(c->set->prog, name, len, &found)) {
        *flag = found.flag;
        snprintf(at->name, sizeof at->name, "%s", full);
        int rc = vc_flags_type(c->set, name, len, err);
        return rc ? rc : set_own(c, &found, value, err);
    }
    const char *typed = f ? full : name;
    if (!f)
        f = vc_flags_find_foreign(c->set->prog, name, len, &negated);
    if (f) {
        snprintf(at->name, sizeof at->name, "%s", full);
        int rc = vc_flags_type(c->set, typed, strlen(typed), err);
        if (!rc)
            rc = set_foreign(c, f, at, negated, value, err);
        return rc || *prefix || !is_sections(c, value) ? rc : set_sections(c, value, full, err);
    }
    return vc_flags_unknown(c->set->prog, "", full, n, err);
}

static int set_section(config *c, const yaml_node_t *section, const char *prefix, vc_err *err)
{
    const yaml_node_pair_t *p = section->data.mapping.pairs.start;
    const yaml_node_pair_t *end = section->data.mapping.pairs.top;
    int rc = 0;

    for (; !rc && p < end && c->set->faults < VC_MOST_FAULTS; p++) {
        const yaml_node_t *key = yaml_document_get_node(c->doc, p->key);
        vc_place at = { .file = c->path, .line = key->start_mark.line + 1 };
        const vc_flag *flag = NULL;
        const char *name = "";
        rc = vc_context(err, scalar(key, &name, err), "a key");
        if (!rc)
            rc = set_key(c, prefix, name_of(name), yaml_document_get_node(c->doc, p->value), &at,
                         &flag, err);
        rc = vc_flags_take(c->set, &at, flag, rc, err);
    }
    return rc;
}

static int apply(config *c, vc_err *err)
{
    const yaml_node_t *root = yaml_document_get_root_node(c->doc);
    if (!root || (root->type == YAML_SCALAR_NODE && vc_config_null(root)))
        return 0;                                /* an empty file */
    if (is_sections(c, root))                    /* datasets, as SimpleTuner lists them */
        return set_sections(c, root, "datasets", err);
    if (root->type != YAML_MAPPING_NODE)
        return vc_fail(err, VC_EUSAGE, "%s: lines of \"flag: value\" are expected", c->path);
    return set_section(c, root, "", err);
}

static int apply_flags(vc_flags *set, yaml_document_t *doc, const char *path, vc_err *err)
{
    size_t rows = 0;
    while (set->prog->flags[rows].name)
        rows++;
    config c = { .set = set, .path = path, .doc = doc, .seen = calloc(rows + 1, 1) };
    int rc = c.seen ? apply(&c, err) : vc_no_memory(err);
    free(c.seen);
    return rc;
}

int vc_flags_read_config(vc_flags *set, const char *path, vc_err *err)
{
    yaml_document_t doc;

    int rc = vc_config_load(&doc, path, err);
    if (!rc) {
        const vc_peer_file *peer = vc_env_is(path) ? &vc_simpletuner_file : vc_peer_of(&doc);
        rc = peer ? vc_peer_read(set, peer, &doc, path, err) : apply_flags(set, &doc, path, err);
        yaml_document_delete(&doc);
    }
    set->unread = rc;
    return vc_flags_take(set, NULL, NULL, rc, err);
}

/* ---- writing ---- */

/* Whether every YAML reader takes the unquoted text as the same string. */
static bool is_plain(const char *s)
{
    static const char *const words[] = { "y", "n", "yes", "no", "on", "off",
                                         "true", "false", "null" };
    static const char safe[] = "/_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(s, words[i]))
            return false;
    return *s && !strchr("0123456789.-", *s) && !s[strspn(s, safe)];
}

/* Characters that YAML must have escaped, or would fold: controls, its other line breaks, the byte
 * order mark, numbers of no character. */
static bool must_escape(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff ||
           (c & 0xfffe) == 0xfffe;
}

static void write_string(FILE *f, const char *s)
{
    if (is_plain(s)) {
        fputs(s, f);
        return;
    }
    fputc('"', f);
    while (*s) {
        uint32_t c;
        size_t n = vc_utf8(s, &c);
        if (!n)                                  /* not UTF-8, which the parser refuses */
            fputs("\\uFFFD", f);
        else if (c == '\n')
            fputs("\\n", f);
        else if (c == '"' || c == '\\')
            fprintf(f, "\\%c", (char)c);
        else if (must_escape(c))
            fprintf(f, c > 0xffff ? "\\U%08X" : "\\u%04X", c);
        else
            fwrite(s, 1, n, f);
        s += n ? n : 1;
    }
    fputc('"', f);
}

static void write_value(FILE *f, const vc_flag *flag, const void *src)
{
    char text[256];

    switch (flag->kind) {
    case VC_STRING:
    case VC_WORDS:
    case VC_PATH:
        write_string(f, *(char *const *)src);
        break;
    case VC_LIST: {
        const vc_list *l = src;
        for (int i = 0; i < l->n; i++) {
            fputs(i ? ", " : "[", f);
            write_string(f, l->item[i]);
        }
        fputc(']', f);
        break;
    }
    case VC_CHOICE:
    case VC_OPTIONAL:
        vc_flags_text(flag, src, text, sizeof text);
        write_string(f, text);
        break;
    default:
        vc_flags_text(flag, src, text, sizeof text);
        fputs(text, f);
        break;
    }
}

char *vc_flags_yaml(const vc_program *prog, const void *options)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;

    const char *group = NULL;
    fprintf(f, "# settings of %s; read back with --config\n", prog->name);
    for (const vc_flag *flag = prog->flags; flag->name; flag++) {
        if (flag->kind == VC_GROUP) {
            group = flag->help ? flag->help : flag->name;
            continue;
        }
        const void *src = (const char *)options + flag->offset;
        if (vc_flags_no_value(flag, src))
            continue;
        if (group)
            fprintf(f, "\n# %s\n", group);
        group = NULL;
        fprintf(f, "%s: ", flag->name);
        write_value(f, flag, src);
        fputc('\n', f);
    }
    bool failed = ferror(f);
    if (fclose(f) || failed) {
        free(text);
        return NULL;
    }
    return text;
}

/* config_peers.c - reads the settings of another trainer's file by the rows of peers.h. See
 * config_internal.h. */
#include <stdlib.h>
#include <string.h>

#include "common/base/near.h"
#include "common/cli/config_internal.h"
#include "common/os/file.h"

enum { DEEPEST_FILE = 2, DEEPEST = 16, MOST_SETTINGS = 20000 };

static int read_section(vc_peer_reader *r, vc_peer_part *p, const yaml_node_t *section,
                        const char *path, vc_err *err);

static const yaml_node_t *node(const vc_peer_reader *r, int id)
{
    return yaml_document_get_node(r->doc, id);
}

static int unknown(const vc_peer_reader *r, const char *path, vc_err *err)
{
    vc_near g = vc_near_begin(path, strlen(path));
    for (const vc_peer_row *row = NULL; (row = vc_peer_next(r->peer, row));) {
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

static bool is_sections(const vc_peer_reader *r, const yaml_node_t *n)
{
    return n->type == YAML_SEQUENCE_NODE && n->data.sequence.items.start <
           n->data.sequence.items.top &&
           node(r, *n->data.sequence.items.start)->type == YAML_MAPPING_NODE;
}

static int read_setting(vc_peer_reader *r, vc_peer_part *p, const yaml_node_t *beside,
                        const char *path, const yaml_node_t *value, vc_place *at, vc_err *err)
{
    const vc_peer_row *row = vc_peer_row_of(r->peer, path);
    const char *text[MOST_ITEMS] = { NULL };
    bool values = value->type == YAML_SCALAR_NODE ||
                  (value->type == YAML_SEQUENCE_NODE && !is_sections(r, value));
    int n = 0;

    if (value->type == YAML_SCALAR_NODE && vc_config_null(value))
        return 0;
    if (value->type == YAML_MAPPING_NODE && (!row || vc_peer_deeper(r->peer, path)))
        return read_section(r, p, value, path, err);
    if (!row && is_sections(r, value))
        return vc_peer_put_later(p, (vc_later){ .path = path, .list = value, .at = *at }, err);
    if (!row && r->peer->is_flags)
        return vc_peer_flag(r, p, beside, value, path, at, err);
    if (!row)
        return unknown(r, path, err);
    if (row->kind == VC_SETTING_NOTE || row->kind == VC_SETTING_REFUSED) {
        text[0] = vc_peer_text(value);
        if (text[0])
            return vc_peer_value(r, p, row, beside, path, text, 1, at, err);
        bool empty = values && value->data.sequence.items.start == value->data.sequence.items.top;
        return empty ? 0 : vc_peer_no_flag(r, row, NULL, at);
    }
    int rc = values ? vc_peer_texts(r, value, text, &n, err)
                    : vc_fail(err, VC_EUSAGE, "a value is expected, not a section");
    return rc || !n ? rc : vc_peer_value(r, p, row, beside, path, text, n, at, err);
}

/* The path below the peer's root. */
static const char *below_root(const vc_peer_file *peer, const char *path)
{
    size_t n = strlen(peer->root);
    if (!n || strncmp(path, peer->root, n) || (path[n] && path[n] != '.'))
        return path;
    return path + n + (path[n] == '.');
}

static int read_section(vc_peer_reader *r, vc_peer_part *p, const yaml_node_t *section,
                        const char *path, vc_err *err)
{
    int rc = 0;

    if (r->commands->level == DEEPEST)
        return vc_fail(err, VC_EUSAGE, "nested more than %d deep", DEEPEST);
    r->commands->level++;

    for (const yaml_node_pair_t *i = section->data.mapping.pairs.start;
         !rc && i < section->data.mapping.pairs.top && r->set->faults < VC_MOST_FAULTS; i++) {
        const yaml_node_t *key = node(r, i->key);
        const char *name = vc_peer_text(key);
        vc_place at = { .file = r->path, .line = key->start_mark.line + 1 };
        if (!name)
            rc = vc_fail(err, VC_EUSAGE, "%s: line %zu: a key is a text", r->path, at.line);
        else if (r->commands->settings++ >= MOST_SETTINGS)
            rc = vc_fail(err, VC_EUSAGE, "%s: line %zu: more than %d settings", r->path, at.line,
                         MOST_SETTINGS);
        if (rc)
            break;
        name = vc_peer_name(name);
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
    r->commands->level--;
    return rc;
}

static int read_file(const vc_peer_reader *r, const vc_later *l, vc_err *err);

static int read_part(vc_peer_reader *r, const yaml_node_t *section, const char *path, vc_err *err);

/* Reads the sections of a list, but for those that are off. */
static int read_items(vc_peer_reader *r, const yaml_node_t *list, const char *path, vc_err *err)
{
    int rc = 0;
    for (yaml_node_item_t *k = list->data.sequence.items.start;
         !rc && k < list->data.sequence.items.top; k++) {
        const yaml_node_t *section = node(r, *k);
        if (section->type != YAML_MAPPING_NODE)
            continue;
        if (r->peer->skips && vc_peer_signs(r->doc, section, r->peer->skips))
            vc_flags_say(r->set, "%s: line %zu: a section that is off", r->path,
                         section->start_mark.line + 1);
        else
            rc = read_part(r, section, path, err);
    }
    return rc;
}

/* Reads a section that may be a dataset, then its lists and files. */
static int read_part(vc_peer_reader *r, const yaml_node_t *section, const char *path, vc_err *err)
{
    vc_peer_part *p = calloc(1, sizeof *p);
    if (!p)
        return vc_no_memory(err);
    p->outer = r->part;
    r->part = p;
    r->commands->level++;
    int mark = r->commands->vprep.n, before = r->commands->n_datasets, part = r->commands->now;
    int rc = vc_commands_begin(r->commands, err);
    if (!rc)
        rc = read_section(r, p, section, path, err);

    for (int i = 0; !rc && i < p->n_later; i++) {
        const yaml_node_t *list = p->later[i].list;
        if (!list) {
            rc = vc_flags_take(r->set, &p->later[i].at, NULL, read_file(r, &p->later[i], err), err);
            continue;
        }
        rc = read_items(r, list, p->later[i].path, err);
    }
    bool folder = false;
    for (int i = mark; i < r->commands->vprep.n; i++)
        folder |= !strcmp(r->commands->vprep.given[i].flag, "meta");
    const vc_peer_part *sized = p;
    while (sized->outer && !sized->n_sizes)
        sized = sized->outer;
    if (!rc && folder && r->commands->n_datasets == before)
        rc = vc_commands_dataset(r->commands, mark, sized->size_flags, sized->size,
                                 sized->n_sizes > 1 ? sized->n_sizes : 0, err);
    r->part = p->outer;
    vc_commands_end(r->commands, part);
    r->commands->level--;
    free(p);
    return rc;
}

/* Reads the file that a setting names, unless --meta stands for it. */
static int read_file(const vc_peer_reader *r, const vc_later *l, vc_err *err)
{
    vc_peer_reader own = *r;
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
    if (!rc && root && root->type == YAML_SEQUENCE_NODE)
        rc = read_items(&own, root, l->path, err);
    yaml_document_delete(&doc);
    return rc;
}

/* Whether the file has all signs of "a&b", or, if any is true, one of them. */
static bool has_signs(vc_peer_reader *r, const char *signs, bool any)
{
    const yaml_node_t *root = vc_peer_root(r->doc, r->peer);
    for (size_t n; *signs; signs += n + (signs[n] == '&')) {
        n = strcspn(signs, "&");
        if (vc_peer_sign(r->doc, root, signs, n) == any)
            return any;
    }
    return !any;
}

/* Gives one default, "FLAG=VALUE[??SIGNS][!!SIGNS]". */
static int give_default(vc_peer_reader *r, const char *word, size_t len, vc_err *err)
{
    char text[400];
    snprintf(text, sizeof text, "%.*s", (int)len, word);
    char *no = strstr(text, "!!"), *yes = strstr(text, "??"), *value = strchr(text, '=');
    if (no)
        *no = 0, no += 2;
    if (yes)
        *yes = 0, yes += 2;
    if (!value || (yes && !has_signs(r, yes, false)) || (no && has_signs(r, no, true)))
        return 0;
    *value++ = 0;
    vc_given g = { .flag = text, .text = value, .at = { .file = r->path }, .by_default = true };
    return vc_commands_add(r->commands, &g, err);
}

/* --like with the peer's name, and its defaults. */
static int give_defaults(vc_peer_reader *r, vc_err *err)
{
    const vc_place at = { .file = r->path };
    int rc = 0;

    if (r->peer->like)
        rc = vc_peer_give(r, "like", 4, r->peer->like, false, &at, err);
    for (const char *s = r->peer->defaults; !rc && s && *s;) {
        size_t n = strcspn(s, " ");
        rc = give_default(r, s, n, err);
        s += n + (s[n] == ' ');
    }
    return rc;
}

/* Refuses a file whose kind of run or family is not here, by that setting alone. */
static int check_kind(const vc_peer_reader *r, vc_err *err)
{
    const yaml_node_t *top = yaml_document_get_root_node(r->doc);
    const yaml_node_t *root = vc_peer_root(r->doc, r->peer);
    size_t len;
    int half;

    for (const vc_peer_row *row = NULL; (row = vc_peer_next(r->peer, row));) {
        const char *list = row->key, *s;
        while (row->kind_of_run && (s = vc_flags_next_name(&list, &len, &half))) {
            const yaml_node_t *found = vc_peer_below(r->doc, root, s, len);
            const char *text = vc_peer_text(found ? found : vc_peer_below(r->doc, top, s, len));
            size_t n;
            if (text && !vc_peer_mapped(row->map, text, &n))
                return vc_fail(err, VC_EUSAGE, "%s of %s: %.*s: %s: %s", r->path, r->peer->name,
                               (int)len, s, text, row->say);
        }
    }
    if (r->peer->needs && !vc_peer_signs(r->doc, root, r->peer->needs))
        return vc_fail(err, VC_EUSAGE, "%s of %s: %s", r->path, r->peer->name, r->peer->without);
    return 0;
}

int vc_peer_read(vc_flags *set, const vc_peer_file *peer, yaml_document_t *doc, const char *path,
                 vc_err *err)
{
    const yaml_node_t *root = yaml_document_get_root_node(doc);
    vc_commands commands = { .set = set };
    vc_peer_reader r = { .set = set, .peer = peer, .doc = doc, .path = path,
                         .commands = &commands };

    if (!set->prog->partner)
        return vc_fail(err, VC_EUSAGE, "%s is a file of %s, which vprep and vtrain read", path,
                       peer->name);
    r.run_name = peer->expands ? vc_peer_text(vc_peer_below(doc, root, "config.name", 11)) : NULL;
    bool list = root->type == YAML_SEQUENCE_NODE;
    int rc = list ? 0 : check_kind(&r, err);
    if (!rc && !list)
        rc = give_defaults(&r, err);
    if (!rc)
        rc = list ? read_items(&r, root, peer->items, err) : read_part(&r, root, "", err);
    if (!rc)
        rc = vc_commands_take(&commands, peer->name, path, err);
    vc_commands_free(&commands);
    return rc;
}

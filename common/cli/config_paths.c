/* config_paths.c - settings of other trainers' files by their paths, and the peer whose file it
 * is. See config_internal.h. */
#include <string.h>

#include "common/cli/config_internal.h"

const char *vc_peer_text(const yaml_node_t *n)
{
    return n && n->type == YAML_SCALAR_NODE ? (const char *)n->data.scalar.value : NULL;
}

static const yaml_node_t *first_item(yaml_document_t *doc, const yaml_node_t *n)
{
    for (int deep = 0; n && n->type == YAML_SEQUENCE_NODE; deep++)
        n = deep < 16 && n->data.sequence.items.start < n->data.sequence.items.top
                ? yaml_document_get_node(doc, *n->data.sequence.items.start) : NULL;
    return n;
}

bool vc_peer_same(const char *s, const char *pattern, size_t n)
{
    if (n && pattern[n - 1] == '*')
        return !strncmp(s, pattern, n - 1);
    return strlen(s) == n && !strncmp(s, pattern, n);
}

const char *vc_peer_name(const char *key)
{
    return key + (strncmp(key, "--", 2) ? 0 : 2);
}

/* The setting of a path below n, through the first section of each list. */
const yaml_node_t *vc_peer_below(yaml_document_t *doc, const yaml_node_t *n, const char *path,
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
        const yaml_node_pair_t *p = n->data.mapping.pairs.start, *end = n->data.mapping.pairs.top;
        for (; p < end; p++) {
            const char *key = vc_peer_text(yaml_document_get_node(doc, p->key));
            if (key && vc_peer_same(vc_peer_name(key), path, k))
                value = yaml_document_get_node(doc, p->value);
        }
        n = value;
        path += k + (k < len);
        len -= k + (k < len);
    }
    return n;
}

/* Whether the file has "a.b", or "a.b=text*"; a path without a dot may be in any section. */
bool vc_peer_sign(yaml_document_t *doc, const yaml_node_t *root, const char *sign, size_t len)
{
    const char *equals = memchr(sign, '=', len);
    size_t n = equals ? (size_t)(equals - sign) : len;
    if (!root || root->type != YAML_MAPPING_NODE)
        return false;
    const yaml_node_t *found = vc_peer_below(doc, root, sign, n);

    for (yaml_node_pair_t *p = root->data.mapping.pairs.start;
         !found && !memchr(sign, '.', n) && p < root->data.mapping.pairs.top; p++) {
        const yaml_node_t *section = yaml_document_get_node(doc, p->value);
        found = section->type == YAML_MAPPING_NODE ? vc_peer_below(doc, section, sign, n) : NULL;
    }
    if (!found || !equals)
        return found;
    const char *text = vc_peer_text(found);
    return text && vc_peer_same(text, equals + 1, len - n - 1);
}

const yaml_node_t *vc_peer_root(yaml_document_t *doc, const vc_peer_file *peer)
{
    const yaml_node_t *root = yaml_document_get_root_node(doc);
    return first_item(doc, vc_peer_below(doc, root, peer->root, strlen(peer->root)));
}

/* Whether the file has all signs of one alternative, "a b|c". */
bool vc_peer_signs(yaml_document_t *doc, const yaml_node_t *root, const char *signs)
{
    bool all = true;
    for (size_t n; *signs; signs += n) {
        n = strcspn(signs, " |");
        if (n)
            all = all && vc_peer_sign(doc, root, signs, n);
        else if (*signs == '|' && all)
            return true;
        else if (*signs == '|')
            all = true;
        n += !n;
    }
    return all;
}

/* Whether a section of the list has the signs. */
static bool has_item(yaml_document_t *doc, const yaml_node_t *list, const char *signs)
{
    for (yaml_node_item_t *i = list->data.sequence.items.start;
         signs && i < list->data.sequence.items.top; i++)
        if (vc_peer_signs(doc, yaml_document_get_node(doc, *i), signs))
            return true;
    return false;
}

const vc_peer_file *vc_peer_of(yaml_document_t *doc)
{
    const yaml_node_t *root = yaml_document_get_root_node(doc);
    for (const vc_peer_file *const *p = vc_peer_files; root && *p; p++)
        if ((root->type == YAML_MAPPING_NODE && vc_peer_signs(doc, root, (*p)->signs)) ||
            (root->type == YAML_SEQUENCE_NODE && has_item(doc, root, (*p)->item_signs)))
            return *p;
    return NULL;
}

bool vc_peer_listed(const char *list, const char *text, char between)
{
    for (size_t n; list && *list; list += n + (list[n] == between)) {
        const char *end = strchr(list, between);
        n = end ? (size_t)(end - list) : strlen(list);
        if (vc_peer_same(text, list, n))
            return true;
    }
    return false;
}

const vc_peer_row *vc_peer_row_of(const vc_peer_file *peer, const char *path)
{
    for (const vc_peer_row *row = NULL; (row = vc_peer_next(peer, row));)
        if (vc_peer_listed(row->key, path, ' '))
            return row;
    return NULL;
}

/* Whether a row has a path below this one. */
bool vc_peer_deeper(const vc_peer_file *peer, const char *path)
{
    size_t len = strlen(path), n;
    int half;
    for (const vc_peer_row *row = NULL; (row = vc_peer_next(peer, row));) {
        const char *list = row->key, *s;
        while ((s = vc_flags_next_name(&list, &n, &half)))
            if (n > len + 1 && !strncmp(s, path, len) && s[len] == '.' && s[len + 1] != '*')
                return true;
    }
    return false;
}

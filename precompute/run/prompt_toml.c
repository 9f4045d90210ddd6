/* prompt_toml.c - validation prompts in TOML; see prompt_lines.h */
#include "precompute/run/prompt_lines.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/utf8.h"
#include "common/cli/config_toml.h"
#include "common/os/file.h"

enum { MAX_BYTES = 64 << 20 };

static yaml_node_t *node_of(yaml_document_t *doc, yaml_node_item_t at)
{
    return yaml_document_get_node(doc, at);
}

/* Returns the value of a table's key, or NULL. */
static yaml_node_t *below(yaml_document_t *doc, const yaml_node_t *table, const char *key)
{
    if (!table || table->type != YAML_MAPPING_NODE)
        return NULL;
    for (const yaml_node_pair_t *p = table->data.mapping.pairs.start;
         p < table->data.mapping.pairs.top; p++)
        if (!strcmp((const char *)node_of(doc, p->key)->data.scalar.value, key))
            return node_of(doc, p->value);
    return NULL;
}

static int fail_at(const yaml_node_t *n, const char *what, vc_err *err)
{
    return vc_fail(err, VC_EFORMAT, "line %zu: %s", n->start_mark.line + 1, what);
}

/* Returns a text, or a list of texts, or NULL: the value is neither, or memory is out. */
static cJSON *value_of(yaml_document_t *doc, const yaml_node_t *n)
{
    if (n->type == YAML_SCALAR_NODE)
        return cJSON_CreateString((const char *)n->data.scalar.value);
    cJSON *list = n->type == YAML_SEQUENCE_NODE ? cJSON_CreateArray() : NULL;
    for (const yaml_node_item_t *i = list ? n->data.sequence.items.start : NULL;
         list && i < n->data.sequence.items.top; i++) {
        const yaml_node_t *text = node_of(doc, *i);
        cJSON *item = text->type == YAML_SCALAR_NODE ? value_of(doc, text) : NULL;
        if (item && cJSON_AddItemToArray(list, item))
            continue;
        cJSON_Delete(item);
        cJSON_Delete(list);
        return NULL;
    }
    return list;
}

/* Adds a table's values, but for its subsets. Values that a row has already are kept. */
static int add_table(cJSON *row, yaml_document_t *doc, const yaml_node_t *table, vc_err *err)
{
    if (table->type != YAML_MAPPING_NODE)
        return fail_at(table, "a table is expected", err);
    for (const yaml_node_pair_t *p = table->data.mapping.pairs.start;
         p < table->data.mapping.pairs.top; p++) {
        const char *key = (const char *)node_of(doc, p->key)->data.scalar.value;
        if (!strcmp(key, "subset") || cJSON_GetObjectItemCaseSensitive(row, key))
            continue;
        cJSON *value = value_of(doc, node_of(doc, p->value));
        if (!value)
            return fail_at(node_of(doc, p->key), "a text, a number or a list of texts is expected",
                           err);
        if (!cJSON_AddItemToObject(row, key, value)) {
            cJSON_Delete(value);
            return vc_no_memory(err);
        }
    }
    return 0;
}

static int take_subset(yaml_document_t *doc, const yaml_node_t *all, const yaml_node_t *own,
                       int64_t number, const vf_table_sink *sink, vc_err *err)
{
    cJSON *row = cJSON_CreateObject();
    int rc = row ? add_table(row, doc, own, err) : vc_no_memory(err);
    if (!rc)
        rc = add_table(row, doc, all, err);
    if (!rc)
        rc = vc_context(err, sink->row(sink->arg, number, row, NULL, err), "line %zu",
                        own->start_mark.line + 1);
    cJSON_Delete(row);
    return rc;
}

static int take_document(yaml_document_t *doc, const vf_table_sink *sink, vc_err *err)
{
    const yaml_node_t *all = below(doc, yaml_document_get_root_node(doc), "prompt");
    const yaml_node_t *list = below(doc, all, "subset");
    int rc = 0;
    if (!list || list->type != YAML_SEQUENCE_NODE)
        return vc_fail(err, VC_EFORMAT, "no prompts: each is a table [[prompt.subset]]");
    int64_t number = 0;
    for (const yaml_node_item_t *i = list->data.sequence.items.start;
         !rc && i < list->data.sequence.items.top; i++)
        rc = take_subset(doc, all, node_of(doc, *i), ++number, sink, err);
    return rc;
}

int vprep_prompt_toml(const char *path, const vf_table_sink *sink, vc_err *err)
{
    char *text = NULL;
    size_t n = 0;
    yaml_document_t doc;
    int rc = vc_file_read(&text, &n, path, MAX_BYTES, err);
    if (!rc && vc_utf8_check_lines(text, n, err))
        rc = VC_EFORMAT;
    if (!rc)
        rc = vc_toml_document(&doc, text, n, err);
    free(text);
    if (rc == VC_EUSAGE)
        rc = VC_EFORMAT;
    if (rc)
        return vc_context(err, rc, "%s", path);
    rc = take_document(&doc, sink, err);
    yaml_document_delete(&doc);
    return vc_context(err, rc, "%s", path);
}

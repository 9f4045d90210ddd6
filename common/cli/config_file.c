/* config_file.c - reads a YAML or TOML file, or SimpleTuner's config.env, into a document; see
 * config_internal.h. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "common/base/utf8.h"
#include "common/cli/config_env.h"
#include "common/cli/config_internal.h"
#include "common/cli/config_toml.h"
#include "common/os/file.h"

enum { MOST_BYTES = 256 << 10 };     /* size of a configuration file */

const char *vc_config_text(const yaml_node_t *n)
{
    return (const char *)n->data.scalar.value;
}

bool vc_config_null(const yaml_node_t *n)
{
    const char *s = vc_config_text(n);
    return n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (!*s || !strcmp(s, "~") || !strcasecmp(s, "null"));
}

static int bad_yaml(const yaml_parser_t *p, vc_err *err)
{
    if (p->error == YAML_MEMORY_ERROR)
        return vc_no_memory(err);
    if (p->error == YAML_READER_ERROR)
        return vc_fail(err, VC_EUSAGE, "byte %zu: %s", p->problem_offset, p->problem);
    size_t line = p->problem_mark.line ? p->problem_mark.line : p->context_mark.line;
    return vc_fail(err, VC_EUSAGE, "line %zu: no valid YAML: %s", line + 1,
                   p->problem ? p->problem : "unreadable");
}

/* Reads the whole text once for its grammar. libyaml's time grows with the square of the depth, so
 * a hostile file is refused at the first deep bracket. */
static int check_grammar(yaml_parser_t *parser, vc_err *err)
{
    int depth = 0, documents = 0;

    for (yaml_event_type_t type = YAML_NO_EVENT; type != YAML_STREAM_END_EVENT;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event))
            return bad_yaml(parser, err);
        type = event.type;
        size_t line = event.start_mark.line + 1;
        yaml_event_delete(&event);
        depth += type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT;
        depth -= type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT;
        documents += type == YAML_DOCUMENT_START_EVENT;
        if (depth > VC_CONFIG_DEPTH)
            return vc_fail(err, VC_EUSAGE, "line %zu: nested more than %d deep", line,
                           VC_CONFIG_DEPTH);
        if (documents > 1)
            return vc_fail(err, VC_EUSAGE, "line %zu: more than one YAML document", line);
    }
    return 0;
}

static int yaml_document(yaml_document_t *doc, const char *text, size_t size, vc_err *err)
{
    int rc = 0;

    for (int pass = 0; !rc && pass < 2; pass++) {
        yaml_parser_t parser;
        if (!yaml_parser_initialize(&parser))
            return vc_no_memory(err);
        yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
        if (pass == 0)
            rc = check_grammar(&parser, err);
        else if (!yaml_parser_load(&parser, doc))
            rc = bad_yaml(&parser, err);
        yaml_parser_delete(&parser);
    }
    return rc;
}

/* The number of a "\\uXXXX" at s, or 0. */
static unsigned escape_at(const char *s, const char *end)
{
    char digits[5] = "";
    if (end - s < 6 || s[0] != '\\' || s[1] != 'u')
        return 0;
    memcpy(digits, s + 2, 4);
    return strspn(digits, "0123456789abcdefABCDEF") == 4 ? (unsigned)strtoul(digits, NULL, 16) : 0;
}

/* JSON writes a character above U+FFFF as two escapes, which YAML knows as one: "\U0001F600", which
 * is shorter. Returns the new size of the text. */
static size_t join_surrogates(char *text, size_t size)
{
    const char *end = text + size;
    char *to = text;

    for (const char *s = text; s < end;) {
        unsigned high = escape_at(s, end);
        unsigned low = (high & 0xfc00) == 0xd800 ? escape_at(s + 6, end) : 0;
        if ((low & 0xfc00) == 0xdc00) {
            char one[11];
            snprintf(one, sizeof one, "\\U%08X", 0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff));
            memcpy(to, one, 10);
            to += 10;
            s += 12;
        } else {
            size_t n = *s == '\\' && end - s > 1 ? 2 : 1;     /* an escaped backslash */
            memmove(to, s, n);
            to += n;
            s += n;
        }
    }
    return (size_t)(to - text);
}

static bool has_end(const char *path, const char *suffix)
{
    size_t n = strlen(path), m = strlen(suffix);
    return n > m && !strcasecmp(path + n - m, suffix);
}

/* Refuses bytes that are not UTF-8, by their line. YAML may be UTF-16 as well. */
static int check_text(const char *text, size_t size, bool toml, vc_err *err)
{
    if (!toml && vc_utf16_check(text, size, NULL))
        return 0;
    return vc_utf8_check_lines(text, size, err) ? VC_EUSAGE : 0;
}

static int document(yaml_document_t *doc, char *text, size_t size, const char *path, vc_err *err)
{
    const bool toml = has_end(path, ".toml"), env = vc_env_is(path);
    if (has_end(path, ".json"))
        size = join_surrogates(text, size);
    int rc = check_text(text, size, toml || env, err);
    if (!rc)
        rc = (toml ? vc_toml_document : env ? vc_env_document : yaml_document)(doc, text, size,
                                                                              err);
    return rc ? vc_context(err, rc, "%s", path) : 0;
}

int vc_config_load(yaml_document_t *doc, const char *path, vc_err *err)
{
    char *text;
    size_t size;

    int rc = vc_file_read(&text, &size, path, MOST_BYTES, err);
    if (rc)
        return vc_context(err, rc == VC_ENOMEM ? rc : VC_EUSAGE, "--config");
    rc = document(doc, text, size, path, err);
    free(text);
    return rc;
}

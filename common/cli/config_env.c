/* config_env.c - see config_env.h */
#include "common/cli/config_env.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cli/peers/peers.h"
#include "common/os/file.h"

enum { MOST_NAMES = 1000, MOST_VALUE = 64 << 10 };
static const char extra_args[] = "TRAINER_EXTRA_ARGS";

/* A setting: a variable of the file, or a key of the document. */
typedef struct setting {
    char *name, *value;
    size_t line;                     /* of the file, from 1: where it was set last */
} setting;

typedef struct settings {
    setting *of;                     /* in the order in which they were first set */
    int n;
} settings;

/* A value while it is read. */
typedef struct growing {
    char *s;
    size_t n;
} growing;

typedef struct reader {
    settings vars;
    const char *at, *end;            /* the line's rest */
    size_t line;
    growing value;
    vc_err *err;
} reader;

bool vc_env_is(const char *path)
{
    static const char suffix[] = ".env";
    const size_t n = strlen(path), m = strlen(suffix);
    return n >= m && !strcasecmp(path + n - m, suffix);
}

/* ---- settings ---- */

static setting *find(const settings *l, const char *name, size_t n)
{
    for (int i = 0; i < l->n; i++)
        if (strlen(l->of[i].name) == n && !memcmp(l->of[i].name, name, n))
            return &l->of[i];
    return NULL;
}

static int set(settings *l, const char *name, size_t n, const char *value, size_t line, vc_err *err)
{
    setting *s = find(l, name, n);
    if (!s && l->n == MOST_NAMES)
        return vc_fail(err, VC_EUSAGE, "line %zu: more than %d names", line, MOST_NAMES);
    if (!s) {
        setting *more = realloc(l->of, ((size_t)l->n + 1) * sizeof *more);
        if (!more)
            return vc_no_memory(err);
        l->of = more;
        s = &l->of[l->n++];
        *s = (setting){ .name = strndup(name, n) };
    }
    char *own = strdup(value);
    if (!s->name || !own) {
        free(own);
        return vc_no_memory(err);
    }
    free(s->value);
    s->value = own;
    s->line = line;
    return 0;
}

static void settings_free(settings *l)
{
    for (int i = 0; i < l->n; i++) {
        free(l->of[i].name);
        free(l->of[i].value);
    }
    free(l->of);
}

/* ---- a line ---- */

static bool is_name(char c, bool first)
{
    return c == '_' || isalpha((unsigned char)c) || (!first && isdigit((unsigned char)c));
}

static size_t name_length(const char *s, const char *end)
{
    size_t n = 0;
    while (s + n < end && is_name(s[n], !n))
        n++;
    return n;
}

static int put(reader *r, const char *s, size_t n)
{
    if (r->value.n + n > MOST_VALUE)
        return vc_fail(r->err, VC_EUSAGE, "line %zu: a value of more than %d bytes", r->line,
                       MOST_VALUE);
    memcpy(r->value.s + r->value.n, s, n);
    r->value.n += n;
    r->value.s[r->value.n] = 0;
    return 0;
}

static int refuse_command(const reader *r)
{
    return vc_fail(r->err, VC_EUSAGE, "line %zu: a command's output, or an expression: nothing of "
                   "the file is run: write its value", r->line);
}

/* Puts the value of the variable that a '$' names; a '$' before anything else stands for itself. */
static int expand(reader *r)
{
    const bool braces = r->at + 1 < r->end && r->at[1] == '{';
    const char *name = r->at + 1 + braces;
    const size_t n = name_length(name, r->end);

    if (r->at + 1 < r->end && r->at[1] == '(')
        return refuse_command(r);
    if (braces && (!n || name + n >= r->end || name[n] != '}'))
        return vc_fail(r->err, VC_EUSAGE, "line %zu: of ${...} a name alone is read: write its "
                       "value", r->line);
    if (!n) {
        r->at++;
        return put(r, "$", 1);
    }
    char *own = strndup(name, n);
    if (!own)
        return vc_no_memory(r->err);
    const setting *s = find(&r->vars, name, n);
    const char *value = s ? s->value : getenv(own);
    if (!value && !strcmp(own, extra_args))
        value = "";
    int rc = value ? put(r, value, strlen(value))
                   : vc_fail(r->err, VC_EUSAGE, "line %zu: $%s has no value, neither in a line "
                             "before nor in the environment: write it", r->line, own);
    free(own);
    r->at = name + n + braces;
    return rc;
}

/* Reads up to the closing quote. */
static int quoted(reader *r)
{
    const char quote = *r->at++;
    int rc = 0;
    while (!rc && r->at < r->end && *r->at != quote) {
        if (quote == '"' && *r->at == '`')
            return refuse_command(r);
        if (quote == '"' && *r->at == '$') {
            rc = expand(r);
            continue;
        }
        r->at += quote == '"' && *r->at == '\\' && r->at + 1 < r->end &&
                 strchr("\"\\$`", r->at[1]);
        rc = put(r, r->at++, 1);
    }
    if (!rc && r->at == r->end)
        return vc_fail(r->err, VC_EUSAGE, "line %zu: the quote %c is not closed in its line",
                       r->line, quote);
    r->at++;
    return rc;
}

/* Reads the rest of the line as a value, up to a comment. Blanks at its end are not part of it. */
static int read_value(reader *r)
{
    size_t kept = r->value.n;
    int rc = 0;
    for (bool blank = false; !rc && r->at < r->end; ) {
        const char c = *r->at;
        if (c == '#' && (blank || r->at[-1] == '='))
            break;
        if (c == '`')
            return refuse_command(r);
        blank = isspace((unsigned char)c);
        if (c == '\'' || c == '"')
            rc = quoted(r);
        else if (c == '$')
            rc = expand(r);
        else if (c == '\\' && r->at + 1 == r->end)
            return vc_fail(r->err, VC_EUSAGE, "line %zu: a value that goes on in the next line: "
                           "write it in one line", r->line);
        else {
            r->at += c == '\\';
            rc = put(r, r->at++, 1);
        }
        kept = blank ? kept : r->value.n;
    }
    r->value.n = kept;
    r->value.s[kept] = 0;
    return rc;
}

static void skip_blanks(reader *r)
{
    while (r->at < r->end && isspace((unsigned char)*r->at))
        r->at++;
}

static int read_line(reader *r)
{
    static const char word[] = "export";
    const size_t w = strlen(word);

    skip_blanks(r);
    if (r->at == r->end || *r->at == '#')
        return 0;
    if ((size_t)(r->end - r->at) > w && !memcmp(r->at, word, w) &&
        isspace((unsigned char)r->at[w])) {
        r->at += w;
        skip_blanks(r);
    }
    const char *name = r->at;
    const size_t n = name_length(name, r->end);
    const bool adds = name + n + 1 < r->end && name[n] == '+' && name[n + 1] == '=';
    if (!n || (!adds && (name + n >= r->end || name[n] != '=')))
        return vc_fail(r->err, VC_EUSAGE, "line %zu: \"%.*s\" is no NAME=value: nothing of the "
                       "file is run: leave such lines out", r->line,
                       (int)(r->end - name < 40 ? r->end - name : 40), name);
    const setting *before = adds ? find(&r->vars, name, n) : NULL;
    r->at = name + n + 1 + adds;
    r->value.n = 0;
    int rc = put(r, before ? before->value : "", before ? strlen(before->value) : 0);
    if (!rc && before && r->value.n)
        rc = put(r, " ", 1);
    if (!rc)
        rc = read_value(r);
    return rc ? rc : set(&r->vars, name, n, r->value.s, r->line, r->err);
}

static int read_lines(reader *r, const char *s, size_t size)
{
    const char *end = s + size;
    int rc = 0;
    for (; !rc && s < end; s = r->end + 1) {
        const char *newline = memchr(s, '\n', (size_t)(end - s));
        r->at = s;
        r->end = newline ? newline : end;
        r->line++;
        if (memchr(s, 0, (size_t)(r->end - s)))
            rc = vc_fail(r->err, VC_EUSAGE, "line %zu: a NUL character in the text", r->line);
        else
            rc = read_line(r);
    }
    return rc;
}

/* ---- the document ---- */

/* Adds the flags of TRAINER_EXTRA_ARGS, words between blanks: --flag, --flag=value, --flag value */
static int add_flags(settings *keys, const setting *s, vc_err *err)
{
    char *words = strdup(s->value), *rest = words;
    const char *open = NULL;                 /* the flag before, which has no value yet */
    int rc = words ? 0 : vc_no_memory(err);
    for (char *w; !rc && words && (w = strsep(&rest, " \t\r"));) {
        if (!*w)
            continue;
        char *value = strchr(w, '=');
        if (strncmp(w, "--", 2) && !open) {
            rc = vc_fail(err, VC_EUSAGE, "line %zu: %s: \"%s\": a flag is expected, and its value "
                         "has no blanks", s->line, extra_args, w);
        } else if (strncmp(w, "--", 2)) {
            rc = set(keys, open, strlen(open), w, s->line, err);
            open = NULL;
        } else {
            if (value)
                *value++ = 0;
            open = value ? NULL : w + 2;
            rc = set(keys, w + 2, strlen(w + 2), value ? value : "true", s->line, err);
        }
    }
    free(words);
    return rc;
}

static bool has_name(const char *list, const char *name)
{
    const size_t len = strlen(name);
    for (size_t n; *list; list += n + (list[n] == ' ')) {
        n = strcspn(list, " ");
        const bool any = list[n - 1] == '*';
        if (any ? len >= n - 1 && !memcmp(list, name, n - 1) : len == n && !memcmp(list, name, n))
            return true;
    }
    return false;
}

/* Adds the setting that a variable is. */
static int add_key(settings *keys, const setting *s, vc_err *err)
{
    const vc_peer_variable *row = vc_simpletuner_variables;
    while (row->names && !has_name(row->names, s->name))
        row++;
    if (!*s->value || (row->names && !strcasecmp(s->value, "false")))
        return 0;
    char *key = row->key ? strdup(row->key) : vc_format("%s%s", row->names ? "" : "env.", s->name);
    for (char *c = key; row->names && c && *c; c++)
        *c = (char)tolower((unsigned char)*c);
    const char *value = row->value ? row->value : strcasecmp(s->value, "true") ? s->value : "true";
    int rc = key ? set(keys, key, strlen(key), value, s->line, err) : vc_no_memory(err);
    free(key);
    return rc;
}

static int add_text(yaml_document_t *doc, const char *s)
{
    return yaml_document_add_scalar(doc, NULL, (const yaml_char_t *)s, (int)strlen(s),
                                    YAML_DOUBLE_QUOTED_SCALAR_STYLE);
}

static int make_document(yaml_document_t *doc, const settings *keys, vc_err *err)
{
    if (!yaml_document_initialize(doc, NULL, NULL, NULL, 1, 1))
        return vc_no_memory(err);
    const int root = yaml_document_add_mapping(doc, NULL, YAML_ANY_MAPPING_STYLE);
    bool ok = root != 0;
    for (int i = 0; ok && i < keys->n; i++) {
        const int name = add_text(doc, keys->of[i].name), value = add_text(doc, keys->of[i].value);
        ok = name && value && yaml_document_append_mapping_pair(doc, root, name, value);
        if (ok)
            yaml_document_get_node(doc, name)->start_mark.line = keys->of[i].line - 1;
    }
    if (ok)
        return 0;
    yaml_document_delete(doc);
    return vc_no_memory(err);
}

int vc_env_document(yaml_document_t *doc, const char *text, size_t size, vc_err *err)
{
    reader r = { .err = err, .value = { .s = malloc(MOST_VALUE + 1) } };
    settings keys = { 0 };
    int rc = r.value.s ? read_lines(&r, text, size) : vc_no_memory(err);

    for (int i = 0; !rc && i < r.vars.n; i++)
        if (strcmp(r.vars.of[i].name, extra_args))
            rc = add_key(&keys, &r.vars.of[i], err);
    const setting *extra = find(&r.vars, extra_args, strlen(extra_args));
    if (!rc && extra)
        rc = add_flags(&keys, extra, err);
    if (!rc)
        rc = make_document(doc, &keys, err);
    settings_free(&r.vars);
    settings_free(&keys);
    free(r.value.s);
    return rc;
}

/* json_steps.c - the normalizer and the pre_tokenizer of tokenizer.json. See parts.h */
#include <stdlib.h>
#include <string.h>

#include "precompute/tokenizer/parts.h"

enum { DEPTH = 4, STEPS = 64 };          /* sequences in sequences; steps in all */

typedef int read_fn(tok_steps *s, const cJSON *o, vc_err *err);
typedef struct step_kind {
    const char *type;
    read_fn *read;
} step_kind;

static int add(tok_steps *s, tok_kind k, tok_step **step, vc_err *err)
{
    if (s->n >= STEPS)
        return vc_fail(err, VC_EFORMAT, "more than %d steps", STEPS);
    *step = tok_steps_add(s, k);
    return *step ? 0 : vc_no_memory(err);
}

/* One step by its type, or a Sequence of them in `list`. */
static int read_steps(tok_steps *s, const cJSON *o, const step_kind *kinds, const char *list,
                      int depth, vc_err *err)
{
    const cJSON *all;
    const char *type;

    if (!o || cJSON_IsNull(o))
        return 0;
    int rc = vf_json_str(o, "type", &type, err);
    if (rc)
        return rc;
    if (!strcmp(type, "Sequence") && depth < DEPTH) {
        rc = vf_json_arr(o, list, &all, err);
        for (const cJSON *v = rc ? NULL : all->child; v && !rc; v = v->next)
            rc = read_steps(s, v, kinds, list, depth + 1, err);
        return rc;
    }
    for (; kinds->type; kinds++)
        if (!strcmp(type, kinds->type))
            return vc_context(err, kinds->read(s, o, err), "%s", type);
    return vc_fail(err, VC_EFORMAT, "%s is not known here", type);
}

/* {"String": ".."} or {"Regex": ".."} */
static int read_pattern(tok_step *p, const cJSON *o, vc_err *err)
{
    const char *text = NULL, *regex = NULL;
    const cJSON *pattern;

    int rc = vf_json_obj(o, "pattern", &pattern, err);
    if (rc || (rc = vf_json_str_opt(pattern, "String", &text, err))
        || (rc = vf_json_str_opt(pattern, "Regex", &regex, err)))
        return rc;
    if (regex)
        return tok_step_regex(p, regex, err);
    if (!text || !*text)
        return vc_fail(err, VC_EFORMAT, "pattern: expected a String that is not empty, or a Regex");
    p->find.by = TOK_BY_TEXT;
    p->find.text = strdup(text);
    return p->find.text ? 0 : vc_no_memory(err);
}

static int read_text(tok_step *p, const cJSON *o, const char *field, vc_err *err)
{
    const char *text;
    int rc = vf_json_str(o, field, &text, err);
    return !rc && tok_step_text(p, text, strlen(text)) ? vc_no_memory(err) : rc;
}

/* ---- normalisers ---- */

static int read_form(tok_steps *s, const cJSON *o, vc_err *err)
{
    static const char *const name[] = { "NFC", "NFD", "NFKC", "NFKD" };
    const char *type = "";
    tok_step *p = NULL;

    int rc = add(s, TOK_NORMAL_FORM, &p, err);
    if (rc || (rc = vf_json_str(o, "type", &type, err)))
        return rc;
    for (int i = 0; i < 4; i++)
        if (!strcmp(type, name[i]))
            p->form = (tok_form)i;
    return 0;
}

static int read_lowercase(tok_steps *s, const cJSON *o, vc_err *err)
{
    tok_step *p = NULL;
    (void)o;
    return add(s, TOK_LOWERCASE, &p, err);
}

static int read_strip_accents(tok_steps *s, const cJSON *o, vc_err *err)
{
    tok_step *p = NULL;
    (void)o;
    return add(s, TOK_STRIP_ACCENTS, &p, err);
}

static int read_strip(tok_steps *s, const cJSON *o, vc_err *err)
{
    tok_step *p = NULL;
    int rc = add(s, TOK_STRIP, &p, err);
    if (rc)
        return rc;
    p->left = p->right = true;
    rc = vf_json_bool_opt(o, "strip_left", &p->left, err);
    return rc ? rc : vf_json_bool_opt(o, "strip_right", &p->right, err);
}

static int read_replace(tok_steps *s, const cJSON *o, vc_err *err)
{
    tok_step *p = NULL;
    int rc = add(s, TOK_REPLACE, &p, err);
    if (!rc)
        rc = read_pattern(p, o, err);
    return rc ? rc : read_text(p, o, "content", err);
}

static int read_prepend(tok_steps *s, const cJSON *o, vc_err *err)
{
    tok_step *p = NULL;
    int rc = add(s, TOK_PREPEND, &p, err);
    return rc ? rc : read_text(p, o, "prepend", err);
}

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Decodes in place; false: no base64. */
static bool base64(char *s, size_t *n)
{
    size_t len = strlen(s), out = 0;
    uint32_t bits = 0;
    int held = 0;

    while (len && s[len - 1] == '=')
        len--;
    for (size_t i = 0; i < len; i++) {
        int d = base64_digit(s[i]);
        if (d < 0)
            return false;
        bits = bits << 6 | (uint32_t)d;
        if ((held += 6) >= 8)
            s[out++] = (char)(bits >> (held -= 8));
    }
    *n = out;
    return true;
}

static int read_charsmap(tok_steps *s, const cJSON *o, vc_err *err)
{
    const char *text = NULL;
    tok_step *p = NULL;

    int rc = vf_json_str_opt(o, "precompiled_charsmap", &text, err);
    if (rc || !text || !*text)           /* an empty map changes nothing */
        return rc;
    if ((rc = add(s, TOK_CHARSMAP, &p, err)))
        return rc;
    if (tok_step_text(p, text, strlen(text)))
        return vc_no_memory(err);
    if (!base64(p->text, &p->n))
        return vc_fail(err, VC_EFORMAT, "precompiled_charsmap: not base64");
    return tok_charsmap_of(&p->map, p->text, p->n, err);
}

int tok_json_normalizer(tok_steps *s, const cJSON *o, vc_err *err)
{
    static const step_kind kinds[] = {
        { "NFC", read_form }, { "NFD", read_form }, { "NFKC", read_form }, { "NFKD", read_form },
        { "Lowercase", read_lowercase }, { "Replace", read_replace }, { "Prepend", read_prepend },
        { "Precompiled", read_charsmap }, { "Strip", read_strip },
        { "StripAccents", read_strip_accents }, { NULL, NULL }
    };
    return read_steps(s, o, kinds, "normalizers", 0, err);
}

/* ---- pre-tokenizers ---- */

static int read_behavior(tok_behavior *b, const cJSON *o, const char *otherwise, vc_err *err)
{
    static const char *const name[] = { "Removed", "Isolated", "Contiguous", "MergedWithPrevious",
                                        "MergedWithNext" };
    const char *text = otherwise;
    int rc = vf_json_str_opt(o, "behavior", &text, err);
    if (rc)
        return rc;
    for (int i = 0; i < 5; i++)
        if (!strcmp(text, name[i])) {
            *b = (tok_behavior)i;
            return 0;
        }
    return vc_fail(err, VC_EFORMAT, "behavior: %s is not known here", text);
}

static int read_split(tok_steps *s, const cJSON *o, vc_err *err)
{
    tok_step *p = NULL;
    int rc = add(s, TOK_SPLIT, &p, err);
    if (!rc)
        rc = read_pattern(p, o, err);
    if (!rc)
        rc = read_behavior(&p->behavior, o, "", err);
    return rc ? rc : vf_json_bool_opt(o, "invert", &p->invert, err);
}

static int read_byte_level(tok_steps *s, const cJSON *o, vc_err *err)
{
    bool space = true, regex = true;
    tok_step *p = NULL;

    int rc = vf_json_bool_opt(o, "add_prefix_space", &space, err);
    if (rc || (rc = vf_json_bool_opt(o, "use_regex", &regex, err)))
        return rc;
    if (space) {                         /* adds a blank in front of words without one */
        if ((rc = add(s, TOK_METASPACE, &p, err)))
            return rc;
        p->scheme = TOK_ALWAYS;
        if (tok_step_text(p, " ", 1))
            return vc_no_memory(err);
    }
    if (regex) {
        if ((rc = add(s, TOK_SPLIT, &p, err)) || (rc = tok_step_regex(p, tok_gpt2_pattern, err)))
            return rc;
        p->behavior = TOK_ISOLATED;
    }
    return add(s, TOK_BYTE_LEVEL, &p, err);
}

static int read_metaspace(tok_steps *s, const cJSON *o, vc_err *err)
{
    const char *scheme = NULL;
    bool prefix = true;                  /* the value of older files, which lack the field */
    tok_step *p = NULL;

    int rc = add(s, TOK_METASPACE, &p, err);
    if (rc)
        return rc;
    p->split = true;
    if ((rc = read_text(p, o, "replacement", err))
        || (rc = vf_json_bool_opt(o, "split", &p->split, err))
        || (rc = vf_json_bool_opt(o, "add_prefix_space", &prefix, err))
        || (rc = vf_json_str_opt(o, "prepend_scheme", &scheme, err)))
        return rc;
    if (!p->n)
        return vc_fail(err, VC_EFORMAT, "replacement: it is empty");
    if (!scheme)
        scheme = prefix ? "always" : "never";
    p->scheme = !strcmp(scheme, "always") ? TOK_ALWAYS : !strcmp(scheme, "first") ? TOK_FIRST
                                                                                : TOK_NEVER;
    if (p->scheme == TOK_NEVER && strcmp(scheme, "never"))
        return vc_fail(err, VC_EFORMAT, "prepend_scheme: %s is not known here", scheme);
    return 0;
}

static int add_split(tok_steps *s, tok_class class, tok_behavior behavior, vc_err *err)
{
    tok_step *p = NULL;
    int rc = add(s, TOK_SPLIT, &p, err);
    if (rc)
        return rc;
    p->find.class = class;
    p->behavior = behavior;
    return 0;
}

static int read_whitespace(tok_steps *s, const cJSON *o, vc_err *err)
{
    tok_step *p = NULL;
    (void)o;
    int rc = add(s, TOK_SPLIT, &p, err);
    if (rc)
        return rc;
    p->find.by = TOK_BY_WORDS;
    p->behavior = TOK_REMOVED;
    p->invert = true;
    return 0;
}

static int read_whitespace_split(tok_steps *s, const cJSON *o, vc_err *err)
{
    (void)o;
    return add_split(s, TOK_IS_SPACE, TOK_REMOVED, err);
}

static int read_digits(tok_steps *s, const cJSON *o, vc_err *err)
{
    bool single = false;
    int rc = vf_json_bool_opt(o, "individual_digits", &single, err);
    return rc ? rc : add_split(s, TOK_IS_NUMBER, single ? TOK_ISOLATED : TOK_CONTIGUOUS, err);
}

static int read_punctuation(tok_steps *s, const cJSON *o, vc_err *err)
{
    tok_behavior behavior = TOK_ISOLATED;
    int rc = read_behavior(&behavior, o, "Isolated", err);
    return rc ? rc : add_split(s, TOK_IS_PUNCT, behavior, err);
}

int tok_json_splits(tok_steps *s, const cJSON *o, vc_err *err)
{
    static const step_kind kinds[] = {
        { "Split", read_split }, { "ByteLevel", read_byte_level }, { "Metaspace", read_metaspace },
        { "Whitespace", read_whitespace }, { "WhitespaceSplit", read_whitespace_split },
        { "Digits", read_digits }, { "Punctuation", read_punctuation }, { NULL, NULL }
    };
    return read_steps(s, o, kinds, "pretokenizers", 0, err);
}

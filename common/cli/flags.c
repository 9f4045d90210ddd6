/* flags.c - the command line, and where values go. See flags.h and flags_internal.h. */
#include "common/cli/flags.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/utf8.h"
#include "common/cli/flags_internal.h"
#include "common/os/file.h"
#include "common/os/streams.h"

void vc_flags_free(vc_flags *set)
{
    if (!set)
        return;
    vc_flags_drop_kept(set);
    vc_flags_free_lines(&set->notes);
    vc_flags_free_lines(&set->wrong);
    vc_flags_free_lines(&set->meaning);
    free(set->from);
    free(set->bad);
    free(set->told);
    free(set);
}

/* ---- values ---- */

static int set_default(vc_flags *set, const vc_flag *f, vc_err *err)
{
    vc_found found = { .flag = f, .part = -1 };
    void *dst = set->options + f->offset;

    switch (f->kind) {
    case VC_BOOLEAN: *(bool *)dst = false; break;
    case VC_INT:
    case VC_BYTES: *(int64_t *)dst = 0; break;
    case VC_FLOAT: *(double *)dst = 0; break;
    case VC_STRING:
    case VC_WORDS:
    case VC_PATH: *(char **)dst = NULL; break;
    case VC_CHOICE:
    case VC_OPTIONAL: *(int *)dst = 0; break;
    case VC_DTYPE_KIND: *(vc_dtype *)dst = VC_DTYPE_NONE; break;
    case VC_PAIR: memset(dst, 0, 2 * sizeof(int64_t)); break;
    case VC_LIST: *(vc_list *)dst = (vc_list){ 0 }; break;
    case VC_GROUP: return 0;
    }
    int rc = f->value ? vc_flags_set(set, &found, &f->value, 1, VC_FROM_DEFAULT, err) : 0;
    return rc ? vc_context(err, VC_EFAIL, "default of --%s", f->name) : 0;
}

/* ---- the command line ---- */

typedef struct words {
    char **argv;
    int argc, i;                   /* i: index of the next word */
    const char *flag;              /* the last flag, NULL before the first */
    bool only;                     /* after "--" there are no flags */
    FILE *out;
} words;

static const char *peek(const words *w)
{
    return w->i < w->argc ? w->argv[w->i] : NULL;
}

/* Whether the word is a flag with one dash: "-o" for a name of one letter, or "-rank" for
 * "--rank". */
static bool has_one_dash(const vc_flags *set, const char *s)
{
    size_t len = s[0] == '-' ? strcspn(s + 1, "=") : 0;
    vc_found found;
    bool negated;

    return len && (vc_flags_find(set->prog, s + 1, len, &found) ||
                   (len > 1 && (vc_flags_builtin_name(s + 1, len) ||
                                vc_flags_find_foreign(set->prog, s + 1, len, &negated))));
}

static bool is_flag(const vc_flags *set, const char *s)
{
    return !strncmp(s, "--", 2) || has_one_dash(set, s);
}

/* The next word if it can be a value; a word that begins with two dashes is a flag. */
static const char *next_value(words *w)
{
    const char *s = peek(w);
    if (!s || !strncmp(s, "--", 2))
        return NULL;
    w->i++;
    return s;
}

/* The next value of a flag that takes several. */
static const char *further_value(const vc_flags *set, words *w)
{
    const char *s = peek(w);
    return s && !is_flag(set, s) ? next_value(w) : NULL;
}

/* The next word if it is a value of a switch: "true", or a choice of f. In a program with words of
 * its own the word is one of them, so a switch takes none. */
static const char *switch_value(const vc_flags *set, words *w, const vc_flag *f)
{
    const char *s = peek(w);
    vc_any_value v;
    if (!s || set->prog->positional || vc_flags_value(NULL, f, -1, s, &v, NULL))
        return NULL;
    w->i++;
    return s;
}

static bool all_digits(const char *s)
{
    return *s && !s[strspn(s, "0123456789")];
}

static int several(vc_flags *set, words *w, const vc_found *found, const char *text, vc_err *err)
{
    size_t len = strlen(text);
    int rc = 0;

    if (found->flag->kind == VC_LIST) {
        for (; !rc && text; text = further_value(set, w))
            rc = vc_flags_set(set, found, &text, 1, VC_FROM_WORDS, err);
        return rc;
    }
    char *all = vc_flags_keep_text(set, text, len);
    for (const char *more; all && (more = further_value(set, w));) {
        char *longer = vc_flags_keep(set, len + strlen(more) + 2);
        if (longer)
            len = (size_t)sprintf(longer, "%s,%s", all, more);
        all = longer;
    }
    if (!all)
        return vc_no_memory(err);
    return vc_flags_set(set, found, (const char *const[]){ all }, 1, VC_FROM_WORDS, err);
}

static int own_flag(vc_flags *set, words *w, const vc_found *found, const char *value, vc_err *err)
{
    const vc_flag *f = found->flag;
    const char *text[2] = { value, NULL };
    size_t len = 0;

    if (found->negated && value)
        return vc_fail(err, VC_EUSAGE, "takes no value");
    if (found->negated || value)
        return vc_flags_set(set, found, text, 1, VC_FROM_WORDS, err);

    char bare[32] = "true";
    if (f->kind == VC_OPTIONAL) {
        const char *first = vc_flags_choice(f->allowed, 0, &len);
        snprintf(bare, sizeof bare, "%.*s", (int)len, first);
    }
    if (f->kind == VC_BOOLEAN || f->kind == VC_OPTIONAL)
        text[0] = (text[1] = switch_value(set, w, f)) ? text[1] : bare;
    else if (!(text[0] = next_value(w)))
        return vc_fail(err, VC_EUSAGE, "needs a value%s%s%s", f->allowed ? ": " : "",
                       f->allowed ? f->allowed : "",
                       peek(w) ? " (one that begins with \"--\" is given by --flag=value)" : "");
    if ((f->kind == VC_LIST && !set->prog->positional) || f->kind == VC_WORDS)
        return several(set, w, found, text[0], err);
    bool two = f->kind == VC_PAIR && found->part < 0 && all_digits(text[0]);
    if (two && !(text[1] = next_value(w)))
        return vc_fail(err, VC_EUSAGE, "needs two numbers (384 672 or 384x672)");
    return vc_flags_set(set, found, text, two ? 2 : 1, VC_FROM_WORDS, err);
}

static int foreign_flag(vc_flags *set, words *w, const vc_foreign *f, const vc_place *at,
                        bool negated, const char *value, vc_err *err)
{
    const vc_flag boolean = { .name = "", .kind = VC_BOOLEAN };

    if (!value && !f->values)
        value = switch_value(set, w, &boolean);
    while ((f->values < 0 || f->refused) && further_value(set, w))
        ;
    for (int k = 0; !f->refused && !value && k < f->values; k++) {
        const char *s = next_value(w);
        if (!s)
            break;
        if (k + 1 == f->values || !all_digits(s))    /* "384x672" is two values in one word */
            value = s;
    }
    return vc_flags_set_foreign(set, f, at, negated, value, err);
}

int vc_flags_print(const vc_flags *set, FILE *out, vc_err *err)
{
    set->said(set->prog, set->topic, out);
    return vc_std_flush(out, err);
}

/* The result of vc_flags_parse for a flag that asks for a text. */
static int say(vc_flags *set, const words *w,
               void (*text)(const vc_program *, const char *, FILE *), vc_err *err)
{
    set->said = text;
    int rc = w->out ? vc_flags_print(set, w->out, err) : 0;
    return rc ? rc : 1;
}

static void table(const vc_program *prog, const char *topic, FILE *out)
{
    (void)topic;
    vc_flags_table(prog, out);
}

/* --help and -h: a word after it is the topic, where the program has topics. */
static int help(vc_flags *set, words *w, const char *value, vc_err *err)
{
    if (value && !strcmp(value, "table"))
        return say(set, w, table, err);
    set->topic = value ? value : set->prog->first ? further_value(set, w) : NULL;
    int rc = set->topic ? vc_flags_find_topic(set->prog, set->topic, err) : 0;
    if (!rc)
        return say(set, w, vc_flags_help, err);
    w->i = w->argc;                                /* that no flag follows is not its fault */
    set->unread = true;
    return rc;
}

/* Handles --help, --version and --config, which sd-scripts and musubi-tuner call --dataset_config
 * where the file is that of their datasets. */
static int builtin(vc_flags *set, words *w, const char *name, size_t len, const char *value,
                   vc_err *err)
{
    if (vc_flags_is_name(name, len, "help"))
        return help(set, w, value, err);
    if (vc_flags_is_name(name, len, "version"))
        return say(set, w, vc_flags_version, err);
    if (!value)
        value = next_value(w);
    if (set->config)
        return vc_fail(err, VC_EUSAGE, "given twice: one file is allowed");
    set->config = value;
    set->unread = !value || !*value;
    return set->unread ? vc_fail(err, VC_EUSAGE, "needs the name of a file") : 0;
}

/* Finds the flag of a name, or another program's. */
static bool find_flag(const vc_flags *set, const char *name, size_t len, vc_found *found,
                      const vc_foreign **foreign, bool *negated)
{
    *foreign = NULL;
    if (!vc_flags_find(set->prog, name, len, found))
        *foreign = vc_flags_find_foreign(set->prog, name, len, negated);
    return found->flag || *foreign;
}

/* The name after its section, "training.steps", as a file's key is looked up. */
static const char *without_section(const char *name, size_t len)
{
    const char *dot = memrchr(name, '.', len);
    return dot ? dot + 1 : name;
}

/* Reads a flag with its values. After an error the words up to the next flag are skipped without a
 * further error, as they may be values of this one. */
static int one_flag(vc_flags *set, words *w, const char *name, vc_err *err)
{
    const char *equals = strchr(name, '='), *value = equals ? equals + 1 : NULL;
    size_t len = equals ? (size_t)(equals - name) : strlen(name);
    vc_found found = { .flag = NULL };
    vc_place at = { .file = NULL };
    const vc_foreign *f = NULL;
    size_t own_len = len;
    const char *own = vc_flags_renamed(set->prog, name, &own_len), *typed = name;
    bool negated, built_in = vc_flags_builtin_name(own, own_len) ||
                             vc_flags_is_name(own, own_len, "dataset_config");
    int rc, before = set->faults;

    snprintf(at.name, sizeof at.name, "%.*s", (int)len, name);
    if (!built_in && !find_flag(set, name, len, &found, &f, &negated)) {
        typed = without_section(name, len);
        find_flag(set, typed, len - (size_t)(typed - name), &found, &f, &negated);
    }
    if (built_in)
        rc = builtin(set, w, own, own_len, value, err);
    else if (found.flag)
        rc = own_flag(set, w, &found, value, err);
    else if (f)
        rc = foreign_flag(set, w, f, &at, negated, value, err);
    else
        rc = vc_flags_unknown(set->prog, "--", name, len, err);
    if (!rc && (found.flag || f))
        rc = vc_flags_type(set, typed, len - (size_t)(typed - name), err);
    bool unknown = rc == VC_EUSAGE && !found.flag && !f && !built_in;
    if (rc < 0)
        rc = vc_flags_take(set, unknown ? NULL : &at, found.flag, rc, err);
    while (set->faults > before && further_value(set, w))
        ;
    return rc;
}

static int stray_word(vc_flags *set, words *w, const char *s, vc_err *err)
{
    const char *before = w->flag ? w->flag : "";
    size_t dashes = strspn(before, "-");
    vc_found found;
    vc_quoted q = vc_flags_quote(s, strlen(s));

    while (further_value(set, w))                  /* one error is enough for all of them */
        ;
    if (!dashes || !vc_flags_find(set->prog, before + dashes, strcspn(before + dashes, "="),
                                  &found))
        return vc_fail(err, VC_EUSAGE, "unexpected %s: every value belongs to a flag, and a value "
                       "with blanks needs quotes: see %s --help", q.s, set->prog->name);
    if (found.flag->kind == VC_BOOLEAN || found.flag->kind == VC_OPTIONAL)
        return vc_fail(err, VC_EUSAGE, "unexpected %s after %s, which takes %s, or no value", q.s,
                       before, found.flag->kind == VC_BOOLEAN ? "true or false"
                                                              : found.flag->allowed);
    return vc_fail(err, VC_EUSAGE, "unexpected %s after the value of %s, which takes one", q.s,
                   before);
}

static int one_word(vc_flags *set, words *w, const char *s, vc_err *err)
{
    if (!w->only && (!strcmp(s, "-h") || !strcmp(s, "-?")))
        return help(set, w, NULL, err);
    if (!w->only && s[0] == '-' && s[1]) {
        while (further_value(set, w))
            ;
        return vc_flags_unknown(set->prog, "-", s + 1, strcspn(s + 1, "="), err);
    }
    if (!set->prog->positional)
        return stray_word(set, w, s, err);

    vc_flag list = { .name = "", .kind = VC_LIST };
    return vc_flags_value(set, &list, -1, s, &set->words, err);
}

static int read_words(vc_flags *set, words *w, vc_err *err)
{
    int rc = 0;

    while (!rc && w->i < w->argc && set->faults < VC_MOST_FAULTS) {
        const char *s = w->argv[w->i++];
        if (!w->only && !strcmp(s, "--"))
            w->only = true;
        else if (!w->only && is_flag(set, s))
            rc = one_flag(set, w, (w->flag = s) + 1 + (s[1] == '-'), err);
        else
            rc = vc_flags_take(set, NULL, NULL, one_word(set, w, s, err), err);
    }
    return rc;
}

/* Refuses words that are not UTF-8, which YAML could not hold. */
static int check_utf8(int argc, char **argv, vc_err *err)
{
    for (int i = 1; i < argc; i++) {
        const char *s = argv[i];
        uint32_t c;
        for (size_t n; (n = vc_utf8(s, &c));)
            s += n;
        if (*s)
            return vc_fail(err, VC_EUSAGE, "word %d of the command line is not UTF-8 text", i);
    }
    return 0;
}

static void check_rows(vc_flags *set)
{
    bool alone = set->prog->alone && vc_flags_given(set, set->prog->alone);
    for (const vc_flag *f = set->prog->flags; f->name; f++) {
        const unsigned char *from = set->from[f - set->prog->flags];
        const int64_t *pair = (const int64_t *)(const void *)(set->options + f->offset);
        if (f->required && !alone && !from[0] && !from[1] && vc_flags_whole(set))
            vc_flags_wrong(set, "--%s is required: %s", f->name, f->help);
        if (f->kind == VC_PAIR && !from[0] != !from[1] && !f->value)
            vc_flags_wrong(set, "--%s: only one of two numbers was given (%lld and %lld)",
                           f->name, (long long)pair[0], (long long)pair[1]);
    }
}

static vc_flags *new_set(const vc_program *prog, void *options, size_t rows)
{
    vc_flags *set = calloc(1, sizeof *set);
    if (!set)
        return NULL;
    set->from = calloc(rows + 1, sizeof *set->from);
    set->bad = calloc(rows + 1, sizeof *set->bad);
    set->told = calloc(1, sizeof *set->told);
    set->prog = prog;
    set->options = options;
    return set;
}

int vc_flags_parse(vc_flags **out_set, const vc_program *prog, void *options, int argc, char **argv,
                   FILE *out, vc_err *err)
{
    vc_err none;
    size_t rows = 0;
    while (prog->flags[rows].name)
        rows++;

    if (!err)
        err = &none;
    vc_flags *set = *out_set = new_set(prog, options, rows);
    if (!set || !set->from || !set->bad || !set->told)
        return vc_no_memory(err);

    int rc = 0;
    for (size_t i = 0; !rc && i < rows; i++)
        rc = set_default(set, &prog->flags[i], err);
    if (!rc)
        rc = check_utf8(argc, argv, err);
    words w = { .argv = argv, .argc = argc, .i = 1, .out = out };
    if (!rc)
        rc = read_words(set, &w, err);
    if (!rc && set->config && *set->config)
        rc = vc_flags_read_config(set, set->config, err);
    if (rc)
        return rc;
    check_rows(set);
    return vc_flags_verdict(set, err);
}

/* like.c - see like.h */
#include "common/cli/like.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"

enum { VALUE = 512 };        /* characters of a value: lists of modules are long */
#define FOLLOWS "the rank"   /* the default of a flag that follows another one */

#define NAME(id, name) [VC_LIKE_##id] = name,
static const char *const names[VC_LIKE_END] = { VC_LIKE_LIST(NAME) };

/* Whether two texts are the same value: 1e-2 and 0.01. */
static bool same_value(const char *a, const char *b)
{
    char *end_a, *end_b;
    double x = strtod(a, &end_a), y = strtod(b, &end_b);
    if (!strcmp(a, b))
        return true;
    return end_a > a && end_b > b && !*end_a && !*end_b && fabs(x - y) <= 1e-12 * fabs(x);
}

/* ---- --like ---- */

int vc_like_take(vc_flags *set, int like, const vc_like *rows, vc_like_fits *fits,
                 const void *options, vc_err *err)
{
    int rc = 0;
    for (const vc_like *row = rows; !rc && row->like; row++)
        if (row->like == like && row->value && !vc_flags_given(set, row->flag) &&
            (!fits || fits(options, row->flag)))
            rc = vc_flags_prefer(set, row->flag, row->value, err);
    return rc;
}

/* True if the row is of this trainer and of the run's family. */
static bool is_of(const vc_like_of_family *row, int like, const vc_like_run *run)
{
    return run->family && row->like == like &&
           (!strcmp(row->family, run->family) ||
            (run->variant && !strcmp(row->family, run->variant)));
}

/* The family's row for a flag, or NULL. */
static const vc_like_of_family *family_row(const vc_like_run *run, int like, const char *flag)
{
    const vc_like_of_family *found = NULL;
    for (const vc_like_of_family *row = run->of_family; row && row->like; row++)
        if (is_of(row, like, run) && !strcmp(row->flag, flag))
            found = row;
    return found;
}

int vc_like_take_family(vc_flags *set, int like, const vc_like_run *run, void *options,
                        vc_err *err)
{
    int rc = 0;
    for (const vc_like_of_family *row = run->of_family; !rc && like && row->like; row++) {
        if (family_row(run, like, row->flag) != row || vc_flags_given(set, row->flag) ||
            (run->fits && !run->fits(run->scratch, row->flag)))
            continue;
        rc = vc_flags_prefer(set, row->flag, row->value, err);
        if (!rc)
            rc = vc_flags_put(set, row->flag, row->value, options, err);
    }
    return rc;
}

/* A trainer's value of a flag. */
typedef struct theirs {
    const char *flag, *value;
    const char *only;            /* the kind of run or the family that has it, or NULL */
} theirs;

/* Adds a value to the list, unless the list has the flag. */
static void add_theirs(theirs *list, const char *flag, const char *value, const char *only)
{
    while (list->flag && strcmp(list->flag, flag))
        list++;
    if (!list->flag && value)
        *list = (theirs){ flag, value, only };
}

/* Lists the values that a trainer has, but for flags that are decided, by vc_flags_given or
 * vc_flags_decided: malloc'ed, ended by a NULL flag. */
static theirs *list_theirs(const vc_flags *set, const vc_like_run *run, int like,
                           bool (*decided)(const vc_flags *set, const char *flag))
{
    size_t most = 1;
    for (const vc_like *row = run->rows; row->like; row++)
        most++;
    for (const vc_like_of_family *row = run->of_family; row && row->like; row++)
        most++;
    theirs *list = calloc(most, sizeof *list);
    for (const vc_like *row = run->rows; list && row->like; row++) {
        const vc_like_of_family *own = family_row(run, like, row->flag);
        if (row->like == like && !decided(set, row->flag))
            add_theirs(list, row->flag, own ? own->value : row->value,
                       own ? own->family : row->only);
    }
    for (const vc_like_of_family *row = run->of_family; list && row && row->like; row++)
        if (family_row(run, like, row->flag) == row && !decided(set, row->flag))
            add_theirs(list, row->flag, row->value, row->family);
    return list;
}

/* Sets the values of the list in run->scratch. */
static int put_theirs(vc_flags *set, const vc_like_run *run, const theirs *list, vc_err *err)
{
    int rc = 0;
    for (const theirs *x = list; !rc && x->flag; x++)
        rc = vc_flags_put(set, x->flag, x->value, run->scratch, err);
    return rc;
}

/* Writes our default: the table's, or the one of run->options where the help names one. */
static void default_of(const vc_flags *set, const vc_like_run *run, const char *flag, char *buf)
{
    char value[VALUE];
    if (vc_flags_default(set, flag, buf, VALUE) || !strcmp(buf, FOLLOWS) || !strcmp(buf, "none"))
        return;
    vc_flags_show(set, flag, run->options, value, sizeof value);
    if (strcmp(value, "none"))
        snprintf(buf, VALUE, "%s", value);
}

int vc_like_say(vc_flags *set, int like, const vc_like_run *run, vc_err *err)
{
    if (!like)
        return 0;
    const char *peer = names[like];
    theirs *list = list_theirs(set, run, like, vc_flags_given);
    int said = 0, rc = list ? put_theirs(set, run, list, err) : vc_no_memory(err);
    for (const theirs *x = list; !rc && x->flag; x++) {
        char ours[VALUE];
        default_of(set, run, x->flag, ours);
        if (same_value(ours, x->value) || (run->fits && !run->fits(run->scratch, x->flag)))
            continue;
        if (!said++)
            vc_flags_say(set, "--like %s: %-22s %-28s %s", peer, "flag", "ours", "theirs, taken");
        vc_flags_say(set, "--like %s: %-22s %-28s %s%s%s%s", peer, x->flag, ours, x->value,
                     x->only ? " (" : "", x->only ? x->only : "", x->only ? ")" : "");
    }
    free(list);
    return rc;
}

/* ---- the hint ---- */

/* Counts the names that were typed; first becomes one of them. */
static int signs_of(const vc_flags *set, const char *signs, char *first, size_t size)
{
    int n = 0;

    for (const char *s = signs; *s;) {
        char name[64];
        size_t len = strcspn(s, " ");
        snprintf(name, sizeof name, "%.*s", (int)len, s);
        if (vc_flags_typed(set, name) && !n++)
            snprintf(first, size, "%s", name);
        s += len + (s[len] == ' ');
    }
    return n;
}

/* The trainer of which the command has the most names, or VC_LIKE_NONE. */
static int typed_like(const vc_flags *set, char *sign, size_t size)
{
    int best = VC_LIKE_NONE, most = 0;
    bool tie = false;

    for (int i = VC_LIKE_NONE + 1; i < VC_LIKE_END; i++) {
        char first[64] = "";
        int n = signs_of(set, vc_like_signs[i], first, sizeof first);
        tie = n > most ? false : tie || (n && n == most);
        if (n <= most)
            continue;
        most = n;
        best = i;
        snprintf(sign, size, "%s", first);
    }
    return tie ? VC_LIKE_NONE : best;
}

/* Writes the value that the run has; where the family's default is not known, or the value follows
 * another one, the default as the help has it. */
static void value_of(const vc_flags *set, const vc_like_run *run, const char *flag, char *buf)
{
    char words[VALUE];
    vc_flags_show(set, flag, run->options, buf, VALUE);
    vc_flags_default(set, flag, words, sizeof words);
    if (!strcmp(words, FOLLOWS) || (!strcmp(buf, "none") && !run->family))
        snprintf(buf, VALUE, "%s", words);
}

/* Appends "rank 4 (here 64), ..." for the values that differ; *all stays NULL if none does. */
static int list_differences(char **all, vc_flags *set, const vc_like_run *run, const theirs *list,
                            vc_err *err)
{
    static const char unknown[] = "the family's";
    int rc = put_theirs(set, run, list, err);
    for (const theirs *x = list; !rc && x->flag; x++) {
        char ours[VALUE], value[VALUE];
        value_of(set, run, x->flag, ours);
        vc_flags_show(set, x->flag, run->scratch, value, sizeof value);
        if (same_value(ours, value) || !strncmp(ours, unknown, sizeof unknown - 1) ||
            (run->fits && !run->fits(run->scratch, x->flag)))
            continue;
        char *more = vc_format("%s%s%s %s (here %s)", *all ? *all : "", *all ? ", " : "", x->flag,
                               value, ours);
        free(*all);
        if (!(*all = more))
            return vc_no_memory(err);
    }
    return rc;
}

int vc_like_hint(vc_flags *set, const vc_like_run *run, vc_err *err)
{
    char sign[64], *all = NULL;
    int like = vc_flags_given(set, "like") ? VC_LIKE_NONE : typed_like(set, sign, sizeof sign);
    if (!like)
        return 0;
    theirs *list = list_theirs(set, run, like, vc_flags_decided);
    int rc = list ? list_differences(&all, set, run, list, err) : vc_no_memory(err);
    const char *peer = names[like];
    char *text = rc || !all ? NULL
                 : vc_format("--%s is a flag of %s, whose defaults differ: %s; --like %s uses them",
                             sign, peer, all, peer);
    if (text && vc_flags_wrong_line(set, 0))       /* notes are not shown beside errors */
        vc_flags_wrong(set, "%s", text);
    else if (text)
        vc_flags_say(set, "%s", text);
    if (!rc && all && !text)
        rc = vc_no_memory(err);
    free(text);
    free(all);
    free(list);
    return rc;
}

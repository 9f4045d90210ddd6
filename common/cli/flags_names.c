/* flags_names.c - finds a flag by its name, or the flag with the nearest name. See
 * flags_internal.h. */
#include <stdlib.h>
#include <string.h>

#include "common/cli/flags_internal.h"

bool vc_flags_same_name(const char *a, size_t n, const char *b, size_t m)
{
    if (n != m)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((a[i] == '-' ? '_' : a[i]) != (b[i] == '-' ? '_' : b[i]))
            return false;
    return true;
}

const char *vc_flags_next_name(const char **list, size_t *len, int *part)
{
    const char *s = *list;
    if (!s)
        return NULL;
    s += strspn(s, " ");
    *len = strcspn(s, " ");
    *list = s + *len;
    bool half = *len > 2 && s[*len - 2] == ':';
    *part = half ? s[*len - 1] - '0' : -1;
    *len -= half ? 2 : 0;
    return *len ? s : NULL;
}

static bool has_name(const vc_flag *f, const char *name, size_t len, int *part)
{
    *part = -1;
    if (f->kind == VC_GROUP)
        return false;
    if (vc_flags_same_name(f->name, strlen(f->name), name, len))
        return true;

    const char *list = f->aliases, *s;
    size_t n;
    while ((s = vc_flags_next_name(&list, &n, part)))
        if (vc_flags_same_name(s, n, name, len))
            return true;
    return false;
}

static const vc_flag *find_row(const vc_program *prog, const char *name, size_t len, int *part)
{
    for (const vc_flag *f = prog->flags; f->name; f++)
        if (has_name(f, name, len, part))
            return f;
    return NULL;
}

static bool starts_no(const char *name, size_t len)
{
    return len > 3 && vc_flags_same_name(name, 3, "no_", 3);
}

const char *vc_flags_renamed(const vc_program *prog, const char *name, size_t *len)
{
    for (const vc_renamed *r = prog->renamed; r && r->name; r++)
        if (vc_flags_same_name(r->name, strlen(r->name), name, *len)) {
            *len = strlen(r->flag);
            return r->flag;
        }
    return name;
}

bool vc_flags_find(const vc_program *prog, const char *name, size_t len, vc_found *found)
{
    name = vc_flags_renamed(prog, name, &len);
    *found = (vc_found){ .part = -1 };
    found->flag = find_row(prog, name, len, &found->part);
    if (found->flag || !starts_no(name, len))
        return found->flag;

    const vc_flag *f = find_row(prog, name + 3, len - 3, &found->part);
    if (f && (f->kind == VC_BOOLEAN || vc_flags_off(f) >= 0))
        found->flag = f;
    found->negated = true;
    return found->flag;
}

static bool foreign_has(const vc_foreign *f, const char *name, size_t len)
{
    const char *list = f->name, *s;
    size_t n;
    int part;

    while ((s = vc_flags_next_name(&list, &n, &part))) {
        if (s[n - 1] == '*' && len >= n - 1 && vc_flags_same_name(s, n - 1, name, n - 1))
            return true;
        if (vc_flags_same_name(s, n, name, len))
            return true;
    }
    return false;
}

static const vc_foreign *find_in(const vc_foreign *table, const char *name, size_t len,
                                 bool *negated)
{
    *negated = false;
    for (const vc_foreign *f = table; f && f->name; f++) {
        if (foreign_has(f, name, len))
            return f;
        if (!f->values && starts_no(name, len) && foreign_has(f, name + 3, len - 3)) {
            *negated = true;
            return f;
        }
    }
    return NULL;
}

const vc_foreign *vc_flags_find_foreign(const vc_program *prog, const char *name, size_t len,
                                        bool *negated)
{
    vc_found own;
    if (vc_flags_find(prog, name, len, &own))
        return NULL;
    size_t n = len;
    const char *ours = vc_flags_renamed(prog, name, &n);
    const vc_foreign *f = find_in(prog->partner, ours, n, negated);
    for (const vc_foreign *const *table = prog->foreign; !f && table && *table; table++)
        f = find_in(*table, name, len, negated);
    return f;
}

/* Edit distance with neighbours swapped as one edit (optimal string alignment), most + 1
 * for names too long to be one. */
static int distance(const char *a, size_t n, const char *b, size_t m, int most)
{
    enum { LONGEST = 64 };
    int row[3][LONGEST + 1], *two = row[0], *one = row[1], *now = row[2];
    if (n > LONGEST || m > LONGEST)
        return most + 1;

    for (size_t j = 0; j <= m; j++)
        one[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            bool same = vc_flags_same_name(a + i - 1, 1, b + j - 1, 1);
            int d = one[j - 1] + !same;
            d = one[j] + 1 < d ? one[j] + 1 : d;
            d = now[j - 1] + 1 < d ? now[j - 1] + 1 : d;
            bool swapped = i > 1 && j > 1 && vc_flags_same_name(a + i - 1, 1, b + j - 2, 1) &&
                           vc_flags_same_name(a + i - 2, 1, b + j - 1, 1);
            now[j] = swapped && two[j - 2] + 1 < d ? two[j - 2] + 1 : d;
        }
        int *t = two;
        two = one;
        one = now;
        now = t;
    }
    return one[m];
}

/* Whether two names have the same digits; others are different flags: text_encoder_2,
 * adam_beta1. */
static bool same_digits(const char *a, size_t n, const char *b, size_t m)
{
    static const char digits[] = "0123456789";
    size_t i = 0, j = 0;

    for (;; i++, j++) {
        while (i < n && !memchr(digits, a[i], 10))
            i++;
        while (j < m && !memchr(digits, b[j], 10))
            j++;
        if (i == n || j == m)
            return i == n && j == m;
        if (a[i] != b[j])
            return false;
    }
}

typedef struct guess {
    const char *name;              /* the unknown name */
    size_t len;
    int most;                      /* largest number of edits that is still accepted */
    const char *best;              /* the nearest name, or NULL */
    size_t best_len;
} guess;

/* Number of edits that are a slip of the finger: one, in long names two or three. */
static int slips(size_t len)
{
    return len < 3 ? -1 : len < 9 ? 1 : len < 18 ? 2 : 3;
}

static void consider(guess *g, const char *name, size_t len, const char *shown, size_t shown_len)
{
    int d = same_digits(name, len, g->name, g->len) ? distance(name, len, g->name, g->len, g->most)
                                                    : g->most + 1;
    if (d <= g->most) {
        g->most = d - 1;
        g->best = shown;
        g->best_len = shown_len;
    }
}

static void consider_rows(guess *g, const vc_program *prog)
{
    for (const vc_flag *f = prog->flags; f->name; f++) {
        if (f->kind == VC_GROUP)
            continue;
        const char *list = f->aliases, *s;
        size_t n, len = strlen(f->name);
        int part;
        consider(g, f->name, len, f->name, len);
        while ((s = vc_flags_next_name(&list, &n, &part)))
            consider(g, s, n, f->name, len);
    }
}

static void consider_table(guess *g, const vc_foreign *table)
{
    for (const vc_foreign *f = table; f && f->name; f++) {
        const char *list = f->name, *s;
        size_t n;
        int part;
        while ((s = vc_flags_next_name(&list, &n, &part)))
            if (s[n - 1] != '*')
                consider(g, s, n, s, n);
    }
}

static void consider_foreign(guess *g, const vc_program *prog)
{
    consider_table(g, prog->partner);
    for (const vc_foreign *const *table = prog->foreign; table && *table; table++)
        consider_table(g, *table);
}

static guess nearest(const vc_program *prog, const char *name, size_t len)
{
    guess g = { .name = name, .len = len, .most = slips(len) };
    consider_rows(&g, prog);
    return g;
}

const char *vc_flags_nearest(const vc_program *prog, const char *name)
{
    return nearest(prog, name, strlen(name)).best;
}

int vc_flags_unknown(const vc_program *prog, const char *dashes, const char *name, size_t len,
                     vc_err *err)
{
    guess g = { .best = NULL };
    const char *no = "", *known = *dashes ? "--" : "";
    vc_found found;
    char negated[80];

    if (starts_no(name, len)) {
        g = nearest(prog, name + 3, len - 3);
        snprintf(negated, sizeof negated, "no_%s", g.best ? g.best : "");
        no = "no_";
    }
    if (!g.best || !vc_flags_find(prog, negated, strlen(negated), &found)) {
        no = "";
        g = nearest(prog, name, len);
        consider_foreign(&g, prog);
    }
    vc_quoted q = vc_flags_quote(name, len);
    q.s[strlen(q.s) - 1] = 0;                      /* without the quotes */
    if (g.best)
        return vc_fail(err, VC_EUSAGE, "unknown flag %s%s: did you mean %s%s%.*s?", dashes,
                       q.s + 1, known, no, (int)g.best_len, g.best);
    return vc_fail(err, VC_EUSAGE, "unknown flag %s%s: see %s --help", dashes, q.s + 1, prog->name);
}

/* ---- the table itself ---- */

static int check_name(const vc_program *prog, const vc_flag *f, const char *name, size_t len,
                      vc_err *err)
{
    bool negated;
    int part;

    if (vc_flags_builtin_name(name, len))
        return vc_fail(err, VC_EFAIL, "--%.*s: every program has it", (int)len, name);
    for (const vc_flag *g = prog->flags; g->name; g++)
        if (g != f && has_name(g, name, len, &part))
            return vc_fail(err, VC_EFAIL, "--%.*s: also a name of --%s", (int)len, name, g->name);
    for (const vc_foreign *const *table = prog->foreign; table && *table; table++)
        if (find_in(*table, name, len, &negated))
            return vc_fail(err, VC_EFAIL, "--%.*s: also in a table of foreign flags", (int)len,
                           name);
    return 0;
}

static int check_row(const vc_program *prog, const vc_flag *f, vc_err *err)
{
    if (!f->help || !*f->help)
        return vc_fail(err, VC_EFAIL, "--%s: no help", f->name);
    if ((f->kind == VC_CHOICE || f->kind == VC_OPTIONAL) && !f->allowed)
        return vc_fail(err, VC_EFAIL, "--%s: a choice without values", f->name);

    int rc = check_name(prog, f, f->name, strlen(f->name), err);
    const char *list = f->aliases, *s;
    size_t n;
    int part;
    while (!rc && (s = vc_flags_next_name(&list, &n, &part))) {
        if (part != -1 && (f->kind != VC_PAIR || (part != 0 && part != 1)))
            return vc_fail(err, VC_EFAIL, "--%s: alias %.*s", f->name, (int)n + 2, s);
        rc = check_name(prog, f, s, n, err);
    }
    return rc;
}

int vc_flags_check(const vc_program *prog, vc_err *err)
{
    size_t bytes = 0;
    for (const vc_flag *f = prog->flags; f->name; f++)
        bytes = f->kind != VC_GROUP && f->offset > bytes ? f->offset : bytes;
    void *options = calloc(1, bytes + sizeof(vc_list) + 2 * sizeof(int64_t));
    if (!options)
        return vc_no_memory(err);

    int rc = 0;
    for (const vc_flag *f = prog->flags; !rc && f->name; f++)
        if (f->kind != VC_GROUP)
            rc = check_row(prog, f, err);
    vc_flags *set = NULL;
    char *argv[] = { NULL };
    if (!rc)
        rc = vc_flags_parse(&set, prog, options, 0, argv, NULL, err);
    vc_flags_free(set);
    free(options);
    return rc == VC_EUSAGE ? 0 : rc;      /* VC_EUSAGE: a required flag is missing */
}

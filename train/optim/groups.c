/* groups.c - rates and decay of parameters by their names; see groups.h */
#include "train/optim/groups.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/regex.h"
#include "common/os/file.h"

typedef struct group {
    char *pattern;               /* NULL: of group 0 */
    vc_regex *match;
    vtrain_rate rate;
    double decay;
    int64_t values;
    vt_opt_rate now[2];        /* of parameters that decay, and of those that do not */
} group;

struct vtrain_groups {
    group *at;
    vtrain_group_note *note;     /* of groups 1 .. n - 1 */
    int n;
};

/* ---- texts ---- */

/* Reads a number that is not negative, or above 0; false: the n letters are no such number. */
static bool read_number(double *v, const char *s, size_t n, bool above)
{
    char text[40], *end;
    if (!n || n >= sizeof text)
        return false;
    memcpy(text, s, n);
    text[n] = '\0';
    *v = strtod(text, &end);
    return !*end && isfinite(*v) && (above ? *v > 0 : *v >= 0);
}

static bool read_setting(group *x, const char *s, size_t n)
{
    const struct { const char *name; double *v; bool above; } numbers[] = {
        { "lr=", &x->rate.rate, true }, { "end=", &x->rate.end, false },
        { "decay=", &x->decay, false },
    };
    double times;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        size_t k = strlen(numbers[i].name);
        if (n > k && !strncmp(s, numbers[i].name, k) && s[n - 1] != 'x')
            return read_number(numbers[i].v, s + k, n - k, numbers[i].above);
    }
    if (n > 4 && !strncmp(s, "lr=", 3) && s[n - 1] == 'x' &&
        read_number(&times, s + 3, n - 4, true)) {
        x->rate.rate *= times;
        return true;
    }
    static const char schedule[] = "schedule=";
    const size_t k = sizeof schedule - 1;
    return n > k && !strncmp(s, schedule, k) &&
           vtrain_schedule_named(&x->rate.how, s + k, n - k);
}

static int read_settings(group *x, const char *text, const char *settings, vc_err *err)
{
    for (const char *s = settings; *s;) {
        size_t n = strcspn(s, ",");
        if (!read_setting(x, s, n))
            return vc_fail(err, VC_EUSAGE, "--param_groups %s: \"%.*s\" is none of lr=X with X "
                           "above 0, lr=Nx, end=X, decay=X and schedule=NAME, a name of "
                           "--lr_scheduler", text, (int)n, s);
        s += n + (s[n] == ',' && s[n + 1]);
    }
    return vc_context(err, vtrain_rate_check(&x->rate, err), "--param_groups %s", text);
}

static int read_group(group *x, const char *text, vc_err *err)
{
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text || !colon[1])
        return vc_fail(err, VC_EUSAGE, "--param_groups %s: a pattern of names, a colon and "
                       "settings are expected, as in ttt|ssm:lr=1e-4,schedule=cosine", text);
    char *pattern = strndup(text, (size_t)(colon - text));
    vc_err why = { 0 };
    if (!pattern)
        return vc_no_memory(err);
    if (vc_regex_open(&x->match, pattern, 0, &why)) {
        free(pattern);
        return vc_fail(err, VC_EUSAGE, "--param_groups %s: the pattern is no regular expression: "
                       "%s", text, why.text);
    }
    x->pattern = pattern;
    return read_settings(x, text, colon + 1, err);
}

/* ---- parameters ---- */

static group *group_of(vtrain_groups *s, const char *name)
{
    for (int i = 1; i < s->n; i++)
        if (vc_regex_matches(s->at[i].match, name))
            return &s->at[i];
    return &s->at[0];
}

size_t vtrain_next_part(const char **p)
{
    static const char between[] = ", \t\n";
    *p += strspn(*p, between);
    return strcspn(*p, between);
}

bool vtrain_has_part(const char *name, const char *parts)
{
    size_t n;
    for (const char *p = parts; p && (n = vtrain_next_part(&p)); p += n)
        if (memmem(name, strlen(name), p, n))
            return true;
    return false;
}

static int check_values(const vtrain_groups *s, const char *example, vc_err *err)
{
    for (int i = 1; i < s->n; i++) {
        if (vc_regex_check(s->at[i].match, err))
            return vc_context(err, VC_EUSAGE, "--param_groups %s", s->at[i].pattern);
        if (!s->at[i].values)
            return vc_fail(err, VC_EUSAGE, "--param_groups %s: no trained parameter is in this "
                           "group: their names are like %s", s->at[i].pattern, example);
    }
    return 0;
}

static int take_params(vtrain_groups *s, const char *no_decay, vt_params *p, vc_err *err)
{
    const char *example = "";
    for (int i = 0; i < vt_params_count(p); i++) {
        vt_param *x = vt_params_at(p, i);
        if (!x->trained)
            continue;
        group *own = group_of(s, x->name);
        x->rate = &own->now[vtrain_has_part(x->name, no_decay)];
        own->values += vt_count(x->t);
        example = x->name;
    }
    return check_values(s, example, err);
}

/* ---- the groups ---- */

int vtrain_groups_open(vtrain_groups **out, const vtrain_groups_opts *o, vt_params *p, vc_err *err)
{
    *out = NULL;
    vtrain_groups *s = calloc(1, sizeof *s);
    if (!s)
        return vc_no_memory(err);
    s->at = calloc((size_t)o->groups->n + 1, sizeof *s->at);
    s->note = calloc((size_t)o->groups->n + 1, sizeof *s->note);
    int rc = s->at && s->note ? 0 : vc_no_memory(err);
    for (int i = 0; !rc && i <= o->groups->n; i++) {
        s->at[s->n] = (group){ .rate = o->rate, .decay = o->decay };
        rc = i ? read_group(&s->at[s->n], o->groups->item[i - 1], err) : 0;
        s->n += !rc || s->at[s->n].pattern;
    }
    if (!rc && p)
        rc = take_params(s, o->no_decay, p, err);
    if (rc) {
        vtrain_groups_close(s);
        return rc;
    }
    *out = s;
    return 0;
}

void vtrain_groups_close(vtrain_groups *s)
{
    for (int i = 1; s && i < s->n; i++) {
        free(s->at[i].pattern);
        vc_regex_close(s->at[i].match);
    }
    if (s) {
        free(s->at);
        free(s->note);
    }
    free(s);
}

int vtrain_groups_count(const vtrain_groups *s) { return s->n; }

const char *vtrain_group_pattern(const vtrain_groups *s, int i) { return s->at[i].pattern; }

void vtrain_groups_at(vtrain_groups *s, int64_t step, int64_t steps)
{
    for (int i = 0; i < s->n; i++) {
        group *x = &s->at[i];
        x->rate.steps = steps;
        x->now[0].lr = x->now[1].lr = x->rate.rate * vtrain_rate_factor(&x->rate, step);
        x->now[0].weight_decay = x->decay;
        if (i)
            s->note[i - 1] = (vtrain_group_note){ x->pattern, x->now[0].lr };
    }
}

const vtrain_group_note *vtrain_groups_notes(const vtrain_groups *s, int *n)
{
    *n = s->n - 1;
    return s->note;
}

void vtrain_groups_text(const vtrain_groups *s, char *text, size_t size)
{
    size_t n = 0;
    for (int i = 0; i < s->n && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%s%s%.3g", i ? ", " : "",
                              i ? s->at[i].pattern : "", i ? " " : "", vtrain_group_lr(s, i));
}

double vtrain_group_lr(const vtrain_groups *s, int i) { return s->at[i].now[0].lr; }

const vtrain_rate *vtrain_group_rate(const vtrain_groups *s, int i) { return &s->at[i].rate; }

double vtrain_group_decay(const vtrain_groups *s, int i) { return s->at[i].decay; }

int64_t vtrain_group_values(const vtrain_groups *s, int i) { return s->at[i].values; }

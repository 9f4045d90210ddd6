/* patterns.c - numbers for modules by regular expressions: see patterns.h */
#include "train/lora/patterns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "train/lora/paths_regex.h"

enum { MAX_RANK = 4096 };

typedef struct pattern {
    vc_regex *module;
    char *text;
    double number;
    bool used;
} pattern;

struct vtrain_patterns {
    int n;
    pattern at[];
};

static int read_pattern(pattern *p, const char *flag, const char *text, bool rank, vc_err *err)
{
    const char *equals = strrchr(text, '=');
    char *end = NULL, *expression;
    p->number = equals ? strtod(equals + 1, &end) : 0;
    const bool whole = floor(p->number) == p->number && p->number <= MAX_RANK;
    if (!equals || equals == text || end == equals + 1 || *end || !isfinite(p->number) ||
        !(p->number > 0) || (rank && !whole))
        return vc_fail(err, VC_EUSAGE, "--%s %s: PATTERN=NUMBER is expected, with a %s, as "
                       "attn1.to_q=%d", flag, text, rank ? "rank of 1 to 4096"
                                                         : "number above 0", rank ? 16 : 8);
    expression = strndup(text, (size_t)(equals - text));
    if (!expression)
        return vc_no_memory(err);
    const int rc = vtrain_regex_open(&p->module, expression, true, err);
    free(expression);
    if (rc)
        return vc_context(err, rc, "--%s %s", flag, text);
    p->text = strdup(text);
    if (p->text)
        return 0;
    vc_regex_close(p->module);
    return vc_no_memory(err);
}

int vtrain_patterns_open(vtrain_patterns **out, const char *flag, int n, char *const *text,
                         bool rank, vc_err *err)
{
    *out = NULL;
    vtrain_patterns *p = calloc(1, sizeof *p + (size_t)n * sizeof *p->at);
    if (!p)
        return vc_no_memory(err);
    for (int i = 0; i < n; i++) {
        const int rc = read_pattern(&p->at[i], flag, text[i], rank, err);
        if (rc) {
            vtrain_patterns_close(p);
            return rc;
        }
        p->n++;
    }
    *out = p;
    return 0;
}

void vtrain_patterns_close(vtrain_patterns *p)
{
    for (int i = 0; p && i < p->n; i++) {
        vc_regex_close(p->at[i].module);
        free(p->at[i].text);
    }
    free(p);
}

bool vtrain_patterns_find(vtrain_patterns *p, const char *module, double *number)
{
    for (int i = 0; p && i < p->n; i++) {
        if (!vc_regex_matches(p->at[i].module, module))
            continue;
        p->at[i].used = true;
        *number = p->at[i].number;
        return true;
    }
    return false;
}

int vtrain_patterns_check(const vtrain_patterns *p, const char *flag, vc_err *err)
{
    for (int i = 0; p && i < p->n; i++) {
        if (vc_regex_check(p->at[i].module, err))
            return vc_context(err, VC_EUSAGE, "--%s %s", flag, p->at[i].text);
        if (!p->at[i].used)
            return vc_fail(err, VC_EUSAGE, "--%s %s: the expression matches no module that "
                           "--target_name matches, or those before it match the same modules",
                           flag, p->at[i].text);
    }
    return 0;
}

/* sets.c - see sets.h */
#include "train/data/sets.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/os/file.h"

enum { REG = 1, PRIOR };
static const vtrain_set_kind kinds[] = {
    { NULL, false, false, false, "learned" },
    [REG] = { "reg", false, false, false, "regularisation" },
    [PRIOR] = { "prior", true, false, false, "the target is the base's prediction" },
    { "blank", true, true, false, "the target is the base's prediction for the empty prompt" },
    { "preserve", true, false, true, "the target is the base's prediction for the class" },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const vtrain_set_kind *vtrain_set_reg(void) { return &kinds[REG]; }
const vtrain_set_kind *vtrain_set_prior(void) { return &kinds[PRIOR]; }

static int wrong(const char *arg, const char *option, vc_err *err)
{
    return vc_fail(err, VC_EUSAGE, "--latents %s: \":%s\" is no weight: give DIR:0.7, DIR:2.5, "
                   "DIR:repeat=3, DIR:reg=1, DIR:prior=1, DIR:blank=1 or DIR:preserve=1", arg,
                   option);
}

/* The number behind the name of an option, or NULL: it is another one. */
static const char *value_of(const char *option, const char *name)
{
    const size_t n = strlen(name);
    return !strncmp(option, name, n) && option[n] == '=' ? option + n + 1 : NULL;
}

/* Whether a text looks like an option; opening fails for others, and names the folder. */
static bool is_option(const char *option)
{
    bool is = isdigit((unsigned char)*option) || *option == '.' || value_of(option, "repeat");
    for (int i = 1; i < KINDS; i++)
        is |= value_of(option, kinds[i].name) != NULL;
    return is;
}

static int take(vtrain_set_path *s, const char *arg, const char *option, bool *weighed, vc_err *err)
{
    const char *repeat = value_of(option, "repeat"), *number = repeat ? repeat : option, *loss;
    const vtrain_set_kind *kind = NULL;
    char *end;

    for (int i = 1; i < KINDS; i++)
        if ((loss = value_of(option, kinds[i].name))) {
            kind = &kinds[i];
            number = loss;
        }
    const double x = strtod(number, &end);
    if (end == number || *end || !isfinite(x) || x <= 0 || (repeat && x != floor(x)))
        return wrong(arg, option, err);
    if (kind ? s->kind->name != NULL : *weighed)
        return vc_fail(err, VC_EUSAGE, "--latents %s: \":%s\" is the second option of its kind: "
                       "give one", arg, option);
    if (kind) {
        s->kind = kind;
        s->loss = x;
        return 0;
    }
    *weighed = true;
    s->weight = x;
    return 0;
}

int vtrain_set_parse(vtrain_set_path *s, const char *arg, vc_err *err)
{
    bool weighed = false;
    char *colon;
    int rc = 0;

    *s = (vtrain_set_path){ .path = vc_format("%s", arg), .weight = 1, .kind = kinds, .loss = 1 };
    if (!s->path)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", arg);
    while (!rc && (colon = strrchr(s->path, ':')) && !strchr(colon, '/') &&
           !vc_file_exists(s->path) && is_option(colon + 1)) {
        rc = take(s, arg, colon + 1, &weighed, err);
        *colon = 0;
    }
    return rc;
}

/* Finds the next kind of a list, or the end of an item, from *at on; its length, 0 at the end. */
static size_t next_kind(const char **at)
{
    for (; **at; ++*at) {
        if (**at == ',')
            return 1;
        for (int i = 1; i < KINDS && **at == ':'; i++)
            if (value_of(*at + 1, kinds[i].name))
                return 1 + strcspn(*at + 1, ":,\"]");
    }
    return 0;
}

bool vtrain_set_same_kinds(const char *a, const char *b)
{
    size_t n, m;

    do {
        n = next_kind(&a);
        m = next_kind(&b);
        if (n != m || strncmp(a, b, n))
            return false;
        a += n;
        b += n;
    } while (n);
    return true;
}

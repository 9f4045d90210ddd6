/* flags_check.c - checks the table of a program's flags; see flags.h. */
#include <stdlib.h>
#include <string.h>

#include "common/cli/flags_internal.h"

static int check_name(const vc_program *prog, const vc_flag *f, const char *name, size_t len,
                      vc_err *err)
{
    bool negated;
    int part;

    if (vc_flags_builtin_name(name, len))
        return vc_fail(err, VC_EFAIL, "--%.*s: every program has it", (int)len, name);
    for (const vc_flag *g = prog->flags; g->name; g++)
        if (g != f && vc_flags_has_name(g, name, len, &part))
            return vc_fail(err, VC_EFAIL, "--%.*s: also a name of --%s", (int)len, name, g->name);
    for (const vc_foreign *const *table = prog->foreign; table && *table; table++)
        if (vc_flags_find_in(*table, name, len, &negated))
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
    if (!rc)
        rc = vc_flags_check_topics(prog, err);
    vc_flags *set = NULL;
    char *argv[] = { NULL };
    if (!rc)
        rc = vc_flags_parse(&set, prog, options, 0, argv, NULL, err);
    vc_flags_free(set);
    free(options);
    return rc == VC_EUSAGE ? 0 : rc;      /* VC_EUSAGE: a required flag is missing */
}

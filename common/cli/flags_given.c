/* flags_given.c - which flags were given, and values set by the program. See flags.h. */
#include <stdio.h>
#include <string.h>

#include "common/cli/flags_internal.h"

bool vc_flags_given(const vc_flags *set, const char *name)
{
    vc_found found;
    if (!vc_flags_find(set->prog, name, strlen(name), &found))
        return false;
    const unsigned char *from = set->from[found.flag - set->prog->flags];
    return from[0] >= VC_FROM_FILE || from[1] >= VC_FROM_FILE;
}

bool vc_flags_whole(const vc_flags *set)
{
    return !set->unread && set->faults < VC_MOST_FAULTS;
}

bool vc_flags_decided(const vc_flags *set, const char *name)
{
    vc_found found;
    return vc_flags_find(set->prog, name, strlen(name), &found) &&
           (vc_flags_given(set, name) ||
            set->from[found.flag - set->prog->flags][0] == VC_FROM_LIKE);
}

static int set_named(vc_flags *set, const char *name, const char *text, int from, vc_err *err)
{
    vc_found found;
    if (!vc_flags_find(set->prog, name, strlen(name), &found))
        return vc_fail(err, VC_EFAIL, "--%s: no such flag", name);
    return vc_context(err, vc_flags_set(set, &found, &text, 1, from, err), "--%s", name);
}

int vc_flags_prefer(vc_flags *set, const char *name, const char *text, vc_err *err)
{
    return set_named(set, name, text, VC_FROM_LIKE, err);
}

int vc_flags_replace(vc_flags *set, const char *name, const char *text, vc_err *err)
{
    return set_named(set, name, text, VC_FROM_WORDS, err);
}

bool vc_flags_default(const vc_flags *set, const char *name, char *buf, size_t size)
{
    static const char begin[] = "(default: ";
    vc_found found;
    const char *text = "none", *said;
    bool own = false;
    int n = -1;

    if (vc_flags_find(set->prog, name, strlen(name), &found)) {
        own = found.flag->value;
        if (own)
            text = found.flag->value;
        else if (found.flag->help && (said = strstr(found.flag->help, begin)))
            n = (int)strcspn(text = said + strlen(begin), ")");
    }
    snprintf(buf, size, "%.*s", n, text);
    return own;
}

bool vc_flags_typed(const vc_flags *set, const char *name)
{
    for (int i = 0; i < set->typed.n; i++) {
        const char *s = set->typed.item[i];
        if (vc_flags_same_name(s, strlen(s), name, strlen(name)))
            return true;
    }
    return false;
}

const vc_list *vc_flags_words(const vc_flags *set)
{
    return &set->words;
}

void vc_flags_show(const vc_flags *set, const char *name, const void *options, char *buf,
                   size_t size)
{
    vc_found found;
    snprintf(buf, size, "none");
    if (!vc_flags_find(set->prog, name, strlen(name), &found))
        return;
    const vc_flag *f = found.flag;
    const void *src = (const char *)options + f->offset;
    if (vc_flags_no_value(f, src))
        return;
    if (f->kind == VC_STRING || f->kind == VC_WORDS || f->kind == VC_PATH)
        snprintf(buf, size, "%s", *(char *const *)src);
    else
        vc_flags_text(f, src, buf, size);
}

int vc_flags_put(vc_flags *set, const char *name, const char *text, void *options, vc_err *err)
{
    vc_found found;
    if (!vc_flags_find(set->prog, name, strlen(name), &found) || found.flag->kind == VC_LIST)
        return vc_fail(err, VC_EFAIL, "--%s: no such flag", name);
    void *dst = (char *)options + found.flag->offset;
    return vc_context(err, vc_flags_value(set, found.flag, found.part, text, dst, err), "--%s",
                      name);
}

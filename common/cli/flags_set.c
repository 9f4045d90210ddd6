/* flags_set.c - stores the values of flags, and takes the flags of other trainers; see
 * flags_internal.h. */
#include <stdlib.h>
#include <string.h>

#include "common/cli/flags_internal.h"
#include "common/os/file.h"

/* ---- values ---- */

static int put(vc_flags *set, const vc_found *found, const char *const *text, int n, void *dst,
               vc_err *err)
{
    const vc_flag *f = found->flag;

    if (found->negated && f->kind == VC_OPTIONAL) {
        *(int *)dst = vc_flags_off(f);
        return 0;
    }
    if (found->negated) {
        *(bool *)dst = false;
        return 0;
    }
    if (n == 2) {
        int rc = vc_flags_value(set, f, 0, text[0], dst, err);
        return rc ? rc : vc_flags_value(set, f, 1, text[1], dst, err);
    }
    return vc_flags_value(set, f, found->part, text[0], dst, err);
}

/* The bytes of a value of one number, text or list; a pair has two. */
static size_t size_of(vc_kind kind)
{
    switch (kind) {
    case VC_BOOLEAN: return sizeof(bool);
    case VC_FLOAT: return sizeof(double);
    case VC_STRING:
    case VC_WORDS:
    case VC_PATH: return sizeof(char *);
    case VC_CHOICE:
    case VC_OPTIONAL: return sizeof(int);
    case VC_DTYPE_KIND: return sizeof(vc_dtype);
    case VC_LIST: return sizeof(vc_list);
    default: return sizeof(int64_t);
    }
}

int vc_flags_set(vc_flags *set, const vc_found *found, const char *const *text, int n, int from,
                 vc_err *err)
{
    const vc_flag *f = found->flag;
    unsigned char *had = set->from[f - set->prog->flags];
    char *dst = set->options + f->offset;
    vc_any_value value = { .i = { 0, 0 } };
    int64_t *pair = f->kind == VC_PAIR ? (int64_t *)(void *)dst : NULL;

    if (f->kind == VC_PATH && n == 1 && text[0] && !*text[0]) {
        if (from == VC_FROM_FILE)             /* files of GUIs have all their fields */
            return 0;
        return vc_fail(err, VC_EUSAGE, "the path is empty, as where a shell's variable is not set: "
                       "give a path, or leave the flag out");
    }
    /* A list grows, but replaces values of a lower source. */
    if (f->kind == VC_LIST && had[0] == from)
        return put(set, found, text, n, dst, err);
    int rc = put(set, found, text, n, &value, err);
    if (rc)
        return rc;
    for (int k = 0; pair && k < 2; k++)
        if ((found->part < 0 || found->part == k) && from >= had[k]) {
            pair[k] = value.i[k];
            had[k] = (unsigned char)from;
        }
    if (!pair && from >= had[0]) {
        memcpy(dst, &value, size_of(f->kind));
        had[0] = (unsigned char)from;
    }
    return 0;
}

int vc_flags_type(vc_flags *set, const char *name, size_t len, vc_err *err)
{
    const vc_flag list = { .name = "", .kind = VC_LIST };
    char *text = vc_flags_keep_text(set, name, len);
    return text ? vc_flags_value(set, &list, -1, text, &set->typed, err)
                : vc_no_memory(err);
}

/* ---- foreign flags ---- */

static bool switched_off(const char *value, bool negated)
{
    vc_any_value v = { .b = true };
    vc_flag boolean = { .name = "", .kind = VC_BOOLEAN };
    bool ok = value && !vc_flags_value(NULL, &boolean, -1, value, &v, NULL);
    return ok ? v.b == negated : negated;
}

/* The flag of ours that a value means, of *n letters; NULL: none. */
static const char *meaning_of(const vc_foreign *f, const char *value, size_t *n)
{
    for (const char *s = f->means; s && *s;) {
        const size_t all = strcspn(s, "|"), key = strcspn(s, ">");
        *n = all - key - 1;
        if (strlen(value) == key && !strncmp(s, value, key))
            return s + key + 1;
        s += all + (s[all] == '|');
    }
    return NULL;
}

/* Switches the flag on that the value means, in place of the row's note; false: it means none that
 * the program has. */
static bool set_meaning(vc_flags *set, const vc_foreign *f, const vc_place *at, const char *value,
                        int *rc, vc_err *err)
{
    static const char *const on = "true";
    vc_found found;
    size_t n;
    const char *name = f->means && value ? meaning_of(f, value, &n) : NULL;
    if (!name || !vc_flags_find(set->prog, name, n, &found))
        return false;
    char *text = vc_format("means --%s", found.flag->name);
    char *say = text ? vc_flags_keep_text(set, text, strlen(text)) : NULL;
    free(text);
    *rc = say ? vc_flags_set(set, &found, &on, 1, at->file ? VC_FROM_FILE : VC_FROM_WORDS, err)
              : vc_no_memory(err);
    vc_place flag = *at;
    flag.file = NULL;
    if (!*rc)
        vc_flags_line(set, &set->notes, &flag, "", say);
    return true;
}

int vc_flags_set_foreign(vc_flags *set, const vc_foreign *f, const vc_place *at, bool negated,
                         const char *value, vc_err *err)
{
    if (f->refused) {
        if (!switched_off(value, negated))
            vc_flags_line(set, &set->wrong, at, "not available here: ", f->say);
        return 0;
    }
    if (f->only && value) {
        vc_flag choice = { .name = "", .kind = VC_CHOICE, .allowed = f->only };
        vc_any_value v;
        if (vc_flags_value(NULL, &choice, -1, value, &v, err)) {
            size_t n = strlen(err->text);
            snprintf(err->text + n, sizeof err->text - n, ": %s", f->why);
            return VC_EUSAGE;
        }
    }
    int rc = 0;
    if (set_meaning(set, f, at, value, &rc, err))
        return rc;
    vc_place flag = *at;
    flag.file = NULL;
    vc_flags_line(set, &set->notes, &flag, "", f->say);
    return 0;
}

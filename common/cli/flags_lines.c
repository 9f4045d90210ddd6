/* flags_lines.c - lines for the user: notes and errors. See flags.h. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli/flags_internal.h"
#include "common/os/file.h"
#include "common/os/progress.h"
#include "common/os/streams.h"

void vc_flags_free_lines(vc_lines *lines)
{
    for (int i = 0; i < lines->n; i++) {
        free(lines->line[i].names);
        free(lines->line[i].text);
    }
    free(lines->line);
    *lines = (vc_lines){ 0 };
}

/* Whether the list "--a, --b" has the name. */
static bool has_name(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *s = names; (s = strstr(s, name)); s += n)
        if ((s == names || s[-1] == ' ') && (!s[n] || s[n] == ','))
            return true;
    return false;
}

static vc_line *line_of(vc_lines *lines, const char *file, const char *say)
{
    for (int i = 0; say && i < lines->n; i++) {
        vc_line *l = &lines->line[i];
        if (l->file == file && l->say && !strcmp(l->say, say))
            return l;
    }
    vc_line *grown = realloc(lines->line, ((size_t)lines->n + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    lines->line = grown;
    grown[lines->n] = (vc_line){ .say = say, .file = file };
    return &grown[lines->n++];
}

typedef struct place_text {
    char s[160];
} place_text;

static place_text text_of(const vc_place *at)
{
    place_text t;
    if (!at->file)
        snprintf(t.s, sizeof t.s, "--%s", at->name);
    else
        snprintf(t.s, sizeof t.s, "line %zu%s%s", at->line, *at->name ? ": " : "", at->name);
    return t;
}

void vc_flags_line(vc_flags *set, vc_lines *lines, const vc_place *at, const char *between,
                   const char *say)
{
    vc_line *l = line_of(lines, at->file, say);
    set->faults += lines == &set->wrong;
    place_text t = text_of(at);
    if (l && l->names && has_name(l->names, t.s))
        return;
    char *names = !l ? NULL : l->names ? vc_format("%s, %s", l->names, t.s) : vc_format("%s", t.s);
    char *text = !names ? NULL : vc_format("%s%s%s: %s%s", at->file ? at->file : "",
                                           at->file ? ": " : "", names, between, say);
    if (!text) {
        set->lost = true;
        free(names);
        return;
    }
    free(l->names);
    free(l->text);
    l->names = names;
    l->text = text;
}

/* Writes the name by which the user gave the flag `name`; for a pair that was given by its halves,
 * the names of both. */
static void put_typed(FILE *f, const vc_flags *set, const char *name, size_t len)
{
    const char *whole = NULL, *half[2] = { NULL, NULL };
    vc_found own, other;

    if (vc_flags_find(set->prog, name, len, &own) && !own.negated && own.part < 0)
        for (int i = 0; i < set->typed.n; i++) {
            const char *s = set->typed.item[i];
            if (vc_flags_same_name(s, strlen(s), name, len)) {
                whole = name;
                break;
            }
            if (!vc_flags_find(set->prog, s, strlen(s), &other) || other.flag != own.flag ||
                other.negated || !s[1])
                continue;
            if (other.part < 0)
                whole = s;
            else
                half[other.part] = s;
        }
    if (whole && whole != name)
        fputs(whole, f);
    else if (!whole && half[0] && half[1])
        fprintf(f, "%s, --%s", half[0], half[1]);
    else
        fwrite(name, 1, len, f);
}

char *vc_flags_as_typed(const vc_flags *set, const char *text)
{
    char *out = NULL;
    size_t size, len;
    FILE *f = open_memstream(&out, &size);
    if (!f)
        return NULL;

    for (const char *s; (s = strstr(text, "--")); text = s + len) {
        s += 2;
        fwrite(text, 1, (size_t)(s - text), f);
        len = strspn(s, "_abcdefghijklmnopqrstuvwxyz0123456789");
        put_typed(f, set, s, len);
    }
    fputs(text, f);
    bool failed = ferror(f);
    if (fclose(f) || failed) {
        free(out);
        return NULL;
    }
    return out;
}

static char *as_typed(const void *set, const char *text)
{
    return vc_flags_as_typed(set, text);
}

void vc_flags_name_typed(const vc_flags *set, vc_progress *p)
{
    vc_progress_edit(p, as_typed, set);
}

static void add_text(vc_flags *set, vc_lines *lines, const char *text)
{
    char *typed = vc_flags_as_typed(set, text);
    set->faults += lines == &set->wrong;
    for (int i = 0; typed && i < lines->n; i++)
        if (lines->line[i].text && !strcmp(lines->line[i].text, typed)) {
            free(typed);
            return;
        }
    vc_line *l = typed ? line_of(lines, NULL, NULL) : NULL;
    if (l)
        l->text = typed;
    else
        set->lost = true;
}

void vc_flags_meaning(vc_flags *set, const char *text)
{
    vc_line *l = line_of(&set->meaning, NULL, NULL);
    if (!l || !(l->text = vc_format("%s", text)))
        set->lost = true;
}

int vc_flags_take(vc_flags *set, const vc_place *at, const vc_flag *f, int rc, const vc_err *err)
{
    if (rc != VC_EUSAGE)
        return rc;
    if (f)
        set->bad[f - set->prog->flags] = true;
    vc_err all = *err;
    if (at)
        vc_context(&all, rc, "%s%s%s", at->file ? at->file : "", at->file ? ": " : "",
                   text_of(at).s);
    add_text(set, &set->wrong, all.text);
    return 0;
}

/* Whether the text has "--name" of a flag whose value was refused. */
static bool names_a_bad_one(const vc_flags *set, const char *text)
{
    for (const vc_flag *f = set->prog->flags; f->name; f++) {
        size_t n = strlen(f->name);
        if (!set->bad[f - set->prog->flags])
            continue;
        for (const char *s = text; (s = strstr(s, "--")); s += 2)
            if (!strncmp(s + 2, f->name, n) && !strchr("_abcdefghijklmnopqrstuvwxyz0123456789",
                                                       s[2 + n] ? s[2 + n] : ' '))
                return true;
    }
    return false;
}

void vc_flags_wrong(vc_flags *set, const char *fmt, ...)
{
    vc_err e;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e.text, sizeof e.text, fmt, ap);
    va_end(ap);
    if (!names_a_bad_one(set, e.text))
        add_text(set, &set->wrong, e.text);
}

void vc_flags_say(vc_flags *set, const char *fmt, ...)
{
    vc_err e;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e.text, sizeof e.text, fmt, ap);
    va_end(ap);
    add_text(set, &set->notes, e.text);
}

int vc_flags_catch(vc_flags *set, int rc, const vc_err *err)
{
    if (rc != VC_EUSAGE)
        return rc;
    vc_flags_wrong(set, "%s", err->text);
    return 0;
}

int vc_flags_verdict(const vc_flags *set, vc_err *err)
{
    if (set->lost)
        return vc_no_memory(err);
    return set->wrong.n ? vc_fail(err, VC_EUSAGE, "%s", set->wrong.line[0].text) : 0;
}

const char *vc_flags_note(const vc_flags *set, int i)
{
    const vc_lines *lines = i < set->meaning.n ? &set->meaning : &set->notes;
    i -= lines == &set->notes ? set->meaning.n : 0;
    *set->told |= lines == &set->meaning;
    return i >= 0 && i < lines->n ? lines->line[i].text : NULL;
}

const char *vc_flags_wrong_line(const vc_flags *set, int i)
{
    return i >= 0 && i < set->wrong.n ? set->wrong.line[i].text : NULL;
}

void vc_flags_report(const vc_flags *set, const char *program, const vc_err *err, int rc)
{
    vc_err what = *err;
    if (rc == VC_ESTOP && vc_stop_name())
        vc_context(&what, rc, "%s", vc_stop_name());
    int n = set && err->code == VC_EUSAGE ? set->wrong.n : 0;
    char *text = !n && set ? vc_flags_as_typed(set, what.text) : NULL;

    if (!n)
        vc_std_complain(program, text ? text : what.text, rc);
    free(text);
    for (int i = 0; n && !*set->told && i < set->meaning.n; i++)
        vc_std_complain(program, set->meaning.line[i].text, rc);
    for (int i = 0; i < n; i++)
        vc_std_complain(program, set->wrong.line[i].text, rc);
    if (n && set->faults >= VC_MOST_FAULTS)
        vc_std_complain(program, "the rest was not read, as there are too many errors", rc);
}

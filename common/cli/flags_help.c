/* flags_help.c - --help and --version. See flags.h. */
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/cli/flags_internal.h"

#ifndef VLT_VERSION
#define VLT_VERSION "unversioned"
#endif

enum { INDENT = 26 };              /* column of a flag's explanation */

/* A terminal's width between 80 and 100, else 80. */
static int width_of(FILE *out)
{
    struct winsize w;
    int fd = fileno(out);

    if (fd < 0 || !isatty(fd) || ioctl(fd, TIOCGWINSZ, &w) || w.ws_col < 80)
        return 80;
    return w.ws_col > 100 ? 100 : w.ws_col;
}

/* Writes s from column `at` on, broken at blanks before `width`, further lines from `indent` on.
 * Returns the column after it. A new line in s starts a new line. */
static int wrap(FILE *out, const char *s, int at, int indent, int width)
{
    while (*s) {
        int n = (int)strcspn(s, " \n");
        if (at > indent && at + 1 + n > width) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        }
        if (at > indent) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", n, s);
        at += n;
        s += n;
        if (*s == '\n') {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        }
        s += *s != 0;
    }
    return at;
}

/* "--rank N", "--[no_]enable_bucket", "--fix_sample_size H W" */
static void usage_of(const vc_flag *f, char *buf, size_t size)
{
    const char *allowed = f->allowed ? f->allowed : "";

    switch (f->kind) {
    case VC_BOOLEAN: snprintf(buf, size, "--[no_]%s", f->name); break;
    case VC_INT: snprintf(buf, size, "--%s N", f->name); break;
    case VC_FLOAT: snprintf(buf, size, "--%s X", f->name); break;
    case VC_BYTES: snprintf(buf, size, "--%s BYTES", f->name); break;
    case VC_PAIR: snprintf(buf, size, "--%s H W", f->name); break;
    case VC_OPTIONAL: snprintf(buf, size, "--%s[=%s]", f->name, allowed); break;
    case VC_DTYPE_KIND:
    case VC_CHOICE: snprintf(buf, size, "--%s %s", f->name, *allowed ? allowed : "TYPE"); break;
    case VC_PATH: snprintf(buf, size, "--%s %s", f->name, *allowed ? allowed : "PATH"); break;
    case VC_LIST: snprintf(buf, size, "--%s %s", f->name, *allowed ? allowed : "TEXT"); break;
    default: snprintf(buf, size, "--%s %s", f->name, *allowed ? allowed : "TEXT"); break;
    }
}

/* "(1 or more; default 64)" */
static void facts_of(const vc_flag *f, char *buf, size_t size)
{
    char range[96] = "";
    bool number = f->kind == VC_INT || f->kind == VC_FLOAT || f->kind == VC_BYTES ||
                  f->kind == VC_PAIR;
    if (number)
        vc_flags_range_text(f->allowed, range, sizeof range);

    const char *value = f->value;
    if (f->kind == VC_BOOLEAN)
        value = value && !strcmp(value, "true") ? "on" : "off";
    const char *many = f->kind == VC_LIST ? "may be given several times" : "";
    const char *parts[] = { f->required ? "required" : "", range, many };
    size_t n = 0;
    *buf = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (*parts[i])
            n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? "; " : "", parts[i]);
    if (value && *value)
        snprintf(buf + n, size - n, "%sdefault %s", n ? "; " : "", value);
}

static void help_row(FILE *out, const vc_flag *f, int width)
{
    char usage[256], facts[256];
    usage_of(f, usage, sizeof usage);
    facts_of(f, facts, sizeof facts);

    int at = fprintf(out, "  ") + 0;
    for (const char *s = usage; *s; s++) {         /* long choices break after a '|' */
        fputc(*s, out);
        at++;
        if (*s == '|' && at + (int)strcspn(s + 1, "|") + 1 > width) {
            fprintf(out, "\n%*s", INDENT, "");
            at = INDENT;
        }
    }
    if (at + 2 > INDENT)
        fprintf(out, "\n%*s", INDENT, "");
    else
        fprintf(out, "%*s", INDENT - at, "");
    at = wrap(out, f->help, INDENT, INDENT, width);
    if (*facts) {
        char bracketed[sizeof facts + 2];
        snprintf(bracketed, sizeof bracketed, "(%s)", facts);
        wrap(out, bracketed, at, INDENT, width);
    }
    const char *list = f->aliases, *s;
    size_t n;
    int part;
    at = 0;
    while ((s = vc_flags_next_name(&list, &n, &part))) {
        char name[96];
        snprintf(name, sizeof name, "%s%s%.*s%s", at ? "" : "also ", n == 1 ? "-" : "--", (int)n, s,
                 part < 0 ? "" : part == 0 ? " (first)" : " (second)");
        if (!at)
            at = fprintf(out, "\n%*s", INDENT, "") - 1;
        at = wrap(out, name, at, INDENT, width);
    }
    fputc('\n', out);
}

static const vc_flag common[] = {
    { "Every program", VC_GROUP, 0, NULL, NULL, NULL, NULL, false },
    { "config", VC_PATH, 0, NULL, "FILE", NULL,
      "file of settings in YAML, JSON or TOML; keys are flag names, and the command line "
      "takes precedence",
      false },
    { "help", VC_BOOLEAN, 0, NULL, NULL, NULL, "this page", false },
    { "version", VC_BOOLEAN, 0, NULL, NULL, NULL, "version, backends and libraries", false },
    { 0 }
};

void vc_flags_help(const vc_program *prog, FILE *out)
{
    int width = width_of(out);

    fprintf(out, "usage: %s\n", prog->synopsis);
    if (prog->about) {
        fputc('\n', out);
        wrap(out, prog->about, 0, 0, width);
        fputc('\n', out);
    }
    for (const vc_flag *f = prog->flags; f->name; f++)
        if (f->kind == VC_GROUP)
            fprintf(out, "\n%s\n", f->name);
        else
            help_row(out, f, width);
    fprintf(out, "\n%s\n", common[0].name);
    help_row(out, &common[1], width);
    for (const vc_flag *f = common + 2; f->name; f++)
        fprintf(out, "  --%-*s%s\n", INDENT - 4, f->name, f->help);
    fprintf(out, "\nNames may have '-' or '_'; values may follow a blank or '='.\n");
}

/* ---- the table: one line a flag ---- */

/* Writes a column; a new line in the text becomes a blank. */
static void column(FILE *out, const char *s)
{
    fputc('\t', out);
    for (; *s; s++)
        fputc(*s == '\n' ? ' ' : *s, out);
}

static const char *kind_of(const vc_flag *f)
{
    switch (f->kind) {
    case VC_BOOLEAN: return "switch";
    case VC_PATH: return "path";
    case VC_CHOICE:
    case VC_DTYPE_KIND: return "choice";
    case VC_OPTIONAL: return "optional";
    default: return "value";
    }
}

static void table_row(FILE *out, const vc_flag *f)
{
    char usage[256], facts[256], name[96];
    const char *list = f->aliases, *s;
    size_t n;
    int part, names = 0;
    usage_of(f, usage, sizeof usage);
    facts_of(f, facts, sizeof facts);
    fputs("flag", out);
    column(out, f->name);
    column(out, kind_of(f));
    column(out, usage);
    column(out, f->help);
    column(out, facts);
    fputc('\t', out);
    while ((s = vc_flags_next_name(&list, &n, &part))) {
        snprintf(name, sizeof name, "%s%.*s", n == 1 ? "-" : "--", (int)n, s);
        fprintf(out, "%s%s", names++ ? " " : "", name);
    }
    bool choice = f->kind == VC_CHOICE || f->kind == VC_DTYPE_KIND || f->kind == VC_OPTIONAL;
    column(out, choice && f->allowed ? f->allowed : "");
    fputc('\n', out);
}

static void table_rows(FILE *out, const vc_flag *flags)
{
    for (const vc_flag *f = flags; f->name; f++)
        if (f->kind == VC_GROUP) {
            fputs("group", out);
            column(out, f->name);
            fputc('\n', out);
        } else {
            table_row(out, f);
        }
}

void vc_flags_table(const vc_program *prog, FILE *out)
{
    fputs("program", out);
    column(out, prog->name);
    column(out, prog->synopsis);
    column(out, prog->about ? prog->about : "");
    fputc('\n', out);
    table_rows(out, prog->flags);
    table_rows(out, common);
}

void vc_flags_version(const vc_program *prog, FILE *out)
{
    const char *more = prog->version ? prog->version() : NULL;

    fprintf(out, "%s %s\n", prog->name, VLT_VERSION);
    if (more && *more)
        fprintf(out, "%s%s", more, more[strlen(more) - 1] == '\n' ? "" : "\n");
}

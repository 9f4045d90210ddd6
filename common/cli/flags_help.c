/* flags_help.c - --help and --version. See flags.h. */
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/cli/flags_internal.h"

#ifndef VLT_VERSION
#define VLT_VERSION "unversioned"
#endif

enum { INDENT = 26 };              /* column of a flag's explanation */
enum { TOPICS = 512 };             /* bytes of a list of topics */

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

/* Writes a flag and its explanation. */
static void flag_row(FILE *out, const vc_flag *f, int width)
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
    fputc('\n', out);
}

/* Writes a flag, its explanation and its other names. */
static void help_row(FILE *out, const vc_flag *f, int width)
{
    flag_row(out, f, width);
    const char *list = f->aliases, *s;
    size_t n;
    int part, at = 0;
    while ((s = vc_flags_next_name(&list, &n, &part))) {
        char name[96];
        snprintf(name, sizeof name, "%s%s%.*s%s", at ? "" : "also ", n == 1 ? "-" : "--", (int)n, s,
                 part < 0 ? "" : part == 0 ? " (first)" : " (second)");
        if (!at)
            at = fprintf(out, "%*s", INDENT, "");
        at = wrap(out, name, at, INDENT, width);
    }
    if (at)
        fputc('\n', out);
}

static const vc_flag common[] = {
    { "Every program", VC_GROUP, 0, NULL, NULL, NULL, NULL, false },
    { "config", VC_PATH, 0, NULL, "FILE", NULL,
      "file of settings in YAML, JSON or TOML; keys are flag names, and the command line "
      "takes precedence; vprep and vtrain read files of ai-toolkit, FastVideo, ltx-trainer, "
      "OneTrainer, sd-scripts, musubi-tuner and SimpleTuner too",
      false },
    { "help", VC_BOOLEAN, 0, NULL, NULL, NULL, "this page", false },
    { "version", VC_BOOLEAN, 0, NULL, NULL, NULL, "version, backends and libraries", false },
    { 0 }
};

/* ---- topics ---- */

/* Whether a blank-separated list has the word. */
static bool lists(const char *list, const char *word, size_t len)
{
    const char *s;
    size_t n;
    int part;
    while ((s = vc_flags_next_name(&list, &n, &part)))
        if (vc_flags_same_name(s, n, word, len))
            return true;
    return false;
}

/* Whether one of the parts of a name, between '_', is the word. */
static bool has_part(const char *name, const char *word)
{
    for (size_t n; n = strcspn(name, "_"), true; name += n + 1)
        if (n == strlen(word) && !strncmp(name, word, n))
            return true;
        else if (!name[n])
            return false;
}

static bool in_topic(const vc_flag *group, const vc_flag *f, const char *topic)
{
    (void)f;
    return group && lists(group->aliases, topic, strlen(topic));
}

/* Whether the word is a flag's name, one of its parts, or another of its names. */
static bool is_named(const vc_flag *group, const vc_flag *f, const char *topic)
{
    size_t n = strlen(topic);
    (void)group;
    return has_part(f->name, topic) ||
           vc_flags_same_name(f->name, strlen(f->name), topic, n) || lists(f->aliases, topic, n);
}

static bool in_name(const vc_flag *group, const vc_flag *f, const char *topic)
{
    (void)group;
    return strcasestr(f->name, topic) || (f->aliases && strcasestr(f->aliases, topic));
}

static bool in_text(const vc_flag *group, const vc_flag *f, const char *topic)
{
    (void)group;
    return strcasestr(f->help, topic) || (f->allowed && strcasestr(f->allowed, topic));
}

static bool in_all(const vc_flag *group, const vc_flag *f, const char *topic)
{
    (void)group, (void)f, (void)topic;
    return true;
}

typedef bool choose(const vc_flag *group, const vc_flag *f, const char *topic);

static int count(const vc_program *prog, choose *chosen, const char *topic)
{
    const vc_flag *group = NULL;
    int n = 0;
    for (const vc_flag *f = prog->flags; f->name; f++)
        if (f->kind == VC_GROUP)
            group = f;
        else
            n += chosen(group, f, topic);
    return n;
}

/* The rule by which the flags of a topic are found; NULL if there are none. */
static choose *chooser(const vc_program *prog, const char *topic)
{
    static choose *const rules[] = { in_topic, is_named, in_name, in_text };
    if (!strcmp(topic, "all"))
        return in_all;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (count(prog, rules[i], topic))
            return rules[i];
    return NULL;
}

/* The program's page of a topic; NULL: there is none. */
static const vc_page *page_of(const vc_program *prog, const char *topic)
{
    for (const vc_page *p = prog->pages; p && p->topic; p++)
        if (!strcmp(p->topic, topic))
            return p;
    return NULL;
}

/* Lists the topics: "data, model, lora". */
static void topics_of(const vc_program *prog, char list[TOPICS])
{
    size_t at = 0;
    *list = 0;
    for (const vc_flag *f = prog->flags; f->name; f++)
        if (f->kind == VC_GROUP && f->aliases && at < TOPICS)
            at += (size_t)snprintf(list + at, TOPICS - at, "%s%.*s", at ? ", " : "",
                                   (int)strcspn(f->aliases, " "), f->aliases);
    for (const vc_page *p = prog->pages; p && p->topic && at < TOPICS; p++)
        at += (size_t)snprintf(list + at, TOPICS - at, "%s%s", at ? ", " : "", p->topic);
}

int vc_flags_find_topic(const vc_program *prog, const char *topic, vc_err *err)
{
    char list[TOPICS];
    if (*topic && (page_of(prog, topic) || chooser(prog, topic)))
        return 0;
    topics_of(prog, list);
    vc_quoted q = vc_flags_quote(topic, strlen(topic));
    return vc_fail(err, VC_EUSAGE, "no flag has to do with %s; topics are %s%sall", q.s, list,
                   *list ? ", " : "");
}

int vc_flags_check_topics(const vc_program *prog, vc_err *err)
{
    const char *list = prog->first, *s;
    size_t n;
    int part;
    vc_found found;
    while ((s = vc_flags_next_name(&list, &n, &part)))
        if (!vc_flags_find(prog, s, n, &found))
            return vc_fail(err, VC_EFAIL, "--%.*s: on the first page, but no flag", (int)n, s);
    for (const vc_flag *f = prog->flags; prog->first && f->name; f++)
        if (f->kind == VC_GROUP && !(f->aliases && *f->aliases))
            return vc_fail(err, VC_EFAIL, "%s: no topic", f->name);
    return 0;
}

/* ---- pages ---- */

/* Writes the chosen flags below the headings of their groups. */
static void rows(const vc_program *prog, choose *chosen, const char *topic, FILE *out, int width)
{
    const vc_flag *group = NULL, *headed = NULL;
    for (const vc_flag *f = prog->flags; f->name; f++) {
        if (f->kind == VC_GROUP) {
            group = f;
            continue;
        }
        if (!chosen(group, f, topic))
            continue;
        if (group != headed)
            fprintf(out, "\n%s\n", group->name);
        headed = group;
        help_row(out, f, width);
    }
}

static void every_program(FILE *out, int width)
{
    fprintf(out, "\n%s\n", common[0].name);
    help_row(out, &common[1], width);
    for (const vc_flag *f = common + 2; f->name; f++)
        fprintf(out, "  --%-*s%s\n", INDENT - 4, f->name, f->help);
    fprintf(out, "\nNames may have '-' or '_'; values may follow a blank or '='.\n");
}

/* The flags that most runs need, and the topics of the others. */
static void first_page(const vc_program *prog, FILE *out, int width)
{
    const char *list = prog->first, *s;
    size_t n;
    int part;
    vc_found found;
    char topics[TOPICS];
    fprintf(out, "\nFlags of most runs\n");
    while ((s = vc_flags_next_name(&list, &n, &part)))
        if (vc_flags_find(prog, s, n, &found))
            flag_row(out, found.flag, width);
    fprintf(out, "\nMore\n  %-*s", INDENT - 2, "--help TOPIC");
    topics_of(prog, topics);
    wrap(out, topics, INDENT, INDENT, width);
    fprintf(out, "\n  %-*s%s\n", INDENT - 2, "--help WORD", "flags that have to do with a word");
    fprintf(out, "  %-*s%s\n", INDENT - 2, "--help all", "every flag, with all its names");
}

void vc_flags_help(const vc_program *prog, const char *topic, FILE *out)
{
    int width = width_of(out);
    bool all = topic ? !strcmp(topic, "all") : !prog->first;

    if (topic && page_of(prog, topic)) {
        page_of(prog, topic)->write(out);
        return;
    }
    if (topic && !all) {
        rows(prog, chooser(prog, topic), topic, out, width);
        return;
    }
    fprintf(out, "usage: %s\n", prog->synopsis);
    if (prog->about) {
        fputc('\n', out);
        wrap(out, prog->about, 0, 0, width);
        fputc('\n', out);
    }
    if (all) {
        rows(prog, in_all, NULL, out, width);
        every_program(out, width);
    } else {
        first_page(prog, out, width);
    }
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

void vc_flags_version(const vc_program *prog, const char *topic, FILE *out)
{
    (void)topic;
    const char *more = prog->version ? prog->version() : NULL;

    fprintf(out, "%s %s\n", prog->name, VLT_VERSION);
    if (more && *more)
        fprintf(out, "%s%s", more, more[strlen(more) - 1] == '\n' ? "" : "\n");
}

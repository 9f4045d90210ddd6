/* targets.c - chooses the modules that get a LoRA by PEFT's rules; see lora.h */
#include "train/lora/lora.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "train/lora/paths_regex.h"

enum { MAX_ENTRIES = 256, NEAR = 6, MAX_PATH = 512 };

struct vtrain_targets {
    bool all;
    vc_regex *regex;                         /* or NULL: a list of entries */
    char *text;                  /* the list, cut into entries */
    char *entry[MAX_ENTRIES];    /* entries of the list; if `all`, the modules that get no LoRA */
    int n_entries;
    const vtrain_rename *names;  /* entries match names of this table; NULL: our names */
    char **name;                 /* names of matched modules inside their blocks */
    int n_names;
};

/* A module's name inside its block: "transformer_blocks.3.attn.to_q" -> "attn.to_q". */
static const char *in_block(const char *module)
{
    for (const char *p = module; (p = strchr(p, '.')); p++) {
        size_t digits = strspn(p + 1, "0123456789");
        if (digits && p[1 + digits] == '.')
            return p + digits + 2;
    }
    return module;
}

static bool matches_entry(const char *module, const char *entry)
{
    size_t m = strlen(module), e = strlen(entry);
    if (m < e || strcmp(module + m - e, entry))
        return false;
    return m == e || module[m - e - 1] == '.';
}

/* Whether an entry of the list matches the name that t->names gives a module. */
static bool matches_renamed(const vtrain_targets *t, const char *module, const char *entry)
{
    vtrain_renamed r;
    if (!t->names)
        return matches_entry(module, entry);
    bool found = !vtrain_rename_find(&r, t->names, module, NULL) &&
                 matches_entry(r.row ? r.theirs : module, entry);
    free(r.theirs);
    return found;
}

bool vtrain_targets_match(void *arg, const char *module)
{
    const vtrain_targets *t = arg;
    if (t->all) {
        for (int i = 0; i < t->n_entries; i++)
            if (!strcmp(module, t->entry[i]))
                return false;
        return true;
    }
    if (t->regex)
        return vc_regex_matches(t->regex, module);
    for (int i = 0; i < t->n_entries; i++)
        if (matches_renamed(t, module, t->entry[i]))
            return true;
    return false;
}

static int compile(vtrain_targets *t, const char *value, vc_err *err)
{
    int rc = vtrain_regex_open(&t->regex, value, false, err);
    return vc_context(err, rc, "--target_name");
}

/* ---- lists ---- */

static int split(vtrain_targets *t, const char *value, vc_err *err)
{
    t->text = strdup(value);
    if (!t->text)
        return vc_no_memory(err);
    char *rest = t->text;
    for (char *e; (e = strsep(&rest, ", \t\n"));) {
        if (!*e)
            continue;
        if (t->n_entries == MAX_ENTRIES)
            return vc_fail(err, VC_EUSAGE, "--target_name has more than %d entries", MAX_ENTRIES);
        t->entry[t->n_entries++] = e;
    }
    return 0;
}

/* Handles "all-linear": all modules but the convolutions. */
static int take_all(vtrain_targets *t, const char *const *convs, vc_err *err)
{
    size_t n = 1;
    t->all = true;
    for (int i = 0; convs[i]; i++)
        n += strlen(convs[i]) + 1;
    char *text = calloc(1, n), *end = text;
    if (!text)
        return vc_no_memory(err);
    for (int i = 0; convs[i]; i++)
        end += sprintf(end, "%s,", convs[i]);
    int rc = split(t, text, err);
    free(text);
    return rc;
}

/* The number of edits from one name to the other (Levenshtein), of the first N characters. */
static int distance(const char *a, const char *b)
{
    enum { N = 48 };
    int row[N + 1], m = (int)strnlen(a, N), n = (int)strnlen(b, N);
    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 1; i <= m; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int best = corner + (tolower(a[i - 1]) != tolower(b[j - 1]));
            corner = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[n];
}

/* The least distance of an entry to a module's name, or to an end of this name after a dot. */
static int name_distance(const char *entry, const char *name)
{
    int best = distance(entry, name);
    for (const char *p = name; (p = strchr(p, '.'));) {
        int d = distance(entry, ++p);
        if (d < best)
            best = d;
    }
    return best;
}

/* Fails with a list of the nearest names, each once. */
static int no_match(const char *entry, const char *const *modules, vc_err *err)
{
    const char *near[NEAR] = { 0 };
    int far[NEAR], n = 0;
    for (; *modules; modules++) {
        const char *name = in_block(*modules);
        bool seen = false;
        for (int i = 0; i < n && !seen; i++)
            seen = !strcmp(near[i], name);
        if (seen)
            continue;
        int d = name_distance(entry, name), at = n;
        while (at > 0 && far[at - 1] > d)
            at--;
        if (at == NEAR)
            continue;
        if (n < NEAR)
            n++;
        memmove(near + at + 1, near + at, sizeof *near * (size_t)(n - 1 - at));
        memmove(far + at + 1, far + at, sizeof *far * (size_t)(n - 1 - at));
        near[at] = name;
        far[at] = d;
    }
    char list[600] = "";
    size_t used = 0;
    for (int i = 0; i < n && used < sizeof list - 1; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", near[i]);
    return vc_fail(err, VC_EUSAGE, "--target_name \"%s\" matches no linear module of this "
                   "transformer; the nearest names are %s", entry, list);
}

static bool matches_any(const vtrain_targets *t, int entry, const char *const *modules)
{
    for (; *modules; modules++)
        if (matches_renamed(t, *modules, t->entry[entry]))
            return true;
    return false;
}

/* Sets t->names to the table whose names most entries match, NULL for our names. Of equal ones the
 * first in the order of tables is chosen. */
static void choose_names(vtrain_targets *t, const char *const *modules,
                         const vtrain_rename *const names[2])
{
    const vtrain_rename *const tables[3] = { NULL, names[0], names[1] }, *best = NULL;
    int most = -1;
    for (int k = 0; k < 3; k++) {
        int n = 0;
        t->names = tables[k];
        for (int i = 0; i < t->n_entries; i++)
            n += matches_any(t, i, modules);
        if (n > most) {
            best = t->names;
            most = n;
        }
    }
    t->names = best;
}

static void drop_entry(vtrain_targets *t, int i)
{
    t->n_entries--;
    memmove(t->entry + i, t->entry + i + 1, sizeof *t->entry * (size_t)(t->n_entries - i));
}

/* Writes the name of the feed-forward layer that VideoX-Fun's documents mean by an entry such as
 * ff.0 or img_mlp.2, which matches no module. False: the entry is no such name. */
static bool feed_forward(char name[MAX_PATH], const char *entry, const char *const *modules)
{
    static const char *const ours[][2] = { { ".net.0.proj", ".net.2" },
                                           { ".linear_in", ".linear_out" } };    /* FLUX.2's */
    const size_t n = strlen(entry);
    if (n < 3 || n > MAX_PATH - sizeof ".net.0.proj")
        return false;
    if (strcmp(entry + n - 2, ".0") && strcmp(entry + n - 2, ".2"))
        return false;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        snprintf(name, MAX_PATH, "%.*s%s", (int)(n - 2), entry, ours[i][entry[n - 1] != '0']);
        for (const char *const *m = modules; *m; m++)
            if (matches_entry(*m, name))
                return true;
    }
    return false;
}

/* Adds ", NAME" to a list of names, malloc'ed, unless the list has the name. */
static int add_name(char **list, const char *name, vc_err *err)
{
    if (*list && strstr(*list, name))
        return 0;
    char *more = vc_format("%s%s%s", *list ? *list : "", *list ? ", " : "", name);
    free(*list);
    *list = more;
    return more ? 0 : vc_no_memory(err);
}

/* The lists of entries that are left out, and of the names that they stand for. */
typedef struct left_out { char *entries, *names; } left_out;

static int drop_spare(vtrain_targets *t, left_out *l, const char *const *modules, vc_err *err)
{
    char name[MAX_PATH];
    for (int i = 0; i < t->n_entries;) {
        if (matches_any(t, i, modules)) {
            i++;
            continue;
        }
        if (!feed_forward(name, t->entry[i], modules))
            return no_match(t->entry[i], modules, err);
        int rc = add_name(&l->entries, t->entry[i], err);
        if (!rc)
            rc = add_name(&l->names, name, err);
        if (rc)
            return rc;
        drop_entry(t, i);
    }
    return 0;
}

/* Checks that each entry matches a module, except the entries of VideoX-Fun's documents, which are
 * dropped with a note. */
static int check_entries(vtrain_targets *t, const char *const *modules, char **note, vc_err *err)
{
    left_out l = { 0 };
    int rc = drop_spare(t, &l, modules, err);
    if (!rc && l.entries && !t->n_entries)
        rc = no_match(l.entries, modules, err);
    if (!rc && l.entries) {
        *note = vc_format("--target_name: these entries match no module of this transformer and "
                          "are left out: %s (diffusers' names are %s)", l.entries, l.names);
        rc = *note ? 0 : vc_no_memory(err);
    }
    free(l.entries);
    free(l.names);
    return rc;
}

/* Refuses, like PEFT, an entry that matches a module which holds others: "0" would match whole
 * blocks. An expression that ends with ".*" asks for all linears below a name. */
static int check_containers(vtrain_targets *t, const char *value, const char *const *modules,
                            vc_err *err)
{
    size_t end = strlen(value);
    if (t->all || (t->regex && end > 2 && !strcmp(value + end - 2, ".*")))
        return 0;
    for (; *modules; modules++)
        for (const char *p = *modules; (p = strchr(p, '.')); p++) {
            char part[MAX_PATH];
            size_t n = (size_t)(p - *modules);
            if (n >= sizeof part)
                continue;
            memcpy(part, *modules, n);
            part[n] = '\0';
            if (vtrain_targets_match(t, part))
                return vc_fail(err, VC_EUSAGE, "--target_name \"%s\" matches %s, which is not a "
                               "linear but holds linears: name the linears, or give all-linear for "
                               "all of them", value, part);
        }
    return 0;
}

static int collect_names(vtrain_targets *t, const char *const *modules, vc_err *err)
{
    size_t n = 0;
    while (modules[n])
        n++;
    t->name = calloc(n + 1, sizeof *t->name);
    if (!t->name)
        return vc_no_memory(err);
    for (size_t i = 0; i < n; i++) {
        if (!vtrain_targets_match(t, modules[i]))
            continue;
        const char *name = in_block(modules[i]);
        bool seen = false;
        for (int k = 0; k < t->n_names && !seen; k++)
            seen = !strcmp(t->name[k], name);
        if (seen)
            continue;
        t->name[t->n_names] = strdup(name);
        if (!t->name[t->n_names++])
            return vc_no_memory(err);
    }
    return 0;
}

int vtrain_targets_open(vtrain_targets **out, const char *value, const char *const *modules,
                        const char *const *convs, const vtrain_rename *const names[2],
                        char **note, vc_err *err)
{
    *out = NULL;
    *note = NULL;
    vtrain_targets *t = calloc(1, sizeof *t);
    if (!t)
        return vc_no_memory(err);

    int rc = 0;
    if (!strcmp(value, "all-linear"))
        rc = take_all(t, convs, err);
    else if (value[strcspn(value, "()|*+?[]^$\\")])
        rc = compile(t, value, err);
    else
        rc = split(t, value, err);
    if (!rc && !t->all && t->text && names)
        choose_names(t, modules, names);
    if (!rc && !t->all && t->text)
        rc = check_entries(t, modules, note, err);
    if (!rc)
        rc = collect_names(t, modules, err);
    if (!rc)
        rc = check_containers(t, value, modules, err);
    if (!rc && t->regex && vc_regex_check(t->regex, err))
        rc = vc_context(err, VC_EUSAGE, "--target_name \"%s\"", value);
    if (!rc && !t->n_names)
        rc = no_match(value, modules, err);
    if (rc) {
        vtrain_targets_close(t);
        free(*note);
        *note = NULL;
        return rc;
    }
    *out = t;
    return 0;
}

/* ---- the value for a list of modules ---- */

static bool is_chosen(const char *const *chosen, const char *module)
{
    while (*chosen && *chosen != module)
        chosen++;
    return *chosen;
}

/* Appends a word to *text behind `between`, unless *text has the word already. */
static int append(char **text, const char *word, const char *between, vc_err *err)
{
    const size_t n = strlen(word), m = strlen(between);
    for (const char *at = *text; at && (at = strstr(at, word)); at++)
        if ((at == *text || !strncmp(at - m, between, m)) &&
            (!at[n] || !strncmp(at + n, between, m)))
            return 0;
    char *more = vc_format("%s%s%s", *text ? *text : "", *text ? between : "", word);
    free(*text);
    *text = more;
    return more ? 0 : vc_no_memory(err);
}

/* The number of a block that begins at p, a pointer into a path; 0: none does. */
static size_t block_number(const char *path, const char *p)
{
    const size_t digits = strspn(p, "0123456789");
    return digits && p > path && p[-1] == '.' && p[digits] == '.' ? digits : 0;
}

/* The path as an expression with `number` in place of numbers of blocks, malloc'ed; number NULL: as
 * they are. */
static char *expression_of(const char *module, const char *number)
{
    char text[6 * MAX_PATH], *to = text;
    for (const char *p = module; *p && to < text + sizeof text - 16; p++) {
        const size_t digits = number ? block_number(module, p) : 0;
        to += digits ? sprintf(to, "#") : sprintf(to, "%s%c", *p == '.' ? "\\" : "", *p);
        p += digits ? digits - 1 : 0;
    }
    *to = 0;
    const size_t before = strcspn(text, "#");
    return text[before] ? vc_format("%.*s%s%s", (int)before, text, number, text + before + 1)
                        : strdup(text);
}

/* True if the modules whose path ends like this one's name in its block are all chosen. */
static bool name_is_exact(const char *module, const char *const *modules,
                          const char *const *chosen)
{
    for (; *modules; modules++)
        if (matches_entry(*modules, in_block(module)) && !is_chosen(chosen, *modules))
            return false;
    return true;
}

/* Whether two paths are equal but for the number of their block, which they have one of. */
static bool same_but_number(const char *a, const char *b)
{
    int numbers = 0;
    const char *x = a, *y = b;
    while (*x && *y) {
        const size_t n = block_number(a, x), m = block_number(b, y);
        if (n && m) {
            numbers++;
            x += n;
            y += m;
        } else if (*x++ != *y++) {
            return false;
        }
    }
    return !*x && !*y && numbers == 1;
}

/* The expression of a chosen module and of those that differ from it by the block's number,
 * malloc'ed; NULL: out of memory. */
static char *blocks_of(const char *module, const char *const *modules, const char *const *chosen,
                       vc_err *err)
{
    bool all = true;
    int rc = 0, n = 0;
    char *numbers = NULL;
    for (const char *const *m = modules; !rc && *m; m++) {
        if (!same_but_number(module, *m))
            continue;
        const char *p = *m;
        char digits[16];
        while (!block_number(*m, p))
            p++;
        snprintf(digits, sizeof digits, "%.*s", (int)block_number(*m, p), p);
        n++;
        if (!is_chosen(chosen, *m))
            all = false;
        else
            rc = append(&numbers, digits, "|", err);
    }
    char *group = rc || !n ? NULL : all ? strdup("[0-9]+") : vc_format("(%s)", numbers);
    char *text = rc || (n && !group) ? NULL : expression_of(module, group);
    free(numbers);
    free(group);
    return text;
}

int vtrain_targets_of(char **out, const char *const *modules, const char *const *chosen,
                      vc_err *err)
{
    bool exact = true;
    int rc = 0;
    char *text = NULL;
    for (const char *const *c = chosen; *c && exact; c++)
        exact = name_is_exact(*c, modules, chosen);
    for (const char *const *c = chosen; !rc && *c; c++) {
        char *word = exact ? strdup(in_block(*c)) : blocks_of(*c, modules, chosen, err);
        rc = word ? append(&text, word, exact ? "," : "|", err) : vc_no_memory(err);
        free(word);
    }
    *out = rc ? NULL : exact ? text : vc_format("(%s)", text);
    if (rc || !exact)
        free(text);
    return rc || *out ? rc : vc_no_memory(err);
}

void vtrain_targets_close(vtrain_targets *t)
{
    if (!t)
        return;
    vc_regex_close(t->regex);
    for (int i = 0; i < t->n_names; i++)
        free(t->name[i]);
    free(t->name);
    free(t->text);
    free(t);
}

const char *const *vtrain_targets_names(const vtrain_targets *t, int *n)
{
    *n = t->n_names;
    return (const char *const *)t->name;
}

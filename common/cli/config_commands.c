/* config_commands.c - the commands that another trainer's file stands for. See
 * config_internal.h. */
#include <stdlib.h>
#include <string.h>

#include "common/cli/config_internal.h"
#include "common/os/file.h"

#define REPEATS "(--latents DATASET:repeat=N repeats one dataset)"

bool vc_commands_typed(const vc_flags *set, const char *flag, size_t len)
{
    vc_found found;
    if (!vc_flags_find(set->prog, flag, len, &found))
        return false;
    const unsigned char *from = set->from[found.flag - set->prog->flags];
    return from[0] == VC_FROM_WORDS || from[1] == VC_FROM_WORDS;
}

static bool in_partner(const vc_flags *set, const char *flag)
{
    for (const vc_foreign *f = set->prog->partner; f && f->name; f++) {
        const char *list = f->name, *s;
        size_t n;
        int part;
        while ((s = vc_flags_next_name(&list, &n, &part)))
            if (vc_flags_same_name(s, n, flag, strlen(flag)))
                return true;
    }
    return false;
}

static bool is_vprep(const vc_flags *set)
{
    return !strcmp(set->prog->name, "vprep");
}

int vc_commands_begin(vc_commands *c, vc_err *err)
{
    vc_part_datasets *grown = realloc(c->part, ((size_t)c->n_parts + 1) * sizeof *grown);
    if (!grown)
        return vc_no_memory(err);
    c->part = grown;
    c->now = c->n_parts++;
    c->part[c->now] = (vc_part_datasets){ .first = c->n_datasets };
    return 0;
}

void vc_commands_end(vc_commands *c, int before)
{
    c->part[c->now].end = c->n_datasets;
    c->now = before;
}

/* "3.0" is "3", which flags of whole numbers take too. */
static void drop_zero(char *text)
{
    char *dot = strchr(text, '.');
    size_t digits = strspn(text, "0123456789");
    if (dot && digits && text + digits == dot && !strcmp(dot, ".0"))
        *dot = 0;
}

static int add(vc_commands *c, vc_command *to, const vc_given *given, vc_err *err)
{
    char text[64];
    vc_given *grown = realloc(to->given, ((size_t)to->n + 1) * sizeof *grown);
    if (!grown)
        return vc_no_memory(err);
    to->given = grown;
    grown[to->n] = *given;
    grown[to->n].flag = vc_flags_keep_text(c->set, given->flag, strlen(given->flag));
    snprintf(text, sizeof text, "%s", given->text);
    drop_zero(text);
    const char *value = strlen(given->text) < sizeof text ? text : given->text;
    grown[to->n].text = vc_flags_keep_text(c->set, value, strlen(value));
    grown[to->n].part = c->now;
    return grown[to->n].flag && grown[to->n++].text ? 0 : vc_no_memory(err);
}

int vc_commands_add(vc_commands *c, const vc_given *given, vc_err *err)
{
    vc_command *own = is_vprep(c->set) ? &c->vprep : &c->vtrain;
    vc_command *partner = is_vprep(c->set) ? &c->vtrain : &c->vprep;
    vc_found found;
    bool ours = vc_flags_find(c->set->prog, given->flag, strlen(given->flag), &found);
    bool theirs = in_partner(c->set, given->flag);
    int rc = 0;

    if (!ours && !theirs)
        return vc_fail(err, VC_EFAIL, "--%s: no such flag", given->flag);
    if (ours)
        rc = add(c, own, given, err);
    return !rc && theirs ? add(c, partner, given, err) : rc;
}

static int add_dataset(vc_commands *c, const char *flags, const char *size, vc_err *err)
{
    vc_command *grown = realloc(c->dataset, ((size_t)c->n_datasets + 1) * sizeof *grown);
    if (!grown)
        return vc_no_memory(err);
    c->dataset = grown;
    vc_command *d = &grown[c->n_datasets++];
    *d = (vc_command){ 0 };
    int rc = 0, half;
    for (int i = 0; !rc && i < c->vprep.n; i++)
        if (!(rc = add(c, d, &c->vprep.given[i], err)))
            d->given[i].part = c->vprep.given[i].part;
    size_t n;
    for (const char *s; !rc && (s = vc_flags_next_name(&flags, &n, &half));) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)n, s);
        rc = add(c, d, &(vc_given){ .flag = name, .text = size }, err);
    }
    return rc;
}

int vc_commands_dataset(vc_commands *c, int mark, const char *flags, const char *const *size, int n,
                        vc_err *err)
{
    int rc = n ? 0 : add_dataset(c, NULL, NULL, err);
    for (int i = 0; !rc && i < n; i++)
        rc = add_dataset(c, flags, size[i], err);
    c->vprep.n = mark;
    return rc;
}

/* ---- the program's own command ---- */

static const char *value_of(const vc_command *c, const char *flag)
{
    const char *text = NULL;
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->given[i].flag, flag))
            text = c->given[i].text;
    return text;
}

/* Whether the command line gives the flag, and the dataset another value. */
static bool contradicts(const vc_commands *c, const vc_command *d, const char *flag)
{
    char text[4096];
    const char *value = value_of(d, flag);
    if (!value || !vc_commands_typed(c->set, flag, strlen(flag)))
        return false;
    vc_flags_show(c->set, flag, c->set->options, text, sizeof text);
    return strcmp(text, value);
}

/* Leaves out the datasets that contradict the command line's flag, unless all do. */
static void narrow(const vc_commands *c, bool *out, const char *flag)
{
    bool any = false;
    for (int i = 0; i < c->n_datasets; i++)
        any |= !out[i] && !contradicts(c, &c->dataset[i], flag);
    for (int i = 0; any && i < c->n_datasets; i++)
        out[i] |= contradicts(c, &c->dataset[i], flag);
}

/* Flags by which a run of vprep is one of the file's datasets. */
static const char *const chosen_by[] = {
    "meta", "video_sample_size", "image_sample_size", "video_sample_n_frames", "fix_sample_size"
};

/* The dataset that this run of vprep makes: the only one, or that of the command line's flags. */
static int choose(vc_commands *c, const char *file, const vc_command **chosen, vc_err *err)
{
    *chosen = &c->vprep;
    if (!c->n_datasets)
        return 0;
    bool *out = calloc((size_t)c->n_datasets, sizeof *out);
    if (!out)
        return vc_no_memory(err);
    for (size_t i = 0; i < sizeof chosen_by / sizeof *chosen_by; i++)
        narrow(c, out, chosen_by[i]);
    const vc_command *first = NULL;
    bool sized = false;
    int n = 0;
    for (size_t i = 1; i < sizeof chosen_by / sizeof *chosen_by; i++)
        sized |= vc_flags_given(c->set, chosen_by[i]);
    for (int i = 0; i < c->n_datasets; i++) {
        if (out[i])
            continue;
        const char *a = first ? value_of(first, "meta") : NULL;
        const char *b = value_of(&c->dataset[i], "meta");
        bool same = first && (vc_flags_given(c->set, "meta") || (a && b && !strcmp(a, b)));
        n += !same || !sized;
        first = first ? first : &c->dataset[i];
    }
    free(out);
    *chosen = first;
    if (n > 1)
        vc_flags_wrong(c->set, "%s has %d datasets, and a run of vprep makes one: give --meta, and "
                       "the size or the frames, of one of the lines above, and vtrain then all of "
                       "them, --latents A --latents B", file, c->n_datasets);
    return 0;
}

static const char *repeats_of(const vc_given *g)
{
    return strcmp(g->flag, "dataset_repeat") ? "" : " " REPEATS;
}

/* Two values of one flag, of two datasets. */
static int differ(const vc_given *g, const vc_given *before, vc_err *err)
{
    return vc_fail(err, VC_EUSAGE, "%s here, %s in line %zu, and a run has one --%s: give it on "
                   "the command line%s", g->text, before->text, before->at.line, g->flag,
                   repeats_of(g));
}

/* Whether a flag of vtrain that a part of the file gives holds for all of its datasets, or is what
 * the others have. */
static bool holds_for_all(const vc_commands *c, const vc_command *own, const vc_given *g)
{
    int covered = 0;
    for (int i = 0; i < own->n; i++) {
        const vc_part_datasets *p = &c->part[own->given[i].part];
        if (!strcmp(own->given[i].flag, g->flag) && !strcmp(own->given[i].text, g->text) &&
            !own->given[i].by_default)
            covered += p->end - p->first;
    }
    double neutral = strcmp(g->flag, "dataset_repeat") ? 0 : 1;
    return !g->part || g->each || covered >= c->n_datasets || strtod(g->text, NULL) == neutral;
}

/* Whether a part is within another one, whose settings are then the defaults of its own. */
static bool is_within(const vc_commands *c, int outer, int inner)
{
    const vc_part_datasets *a = &c->part[outer], *b = &c->part[inner];
    return outer < inner && a->first <= b->first && a->end >= b->end;
}

static int set_one(vc_commands *c, const vc_command *own, int i, vc_err *err)
{
    vc_given *g = &own->given[i];
    vc_found found;

    if (!vc_flags_find(c->set->prog, g->flag, strlen(g->flag), &found))
        return vc_fail(err, VC_EFAIL, "--%s: no such flag", g->flag);
    if (vc_commands_typed(c->set, g->flag, strlen(g->flag)))
        return 0;
    if (g->by_default)
        return vc_flags_prefer(c->set, g->flag, g->text, err);
    for (int k = 0; !g->each && k < i; k++)
        if (!strcmp(own->given[k].flag, g->flag) && strcmp(own->given[k].text, g->text) &&
            !own->given[k].by_default && !is_within(c, own->given[k].part, g->part))
            return vc_flags_take(c->set, &g->at, found.flag, differ(g, &own->given[k], err), err);
    if (own == &c->vtrain && !holds_for_all(c, own, g))
        return vc_flags_take(c->set, &g->at, found.flag, vc_fail(err, VC_EUSAGE, "not all datasets "
                             "have it, and a run has one --%s: give it on the command line%s",
                             g->flag, repeats_of(g)), err);
    int rc = vc_flags_set(c->set, &found, &g->text, 1, VC_FROM_FILE, err);
    return vc_flags_take(c->set, &g->at, found.flag, rc, err);
}

/* ---- the commands as text ---- */

static void put_word(FILE *f, const char *s)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "_-./:,=+@%";
    if (*s && !s[strspn(s, safe)]) {
        fputs(s, f);
        return;
    }
    fputc('\'', f);
    for (; *s; s++)
        fputs(*s == '\'' ? "'\\''" : (char[]){ *s, 0 }, f);
    fputc('\'', f);
}

/* A later value of a flag takes the place of an earlier one. */
static bool repeated(const vc_command *c, int i)
{
    for (int k = i + 1; !c->given[i].each && k < c->n; k++)
        if (!strcmp(c->given[k].flag, c->given[i].flag))
            return true;
    return false;
}

static int note(vc_commands *c, const char *program, const vc_command *command, const char *peer,
                const char *file, vc_err *err)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return vc_no_memory(err);
    fprintf(f, "%s of %s means: %s", file, peer, program);
    for (int i = 0; i < command->n; i++) {
        if (repeated(command, i))
            continue;
        fprintf(f, " --%s ", command->given[i].flag);
        put_word(f, command->given[i].text);
    }
    const char *data = command == &c->vtrain ? "latents" : "out";
    if (!value_of(command, data))
        fprintf(f, " --%s DATASET", data);
    bool failed = ferror(f);
    failed |= fclose(f) != 0;
    if (!failed)
        vc_flags_meaning(c->set, text);
    free(text);
    return failed ? vc_no_memory(err) : 0;
}

/* Leaves out flags of a part without a dataset, as of a concept that is off. */
static void drop_empty(vc_commands *c)
{
    int n = 0;
    for (int i = 0; i < c->vtrain.n; i++) {
        const vc_part_datasets *part = &c->part[c->vtrain.given[i].part];
        if (!c->n_datasets || !c->vtrain.given[i].part || part->first < part->end)
            c->vtrain.given[n++] = c->vtrain.given[i];
    }
    c->vtrain.n = n;
}

int vc_commands_take(vc_commands *c, const char *peer, const char *file, vc_err *err)
{
    const vc_command *own = &c->vtrain;
    int rc = 0;

    drop_empty(c);
    for (int i = 0; !rc && i < c->n_datasets; i++)
        rc = note(c, "vprep", &c->dataset[i], peer, file, err);
    if (!rc && !c->n_datasets && c->vprep.n)
        rc = note(c, "vprep", &c->vprep, peer, file, err);
    if (!rc && c->vtrain.n)
        rc = note(c, "vtrain", &c->vtrain, peer, file, err);
    if (!rc && is_vprep(c->set))
        rc = choose(c, file, &own, err);
    for (int i = 0; !rc && i < own->n; i++)
        rc = set_one(c, own, i, err);
    return rc;
}

void vc_commands_free(vc_commands *c)
{
    for (int i = 0; i < c->n_datasets; i++)
        free(c->dataset[i].given);
    free(c->dataset);
    free(c->part);
    free(c->vtrain.given);
    free(c->vprep.given);
}

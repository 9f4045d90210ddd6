/* copy.c - vlat merge, split and select: new datasets from parts of datasets. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/dataset/copy.h"
#include "formats/dataset/expr.h"
#include "formats/dataset/record.h"
#include "formats/keys/keymap.h"
#include "formats/vlat/vlat.h"

static int stopped(vc_err *err)
{
    return *vc_stop_flag() ? vc_fail(err, VC_ESTOP, "stopped; the same command continues") : 0;
}

static int need_out(const vlat *v, vc_err *err)
{
    return v->o->out ? 0 : vc_fail(err, VC_EUSAGE, "--out is required: the folder of the new "
                                                   "dataset");
}

static void say_result(const vlat *v, const char *path)
{
    vf_dataset *d;
    char a[32];
    if (vf_dataset_open(&d, path, false, NULL))
        return;
    fprintf(v->out, "%s: %s sample%s, root %s\n", path, vc_human_count(a, vf_dataset_count(d)),
            vc_s(vf_dataset_count(d)), vlat_str(vf_dataset_manifest(d), "root"));
    vf_dataset_close(d);
    vlat_say_next(v, path);
}

/* Adds the remedy for damage that the copy found in d. */
static int with_remedy(const vf_copy *c, const vf_dataset *d, int rc, vc_err *err)
{
    return rc && vf_copy_met_damage(c) ? vf_dataset_remedy(vf_dataset_path(d), VC_EFORMAT, err)
                                       : rc;
}

/* ---- merge ---- */

/* Reads `part` of the manifest ("2/4"): the place of this part of a list, and the number of
 * parts. */
static bool part_of(const vf_dataset *d, unsigned *i, unsigned *n)
{
    return sscanf(vlat_str(vf_dataset_manifest(d), "part"), "%u/%u", i, n) == 2 && *i && *i <= *n;
}

static bool has_part(vf_dataset **d, int n, unsigned i)
{
    unsigned part, parts;
    while (n && !(part_of(d[n - 1], &part, &parts) && part == i))
        n--;
    return n;
}

/* Whether samples keep their numbers: the datasets are parts of one list, and no two of them use
 * the same number, as they may if the list was changed between the jobs. */
static int keeps_numbers(const vlat *v, vf_dataset **d, int n, bool *keep, vc_err *err)
{
    vf_keymap owner = { 0 };
    unsigned part, parts, same, missing = 1;
    int rc = 0;
    *keep = part_of(d[0], &part, &parts);
    for (int k = 0; k < n && *keep; k++)
        *keep = part_of(d[k], &part, &same) && same == parts;
    if (!*keep)
        return 0;
    while (missing <= parts && has_part(d, n, missing))
        missing++;
    if (missing <= parts)
        vc_warn(v->progress, "part %u/%u of the list is missing among the datasets", missing,
                parts);
    for (int k = 0; k < n; k++)
        for (uint32_t i = 0; !rc && *keep && i < vf_dataset_count(d[k]); i++) {
            uint32_t number = vf_dataset_entry(d[k], i)->number;
            uint64_t at;
            vf_key key = vf_hash(&number, sizeof number);
            *keep = !vf_keymap_get(&owner, key, &at) || at == (uint64_t)k;
            rc = vf_keymap_put(&owner, key, (uint64_t)k, err);
        }
    vf_keymap_free(&owner);
    if (!rc && !*keep)
        vc_say(v->progress, "two parts have the same sample number, as the list changed between "
                            "them: samples get new "
               "numbers");
    return rc;
}

typedef struct merging {
    const vlat *v;
    vf_copy *c;
    bool keep;                               /* samples keep their numbers */
    vf_keymap seen;                          /* hashes of the samples written */
    uint32_t next;                           /* number of the next sample */
    uint64_t samples, twice;
} merging;

/* Gives each number of the source the next new number: variants of a sample share a number. */
static int merge_one(merging *m, const vf_dataset *d, vc_err *err)
{
    int64_t last = -1;
    int rc = with_remedy(m->c, d, vf_copy_prompts(m->c, d, err), err);
    for (uint32_t i = 0; !rc && i < vf_dataset_count(d); i++) {
        vf_key k;
        const vf_parsed *record;
        rc = vf_copy_read(m->c, d, i, &record, err);
        if (!rc)
            rc = vf_parsed_content(record, &k, err);
        if (!rc && vf_keymap_get(&m->seen, k, NULL)) {
            m->twice++;
            continue;
        }
        uint32_t number = vf_dataset_entry(d, i)->number;
        if (number != last)
            m->next++;
        last = number;
        if (!rc)
            rc = vf_keymap_put(&m->seen, k, 0, err);
        if (!rc) {
            rc = vf_copy_put(m->c, d, i, m->keep ? number : m->next - 1, err);
            rc = with_remedy(m->c, d, rc, err);
        }
        m->samples += !rc;
        vc_progress_at(m->v->progress, m->samples + m->twice, NULL);
        if (!rc)
            rc = stopped(err);
    }
    return rc;
}

/* Returns 0 if the datasets can be merged; notes other differences of their manifests. */
static int compare_all(const vlat *v, vf_dataset **d, int n, vc_err *err)
{
    static const char *const said[] = { "family", "train_mode", "image_encoder", "conditions",
                                        "normalization", NULL };
    int rc = 0;
    for (int i = 1; !rc && i < n; i++) {
        char differs[VF_HEAD_TEXT];
        rc = vf_copy_compare(d[0], d[i], err);
        if (!rc && vf_head_compare(vf_dataset_manifest(d[i]), vf_dataset_manifest(d[0]), said,
                                   differs))
            vc_say(v->progress, "%s: its manifest differs from that of %s, which the new dataset "
                   "takes (%s)", vf_dataset_path(d[i]), vf_dataset_path(d[0]), differs);
    }
    return rc;
}

static int merge_all(const vlat *v, vf_dataset **d, int n, vc_err *err)
{
    merging m = { .v = v };
    uint64_t all = 0;
    for (int i = 0; i < n; i++)
        all += vf_dataset_count(d[i]);
    int rc = compare_all(v, d, n, err);
    if (!rc)
        rc = keeps_numbers(v, d, n, &m.keep, err);
    if (!rc)
        rc = vf_copy_open(&m.c, v->o->out, d, n, v->o->shard_size, err);
    vc_progress_begin(v->progress, "merging", "samples", all);
    for (int i = 0; !rc && i < n; i++)
        rc = merge_one(&m, d[i], err);
    if (!rc)
        rc = vf_copy_finish(m.c, err);
    vc_progress_end(v->progress);
    vf_copy_close(m.c);
    vf_keymap_free(&m.seen);
    if (rc)
        return rc;
    if (m.twice)
        vc_say(v->progress, "%" PRIu64 " samples occur twice and are kept once", m.twice);
    say_result(v, v->o->out);
    return 0;
}

int vlat_merge(const vlat *v, vc_err *err)
{
    int rc = need_out(v, err), n = v->words->n;
    vf_dataset **d = calloc((size_t)n, sizeof *d);
    if (!d)
        return vc_no_memory(err);
    for (int i = 0; !rc && i < n; i++)
        rc = vf_dataset_open(&d[i], v->words->item[i], false, err);
    if (!rc)
        rc = merge_all(v, d, n, err);
    for (int i = 0; i < n; i++)
        vf_dataset_close(d[i]);
    free(d);
    return rc;
}

/* ---- a part of one dataset: samples keep their numbers ---- */

int vlat_copy_part(const vlat *v, vf_dataset *d, const uint32_t *part, uint32_t which,
                   const char *path, vc_err *err)
{
    vf_copy *c;
    uint64_t samples = 0, all = 0;
    for (uint32_t i = 0; i < vf_dataset_count(d); i++)
        all += !part || part[i] == which;
    int rc = vf_copy_open(&c, path, &d, 1, v->o->shard_size, err);
    if (!rc)
        rc = with_remedy(c, d, vf_copy_prompts(c, d, err), err);
    vc_progress_begin(v->progress, path, "samples", all);
    for (uint32_t i = 0; !rc && i < vf_dataset_count(d); i++) {
        if (part && part[i] != which)
            continue;
        rc = with_remedy(c, d, vf_copy_sample(c, d, i, vf_dataset_entry(d, i)->number, err), err);
        samples += !rc;
        vc_progress_at(v->progress, samples, NULL);
        if (!rc)
            rc = stopped(err);
    }
    if (!rc)
        rc = vf_copy_finish(c, err);
    vc_progress_end(v->progress);
    vf_copy_close(c);
    return rc;
}

static uint32_t *new_parts(const vf_dataset *d, vc_err *err)
{
    uint32_t *part = calloc((size_t)vf_dataset_count(d) + 1, sizeof *part);
    if (!part)
        vc_no_memory(err);
    return part;
}

/* ---- select ---- */

static const char *const names[] = {
    "caption", "width", "height", "source_width", "source_height", "frames", "seconds", "fps",
    "tokens", "type", "path", "tag", "weight", "bucket", "sample", "variant", "extra.", NULL
};

typedef struct asked {                       /* a sample whose record is read when it is needed */
    const vf_dataset *d;
    uint32_t i;
    const vf_entry *e;
    cJSON *record;
    int rc;
    vc_err *err;
} asked;

static bool text_value(vf_expr_value *v, const cJSON *o)
{
    v->text = cJSON_IsString(o) ? o->valuestring : NULL;
    return v->text;
}

/* The value of a column of the list: a number if its text is one. */
static bool column_value(vf_expr_value *v, const cJSON *o)
{
    char *end;
    if (!text_value(v, o))
        return false;
    v->number = strtod(v->text, &end);
    if (!*end && end != v->text)
        v->text = NULL;
    return true;
}

static double pair(const cJSON *record, const char *field, int i)
{
    const cJSON *o = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(record, field), i);
    return cJSON_IsNumber(o) ? o->valuedouble : 0;
}

/* The values that the index has as the record has them. */
static bool index_value(const vf_entry *e, const char *name, double *v)
{
    const struct { const char *name; double value; } numbers[] = {
        { "sample", e->number }, { "variant", e->variant }, { "tokens", e->tokens },
        { "frames", e->frames },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(name, numbers[i].name)) {
            *v = numbers[i].value;
            return true;
        }
    return false;
}

static bool get_value(void *arg, const char *name, int k, vf_expr_value *v)
{
    asked *a = arg;
    const cJSON *o = NULL;
    *v = (vf_expr_value){ 0 };
    const bool list = !strcmp(name, "caption") || !strcmp(name, "tag");
    if (k && !list)
        return false;
    if (!list && index_value(a->e, name, &v->number))
        return true;
    if (!a->record && !a->rc)
        a->rc = vf_dataset_sample(a->d, a->i, &a->record, a->err);
    const cJSON *r = a->record;
    if (a->rc)
        return false;
    if (!strcmp(name, "caption")) {
        o = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(r, "captions"), k);
        return text_value(v, cJSON_GetObjectItemCaseSensitive(o, "text"));
    }
    if (!strcmp(name, "tag"))
        return text_value(v, cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(r, "tags"), k));
    if (!strcmp(name, "type") || !strcmp(name, "path"))
        return text_value(v, cJSON_GetObjectItemCaseSensitive(r, name));
    if (!strncmp(name, "extra.", 6))
        return column_value(v, cJSON_GetObjectItemCaseSensitive(
                                   cJSON_GetObjectItemCaseSensitive(r, "extra"), name + 6));
    if (!strcmp(name, "bucket"))
        return text_value(v, cJSON_GetObjectItemCaseSensitive(r, "key"));
    const cJSON *source = cJSON_GetObjectItemCaseSensitive(r, "source");
    double fps = vlat_num(r, "fps"),
        weight = 1;     /* from the record: the index has them as f32 */
    vf_json_num_opt(r, "weight", &weight, NULL);
    const struct { const char *name; double value; } numbers[] = {
        { "width", pair(r, "target", 1) }, { "height", pair(r, "target", 0) },
        { "source_width", vlat_num(source, "w") }, { "source_height", vlat_num(source, "h") },
        { "fps", fps }, { "seconds", fps > 0 ? a->e->frames / fps : 0 }, { "weight", weight },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(name, numbers[i].name)) {
            v->number = numbers[i].value;
            return true;
        }
    return false;
}

int vlat_holds(const vf_dataset *d, const vf_expr *e, uint32_t i, uint32_t *yes, vc_err *err)
{
    asked a = { .d = d, .i = i, .e = vf_dataset_entry(d, i), .err = err };
    bool holds = true;
    vc_err why = { 0 };
    const int rc = e ? vf_expr_holds(e, get_value, &a, &holds, &why) : 0;
    *yes = holds;
    cJSON_Delete(a.record);
    if (rc && !a.rc)
        *err = why;
    return a.rc ? a.rc : rc;
}

/* Sets part[i] to 1 for the samples in the wanted shards (NULL: all) that meet the condition. */
static int mark(const vf_dataset *d, const vf_expr *e, const bool *wanted, uint32_t *part,
                uint32_t *found, vc_err *err)
{
    int rc = 0;
    *found = 0;
    for (uint32_t i = 0; !rc && i < vf_dataset_count(d); i++) {
        if (wanted && !wanted[vf_dataset_shard_of(d, i)])
            continue;
        rc = vlat_holds(d, e, i, &part[i], err);
        *found += part[i];
        if (!rc)
            rc = stopped(err);
    }
    return rc;
}

/* Finds the shards of a list, "shard-00000,shard-00002.lmdb"; *wanted is [shards]. */
static int find_shards(bool **wanted, const vf_dataset *d, const char *list, vc_err *err)
{
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(vf_dataset_manifest(d), "shards");
    int n = cJSON_GetArraySize(all), rc = 0;
    *wanted = calloc((size_t)n + 1, sizeof **wanted);
    if (!*wanted)
        return vc_no_memory(err);
    for (const char *at = list; !rc && *at; at += strcspn(at, ","), at += *at == ',') {
        int len = (int)strcspn(at, ","), found = 0;
        for (int i = 0; i < n; i++) {
            const char *file = vlat_str(cJSON_GetArrayItem(all, i), "file");
            bool same = !strncmp(file, at, (size_t)len) &&
                        (!file[len] || !strcmp(file + len, ".lmdb"));
            (*wanted)[i] |= same && !strncmp(file, "shard-", 6);
            found += (*wanted)[i] && same;
        }
        if (!found)
            rc = vc_fail(err, VC_EUSAGE, "--shards %.*s: the dataset has no such shard with "
                         "samples; its manifest.json lists them (shard-00000.lmdb, ...)", len, at);
    }
    return rc;
}

/* The error where no sample fits; it lists the buckets if the condition names one. */
static int none_fits(const vlat *v, const vf_dataset *d, const char *condition, vc_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(vf_dataset_manifest(d), "buckets"), *o;
    char keys[600] = ", ";
    size_t n = 2;
    bool about_buckets = condition && strstr(condition, "bucket");
    cJSON_ArrayForEach(o, list)
    {
        char key[80];
        snprintf(key, sizeof key, ", %s, ", vlat_str(o, "key"));
        if (about_buckets && !strstr(keys, key) && n + strlen(key) < sizeof keys)
            n += (size_t)snprintf(keys + n, sizeof keys - n, "%s", key + 2);
    }
    keys[n > 2 ? n - 2 : 0] = 0;
    return vc_fail(err, VC_ENOENT, "%s: no sample fits the condition: nothing was written%s%s",
                   v->path, n > 2 ? "; its buckets are " : "", n > 2 ? keys + 2 : "");
}

int vlat_condition(const char *condition, vf_expr **e, vc_err *err)
{
    *e = NULL;
    return condition ? vf_expr_open(e, condition, names, err) : 0;
}

int vlat_copy_where(const vlat *v, vf_dataset *d, const char *condition, const vf_expr *e,
                    const char *shards, vc_err *err)
{
    bool *wanted = NULL;
    uint32_t found, *part = new_parts(d, err);
    int rc = part ? 0 : VC_ENOMEM;
    if (!rc && shards)
        rc = find_shards(&wanted, d, shards, err);
    if (!rc)
        rc = mark(d, e, wanted, part, &found, err);
    if (!rc && !found)
        rc = none_fits(v, d, condition, err);
    if (!rc)
        rc = vlat_copy_part(v, d, part, 1, v->o->out, err);
    if (!rc)
        say_result(v, v->o->out);
    free(part);
    free(wanted);
    return rc;
}

int vlat_select(const vlat *v, vc_err *err)
{
    vf_dataset *d = NULL;
    vf_expr *e = NULL;
    const char *condition = v->words->item[1];
    int rc = need_out(v, err);
    if (!rc)
        rc = vlat_condition(condition, &e, err);
    if (!rc)
        rc = vf_dataset_open(&d, v->path, false, err);
    if (!rc)
        rc = vlat_copy_where(v, d, condition, e, NULL, err);
    vf_dataset_close(d);
    vf_expr_close(e);
    return rc;
}

/* ---- split ---- */

/* Assigns runs of numbers of nearly equal length to parts; variants of a number stay together. */
static void part_by_number(const vf_dataset *d, uint32_t parts, uint32_t *part)
{
    uint32_t n = vf_dataset_count(d), numbers = 0;
    for (uint32_t i = 0; i < n; i++) {
        numbers += !i || vf_dataset_entry(d, i)->number != vf_dataset_entry(d, i - 1)->number;
        part[i] = numbers - 1;
    }
    for (uint32_t i = 0; i < n; i++)
        part[i] = (uint32_t)((uint64_t)part[i] * parts / numbers);
}

/* Assigns each latent shape f x h x w to a part, in the order in which shapes appear. */
static int part_by_bucket(const vf_dataset *d, uint32_t *part, uint32_t *parts, vc_err *err)
{
    vf_keymap seen = { 0 };
    int rc = 0;
    *parts = 0;
    for (uint32_t i = 0; !rc && i < vf_dataset_count(d); i++) {
        const vf_entry *e = vf_dataset_entry(d, i);
        const uint16_t grid[3] = { e->f, e->h, e->w };
        vf_key k = vf_hash(grid, sizeof grid);
        uint64_t at;
        if (!vf_keymap_get(&seen, k, &at)) {
            at = (*parts)++;
            rc = vf_keymap_put(&seen, k, at, err);
        }
        part[i] = (uint32_t)at;
    }
    vf_keymap_free(&seen);
    return rc;
}

/* The path of a part: OUT-00 for --n, OUT-13x48x84 for --by bucket. */
static char *part_name(const vlat *v, const vf_dataset *d, const uint32_t *part, uint32_t which)
{
    if (v->o->n)
        return vc_format("%s-%02" PRIu32, v->o->out, which);
    uint32_t i = 0;
    while (part[i] != which)
        i++;
    const vf_entry *e = vf_dataset_entry(d, i);
    return vc_format("%s-%ux%ux%u", v->o->out, e->f, e->h, e->w);
}

static int content_of(vf_key *k, const vf_dataset *d, uint32_t i, vc_err *err)
{
    vf_parsed p = { 0 };
    int rc = vf_dataset_parsed(d, i, &p, err);
    if (!rc)
        rc = vf_parsed_content(&p, k, err);
    vf_parsed_free(&p);
    return rc;
}

static bool same_sample(const vf_dataset *a, uint32_t i, const vf_dataset *b, uint32_t j)
{
    vf_key x, y;
    return j < vf_dataset_count(b) &&
           vf_dataset_entry(a, i)->number == vf_dataset_entry(b, j)->number &&
           !content_of(&x, a, i, NULL) && !content_of(&y, b, j, NULL) && !memcmp(&x, &y, sizeof x);
}

/* Sets *made if an interrupted split has finished this part: it holds the same records. A part that
 * is missing or unfinished is not made; a part that cannot be read is an error, not overwritten. */
static int is_made(bool *made, const char *path, const vf_dataset *d, const uint32_t *part,
                   uint32_t which, vc_err *err)
{
    vf_dataset *there;
    uint32_t n = 0;
    *made = false;
    int rc = vf_dataset_open(&there, path, false, err);
    if (rc)
        return rc == VC_ENOENT || rc == VC_EINVAL ? 0 : rc;
    bool same = true;
    for (uint32_t i = 0; same && i < vf_dataset_count(d); i++)
        if (part[i] == which)
            same = same_sample(d, i, there, n++);
    *made = same && n == vf_dataset_count(there);
    vf_dataset_close(there);
    return 0;
}

static int write_part(const vlat *v, vf_dataset *d, const uint32_t *part, uint32_t which, bool look,
                      bool *made, vc_err *err)
{
    char *path = part_name(v, d, part, which);
    int rc = path ? 0 : vc_no_memory(err);
    if (!rc && look) {
        rc = is_made(made, path, d, part, which, err);
        if (!rc && !*made)
            rc = vf_copy_room(path, err);
    } else if (!rc) {
        if (!*made)
            rc = vlat_copy_part(v, d, part, which, path, err);
        if (!rc)
            say_result(v, path);
    }
    free(path);
    return rc;
}

/* Checks first that each part is made or has room, then makes those that are missing. */
static int write_parts(const vlat *v, vf_dataset *d, const uint32_t *part, uint32_t parts,
                       vc_err *err)
{
    bool *made = calloc((size_t)parts + 1, sizeof *made);
    int rc = made ? 0 : vc_no_memory(err);
    for (uint32_t i = 0; !rc && i < 2 * parts; i++)
        rc = write_part(v, d, part, i % parts, i < parts, &made[i % parts], err);
    free(made);
    return rc;
}

int vlat_split(const vlat *v, vc_err *err)
{
    vf_dataset *d = NULL;
    uint32_t *part = NULL, parts = (uint32_t)v->o->n;
    int rc = need_out(v, err);
    if (!rc && !v->o->n == !v->o->by)
        rc = vc_fail(err, VC_EUSAGE, "give either --n N or --by bucket");
    if (!rc)
        rc = vf_dataset_open(&d, v->path, false, err);
    if (!rc && parts > vf_dataset_count(d))
        rc = vc_fail(err, VC_EUSAGE, "--n %" PRIu32 ": %s has %" PRIu32 " samples", parts, v->path,
                     vf_dataset_count(d));
    if (!rc && !(part = new_parts(d, err)))
        rc = VC_ENOMEM;
    if (!rc && v->o->n)
        part_by_number(d, parts, part);
    if (!rc && !v->o->n)
        rc = part_by_bucket(d, part, &parts, err);
    if (!rc)
        rc = write_parts(v, d, part, parts, err);
    free(part);
    vf_dataset_close(d);
    return rc;
}

/* data.c - opens datasets; lists samples, groups, held-out samples and an epoch's visits. See
 * data.h */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/os/file.h"
#include "train/data/parts.h"

enum {
    MAX_SETS = 1000,
    MAX_WEIGHT = 10000000,               /* of a record: largest weight times --video_repeat */
    MAX_EPOCH = 1 << 28                  /* visits of an epoch */
};

/* ---- datasets ---- */

static int open_set(vtrain_data *d, const vtrain_data_opts *o, const char *arg, vc_err *err)
{
    int at = d->n_sets++;
    vtrain_set *s = &d->set[at];
    vtrain_set_path given;
    int rc = vtrain_set_parse(&given, arg, err);
    if (!rc)
        rc = o->shards ? vf_dataset_open_first(&s->data, given.path, o->shards[at], err)
                       : vf_dataset_open(&s->data, given.path, false, err);
    free(given.path);
    s->weight = given.weight;
    s->kind = given.kind;
    s->loss = given.loss;
    if (rc)
        return rc;

    const cJSON *manifest = vf_dataset_manifest(s->data);
    vf_dataset_root(s->data, s->root);
    rc = vf_json_str_opt(manifest, "plan", &s->plan, err);
    if (!rc)
        rc = vtrain_head_read(&s->head, manifest, err);
    return vc_context(err, rc, "%s: manifest.json", vf_dataset_path(s->data));
}

static int open_sets(vtrain_data *d, const vtrain_data_opts *o, vc_err *err)
{
    if (o->paths->n < 1 || o->paths->n > MAX_SETS)
        return vc_fail(err, VC_EINVAL, "%d datasets, 1..%d expected", o->paths->n, MAX_SETS);
    bool learned = false;
    d->set = calloc((size_t)o->paths->n, sizeof *d->set);
    if (!d->set)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d datasets", o->paths->n);
    for (int i = 0; i < o->paths->n; i++) {
        int rc = open_set(d, o, o->paths->item[i], err);
        if (rc)
            return rc;
        learned |= !d->set[i].kind->name;
    }
    return learned ? 0 : vc_fail(err, VC_EUSAGE, "every dataset has :reg=, :prior=, :blank= or "
                                 ":preserve=: "
                                 "give one that is learned");
}

int vtrain_data_progress(const vc_list *paths, int *shards, bool *complete, vc_err *err)
{
    *complete = true;
    for (int i = 0; i < paths->n; i++) {
        vtrain_set_path given;
        bool all = false;
        int rc = vtrain_set_parse(&given, paths->item[i], err);
        if (!rc)
            rc = vf_dataset_progress(given.path, &shards[i], &all, err);
        free(given.path);
        if (rc && rc != VC_ENOENT)
            return rc;
        *complete &= all;
    }
    return 0;
}

int vtrain_data_awaited(const vc_list *paths, const int *shards, vc_err *err)
{
    int ended = -1;
    bool hope = false, needed = false;
    for (int i = 0; i < paths->n && !needed; i++) {
        vtrain_set_path given;
        int n;
        bool complete = false;
        int rc = vtrain_set_parse(&given, paths->item[i], err);
        if (rc) {
            free(given.path);
            return rc;
        }
        const bool left = vf_dataset_abandoned(given.path);
        hope |= !left && (vf_dataset_progress(given.path, &n, &complete, NULL) || !complete);
        ended = left ? i : ended;
        needed = left && !shards[i];
        free(given.path);
    }
    if (ended < 0 || (hope && !needed))
        return 0;
    return vc_fail(err, VC_ENOENT, "%s is unfinished, and no vprep writes it: the one that did has "
                   "ended; start vprep again, then this run", paths->item[ended]);
}

static int compare_sets(const vtrain_data *d, bool allow, bool same_norm, vc_err *err)
{
    for (int i = 1; i < d->n_sets; i++) {
        int rc = vtrain_head_compare(&d->set[0].head, &d->set[i].head, allow, same_norm, err);
        if (rc)
            return vc_context(err, rc, "%s does not fit %s", vf_dataset_path(d->set[i].data),
                              vf_dataset_path(d->set[0].data));
    }
    return 0;
}

/* Finds the tensors of a slot in its empty prompt, because the manifest does not record them. */
static int find_slot(const vtrain_data *d, int i, vtrain_slot *s, vc_err *err)
{
    char hex[VF_KEY_HEX];
    const vf_key key = d->set[0].head.empty[i];
    vf_safetensors *st;
    vf_view v;
    int rc = vf_dataset_text(d->set[0].data, key, false, &st, err);

    if (!rc) {
        s->embeds = !vf_safetensors_get(st, "prompt_embeds", &v, NULL);
        if (!vf_safetensors_get(st, "pooled", &v, NULL) && v.nd == 1)
            s->pooled = v.dim[0];
        if (!s->embeds && !s->pooled)
            rc = vc_fail(err, VC_ENOENT, "prompt_embeds: missing");
        else if (!s->embeds && s->pooled != s->width)
            rc = vc_fail(err, VC_EMISMATCH, "pooled: %" PRId64 " wide, %" PRId64 " expected",
                         s->pooled, s->width);
        vf_safetensors_close(st);
    }
    return vc_context(err, rc, "%s: text %s", s->name, vf_key_hex(hex, key));
}

static int find_slots(vtrain_data *d, vc_err *err)
{
    d->n_slots = d->set[0].head.n_slots;
    memcpy(d->slot, d->set[0].head.slot, sizeof d->slot);
    for (int set = 0; set < d->n_sets; set++)
        for (int i = 0; i < d->n_slots; i++) {
            vtrain_text_value v = { 0 };
            int rc = set ? 0 : find_slot(d, i, &d->slot[i], err);
            if (!rc)
                rc = vtrain_text_open(d, set, i, d->set[set].head.empty[i], 0, false, &v,
                                      err);
            if (rc)
                return vc_context(err, rc, "%s: empty prompt", vf_dataset_path(d->set[set].data));
            vf_safetensors_close(v.st);
        }
    return 0;
}

/* ---- notes ---- */

__attribute__((format(printf, 2, 3)))
static int add_note(char **note, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);

    char *both = *note ? vc_format("%s; %s", *note, line) : vc_format("%s", line);
    if (!both)
        return VC_ENOMEM;
    free(*note);
    *note = both;
    return 0;
}

static int note_norm(const vtrain_norm *used, const vtrain_norm *other, const char *model_dir,
                     const char *dataset, char **note, vc_err *err)
{
    for (int c = 0; c < used->channels; c++)
        if (used->sub[c] != other->sub[c] || used->mul[c] != other->mul[c])
            return add_note(note, "normalisation of %s/vae/config.json is used, (z - %g) * %g in "
                            "channel %d, not that of %s, (z - %g) * %g", model_dir,
                            (double)used->sub[c], (double)used->mul[c], c, dataset,
                            (double)other->sub[c], (double)other->mul[c])
                       ? vc_no_memory(err) : 0;
    return 0;
}

/* Compares each dataset's normalisation with the model's. */
static int compare_norms(const vtrain_data *d, const vtrain_norm_fields *model,
                         const char *model_dir, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < d->n_sets; i++)
        rc = vc_context(err, vtrain_norm_compare(model, &d->set[i].head.norm, err),
                        "%s does not fit %s/vae/config.json", vf_dataset_path(d->set[i].data),
                        model_dir);
    return rc;
}

static int find_norm(vtrain_data *d, const vtrain_data_opts *o, char **note, vc_err *err)
{
    const vtrain_head *h = &d->set[0].head;
    const char *first = vf_dataset_path(d->set[0].data);
    vtrain_norm_fields f = h->norm;
    vtrain_norm manifest = { 0 };
    cJSON *config;
    int rc = vtrain_norm_config(&f, o->model_dir, h, &config, err);

    if (!rc && o->model_dir && !o->allow_mismatch)
        rc = vtrain_texts_check(h, o->model_dir, err);
    if (!rc)
        rc = vtrain_norm_make(&d->norm, &f, h->channels, err);
    if (!rc)
        rc = vc_context(err, vtrain_norm_make(&manifest, &h->norm, h->channels, err), "%s", first);
    if (!rc)
        rc = compare_sets(d, o->allow_mismatch, !config && !o->allow_mismatch, err);
    if (!rc && config && !o->allow_mismatch)
        rc = compare_norms(d, &f, o->model_dir, err);
    if (!rc)
        rc = note_norm(&d->norm, &manifest, o->model_dir, first, note, err);
    if (!rc && f.invert != h->norm.invert && add_note(note, "invert_scale_latents is %s, as %s/"
        "vae/config.json says", f.invert ? "true" : "false", o->model_dir))
        rc = vc_no_memory(err);
    if (!rc && o->scale > 0) {
        f.scaling = o->scale;
        free(d->norm.sub);
        rc = vtrain_norm_make(&d->norm, &f, h->channels, err);
    }
    d->scaling = f.scaling;
    d->invert = f.invert;
    free(manifest.sub);
    cJSON_Delete(config);
    return rc;
}

/* ---- samples ---- */

static int check_entry(const vf_entry *e, vc_err *err)
{
    if (!e->f || !e->h || !e->w)
        return vc_fail(err, VC_EFORMAT, "latent grid %u,%u,%u", e->f, e->h, e->w);
    if (!(e->flags & VF_ENTRY_VIDEO) && e->f != 1)
        return vc_fail(err, VC_EFORMAT, "a still of %u latent frames", e->f);
    if (!(e->weight >= 0) || e->weight > MAX_WEIGHT)
        return vc_fail(err, VC_EFORMAT, "weight %g is not in 0..%d", (double)e->weight, MAX_WEIGHT);
    return 0;
}

/* Lists every sample whose weight is above 0. */
static int list_samples(vtrain_data *d, char **note, vc_err *err)
{
    uint64_t all = 0;
    for (int i = 0; i < d->n_sets; i++)
        all += vf_dataset_count(d->set[i].data);
    const char *path = vf_dataset_path(d->set[0].data);
    const char *others = d->n_sets > 1 ? " and others" : "";
    if (!all)
        return vc_fail(err, VC_EINVAL, "%s%s: 0 samples: %s", path, others,
                       cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(
                           vf_dataset_manifest(d->set[0].data), "complete"))
                       ? "vprep could use no row of its list, and errors.jsonl in that folder has "
                         "the reasons"
                       : "vprep has closed no shard yet");
    if (all > MAX_EPOCH)
        return vc_fail(err, VC_EINVAL, "%s%s: %" PRIu64 " samples, at most %d expected", path,
                       others, all, MAX_EPOCH);
    d->sample = calloc(all, sizeof *d->sample);
    if (!d->sample)
        return vc_fail(err, VC_ENOMEM, "out of memory for %" PRIu64 " samples", all);

    for (int i = 0; i < d->n_sets; i++) {
        const vf_dataset *data = d->set[i].data;
        for (uint32_t k = 0, n = vf_dataset_count(data); k < n; k++) {
            if (k % VTRAIN_RELEASE_EVERY == 0)
                vf_dataset_release(data);
            const vf_entry *e = vf_dataset_entry(data, k);
            int rc = check_entry(e, err);
            char key[24];
            if (rc)
                return vc_context(err, rc, "%s: sample %s", vf_dataset_path(data),
                                  vf_sample_key(key, e->number, e->variant));
            if (e->weight > 0 && !d->set[i].kind->name)
                d->set[i].marked |= e->flags & (VF_ENTRY_REG | VF_ENTRY_PRIOR);
            if (e->weight > 0)
                d->sample[d->n_samples++] =
                    (vtrain_sample){ .dataset = (uint32_t)i & 0x3ff, .index = k };
        }
    }
    if (!d->n_samples)
        return vc_fail(err, VC_EINVAL, "%s: all samples have weight 0",
                       vf_dataset_path(d->set[0].data));
    if (d->n_samples < all && add_note(note, "%" PRIu64 " samples of weight 0 are left out",
                                       all - d->n_samples))
        return vc_no_memory(err);
    return 0;
}

/* ---- held-out samples ---- */

static bool same_number(const vtrain_data *d, uint32_t i, uint32_t k)
{
    return k < d->n_samples && d->sample[i].dataset == d->sample[k].dataset &&
           vtrain_data_entry(d, &d->sample[i])->number ==
               vtrain_data_entry(d, &d->sample[k])->number;
}

static double split_draw(uint64_t seed, uint32_t id, uint32_t variant)
{
    vc_draws draws = vc_draws_of(seed, id, variant, VC_DRAW_SPLIT);
    return vc_draw_unit(&draws);
}

static bool is_learned(const vtrain_data *d, uint32_t i)
{
    return !vtrain_sample_kind(d, i)->name;
}

/* Holds samples out by a draw of each number alone, so that samples that join later change no
 * earlier number's choice. Samples that only hold the model in place are not held out. */
static int hold_out(vtrain_data *d, double part, uint64_t seed, vc_err *err)
{
    if (!(part >= 0 && part <= 0.5))
        return vc_fail(err, VC_EINVAL, "--eval_split %g: 0..0.5 expected", part);
    if (part == 0)
        return 0;
    double *draw = malloc(d->n_samples * sizeof *draw);
    if (!draw)
        return vc_fail(err, VC_ENOMEM, "out of memory for %" PRIu32 " samples", d->n_samples);

    uint32_t least = 0, most = 0;
    while (least < d->n_samples && !is_learned(d, least))
        least++;
    most = least;
    for (uint32_t i = least; i < d->n_samples; i++) {
        if (!is_learned(d, i))
            continue;
        draw[i] = split_draw(seed, vtrain_data_scan(d, i)->number, d->sample[i].dataset);
        if (draw[i] < draw[least])
            least = i;
        if (draw[i] > draw[most])
            most = i;
    }
    for (uint32_t i = least; i < d->n_samples; i++) {
        if (!is_learned(d, i))
            continue;
        bool low = draw[i] < part || draw[i] == draw[least];
        d->sample[i].held_out = low && draw[i] < draw[most];
        d->n_held_out += d->sample[i].held_out;
    }
    bool both = least < d->n_samples && draw[least] < draw[most];
    free(draw);
    return both ? 0 : vc_fail(err, VC_EINVAL, "--eval_split %g: nothing is left to train on "
                              "of %" PRIu32 " samples", part, d->n_samples);
}

/* ---- the epoch ---- */

/* Converts weights below 1, which are shares of the visits, to repeats, the smallest of them 1. */
static int share_out(vtrain_data *d, vc_err *err)
{
    double sum[MAX_SETS] = { 0 }, least = INFINITY;
    int shares = 0;

    for (int k = 0; k < d->n_sets; k++)
        shares += d->set[k].weight < 1;
    if (!shares)
        return 0;
    for (int k = 0; k < d->n_sets; k++)
        if (d->set[k].weight >= 1)
            return vc_fail(err, VC_EUSAGE, "--latents %s: weights below 1 are shares of the "
                           "training: give every dataset a share, or repeats from 1 on",
                           vf_dataset_path(d->set[k].data));
    for (uint32_t i = 0; i < d->n_samples; i++)
        if (!d->sample[i].held_out && !(i && same_number(d, i - 1, i)))
            sum[d->sample[i].dataset] += (double)vtrain_data_scan(d, i)->weight;
    for (int k = 0; k < d->n_sets; k++)
        if (sum[k] > 0)
            least = fmin(least, d->set[k].weight /= sum[k]);
    for (int k = 0; k < d->n_sets; k++)
        d->set[k].weight /= least;
    return 0;
}

static uint64_t repeats_of(const vtrain_data *d, const vtrain_data_opts *o, uint32_t i)
{
    const vtrain_sample *s = &d->sample[i];
    const vf_entry *e = vtrain_data_scan(d, i);
    double r = (double)o->dataset_repeat * d->set[s->dataset].weight * (double)e->weight;

    if (s->held_out)
        return 0;
    if (!(r < MAX_EPOCH))
        return MAX_EPOCH;
    uint64_t whole = (uint64_t)r;
    double rest = r - (double)whole;
    if (rest > 0 && split_draw(o->seed, e->number, 256u + s->dataset) < rest)
        whole++;
    return whole ? whole : 1;
}

/* Adds the variants of a number to their groups. */
static void count_number(vtrain_data *d, const vtrain_visited *v, double *mean)
{
    for (uint32_t i = v->first; i < v->first + v->variants; i++) {
        uint32_t group = d->sample[i].group;
        bool again = false;              /* an earlier variant is of the same group */
        for (uint32_t k = v->first; k < i && !again; k++)
            again = d->sample[k].group == group;
        d->group[group].samples++;
        d->group[group].most += again ? 0 : v->repeats;
        d->varied |= group != d->sample[v->first].group;
        mean[group] += (double)v->repeats / v->variants;
    }
}

/* Describes the number whose first sample is i; its variants are consecutive samples. */
static vtrain_visited number_at(const vtrain_data *d, const vtrain_data_opts *o, uint32_t i)
{
    const vtrain_sample *s = &d->sample[i];
    vtrain_visited v = { .first = i, .variants = 1, .repeats = (uint32_t)repeats_of(d, o, i) };
    while (same_number(d, i, i + v.variants))
        v.variants++;
    const uint32_t number = vtrain_data_entry(d, s)->number;
    vc_draws draws = vc_draws_of(o->seed, number, s->dataset, VC_DRAW_VARIANT);
    v.start = v.variants > 1 ? (uint16_t)vc_draw_int(&draws, v.variants) : 0;
    return v;
}

static int make_epoch(vtrain_data *d, const vtrain_data_opts *o, vc_err *err)
{
    uint64_t n = 0;
    if (o->dataset_repeat < 1)
        return vc_fail(err, VC_EINVAL, "--dataset_repeat %" PRId64 ": 1 or more expected",
                       o->dataset_repeat);
    d->visited = malloc(d->n_samples * sizeof *d->visited);
    double *mean = calloc(d->n_groups, sizeof *mean);
    int rc = d->visited && mean ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for %" PRIu32
                                              " samples", d->n_samples);
    if (!rc)
        rc = share_out(d, err);
    for (uint32_t i = 0, variants; i < d->n_samples && !rc; i += variants) {
        vtrain_visited v = number_at(d, o, i);
        variants = v.variants;
        if (!v.repeats)
            continue;
        d->visited[d->n_visited++] = v;
        n += v.repeats;
        count_number(d, &v, mean);
    }
    for (uint32_t g = 0; g < d->n_groups && !rc; g++)
        d->group[g].repeats = (uint64_t)ceil(mean[g] - 1e-6);
    free(mean);
    if (!rc && n > MAX_EPOCH)
        rc = vc_fail(err, VC_EINVAL, "an epoch has %" PRIu64 " samples, but at most %d are "
                     "allowed: lower --dataset_repeat or the weights", n, MAX_EPOCH);
    d->n_visits = (uint32_t)n;
    return rc;
}

void vtrain_data_epoch(const vtrain_data *d, uint64_t epoch, uint32_t *row, uint32_t *group)
{
    for (uint32_t i = 0, n = 0; i < d->n_visited; i++) {
        const vtrain_visited *v = &d->visited[i];
        for (uint32_t j = 0; j < v->repeats; j++, n++) {
            uint64_t visit = v->start + epoch * v->repeats + j;
            row[n] = v->first + (uint32_t)(visit % v->variants);
            if (group)
                group[n] = d->sample[row[n]].group;
        }
    }
}

/* ---- open, close ---- */

int vtrain_data_open(vtrain_data **out, const vtrain_data_opts *o, char **note, vc_err *err)
{
    *out = NULL;
    *note = NULL;
    vtrain_data *d = calloc(1, sizeof *d);
    if (!d)
        return vc_no_memory(err);

    d->growing = o->shards != NULL;
    d->prior_loss = o->prior_loss > 0 ? o->prior_loss : 1;
    int rc = open_sets(d, o, err);
    if (!rc)
        rc = find_norm(d, o, note, err);
    if (!rc)
        rc = list_samples(d, note, err);
    if (!rc)
        rc = find_slots(d, err);
    if (!rc)
        rc = vtrain_groups_make(d, err);
    if (!rc)
        rc = hold_out(d, o->eval_split, o->seed, err);
    if (!rc)
        rc = make_epoch(d, o, err);
    for (int i = 0; i < d->n_sets; i++)
        if (d->set[i].data)
            vf_dataset_release(d->set[i].data);
    if (rc) {
        vtrain_data_close(d);
        free(*note);
        *note = NULL;
        return rc;
    }
    *out = d;
    return 0;
}

void vtrain_data_close(vtrain_data *d)
{
    if (!d)
        return;
    for (int i = 0; i < d->n_sets; i++)
        vf_dataset_close(d->set[i].data);
    free(d->set);
    free(d->norm.sub);
    free(d->sound.norm.sub);
    for (int i = 0; i < VC_ROLES; i++)
        free(d->role_norm[i].sub);
    free(d->sample);
    free(d->group);
    free(d->visited);
    free(d);
}

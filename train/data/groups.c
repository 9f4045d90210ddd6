/* groups.c - groups samples by target and kind, then f, h, w, then the sizes of their reference
 * pictures, so that the order of the groups does not depend on the samples'. See data.h and parts.h
 *
 * The index of a shard has no sizes of references, so that the records of a dataset of a mode with
 * references are read: about 10 us a sample. Other datasets' records are not. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/keys/keymap.h"
#include "train/data/parts.h"

enum { MAX_GROUPS = 1 << 21 };               /* the bits of vtrain_sample.group */

typedef struct shape {
    uint64_t clip;                           /* target, kind, f, h, w */
    vtrain_own own;
} shape;

static bool has_references(const vtrain_data *d, uint32_t i)
{
    const char *name = d->set[d->sample[i].dataset].head.train_mode;
    int mode = 0;
    while (mode < VC_MODES && strcmp(name, vc_mode_names[mode]))
        mode++;
    return mode < VC_MODES && vc_roles[VC_ROLE_REFERENCE].modes & 1u << mode;
}

static int shape_of(shape *s, const vtrain_data *d, uint32_t i, vc_err *err)
{
    const vf_entry *e = vtrain_data_scan(d, i);
    cJSON *record;

    *s = (shape){ .clip = (uint64_t)vtrain_sample_kind(d, i)->base << 49 |
                          (uint64_t)(e->flags & VF_ENTRY_VIDEO ? 1 : 0) << 48 |
                          (uint64_t)e->f << 32 | (uint64_t)e->h << 16 | e->w };
    if (!has_references(d, i))
        return 0;
    int rc = vf_dataset_sample(d->set[d->sample[i].dataset].data, d->sample[i].index, &record, err);
    if (!rc)
        rc = vtrain_own_read(&s->own, record, err);
    cJSON_Delete(record);
    return vtrain_name_sample(d, i, rc, err);
}

typedef struct rank_list {
    shape *rank;
    uint32_t n, room;
    vf_keymap known;
} rank_list;

static int by_rank(const void *a, const void *b)
{
    const shape *x = a, *y = b;
    if (x->clip != y->clip)
        return x->clip < y->clip ? -1 : 1;
    return memcmp(&x->own, &y->own, sizeof x->own);
}

/* Adds a rank to the list, unless the list has it. */
static int add_rank(rank_list *l, const shape *rank, vc_err *err)
{
    const vf_key k = vf_hash(rank, sizeof *rank);
    if (vf_keymap_get(&l->known, k, NULL))
        return 0;
    if (l->n == MAX_GROUPS)
        return vc_fail(err, VC_EINVAL, "samples of more than %d shapes: --latents takes fewer",
                       MAX_GROUPS);
    if (l->n == l->room) {
        uint32_t room = l->room ? 2 * l->room : 64;
        shape *more = realloc(l->rank, room * sizeof *more);
        if (!more)
            return vc_fail(err, VC_ENOMEM, "out of memory for %" PRIu32 " shapes", room);
        l->rank = more;
        l->room = room;
    }
    l->rank[l->n++] = *rank;
    return vf_keymap_put(&l->known, k, 0, err);
}

/* Lists the distinct ranks of the samples, ascending. */
static int distinct_ranks(const vtrain_data *d, rank_list *l, vc_err *err)
{
    shape last = { .clip = UINT64_MAX }, now;
    int rc = 0;
    for (uint32_t i = 0; i < d->n_samples && !rc; i++) {
        rc = shape_of(&now, d, i, err);
        if (!rc && by_rank(&now, &last))
            rc = add_rank(l, &now, err);
        last = now;
    }
    if (!rc)
        qsort(l->rank, l->n, sizeof *l->rank, by_rank);
    return rc;
}

static void name_group(vtrain_group *g, const vf_entry *e, const vtrain_own *own, bool base)
{
    *g = (vtrain_group){ .own = *own, .base = base, .f = e->f, .h = e->h, .w = e->w, .padded = e->f,
                         .tokens = e->tokens, .video = e->flags & VF_ENTRY_VIDEO };
    if (g->video)
        snprintf(g->name, sizeof g->name, "%dx%dx%d", g->f, g->h, g->w);
    else
        snprintf(g->name, sizeof g->name, "%dx%d", g->h, g->w);
    for (int k = 0; k < VC_REFERENCES && own->size[k][0]; k++) {
        const size_t n = strlen(g->name);
        snprintf(g->name + n, sizeof g->name - n, "+%ux%u", own->size[k][0], own->size[k][1]);
    }
    if (base)
        strncat(g->name, "-prior", sizeof g->name - strlen(g->name) - 1);
}

/* Checks the first sample of a group for the captions that its dataset's kind has. */
static int check_preserved(const vtrain_data *d, uint32_t i, vc_err *err)
{
    const vtrain_set *set = &d->set[d->sample[i].dataset];
    vf_key key[VTRAIN_TEXTS];
    cJSON *record;

    if (!set->kind->preserved)
        return 0;
    int rc = vf_dataset_sample(set->data, d->sample[i].index, &record, err);
    if (!rc)
        rc = vtrain_preserved_keys(d, record, 0, key, err);
    cJSON_Delete(record);
    return vtrain_name_sample(d, i, rc, err);
}

int vtrain_groups_make(vtrain_data *d, vc_err *err)
{
    rank_list l = { 0 };
    int rc = distinct_ranks(d, &l, err);
    d->n_groups = l.n;
    d->group = rc ? NULL : calloc(l.n, sizeof *d->group);
    if (!rc && !d->group)
        rc = vc_fail(err, VC_ENOMEM, "out of memory for %" PRIu32 " shapes", l.n);
    for (uint32_t i = 0; !rc && i < d->n_samples; i++) {
        const vf_entry *e = vtrain_data_scan(d, i);
        shape r;
        rc = shape_of(&r, d, i, err);
        if (rc)
            break;
        const shape *at = bsearch(&r, l.rank, l.n, sizeof r, by_rank);
        if (!at) {                           /* the shapes are in a map of the file */
            rc = vc_fail(err, VC_EFORMAT, "a shard changed while it was read");
            rc = vtrain_name_sample(d, i, rc, err);
            break;
        }
        vtrain_group *g = &d->group[at - l.rank];
        d->sample[i].group = (uint32_t)(at - l.rank) & (MAX_GROUPS - 1);
        if (g->f)
            continue;
        vtrain_latent_value v;
        name_group(g, e, &r.own, vtrain_sample_kind(d, i)->base);
        rc = vtrain_name_sample(d, i, vtrain_latent_open(d, i, false, &v, err), err);
        vf_safetensors_close(v.st);
        if (!rc)
            rc = vtrain_group_segments(d, i, err);
        if (!rc)
            rc = check_preserved(d, i, err);
    }
    free(l.rank);
    vf_keymap_free(&l.known);
    return rc;
}

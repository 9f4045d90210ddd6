/* groups.c - groups samples by kind, then f, h, w, so that the order of the groups does not depend
 * on the samples'. See data.h and parts.h */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/keys/keymap.h"
#include "train/data/parts.h"

enum { MAX_GROUPS = 1 << 21 };               /* the bits of vtrain_sample.group */

static uint64_t group_rank(const vf_entry *e)
{
    return (uint64_t)(e->flags & VF_ENTRY_VIDEO ? 1 : 0) << 48 | (uint64_t)e->f << 32 |
           (uint64_t)e->h << 16 | e->w;
}

typedef struct rank_list {
    uint64_t *rank;
    uint32_t n, room;
    vf_keymap known;
} rank_list;

static int by_rank(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Adds a rank to the list, unless the list has it. */
static int add_rank(rank_list *l, uint64_t rank, vc_err *err)
{
    const vf_key k = vf_hash(&rank, sizeof rank);
    if (vf_keymap_get(&l->known, k, NULL))
        return 0;
    if (l->n == MAX_GROUPS)
        return vc_fail(err, VC_EINVAL, "samples of more than %d shapes: --latents takes fewer",
                       MAX_GROUPS);
    if (l->n == l->room) {
        uint32_t room = l->room ? 2 * l->room : 64;
        uint64_t *more = realloc(l->rank, room * sizeof *more);
        if (!more)
            return vc_fail(err, VC_ENOMEM, "out of memory for %" PRIu32 " shapes", room);
        l->rank = more;
        l->room = room;
    }
    l->rank[l->n++] = rank;
    return vf_keymap_put(&l->known, k, 0, err);
}

/* Lists the distinct ranks of the samples, ascending. */
static int distinct_ranks(const vtrain_data *d, rank_list *l, vc_err *err)
{
    uint64_t last = UINT64_MAX;
    int rc = 0;
    for (uint32_t i = 0; i < d->n_samples && !rc; i++) {
        uint64_t rank = group_rank(vtrain_data_scan(d, i));
        if (rank != last)
            rc = add_rank(l, rank, err);
        last = rank;
    }
    if (!rc)
        qsort(l->rank, l->n, sizeof *l->rank, by_rank);
    return rc;
}

static void name_group(vtrain_group *g, const vf_entry *e)
{
    *g = (vtrain_group){ .f = e->f, .h = e->h, .w = e->w, .padded = e->f,
                         .tokens = e->tokens, .video = e->flags & VF_ENTRY_VIDEO };
    if (g->video)
        snprintf(g->name, sizeof g->name, "%dx%dx%d", g->f, g->h, g->w);
    else
        snprintf(g->name, sizeof g->name, "%dx%d", g->h, g->w);
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
        uint64_t r = group_rank(e);
        const uint64_t *at = bsearch(&r, l.rank, l.n, sizeof r, by_rank);
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
        name_group(g, e);
        rc = vtrain_name_sample(d, i, vtrain_latent_open(d, i, false, &v, err), err);
        vf_safetensors_close(v.st);
        if (!rc)
            rc = vtrain_group_segments(d, i, err);
    }
    free(l.rank);
    vf_keymap_free(&l.known);
    return rc;
}

/* share_divide.c - divides the samples among the ranks of a job; see share.h */
#include <stdlib.h>

#include "formats/keys/keymap.h"
#include "precompute/run/reuse.h"

typedef struct bundle {              /* the items of one source */
    uint32_t first;                  /* the first of the items */
    uint64_t cost;                   /* pixels to encode */
    uint16_t owner;
} bundle;

static int dearer_first(const void *a, const void *b)
{
    const bundle *x = *(bundle *const *)a, *y = *(bundle *const *)b;
    if (x->cost != y->cost)
        return x->cost < y->cost ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

/* Assigns the dearest bundle first, each to the rank with the least load. All ranks compute the
 * same result. */
static int assign(const vprep *p, bundle *b, uint32_t n, vc_err *err)
{
    bundle **order = malloc((n + 1) * sizeof *order);
    uint64_t *load = calloc((size_t)p->ranks.n, sizeof *load);
    int rc = order && load ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for %u sources", n);

    for (uint32_t i = 0; !rc && i < n; i++)
        order[i] = &b[i];
    if (!rc)
        qsort(order, n, sizeof *order, dearer_first);
    for (uint32_t i = 0; !rc && i < n; i++) {
        int least = 0;
        for (int r = 1; r < p->ranks.n; r++)
            if (load[r] < load[least])
                least = r;
        load[least] += order[i]->cost + 1;
        order[i]->owner = (uint16_t)least;
    }
    free(order);
    free(load);
    return rc;
}

static int cost_of(vprep *p, const vprep_item *it, uint64_t *cost, vc_err *err)
{
    vprep_clip clip;
    int rc = vprep_clip_of(p, it, &clip, err);

    *cost = 0;
    if (!rc && (p->c.trace_dir ||
                prep_reuse_find(p, false, vprep_latent_key(p, it, &clip)) == REUSE_NONE))
        *cost = (uint64_t)vprep_clip_pixels(&clip.choice);
    vprep_clip_free(&clip);
    return rc;
}

int vprep_share_divide(vprep *p, vc_err *err)
{
    vf_keymap at = { 0 };
    uint32_t n = 0;
    uint32_t *of = malloc((p->plan.n_items + 1) * sizeof *of);
    uint64_t *cost = calloc(p->plan.n_items + 1, sizeof *cost);
    bundle *b = calloc(p->plan.n_items + 1, sizeof *b);
    int rc = 0;

    p->ranks.owner = calloc(p->plan.n_items + 1, sizeof *p->ranks.owner);
    if (!of || !cost || !b || !p->ranks.owner)
        rc = vc_fail(err, VC_ENOMEM, "out of memory for %u samples", p->plan.n_items);
    for (uint32_t i = 0; !rc && i < p->plan.n_items; i++) {
        const vf_key source = p->list.sources[p->plan.items[i].row].hash;
        uint64_t place;
        if (!vf_keymap_get(&at, source, &place)) {
            place = n++;
            b[place].first = i;
            rc = vf_keymap_put(&at, source, place, err);
        }
        of[i] = (uint32_t)place;
        if (!rc && !p->plan.items[i].drop)
            rc = cost_of(p, &p->plan.items[i], &cost[i], err);
        b[place].cost += cost[i];
    }
    if (!rc)
        rc = assign(p, b, n, err);
    p->ranks.others_clips = 0;
    for (uint32_t i = 0; !rc && i < p->plan.n_items; i++) {
        p->ranks.owner[i] = b[of[i]].owner;
        p->ranks.others_clips += p->ranks.owner[i] && cost[i];
    }
    vf_keymap_free(&at);
    free(of);
    free(cost);
    free(b);
    return rc;
}

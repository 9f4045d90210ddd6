/* forecast.c - a dry run on an existing dataset: what a run would do; see vprep.h */
#include <stdio.h>

#include "precompute/conditions.h"

typedef struct counts {
    uint64_t reuse, encode, conditions_reuse, conditions_encode, kept;
    double pixels;                           /* of the clips to encode */
} counts;

static bool stored(const vf_dataset *d, vf_key k)
{
    vf_safetensors *st;
    if (vf_dataset_latent(d, k, false, &st, NULL))
        return false;
    vf_safetensors_close(st);
    return true;
}

static int count_item(const vprep *p, const vf_dataset *d, const vprep_item *it, counts *n,
                      vc_err *err)
{
    unsigned values = vprep_values(p, &p->meta.rows[it->row]);
    char key[24];
    uint32_t at;
    vprep_clip clip;
    int rc = vprep_clip_of(p, it, &clip, err);

    for (int v = 0; !rc && v < VALUES; v++) {
        if (!(values & VALUE_BIT(v)))
            continue;
        bool there = stored(d, vprep_value_key(p, it, &clip, v));
        if (v == VALUE_CLIP && !there)
            n->pixels += vprep_clip_pixels(&clip.choice);
        *(v == VALUE_CLIP ? there ? &n->reuse : &n->encode
                          : there ? &n->conditions_reuse : &n->conditions_encode) += 1;
    }
    vf_sample_key(key, it->number, it->variant);
    n->kept += !vf_dataset_find(d, key, &at, NULL);
    vprep_clip_free(&clip);
    return rc;
}

/* How long that will take, where this dataset's last run has left its speed. */
static void say_time(const vprep *p, double pixels)
{
    vprep_rate rate;
    char t[32];

    if (pixels > 0 && !vf_hint_read(p->c.out, VPREP_RATE, &rate, sizeof rate) && rate.pixels > 0 &&
        rate.seconds > 0)
        printf("about %s for the clips, at the rate of the last run: %.3g million pixels a second\n",
               vc_human_time(t, pixels / rate.pixels * rate.seconds),
               rate.pixels / rate.seconds / 1e6);
}

int vprep_forecast(vprep *p, vc_err *err)
{
    counts n = { 0 };
    char a[32], b[32], c[32];
    vf_dataset *d;
    int rc = vf_dataset_open(&d, p->c.out, true, err);

    for (uint32_t i = 0; !rc && i < p->n_items; i++)
        if (!p->items[i].drop)
            rc = count_item(p, d, &p->items[i], &n, err);
    uint64_t drop = rc || p->c.append ? 0 : vf_dataset_count(d) - n.kept;
    vf_dataset_close(d);
    if (rc)
        return rc;
    printf("reuse %s, encode %s, drop %s\n", vc_human_count(a, n.reuse), vc_human_count(b, n.encode),
           vc_human_count(c, drop));
    say_time(p, n.pixels);
    if (n.conditions_reuse + n.conditions_encode)
        printf("conditions: reuse %s, encode %s\n", vc_human_count(a, n.conditions_reuse),
               vc_human_count(b, n.conditions_encode));
    return 0;
}

/* lengths.c - the longest stored text of each slot, by which memory is planned and allocated. See
 * data.h and parts.h.
 *
 * The texts of a slot with equal rows have equal sizes, so that of each size one text is opened. A
 * text of another slot with the very same size may hide a longer one: the plan of memory is then
 * too low by its rows, and the loader gets them (vtrain_loader_fill). */
#include <stdlib.h>

#include "train/data/parts.h"

/* Reads the rows of one text into the slots that it may be of. */
static int measure(vtrain_data *d, int set, vf_key key, vc_err *err)
{
    vf_safetensors *st;
    vf_view v;
    int rc = vf_dataset_text(d->set[set].data, key, false, &st, err);

    if (rc)
        return rc;
    const bool has = !vf_safetensors_get(st, "prompt_embeds", &v, NULL) && v.nd == 2;
    for (int i = 0; has && i < d->n_slots; i++) {
        vtrain_slot *s = &d->slot[i];
        if (s->embeds && s->width == v.dim[1] && s->longest < v.dim[0])
            s->longest = v.dim[0];
    }
    vf_safetensors_close(st);
    return 0;
}

static int measure_set(vtrain_data *d, int set, bool *known, vc_err *err)
{
    vf_text_size *list;
    size_t n;
    int rc = vf_dataset_text_sizes(d->set[set].data, &list, &n, err);

    *known &= n > 0;
    for (size_t i = 0; !rc && i < n; i++)
        rc = measure(d, set, list[i].key, err);
    free(list);
    return vc_context(err, rc, "%s", vf_dataset_path(d->set[set].data));
}

/* Damage is an error of the sample that takes the text, and none of a run that takes others. */
int vtrain_lengths_measure(vtrain_data *d, vc_err *err)
{
    bool known = true, needed = false;
    vc_err damage = { 0 };
    int rc = 0;
    for (int i = 0; i < d->n_slots && !d->growing; i++)
        needed |= d->slot[i].embeds && !d->slot[i].rows;
    for (int set = 0; !rc && needed && set < d->n_sets; set++)
        rc = measure_set(d, set, &known, &damage);
    for (int i = 0; (rc || !known) && i < d->n_slots; i++)
        d->slot[i].longest = 0;
    if (rc && rc != VC_EFORMAT)
        *err = damage;
    return rc == VC_EFORMAT ? 0 : rc;
}

int64_t vtrain_data_longest(const vtrain_slot *s, int segments, bool full)
{
    const int64_t all = s->max_length * (segments > 1 ? segments : 1);

    if (!s->embeds)
        return 0;
    if (s->rows && segments < 2)
        return s->rows;
    return full || !s->longest || s->longest > all ? all : s->longest;
}

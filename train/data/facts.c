/* facts.c - what an open set of datasets says of itself and of its samples; see data.h */
#include <stdio.h>

#include "train/data/parts.h"

/* ---- of datasets ---- */

bool vtrain_data_weights(const vtrain_data *d, int set, const char *component, vf_key *k)
{
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(vf_dataset_manifest(d->set[set].data),
                                                        "weights");
    const cJSON *w = cJSON_GetObjectItemCaseSensitive(all, component);
    return cJSON_IsString(w) && vf_key_parse(k, w->valuestring);
}

const char *vtrain_data_family(const vtrain_data *d) { return d->set[0].head.family; }
const char *vtrain_data_vae(const vtrain_data *d) { return d->set[0].head.vae_class; }
const vtrain_norm *vtrain_data_norm(const vtrain_data *d) { return &d->norm; }
int vtrain_data_slots(const vtrain_data *d) { return d->n_slots; }
const vtrain_slot *vtrain_data_slot(const vtrain_data *d, int i) { return &d->slot[i]; }
uint32_t vtrain_data_groups(const vtrain_data *d) { return d->n_groups; }
const vtrain_group *vtrain_data_group(const vtrain_data *d, uint32_t i) { return &d->group[i]; }
uint32_t vtrain_data_samples(const vtrain_data *d) { return d->n_samples; }
uint32_t vtrain_data_held_out(const vtrain_data *d) { return d->n_held_out; }
const vtrain_sample *vtrain_data_sample(const vtrain_data *d, uint32_t i) { return &d->sample[i]; }
int vtrain_data_sets(const vtrain_data *d) { return d->n_sets; }
const vf_dataset *vtrain_data_set(const vtrain_data *d, int i) { return d->set[i].data; }
const char *vtrain_data_root(const vtrain_data *d, int i) { return d->set[i].root; }
const char *vtrain_data_plan(const vtrain_data *d, int i) { return d->set[i].plan; }

const vtrain_set_kind *vtrain_data_kind(const vtrain_data *d, int set, double *loss)
{
    *loss = d->set[set].loss;
    return d->set[set].kind;
}

bool vtrain_data_holds(const vtrain_data *d, bool base)
{
    bool holds = false;
    for (int i = 0; i < d->n_sets; i++)
        holds |= (d->set[i].kind->name && (!base || d->set[i].kind->base)) ||
                 d->set[i].marked & (base ? VF_ENTRY_PRIOR : VF_ENTRY_REG | VF_ENTRY_PRIOR);
    return holds;
}

const vtrain_set_kind *vtrain_data_marked(const vtrain_data *d, int set, int i, double *loss)
{
    const unsigned marks[] = { VF_ENTRY_REG, VF_ENTRY_PRIOR };
    *loss = d->prior_loss;
    return i < 0 || i > 1 || !(d->set[set].marked & marks[i]) ? NULL
           : i ? vtrain_set_prior() : vtrain_set_reg();
}

uint32_t vtrain_data_visits(const vtrain_data *d) { return d->n_visits; }
bool vtrain_data_varied(const vtrain_data *d) { return d->varied; }

int vtrain_role_channels(const vtrain_data *d, vc_role role)
{
    if (vc_roles[role].kind == VC_VALUE_EMBEDS || role == VC_ROLE_LOSS_MASK)
        return 1;
    return vc_roles[role].kind == VC_VALUE_MASK ? d->mask_channels : d->norm.channels;
}

/* ---- of samples ---- */

const vtrain_set_kind *vtrain_sample_kind(const vtrain_data *d, uint32_t i)
{
    const vtrain_set_kind *own = d->set[d->sample[i].dataset].kind;
    const unsigned flags = own->name ? 0 : vtrain_data_entry(d, &d->sample[i])->flags;
    return flags & VF_ENTRY_REG ? vtrain_set_reg()
           : flags & VF_ENTRY_PRIOR ? vtrain_set_prior() : own;
}

double vtrain_sample_loss(const vtrain_data *d, uint32_t i)
{
    const vtrain_set *set = &d->set[d->sample[i].dataset];
    return vtrain_sample_kind(d, i) == set->kind ? set->loss : d->prior_loss;
}

const vf_entry *vtrain_data_entry(const vtrain_data *d, const vtrain_sample *s)
{
    return vf_dataset_entry(d->set[s->dataset].data, s->index);
}

const vf_entry *vtrain_data_scan(const vtrain_data *d, uint32_t i)
{
    if (i % VTRAIN_RELEASE_EVERY == 0)
        vf_dataset_release(d->set[d->sample[i].dataset].data);
    return vtrain_data_entry(d, &d->sample[i]);
}

char *vtrain_data_key(const vtrain_data *d, uint32_t sample, char buf[VTRAIN_KEY])
{
    const vtrain_sample *s = &d->sample[sample];
    const vf_entry *e = vtrain_data_entry(d, s);
    int n = s->dataset ? snprintf(buf, VTRAIN_KEY, "%d:", s->dataset + 1) : 0;
    vf_sample_key(buf + n, e->number, e->variant);
    return buf;
}

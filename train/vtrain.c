/* vtrain.c - facts of a run that all rooms ask for: see vtrain.h */
#include "train/vtrain.h"

vtrain_fit vtrain_fit_of(const vtrain *t)
{
    vtrain_fit fit;
    t->model.family->fit(t->model.dit, &fit);
    return fit;
}

bool vtrain_leads(const vtrain *t)
{
    return vc_comm_rank(t->comm) == 0;
}

int vtrain_dp_groups(const vtrain *t)
{
    return vc_comm_size(t->comm) / (int)t->cfg.sp;
}

int vtrain_dp_group(const vtrain *t)
{
    return vc_comm_rank(t->comm) / (int)t->cfg.sp;
}

int64_t vtrain_runs(const vtrain *t)
{
    return t->cfg.gradient_accumulation_steps * vtrain_dp_groups(t);
}

int64_t vtrain_least_rows(const vtrain *t)
{
    return t->model.family->two_parts ? t->cfg.sp : 1;
}

bool vtrain_full_texts(const vtrain_config *c)
{
    return c->lora_dropout > 0 || c->network_dropout > 0;
}

int64_t vtrain_parts(const vtrain *t)
{
    return t->samples.span[t->samples.n_spans - 1].batch / t->cfg.train_batch_size;
}

int64_t vtrain_micros(const vtrain *t)
{
    return vtrain_runs(t) / vtrain_parts(t);
}

const char *vtrain_transformer_name(const vtrain *t)
{
    return t->cfg.boundary_type == VTRAIN_SIDE_LOW ? "transformer_2" : "transformer";
}

bool vtrain_trains_controlnet(const vtrain *t)
{
    return t->model.controlnet && t->cfg.trainable_models;
}

bool vtrain_both(const vtrain *t)
{
    return t->cfg.boundary_type == VTRAIN_SIDE_BOTH;
}

bool vtrain_makes_samples(const vtrain_config *c)
{
    return c->validation_steps || c->validation_epochs || c->sample_at_first;
}

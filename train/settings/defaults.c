/* defaults.c - the family's defaults of the settings: see settings.h */
#include "train/settings/settings.h"

enum { INFERENCE_STEPS = 28 };                /* where the family has no number */

void vtrain_defaults(vtrain_config *d, const vtrain_family *f, const vtrain_scheduler *s)
{
    const bool full = d->training_type == VTRAIN_FULL;
    if (d->objective == 0)
        d->objective = 1 + (int)(s->path ? s->kind : f->objective);
    const bool flow = d->objective == 1 + VTRAIN_FLOW;
    d->weighting_scheme = flow ? f->density : VTRAIN_UNIFORM;
    d->logit_mean = f->logit_mean;
    d->logit_std = f->logit_std;
    d->flow_shift = !flow ? 1
                    : s->by_tokens.on ? 0
                    : s->path && s->kind != VTRAIN_FLOW ? f->flow_shift : s->shift;
    d->caption_dropout_p = full && !f->ssm ? 0.1 : 0;
    d->network_alpha = (double)d->rank;
    d->learning_rate = full ? f->lr_full : f->lr_lora;
    d->target_name = full ? NULL : (char *)f->lora_targets;
}

static void resolve_objective(vtrain_config *c, vc_flags *set, const vtrain_family *f,
                              const vtrain_config *d)
{
    c->objective = d->objective;
    if (!vc_flags_decided(set, "weighting_scheme"))
        c->weighting_scheme = d->weighting_scheme;
    if (!vc_flags_decided(set, "logit_mean"))
        c->logit_mean = d->logit_mean;
    if (!vc_flags_decided(set, "logit_std"))
        c->logit_std = d->logit_std;
    if (!vc_flags_decided(set, "flow_shift"))
        c->flow_shift = d->flow_shift;
    if (c->posterior == VTRAIN_POSTERIOR_AUTO)
        c->posterior = f->posterior_mean ? VTRAIN_POSTERIOR_MEAN : VTRAIN_POSTERIOR_SAMPLE;
}

/* Resets the flags of a flow where the model predicts v. A flag with another value than a run that
 * predicts v records in config.yaml is an error if --objective was given, else has a message. */
static void drop_flow_flags(vtrain_config *c, vc_flags *set)
{
    const struct { const char *flag; bool differs; } flags_of_flow[] = {
        { "flow_shift", c->flow_shift != 1 }, { "flow_levels", c->flow_levels != 0 },
        { "flow_terminal", c->flow_terminal != 0 }, { "timestep_dtype", c->timestep_dtype != 0 },
        { "weighting_scheme", c->weighting_scheme != VTRAIN_UNIFORM },
        { "timestep_sampling", c->timestep_sampling != VTRAIN_SAMPLING_AUTO },
        { "logit_mean", c->logit_mean != 0 }, { "logit_std", c->logit_std != 1 },
        { "mode_scale", c->mode_scale != 1.29 },
        { "precondition_outputs", c->precondition_outputs },
    };
    for (size_t i = 0; i < sizeof flags_of_flow / sizeof *flags_of_flow; i++) {
        const char *flag = flags_of_flow[i].flag;
        if (!vc_flags_given(set, flag) || !flags_of_flow[i].differs)
            continue;
        if (vc_flags_given(set, "objective"))
            vc_flags_wrong(set, "--%s: belongs to --objective flow, but this is v", flag);
        else
            vc_flags_say(set, "--%s: has no effect: this model predicts v and follows no flow",
                         flag);
    }
    if (!vc_flags_given(set, "loss_cutoff"))
        c->loss_cutoff = 0;                                 /* --like sets it for a flow */
    c->flow_shift = 1;
    c->flow_levels = 0;
    c->flow_terminal = 0;
    c->timestep_dtype = 0;
    c->weighting_scheme = VTRAIN_UNIFORM;
    c->logit_mean = 0;
    c->logit_std = 1;
    c->mode_scale = 1.29;
    c->precondition_outputs = false;
}

/* A shift by tokens is the schedule's; --timestep_sampling may only name the same. */
static void check_by_tokens(const vtrain_config *c, vc_flags *set, const vtrain_scheduler *s)
{
    const vtrain_by_tokens *want = vtrain_by_tokens_of(c->timestep_sampling), *b = &s->by_tokens;
    if (!want || (b->on && b->type == want->type && b->base == want->base && b->max == want->max &&
                  b->base_len == want->base_len && b->max_len == want->max_len))
        return;
    vc_flags_wrong(set, "--timestep_sampling: flux_shift, qwen_shift and ideogram4_shift are the "
                   "shifts by tokens of FLUX.1-dev, Qwen-Image and Ideogram 4, and this model has "
                   "another: leave the flag out, give shift with --flow_shift, or --scheduler with "
                   "a file that has use_dynamic_shifting, base_shift %g and max_shift %g at %lld and %lld tokens",
                   want->base, want->max, (long long)want->base_len, (long long)want->max_len);
}

static void resolve_sampler(vtrain_config *c, vc_flags *set, const vtrain_scheduler *s)
{
    bool flow = c->objective == 1 + VTRAIN_FLOW;
    vtrain_sampler own = s->path && (s->kind == VTRAIN_FLOW) == flow ? s->sampler
                         : flow ? VTRAIN_EULER : VTRAIN_DDIM;
    if (c->validation_sampler == 0)
        c->validation_sampler = 1 + (int)own;
    if ((c->validation_sampler >= 1 + VTRAIN_EULER) != flow)
        vc_flags_wrong(set, "--validation_sampler: %s", flow
                       ? "ddim and dpm sample a model that predicts v, this one follows a flow: "
                         "give euler or unipc"
                       : "euler and unipc sample a flow, this model predicts v: give ddim or dpm");
}

int vtrain_resolve(vtrain_config *c, vc_flags *set, const vtrain_family *f,
                   const vtrain_scheduler *s, vc_mode mode, vc_err *err)
{
    bool full = c->training_type == VTRAIN_FULL;
    vtrain_config d = *c;
    vtrain_defaults(&d, f, s);
    resolve_objective(c, set, f, &d);
    if (c->objective == 1 + VTRAIN_FLOW)
        check_by_tokens(c, set, s);
    resolve_sampler(c, set, s);
    if (c->objective == 1 + VTRAIN_V)
        drop_flow_flags(c, set);
    c->timestep_sampling = VTRAIN_SAMPLING_AUTO;            /* config.yaml has what it means */
    if (!vc_flags_decided(set, "caption_dropout_p"))
        c->caption_dropout_p = d.caption_dropout_p;
    if (!vc_flags_decided(set, "image_dropout_p"))
        c->image_dropout_p = mode >= VC_MODE_INPAINT && f->fun_dropout > 0 ? f->fun_dropout
                                                                          : f->image_dropout;
    if (!vc_flags_decided(set, "control_dropout_p"))
        c->control_dropout_p = f->fun_dropout;
    if (!full && !vc_flags_decided(set, "network_alpha"))
        c->network_alpha = d.network_alpha;
    if (!vc_flags_given(set, "guidance_scale"))
        c->guidance_scale = f->guidance;
    if (c->num_inference_steps == 0)
        c->num_inference_steps = f->inference_steps ? f->inference_steps : INFERENCE_STEPS;
    if (!vc_flags_given(set, "mixed_precision"))
        c->mixed_precision = f->bf16 ? VTRAIN_PRECISION_BF16 : VTRAIN_PRECISION_NO;
    if (c->learning_rate == 0)
        c->learning_rate = d.learning_rate;
    if (c->train_batch_size == 0) {
        if (vc_flags_given(set, "train_batch_size"))
            vc_flags_wrong(set, "--train_batch_size 0: a step without a sample trains nothing: "
                           "give 1 or more, or leave the flag out for the usual %lld",
                           (long long)f->batch);
        c->train_batch_size = f->batch;
    }
    if (c->max_train_steps == 0 && c->num_train_epochs == 0) {
        const bool steps = vc_flags_given(set, "max_train_steps");
        c->max_train_steps = f->steps;
        if (steps || vc_flags_given(set, "num_train_epochs"))
            vc_flags_say(set, "--%s 0: without a number of steps or epochs the run has the usual "
                         "%lld steps", steps ? "max_train_steps" : "num_train_epochs",
                         (long long)f->steps);
    }
    vtrain_resolve_times(c, set);
    if (!full && !c->target_name)
        c->target_name = d.target_name;
    return vc_flags_verdict(set, err);
}

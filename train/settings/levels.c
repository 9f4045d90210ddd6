/* levels.c - levels and losses by the names of other trainers: see settings.h */
#include <math.h>
#include <stdio.h>

#include "train/diffusion/loss.h"
#include "train/settings/settings.h"

/* Choices that are replaced by one of the choices that the run knows. */
enum { DENSITY_NONE = VTRAIN_STRETCHED + 1, LOSS_L2 = 3 };

#define IDEOGRAM4_STD 1.5                     /* of ideogram4_shift, as of the family's levels */

/* Reports a flag that has no effect beside --timestep_sampling. */
static void say_unused(vc_flags *set, const char *flag)
{
    if (vc_flags_given(set, flag))
        vc_flags_say(set, "--%s: has no effect beside this --timestep_sampling, as in musubi-tuner",
                     flag);
}

/* Levels of musubi-tuner's logit-normal draws, without a table: of sigmoid and shift the deviation
 * is --sigmoid_scale, and logsnr draws a logarithm of signal over noise, -2 times the logit. */
static int take_logit_normal(vtrain_config *c, vc_flags *set, vc_err *err)
{
    bool logsnr = c->timestep_sampling == VTRAIN_SAMPLING_LOGSNR;
    int rc = vc_flags_prefer(set, "weighting_scheme", "logit_normal", err);
    c->weighting_scheme = VTRAIN_LOGIT_NORMAL;
    if (logsnr) {
        c->logit_mean = 0 - c->logit_mean / 2;
        c->logit_std /= 2;
    } else {
        say_unused(set, "logit_mean");
        c->logit_mean = 0;
        if (!vc_flags_typed(set, "sigmoid_scale")) {
            say_unused(set, "logit_std");
            c->logit_std = c->timestep_sampling == VTRAIN_SAMPLING_IDEOGRAM4_SHIFT ? IDEOGRAM4_STD
                                                                                   : 1;
        }
    }
    char text[32];
    snprintf(text, sizeof text, "%.17g", c->logit_mean);
    if (!rc)
        rc = vc_flags_prefer(set, "logit_mean", text, err);
    snprintf(text, sizeof text, "%.17g", c->logit_std);
    return rc ? rc : vc_flags_prefer(set, "logit_std", text, err);
}

/* Levels of musubi-tuner's table, whose order is diffusers': a larger draw means less noise. */
static int take_table(vtrain_config *c, vc_flags *set, vc_err *err)
{
    int rc = vc_flags_prefer(set, "weighting_scheme", "uniform", err);
    if (!rc)
        rc = vc_flags_prefer(set, "flow_levels", "1000", err);
    c->logit_mean = 0 - c->logit_mean;
    return rc;
}

const vtrain_by_tokens *vtrain_by_tokens_of(int sampling)
{
    static const vtrain_by_tokens flux = { true, VTRAIN_MU_EXPONENTIAL, 0.5, 1.15, 256, 4096 },
                                  qwen = { true, VTRAIN_MU_EXPONENTIAL, 0.5, 0.9, 256, 8192 },
                                  ideogram4 = { true, VTRAIN_MU_ROOT, 0, M_LN2, 1024, 4096 };
    return sampling == VTRAIN_SAMPLING_FLUX_SHIFT || sampling == VTRAIN_SAMPLING_FLUX2_SHIFT ? &flux
           : sampling == VTRAIN_SAMPLING_QWEN_SHIFT ? &qwen
           : sampling == VTRAIN_SAMPLING_IDEOGRAM4_SHIFT ? &ideogram4 : NULL;
}

static int take_sampling(vtrain_config *c, vc_flags *set, vc_err *err)
{
    int how = c->timestep_sampling, rc = 0;
    bool by_tokens = vtrain_by_tokens_of(how);
    bool shifts = how == VTRAIN_SAMPLING_SIGMA || how == VTRAIN_SAMPLING_SHIFT;
    if (how == VTRAIN_SAMPLING_AUTO)
        return 0;
    if (how != VTRAIN_SAMPLING_SIGMA && vc_flags_given(set, "weighting_scheme") &&
        c->weighting_scheme != DENSITY_NONE)
        vc_flags_wrong(set, "--weighting_scheme: --timestep_sampling draws the levels already, "
                       "except with sigma: leave one of the two flags out");
    if (how == VTRAIN_SAMPLING_SIGMA) {
        rc = take_table(c, set, err);
    } else if (how == VTRAIN_SAMPLING_UNIFORM) {
        rc = vc_flags_prefer(set, "weighting_scheme", "uniform", err);
        c->weighting_scheme = VTRAIN_UNIFORM;
    } else {
        rc = take_logit_normal(c, set, err);
    }
    if (!shifts)
        say_unused(set, "flow_shift");
    if (!shifts && !by_tokens && !rc)
        rc = vc_flags_prefer(set, "flow_shift", "1", err);
    if (!shifts)
        c->flow_shift = by_tokens ? 0 : 1;
    return rc;
}

int vtrain_take_levels(vtrain_config *c, vc_flags *set, vc_err *err)
{
    bool plain = c->timestep_sampling == VTRAIN_SAMPLING_AUTO;
    int rc = take_sampling(c, set, err);
    if (plain && vc_flags_typed(set, "flow_logit_mean"))
        c->logit_mean = 0 - c->logit_mean;
    else if (plain && vc_flags_typed(set, "logit_mean") && c->logit_mean != 0)
        vc_flags_say(set, "--logit_mean %g: above 0 means more noise; in VideoX-Fun, diffusers' "
                     "scripts and musubi-tuner's sigma it means less: write %g for theirs",
                     c->logit_mean, -c->logit_mean);
    if (!rc && c->uniform_sampling && !vc_flags_decided(set, "weighting_scheme"))
        rc = vc_flags_prefer(set, "weighting_scheme", "uniform", err);
    if (c->weighting_scheme == DENSITY_NONE)
        c->weighting_scheme = VTRAIN_UNIFORM;
    return rc;
}

void vtrain_take_loss(vtrain_config *c, vc_flags *set)
{
    bool huber = vc_flags_typed(set, "huber_delta"), l1 = vc_flags_typed(set, "smooth_l1_beta");
    int named = huber ? VTRAIN_HUBER : VTRAIN_SMOOTH_L1;
    if (c->loss_type == LOSS_L2)
        c->loss_type = VTRAIN_MSE;
    if ((huber && l1) ||
        ((huber || l1) && vc_flags_given(set, "loss_type") && c->loss_type != named))
        vc_flags_wrong(set, "--huber_delta selects --loss_type huber, --smooth_l1_beta selects "
                       "smooth_l1: give one loss");
    else if (huber || l1)
        c->loss_type = named;
    if (c->precondition_outputs && c->loss_type != VTRAIN_MSE)
        vc_flags_wrong(set, "--precondition_outputs: belongs to --loss_type mse");
    if (c->loss_type == VTRAIN_MSE && c->loss_delta != 1)
        vc_flags_wrong(set, "--loss_delta: belongs to --loss_type huber or smooth_l1");
}

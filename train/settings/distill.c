/* distill.c - the flags of --task direct_distill: vtrain_check_distill of settings.h. */
#include "train/settings/settings.h"

void vtrain_check_distill(const vtrain_config *c, vc_flags *set)
{
    const bool on = c->task >= VTRAIN_TASK_DISTILL && c->task <= VTRAIN_TASK_DISTILL_TRAIN;
    const struct { const char *flag; bool there; } own[] = {
        { "distill_steps", c->distill_steps > 0 }, { "distill_sigmas", c->distill_sigmas.n > 0 },
    };
    const struct { const char *flag; bool there; } levels[] = {
        { "min_timestep", c->min_timestep > 0 }, { "max_timestep", c->max_timestep < 1000 },
        { "min_timestep_boundary", c->min_timestep_boundary > 0 },
        { "max_timestep_boundary", c->max_timestep_boundary < 1 },
        { "min_noising_strength", c->min_noising_strength > 0 },
        { "max_noising_strength", c->max_noising_strength < 1 },
        { "uniform_sampling", c->uniform_sampling },
    };
    for (size_t i = 0; !on && i < sizeof own / sizeof *own; i++)
        if (own[i].there)
            vc_flags_wrong(set, "--%s: belongs to --task direct_distill", own[i].flag);
    for (size_t i = 0; on && i < sizeof levels / sizeof *levels; i++)
        if (levels[i].there)
            vc_flags_wrong(set, "--%s: --task direct_distill begins with pure noise and draws no "
                           "level: leave the flag out (--distill_sigmas gives the levels of the "
                           "steps)", levels[i].flag);
    if (on && c->sp > 1)
        vc_flags_wrong(set, "--sp %lld: the steps of --task direct_distill depend on each other, "
                       "and ranks that share the tokens of a sample cannot walk them yet: leave "
                       "--sp out, and for less memory give --parallel fsdp or "
                       "--gradient_checkpointing", (long long)c->sp);
}

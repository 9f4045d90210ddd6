/* ranges.c - the ranges of noise levels by the names of other trainers: vtrain_take_ranges of
 * settings.h. */
#include <math.h>

#include "train/settings/settings.h"

/* Takes ai-toolkit's indices of the list of 1000 levels, whose last one is 999. */
static void take_indices(vtrain_config *c, vc_flags *set)
{
    enum { LAST = 999 };
    if (c->min_denoising_steps > 0 || c->max_denoising_steps < LAST) {
        if (vc_flags_given(set, "min_timestep_boundary") ||
            vc_flags_given(set, "max_timestep_boundary"))
            vc_flags_wrong(set, "--min_denoising_steps and --max_denoising_steps: "
                           "--min_timestep_boundary and --max_timestep_boundary give the part of "
                           "the list already");
        c->min_timestep_boundary = round(1e6 * c->min_denoising_steps) / 1e9;
        c->max_timestep_boundary = c->max_denoising_steps < LAST
                                   ? round(1e6 * c->max_denoising_steps) / 1e9 : 1;
    }
    c->min_denoising_steps = 0;
    c->max_denoising_steps = 1000;
}

/* Checks the ranges that are taken before the shift; one range at a time has a meaning. */
static void take_parts(vtrain_config *c, vc_flags *set)
{
    take_indices(c, set);
    const struct { const char *flags, *what; double least, most; } parts[] = {
        { "timestep_boundary", "part", c->min_timestep_boundary, c->max_timestep_boundary },
        { "noising_strength", "range", c->min_noising_strength, c->max_noising_strength },
    };
    bool other = c->min_timestep > 0 || c->max_timestep < 1000 || c->min_t > 0 || c->max_t < 1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *s = parts[i].flags;
        bool whole = parts[i].least == 0 && parts[i].most == 1;
        if (!(parts[i].least < parts[i].most))
            vc_flags_wrong(set, "--min_%s %g, --max_%s %g: a %s begins below its end", s,
                           parts[i].least, s, parts[i].most, parts[i].what);
        if (!whole && other)
            vc_flags_wrong(set, "--min_%s and --max_%s: --min_timestep and --max_timestep give a "
                           "range already: leave one of the two out", s, s);
        other = other || !whole;
    }
}

/* Takes the range of levels, also by the names of diffusion-pipe, which keeps the shape. */
static void take_range(vtrain_config *c, vc_flags *set)
{
    if (c->min_t > 0 || c->max_t < 1) {
        if (vc_flags_given(set, "min_timestep") || vc_flags_given(set, "max_timestep"))
            vc_flags_wrong(set, "--min_t and --max_t: give these or --min_timestep and "
                           "--max_timestep, which are 1000 times as large");
        c->min_timestep = round(1e9 * c->min_t) / 1e6;
        c->max_timestep = round(1e9 * c->max_t) / 1e6;
        c->preserve_distribution_shape = true;
        c->min_t = 0;
        c->max_t = 1;
    }
    if (!(c->min_timestep < c->max_timestep))
        vc_flags_wrong(set, "--min_timestep %g, --max_timestep %g: a range begins below its end",
                       c->min_timestep, c->max_timestep);
    if (c->preserve_distribution_shape && c->min_timestep == 0 && c->max_timestep == 1000)
        c->preserve_distribution_shape = false;             /* all levels have their shape */
}

void vtrain_take_ranges(vtrain_config *c, vc_flags *set)
{
    take_parts(c, set);
    take_range(c, set);
}

/* skipped.c - see skipped.h */
#include "train/sampling/skipped.h"

#include <ctype.h>
#include <stdlib.h>

enum { MOST_BLOCKS = 64 };

int sampling_skipped(uint64_t *blocks, const vtrain *t, vc_err *err)
{
    const char *text = t->cfg.skip_guidance_layers, *at = text;
    const int n = vtrain_fit_of(t).blocks, most = n < MOST_BLOCKS ? n : MOST_BLOCKS;
    *blocks = 0;
    if (!text)
        return 0;
    if (!t->model.family->skips_layers)
        return vc_fail(err, VC_EUSAGE, "--skip_guidance_layers: samples of %s are not guided like "
                       "that, those of Stable Diffusion 3 are: leave the flag out",
                       t->model.family->class_name);
    if (t->cfg.skip_layer_guidance_start >= t->cfg.skip_layer_guidance_stop)
        return vc_fail(err, VC_EUSAGE, "--skip_layer_guidance_start %g: not below "
                       "--skip_layer_guidance_stop %g, so that no step would leave out "
                       "--skip_guidance_layers", t->cfg.skip_layer_guidance_start,
                       t->cfg.skip_layer_guidance_stop);
    do {
        char *end = NULL;
        const long block = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : -1;
        if (block < 0 || block >= most || (*end && *end != ','))
            return vc_fail(err, VC_EUSAGE, "--skip_guidance_layers \"%s\": numbers of blocks from "
                           "0 to %d are expected, with commas between them", text, most - 1);
        *blocks |= UINT64_C(1) << block;
        at = *end ? end + 1 : end;
        if (*end && !*at)
            return vc_fail(err, VC_EUSAGE, "--skip_guidance_layers \"%s\": a number is expected "
                           "behind the last comma", text);
    } while (*at);
    return 0;
}

bool sampling_skips(const vtrain_config *c, int i, int n)
{
    return i > n * c->skip_layer_guidance_start && i < n * c->skip_layer_guidance_stop;
}

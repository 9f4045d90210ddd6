/* clips.c - what all stages ask of a clip; see vprep.h */
#include <stdlib.h>

#include "precompute/run/vprep.h"

void vprep_clip_free(vprep_clip *clip)
{
    mask_free(&clip->mask);
    free(clip->frames);
    cJSON_Delete(clip->draws);
    clip->frames = NULL;
    clip->draws = NULL;
}

double vprep_clip_pixels(const vb_choice *c)
{
    return (double)c->frames * c->target_h * c->target_w;
}

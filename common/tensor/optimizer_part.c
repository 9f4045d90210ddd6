/* optimizer_part.c - the numbers of a step for a part of a parameter, and a rule's run on it, for
 * rows of the table and for what they need beyond a rule; see optimizer.h */
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "common/tensor/engine.h"
#include "common/tensor/optimizer.h"

vt_update_args vt_opt_update_args(const vt_opt_part *x, const vt_opt_step *o)
{
    uint64_t key = XXH3_64bits_withSeed(x->name, strlen(x->name), o->seed);

    return (vt_update_args){
        .lr = (float)o->lr, .beta1 = (float)o->beta1, .beta2 = (float)o->beta2,
        .eps = (float)o->eps, .weight_decay = (float)o->weight_decay,
        .grad_scale = (float)o->grad_scale,
        .correct1 = (float)(1.0 - pow(o->beta1, (double)o->step)),
        .correct2 = (float)sqrt(1.0 - pow(o->beta2, (double)o->step)),
        .step = (uint32_t)o->step, .key = { (uint32_t)key, (uint32_t)(key >> 32) },
        .first = x->first,
    };
}

void vt_opt_update(vt_ctx *g, const vt_opt_part *x, const vt_update_args *a)
{
    vt_tensor *state[VF_STATES];

    memcpy(state, x->state, sizeof state);
    g->be->update(g->dev, x->w, state, NULL, x->grad, a);
}

/* job.c - a sample in the pipeline; see encode.h */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/encode/encode.h"

void prep_job_begin(prep_job *j, const vprep_item *it)
{
    memset(j, 0, offsetof(prep_job, clip.choice.draws));
    j->item = it;
}

void prep_job_settle(const vprep *p, prep_job *j)
{
    unsigned values = vprep_values(p, &p->list.meta.rows[j->item->row]);

    j->frames = j->want_thumb ? 1 : 0;
    for (int v = 0; v < VC_ROLES; v++) {
        if (values & VC_ROLE_BIT(v))
            j->key[v] = vprep_value_key(p, j->item, &j->clip, v);
        if (j->need & VC_ROLE_BIT(v) && vprep_value_frames(p, &j->clip, v) > j->frames)
            j->frames = vprep_value_frames(p, &j->clip, v);
    }
}

void prep_job_free(prep_job *j)
{
    if (!j)
        return;
    vprep_clip_free(&j->clip);
    for (int v = 0; v < VC_ROLES; v++)
        free(j->value[v]);
    prep_frames_close(&j->pixels);
    prep_frames_close(&j->control);
    free(j->loss_mask);
    free(j->thumb);
    free(j);
}

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
    free(j->pixels);
    free(j->loss_mask);
    free(j->control);
    free(j->thumb);
    free(j);
}

int prep_job_rounded(const prep_job *j, int t, uint8_t **out, vc_err *err)
{
    const vb_choice *c = &j->clip.choice;
    const size_t n = (size_t)c->target_h * (size_t)c->target_w * 3;
    const float *v = (const float *)(const void *)j->pixels + (size_t)t * n;
    uint8_t *u = *out = malloc(n);

    if (!u)
        return vc_fail(err, VC_ENOMEM, "out of memory for a frame");
    for (size_t i = 0; i < n; i++)
        u[i] = v[i] <= 0 ? 0 : v[i] >= 255 ? 255 : (uint8_t)(v[i] + 0.5f);
    return 0;
}

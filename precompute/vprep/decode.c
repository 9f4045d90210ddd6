/* decode.c - see decode.h */
#include "precompute/vprep/decode.h"

#include <stdlib.h>
#include <string.h>

#include "precompute/run/reuse.h"

int vprep_first_frame(const vprep *p, const vprep_item *it, uint8_t **rgb, int *h, int *w,
                      vc_err *err)
{
    prep_job *j = malloc(sizeof *j);

    *rgb = NULL;
    if (!j)
        return vc_no_memory(err);
    prep_job_begin(j, it);
    int rc = vprep_clip_of(p, it, &j->clip, err);
    if (!rc)
        rc = prep_frames_open(&j->pixels, p, it, &j->clip, VF_BESIDE, 1, err);
    if (!rc)
        rc = prep_frames_rgb(&j->pixels, 0, rgb, err);
    *h = j->clip.choice.target_h;
    *w = j->clip.choice.target_w;
    prep_job_free(j);
    return rc;
}

int vprep_look_read(const vprep *p, const vprep_item *it, int k, uint8_t **rgb, text_picture *t,
                    vc_err *err)
{
    const vf_beside which = (vf_beside)(VF_REFERENCE + k);
    prep_frames pixels = { 0 };
    vprep_clip clip;
    prep_look l;

    *rgb = NULL;
    int rc = vprep_reference_clip(p, it, which, NULL, &clip, err);
    vprep_look(p, prep_beside_of(&p->list.sources[it->row], which), &l);
    clip.choice = l.read;
    if (!rc)
        rc = prep_frames_open(&pixels, p, it, &clip, which, 1, err);
    if (!rc)
        rc = prep_frames_rgb(&pixels, 0, rgb, err);
    prep_frames_close(&pixels);
    t->h = l.read.target_h;
    t->w = l.read.target_w;
    t->look_h = l.h;
    t->look_w = l.w;
    vprep_clip_free(&clip);
    return rc;
}

int vprep_item_failed(vprep *p, const vprep_item *item, const char *stage, const vc_err *why,
                      vc_err *err)
{
    const vf_row *row = &p->list.meta.rows[item->row];
    vprep_item *it = &p->plan.items[item - p->plan.items];

    it->failed = true;
    it->absent = vprep_is_absent(why->code);
    if (!it->absent || !prep_reuse_in_place(p) || p->c.allow_missing)
        return vprep_note(p, row->row, row->path, stage, why, err);
    *err = *why;                                 /* else the dataset would lose the sample */
    return why->code;
}

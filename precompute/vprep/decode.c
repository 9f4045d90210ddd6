/* decode.c - reads the frames of a clip; see decode.h */
#include "precompute/vprep/decode.h"

#include <stdlib.h>
#include <string.h>

#include "precompute/run/reuse.h"

/* Under --trust_metadata, checks that the file has the size that the metadata gave. */
static int check_trusted(const vprep_source *s, const media_info *info, vc_err *err)
{
    if (!s->trusted || (s->w == info->w && s->h == info->h))
        return 0;
    return vc_fail(err, VC_EMISMATCH, "%dx%d in the metadata, %dx%d in the file: correct the list, "
                   "or leave --trust_metadata out", s->w, s->h, info->w, info->h);
}

/* Reads frames index[0..n-1] of the row's file; returns the code of prep_identity_check. */
static int read_frames(const vprep *p, prep_job *j, const int64_t *index, int n,
                       const media_fit *fit, prep_identity *is, vc_err *err)
{
    const vprep_source *s = &p->list.sources[j->item->row];
    const vf_row *row = &p->list.meta.rows[j->item->row];
    const vf_part part = vf_row_part(row);
    media *m = NULL;
    media_info info;
    int rc = media_open_part(&m, &part, &info, err);

    if (rc)
        return rc;
    if (p->rules.peer)
        media_as_stored(m, &info);
    rc = check_trusted(s, &info, err);
    if (!rc && p->gpu)
        media_use_gpu(m, p->gpu);
    if (!rc)
        rc = media_read(m, j->pixels, index, n, fit, vc_stop_flag(), err);
    vc_err why = { 0 };
    int other = rc == VC_ESTOP ? 0 : prep_identity_check(is, s->hash, media_fd(m), &part, &why);
    media_close(m);
    if (other < 0)
        *err = why;
    return other ? other : rc;
}

int vprep_decode(const vprep *p, prep_job *j, vc_err *err)
{
    enum { MAX_TRIES = 3 };
    const vb_choice *c = &j->clip.choice;
    const bool peer = p->rules.peer;
    media_fit fit = { c->resize_h, c->resize_w, c->top, c->left, c->target_h, c->target_w, c->flip,
                      c->load_h, c->load_w, .exact = peer, .black = peer,
                      .tonemap = j->clip.tonemap };
    size_t frame = (size_t)c->target_h * (size_t)c->target_w * (peer ? 3 * sizeof(float) : 3);
    prep_identity is = p->list.sources[j->item->row].is;
    int n = 0;

    if (!j->frames)
        return 0;
    int64_t *index = malloc((size_t)j->frames * sizeof *index);
    j->exact = peer;
    j->pixel_bytes = frame * (size_t)j->frames;
    j->pixels = malloc(j->pixel_bytes);
    if (!index || !j->pixels) {
        free(index);
        return vc_fail(err, VC_ENOMEM, "out of memory for %d frames of %dx%d", j->frames,
                       c->target_w, c->target_h);
    }
    for (int i = 0; i < j->frames; i++)          /* a repeated frame is decoded once */
        if (!n || index[n - 1] != j->clip.frames[i])
            index[n++] = j->clip.frames[i];

    int rc = 1;
    for (int tries = 0; rc > 0; tries++)
        rc = tries < MAX_TRIES ? read_frames(p, j, index, n, &fit, &is, err)
                               : vc_fail(err, VC_EIO, "changes while it is read");
    for (int i = j->frames - 1; !rc && i >= 0; i--) {
        while (index[n - 1] != j->clip.frames[i])
            n--;
        if (n - 1 != i)
            memcpy(j->pixels + (size_t)i * frame, j->pixels + (size_t)(n - 1) * frame, frame);
    }
    free(index);
    return rc;
}

int vprep_first_frame(const vprep *p, const vprep_item *it, uint8_t **rgb, int *h, int *w,
                      vc_err *err)
{
    prep_job *j = malloc(sizeof *j);

    *rgb = NULL;
    if (!j)
        return vc_no_memory(err);
    prep_job_begin(j, it);
    int rc = vprep_clip_of(p, it, &j->clip, err);
    j->frames = 1;
    if (!rc)
        rc = vprep_decode(p, j, err);
    if (!rc && j->exact)
        rc = prep_job_rounded(j, 0, rgb, err);
    if (!rc && !j->exact) {
        *rgb = j->pixels;
        j->pixels = NULL;
    }
    *h = j->clip.choice.target_h;
    *w = j->clip.choice.target_w;
    prep_job_free(j);
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

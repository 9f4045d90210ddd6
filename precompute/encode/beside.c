/* beside.c - see beside.h */
#include "precompute/encode/beside.h"

#include <math.h>
#include <stdlib.h>

/* Checks that the file has the source's shape, within the rounding to whole pixels. */
static int check_shape(const vprep_source *s, const media_info *m, const char *what, vc_err *err)
{
    double off = (double)m->w * s->h - (double)m->h * s->w;
    if (fabs(off) <= (double)(s->w > s->h ? s->w : s->h))
        return 0;
    return vc_fail(err, VC_EMISMATCH, "%dx%d, but the source is %dx%d: %s covers the "
                   "whole picture, so it has its shape", m->w, m->h, s->w, s->h, what);
}

/* Reads the frames of the clip, or the one frame of a still: then *frames is 1. */
static int read_frames(media *m, const media_info *info, const vprep_clip *clip, uint8_t **rgb,
                       int *frames, vc_err *err)
{
    static const int64_t first;
    const vb_choice *c = &clip->choice;
    bool still = info->frames == 1;
    media_fit fit = { .rh = c->resize_h, .rw = c->resize_w, .top = c->top, .left = c->left,
                      .h = c->target_h, .w = c->target_w, .flip = c->flip, .black = true };
    int64_t last = clip->frames[c->frames - 1];

    *frames = still ? 1 : c->frames;
    if (!still && last >= info->frames)
        return vc_fail(err, VC_EMISMATCH, "%lld frames, but the clip has the source's frame %lld",
                       (long long)info->frames, (long long)last);
    *rgb = malloc((size_t)*frames * (size_t)c->target_h * (size_t)c->target_w * 3);
    if (!*rgb)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d frames of %dx%d", *frames, c->target_w,
                       c->target_h);
    return media_read(m, *rgb, still ? &first : clip->frames, *frames, &fit, vc_stop_flag(), err);
}

/* Returns the code of prep_identity_check. */
static int read_file(const vprep *p, const vprep_item *it, const vprep_clip *clip, vf_beside which,
                     prep_identity *is, uint8_t **rgb, int *frames, vc_err *err)
{
    static const char *const what[VF_BESIDE] = { "a loss mask", "a control clip" };
    const vprep_source *s = &p->list.sources[it->row];
    const char *path = p->list.meta.rows[it->row].beside[which].file;
    const vf_part file = { .name = path, .file = path };
    media *m = NULL;
    media_info info;
    int rc = media_open_part(&m, &file, &info, err);

    if (rc)
        return rc;
    if (p->rules.peer)
        media_as_stored(m, &info);
    rc = check_shape(s, &info, what[which], err);
    if (!rc)
        rc = read_frames(m, &info, clip, rgb, frames, err);
    vc_err why = { 0 };
    int other = rc == VC_ESTOP ? 0 : prep_identity_check(is, s->beside[which].hash, media_fd(m),
                                                         &file, &why);
    media_close(m);
    if (other < 0)
        *err = why;
    return other ? other : rc;
}

int vprep_read_beside(const vprep *p, const vprep_item *it, const vprep_clip *clip, vf_beside which,
                      uint8_t **rgb, int *frames, vc_err *err)
{
    enum { MAX_TRIES = 3 };
    prep_identity is = p->list.sources[it->row].beside[which].is;
    int rc = 1;

    *rgb = NULL;
    for (int tries = 0; rc > 0; tries++) {
        free(*rgb);
        *rgb = NULL;
        rc = tries < MAX_TRIES ? read_file(p, it, clip, which, &is, rgb, frames, err)
                               : vc_fail(err, VC_EIO, "changes while it is read");
    }
    return vc_context(err, rc, "%s %s", vf_beside_columns[which],
                      p->list.meta.rows[it->row].beside[which].path);
}

/* clip_frames.c - see clip_frames.h */
#include "precompute/encode/clip_frames.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/media/resize.h"
#include "precompute/pictures/pillow.h"

static int least(int a, int b) { return a < b ? a : b; }

static vf_part part_of(const prep_frames *f)
{
    const vf_row *row = &f->p->list.meta.rows[f->item->row];
    const char *beside = f->which < VF_BESIDE ? vf_row_side(row, f->which)->file : NULL;

    return beside ? (vf_part){ .name = beside, .file = beside } : vf_row_part(row);
}

static const vprep_source *source_of(const prep_frames *f)
{
    return &f->p->list.sources[f->item->row];
}

static vf_key hash_of(const prep_frames *f)
{
    const vprep_source *s = source_of(f);
    return f->which < VF_BESIDE ? prep_beside_of(s, f->which)->hash : s->hash;
}

/* The file's frame that is the clip's frame t. */
static int64_t frame_of(const prep_frames *f, int t)
{
    const int64_t i = f->clip->frames[t];

    if (f->which == VF_BESIDE)
        return i;
    return f->still ? 0 : prep_beside_frame(source_of(f), f->which, i);
}

static media_fit fit_of(const prep_frames *f)
{
    const vb_choice *c = &f->clip->choice;
    const bool beside = f->which < VF_BESIDE;
    const bool looked_at = f->which >= VF_COLUMNS;

    return (media_fit){ .rh = c->resize_h, .rw = c->resize_w, .top = c->top, .left = c->left,
                        .h = c->target_h, .w = c->target_w, .flip = c->flip,
                        .load_h = beside ? 0 : c->load_h, .load_w = beside ? 0 : c->load_w,
                        .exact = f->exact, .black = beside || f->p->rules.peer,
                        .alpha = f->which == VF_LOSS_MASK,
                        .tonemap = looked_at ? f->clip->tonemap : MEDIA_TONEMAP_NONE };
}

static bool is_exact(const vprep *p, vf_beside which)
{
    return p->rules.peer && which == VF_BESIDE;
}

static size_t frame_bytes(const vb_choice *c, bool exact)
{
    return (size_t)c->target_h * (size_t)c->target_w * 3 * (exact ? sizeof(float) : 1);
}

size_t prep_frames_room(const vprep *p, const vb_choice *c, int n)
{
    return (size_t)least(n, 2 * PREP_RANGE) * frame_bytes(c, is_exact(p, VF_BESIDE));
}

/* ---- checks of an opened file ---- */

/* Under --trust_metadata, checks that the file has the size that the metadata gave. */
static int check_trusted(const vprep_source *s, const media_info *info, vc_err *err)
{
    if (!s->trusted || (s->w == info->w && s->h == info->h))
        return 0;
    return vc_fail(err, VC_EMISMATCH, "%dx%d in the metadata, %dx%d in the file: correct the list, "
                   "or leave --trust_metadata out", s->w, s->h, info->w, info->h);
}

/* Checks that a file beside the source has the source's shape, within the rounding to whole
 * pixels. */
static int check_shape(const vprep_source *s, const media_info *m, vf_beside which, vc_err *err)
{
    static const char *const what[VF_COLUMNS] = { "a loss mask", "a control clip", "a mask",
                                                  "the picture that the mask covers" };
    double off = (double)m->w * s->h - (double)m->h * s->w;

    if (fabs(off) <= (double)(s->w > s->h ? s->w : s->h))
        return 0;
    return vc_fail(err, VC_EMISMATCH, "%dx%d, but the source is %dx%d: %s covers the "
                   "whole picture, so it has its shape", m->w, m->h, s->w, s->h, what[which]);
}

static int check_beside(prep_frames *f, const media_info *info, vc_err *err)
{
    int rc = f->which < VF_COLUMNS ? check_shape(source_of(f), info, f->which, err) : 0;

    f->still = info->frames == 1;
    const int64_t last = frame_of(f, f->n - 1);
    if (f->still)
        f->n = 1;
    if (!rc && !f->still && last >= info->frames)
        rc = vc_fail(err, VC_EMISMATCH, "%lld frames, but the clip has the source's frame %lld",
                     (long long)info->frames, (long long)last);
    return rc;
}

static int begin_file(prep_frames *f, media_info *info, vc_err *err)
{
    if (f->p->rules.peer)
        media_as_stored(f->m, info);
    if (f->which < VF_BESIDE)
        return check_beside(f, info, err);
    int rc = check_trusted(source_of(f), info, err);
    if (!rc && f->p->gpu)
        media_use_gpu(f->m, f->p->gpu);
    return rc;
}

/* ---- reading ---- */

/* Reads a whole picture and resizes it, of which it makes the part that the fit keeps. */
static int read_lanczos(media *m, uint8_t *rgb, const int64_t *index, const media_fit *fit, int h,
                        int w, vc_err *err)
{
    const pillow_axis y = { h, fit->rh, fit->top, fit->h }, x = { w, fit->rw, fit->left, fit->w };
    media_fit whole = *fit;
    uint8_t *all = malloc((size_t)h * (size_t)w * 3);

    if (!all)
        return vc_fail(err, VC_ENOMEM, "out of memory for a picture of %dx%d", w, h);
    whole.rh = whole.h = h;
    whole.rw = whole.w = w;
    whole.top = whole.left = 0;
    int rc = media_read(m, all, index, 1, &whole, vc_stop_flag(), err);
    if (!rc)
        rc = pillow_resize(rgb, all, &y, &x, PILLOW_LANCZOS, err);
    free(all);
    return rc;
}

/* Reads the one frame of a picture, which is resized whole: by Lanczos' filter, then bilinear
 * between the four nearest pixels. Its place is the middle of a white frame. */
static int read_framed(media *m, uint8_t *rgb, const int64_t *index, const media_fit *fit,
                       const vb_choice *c, int h, int w, vc_err *err)
{
    const size_t row = (size_t)fit->rw * 3;
    media_fit first = *fit;
    uint8_t *loaded = malloc((size_t)c->load_h * (size_t)c->load_w * 3);
    uint8_t *all = malloc((size_t)fit->rh * row);

    first.rh = first.h = c->load_h;
    first.rw = first.w = c->load_w;
    first.top = first.left = 0;
    int rc = loaded && all ? read_lanczos(m, loaded, index, &first, h, w, err)
                           : vc_fail(err, VC_ENOMEM, "out of memory for a picture of %dx%d",
                                     c->load_w, c->load_h);
    if (!rc)
        resize_bilinear(all, fit->rh, fit->rw, loaded, c->load_h, c->load_w,
                        (int64_t)c->load_w * 3);
    memset(rgb, 255, (size_t)fit->h * (size_t)fit->w * 3);
    for (int y = 0; !rc && y < fit->rh; y++)
        memcpy(rgb + ((size_t)(y - fit->top) * (size_t)fit->w + (size_t)-fit->left) * 3,
               all + (size_t)y * row, row);
    free(loaded);
    free(all);
    return rc;
}

int prep_read(media *m, uint8_t *rgb, const int64_t *index, int n, const media_fit *fit,
              const vb_choice *c, int h, int w, vc_err *err)
{
    const size_t frame = (size_t)fit->h * (size_t)fit->w * 3;
    if (c->framed)
        return read_framed(m, rgb, index, fit, c, h, w, err);
    int rc = c->lanczos ? 0 : media_read(m, rgb, index, n, fit, vc_stop_flag(), err);

    for (int i = 0; !rc && i < n && c->lanczos; i++)
        rc = read_lanczos(m, rgb + (size_t)i * frame, index + i, fit, h, w, err);
    return rc;
}

/* *range becomes the n frames from `first` on. A repeated frame is decoded once. */
static int read_range(prep_frames *f, uint8_t **range, int first, int n, vc_err *err)
{
    const media_fit fit = fit_of(f);
    int64_t index[PREP_RANGE];
    int distinct = 0;

    if (!*range)
        *range = malloc((size_t)least(f->n, PREP_RANGE) * f->bytes);
    if (!*range)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d frames of %dx%d",
                       least(f->n, PREP_RANGE), fit.w, fit.h);
    for (int i = 0; i < n; i++)
        if (!distinct || index[distinct - 1] != frame_of(f, first + i))
            index[distinct++] = frame_of(f, first + i);
    const prep_beside *own = f->which < VF_BESIDE ? prep_beside_of(source_of(f), f->which) : NULL;
    int rc = prep_read(f->m, *range, index, distinct, &fit, &f->clip->choice, own ? own->h : 0,
                       own ? own->w : 0, err);
    for (int i = n - 1; !rc && i >= 0; i--) {
        while (index[distinct - 1] != frame_of(f, first + i))
            distinct--;
        if (distinct - 1 != i)
            memcpy(*range + (size_t)i * f->bytes, *range + (size_t)(distinct - 1) * f->bytes,
                   f->bytes);
    }
    return rc;
}

/* Reads at most n frames from `first` on. Returns the code of prep_identity_check. */
static int read_once(prep_frames *f, uint8_t **range, int first, int n, vc_err *err)
{
    const vf_part part = part_of(f);
    media_info info;
    vc_err why = { 0 };
    int rc = 0;

    if (!f->m) {
        rc = media_open_part(&f->m, &part, &info, err);
        if (rc)
            return rc;
        rc = begin_file(f, &info, err);
    }
    n = least(n, f->n - first);
    if (!rc)
        rc = read_range(f, range, first, n, err);
    int other = rc == VC_ESTOP ? 0
                : prep_identity_check(&f->is, hash_of(f), media_fd(f->m), &part, &why);
    if (rc || other || first + n == f->n) {
        media_close(f->m);
        f->m = NULL;
    }
    if (other < 0)
        *err = why;
    return other ? other : rc;
}

static int read_to(prep_frames *f, uint8_t **range, int first, int n, vc_err *err)
{
    enum { MAX_TRIES = 3 };
    int rc = 1;

    for (int tries = 0; rc > 0; tries++)
        rc = tries < MAX_TRIES ? read_once(f, range, first, n, err)
                               : vc_fail(err, VC_EIO, "changes while it is read");
    if (f->which == VF_BESIDE)
        return rc;
    const vf_row *row = &f->p->list.meta.rows[f->item->row];
    return vc_context(err, rc, "%s %s", vf_row_column(row, f->which),
                      vf_row_side(row, f->which)->path);
}

/* The range is now the frames from `first` on that were read, or none after a failure. */
static void have_read(prep_frames *f, int first, int n, int rc)
{
    f->first = first;
    f->count = rc ? 0 : least(n, f->n - first);
    f->failed |= rc != 0;
}

static int read_frames(prep_frames *f, int first, int n, vc_err *err)
{
    int rc = read_to(f, &f->range, first, n, err);
    have_read(f, first, n, rc);
    return rc;
}

/* ---- reading ahead ---- */

static void *read_ahead(void *arg)
{
    prep_frames *f = arg;
    prep_ahead *a = &f->next;
    double begin = vc_seconds();

    a->rc = read_to(f, &a->range, a->first, PREP_RANGE, &a->err);
    a->seconds = vc_seconds() - begin;
    return NULL;
}

/* Without a thread the range is read when it is wanted. */
static void begin_ahead(prep_frames *f)
{
    prep_ahead *a = &f->next;

    if (!f->ahead || a->runs || f->count <= 1 || f->first + f->count >= f->n)
        return;
    a->first = f->first + f->count;
    a->runs = !pthread_create(&a->thread, NULL, read_ahead, f);
}

/* Waits for the thread. Returns true if it has read the range that begins with frame t. */
static bool end_ahead(prep_frames *f, int t)
{
    prep_ahead *a = &f->next;

    if (!a->runs)
        return false;
    pthread_join(a->thread, NULL);
    a->runs = false;
    f->seconds += a->seconds;
    return a->first == t;
}

static int take_ahead(prep_frames *f, vc_err *err)
{
    prep_ahead *a = &f->next;
    uint8_t *range = f->range;

    f->range = a->range;
    a->range = range;
    have_read(f, a->first, PREP_RANGE, a->rc);
    if (a->rc)
        *err = a->err;
    return a->rc;
}

int prep_frames_open(prep_frames *f, const vprep *p, const vprep_item *it, const vprep_clip *clip,
                     vf_beside which, int n, vc_err *err)
{
    const vprep_source *s = &p->list.sources[it->row];
    const bool exact = is_exact(p, which);

    *f = (prep_frames){ .n = n, .exact = exact, .bytes = frame_bytes(&clip->choice, exact), .p = p,
                        .item = it, .clip = clip, .which = which,
                        .is = which < VF_BESIDE ? prep_beside_of(s, which)->is : s->is };
    return n ? read_frames(f, 0, PREP_RANGE, err) : 0;
}

int prep_frames_at(prep_frames *f, int t, const uint8_t **frame, vc_err *err)
{
    const int end = f->first + f->count;
    int rc = 0;

    if (f->n == 1)
        t = 0;
    if (t < f->first || t >= end)
        rc = end_ahead(f, t) ? take_ahead(f, err)
                             : read_frames(f, t, f->count && t == end ? PREP_RANGE : 1, err);
    if (!rc)
        begin_ahead(f);
    *frame = rc ? NULL : f->range + (size_t)(t - f->first) * f->bytes;
    return rc;
}

int prep_frames_values(prep_frames *f, int t, float *x, vc_err *err)
{
    const uint8_t *u;
    const size_t n = f->bytes / (f->exact ? sizeof(float) : 1);
    int rc = prep_frames_at(f, t, &u, err);
    const float *v = (const float *)(const void *)u;

    for (size_t i = 0; !rc && f->exact && i < n; i++)
        x[i] = v[i] / 127.5f - 1.0f;
    for (size_t i = 0; !rc && !f->exact && i < n; i++)
        x[i] = (float)u[i] / 127.5f - 1.0f;
    return rc;
}

int prep_frames_rgb(prep_frames *f, int t, uint8_t **rgb, vc_err *err)
{
    const uint8_t *u;
    const size_t n = f->bytes / (f->exact ? sizeof(float) : 1);
    int rc = prep_frames_at(f, t, &u, err);
    const float *v = (const float *)(const void *)u;

    *rgb = rc ? NULL : malloc(n);
    if (!rc && !*rgb)
        return vc_fail(err, VC_ENOMEM, "out of memory for a frame");
    for (size_t i = 0; !rc && i < n; i++)
        (*rgb)[i] = !f->exact ? u[i] : v[i] <= 0 ? 0 : v[i] >= 255 ? 255 : (uint8_t)(v[i] + 0.5f);
    return rc;
}

void prep_frames_close(prep_frames *f)
{
    end_ahead(f, 0);
    media_close(f->m);
    free(f->range);
    free(f->next.range);
    *f = (prep_frames){ .failed = f->failed, .seconds = f->seconds };
}

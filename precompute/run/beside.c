/* beside.c - the frames of control clips and loss masks of another rate than their sources'. See
 * sources.h */
#include <math.h>

#include "precompute/run/vprep.h"

const prep_beside *prep_beside_of(const vprep_source *s, vf_beside which)
{
    return which < VF_COLUMNS ? &s->beside[which] : &s->references[which - VF_REFERENCE];
}

/* Rates this near are one rate, whose times were rounded. */
#define SAME_RATE 5e-4

static bool is_clip(int64_t frames, double fps)
{
    return frames > 1 && fps > 0;
}

/* As many frames are the source's frames, whatever rate a program wrote with them. */
static bool differs(const vprep_source *s, const prep_beside *b)
{
    return is_clip(s->frames, s->fps) && is_clip(b->frames, b->fps) && b->frames != s->frames &&
           fabs(b->fps - s->fps) > SAME_RATE * s->fps;
}

bool prep_beside_by_time(const vprep_source *s, const prep_beside *b)
{
    const double source = (double)s->frames / s->fps, other = (double)b->frames / b->fps;

    return differs(s, b) && fabs(source - other) <= fmax(2 / fmin(s->fps, b->fps), 0.02 * source);
}

static double time_of(const double *times, double fps, int64_t i)
{
    return times ? times[i] : (double)i / fps;
}

int64_t prep_beside_frame(const vprep_source *s, vf_beside which, int64_t i)
{
    const double nearer = 0.55;                  /* within rounded times neither of two is nearer */
    const prep_beside *b = prep_beside_of(s, which);
    int64_t lo = 0, hi = b->frames - 1;

    if (!b->by_time)
        return i;
    const double t = time_of(s->times, s->fps, i);
    while (hi - lo > 1) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (time_of(b->times, b->fps, mid) <= t)
            lo = mid;
        else
            hi = mid;
    }
    const double from = time_of(b->times, b->fps, lo), to = time_of(b->times, b->fps, hi);
    return t - from > nearer * (to - from) ? hi : lo;
}

bool vprep_takes_masks(const vprep *p)
{
    return p->c.train_mode == PREP_INPAINT || p->c.train_mode == VC_MODE_VACE;
}

bool vprep_grey_masks(const vprep *p)
{
    return p->encoders.family.is->grey_masks && !p->encoders.black;
}

/* The files whose frames are taken by time, or not although the rates differ; *row, *which: the
 * first of them. */
static uint64_t count(const vprep *p, bool by_time, int64_t *row, vf_beside *which)
{
    uint64_t n = 0;

    for (int64_t i = p->list.meta.n - 1; i >= 0; i--)
        for (int w = VF_COLUMNS - 1; w >= 0; w--) {
            const vprep_source *s = &p->list.sources[i];
            const prep_beside *b = &s->beside[w];
            if (!s->ok || b->by_time != by_time || !differs(s, b))
                continue;
            *row = i;
            *which = (vf_beside)w;
            n++;
        }
    return n;
}

/* Warns of masks that the mode does not read. */
static void say_masks(const vprep *p)
{
    uint64_t n = 0;
    char t[32];

    for (int64_t i = 0; i < p->list.meta.n && !vprep_takes_masks(p); i++)
        n += p->list.meta.rows[i].beside[VF_MASK].path != NULL;
    if (n)
        vc_warn(p->progress, "%s rows have a %s, which --train_mode inpaint and vace read",
                vc_human_count(t, n), vf_beside_columns[VF_MASK]);
}

void prep_beside_say(const vprep *p)
{
    say_masks(p);
    int64_t row = 0;
    vf_beside which = 0;
    char t[32];
    uint64_t n = count(p, true, &row, &which);
    const vprep_source *s = &p->list.sources[row];

    if (n)
        vc_say(p->progress, "%s control clips or loss masks have another frame rate than their "
               "sources, so their frames are taken by time; the first is %s: %g frames a second, "
               "its source has %g", vc_human_count(t, n),
               p->list.meta.rows[row].beside[which].path, s->beside[which].fps, s->fps);
    n = count(p, false, &row, &which);
    s = &p->list.sources[row];
    if (n)
        vc_warn(p->progress, "%s control clips or loss masks have another frame rate than their "
                "sources, and frames with the sources' numbers are taken all the same, since %s; "
                "the first is %s: %lld frames at %g a second, its source has %lld at %g: make it "
                "of the source's frames", vc_human_count(t, n),
                p->rules.peer ? "--sampling peer does so" : "they do not last as long",
                p->list.meta.rows[row].beside[which].path, (long long)s->beside[which].frames,
                s->beside[which].fps, (long long)s->frames, s->fps);
}

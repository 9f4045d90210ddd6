/* profile.c - prints how the time of a run was spent; see profile.h */
#include "precompute/run/vprep.h"

static const char *const names[PREP_SPANS_MAIN] = {
    [PREP_SPAN_PLAN] = "sources and plan",
    [PREP_SPAN_OPEN] = "opening encoders",
    [PREP_SPAN_TEXT] = "text encoders",
    [PREP_SPAN_VAE] = "VAE",
    [PREP_SPAN_PACK] = "pixels, packing and thumbnails",
    [PREP_SPAN_WAIT_CLIPS] = "the VAE waited for decoded clips",
    [PREP_SPAN_WAIT_WRITER] = "the VAE waited for the writer",
};

void vprep_say_profile(const vprep *p)
{
    const prep_profile *f = &p->profile;
    double all = vc_seconds() - f->begin, rest = all;

    for (int i = 0; i < PREP_SPANS_MAIN; i++)
        rest -= f->span[i];
    vc_say(p->progress, "profile: %.2f s in all", all);
    for (int i = 0; i < PREP_SPANS_MAIN; i++)
        vc_say(p->progress, "profile: %5.1f %% %8.2f s  %s", 100 * f->span[i] / all, f->span[i],
               names[i]);
    vc_say(p->progress, "profile: %5.1f %% %8.2f s  all else", 100 * rest / all, rest);
    if (f->clips > 0)
        vc_say(p->progress, "profile: in the %.2f s of the clips the VAE's share was %.1f %%; "
               "%lld threads decoded for %.2f s, one wrote for %.2f s", f->clips,
               100 * f->clips_vae / f->clips, (long long)p->c.workers,
               f->span[PREP_SPAN_DECODE], f->span[PREP_SPAN_WRITE]);
}

/* survey_said.c - what a run says of its sources; see sources.h */
#include "precompute/run/vprep.h"

void vprep_say_types(const vprep *p)
{
    char a[32], b[32], t[32];
    uint64_t n[2] = { 0 };

    for (int64_t i = 0; i < p->list.meta.n; i++)
        if (p->list.sources[i].ok && p->list.meta.rows[i].type == VF_TYPE_UNKNOWN)
            n[p->list.sources[i].is_video]++;
    if (n[0] + n[1])
        vc_say(p->progress, "rows without a type: %s, by their files %s videos, %s stills",
               vc_human_count(t, n[0] + n[1]), vc_human_count(a, n[1]), vc_human_count(b, n[0]));
}

void vprep_warn_hdr(const vprep *p)
{
    const vprep_source *first = NULL;
    uint64_t n = 0;
    char t[32];

    for (int64_t i = p->list.meta.n - 1; i >= 0 && !p->c.tonemap; i--)
        if (p->list.sources[i].ok && p->list.sources[i].hdr) {
            first = &p->list.sources[i];
            n++;
        }
    if (n)
        vc_warn(p->progress, "%s of %lld sources are HDR (PQ or HLG) and are converted as if they "
                "were SDR, which looks washed out; the first is %s: give --tonemap hable, or "
                "another curve",
                vc_human_count(t, n), (long long)p->list.meta.n,
                p->list.meta.rows[first - p->list.sources].path);
}

/* pace.c - see pace.h */
#include "train/sampling/pace.h"

#include <stdlib.h>

int sampling_pace_open(sampling_pace *p, int blocks, int known, int steps, int lag, vc_err *err)
{
    *p = (sampling_pace){ .blocks = blocks, .steps = steps, .lag = lag,
                          .at = calloc((size_t)blocks, sizeof *p->at),
                          .moves = calloc((size_t)blocks, sizeof *p->moves) };
    if (!p->at || !p->moves) {
        sampling_pace_close(p);
        return vc_no_memory(err);
    }
    for (int i = 0; i < known; i++)
        p->at[i] = steps + 1;
    return 0;
}

bool sampling_pace_next(sampling_pace *p)
{
    bool more = false;
    int before = 0, next = 0;                 /* of the block before: where it was, and will be */
    for (int i = 0; i < p->blocks; i++)
        more |= p->at[i] < p->steps;
    for (int i = 0; more && i < p->blocks; i++) {
        const int was = p->at[i], end = p->steps + 1;
        next = i == 0 || before >= p->steps ? was + 1 : next - p->lag;
        before = was;
        p->at[i] = next < 0 ? 0 : next > end ? end : next;
        p->moves[i] = p->at[i] != was && p->at[i] != end;
    }
    return more;
}

void sampling_pace_close(sampling_pace *p)
{
    free(p->at);
    free(p->moves);
    *p = (sampling_pace){ 0 };
}

int sampling_window_next(const sampling_windows *w, int first)
{
    if (first < 0)
        return 0;
    return first + w->window >= w->n ? -1 : first + w->window - w->shared;
}

int sampling_window_size(const sampling_windows *w, int first)
{
    return first + w->window < w->n ? w->window : w->n - first;
}

int sampling_window_behind(const sampling_windows *w, int first)
{
    return sampling_window_next(w, first) < 0 ? w->behind : 0;
}

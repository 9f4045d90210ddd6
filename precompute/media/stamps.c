/* stamps.c - finds frames by their stamps (see internal.h) */
#include <stdlib.h>

#include "precompute/media/internal.h"

static int number_by_stamp(const void *a, const void *b, void *index)
{
    const media_entry *e = index;
    const int64_t x = e[*(const uint32_t *)a].stamp, y = e[*(const uint32_t *)b].stamp;
    return (x > y) - (x < y);
}

void media_index_sort_stamps(media_video *v)
{
    for (int64_t i = 0; v->by_stamp && i < v->n; i++)
        v->by_stamp[i] = (uint32_t)i;
    if (v->by_stamp && v->n)
        qsort_r(v->by_stamp, (size_t)v->n, sizeof *v->by_stamp, number_by_stamp, v->index);
}

int64_t media_index_find(const media_video *v, int64_t stamp)
{
    int64_t lo = 0, hi = v->n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2, i = v->by_stamp ? v->by_stamp[mid] : mid;
        if (v->index[i].stamp == stamp)
            return i;
        if (v->index[i].stamp < stamp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return -1;
}

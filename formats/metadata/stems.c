/* stems.c - finds files by their stems; see parts.h */
#include "formats/metadata/parts.h"

#include <stdlib.h>
#include <string.h>

int metadata_stems_add(metadata_stems *s, metadata_stem file, vc_err *err)
{
    if (s->n == s->cap) {
        int64_t cap = s->cap ? s->cap * 2 : 64;
        metadata_stem *more = realloc(s->v, (size_t)cap * sizeof *more);
        if (!more)
            return vc_fail(err, VC_ENOMEM, "out of memory for %lld files", (long long)cap);
        s->v = more;
        s->cap = cap;
    }
    s->v[s->n++] = file;
    return 0;
}

static int compare_stems(const metadata_stem *a, const metadata_stem *b)
{
    size_t n = a->stem < b->stem ? a->stem : b->stem;
    int d = memcmp(a->path, b->path, n);
    return d ? d : (a->stem > b->stem) - (a->stem < b->stem);
}

static int by_stem(const void *a, const void *b)
{
    const metadata_stem *x = a, *y = b;
    int d = compare_stems(x, y);

    d = d ? d : (x->rank > y->rank) - (x->rank < y->rank);
    return d ? d : strcmp(x->path + x->stem, y->path + y->stem);
}

void metadata_stems_sort(metadata_stems *s)
{
    if (s->n)
        qsort(s->v, (size_t)s->n, sizeof *s->v, by_stem);
}

metadata_stem *metadata_stems_find(const metadata_stems *s, const char *path, size_t stem, int rank)
{
    const metadata_stem key = { .path = path, .stem = stem };
    int64_t from = 0, to = s->n;

    while (from < to) {
        int64_t at = from + (to - from) / 2;
        int d = compare_stems(&s->v[at], &key);
        if (d < 0 || (!d && s->v[at].rank < rank))
            from = at + 1;
        else
            to = at;
    }
    return from < s->n && !compare_stems(&s->v[from], &key) ? &s->v[from] : NULL;
}

/* flags_keep.c - the memory of a set of flags; see flags_internal.h. */
#include <stdlib.h>
#include <string.h>

#include "common/cli/flags_internal.h"

struct vc_kept {
    struct vc_kept *next;
    max_align_t data[];
};

void *vc_flags_keep(vc_flags *set, size_t n)
{
    struct vc_kept *k = malloc(sizeof *k + n);
    if (!k)
        return NULL;
    k->next = set->kept;
    set->kept = k;
    return k->data;
}

char *vc_flags_keep_text(vc_flags *set, const char *s, size_t n)
{
    char *p = vc_flags_keep(set, n + 1);
    if (p) {
        memcpy(p, s, n);
        p[n] = 0;
    }
    return p;
}

void vc_flags_drop_kept(vc_flags *set)
{
    for (struct vc_kept *k = set->kept; k;) {
        struct vc_kept *next = k->next;
        free(k);
        k = next;
    }
}

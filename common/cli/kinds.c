/* kinds.c - see kinds.h */
#include "common/cli/kinds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 16 };

static const char *const names[] = { "canny", "tile", "depth", "blur", "pose", "gray", "lq", NULL };

/* Tables of numbers may have written "4.0". */
int32_t vc_kind_of(const char *word)
{
    char *end;
    for (int32_t i = 0; names[i]; i++)
        if (!strcmp(word, names[i]))
            return i;
    const double v = strtod(word, &end);
    return end != word && !*end && v >= 0 && v < MOST && floor(v) == v ? (int32_t)v : VC_NO_KIND;
}

/* lines.c - see lines.h */
#include "common/os/lines.h"

#include <inttypes.h>
#include <string.h>

#include "common/os/progress.h"

vc_lines vc_lines_of(const void *text, size_t n, size_t most)
{
    const char *at = text;
    return (vc_lines){ .at = at, .end = at ? at + n : NULL, .most = most };
}

int vc_lines_next(vc_lines *l, const char **line, size_t *n, vc_err *err)
{
    size_t left = (size_t)(l->end - l->at);
    *line = NULL;
    *n = 0;
    if (!left)
        return 0;
    l->number++;
    if (*vc_stop_flag())
        return vc_fail(err, VC_ESTOP, "stopped");
    const char *stop = memchr(l->at, '\n', left > l->most ? l->most + 1 : left);
    if (!stop && left > l->most)
        return vc_fail(err, VC_EFORMAT, "line %" PRId64 ": longer than %zu bytes", l->number,
                       l->most);
    l->ended = stop;
    *line = l->at;
    *n = (size_t)((stop ? stop : l->end) - l->at);
    l->at = stop ? stop + 1 : l->end;
    return 0;
}

/* note.c - keeps the list of failed rows; see errors.h */
#include <stdlib.h>

#include "common/os/map.h"
#include "precompute/run/errors.h"
#include "precompute/run/vprep.h"

int vprep_note(vprep *p, int64_t row, const char *path, const char *stage, const vc_err *why,
               vc_err *err)
{
    int rc = vc_maps_check(0, err);
    if (rc)
        return rc;
    if (why->code == VC_ESTOP || why->code == VC_ENOMEM || why->code == VC_EFULL) {
        *err = *why;
        return why->code;
    }

    pthread_mutex_lock(&p->errors.lock);
    if ((p->errors.n & (p->errors.n - 1)) == 0) {        /* room for the next power of two */
        size_t room = p->errors.n ? 2 * (size_t)p->errors.n : 1;
        vprep_error *grown = realloc(p->errors.list, room * sizeof *grown);
        if (grown)
            p->errors.list = grown;
        else
            rc = vc_fail(err, VC_ENOMEM, "out of memory for the list of errors");
    }
    char *path_copy = vc_format("%s", path ? path : ""), *reason = vc_format("%s", why->text);
    if (!rc && (!path_copy || !reason))
        rc = vc_fail(err, VC_ENOMEM, "out of memory for the list of errors");
    if (!rc) {
        p->errors.list[p->errors.n++] = (vprep_error){ row, path_copy, reason, stage };
    } else {
        free(path_copy);
        free(reason);
    }
    pthread_mutex_unlock(&p->errors.lock);
    if (rc)
        return rc;
    if (p->c.on_error)                                   /* stop */
        return vc_fail(err, VC_EFAIL, "row %lld: %s: %s", (long long)row, path ? path : "",
                       why->text);
    return 0;
}

/* temp.c - temporary files beside their targets; see temp.h */
#include "common/os/temp.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/os/file.h"
#include "common/os/lock.h"

int vc_temp_open(int *fd, char **name, const char *path, vc_err *err)
{
    *fd = -1;
    *name = vc_format("%s.tmp-vlt", path);
    if (!*name)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", path);

    int rc = vc_lock_wait(fd, *name, err);
    if (!rc && ftruncate(*fd, 0)) {
        rc = vc_fail_errno(err, "%s", path);
        close(*fd);
        *fd = -1;
    }
    if (rc) {
        free(*name);
        *name = NULL;
    }
    return rc;
}

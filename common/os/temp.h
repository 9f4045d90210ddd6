/* temp.h - a temporary file that is written beside another file and renamed to it when complete. */
#ifndef COMMON_OS_TEMP_H
#define COMMON_OS_TEMP_H

#include "common/base/err.h"

/* Opens PATH.tmp-vlt for writing, empty, in *fd, its name in *name (the caller frees it). The name
 * is always the same, so that the next writer reuses the file of a killed process. The file is
 * locked: another process that writes path waits until fd is closed, which the caller does after
 * the rename or unlink of *name. *fd is -1 and *name NULL on failure. */
int vc_temp_open(int *fd, char **name, const char *path, vc_err *err);

#endif

/* temp.h - a file that is written beside another one and takes its place when it is whole. */
#ifndef COMMON_OS_TEMP_H
#define COMMON_OS_TEMP_H

#include "common/base/err.h"

/* Opens PATH.tmp-vlt for writing, empty, in *fd, its name in *name (the caller frees it). The name is
 * always the same, so that a file that a killed process left is used up by the next one. The file is
 * locked: another process that writes path waits until fd is closed, which comes after the rename or
 * unlink of *name. *fd is -1 and *name NULL on failure. */
int vc_temp_open(int *fd, char **name, const char *path, vc_err *err);

#endif

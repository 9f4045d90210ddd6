/* file.h - files whole, mapped (map.h), and replaced atomically. Thread-safe: no state. */
#ifndef COMMON_OS_FILE_H
#define COMMON_OS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/os/map.h"

struct stat;
/* Opens a regular file to be read. VC_EFORMAT if it is something else (a FIFO would block); *fd is
 * -1 on failure. */
int vc_file_open(int *fd, struct stat *st, const char *path, vc_err *err);
/* Reads a regular file into malloc'ed memory with a NUL after its end. The caller frees *data.
 * VC_EFORMAT if it is larger than max bytes or no regular file (a FIFO would block). */
int vc_file_read(char **data, size_t *size, const char *path, size_t max, vc_err *err);

/* Replaces path by size bytes of data: temporary file beside it, fsync, rename, fsync of the
 * folder. After a crash the file is the old or the new one, whole. VC_ETORN: a map is torn (map.h),
 * and the file stays as it was. */
int vc_file_write(const char *path, const void *data, size_t size, vc_err *err);

/* mkdir -p. VC_EIO names the part that could not be made. */
int vc_mkdirs(const char *path, vc_err *err);
/* fsync of a folder, so that a rename in it is durable. */
int vc_sync_dir(const char *path, vc_err *err);
/* Removes a file or a folder with all below it; never follows links. Not there: 0. */
int vc_remove_tree(const char *path, vc_err *err);
bool vc_file_exists(const char *path);
bool vc_file_exists_in(const char *dir, const char *name);

/* dir/name in malloc'ed memory, or NULL; an absolute name is kept as it is. */
char *vc_path_join(const char *dir, const char *name);
/* The part after the last '/'; the extension with its dot or "". Borrowed from path. */
const char *vc_path_base(const char *path);
const char *vc_path_ext(const char *path);
/* malloc'ed printf; NULL when out of memory. */
char *vc_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif

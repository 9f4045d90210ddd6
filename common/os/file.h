/* file.h - files read whole, replaced atomically and removed, and paths. Thread-safe: no state. */
#ifndef COMMON_OS_FILE_H
#define COMMON_OS_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/err.h"
#include "common/os/map.h"

struct stat;
/* Opens a regular file for reading. VC_EFORMAT if path is no regular file (a FIFO would block); *fd
 * is -1 on failure. */
int vc_file_open(int *fd, struct stat *st, const char *path, vc_err *err);
/* Reads a regular file into malloc'ed memory with a NUL after its end, which the caller frees.
 * VC_EFORMAT if the file is larger than max bytes or no regular file (a FIFO would block);
 * VC_ESTOP: the program was told to stop before 64 MiB or more were read. */
int vc_file_read(char **data, size_t *size, const char *path, size_t max, vc_err *err);

/* Replaces the file at path by size bytes of data: temporary file beside it, fsync, rename, fsync
 * of the folder. After a crash path holds the whole old or the whole new file. VC_ETORN: a map is
 * torn (map.h), and the file is unchanged. */
int vc_file_write(const char *path, const void *data, size_t size, vc_err *err);

/* Makes a folder and its parents. The error names the folder that could not be made. */
int vc_mkdirs(const char *path, vc_err *err);
/* Calls fsync for a folder, so that renames in it are durable. */
int vc_sync_dir(const char *path, vc_err *err);
/* Removes a file or a folder with all its contents; never follows links. Returns 0 if path does not
 * exist. */
int vc_remove_tree(const char *path, vc_err *err);
/* Returns the next entry of the folder d, which has this path; NULL at the end, if *rc is a failure
 * already, or after an error of the disk, which becomes *rc: it would else shorten the list. */
struct dirent *vc_dir_next(DIR *d, const char *path, int *rc, vc_err *err);
bool vc_file_exists(const char *path);
bool vc_file_exists_in(const char *dir, const char *name);

/* Returns dir/name, or an absolute name unchanged, in malloc'ed memory; NULL: out of memory. */
char *vc_path_join(const char *dir, const char *name);
/* vc_path_base returns the part after the last '/', vc_path_ext the extension with its dot or "";
 * both are borrowed from path. */
const char *vc_path_base(const char *path);
const char *vc_path_ext(const char *path);
/* Prints to malloc'ed memory; NULL: out of memory. */
char *vc_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif

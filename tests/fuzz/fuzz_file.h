/* fuzz_file.h - the files of a fuzz target. fuzz_disk.c writes them to a folder, for unit tests
 * that have the target and for readers that open files by a library; fuzz_memory.c, which the other
 * targets have, keeps them in memory. */
#ifndef TESTS_FUZZ_FUZZ_FILE_H
#define TESTS_FUZZ_FUZZ_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Makes or replaces a file of the target's folder, or of another one if `name` is a whole path.
 * Returns its path, which the next call changes. The data are copied. */
const char *fuzz_file(const char *name, const void *data, size_t n);
/* Removes a file that fuzz_file made. */
void fuzz_unlink(const char *path);
/* Returns the path of the target's folder. */
const char *fuzz_folder(void);

#endif

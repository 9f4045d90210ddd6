/* fuzz_file.h - files of a fuzz target, in a folder of its own that goes at the end. The folder is
 * in memory where the system has /dev/shm: a file on a disk takes longer than the reader. */
#ifndef TESTS_FUZZ_FUZZ_FILE_H
#define TESTS_FUZZ_FUZZ_FILE_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/os/file.h"

static char fuzz_dir[64];

static void fuzz_remove(void)
{
    vc_remove_tree(fuzz_dir, NULL);
}

/* Writes a file below the folder and returns its path, which the next call changes. The file
 * is truncated behind the data, so that its memory is used again. */
static inline const char *fuzz_file(const char *name, const uint8_t *data, size_t n)
{
    static char path[256];
    if (!*fuzz_dir) {
        snprintf(fuzz_dir, sizeof fuzz_dir, "%s/fuzz-XXXXXX",
                 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        if (!mkdtemp(fuzz_dir) || atexit(fuzz_remove))
            abort();
    }
    snprintf(path, sizeof path, "%s/%s", fuzz_dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n || ftruncate(fd, (off_t)n) || close(fd))
        abort();
    return path;
}

#endif

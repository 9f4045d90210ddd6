/* fuzz_disk.c - see fuzz_file.h: a folder that goes when the process ends. It is in memory where
 * the system has /dev/shm: a file on a disk takes longer than its reader. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/os/file.h"
#include "tests/fuzz/fuzz_file.h"

static char folder[64];

static void remove_folder(void)
{
    vc_remove_tree(folder, NULL);
}

const char *fuzz_folder(void)
{
    if (!*folder) {
        snprintf(folder, sizeof folder, "%s/fuzz-XXXXXX",
                 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        if (!mkdtemp(folder) || atexit(remove_folder))
            abort();
    }
    return folder;
}

/* The file is truncated behind the data, so that its memory is used again. */
const char *fuzz_file(const char *name, const void *data, size_t n)
{
    static char path[256];
    snprintf(path, sizeof path, "%s%s%s", *name == '/' ? "" : fuzz_folder(),
             *name == '/' ? "" : "/", name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n || ftruncate(fd, (off_t)n) || close(fd))
        abort();
    return path;
}

void fuzz_unlink(const char *path)
{
    unlink(path);
}

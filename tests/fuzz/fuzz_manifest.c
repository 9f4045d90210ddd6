/* fuzz_manifest.c - any bytes are read as the manifest of a small dataset: an error, or the values
 * of its shards. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/os/file.h"
#include "tests/fuzz/fuzz_file.h"
#include "tests/lib/mutate.h"
#include "tests/lib/shards_make.h"

static char folder[40];

static void remove_folder(void)
{
    vc_remove_tree(folder, NULL);
}

/* Returns the folder of the dataset, which the first call makes: libFuzzer calls no set-up
 * function. The folder is removed when the process ends. */
static const char *dataset(void)
{
    static bool made;
    if (!made) {
        snprintf(folder, sizeof folder, "%s/fuzz-manifest-XXXXXX",
                 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        if (!mkdtemp(folder) || make_dataset(folder, 2, 1 << 30, NULL))
            abort();
        atexit(remove_folder);
        made = true;
    }
    return folder;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "%s/manifest.json", dataset());
    fuzz_file(path, data, size);
    read_everything(folder);
    return 0;
}

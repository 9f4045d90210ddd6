/* fuzz_tensor_cache.c - any bytes are read as diffusion-pipe's metadata.db, beside a shard of 4096
 * bytes: an error, or a cache whose items lie in the shard. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/peers/tensor_cache.h"
#include "tests/lib/mutate.h"
#include "tests/lib/tmp_dir.h"

static char dir[TMP_DIR];

static void put(const char *name, const uint8_t *data, size_t n)
{
    char path[TMP_DIR + 32];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n || close(fd))
        abort();
}

static void remove_dir(void)
{
    vc_remove_tree(dir, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t shard[4096] = "PK";
    vc_err err = { 0 };
    vf_tensor_cache *c;
    if (!*dir) {
        if (tmp_dir_make(dir))
            abort();
        atexit(remove_dir);
        put("shard_0.bin", shard, sizeof shard);
    }
    put("metadata.db", data, size);
    int rc = vf_tensor_cache_open(&c, dir, &err);
    if (rc && (!*err.text || err.code != rc || c))
        abort();                             /* a failure without a message */
    for (size_t i = 0; !rc && i < vf_tensor_cache_count(c); i++) {
        vf_pt *p;
        if (!vf_tensor_cache_get(c, i, &p, &err))
            abort();                         /* the shard holds no value */
    }
    vf_tensor_cache_close(c);
    return 0;
}

/* fuzz_tensor_cache.c - any bytes are read as diffusion-pipe's metadata.db, beside a shard of 4096
 * bytes: an error, or a cache whose items lie in the shard. */
#include "formats/peers/tensor_cache.h"
#include "tests/fuzz/fuzz_file.h"
#include "tests/lib/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t shard[4096] = "PK";
    vc_err err = { 0 };
    vf_tensor_cache *c;
    if (!*fuzz_dir)
        fuzz_file("shard_0.bin", shard, sizeof shard);
    fuzz_file("metadata.db", data, size);
    int rc = vf_tensor_cache_open(&c, fuzz_dir, &err);
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

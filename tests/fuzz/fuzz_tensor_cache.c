/* fuzz_tensor_cache.c - any bytes are read as diffusion-pipe's metadata.db, beside a shard of 4096
 * bytes: an error, or a cache whose items lie in the shard. Both are in memory, since opening a
 * file takes longer than reading such a small one. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"

/* The doubles of the files: the database is the input, any other file is the shard. */
static int open_input(const char *path, sqlite3 **db, int flags, const char *vfs);
static int map_input(vc_map *m, const char *path, vc_err *err);
static bool is_there(const char *path);
static void forget_map(vc_map *m);
#define sqlite3_open_v2 open_input
#define vc_map_open map_input
#define vc_map_close forget_map
#define vc_file_exists is_there
/* A test that has this target reads files too, by the functions of these names. */
#define vf_tensor_cache_open memory_open
#define vf_tensor_cache_count memory_count
#define vf_tensor_cache_get memory_get
#define vf_tensor_cache_close memory_close
#define vf_tensor_cache_index memory_index
#include "formats/peers/tensor_cache.c"
#undef sqlite3_open_v2
#include "tests/lib/mutate.h"

static const uint8_t *input;
static size_t input_size;

static bool is_there(const char *path)
{
    return *path;
}

static void forget_map(vc_map *m)
{
    *m = (vc_map){ .data = NULL };
}

static int map_input(vc_map *m, const char *path, vc_err *err)
{
    static const uint8_t items[4096] = "PK";
    const bool is_database = strstr(path, "metadata.db");

    (void)err;
    *m = (vc_map){ .data = is_database ? input : items,
                   .size = is_database ? input_size : sizeof items };
    return 0;
}

static int open_input(const char *path, sqlite3 **db, int flags, const char *vfs)
{
    (void)path, (void)flags, (void)vfs;
    int rc = sqlite3_open_v2(":memory:", db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    return rc ? rc : sqlite3_deserialize(*db, "main", (uint8_t *)(uintptr_t)input,
                                         (int64_t)input_size, (int64_t)input_size,
                                         SQLITE_DESERIALIZE_READONLY);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vc_err err = { 0 };
    vf_tensor_cache *c;
    input = data;
    input_size = size;
    int rc = vf_tensor_cache_open(&c, "set", &err);
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

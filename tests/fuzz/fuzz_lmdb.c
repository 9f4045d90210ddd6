/* fuzz_lmdb.c - any bytes are read as an LMDB file: an error, or values inside the file. */
#include <stdlib.h>
#include <string.h>

#include "formats/lmdb/lmdb_read.h"
#include "formats/dataset/parts.h"
#include "tests/lib/mutate.h"

static void touch(const vf_lmdb *m, vf_bytes b)
{
    vf_bytes file = vf_lmdb_file(m);
    if (b.size && (b.data < file.data || b.data + b.size > file.data + file.size))
        abort();
    mutate_touch(b.data, b.size);
}

static void walk(const vf_lmdb *m, const char *name)
{
    vf_tree t;
    vf_lmdb_cursor c;
    vf_bytes key, value, again;
    vc_err err;
    int steps = 0, rc;
    if (vf_lmdb_tree(m, name, &t, &err))
        return;
    vf_lmdb_start(&c, m, &t);
    while ((rc = vf_lmdb_next(&c, &key, &value, &err)) > 0 && steps++ < 2000) {
        touch(m, key);
        touch(m, value);
        rc = vf_lmdb_get(m, &t, key.data, key.size, &again, &err);
        if (!rc)
            touch(m, again);
    }
    if (rc == 0 && vf_lmdb_next(&c, &key, &value, &err) != 0)
        abort();                             /* a walk that has ended must not continue */
    size_t size;
    vf_lmdb_start(&c, m, &t);
    for (steps = 0; vf_lmdb_next_size(&c, &key, &size, &err) > 0 && steps < 2000; steps++)
        touch(m, key);
    vf_lmdb_get(m, &t, "\xff", 1, &again, &err);
    vf_lmdb_get(m, &t, "", 0, &again, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vf_lmdb *m;
    vf_index x;
    vc_err err;
    if (vf_lmdb_parse(&m, data, size, &err))
        return 0;
    for (const char *const *db = vf_shard_dbs; *db; db++)
        walk(m, *db);
    walk(m, "text");
    if (!vf_index_open(&x, m, &err))
        for (uint32_t i = 0; i < x.n; i++) {
            vf_index_item item;
            vf_index_get(&x, i, &item);
        }
    vf_lmdb_check(m, &err);
    vf_lmdb_close(m);
    return 0;
}

/* reread.c - reads a text back that a writer holds; see dataset.h */
#include <stdlib.h>
#include <string.h>

#include "formats/dataset/writer.h"

static int copy(void **value, size_t *n, const void *data, size_t size, vc_err *err)
{
    *value = malloc(size ? size : 1);
    if (!*value)
        return vc_fail(err, VC_ENOMEM, "out of memory for a text of %zu bytes", size);
    memcpy(*value, data, size);
    *n = size;
    return 0;
}

static int from_closed(const vf_writer *w, const vf_shard_info *s, const char *key, void **value,
                       size_t *n, vc_err *err)
{
    vf_lmdb *m;
    vf_tree t;
    vf_bytes v;
    int rc = vf_shard_open(&m, w->dir, s->file, s->bytes, err);
    if (rc)
        return rc;
    rc = vf_shard_tree(m, vf_text_dbs[VF_DB_TEXT], &t, err);
    if (!rc)
        rc = vf_lmdb_get(m, &t, key, strlen(key), &v, err);
    if (!rc)
        rc = copy(value, n, v.data, v.size, err);
    vf_lmdb_close(m);
    return rc;
}

int vf_writer_read_text(vf_writer *w, vf_key k, void **value, size_t *n, vc_err *err)
{
    char hex[VF_KEY_HEX];
    const void *data;
    size_t size;
    int rc = VC_ENOENT;
    *value = NULL;
    vf_key_hex(hex, k);
    if (!vf_writer_has_text(w, k))
        return vc_fail(err, VC_ENOENT, "text %s: never put", hex);
    if (w->text.env && !(rc = vf_env_get(w->text.env, VF_DB_TEXT, hex, strlen(hex), &data, &size,
                                         err)))
        return copy(value, n, data, size, err);
    for (int i = w->manifest.n_shards; rc == VC_ENOENT && i-- > 0;)
        if (w->manifest.shard[i].text)
            rc = from_closed(w, &w->manifest.shard[i], hex, value, n, err);
    return vc_context(err, rc, "%s", w->dir);
}

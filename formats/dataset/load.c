/* load.c - what a shard's file tells a writer: its keys, samples and prompts. See writer.h */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats/dataset/writer.h"

static int load_keys(const vf_lmdb *m, const char *db, vf_keymap *keys, vc_err *err)
{
    vf_tree t;
    vf_lmdb_cursor c;
    vf_bytes key, value;
    int rc = vf_shard_tree(m, db, &t, err);
    if (rc)
        return rc;
    vf_lmdb_start(&c, m, &t);
    while ((rc = vf_lmdb_next(&c, &key, &value, err)) > 0) {
        vf_key k;
        if (!vf_key_parse_n(&k, (const char *)key.data, key.size))
            return vc_fail(err, VC_EFORMAT, "%s: a key of %zu bytes: 32 hex digits expected", db,
                           key.size);
        if ((rc = vf_keymap_put(keys, k, 0, err)))
            return rc;
    }
    return vc_context(err, rc, "%s", db);
}

static int load_prompts(vf_writer *w, const vf_lmdb *m, vc_err *err)
{
    vf_tree t;
    vf_lmdb_cursor c;
    vf_bytes key, value;
    int rc = vf_shard_tree(m, "validation", &t, err);
    if (rc)
        return rc;
    vf_lmdb_start(&c, m, &t);
    while ((rc = vf_lmdb_next(&c, &key, &value, err)) > 0) {
        uint32_t i;
        vf_prompt *p;
        if (!vf_prompt_key_parse(key, &i))
            return vc_fail(err, VC_EFORMAT, "validation: six digits expected as key");
        if ((rc = vf_writer_prompt(w, i, &p, err)))
            return rc;
        *p = (vf_prompt){ .hash = vf_hash(value.data, value.size), .live = !vf_is_dropped(value) };
    }
    return rc;
}

/* Maps a shard's bucket numbers to numbers of w. */
static int load_buckets(vf_writer *w, const vf_index *x, uint32_t **out, uint32_t *n, vc_err *err)
{
    cJSON *list = NULL;
    const cJSON *o;
    *out = NULL;
    *n = 0;
    int rc = vf_buckets_parse(&list, x->buckets, err);
    uint32_t *map = rc ? NULL : calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *map);
    if (!rc && !map)
        rc = vc_no_memory(err);
    cJSON_ArrayForEach(o, list) {
        const char *key;
        vf_entry grid = { 0 };
        if (rc || (rc = vf_json_str(o, "key", &key, err)) || (rc = vf_grid_read(&grid, o, err)) ||
            (rc = vf_writer_bucket(w, key, &grid, &map[*n], err)))
            break;
        ++*n;
    }
    cJSON_Delete(list);
    if (rc) {
        free(map);
        return vc_context(err, rc, "index: buckets");
    }
    *out = map;
    return 0;
}

static int load_closed(vf_writer *w, const vf_lmdb *m, unsigned number, vc_err *err)
{
    vf_index x;
    uint32_t *bucket = NULL, n = 0;
    int rc = vf_index_open(&x, m, err);
    if (!rc)
        rc = load_buckets(w, &x, &bucket, &n, err);
    for (uint32_t i = 0; i < x.n && !rc; i++) {
        vf_index_item item;
        vf_index_get(&x, i, &item);
        bool dropped = item.entry.flags & VF_ENTRY_DROPPED;
        if (!dropped && item.bucket >= n)
            rc = vc_fail(err, VC_EFORMAT, "index: bucket %" PRIu32 " of %" PRIu32, item.bucket, n);
        item.bucket = dropped || rc ? 0 : bucket[item.bucket];
        if (!rc)
            rc = vf_writer_note(w, &item, number, false, err);
    }
    free(bucket);
    return rc;
}

/* Loads an open shard from its records, as it has no index yet. */
static int load_open(vf_writer *w, const vf_lmdb *m, unsigned number, vc_err *err)
{
    vf_tree t;
    vf_lmdb_cursor c;
    vf_bytes key, value;
    int rc = vf_shard_tree(m, "sample", &t, err);
    if (rc)
        return rc;
    vf_lmdb_start(&c, m, &t);
    while ((rc = vf_lmdb_next(&c, &key, &value, err)) > 0) {
        vf_record r;
        cJSON *json;
        vf_index_item item = { 0 };
        if ((rc = vf_record_read(&r, &json, key, value, err)))
            return rc;
        item = (vf_index_item){ .entry = r.entry, .hash = r.hash, .id = r.id };
        if (!(r.entry.flags & VF_ENTRY_DROPPED))
            rc = vf_writer_bucket(w, r.bucket, &r.entry, &item.bucket, err);
        if (!rc)
            rc = vf_writer_note(w, &item, number, false, err);
        cJSON_Delete(json);
        if (rc)
            return rc;
    }
    return rc;
}

/* Sums up the pairs of an open shard, of which the index is no part. */
static int load_held(vf_half *h, const vf_lmdb *m, const char *const *dbs, vc_err *err)
{
    vf_lmdb_cursor c;
    vf_bytes key, value;
    int rc = 0;
    h->held = 0;
    for (; *dbs && !rc; dbs++) {
        vf_tree t;
        if (!strcmp(*dbs, vf_shard_dbs[VF_DB_INDEX]))
            continue;
        rc = vf_shard_tree(m, *dbs, &t, err);
        vf_lmdb_start(&c, m, &t);
        while (!rc && (rc = vf_lmdb_next(&c, &key, &value, err)) > 0) {
            h->held += vf_pair_bytes(key.size, value.size);
            rc = 0;
        }
    }
    return rc;
}

int vf_writer_load(vf_writer *w, const char *file, bool text, unsigned number, int64_t bytes,
                   vc_err *err)
{
    vf_lmdb *m;
    int rc = vf_shard_open(&m, w->dir, file, bytes, err);
    if (rc)
        return rc;
    if (text) {
        rc = load_keys(m, "text", &w->texts, err);
        if (!rc)
            rc = load_prompts(w, m, err);
    } else {
        rc = load_keys(m, "latent", &w->latents, err);
        if (!rc)
            rc = bytes < 0 ? load_open(w, m, number, err) : load_closed(w, m, number, err);
    }
    if (!rc && bytes < 0)
        rc = load_held(text ? &w->text : &w->shard, m, text ? vf_text_dbs : vf_shard_dbs, err);
    vf_lmdb_close(m);
    /* Only the file itself may be missing; a value that the shard lacks is damage. */
    return vc_context(err, rc == VC_ENOENT ? VC_EFORMAT : rc, "%s", file);
}

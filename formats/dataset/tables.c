/* tables.c - what a writer knows of its dataset: samples, buckets and validation prompts, and the
 * questions that are answered from them. See dataset.h and writer.h */
#include "formats/dataset/writer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PROMPT = 999999 };                /* six digits in a key */

/* ---- tables ---- */

static uint64_t rank_of(const void *slots, uint32_t i)
{
    return vf_entry_rank(&((const vf_slot *)slots)[i].item.entry);
}

static uint64_t id_of(const void *slots, uint32_t i)
{
    return ((const vf_slot *)slots)[i].item.id;
}

vf_slot *vf_writer_slot(const vf_writer *w, uint32_t number, uint32_t variant)
{
    uint32_t at;
    const uint64_t rank = (uint64_t)number << 16 | variant;
    return rank < w->ranks_end && vf_indexmap_get(&w->slot_at, w->slot, rank_of, rank, &at)
               ? &w->slot[at]
               : NULL;
}

/* Adds a live item to the manifest's sums, or takes it out of them. */
static void count(vf_writer *w, const vf_index_item *item, bool add)
{
    if (item->entry.flags & VF_ENTRY_DROPPED)
        return;
    w->live += add ? 1u : -1u;
    w->bucket[item->bucket].live += add ? 1 : -1;
    if (add)
        vf_root_add(&w->root, item->hash);
    else
        vf_root_take(&w->root, item->hash);
}

int vf_writer_note(vf_writer *w, const vf_index_item *item, unsigned shard, bool seen, vc_err *err)
{
    vf_slot *s = vf_writer_slot(w, item->entry.number, item->entry.variant);
    int rc = 0;
    if (!s) {
        if (w->slots == w->slots_room) {
            uint32_t room = w->slots_room ? 2 * w->slots_room : 256;
            vf_slot *p = realloc(w->slot, room * sizeof *p);
            if (!p)
                return vc_fail(err, VC_ENOMEM, "out of memory for %" PRIu32 " samples", room);
            w->slot = p;
            w->slots_room = room;
        }
        s = &w->slot[w->slots];
        *s = (vf_slot){ .item = { .entry = { .number = item->entry.number,
                                             .variant = item->entry.variant,
                                             .flags = VF_ENTRY_DROPPED } } };
        rc = vf_indexmap_put(&w->slot_at, w->slot, rank_of, w->slots, err);
        if (rc)
            return rc;
        w->slots++;
        const uint64_t rank = vf_entry_rank(&item->entry);
        w->ranks_end = rank < w->ranks_end ? w->ranks_end : rank + 1;
    }
    count(w, &s->item, false);
    count(w, item, true);
    s->item = *item;
    s->shard = shard;
    s->seen |= seen;
    const uint32_t at = (uint32_t)(s - w->slot);
    w->noted_from = w->noted_to && w->noted_from < at ? w->noted_from : at;
    w->noted_to = w->noted_to > at ? w->noted_to : at + 1;
    if (item->entry.number >= w->next_number)
        w->next_number = item->entry.number + (item->entry.number < UINT32_MAX);
    if (!w->copies && !(item->entry.flags & VF_ENTRY_DROPPED))
        rc = vf_indexmap_put(&w->id_at, w->slot, id_of, at, err);
    return rc;
}

int vf_writer_bucket(vf_writer *w, const char *key, const vf_entry *grid, uint32_t *bucket,
                     vc_err *err)
{
    uint16_t dims[3] = { grid->f, grid->h, grid->w };
    vf_key k = vf_hash2(dims, sizeof dims, key, strlen(key));
    uint64_t at;
    if (vf_keymap_get(&w->bucket_at, k, &at)) {
        *bucket = (uint32_t)at;
        return 0;
    }
    if (w->buckets == w->buckets_room) {
        uint32_t room = w->buckets_room ? 2 * w->buckets_room : 64;
        vf_bucket *p = realloc(w->bucket, room * sizeof *p);
        if (!p)
            return vc_fail(err, VC_ENOMEM, "out of memory for %" PRIu32 " buckets", room);
        w->bucket = p;
        w->buckets_room = room;
    }
    char *copy = strdup(key);
    int rc = copy ? vf_keymap_put(&w->bucket_at, k, w->buckets, err)
                  : vc_no_memory(err);
    if (rc) {
        free(copy);
        return rc;
    }
    *bucket = w->buckets;
    w->bucket[w->buckets++] = (vf_bucket){ copy, grid->f, grid->h, grid->w, 0 };
    return 0;
}

int vf_writer_prompt(vf_writer *w, uint32_t i, vf_prompt **out, vc_err *err)
{
    if (i > MAX_PROMPT)
        return vc_fail(err, VC_EINVAL, "validation prompt %" PRIu32 ": at most %d", i, MAX_PROMPT);
    if (i >= w->prompts) {
        vf_prompt *p = realloc(w->prompt, (i + 1) * sizeof *p);
        if (!p)
            return vc_fail(err, VC_ENOMEM, "out of memory for %" PRIu32 " validation prompts",
                           i + 1);
        memset(p + w->prompts, 0, (i + 1 - w->prompts) * sizeof *p);
        w->prompt = p;
        w->prompts = i + 1;
    }
    *out = &w->prompt[i];
    return 0;
}

/* ---- queries ---- */

int vf_writer_lost_shards(const vf_writer *w)
{
    return w->lost;
}

bool vf_writer_has_latent(const vf_writer *w, vf_key k)
{
    return vf_keymap_get(&w->latents, k, NULL);
}

bool vf_writer_has_text(const vf_writer *w, vf_key k)
{
    return vf_keymap_get(&w->texts, k, NULL);
}

uint32_t vf_writer_next_number(const vf_writer *w)
{
    return w->next_number;
}

int vf_writer_number_of(const vf_writer *w, uint64_t id, uint32_t *number)
{
    uint32_t at;
    if (!vf_indexmap_get(&w->id_at, w->slot, id_of, id, &at) || !vf_slot_live(&w->slot[at]))
        return VC_ENOENT;
    *number = w->slot[at].item.entry.number;
    return 0;
}

uint32_t vf_writer_count(const vf_writer *w)
{
    return w->live;
}

const vf_key *vf_writer_clip_of(const vf_writer *w, uint32_t number, uint32_t variant)
{
    const vf_slot *s = vf_writer_slot(w, number, variant);
    return vf_slot_live(s) ? &s->item.entry.latent : NULL;
}

/* Reads a record of a closed shard into w->text_of, NUL-ended; NULL if it is missing or damaged. */
static const char *old_text(vf_writer *w, unsigned shard, const char *key, vf_key hash)
{
    vf_tree t;
    vf_bytes v;
    if (!w->old || w->old_number != shard) {
        char file[VF_SHARD_NAME];
        vf_lmdb_close(w->old);
        w->old_number = shard;
        if (vf_shard_open(&w->old, w->dir, vf_shard_name(file, false, shard), -1, NULL))
            return NULL;
    }
    if (vf_lmdb_tree(w->old, vf_shard_dbs[VF_DB_SAMPLE], &t, NULL) ||
        vf_lmdb_get(w->old, &t, key, VF_SAMPLE_KEY_LEN, &v, NULL))
        return NULL;
    vf_key k = vf_hash2(key, VF_SAMPLE_KEY_LEN, v.data, v.size);
    if (memcmp(&k, &hash, sizeof k))
        return NULL;
    free(w->text_of);
    w->text_of = strndup((const char *)v.data, v.size);
    return w->text_of;
}

const char *vf_writer_sample(vf_writer *w, uint32_t number, uint32_t variant)
{
    char key[VF_SAMPLE_KEY];
    const vf_slot *s = vf_writer_slot(w, number, variant);
    if (!vf_slot_live(s))
        return NULL;
    vf_sample_key(key, number, variant);
    if (!w->shard.env || s->shard != w->shard.number)
        return old_text(w, s->shard, key, s->item.hash);
    const void *text;
    size_t n;
    if (vf_env_get(w->shard.env, VF_DB_SAMPLE, key, VF_SAMPLE_KEY_LEN, &text, &n, NULL))
        return NULL;
    return text;
}

/* ---- manifest ---- */

static int by_grid(const void *a, const void *b)
{
    const vf_bucket *x = *(vf_bucket *const *)a, *y = *(vf_bucket *const *)b;
    int d[3] = { x->f - y->f, x->h - y->h, x->w - y->w };
    for (int i = 0; i < 3; i++)
        if (d[i])
            return d[i];
    return strcmp(x->key, y->key);
}

cJSON *vf_writer_bucket_json(const vf_bucket *b)
{
    cJSON *o = cJSON_CreateObject();
    int dims[3] = { b->f, b->h, b->w };
    if (o && cJSON_AddStringToObject(o, "key", b->key) &&
        cJSON_AddItemToObject(o, "latent", cJSON_CreateIntArray(dims, 3)))
        return o;
    cJSON_Delete(o);
    return NULL;
}

/* Lists the buckets with live samples, in order of their grids. */
static cJSON *buckets_json(const vf_writer *w)
{
    const vf_bucket **order = calloc((size_t)w->buckets + 1, sizeof *order);
    cJSON *list = order ? cJSON_CreateArray() : NULL;
    size_t n = 0;
    for (uint32_t i = 0; i < w->buckets && order; i++)
        if (w->bucket[i].live)
            order[n++] = &w->bucket[i];
    if (n)
        qsort(order, n, sizeof *order, by_grid);
    for (size_t i = 0; i < n && list; i++) {
        cJSON *o = vf_writer_bucket_json(order[i]);
        if (!o || vf_json_add_int(o, "samples", order[i]->live) ||
            !cJSON_AddItemToArray(list, o)) {
            cJSON_Delete(o);
            cJSON_Delete(list);
            list = NULL;
        }
    }
    free(order);
    return list;
}

int vf_writer_manifest(vf_writer *w, bool complete, vc_err *err)
{
    vf_manifest *m = &w->manifest;
    m->complete = complete;
    m->samples = w->live;
    m->root = w->root;
    cJSON *buckets = buckets_json(w);
    int rc = buckets ? vf_manifest_write(m, w->dir, w->head, buckets, err)
                     : vc_fail(err, VC_ENOMEM, "%s: out of memory", VF_MANIFEST);
    cJSON_Delete(buckets);
    return rc;
}

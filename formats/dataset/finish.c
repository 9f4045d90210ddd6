/* finish.c - closes shards. See writer.h
 *
 * A shard is closed in these steps, and a kill between any two loses nothing: the index is
 * committed, the pairs are written to a file of their final layout, which is synced and replaces
 * the shard's, and the manifest is replaced. Until the manifest names the shard, the next run
 * continues the shard as an open one. */
#include "formats/dataset/writer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/os/file.h"

/* Publishes the half's sealed shard, if it has one. */
static int publish(vf_writer *w, vf_half *h, vc_err *err)
{
    if (!h->is_sealed)
        return 0;
    h->is_sealed = false;
    return vf_writer_publish(w, h, &h->sealed, err);
}

int vf_writer_publish_sealed(vf_writer *w, vc_err *err)
{
    int rc = publish(w, &w->text, err);
    return rc ? rc : publish(w, &w->shard, err);
}

/* Finishes the file of h, lays it out anew and adds the shard to the manifest. */
static int close_half(vf_writer *w, vf_half *h, vf_shard_info *s, vc_err *err)
{
    char file[VF_OPEN_NAME];
    vf_env *env = h->env;
    uint64_t bytes;
    h->env = NULL;
    h->held = 0;
    s->text = h == &w->text;
    int rc = vf_env_commit(env, err);
    vf_env_close(env);
    char *path = vc_path_join(w->dir, vf_writer_half_name(w, h, file));
    if (!rc)
        rc = path ? vf_writer_lay_out(path, s->text, &bytes, &s->hash, err) : vc_no_memory(err);
    free(path);
    if (rc)
        return rc;
    s->bytes = (int64_t)bytes;
    if (h->number == VF_NO_NUMBER) {
        h->sealed = *s;
        h->is_sealed = true;
        return w->sealing ? 0 : publish(w, h, err);
    }
    s->number = h->number++;
    vf_shard_name(s->file, s->text, s->number);
    if (!s->text)
        w->noted_from = w->noted_to = 0;
    rc = vc_sync_dir(w->dir, err);
    if (!rc)
        rc = vf_manifest_add(&w->manifest, s, err);
    return rc ? rc : vf_writer_manifest(w, false, err);
}

/* Removes the file of an env into which no value was put. */
static int discard(vf_writer *w, vf_half *h, vc_err *err)
{
    char file[VF_OPEN_NAME];
    char *path = vc_path_join(w->dir, vf_writer_half_name(w, h, file));
    vf_env_close(h->env);
    h->env = NULL;
    h->held = 0;
    int rc = path ? vc_remove_tree(path, err) : vc_no_memory(err);
    free(path);
    return rc;
}

/* Commits and counts both sub-databases. Returns 1 if the half has no values to close: an empty
 * file is removed. */
static int count_half(vf_writer *w, vf_half *h, int a, int b, int64_t n[2], vc_err *err)
{
    uint64_t in_a = 0, in_b = 0;
    int rc = vf_env_commit(h->env, err);
    if (!rc)
        rc = vf_env_count(h->env, a, &in_a, err);
    if (!rc)
        rc = vf_env_count(h->env, b, &in_b, err);
    if (rc)
        return rc;
    n[0] = (int64_t)in_a;
    n[1] = (int64_t)in_b;
    if (in_a + in_b)
        return 0;
    rc = discard(w, h, err);
    return rc ? rc : 1;
}

int vf_writer_close_text(vf_writer *w, vc_err *err)
{
    int64_t n[2];
    if (!w->text.env)
        return 0;
    int rc = count_half(w, &w->text, VF_DB_TEXT, VF_DB_VALIDATION, n, err);
    if (rc)
        return rc < 0 ? rc : 0;
    vf_shard_info s = { .texts = n[0] };
    return close_half(w, &w->text, &s, err);
}

static const vf_entry *entry_of(const vf_writer *w, uint32_t i)
{
    return &w->slot[i].item.entry;
}

static int by_rank(const void *a, const void *b, void *w)
{
    uint64_t x = vf_entry_rank(entry_of(w, *(const uint32_t *)a));
    uint64_t y = vf_entry_rank(entry_of(w, *(const uint32_t *)b));
    return (x > y) - (x < y);
}

/* Lists the slots of the open shard in key order. Most are in it already. */
static int list_slots(vf_writer *w, uint32_t **out, uint32_t *n, vc_err *err)
{
    const uint32_t room = w->noted_to - w->noted_from;
    uint32_t *at = *out = calloc((size_t)room + 1, sizeof *at);
    bool sorted = true;
    *n = 0;
    if (!at)
        return vc_fail(err, VC_ENOMEM, "index: out of memory for %u samples", (unsigned)room);
    for (uint32_t i = w->noted_from; i < w->noted_to; i++)
        if (w->slot[i].shard == w->shard.number) {
            sorted &= !*n || vf_entry_rank(entry_of(w, at[*n - 1])) < vf_entry_rank(entry_of(w, i));
            at[(*n)++] = i;
        }
    if (!sorted)
        qsort_r(at, *n, sizeof *at, by_rank, w);
    return 0;
}

/* Lists the buckets of the slots; place[b] becomes the place of bucket b of the writer. */
static cJSON *list_buckets(const vf_writer *w, const uint32_t *at, uint32_t n, uint32_t *place)
{
    cJSON *list = cJSON_CreateArray();
    uint32_t used = 0;
    for (uint32_t i = 0; i < n && list; i++) {
        const vf_index_item *item = &w->slot[at[i]].item;
        if (item->entry.flags & VF_ENTRY_DROPPED || place[item->bucket])
            continue;
        cJSON *o = vf_writer_bucket_json(&w->bucket[item->bucket]);
        if (!o || !cJSON_AddItemToArray(list, o)) {
            cJSON_Delete(list);
            return NULL;
        }
        place[item->bucket] = ++used;
    }
    for (uint32_t b = 0; b < w->buckets; b++)
        place[b] -= place[b] > 0;
    return list;
}

typedef struct listed {                      /* the samples of an index */
    const vf_writer *w;
    const uint32_t *at, *place;
} listed;

static void get_item(const void *arg, uint32_t i, vf_index_item *item)
{
    const listed *l = arg;
    *item = l->w->slot[l->at[i]].item;
    if (!(item->entry.flags & VF_ENTRY_DROPPED))
        item->bucket = l->place[item->bucket];
}

/* Writes an array of the index. A large one has a transaction of its own, as that of millions of
 * samples takes hundreds of megabytes. */
static int put_array(vf_writer *w, const char *name, vf_index_array which, const listed *l,
                     uint32_t n, vc_err *err)
{
    void *bytes = NULL;
    size_t size = 0;
    int rc = vf_index_pack(which, get_item, l, n, &bytes, &size, err);
    if (!rc)
        rc = vf_env_put(w->shard.env, VF_DB_INDEX, name, strlen(name), bytes, size, err);
    free(bytes);
    return rc || vf_env_waiting(w->shard.env) < VF_BATCH ? rc : vf_env_commit(w->shard.env, err);
}

static int put_index(vf_writer *w, vc_err *err)
{
    uint32_t n = 0, *at = NULL, *place = calloc((size_t)w->buckets + 1, sizeof *place);
    int rc = place ? list_slots(w, &at, &n, err) : vc_no_memory(err);
    cJSON *buckets = rc ? NULL : list_buckets(w, at, n, place);
    char *text = buckets ? vf_json_line(buckets) : NULL;
    const listed l = { w, at, place };
    if (!rc && !text)
        rc = vc_fail(err, VC_ENOMEM, "index: out of memory");
    if (!rc)
        rc = put_array(w, "entries", VF_INDEX_ENTRIES, &l, n, err);
    if (!rc)
        rc = put_array(w, "records", VF_INDEX_RECORDS, &l, n, err);
    if (!rc)
        rc = vf_env_put(w->shard.env, VF_DB_INDEX, "buckets", 7, text, strlen(text), err);
    free(text);
    free(at);
    free(place);
    cJSON_Delete(buckets);
    return rc;
}

int vf_writer_close_shard(vf_writer *w, vc_err *err)
{
    int64_t n[2];
    if (!w->shard.env)
        return 0;
    int rc = count_half(w, &w->shard, VF_DB_SAMPLE, VF_DB_LATENT, n, err);
    if (rc)
        return rc < 0 ? rc : 0;
    rc = vf_writer_close_text(w, err);
    if (!rc)
        rc = put_index(w, err);
    if (rc)
        return rc;
    vf_shard_info s = { .samples = n[0], .latents = n[1] };
    return close_half(w, &w->shard, &s, err);
}

int vf_writer_close_full(vf_writer *w, vc_err *err)
{
    int rc = 0;
    if (w->shard.env && w->shard.held >= w->shard_size)
        rc = vf_writer_close_shard(w, err);
    if (!rc && w->text.env && w->text.held >= w->shard_size)
        rc = vf_writer_close_text(w, err);
    return rc;
}

/* read.c - opens a dataset for reading. See dataset.h and read.h
 *
 * Opening reads the manifest, the first pages of each shard and its index, and lists the place of
 * each sample's newest entry. The entries stay in the maps of the shards. Records and values are
 * looked up in the shards' trees only when a caller gets them. */
#include "formats/dataset/read.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/map.h"

enum {
    MAX_SLOTS = 1 << 22,
    RELEASE_EVERY = 1 << 20                  /* entries that are merged before their pages are
                                              * released: 80 MiB of index */
};

/* ---- merging the shards' entries ---- */

typedef struct feed {                        /* a shard's next entry */
    uint64_t rank;
    int shard;
    uint32_t at;
} feed;

/* Orders entries by sample; of the same sample the newest shard comes first. */
static bool before(const feed *a, const feed *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->shard > b->shard;
}

static void sift(feed *heap, int n, int i)
{
    for (int child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(&heap[child + 1], &heap[child]))
            child++;
        if (before(&heap[i], &heap[child]))
            return;
        feed t = heap[i];
        heap[i] = heap[child];
        heap[child] = t;
    }
}

/* Takes the heap's first entry and replaces it by the next entry of its shard. */
static int pop(const vf_dataset *d, feed *heap, int *n, vf_index_item *item, vc_err *err)
{
    const vf_index *x = &d->shard[heap->shard].index;
    vf_entry next;
    vf_index_get(x, heap->at, item);
    if (++heap->at < x->n) {
        vf_index_entry(x, heap->at, &next);
        if (vf_entry_rank(&next) <= heap->rank)
            return vc_fail(err, VC_EFORMAT, "%s: index: entry %" PRIu32 " is out of order",
                           d->shard[heap->shard].info->file, heap->at);
        heap->rank = vf_entry_rank(&next);
    } else {
        *heap = heap[--*n];
    }
    sift(heap, *n, 0);
    return 0;
}

static int check_entry(const vf_entry *e, vc_err *err)
{
    char key[VF_SAMPLE_KEY];
    if (e->variant <= VF_MAX_VARIANT && e->f && e->h && e->w && e->weight >= 0 &&
        e->weight <= 1e9f && e->fps >= 0 && e->fps <= 1e6f)
        return 0;
    return vc_fail(err, VC_EFORMAT, "index: entry of %s: latent [%u,%u,%u], weight %g, fps %g",
                   vf_sample_key(key, e->number, e->variant), e->f, e->h, e->w, (double)e->weight,
                   (double)e->fps);
}

/* Lists the newest entry of a sample, unless the sample is dropped. */
static int list_entry(vf_dataset *d, const feed *from, const vf_index_item *item, vc_err *err)
{
    if (item->entry.flags & VF_ENTRY_DROPPED)
        return 0;
    int rc = vc_context(err, check_entry(&item->entry, err), "%s",
                        d->shard[from->shard].info->file);
    vf_root_add(&d->root, item->hash);
    d->at[d->n] = from->at;
    d->in[d->n++] = (uint16_t)from->shard;
    if (d->n % RELEASE_EVERY == 0)
        vf_dataset_release(d);
    return rc;
}

/* Merges the feeds of the heap. */
static int list_entries(vf_dataset *d, feed *heap, int n, vc_err *err)
{
    uint64_t last = UINT64_MAX;
    bool listed = false;
    int rc = 0;
    while (n && !rc) {
        vf_index_item item;
        const feed from = *heap;
        const uint32_t next = d->n;
        rc = pop(d, heap, &n, &item, err);
        if (!rc && from.rank != last) {
            last = from.rank;
            rc = list_entry(d, &from, &item, err);
            listed = d->n > next;
        } else if (!rc && listed) {
            d->older[(next - 1) / 8] |= (uint8_t)(1u << (next - 1) % 8);
        }
    }
    return rc;
}

static int merge_entries(vf_dataset *d, vc_err *err)
{
    uint64_t total = 0;
    feed *heap = calloc((size_t)d->n_shards + 1, sizeof *heap);
    int n = 0, rc = 0;
    for (int i = 0; i < d->n_shards; i++) {
        vf_entry e;
        const vf_index *x = &d->shard[i].index;
        total += x->n;
        if (!x->n || !heap)
            continue;
        vf_index_entry(x, 0, &e);
        heap[n++] = (feed){ vf_entry_rank(&e), i, 0 };
    }
    d->at = total <= UINT32_MAX ? malloc((total + 1) * sizeof *d->at) : NULL;
    d->in = malloc((total + 1) * sizeof *d->in);
    d->older = calloc(total / 8 + 1, sizeof *d->older);
    if (!d->at || !d->in || !d->older || !heap)
        rc = vc_fail(err, VC_ENOMEM, "out of memory for %" PRIu64 " samples", total);
    for (int i = n / 2 - 1; i >= 0; i--)
        sift(heap, n, i);
    if (!rc)
        rc = list_entries(d, heap, n, err);
    free(heap);
    return rc;
}

/* ---- opening ---- */

void vf_dataset_release(const vf_dataset *d)
{
    for (int i = 0; i < d->n_shards && d->shard; i++)
        if (d->shard[i].m)
            vf_lmdb_release(d->shard[i].m);
}

/* Finds the entries in the map. Those of a few samples lie in a node of a page, with any alignment,
 * and are copied. */
static int open_entries(shard *s, vc_err *err)
{
    if ((uintptr_t)s->index.entries % _Alignof(vf_entry) == 0) {
        s->entry = (const void *)s->index.entries;
        return 0;
    }
    s->entry = s->copy = malloc(s->index.n * sizeof *s->copy);
    if (!s->copy)
        return vc_no_memory(err);
    memcpy(s->copy, s->index.entries, s->index.n * sizeof *s->copy);
    return 0;
}

static int open_shard(vf_dataset *d, shard *s, vc_err *err)
{
    int rc = vf_shard_open_fetched(&s->m, d->path, s->info->file, s->info->bytes, d->fetch, err);
    if (rc)
        return rc;
    vf_lmdb_scattered(s->m, true);
    if (s->info->text)
        return vf_shard_tree(s->m, "text", &s->values, err);
    if ((rc = vf_shard_tree(s->m, "sample", &s->sample, err)) ||
        (rc = vf_shard_tree(s->m, "latent", &s->values, err)) ||
        (rc = vf_shard_tree(s->m, "thumb", &s->thumb, err)))
        return rc;
    rc = vf_index_open(&s->index, s->m, err);
    if (!rc)
        rc = open_entries(s, err);
    vf_lmdb_release(s->m);
    return rc;
}

/* Adds a prompt. While shards are read, d->prompt has an entry for each key up to the highest; the
 * shard of a missing prompt is -1. */
static int add_prompt(vf_dataset *d, uint32_t key, int at, bool dropped, vc_err *err)
{
    if (key >= d->prompts) {
        prompt *p = realloc(d->prompt, (key + 1) * sizeof *p);
        if (!p)
            return vc_fail(err, VC_ENOMEM, "out of memory for %" PRIu32 " validation prompts",
                           key + 1);
        d->prompt = p;
        for (; d->prompts <= key; d->prompts++)
            p[d->prompts] = (prompt){ d->prompts, -1 };
    }
    d->prompt[key].shard = dropped ? -1 : at;
    return 0;
}

static void pack_prompts(vf_dataset *d)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->prompts; i++)
        if (d->prompt[i].shard >= 0)
            d->prompt[n++] = d->prompt[i];
    d->prompts = n;
}

/* Reads a shard's prompts; prompts in later shards replace those in earlier ones. */
static int read_prompts(vf_dataset *d, int at, vc_err *err)
{
    vf_tree t;
    vf_lmdb_cursor c;
    vf_bytes key, value;
    int rc = vf_shard_tree(d->shard[at].m, "validation", &t, err);
    if (rc)
        return rc;
    vf_lmdb_start(&c, d->shard[at].m, &t);
    while ((rc = vf_lmdb_next(&c, &key, &value, err)) > 0) {
        uint32_t i;
        if (!vf_prompt_key_parse(key, &i))
            return vc_fail(err, VC_EFORMAT, "validation: six digits expected as key");
        if ((rc = add_prompt(d, i, at, vf_is_dropped(value), err)))
            return rc;
    }
    return rc;
}

/* Makes the table of hints to the texts' shards. Its size is bounded, as the manifest's counts may
 * be wrong. */
static int make_hints(vf_dataset *d, vc_err *err)
{
    int64_t texts = 0;
    for (int i = 0; i < d->n_shards && texts < MAX_SLOTS; i++)
        texts += d->shard[i].info->texts < MAX_SLOTS ? d->shard[i].info->texts : MAX_SLOTS;
    for (d->slots = 1; d->slots < 2 * texts && d->slots < MAX_SLOTS;)
        d->slots *= 2;
    d->text_at = calloc(d->slots, sizeof *d->text_at);
    return d->text_at ? 0
                      : vc_fail(err, VC_ENOMEM, "out of memory for %" PRIu32 " texts", d->slots);
}

/* Gets the shards that a salvage leaves out; fn NULL: a damaged shard is an error. */
typedef struct listener {
    void (*fn)(void *arg, const char *text);
    void *arg;
} listener;

/* Opens shard i and reads its prompts. */
static int open_one(vf_dataset *d, int i, const listener *l, vc_err *err)
{
    shard *s = &d->shard[i];
    vc_err e = { 0 };
    s->info = &d->manifest.shard[i];
    int rc = open_shard(d, s, &e);
    if (!rc && s->info->text)
        rc = read_prompts(d, i, &e);
    if (l->fn && (rc == VC_EFORMAT || rc == VC_ENOENT)) {    /* other codes are no damage */
        vf_lmdb_close(s->m);
        free(s->copy);
        *s = (shard){ .info = s->info };
        vc_context(&e, rc, "%s", s->info->file);
        l->fn(l->arg, e.text);
        return 0;
    }
    return rc ? vc_fail(err, rc, "%s: %s", s->info->file, e.text) : 0;
}

/* The part of a dataset that is opened. */
typedef struct extent {
    bool incomplete;                         /* an unfinished dataset is no error */
    const vf_fetch *fetch;                   /* NULL: the shards are here */
    int shards;                              /* number of first shards to open; -1: all */
} extent;

static int open_all(vf_dataset *d, extent want, const listener *l, vc_err *err)
{
    int rc = vf_manifest_read(&d->manifest, d->path, err);
    if (rc)
        return rc;
    if (!d->manifest.complete && !want.incomplete)
        return vc_fail(err, VC_EINVAL,
                       "%s: vprep has not finished this dataset: run vprep again, which continues "
                       "where the last run stopped",
                       d->path);
    if (d->manifest.n_shards > UINT16_MAX)
        return vc_fail(err, VC_EFORMAT, "%s: %d shards, at most %d", d->path, d->manifest.n_shards,
                       UINT16_MAX);
    if (d->manifest.n_shards < want.shards)
        return vc_fail(err, VC_ENOENT, "%s has %d shards, but %d were there before", d->path,
                       d->manifest.n_shards, want.shards);
    bool whole = d->manifest.complete && want.shards < 0;
    d->n_shards = want.shards < 0 ? d->manifest.n_shards : want.shards;
    d->shard = calloc((size_t)d->n_shards + 1, sizeof *d->shard);
    if (!d->shard)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", d->path);
    for (int i = 0; i < d->n_shards && !rc; i++)
        rc = open_one(d, i, l, err);
    pack_prompts(d);
    if (!rc)
        rc = make_hints(d, err);
    if (!rc)
        rc = merge_entries(d, err);
    for (int i = 0; i < d->n_shards && !rc; i++)
        if (d->shard[i].m)
            vf_lmdb_scattered(d->shard[i].m, false);
    vf_dataset_release(d);
    if (!rc && whole && !l->fn && d->n != d->manifest.samples)
        rc = vc_fail(err, VC_EFORMAT,
                     "the shards hold %" PRIu32 " samples, the manifest says %" PRId64, d->n,
                     d->manifest.samples);
    /* Only a missing manifest means that there is no dataset (VC_ENOENT, above); values that the
     * manifest names and the shards lack are damage. */
    rc = vc_context(err, rc == VC_ENOENT ? VC_EFORMAT : rc, "%s", d->path);
    return vf_mendable(d, rc, err);
}

static int open_dataset(vf_dataset **out, const char *path, extent want, const listener *l,
                        vc_err *err)
{
    *out = NULL;
    vf_dataset *d = calloc(1, sizeof *d);
    if (!d)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", path);
    d->path = strdup(path);
    d->salvaged = l->fn;
    d->fetch = want.fetch;
    int rc = d->path ? open_all(d, want, l, err)
                     : vc_fail(err, VC_ENOMEM, "%s: out of memory", path);
    if (rc) {
        vf_dataset_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

int vf_dataset_open(vf_dataset **out, const char *path, bool allow_incomplete, vc_err *err)
{
    return open_dataset(out, path, (extent){ allow_incomplete, NULL, -1 }, &(listener){ 0 }, err);
}

int vf_dataset_open_fetched(vf_dataset **out, const char *path, const char *name,
                            const vf_fetch *fetch, vc_err *err)
{
    int rc = open_dataset(out, path, (extent){ false, fetch, -1 }, &(listener){ 0 }, err);
    char *copy = rc ? NULL : strdup(name);
    if (rc)
        return rc;
    if (!copy) {
        vf_dataset_close(*out);
        *out = NULL;
        return vc_no_memory(err);
    }
    free((*out)->path);
    (*out)->path = copy;
    return 0;
}

int vf_dataset_open_first(vf_dataset **out, const char *path, int shards, vc_err *err)
{
    return open_dataset(out, path, (extent){ true, NULL, shards }, &(listener){ 0 }, err);
}

int vf_dataset_salvage(vf_dataset **out, const char *path,
                       void (*report)(void *arg, const char *text), void *arg, vc_err *err)
{
    return open_dataset(out, path, (extent){ true, NULL, -1 }, &(listener){ report, arg }, err);
}

int vf_dataset_progress(const char *path, int *shards, bool *complete, vc_err *err)
{
    vf_manifest m;
    int rc = vf_manifest_read(&m, path, err);
    *shards = m.n_shards;
    *complete = m.complete;
    vf_manifest_free(&m);
    return rc;
}

void vf_dataset_close(vf_dataset *d)
{
    if (!d)
        return;
    for (int i = 0; i < d->n_shards && d->shard; i++) {
        vf_lmdb_close(d->shard[i].m);
        free(d->shard[i].copy);
    }
    free(d->shard);
    free(d->at);
    free(d->in);
    free(d->older);
    free(d->prompt);
    free(d->text_at);
    vf_manifest_free(&d->manifest);
    free(d->path);
    free(d);
}

/* samples.c - reads records and values of an opened dataset, and adds remedies to errors about
 * damage. See dataset.h and read.h */
#include "formats/dataset/read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/map.h"
#include "formats/dataset/record.h"

/* ---- damage ---- */

int vf_dataset_remedy(const char *path, int rc, vc_err *err)
{
    const bool damage = rc == VC_EFORMAT || rc == VC_ENUMERIC;
    if (damage && err && !strstr(err->text, "--repair keeps what is good")) {
        size_t n = strlen(err->text);
        snprintf(err->text + n, sizeof err->text - n,
                 "; vlat verify %s --repair keeps what is good, and says how vprep makes the rest "
                 "anew", path);
    }
    return rc;
}

int vf_mendable(const vf_dataset *d, int rc, vc_err *err)
{
    return d->salvaged ? rc : vf_dataset_remedy(d->path, rc, err);
}

/* ---- samples ---- */

const cJSON *vf_dataset_manifest(const vf_dataset *d)
{
    return d->manifest.json;
}

int vf_dataset_shards(const vf_dataset *d)
{
    return d->n_shards;
}

char *vf_dataset_root(const vf_dataset *d, char hex[VF_KEY_HEX])
{
    return vf_key_hex(hex, d->root);
}

const char *vf_dataset_path(const vf_dataset *d)
{
    return d->path;
}

uint32_t vf_dataset_count(const vf_dataset *d)
{
    return d->n;
}

const vf_entry *vf_dataset_entry(const vf_dataset *d, uint32_t i)
{
    return &d->shard[d->in[i]].entry[d->at[i]];
}

int vf_dataset_shard_of(const vf_dataset *d, uint32_t i)
{
    return d->in[i];
}

/* Parses "42", "42/0" or "000000000042/000". */
static bool parse_short_key(const char *key, uint64_t *rank)
{
    char *end;
    if (*key < '0' || *key > '9')
        return false;
    unsigned long long number = strtoull(key, &end, 10), variant = 0;
    if (*end == '/' && end[1] >= '0' && end[1] <= '9')
        variant = strtoull(end + 1, &end, 10);
    *rank = (uint64_t)number << 16 | variant;
    return !*end && number <= UINT32_MAX && variant <= VF_MAX_VARIANT;
}

int vf_dataset_find(const vf_dataset *d, const char *key, uint32_t *i, vc_err *err)
{
    uint64_t rank;
    if (!parse_short_key(key, &rank))
        return vc_fail(err, VC_EINVAL, "\"%s\": a key is NUMBER or NUMBER/VARIANT", key);
    uint32_t lo = 0, hi = d->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (vf_entry_rank(vf_dataset_entry(d, mid)) < rank)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == d->n || vf_entry_rank(vf_dataset_entry(d, lo)) != rank)
        return vc_fail(err, VC_ENOENT, "%s: no sample %s", d->path, key);
    *i = lo;
    return 0;
}

/* Returns the error rc about bytes of a shard; or, if the bytes or others they were compared with
 * could not be read, that error. */
static int unless_torn(int rc, vf_bytes v, vc_err *err)
{
    int torn = rc ? vc_map_check(v.data, v.size, err) : 0;
    return torn ? torn : rc ? vc_maps_check(rc, err) : 0;
}

static int find_record(const vf_dataset *d, uint32_t i, char key[VF_SAMPLE_KEY], vf_bytes *value,
                       vc_err *err)
{
    const vf_entry *e = vf_dataset_entry(d, i);
    const shard *s = &d->shard[d->in[i]];
    *value = (vf_bytes){ 0 };
    vf_sample_key(key, e->number, e->variant);
    int rc = vf_lmdb_get(s->m, &s->sample, key, VF_SAMPLE_KEY_LEN, value, err);
    rc = vc_context(err, rc == VC_ENOENT ? VC_EFORMAT : rc, "%s: record %s", s->info->file, key);
    return vf_mendable(d, rc, err);
}

int vf_dataset_record(const vf_dataset *d, uint32_t i, const void **json, size_t *n, vc_err *err)
{
    char key[VF_SAMPLE_KEY];
    vf_bytes value;
    int rc = find_record(d, i, key, &value, err);
    *json = value.data;
    *n = value.size;
    return rc;
}

int vf_dataset_sample(const vf_dataset *d, uint32_t i, cJSON **record, vc_err *err)
{
    char key[VF_SAMPLE_KEY];
    const shard *s = &d->shard[d->in[i]];
    vf_bytes value;
    vf_index_item item;
    vf_record r;
    *record = NULL;
    int rc = find_record(d, i, key, &value, err);
    if (rc)
        return rc;

    rc = vf_record_read(&r, record, (vf_bytes){ (const uint8_t *)key, VF_SAMPLE_KEY_LEN }, value,
                        err);
    vf_index_get(&s->index, d->at[i], &item);
    if (!rc && memcmp(&item.hash, &r.hash, sizeof r.hash)) {
        cJSON_Delete(*record);
        *record = NULL;
        rc = vc_fail(err, VC_EFORMAT, "record %s: its checksum differs", key);
    }
    return vf_mendable(d, vc_context(err, unless_torn(rc, value, err), "%s", s->info->file), err);
}

int vf_dataset_parsed(const vf_dataset *d, uint32_t i, vf_parsed *p, vc_err *err)
{
    char key[VF_SAMPLE_KEY];
    const shard *s = &d->shard[d->in[i]];
    vf_bytes value;
    vf_index_item item;
    int rc = find_record(d, i, key, &value, err);
    if (rc)
        return rc;
    rc = vf_parsed_read(p, (vf_bytes){ (const uint8_t *)key, VF_SAMPLE_KEY_LEN }, value, err);
    vf_index_get(&s->index, d->at[i], &item);
    if (!rc && memcmp(&item.hash, &p->r.hash, sizeof item.hash))
        rc = vc_fail(err, VC_EFORMAT, "record %s: its checksum differs", key);
    return vf_mendable(d, vc_context(err, unless_torn(rc, value, err), "%s", s->info->file), err);
}

void vf_dataset_indexed(const vf_dataset *d, uint32_t i, vf_index_item *item)
{
    vf_index_get(&d->shard[d->in[i]].index, d->at[i], item);
}

int vf_dataset_item(const vf_dataset *d, uint32_t i, vf_index_item *item, vc_err *err)
{
    char key[VF_SAMPLE_KEY];
    const shard *s = &d->shard[d->in[i]];
    vf_bytes value;
    int rc = find_record(d, i, key, &value, err);
    if (rc)
        return rc;
    vf_key k = vf_hash2(key, VF_SAMPLE_KEY_LEN, value.data, value.size);
    vf_index_get(&s->index, d->at[i], item);
    if (memcmp(&item->hash, &k, sizeof k))
        rc = vc_fail(err, VC_EFORMAT, "record %s: its checksum differs", key);
    return vf_mendable(d, vc_context(err, unless_torn(rc, value, err), "%s", s->info->file), err);
}

int vf_dataset_thumb(const vf_dataset *d, uint32_t i, const void **jpeg, size_t *n, vc_err *err)
{
    char key[VF_SAMPLE_KEY];
    const vf_entry *e = vf_dataset_entry(d, i);
    vf_sample_key(key, e->number, e->variant);
    *jpeg = NULL;
    *n = 0;
    /* A record that was written again without a thumbnail has it in an earlier shard. Of thousands
     * of shards the others need not be searched. */
    const bool older = d->older[i / 8] >> i % 8 & 1;
    for (int at = d->in[i]; at >= 0; at = older ? at - 1 : -1) {
        const shard *s = &d->shard[at];
        vf_bytes v;
        if (!s->m)
            continue;
        int rc = vf_lmdb_get(s->m, &s->thumb, key, VF_SAMPLE_KEY_LEN, &v, err);
        if (rc == VC_ENOENT)
            continue;
        *jpeg = v.data;
        *n = v.size;
        return vf_mendable(d, vc_context(err, rc, "%s: thumbnail %s", s->info->file, key), err);
    }
    return vc_fail(err, VC_ENOENT, "sample %s: no thumbnail", key);
}

/* ---- values ---- */

static const char *const value_name[2] = { "latent", "text" };

/* The shard in which a value is looked for first is not known. */
enum { ANYWHERE = -1 };

/* Looks first in the shard where the text was found before; else in the shard `first` of the record
 * that refers to the value, and then in those before, because values are written before records and
 * the text shard of a shard is closed just before the shard. If there is no record, looks first in
 * the shard where the last value was, as neighbours lie together. */
static int find_value(const vf_dataset *d, bool text, vf_key k, int first, const shard **in,
                      vf_bytes *value, vc_err *err)
{
    char hex[VF_KEY_HEX];
    atomic_int *last = (atomic_int *)(uintptr_t)&d->last[text];
    uint32_t slot;
    memcpy(&slot, k.b, sizeof slot);
    atomic_ushort *hint = text ? &d->text_at[slot & (d->slots - 1)] : NULL;
    int found = hint ? atomic_load_explicit(hint, memory_order_relaxed) : 0;
    int start = first != ANYWHERE ? first : atomic_load_explicit(last, memory_order_relaxed);
    int step = first != ANYWHERE ? d->n_shards - 1 : 1;
    vf_key_hex(hex, k);
    for (int i = found ? -1 : 0; i < d->n_shards; i++) {
        int at = i < 0 ? found - 1 : (int)((start + (int64_t)i * step) % d->n_shards);
        const shard *s = &d->shard[at];
        if (s->info->text != text || !s->m)
            continue;
        int rc = vf_lmdb_get(s->m, &s->values, hex, 32, value, err);
        if (rc == VC_ENOENT)
            continue;
        if (i > 0 && first == ANYWHERE)
            atomic_store_explicit(last, at, memory_order_relaxed);
        if (hint && found != at + 1)
            atomic_store_explicit(hint, (unsigned short)(at + 1), memory_order_relaxed);
        *in = s;
        return vc_context(err, rc, "%s: %s %s", s->info->file, value_name[text], hex);
    }
    return vc_fail(err, VC_ENOENT, "%s: no %s %s", d->path, value_name[text], hex);
}

/* Finds a value and parses it; *found is all of its bytes. */
static int open_bytes(const vf_dataset *d, bool text, vf_key k, int first, bool check,
                      vf_safetensors **st, vf_bytes *found, vc_err *err)
{
    char hex[VF_KEY_HEX];
    const shard *s = NULL;
    vf_bytes v = { 0 };
    *st = NULL;
    int rc = find_value(d, text, k, first, &s, &v, err);
    *found = v;
    if (rc) {                                /* a value that a finished dataset lacks is damage */
        vf_mendable(d, rc == VC_ENOENT && d->manifest.complete ? VC_EFORMAT : rc, err);
        return rc;
    }
    rc = vf_safetensors_parse(st, v.data, v.size, err);
    if (!rc && check)
        rc = vf_safetensors_check(*st, err);
    if (!rc && check)
        rc = vf_value_names(text, *st, err);
    if (rc) {
        rc = unless_torn(rc, v, err);
        vf_safetensors_close(*st);
        *st = NULL;
        rc = vc_context(err, rc == VC_ENOENT ? VC_EFORMAT : rc, "%s: %s %s", s->info->file,
                        value_name[text], vf_key_hex(hex, k));
        return vf_mendable(d, rc, err);
    }
    return 0;
}

static int open_value(const vf_dataset *d, bool text, vf_key k, int first, bool check,
                      vf_safetensors **st, vc_err *err)
{
    vf_bytes v;
    return open_bytes(d, text, k, first, check, st, &v, err);
}

int vf_dataset_latent(const vf_dataset *d, vf_key k, bool check, vf_safetensors **st, vc_err *err)
{
    return open_value(d, false, k, ANYWHERE, check, st, err);
}

int vf_dataset_latent_of(const vf_dataset *d, uint32_t i, vf_key k, bool check,
                         vf_safetensors **st, vc_err *err)
{
    return open_value(d, false, k, d->in[i], check, st, err);
}

int vf_dataset_text(const vf_dataset *d, vf_key k, bool check, vf_safetensors **st, vc_err *err)
{
    return open_value(d, true, k, ANYWHERE, check, st, err);
}

int vf_dataset_text_of(const vf_dataset *d, uint32_t i, vf_key k, bool check, vf_safetensors **st,
                       vc_err *err)
{
    return open_value(d, true, k, d->in[i], check, st, err);
}

int vf_dataset_bytes(const vf_dataset *d, bool text, vf_key k, const void **data, size_t *n,
                     vc_err *err)
{
    vf_safetensors *st;
    vf_bytes v;
    int rc = open_bytes(d, text, k, ANYWHERE, true, &st, &v, err);
    vf_safetensors_close(st);
    *data = v.data;
    *n = v.size;
    return rc;
}

void vf_dataset_prefetch(const vf_dataset *d, uint32_t i, vf_key latent)
{
    const shard *s;
    vf_bytes v;
    if (find_value(d, false, latent, d->in[i], &s, &v, NULL))
        return;
    vf_lmdb_fetch(v);
}

/* ---- validation prompts ---- */

uint32_t vf_dataset_validations(const vf_dataset *d)
{
    return d->prompts;
}

int vf_dataset_validation(const vf_dataset *d, uint32_t i, cJSON **record, vc_err *err)
{
    char key[16];
    const shard *s = &d->shard[d->prompt[i].shard];
    vf_tree t;
    vf_bytes v;
    *record = NULL;
    snprintf(key, sizeof key, "%06" PRIu32, d->prompt[i].key);
    int rc = vf_shard_tree(s->m, "validation", &t, err);
    if (!rc)
        rc = vf_lmdb_get(s->m, &t, key, 6, &v, err);
    if (!rc)
        rc = vf_record_parse(record, v, err);
    rc = vc_context(err, rc == VC_ENOENT ? VC_EFORMAT : rc, "%s: validation %s", s->info->file,
                    key);
    return vf_mendable(d, rc, err);
}

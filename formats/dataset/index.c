/* index.c - reads sample records, and reads and writes the compact index made of them. See parts.h
 *
 * Sub-database `index` of a closed shard, little-endian:
 *   "entries", "records"   u32 1 (version)   u32 bytes of an item   u64 count
 *                          u8[16] XXH3-128 of the items   items, in key order of `sample`
 *   "buckets"              JSON
 * An entry's 48 bytes are those of vf_entry; a record's 32 are
 * u8[16] hash of key and value, u64 id, u32 bucket, u32 zero. */
#include "formats/dataset/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INDEX_HEADER = 32, INDEX_ENTRY = 48, INDEX_RECORD = 32, INDEX_VERSION = 1 };

_Static_assert(sizeof(vf_entry) == INDEX_ENTRY, "entries are copied from the file unchanged");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "LMDB files have the machine's byte order");

/* ---- keys ---- */

char *vf_sample_key(char buf[24], uint32_t number, uint32_t variant)
{
    variant %= VF_MAX_VARIANT + 1;
    for (int i = 11; i >= 0; i--, number /= 10)
        buf[i] = (char)('0' + number % 10);
    buf[12] = '/';
    for (int i = 15; i > 12; i--, variant /= 10)
        buf[i] = (char)('0' + variant % 10);
    buf[VF_SAMPLE_KEY_LEN] = 0;
    return buf;
}

/* Parses p[0..n), which must be digits only; false above max. */
static bool digits(const char *p, size_t n, uint64_t max, uint32_t *v)
{
    uint64_t x = 0;
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        x = 10 * x + (uint64_t)(p[i] - '0');
        if (x > max)
            return false;
    }
    *v = (uint32_t)x;
    return n > 0;
}

bool vf_sample_key_parse(const char *key, size_t n, uint32_t *number, uint32_t *variant)
{
    return n == VF_SAMPLE_KEY_LEN && key[12] == '/' && digits(key, 12, UINT32_MAX, number) &&
           digits(key + 13, 3, VF_MAX_VARIANT, variant);
}

bool vf_prompt_key_parse(vf_bytes key, uint32_t *i)
{
    return key.size == 6 && digits((const char *)key.data, 6, 999999, i);
}

bool vf_is_dropped(vf_bytes value)
{
    return value.size == strlen(VF_DROPPED) && !memcmp(value.data, VF_DROPPED, value.size);
}

typedef unsigned __int128 wide;

static wide wide_of(vf_key k)
{
    uint64_t half[2];
    memcpy(half, k.b, sizeof half);
    return (wide)__builtin_bswap64(half[0]) << 64 | __builtin_bswap64(half[1]);
}

static vf_key key_of(wide v)
{
    const uint64_t half[2] = { __builtin_bswap64((uint64_t)(v >> 64)),
                               __builtin_bswap64((uint64_t)v) };
    vf_key k;
    memcpy(k.b, half, sizeof half);
    return k;
}

void vf_root_add(vf_key *sum, vf_key h)
{
    *sum = key_of(wide_of(*sum) + wide_of(h));
}

void vf_root_take(vf_key *sum, vf_key h)
{
    *sum = key_of(wide_of(*sum) - wide_of(h));
}

/* ---- records ---- */

static int int_in(const cJSON *o, const char *field, int64_t lo, int64_t hi, int64_t *v,
                  vc_err *err)
{
    int rc = vf_json_int(o, field, v, err);
    if (!rc && (*v < lo || *v > hi))
        rc = vc_fail(err, VC_EFORMAT, "%s: %" PRId64 " is not in %" PRId64 "..%" PRId64, field, *v,
                     lo, hi);
    return rc;
}

int vf_grid_read(vf_entry *e, const cJSON *o, vc_err *err)
{
    const cJSON *a, *x;
    uint16_t *dim[3] = { &e->f, &e->h, &e->w };
    int n = 0, rc = vf_json_arr(o, "latent", &a, err);
    if (rc)
        return rc;
    cJSON_ArrayForEach(x, a) {
        if (n == 3 || !cJSON_IsNumber(x) || !(x->valuedouble >= 1) || x->valuedouble > UINT16_MAX ||
            x->valuedouble != (int)x->valuedouble)
            return vc_fail(err, VC_EFORMAT, "latent: [f,h,w] of 1..%d expected", UINT16_MAX);
        *dim[n++] = (uint16_t)x->valuedouble;
    }
    return n == 3 ? 0 : vc_fail(err, VC_EFORMAT, "latent: [f,h,w] expected");
}

/* Reads the other fields that a trainer plans with; missing fields get the values of a still. */
static int read_rest(vf_entry *e, const cJSON *o, vc_err *err)
{
    const char *type = "image", *held = "";
    const cJSON *captions, *frames = cJSON_GetObjectItemCaseSensitive(o, "frames");
    int64_t tokens = 0;
    double weight = 1, fps = 0;
    int rc;
    if ((rc = vf_json_str_opt(o, "type", &type, err)) ||
        (rc = vf_json_str_opt(o, "held", &held, err)) ||
        (rc = vf_json_arr(o, "captions", &captions, err)) ||
        (rc = vf_json_int_opt(o, "tokens", &tokens, err)) ||
        (rc = vf_json_num_opt(o, "weight", &weight, err)) ||
        (rc = vf_json_num_opt(o, "fps", &fps, err)))
        return rc;
    if (tokens < 0 || tokens > UINT32_MAX)
        return vc_fail(err, VC_EFORMAT, "tokens: %" PRId64, tokens);
    if (!(weight >= 0) || weight > 1e9)
        return vc_fail(err, VC_EFORMAT, "weight: %g", weight);
    if (!(fps >= 0) || fps > 1e6)
        return vc_fail(err, VC_EFORMAT, "fps: %g", fps);
    if (!strcmp(type, "video"))
        e->flags |= VF_ENTRY_VIDEO;
    e->flags |= !strcmp(held, "reg") ? VF_ENTRY_REG : !strcmp(held, "prior") ? VF_ENTRY_PRIOR : 0;
    int n = cJSON_GetArraySize(captions);
    e->captions = (uint8_t)(n < 255 ? n : 255);
    e->tokens = (uint32_t)tokens;
    e->weight = (float)weight;
    e->fps = (float)fps;
    e->frames = cJSON_IsArray(frames) ? (uint32_t)cJSON_GetArraySize(frames) : 1;
    return 0;
}

int vf_record_of(vf_record *r, const cJSON *json, vc_err *err)
{
    int64_t number, variant;
    const char *latent;
    int rc;
    *r = (vf_record){ .bucket = "" };
    if ((rc = int_in(json, "sample", 0, UINT32_MAX, &number, err)) ||
        (rc = int_in(json, "variant", 0, VF_MAX_VARIANT, &variant, err)) ||
        (rc = vf_json_str(json, "latent_key", &latent, err)) ||
        (rc = vf_json_id(&r->id, json, err)) || (rc = vf_grid_read(&r->entry, json, err)) ||
        (rc = read_rest(&r->entry, json, err)) ||
        (rc = vf_json_str_opt(json, "key", &r->bucket, err)))
        return rc;
    if (!vf_key_parse(&r->entry.latent, latent))
        return vc_fail(err, VC_EFORMAT, "latent_key: 32 hex digits expected");
    r->entry.number = (uint32_t)number;
    r->entry.variant = (uint16_t)variant;
    return 0;
}

static int parse_json(cJSON **json, vf_bytes text, size_t max, vc_err *err)
{
    *json = NULL;
    if (text.size > max)
        return vc_fail(err, VC_EFORMAT, "%zu bytes of JSON, at most %zu expected", text.size, max);
    return vf_json_parse(json, (const char *)text.data, text.size, err);
}

int vf_record_parse(cJSON **json, vf_bytes text, vc_err *err)
{
    return parse_json(json, text, VF_MAX_RECORD, err);
}

int vf_buckets_parse(cJSON **list, vf_bytes text, vc_err *err)
{
    return parse_json(list, text, VF_MAX_LIST, err);
}

int vf_record_read(vf_record *r, cJSON **out, vf_bytes key, vf_bytes value, vc_err *err)
{
    uint32_t number, variant;
    bool dropped = false;
    cJSON *json;
    if (out)
        *out = NULL;
    *r = (vf_record){ .bucket = "" };
    if (!vf_sample_key_parse((const char *)key.data, key.size, &number, &variant))
        return vc_fail(err, VC_EFORMAT, "key: NNNNNNNNNNNN/NNN expected");

    int rc = vf_record_parse(&json, value, err);
    if (!rc)
        rc = vf_json_bool_opt(json, "dropped", &dropped, err);
    if (!rc && !dropped)
        rc = vf_record_of(r, json, err);
    if (!rc && !dropped && (r->entry.number != number || r->entry.variant != variant))
        rc = vc_fail(err, VC_EFORMAT, "it says that it is sample %" PRIu32 " variant %u",
                     r->entry.number, (unsigned)r->entry.variant);
    if (!rc && dropped)
        r->entry =
            (vf_entry){ .number = number, .variant = (uint16_t)variant, .flags = VF_ENTRY_DROPPED };
    r->hash = vf_hash2(key.data, key.size, value.data, value.size);
    if (!rc && out) {
        *out = json;
        return 0;
    }
    cJSON_Delete(json);
    r->bucket = "";
    return vc_context(err, rc == VC_ENOENT ? VC_EFORMAT : rc, "record %.*s", (int)key.size,
                      (const char *)key.data);
}

/* ---- index ---- */

static uint64_t le(const uint8_t *p, int n)
{
    uint64_t v = 0;
    for (int i = n - 1; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static void put_le(uint8_t *p, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

/* Opens an array of the index: sets *items and *n after all checks. */
static int open_array(const vf_lmdb *m, const vf_tree *t, const char *name, size_t item,
                      const uint8_t **items, uint32_t *n, vc_err *err)
{
    vf_bytes v;
    int rc = vf_lmdb_get(m, t, name, strlen(name), &v, err);
    if (rc)
        return vc_context(err, rc, "%s", name);
    if (v.size < INDEX_HEADER || le(v.data, 4) != INDEX_VERSION || le(v.data + 4, 4) != item ||
        le(v.data + 8, 8) > UINT32_MAX || (v.size - INDEX_HEADER) / item != le(v.data + 8, 8) ||
        (v.size - INDEX_HEADER) % item)
        return vc_fail(err, VC_EFORMAT, "%s: bad header", name);
    vf_lmdb_fetch(v);
    vf_key sum = vf_hash(v.data + INDEX_HEADER, v.size - INDEX_HEADER);
    if (memcmp(sum.b, v.data + 16, sizeof sum.b))
        return vc_fail(err, VC_EFORMAT, "%s: its checksum differs", name);
    *items = v.data + INDEX_HEADER;
    *n = (uint32_t)le(v.data + 8, 8);
    return 0;
}

int vf_index_open(vf_index *x, const vf_lmdb *m, vc_err *err)
{
    *x = (vf_index){ 0 };
    vf_tree t;
    uint32_t records = 0;
    int rc = vf_lmdb_tree(m, "index", &t, err);
    if (rc)
        return rc;
    if ((rc = open_array(m, &t, "entries", INDEX_ENTRY, &x->entries, &x->n, err)) ||
        (rc = open_array(m, &t, "records", INDEX_RECORD, &x->records, &records, err)) ||
        (rc = vf_lmdb_get(m, &t, "buckets", 7, &x->buckets, err)))
        return vc_context(err, rc, "index");
    if (records != x->n)
        return vc_fail(err, VC_EFORMAT, "index: %" PRIu32 " entries, %" PRIu32 " records", x->n,
                       records);
    return 0;
}

void vf_index_entry(const vf_index *x, uint32_t i, vf_entry *e)
{
    memcpy(e, x->entries + (size_t)i * INDEX_ENTRY, sizeof *e);
}

void vf_index_get(const vf_index *x, uint32_t i, vf_index_item *item)
{
    const uint8_t *p = x->records + (size_t)i * INDEX_RECORD;
    vf_index_entry(x, i, &item->entry);
    memcpy(item->hash.b, p, 16);
    item->id = le(p + 16, 8);
    item->bucket = (uint32_t)le(p + 24, 4);
}

static void put_record(uint8_t *p, const vf_index_item *item)
{
    memcpy(p, item->hash.b, 16);
    put_le(p + 16, item->id, 8);
    put_le(p + 24, item->bucket, 4);
}

int vf_index_pack(vf_index_array which, vf_index_item_of *get, const void *arg, uint32_t n,
                  void **out, size_t *size, vc_err *err)
{
    const size_t each = which == VF_INDEX_ENTRIES ? INDEX_ENTRY : INDEX_RECORD;
    *size = INDEX_HEADER + n * each;
    uint8_t *p = *out = calloc(1, *size);
    if (!p)
        return vc_fail(err, VC_ENOMEM, "out of memory for an index of %" PRIu32 " samples", n);
    put_le(p, INDEX_VERSION, 4);
    put_le(p + 4, each, 4);
    put_le(p + 8, n, 8);
    for (uint32_t i = 0; i < n; i++) {
        vf_index_item item;
        uint8_t *to = p + INDEX_HEADER + i * each;
        get(arg, i, &item);
        item.entry.zero = 0;
        if (which == VF_INDEX_ENTRIES)
            memcpy(to, &item.entry, sizeof item.entry);
        else
            put_record(to, &item);
    }
    vf_key sum = vf_hash(p + INDEX_HEADER, *size - INDEX_HEADER);
    memcpy(p + 16, sum.b, sizeof sum.b);
    return 0;
}

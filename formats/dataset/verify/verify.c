/* verify.c - checks every page, checksum, record and index of every shard. See dataset.h
 *
 * A shard is read once from end to end for its hash, while shards before are walked; its own
 * walks find its pages in the page cache. First the values of all shards are checked. Then each
 * record is parsed once, and compared with the index and with the values. Damage is reported, and
 * the check continues with the trees that can still be walked. */
#include "formats/dataset/verify/verify.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"

/* ---- findings ---- */

static int failed(vf_check *c, const char *file, int rc, const vc_err *e, vc_err *err)
{
    return vf_check_failed(c, file, "", (vf_bytes){ NULL, 0 }, rc, e, err);
}

static void found(vf_check *c, const char *file, const char *what)
{
    vf_check_found(c, file, "", (vf_bytes){ NULL, 0 }, what);
}

/* ---- values ---- */

static bool dims_fit(const vf_view *v, int nd)
{
    for (int i = 0; i < v->nd; i++)
        if (v->dim[i] < 1 || v->dim[i] > UINT16_MAX)
            return false;
    return v->nd == nd;
}

/* True if logvar has mean's shape, or one channel for all. */
static bool same_grid(const vf_view *a, const vf_view *b)
{
    if (a->nd != b->nd)
        return false;
    for (int i = 0; i < a->nd; i++)
        if (a->dim[i] != b->dim[i] && !(i == a->nd - 4 && b->dim[i] == 1))
            return false;
    return true;
}

static vf_shape shape_of(unsigned kind, const vf_view *v)
{
    int n = v->nd;
    return (vf_shape){ kind, (unsigned)v->dim[n - 4], (unsigned)v->dim[n - 3],
                       (unsigned)v->dim[n - 2], (unsigned)v->dim[n - 1] };
}

/* Finds the kind and shape of a latent value by its tensors, whose names were checked. Returns
 * NULL, or the fault. */
static const char *latent_shape(const vf_safetensors *st, vf_shape *s)
{
    vf_view mean, logvar;
    if (!vf_safetensors_get(st, "mean", &mean, NULL) ||
        !vf_safetensors_get(st, "sample", &mean, NULL)) {
        if (!dims_fit(&mean, 4) && !dims_fit(&mean, 5))
            return "mean: [C,f,h,w] expected";
        if (!vf_safetensors_get(st, "logvar", &logvar, NULL) && !same_grid(&mean, &logvar))
            return "the shapes of logvar and mean differ";
        *s = shape_of(mean.nd == 4 ? VC_VALUE_MOMENTS : VC_VALUE_VARIANTS, &mean);
        return NULL;
    }
    if (!vf_safetensors_get(st, "mask", &mean, NULL)) {
        *s = dims_fit(&mean, 4) ? shape_of(VC_VALUE_MASK, &mean) : *s;
        return dims_fit(&mean, 4) ? NULL : "mask: [C,f,h,w] expected";
    }
    if (vf_safetensors_get(st, "image_embeds", &mean, NULL) || !dims_fit(&mean, 2))
        return "image_embeds: [n,D] expected";
    *s = (vf_shape){ .kind = VC_VALUE_EMBEDS, .h = (unsigned)mean.dim[0],
                     .w = (unsigned)mean.dim[1] };
    return NULL;
}

static const char *text_shape(const vf_safetensors *st, vf_shape *s)
{
    vf_view v;
    s->kind = VC_VALUE_EMBEDS;
    if (!vf_safetensors_get(st, "prompt_embeds", &v, NULL)) {
        if (!dims_fit(&v, 2))
            return "prompt_embeds: [n,D] expected";
        s->w = (unsigned)v.dim[1];
        return NULL;
    }
    return !vf_safetensors_get(st, "pooled", &v, NULL) && dims_fit(&v, 1)
               ? NULL : "pooled: [P] expected";
}

/* Maps the bits of a float to an integer, in the order of the floats. */
static inline int32_t in_order(int32_t bits, int32_t sign) { return bits < 0 ? bits ^ sign : bits; }

/* Widens [lo,hi] by n values of 16 bits, as ordered integers. */
static void extremes16(const char *p, size_t n, int32_t *lo, int32_t *hi)
{
    int16_t low = INT16_MAX, high = INT16_MIN, v;
    for (size_t i = 0; i < n; i++) {
        memcpy(&v, p + 2 * i, 2);
        v ^= (int16_t)(v >> 15 & 0x7fff);
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    *lo = low;
    *hi = high;
}

static void extremes32(const char *p, size_t n, int32_t *lo, int32_t *hi)
{
    int32_t v;
    *lo = INT32_MAX;
    *hi = INT32_MIN;
    for (size_t i = 0; i < n; i++) {
        memcpy(&v, p + 4 * i, 4);
        v ^= v >> 31 & 0x7fffffff;
        *lo = v < *lo ? v : *lo;
        *hi = v > *hi ? v : *hi;
    }
}

/* Finds the least and the greatest value of a tensor of floats by their bits. An infinite
 * or NaN value is at an end of their order and becomes an end of the range. */
static bool value_range(const vf_view *v, float *min, float *max)
{
    size_t n = (size_t)vf_view_count(v);
    bool wide = v->dtype == VC_F32;
    int32_t end[2];
    float x[2];
    if (!n || (!wide && v->dtype != VC_F16 && v->dtype != VC_BF16))
        return false;
    if (wide)
        extremes32(v->data, n, &end[0], &end[1]);
    else
        extremes16(v->data, n, &end[0], &end[1]);
    for (int i = 0; i < 2; i++) {
        int32_t bits = in_order(end[i], wide ? 0x7fffffff : 0x7fff);
        int16_t half = (int16_t)bits;
        vc_to_f32(&x[i], wide ? (void *)&bits : (void *)&half, v->dtype, 1);
    }
    *min = x[0];
    *max = x[1];
    return true;
}

/* Widens the report's range; returns the fault of the numbers, or NULL. */
static const char *check_numbers(vf_check *c, bool text, const vf_safetensors *st)
{
    float *min = text ? &c->report->text.min : &c->report->latent.min;
    float *max = text ? &c->report->text.max : &c->report->latent.max, lo, hi;
    for (int i = 0; i < vf_safetensors_count(st); i++) {
        if (!value_range(vf_safetensors_at(st, i), &lo, &hi))
            continue;
        if (!isfinite(lo) || !isfinite(hi))
            return "the value holds NaN or infinity";
        *min = lo < *min ? lo : *min;
        *max = hi > *max ? hi : *max;
    }
    return NULL;
}

/* Checks a tensor value: header, checksum, names, shapes, numbers. Its key is recorded even if the
 * value is damaged. */
static int check_value(vf_check *c, const char *file, bool text, vf_bytes key, vf_bytes value,
                       vc_err *err)
{
    const char *which = text ? "text" : "latent", *what = NULL;
    vf_safetensors *st = NULL;
    vf_shape s = { 0 };
    vf_key k;
    vc_err e = { 0 };
    if (!vf_key_parse_n(&k, (const char *)key.data, key.size)) {
        vf_check_found(c, file, which, key, "32 hex digits expected as key");
        return 0;
    }
    int rc = vc_map_touch(value.data, value.size, &e);
    if (!rc)
        rc = vf_safetensors_parse(&st, value.data, value.size, &e);
    if (!rc)
        rc = vf_safetensors_check(st, &e);
    if (!rc)
        rc = vf_value_names(text, st, &e);
    if (!rc)
        what = text ? text_shape(st, &s) : latent_shape(st, &s);
    if (!rc && !what)
        what = check_numbers(c, text, st);
    vf_safetensors_close(st);
    if (!rc && what)
        vf_check_found(c, file, which, key, what);
    if (rc && (rc = vf_check_failed(c, file, which, key, rc, &e, err)))
        return rc;
    return vf_keymap_put(text ? &c->texts : &c->latents, k, vf_shape_pack(s), err);
}

/* ---- walking ---- */

typedef int visit(vf_check *c, const char *file, void *arg, vf_bytes key, vf_bytes value,
                  vc_err *err);

/* Calls fn for each pair of a sub-database; a tree that cannot be walked to its end is reported. */
static int walk(vf_check *c, const vf_lmdb *m, const char *file, const char *db, visit *fn,
                void *arg, vc_err *err)
{
    vf_tree t;
    vf_lmdb_cursor cursor;
    vf_bytes key, value;
    vc_err e = { 0 };
    int rc = vf_shard_tree(m, db, &t, &e);
    if (!rc) {
        vf_lmdb_start(&cursor, m, &t);
        while ((rc = vf_lmdb_next(&cursor, &key, &value, &e)) > 0) {
            int stop = vf_check_stopped(c, err);
            if (stop || (stop = fn(c, file, arg, key, value, err)))
                return stop;
        }
    }
    return rc ? vf_check_failed(c, file, db, (vf_bytes){ NULL, 0 }, rc, &e, err) : 0;
}

static int visit_latent(vf_check *c, const char *file, void *arg, vf_bytes key, vf_bytes value,
                        vc_err *err)
{
    ++*(int64_t *)arg;
    return check_value(c, file, false, key, value, err);
}

static int visit_text(vf_check *c, const char *file, void *arg, vf_bytes key, vf_bytes value,
                      vc_err *err)
{
    ++*(int64_t *)arg;
    return check_value(c, file, true, key, value, err);
}

static int visit_thumb(vf_check *c, const char *file, void *arg, vf_bytes key, vf_bytes value,
                       vc_err *err)
{
    uint32_t number, variant;
    vc_err e = { 0 };
    (void)arg;
    c->report->thumbs++;
    int rc = vc_map_touch(value.data, value.size, &e);
    if (rc)
        return vf_check_failed(c, file, "thumb", key, rc, &e, err);
    if (!vf_sample_key_parse((const char *)key.data, key.size, &number, &variant))
        vf_check_found(c, file, "thumb", key, "NNNNNNNNNNNN/NNN expected as key");
    else if (!vf_is_jpeg(value.data, value.size))
        vf_check_found(c, file, "thumb", key, "no JPEG");
    return 0;
}

typedef struct grid {                        /* an entry of the index's `buckets` */
    const char *key;                         /* borrowed */
    vf_entry e;
    bool valid;
} grid;

typedef struct records {                     /* a shard's records beside its index */
    vf_index index;
    bool has_index, reported;                /* reported: the index has too few entries */
    grid *bucket;
    uint32_t buckets, n;
    int shard;
} records;

static bool same_bucket(const records *r, const vf_index_item *item, const vf_record *record)
{
    const grid *b = item->bucket < r->buckets ? &r->bucket[item->bucket] : NULL;
    return b && b->valid && !strcmp(b->key, record->bucket) && b->e.f == record->entry.f &&
           b->e.h == record->entry.h && b->e.w == record->entry.w;
}

/* Compares an entry of the index with the record; both are in the same order. */
static void check_index_item(vf_check *c, const char *file, records *r, vf_bytes key,
                             const vf_record *record)
{
    vf_index_item item;
    if (!r->has_index || r->reported)
        return;
    if (r->n >= r->index.n) {
        r->reported = true;
        found(c, file, "index: fewer entries than records");
        return;
    }
    vf_index_get(&r->index, r->n, &item);
    if (memcmp(&item.entry, &record->entry, sizeof item.entry) ||
        memcmp(&item.hash, &record->hash, sizeof item.hash) || item.id != record->id ||
        (!(record->entry.flags & VF_ENTRY_DROPPED) && !same_bucket(r, &item, record)))
        vf_check_found(c, file, "index", key, "differs from the record");
}

static int visit_sample(vf_check *c, const char *file, void *arg, vf_bytes key, vf_bytes value,
                        vc_err *err)
{
    records *r = arg;
    vc_err e = { 0 };
    int rc = vc_map_touch(value.data, value.size, &e);
    if (!rc)
        rc = vf_parsed_read(&c->record, key, value, &e);
    if (rc && (rc = vf_check_failed(c, file, "sample", key, rc, &e, err)))
        return rc;
    if (!e.code) {
        check_index_item(c, file, r, key, &c->record.r);
        rc = vf_refs_record(c, r->shard, key, err);
    }
    r->n++;
    return rc;
}

/* ---- a shard ---- */

/* Opens the shard's index and its buckets. r borrows from *list, which the caller frees. */
static int open_index(vf_check *c, const vf_lmdb *m, const char *file, records *r, cJSON **list,
                      vc_err *err)
{
    vc_err e = { 0 };
    const cJSON *o;
    *list = NULL;
    int rc = vf_index_open(&r->index, m, &e);
    if (!rc)
        rc = vf_buckets_parse(list, r->index.buckets, &e);
    if (rc)
        return failed(c, file, rc, &e, err);
    r->bucket = calloc((size_t)cJSON_GetArraySize(*list) + 1, sizeof *r->bucket);
    if (!r->bucket)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", file);
    cJSON_ArrayForEach(o, *list) {
        grid *b = &r->bucket[r->buckets++];
        b->key = "";
        vf_json_str_opt(o, "key", &b->key, NULL);
        b->valid = !vf_grid_read(&b->e, o, NULL);
    }
    r->has_index = true;
    return 0;
}

/* Checks a shard's records, and their index beside them. */
static int check_records(vf_check *c, int at, vc_err *err)
{
    records r = { .shard = at };
    const char *file = c->manifest.shard[at].file;
    cJSON *list = NULL;
    if (!c->m[at] || c->manifest.shard[at].text)
        return 0;
    int rc = open_index(c, c->m[at], file, &r, &list, err);
    if (!rc)
        rc = walk(c, c->m[at], file, "sample", visit_sample, &r, err);
    if (!rc && r.has_index && !r.reported && r.n != r.index.n)
        found(c, file, "index: more entries than records");
    vf_lmdb_release(c->m[at]);
    free(r.bucket);
    cJSON_Delete(list);
    return rc;
}

/* Counts the samples and finds their range. A tree that cannot be walked is reported with the
 * records. */
static int count_samples(vf_check *c, int at, int64_t *n, vc_err *err)
{
    vf_tree t;
    vf_lmdb_cursor cursor;
    vf_bytes key, value;
    vf_range *range = &c->range[at];
    *range = (vf_range){ .first = UINT64_MAX };
    if (vf_shard_tree(c->m[at], "sample", &t, NULL))
        return 0;
    vf_lmdb_start(&cursor, c->m[at], &t);
    for (; vf_lmdb_next(&cursor, &key, &value, NULL) > 0; ++*n) {
        vf_entry e = { 0 };
        uint32_t variant;
        int stop = vf_check_stopped(c, err);
        if (stop)
            return stop;
        if (!vf_sample_key_parse((const char *)key.data, key.size, &e.number, &variant))
            continue;
        e.variant = (uint16_t)variant;
        const uint64_t rank = vf_entry_rank(&e);
        range->first = rank < range->first ? rank : range->first;
        range->last = rank > range->last ? rank : range->last;
    }
    return 0;
}

static int check_values(vf_check *c, int at, int64_t count[3], vc_err *err)
{
    const char *file = c->manifest.shard[at].file;
    int rc = walk(c, c->m[at], file, "latent", visit_latent, &count[1], err);
    if (!rc)
        rc = count_samples(c, at, &count[0], err);
    return rc ? rc : walk(c, c->m[at], file, "thumb", visit_thumb, NULL, err);
}

static void check_counts(vf_check *c, const vf_shard_info *s, const int64_t count[3])
{
    static const char *const name[3] = { "samples", "latents", "texts" };
    int64_t said[3] = { s->samples, s->latents, s->texts };
    char what[96];
    for (int i = 0; i < 3; i++) {
        if (count[i] == said[i])
            continue;
        snprintf(what, sizeof what, "%" PRId64 " %s, the manifest says %" PRId64, count[i], name[i],
                 said[i]);
        found(c, s->file, what);
    }
}

/* Maps the shard and hashes it by reading. If the disk cannot read all of the shard and maps are
 * guarded (map.h), the shard is walked nevertheless, for the values that can be read. */
static int map_shard(vf_check *c, int at, vf_key *hash, bool *hashed, vc_err *err)
{
    const vf_shard_info *s = &c->manifest.shard[at];
    vc_err e = { 0 };
    int rc = vf_shard_open(&c->m[at], c->dir, s->file, s->bytes, &e);
    if (rc == VC_EFORMAT) {
        found(c, s->file, e.text);
        if (vf_shard_open(&c->m[at], c->dir, s->file, -1, &e) == VC_EFORMAT)
            return 0;                        /* the error was reported before */
        rc = c->m[at] ? 0 : e.code;
    }
    if (!rc)
        rc = vf_check_hash(c, at, hash, &e);
    *hashed = !rc;
    if (!rc)
        return 0;
    if (!vc_maps_guarded()) {
        vf_lmdb_close(c->m[at]);
        c->m[at] = NULL;
    }
    return failed(c, s->file, rc, &e, err);
}

/* Checks size, hash and pages; c->m[at] stays NULL if the shard cannot be walked. */
static int open_shard(vf_check *c, int at, vc_err *err)
{
    const vf_shard_info *s = &c->manifest.shard[at];
    vc_err e = { 0 };
    vf_key hash;
    bool hashed = false;
    int rc = map_shard(c, at, &hash, &hashed, err);
    if (rc || !c->m[at])
        return rc;
    c->report->bytes += vf_lmdb_file(c->m[at]).size;
    if (hashed && memcmp(&hash, &s->hash, sizeof hash))
        found(c, s->file, "the file's checksum differs from the manifest's");
    rc = vf_lmdb_check(c->m[at], &e);
    return rc ? failed(c, s->file, rc, &e, err) : 0;
}

static int check_shard(vf_check *c, int at, vc_err *err)
{
    const vf_shard_info *s = &c->manifest.shard[at];
    int64_t count[3] = { 0 };
    int rc = open_shard(c, at, err);
    if (rc || !c->m[at])
        return rc;
    rc = s->text ? walk(c, c->m[at], s->file, "text", visit_text, &count[2], err)
                 : check_values(c, at, count, err);
    if (!rc)
        check_counts(c, s, count);
    vf_lmdb_release(c->m[at]);
    return rc;
}

/* Reports shards that a finished dataset does not name, as vprep refuses to continue with them. */
static int check_strays(vf_check *c, vc_err *err)
{
    DIR *d = opendir(c->dir);
    int rc = d ? 0 : vc_fail_errno(err, "%s", c->dir);
    for (struct dirent *e; (e = vc_dir_next(d, c->dir, &rc, err));) {
        bool text, named = false;
        unsigned number;
        for (int i = 0; i < c->manifest.n_shards; i++)
            named |= !strcmp(e->d_name, c->manifest.shard[i].file);
        if (!named && vf_shard_name_parse(e->d_name, &text, &number))
            found(c, e->d_name, "not in the manifest");
    }
    if (d)
        closedir(d);
    return rc;
}

int vf_verify(const char *path, void (*report)(void *arg, const char *where, const char *what),
              void *arg, const atomic_int *stop, vf_verify_report *r, vc_err *err)
{
    *r = (vf_verify_report){ .latent = { INFINITY, -INFINITY }, .text = { INFINITY, -INFINITY } };
    vf_check c = { .dir = path, .found = report, .arg = arg, .stop = stop, .report = r };
    vc_err e = { 0 };
    int rc = vf_manifest_read(&c.manifest, path, &e);
    if (rc == VC_EFORMAT) {
        found(&c, VF_MANIFEST, e.text);
        return 0;
    }
    if (rc)
        return vc_fail(err, rc, "%s", e.text);
    c.m = calloc((size_t)c.manifest.n_shards + 1, sizeof *c.m);
    c.range = calloc((size_t)c.manifest.n_shards + 1, sizeof *c.range);
    if (!c.m || !c.range)
        rc = vc_fail(err, VC_ENOMEM, "%s: out of memory", path);
    vf_check_hash_begin(&c);
    for (int i = 0; i < c.manifest.n_shards && !rc; i++)
        rc = check_shard(&c, i, err);
    vf_check_hash_end(&c);
    c.references = !r->unreadable;           /* an unreadable shard may hold the values referred
                                              * to */
    if (!rc)
        rc = vf_refs_begin(&c, err);
    for (int i = 0; i < c.manifest.n_shards && !rc; i++)
        rc = check_records(&c, i, err);
    if (!rc && !r->unreadable)
        rc = vf_refs_end(&c, err);
    if (!rc && c.manifest.complete)
        rc = check_strays(&c, err);
    r->latents = c.latents.n;
    r->texts = c.texts.n;

    for (int i = 0; i < c.manifest.n_shards && c.m; i++)
        vf_lmdb_close(c.m[i]);
    if (r->damaged || r->unreadable)
        vc_maps_reported();
    rc = vc_maps_check(rc, err);
    free(c.m);
    free(c.range);
    vf_refs_free(&c);
    vf_keymap_free(&c.latents);
    vf_keymap_free(&c.texts);
    vf_manifest_free(&c.manifest);
    return rc;
}

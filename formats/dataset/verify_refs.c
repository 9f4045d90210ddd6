/* verify_refs.c - checks the references of live records and validation prompts, and the manifest's
 * sums. See verify.h */
#include "formats/dataset/verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sight {                       /* the record that is being checked */
    vf_check *c;
    const char *file, *which;                /* "sample" or "validation" */
    vf_bytes key;
    const vf_entry *entry;                   /* NULL: the record is a prompt */
} sight;

static void found(const sight *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void found(const sight *s, const char *fmt, ...)
{
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    vf_check_found(s->c, s->file, s->which, s->key, what);
}

static bool look_up(const sight *s, const vf_keymap *have, const cJSON *hex, const char *name,
                    vf_shape *shape)
{
    vf_key k;
    uint64_t packed = 0;
    if (!cJSON_IsString(hex) || !vf_key_parse(&k, hex->valuestring))
        found(s, "%s: 32 hex digits expected", name);
    else if (!vf_keymap_get(have, k, &packed))
        found(s, "%s %s: no shard has it", name, hex->valuestring);
    else {
        *shape = vf_shape_unpack(packed);
        return true;
    }
    return false;
}

/* The integer of an object in the manifest; of an array the first. 0: there is none. */
static int64_t manifest_int(const sight *s, const char *object, const char *field)
{
    const cJSON *o = cJSON_GetObjectItemCaseSensitive(s->c->manifest.json, object);
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, field);
    v = cJSON_IsArray(v) ? v->child : v;
    return cJSON_IsNumber(v) ? (int64_t)v->valuedouble : 0;
}

/* Compares sizes that follow from the encoders: channels of latents; channels of masks, which are 1
 * or a latent frame's number of pixel frames; rows and width of a vision model's states. */
static void check_encoder(const sight *s, const char *hex, const char *role, unsigned kind,
                          const vf_shape *shape)
{
    const int64_t channels = manifest_int(s, "vae", "channels"),
                  folded = manifest_int(s, "vae", "ratio"),
                  tokens = manifest_int(s, "image_encoder", "tokens"),
                  width = manifest_int(s, "image_encoder", "width");
    if (kind == VC_VALUE_MOMENTS && channels && channels != shape->c)
        found(s, "%s %s: %u channels, the manifest's vae has %" PRId64, role, hex, shape->c,
              channels);
    else if (kind == VC_VALUE_MASK && shape->c != 1 && folded && folded != shape->c)
        found(s, "%s %s: a mask of %u channels, 1 or %" PRId64 " expected", role, hex, shape->c,
              folded);
    else if (kind == VC_VALUE_EMBEDS && tokens && (tokens != shape->h || width != shape->w))
        found(s, "%s %s: states [%u,%u], the manifest's image_encoder has [%" PRId64 ",%" PRId64
              "]", role, hex, shape->h, shape->w, tokens, width);
}

static void check_latent(const sight *s, const cJSON *hex, const char *role, unsigned kind,
                         bool clip)
{
    vf_shape shape;
    const vf_entry *e = s->entry;
    if (!look_up(s, &s->c->latents, hex, role, &shape) || shape.kind == VC_VALUE_OTHER)
        return;                              /* a value without a shape was reported before */
    if (kind && shape.kind != kind)
        found(s, "%s %s: another kind of value", role, hex->valuestring);
    else if (e && kind && kind != VC_VALUE_EMBEDS &&
             (shape.h != e->h || shape.w != e->w || shape.f != (clip ? e->f : 1u)))
        found(s, "%s %s: latent [%u,%u,%u], the record says [%u,%u,%u]", role, hex->valuestring,
              shape.f, shape.h, shape.w, clip ? e->f : 1u, e->h, e->w);
    else
        check_encoder(s, hex->valuestring, role, kind, &shape);
}

/* Of a role that the table does not have, the value must be there. */
static void check_condition(const sight *s, const cJSON *hex)
{
    unsigned kind = VC_VALUE_OTHER;
    bool clip = false;
    for (int i = VC_ROLE_CLIP + 1; i < VC_ROLES; i++)
        if (!strcmp(vc_roles[i].name, hex->string)) {
            kind = vc_roles[i].kind;
            clip = vc_roles[i].clip;
        }
    check_latent(s, hex, hex->string, kind, clip);
}

static void check_conditions(const sight *s, const cJSON *record)
{
    const cJSON *o;
    cJSON_ArrayForEach(o, cJSON_GetObjectItemCaseSensitive(record, "conditions"))
        if (o->string)
            check_condition(s, o);
}

/* Checks that there is a text key for each encoder, and that each text has the encoder's width. */
static void check_texts(const sight *s, const cJSON *keys, const char *name)
{
    const cJSON *encoders = cJSON_GetObjectItemCaseSensitive(s->c->manifest.json, "text_encoders");
    const cJSON *encoder = cJSON_IsArray(encoders) ? encoders->child : NULL, *hex;
    if (!cJSON_IsArray(keys) || cJSON_GetArraySize(keys) != cJSON_GetArraySize(encoders)) {
        found(s, "%s: %d text keys expected, one per encoder", name, cJSON_GetArraySize(encoders));
        return;
    }
    cJSON_ArrayForEach(hex, keys) {
        vf_shape shape;
        int64_t width = 0;
        if (look_up(s, &s->c->texts, hex, name, &shape) && shape.w && encoder &&
            !vf_json_int(encoder, "width", &width, NULL) && width > 0 && width != shape.w)
            found(s, "%s %s: width %u, the encoder's is %" PRId64, name, hex->valuestring, shape.w,
                  width);
        encoder = encoder ? encoder->next : NULL;
    }
}

static int count_bucket(vf_check *c, const vf_record *r, vc_err *err)
{
    uint16_t dims[3] = { r->entry.f, r->entry.h, r->entry.w };
    vf_key k = vf_hash2(dims, sizeof dims, r->bucket, strlen(r->bucket));
    uint64_t n = 0;
    vf_keymap_get(&c->buckets, k, &n);
    return vf_keymap_put(&c->buckets, k, n + 1, err);
}

static int check_record(vf_check *c, int at, vf_bytes key, vf_bytes value, vc_err *err)
{
    vf_record r;
    cJSON *json;
    const cJSON *o;
    uint64_t newest = 0;
    int rc = vf_record_read(&r, &json, key, value, err);
    if (rc)
        return rc == VC_ENOMEM ? rc : 0;     /* a bad record was reported before */
    vf_keymap_get(&c->newest, vf_check_sample_key(r.entry.number, r.entry.variant), &newest);
    if (newest != (uint64_t)at || r.entry.flags & VF_ENTRY_DROPPED) {
        cJSON_Delete(json);
        return 0;
    }
    sight s = { c, c->manifest.shard[at].file, "sample", key, &r.entry };
    c->report->samples++;
    vf_root_add(&c->root, r.hash);
    check_latent(&s, cJSON_GetObjectItemCaseSensitive(json, "latent_key"), "latent_key",
                 VC_VALUE_MOMENTS, true);
    check_conditions(&s, json);
    cJSON_ArrayForEach(o, cJSON_GetObjectItemCaseSensitive(json, "captions"))
        check_texts(&s, cJSON_GetObjectItemCaseSensitive(o, "keys"), "text key");
    rc = count_bucket(c, &r, err);
    cJSON_Delete(json);
    return rc;
}

static int check_prompt(vf_check *c, int at, vf_bytes key, vf_bytes value, vc_err *err)
{
    sight s = { c, c->manifest.shard[at].file, "validation", key, NULL };
    uint32_t i;
    cJSON *json;
    vc_err e = { 0 };
    if (!vf_prompt_key_parse(key, &i))
        found(&s, "six digits expected as key");
    if (vf_is_dropped(value))
        return 0;
    int rc = vf_record_parse(&json, value, &e);
    if (rc)
        return vf_check_failed(c, s.file, s.which, key, rc, &e, err);
    const cJSON *negative = cJSON_GetObjectItemCaseSensitive(json, "negative_keys");
    const cJSON *image = cJSON_GetObjectItemCaseSensitive(json, "image");
    check_texts(&s, cJSON_GetObjectItemCaseSensitive(json, "keys"), "keys");
    if (negative && !cJSON_IsNull(negative))
        check_texts(&s, negative, "negative_keys");
    if (image && !cJSON_IsNull(image))
        check_latent(&s, image, "image", 0, false);
    check_conditions(&s, json);
    cJSON_Delete(json);
    return 0;
}

static int walk_shard(vf_check *c, int at, vc_err *err)
{
    bool text = c->manifest.shard[at].text;
    vf_tree t;
    vf_lmdb_cursor cursor;
    vf_bytes key, value;
    int rc = 0;
    if (!c->m[at] || vf_shard_tree(c->m[at], text ? "validation" : "sample", &t, NULL))
        return 0;
    vf_lmdb_start(&cursor, c->m[at], &t);
    while (!rc && vf_lmdb_next(&cursor, &key, &value, NULL) > 0) {
        rc = vf_check_stopped(c, err);
        if (!rc)
            rc = text ? check_prompt(c, at, key, value, err) : check_record(c, at, key, value, err);
    }
    return rc;
}

/* ---- the manifest ---- */

static void check_manifest_buckets(const sight *s)
{
    const cJSON *o, *list = cJSON_GetObjectItemCaseSensitive(s->c->manifest.json, "buckets");
    size_t n = 0;
    cJSON_ArrayForEach(o, list) {
        vf_entry grid = { 0 };
        const char *key = "";
        int64_t said = 0;
        uint64_t count = 0;
        n++;
        vf_json_str_opt(o, "key", &key, NULL);
        if (vf_json_int(o, "samples", &said, NULL) || vf_grid_read(&grid, o, NULL)) {
            found(s, "buckets[%zu]: key, latent and samples expected", n - 1);
            continue;
        }
        uint16_t dims[3] = { grid.f, grid.h, grid.w };
        vf_keymap_get(&s->c->buckets, vf_hash2(dims, sizeof dims, key, strlen(key)), &count);
        if (count != (uint64_t)said)
            found(s, "buckets[%zu]: %" PRId64 " samples, the shards hold %" PRIu64, n - 1, said,
                  count);
    }
    if (n != s->c->buckets.n)
        found(s, "buckets: %zu of them, the shards' samples have %zu", n, s->c->buckets.n);
}

static void check_sums(vf_check *c)
{
    char there[VF_KEY_HEX], here[VF_KEY_HEX];
    sight s = { c, VF_MANIFEST, "", { NULL, 0 }, NULL };
    if (c->report->samples != (uint64_t)c->manifest.samples)
        found(&s, "%" PRId64 " samples, the shards hold %" PRIu64, c->manifest.samples,
              c->report->samples);
    if (memcmp(&c->root, &c->manifest.root, sizeof c->root))
        found(&s, "root %s, the records' is %s", vf_key_hex(there, c->manifest.root),
              vf_key_hex(here, c->root));
    check_manifest_buckets(&s);
}

int vf_check_references(vf_check *c, vc_err *err)
{
    const cJSON *encoder;
    vf_shape shape;
    sight s = { c, VF_MANIFEST, "text_encoders", { NULL, 0 }, NULL };
    int rc = 0;
    for (int i = 0; i < c->manifest.n_shards && !rc; i++)
        rc = walk_shard(c, i, err);
    if (rc || !c->manifest.complete)         /* sums of an unfinished dataset count open shards */
        return rc;
    cJSON_ArrayForEach(encoder, cJSON_GetObjectItemCaseSensitive(c->manifest.json, "text_encoders"))
        look_up(&s, &c->texts, cJSON_GetObjectItemCaseSensitive(encoder, "empty"), "empty", &shape);
    check_sums(c);
    return 0;
}

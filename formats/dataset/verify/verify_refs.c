/* verify_refs.c - checks the references of live records and validation prompts, and the manifest's
 * sums. See verify.h */
#include "formats/dataset/verify/verify.h"

#include <inttypes.h>
#include <math.h>
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

static bool look_up(const sight *s, const vf_keymap *have, const vf_ref *ref, vf_span name,
                    vf_shape *shape)
{
    char hex[VF_KEY_HEX];
    uint64_t packed = 0;
    if (!ref->valid)
        found(s, "%.*s: 32 hex digits expected", (int)name.n, name.p);
    else if (!vf_keymap_get(have, ref->key, &packed))
        found(s, "%.*s %s: no shard has it", (int)name.n, name.p, vf_key_hex(hex, ref->key));
    else {
        *shape = vf_shape_unpack(packed);
        return true;
    }
    return false;
}

/* Compares sizes that follow from the encoders: channels of latents; channels of masks, which are
 * 1, a latent frame's number of pixel frames, or (of stills) a latent place's number of pixels;
 * rows and width of a vision model's states. */
static void check_encoder(const sight *s, const vf_ref *ref, vf_span role, unsigned kind,
                          const vf_shape *shape)
{
    const vf_facts *f = &s->c->facts;
    char hex[VF_KEY_HEX];
    const int n = (int)role.n;
    vf_key_hex(hex, ref->key);
    if (kind == VC_VALUE_MOMENTS && f->channels && f->channels != shape->c)
        found(s, "%.*s %s: %u channels, the manifest's vae has %" PRId64, n, role.p, hex, shape->c,
              f->channels);
    else if (kind == VC_VALUE_MASK && shape->c != 1 && f->folded && f->folded != shape->c &&
             f->pixels != shape->c)
        found(s, "%.*s %s: a mask of %u channels, 1, %" PRId64 " or %" PRId64 " expected", n,
              role.p, hex, shape->c, f->folded, f->pixels);
    else if (kind == VC_VALUE_EMBEDS && f->tokens &&
             (f->tokens != shape->h || f->width != shape->w))
        found(s, "%.*s %s: states [%u,%u], the manifest's image_encoder has [%" PRId64 ",%" PRId64
              "]", n, role.p, hex, shape->h, shape->w, f->tokens, f->width);
}

/* grid: the frames, rows and columns that the record says; NULL: it says none. */
static void check_latent(const sight *s, const vf_ref *ref, vf_span role, unsigned kind,
                         const unsigned *grid)
{
    vf_shape shape;
    char hex[VF_KEY_HEX];
    if (!look_up(s, &s->c->latents, ref, role, &shape) || shape.kind == VC_VALUE_OTHER)
        return;                              /* a value without a shape was reported before */
    if (kind && shape.kind != kind)
        found(s, "%.*s %s: another kind of value", (int)role.n, role.p, vf_key_hex(hex, ref->key));
    else if (grid && kind && kind != VC_VALUE_EMBEDS &&
             (shape.f != grid[0] || shape.h != grid[1] || shape.w != grid[2]))
        found(s, "%.*s %s: latent [%u,%u,%u], the record says [%u,%u,%u]", (int)role.n, role.p,
              vf_key_hex(hex, ref->key), shape.f, shape.h, shape.w, grid[0], grid[1], grid[2]);
    else
        check_encoder(s, ref, role, kind, &shape);
}

/* The role of a condition; VC_ROLE_CLIP: the table does not have it. */
static vc_role role_of(const vf_ref *ref)
{
    for (int i = VC_ROLE_CLIP + 1; i < VC_ROLES; i++)
        if (strlen(vc_roles[i].name) == ref->role.n &&
            !memcmp(vc_roles[i].name, ref->role.p, ref->role.n))
            return (vc_role)i;
    return VC_ROLE_CLIP;
}

/* The latent frames of the sound of the record's clip, which vprep rounds; 0: the record or the
 * manifest does not say. */
static double sound_frames(const sight *s)
{
    const vf_facts *f = &s->c->facts;
    const vf_entry *e = s->entry;
    if (!e || !(e->fps > 0) || f->sound_rate < 1 || f->sound_hop < 1)
        return 0;
    const double n = e->frames / (double)e->fps * (double)f->sound_rate / (double)f->sound_hop;
    return n > 1 ? n : 1;
}

/* Of sound a latent is [C,f,1,bins], with as many frames as the clip lasts, or of an import up to
 * one frame less, as some trainers round down. A rate is read as float, so that a length between
 * two whole frames may be either. */
static void check_sound(const sight *s, const vf_ref *ref)
{
    const vf_facts *f = &s->c->facts;
    const double frames = sound_frames(s);
    vf_shape shape;
    char hex[VF_KEY_HEX];
    if (!look_up(s, &s->c->latents, ref, ref->role, &shape) || shape.kind == VC_VALUE_OTHER)
        return;
    vf_key_hex(hex, ref->key);
    if (shape.kind != VC_VALUE_MOMENTS)
        found(s, "%.*s %s: another kind of value", (int)ref->role.n, ref->role.p, hex);
    else if (!f->sound_channels)
        found(s, "%.*s %s: the manifest has no audio_vae", (int)ref->role.n, ref->role.p, hex);
    else if (f->sound_channels != shape.c || shape.h != 1 || f->sound_bins != shape.w)
        found(s, "%.*s %s: latent [%u,%u,%u,%u], the manifest's audio_vae has [%" PRId64 ",f,1,%"
              PRId64 "]", (int)ref->role.n, ref->role.p, hex, shape.c, shape.f, shape.h, shape.w,
              f->sound_channels, f->sound_bins);
    else if (frames > 0 && (shape.f - frames > 0.5 + 1e-6 * frames ||
                            frames - shape.f > (f->imported ? 1.5 : 0.5) + 1e-6 * frames))
        found(s, "%.*s %s: %u frames, the record's clip of %" PRIu32 " frames at %g a second has "
              "%.0f", (int)ref->role.n, ref->role.p, hex, shape.f, s->entry->frames,
              (double)s->entry->fps, rint(frames));
}

/* Of a role that the table does not have, the value must be there. */
static void check_condition(const sight *s, const vf_ref *ref, const vf_references *own)
{
    const vc_role role = role_of(ref);
    const vc_role_row *row = role ? &vc_roles[role] : NULL;
    const vf_entry *e = s->entry;
    const int place = vc_role_reference(role);
    unsigned grid[3];
    bool known = e;
    if (row && row->sound) {
        check_sound(s, ref);
        return;
    }
    if (e)
        memcpy(grid, (unsigned[]){ row && row->clip ? e->f : 1, e->h, e->w }, sizeof grid);
    if (e && row && row->own_size) {
        known = place < own->n;              /* else their numbers differ */
        grid[1] = known ? own->size[place][0] : 0;
        grid[2] = known ? own->size[place][1] : 0;
    }
    check_latent(s, ref, ref->role, row ? row->kind : VC_VALUE_OTHER, known ? grid : NULL);
}

/* Reference pictures count from 1, and a record has the size of each. own NULL: the record is a
 * prompt, which has no sizes. */
static void check_number(const sight *s, unsigned references, const vf_references *own)
{
    int n = 0, missing = 0;
    for (int k = 0; k < VC_REFERENCES; k++) {
        const bool has = references & VC_ROLE_BIT(VC_ROLE_REFERENCE + k);
        if (has && n < k && !missing)
            missing = n + 1;
        n += has;
    }
    if (missing)
        found(s, "conditions: reference_%d: missing", missing);
    else if (own && own->n != n)
        found(s, "references: the record has sizes of %d, and its conditions are of %d", own->n, n);
}

static void check_conditions(const sight *s, const vf_refs *refs, const vf_references *own)
{
    unsigned references = 0;
    for (int i = 0; i < refs->n; i++)
        if (refs->item[i].role.p) {
            const vc_role role = role_of(&refs->item[i]);
            references |= vc_role_reference(role) < 0 ? 0 : VC_ROLE_BIT(role);
            check_condition(s, &refs->item[i], own);
        }
    check_number(s, references, own);
}

/* Checks the conditions of c->record. */
static int check_record_conditions(const sight *s, vc_err *err)
{
    vf_references own;
    vc_err e = { 0 };
    const int rc = vf_parsed_references(&s->c->record, &own, &e);
    if (rc)
        return vf_check_failed(s->c, s->file, s->which, s->key, rc, &e, err);
    check_conditions(s, &s->c->record.conditions, &own);
    return 0;
}

/* Checks that there is a text key for each encoder (n -1: there is no list), and that each text has
 * the encoder's width. */
static void check_texts(const sight *s, const vf_ref *keys, int n, const char *name)
{
    const vf_facts *f = &s->c->facts;
    if (n != f->encoders) {
        found(s, "%s: %d text keys expected, one per encoder", name, f->encoders);
        return;
    }
    for (int i = 0; i < n; i++) {
        vf_shape shape;
        char hex[VF_KEY_HEX];
        const int64_t width = f->text_width[i];
        if (look_up(s, &s->c->texts, &keys[i], (vf_span){ name, strlen(name) }, &shape) &&
            shape.w && width > 0 && width != shape.w)
            found(s, "%s %s: width %u, the encoder's is %" PRId64, name,
                  vf_key_hex(hex, keys[i].key), shape.w, width);
    }
}

/* ---- the newest records ---- */

static vf_key sample_key(uint32_t number, uint32_t variant)
{
    uint32_t v[4] = { number, variant, 0, 0 };
    vf_key k;
    memcpy(k.b, v, sizeof k.b);
    return k;
}

static int by_first(const void *a, const void *b)
{
    const vf_range *x = *(vf_range *const *)a, *y = *(vf_range *const *)b;
    return (x->first > y->first) - (x->first < y->first);
}

/* Finds the shards whose ranges of samples overlap. */
static int find_shared(vf_check *c, vc_err *err)
{
    vf_range **order = calloc((size_t)c->manifest.n_shards + 1, sizeof *order), *farthest = NULL;
    size_t n = 0;
    if (!order)
        return vc_no_memory(err);
    for (int i = 0; i < c->manifest.n_shards; i++)
        if (c->m[i] && !c->manifest.shard[i].text && c->range[i].first <= c->range[i].last)
            order[n++] = &c->range[i];
    if (n)
        qsort(order, n, sizeof *order, by_first);
    for (size_t i = 0; i < n; i++) {
        if (farthest && order[i]->first <= farthest->last)
            order[i]->shared = farthest->shared = true;
        if (!farthest || order[i]->last > farthest->last)
            farthest = order[i];
    }
    free(order);
    return 0;
}

static int list_newest(vf_check *c, int at, vc_err *err)
{
    vf_tree t;
    vf_lmdb_cursor cursor;
    vf_bytes key, value;
    uint32_t number, variant;
    int rc = 0;
    if (!c->range[at].shared || vf_shard_tree(c->m[at], "sample", &t, NULL))
        return 0;
    vf_lmdb_start(&cursor, c->m[at], &t);
    while (!rc && vf_lmdb_next(&cursor, &key, &value, NULL) > 0) {
        rc = vf_check_stopped(c, err);
        if (!rc && vf_sample_key_parse((const char *)key.data, key.size, &number, &variant))
            rc = vf_keymap_put(&c->newest, sample_key(number, variant), (uint64_t)at, err);
    }
    return rc;
}

static bool is_newest(const vf_check *c, int at, const vf_entry *e)
{
    uint64_t newest = (uint64_t)at;
    if (c->range[at].shared)
        vf_keymap_get(&c->newest, sample_key(e->number, e->variant), &newest);
    return newest == (uint64_t)at;
}

/* ---- records ---- */

static int64_t int_of(const cJSON *o, const char *field)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, field);
    v = cJSON_IsArray(v) ? v->child : v;     /* of an array the first */
    return cJSON_IsNumber(v) ? (int64_t)v->valuedouble : 0;
}

/* The pixels of a place of the latents, by the array of ratios of frames, rows and columns. */
static int64_t pixels_of(const cJSON *vae)
{
    const cJSON *ratio = cJSON_GetObjectItemCaseSensitive(vae, "ratio");
    const cJSON *rows = cJSON_GetArrayItem(ratio, 1), *columns = cJSON_GetArrayItem(ratio, 2);
    return cJSON_IsNumber(rows) && cJSON_IsNumber(columns)
           ? (int64_t)(rows->valuedouble * columns->valuedouble) : 0;
}

static int read_facts(vf_check *c, vc_err *err)
{
    const cJSON *m = c->manifest.json, *o;
    const cJSON *encoders = cJSON_GetObjectItemCaseSensitive(m, "text_encoders");
    const cJSON *vae = cJSON_GetObjectItemCaseSensitive(m, "vae");
    const cJSON *image = cJSON_GetObjectItemCaseSensitive(m, "image_encoder");
    const cJSON *audio = cJSON_GetObjectItemCaseSensitive(m, "audio_vae");
    vf_facts *f = &c->facts;
    int n = 0;
    *f = (vf_facts){ .channels = int_of(vae, "channels"), .folded = int_of(vae, "ratio"),
                     .pixels = pixels_of(vae),
                     .sound_channels = int_of(audio, "channels"),
                     .sound_bins = int_of(audio, "bins"),
                     .sound_rate = int_of(audio, "rate"), .sound_hop = int_of(audio, "hop"),
                     .imported = cJSON_HasObjectItem(m, "imported"),
                     .tokens = int_of(image, "tokens"), .width = int_of(image, "width"),
                     .encoders = cJSON_GetArraySize(encoders) };
    f->text_width = calloc((size_t)f->encoders + 1, sizeof *f->text_width);
    if (!f->text_width)
        return vc_no_memory(err);
    cJSON_ArrayForEach(o, encoders)
        vf_json_int_opt(o, "width", &f->text_width[n++], NULL);
    return 0;
}

int vf_refs_begin(vf_check *c, vc_err *err)
{
    int rc = read_facts(c, err);
    if (!rc)
        rc = find_shared(c, err);
    for (int i = 0; i < c->manifest.n_shards && !rc; i++)
        rc = list_newest(c, i, err);
    return rc;
}

static int add_to_bucket(vf_check *c, const uint16_t grid[3], const char *key, uint64_t more,
                         vc_err *err)
{
    vf_key k = vf_hash2(grid, 3 * sizeof *grid, key, strlen(key));
    uint64_t n = 0;
    vf_keymap_get(&c->buckets, k, &n);
    return more ? vf_keymap_put(&c->buckets, k, n + more, err) : 0;
}

/* Counts the bucket of a record. Neighbours often have the same one, which is added at its end. */
static int count_bucket(vf_check *c, const vf_record *r, vc_err *err)
{
    vf_bucket_count *b = &c->last;
    const uint16_t grid[3] = { r->entry.f, r->entry.h, r->entry.w };
    if (strlen(r->bucket) >= sizeof b->key)
        return add_to_bucket(c, grid, r->bucket, 1, err);
    int rc = 0;
    if (memcmp(grid, b->grid, sizeof grid) || strcmp(b->key, r->bucket)) {
        rc = add_to_bucket(c, b->grid, b->key, b->n, err);
        memcpy(b->grid, grid, sizeof grid);
        strcpy(b->key, r->bucket);
        b->n = 0;
    }
    b->n++;
    return rc;
}

int vf_refs_record(vf_check *c, int at, vf_bytes key, vc_err *err)
{
    const vf_parsed *p = &c->record;
    const vf_ref *text = p->texts.item;
    if (!c->references || p->r.entry.flags & VF_ENTRY_DROPPED || !is_newest(c, at, &p->r.entry))
        return 0;
    sight s = { c, c->manifest.shard[at].file, "sample", key, &p->r.entry };
    c->report->samples++;
    vf_root_add(&c->root, p->r.hash);
    check_latent(&s, &p->latent, (vf_span){ "latent_key", 10 }, VC_VALUE_MOMENTS,
                 (unsigned[]){ p->r.entry.f, p->r.entry.h, p->r.entry.w });
    const int rc = check_record_conditions(&s, err);
    for (int i = 0; i < p->captions; i++) {
        check_texts(&s, text, p->caption[i], "text key");
        text += p->caption[i] > 0 ? p->caption[i] : 0;
    }
    return rc ? rc : count_bucket(c, &p->r, err);
}

/* ---- validation prompts ---- */

/* The references in a field of a prompt: *n is -1 if it has no list. */
static int refs_in(vf_check *c, const cJSON *json, const char *field, int *n, vc_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, field);
    c->prompt.n = 0;
    int rc = vf_refs_of(&c->prompt, list, false, err);
    *n = cJSON_IsArray(list) ? c->prompt.n : -1;
    return rc;
}

static int check_prompt_refs(const sight *s, const cJSON *json, vc_err *err)
{
    vf_check *c = s->c;
    const cJSON *negative = cJSON_GetObjectItemCaseSensitive(json, "negative_keys");
    const cJSON *image = cJSON_GetObjectItemCaseSensitive(json, "image");
    int n, rc = refs_in(c, json, "keys", &n, err);
    if (!rc)
        check_texts(s, c->prompt.item, n, "keys");
    if (!rc && negative && !cJSON_IsNull(negative)) {
        rc = refs_in(c, json, "negative_keys", &n, err);
        if (!rc)
            check_texts(s, c->prompt.item, n, "negative_keys");
    }
    if (!rc && image && !cJSON_IsNull(image)) {
        const vf_ref ref = vf_ref_of(image);
        check_latent(s, &ref, (vf_span){ "image", 5 }, 0, NULL);
    }
    if (!rc)
        rc = refs_in(c, json, "conditions", &n, err);
    if (!rc)
        check_conditions(s, &c->prompt, NULL);
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
    rc = check_prompt_refs(&s, json, err);
    cJSON_Delete(json);
    return rc;
}

static int check_prompts(vf_check *c, int at, vc_err *err)
{
    vf_tree t;
    vf_lmdb_cursor cursor;
    vf_bytes key, value;
    int rc = 0;
    if (!c->m[at] || !c->manifest.shard[at].text ||
        vf_shard_tree(c->m[at], "validation", &t, NULL))
        return 0;
    vf_lmdb_start(&cursor, c->m[at], &t);
    while (!rc && vf_lmdb_next(&cursor, &key, &value, NULL) > 0) {
        rc = vf_check_stopped(c, err);
        if (!rc)
            rc = check_prompt(c, at, key, value, err);
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

int vf_refs_end(vf_check *c, vc_err *err)
{
    const cJSON *encoder;
    vf_shape shape;
    sight s = { c, VF_MANIFEST, "text_encoders", { NULL, 0 }, NULL };
    int rc = add_to_bucket(c, c->last.grid, c->last.key, c->last.n, err);
    for (int i = 0; i < c->manifest.n_shards && !rc; i++)
        rc = check_prompts(c, i, err);
    if (rc || !c->manifest.complete)         /* sums of an unfinished dataset count open shards */
        return rc;
    cJSON_ArrayForEach(encoder,
                       cJSON_GetObjectItemCaseSensitive(c->manifest.json, "text_encoders")) {
        const vf_ref ref = vf_ref_of(cJSON_GetObjectItemCaseSensitive(encoder, "empty"));
        look_up(&s, &c->texts, &ref, (vf_span){ "empty", 5 }, &shape);
    }
    check_sums(c);
    return 0;
}

void vf_refs_free(vf_check *c)
{
    vf_parsed_free(&c->record);
    free(c->prompt.item);
    free(c->facts.text_width);
    vf_keymap_free(&c->newest);
    vf_keymap_free(&c->buckets);
}

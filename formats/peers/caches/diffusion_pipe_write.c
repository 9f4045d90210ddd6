/* diffusion_pipe_write.c - writes a cache that diffusion-pipe uses as its own when it starts with
 * --trust_cache: it then lists no media, and pairs latents with captions by the tables below.
 *
 *     dataset.toml                             a [[directory]] for each bucket
 *     96x64x9/cache/MODEL/                     the files of a bucket
 *       metadata/grouping_keys.json            [[1.5, 9]]: aspect ratio, frames
 *       metadata/grouped_metadata_1.500_9/     a table: image_spec, its captions, is_video
 *       cache_1.500x96x64x9/latents/           items: latents, image_spec, mask, caption
 *       cache_1.500x96x64x9/iteration_order/   a table: for each caption the item of its latents
 *
 * Each bucket has a folder, since the peer computes sizes from `resolutions` and the aspect ratio;
 * the result is W and H again if they are multiples of its rounding. A peer of another version
 * deletes the cache, and must then not make a cache from media in an order of its own: the tables
 * therefore lack mask_file, which the peer needs for that, and an image_spec names a tar that does
 * not exist. The tar has the name of the sample, since several samples may come from one file.
 * See arrow.h, tensor_cache.h, exchange.h */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/utf8.h"
#include "common/os/file.h"
#include "formats/peers/arrow.h"
#include "formats/peers/caches/diffusion_pipe.h"
#include "formats/peers/torch.h"

typedef struct member {
    uint32_t sample;                         /* index in the dataset */
    int captions;
} member;

typedef struct bucket {
    int64_t w, h, frames;                    /* pixels */
    char *dir, *cache;                       /* .../96x64x9/cache/MODEL; dir/cache_1.500x96x64x9 */
    member *member;
    uint64_t *size;                          /* bytes of each member's item */
    size_t n;
} bucket;

typedef struct exporting {
    exchange *x;
    const char *model;
    const exchange_names *names;
    bool flat;                               /* latents have no axis of frames */
    bucket *bucket;
    size_t n;
    vf_keymap at;                            /* shape -> index of its bucket */
    uint64_t texts;                          /* text embeddings that were left out */
} exporting;

/* ---- items ---- */

static int make_bucket(exporting *e, const int64_t shape[3], vc_err *err)
{
    if (!(e->n & (e->n - 1))) {
        bucket *more = realloc(e->bucket, (e->n ? 2 * e->n : 1) * sizeof *more);
        if (!more)
            return vc_no_memory(err);
        e->bucket = more;
    }
    const vc_family *f = e->x->family;
    bucket *b = &e->bucket[e->n];
    *b = (bucket){ .w = shape[2] * f->ratio[2], .h = shape[1] * f->ratio[1],
                   .frames = (shape[0] - 1) * f->ratio[0] + 1 };
    int64_t multiple = f->ratio[1] * f->patch;
    if (b->w % multiple || b->h % multiple)
        return vc_fail(err, VC_EMISMATCH,
                       "bucket %" PRId64 "x%" PRId64 ": diffusion-pipe has widths "
                       "and heights that are multiples of %" PRId64 " (vlat select leaves samples "
                       "out)", b->w, b->h, multiple);
    if (f->ratio[0] == 1 && shape[0] > 1)
        return vc_fail(err, VC_EMISMATCH, "%" PRId64 " frames: %s has stills", shape[0], f->name);
    b->dir = vc_format("%s/%" PRId64 "x%" PRId64 "x%" PRId64 "/cache/%s", e->x->dir, b->w, b->h,
                       b->frames, e->model);
    b->cache = b->dir ? vc_format("%s/cache_%.3fx%" PRId64 "x%" PRId64 "x%" PRId64, b->dir,
                                  (double)b->w / (double)b->h, b->w, b->h, b->frames) : NULL;
    char *latents = b->cache ? vc_path_join(b->cache, "latents") : NULL;
    int rc = latents ? vc_mkdirs(latents, err) : vc_no_memory(err);
    free(latents);
    e->n++;                                  /* from here on, the export frees the bucket's names */
    return rc;
}

static int find_bucket(exporting *e, const int64_t shape[3], bucket **b, vc_err *err)
{
    vf_key k = vf_hash(shape, 3 * sizeof *shape);
    uint64_t i = e->n;
    int rc = 0;
    if (!vf_keymap_get(&e->at, k, &i)) {
        rc = make_bucket(e, shape, err);
        if (!rc)
            rc = vf_keymap_put(&e->at, k, i, err);
    }
    if (!rc)
        *b = &e->bucket[i];
    return rc;
}

static int append(bucket *b, const exchange_sample *s, int captions, const char *data, size_t n,
                  vc_err *err)
{
    if (!(b->n & (b->n - 1))) {
        size_t room = b->n ? 2 * b->n : 1;
        member *m = realloc(b->member, room * sizeof *m);
        if (m)
            b->member = m;
        uint64_t *size = realloc(b->size, room * sizeof *size);
        if (size)
            b->size = size;
        if (!m || !size)
            return vc_no_memory(err);
    }
    char *path = vc_path_join(b->cache, "latents/shard_0.bin");
    FILE *f = path ? fopen(path, "abe") : NULL;
    int rc = path ? 0 : vc_no_memory(err);
    if (!rc && (!f || fwrite(data, 1, n, f) != n))
        rc = vc_fail_errno(err, "%s", path);
    if (f && fclose(f) && !rc)
        rc = vc_fail_errno(err, "%s", path);
    free(path);
    b->member[b->n] = (member){ s->i, captions };
    b->size[b->n++] = n;
    return rc;
}

/* Returns the texts of a record's captions, at least one. The texts are borrowed; the caller
 * frees the array. */
static const char **captions_of(const cJSON *record, int *n, vc_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(record, "captions"), *c;
    const char **text = malloc(((size_t)cJSON_GetArraySize(list) + 1) * sizeof *text);
    *n = 0;
    if (!text) {
        vc_no_memory(err);
        return NULL;
    }
    cJSON_ArrayForEach(c, list)
        text[(*n)++] = vlat_str(c, "text");
    if (!*n)
        text[(*n)++] = "";
    return text;
}

static vf_pt_value text_value(const char *s)
{
    return (vf_pt_value){ .kind = VF_PT_STR, .s = s, .n = strlen(s) };
}

/* The rows of CLIP's states of one picture. */
enum { VISION_ROWS = 257 };

/* Opens a sample's known frames, which name the model. */
static int open_known(exporting *e, exchange_known *k, const exchange_sample *s, vc_err *err)
{
    int rc = exchange_known_open(k, e->x, s, false, err);
    if (rc || !k->clip.data)
        return rc;
    if (s->mean.dim[1] == 1)
        return vc_fail(err, VC_EMISMATCH, "a still: diffusion-pipe trains image-to-video on clips "
                       "alone (vlat select 'frames > 1' leaves stills out)");
    e->model = !k->vision.data ? "wan2.2_i2v"
               : k->vision.dim[0] > VISION_ROWS ? "wan_flf2v" : "wan_i2v";
    return 0;
}

/* Adds the known frames, y [C,F,H,W] and clip_context [n,D], in the latents' type; the caller frees
 * own[]. */
static int add_known(exchange_dict *d, const exchange_known *k, vc_dtype t, void *own[2],
                     vc_err *err)
{
    const vf_view *from[2] = { &k->clip, &k->vision };
    int rc = 0;
    for (int i = 0; !rc && i < 2 && from[i]->data; i++) {
        size_t n = (size_t)vf_view_count(from[i]);
        vf_view v = *from[i];
        v.data = own[i] = malloc(n * vc_dtype_size(t) + 1);
        v.dtype = t;
        v.bytes = n * vc_dtype_size(t);
        rc = own[i] ? exchange_convert(own[i], t, from[i], 0, n, err) : vc_no_memory(err);
        exchange_dict_tensor(d, i ? "clip_context" : "y", v);
    }
    return rc;
}

/* Adds the reference picture, which the peer cuts to the latents' shape. */
static int add_reference(exchange_dict *d, const exporting *e, const exchange_sample *s,
                         vc_err *err)
{
    const size_t at = d->n;
    int rc = exchange_add_references(d, e->x, e->names, s, err);
    if (rc || d->n == at)
        return rc;
    const vf_view *v = &d->view[d->n - 1];
    if (v->dim[1] == s->mean.dim[2] && v->dim[2] == s->mean.dim[3])
        return 0;
    return vc_fail(err, VC_EMISMATCH, "a reference picture of %" PRId64 "x%" PRId64 " latent "
                   "places beside a sample of %" PRId64 "x%" PRId64 ": diffusion-pipe cuts both "
                   "to one size: encode with --reference_size, or export to musubi or diffsynth",
                   v->dim[1], v->dim[2], s->mean.dim[2], s->mean.dim[3]);
}

/* Makes the bytes of an item, with latents of the dataset's type; the caller frees *data. */
static int pack_item(const exporting *e, const exchange_sample *s, const exchange_known *k,
                     const char *const *caption, int captions, char **data, size_t *size,
                     vc_err *err)
{
    void *own[2] = { NULL };
    size_t n = (size_t)vf_view_count(&s->mean), wide = vc_dtype_size(s->mean.dtype);
    const vf_pt_value none = { .kind = VF_PT_NONE }, path = text_value(vlat_str(s->record, "path"));
    const vf_pt_value *spec[2] = { &none, &path };
    vf_pt_value *text = calloc((size_t)captions, sizeof *text);
    const vf_pt_value **texts = calloc((size_t)captions, sizeof *texts);
    void *latents = malloc(n * wide);
    float *f = NULL;
    exchange_dict d = { .n = 0 };
    int rc = text && texts && latents ? exchange_latent_f32(e->x, s, &f, err)
                                      : vc_no_memory(err);
    vf_view v = { NULL, VC_F32, 1, { (int64_t)n }, f, 4 * n };
    if (!rc)
        rc = exchange_convert(latents, s->mean.dtype, &v, 0, n, err);
    v = s->mean;
    v.data = latents;
    if (e->flat)
        exchange_drop_frames(&v);
    exchange_dict_tensor(&d, "latents", v);
    vf_pt_value *list = exchange_dict_add(&d, "image_spec", VF_PT_LIST);
    list->item = spec;
    list->n = 2;
    exchange_dict_add(&d, "mask", VF_PT_NONE);
    for (int i = 0; !rc && i < captions; i++) {
        text[i] = text_value(caption[i]);
        texts[i] = &text[i];
    }
    list = exchange_dict_add(&d, "caption", VF_PT_LIST);
    list->item = texts;
    list->n = (size_t)captions;
    if (!rc)
        rc = add_known(&d, k, s->mean.dtype, own, err);
    if (!rc)
        rc = add_reference(&d, e, s, err);
    const vf_pt_value item = exchange_dict_value(&d);
    if (!rc)
        rc = vf_pt_pack(data, size, &item, err);
    exchange_dict_free(&d);
    free(own[0]);
    free(own[1]);
    free(f);
    free(latents);
    free(texts);
    free(text);
    return rc;
}

static int write_sample(exchange *x, const exchange_sample *s, void *arg, vc_err *err)
{
    exporting *e = arg;
    (void)x;
    exchange_known k;
    bucket *b = NULL;
    char *data = NULL;
    size_t size;
    int n, rc = open_known(e, &k, s, err);
    if (!rc)
        rc = find_bucket(e, s->mean.dim + 1, &b, err);
    const char **caption = rc ? NULL : captions_of(s->record, &n, err);
    if (!rc)
        rc = caption ? pack_item(e, s, &k, caption, n, &data, &size, err) : VC_ENOMEM;
    if (!rc)
        rc = append(b, s, n, data, size, err);
    if (!rc)
        e->texts += (uint64_t)n * (uint64_t)s->n_text;
    exchange_known_close(&k);
    free(data);
    free(caption);
    return rc;
}

/* ---- tables ---- */

enum { SPEC };                               /* the first column of both tables */
enum { CAPTIONS = 1, IS_VIDEO };
static const vf_arrow_field metadata_fields[] = {
    { "image_spec", VF_ARROW_LIST }, { "caption", VF_ARROW_LIST }, { "is_video", VF_ARROW_BOOL },
};
enum { LATENTS_IDX = 1, CAPTION, CAPTION_NUMBER };
static const vf_arrow_field order_fields[] = {
    { "image_spec", VF_ARROW_LIST }, { "latents_idx", VF_ARROW_INT64 },
    { "caption", VF_ARROW_UTF8 }, { "caption_number", VF_ARROW_INT64 },
};

/* A caption of a member. */
typedef struct trained_caption {
    uint64_t random;
    uint32_t member;
    int number;
} trained_caption;

/* Sorts first captions before second ones, each in a random order that is always the same. */
static int by_training_order(const void *a, const void *b)
{
    const trained_caption *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    if (x->random != y->random)
        return x->random < y->random ? -1 : 1;
    return (x->member > y->member) - (x->member < y->member);
}

static int order_of(const bucket *b, trained_caption **out, size_t *n, vc_err *err)
{
    *n = 0;
    for (size_t i = 0; i < b->n; i++)
        *n += (size_t)b->member[i].captions;
    trained_caption *t = *out = malloc((*n + 1) * sizeof *t);
    if (!t)
        return vc_no_memory(err);
    for (size_t i = 0; i < b->n; i++)
        for (int c = 0; c < b->member[i].captions; c++, t++) {
            *t = (trained_caption){ .member = (uint32_t)i, .number = c };
            vf_key k = vf_hash2(&b->member[i].sample, sizeof b->member[i].sample, &c, sizeof c);
            memcpy(&t->random, k.b, sizeof t->random);
        }
    qsort(*out, *n, sizeof **out, by_training_order);
    return 0;
}

static void put_spec(vf_arrow *a, const exchange *x, uint32_t sample, const cJSON *record)
{
    char key[24];
    const vf_entry *e = vf_dataset_entry(x->d, sample);
    vf_arrow_text(a, SPEC, vf_sample_key(key, e->number, e->variant));
    vf_arrow_text(a, SPEC, vlat_str(record, "path"));
}

/* Puts the row of caption t, or, if t is NULL, the row of member i with all its captions. */
static int put_row(vf_arrow *a, const exchange *x, const bucket *b, size_t i,
                   const trained_caption *t, vc_err *err)
{
    cJSON *record = NULL;
    int n, rc = vf_dataset_sample(x->d, b->member[i].sample, &record, err);
    const char **caption = rc ? NULL : captions_of(record, &n, err);
    if (!rc && !caption)
        rc = VC_ENOMEM;
    if (!rc) {
        put_spec(a, x, b->member[i].sample, record);
        if (t) {
            vf_arrow_int(a, LATENTS_IDX, (int64_t)i);
            vf_arrow_text(a, CAPTION, caption[t->number]);
            vf_arrow_int(a, CAPTION_NUMBER, t->number);
        } else {
            for (int c = 0; c < n; c++)
                vf_arrow_text(a, CAPTIONS, caption[c]);
            vf_arrow_int(a, IS_VIDEO, b->frames > 1);
        }
        rc = vf_arrow_row(a, err);
    }
    free(caption);
    cJSON_Delete(record);
    return rc ? rc : exchange_stopped(err);
}

/* Writes the files that `datasets` needs beside a table; the fingerprint identifies the table. */
static int write_state(const exchange *x, const char *dir, vc_err *err)
{
    char text[400], hex[VF_KEY_HEX];
    const char *root = vlat_str(x->manifest, "root"), *within = dir + strlen(x->dir);
    vf_key_hex(hex, vf_hash2(root, strlen(root), within, strlen(within)));
    int n = snprintf(text, sizeof text,
                     "{\"_data_files\": [{\"filename\": \"data-00000-of-00001.arrow\"}], "
                     "\"_fingerprint\": \"%s\", \"_format_columns\": null, \"_format_kwargs\": {}, "
                     "\"_format_type\": null, \"_output_all_columns\": false, \"_split\": null}\n",
                     hex);
    int rc = exchange_write(dir, "state.json", text, (size_t)n, err);
    return rc ? rc : exchange_write(dir, "dataset_info.json", "{}\n", 3, err);
}

/* Writes a table of n rows: a row a caption, or, if t is NULL, a row a member. */
static int write_table(const exchange *x, const bucket *b, const char *dir,
                       const trained_caption *t, size_t n, vc_err *err)
{
    char *path = vc_path_join(dir, "data-00000-of-00001.arrow");
    vf_arrow *a = NULL;
    int rc = path ? vc_mkdirs(dir, err) : vc_no_memory(err);
    if (!rc)
        rc = t ? vf_arrow_open(&a, path, order_fields, 4, err)
               : vf_arrow_open(&a, path, metadata_fields, 3, err);
    for (size_t i = 0; !rc && i < n; i++)
        rc = put_row(a, x, b, t ? t[i].member : i, t ? &t[i] : NULL, err);
    if (!rc)
        rc = vf_arrow_finish(a, err);
    if (!rc)
        rc = write_state(x, dir, err);
    vf_arrow_close(a);
    free(path);
    return rc;
}

static int write_bucket(const exchange *x, const bucket *b, vc_err *err)
{
    double ar = (double)b->w / (double)b->h;
    char key[64];
    int n = snprintf(key, sizeof key, "[[%.17g, %" PRId64 "]]", ar, b->frames);
    char *latents = vc_path_join(b->cache, "latents");
    char *order = vc_path_join(b->cache, "iteration_order");
    char *metadata = vc_format("%s/metadata/grouped_metadata_%.3f_%" PRId64, b->dir, ar, b->frames);
    trained_caption *t = NULL;
    size_t captions;
    int rc = latents && order && metadata ? vf_tensor_cache_index(latents, b->size, b->n, err)
                                          : vc_no_memory(err);
    if (!rc)
        rc = write_table(x, b, metadata, NULL, b->n, err);
    if (!rc)
        rc = order_of(b, &t, &captions, err);
    if (!rc)
        rc = write_table(x, b, order, t, captions, err);
    if (!rc)
        rc = exchange_write(b->dir, "metadata/grouping_keys.json", key, (size_t)n, err);
    if (!rc)
        rc = exchange_write_note(x, b->dir, "metadata/" EXCHANGE_NOTE, (uint32_t)b->n, err);
    free(t);
    free(metadata);
    free(order);
    free(latents);
    return rc;
}

/* ---- the export ---- */

/* Writes dataset.toml with the export's final path, without ".part". */
static int write_toml(const exporting *e, vc_err *err)
{
    char part[PATH_MAX];
    vc_buf b = { 0 };
    if (!realpath(e->x->dir, part))
        return vc_fail_errno(err, "%s", e->x->dir);
    size_t n = strlen(part) - strlen(".part");
    if (vc_utf8_prefix(part, n) < n)
        return vc_fail(err, VC_EINVAL, "%s: a path that is not UTF-8 cannot stand in dataset.toml",
                       part);
    vc_buf_str(&b, "# Start diffusion-pipe with --trust_cache: there are no media here.\n"
                   "# Captions and sizes are as they are; num_repeats may be changed.\n"
                   "resolutions = []\n");
    for (size_t i = 0; i < e->n; i++) {
        const bucket *k = &e->bucket[i];
        char *path = vc_format("%.*s/%" PRId64 "x%" PRId64 "x%" PRId64, (int)n, part, k->w, k->h,
                               k->frames);
        vc_buf_str(&b, "\n[[directory]]\npath = ");
        vc_buf_json(&b, path ? path : "", path ? strlen(path) : 0);
        vc_buf_printf(&b, "\nresolutions = [[%" PRId64 ", %" PRId64 "]]\nnum_repeats = 1\n", k->w,
                      k->h);
        b.failed |= !path;
        free(path);
    }
    int rc = b.failed ? vc_no_memory(err)
                      : exchange_write(e->x->dir, "dataset.toml", b.data, b.n, err);
    vc_buf_free(&b);
    return rc;
}

int exchange_dpipe_write(exchange *x, const char *model, const exchange_names *names, vc_err *err)
{
    exporting e = { .x = x, .model = model, .names = names,
                    .flat = names->axes == EXCHANGE_CHW };
    int rc = exchange_each(x, write_sample, &e, err);
    x->no_captions = 0;                      /* this format has all captions */
    for (size_t i = 0; !rc && i < e.n; i++)
        rc = write_bucket(x, &e.bucket[i], err);
    if (!rc)
        rc = write_toml(&e, err);
    if (!rc && e.texts)
        vc_warn(x->v->progress, "%" PRIu64 " text embeddings were left out: diffusion-pipe encodes "
                "captions at its first start, which must be with --trust_cache, as every one",
                e.texts);
    for (size_t i = 0; i < e.n; i++) {
        free(e.bucket[i].dir);
        free(e.bucket[i].cache);
        free(e.bucket[i].member);
        free(e.bucket[i].size);
    }
    free(e.bucket);
    vf_keymap_free(&e.at);
    return rc;
}

/* diffusion_pipe_write.c - writes a cache that diffusion-pipe uses as its own when it starts with
 * --trust_cache: it then lists no media, and pairs latents with captions by the tables below
 * (diffusion_pipe_tables.c).
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
 * See tensor_cache.h, exchange.h */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/utf8.h"
#include "common/os/file.h"
#include "formats/peers/caches/diffusion_pipe.h"
#include "formats/peers/caches/diffusion_pipe_tables.h"
#include "formats/peers/torch.h"

typedef struct exporting {
    exchange *x;
    const char *model;
    const exchange_names *names;
    bool flat;                               /* latents have no axis of frames */
    dpipe_bucket *bucket;
    size_t n;
    vf_keymap at;                            /* shape -> index of its bucket */
    uint64_t texts;                          /* text embeddings that were left out */
} exporting;

/* ---- items ---- */

static int make_bucket(exporting *e, const int64_t shape[3], vc_err *err)
{
    if (!(e->n & (e->n - 1))) {
        dpipe_bucket *more = realloc(e->bucket, (e->n ? 2 * e->n : 1) * sizeof *more);
        if (!more)
            return vc_no_memory(err);
        e->bucket = more;
    }
    const vc_family *f = e->x->family;
    dpipe_bucket *b = &e->bucket[e->n];
    *b = (dpipe_bucket){ .w = shape[2] * f->ratio[2], .h = shape[1] * f->ratio[1],
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

static int find_bucket(exporting *e, const int64_t shape[3], dpipe_bucket **b, vc_err *err)
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

static int append(dpipe_bucket *b, const exchange_sample *s, int captions, const char *data,
                  size_t n, vc_err *err)
{
    if (!(b->n & (b->n - 1))) {
        size_t room = b->n ? 2 * b->n : 1;
        dpipe_member *m = realloc(b->member, room * sizeof *m);
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
    b->member[b->n] = (dpipe_member){ s->i, captions };
    b->size[b->n++] = n;
    return rc;
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
    dpipe_bucket *b = NULL;
    char *data = NULL;
    size_t size;
    int n, rc = open_known(e, &k, s, err);
    if (!rc)
        rc = find_bucket(e, s->mean.dim + 1, &b, err);
    const char **caption = rc ? NULL : dpipe_captions(s->record, &n, err);
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
        const dpipe_bucket *k = &e->bucket[i];
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
        rc = dpipe_write_tables(x, &e.bucket[i], err);
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

/* diffusion_pipe.c - imports diffusion-pipe's cache, MEDIA/cache/MODEL; diffusion_pipe_write.c
 * exports one.
 *
 *     cache_1.500x96x64x9/latents/              items: latents [C,F,H,W] (FLUX, Z-Image [C,H,W]),
 *                                               image_spec, caption, mask; of edits
 *                                               control_latents, the reference picture
 *     cache_1.500x96x64x9/text_embeddings_1/    items of one caption each: embeddings, image_spec;
 *     ar_frames_1.500_9/text_embeddings_1/      or here, for all sizes of an aspect ratio
 *     uncond_text_embeddings_1/                 one item: the empty prompt's
 *
 * image_spec (a tar or None, a path) pairs them. See tensor_cache.h, exchange.h */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/peers/exchange_parts.h"
#include "formats/peers/tensor_cache.h"
#include "formats/peers/tensors.h"

typedef struct layout {
    exchange_names names;
    const char *model;                       /* the peer's name of the model */
    bool named;                              /* other models have the same keys: the name of the
                                              * folder, or --family, chooses the row */
    bool blind;                              /* texts do not depend on the reference picture, so
                                              * that an export, whose captions the peer encodes
                                              * without media, may have one */
} layout;

#define FILES(family_) .family = family_, .latents = "latents", \
    .conditions = { "mask", "y", "clip_context" }
#define EDITS(family_) FILES(family_), .references = "control_latents"
#define WAN(family_) { FILES(family_), .n_text = 1, \
    .text = { { .embeds = "text_embeddings", .length = "seq_lens", .whole = true, \
                .trim = EXCHANGE_BY_LENGTH } } }
#define MASKED .whole = true, .trim = EXCHANGE_BY_MASK

#define FLUX2(model_, width_, pipeline_) \
    { { EDITS("flux2"), .axes = EXCHANGE_CHW, .drawn = true, .n_text = 1, \
        .text = { { .embeds = "text_embeds_0", .most = 512 } }, .width = width_, \
        .pipeline = pipeline_ }, model_, true, true }

/* fps is the rate to which the peer resamples clips; 0: the files do not show it (Wan: 16 or 24).
 * Z-Image's texts are padded to the longest of a batch, so that their rows are no max_length. */
static const layout layouts[] = {
    { WAN("wan2.1"), "wan", false, false },
    { WAN("wan2.2-5b"), "wan2.2_5b", true, false },
    { { FILES("hunyuanvideo"), .drawn = true, .fps = 24, .n_text = 2,
        .text = { { .embeds = "prompt_embeds_1", .mask = "prompt_attention_mask_1", MASKED },
                  { .pooled = "prompt_embeds_2" } } }, "hunyuan-video", false, false },
    { { FILES("ltx-video"), .drawn = true, .fps = 25, .n_text = 1,
        .text = { { .embeds = "prompt_embeds", .mask = "prompt_attention_mask", MASKED } } },
      "ltx-video", false, false },
    { { EDITS("qwen-image"), .n_text = 1, .text = { { .embeds = "prompt_embeds" } } },
      "qwen_image", false, false },
    { { EDITS("flux"), .axes = EXCHANGE_CHW, .drawn = true, .n_text = 2,
        .text = { { .pooled = "clip_embed" }, { .embeds = "t5_embed" } } }, "flux", false, true },
    { { FILES("z-image"), .axes = EXCHANGE_CHW, .drawn = true, .n_text = 1,
        .text = { { .embeds = "text_embeds_0", .mask = "attention_mask_0",
                    .trim = EXCHANGE_BY_MASK } } }, "z_image", true, false },
    FLUX2("flux2_klein_4b", 7680, "Flux2KleinPipeline"),
    FLUX2("flux2_klein_9b", 12288, "Flux2KleinPipeline"),
    FLUX2("flux2", 15360, "Flux2Pipeline"),
    { { 0 }, NULL, false, false }
};
enum { ENCODERS = EXCHANGE_NAMED_TEXTS, MAX_CAPTIONS = 1000 };

typedef struct importing {
    exchange *x;
    const layout *l;                         /* NULL before the first text */
    vf_tensor_cache *latents, *text[ENCODERS];
    vf_keymap at;                            /* caption of a media file -> its item in text[0] */
} importing;

/* A caption of a sample, and the files from which its texts borrow. */
typedef struct caption {
    exchange_item item;
    char *text;
    vf_pt *p[ENCODERS];
} caption;

/* ---- items ---- */

/* True if the folder's name, from which the peer reads caches, is that of a model of the family;
 * which of them it is the width of its texts says. */
static bool in_folder(const char *family, const char *dir)
{
    size_t n = strlen(dir);
    while (n && dir[n - 1] == '/')
        n--;
    for (const layout *l = layouts; l->model; l++) {
        const size_t k = strlen(l->model);
        if (!strcmp(l->names.family, family) && n >= k && (n == k || dir[n - k - 1] == '/') &&
            !strncmp(dir + n - k, l->model, k))
            return true;
    }
    return false;
}

/* Finds the layout of a text: of those whose keys and width it has, that of --family, that of the
 * folder's name, or the first of those that their keys tell apart. */
static int guess(importing *m, const vf_pt_value *d, vc_err *err)
{
    const char *said = m->x->v->o->family;
    int best = 0;
    for (const layout *l = layouts; l->model; l++) {
        const int points = !exchange_has_text(&l->names, 0, d) ? 0 :
                           (said && !strcmp(l->names.family, said) ? 4 : 0) +
                           (in_folder(l->names.family, m->x->dir) ? 2 : 0) + !l->named;
        if (points > best) {
            m->l = l;
            best = points;
        }
    }
    if (!m->l)
        return vc_fail(err, VC_EFORMAT, "text_embeddings_1: of none of the models wan, wan2.2_5b, "
                       "hunyuan-video, ltx-video, qwen_image, flux, or of z_image or flux2, whose "
                       "caches have the folder's name or --family; nor of a flux2, whose texts are "
                       "7680, 12288 or 15360 numbers wide");
    const char *family = m->l->names.family;
    if (said && strcmp(said, family))
        return vc_fail(err, VC_EMISMATCH, "of %s, --family says %s", family, said);
    m->x->family = exchange_family_find(family);
    m->x->pipeline = m->l->names.pipeline;
    return 0;
}

/* Returns an image_spec as "PATH" or "TAR/PATH"; the caller frees the text. */
static char *spec_of(const vf_pt_value *d, vc_err *err)
{
    const vf_pt_value *s = vf_pt_get(d, "image_spec"), *tar, *path;
    if (!s || (s->kind != VF_PT_LIST && s->kind != VF_PT_TUPLE) || s->n != 2) {
        vc_fail(err, VC_EFORMAT, "image_spec: a pair expected");
        return NULL;
    }
    tar = s->item[0];
    path = s->item[1];
    if (path->kind != VF_PT_STR || path->n > 4096 || tar->n > 4096 || memchr(path->s, 0, path->n)) {
        vc_fail(err, VC_EFORMAT, "image_spec: a path expected");
        return NULL;
    }
    char *text = tar->kind != VF_PT_STR
                     ? strndup(path->s, path->n)
                     : vc_format("%.*s/%.*s", (int)tar->n, tar->s, (int)path->n, path->s);
    if (!text)
        vc_no_memory(err);
    return text;
}

static vf_key caption_key(const char *spec, uint32_t i)
{
    return vf_hash2(spec, strlen(spec), &i, sizeof i);
}

/* Maps each caption of a media file to its item; captions keep their order. */
static int index_texts(importing *m, vc_err *err)
{
    int rc = 0;
    vf_keymap seen = { 0 };                  /* media file -> its captions so far */
    vf_keymap_clear(&m->at);
    for (size_t i = 0; !rc && i < vf_tensor_cache_count(m->text[0]); i++) {
        vf_pt *p;
        rc = vf_tensor_cache_get(m->text[0], i, &p, err);
        if (!rc && !m->l)
            rc = guess(m, vf_pt_root(p), err);
        char *spec = rc ? NULL : spec_of(vf_pt_root(p), err);
        if (!rc && !spec)
            rc = vc_context(err, VC_EFORMAT, "text_embeddings_1: item %zu", i);
        if (!rc) {
            vf_key k = vf_hash(spec, strlen(spec));
            uint64_t n = 0;
            vf_keymap_get(&seen, k, &n);
            rc = vf_keymap_put(&seen, k, n + 1, err);
            if (!rc)
                rc = vf_keymap_put(&m->at, caption_key(spec, (uint32_t)n), i, err);
        }
        free(spec);
        vf_pt_close(p);
        if (!rc)
            rc = exchange_stopped(err);
    }
    vf_keymap_free(&seen);
    return rc;
}

/* Opens item `at` of each encoder's cache; the caller closes p[]. */
static int open_texts(importing *m, exchange_item *item, size_t at, vf_pt *p[ENCODERS], vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < m->l->names.n_text; i++) {
        if (at >= vf_tensor_cache_count(m->text[i]))
            rc = vc_fail(err, VC_EFORMAT, "text_embeddings_%d: no item %zu", i + 1, at);
        if (!rc)
            rc = vf_tensor_cache_get(m->text[i], at, &p[i], err);
        if (!rc)
            rc = vc_context(err, exchange_take_text(item, i, &m->l->names, vf_pt_root(p[i]), err),
                            "text_embeddings_%d: item %zu", i + 1, at);
    }
    item->n_text = m->l->names.n_text;
    return rc;
}

/* Checks that the encoders' items are of the same media file; if they are not, two caches are
 * mixed. */
static int same_spec(const importing *m, const char *spec, vf_pt *p[ENCODERS], vc_err *err)
{
    int rc = 0;
    for (int i = 1; !rc && i < m->l->names.n_text; i++) {
        char *other = spec_of(vf_pt_root(p[i]), err);
        if (!other)
            return VC_EFORMAT;
        if (strcmp(other, spec))
            rc = vc_fail(err, VC_EMISMATCH,
                         "text_embeddings_%d: of %.200s where text_embeddings_1 is "
                         "of %.200s", i + 1, other, spec);
        free(other);
    }
    return rc;
}

/* Opens caption i of the latent's list. */
static int open_caption(importing *m, caption *c, const char *spec, uint32_t i,
                        const vf_pt_value *text, vc_err *err)
{
    uint64_t at;
    c->text = text && text->kind == VF_PT_STR ? strndup(text->s, text->n) : strdup("");
    c->item.caption = c->text;
    if (!c->text)
        return vc_no_memory(err);
    if (m->x->v->o->texts)
        return 0;
    if (!vf_keymap_get(&m->at, caption_key(spec, i), &at))
        return vc_fail(err, VC_ENOENT, "%s: no text embeddings of caption %" PRIu32, spec, i + 1);
    int rc = open_texts(m, &c->item, (size_t)at, c->p, err);
    return rc ? rc : same_spec(m, spec, c->p, err);
}

static void close_captions(caption *c, uint32_t n)
{
    for (uint32_t i = 0; c && i < n; i++) {
        for (int k = 0; k < ENCODERS; k++)
            vf_pt_close(c[i].p[k]);
        free(c[i].text);
    }
    free(c);
}

static int put_item(importing *m, const vf_pt_value *d, const char *spec, vc_err *err)
{
    const vf_pt_value *list = vf_pt_get(d, "caption");
    bool several = list && (list->kind == VF_PT_LIST || list->kind == VF_PT_TUPLE);
    if (several && (!list->n || list->n > MAX_CAPTIONS))
        return vc_fail(err, VC_EFORMAT, "caption: 1 to %d texts expected", MAX_CAPTIONS);
    uint32_t n = several ? (uint32_t)list->n : 1;
    caption *c = calloc(n, sizeof *c);
    void *own = NULL;
    int rc = c ? 0 : vc_no_memory(err);
    for (uint32_t i = 0; !rc && i < n; i++) {
        rc = open_caption(m, &c[i], spec, i, several ? list->item[i] : list, err);
        c[i].item.more = i + 1 < n ? &c[i + 1].item : NULL;
    }
    if (!rc) {
        c->item.path = spec;
        rc = exchange_take_latents(&c->item, m->x, &m->l->names, d, &own, err);
    }
    if (!rc)
        rc = exchange_take_references(&c->item, &m->l->names, d, err);
    if (!rc)
        rc = exchange_put(m->x, &c->item, err);
    close_captions(c, n);
    free(own);
    return rc;
}

/* ---- folders ---- */

static int open_cache(vf_tensor_cache **c, const char *dir, const char *format, int i, vc_err *err)
{
    char name[48];
    snprintf(name, sizeof name, format, i);
    char *path = vc_path_join(dir, name);
    int rc = path ? vf_tensor_cache_open(c, path, err) : vc_no_memory(err);
    free(path);
    return rc;
}

/* Returns the folder of a bucket's texts: its own, or ar_frames_1.500_9 for cache_1.500x96x64x9. */
static char *text_folder(const exchange *x, const char *bucket)
{
    const char *ar = bucket + strlen("cache_"), *x1 = strchr(ar, 'x'), *frames = strrchr(ar, 'x');
    char *own = vc_format("%s/%s", x->dir, bucket);
    char *texts = own ? vc_path_join(own, "text_embeddings_1") : NULL;
    bool there = texts && vc_file_exists(texts);
    free(texts);
    if (there || !own || !x1)
        return own;
    free(own);
    return vc_format("%s/ar_frames_%.*s_%s", x->dir, (int)(x1 - ar), ar, frames + 1);
}

static void close_bucket(importing *m)
{
    vf_tensor_cache_close(m->latents);
    m->latents = NULL;
    for (int i = 0; i < ENCODERS; i++) {
        vf_tensor_cache_close(m->text[i]);
        m->text[i] = NULL;
    }
}

static int open_bucket(importing *m, const char *bucket, vc_err *err)
{
    char *texts = text_folder(m->x, bucket), *dir = vc_path_join(m->x->dir, bucket);
    int rc = texts && dir ? open_cache(&m->latents, dir, "latents", 0, err)
                          : vc_no_memory(err);
    bool own = !m->x->v->o->texts;
    if (!rc && own)
        rc = open_cache(&m->text[0], texts, "text_embeddings_%d", 1, err);
    if (!rc && own)
        rc = index_texts(m, err);
    for (int i = 1; !rc && own && m->l && i < m->l->names.n_text; i++)
        rc = open_cache(&m->text[i], texts, "text_embeddings_%d", i + 1, err);
    free(texts);
    free(dir);
    return rc;
}

static int read_bucket(importing *m, const char *bucket, vc_err *err)
{
    int rc = open_bucket(m, bucket, err);
    for (size_t i = 0; !rc && i < vf_tensor_cache_count(m->latents); i++) {
        vf_pt *p;
        rc = vf_tensor_cache_get(m->latents, i, &p, err);
        char *spec = rc ? NULL : spec_of(vf_pt_root(p), err);
        if (!rc)
            rc = spec ? put_item(m, vf_pt_root(p), spec, err) : VC_EFORMAT;
        rc = exchange_skip(m->x, vc_context(err, rc, "%s/latents: item %zu", bucket, i), err);
        free(spec);
        vf_pt_close(p);
    }
    close_bucket(m);
    return rc;
}

/* Reads the empty prompt's embeddings, if the cache has them. */
static int read_empty(importing *m, vc_err *err)
{
    vf_pt *p[ENCODERS] = { NULL };
    exchange_item item = { .caption = "" };
    int rc = 0;
    for (int i = 0; !rc && i < m->l->names.n_text; i++)
        rc = open_cache(&m->text[i], m->x->dir, "uncond_text_embeddings_%d", i + 1, err);
    if (rc == VC_ENOENT)
        rc = 0;
    else if (!rc)
        rc = open_texts(m, &item, 0, p, err);
    for (int i = 0; !rc && item.n_text && i < m->l->names.n_text; i++)
        rc = exchange_put_empty(m->x, i, &item.text[i].embeds, &item.text[i].pooled, err);
    for (int i = 0; i < ENCODERS; i++)
        vf_pt_close(p[i]);
    close_bucket(m);
    return rc;
}

static int import_dpipe(exchange *x, vc_err *err)
{
    importing m = { .x = x };
    if (x->v->o->texts)                      /* only --family names the latents' family */
        m.l = exchange_layout(&exchange_dpipe, x->family->name);
    vc_list names;
    int buckets = 0, rc = exchange_list(&names, x->dir, "", err);
    vc_progress_begin(x->v->progress, "importing", "samples", 0);
    for (int i = 0; !rc && i < names.n; i++)
        if (!strncmp(names.item[i], "cache_", 6)) {
            buckets++;
            rc = read_bucket(&m, names.item[i], err);
        }
    if (!rc && !buckets)
        rc = vc_fail(err, VC_ENOENT,
                     "%s: no folders cache_WxHxF: give the model's, MEDIA/cache/MODEL", x->dir);
    if (!rc && x->sink && !x->v->o->texts)
        rc = read_empty(&m, err);
    exchange_list_free(&names);
    vf_keymap_free(&m.at);
    return rc;
}

static int export_dpipe(exchange *x, vc_err *err)
{
    const layout *l = (const void *)exchange_row(&exchange_dpipe, x, err);
    if (!l)
        return VC_EMISMATCH;
    exchange_names names = l->names;
    if (!l->blind || !exchange_edits(x))
        names.references = NULL;
    return exchange_dpipe_write(x, l->model, &names, err);
}

const exchange_format exchange_dpipe = {
    "diffusion-pipe", "diffusion-pipe", "Arrow, SQLite and pickles",
    layouts, sizeof *layouts, "wan2.1", true, false,
    export_dpipe, import_dpipe, "metadata"
};

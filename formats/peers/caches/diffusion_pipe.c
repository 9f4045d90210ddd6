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
#include "formats/peers/caches/diffusion_pipe.h"
#include "formats/peers/exchange_parts.h"

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

static void close_bucket(dpipe_import *m)
{
    vf_tensor_cache_close(m->latents);
    m->latents = NULL;
    for (int i = 0; i < DPIPE_ENCODERS; i++) {
        vf_tensor_cache_close(m->text[i]);
        m->text[i] = NULL;
    }
}

static int open_bucket(dpipe_import *m, const char *bucket, vc_err *err)
{
    char *texts = text_folder(m->x, bucket), *dir = vc_path_join(m->x->dir, bucket);
    int rc = texts && dir ? open_cache(&m->latents, dir, "latents", 0, err)
                          : vc_no_memory(err);
    bool own = !m->x->v->o->texts;
    if (!rc && own)
        rc = open_cache(&m->text[0], texts, "text_embeddings_%d", 1, err);
    if (!rc && own)
        rc = dpipe_index_texts(m, err);
    for (int i = 1; !rc && own && m->l && i < m->l->names.n_text; i++)
        rc = open_cache(&m->text[i], texts, "text_embeddings_%d", i + 1, err);
    free(texts);
    free(dir);
    return rc;
}

static int read_bucket(dpipe_import *m, const char *bucket, vc_err *err)
{
    int rc = open_bucket(m, bucket, err);
    for (size_t i = 0; !rc && i < vf_tensor_cache_count(m->latents); i++) {
        vf_pt *p;
        rc = vf_tensor_cache_get(m->latents, i, &p, err);
        char *spec = rc ? NULL : dpipe_spec(vf_pt_root(p), err);
        if (!rc)
            rc = spec ? dpipe_put_item(m, vf_pt_root(p), spec, err) : VC_EFORMAT;
        rc = exchange_skip(m->x, vc_context(err, rc, "%s/latents: item %zu", bucket, i), err);
        free(spec);
        vf_pt_close(p);
    }
    close_bucket(m);
    return rc;
}

/* Reads the empty prompt's embeddings, if the cache has them. */
static int read_empty(dpipe_import *m, vc_err *err)
{
    vf_pt *p[DPIPE_ENCODERS] = { NULL };
    exchange_item item = { .caption = "" };
    int rc = 0;
    for (int i = 0; !rc && i < m->l->names.n_text; i++)
        rc = open_cache(&m->text[i], m->x->dir, "uncond_text_embeddings_%d", i + 1, err);
    if (rc == VC_ENOENT)
        rc = 0;
    else if (!rc)
        rc = dpipe_open_texts(m, &item, 0, p, err);
    for (int i = 0; !rc && item.n_text && i < m->l->names.n_text; i++)
        rc = exchange_put_empty(m->x, i, &item.text[i].embeds, &item.text[i].pooled, err);
    for (int i = 0; i < DPIPE_ENCODERS; i++)
        vf_pt_close(p[i]);
    close_bucket(m);
    return rc;
}

static int import_dpipe(exchange *x, vc_err *err)
{
    dpipe_import m = { .x = x };
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
    const dpipe_layout *l = (const void *)exchange_row(&exchange_dpipe, x, err);
    if (!l)
        return VC_EMISMATCH;
    exchange_names names = l->names;
    if (!l->blind || !exchange_edits(x))
        names.references = NULL;
    return exchange_dpipe_write(x, l->model, &names, err);
}

const exchange_format exchange_dpipe = {
    "diffusion-pipe", "diffusion-pipe", "Arrow, SQLite and pickles",
    dpipe_layouts, sizeof *dpipe_layouts, "wan2.1", true, false,
    export_dpipe, import_dpipe, "metadata"
};

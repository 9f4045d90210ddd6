/* diffusion_pipe_items.c - reads the items of diffusion-pipe's cache: pairs latents with the texts
 * of their captions, by image_spec. See diffusion_pipe.h */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/peers/caches/diffusion_pipe.h"

enum { MAX_CAPTIONS = 1000 };

/* A caption of a sample, and the files from which its texts borrow. */
typedef struct caption {
    exchange_item item;
    char *text;
    vf_pt *p[DPIPE_ENCODERS];
} caption;

char *dpipe_spec(const vf_pt_value *d, vc_err *err)
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

int dpipe_index_texts(dpipe_import *m, vc_err *err)
{
    int rc = 0;
    vf_keymap seen = { 0 };                  /* media file -> its captions so far */
    vf_keymap_clear(&m->at);
    for (size_t i = 0; !rc && i < vf_tensor_cache_count(m->text[0]); i++) {
        vf_pt *p;
        rc = vf_tensor_cache_get(m->text[0], i, &p, err);
        if (!rc && !m->l)
            rc = dpipe_guess(m, vf_pt_root(p), err);
        char *spec = rc ? NULL : dpipe_spec(vf_pt_root(p), err);
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

int dpipe_open_texts(const dpipe_import *m, exchange_item *item, size_t at,
                     vf_pt *p[DPIPE_ENCODERS], vc_err *err)
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
static int same_spec(const dpipe_import *m, const char *spec, vf_pt *p[DPIPE_ENCODERS], vc_err *err)
{
    int rc = 0;
    for (int i = 1; !rc && i < m->l->names.n_text; i++) {
        char *other = dpipe_spec(vf_pt_root(p[i]), err);
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
static int open_caption(dpipe_import *m, caption *c, const char *spec, uint32_t i,
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
    int rc = dpipe_open_texts(m, &c->item, (size_t)at, c->p, err);
    return rc ? rc : same_spec(m, spec, c->p, err);
}

static void close_captions(caption *c, uint32_t n)
{
    for (uint32_t i = 0; c && i < n; i++) {
        for (int k = 0; k < DPIPE_ENCODERS; k++)
            vf_pt_close(c[i].p[k]);
        free(c[i].text);
    }
    free(c);
}

int dpipe_put_item(dpipe_import *m, const vf_pt_value *d, const char *spec, vc_err *err)
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

/* loader_fill.c - a batch's values: copied from the maps, drawn, normalised, checked. See
 * loader.h */
#include "train/loader_parts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/rng.h"

enum { CHUNK = 1024 };                   /* elements */

typedef vtrain_loader_slot slot;

/* ---- checksums, once a sample ---- */

static int check_texts(const vtrain_data *d, const vtrain_sample *s, vc_err *err)
{
    cJSON *record;
    const cJSON *captions = NULL;
    int rc = vf_dataset_sample(d->set[s->dataset].data, s->index, &record, err);
    if (!rc)
        rc = vf_json_arr(record, "captions", &captions, err);
    for (int c = 0, n = cJSON_GetArraySize(captions); !rc && c < n; c++) {
        vf_key key[VTRAIN_TEXTS];
        rc = vtrain_caption_keys(d, record, c, key, err);
        for (int i = 0; !rc && i < d->n_slots; i++) {
            vtrain_text_value v;
            rc = vtrain_text_open(d, s->dataset, i, key[i], true, &v, err);
            vf_safetensors_close(v.st);
        }
    }
    cJSON_Delete(record);
    return rc;
}

/* The bit is set after the comparison, never before: another thread must not take a damaged value
 * for a checked one. Two may then compare the same value, which is harmless. */
static int check_sample(vtrain_loader *l, uint32_t sample, vc_err *err)
{
    _Atomic uint32_t *word = l->checked ? &l->checked[sample / 32] : NULL;
    uint32_t bit = 1u << sample % 32;
    vtrain_latent_value v;

    if (!word || atomic_load_explicit(word, memory_order_relaxed) & bit)
        return 0;
    int rc = vtrain_latent_open(l->d, sample, true, &v, err);
    vf_safetensors_close(v.st);
    if (!rc)
        rc = check_texts(l->d, &l->d->sample[sample], err);
    if (!rc)
        atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
    return rc;
}

/* ---- text ---- */

/* Text keys of a row: of the caption that its draws choose, or of the empty prompt. */
static int choose_text(vtrain_loader *l, slot *s, int row, vf_key key[VTRAIN_TEXTS], vc_err *err)
{
    const vtrain_sample *at = &l->d->sample[s->row[row]];
    const vtrain_set *set = &l->d->set[at->dataset];
    uint32_t micro = (uint32_t)s->b.micro, r = (uint32_t)row;
    bool drop = !l->o.held_out &&
                vc_train_unit(l->o.seed, 0, r, micro, VC_DRAW_CAPTION_DROP) < l->o.caption_dropout;

    s->b.dropped[row] = drop;
    memcpy(key, set->head.empty, sizeof set->head.empty);
    if (drop || !vf_dataset_entry(set->data, at->index)->captions)
        return 0;

    cJSON *record;
    const cJSON *captions;
    int rc = vf_dataset_sample(set->data, at->index, &record, err);
    if (!rc)
        rc = vf_json_arr(record, "captions", &captions, err);
    if (!rc) {
        int n = cJSON_GetArraySize(captions), pick = 0;
        if (!l->o.held_out)
            pick = (int)(vc_train_unit(l->o.seed, 0, r, micro, VC_DRAW_CAPTION) * n);
        rc = vtrain_caption_keys(l->d, record, pick, key, err);
    }
    cJSON_Delete(record);
    return rc;
}

static int open_texts(vtrain_loader *l, slot *s, int row, vc_err *err)
{
    const vtrain_data *d = l->d;
    vf_key key[VTRAIN_TEXTS];
    int rc = check_sample(l, s->row[row], err);
    if (!rc)
        rc = choose_text(l, s, row, key, err);
    for (int i = 0; i < d->n_slots && !rc; i++) {
        vtrain_text *t = &s->b.text[i];
        vtrain_text_value *v = &s->value[row * d->n_slots + i];
        rc = vtrain_text_open(d, d->sample[s->row[row]].dataset, i, key[i], false, v, err);
        if (rc)
            break;
        t->length[row] = (int32_t)v->embeds.dim[0];
        if (v->embeds.dim[0] > t->n)
            t->n = v->embeds.dim[0];
    }
    return rc;
}

static int copy_text(vtrain_text *t, int row, const vtrain_text_value *v, vc_err *err)
{
    size_t used = (size_t)t->length[row] * (size_t)t->width;
    size_t all = (size_t)t->n * (size_t)t->width;
    float *x = t->embeds + (size_t)row * all;

    vtrain_view_f32(x, &v->embeds, 0, used);
    memset(x + used, 0, (all - used) * sizeof *x);
    if (!vtrain_all_finite(x, used))
        return vc_fail(err, VC_ENUMERIC, "prompt_embeds: NaN or infinity in it");
    if (!t->pooled)
        return 0;
    size_t n = (size_t)t->pooled_width;
    vtrain_view_f32(t->pooled + (size_t)row * n, &v->pooled, 0, n);
    return vtrain_all_finite(t->pooled + (size_t)row * n, n)
               ? 0 : vc_fail(err, VC_ENUMERIC, "pooled: NaN or infinity in it");
}

/* All rows are opened first: the longest decides how they are laid out. */
static int fill_texts(vtrain_loader *l, slot *s, vc_err *err)
{
    int slots = l->d->n_slots, rc = 0, row = 0;

    for (int i = 0; i < slots; i++)
        s->b.text[i].n = 1;
    for (row = 0; row < s->b.rows; row++)
        if (atomic_load(&l->stop) || (rc = open_texts(l, s, row, err)))
            break;
    for (int r = 0; r < s->b.rows && row == s->b.rows && !rc; r++)
        for (int i = 0; i < slots && !rc; i++)
            if ((rc = copy_text(&s->b.text[i], r, &s->value[r * slots + i], err))) {
                vc_context(err, rc, "%s", l->d->slot[i].name);
                row = r;
            }
    if (rc)
        vtrain_name_sample(l->d, s->row[row], rc, err);
    for (int i = 0; i < s->b.rows * slots; i++) {
        vf_safetensors_close(s->value[i].st);
        s->value[i].st = NULL;
    }
    return rc;
}

/* ---- latents ---- */

/* z = mean + std noise of one channel; x holds the noise. False: a logvar is not finite. */
static bool draw_channel(float *x, const vtrain_latent_value *v, size_t first, size_t logvar_first,
                         size_t n)
{
    float mean[CHUNK], logvar[CHUNK];

    for (size_t at = 0; at < n; at += CHUNK) {
        size_t some = n - at < CHUNK ? n - at : CHUNK;
        vtrain_view_f32(mean, &v->mean, first + at, some);
        vtrain_view_f32(logvar, &v->logvar, logvar_first + at, some);
        if (!vtrain_all_finite(logvar, some))
            return false;
        for (size_t i = 0; i < some; i++) {
            float lv = fminf(fmaxf(logvar[i], -30.0f), 20.0f);
            x[at + i] = mean[i] + expf(0.5f * lv) * x[at + i];
        }
    }
    return true;
}

static int fill_latent(const vtrain_loader *l, const slot *s, int row, vc_err *err)
{
    const vtrain_norm *norm = &l->d->norm;
    size_t plane = (size_t)(s->b.dim[2] * s->b.dim[3] * s->b.dim[4]);
    size_t all = plane * (size_t)norm->channels;
    float *x = s->b.latents + (size_t)row * all;
    vtrain_latent_value v;
    int rc = vtrain_latent_open(l->d, s->row[row], false, &v, err);
    if (rc)
        return vtrain_name_sample(l->d, s->row[row], rc, err);

    bool draw = l->o.latent == VTRAIN_LATENT_SAMPLE && v.logvar.nd, finite = true;
    size_t shared = draw && v.logvar.dim[0] == 1 ? 0 : plane;
    if (draw)
        vc_train_normals(x, 0, all, l->o.seed, (uint32_t)row, (uint32_t)s->b.micro,
                         VC_DRAW_LATENT);
    for (size_t c = 0; c < (size_t)norm->channels && finite; c++) {
        float *z = x + c * plane;
        if (draw)
            finite = draw_channel(z, &v, c * plane, c * shared, plane);
        else
            vtrain_view_f32(z, &v.mean, c * plane, plane);
        for (size_t i = 0; i < plane; i++)
            z[i] = (z[i] - norm->sub[c]) * norm->mul[c];
    }
    vf_safetensors_close(v.st);
    if (finite && vtrain_all_finite(x, all))
        return 0;
    const vtrain_sample *at = &l->d->sample[s->row[row]];
    const vf_dataset *data = l->d->set[at->dataset].data;
    char hex[VF_KEY_HEX];
    rc = vc_fail(err, VC_ENUMERIC, "latent %s: NaN or infinity in it",
                 vf_key_hex(hex, vf_dataset_entry(data, at->index)->latent));
    return vtrain_name_sample(l->d, s->row[row], rc, err);
}

/* ---- a batch ---- */

int vtrain_loader_fill(vtrain_loader *l, vtrain_loader_slot *s)
{
    vtrain_batch *b = &s->b;
    const vtrain_group *g = &l->d->group[b->group];
    const int64_t dim[5] = { b->rows, l->d->norm.channels, g->f, g->h, g->w };

    memcpy(b->dim, dim, sizeof b->dim);
    b->tokens = 0;
    for (int row = 0; row < b->rows; row++) {
        const vtrain_sample *at = &l->d->sample[s->row[row]];
        const vf_entry *e = vf_dataset_entry(l->d->set[at->dataset].data, at->index);
        vf_dataset_prefetch(l->d->set[at->dataset].data, e->latent);
        vtrain_data_key(l->d, s->row[row], b->key[row]);
        b->tokens += e->tokens;
    }
    int rc = fill_texts(l, s, &s->err);
    for (int row = 0; row < b->rows && !rc && !atomic_load(&l->stop); row++)
        rc = fill_latent(l, s, row, &s->err);
    return vc_context(&s->err, rc, "micro-batch %" PRIu64, b->micro);
}

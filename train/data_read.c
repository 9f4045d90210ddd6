/* data_read.c - values of the datasets, each checked against what was said of it. See
 * data_parts.h */
#include "train/data_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK = 512 };                    /* elements */

void vtrain_view_f32(float *dst, const vf_view *v, size_t first, size_t n)
{
    size_t size = vc_dtype_size(v->dtype);
    const uint8_t *src = (const uint8_t *)v->data + first * size;

    /* values lie at any address in the map, conversions want their type's alignment */
    while (n) {
        _Alignas(8) uint8_t aligned[CHUNK * 8];
        size_t some = n < CHUNK ? n : CHUNK;
        memcpy(aligned, src, some * size);
        vc_to_f32(dst, aligned, v->dtype, some);
        dst += some;
        src += some * size;
        n -= some;
    }
}

bool vtrain_all_finite(const float *x, size_t n)
{
    uint32_t bad = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &x[i], sizeof u);
        bad |= (u & 0x7f800000) == 0x7f800000;
    }
    return !bad;
}

static bool is_float(vc_dtype t)
{
    return t <= VC_F64;                  /* the float types come first in vc_dtype */
}
_Static_assert(VC_F32 == 0 && VC_F64 == 5 && VC_I64 == 6, "order of vc_dtype");

static char *shape_text(char buf[128], int nd, const int64_t *dim)
{
    int n = snprintf(buf, 128, "[");
    for (int i = 0; i < nd && n < 100; i++)
        n += snprintf(buf + n, 128 - (size_t)n, "%s%" PRId64, i ? "," : "", dim[i]);
    snprintf(buf + n, 128 - (size_t)n, "]");
    return buf;
}

/* Whether v is floats of this shape; a wanted 0 is "any number from 1 on". */
static int check_shape(const vf_view *v, int nd, const int64_t *want, vc_err *err)
{
    char found[128], expected[128];
    bool same = v->nd == nd;

    for (int i = 0; same && i < nd; i++)
        same = want[i] ? v->dim[i] == want[i] : v->dim[i] >= 1;
    if (!same)
        return vc_fail(err, VC_EMISMATCH, "%s: shape %s, expected %s", v->name,
                       shape_text(found, v->nd, v->dim), shape_text(expected, nd, want));
    if (!is_float(v->dtype))
        return vc_fail(err, VC_EMISMATCH, "%s: type %s, expected a float type", v->name,
                       vc_dtype_name(v->dtype));
    return 0;
}

/* ---- latents ---- */

static int latent_views(const vtrain_data *d, const vf_entry *e, vtrain_latent_value *v,
                        vc_err *err)
{
    const int64_t dim[4] = { d->norm.channels, e->f, e->h, e->w };
    const int64_t one[4] = { 1, e->f, e->h, e->w };
    bool moments = !vf_safetensors_get(v->st, "mean", &v->mean, NULL);

    if (!moments && vf_safetensors_get(v->st, "sample", &v->mean, NULL))
        return vc_fail(err, VC_EFORMAT, "neither `mean` nor `sample` in it");
    int rc = check_shape(&v->mean, 4, dim, err);
    if (rc || !moments || vf_safetensors_get(v->st, "logvar", &v->logvar, NULL)) {
        v->logvar = (vf_view){ 0 };
        return rc;
    }
    bool shared = v->logvar.nd == 4 && v->logvar.dim[0] == 1;
    return check_shape(&v->logvar, 4, shared ? one : dim, err);
}

int vtrain_latent_open(const vtrain_data *d, uint32_t sample, bool check, vtrain_latent_value *v,
                       vc_err *err)
{
    const vtrain_sample *s = &d->sample[sample];
    const vf_dataset *data = d->set[s->dataset].data;
    const vf_entry *e = vf_dataset_entry(data, s->index);
    char hex[VF_KEY_HEX];

    *v = (vtrain_latent_value){ 0 };
    int rc = vf_dataset_latent(data, e->latent, check, &v->st, err);
    if (!rc)
        rc = vc_context(err, latent_views(d, e, v, err), "latent %s", vf_key_hex(hex, e->latent));
    if (rc) {
        vf_safetensors_close(v->st);
        v->st = NULL;
    }
    return rc;
}

int vtrain_name_sample(const vtrain_data *d, uint32_t sample, int rc, vc_err *err)
{
    char key[VTRAIN_KEY];
    return vc_context(err, rc, "%s: sample %s",
                      vf_dataset_path(d->set[d->sample[sample].dataset].data),
                      vtrain_data_key(d, sample, key));
}

/* ---- text ---- */

static int text_views(const vtrain_slot *s, vtrain_text_value *v, vc_err *err)
{
    const int64_t dim[2] = { 0, s->width };
    int rc = vf_safetensors_get(v->st, "prompt_embeds", &v->embeds, err);

    if (!rc)
        rc = check_shape(&v->embeds, 2, dim, err);
    if (!rc && v->embeds.dim[0] > s->max_length)
        rc = vc_fail(err, VC_EMISMATCH, "prompt_embeds: %" PRId64 " tokens, at most %" PRId64
                     " expected", v->embeds.dim[0], s->max_length);
    if (rc || !s->pooled)
        return rc;
    rc = vf_safetensors_get(v->st, "pooled", &v->pooled, err);
    return rc ? rc : check_shape(&v->pooled, 1, &s->pooled, err);
}

int vtrain_text_open(const vtrain_data *d, int set, int slot, vf_key key, bool check,
                     vtrain_text_value *v, vc_err *err)
{
    const vf_dataset *data = d->set[set].data;
    char hex[VF_KEY_HEX];

    *v = (vtrain_text_value){ 0 };
    int rc = vf_dataset_text(data, key, check, &v->st, err);
    if (!rc)
        rc = vc_context(err, text_views(&d->slot[slot], v, err), "text %s", vf_key_hex(hex, key));
    if (rc) {
        vf_safetensors_close(v->st);
        v->st = NULL;
    }
    return vc_context(err, rc, "%s", d->slot[slot].name);
}

int vtrain_keys_read(const vtrain_data *d, const cJSON *o, const char *field,
                     vf_key key[VTRAIN_TEXTS], vc_err *err)
{
    const cJSON *keys;
    int rc = vf_json_arr(o, field, &keys, err);
    if (rc)
        return rc;
    if (cJSON_GetArraySize(keys) != d->n_slots)
        return vc_fail(err, VC_EFORMAT, "%s: %d keys, the dataset has %d text encoders", field,
                       cJSON_GetArraySize(keys), d->n_slots);
    const cJSON *k = keys->child;
    for (int i = 0; i < d->n_slots; i++, k = k->next)
        if (!cJSON_IsString(k) || !vf_key_parse(&key[i], k->valuestring))
            return vc_fail(err, VC_EFORMAT, "%s[%d]: 32 hex digits expected", field, i);
    return 0;
}

int vtrain_caption_keys(const vtrain_data *d, const cJSON *record, int caption,
                        vf_key key[VTRAIN_TEXTS], vc_err *err)
{
    const cJSON *captions;
    int rc = vf_json_arr(record, "captions", &captions, err);
    if (!rc) {
        const cJSON *c = cJSON_GetArrayItem(captions, caption);
        rc = c ? vtrain_keys_read(d, c, "keys", key, err) : vc_fail(err, VC_EFORMAT, "missing");
    }
    return vc_context(err, rc, "captions[%d]", caption);
}

/* read.c - reads values of the datasets, and checks each against its records. See parts.h */
#include "train/data/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "formats/dataset/references.h"

enum { MAX_SEGMENTS = 256 };

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

/* Checks that v is floats of a shape, in which 0 stands for any size from 1 on. */
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

/* Checks a latent of these channels and f frames (0: any number); `noised`: it holds any number of
 * variants, in a first axis. */
static int moments_views(int channels, int f, int h, int w, bool noised, vtrain_latent_value *v,
                         vc_err *err)
{
    int64_t dim[5] = { 0, channels, f, h, w };
    const int skip = noised ? 0 : 1, nd = 5 - skip;
    bool moments = !vf_safetensors_get(v->st, "mean", &v->mean, NULL);

    if (!moments && vf_safetensors_get(v->st, "sample", &v->mean, NULL))
        return vc_fail(err, VC_EFORMAT, "both `mean` and `sample` are missing");
    int rc = check_shape(&v->mean, nd, dim + skip, err);
    if (!rc)
        v->variants = noised ? (size_t)v->mean.dim[0] : 1;
    if (rc || !moments || vf_safetensors_get(v->st, "logvar", &v->logvar, NULL)) {
        v->logvar = (vf_view){ 0 };
        return rc;
    }
    dim[0] = (int64_t)v->variants;
    dim[2] = v->mean.dim[2 - skip];
    if (v->logvar.nd == nd && v->logvar.dim[1 - skip] == 1)
        dim[1] = 1;                      /* one logvar for all channels */
    return check_shape(&v->logvar, nd, dim + skip, err);
}

static int latent_views(const vtrain_data *d, int f, int h, int w, bool noised,
                        vtrain_latent_value *v, vc_err *err)
{
    return moments_views(d->norm.channels, f, h, w, noised, v, err);
}

static int sound_views(const vtrain_data *d, const vtrain_group *g, vtrain_latent_value *v,
                       vc_err *err)
{
    int rc = moments_views(d->sound.channels, 0, 1, d->sound.bins, false, v, err);
    if (!rc && v->mean.dim[1] > g->sound)
        rc = vc_fail(err, VC_EMISMATCH, "%s: %" PRId64 " frames of sound, but the clip has time "
                     "for %d", v->mean.name, v->mean.dim[1], g->sound);
    return rc;
}

static int mask_view(const vtrain_group *g, int channels, vtrain_latent_value *v, vc_err *err)
{
    const int64_t dim[4] = { channels, g->f, g->h, g->w };
    int rc = vf_safetensors_get(v->st, "mask", &v->mean, err);
    v->variants = 1;
    return rc ? rc : check_shape(&v->mean, 4, dim, err);
}

/* A model that has no positions for the rows takes any number of them, but the same in all samples:
 * that of the first sample becomes d->embeds[0]. */
static int embeds_view(const vtrain_data *d, vtrain_latent_value *v, vc_err *err)
{
    int rc = vf_safetensors_get(v->st, "image_embeds", &v->mean, err);
    v->variants = 1;
    return rc ? rc : check_shape(&v->mean, 2, d->embeds, err);
}

int vtrain_latent_open(const vtrain_data *d, uint32_t sample, bool check, vtrain_latent_value *v,
                       vc_err *err)
{
    const vtrain_sample *s = &d->sample[sample];
    const vf_dataset *data = d->set[s->dataset].data;
    const vtrain_group *g = &d->group[s->group];
    const vf_key key = vf_dataset_entry(data, s->index)->latent;
    char hex[VF_KEY_HEX];

    *v = (vtrain_latent_value){ 0 };
    int rc = vf_dataset_latent_of(data, s->index, key, check, &v->st, err);
    if (!rc)
        rc = vc_context(err, latent_views(d, g->f, g->h, g->w, false, v, err), "latent %s",
                        vf_key_hex(hex, key));
    if (rc) {
        vf_safetensors_close(v->st);
        v->st = NULL;
    }
    return rc;
}

/* ---- conditions ---- */

int vtrain_conditions_read(vtrain_conditions *c, const cJSON *record, vc_err *err)
{
    const cJSON *o = cJSON_GetObjectItemCaseSensitive(record, "conditions");

    *c = (vtrain_conditions){ 0 };
    if (!o || cJSON_IsNull(o))
        return 0;
    if (!cJSON_IsObject(o))
        return vc_fail(err, VC_EFORMAT, "conditions: an object expected");
    for (int i = VC_ROLE_CLIP + 1; i < VC_ROLES; i++) {
        const cJSON *k = cJSON_GetObjectItemCaseSensitive(o, vc_roles[i].name);
        if (!k || cJSON_IsNull(k))
            continue;
        if (!cJSON_IsString(k) || !vf_key_parse(&c->key[i], k->valuestring))
            return vc_fail(err, VC_EFORMAT, "conditions: %s: 32 hex digits expected",
                           vc_roles[i].name);
        c->has |= 1u << i;
    }
    return vf_json_bool_opt(record, "mask_all", &c->mask_all, err);
}

int vtrain_own_read(vtrain_own *own, const cJSON *record, vc_err *err)
{
    vf_references r;
    int rc = vf_references_read(&r, cJSON_GetObjectItemCaseSensitive(record, "references"), err);

    memcpy(own->size, r.size, sizeof own->size);
    return rc;
}

static int condition_views(const vtrain_data *d, const vtrain_group *g, vc_role which,
                           vtrain_latent_value *v, vc_err *err)
{
    const vc_role_row *row = &vc_roles[which];
    if (row->kind == VC_VALUE_MASK)
        return mask_view(g, vtrain_role_channels(d, which), v, err);
    if (row->kind == VC_VALUE_EMBEDS)
        return embeds_view(d, v, err);
    if (row->sound)
        return sound_views(d, g, v, err);
    if (row->own_size) {
        const uint16_t *size = g->own.size[vc_role_reference(which)];
        return latent_views(d, 1, size[0], size[1], false, v, err);
    }
    return latent_views(d, row->clip ? g->f : 1, g->h, g->w, row->kind == VC_VALUE_VARIANTS, v,
                        err);
}

int vtrain_condition_open(const vtrain_data *d, uint32_t sample, const vtrain_conditions *c,
                          vc_role e, bool check, vtrain_latent_value *v, vc_err *err)
{
    const vtrain_sample *s = &d->sample[sample];
    const vf_dataset *data = d->set[s->dataset].data;
    char hex[VF_KEY_HEX];

    *v = (vtrain_latent_value){ 0 };
    if (!(c->has & 1u << e))
        return vc_fail(err, VC_ENOENT, "conditions: %s: missing", vc_roles[e].name);
    int rc = vf_dataset_latent_of(data, s->index, c->key[e], check, &v->st, err);
    if (!rc)
        rc = vc_context(err, condition_views(d, &d->group[s->group], e, v, err), "latent %s",
                        vf_key_hex(hex, c->key[e]));
    if (rc) {
        vf_safetensors_close(v->st);
        v->st = NULL;
    }
    return vc_context(err, rc, "conditions: %s", vc_roles[e].name);
}

/* ---- names ---- */

int vtrain_name_sample(const vtrain_data *d, uint32_t sample, int rc, vc_err *err)
{
    char key[VTRAIN_KEY];
    const char *path = vf_dataset_path(d->set[d->sample[sample].dataset].data);
    vc_context(err, rc, "%s: sample %s", path, vtrain_data_key(d, sample, key));
    return vf_dataset_remedy(path, rc, err);
}

/* ---- text ---- */

static int text_views(const vtrain_slot *s, int segments, vtrain_text_value *v, vc_err *err)
{
    const int64_t dim[2] = { 0, s->width }, most = s->max_length * (segments ? segments : 1);
    int rc = s->embeds ? vf_safetensors_get(v->st, "prompt_embeds", &v->embeds, err) : 0;

    if (!rc && s->embeds)
        rc = check_shape(&v->embeds, 2, dim, err);
    if (!rc && v->embeds.dim[0] > most)
        rc = vc_fail(err, VC_EMISMATCH, "prompt_embeds: %" PRId64 " tokens, at most %" PRId64
                     " expected", v->embeds.dim[0], most);
    if (rc || !s->pooled)
        return rc;
    rc = vf_safetensors_get(v->st, "pooled", &v->pooled, err);
    return rc ? rc : check_shape(&v->pooled, 1, &s->pooled, err);
}

int64_t vtrain_slot_length(const vtrain_slot *s, const float *x, int64_t n)
{
    int64_t i = 0;
    if (!s->absent || n != 1)
        return n;
    while (i < s->width && x[i] == 0)
        i++;
    return i < s->width;
}

/* Ends the opening of a text: checks its views if rc is 0, and closes it after an error. */
static int check_text(const vtrain_data *d, int slot, vf_key key, int segments, int rc,
                      vtrain_text_value *v, vc_err *err)
{
    char hex[VF_KEY_HEX];
    if (!rc)
        rc = vc_context(err, text_views(&d->slot[slot], segments, v, err), "text %s",
                        vf_key_hex(hex, key));
    if (rc) {
        vf_safetensors_close(v->st);
        v->st = NULL;
    }
    return vc_context(err, rc, "%s", d->slot[slot].name);
}

int vtrain_text_open(const vtrain_data *d, int set, int slot, vf_key key, int segments, bool check,
                     vtrain_text_value *v, vc_err *err)
{
    *v = (vtrain_text_value){ 0 };
    int rc = vf_dataset_text(d->set[set].data, key, check, &v->st, err);
    return check_text(d, slot, key, segments, rc, v, err);
}

int vtrain_text_of(const vtrain_data *d, uint32_t sample, int slot, vf_key key, int segments,
                   bool check, vtrain_text_value *v, vc_err *err)
{
    const vtrain_sample *s = &d->sample[sample];
    *v = (vtrain_text_value){ 0 };
    int rc = vf_dataset_text_of(d->set[s->dataset].data, s->index, key, check, &v->st, err);
    return check_text(d, slot, key, segments, rc, v, err);
}

int vtrain_segments_read(int *segments, const cJSON *record, vc_err *err)
{
    int64_t n = 0;
    int rc = vf_json_int_opt(record, "text_chunks", &n, err);

    if (!rc && (n < 0 || n > MAX_SEGMENTS))
        rc = vc_fail(err, VC_EFORMAT, "text_chunks: %" PRId64 " is not in 0..%d", n, MAX_SEGMENTS);
    *segments = rc ? 0 : (int)n;
    return rc;
}

int vtrain_group_segments(vtrain_data *d, uint32_t sample, vc_err *err)
{
    const vtrain_sample *s = &d->sample[sample];
    cJSON *record;
    int rc = vf_dataset_sample(d->set[s->dataset].data, s->index, &record, err);

    if (!rc)
        rc = vtrain_segments_read(&d->group[s->group].segments, record, err);
    cJSON_Delete(record);
    return vtrain_name_sample(d, sample, rc, err);
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

static int caption_of(const vtrain_data *d, const cJSON *record, const char *field, int caption,
                      vf_key key[VTRAIN_TEXTS], vc_err *err)
{
    const cJSON *captions;
    int rc = vf_json_arr(record, field, &captions, err);
    if (!rc) {
        const cJSON *c = cJSON_GetArrayItem(captions, caption);
        rc = c ? vtrain_keys_read(d, c, "keys", key, err) : vc_fail(err, VC_EFORMAT, "missing");
    }
    return vc_context(err, rc, "%s[%d]", field, caption);
}

int vtrain_caption_keys(const vtrain_data *d, const cJSON *record, int caption,
                        vf_key key[VTRAIN_TEXTS], vc_err *err)
{
    return caption_of(d, record, "captions", caption, key, err);
}

int vtrain_preserved_keys(const vtrain_data *d, const cJSON *record, int caption,
                          vf_key key[VTRAIN_TEXTS], vc_err *err)
{
    if (!cJSON_GetObjectItemCaseSensitive(record, "preserved"))
        return vc_fail(err, VC_ENOENT, "no class stands beside its captions: make the dataset by "
                       "vprep --preserve \"TRIGGER=CLASS\"");
    return caption_of(d, record, "preserved", caption, key, err);
}

int vtrain_empty_keys(const vtrain_data *d, int set, const cJSON *record, vf_key key[VTRAIN_TEXTS],
                      vc_err *err)
{
    const cJSON *own = cJSON_GetObjectItemCaseSensitive(record, "empty");

    memcpy(key, d->set[set].head.empty, sizeof d->set[set].head.empty);
    return own && !cJSON_IsNull(own) ? vtrain_keys_read(d, record, "empty", key, err) : 0;
}

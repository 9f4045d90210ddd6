/* sound.c - the sound of clips in an export and an import. See sound.h */
#include "formats/peers/sound.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "common/roles.h"
#include "formats/peers/exchange_parts.h"
#include "formats/tensors/component.h"

enum { MAX_NUMBERS = 1 << 12 };
enum { RATE = 16000, HOP = 640 };            /* of LTX-2: a latent frame lasts 0.04 s */

void exchange_sound_free(exchange_sound *s)
{
    free(s->mean);
    free(s->std);
    *s = (exchange_sound){ .channels = 0 };
}

static int alloc(exchange_sound *s, int64_t channels, int64_t bins, vc_err *err)
{
    if (channels < 1 || bins < 1 || channels > MAX_NUMBERS || bins > MAX_NUMBERS / channels)
        return vc_fail(err, VC_EFORMAT, "sound of %" PRId64 " channels and %" PRId64 " bins: at "
                       "most %d numbers expected", channels, bins, MAX_NUMBERS);
    s->channels = (int)channels;
    s->bins = (int)bins;
    s->mean = calloc((size_t)(channels * bins), sizeof *s->mean);
    s->std = calloc((size_t)(channels * bins), sizeof *s->std);
    return s->mean && s->std ? 0 : vc_no_memory(err);
}

static int check_constants(const exchange_sound *s, vc_err *err)
{
    for (int i = 0; i < s->channels * s->bins; i++)
        if (!isfinite(s->mean[i]) || !isfinite(s->std[i]) || !(s->std[i] > 0))
            return vc_fail(err, VC_EFORMAT, "mean and std: number %d: %g, %g", i, s->mean[i],
                           s->std[i]);
    return 0;
}

/* ---- constants ---- */

static int read_list(double *to, int n, const cJSON *o, const char *field, vc_err *err)
{
    const cJSON *list, *v;
    int i = 0, rc = vf_json_arr(o, field, &list, err);
    if (!rc && cJSON_GetArraySize(list) != n)
        rc = vc_fail(err, VC_EFORMAT, "%s: %d numbers expected", field, n);
    if (!rc)
        cJSON_ArrayForEach(v, list)
            to[i++] = cJSON_IsNumber(v) ? v->valuedouble : NAN;
    return rc;
}

int exchange_sound_manifest(exchange *x, vc_err *err)
{
    const cJSON *o = cJSON_GetObjectItemCaseSensitive(x->manifest, "audio_vae");
    exchange_sound *s = &x->sound;
    int64_t channels = 0, bins = 0, rate = 0, hop = 0;
    int rc;
    if (!o)
        return 0;
    if ((rc = vf_json_int(o, "channels", &channels, err)) ||
        (rc = vf_json_int(o, "bins", &bins, err)) || (rc = vf_json_int(o, "rate", &rate, err)) ||
        (rc = vf_json_int(o, "hop", &hop, err)) || (rc = alloc(s, channels, bins, err)) ||
        (rc = read_list(s->mean, s->channels * s->bins, o, "mean", err)) ||
        (rc = read_list(s->std, s->channels * s->bins, o, "std", err)) ||
        (rc = check_constants(s, err)))
        return vc_context(err, rc, "manifest.json: audio_vae");
    return 0;
}

static int read_tensor(double *to, const vf_model *m, const char *name, int n, vc_err *err)
{
    float *f = malloc((size_t)n * sizeof *f);
    vf_view v;
    int rc = f ? vf_model_get(m, name, &v, err) : vc_no_memory(err);
    if (!rc && (v.nd != 1 || v.dim[0] != n || v.dtype > VC_F16))
        rc = vc_fail(err, VC_EMISMATCH, "tensor %s: %d numbers expected, as in the files: this is "
                     "no autoencoder of their sound", name, n);
    if (!rc)
        vc_to_f32(f, v.data, v.dtype, (size_t)n);
    for (int i = 0; !rc && i < n; i++)
        to[i] = (double)f[i];
    free(f);
    return rc;
}

int exchange_sound_begin(exchange *x, int64_t channels, int64_t bins, vc_err *err)
{
    const char *path = x->v->o->audio_vae;
    char *within = NULL;
    vf_model *m = NULL;
    if (!path)
        return vc_fail(err, VC_EUSAGE, "the files have sound, whose constants lie in the weights "
                       "of its autoencoder: give its folder, or that of the whole pipeline, as "
                       "--audio_vae; to import the video alone, move the files of the sound away");
    int rc = alloc(&x->sound, channels, bins, err);
    if (!rc)
        rc = vf_component_find(&within, path, "audio_vae", err);
    if (!rc)
        rc = vf_component_open(&m, within ? within : path, "audio_vae", err);
    if (!rc)
        rc = read_tensor(x->sound.mean, m, "latents_mean", x->sound.channels * x->sound.bins, err);
    if (!rc)
        rc = read_tensor(x->sound.std, m, "latents_std", x->sound.channels * x->sound.bins, err);
    if (!rc)
        rc = check_constants(&x->sound, err);
    vf_model_close(m);
    free(within);
    return vc_context(err, rc, "--audio_vae %s", path);
}

/* Calls fn for the numbers of x [C,f,1,bins] that have one mean and std, a bin of a frame's. */
static void normalize(const exchange_sound *s, float *x, int64_t frames, bool back)
{
    const size_t all = (size_t)(s->channels * frames * s->bins);
    for (size_t i = 0; i < all; i++) {
        const size_t at = i / (size_t)(frames * s->bins) * (size_t)s->bins + i % (size_t)s->bins;
        const double mul = 1 / s->std[at], sub = s->mean[at];
        x[i] = back ? (float)((double)x[i] / mul + sub) : (float)(((double)x[i] - sub) * mul);
    }
}

/* ---- export ---- */

int exchange_sound_of(exchange *x, const exchange_sample *s, float **out, vf_view *v, vc_err *err)
{
    const char *hex = vlat_sound(s->record);
    const exchange_sound *is = &x->sound;
    vf_safetensors *st = NULL;
    vf_key k;
    *out = NULL;
    if (!*hex)
        return 0;
    int rc = vf_key_parse(&k, hex) ? 0 : vc_fail(err, VC_EFORMAT, "32 hex digits expected");
    if (!rc)
        rc = vf_dataset_latent(x->d, k, true, &st, err);
    if (!rc && vf_safetensors_get(st, "mean", v, NULL))
        rc = vf_safetensors_get(st, "sample", v, err);
    if (!rc && (v->nd != 4 || v->dim[0] != is->channels || v->dim[2] != 1 ||
                v->dim[3] != is->bins))
        rc = vc_fail(err, VC_EFORMAT, "[%d,f,1,%d] expected", is->channels, is->bins);
    const size_t n = rc ? 0 : (size_t)vf_view_count(v);
    float *f = rc ? NULL : malloc(n * sizeof *f + 1);
    if (!rc && !f)
        rc = vc_no_memory(err);
    if (!rc) {
        vc_to_f32(f, v->data, v->dtype, n);
        if (x->normalized)
            normalize(is, f, v->dim[1], false);
        *v = (vf_view){ NULL, VC_F32, 4, { v->dim[0], v->dim[1], 1, v->dim[3] }, f, 4 * n };
        x->no_conditions--;
    }
    *out = f;
    vf_safetensors_close(st);
    return vc_context(err, rc, "sound %s", hex);
}

/* ---- import ---- */

static vf_key fingerprint(const exchange *x)
{
    const exchange_sound *s = &x->sound;
    const size_t n = (size_t)(s->channels * s->bins) * sizeof *s->mean;
    vf_hasher h;
    vf_hasher_begin(&h, "imported-audio-vae");
    vf_hasher_str(&h, "format", x->format);
    vf_hasher_str(&h, "class", x->family->audio_vae);
    vf_hasher_int(&h, "channels", s->channels);
    vf_hasher_bytes(&h, "mean", s->mean, n);
    vf_hasher_bytes(&h, "std", s->std, n);
    return vf_hasher_end(&h);
}

void exchange_sound_head(const exchange *x, cJSON *manifest)
{
    const exchange_sound *s = &x->sound;
    const int n = s->channels * s->bins;
    char hex[VF_KEY_HEX];
    if (!s->channels)
        return;
    cJSON *e = cJSON_AddObjectToObject(manifest, "audio_vae");
    cJSON_AddStringToObject(e, "class", x->family->audio_vae);
    cJSON_AddStringToObject(e, "fingerprint", vf_key_hex(hex, fingerprint(x)));
    cJSON_AddStringToObject(e, "dtype", vc_dtype_name(VC_F32));
    vf_json_add_int(e, "channels", s->channels);
    vf_json_add_int(e, "bins", s->bins);
    vf_json_add_int(e, "rate", RATE);
    vf_json_add_int(e, "hop", HOP);
    cJSON_AddItemToObject(e, "mean", cJSON_CreateDoubleArray(s->mean, n));
    cJSON_AddItemToObject(e, "std", cJSON_CreateDoubleArray(s->std, n));
}

static int check(const exchange *x, const exchange_item *m, vc_err *err)
{
    const vf_view *v = &m->sound;
    const exchange_sound *s = &x->sound;
    if (!s->channels)
        return vc_fail(err, VC_EMISMATCH, "sound, of which the first samples have none");
    if (v->nd != 4 || v->dim[0] != s->channels || v->dim[1] < 1 || v->dim[1] > UINT16_MAX ||
        v->dim[2] != 1 || v->dim[3] != s->bins || v->dtype > VC_F64)
        return vc_fail(err, VC_EFORMAT, "[%d,f,1,%d] expected", s->channels, s->bins);
    return exchange_check_finite(v, "latents", err);
}

/* Sets *frames to those of the sound that are in the clip. */
static int frames_of(int64_t *frames, exchange *x, const exchange_item *m, vc_err *err)
{
    const int64_t f = m->mean.dim[1];
    const int64_t there = m->sound_frames ? m->sound_frames : m->sound.dim[1];
    const int64_t pixels = m->frames ? m->frames : (f - 1) * x->family->ratio[0] + 1;
    const double n = m->fps > 0 ? (double)pixels / m->fps * RATE / HOP : 0;
    const int64_t clip = n > 1 ? llrint(n) : 1;
    if (f < 2 || !(n > 0))
        return vc_fail(err, VC_EMISMATCH, "a still, or a clip without a rate, has sound");
    if (there > clip + 1 || (double)there < n - EXCHANGE_SOUND_SHORT)
        return vc_fail(err, VC_EMISMATCH, "%" PRId64 " latent frames, and a clip of %" PRId64
                       " frames at %g a second lasts for %.1f", there, pixels, m->fps, n);
    x->sound_cut += there > clip;
    *frames = there > clip ? clip : there;
    return 0;
}

/* Makes raw f32 values of the first frames. */
static float *raw_of(const exchange *x, const vf_view *v, int64_t frames)
{
    const size_t bins = (size_t)v->dim[3], all = (size_t)(v->dim[1] * v->dim[3]);
    float *raw = malloc((size_t)(v->dim[0] * frames) * bins * sizeof *raw);
    for (size_t c = 0; raw && c < (size_t)v->dim[0]; c++)
        vf_view_f32(raw + c * (size_t)frames * bins, v, c * all, (size_t)frames * bins);
    if (raw && x->normalized)
        normalize(&x->sound, raw, frames, true);
    return raw;
}

static int put_value(exchange *x, const vf_view *v, bool drawn, vf_key *k, vc_err *err)
{
    const vf_key vae = fingerprint(x);
    uint8_t *st;
    size_t size;
    vf_hasher h;
    vf_view named = *v;
    named.name = drawn ? "sample" : "mean";
    int rc = exchange_check_finite(v, "latents without normalisation", err);
    if (!rc)
        rc = vf_safetensors_pack(&st, &size, &named, 1, NULL, 0, 1, err);
    if (rc)
        return rc;
    vf_hasher_begin(&h, "imported-sound");
    vf_hasher_bytes(&h, "vae", &vae, sizeof vae);
    vf_hasher_bytes(&h, "value", st, size);
    *k = vf_hasher_end(&h);
    rc = vf_writer_put_latent(x->sink->w, *k, st, size, err);
    free(st);
    return rc;
}

int exchange_sound_put(exchange *x, const exchange_item *m, cJSON *record, vc_err *err)
{
    const vf_view *v = &m->sound;
    int64_t frames = 0;
    vf_key k;
    if (!v->data)
        return 0;
    int rc = check(x, m, err);
    if (!rc)
        rc = frames_of(&frames, x, m, err);
    float *raw = rc ? NULL : raw_of(x, v, frames);
    if (!rc && !raw)
        rc = vc_no_memory(err);
    const vf_view of = { NULL, VC_F32, 4, { v->dim[0], frames, 1, v->dim[3] }, raw,
                         (size_t)(v->dim[0] * frames * v->dim[3]) * sizeof *raw };
    if (!rc)
        rc = put_value(x, &of, m->drawn, &k, err);
    free(raw);
    if (rc)
        return vc_context(err, rc, "sound");
    char hex[VF_KEY_HEX];
    cJSON *conditions = cJSON_GetObjectItemCaseSensitive(record, "conditions");
    if (!conditions)
        conditions = cJSON_AddObjectToObject(record, "conditions");
    cJSON_AddStringToObject(conditions, vc_roles[VC_ROLE_AUDIO].name, vf_key_hex(hex, k));
    return 0;
}

/* sound.c - see sound.h */
#include "precompute/vdecode/sound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/roles.h"
#include "precompute/run/components.h"
#include "precompute/sound/audio_vae.h"
#include "precompute/sound/vocoder.h"

struct decode_sound {
    char *dir;
    audio_vae *vae;
    audio_info is;
    vocoder *vocoder;
    vocoder_info to;
};

void decode_sound_close(decode_sound *s)
{
    if (!s)
        return;
    audio_vae_close(s->vae);
    vocoder_close(s->vocoder);
    free(s->dir);
    free(s);
}

const char *decode_sound_dir(const decode_sound *s)
{
    return s->dir;
}

static int open_vocoder(decode_sound *s, const decoder *d, vc_err *err)
{
    char *dir;
    int rc = prep_part_of(&dir, d->o.model, "vocoder", "decodes the sound", err);
    const encoder_opts o = { .dir = dir, .dtype = VC_F32, .device = d->o.device };

    if (!rc)
        rc = vocoder_open(&s->vocoder, &o, &s->to, err);
    if (!rc && (s->to.inputs != s->is.inputs * s->is.mel.bins || s->to.channels != s->is.inputs))
        rc = vc_fail(err, VC_EMISMATCH, "%s: takes %d bins for %d channels, but the audio_vae "
                     "gives %d for %d", dir, s->to.inputs, s->to.channels,
                     s->is.inputs * s->is.mel.bins, s->is.inputs);
    free(dir);
    return rc;
}

/* Compares the autoencoder with the dataset's. */
static int check_made(const decode_sound *s, const cJSON *made, vc_err *err)
{
    int64_t channels = 0, bins = 0;
    const char *class;
    int rc = vf_json_str(made, "class", &class, err);

    if (!rc)
        rc = vf_json_int_opt(made, "channels", &channels, err);
    if (!rc)
        rc = vf_json_int_opt(made, "bins", &bins, err);
    if (!rc && (strcmp(class, s->is.class) || channels != s->is.channels || bins != s->is.bins))
        rc = vc_fail(err, VC_EMISMATCH, "%s decodes latents of sound of %d channels of %d bins, "
                     "the dataset has %lld of %lld, made by %s: give the --model that made it",
                     s->dir, s->is.channels, s->is.bins, (long long)channels, (long long)bins,
                     class);
    return rc;
}

/* made: of the dataset; NULL: the latents are a file's. */
static int open_both(decode_sound *s, const decoder *d, const cJSON *made, vc_err *err)
{
    int rc = prep_part_of(&s->dir, d->o.model, "audio_vae", "decodes the sound", err);
    const encoder_opts o = { .dir = s->dir, .dtype = VC_F32, .device = d->o.device };

    if (!rc)
        rc = audio_vae_open(&s->vae, &o, &s->is, err);
    if (!rc && made)
        rc = check_made(s, made, err);
    return rc ? rc : open_vocoder(s, d, err);
}

static int open_sound(decode_sound **out, const decoder *d, const cJSON *made, vc_err *err)
{
    decode_sound *s = calloc(1, sizeof *s);

    if (!s)
        return vc_no_memory(err);
    int rc = open_both(s, d, made, err);
    if (rc) {
        decode_sound_close(s);
        return rc;
    }
    *out = s;
    return 0;
}

static bool is_clip(const decoder *d)
{
    return d->o.format != PICTURE_PNG && d->o.format != PICTURE_JPG;
}

int decode_sound_open(decode_sound **out, const decoder *d, const vf_dataset *set, vc_err *err)
{
    const cJSON *made = cJSON_GetObjectItemCaseSensitive(vf_dataset_manifest(set), "audio_vae");

    *out = NULL;
    if (!made || !is_clip(d))
        return 0;
    if (!d->o.model) {
        vc_warn(d->progress, "the sound of %s is left out: give --model, whose folders audio_vae "
                "and vocoder decode it", vf_dataset_path(set));
        return 0;
    }
    return open_sound(out, d, made, err);
}

/* ---- a sample ---- */

/* *z [channels,*frames,bins], malloc'ed, of a tensor. */
static int read_values(const decode_sound *s, const vf_view *v, float **z, int *frames, vc_err *err)
{
    if (v->nd != 4 || v->dim[0] != s->is.channels || v->dim[2] != 1 || v->dim[3] != s->is.bins ||
        v->dim[1] < 1 || v->dim[1] > AUDIO_MAX_FRAMES / 4)
        return vc_fail(err, VC_EMISMATCH, "%s: [%d,f,1,%d] expected", v->name, s->is.channels,
                       s->is.bins);
    *z = malloc((size_t)vf_view_count(v) * sizeof **z);
    if (!*z)
        return vc_no_memory(err);
    vc_to_f32(*z, v->data, v->dtype, (size_t)vf_view_count(v));
    *frames = (int)v->dim[1];
    return 0;
}

/* *z [channels,*frames,bins], malloc'ed; NULL: the sample has no sound. */
static int read_latent(const decode_sound *s, const vf_dataset *set, uint32_t i,
                       const cJSON *record, float **z, int *frames, vc_err *err)
{
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(record, "conditions");
    const char *hex = NULL, *name = vc_roles[VC_ROLE_AUDIO].name;
    vf_safetensors *st = NULL;
    vf_view v = { 0 };
    vf_key key;
    int rc = all ? vf_json_str_opt(all, name, &hex, err) : 0;

    *z = NULL;
    if (rc || !hex)
        return rc;
    if (!vf_key_parse(&key, hex))
        return vc_fail(err, VC_EFORMAT, "%s: 32 hex digits expected", name);
    rc = vf_dataset_latent_of(set, i, key, true, &st, err);
    if (!rc && vf_safetensors_get(st, "mean", &v, NULL))
        rc = vf_safetensors_get(st, "sample", &v, err);
    if (!rc)
        rc = read_values(s, &v, z, frames, err);
    vf_safetensors_close(st);
    return rc;
}

/* Decodes z to x [channels,n], malloc'ed. */
static int decode(decode_sound *s, const float *z, int l, float **x, int64_t *n, vc_err *err)
{
    const int t = audio_vae_frames(&s->is, l);
    float *mel = malloc((size_t)s->is.inputs * (size_t)t * (size_t)s->is.mel.bins * sizeof *mel);

    *n = (int64_t)t * s->to.hop;
    *x = malloc((size_t)s->to.channels * (size_t)*n * sizeof **x);
    int rc = mel && *x ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for %lld samples of sound",
                                     (long long)*n);
    if (!rc)
        rc = audio_vae_decode(s->vae, z, l, mel, err);
    if (!rc)
        rc = vocoder_run(s->vocoder, mel, t, s->is.mel.bins, *x, err);
    free(mel);
    return rc;
}

/* Decodes z, of l frames, to a wave of `seconds`. */
static int make_wave(decode_sound *s, const float *z, int l, double seconds, media_wave *wave,
                     vc_err *err)
{
    float *x = NULL;
    int64_t made = 0;
    int rc = decode(s, z, l, &x, &made, err);
    const int64_t wanted = llround(seconds * s->to.rate), n = wanted < 1 || wanted > made ? made
                                                                                          : wanted;

    for (int c = 1; !rc && c < s->to.channels; c++)
        memmove(x + c * n, x + c * made, (size_t)n * sizeof *x);
    if (rc) {
        free(x);
        return rc;
    }
    *wave = (media_wave){ x, n, s->to.rate, s->to.channels };
    return 0;
}

int decode_sound_file(decode_sound **s, const decoder *d, const vf_safetensors *st,
                      double seconds, media_wave *wave, vc_err *err)
{
    const char *name = vc_roles[VC_ROLE_AUDIO].name;
    float *z = NULL;
    vf_view v;
    int l = 0, rc = 0;

    *wave = (media_wave){ 0 };
    if (!is_clip(d) || vf_safetensors_get(st, name, &v, NULL))
        return 0;
    if (!d->o.model) {
        vc_warn(d->progress, "the sound of samples is left out: give --model, whose folders "
                "audio_vae and vocoder decode it");
        return 0;
    }
    if (!*s)
        rc = open_sound(s, d, NULL, err);
    if (!rc)
        rc = read_values(*s, &v, &z, &l, err);
    if (!rc)
        rc = make_wave(*s, z, l, seconds, wave, err);
    free(z);
    return rc;
}

int decode_sound_run(decode_sound *s, const vf_dataset *set, uint32_t i, const cJSON *record,
                     double seconds, media_wave *wave, vc_err *err)
{
    float *z = NULL;
    int l;

    *wave = (media_wave){ 0 };
    if (!s)
        return 0;
    int rc = read_latent(s, set, i, record, &z, &l, err);
    if (rc || !z)
        return vc_context(err, rc, "conditions: audio");
    rc = make_wave(s, z, l, seconds, wave, err);
    free(z);
    return rc;
}

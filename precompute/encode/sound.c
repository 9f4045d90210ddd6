/* sound.c - see sound.h */
#include "precompute/encode/sound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "precompute/encode/parts.h"
#include "precompute/sound/read.h"
#include "precompute/sound/mel.h"

/* ---- from the file to a spectrogram ---- */

/* Reads x [inputs,span->n]. Returns the code of prep_identity_check. */
static int read_once(const vprep_source *s, const vf_part *part, int64_t first, sound_span *span,
                     float *x, vc_err *err)
{
    prep_identity is = s->is;
    media_info info;
    media *m;
    bool has;
    vc_err why = { 0 };
    int rc = media_open_part(&m, part, &info, err);

    if (rc)
        return rc;
    if (!media_times(m) || first >= info.frames)
        rc = vc_fail(err, VC_EMISMATCH, "the file has %lld frames, and the clip begins with %lld",
                     (long long)info.frames, (long long)first);
    if (!rc) {
        span->begin = media_times(m)[first];
        rc = sound_read(m, span, x, &has, vc_stop_flag(), err);
    }
    const int other = rc == VC_ESTOP ? 0
                      : prep_identity_check(&is, s->hash, media_fd(m), part, &why);
    media_close(m);
    if (other < 0)
        *err = why;
    return other ? other : rc;
}

static int read_span(const vprep *p, const vprep_item *it, const vprep_clip *clip,
                     sound_span *span, float *x, vc_err *err)
{
    enum { MAX_TRIES = 3 };
    const vf_part part = vf_row_part(&p->list.meta.rows[it->row]);
    int rc = 1;

    for (int tries = 0; rc > 0; tries++)
        rc = tries < MAX_TRIES ? read_once(&p->list.sources[it->row], &part, clip->frames[0], span,
                                           x, err)
                               : vc_fail(err, VC_EIO, "changes while it is read");
    return rc;
}

static int8_t eighth_bit(float x)
{
    return (int8_t)lrintf(127 * fminf(fmaxf(x, -1), 1));
}

/* Fills wave of x [channels,n]. */
static void make_wave(int8_t wave[PREP_WAVE][2], const float *x, int channels, int64_t n)
{
    for (int at = 0; at < PREP_WAVE; at++) {
        const int64_t from = n * at / PREP_WAVE, to = n * (at + 1) / PREP_WAVE;
        float least = n ? x[from < n ? from : n - 1] : 0, most = least;
        for (int c = 0; c < channels; c++)
            for (int64_t i = from; i < to; i++) {
                least = fminf(least, x[c * n + i]);
                most = fmaxf(most, x[c * n + i]);
            }
        wave[at][0] = eighth_bit(least);
        wave[at][1] = eighth_bit(most);
    }
}

int prep_sound_read(const vprep *p, prep_job *j, vc_err *err)
{
    const audio_info *a = &p->encoders.audio;
    float **out = &j->sound.mel;
    sound_span span = { .n = vprep_sound_samples(p, &j->clip), .rate = a->mel.rate,
                        .channels = a->inputs };
    const size_t n = (size_t)span.n, t = (size_t)mel_frames(&a->mel, span.n);
    mel_maker *spectrum = NULL;
    float *x = malloc((size_t)a->inputs * n * sizeof *x);

    j->sound.frames = (int)t;
    *out = malloc((size_t)a->inputs * t * (size_t)a->mel.bins * sizeof **out);
    int rc = x && *out && t <= AUDIO_MAX_FRAMES ? 0 :
             vc_fail(err, VC_ENOMEM, "out of memory for %lld samples of sound", (long long)span.n);
    if (!rc)
        rc = read_span(p, j->item, &j->clip, &span, x, err);
    if (!rc)
        make_wave(j->sound.wave, x, a->inputs, span.n);
    if (!rc)
        rc = mel_open(&spectrum, &a->mel, err);
    for (int c = 0; !rc && c < a->inputs; c++)
        mel_run(spectrum, x + (size_t)c * n, span.n, *out + (size_t)c * t * (size_t)a->mel.bins);
    mel_close(spectrum);
    free(x);
    if (rc) {
        free(*out);
        *out = NULL;
    }
    return rc;
}

/* ---- from a spectrogram to a value ---- */

int prep_sound_open(prep_encoder *e, vc_err *err)
{
    const prep_encoders *is = &e->p->encoders;
    audio_info info;
    int rc = audio_vae_open(&e->audio, &is->audio_part.opts, &info, err);

    if (!rc && memcmp(&info.fingerprint, &is->audio.fingerprint, sizeof info.fingerprint))
        rc = vc_fail(err, VC_EMISMATCH, "%s: changed while this ran: start again",
                     is->audio_part.dir);
    return rc ? rc : prep_part_unchanged(&is->audio_part, err);
}

int prep_sound_memory(prep_encoder *e, int64_t n, size_t *bytes, vc_err *err)
{
    const int64_t t = mel_frames(&e->p->encoders.audio.mel, n);
    return audio_vae_memory(e->audio, false, (int)(t < INT32_MAX ? t : INT32_MAX), bytes, err);
}

/* Cuts x [channels,made,bins] to the first `kept` frames of each channel. */
static void cut(float *x, int channels, int made, int kept, int bins)
{
    const size_t from = (size_t)made * (size_t)bins, to = (size_t)kept * (size_t)bins;

    for (size_t c = 1; c < (size_t)channels; c++)
        memmove(x + c * to, x + c * from, to * sizeof *x);
}

/* No latent frame sees a later one, so that a longer spectrogram's first frames are the same. */
int prep_sound_encode(prep_encoder *e, prep_job *j, int v, vc_err *err)
{
    const audio_info *a = &e->p->encoders.audio;
    const int made = audio_vae_latents(a, j->sound.frames);
    const int wanted = vprep_sound_frames(e->p, &j->clip), kept = wanted < made ? wanted : made;
    const int64_t dim[] = { a->channels, kept, 1, a->bins };
    const size_t n = (size_t)a->channels * (size_t)made * (size_t)a->bins;
    int rc = prep_grow(&e->mean, &e->mean_room, n, err);

    if (!rc)
        rc = prep_grow(&e->logvar, &e->logvar_room, n, err);
    if (!rc)
        rc = audio_vae_encode(e->audio, j->sound.mel, j->sound.frames, e->mean, e->logvar, err);
    if (rc)
        return rc;
    cut(e->mean, a->channels, made, kept, a->bins);
    cut(e->logvar, a->channels, made, kept, a->bins);
    rc = prep_trace(e, "cond.audio.mel", VC_F32, 3,
                    (int64_t[]){ a->inputs, j->sound.frames, a->mel.bins }, j->sound.mel, err);
    if (!rc)
        rc = prep_trace_moments(e, v, 4, dim, err);
    return rc ? rc : prep_pack_moments(e, &j->value[v], &j->value_bytes[v], 4, dim, j->item,
                                       vc_roles[v].recipe.place, true, false, err);
}

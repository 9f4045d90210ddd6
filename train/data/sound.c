/* sound.c - the sound of clips: how it was made, and how long it can be. See data.h and parts.h */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/data/parts.h"

enum { MAX_FRAMES = 1 << 20, MAX_NUMBERS = 1 << 16 };

/* What a manifest says of sound, borrowed from it. */
typedef struct made {
    const char *class, *fingerprint;
    int64_t channels, bins, rate, hop;
    const cJSON *mean, *std;
} made;

static int numbers_of(const cJSON *o, const char *field, int64_t n, const cJSON **out, vc_err *err)
{
    const cJSON *x;
    int rc = vf_json_arr(o, field, out, err);
    if (!rc && cJSON_GetArraySize(*out) != n)
        rc = vc_fail(err, VC_EFORMAT, "%s: %" PRId64 " numbers expected", field, n);
    if (!rc)
        cJSON_ArrayForEach(x, *out)
            if (!cJSON_IsNumber(x) || !isfinite(x->valuedouble))
                rc = vc_fail(err, VC_EFORMAT, "%s: finite numbers expected", field);
    return rc;
}

static int size_of(const cJSON *o, const char *field, int64_t *v, vc_err *err)
{
    int rc = vf_json_int(o, field, v, err);
    if (!rc && (*v < 1 || *v > MAX_NUMBERS))
        rc = vc_fail(err, VC_EFORMAT, "%s: %" PRId64 " is not in 1..%d", field, *v, MAX_NUMBERS);
    return rc;
}

static int read_made(made *m, const cJSON *o, vc_err *err)
{
    int rc;
    if ((rc = vf_json_str(o, "class", &m->class, err)) ||
        (rc = vf_json_str(o, "fingerprint", &m->fingerprint, err)) ||
        (rc = size_of(o, "channels", &m->channels, err)) ||
        (rc = size_of(o, "bins", &m->bins, err)) || (rc = size_of(o, "rate", &m->rate, err)) ||
        (rc = size_of(o, "hop", &m->hop, err)))
        return rc;
    rc = numbers_of(o, "mean", m->channels * m->bins, &m->mean, err);
    return rc ? rc : numbers_of(o, "std", m->channels * m->bins, &m->std, err);
}

static bool same(const made *a, const made *b)
{
    return !strcmp(a->class, b->class) && !strcmp(a->fingerprint, b->fingerprint) &&
           a->channels == b->channels && a->bins == b->bins && a->rate == b->rate &&
           a->hop == b->hop && cJSON_Compare(a->mean, b->mean, true) &&
           cJSON_Compare(a->std, b->std, true);
}

static int make_norm(vtrain_norm *n, const made *m, vc_err *err)
{
    const cJSON *mean = m->mean->child, *std = m->std->child;
    int rc = vtrain_norm_alloc(n, (int)(m->channels * m->bins), err);
    for (int i = 0; !rc && i < n->channels; i++, mean = mean->next, std = std->next) {
        n->sub[i] = (float)mean->valuedouble;
        n->mul[i] = (float)(1 / std->valuedouble);
        if (!isfinite(n->mul[i]) || n->mul[i] == 0)
            rc = vc_fail(err, VC_EFORMAT, "std: number %d is %g", i, std->valuedouble);
    }
    return rc;
}

/* Finds what the datasets with sound have in common; *first < 0: none has sound. */
static int find_made(const vtrain_data *d, made *m, int *first, vc_err *err)
{
    int rc = 0;
    *first = -1;
    for (int i = 0; i < d->n_sets && !rc; i++) {
        const char *path = vf_dataset_path(d->set[i].data);
        const cJSON *o = cJSON_GetObjectItemCaseSensitive(vf_dataset_manifest(d->set[i].data),
                                                          "audio_vae");
        made other;
        if (!o)
            continue;
        rc = vc_context(err, read_made(*first < 0 ? m : &other, o, err),
                        "%s: manifest.json: audio_vae", path);
        if (!rc && *first >= 0 && !same(m, &other))
            rc = vc_fail(err, VC_EMISMATCH, "the sound of %s was made by another audio_vae than "
                         "that of %s", path, vf_dataset_path(d->set[*first].data));
        *first = *first < 0 ? i : *first;
    }
    return rc;
}

const vtrain_sound *vtrain_data_sound(const vtrain_data *d) { return &d->sound; }

int vtrain_data_sound_frames(const vtrain_data *d, double frames, double fps)
{
    const double n = fps > 0 ? round(frames / fps * d->sound.rate) : 1;
    return n < 1 ? 1 : n < MAX_FRAMES ? (int)n : MAX_FRAMES;
}

int vtrain_data_sound_check(const vtrain_data *d, vc_err *err)
{
    for (int i = 0; i < d->n_sets; i++)
        if (cJSON_HasObjectItem(vf_dataset_manifest(d->set[i].data), "audio_vae"))
            return 0;
    return vc_fail(err, VC_EMISMATCH, "--with_audio: %s has no sound: run vprep with --with_audio, "
                   "or leave the flag out to train the video alone",
                   vf_dataset_path(d->set[0].data));
}

int vtrain_sound_fit(vtrain_data *d, const vtrain_fit *fit, vc_err *err)
{
    const int numbers = fit->sound, least = fit->sound_least;
    made m = { 0 };
    int first, rc = numbers ? vtrain_data_sound_check(d, err) : 0;
    if (!rc && numbers)
        rc = find_made(d, &m, &first, err);
    if (rc || !numbers)
        return rc;
    if (m.channels * m.bins != numbers)
        return vc_fail(err, VC_EMISMATCH, "the sound of %s has %" PRId64 " channels of %" PRId64
                       " bins, but the transformer takes %d numbers in all: encode it with this "
                       "model's audio_vae (vprep --model)", vf_dataset_path(d->set[first].data),
                       m.channels, m.bins, numbers);
    d->sound = (vtrain_sound){ .channels = (int)m.channels, .bins = (int)m.bins,
                               .rate = (double)m.rate / (double)m.hop };
    rc = vc_context(err, make_norm(&d->sound.norm, &m, err), "%s: manifest.json: audio_vae",
                    vf_dataset_path(d->set[first].data));
    for (uint32_t i = 0; i < d->n_samples && !rc; i++) {
        const vf_entry *e = vtrain_data_scan(d, i);
        vtrain_group *g = &d->group[d->sample[i].group];
        const int n = g->video ? vtrain_data_sound_frames(d, e->frames, (double)e->fps) : 1;
        g->sound = n > g->sound ? n : g->sound;
        g->sound = g->sound < least ? least : g->sound;
    }
    return rc;
}

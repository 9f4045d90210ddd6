/* encoders.c - the identities of a run's encoders: hashes of their weights, and what they say of
 * themselves when they are opened. See components.h */
#include "precompute/run/components.h"

#include <stdio.h>
#include <string.h>

#include "formats/tensors/component.h"
#include "precompute/run/reuse.h"

/* ---- hashes of weights ---- */

int prep_part_unchanged(const prep_part *part, vc_err *err)
{
    static const vf_key none;
    vf_key now;
    double bytes = 0;

    if (!part->dir || !memcmp(&part->files, &none, sizeof none))
        return 0;
    int rc = vf_model_files(&now, &bytes, part->dir, err);
    return rc || !memcmp(&now, &part->files, sizeof none)
               ? rc : vc_fail(err, VC_EMISMATCH, "%s: its weights changed while this ran: start "
                              "again with --overwrite, since values encoded meanwhile may be "
                              "wrong", part->dir);
}

static void hint_name(char name[64], const prep_part *part)
{
    char hex[VF_KEY_HEX];
    const bool single = prep_is_file(part->dir);      /* which may hold several components */
    snprintf(name, 64, "weights-%s%s%s", vf_key_hex(hex, part->files), single ? "-" : "",
             single ? part->slot : "");
}

/* Sets opts.weights to the vf_model_hash of the part's folder, or to the hash that a dataset has
 * for the same files. Prints a line before it reads them all. Built-in parts have no files. */
static int hash_part(const vprep *p, prep_part *part, const char *slot, vc_err *err)
{
    char name[64], size[32];
    double bytes = 0;
    vf_model *m;

    if (!part->dir)
        return 0;
    int rc = vf_model_files(&part->files, &bytes, part->dir, err);
    if (rc)
        return rc;
    part->slot = slot;
    hint_name(name, part);
    prep_reuse_place known =
        p->c.rehash ? REUSE_NONE
                    : prep_reuse_recall(p, name, &part->opts.weights, sizeof part->opts.weights);
    part->to_remember = known != REUSE_OUT;
    if (known != REUSE_NONE)
        return 0;
    vc_say(p->progress, "%s: hashing %s of weights, once: %s keeps the hash", slot,
           vc_human_bytes(size, bytes), p->c.out);
    rc = vf_component_open(&m, part->dir, slot, err);
    if (rc)
        return rc;
    rc = vf_model_hash(&part->opts.weights, m, vc_stop_flag(), err);
    vc_context(err, rc, "%s", part->dir);
    vf_model_close(m);
    return rc ? rc : prep_part_unchanged(part, err);
}

int prep_part_remember(const prep_part *part, vf_writer *w, vc_err *err)
{
    char name[64];
    if (!part->to_remember)
        return 0;
    hint_name(name, part);
    return vf_writer_hint_put(w, name, &part->opts.weights, sizeof part->opts.weights, err);
}

/* ---- identities: one encoder is open at a time ---- */

/* The sizes of buckets are those of the family, so the VAE must make latents for them. A still has
 * one latent frame, whatever a VAE makes of time. */
static int check_ratio(const vprep *p, vc_err *err)
{
    const vae_info *v = &p->encoders.vae;
    const vc_family *f = p->rules.family;

    if (v->ratio[1] == f->ratio[1] && (f->max_frames == 1 || v->ratio[0] == f->ratio[0]))
        return 0;
    return vc_fail(err, VC_EMISMATCH, "%s: one place of its latents stands for %d frames of %dx%d "
                   "pixels, but in %s for %d frames of %dx%d: give --model, the folder of a model "
                   "with this VAE", p->encoders.vae_part.dir, v->ratio[0], v->ratio[2], v->ratio[1],
                   f->name, f->ratio[0], f->ratio[2], f->ratio[1]);
}

static bool has_constants(const vc_family *f, const vae_info *v)
{
    return f->vae && !strcmp(f->vae, v->class) && (float)f->scaling == (float)v->scaling_factor &&
           (float)f->shift == (float)v->shift_factor;
}

/* Some families have one class of autoencoder, which a folder alone does not tell apart; their
 * constants do. */
static int check_constants(const vprep *p, vc_err *err)
{
    const vae_info *v = &p->encoders.vae;
    const vc_family *f = p->encoders.family.is;

    if (p->c.model || !p->encoders.vae_part.dir || has_constants(f, v))
        return 0;
    for (const vc_family *is = vc_families(); is->name; is++)
        if (has_constants(is, v))
            return vc_fail(err, VC_EUSAGE, "%s: its scaling_factor %g and shift_factor %g are "
                           "those of %s, and the values would be those of %s: give --model, or "
                           "--model_version %s", p->encoders.vae_part.dir, v->scaling_factor,
                           v->shift_factor, is->name, f->name, is->pipeline[0].class);
    return 0;
}

/* Refuses states that the model's transformer cannot take, before anything is encoded. */
static int check_width(const vprep *p, int i, vc_err *err)
{
    const prep_family *f = &p->encoders.family;
    const text_info *t = &p->encoders.text[i];
    const int64_t is = t->rule.pooled_only ? t->pooled : t->width, wanted = p->encoders.width[i];
    if (!wanted || is == wanted)
        return 0;
    return vc_fail(err, VC_EMISMATCH, "%s: its embeddings are %lld wide, but the transformer of "
                   "--model %s takes %lld (%s in its config.json): give --%s DIR of the encoder "
                   "that belongs to it", p->encoders.text_part[i].dir, (long long)is, p->c.model,
                   (long long)wanted, vc_family_texts(f->is, f->pipeline)[i].width_field,
                   vc_text_slots[i]);
}

/* The same for the states of the vision model. */
static int check_vision(const vprep *p, vc_err *err)
{
    const int64_t is = p->encoders.vision.width, wanted = p->encoders.vision_width;
    if (!wanted || is == wanted)
        return 0;
    return vc_fail(err, VC_EMISMATCH, "%s: its states are %lld wide, but the transformer of "
                   "--model %s takes %lld (%s in its config.json): give --image_encoder DIR of the "
                   "vision model that belongs to it", p->encoders.vision_part.dir, (long long)is,
                   p->c.model, (long long)wanted, p->encoders.family.is->vision_field);
}

static int identify_vision(vprep *p, bool hash, vc_err *err)
{
    const vision_class *class = p->encoders.family.vision;
    prep_part *part = &p->encoders.vision_part;
    vision_enc *v = NULL;

    if (!p->encoders.sees)
        return 0;
    int rc = hash ? hash_part(p, part, "image_encoder", err) : 0;
    if (!rc)
        rc = class->open(&v, &part->opts, &p->encoders.vision, err);
    class->close(v);
    return rc ? rc : check_vision(p, err);
}

static int identify_audio(vprep *p, bool hash, vc_err *err)
{
    prep_part *part = &p->encoders.audio_part;
    audio_vae *a = NULL;

    if (!part->dir)
        return 0;
    int rc = hash ? hash_part(p, part, "audio_vae", err) : 0;
    if (!rc)
        rc = audio_vae_open(&a, &part->opts, &p->encoders.audio, err);
    audio_vae_close(a);
    return rc;
}

static bool has_segments(const vf_metadata *m)
{
    int64_t i = 0;
    while (i < m->n && !m->rows[i].segments)
        i++;
    return i < m->n;
}

/* Puts the statistics of squares, which have the channel of a place last, into the order of the
 * latents. */
static void order_statistics(vae_info *v)
{
    enum { PATCH = 4 };                      /* places of a square */
    const vae_info is = *v;

    for (int i = 0; i < v->channels; i++) {
        const int from = i % PATCH * (v->channels / PATCH) + i / PATCH;
        v->mean[i] = is.mean[from];
        v->std[i] = is.std[from];
    }
}

int vprep_identify(vprep *p, bool hash, vc_err *err)
{
    const prep_family *f = &p->encoders.family;
    const bool scenes = has_segments(&p->list.meta);
    int rc = 0;

    for (int i = 0; !rc && i < p->encoders.n_text; i++) {
        text_enc *t = NULL;
        prep_part *part = &p->encoders.text_part[i];
        part->opts.text.scenes = scenes;
        if (hash)
            rc = hash_part(p, part, vc_text_slots[i], err);
        if (!rc)
            rc = text_open(&t, f->text[i], &part->opts, &p->encoders.text[i], err);
        if (!rc)
            rc = check_width(p, i, err);
        text_close(t);
    }
    vae *v = NULL;
    if (!rc && hash)
        rc = hash_part(p, &p->encoders.vae_part, "vae", err);
    if (!rc)
        rc = f->vae->open(&v, &p->encoders.vae_part.opts, &p->encoders.vae, err);
    f->vae->close(v);
    if (!rc && f->is->statistics_last)
        order_statistics(&p->encoders.vae);
    if (!rc)
        rc = check_ratio(p, err);
    if (!rc)
        rc = check_constants(p, err);
    if (!rc)
        rc = identify_audio(p, hash, err);
    return rc ? rc : identify_vision(p, hash, err);
}

int vprep_remember(vprep *p, vc_err *err)
{
    int rc = prep_part_remember(&p->encoders.vae_part, p->writer, err);
    if (!rc)
        rc = prep_part_remember(&p->encoders.audio_part, p->writer, err);
    if (!rc)
        rc = prep_part_remember(&p->encoders.vision_part, p->writer, err);
    for (int i = 0; !rc && i < p->encoders.n_text; i++)
        rc = prep_part_remember(&p->encoders.text_part[i], p->writer, err);
    return rc;
}

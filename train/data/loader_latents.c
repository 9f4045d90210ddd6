/* loader_latents.c - draws, normalises, pads and checks latents, conditions and loss weights of a
 * row. See loader.h */
#include "train/data/loader_parts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/rng.h"

enum { CHUNK = 1024 };                   /* elements */

typedef vtrain_loader_slot slot;

/* A value to copy to a row. */
typedef struct filling {
    float *x;                            /* out: [C,padded,h,w] */
    size_t channels, f, padded, area;    /* channels; frames stored and with padding; h w */
    size_t variant;                      /* chosen one, of a value with several */
    size_t period;                       /* numbers of norm for a channel's elements, in turn */
    const vtrain_norm *norm;
    bool draw;
    uint32_t purpose;                    /* of the posterior noise */
} filling;

/* ---- one value ---- */

/* Computes z = mean + std noise of one channel, in x, which holds the noise. Returns false if a
 * logvar is not finite. */
static bool draw_channel(float *x, const vtrain_latent_value *v, size_t first, size_t logvar_first,
                         size_t n)
{
    float mean[CHUNK], logvar[CHUNK];

    for (size_t at = 0; at < n; at += CHUNK) {
        size_t some = n - at < CHUNK ? n - at : CHUNK;
        vf_view_f32(mean, &v->mean, first + at, some);
        vf_view_f32(logvar, &v->logvar, logvar_first + at, some);
        if (!vf_all_finite(logvar, some))
            return false;
        for (size_t i = 0; i < some; i++) {
            float lv = fminf(fmaxf(logvar[i], -30.0f), 20.0f);
            x[at + i] = mean[i] + expf(0.5f * lv) * x[at + i];
        }
    }
    return true;
}

/* Expands [C,f,h,w] at the start of x to [C,padded,h,w], with copies of the first frame in front.
 * The last channel is moved first, since it moves farthest. */
static void pad_front(const filling *j)
{
    size_t extra = j->padded - j->f, frame = j->area, clip = j->f * frame;

    for (size_t c = j->channels; extra && c--;) {
        float *to = j->x + c * j->padded * frame;
        memmove(to + extra * frame, j->x + c * clip, clip * sizeof *to);
        for (size_t k = 0; k < extra; k++)
            memcpy(to + k * frame, to + extra * frame, frame * sizeof *to);
    }
}

/* The row's number in its micro-batch, which draws depend on. */
static uint32_t row_drawn(const slot *s, int row)
{
    return s->b.first + (uint32_t)row;
}

static bool fill(const vtrain_loader *l, const slot *s, int row, const filling *j,
                 const vtrain_latent_value *v)
{
    size_t plane = j->f * j->area, all = plane * j->channels;
    bool draw = j->draw && v->logvar.nd, finite = true;
    size_t shared = draw && v->logvar.dim[v->logvar.nd - 4] == 1;
    size_t first = j->variant * all, lv_first = j->variant * (shared ? plane : all);

    if (draw)
        vc_train_normals(j->x, 0, all, l->o.plan.seed, row_drawn(s, row), (uint32_t)s->b.micro,
                         j->purpose);
    for (size_t c = 0; c < j->channels && finite; c++) {
        float *z = j->x + c * plane;
        if (draw)
            finite = draw_channel(z, v, first + c * plane, lv_first + (shared ? 0 : c * plane),
                                  plane);
        else
            vf_view_f32(z, &v->mean, first + c * plane, plane);
        for (size_t i = 0; i < plane; i++)
            z[i] = (z[i] - j->norm->sub[c * j->period + i % j->period]) *
                   j->norm->mul[c * j->period + i % j->period];
    }
    finite = finite && vf_all_finite(j->x, all);
    if (finite)
        pad_front(j);
    return finite;
}

static int not_finite(vf_key key, vc_err *err)
{
    char hex[VF_KEY_HEX];
    return vc_fail(err, VC_ENUMERIC, "latent %s: a value is NaN or infinite", vf_key_hex(hex, key));
}

static filling job_of(const vtrain_loader *l, const slot *s, float *x, const vtrain_norm *norm,
                  uint32_t purpose)
{
    const vtrain_group *g = &l->d->group[s->b.group];
    return (filling){ .x = x, .channels = (size_t)norm->channels, .f = (size_t)g->f,
                  .padded = (size_t)s->b.dim[2], .area = (size_t)g->h * (size_t)g->w, .norm = norm,
                  .period = 1,
                  .draw = l->o.latent == VTRAIN_LATENT_SAMPLE, .purpose = purpose };
}

static size_t row_size(const filling *j)
{
    return j->channels * j->padded * j->area;
}

/* ---- x0 ---- */

static int fill_latent(const vtrain_loader *l, const slot *s, int row, vc_err *err)
{
    const vtrain_sample *at = &l->d->sample[s->row[row]];
    filling j = job_of(l, s, s->b.latents, &l->d->norm, VC_DRAW_LATENT);
    vtrain_latent_value v;
    int rc = vtrain_latent_open(l->d, s->row[row], false, &v, err);
    if (rc)
        return rc;
    j.x += (size_t)row * row_size(&j);
    if (!fill(l, s, row, &j, &v))
        rc = not_finite(vf_dataset_entry(l->d->set[at->dataset].data, at->index)->latent, err);
    vf_safetensors_close(v.st);
    return rc;
}

/* The image of a clip, encoded alone, takes the place of its first frames, which stay clean. */
static int fill_first(const vtrain_loader *l, const slot *s, int row, vc_err *err)
{
    const vtrain_conditions *c = &s->cond[row];
    const filling clip = job_of(l, s, s->b.latents, &l->d->norm, 0);
    filling j = clip;
    vtrain_latent_value v;
    int rc = vtrain_condition_open(l->d, s->row[row], c, VC_ROLE_IMAGE, false, &v, err);
    if (rc)
        return rc;
    j.x = s->first;
    j.f = j.padded = 1;
    j.draw = false;
    if (!fill(l, s, row, &j, &v))
        rc = vc_context(err, not_finite(c->key[VC_ROLE_IMAGE], err), "conditions: %s",
                        vc_roles[VC_ROLE_IMAGE].name);
    vf_safetensors_close(v.st);
    for (size_t i = 0; !rc && i < clip.channels * (size_t)l->d->clean_frames; i++) {
        size_t channel = i % clip.channels, frame = i / clip.channels;
        memcpy(clip.x + (size_t)row * row_size(&clip) + (channel * clip.padded + frame) * clip.area,
               s->first + channel * clip.area, clip.area * sizeof *clip.x);
    }
    return rc;
}

/* ---- conditions ---- */

vc_role vtrain_loader_entry(const vtrain_loader *l, int set, vc_role role)
{
    const vc_role other = vc_role_stand_in(role);
    return l->d->set[set].stand_ins & 1u << other && !l->o.held_out ? other : role;
}

/* Decides by one draw for all pictures of a row whether zeros replace them: a first frame, or mask
 * and masked clip where the mask is everything. */
static bool is_dropped(const vtrain_loader *l, const slot *s, int row)
{
    double p = s->cond[row].mask_all ? l->o.mask_dropout : 0;
    if (l->d->roles & 1u << VC_ROLE_IMAGE)
        p = l->o.image_dropout;
    return l->d->roles && !l->o.held_out && !l->d->needs_mask &&
           vc_train_unit(l->o.plan.seed, 0, row_drawn(s, row), (uint32_t)s->b.micro,
                         VC_DRAW_COND_DROP) < p;
}

/* Embeddings of a picture and control clips have draws of their own. */
static bool is_role_dropped(const vtrain_loader *l, const slot *s, int row, vc_role role)
{
    const bool embeds = vc_roles[role].kind == VC_VALUE_EMBEDS;

    if (vc_roles[role].own_size)
        return false;
    if (!embeds && role != VC_ROLE_CONTROL)
        return s->b.cond_dropped[row];
    return !l->o.held_out && vc_train_unit(l->o.plan.seed, embeds ? 1 : 2, row_drawn(s, row),
                                           (uint32_t)s->b.micro, VC_DRAW_COND_DROP) <
                                 (embeds ? l->o.image_dropout : l->o.control_dropout);
}

static size_t pick_variant(const vtrain_loader *l, const slot *s, int row, size_t variants)
{
    return (size_t)(vc_train_unit(l->o.plan.seed, 0, row_drawn(s, row), (uint32_t)s->b.micro,
                                  VC_DRAW_IMAGE) * (double)variants);
}

/* A reference is the clip's frame k from the right of those in front of it. */
static void put_in_front(const vtrain_loader *l, const slot *s, int row, int k, const float *x)
{
    const filling clip = job_of(l, s, s->b.latents, &l->d->norm, 0);
    const size_t front = clip.padded - clip.f, at = front - 1 - (size_t)k;
    float *to = clip.x + (size_t)row * row_size(&clip);

    for (size_t c = 0; c < clip.channels; c++)
        memcpy(to + (c * clip.padded + at) * clip.area, x + c * clip.area,
               clip.area * sizeof *to);
}

static int fill_role(const vtrain_loader *l, const slot *s, int row, vc_role role, vc_err *err)
{
    const vtrain_conditions *c = &s->cond[row];
    vc_role e = vtrain_loader_entry(l, l->d->sample[s->row[row]].dataset, role);
    filling j = job_of(l, s, s->b.cond[role], &l->d->role_norm[role], vc_roles[role].draw);
    if (!vc_roles[role].clip)
        j.f = j.padded = 1;
    else if (l->d->references_in_front && role != VC_ROLE_LOSS_MASK)
        j.padded = j.f;
    if (vc_roles[role].own_size) {
        const uint16_t *size = s->b.own.size[vc_role_reference(role)];
        j.area = (size_t)size[0] * size[1];
    }
    if (vc_roles[role].kind == VC_VALUE_EMBEDS)
        j.area = (size_t)(l->d->embeds[0] * l->d->embeds[1]);
    if (l->d->mean_roles & 1u << role)
        j.draw = false;
    j.x += (size_t)row * row_size(&j);
    if (is_role_dropped(l, s, row, role) && c->has & 1u << e) {
        memset(j.x, 0, row_size(&j) * sizeof *j.x);
        return 0;
    }

    vtrain_latent_value v;
    int rc = vtrain_condition_open(l->d, s->row[row], c, e, false, &v, err);
    if (rc)
        return rc;
    if (v.variants > 1)
        j.variant = pick_variant(l, s, row, v.variants);
    if (!fill(l, s, row, &j, &v))
        rc = vc_context(err, not_finite(c->key[e], err), "conditions: %s", vc_roles[e].name);
    else if (l->d->references_in_front && vc_roles[role].own_size)
        put_in_front(l, s, row, vc_role_reference(role), j.x);
    vf_safetensors_close(v.st);
    return rc;
}

/* ---- sound ---- */

/* Moves the channels of x [channels,f,area] apart to [channels,all,area], with zeros behind. */
static void pad_behind(float *x, size_t channels, size_t f, size_t all, size_t area)
{
    for (size_t c = channels; c--;) {
        memmove(x + c * all * area, x + c * f * area, f * area * sizeof *x);
        memset(x + (c * all + f) * area, 0, (all - f) * area * sizeof *x);
    }
}

static int fill_sound(const vtrain_loader *l, const slot *s, int row, vc_err *err)
{
    const vtrain_conditions *c = &s->cond[row];
    const vtrain_sound *is = &l->d->sound;
    const size_t all = (size_t)s->b.sound_dim[2], size = all * (size_t)is->norm.channels;
    filling j = job_of(l, s, s->b.sound + (size_t)row * size, &is->norm, VC_DRAW_SOUND_LATENT);
    s->b.sound_length[row] = 0;
    if (!(c->has & 1u << VC_ROLE_AUDIO)) {
        memset(j.x, 0, size * sizeof *j.x);
        return 0;
    }
    vtrain_latent_value v;
    int rc = vtrain_condition_open(l->d, s->row[row], c, VC_ROLE_AUDIO, false, &v, err);
    if (rc)
        return rc;
    j.channels = (size_t)is->channels;
    j.period = j.area = (size_t)is->bins;
    j.f = j.padded = (size_t)v.mean.dim[1];
    if (!fill(l, s, row, &j, &v))
        rc = vc_context(err, not_finite(c->key[VC_ROLE_AUDIO], err), "conditions: %s",
                        vc_roles[VC_ROLE_AUDIO].name);
    pad_behind(j.x, j.channels, j.f, all, j.area);
    s->b.sound_length[row] = (int32_t)j.f;
    vf_safetensors_close(v.st);
    return rc;
}

/* ---- loss weights ---- */

static int fill_weight(const vtrain_loader *l, const slot *s, int row, vc_err *err)
{
    float zero = 0, one = 1;
    const vtrain_norm as_is = { .channels = 1, .sub = &zero, .mul = &one };
    const vtrain_conditions *c = &s->cond[row];
    filling j = job_of(l, s, s->b.loss_weight, &as_is, 0);
    size_t n = row_size(&j), i = 0;
    j.x += (size_t)row * n;
    if (!(c->has & 1u << VC_ROLE_LOSS_MASK)) {
        while (i < n)
            j.x[i++] = 1;
        return 0;
    }

    vtrain_latent_value v;
    int rc = vtrain_condition_open(l->d, s->row[row], c, VC_ROLE_LOSS_MASK, false, &v, err);
    if (rc)
        return rc;
    if (!fill(l, s, row, &j, &v))
        rc = not_finite(c->key[VC_ROLE_LOSS_MASK], err);
    while (!rc && i < n && j.x[i] >= 0)
        i++;
    if (!rc && i < n)
        rc = vc_fail(err, VC_ENUMERIC, "a weight of %g", (double)j.x[i]);
    vf_safetensors_close(v.st);
    return vc_context(err, rc, "conditions: loss_mask");
}

/* ---- a row ---- */

int vtrain_loader_row(const vtrain_loader *l, vtrain_loader_slot *s, int row, vc_err *err)
{
    int rc = fill_latent(l, s, row, err);

    if (!rc && l->d->clean_frames && s->cond[row].has & 1u << VC_ROLE_IMAGE)
        rc = fill_first(l, s, row, err);
    s->b.cond_dropped[row] = is_dropped(l, s, row);
    for (int i = 0; i < VC_ROLES && !rc; i++)
        if (s->b.roles & 1u << i)
            rc = fill_role(l, s, row, (vc_role)i, err);
    if (!rc && l->d->sound.channels)
        rc = fill_sound(l, s, row, err);
    if (!rc && s->b.weighted)
        rc = fill_weight(l, s, row, err);
    return vtrain_name_sample(l->d, s->row[row], rc, err);
}

/* encode.c - pixels -> stored moments, masks, states and thumbnails; see encode.h */
#include "precompute/encode/encode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/keys/keymap.h"
#include "precompute/encode/input.h"
#include "precompute/encode/parts.h"
#include "precompute/encode/sound.h"

/* ---- open, close ---- */

/* Opens the VAE, and checks that its weights are those of vprep_identify. */
static int open_vae(prep_encoder *e, vc_err *err)
{
    const prep_encoders *is = &e->p->encoders;
    vae_info info;
    int rc = is->family.vae->open(&e->vae, &is->vae_part.opts, &info, err);

    if (!rc && memcmp(&info.fingerprint, &is->vae.fingerprint, sizeof info.fingerprint))
        rc = vc_fail(err, VC_EMISMATCH, "%s: changed while this ran: start again",
                     is->vae_part.dir ? is->vae_part.dir : info.class);
    return rc ? rc : prep_part_unchanged(&is->vae_part, err);
}

static int open_vision(prep_encoder *e, vc_err *err)
{
    const prep_encoders *is = &e->p->encoders;
    vision_info info;
    int rc = is->family.vision->open(&e->vision, &is->vision_part.opts, &info, err);

    if (!rc && memcmp(&info.fingerprint, &is->vision.fingerprint, sizeof info.fingerprint))
        rc = vc_fail(err, VC_EMISMATCH, "%s: changed while this ran: start again",
                     is->vision_part.dir);
    return rc ? rc : prep_part_unchanged(&is->vision_part, err);
}

/* Whether the VAE makes a role's value. */
static bool needs_pixels(int role)
{
    const vc_role_row *row = &vc_roles[role];
    return row->kind != VC_VALUE_EMBEDS && row->kind != VC_VALUE_MASK && !row->sound;
}

int prep_encoder_open(prep_encoder **out, const vprep *p, unsigned roles, vc_err *err)
{
    bool needs_vae = false, needs_vision = false;
    prep_encoder *e = *out = calloc(1, sizeof *e);
    if (!e)
        return vc_no_memory(err);

    e->p = p;
    for (int v = 0; v < VC_ROLES; v++)
        if (roles & VC_ROLE_BIT(v)) {
            needs_vision |= vc_roles[v].kind == VC_VALUE_EMBEDS;
            needs_vae |= needs_pixels(v);
        }
    int rc = needs_vae ? open_vae(e, err) : 0;
    if (!rc && roles & VC_ROLE_BIT(VC_ROLE_AUDIO))
        rc = prep_sound_open(e, err);
    if (!rc && needs_vision)
        rc = open_vision(e, err);
    if (rc) {
        prep_encoder_close(e);
        *out = NULL;
    }
    return rc;
}

int prep_encoder_memory(prep_encoder *e, const vb_choice *c, prep_memory *m, vc_err *err)
{
    const prep_family *f = &e->p->encoders.family;
    const size_t frame = (size_t)c->target_h * (size_t)c->target_w * 3 * sizeof(float);
    int rc = f->vae->memory(e->vae, false, c->frames, c->target_h, c->target_w, &m->vae, err);

    m->vision = 0;
    m->pixels = prep_frames_room(e->p, c, c->frames) +
                (size_t)f->vae->chunk(e->vae, c->frames) * frame;
    return rc || !e->vision ? rc : f->vision->memory(e->vision, &m->vision, err);
}

void prep_encoder_watch(prep_encoder *e, prep_told *told, void *arg)
{
    e->told = told;
    e->told_arg = arg;
}

double prep_encoder_seconds(const prep_encoder *e)
{
    return e->vae_seconds;
}

static void clear_trace(trace_set *t)
{
    for (int i = 0; i < t->n; i++)
        free((void *)(uintptr_t)t->t[i].data);
    t->n = 0;
}

void prep_encoder_close(prep_encoder *e)
{
    if (!e)
        return;
    e->p->encoders.family.vae->close(e->vae);
    audio_vae_close(e->audio);
    if (e->vision)
        e->p->encoders.family.vision->close(e->vision);
    clear_trace(&e->trace);
    vf_keymap_free(&e->made);
    free(e->seen);
    free(e->mean);
    free(e->logvar);
    free(e->scratch);
    free(e);
}

static int need_scratch(prep_encoder *e, size_t n, vc_err *err)
{
    if (n <= e->scratch_room)
        return 0;
    free(e->scratch);
    e->scratch = malloc(n);
    e->scratch_room = e->scratch ? n : 0;
    return e->scratch ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for a mask of %zu pixels", n);
}

/* ---- traces ---- */

/* Writes DIR/000000000042-000.safetensors with the encoders' inputs and outputs. */
static int write_trace(prep_encoder *e, const prep_job *j, vc_err *err)
{
    const vprep *p = e->p;
    const vf_row *row = &p->list.meta.rows[j->item->row];
    vf_view t[TRACES + PREP_MAX_TEXTS * VPREP_TEXT_TRACES];
    prep_pictures pictures;
    vf_safetensors *text[PREP_MAX_TEXTS] = { 0 };
    int n = e->trace.n, rc = 0;

    memcpy(t, e->trace.t, (size_t)n * sizeof *t);
    vprep_pictures_of(p, j->item, &j->clip, &pictures);
    for (int i = 0; !rc && i < p->encoders.n_text; i++) {
        char hex[VF_KEY_HEX];
        char *path = vc_format("%s/.text-%s.safetensors", p->c.trace_dir,
                               vf_key_hex(hex, vprep_caption_key(p, i, row, 0, &pictures)));
        rc = path ? vf_safetensors_open(&text[i], path, err) : vc_no_memory(err);
        for (int k = 0; !rc && k < VPREP_TEXT_TRACES && k < vf_safetensors_count(text[i]); k++)
            t[n++] = *vf_safetensors_at(text[i], k);
        free(path);
    }
    char *path = vc_format("%s/%012u-%03u.safetensors", p->c.trace_dir, j->item->number,
                           j->item->variant);
    if (!rc)
        rc = path ? vf_safetensors_write(path, t, n, NULL, 0, err) : vc_no_memory(err);
    free(path);
    for (int i = 0; i < p->encoders.n_text; i++)
        vf_safetensors_close(text[i]);
    return rc;
}

/* ---- pixels ---- */

/* Traces the pixels of a value: those of the clip as they were decoded, else the VAE's. */
static int trace_pixels(prep_encoder *e, prep_job *j, int v, int times, int f, vc_err *err)
{
    const vb_choice *c = prep_job_size(j, v);
    const int64_t shape[4] = { times * f, c->target_h, c->target_w, 3 };
    const char *role = vc_roles[v].name;
    const bool exact = role || j->pixels.exact;
    const size_t frame = (size_t)(shape[1] * shape[2] * 3) * (exact ? sizeof(float) : 1);
    uint8_t *all = malloc((size_t)shape[0] * frame);
    char name[40];
    int rc = all ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for the trace of %d frames",
                               times * f);

    for (int t = 0; !rc && t < times * f; t++) {
        const prep_input in = prep_input_of(e->p, j, v, t / f, e->scratch);
        const uint8_t *u;
        if (role) {
            rc = prep_input_frame(&in, t % f, (float *)(void *)(all + (size_t)t * frame), err);
            continue;
        }
        rc = prep_frames_at(&j->pixels, t, &u, err);
        if (!rc)
            memcpy(all + (size_t)t * frame, u, frame);
    }
    snprintf(name, sizeof name, role ? "cond.%s.pixels" : "pixels", role);
    if (!rc)
        rc = prep_trace(e, name, exact ? VC_F32 : VC_U8, 4, shape, all, err);
    free(all);
    return rc;
}

/* ---- moments of a value ---- */

static bool wants_logvar(const vprep *p)
{
    return p->encoders.vae.has_logvar || p->c.latent_store == STORE_MOMENTS || p->c.trace_dir;
}

/* The inputs that the VAE gets for a value, and the frames of each. */
static int inputs_of(const prep_encoder *e, int v)
{
    return vc_roles[v].kind == VC_VALUE_VARIANTS ? (int)e->p->c.noise_variants : 1;
}
static int frames_of(const prep_job *j, int v)
{
    return vprep_is_whole((vc_role)v) ? j->clip.choice.frames : 1;
}

/* An input in the VAE, which prep_input_read reads as its first member. */
typedef struct watched {
    prep_input in;
    prep_encoder *e;
    int frames;
} watched;

static void made(void *arg, double share)
{
    const watched *w = arg;
    const prep_encoder *e = w->e;

    if (e->told)
        e->told(e->told_arg, (e->passed + share * w->frames) / e->frames);
}

/* `times` inputs of f frames -> e->mean, e->logvar [times,C,lf,lh,lw]. dim: [C,lf,lh,lw] */
static int run_vae(prep_encoder *e, prep_job *j, vc_role role, int times, int f,
                   int64_t dim[4], vc_err *err)
{
    const vae_info *v = &e->p->encoders.vae;
    const int h = prep_job_size(j, role)->target_h, w = prep_job_size(j, role)->target_w;
    const bool logvar = wants_logvar(e->p);
    size_t n;
    int rc;

    dim[0] = v->channels;
    dim[1] = (f - 1) / v->ratio[0] + 1;
    dim[2] = h / v->ratio[1];
    dim[3] = w / v->ratio[2];
    n = (size_t)(dim[0] * dim[1] * dim[2] * dim[3]);
    rc = prep_grow(&e->mean, &e->mean_room, n * (size_t)times, err);
    if (!rc)
        rc = prep_grow(&e->logvar, &e->logvar_room, n * (size_t)times, err);
    double begin = vc_seconds();
    for (int i = 0; !rc && i < times; i++) {
        watched one = { prep_input_of(e->p, j, role, i, e->scratch), e, f };
        const vae_input pixels = { .read = prep_input_read, .made = made, .arg = &one };
        rc = e->p->encoders.family.vae->encode(e->vae, &pixels, f, h, w, e->mean + (size_t)i * n,
                                               logvar ? e->logvar + (size_t)i * n : NULL, err);
        e->vae_seconds -= one.in.seconds;
        e->passed += f;
    }
    e->vae_seconds += vc_seconds() - begin;
    return rc;
}

static int encode_moments(prep_encoder *e, prep_job *j, int v, vc_err *err)
{
    const vprep *p = e->p;
    const vb_choice *c = &j->clip.choice;
    const vc_recipe *r = &vc_roles[v].recipe;
    const bool several = vc_roles[v].kind == VC_VALUE_VARIANTS;
    int times = inputs_of(e, v), nd = several ? 5 : 4, f = frames_of(j, v), rc = 0;
    int64_t shape[5] = { times }, *dim = several ? shape : shape + 1;

    if (r->pixels == VC_PIXELS_MASKED || r->pixels == VC_PIXELS_REACTIVE)
        rc = need_scratch(e, (size_t)c->target_h * (size_t)c->target_w, err);
    if (!rc)
        rc = run_vae(e, j, v, times, f, shape + 1, err);
    if (!rc && p->c.trace_dir)
        rc = trace_pixels(e, j, v, times, f, err);
    if (!rc)
        rc = prep_trace_moments(e, v, nd, dim, err);
    const vprep_item *drawn = vc_roles[v].own_size ? NULL : j->item;
    return rc ? rc : prep_pack_moments(e, &j->value[v], &j->value_bytes[v], nd, dim, drawn,
                                       r->place, wants_logvar(p), p->encoders.vae.one_logvar, err);
}

/* ---- masks ---- */

static int trace_mask(prep_encoder *e, const prep_job *j, int v, vc_err *err)
{
    char name[40];
    const mask *m = &j->clip.mask;
    size_t area = (size_t)m->h * (size_t)m->w;
    uint8_t *all = malloc((size_t)m->f * area);

    if (!all)
        return vc_fail(err, VC_ENOMEM, "out of memory for a mask of %d frames", m->f);
    for (int t = 0; t < m->f; t++)
        mask_frame(m, t, all + (size_t)t * area);
    snprintf(name, sizeof name, "cond.%s.pixels", vc_roles[v].name);
    int rc = prep_trace(e, name, VC_U8, 3, (int64_t[]){ m->f, m->h, m->w }, all, err);
    free(all);
    return rc;
}

/* Packs values as the one tensor t of value v. */
static int pack_one(const prep_encoder *e, prep_job *j, int v, vf_view t, const float *values,
                    vc_err *err)
{
    const size_t n = (size_t)vf_view_count(&t);
    void *data = NULL;
    int rc = vprep_pack_dtype(&t.dtype, &data, values, n, e->p->c.dtype, err);

    t.data = data;
    t.bytes = n * vc_dtype_size(t.dtype);
    if (!rc)
        rc = vf_safetensors_pack(&j->value[v], &j->value_bytes[v], &t, 1, NULL, 0, 1, err);
    free(data);
    return rc;
}

/* Packs `values`, `channels` for each latent position. */
static int pack_mask(prep_encoder *e, prep_job *j, int v, int channels, const float *values,
                     vc_err *err)
{
    const vb_choice *c = &j->clip.choice;
    const vf_view t = { .name = "mask", .nd = 4,
                        .dim = { channels, c->latent_f, c->latent_h, c->latent_w } };
    char name[40];

    snprintf(name, sizeof name, "cond.%s.mask", vc_roles[v].name);
    int rc = prep_trace(e, name, VC_F32, 4, t.dim, values, err);
    return rc ? rc : pack_one(e, j, v, t, values, err);
}

static int encode_mask(prep_encoder *e, prep_job *j, int v, vc_err *err)
{
    const vb_choice *c = &j->clip.choice;
    const int *ratio = e->p->encoders.vae.ratio;
    const int channels = vprep_mask_channels(e->p);
    size_t n = (size_t)c->latent_f * (size_t)c->latent_h * (size_t)c->latent_w * (size_t)channels;

    int rc = prep_grow(&e->mean, &e->mean_room, n, err);
    if (!rc)
        rc = need_scratch(e, (size_t)c->target_h * (size_t)c->target_w, err);
    if (rc)
        return rc;
    if (e->p->encoders.family.is->pixel_masks)
        mask_pixels(e->mean, &j->clip.mask, ratio[0], ratio[1], e->scratch);
    else
        (channels > 1 ? mask_fold : mask_to_grid)(e->mean, &j->clip.mask, ratio[0], ratio[1],
                                                  e->scratch);
    if (e->p->c.trace_dir)
        rc = trace_mask(e, j, v, err);
    return rc ? rc : pack_mask(e, j, v, channels, e->mean, err);
}

/* ---- states of a vision model ---- */

/* Looks at frame t: fills pixels [side,side,3] and states [tokens,width]. */
static int see(prep_encoder *e, prep_job *j, int t, float *pixels, float *states, vc_err *err)
{
    const vb_choice *c = &j->clip.choice;
    uint8_t *rgb;
    int rc = prep_frames_rgb(&j->pixels, t, &rgb, err);

    if (!rc)
        rc = e->p->encoders.family.vision->encode(e->vision, rgb, c->target_h, c->target_w, pixels,
                                                  states, err);
    free(rgb);
    return rc;
}

/* The states of the first frame, then those of the last where it is known. A still is both. */
static int encode_seen(prep_encoder *e, prep_job *j, int v, vc_err *err)
{
    const vision_info *is = &e->p->encoders.vision;
    const int64_t frames = e->p->encoders.ends ? 2 : 1, side = is->side;
    const int64_t pixels = side * side * 3, states = (int64_t)is->tokens * is->width;
    int rc = prep_grow(&e->seen, &e->seen_room, (size_t)(frames * pixels), err);

    if (!rc)
        rc = prep_grow(&e->mean, &e->mean_room, (size_t)(frames * states), err);
    for (int64_t i = 0; !rc && i < frames; i++)
        rc = see(e, j, i ? j->clip.choice.frames - 1 : 0, e->seen + i * pixels,
                 e->mean + i * states, err);
    if (!rc)
        rc = prep_trace(e, "cond.vision.pixels", VC_F32, 4,
                       (int64_t[]){ frames, side, side, 3 }, e->seen, err);
    if (!rc)
        rc = prep_trace(e, "cond.vision.image_embeds", VC_F32, 2,
                       (int64_t[]){ frames * is->tokens, is->width }, e->mean, err);
    const vf_view t = { .name = "image_embeds", .nd = 2,
                        .dim = { vprep_seen_tokens(e->p), is->width } };
    return rc ? rc : pack_one(e, j, v, t, e->mean, err);
}

/* ---- a job ---- */

/* Whether an earlier job that is put before this one, or an earlier value of this job, has the key:
 * a still is its own first frame. */
static bool is_made(const prep_encoder *e, const prep_job *j, int v)
{
    uint64_t turn;
    bool made = vf_keymap_get(&e->made, j->key[v], &turn) && turn <= j->turn;

    for (int u = 0; u < v; u++)
        made |= j->value[u] && !memcmp(&j->key[u], &j->key[v], sizeof j->key[v]);
    return made;
}

static int encode_value(prep_encoder *e, prep_job *j, int v, vc_err *err)
{
    switch (vc_roles[v].recipe.pixels) {
    case VC_PIXELS_LOSS_MASK:
        return pack_mask(e, j, v, 1, j->loss_mask, err);
    case VC_PIXELS_MASK:
        return encode_mask(e, j, v, err);
    case VC_PIXELS_SEEN:
        return encode_seen(e, j, v, err);
    case VC_PIXELS_SOUND:
        return prep_sound_encode(e, j, v, err);
    default:
        return encode_moments(e, j, v, err);
    }
}

/* Whether the job makes value v, as far as its values are known. */
static bool makes(const prep_encoder *e, const prep_job *j, int v)
{
    const bool traced = e->p->c.trace_dir && j->item;

    return j->need & VC_ROLE_BIT(v) && !j->value[v] && (traced || !is_made(e, j, v));
}

/* Copies the values that jobs of later turns have. */
static int copy_made(const prep_encoder *e, prep_job *j, vc_err *err)
{
    uint64_t turn;
    int rc = 0;

    for (int v = 0; !rc && v < VC_ROLES; v++)
        if (makes(e, j, v) && vf_keymap_get(&e->made, j->key[v], &turn))
            rc = prep_recent_copy(&e->recent, j, v, turn, err);
    return rc;
}

static double frames_for_vae(const prep_encoder *e, const prep_job *j)
{
    double n = 0;

    for (int v = 0; v < VC_ROLES; v++)
        if (makes(e, j, v) && needs_pixels(v))
            n += (double)inputs_of(e, v) * frames_of(j, v);
    return n;
}

int prep_encode(prep_encoder *e, prep_job *j, uint64_t *n, vc_err *err)
{
    bool traced = e->p->c.trace_dir && j->item;
    int rc = traced ? 0 : copy_made(e, j, err);

    *n = 0;
    e->passed = 0;
    e->frames = frames_for_vae(e, j);
    j->pixels.ahead = j->control.ahead = true;
    for (int v = 0; !rc && v < VC_ROLES; v++) {
        if (!makes(e, j, v))
            continue;
        rc = encode_value(e, j, v, err);
        if (rc && vc_roles[v].name)
            vc_context(err, rc, "%s", vc_roles[v].name);
        *n += v != VC_ROLE_CLIP;
    }
    if (!rc)
        rc = prep_job_thumbnail(e->p, j, err);
    if (!rc && traced)
        rc = write_trace(e, j, err);
    for (int v = 0; !rc && v < VC_ROLES; v++)
        if (j->value[v])
            rc = vf_keymap_put(&e->made, j->key[v], j->turn, err);
    if (!rc && j->item)                          /* a prompt's values are put at once */
        prep_recent_add(&e->recent, j);
    clear_trace(&e->trace);
    prep_job_close(j);
    return rc;
}

/* conditions.c - see conditions.h */
#include "precompute/encode/conditions.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "buckets/references.h"

/* Whether the mode makes a role's value for the clips of this model. */
static bool is_made(const vprep *p, vc_role role)
{
    return vc_role_of_mode(role, p->encoders.family.is, p->c.train_mode) &&
           (vc_roles[role].recipe.pixels != VC_PIXELS_SEEN || p->encoders.sees);
}

unsigned vprep_values(const vprep *p, const vf_row *row)
{
    unsigned values = 0;
    const bool sound = p->c.with_audio && p->list.sources[row - p->list.meta.rows].sound;
    for (int r = 0; r < VC_ROLES; r++)
        if (is_made(p, r) && (sound || !vc_roles[r].sound) &&
            (vc_roles[r].recipe.pixels != VC_PIXELS_LOSS_MASK || row->beside[VF_LOSS_MASK].path) &&
            vc_role_reference(r) < (row->n_references > 0 ? row->n_references : 0) &&
            (vc_roles[r].recipe.noise != VC_NOISE_ALL || !p->encoders.family.is->clean_images))
            values |= VC_ROLE_BIT(r);
    return values;
}

unsigned vprep_prompt_roles(const vprep *p)
{
    const bool first = p->encoders.family.is->begins_with_latent;
    unsigned values = first && p->c.train_mode == PREP_NORMAL ? VC_ROLE_BIT(VC_ROLE_IMAGE) : 0;
    for (int r = 0; r < VC_ROLES; r++)
        if (is_made(p, r) && vc_roles[r].what && !vc_roles[r].own_size)
            values |= VC_ROLE_BIT(r);
    return values;
}

/* ---- references ---- */

const vc_references *vprep_references(const vprep *p)
{
    return vc_family_references(p->encoders.family.is, p->encoders.family.pipeline);
}

bool vprep_takes_references(const vprep *p)
{
    return is_made(p, VC_ROLE_REFERENCE) && vprep_references(p)->most;
}

static vb_reference_rule reference_rule(const vprep *p, const vb_choice *clip)
{
    return (vb_reference_rule){ p->encoders.family.is, vprep_references(p), p->c.reference_size,
                                p->c.reference_as_is, clip };
}

int vprep_check_references(const vprep *p, const vf_row *row, vc_err *err)
{
    const vc_pipeline *pipeline = p->encoders.family.pipeline;
    const int most = vprep_references(p)->most;

    const char *column = vf_row_column(row, VF_REFERENCE);

    if (row->n_references < 0)
        return vc_fail(err, VC_EFORMAT, "%s: expected a path or a list of paths, none of which is "
                       "null or empty (bytes in a column are read as the medium alone)", column);
    if (row->n_references > most)
        return vc_fail(err, VC_EFORMAT, "%s: %d reference pictures, models of %s take %d",
                       column, row->n_references,
                       pipeline && pipeline->references ? pipeline->class
                                                        : p->encoders.family.is->name, most);
    return 0;
}

void vprep_reference_size(const vprep *p, const prep_beside *b, const vb_choice *clip,
                          vb_choice *c)
{
    const vb_reference_rule rule = reference_rule(p, clip);
    vb_reference(c, &rule, b->w, b->h);
}

/* The text encoder resizes the whole picture; only one that keeps its size has edges cut off. */
void vprep_look(const vprep *p, const prep_beside *b, prep_look *l)
{
    const vb_reference_rule rule = reference_rule(p, NULL);
    vb_choice *c = &l->read;

    vb_reference_look(c, &rule, b->w, b->h);
    c->lanczos = false;                  /* in the encoder alone */
    l->h = c->target_h;
    l->w = c->target_w;
    if (c->resize_h == b->h && c->resize_w == b->w)
        return;
    c->resize_h = c->target_h = b->h;
    c->resize_w = c->target_w = b->w;
    c->top = c->left = 0;
}

int vprep_reference_clip(const vprep *p, const vprep_item *it, vf_beside which,
                         const vb_choice *of, vprep_clip *clip, vc_err *err)
{
    const prep_beside *b = prep_beside_of(&p->list.sources[it->row], which);

    memset(clip, 0, offsetof(vprep_clip, choice));
    vprep_reference_size(p, b, of, &clip->choice);
    if (b->hdr)
        clip->tonemap = (media_tonemap)p->c.tonemap;
    clip->frames = calloc(1, sizeof *clip->frames);
    return clip->frames ? 0 : vc_no_memory(err);
}

/* ---- values ---- */

vf_beside vprep_masked_from(const vprep *p, const vprep_item *it)
{
    const vf_side *side = it ? p->list.meta.rows[it->row].beside : NULL;

    if (!side || side[VF_FILLED].path)
        return side ? VF_FILLED : VF_BESIDE;
    return p->c.train_mode == VC_MODE_VACE && side[VF_CONTROL].path ? VF_CONTROL : VF_BESIDE;
}


bool vprep_is_grey(const vprep *p, const vprep_item *it, const vprep_clip *clip, vc_role role)
{
    const vc_pixels pixels = vc_roles[role].recipe.pixels;

    return (pixels == VC_PIXELS_MASKED && clip->mask_all) ||
           (pixels == VC_PIXELS_REACTIVE && it && vprep_masked_from(p, it) == VF_BESIDE);
}

bool vprep_is_whole(vc_role role)
{
    const vc_pixels pixels = vc_roles[role].recipe.pixels;
    return pixels == VC_PIXELS_CLIP || pixels == VC_PIXELS_MASKED ||
           pixels == VC_PIXELS_REACTIVE || pixels == VC_PIXELS_CONTROL;
}

int vprep_value_frames(const vprep *p, const vprep_item *it, const vprep_clip *clip, vc_role role)
{
    switch (vc_roles[role].recipe.pixels) {
    case VC_PIXELS_CLIP:
        return clip->choice.frames;
    case VC_PIXELS_SEEN:
        return p->encoders.ends ? clip->choice.frames : 1;
    case VC_PIXELS_FIRST:
        return 1;
    case VC_PIXELS_MASKED:
    case VC_PIXELS_REACTIVE:
        return vprep_is_grey(p, it, clip, role) ? 0 : clip->choice.frames;
    default:
        return 0;
    }
}

double vprep_value_bytes(const vprep *p, const vprep_item *it, const vb_choice *c, vc_role role)
{
    const vc_role_row *row = &vc_roles[role];
    vb_choice own;
    if (row->own_size) {
        const int k = VF_REFERENCE + vc_role_reference(role);
        vprep_reference_size(p, prep_beside_of(&p->list.sources[it->row], (vf_beside)k), c, &own);
        c = &own;
    }
    double grid = (double)c->latent_h * c->latent_w * (double)vc_dtype_size(p->c.dtype);
    double n = grid * (row->clip ? c->latent_f : 1);

    if (row->sound) {
        const vprep_source *s = &p->list.sources[it->row];
        const double seconds = s->fps > 0 ? c->frames * (c->stride ? c->stride : 1) / s->fps : 0;
        const audio_info *a = &p->encoders.audio;
        return ceil(seconds * a->mel.rate / a->mel.hop / a->ratio) * a->channels * a->bins *
               (double)vc_dtype_size(p->c.dtype) * (p->c.latent_store == STORE_MOMENTS ? 2 : 1);
    }
    if (row->kind == VC_VALUE_EMBEDS)
        return (double)vprep_seen_tokens(p) * p->encoders.vision.width *
               (double)vc_dtype_size(p->c.dtype);
    if (row->kind == VC_VALUE_MASK)
        return n * vprep_mask_channels(p);
    n *= p->encoders.vae.channels * (p->c.latent_store == STORE_MOMENTS ? 2 : 1);
    return row->kind == VC_VALUE_VARIANTS ? n * (double)p->c.noise_variants : n;
}

int64_t vprep_sound_samples(const vprep *p, const vprep_clip *clip)
{
    const double seconds = clip->fps > 0 ? clip->choice.frames / clip->fps : 0;
    const int64_t n = llround(seconds * p->encoders.audio.mel.rate);

    return n > 0 ? n : 1;
}

int vprep_sound_frames(const vprep *p, const vprep_clip *clip)
{
    const audio_info *a = &p->encoders.audio;
    const double seconds = clip->fps > 0 ? clip->choice.frames / clip->fps : 0;
    const double n = rint(seconds * a->mel.rate / a->mel.hop / a->ratio);

    return n > 1 ? (int)n : 1;
}

int vprep_mask_channels(const vprep *p)
{
    const vc_family *f = p->encoders.family.is;
    const int *ratio = p->encoders.vae.ratio;
    return f->pixel_masks ? ratio[1] * ratio[1] : f->folded_masks ? ratio[0] : 1;
}

int vprep_seen_tokens(const vprep *p)
{
    return p->encoders.vision.tokens * (p->encoders.ends ? 2 : 1);
}

/* ---- keys ---- */

static void hash_source(vf_hasher *h, const vf_key *source)
{
    vf_hasher_bytes(h, "source", source->b, sizeof source->b);
}

/* Hashes the choice of pixels behind the file and its frames: tone mapping, sizes, crop, flip. */
static void hash_fit(vf_hasher *h, media_tonemap tonemap, const vprep_clip *clip)
{
    const vb_choice *c = &clip->choice;

    if (tonemap)                         /* older keys have no such field */
        vf_hasher_str(h, "tonemap", media_tonemap_names[tonemap]);
    if (c->load_h) {
        vf_hasher_int(h, "load_h", c->load_h);
        vf_hasher_int(h, "load_w", c->load_w);
    }
    vf_hasher_int(h, "resize_h", c->resize_h);
    vf_hasher_int(h, "resize_w", c->resize_w);
    vf_hasher_int(h, "top", c->top);
    vf_hasher_int(h, "left", c->left);
    vf_hasher_int(h, "target_h", c->target_h);
    vf_hasher_int(h, "target_w", c->target_w);
    vf_hasher_int(h, "flip", c->flip);
    if (c->lanczos)                      /* older keys have no such field */
        vf_hasher_str(h, "filter", "lanczos");
    if (c->framed)
        vf_hasher_str(h, "filter", "framed");
}

/* Hashes the choice of pixels: file, frames, tone mapping, sizes, crop, flip. */
static void hash_pixels(vf_hasher *h, const vf_key *source, media_tonemap tonemap,
                        const vprep_clip *clip, int frames)
{
    hash_source(h, source);
    for (int i = 0; i < frames; i++)
        vf_hasher_int(h, "frame", clip->frames[i]);
    hash_fit(h, tonemap, clip);
}

/* The same of a file beside the row's own. Such files are no pictures to look at: they are read
 * without tone mapping. */
static void hash_beside(vf_hasher *h, const vprep_source *s, vf_beside which,
                        const vprep_clip *clip)
{
    const vf_key shown = prep_shown(s->beside[which].hash, s->beside[which].reordered);

    hash_source(h, &shown);
    for (int i = 0; i < clip->choice.frames; i++)
        vf_hasher_int(h, "frame", prep_beside_frame(s, which, clip->frames[i]));
    hash_fit(h, MEDIA_TONEMAP_NONE, clip);
    if (s->beside[which].alpha)
        vf_hasher_str(h, "alpha", "weighs");
}

/* The id of the draws: a sample's, or (it NULL) the id that all prompts share. */
static uint64_t id_of(const vprep *p, const vprep_item *it)
{
    return it ? p->list.meta.rows[it->row].id : 0;
}

static uint32_t variant_of(const vprep_item *it)
{
    return it ? it->variant : 0;
}

static void hash_draws(vf_hasher *h, const vprep *p, const vprep_item *it)
{
    vf_hasher_int(h, "seed", p->c.seed);
    vf_hasher_int(h, "id", (int64_t)id_of(p, it));
    vf_hasher_int(h, "variant", variant_of(it));
}

static void hash_encoding(vf_hasher *h, const vprep *p, const vprep_item *it)
{
    vf_hasher_bytes(h, "vae", p->encoders.vae.fingerprint.b, sizeof p->encoders.vae.fingerprint.b);
    vf_hasher_str(h, "precision", vc_dtype_name(p->encoders.vae_part.opts.dtype));
    vf_hasher_str(h, "tiling", p->encoders.vae_part.opts.tiling ? "spatial" : "none");
    if (p->rules.peer && it)             /* pixels are not rounded, and stills are not rotated */
        vf_hasher_str(h, "pixels", "peer");
    vf_hasher_str(h, "dtype", vc_dtype_name(p->c.dtype));
    vf_hasher_int(h, "store", p->c.latent_store);
    if (p->c.latent_store == STORE_SAMPLE && it)
        hash_draws(h, p, it);
}

static void hash_mask(vf_hasher *h, const vprep_clip *clip, bool all)
{
    const mask *m = &clip->mask;

    vf_hasher_int(h, "frames", m->f);
    vf_hasher_int(h, "h", m->h);
    vf_hasher_int(h, "w", m->w);
    vf_hasher_int(h, "kind", all ? MASK_ALL : (int)m->kind);
    for (int i = 0; i < m->n && !all; i++)
        vf_hasher_int(h, "number", m->v[i]);
}

static void hash_vision(vf_hasher *h, const vprep *p)
{
    const vision_info *v = &p->encoders.vision;

    vf_hasher_bytes(h, "vision", v->fingerprint.b, sizeof v->fingerprint.b);
    vf_hasher_int(h, "ends", p->encoders.ends);
    vf_hasher_str(h, "precision", vc_dtype_name(p->encoders.vision_part.opts.dtype));
    vf_hasher_str(h, "dtype", vc_dtype_name(p->c.dtype));
    vf_hasher_int(h, "peer", p->rules.peer);
}

/* The span of a clip's sound begins with its first frame. */
static void hash_sound(vf_hasher *h, const vprep *p, const vf_key *source, const vprep_item *it,
                       const vprep_clip *clip)
{
    const audio_info *a = &p->encoders.audio;

    hash_source(h, source);
    vf_hasher_int(h, "frame", clip->frames[0]);
    vf_hasher_int(h, "samples", vprep_sound_samples(p, clip));
    vf_hasher_bytes(h, "audio_vae", a->fingerprint.b, sizeof a->fingerprint.b);
    vf_hasher_str(h, "precision", vc_dtype_name(p->encoders.audio_part.opts.dtype));
    vf_hasher_str(h, "dtype", vc_dtype_name(p->c.dtype));
    vf_hasher_int(h, "store", p->c.latent_store);
    if (p->c.latent_store == STORE_SAMPLE && it)
        hash_draws(h, p, it);
}

/* Families with black pixels and masks of one channel are older than the other ones, and have keys
 * without these fields. */
static void hash_form(vf_hasher *h, const vprep *p, vc_pixels pixels)
{
    const vc_family *f = p->encoders.family.is;

    if ((pixels == VC_PIXELS_MASKED || pixels == VC_PIXELS_REACTIVE) && vprep_grey_masks(p))
        vf_hasher_str(h, "masked", "grey");
    if (pixels == VC_PIXELS_MASK && f->folded_masks)
        vf_hasher_str(h, "form", "folded");
    if (pixels == VC_PIXELS_MASK && f->pixel_masks)
        vf_hasher_str(h, "form", "pixels");
}

static void hash_grid(vf_hasher *h, const vprep *p)
{
    vf_hasher_int(h, "k", p->encoders.vae.ratio[0]);
    vf_hasher_int(h, "r", p->encoders.vae.ratio[1]);
    vf_hasher_str(h, "dtype", vc_dtype_name(p->c.dtype));
}

/* A masked clip of which no pixel is known is the same whatever its source. it NULL: of a prompt,
 * which has no loss mask, and whose control clip is `source`. */
static void hash_sources(vf_hasher *h, const vprep *p, const vf_key *source, const vprep_item *it,
                         const vprep_clip *clip, vc_role role)
{
    const vc_recipe *r = &vc_roles[role].recipe;
    const bool divided = r->pixels == VC_PIXELS_MASKED || r->pixels == VC_PIXELS_REACTIVE;
    const vf_beside beside = r->pixels == VC_PIXELS_LOSS_MASK ? VF_LOSS_MASK
                             : r->pixels == VC_PIXELS_CONTROL ? VF_CONTROL
                             : divided ? vprep_masked_from(p, it) : VF_BESIDE;
    const bool other = beside < VF_BESIDE || r->pixels == VC_PIXELS_REFERENCE;
    const bool looked_at = !other || r->pixels == VC_PIXELS_REFERENCE;
    int frames = other && !divided ? clip->choice.frames : vprep_value_frames(p, it, clip, role);

    if (r->keyed & VC_KEYED_PIXELS && frames) {
        if (other && it)
            hash_beside(h, &p->list.sources[it->row], beside, clip);
        else
            hash_pixels(h, source, looked_at ? clip->tonemap : MEDIA_TONEMAP_NONE, clip, frames);
    }
    if (r->keyed & VC_KEYED_VARIANTS)
        vf_hasher_int(h, "variants", p->c.noise_variants);
    if (r->keyed & VC_KEYED_DRAWS && frames && (r->noise == VC_NOISE_ALL || p->encoders.mask_noise))
        hash_draws(h, p, it);
}

static vf_key value_key(const vprep *p, const vf_key *source, const vprep_item *it,
                        const vprep_clip *clip, vc_role role)
{
    const vc_recipe *r = &vc_roles[role].recipe;
    const bool grey = vprep_is_grey(p, it, clip, role);
    const bool file = r->keyed & VC_KEYED_MASK && clip->mask.kind == MASK_FILE && !grey;
    vf_hasher h;

    vf_hasher_begin(&h, r->tag);
    if (r->keyed & VC_KEYED_MASK)
        hash_mask(&h, clip, clip->mask_all || grey);
    if (file && it)
        hash_beside(&h, &p->list.sources[it->row], VF_MASK, clip);
    else if (file)
        hash_pixels(&h, &clip->mask_shown, MEDIA_TONEMAP_NONE, clip, clip->choice.frames);
    if (r->keyed & VC_KEYED_NOISE)
        vf_hasher_int(&h, "noise", p->encoders.mask_noise);
    hash_sources(&h, p, source, it, clip, role);
    if (r->keyed & VC_KEYED_ENCODING)
        hash_encoding(&h, p, it);
    if (r->keyed & VC_KEYED_GRID)
        hash_grid(&h, p);
    if (r->keyed & VC_KEYED_VISION)
        hash_vision(&h, p);
    if (r->keyed & VC_KEYED_SOUND)
        hash_sound(&h, p, source, it, clip);
    hash_form(&h, p, r->pixels);
    return vf_hasher_end(&h);
}

/* A reference is a mean and never a draw, so that samples share its value: its key is that of a
 * prompt's. */
static vf_key reference_key(const vprep *p, const vprep_item *it, const vprep_clip *clip,
                            vc_role role)
{
    const vf_beside which = (vf_beside)(VF_REFERENCE + vc_role_reference(role));
    const prep_beside *b = prep_beside_of(&p->list.sources[it->row], which);
    const vf_key shown = prep_shown(b->hash, b->reordered);
    int64_t first = 0;
    vprep_clip own;

    memset(&own, 0, offsetof(vprep_clip, choice));
    vprep_reference_size(p, b, &clip->choice, &own.choice);
    own.frames = &first;
    if (b->hdr)
        own.tonemap = (media_tonemap)p->c.tonemap;
    return value_key(p, &shown, NULL, &own, role);
}

static vf_key shown_of(const vprep *p, const vprep_item *it)
{
    const vprep_source *s = &p->list.sources[it->row];
    return prep_shown(s->hash, s->reordered);
}

vf_key vprep_latent_key(const vprep *p, const vprep_item *it, const vprep_clip *clip)
{
    return vprep_value_key(p, it, clip, VC_ROLE_CLIP);
}

vf_key vprep_value_key(const vprep *p, const vprep_item *it, const vprep_clip *clip, vc_role role)
{
    const vf_key shown = shown_of(p, it);
    return vc_roles[role].own_size ? reference_key(p, it, clip, role)
                                   : value_key(p, &shown, it, clip, role);
}

vf_key vprep_prompt_key(const vprep *p, vf_key source, const vprep_clip *clip, vc_role role)
{
    return value_key(p, &source, NULL, clip, role);
}

static vf_key picture_key(const vf_key *source, const vprep_clip *clip, bool peer)
{
    vf_hasher h;

    vf_hasher_begin(&h, "picture");
    hash_pixels(&h, source, clip->tonemap, clip, 1);
    if (peer)
        vf_hasher_str(&h, "pixels", "peer");
    return vf_hasher_end(&h);
}

vf_key vprep_picture_key(const vprep *p, const vprep_item *it, const vprep_clip *clip)
{
    const vf_key shown = shown_of(p, it);
    return picture_key(&shown, clip, p->rules.peer);
}

vf_key vprep_prompt_picture_key(vf_key source, const vprep_clip *clip)
{
    return picture_key(&source, clip, false);
}

vf_key vprep_look_key(const prep_look *l, vf_key shown, media_tonemap tonemap)
{
    int64_t first = 0;
    const vprep_clip clip = { .choice = l->read, .frames = &first };
    vf_hasher h;

    vf_hasher_begin(&h, "look");
    hash_pixels(&h, &shown, tonemap, &clip, 1);
    vf_hasher_int(&h, "h", l->h);
    vf_hasher_int(&h, "w", l->w);
    return vf_hasher_end(&h);
}

static vf_key look_key(const vprep *p, const prep_beside *b)
{
    prep_look l;

    vprep_look(p, b, &l);
    return vprep_look_key(&l, prep_shown(b->hash, b->reordered),
                          b->hdr ? (media_tonemap)p->c.tonemap : MEDIA_TONEMAP_NONE);
}

void vprep_pictures_of(const vprep *p, const vprep_item *it, const vprep_clip *clip,
                       prep_pictures *is)
{
    const vprep_source *s = &p->list.sources[it->row];

    is->n = 0;
    if (vprep_texts_see(p) == PREP_SEES_FIRST)
        is->key[is->n++] = vprep_picture_key(p, it, clip);
    if (vprep_texts_see(p) != PREP_SEES_REFERENCES)
        return;
    for (; is->n < s->n_references; is->n++)
        is->key[is->n] = look_key(p, &s->references[is->n]);
}

/* ---- draws ---- */

vprep_normals vprep_normals_of(const vprep *p, const vprep_item *it, uint32_t purpose,
                               uint32_t place)
{
    vprep_normals s = { .d = vc_draws_of((uint64_t)p->c.seed, id_of(p, it), variant_of(it),
                                         purpose) };
    s.d.ctr[0] = place << 28;
    return s;
}

float vprep_normal(vprep_normals *s)
{
    if (s->at % 4 == 0) {
        uint32_t block[4];
        vc_philox(s->d.key, s->d.ctr, block);
        vc_normal4(block, s->z);
        s->d.ctr[0]++;
    }
    return s->z[s->at++ % 4];
}

void vprep_normals_skip(vprep_normals *s, size_t n)
{
    s->d.ctr[0] += (uint32_t)(n / 4);
    for (size_t i = 0; i < n % 4; i++)
        vprep_normal(s);
}

/* ---- pixels ---- */

float vprep_noise_sigma(vprep_normals *s)
{
    float sigma = (float)exp(-3.0 + 0.5 * (double)vprep_normal(s));

    s->at = 0;
    return sigma;
}

void vprep_pixel_noise(float *x, size_t n, float sigma, bool keep_masked, vprep_normals *s)
{
    for (size_t i = 0; i < n; i++) {
        float z = vprep_normal(s);
        if (!keep_masked || x[i] != -1.0f)
            x[i] += sigma * z;
    }
}

float vprep_mask_fill(const vprep *p)
{
    return vprep_grey_masks(p) ? 0.0f : -1.0f;
}

void vprep_apply_mask(float *x, const mask *m, int t, bool masked, float fill, uint8_t *scratch)
{
    size_t area = (size_t)m->h * (size_t)m->w;

    mask_frame(m, t, scratch);
    for (size_t i = 0; i < area; i++)
        if (scratch[i] == masked)
            x[3 * i] = x[3 * i + 1] = x[3 * i + 2] = fill;
}

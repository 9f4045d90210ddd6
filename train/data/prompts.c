/* prompts.c - the prompts that a run samples from while it trains. See data.h */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/data/kinds.h"
#include "train/data/parts.h"

enum { FROM_TRAINING = 4, MAX_SIDE = 1 << 16, MAX_FRAMES = 1 << 16 };
enum { MAX_STEPS = 1000, MAX_GUIDANCE = 100 };       /* equal the limits of the run's flags */

static uint32_t training_samples(const vtrain_data *d)
{
    return d->n_samples - d->n_held_out;
}

uint32_t vtrain_data_prompts(const vtrain_data *d)
{
    uint32_t stored = vf_dataset_validations(d->set[0].data);
    if (stored)
        return stored;
    return training_samples(d) < FROM_TRAINING ? training_samples(d) : FROM_TRAINING;
}

/* ---- embeddings ---- */

static int copy_f32(float **out, const vf_view *v, vc_err *err)
{
    size_t n = (size_t)vf_view_count(v);
    *out = malloc(n * sizeof **out);
    if (!*out)
        return vc_fail(err, VC_ENOMEM, "out of memory for %s", v->name);
    vf_view_f32(*out, v, 0, n);
    return vf_all_finite(*out, n) ? 0 : vc_fail(err, VC_ENUMERIC, "%s: a value is NaN or infinite",
                                                    v->name);
}

static int load_embeds(const vtrain_data *d, int set, int slot, vf_key key, int segments,
                       vtrain_embeds *e, vc_err *err)
{
    vtrain_text_value v;
    int rc = vtrain_text_open(d, set, slot, key, segments, true, &v, err);
    if (rc)
        return rc;
    e->n = v.embeds.dim[0];
    e->width = d->slot[slot].width;
    if (v.embeds.nd)
        rc = copy_f32(&e->embeds, &v.embeds, err);
    if (!rc && v.pooled.nd)
        rc = copy_f32(&e->pooled, &v.pooled, err);
    if (rc) {
        char hex[VF_KEY_HEX];
        vc_context(err, rc, "%s: text %s", d->slot[slot].name, vf_key_hex(hex, key));
    }
    vf_safetensors_close(v.st);
    return rc;
}

/* Repeats the rows of a text for each segment. */
static int repeat_rows(vtrain_embeds *e, int segments, vc_err *err)
{
    const size_t n = (size_t)(e->n * e->width);
    float *all = segments > 1 && n ? realloc(e->embeds, n * (size_t)segments * sizeof *all) : NULL;

    if (segments < 2 || !n)
        return 0;
    if (!all)
        return vc_fail(err, VC_ENOMEM, "out of memory for a text of %d segments", segments);
    for (int i = 1; i < segments; i++)
        memcpy(all + (size_t)i * n, all, n * sizeof *all);
    e->embeds = all;
    e->n *= segments;
    return 0;
}

/* segments: of the texts `pos`, or 0; each: the texts `neg` have as many, else each segment has the
 * same negative prompt. */
static int load_texts(const vtrain_data *d, int set, const vf_key *pos, const vf_key *neg,
                      int segments, bool each, vtrain_prompt *p, vc_err *err)
{
    int rc = 0;
    for (int i = 0; i < d->n_slots && !rc; i++) {
        rc = load_embeds(d, set, i, pos[i], segments, &p->pos[i], err);
        if (!rc)
            rc = load_embeds(d, set, i, neg[i], each ? segments : 0, &p->neg[i], err);
        if (!rc && !each)
            rc = repeat_rows(&p->neg[i], segments, err);
    }
    return rc;
}

static int copy_text(char **out, const char *text, vc_err *err)
{
    *out = strdup(text);
    return *out ? 0 : vc_fail(err, VC_ENOMEM, "out of memory for a prompt");
}

/* ---- size ---- */

static const vtrain_group *common_group(const vtrain_data *d)
{
    const vtrain_group *g = d->group;
    for (uint32_t i = 1; i < d->n_groups; i++)
        if (d->group[i].repeats > g->repeats)
            g = &d->group[i];
    return g;
}

static int side(const cJSON *o, const char *field, int ratio, int *latent, vc_err *err)
{
    int64_t pixels = 0;
    int rc = vf_json_int_opt(o, field, &pixels, err);
    if (rc || !pixels)
        return rc;
    if (pixels < ratio || pixels > MAX_SIDE)
        return vc_fail(err, VC_EFORMAT, "%s: %" PRId64 " is not in %d..%d", field, pixels, ratio,
                       MAX_SIDE);
    *latent = (int)(pixels / ratio);
    return 0;
}

int64_t vtrain_data_latents(const vtrain_data *d, int64_t frames)
{
    const int ratio = d->set[0].head.ratio[0];
    return (frames - 1 + ratio - 1) / ratio + 1;
}

/* Takes the grid of the group with most repeats, and replaces it by the record's sizes. */
static int find_size(const vtrain_data *d, const cJSON *record, vtrain_prompt *p, vc_err *err)
{
    const vtrain_group *g = common_group(d);
    const int *ratio = d->set[0].head.ratio;
    int64_t frames = 0;
    int rc = 0;

    p->f = g->f;
    p->h = g->h;
    p->w = g->w;
    p->frames = (g->f - 1) * ratio[0] + 1;
    if ((rc = side(record, "height", ratio[1], &p->h, err)) ||
        (rc = side(record, "width", ratio[2], &p->w, err)) ||
        (rc = vf_json_int_opt(record, "num_frames", &frames, err)))
        return rc;
    if (frames < 0 || frames > MAX_FRAMES)
        return vc_fail(err, VC_EFORMAT, "num_frames: %" PRId64 " is not in 1..%d", frames,
                       MAX_FRAMES);
    if (frames) {
        p->frames = (int)frames;
        p->f = (int)vtrain_data_latents(d, frames);
    }
    return 0;
}

static int find_rate(const cJSON *record, vtrain_prompt *p, vc_err *err)
{
    int rc = vf_json_num_opt(record, "frame_rate", &p->fps, err);
    if (!rc)
        rc = vf_json_num_opt(record, "fps", &p->fps, err);
    if (!rc && !(p->fps >= 0 && p->fps <= 1e6))
        rc = vc_fail(err, VC_EFORMAT, "fps: %g", p->fps);
    return rc;
}

/* The kind of the control picture. */
static int find_kind(const vtrain_data *d, const cJSON *record, vtrain_prompt *p, vc_err *err)
{
    return !d->control_kinds ? 0 : vtrain_kind_read(&p->control_kind, record, d->control_kinds,
                                                    d->control_kind, err);
}

/* Reads the record's own --num_inference_steps and --guidance_scale. */
static int find_guidance(const cJSON *record, vtrain_prompt *p, vc_err *err)
{
    int64_t steps = 0;
    int rc = vf_json_int_opt(record, "num_inference_steps", &steps, err);
    p->guidance = NAN;
    if (!rc)
        rc = vf_json_num_opt(record, "guidance_scale", &p->guidance, err);
    if (rc)
        return rc;
    if (steps < 0 || steps > MAX_STEPS)
        return vc_fail(err, VC_EFORMAT, "num_inference_steps: %" PRId64 " is not in 1..%d", steps,
                       MAX_STEPS);
    p->steps = (int)steps;
    p->has_guidance = !isnan(p->guidance);
    if (p->has_guidance && (p->guidance < 0 || p->guidance > MAX_GUIDANCE))
        return vc_fail(err, VC_EFORMAT, "guidance_scale: %g is not in 0..%d", p->guidance,
                       MAX_GUIDANCE);
    return 0;
}

/* ---- conditions ---- */

static bool has_picture(const vtrain_prompt *p)
{
    for (int i = 0; i < VC_ROLES; i++)
        if (p->cond[i] && !vc_roles[i].own_size)
            return true;
    return false;
}

/* Copies a condition. The first one sets the grid's h and w, and the others need the same. */
static int read_picture(const vtrain_data *d, const vf_safetensors *st, vc_role role,
                        vtrain_prompt *p, vc_err *err)
{
    const bool mask = vc_roles[role].kind == VC_VALUE_MASK, sized = has_picture(p);
    const int channels = vtrain_role_channels(d, role), f = vc_roles[role].clip ? p->f : 1;
    vf_view v;
    if (mask ? vf_safetensors_get(st, "mask", &v, NULL)
             : vf_safetensors_get(st, "mean", &v, NULL) &&
               vf_safetensors_get(st, "sample", &v, NULL))
        return vc_fail(err, VC_EFORMAT, mask ? "`mask` is missing"
                                             : "both `mean` and `sample` are missing");
    if (v.nd != 4 || v.dim[0] != channels || v.dim[1] != f || v.dim[2] < 1 ||
        v.dim[2] > MAX_SIDE || v.dim[3] < 1 || v.dim[3] > MAX_SIDE)
        return vc_fail(err, VC_EMISMATCH, "not the latent of %d frame%s of %d channel%s", f,
                       f > 1 ? "s" : "", channels, channels > 1 ? "s" : "");
    if (v.dtype > VC_F64)
        return vc_fail(err, VC_EMISMATCH, "%s: type %s, expected a float type", v.name,
                       vc_dtype_name(v.dtype));
    if (vc_roles[role].own_size) {
        uint16_t *size = p->own.size[vc_role_reference(role)];
        if (v.dim[2] > UINT16_MAX || v.dim[3] > UINT16_MAX)
            return vc_fail(err, VC_EMISMATCH, "%" PRId64 " x %" PRId64 " latent rows and "
                           "columns: at most %d expected", v.dim[2], v.dim[3], UINT16_MAX);
        size[0] = (uint16_t)v.dim[2];
        size[1] = (uint16_t)v.dim[3];
        return copy_f32(&p->cond[role], &v, err);
    }
    if (sized && (v.dim[2] != p->h || v.dim[3] != p->w))
        return vc_fail(err, VC_EMISMATCH, "%" PRId64 " x %" PRId64 " latent rows and columns, "
                       "but another condition of the prompt has %d x %d", v.dim[2], v.dim[3], p->h,
                       p->w);
    p->h = (int)v.dim[2];
    p->w = (int)v.dim[3];
    return copy_f32(&p->cond[role], &v, err);
}

static int read_embeds(const vtrain_data *d, const vf_safetensors *st, vc_role role,
                       vtrain_prompt *p, vc_err *err)
{
    vf_view v;
    int rc = vf_safetensors_get(st, "image_embeds", &v, err);
    if (rc)
        return rc;
    if (v.nd != 2 || v.dim[0] != d->embeds[0] || v.dim[1] != d->embeds[1] || v.dtype > VC_F64)
        return vc_fail(err, VC_EMISMATCH, "not %" PRId64 " x %" PRId64 " numbers, which the "
                       "samples have", d->embeds[0], d->embeds[1]);
    return copy_f32(&p->cond[role], &v, err);
}

static int load_picture(const vtrain_data *d, int set, const cJSON *o, vc_role role,
                        vtrain_prompt *p, vc_err *err)
{
    const char *const name = vc_roles[role].name, *hex = NULL;
    vf_key key;
    vf_safetensors *st;
    int rc = o ? vf_json_str_opt(o, name, &hex, err) : 0;
    if (rc || !hex)
        return rc;
    if (!vf_key_parse(&key, hex))
        return vc_fail(err, VC_EFORMAT, "%s: 32 hex digits expected", name);
    rc = vf_dataset_latent(d->set[set].data, key, true, &st, err);
    if (!rc) {
        rc = vc_roles[role].kind == VC_VALUE_EMBEDS ? read_embeds(d, st, role, p, err)
                                                    : read_picture(d, st, role, p, err);
        vf_safetensors_close(st);
    }
    return vc_context(err, rc, "%s %s", name, hex);
}

/* Reads a validation record's conditions: the first frame's key is its `image`, the others are in
 * its `conditions`. */
static int load_pictures(const vtrain_data *d, const cJSON *record, vtrain_prompt *p, vc_err *err)
{
    const cJSON *conditions = cJSON_GetObjectItemCaseSensitive(record, "conditions");
    int rc = load_picture(d, 0, record, VC_ROLE_IMAGE, p, err);
    for (int i = VC_ROLE_IMAGE + 1; !rc && i < VC_ROLES; i++)
        if (vc_roles[i].what && (vc_roles[i].kind != VC_VALUE_EMBEDS || d->roles & 1u << i))
            rc = load_picture(d, 0, conditions, (vc_role)i, p, err);
    return rc;
}

const char *const vtrain_aside_names[VTRAIN_ASIDES] = { "target", "start", "last" };

/* Takes the latents of a file, and closes it. */
static int take_aside(vf_safetensors *st, vtrain_aside *to, vc_err *err)
{
    vf_view v;
    int rc = 0;
    if (vf_safetensors_get(st, "mean", &v, NULL))
        rc = vf_safetensors_get(st, "sample", &v, err);
    if (!rc && (v.nd != 4 || v.dtype > VC_F64))
        rc = vc_fail(err, VC_EFORMAT, "%s: not latents of four axes", v.name);
    if (!rc)
        rc = copy_f32(&to->x, &v, err);
    if (!rc)
        memcpy(to->dim, v.dim, sizeof to->dim);
    vf_safetensors_close(st);
    return rc;
}

/* Checks that known frames have the sample's grid; a clip to go on from sets that. */
static int check_known(const vtrain_data *d, vtrain_prompt *p, vtrain_asides which, vc_err *err)
{
    const int64_t *dim = p->aside[which].dim;
    if (which == VTRAIN_START && !has_picture(p) && dim[2] <= MAX_SIDE && dim[3] <= MAX_SIDE) {
        p->h = (int)dim[2];
        p->w = (int)dim[3];
    }
    if (dim[0] != d->norm.channels || dim[2] != p->h || dim[3] != p->w)
        return vc_fail(err, VC_EMISMATCH, "%" PRId64 " channels, %" PRId64 " x %" PRId64 " latent "
                       "rows and columns: the sample has %d, %d x %d", dim[0], dim[2], dim[3],
                       d->norm.channels, p->h, p->w);
    return which == VTRAIN_START || dim[1] == 1 ? 0
           : vc_fail(err, VC_EMISMATCH, "%" PRId64 " latent frames: a picture has 1", dim[1]);
}

static int load_aside(const vtrain_data *d, const cJSON *conditions, vtrain_asides which,
                       vtrain_prompt *p, vc_err *err)
{
    const char *const name = vtrain_aside_names[which], *hex = NULL;
    vf_safetensors *st;
    vf_key key;
    int rc = conditions ? vf_json_str_opt(conditions, name, &hex, err) : 0;
    if (rc || !hex)
        return rc;
    if (!vf_key_parse(&key, hex))
        return vc_fail(err, VC_EFORMAT, "%s: 32 hex digits expected", name);
    rc = vf_dataset_latent(d->set[0].data, key, true, &st, err);
    if (!rc)
        rc = take_aside(st, &p->aside[which], err);
    if (!rc && which != VTRAIN_TARGET)
        rc = check_known(d, p, which, err);
    return vc_context(err, rc, "%s %s", name, hex);
}

/* Reads what a validation record names beside its conditions. */
static int load_asides(const vtrain_data *d, const cJSON *record, vtrain_prompt *p, vc_err *err)
{
    const cJSON *conditions = cJSON_GetObjectItemCaseSensitive(record, "conditions");
    int rc = 0;
    for (int i = 0; !rc && i < VTRAIN_ASIDES; i++)
        rc = load_aside(d, conditions, (vtrain_asides)i, p, err);
    return rc;
}

/* ---- prompts ---- */

/* Sets *each if the negative prompt has a text of its own for each of the segments. */
static int read_negatives(const cJSON *record, int segments, bool *each, vc_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(record, "negative_segments");
    const int n = cJSON_GetArraySize(list);
    *each = list != NULL;
    if (list && (!cJSON_IsArray(list) || n != segments))
        return vc_fail(err, VC_EFORMAT, "negative_segments: %d texts for %d segments "
                       "(text_chunks)", n, segments);
    return 0;
}

static int read_stored(const vtrain_data *d, const cJSON *o, vtrain_prompt *p, vc_err *err)
{
    const char *text, *negative = "";
    vf_key pos[VTRAIN_TEXTS], neg[VTRAIN_TEXTS];
    int64_t seed = -1;
    bool each;
    int segments, rc;

    memcpy(neg, d->set[0].head.empty, sizeof neg);
    if ((rc = vf_json_str(o, "prompt", &text, err)) ||
        (rc = vtrain_segments_read(&segments, o, err)) ||
        (rc = read_negatives(o, segments, &each, err)) ||
        (rc = vf_json_str_opt(o, "negative_prompt", &negative, err)) ||
        (rc = vtrain_keys_read(d, o, "keys", pos, err)) || (rc = find_size(d, o, p, err)) ||
        (rc = find_rate(o, p, err)) || (rc = find_guidance(o, p, err)) ||
        (rc = find_kind(d, o, p, err)) ||
        (rc = vf_json_int_opt(o, "seed", &seed, err)))
        return rc;
    if (cJSON_GetObjectItemCaseSensitive(o, "negative_keys"))
        rc = vtrain_keys_read(d, o, "negative_keys", neg, err);
    p->has_seed = seed >= 0;
    p->seed = p->has_seed ? (uint64_t)seed : 0;
    if (rc || (rc = load_pictures(d, o, p, err)) || (rc = load_asides(d, o, p, err)) ||
        (rc = copy_text(&p->text, text, err)) ||
        (rc = copy_text(&p->negative, negative, err)))
        return rc;
    for (int i = 0; i < VC_ROLES && d->needs_mask; i++)
        if (d->roles & 1u << i && !p->cond[i] && !vc_roles[i].own_size)
            return vc_fail(err, VC_EMISMATCH, "it lacks %s, which each sample of this model "
                           "needs: give a dataset without prompts, whose captions are sampled "
                           "beside their own pictures and masks, or no --validation_steps and "
                           "--validation_epochs", vc_roles[i].what);
    return load_texts(d, 0, pos, neg, segments, each, p, err);
}

/* Finds training sample number `at` of the list, held-out samples not counted. */
static uint32_t nth_training(const vtrain_data *d, uint32_t at)
{
    uint32_t i = 0;
    while (d->sample[i].held_out || at--)
        i++;
    return i;
}

static int read_caption(const vtrain_data *d, int set, const cJSON *record, vtrain_prompt *p,
                        vc_err *err)
{
    vf_key pos[VTRAIN_TEXTS], empty[VTRAIN_TEXTS];
    const cJSON *captions = NULL;
    const char *text = "";
    int segments, rc = vtrain_segments_read(&segments, record, err);

    if (!rc)
        rc = vf_json_arr(record, "captions", &captions, err);
    if (!rc)
        rc = vtrain_empty_keys(d, set, record, empty, err);
    memcpy(pos, empty, sizeof pos);
    if (!rc && captions->child) {        /* no captions: the empty prompt, as in training */
        rc = vtrain_caption_keys(d, record, 0, pos, err);
        if (!rc)
            rc = vf_json_str_opt(captions->child, "text", &text, err);
    }
    if (rc || (rc = copy_text(&p->text, text, err)) || (rc = copy_text(&p->negative, "", err)) ||
        (rc = find_size(d, NULL, p, err)) || (rc = find_rate(record, p, err)) ||
        (rc = find_kind(d, record, p, err)))
        return rc;
    return load_texts(d, set, pos, empty, captions->child ? segments : 0, false, p, err);
}

/* Samples a caption from training in its own clip's size, which may be the only one that the model
 * knows the caption in. */
static void own_size(const vtrain_data *d, const vtrain_sample *s, vtrain_prompt *p)
{
    const vtrain_group *g = &d->group[s->group];
    p->f = g->f;
    p->h = g->h;
    p->w = g->w;
    p->frames = (g->f - 1) * d->set[s->dataset].head.ratio[0] + 1;
}

/* The conditions that a caption from training is sampled with: those that follow from the clip, and
 * not masks that were drawn, unless the model needs a mask. */
static unsigned own_roles(const vtrain_data *d, const vtrain_sample *s)
{
    const unsigned image = 1u << VC_ROLE_IMAGE;

    if (d->clean_frames)
        return image;
    if (d->needs_mask)
        return d->roles;
    const char *drawn = vc_mode_names[VC_MODE_INPAINT], *mode = d->set[s->dataset].head.train_mode;
    return strcmp(mode, drawn) ? d->roles : d->roles & image;
}

static int read_target(const vtrain_data *d, const vtrain_sample *s, vtrain_prompt *p, vc_err *err)
{
    const vf_dataset *set = d->set[s->dataset].data;
    vf_safetensors *st;
    int rc = vf_dataset_latent_of(set, s->index, vf_dataset_entry(set, s->index)->latent, true, &st,
                                  err);
    return rc ? rc : take_aside(st, &p->aside[VTRAIN_TARGET], err);
}

/* Spreads prompts from training over the list, since neighbours are often of one clip. */
static int from_training(const vtrain_data *d, uint32_t i, vtrain_prompt *p, vc_err *err)
{
    uint32_t n = training_samples(d), all = vtrain_data_prompts(d);
    uint32_t sample = nth_training(d, (uint32_t)((uint64_t)i * n / all));
    const vtrain_sample *s = &d->sample[sample];
    cJSON *record;
    int rc = vf_dataset_sample(d->set[s->dataset].data, s->index, &record, err);

    p->from_training = true;
    if (!rc)
        rc = read_caption(d, s->dataset, record, p, err);
    own_size(d, s, p);
    const cJSON *conditions = cJSON_GetObjectItemCaseSensitive(record, "conditions");
    for (int role = 0; !rc && role < VC_ROLES; role++)
        if (own_roles(d, s) & 1u << role)
            rc = load_picture(d, s->dataset, conditions, (vc_role)role, p, err);
    cJSON_Delete(record);
    if (!rc)
        rc = read_target(d, s, p, err);
    return vtrain_name_sample(d, sample, rc, err);
}

int vtrain_data_prompt(const vtrain_data *d, uint32_t i, vtrain_prompt *p, vc_err *err)
{
    *p = (vtrain_prompt){ 0 };
    const vf_dataset *first = d->set[0].data;
    int rc;

    if (i >= vtrain_data_prompts(d))
        return vc_fail(err, VC_EINVAL, "prompt %" PRIu32 " of %" PRIu32, i, vtrain_data_prompts(d));
    if (vf_dataset_validations(first)) {
        cJSON *record;
        rc = vf_dataset_validation(first, i, &record, err);
        if (!rc)
            rc = read_stored(d, record, p, err);
        cJSON_Delete(record);
        rc = vc_context(err, rc, "%s: validation prompt %" PRIu32, vf_dataset_path(first), i);
    } else {
        rc = from_training(d, i, p, err);
    }
    if (rc)
        vtrain_prompt_free(p);
    return rc;
}

void vtrain_prompt_free(vtrain_prompt *p)
{
    for (int i = 0; i < VTRAIN_TEXTS; i++) {
        free(p->pos[i].embeds);
        free(p->pos[i].pooled);
        free(p->neg[i].embeds);
        free(p->neg[i].pooled);
    }
    for (int i = 0; i < VTRAIN_ASIDES; i++)
        free(p->aside[i].x);
    free(p->text);
    free(p->negative);
    for (int i = 0; i < VC_ROLES; i++)
        free(p->cond[i]);
    *p = (vtrain_prompt){ 0 };
}

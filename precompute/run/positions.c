/* positions.c - the sizes that a transformer has positions for; see components.h. vtrain checks
 * them by the same fields, when everything is encoded. */
#include <stdio.h>

#include "precompute/run/vprep.h"

enum { MOST = 1 << 20 };

/* Whether a field is true or above 0. */
static bool is_set(const cJSON *config, const char *field)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(config, field);
    return cJSON_IsTrue(v) || (cJSON_IsNumber(v) && v->valuedouble > 0);
}

static int read_limit(prep_limit *l, const vc_positions *is, const cJSON *config, vc_err *err)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(config, is->field);
    if (cJSON_IsArray(v))
        v = cJSON_GetArrayItem(v, is->item);
    const double n = cJSON_IsNumber(v) ? v->valuedouble : is->none;

    if ((v && !cJSON_IsNumber(v) && !cJSON_IsNull(v)) || !(n >= 1 && n <= MOST))
        return vc_fail(err, VC_EFORMAT, "%s: numbers of positions in 1..%d are expected", is->field,
                       MOST);
    *l = (prep_limit){ is, (int64_t)n };
    return 0;
}

int prep_positions_read(prep_limit limit[VC_AXES], const vc_family *f, const cJSON *config,
                        vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < VC_FAMILY_POSITIONS && f->positions[i].field; i++) {
        const vc_positions *is = &f->positions[i];
        if (!is->with || is_set(config, is->with))
            rc = read_limit(&limit[is->axis], is, config, err);
    }
    return rc;
}

/* What is counted along an axis, of the latents' size. */
static int64_t counted(const vc_positions *is, const vc_family *f, const int64_t size[3])
{
    const int patch = is->axis == VC_AXIS_FRAMES ? f->patch_t : f->patch;
    return is->latents ? size[is->axis] : size[is->axis] / patch;
}

/* The pixels of a side that n positions of the axis are. */
static int64_t pixels(const prep_limit *l, const vc_family *f)
{
    const int ratio = l->is->axis == VC_AXIS_FRAMES ? f->ratio[0] : f->ratio[l->is->axis];
    return l->n * ratio * (l->is->latents ? 1 : f->patch);
}

static int refuse(const vprep *p, const vf_row *row, const vb_choice *c, const prep_limit *l,
                  int64_t need, vc_err *err)
{
    static const char *const axes[] = { "frames", "rows", "columns" };
    static const char *const flags[] = { "frames (--video_sample_n_frames)",
                                         "pictures (--image_sample_size, --video_sample_size, "
                                         "--max_pixels)" };
    const vc_family *f = p->rules.family;
    const prep_limit *sides = p->encoders.limit;
    const char *const of = l->is->axis == VC_AXIS_FRAMES ? flags[0] : flags[1];
    char remedy[240];

    if (l->is->table)
        snprintf(remedy, sizeof remedy, "its table of positions fits no other size: give "
                 "--fix_sample_size %lld %lld", (long long)pixels(&sides[VC_AXIS_ROWS], f),
                 (long long)pixels(&sides[VC_AXIS_COLUMNS], f));
    else if (l->is->axis == VC_AXIS_FRAMES)
        snprintf(remedy, sizeof remedy, "give fewer %s, or leave the row out", of);
    else
        snprintf(remedy, sizeof remedy, "give smaller %s, with sides of at most %lld pixels, or "
                 "leave the row out", of, (long long)pixels(l, f));
    return vc_fail(err, VC_EUSAGE, "row %lld: %s: %d frames of %dx%d pixels have %lld %s of %s, "
                   "and %s of --model %s, in the transformer's config.json, is %lld: %s",
                   (long long)row->row, row->path, c->frames, c->target_w, c->target_h,
                   (long long)need, axes[l->is->axis], l->is->latents ? "latents" : "tokens",
                   l->is->field, p->c.model, (long long)l->n, remedy);
}

int prep_positions_check(const vprep *p, const vf_row *row, const vb_choice *c, vc_err *err)
{
    const int64_t size[3] = { c->latent_f, c->latent_h, c->latent_w };

    for (int i = VC_AXIS_FRAMES; i <= VC_AXIS_COLUMNS; i++) {
        const prep_limit *l = &p->encoders.limit[i];
        const int64_t need = l->is ? counted(l->is, p->rules.family, size) : 0;
        if (l->is && (l->is->table ? need != l->n : need > l->n))
            return refuse(p, row, c, l, need, err);
    }
    return 0;
}

void prep_positions_check_text(vprep *p, int max_length)
{
    const prep_limit *l = &p->encoders.limit[VC_AXIS_TEXT];
    const prep_family *f = &p->encoders.family;
    const int given = max_length ? max_length : vc_family_texts(f->is, f->pipeline)[0].max_length;
    const int64_t most = l->is ? (l->n - l->is->beside) / l->is->fill * l->is->fill : 0;

    if (l->is && given > most)
        vc_flags_wrong(p->flags, "--tokenizer_max_length %d: %s of --model %s, in the "
                       "transformer's config.json, has positions for %lld tokens of a prompt: give "
                       "at most %lld", given, l->is->field, p->c.model, (long long)most,
                       (long long)most);
}

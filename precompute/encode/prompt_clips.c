/* prompt_clips.c - see prompt_clips.h */
#include "precompute/encode/prompt_clips.h"

#include <stdlib.h>

#include "precompute/encode/prompt_images_parts.h"
#include "precompute/run/reuse.h"

typedef struct vprep_prompt_clip {
    prompt_picture is;               /* file NULL: the row names none */
    vprep_clip clip;
    vf_key key;
} vprep_prompt_clip;

/* Sets the size and the number of the frames that are read, and the first one's. */
typedef int choose_fn(const vprep *p, const cJSON *row, const media_info *info, vb_choice *c,
                      int64_t *first, vc_err *err);
static choose_fn choose_target, choose_end, choose_picture;

enum { TARGET, START, LAST };
static const struct clip_row {
    const char *column, *name;       /* in the list, and in the record */
    choose_fn *choose;
    bool known;                      /* frames of the sample, which the model sees */
    bool begins;                     /* those that it begins with */
} rows[VPREP_PROMPT_CLIPS] = {
    [TARGET] = { "target_path", "target", choose_target, false, false },
    [START] = { "video_path", "start", choose_end, true, true },
    [LAST] = { "last_image_path", "last", choose_picture, true, false },
};

/* The column that names row i's clip; NULL: no model of the family reads one. */
static const char *column_of(const vprep *p, int i, const struct clip_row *row)
{
    const vprep_image *m = p->prompts.image ? p->prompts.image[i] : NULL;
    const bool own = cJSON_HasObjectItem(p->prompts.row[i], row->column);
    if (row->known)
        return p->encoders.family.is->known_frames && p->c.train_mode == PREP_NORMAL ? row->column
                                                                                     : NULL;
    return !own && m && m->row.n_references ? "image_path" : row->column;
}

static int file_frames(const media_info *info)
{
    return info->frames < VB_MAX_FRAMES ? (int)info->frames : VB_MAX_FRAMES;
}

static int choose_target(const vprep *p, const cJSON *row, const media_info *info, vb_choice *c,
                         int64_t *first, vc_err *err)
{
    const int frames = file_frames(info);
    int64_t n = 0;
    *first = 0;
    int rc = vf_json_int_opt(row, "num_frames", &n, err);
    if (!rc)
        rc = prompt_choose(p, row, info, frames > 1, frames, c, err);
    vb_choice own = *c;
    if (rc || !n || frames < 2 || (rc = prompt_set_frames(p, n, &own, err)))
        return rc;
    *c = own.frames <= frames ? own : *c;
    return 0;
}

/* The last frames of a clip, of whole latent frames. */
static int choose_end(const vprep *p, const cJSON *row, const media_info *info, vb_choice *c,
                      int64_t *first, vc_err *err)
{
    const int k = p->encoders.vae.ratio[0], frames = file_frames(info);
    int64_t n = 0;
    int rc = vf_json_int_opt(row, "overlap_history", &n, err);
    if (!rc && n > frames)
        rc = vc_fail(err, VC_EMISMATCH, "%d frames, overlap_history is %lld: give a longer clip, "
                     "or a smaller overlap_history", frames, (long long)n);
    if (!rc)
        rc = prompt_choose(p, row, info, true, 1, c, err);
    if (!rc)
        rc = prompt_set_frames(p, ((n ? n : frames) - 1) / k * k + 1, c, err);
    *first = info->frames - c->frames;
    return rc;
}

static int choose_picture(const vprep *p, const cJSON *row, const media_info *info, vb_choice *c,
                          int64_t *first, vc_err *err)
{
    *first = 0;
    if (info->frames != 1)
        return vc_fail(err, VC_EMISMATCH, "%lld frames: the sample ends with a picture",
                       (long long)info->frames);
    return prompt_choose(p, row, info, true, 1, c, err);
}

static int measure(const vprep *p, cJSON *row, const struct clip_row *by, vprep_prompt_clip *t,
                   vc_err *err)
{
    vprep_clip *clip = &t->clip;
    media *file = NULL;
    media_info info;
    int64_t first;
    int rc = media_open(&file, t->is.file, &info, err);
    media_close(file);
    if (!rc)
        rc = by->choose(p, row, &info, &clip->choice, &first, err);
    if (rc)
        return vc_context(err, rc, "%s", t->is.name);
    if (info.hdr)
        clip->tonemap = t->is.tonemap = (media_tonemap)p->c.tonemap;
    clip->frames = calloc((size_t)clip->choice.frames, sizeof *clip->frames);
    if (!clip->frames || (by->begins && prompt_set_size(row, &clip->choice)))
        return vc_no_memory(err);
    for (int k = 0; k < clip->choice.frames; k++)
        clip->frames[k] = first + k;
    t->key = vprep_prompt_key(p, t->is.shown, clip, VC_ROLE_CLIP);
    return 0;
}

/* Checks that the row's known frames go together. */
static int check_row(const vprep *p, int i, vc_err *err)
{
    const vprep_prompt_clip *t = p->prompts.clip[i];
    const vprep_image *m = p->prompts.image ? p->prompts.image[i] : NULL;
    const bool image = m && m->of[PROMPT_FIRST].file;
    const bool start = t[START].is.file, last = t[LAST].is.file;
    const struct { bool is; const char *what; } wrong[] = {
        { start && image, "image_path and video_path: a sample begins with one of them" },
        { start && last, "video_path and last_image_path: a sample that goes on from a clip ends "
          "with no picture" },
        { last && !image, "no image_path: a sample that ends with a picture begins with one" },
    };
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++)
        if (wrong[k].is)
            return vc_fail(err, VC_EFORMAT, "%s", wrong[k].what);
    return 0;
}

static int find_row(vprep *p, int i, vc_err *err)
{
    vprep_prompt_clip *t = p->prompts.clip[i] = calloc(VPREP_PROMPT_CLIPS, sizeof *t);
    int rc = t ? 0 : vc_no_memory(err);
    for (int k = 0; !rc && k < VPREP_PROMPT_CLIPS; k++) {
        const char *column = column_of(p, i, &rows[k]);
        rc = column ? prompt_find_file(&t[k].is, p, i, column, err) : 0;
    }
    if (!rc)
        rc = check_row(p, i, err);
    for (int k = 0; !rc && k < VPREP_PROMPT_CLIPS; k++) {
        if (!t[k].is.file)
            continue;
        rc = prompt_hash(&t[k].is, err);
        if (!rc)
            rc = measure(p, p->prompts.row[i], &rows[k], &t[k], err);
    }
    return rc;
}

int vprep_prompt_clips_find(vprep *p, vc_err *err)
{
    vprep_prompts *v = &p->prompts;
    int rc = 0;
    v->clip = calloc((size_t)v->n + 1, sizeof *v->clip);
    if (!v->clip)
        return vc_no_memory(err);
    for (int i = 0; !rc && i < v->n; i++)
        rc = vc_context(err, find_row(p, i, err), "--validation_prompts %s: row %d",
                        p->c.validation_prompts, i + 1);
    return rc;
}

/* Row i's clip; NULL: the row names none. */
static vprep_prompt_clip *clip_of(const vprep *p, int i, int which)
{
    vprep_prompt_clip *t = p->prompts.clip ? &p->prompts.clip[i][which] : NULL;
    return t && t->is.file ? t : NULL;
}

const vf_key *vprep_prompt_clip_key(const vprep *p, int i, int which, const char **name)
{
    const vprep_prompt_clip *t = clip_of(p, i, which);
    *name = rows[which].name;
    return t ? &t->key : NULL;
}

/* Whether the dataset lacks a clip. */
static bool is_missing(const vprep *p, const vprep_prompt_clip *t)
{
    return t && !vf_writer_has_latent(p->writer, t->key);
}

/* *largest and *roles: as vprep_prompt_clips_settle. */
static int settle(vprep *p, vprep_prompt_clip *t, vb_choice *largest, unsigned *roles, vc_err *err)
{
    int rc = is_missing(p, t) ? prep_reuse_take(p, false, t->key, err) : 0;
    if (rc != VC_ENOENT)
        return rc;
    *roles |= VC_ROLE_BIT(VC_ROLE_CLIP);
    if (vprep_clip_pixels(&t->clip.choice) > vprep_clip_pixels(largest))
        *largest = t->clip.choice;
    return 0;
}

int vprep_prompt_clips_settle(vprep *p, vb_choice *largest, unsigned *roles, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < p->prompts.n; i++)
        for (int k = 0; !rc && k < VPREP_PROMPT_CLIPS; k++)
            rc = settle(p, clip_of(p, i, k), largest, roles, err);
    return rc;
}

/* Reads the frames of the job's clip. */
static int read_clip(prep_job *j, vprep_prompt_clip *t, vc_err *err)
{
    const vb_choice *c = &j->clip.choice;
    prep_frames *to = &j->pixels;
    to->bytes = (size_t)c->target_h * (size_t)c->target_w * 3;
    to->n = to->count = c->frames;
    to->range = calloc((size_t)c->frames, to->bytes);
    if (!to->range)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d frames of %dx%d", c->frames,
                       c->target_w, c->target_h);
    const int n = prompt_read_frames(&j->clip, &t->is, to->range, c->frames, err);
    return n < 0 ? n : 0;
}

static int encode(vprep *p, prep_encoder *e, vprep_prompt_clip *t, vc_err *err)
{
    prep_job *j = malloc(sizeof *j);
    uint64_t n = 0;
    if (!j)
        return vc_no_memory(err);
    prep_job_begin(j, NULL);
    j->need = VC_ROLE_BIT(VC_ROLE_CLIP);
    j->key[VC_ROLE_CLIP] = t->key;
    j->clip = t->clip;                               /* the job owns the clip from now on */
    t->clip.frames = NULL;
    j->frames = j->clip.choice.frames;
    int rc = read_clip(j, t, err);
    if (!rc)
        rc = vc_context(err, prep_encode(e, j, &n, err), "%s", t->is.name);
    if (!rc)
        rc = vf_writer_put_latent(p->writer, t->key, j->value[VC_ROLE_CLIP],
                                  j->value_bytes[VC_ROLE_CLIP], err);
    p->count.conditions += !rc;
    prep_job_free(j);
    return rc;
}

int vprep_prompt_clips_encode(vprep *p, prep_encoder *e, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < p->prompts.n; i++)
        for (int k = 0; !rc && k < VPREP_PROMPT_CLIPS; k++)
            if (is_missing(p, clip_of(p, i, k)))
                rc = encode(p, e, clip_of(p, i, k), err);
    return rc;
}

void vprep_prompt_clips_free(vprep_prompts *v)
{
    for (int i = 0; v->clip && i < v->n; i++) {
        for (int k = 0; v->clip[i] && k < VPREP_PROMPT_CLIPS; k++) {
            vprep_clip_free(&v->clip[i][k].clip);
            free(v->clip[i][k].is.file);
        }
        free(v->clip[i]);
    }
    free(v->clip);
    v->clip = NULL;
}

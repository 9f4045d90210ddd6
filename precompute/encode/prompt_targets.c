/* prompt_targets.c - see prompt_targets.h */
#include "precompute/encode/prompt_targets.h"

#include <stdlib.h>

#include "precompute/encode/prompt_images_parts.h"
#include "precompute/run/reuse.h"

typedef struct vprep_target {
    prompt_picture is;
    vprep_clip clip;
    vf_key key;
} vprep_target;

static void target_free(vprep_target *t)
{
    if (t) {
        vprep_clip_free(&t->clip);
        free(t->is.file);
    }
    free(t);
}

/* The column that names row i's target. */
static const char *column_of(const vprep *p, int i)
{
    const vprep_image *m = p->prompts.image ? p->prompts.image[i] : NULL;
    const bool own = cJSON_HasObjectItem(p->prompts.row[i], "target_path");
    return !own && m && m->row.n_references ? "image_path" : "target_path";
}

/* Chooses the size and the frames of the target. */
static int choose(const vprep *p, const cJSON *row, const media_info *info, vb_choice *c,
                  vc_err *err)
{
    const int frames = info->frames < VB_MAX_FRAMES ? (int)info->frames : VB_MAX_FRAMES;
    int64_t n = 0;
    int rc = vf_json_int_opt(row, "num_frames", &n, err);
    if (!rc)
        rc = prompt_choose(p, row, info, frames > 1, frames, c, err);
    vb_choice own = *c;
    if (rc || !n || frames < 2 || (rc = prompt_set_frames(p, n, &own, err)))
        return rc;
    *c = own.frames <= frames ? own : *c;
    return 0;
}

static int measure(const vprep *p, const cJSON *row, vprep_target *t, vc_err *err)
{
    vprep_clip *clip = &t->clip;
    media *file = NULL;
    media_info info;
    int rc = media_open(&file, t->is.file, &info, err);
    media_close(file);
    if (!rc)
        rc = choose(p, row, &info, &clip->choice, err);
    if (rc)
        return vc_context(err, rc, "%s", t->is.name);
    if (info.hdr)
        clip->tonemap = t->is.tonemap = (media_tonemap)p->c.tonemap;
    clip->frames = calloc((size_t)clip->choice.frames, sizeof *clip->frames);
    if (!clip->frames)
        return vc_no_memory(err);
    for (int k = 0; k < clip->choice.frames; k++)
        clip->frames[k] = k;
    t->key = vprep_prompt_key(p, t->is.shown, clip, VC_ROLE_CLIP);
    return 0;
}

static int find_target(vprep *p, int i, vc_err *err)
{
    vprep_target *t = calloc(1, sizeof *t);
    int rc = t ? prompt_find_file(&t->is, p, i, column_of(p, i), err) : vc_no_memory(err);
    if (!rc && t->is.file) {
        p->prompts.target[i] = t;
        rc = prompt_hash(&t->is, err);
        return rc ? rc : measure(p, p->prompts.row[i], t, err);
    }
    target_free(t);
    return rc;
}

int vprep_prompt_targets_find(vprep *p, vc_err *err)
{
    vprep_prompts *v = &p->prompts;
    int rc = 0;
    v->target = calloc((size_t)v->n + 1, sizeof *v->target);
    if (!v->target)
        return vc_no_memory(err);
    for (int i = 0; !rc && i < v->n; i++)
        rc = vc_context(err, find_target(p, i, err), "--validation_prompts %s: row %d",
                        p->c.validation_prompts, i + 1);
    return rc;
}

const vf_key *vprep_prompt_target(const vprep *p, int i)
{
    const vprep_target *t = p->prompts.target ? p->prompts.target[i] : NULL;
    return t ? &t->key : NULL;
}

/* Whether row i has a target that the dataset lacks. */
static bool is_missing(const vprep *p, int i)
{
    const vf_key *key = vprep_prompt_target(p, i);
    return key && !vf_writer_has_latent(p->writer, *key);
}

int vprep_prompt_targets_settle(vprep *p, vb_choice *largest, unsigned *roles, vc_err *err)
{
    for (int i = 0; i < p->prompts.n; i++) {
        const vprep_target *t = p->prompts.target ? p->prompts.target[i] : NULL;
        int rc = is_missing(p, i) ? prep_reuse_take(p, false, t->key, err) : 0;
        if (rc && rc != VC_ENOENT)
            return rc;
        if (!rc)
            continue;
        *roles |= VC_ROLE_BIT(VC_ROLE_CLIP);
        if (vprep_clip_pixels(&t->clip.choice) > vprep_clip_pixels(largest))
            *largest = t->clip.choice;
    }
    return 0;
}

/* Reads the frames of the job's clip. */
static int read_clip(prep_job *j, vprep_target *t, vc_err *err)
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

static int encode(vprep *p, prep_encoder *e, vprep_target *t, vc_err *err)
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

int vprep_prompt_targets_encode(vprep *p, prep_encoder *e, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < p->prompts.n; i++)
        if (is_missing(p, i))
            rc = encode(p, e, p->prompts.target[i], err);
    return rc;
}

void vprep_prompt_targets_free(vprep_prompts *v)
{
    for (int i = 0; v->target && i < v->n; i++)
        target_free(v->target[i]);
    free(v->target);
    v->target = NULL;
}

/* prompt_images.c - see prompt_images.h. Pictures are found and measured before anything is
 * encoded, and encoded before the clips. */
#include "precompute/encode/prompt_images.h"

#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "precompute/run/reuse.h"

struct vprep_image {
    char *file;
    vprep_clip clip;                 /* the picture as a clip of one frame; for inpainting, the clip
                                      * that begins with the picture, other frames masked */
    prep_identity is;                /* of the file, when it was hashed */
    vf_key hash, key[VC_ROLES];
    vf_key picture;                  /* in texts */
};

static void image_free(vprep_image *m)
{
    if (m) {
        vprep_clip_free(&m->clip);
        free(m->file);
    }
    free(m);
}

/* The row's number of frames, rounded up to whole latent frames. */
static int set_frames(const vprep *p, int64_t n, vb_choice *c, vc_err *err)
{
    const int k = p->encoders.vae.ratio[0];
    if (n < 1 || n > VB_MAX_FRAMES)
        return vc_fail(err, VC_EFORMAT, "num_frames %lld: must be in 1..%d", (long long)n,
                       VB_MAX_FRAMES);
    c->latent_f = ((int)n - 1 + k - 1) / k + 1;
    c->frames = (c->latent_f - 1) * k + 1;
    return 0;
}

/* Chooses the bucket of a video of the picture's shape, or the row's size. A clip is as long as the
 * run's longest. */
static int choose(const vprep *p, const cJSON *row, const media_info *info, vb_choice *c,
                  vc_err *err)
{
    vb_rules r = p->rules;
    const bool clip = p->c.train_mode == PREP_INPAINT;
    vb_source s = { .is_video = true, .w = info->w, .h = info->h,
                    .frames = clip ? VB_MAX_FRAMES : 1, .lr_caption = true };
    int64_t h = 0, w = 0, n = 0;
    int rc = vf_json_int_opt(row, "height", &h, err);

    if (!rc)
        rc = vf_json_int_opt(row, "width", &w, err);
    if (!rc)
        rc = vf_json_int_opt(row, "num_frames", &n, err);
    if (rc)
        return rc;
    r.stride = 1;
    r.random_hw_adapt = r.token_length = r.random_ratio_crop = r.random_frame_crop = false;
    r.on_small = VB_SMALL_ENLARGE;
    r.peer = false;
    r.fit = VB_FIT_CROP;
    if (h || w) {
        const int q = r.family->multiple;
        if (h < q || w < q || h > VB_MAX_SAMPLE_SIZE || w > VB_MAX_SAMPLE_SIZE)
            return vc_fail(err, VC_EFORMAT, "height %lld, width %lld: both must be in %d..%d",
                           (long long)h, (long long)w, q, VB_MAX_SAMPLE_SIZE);
        r.enable_bucket = true;
        r.fix_h = h;
        r.fix_w = w;
        r.video_sample_size = r.image_sample_size = h > w ? h : w;
    }
    vb_choose(c, &r, &s, 0, 0, 0);
    if (c->drop)
        return vc_fail(err, VC_EINVAL, "%s", c->reason);
    return clip && n ? set_frames(p, n, c, err) : 0;
}

/* Masks all frames but the first, as VideoX-Fun samples. */
static int mask_rest(vprep_clip *clip)
{
    const vb_choice *c = &clip->choice;
    clip->mask = (mask){ .kind = MASK_KEEP_HEAD, .f = c->frames, .h = c->target_h, .w = c->target_w,
                         .n = 1, .v = malloc(sizeof *clip->mask.v) };
    if (!clip->mask.v)
        return -1;
    clip->mask.v[0] = 1;
    return 0;
}

static int open_image(const vprep *p, const cJSON *row, vprep_image *m, vc_err *err)
{
    media *file;
    media_info info;
    prep_identity now;
    int rc = prep_identity_of(&m->is, m->file, m->file, err);

    if (!rc)
        rc = media_open(&file, m->file, &info, err);
    if (rc)
        return rc;
    media_close(file);
    rc = choose(p, row, &info, &m->clip.choice, err);
    if (!rc)
        rc = vf_hash_file(&m->hash, m->file, vc_stop_flag(), err);
    if (!rc)
        rc = prep_identity_of(&now, m->file, m->file, err);
    if (!rc && !prep_identity_same(&m->is, &now))
        rc = vc_fail(err, VC_EIO, "changes while it is read: start again when it is whole");
    if (!rc && (!(m->clip.frames = calloc((size_t)m->clip.choice.frames, sizeof *m->clip.frames)) ||
                mask_rest(&m->clip)))
        rc = vc_no_memory(err);
    for (int v = 0; !rc && v < VC_ROLES; v++)
        if (vprep_prompt_roles(p) & VC_ROLE_BIT(v))
            m->key[v] = vprep_prompt_key(p, m->hash, &m->clip, v);
    if (!rc)
        m->picture = vprep_prompt_picture_key(m->hash, &m->clip);
    return rc;
}

/* Sets one field of the row's size. */
static int set_number(cJSON *row, const char *field, int v)
{
    cJSON *number = cJSON_CreateNumber(v);
    if (cJSON_HasObjectItem(row, field))
        return number && cJSON_ReplaceItemInObjectCaseSensitive(row, field, number) ? 0 : -1;
    return number && cJSON_AddItemToObject(row, field, number) ? 0 : -1;
}

/* Writes the size of the latents into the row, for the sample. */
static int set_size(const vprep *p, cJSON *row, const vb_choice *c)
{
    if (set_number(row, "height", c->target_h) || set_number(row, "width", c->target_w))
        return -1;
    bool has_frames = cJSON_HasObjectItem(row, "num_frames") || p->c.train_mode != PREP_INPAINT;
    return has_frames ? 0 : set_number(row, "num_frames", c->frames);
}

static bool texts_see(const vprep *p)
{
    bool sees = false;
    for (int i = 0; i < p->encoders.n_text; i++)
        sees |= vprep_sees(p, i);
    return sees;
}

int vprep_prompt_images_find(vprep *p, vc_err *err)
{
    vprep_prompts *v = &p->prompts;
    const char *list = p->c.validation_prompts;
    const bool texts = texts_see(p);
    int rc = 0;

    if ((!vprep_prompt_roles(p) && !texts) || !v->n)
        return 0;
    v->image = calloc((size_t)v->n, sizeof *v->image);
    char *dir = vc_format("%.*s", (int)(vc_path_base(list) - list), list);
    if (!v->image || !dir)
        rc = vc_no_memory(err);
    for (int i = 0; !rc && i < v->n; i++) {
        const char *path = NULL;
        rc = vf_json_str_opt(v->row[i], "image_path", &path, err);
        if (!rc && !path && texts)
            rc = vc_fail(err, VC_EFORMAT, "--validation_prompts %s: row %d: no image_path: texts "
                         "of this model have the clip's first frame", list, i + 1);
        if (rc || !path)
            continue;
        vprep_image *m = v->image[i] = calloc(1, sizeof *m);
        if (!m || !(m->file = vc_path_join(*dir ? dir : ".", path)))
            rc = vc_no_memory(err);
        if (!rc)
            rc = vc_context(err, open_image(p, v->row[i], m, err), "%s", path);
        if (!rc && set_size(p, v->row[i], &m->clip.choice))
            rc = vc_no_memory(err);
        rc = vc_context(err, rc, "--validation_prompts %s: row %d", list, i + 1);
    }
    free(dir);
    return rc;
}

vf_key vprep_prompt_picture_key_of(const vprep *p, int i)
{
    const vprep_prompts *v = &p->prompts;
    return v->image && v->image[i] ? v->image[i]->picture : (vf_key){ { 0 } };
}

unsigned vprep_prompt_values(const vprep *p, int i, const vf_key **key)
{
    const vprep_prompts *v = &p->prompts;
    const bool has = v->image && v->image[i];

    *key = has ? v->image[i]->key : NULL;
    return has ? vprep_prompt_roles(p) : 0;
}

/* VC_ROLE_BITs of the values of row i's picture that are to be encoded. */
static unsigned missing(const vprep *p, int i)
{
    const vf_key *key;
    unsigned values = vprep_prompt_values(p, i, &key), need = 0;

    for (int v = 0; v < VC_ROLES; v++)
        if (values & VC_ROLE_BIT(v) && !vf_writer_has_latent(p->writer, key[v]))
            need |= VC_ROLE_BIT(v);
    return need;
}

int vprep_prompt_images_settle(vprep *p, vb_choice *largest, bool *any, vc_err *err)
{
    *any = false;
    for (int i = 0; i < p->prompts.n; i++) {
        const unsigned need = missing(p, i);
        const vprep_image *m = need ? p->prompts.image[i] : NULL;
        bool left = false;
        for (int v = 0; v < VC_ROLES; v++) {
            int rc = need & VC_ROLE_BIT(v) ? prep_reuse_take(p, false, m->key[v], err) : 0;
            if (rc && rc != VC_ENOENT)
                return rc;
            left |= rc == VC_ENOENT;
        }
        if (left && vprep_clip_pixels(&m->clip.choice) > vprep_clip_pixels(largest))
            *largest = m->clip.choice;
        *any |= left;
    }
    return 0;
}

/* Reads the picture into the first of the clip's frames. */
static int read_pixels(prep_job *j, vprep_image *m, vc_err *err)
{
    const vb_choice *c = &j->clip.choice;
    const media_fit fit = { .rh = c->resize_h, .rw = c->resize_w, .top = c->top, .left = c->left,
                            .h = c->target_h, .w = c->target_w };
    const size_t frame = (size_t)c->target_h * (size_t)c->target_w * 3;
    const vf_part part = { .name = m->file, .file = m->file };
    media *file;
    media_info info;

    j->pixels = calloc((size_t)c->frames, frame);
    if (!j->pixels)
        return vc_fail(err, VC_ENOMEM, "out of memory for %d frames of %dx%d", c->frames,
                       c->target_w, c->target_h);
    int rc = media_open_part(&file, &part, &info, err);
    if (!rc)
        rc = media_read(file, j->pixels, j->clip.frames, 1, &fit, vc_stop_flag(), err);
    if (!rc && prep_identity_check(&m->is, m->hash, media_fd(file), &part, err))
        rc = vc_fail(err, VC_EIO, "changed while this ran: run the same command again");
    media_close(file);
    return rc;
}

int vprep_prompt_picture(const vprep *p, int i, uint8_t **rgb, int *h, int *w, vc_err *err)
{
    vprep_image *m = p->prompts.image[i];
    const vb_choice *c = &m->clip.choice;
    prep_job j = { .clip = m->clip };
    int rc = read_pixels(&j, m, err);

    *rgb = j.pixels;
    *h = c->target_h;
    *w = c->target_w;
    return vc_context(err, rc, "%s", m->file);
}

static int encode_image(vprep *p, prep_encoder *e, vprep_image *m, unsigned need, vc_err *err)
{
    prep_job *j = malloc(sizeof *j);
    uint64_t n = 0;

    if (!j)
        return vc_no_memory(err);
    prep_job_begin(j, NULL);
    j->need = need;
    memcpy(j->key, m->key, sizeof j->key);
    j->clip = m->clip;                               /* the job owns the clip from now on */
    m->clip.frames = NULL;
    m->clip.mask = (mask){ 0 };
    int rc = read_pixels(j, m, err);
    if (!rc)
        rc = prep_encode(e, j, &n, err);
    for (int v = 0; !rc && v < VC_ROLES; v++)
        if (j->value[v])
            rc = vf_writer_put_latent(p->writer, j->key[v], j->value[v], j->value_bytes[v], err);
    p->count.conditions += n;
    prep_job_free(j);
    return vc_context(err, rc, "%s", m->file);
}

int vprep_prompt_images_encode(vprep *p, prep_encoder *e, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < p->prompts.n; i++) {
        const unsigned need = missing(p, i);
        rc = need ? encode_image(p, e, p->prompts.image[i], need, err) : 0;
    }
    return rc;
}

void vprep_prompt_images_free(vprep_prompts *v)
{
    for (int i = 0; v->image && i < v->n; i++)
        image_free(v->image[i]);
    free(v->image);
    v->image = NULL;
}

/* prompt_images.c - first frames of validation prompts: found and measured before anything is
 * encoded, encoded with the clips. See prompt_images.h */
#include "precompute/prompt_images.h"

#include <stdlib.h>
#include <string.h>

#include "common/file.h"

struct vprep_image {
    char *file;
    vprep_clip clip;                 /* its first frame */
    vf_key key;
};

static void image_free(vprep_image *m)
{
    if (m) {
        vprep_clip_free(&m->clip);
        free(m->file);
    }
    free(m);
}

/* The grid of the run's videos at the picture's shape, or the size that the row asks for. */
static int choose(const vprep *p, const cJSON *row, const media_info *info, vb_choice *c,
                  vc_err *err)
{
    vb_rules r = p->rules;
    vb_source s = { .is_video = true, .w = info->w, .h = info->h, .frames = 1, .lr_caption = true };
    int64_t h = 0, w = 0;
    int rc = vf_json_int_opt(row, "height", &h, err);

    if (!rc) rc = vf_json_int_opt(row, "width", &w, err);
    if (rc)
        return rc;
    r.random_hw_adapt = r.token_length = r.random_ratio_crop = r.random_frame_crop = false;
    r.on_small = VB_SMALL_ENLARGE;
    r.peer = false;
    r.fit = VB_FIT_CROP;
    if (h || w) {
        const int q = r.family->q;
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
    return 0;
}

static int open_image(const vprep *p, const cJSON *row, vprep_image *m, vc_err *err)
{
    media *file;
    media_info info;
    vf_key hash;
    int rc = media_open(&file, m->file, &info, err);

    if (rc)
        return rc;
    media_close(file);
    rc = choose(p, row, &info, &m->clip.choice, err);
    if (!rc) rc = vf_hash_file(&hash, m->file, vc_stop_flag(), err);
    if (!rc && !(m->clip.frames = calloc(1, sizeof *m->clip.frames)))
        rc = vc_fail(err, VC_ENOMEM, "out of memory");
    if (!rc)
        m->key = vprep_picture_key(p, hash, &m->clip);
    return rc;
}

/* The size that its latent has becomes the row's, so that the sample gets it. */
static int set_number(cJSON *row, const char *field, int v)
{
    cJSON *number = cJSON_CreateNumber(v);
    if (cJSON_HasObjectItem(row, field))
        return number && cJSON_ReplaceItemInObjectCaseSensitive(row, field, number) ? 0 : -1;
    return number && cJSON_AddItemToObject(row, field, number) ? 0 : -1;
}

int vprep_prompt_images_find(vprep *p, vc_err *err)
{
    vprep_prompts *v = &p->prompts;
    const char *list = p->c.validation_prompts;
    int rc = 0;

    if (p->c.train_mode != PREP_I2V || !v->n)
        return 0;
    v->image = calloc((size_t)v->n, sizeof *v->image);
    char *dir = vc_format("%.*s", (int)(vc_path_base(list) - list), list);
    if (!v->image || !dir)
        rc = vc_fail(err, VC_ENOMEM, "out of memory");
    for (int i = 0; !rc && i < v->n; i++) {
        const char *path = NULL;
        rc = vf_json_str_opt(v->row[i], "image_path", &path, err);
        if (rc || !path)
            continue;
        vprep_image *m = v->image[i] = calloc(1, sizeof *m);
        if (!m || !(m->file = vc_path_join(*dir ? dir : ".", path)))
            rc = vc_fail(err, VC_ENOMEM, "out of memory");
        if (!rc) rc = vc_context(err, open_image(p, v->row[i], m, err), "%s", path);
        if (!rc && (set_number(v->row[i], "height", m->clip.choice.target_h) ||
                    set_number(v->row[i], "width", m->clip.choice.target_w)))
            rc = vc_fail(err, VC_ENOMEM, "out of memory");
        rc = vc_context(err, rc, "--validation_prompts %s: row %d", list, i + 1);
    }
    free(dir);
    return rc;
}

const vf_key *vprep_prompt_image(const vprep *p, int i)
{
    const vprep_prompts *v = &p->prompts;
    return v->image && v->image[i] ? &v->image[i]->key : NULL;
}

static bool missing(const vprep *p, int i)
{
    const vf_key *k = vprep_prompt_image(p, i);
    return k && !vf_writer_has_latent(p->writer, *k);
}

bool vprep_prompt_images_missing(const vprep *p)
{
    for (int i = 0; i < p->prompts.n; i++)
        if (missing(p, i))
            return true;
    return false;
}

static int encode_image(vprep *p, prep_encoder *e, const vprep_image *m, vc_err *err)
{
    const vb_choice *c = &m->clip.choice;
    media_fit fit = { .rh = c->resize_h, .rw = c->resize_w, .top = c->top, .left = c->left,
                      .h = c->target_h, .w = c->target_w };
    uint8_t *pixels = malloc((size_t)c->target_h * (size_t)c->target_w * 3), *value = NULL;
    size_t bytes;
    media *file = NULL;
    media_info info;
    int rc = pixels ? media_open(&file, m->file, &info, err)
                    : vc_fail(err, VC_ENOMEM, "out of memory for %dx%d", c->target_w, c->target_h);

    if (!rc) rc = media_read(file, pixels, m->clip.frames, 1, &fit, vc_stop_flag(), err);
    media_close(file);
    if (!rc) rc = prep_encode_picture(e, &value, &bytes, pixels, c->target_h, c->target_w, err);
    if (!rc) rc = vf_writer_put_latent(p->writer, m->key, value, bytes, err);
    free(value);
    free(pixels);
    return vc_context(err, rc, "%s", m->file);
}

int vprep_prompt_images_encode(vprep *p, prep_encoder *e, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < p->prompts.n; i++)
        if (missing(p, i)) {
            rc = encode_image(p, e, p->prompts.image[i], err);
            p->conditions += !rc;
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

/* prompt_images.c - finds and measures the pictures of validation prompts, before anything is
 * encoded; see prompt_images.h */
#include "precompute/encode/prompt_images_parts.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "precompute/run/reuse.h"

static const char *const columns[PROMPT_REFERENCE] = { "image_path", "last_image_path",
                                                "control_file_path" };

static bool has_role(const vprep *p, vc_role role)
{
    return vc_role_of_mode(role, p->encoders.family.is, p->c.train_mode);
}

/* Whether prompts have masked pictures, each with the mask of a file. */
static bool has_masks(const vprep *p)
{
    return p->encoders.family.is->pixel_masks && p->c.train_mode == PREP_INPAINT;
}

/* Whether prompts have clips to edit, each with a mask where a file has one. */
static bool edits_clips(const vprep *p)
{
    return p->c.train_mode == VC_MODE_VACE;
}

/* Whether prompts have masked clips or control clips, and not first frames alone. */
static bool has_clips(const vprep *p)
{
    return (has_role(p, VC_ROLE_VIDEO) || has_role(p, VC_ROLE_CONTROL)) && !has_masks(p);
}

static void image_free(vprep_image *m)
{
    if (m) {
        vprep_clip_free(&m->clip);
        for (int i = 0; i < PROMPT_PICTURES; i++)
            free(m->of[i].file);
        vf_row_free_references(&m->row);
    }
    free(m);
}

int prompt_set_frames(const vprep *p, int64_t n, vb_choice *c, vc_err *err)
{
    const int k = p->encoders.vae.ratio[0];
    if (n < 1 || n > VB_MAX_FRAMES)
        return vc_fail(err, VC_EFORMAT, "num_frames %lld: must be in 1..%d", (long long)n,
                       VB_MAX_FRAMES);
    c->latent_f = ((int)n - 1 + k - 1) / k + 1;
    c->frames = (c->latent_f - 1) * k + 1;
    return 0;
}

int prompt_choose(const vprep *p, const cJSON *row, const media_info *info, bool video,
                  int frames, vb_choice *c, vc_err *err)
{
    vb_rules r = p->rules;
    vb_source s = { .is_video = video, .w = info->w, .h = info->h, .frames = frames,
                    .lr_caption = true };
    int64_t h = 0, w = 0;
    int rc = vf_json_int_opt(row, "height", &h, err);

    if (!rc)
        rc = vf_json_int_opt(row, "width", &w, err);
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
    return c->drop ? vc_fail(err, VC_EINVAL, "%s", c->reason) : 0;
}

/* Chooses the size of a prompt's pictures; a clip is as long as the run's longest. */
static int choose(const vprep *p, const cJSON *row, const media_info *info, vb_choice *c,
                  vc_err *err)
{
    const bool stills = p->encoders.family.is->max_frames == 1, clip = has_clips(p) && !stills;
    int64_t n = 0;
    int rc = vf_json_int_opt(row, "num_frames", &n, err);
    if (!rc)
        rc = prompt_choose(p, row, info, !has_masks(p) && !stills, clip ? VB_MAX_FRAMES : 1, c,
                           err);
    return !rc && clip && n ? prompt_set_frames(p, n, c, err) : rc;
}

int prompt_hash(prompt_picture *m, vc_err *err)
{
    const vf_part part = { .name = m->file, .file = m->file };
    prep_identity now;
    media *file = NULL;
    media_info info;
    int rc = prep_identity_of(&m->is, m->file, m->file, err);

    if (!rc)
        rc = prep_hash(&m->hash, &part, err);
    if (!rc)
        rc = media_open(&file, m->file, &info, err);
    if (!rc)
        m->shown = prep_shown(m->hash, info.reordered);
    media_close(file);
    if (!rc)
        rc = prep_identity_of(&now, m->file, m->file, err);
    if (!rc && !prep_identity_same(&m->is, &now))
        rc = vc_fail(err, VC_EIO, "changes while it is read: start again when it is whole");
    return vc_context(err, rc, "%s", m->name);
}

/* Makes the mask of a file of the picture's shape, whose pixels are read with the picture. */
static int open_mask(vprep_image *m, const media_info *of, vc_err *err)
{
    const vb_choice *c = &m->clip.choice;
    prompt_picture *file = &m->of[PROMPT_MASK];
    media *opened;
    media_info is;
    int rc = media_open(&opened, file->file, &is, err);

    if (rc)
        return vc_context(err, rc, "%s", file->name);
    media_close(opened);
    const double off = (double)is.w * of->h - (double)is.h * of->w;
    if (is.frames != 1 && c->frames == 1)
        return vc_fail(err, VC_EMISMATCH, "%s: %lld frames: a mask is a picture", file->name,
                       (long long)is.frames);
    if (fabs(off) > (double)(of->w > of->h ? of->w : of->h))
        return vc_fail(err, VC_EMISMATCH, "%s: %dx%d, but the picture is %dx%d: a mask covers the "
                       "whole picture, so it has its shape", file->name, is.w, is.h, of->w, of->h);
    m->clip.mask = (mask){ .kind = MASK_FILE, .f = c->frames, .h = c->target_h,
                           .w = c->target_w };
    m->clip.mask_shown = file->shown;
    return 0;
}

/* Chooses the clip, by the shape of the first picture or else of the control clip, whose file still
 * has the bytes that were hashed. */
static int open_clip(const vprep *p, const cJSON *row, vprep_image *m, vc_err *err)
{
    prompt_picture *shape = &m->of[m->of[PROMPT_FIRST].file ? PROMPT_FIRST : PROMPT_CONTROL];
    const vf_part part = { .name = shape->file, .file = shape->file };
    vb_choice *c = &m->clip.choice;
    media *file;
    media_info info;
    int rc = media_open(&file, shape->file, &info, err);

    if (rc)
        return vc_context(err, rc, "%s", shape->name);
    if (prep_identity_check(&shape->is, shape->hash, media_fd(file), &part, err) < 0)
        rc = vc_fail(err, VC_EIO, "%s: changes while it is read: start again when it is whole",
                     shape->name);
    media_close(file);
    if (rc)
        return rc;
    rc = vc_context(err, choose(p, row, &info, c, err), "%s", shape->name);
    if (!rc && !(m->clip.frames = calloc((size_t)c->frames, sizeof *m->clip.frames)))
        rc = vc_no_memory(err);
    for (int i = 0; !rc && i < c->frames && m->of[PROMPT_CONTROL].file; i++)
        m->clip.frames[i] = i;
    if (!rc && m->of[PROMPT_MASK].file)
        rc = open_mask(m, &info, err);
    else if (!rc && edits_clips(p))
        m->clip.mask = (mask){ .kind = MASK_ALL, .f = c->frames, .h = c->target_h,
                               .w = c->target_w };
    else if (!rc)                                    /* as VideoX-Fun samples */
        rc = mask_keep(&m->clip.mask, c->frames, c->target_h, c->target_w,
                       m->of[PROMPT_LAST].file, err);
    return rc;
}

/* Makes the reference as a clip of one frame, but for its frames. */
void prompt_reference_clip(const vprep *p, const prompt_picture *m, const vb_choice *of,
                           vprep_clip *clip)
{
    memset(clip, 0, offsetof(vprep_clip, choice));
    vprep_reference_size(p, &m->size, of, &clip->choice);
    clip->tonemap = m->tonemap;
}

/* Hashes and measures a reference; *key: the key of its value. */
static int open_reference(const vprep *p, prompt_picture *m, const vb_choice *of, vc_role role,
                          vf_key *key, vc_err *err)
{
    media *file = NULL;
    media_info info;
    vprep_clip clip;
    int64_t first = 0;
    int rc = prompt_hash(m, err);

    if (!rc)
        rc = vc_context(err, media_open(&file, m->file, &info, err), "%s", m->name);
    media_close(file);
    if (rc)
        return rc;
    m->size = (prep_beside){ .w = info.w, .h = info.h };
    m->tonemap = info.hdr ? (media_tonemap)p->c.tonemap : MEDIA_TONEMAP_NONE;
    prompt_reference_clip(p, m, of, &clip);
    clip.frames = &first;
    if (info.frames != 1 || clip.choice.drop)
        return vc_fail(err, VC_EMISMATCH, "%s: %s", m->name,
                       clip.choice.drop ? clip.choice.reason : "a reference is a picture");
    *key = vprep_prompt_key(p, m->shown, &clip, role);
    return 0;
}

static int open_references(const vprep *p, vprep_image *m, vc_err *err)
{
    int rc = 0;
    for (int k = 0; !rc && k < VC_REFERENCES; k++)
        if (m->of[PROMPT_REFERENCE + k].file)
            rc = open_reference(p, &m->of[PROMPT_REFERENCE + k], &m->clip.choice,
                                (vc_role)(VC_ROLE_REFERENCE + k),
                                &m->key[VC_ROLE_REFERENCE + k], err);
    return rc;
}

/* Finds the HDR pictures. A control clip is no picture to look at. */
static int find_hdr(const vprep *p, vprep_image *m, vc_err *err)
{
    int rc = 0;

    for (int i = 0; !rc && i < PROMPT_CONTROL && p->c.tonemap; i++) {
        media *file = NULL;
        media_info info = { 0 };
        if (m->of[i].file)
            rc = vc_context(err, media_open(&file, m->of[i].file, &info, err), "%s",
                            m->of[i].name);
        if (info.hdr)
            m->clip.tonemap = m->of[i].tonemap = (media_tonemap)p->c.tonemap;
        media_close(file);
    }
    return rc;
}

static int open_image(const vprep *p, const cJSON *row, vprep_image *m, vc_err *err)
{
    const vf_key *first = &m->of[PROMPT_FIRST].shown, *last = &m->of[PROMPT_LAST].shown;
    int rc = 0;

    for (int i = 0; !rc && i < PROMPT_PICTURES; i++)
        if (m->of[i].file)
            rc = prompt_hash(&m->of[i], err);
    if (!rc)
        rc = open_clip(p, row, m, err);
    if (!rc)
        rc = find_hdr(p, m, err);
    const vf_key ends = m->of[PROMPT_LAST].file ? vf_hash2(first, sizeof *first, last, sizeof *last)
                                         : *first;
    const vf_key clip = m->of[PROMPT_CONTROL].shown;
    m->clip.mask_all = !rc && edits_clips(p) && mask_is_all(&m->clip.mask);
    for (int v = 0; !rc && v < VC_ROLES; v++)
        if (vprep_prompt_roles(p) & VC_ROLE_BIT(v))
            m->key[v] = vprep_prompt_key(p, v == VC_ROLE_CONTROL || edits_clips(p) ? clip : ends,
                                         &m->clip, v);
    if (!rc)
        m->shown = vprep_prompt_picture_key(*first, &m->clip);
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

int prompt_set_size(cJSON *row, const vb_choice *c)
{
    return set_number(row, "height", c->target_h) || set_number(row, "width", c->target_w) ? -1 : 0;
}

/* Writes the size of the latents into the row, for the sample. */
static int set_size(const vprep *p, cJSON *row, const vb_choice *c)
{
    if (prompt_set_size(row, c))
        return -1;
    bool has_frames = cJSON_HasObjectItem(row, "num_frames") || !has_clips(p);
    return has_frames ? 0 : set_number(row, "num_frames", c->frames);
}

static bool texts_see(const vprep *p)
{
    return vprep_texts_see(p) == PREP_SEES_FIRST;
}

/* The folder of the list of prompts, to which its paths are relative. NULL: out of memory. */
static char *folder(const vprep *p)
{
    const char *list = p->c.validation_prompts;
    return vc_path_base(list) == list ? strdup(".")
                                      : vc_format("%.*s", (int)(vc_path_base(list) - list), list);
}

int prompt_find_file(prompt_picture *m, const vprep *p, int i, const char *column, vc_err *err)
{
    int rc = vf_json_str_opt(p->prompts.row[i], column, &m->name, err);

    if (rc || !m->name)
        return rc;
    char *dir = folder(p);
    if (dir)
        m->file = vc_path_join(dir, m->name);
    free(dir);
    return m->file ? 0 : vc_no_memory(err);
}

/* Checks that the row has the files that its other files, the texts or the model need. */
static int check_files(const vprep *p, const vprep_image *m, vc_err *err)
{
    if (!m->of[PROMPT_FIRST].file && (texts_see(p) || m->of[PROMPT_LAST].file))
        return vc_fail(err, VC_EFORMAT, "no %s: %s", columns[PROMPT_FIRST], m->of[PROMPT_LAST].file
                       ? "the sample begins with a picture too"
                       : "texts of this model have the clip's first frame");
    if (has_masks(p) && !(m->of[PROMPT_FIRST].file && m->of[PROMPT_MASK].file))
        return vc_fail(err, VC_EFORMAT, "no %s: each sample of this model needs a picture "
                       "(image_path) with a mask (mask_file_path); without --validation_prompts "
                       "vtrain samples captions of training beside their own pictures and masks",
                       m->of[PROMPT_FIRST].file ? "mask_file_path" : columns[PROMPT_FIRST]);
    if (edits_clips(p) && !m->of[PROMPT_CONTROL].file)
        return vc_fail(err, VC_EFORMAT, "no vace_video: a sample of VACE needs a clip to edit; "
                       "without --validation_prompts vtrain samples captions of training beside "
                       "their own clips and masks");
    if (p->encoders.ends && m->of[PROMPT_FIRST].file && !m->of[PROMPT_LAST].file)
        return vc_fail(err, VC_EFORMAT, "no %s: samples of this model begin and end with a picture",
                       columns[PROMPT_LAST]);
    return 0;
}

/* The references of a row: those of its columns, else the picture that the pipeline begins with. */
static int find_references(const vprep *p, int i, vprep_image *m, vc_err *err)
{
    vf_row *row = &m->row;
    char *dir = folder(p);
    int rc = dir ? vf_row_read_references(row, p->prompts.row[i], p->c.reference_column, dir, err)
                 : vc_no_memory(err);

    free(dir);
    if (!rc)
        rc = vprep_check_references(p, row, err);
    for (int k = 0; !rc && k < row->n_references; k++) {
        m->of[PROMPT_REFERENCE + k].name = row->references[k].path;
        m->of[PROMPT_REFERENCE + k].file = row->references[k].file;
        row->references[k].file = NULL;
    }
    if (rc || edits_clips(p))                    /* whose sizes are the clip's */
        return rc;
    if (!m->of[PROMPT_REFERENCE].file)
        rc = prompt_find_file(&m->of[PROMPT_REFERENCE], p, i, columns[PROMPT_FIRST], err);
    return rc ? rc : open_references(p, m, err);
}

/* The clip to edit and its mask, by DiffSynth-Studio's names too. */
static int find_clip(const vprep *p, int i, vprep_image *m, vc_err *err)
{
    prompt_picture *clip = &m->of[PROMPT_CONTROL], *over = &m->of[PROMPT_MASK];
    int rc = clip->file ? 0 : prompt_find_file(clip, p, i, "vace_video", err);
    return rc || over->file ? rc : prompt_find_file(over, p, i, "vace_video_mask", err);
}

static int find_image(vprep *p, int i, vc_err *err)
{
    const bool reads[PROMPT_PICTURES] = {
        [PROMPT_FIRST] = !vprep_takes_references(p),
        [PROMPT_LAST] = p->encoders.ends ||
                        (p->c.train_mode == PREP_INPAINT && !has_masks(p)),
        [PROMPT_CONTROL] = has_role(p, VC_ROLE_CONTROL) || edits_clips(p),
    };
    vprep_prompts *v = &p->prompts;
    vprep_image *m = v->image[i] = calloc(1, sizeof *m);
    int rc = m ? 0 : vc_no_memory(err);

    for (int k = 0; !rc && k < PROMPT_REFERENCE; k++)
        if (reads[k])
            rc = prompt_find_file(&m->of[k], p, i, columns[k], err);
    if (!rc && (has_masks(p) || edits_clips(p)))
        rc = prompt_find_file(&m->of[PROMPT_MASK], p, i, "mask_file_path", err);
    if (!rc && edits_clips(p))
        rc = find_clip(p, i, m, err);
    if (!rc)
        rc = check_files(p, m, err);
    if (!rc && vprep_takes_references(p))
        rc = find_references(p, i, m, err);
    if (rc || (m->of[PROMPT_REFERENCE].file && !edits_clips(p)))
        return rc;
    if (!m->of[PROMPT_FIRST].file && !m->of[PROMPT_CONTROL].file) {
        image_free(m);
        v->image[i] = NULL;
        return 0;
    }
    rc = open_image(p, v->row[i], m, err);
    if (!rc && edits_clips(p))
        rc = open_references(p, m, err);
    return rc || !set_size(p, v->row[i], &m->clip.choice) ? rc : vc_no_memory(err);
}

int vprep_prompt_images_find(vprep *p, vc_err *err)
{
    vprep_prompts *v = &p->prompts;
    int rc = 0;

    if ((!vprep_prompt_roles(p) && !texts_see(p) && !vprep_takes_references(p)) || !v->n)
        return 0;
    v->image = calloc((size_t)v->n, sizeof *v->image);
    if (!v->image)
        return vc_no_memory(err);
    for (int i = 0; !rc && i < v->n; i++)
        rc = vc_context(err, find_image(p, i, err), "--validation_prompts %s: row %d",
                        p->c.validation_prompts, i + 1);
    return rc;
}

void vprep_prompt_pictures_of(const vprep *p, int i, prep_pictures *is)
{
    const vprep_image *m = p->prompts.image ? p->prompts.image[i] : NULL;
    const prep_sees sees = vprep_texts_see(p);
    prep_look l;

    *is = (prep_pictures){ .n = sees == PREP_SEES_FIRST };
    if (sees == PREP_SEES_FIRST && m)
        is->key[0] = m->shown;
    for (int k = 0; sees == PREP_SEES_REFERENCES && m && k < VC_REFERENCES; k++) {
        if (!m->of[PROMPT_REFERENCE + k].file)
            break;
        vprep_look(p, &m->of[PROMPT_REFERENCE + k].size, &l);
        is->key[is->n++] = vprep_look_key(&l, m->of[PROMPT_REFERENCE + k].shown,
                                          m->of[PROMPT_REFERENCE + k].tonemap);
    }
}

unsigned vprep_prompt_values(const vprep *p, int i, const vf_key **key)
{
    const vprep_prompts *v = &p->prompts;
    const vprep_image *m = v->image ? v->image[i] : NULL;
    const unsigned control = VC_ROLE_BIT(VC_ROLE_CONTROL);

    unsigned references = 0;
    for (int k = 0; m && k < VC_REFERENCES; k++)
        references |= m->of[PROMPT_REFERENCE + k].file ? VC_ROLE_BIT(VC_ROLE_REFERENCE + k) : 0;
    *key = m ? m->key : NULL;
    if (m && edits_clips(p))
        return references | vprep_prompt_roles(p);
    if (references || !m)
        return references;
    return vprep_prompt_roles(p) & ((m->of[PROMPT_FIRST].file ? ~control : 0) |
                                    (m->of[PROMPT_CONTROL].file ? control : 0));
}

/* VC_ROLE_BITs of the values of row i's picture that are to be encoded. */
unsigned prompt_missing(const vprep *p, int i)
{
    const vf_key *key;
    unsigned values = vprep_prompt_values(p, i, &key), need = 0;

    for (int v = 0; v < VC_ROLES; v++)
        if (values & VC_ROLE_BIT(v) && !vf_writer_has_latent(p->writer, key[v]))
            need |= VC_ROLE_BIT(v);
    return need;
}

int vprep_prompt_images_settle(vprep *p, vb_choice *largest, unsigned *roles, vc_err *err)
{
    *roles = 0;
    for (int i = 0; i < p->prompts.n; i++) {
        const unsigned need = prompt_missing(p, i);
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
        *roles |= left ? need : 0;
    }
    return 0;
}

void vprep_prompt_images_free(vprep_prompts *v)
{
    for (int i = 0; v->image && i < v->n; i++)
        image_free(v->image[i]);
    free(v->image);
    v->image = NULL;
}

/* prompt_images_encode.c - reads the pictures of validation prompts, and encodes them before the
 * clips; see prompt_images.h */
#include "precompute/encode/prompt_images_parts.h"

#include <stdlib.h>
#include <string.h>

#include "precompute/encode/loss_mask.h"

int prompt_read_frames(const vprep_clip *clip, prompt_picture *m, uint8_t *rgb, int n, vc_err *err)
{
    const vb_choice *c = &clip->choice;
    const media_fit fit = { .rh = c->resize_h, .rw = c->resize_w, .top = c->top, .left = c->left,
                            .h = c->target_h, .w = c->target_w, .tonemap = m->tonemap };
    const vf_part part = { .name = m->file, .file = m->file };
    media *file;
    media_info info;
    int rc = media_open_part(&file, &part, &info, err);

    if (!rc && info.frames == 1)
        n = 1;
    if (!rc && info.frames < n)
        rc = vc_fail(err, VC_EMISMATCH, "%lld frames, the sample has %d: give a longer clip, or a "
                     "smaller num_frames", (long long)info.frames, n);
    if (!rc)
        rc = prep_read(file, rgb, clip->frames, n, &fit, c, info.h, info.w, err);
    if (!rc && prep_identity_check(&m->is, m->hash, media_fd(file), &part, err))
        rc = vc_fail(err, VC_EIO, "changed while this ran: run the same command again");
    media_close(file);
    return rc ? vc_context(err, rc, "%s", m->name) : n;
}

/* Reads the pictures into the first and the last of the clip's frames, and the control clip; or the
 * clip to edit into these frames. */
static int read_pixels(const vprep *p, prep_job *j, vprep_image *m, vc_err *err)
{
    const vb_choice *c = &j->clip.choice;
    const size_t frame = (size_t)c->target_h * (size_t)c->target_w * 3;
    prep_frames *to[PROMPT_REFERENCE] = { &j->pixels, &j->pixels,
        p->c.train_mode == VC_MODE_VACE ? &j->pixels : &j->control };
    int n = 0;

    for (int i = 0; n >= 0 && i < PROMPT_REFERENCE; i++) {
        if (!m->of[i].file)
            continue;
        if (!to[i]->range && !(to[i]->range = calloc((size_t)c->frames, frame)))
            return vc_fail(err, VC_ENOMEM, "out of memory for %d frames of %dx%d", c->frames,
                           c->target_w, c->target_h);
        to[i]->bytes = frame;
        to[i]->n = to[i]->count = c->frames;
        n = prompt_read_frames(&j->clip, &m->of[i],
                        to[i]->range + (i == PROMPT_LAST ? (size_t)(c->frames - 1) * frame : 0),
                        i == PROMPT_CONTROL ? c->frames : 1, err);
        if (i == PROMPT_CONTROL && n == 1)
            to[i]->n = to[i]->count = 1;
    }
    return n < 0 ? n : 0;
}

/* Reads the pixels of a mask that is a file. */
static int read_mask(prep_job *j, vprep_image *m, vc_err *err)
{
    mask *to = &j->clip.mask;
    const size_t n = (size_t)to->f * (size_t)to->h * (size_t)to->w;

    if (to->kind != MASK_FILE)
        return 0;
    uint8_t *rgb = malloc(3 * n);
    to->pixels = malloc(n);
    const int got = rgb && to->pixels ? prompt_read_frames(&j->clip, &m->of[PROMPT_MASK], rgb,
                                                           to->f, err) : vc_no_memory(err);
    to->n_pixels = got;
    if (got > 0)
        vprep_mask_of(to->pixels, rgb, n / (size_t)to->f * (size_t)got);
    free(rgb);
    return got < 0 ? got : 0;
}

int vprep_prompt_picture(const vprep *p, int i, uint8_t **rgb, int *h, int *w, vc_err *err)
{
    vprep_image *m = p->prompts.image[i];
    const vb_choice *c = &m->clip.choice;
    prep_job j = { .clip = m->clip };
    int rc = read_pixels(p, &j, m, err);

    *rgb = j.pixels.range;
    *h = c->target_h;
    *w = c->target_w;
    return rc;
}

int vprep_prompt_look(const vprep *p, int i, int k, uint8_t **rgb, text_picture *t, vc_err *err)
{
    prompt_picture *m = &p->prompts.image[i]->of[PROMPT_REFERENCE + k];
    int64_t first = 0;
    vprep_clip clip = { .frames = &first };
    prep_look l;

    vprep_look(p, &m->size, &l);
    clip.choice = l.read;
    *rgb = malloc((size_t)l.read.target_h * (size_t)l.read.target_w * 3);
    const int n = *rgb ? prompt_read_frames(&clip, m, *rgb, 1, err) : vc_no_memory(err);
    t->h = l.read.target_h;
    t->w = l.read.target_w;
    t->look_h = l.h;
    t->look_w = l.w;
    return n < 0 ? n : 0;
}

/* Puts the values of a job that was encoded, and frees the job. */
static int put_values(vprep *p, prep_job *j, int rc, uint64_t n, vc_err *err)
{
    for (int v = 0; !rc && v < VC_ROLES; v++)
        if (j->value[v])
            rc = vf_writer_put_latent(p->writer, j->key[v], j->value[v], j->value_bytes[v], err);
    p->count.conditions += n;
    prep_job_free(j);
    return rc;
}

/* Reads reference k into its job. */
static int read_reference(const vprep *p, prep_job *j, int k, vprep_image *image, vc_err *err)
{
    prompt_picture *m = &image->of[PROMPT_REFERENCE + k];
    vprep_clip *clip = j->reference[k].clip = calloc(1, sizeof *clip);
    prep_frames *to = &j->reference[k].pixels;

    if (!clip)
        return vc_no_memory(err);
    prompt_reference_clip(p, m, &image->clip.choice, clip);
    clip->frames = calloc(1, sizeof *clip->frames);
    to->bytes = (size_t)clip->choice.target_h * (size_t)clip->choice.target_w * 3;
    to->range = malloc(to->bytes);
    to->n = to->count = 1;
    if (!clip->frames || !to->range)
        return vc_no_memory(err);
    const int n = prompt_read_frames(clip, m, to->range, 1, err);
    return n < 0 ? n : 0;
}

static int encode_reference(vprep *p, prep_encoder *e, vprep_image *m, int k, vc_err *err)
{
    const int role = VC_ROLE_REFERENCE + k;
    prep_job *j = malloc(sizeof *j);
    uint64_t n = 0;

    if (!j)
        return vc_no_memory(err);
    prep_job_begin(j, NULL);
    j->need = VC_ROLE_BIT(role);
    j->key[role] = m->key[role];
    int rc = read_reference(p, j, k, m, err);
    if (!rc)
        rc = vc_context(err, prep_encode(e, j, &n, err), "%s", m->of[PROMPT_REFERENCE + k].name);
    return put_values(p, j, rc, n, err);
}

static int encode_references(vprep *p, prep_encoder *e, vprep_image *m, unsigned need, vc_err *err)
{
    int rc = 0;
    for (int k = 0; !rc && k < VC_REFERENCES; k++)
        if (need & VC_ROLE_BIT(VC_ROLE_REFERENCE + k))
            rc = encode_reference(p, e, m, k, err);
    return rc;
}

static int encode_image(vprep *p, prep_encoder *e, vprep_image *m, unsigned need, vc_err *err)
{
    int rc = m->of[PROMPT_REFERENCE].file ? encode_references(p, e, m, need, err) : 0;
    need &= ~VC_ROLES_REFERENCE;
    if (rc || !need)
        return rc;
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
    rc = read_pixels(p, j, m, err);
    if (!rc)
        rc = read_mask(j, m, err);
    if (!rc)
        rc = vc_context(err, prep_encode(e, j, &n, err), "%s",
                        m->of[m->of[PROMPT_FIRST].file ? PROMPT_FIRST : PROMPT_CONTROL].name);
    return put_values(p, j, rc, n, err);
}

int vprep_prompt_images_encode(vprep *p, prep_encoder *e, vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < p->prompts.n; i++) {
        const unsigned need = prompt_missing(p, i);
        rc = need ? encode_image(p, e, p->prompts.image[i], need, err) : 0;
    }
    return rc;
}

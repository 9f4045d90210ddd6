/* encoder_qwen_vl.c - prompts with reference pictures through Qwen2.5-VL (Bai et al. 2025), as
 * Qwen-Image-Edit reads them: see prompt.h.
 *
 *   tokens    template, for each picture rule.each with one <|image_pad|>, prompt, template
 *   encoded   the same, each <|image_pad|> replaced by the states of its picture
 *   stored    the states behind the first rule.crop tokens, those of pictures among them
 *
 * A text token stands at one place on all three axes of the rotations. A picture's states stand at
 * the place of the first on the axis of time, and at rows and columns counted from there on the
 * others; the text continues behind the greater side.
 *
 * A picture is brought to its size look_h x look_w by Lanczos' filter, as diffusers' pipelines do,
 * and then to the sides of the processor. */
#include <stdlib.h>
#include <string.h>

#include "precompute/text/llm.h"
#include "precompute/pictures/pillow.h"
#include "precompute/text/prompt.h"
#include "precompute/pictures/qwen_pictures.h"
#include "precompute/text/qwen_vision.h"

/* The states of a picture. */
typedef struct look {
    vf_key key;
    int rows, columns;                            /* 0: there are none */
    float *states;                                /* [rows * columns,width] */
} look;

typedef struct qwen_vl {
    llm *text;
    qwen_vision *vision;
    qwen_vision_info eye;
    qwen_pictures processor;
    int64_t image_id;                             /* of <|image_pad|> */
    int width, crop, rows;                        /* rows: states of a text, at most */
    look look[VC_REFERENCES];                     /* of the last text, for texts of the same
                                                   * pictures */
    int room;                                     /* tokens that the areas hold */
    int64_t *ids, *mask;                          /* [room] */
    int32_t *place;                               /* [3 * room] */
    float *states;                                /* [room,width] */
} qwen_vl;

/* ---- open and close ---- */

static const vf_config_row config_rows[] = {
    VF_INT(qwen_vl, image_id, "image_token_id", 151655, 0, 1 << 24), { 0 }
};

static int read_config(qwen_vl *m, const encoder_opts *o, vc_err *err)
{
    cJSON *json;
    int rc = text_config_open(&json, o, "qwen2_5_vl", err);

    if (!rc)
        rc = text_config_bad(o, vf_config_read(m, config_rows, json, err), err);
    cJSON_Delete(json);
    return rc;
}

static void close_model(void *model)
{
    qwen_vl *m = model;

    if (!m)
        return;
    llm_close(m->text);
    qwen_vision_close(m->vision);
    for (int i = 0; i < VC_REFERENCES; i++)
        free(m->look[i].states);
    free(m->ids);
    free(m->mask);
    free(m->place);
    free(m->states);
    free(m);
}

static int fingerprint_of(const qwen_vl *m, vf_key text, vf_key *out, vc_err *err)
{
    vf_hasher h;

    vf_hasher_begin(&h, "Qwen2.5-VL 1");
    vf_hasher_bytes(&h, "text", text.b, sizeof text.b);
    vf_hasher_bytes(&h, "vision", m->eye.fingerprint.b, sizeof m->eye.fingerprint.b);
    qwen_pictures_hash(&h, &m->processor);
    int rc = llm_hash_axes(m->text, &h, err);
    *out = vf_hasher_end(&h);
    return rc;
}

static int set_up(qwen_vl *m, const encoder_opts *o, text_info *info, vc_err *err)
{
    vf_key text = { { 0 } };
    int rc = read_config(m, o, err);

    if (!rc)
        rc = llm_open(&m->text, &llm_qwen2_5_vl, o, &text, err);
    if (!rc)
        rc = qwen_vision_open(&m->vision, o, &m->eye, err);
    if (!rc)
        rc = qwen_pictures_open(&m->processor, o->image_processor, m->eye.patch, m->eye.merge, err);
    if (!rc)
        rc = text_config_bad(o, fingerprint_of(m, text, &info->fingerprint, err), err);
    if (rc)
        return rc;
    m->width = info->width = llm_width(m->text);
    m->crop = o->text.crop;
    m->rows = info->rows = o->text.max_length + o->text.picture_rows;
    if (m->eye.width == m->width)
        return 0;
    return vc_fail(err, VC_EFORMAT, "%s/config.json: out_hidden_size: %d, but the text's states "
                   "are %d wide", o->dir, m->eye.width, m->width);
}

static int open_model(void **model, const void *kind, const encoder_opts *o, text_info *info,
                      vc_err *err)
{
    (void)kind;
    qwen_vl *m = calloc(1, sizeof *m);
    int rc = m ? set_up(m, o, info, err) : vc_no_memory(err);

    if (rc)
        close_model(m);
    *model = rc ? NULL : m;
    return rc;
}

static int count_pads(const qwen_vl *m, const text_ids *t)
{
    int n = 0;
    for (int i = 0; i < t->n; i++)
        n += t->id[i] == m->image_id;
    return n;
}

/* The empty prompt with one picture has one <|image_pad|>, whose id config.json knows. */
static int check(void *model, const text_tokens *t, vc_err *err)
{
    const qwen_vl *m = model;
    int rc = text_ids_known(t->ids, llm_vocab(m->text), err);

    if (rc || count_pads(m, t->ids) == 1)
        return rc;
    return vc_fail(err, VC_EMISMATCH, "no token of a text with a picture is <|image_pad|>, id %lld "
                   "(image_token_id of the text encoder's config.json): give the tokenizer that "
                   "this model was trained with, with all its special tokens",
                   (long long)m->image_id);
}

/* ---- pictures ---- */

/* Encodes the picture rgb [h,w,3]. */
static int see(qwen_vl *m, look *l, const uint8_t *rgb, int h, int w, vc_err *err)
{
    int to_h = 0, to_w = 0, rc = qwen_pictures_size(&m->processor, h, w, &to_h, &to_w, err);

    if (rc)
        return rc;
    const int rows = to_h / m->processor.side, columns = to_w / m->processor.side;
    float *pixels = malloc((size_t)to_h * (size_t)to_w * 3 * sizeof *pixels);
    free(l->states);
    l->states = malloc((size_t)rows * (size_t)columns * (size_t)m->width * sizeof *l->states);
    rc = pixels && l->states ? qwen_pictures_run(&m->processor, rgb, h, w, to_h, to_w, pixels, err)
                             : vc_no_memory(err);
    if (!rc)
        rc = qwen_vision_encode(m->vision, pixels, to_h, to_w, l->states, err);
    free(pixels);
    l->rows = rc ? 0 : rows;
    l->columns = columns;
    return rc;
}

/* Makes the states of a picture, unless they are there. */
static int look_at(qwen_vl *m, look *l, const text_picture *p, vc_err *err)
{
    const int h = p->look_h ? p->look_h : p->h, w = p->look_w ? p->look_w : p->w;
    const pillow_axis y = { p->h, h, 0, h }, x = { p->w, w, 0, w };

    if (l->rows && !memcmp(&l->key, &p->key, sizeof p->key))
        return 0;
    l->rows = 0;
    l->key = p->key;
    uint8_t *rgb = malloc((size_t)h * (size_t)w * 3);
    int rc = rgb ? pillow_resize(rgb, p->rgb, &y, &x, PILLOW_LANCZOS, err) : vc_no_memory(err);

    if (!rc)
        rc = see(m, l, rgb, h, w, err);
    free(rgb);
    return rc;
}

/* ---- a text ---- */

static int make_room(qwen_vl *m, int tokens, vc_err *err)
{
    const size_t n = (size_t)tokens;

    if (tokens <= m->room)
        return 0;
    free(m->ids);
    free(m->mask);
    free(m->place);
    free(m->states);
    m->ids = malloc(n * sizeof *m->ids);
    m->mask = malloc(n * sizeof *m->mask);
    m->place = malloc(3 * n * sizeof *m->place);
    m->states = malloc(n * (size_t)m->width * sizeof *m->states);
    m->room = m->ids && m->mask && m->place && m->states ? tokens : 0;
    return m->room ? 0 : vc_no_memory(err);
}

/* Puts token `id` at n, at the places at[3]. */
static void put(qwen_vl *m, int n, int total, int64_t id, int t, int y, int x)
{
    m->ids[n] = id;
    m->mask[n] = 1;
    m->place[n] = t;
    m->place[total + n] = y;
    m->place[2 * total + n] = x;
}

/* Writes the tokens, each <|image_pad|> as often as its picture has states, and the ranges of
 * these; total is the number of tokens. */
static void expand(qwen_vl *m, const text_ids *t, int total, llm_given given[VC_REFERENCES])
{
    int n = 0, at = 0, k = 0;

    for (int i = 0; i < t->n; i++) {
        const look *l = &m->look[k];
        if (t->id[i] != m->image_id) {
            put(m, n++, total, t->id[i], at, at, at);
            at++;
            continue;
        }
        given[k++] = (llm_given){ l->states, n, l->rows * l->columns };
        for (int c = 0; c < l->rows * l->columns; c++)
            put(m, n++, total, t->id[i], at, at + c / l->columns, at + c % l->columns);
        at += l->rows > l->columns ? l->rows : l->columns;
    }
}

/* The tokens of the text with all states of its pictures. */
static int total_of(const qwen_vl *m, const text_tokens *t)
{
    int n = t->ids->n - t->pictures;
    for (int k = 0; k < t->pictures; k++)
        n += m->look[k].rows * m->look[k].columns;
    return n;
}

static int check_prompt(const qwen_vl *m, const text_tokens *t, vc_err *err)
{
    if (count_pads(m, t->ids) != t->pictures)
        return vc_fail(err, VC_EINVAL, "the prompt holds <|image_pad|>, which stands for a "
                       "reference picture: take the word out of the caption");
    if (t->ids->n < t->length)
        return 0;
    return vc_fail(err, VC_EINVAL, "the prompt has %d tokens or more, and this model's texts are "
                   "not cut: shorten the caption, or give a longer --tokenizer_max_length",
                   t->length - m->crop);
}

static int choose(void *model, const text_tokens *t, text_result *r, vc_err *err)
{
    qwen_vl *m = model;
    llm_given given[VC_REFERENCES] = { { 0 } };
    int rc = check_prompt(m, t, err);

    for (int k = 0; !rc && k < t->pictures; k++)
        rc = vc_context(err, look_at(m, &m->look[k], &t->picture[k], err), "picture %d", k + 1);
    const int n = rc ? 0 : total_of(m, t);
    if (!rc && n - m->crop > m->rows)
        rc = vc_fail(err, VC_EINVAL, "the prompt and its pictures have %d states, of %d that a "
                     "text may have: give smaller pictures, or a longer --tokenizer_max_length",
                     n - m->crop, m->rows);
    if (!rc)
        rc = make_room(m, n, err);
    if (rc)
        return rc;
    expand(m, t->ids, n, given);
    const text_ids all = { m->ids, n, 0, 0 };
    rc = t->pictures ? llm_encode_with(m->text, &all, given, t->pictures, m->place, m->states, err)
                     : llm_encode(m->text, &all, 1, m->states, err);
    *r = (text_result){ .n = n - m->crop, .width = m->width, .length = n, .ids = m->ids,
                        .mask = m->mask, .embeds = m->states + (size_t)m->crop * (size_t)m->width };
    return rc;
}

const text_model text_model_qwen_vl = {
    .class = "Qwen2_5_VLForConditionalGeneration", .masked = true, .open = open_model,
    .close = close_model, .check = check, .choose = choose
};

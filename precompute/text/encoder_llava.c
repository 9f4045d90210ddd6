/* encoder_llava.c - prompts with a picture through a LLaVA (Liu et al. 2023), as HunyuanVideo's
 * image-to-video models read them: see prompt.h.
 *
 *   tokens    BOS, system header, <image>, instructions, user header | prompt | assistant header
 *   encoded   the same, <image> replaced by the picture's patches: CLIP's states before its last
 *             layer, without the class token, through a projector
 *   stored    every interleave-th state of the patches, then the states behind the template's head
 *             without the four last tokens up to the assistant's <|end_header_id|>
 *
 * A text without a picture has a black one, as diffusers gives to negative prompts. */
#include <stdlib.h>
#include <string.h>

#include "precompute/text/clip_vision.h"
#include "precompute/pictures/image_processor.h"
#include "precompute/text/llm.h"
#include "precompute/text/prompt.h"
#include "precompute/text/stack.h"

enum { HEADERS = 3,                               /* the template's <|end_header_id|>s */
       HEADER_TOKENS = 4,                         /* up to the assistant's, which are not stored */
       BEHIND_HEADER = 2 };                       /* tokens from there to the end */

typedef struct llava {
    llm *text;
    clip_vision *vision;
    clip_vision_info eye;
    image_processor processor;
    text_stack s;                                 /* of the projector */
    vt_lin up, out;
    int64_t image_id, end_header, pad;            /* of <image>, <|end_header_id|>, padding */
    int patches, width, crop, interleave, length; /* length: tokens, with the padding */
    int pads;                                     /* tokens of the template that are padding's */
    vf_key picture;                               /* that `features` are of */
    bool has_picture;
    float *pixels, *seen, *features;              /* [side,side,3], [patches+1,eye.width],
                                                   * [patches,width] */
    int64_t *ids, *mask;                          /* [length + patches - 1] */
    float *states, *rows;                         /* [length + patches - 1,width] both */
} llava;

/* ---- config.json and weights ---- */

typedef struct config {
    int64_t image_id;
} config;

static const vf_config_row config_rows[] = {
    VF_ONLY("model_type", "llava", NULL),
    VF_INT(config, image_id, "image_token_index", 32000, 0, 1 << 24),
    VF_ONLY("projector_hidden_act", "gelu", "gelu"),
    VF_ONLY("vision_feature_select_strategy", "default", "default"),
    VF_ONLY_INT("vision_feature_layer", -2),
    VF_ONLY_FLAG("multimodal_projector_bias", true),
    { 0 }
};

enum { D = -1, EYE = -2, N_SIZES = 3 };

static const vt_weight table[] = {
    { "multi_modal_projector.linear_1", VT_W_LINEAR, offsetof(llava, up), { D, EYE },
      VT_INIT_ZERO },
    { "multi_modal_projector.linear_2", VT_W_LINEAR, offsetof(llava, out), { D, D }, VT_INIT_ZERO },
    { 0 }
};

static int read_config(llava *m, const encoder_opts *o, vc_err *err)
{
    config c;
    cJSON *json;
    int rc = text_config_open(&json, o, "llava", err);

    if (!rc)
        rc = text_config_bad(o, vf_config_read(&c, config_rows, json, err), err);
    cJSON_Delete(json);
    m->image_id = rc ? -1 : c.image_id;
    return rc;
}

static int bind_projector(llava *m, const encoder_opts *o, vc_err *err)
{
    static const char newer[] = "model.";
    const int64_t sizes[N_SIZES] = { 0, m->width, m->eye.width };
    vf_view v;
    int rc = text_stack_open(&m->s, o, false, err);

    if (rc)
        return rc;
    const vt_source src = vf_model_source(m->s.model);
    bool older = vf_model_get(m->s.model, "multi_modal_projector.linear_1.weight", &v, NULL) == 0;
    rc = vt_params_bind(m->s.p, table, older ? "" : newer, 0, m, sizes, &src, err);
    return vc_context(err, rc, "%s", o->dir);
}

/* ---- open and close ---- */

static void close_model(void *model)
{
    llava *m = model;

    if (!m)
        return;
    llm_close(m->text);
    clip_vision_close(m->vision);
    text_stack_close(&m->s);
    free(m->pixels);
    free(m->seen);
    free(m->features);
    free(m->ids);
    free(m->mask);
    free(m->states);
    free(m->rows);
    free(m);
}

static int make_areas(llava *m, vc_err *err)
{
    const size_t n = (size_t)(m->length + m->patches - 1), width = (size_t)m->width;
    const size_t side = (size_t)m->eye.size;

    m->pixels = malloc(side * side * 3 * sizeof *m->pixels);
    m->seen = malloc((size_t)m->eye.tokens * (size_t)m->eye.width * sizeof *m->seen);
    m->features = malloc((size_t)m->patches * width * sizeof *m->features);
    m->ids = malloc(n * sizeof *m->ids);
    m->mask = malloc(n * sizeof *m->mask);
    m->states = malloc(n * width * sizeof *m->states);
    m->rows = malloc(n * width * sizeof *m->rows);
    return m->pixels && m->seen && m->features && m->ids && m->mask && m->states && m->rows
               ? 0 : vc_no_memory(err);
}

static vf_key fingerprint_of(const llava *m, vf_key text)
{
    vf_hasher h;

    vf_hasher_begin(&h, "LLaVA 1");
    vf_hasher_bytes(&h, "text", text.b, sizeof text.b);
    vf_hasher_bytes(&h, "vision", m->eye.fingerprint.b, sizeof m->eye.fingerprint.b);
    image_processor_hash(&h, &m->processor);
    return vf_hasher_end(&h);
}

static int set_up(llava *m, const encoder_opts *o, text_info *info, vc_err *err)
{
    const text_rule *rule = &o->text;
    vf_key text;

    if (rule->interleave < 1)
        return vc_fail(err, VC_EINVAL, "LlavaForConditionalGeneration: its texts have pictures, "
                       "and the number of their states (interleave) is not known");
    int rc = read_config(m, o, err);
    if (!rc)
        rc = llm_open(&m->text, &llm_llava, o, &text, err);
    if (!rc)
        rc = clip_vision_open(&m->vision, o, 1, &m->eye, err);
    if (!rc)
        rc = image_processor_open(&m->processor, o->image_processor, m->eye.size, false, err);
    if (rc)
        return rc;
    m->patches = m->eye.tokens - 1;
    m->width = llm_width(m->text);
    m->crop = rule->crop;
    m->interleave = rule->interleave;
    m->length = rule->max_length + rule->crop;
    info->width = m->width;
    info->rows = (m->patches + m->interleave - 1) / m->interleave +
                 (rule->max_length > HEADER_TOKENS ? rule->max_length - HEADER_TOKENS : 0);
    info->fingerprint = fingerprint_of(m, text);
    rc = bind_projector(m, o, err);
    return rc ? rc : make_areas(m, err);
}

static int open_model(void **model, const void *kind, const encoder_opts *o, text_info *info,
                      vc_err *err)
{
    (void)kind;
    llava *m = calloc(1, sizeof *m);
    if (!m)
        return vc_fail(err, VC_ENOMEM, "LlavaForConditionalGeneration: out of memory");

    int rc = set_up(m, o, info, err);
    if (rc)
        close_model(m);
    *model = rc ? NULL : m;
    return rc;
}

static int count(const text_tokens *t, int64_t id, int *last)
{
    int n = 0;

    for (int i = 0; i < t->ids->n; i++)
        if (t->ids->id[i] == id) {
            *last = i;
            n++;
        }
    return n;
}

/* The empty prompt has one <image>, whose id config.json knows, and three <|end_header_id|>s, the
 * last of which is the second token from the end. */
static int check(void *model, const text_tokens *t, vc_err *err)
{
    llava *m = model;
    int at;
    int rc = text_ids_known(t->ids, llm_vocab(m->text), err);

    if (rc)
        return rc;
    if (count(t, m->image_id, &at) != 1)
        return vc_fail(err, VC_EMISMATCH, "no token of the template is <image>, id %lld "
                       "(image_token_index of the text encoder's config.json): give the tokenizer "
                       "that this model was trained with, with all its special tokens",
                       (long long)m->image_id);
    m->end_header = t->ids->n > BEHIND_HEADER ? t->ids->id[t->ids->n - BEHIND_HEADER] : -1;
    if (count(t, m->end_header, &at) != HEADERS)
        return vc_fail(err, VC_EMISMATCH, "the template's three headers do not end with one token "
                       "<|end_header_id|>: give the tokenizer that this model was trained with, "
                       "with all its special tokens");
    m->pad = t->ids->n < t->length ? t->ids->id[t->ids->n] : -1;
    m->pads = count(t, m->pad, &at);
    return 0;
}

/* ---- the picture ---- */

/* seen [patches,eye.width] -> features [patches,width] */
static int project(llava *m, vc_err *err)
{
    vt_ctx *g = m->s.g;
    const int64_t dim[3] = { 1, m->patches, m->eye.width };

    vt_step_begin(g, 0);
    vt_tensor *x = vt_from_host(g, VC_F32, 3, dim, m->seen + m->eye.width, VC_F32);
    x = vt_gelu_erf(g, vt_linear(g, vt_cast(g, x, vt_compute(g)), &m->up));
    return text_stack_end(&m->s, vt_linear(g, x, &m->out), m->features, err);
}

/* Fills `features`, unless they are those of this picture: captions of a clip share one. */
static int look(llava *m, const text_picture *picture, vc_err *err)
{
    static const uint8_t dot[3];
    static const text_picture black = { .h = 1, .w = 1, .rgb = dot };
    const text_picture *p = picture ? picture : &black;

    if (m->has_picture && !memcmp(&m->picture, &p->key, sizeof p->key))
        return 0;
    m->has_picture = false;
    int rc = image_processor_run(&m->processor, p->rgb, p->h, p->w, m->pixels, err);
    if (!rc)
        rc = clip_vision_encode(m->vision, m->pixels, m->seen, NULL, err);
    if (!rc)
        rc = project(m, err);
    m->has_picture = !rc;
    m->picture = p->key;
    return rc;
}

/* ---- a text ---- */

/* Fills ids and mask with the tokens, <image> as often as there are patches. */
static void expand(llava *m, const text_tokens *t, int image)
{
    const int more = m->patches - 1;

    for (int i = 0; i < m->length + more; i++) {
        const int from = i < image ? i : i < image + m->patches ? image : i - more;
        m->ids[i] = t->ids->id[from];
        m->mask[i] = from < t->ids->n;
    }
}

/* *end: the token behind the last header, which is the assistant's; of a prompt that is cut before
 * that header, the end of all tokens. As in diffusers, a caption's own <|end_header_id|> counts
 * where the text behind it is cut. */
static int find_header(const llava *m, const text_tokens *t, int *end, vc_err *err)
{
    int last = 0, n = count(t, m->end_header, &last);

    *end = n < HEADERS ? t->length : last + 1;
    if (*end - HEADER_TOKENS >= m->crop)
        return 0;
    return vc_fail(err, VC_EINVAL, "the prompt begins with <|end_header_id|>, which ends the "
                   "template's headers: take the word out of the caption");
}

/* Copies the stored states; `end` is the end of the assistant's header. */
static void choose_rows(const llava *m, const text_tokens *t, int image, int end, text_result *r)
{
    const size_t row = (size_t)m->width, bytes = row * sizeof *m->rows;
    const int more = m->patches - 1;
    int n = 0;

    for (int i = 0; i < m->patches; i += m->interleave)
        memcpy(m->rows + row * (size_t)n++, m->states + row * (size_t)(image + i), bytes);
    for (int i = m->crop; i < t->ids->n; i++)
        if (i < end - HEADER_TOKENS || i >= end)
            memcpy(m->rows + row * (size_t)n++, m->states + row * (size_t)(i + more), bytes);
    r->n = n;
    r->width = m->width;
    r->embeds = m->rows;
}

static int choose(void *model, const text_tokens *t, text_result *r, vc_err *err)
{
    llava *m = model;
    int image = 0, at, end;

    if (count(t, m->image_id, &image) != 1)
        return vc_fail(err, VC_EINVAL, "the prompt holds <image>, which stands for the clip's "
                       "first frame: take the word out of the caption");
    if (count(t, m->pad, &at) != m->pads)
        return vc_fail(err, VC_EINVAL, "the prompt holds the token that pads texts (<pad>), which "
                       "hides it from the text encoder: take the word out of the caption");
    int rc = find_header(m, t, &end, err);
    if (!rc)
        rc = look(m, t->picture, err);
    expand(m, t, image);
    const text_ids all = { m->ids, t->ids->n + m->patches - 1, 0, 0 };
    if (!rc)
        rc = llm_encode_with(m->text, &all, &(llm_given){ m->features, image, m->patches }, 1, NULL,
                             m->states, err);
    if (rc)
        return rc;
    *r = (text_result){ .length = m->length + m->patches - 1, .ids = m->ids, .mask = m->mask,
                        .side = m->eye.size, .features = m->patches, .pixels = m->pixels,
                        .image_embeds = m->features };
    choose_rows(m, t, image, end, r);
    return 0;
}

static const text_model model = {
    .class = "LlavaForConditionalGeneration", .masked = true, .open = open_model,
    .close = close_model, .check = check, .choose = choose
};

const text_class text_llava = { "LlavaForConditionalGeneration", &model, NULL };

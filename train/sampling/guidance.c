/* guidance.c - see guidance.h */
#include "train/sampling/guidance.h"

#include <math.h>
#include <string.h>

#include "train/sampling/pictures.h"
#include "train/sampling/skipped.h"

/* The token that element i of a sample belongs to. */
static size_t token_of(const sampling *s, size_t i)
{
    const size_t f = (size_t)s->dim[2], h = (size_t)s->dim[3], w = (size_t)s->dim[4];
    const size_t p[3] = { (size_t)s->patch[0], (size_t)s->patch[1], (size_t)s->patch[2] };
    const size_t frame = i / (h * w) % f / p[0], row = i / w % h / p[1], column = i % w / p[2];
    return (frame * (h / p[1]) + row) * (w / p[2]) + column;
}

/* Adds the squares of a prediction's elements to the sums of their tokens: which is 0 for the
 * prompt's, 1 for the guided one. */
static void add_squares(sampling *s, int which)
{
    for (size_t i = 0; s->norm && i < s->n; i++)
        s->norm[2 * token_of(s, i) + (size_t)which] += (double)s->out[i] * (double)s->out[i];
}

/* Guides the prompt's prediction, the first row of s->out, by the negative prompt's, the second.
 * With s->norm each token then gets the norm of the prompt's prediction. */
static void guide(sampling *s, double weight, double rescale)
{
    float *out = s->out;
    if (s->norm)
        memset(s->norm, 0, 2 * s->tokens * sizeof *s->norm);
    add_squares(s, 0);
    vtrain_guide(out, out + s->n, s->n, weight, rescale);
    add_squares(s, 1);
    for (size_t i = 0; s->norm && i < s->n; i++) {
        const double *norm = s->norm + 2 * token_of(s, i);
        if (norm[1] > 0)
            out[i] *= (float)sqrt(norm[0] / norm[1]);
    }
}

/* The texts of one forward, from a prompt on. */
static void texts_from(vtrain_text text[VTRAIN_TEXTS], const sampling *s, int prompt)
{
    for (int i = 0; i < VTRAIN_TEXTS; i++) {
        vtrain_text *t = &text[i];
        *t = s->text[i];
        t->length += t->length ? prompt : 0;
        t->embeds += t->embeds ? prompt * t->n * t->width : 0;
        t->pooled += t->pooled ? prompt * t->pooled_width : 0;
    }
}

/* The texts of a forward without a prompt. */
static void no_texts(vtrain_text text[VTRAIN_TEXTS], sampling *s)
{
    for (int i = 0; i < VTRAIN_TEXTS; i++)
        text[i] = s->no_text[i] ? (vtrain_text){ .n = 1, .width = s->text[i].width,
                                                 .embeds = s->no_text[i], .length = &s->no_length }
                                : (vtrain_text){ 0 };
}

/* The question for s->in with these texts. */
static vtrain_question question_of(sampling *s, const vtrain_level *l, const vtrain_text *text)
{
    return (vtrain_question){
        .dim = s->dim, .x = s->in, .level = l, .clean_first = s->first && !s->paced,
        .paced = s->paced, .guidance = s->input, .fps = s->p.fps, .control_kind = s->p.control_kind,
        .text = text, .roles = sampling_roles(s), .cond = s->cond, .own = &s->p.own,
    };
}

/* Writes the predictions for all prompts to s->out, by one forward or by one for each. */
static int forward(sampling *s, vtrain *t, const vtrain_level *l, vc_err *err)
{
    vtrain_text text[VTRAIN_TEXTS], prompt[VTRAIN_TEXTS];
    int rc = 0;
    texts_from(prompt, s, 0);
    for (int64_t row = 0; row < s->dim[0]; row++)
        memcpy(s->in + (size_t)row * s->n, s->x, sizeof(float) * s->n);
    vtrain_question q = question_of(s, l, text);
    q.prompt = t->cfg.controlnet && s->prompts > 1 ? prompt : NULL;
    for (int i = 0; !rc && i < s->prompts; i += (int)s->dim[0]) {
        if (s->unprompted && i) {
            no_texts(text, s);
            q.model = t->model.unconditional.dit;
        } else {
            texts_from(text, s, i);
        }
        heard_ask(&s->heard, &q, i);
        vtrain_watch_forward(s->w, i / (int)s->dim[0], s->prompts / (int)s->dim[0]);
        rc = vtrain_predict(t, &q, s->out + (size_t)i * s->n, err);
        vtrain_watch_end(s->w);
    }
    return rc;
}

/* Whether step i has the guidance of the family's last steps, as its pipeline chooses it where
 * nobody gives a guidance. */
static bool is_end(const sampling *s, const vtrain *t, int i)
{
    enum { PARTS = 16 };
    return t->model.family->guidance_end > 0 && !t->validation.own_guidance &&
           !s->p.has_guidance && !t->cfg.guidance_schedule && i >= s->steps - s->steps / PARTS;
}

/* The weight of a guidance in step i. */
static double weight_at(const sampling *s, const vtrain_config *c, double scale, int i)
{
    return vtrain_guidance((vtrain_guiding)c->guidance_schedule, scale, (int)c->guidance_power, i,
                           s->steps, s->step[i].t);
}

/* Makes `more` [n] what the blocks of s->skipped do to the prompt's prediction, times the weight of
 * that. */
static int ask_skipped(sampling *s, vtrain *t, const vtrain_level *l, float *more, vc_err *err)
{
    const float weight = (float)t->cfg.skip_layer_guidance_scale;
    const int64_t dim[5] = { 1, s->dim[1], s->dim[2], s->dim[3], s->dim[4] };
    vtrain_text text[VTRAIN_TEXTS];
    texts_from(text, s, 0);
    vtrain_question q = question_of(s, l, text);
    q.dim = dim;
    q.skip = s->skipped;
    int rc = vtrain_predict(t, &q, more, err);
    for (size_t i = 0; !rc && i < s->n; i++)
        more[i] = (s->out[i] - more[i]) * weight;
    return rc;
}

int sampling_predict(sampling *s, vtrain *t, const vtrain_level *l, int i, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    float *more = s->skipped && sampling_skips(c, i, s->steps) ? s->out + 2 * s->n : NULL;
    int rc = forward(s, t, l, err);
    if (!rc && more)
        rc = ask_skipped(s, t, l, more, err);
    if (rc || s->prompts < 2)
        return rc;
    guide(s, is_end(s, t, i) ? t->model.family->guidance_end : weight_at(s, c, s->scale, i),
          c->guidance_rescale);
    for (size_t k = 0; more && k < s->n; k++)
        s->out[k] += more[k];
    heard_guide(&s->heard, weight_at(s, c, s->sound_scale, i), c->guidance_rescale);
    return 0;
}

/* prompt.c - tokens, states and keys of prompts: see prompt.h */
#include "precompute/text/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/metadata/metadata.h"
#include "precompute/text/clean.h"
#include "precompute/tokenizer/tokenizer.h"

enum { MAX_TOKENS = 1 << 15 };

struct text_enc {
    const text_model *kind;
    void *model;
    tokenizer *tok;                               /* NULL: kind->words makes the tokens */
    tokenizer *scenes;                            /* with scene tokens; NULL: not needed yet */
    char *tokenizer;                              /* folder of both */
    text_rule rule;
    int length, width, pooled_width;              /* length includes the cropped tokens */
    int64_t *ids, *mask;                          /* [length] */
    float *states, *pooled;                       /* [length,width], [pooled_width] or NULL */
};

/* ---- tokens ---- */

/* The prompt, cleaned if the rule asks for it, in place of the template's "{}", or alone where
 * there is no template. The caller frees the result; NULL: out of memory. */
static char *in_template(const text_rule *rule, const char *prompt)
{
    const char *at = rule->template ? strstr(rule->template, "{}") : NULL;
    char *clean = rule->clean ? text_clean(prompt) : NULL;
    const char *text = rule->clean ? clean : prompt;
    char *whole = !text ? NULL
                  : at ? vc_format("%.*s%s%s", (int)(at - rule->template), rule->template, text,
                                   at + 2)
                       : vc_format("%s", text);

    free(clean);
    return whole;
}

static bool has_scenes(const text_rule *rule, const char *prompt)
{
    return rule->scenes && (strstr(prompt, VF_SCENE_START) || strstr(prompt, VF_SCENE_END));
}

/* Opens the tokenizer again with the scene tokens behind its own, in the order in which ttt-video
 * adds them, and checks that the model has states for their ids. */
static int open_scenes(text_enc *t, vc_err *err)
{
    static const char *const tokens[] = { VF_SCENE_END, VF_SCENE_START, NULL };
    int n = 0, rc = tokenizer_open_with(&t->scenes, t->tokenizer, tokens, err);

    if (!rc)
        rc = tokenizer_prompt(t->scenes, VF_SCENE_END VF_SCENE_START, t->length, t->ids, t->mask,
                              &n, err);
    const text_tokens ids = { "", NULL, t->kind->masked ? n : t->length, t->ids, t->length };
    if (!rc && t->kind->check)
        rc = t->kind->check(t->model, &ids, err);
    return vc_context(err, rc, "%s: the tokens " VF_SCENE_END " and " VF_SCENE_START,
                      t->tokenizer);
}

/* Fills t->ids and t->mask; *n is the number of tokens before the padding. */
static int tokens_of(text_enc *t, const char *text, int *n, vc_err *err)
{
    const bool scenes = t->tok && has_scenes(&t->rule, text);
    int rc = scenes && !t->scenes ? open_scenes(t, err) : 0;

    if (rc)
        return rc;
    if (t->tok)
        return tokenizer_prompt(scenes ? t->scenes : t->tok, text, t->length, t->ids, t->mask, n,
                                err);
    t->kind->words(text, t->length, t->ids, t->mask);
    for (*n = t->length; *n > 0 && !t->mask[*n - 1];)
        --*n;
    return 0;
}

/* Fills t->ids and t->mask for the prompt in its template: see tokens_of. */
static int tokens_of_prompt(text_enc *t, const char *prompt, int *n, vc_err *err)
{
    char *text = in_template(&t->rule, prompt);
    int rc = text ? tokens_of(t, text, n, err) : vc_no_memory(err);

    free(text);
    return rc;
}

/* Checks the number of cropped tokens: the empty prompt and another prompt must begin with the same
 * tokens, those of the template in front of a prompt, and rule.crop must be their number. t->ids
 * holds the n tokens of the empty prompt before and after. */
static int check_crop(text_enc *t, int n, vc_err *err)
{
    size_t bytes = (size_t)t->length * sizeof *t->ids;
    int64_t *empty = malloc(bytes);
    int same = 0;
    if (!empty)
        return vc_no_memory(err);

    memcpy(empty, t->ids, bytes);
    int rc = tokens_of_prompt(t, "a", &n, err);
    while (!rc && same < n && empty[same] == t->ids[same])
        same++;
    memcpy(t->ids, empty, bytes);
    free(empty);
    if (rc || same == t->rule.crop)
        return rc;
    return vc_fail(err, VC_EMISMATCH, "this tokenizer makes %d tokens of the template in front of "
                   "a prompt, not %d: give the tokenizer that this model was trained with, with "
                   "all its special tokens", same, t->rule.crop);
}

/* Fails where the tokens of the empty prompt show that the tokenizer is not the model's. */
static int check_tokens(text_enc *t, vc_err *err)
{
    int n = 0;
    int rc = tokens_of_prompt(t, "", &n, err);

    if (!rc && t->rule.crop)
        rc = check_crop(t, n, err);
    if (!rc && t->kind->check) {
        const text_tokens tokens = { "", NULL, t->kind->masked ? n : t->length, t->ids, t->length };
        rc = t->kind->check(t->model, &tokens, err);
    }
    return rc;
}

/* ---- open and close ---- */

void text_prompt_close(text_enc *t)
{
    if (!t)
        return;
    t->kind->close(t->model);
    tokenizer_close(t->tok);
    tokenizer_close(t->scenes);
    free(t->tokenizer);
    free(t->ids);
    free(t->mask);
    free(t->states);
    free(t->pooled);
    free(t);
}

static int make_areas(text_enc *t, vc_err *err)
{
    size_t n = (size_t)t->length;

    t->ids = calloc(n, sizeof *t->ids);
    t->mask = calloc(n, sizeof *t->mask);
    const bool states = t->width && t->kind->encode;
    t->states = states ? calloc(n, (size_t)t->width * sizeof *t->states) : NULL;
    t->pooled = t->pooled_width ? calloc((size_t)t->pooled_width, sizeof *t->pooled) : NULL;
    if (!t->ids || !t->mask || (states && !t->states) || (t->pooled_width && !t->pooled))
        return vc_fail(err, VC_ENOMEM, "%s: out of memory for %d tokens", t->kind->class,
                       t->length);
    return 0;
}

static int set_up(text_enc *t, const encoder_opts *o, text_info *info, vc_err *err)
{
    const text_rule *rule = &info->rule;
    int rc = t->kind->words ? 0 : tokenizer_open(&t->tok, o->tokenizer, err);

    if (!rc)
        rc = t->kind->open(&t->model, o, info, err);
    if (rc)
        return rc;
    if (rule->pooled_only && !info->pooled)
        return vc_fail(err, VC_EINVAL, "%s has no pooled state, and the transformer reads nothing "
                       "else from this text encoder's slot", t->kind->class);
    if (t->tok)
        info->tokenizer = tokenizer_fingerprint(t->tok);
    if (!info->rows)
        info->rows = rule->max_length;
    info->padded = !t->kind->masked && !t->kind->choose && !rule->masked;
    t->rule = *rule;
    t->length = rule->max_length + rule->crop;
    t->width = info->width;
    t->pooled_width = info->pooled;
    rc = make_areas(t, err);
    return rc ? rc : vc_context(err, check_tokens(t, err), "%s: %s", t->kind->class,
                                o->tokenizer ? o->tokenizer : "its own tokenizer");
}

/* A model with a tokenizer of its own needs no check: open sets its rule. */
static int check_options(const text_model *m, const encoder_opts *o, vc_err *err)
{
    if (m->words)
        return 0;
    if (!o->tokenizer)
        return vc_fail(err, VC_EINVAL, "%s needs a tokenizer's folder", m->class);
    if (o->text.max_length < 1 || o->text.max_length > MAX_TOKENS)
        return vc_fail(err, VC_EINVAL, "%s: prompts of %d tokens; 1 to %d are possible", m->class,
                       o->text.max_length, MAX_TOKENS);
    return 0;
}

int text_prompt_open(text_enc **out, const text_model *m, const encoder_opts *o, text_info *info,
                     vc_err *err)
{
    *out = NULL;
    *info = (text_info){ .class = m->class, .rule = o->text };
    info->rule.masked = o->text.masked && !m->masked;
    int rc = check_options(m, o, err);
    if (rc)
        return rc;
    text_enc *t = calloc(1, sizeof *t);
    if (!t)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", m->class);

    t->kind = m;
    if (o->tokenizer && !(t->tokenizer = strdup(o->tokenizer)))
        rc = vc_no_memory(err);
    if (!rc)
        rc = set_up(t, o, info, err);
    if (rc) {
        text_prompt_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

/* ---- a text ---- */

int text_prompt_encode(text_enc *t, const text_input *in, text_result *r, vc_err *err)
{
    int n = 0, stored;
    char *text = in_template(&t->rule, in->prompt);
    int rc = text ? tokens_of(t, text, &n, err) : vc_no_memory(err);

    stored = n;
    if (!rc && !t->kind->masked)
        n = t->length;
    if (!t->rule.masked)
        stored = n;
    if (!rc && stored <= t->rule.crop)
        rc = vc_fail(err, VC_EINVAL, "a text of %d tokens, of which %d are cropped", stored,
                     t->rule.crop);
    if (!rc) {
        const text_tokens tokens = { text, in->picture, n, t->ids, t->length };
        rc = t->kind->choose ? t->kind->choose(t->model, &tokens, r, err)
                             : t->kind->encode(t->model, &tokens, t->states, t->pooled, err);
    }
    free(text);
    if (rc || t->kind->choose)
        return rc;
    *r = (text_result){ .pooled_width = t->pooled_width, .pooled = t->pooled, .length = t->length,
                        .ids = t->ids, .mask = t->mask };
    if (!t->rule.pooled_only) {
        r->n = stored - t->rule.crop;
        r->width = t->width;
        r->embeds = t->states + (size_t)t->rule.crop * (size_t)t->width;
    }
    return 0;
}

/* A field that a text does not have is not hashed, so that new fields leave the keys of older texts
 * unchanged. */
vf_key text_prompt_key(const text_info *info, vc_dtype precision, vc_dtype stored,
                       const text_input *in)
{
    const text_rule *rule = &info->rule;
    vf_hasher h;

    vf_hasher_begin(&h, "text");
    vf_hasher_str(&h, "prompt", in->prompt);
    if (rule->template)
        vf_hasher_str(&h, "template", rule->template);
    if (in->picture)
        vf_hasher_bytes(&h, "picture", in->picture->key.b, sizeof in->picture->key.b);
    vf_hasher_bytes(&h, "tokenizer", info->tokenizer.b, sizeof info->tokenizer.b);
    vf_hasher_bytes(&h, "encoder", info->fingerprint.b, sizeof info->fingerprint.b);
    vf_hasher_int(&h, "max_length", rule->max_length);
    if (rule->crop)
        vf_hasher_int(&h, "crop", rule->crop);
    if (rule->clean)
        vf_hasher_int(&h, "clean", 1);
    if (rule->pooled_only)
        vf_hasher_int(&h, "pooled_only", 1);
    if (rule->masked)
        vf_hasher_int(&h, "masked", 1);
    if (rule->interleave)
        vf_hasher_int(&h, "interleave", rule->interleave);
    if (has_scenes(rule, in->prompt))
        vf_hasher_int(&h, "scenes", 1);
    vf_hasher_str(&h, "precision", vc_dtype_name(precision));
    vf_hasher_str(&h, "dtype", vc_dtype_name(stored));
    return vf_hasher_end(&h);
}

/* prompt.c - tokens, states and keys of prompts: see prompt.h */
#include "precompute/text/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/os/file.h"
#include "formats/json/json.h"
#include "formats/metadata/metadata.h"
#include "precompute/text/chat.h"
#include "precompute/text/clean.h"
#include "precompute/tokenizer/tokenizer.h"

enum { MAX_TOKENS = 1 << 15, ROWS = 2048 };       /* with more rows a product is hardly
                                                   * faster */

struct text_enc {
    const text_model *kind;
    void *model;
    tokenizer *tok;                               /* NULL: kind->words makes the tokens */
    tokenizer *scenes;                            /* with scene tokens; NULL: not needed yet */
    char *tokenizer;                              /* folder of both */
    text_rule rule;
    bool masked;                                  /* the kind is, or the rule makes it so */
    float *front;                                 /* [width]: the state of padding in front of
                                                   * prompts; NULL: it is behind */
    int batch, length, width, pooled_width;       /* length includes the cropped tokens */
    char **text;                                  /* [batch], during a call */
    int64_t *ids, *mask;                          /* [batch,length] */
    text_ids *used;                               /* [batch]: the tokens to encode */
    float *states, *pooled;                       /* [batch * length,width], of which the tokens of
                                                   * all texts use the first rows;
                                                   * [batch,pooled_width]; or NULL */
};

/* ---- tokens ---- */

char *text_of_prompt(const text_rule *rule, const char *prompt)
{
    if (rule->blank && !*prompt)
        prompt = rule->blank;
    char *text = rule->quoted ? text_glyphs(prompt) : rule->clean ? text_clean(prompt)
               : rule->stripped ? text_strip(prompt) : strdup(prompt), *at = text;
    const size_t n = rule->without ? strlen(rule->without) : 0;

    while (n && at && (at = strstr(at, rule->without)))
        memmove(at, at + n, strlen(at + n) + 1);
    return text;
}

/* Appends rule->each for n pictures. */
static void put_pictures(vc_buf *b, const text_rule *rule, int n)
{
    const char *at = strstr(rule->each, "{}");
    const int before = at ? (int)(at - rule->each) : (int)strlen(rule->each);

    for (int i = 1; i <= n; i++) {
        vc_buf_printf(b, "%.*s", before, rule->each);
        if (at)
            vc_buf_printf(b, "%d%s", i, at + 2);
    }
}

/* The text of a prompt with n pictures in place of the template's "{}", or alone where there is no
 * template. The caller frees the result; NULL: out of memory. */
static char *in_template(const text_rule *rule, const char *prompt, int n)
{
    const char *at = rule->template ? strstr(rule->template, "{}") : NULL;
    char *text = text_of_prompt(rule, prompt);
    vc_buf b = { 0 };
    if (!text || !at)
        return text;

    vc_buf_printf(&b, "%.*s", (int)(at - rule->template), rule->template);
    if (rule->each)
        put_pictures(&b, rule, n);
    vc_buf_str(&b, text);
    vc_buf_str(&b, at + 2);
    free(text);
    return vc_buf_take(&b);
}

const char *const text_scene_tokens[] = { VF_SCENE_END, VF_SCENE_START, NULL };

bool text_has_scenes(const text_rule *rule, const char *prompt)
{
    return rule->scenes && (strstr(prompt, VF_SCENE_START) || strstr(prompt, VF_SCENE_END));
}

/* Checks the ids of a prompt of n tokens, the first in t->ids. */
static int check_ids(const text_enc *t, int n, vc_err *err)
{
    const text_ids ids = { t->ids, t->masked ? n : t->length, n, 0 };
    const text_tokens tokens = { .prompts = 1, .text = (char *[]){ "" }, .ids = &ids,
                                 .length = t->length };
    return t->kind->check ? t->kind->check(t->model, &tokens, err) : 0;
}

/* Opens the tokenizer again with the scene tokens behind its own, in the order in which ttt-video
 * adds them, and checks that the model has states for their ids. Overwrites t->ids. */
static int open_scenes(text_enc *t, vc_err *err)
{
    int n = 0, rc = tokenizer_open_with(&t->scenes, t->tokenizer, text_scene_tokens, err);

    if (!rc)
        rc = tokenizer_prompt(t->scenes, VF_SCENE_END VF_SCENE_START, t->length, t->ids, t->mask,
                              &n, err);
    if (!rc)
        rc = check_ids(t, n, err);
    return vc_context(err, rc, "%s: the tokens " VF_SCENE_END " and " VF_SCENE_START,
                      t->tokenizer);
}

static int64_t *ids_of(const text_enc *t, int i) { return t->ids + (size_t)i * (size_t)t->length; }
static int64_t *mask_of(const text_enc *t, int i)
{
    return t->mask + (size_t)i * (size_t)t->length;
}

/* Does tokenizer_prompt's work on a text in a template whose end stays where the prompt is cut: the
 * end's tokens are made apart, and stand in front of the padding. */
static int tokens_with_tail(text_enc *t, const char *text, int64_t *ids, int64_t *mask, int *n,
                            vc_err *err)
{
    const char *end = strstr(t->rule.template, "{}") + 2;
    const int before = t->length - t->rule.tail;
    int64_t *tail = NULL;
    size_t tails = 0;
    char *front = strndup(text, strlen(text) - strlen(end));

    int rc = front ? tokenizer_prompt(t->tok, front, before, ids, mask, n, err)
                   : vc_no_memory(err);
    if (!rc)
        rc = tokenizer_ids(t->tok, end, strlen(end), &tail, &tails, err);
    if (!rc && tails != (size_t)t->rule.tail)
        rc = vc_fail(err, VC_EMISMATCH, "this tokenizer makes %zu tokens of the template behind a "
                     "prompt, not %d: give the tokenizer that this model was trained with, with "
                     "all its special tokens", tails, t->rule.tail);
    for (int i = *n; !rc && i < t->length; i++) {
        const bool own = i < *n + t->rule.tail;
        ids[i] = own ? tail[i - *n] : tokenizer_pad(t->tok);
        mask[i] = own;
    }
    if (!rc)
        *n += t->rule.tail;
    free(front);
    free(tail);
    return rc;
}

/* Fills ids_of and mask_of prompt i; *n is the number of tokens before the padding. */
static int tokens_of(text_enc *t, int i, const char *text, int *n, vc_err *err)
{
    const bool scenes = t->tok && text_has_scenes(&t->rule, text);
    int64_t *ids = ids_of(t, i), *mask = mask_of(t, i);

    if (t->tok && t->rule.tail)
        return tokens_with_tail(t, text, ids, mask, n, err);
    if (t->tok && t->rule.chat)
        return tokenizer_chat(t->tok, text, t->length, ids, mask, n, err);
    if (t->tok)
        return tokenizer_prompt(scenes ? t->scenes : t->tok, text, t->length, ids, mask, n, err);
    t->kind->words(text, t->length, ids, mask);
    for (*n = t->length; *n > 0 && !mask[*n - 1];)
        --*n;
    return 0;
}

/* The same for the first prompt, which is put into its template with a number of pictures. */
static int tokens_of_prompt(text_enc *t, const char *prompt, int pictures, int *n, vc_err *err)
{
    char *text = in_template(&t->rule, prompt, pictures);
    int rc = text ? tokens_of(t, 0, text, n, err) : vc_no_memory(err);

    free(text);
    return rc;
}

/* Checks the number of the template's tokens in front of a prompt: the empty prompt and another
 * prompt must begin with the same tokens, and rule.crop and rule.lead must be their number. t->ids
 * holds the n tokens of the empty prompt before and after. */
static int check_front(text_enc *t, int n, vc_err *err)
{
    size_t bytes = (size_t)t->length * sizeof *t->ids;
    int64_t *empty = malloc(bytes);
    const int front = t->rule.crop + t->rule.lead;
    int same = 0;
    if (!empty)
        return vc_no_memory(err);

    memcpy(empty, t->ids, bytes);
    int rc = tokens_of_prompt(t, "a", 0, &n, err);
    while (!rc && same < n && empty[same] == t->ids[same])
        same++;
    memcpy(t->ids, empty, bytes);
    free(empty);
    if (rc || same == front)
        return rc;
    return vc_fail(err, VC_EMISMATCH, "this tokenizer makes %d tokens of the template in front of "
                   "a prompt, not %d: give the tokenizer that this model was trained with, with "
                   "all its special tokens", same, front);
}

/* Fails where the tokens of the empty prompt show that the tokenizer is not the model's. */
static int check_tokens(text_enc *t, vc_err *err)
{
    int n = 0;
    int rc = tokens_of_prompt(t, "", 0, &n, err);

    if (!rc && (t->rule.crop || t->rule.lead))
        rc = check_front(t, n, err);
    if (!rc && t->rule.each)
        rc = tokens_of_prompt(t, "", 1, &n, err);
    return rc ? rc : check_ids(t, n, err);
}

/* ---- open and close ---- */

void text_close(text_enc *t)
{
    if (!t)
        return;
    t->kind->close(t->model);
    tokenizer_close(t->tok);
    tokenizer_close(t->scenes);
    free(t->tokenizer);
    free(t->text);
    free(t->ids);
    free(t->mask);
    free(t->used);
    free(t->states);
    free(t->pooled);
    free(t->front);
    free(t);
}

static int make_areas(text_enc *t, vc_err *err)
{
    size_t batch = (size_t)t->batch, n = batch * (size_t)t->length;

    t->text = calloc(batch, sizeof *t->text);
    t->ids = calloc(n, sizeof *t->ids);
    t->mask = calloc(n, sizeof *t->mask);
    t->used = calloc(batch, sizeof *t->used);
    const bool states = t->width && t->kind->encode;
    t->states = states ? calloc(n, (size_t)t->width * sizeof *t->states) : NULL;
    if (t->pooled_width)
        t->pooled = calloc(batch, (size_t)t->pooled_width * sizeof *t->pooled);
    if (!t->text || !t->ids || !t->mask || !t->used || (states && !t->states) ||
        (t->pooled_width && !t->pooled))
        return vc_fail(err, VC_ENOMEM, "%s: out of memory for %d tokens", t->kind->class,
                       t->length);
    return 0;
}

/* Makes t->front where padding is in front of prompts. */
static int make_front(text_enc *t, vc_err *err)
{
    if (!t->kind->padding || tokenizer_padding_side(t->tok) == TOKENIZER_RIGHT)
        return 0;
    t->front = malloc((size_t)t->width * sizeof *t->front);
    if (!t->front)
        return vc_no_memory(err);
    return vc_context(err, t->kind->padding(t->model, tokenizer_pad(t->tok), t->front, err),
                      "pad token");
}

static int set_up(text_enc *t, const encoder_opts *o, text_info *info, vc_err *err)
{
    const text_rule *rule = &info->rule;
    int rc = t->kind->words ? 0 : tokenizer_open(&t->tok, o->tokenizer, err);

    if (!rc)
        rc = rule->chat ? text_chat_check(rule->chat, o->tokenizer, err) : 0;
    if (!rc)
        rc = t->kind->open(&t->model, t->kind->kind, o, info, err);
    if (rc)
        return rc;
    if (rule->pooled_only && !info->pooled)
        return vc_fail(err, VC_EINVAL, "%s has no pooled state, and the transformer reads nothing "
                       "else from this text encoder's slot", t->kind->class);
    if (t->tok)
        info->tokenizer = tokenizer_fingerprint(t->tok);
    if (!info->rows)
        info->rows = rule->max_length;
    info->padded = !t->masked && !t->kind->choose && !rule->masked;
    if (!info->batch)
        info->batch = 1;
    t->rule = *rule;
    t->batch = info->batch;
    t->length = rule->max_length + rule->crop;
    t->width = info->width;
    t->pooled_width = info->pooled;
    rc = make_areas(t, err);
    if (!rc)
        rc = make_front(t, err);
    info->front = t->front != NULL;
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
    info->rule.unpadded = o->text.unpadded && !m->masked;
    int rc = check_options(m, o, err);
    if (rc)
        return rc;
    text_enc *t = calloc(1, sizeof *t);
    if (!t)
        return vc_fail(err, VC_ENOMEM, "%s: out of memory", m->class);

    t->kind = m;
    t->masked = m->masked || o->text.unpadded;
    if (o->tokenizer && !(t->tokenizer = strdup(o->tokenizer)))
        rc = vc_no_memory(err);
    if (!rc)
        rc = set_up(t, o, info, err);
    if (rc) {
        text_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

int text_open(text_enc **out, const text_class *class, const encoder_opts *o, text_info *info,
              vc_err *err)
{
    const bool pictured = o->text.each && class->pictured;
    return text_prompt_open(out, pictured ? class->pictured : class->model, o, info, err);
}

/* ---- a text ---- */

/* The rows of a prompt of n tokens before its padding: those and the rule's rows of padding. */
static int rows_of(const text_enc *t, int n)
{
    return n + t->rule.padding < t->length ? n + t->rule.padding : t->length;
}

/* Describes the result of prompt i, of n tokens before the padding, whose states begin at row `at`.
 * VC_EINVAL: nothing is left. */
static int result_of(const text_enc *t, int i, int n, size_t at, text_result *r, vc_err *err)
{
    const size_t width = (size_t)t->width;
    const int stored = t->masked || t->rule.masked ? rows_of(t, n) : t->length;

    if (stored <= t->rule.crop)
        return vc_fail(err, VC_EINVAL, "a text of %d tokens, of which %d are cropped", stored,
                       t->rule.crop);
    *r = (text_result){ .pooled_width = t->pooled_width, .length = t->length,
                        .ids = ids_of(t, i), .mask = mask_of(t, i) };
    if (t->pooled)
        r->pooled = t->pooled + (size_t)i * (size_t)t->pooled_width;
    if (!t->rule.pooled_only) {
        r->n = stored - t->rule.crop;
        r->width = t->width;
        r->embeds = t->states ? t->states + (at + (size_t)t->rule.crop) * width : NULL;
    }
    return 0;
}

/* Moves a prompt's n tokens behind its padding. */
static void pad_in_front(text_enc *t, int i, int n)
{
    int64_t *ids = ids_of(t, i), *mask = mask_of(t, i);
    const int padding = t->length - n;

    memmove(ids + padding, ids, (size_t)n * sizeof *ids);
    for (int k = 0; k < padding; k++)
        ids[k] = tokenizer_pad(t->tok);
    for (int k = 0; k < t->length; k++)
        mask[k] = k >= padding;
}

/* The tokens of prompt i to encode, of n before the padding. */
static text_ids used_of(text_enc *t, int i, int n)
{
    if (!t->front)
        return (text_ids){ ids_of(t, i), t->masked ? rows_of(t, n) : t->length, n, 0 };
    pad_in_front(t, i, n);
    return (text_ids){ ids_of(t, i) + t->length - n, n, 0, t->length - n };
}

/* Makes zeros of the states of those of n prompts that have nothing in quotes. */
static void blank_unquoted(text_enc *t, int n, text_result *r)
{
    float *at = t->states;

    for (int i = 0; i < n; i++) {
        if (!*t->text[i]) {
            memset(at, 0, (size_t)t->width * sizeof *at);
            r[i].n = 1;
        }
        at += (size_t)t->used[i].n * (size_t)t->width;
    }
}

/* Moves the states of n prompts, which follow each other, behind those of their padding. */
static void spread(text_enc *t, int n)
{
    const size_t width = (size_t)t->width;
    size_t from = (size_t)text_total(t->used, n);

    for (int i = n - 1; i >= 0; i--) {
        const size_t own = (size_t)t->used[i].n, padding = (size_t)t->length - own;
        float *rows = t->states + (size_t)i * (size_t)t->length * width;
        from -= own;
        memmove(rows + padding * width, t->states + from * width, own * width * sizeof *rows);
        for (size_t k = 0; k < padding; k++)
            memcpy(rows + k * width, t->front, width * sizeof *rows);
    }
}

/* Fills t->text, the tokens and r of n prompts. */
static int prepare(text_enc *t, const text_input *in, int n, text_result *r, vc_err *err)
{
    int before = 0, rc = 0;
    size_t at = 0;

    for (int i = 0; !rc && i < n; i++)
        if (t->tok && !t->scenes && text_has_scenes(&t->rule, in[i].prompt))
            rc = open_scenes(t, err);
    for (int i = 0; !rc && i < n; i++) {
        t->text[i] = in_template(&t->rule, in[i].prompt, in[i].pictures);
        rc = t->text[i] ? tokens_of(t, i, t->text[i], &before, err) : vc_no_memory(err);
        if (!rc)
            rc = result_of(t, i, before, at, &r[i], err);
        t->used[i] = used_of(t, i, before);
        at += (size_t)(t->front ? t->length : t->used[i].n);
    }
    return rc;
}

/* The number of prompts, of the n from `first` on, that the model gets at once. */
static int group_of(const text_enc *t, int first, int n)
{
    int rows = t->used[first].n, k = 1;

    if (rows < TEXT_FEW)
        return 1;
    for (; k < n && t->used[first + k].n >= TEXT_FEW; k++) {
        rows += t->used[first + k].n;
        if (rows > ROWS)
            break;
    }
    return k;
}

static int encode(text_enc *t, const text_input *in, int n, vc_err *err)
{
    size_t at = 0;
    int rc = 0;

    for (int i = 0, k; !rc && i < n; i += k) {
        k = group_of(t, i, n - i);
        const text_tokens tokens = { .prompts = k, .text = t->text + i, .picture = in[i].picture,
                                     .pictures = in[i].pictures, .ids = t->used + i,
                                     .length = t->length };
        rc = t->kind->encode(t->model, &tokens,
                             t->states ? t->states + at * (size_t)t->width : NULL,
                             t->pooled ? t->pooled + i * t->pooled_width : NULL, err);
        at += (size_t)text_total(t->used + i, k);
    }
    return rc;
}

int text_encode(text_enc *t, const text_input *in, int n, text_result *r, vc_err *err)
{
    int rc = prepare(t, in, n, r, err);
    const text_tokens one = { .prompts = 1, .text = t->text, .picture = in->picture,
                              .pictures = in->pictures, .ids = t->used,
                              .length = t->length };

    if (!rc)
        rc = t->kind->choose ? t->kind->choose(t->model, &one, r, err) : encode(t, in, n, err);
    if (!rc && t->rule.quoted)
        blank_unquoted(t, n, r);
    if (!rc && t->front)
        spread(t, n);
    for (int i = 0; i < n; i++) {
        free(t->text[i]);
        t->text[i] = NULL;
    }
    return rc;
}

/* Of what stands in quotes alone: captions without quotes share one value. */
static void hash_prompt(vf_hasher *h, const text_rule *rule, const char *prompt)
{
    char *quoted = rule->quoted ? text_glyphs(prompt) : NULL;

    vf_hasher_str(h, quoted ? "quoted" : "prompt", quoted ? quoted : prompt);
    free(quoted);
    if (rule->blank && !*prompt)
        vf_hasher_str(h, "blank", rule->blank);
}

/* A field that a text does not have is not hashed, so that new fields leave the keys of older texts
 * unchanged. `clean` is 2 where a prompt needs the repair, which older versions left out. */
vf_key text_prompt_key(const text_info *info, vc_dtype precision, vc_dtype stored,
                       const text_input *in)
{
    const text_rule *rule = &info->rule;
    vf_hasher h;

    vf_hasher_begin(&h, "text");
    hash_prompt(&h, rule, in->prompt);
    if (rule->template)
        vf_hasher_str(&h, "template", rule->template);
    for (int i = 0; i < in->pictures; i++)
        vf_hasher_bytes(&h, "picture", in->picture[i].key.b, sizeof in->picture[i].key.b);
    vf_hasher_bytes(&h, "tokenizer", info->tokenizer.b, sizeof info->tokenizer.b);
    vf_hasher_bytes(&h, "encoder", info->fingerprint.b, sizeof info->fingerprint.b);
    vf_hasher_int(&h, "max_length", rule->max_length);
    if (rule->crop)
        vf_hasher_int(&h, "crop", rule->crop);
    if (rule->tail)
        vf_hasher_int(&h, "tail", rule->tail);
    if (rule->clean)
        vf_hasher_int(&h, "clean", text_is_repaired(in->prompt) ? 2 : 1);
    else if (rule->uncleaned && text_is_clean(in->prompt))
        vf_hasher_int(&h, "clean", 1);
    if (rule->stripped)
        vf_hasher_int(&h, "stripped", 1);
    if (rule->without)
        vf_hasher_str(&h, "without", rule->without);
    if (info->front)
        vf_hasher_int(&h, "front", 1);
    if (rule->pooled_only)
        vf_hasher_int(&h, "pooled_only", 1);
    if (rule->masked)
        vf_hasher_int(&h, "masked", 1);
    if (rule->unpadded)
        vf_hasher_int(&h, "unpadded", 1);
    if (rule->padding)
        vf_hasher_int(&h, "padding", rule->padding);
    if (rule->interleave)
        vf_hasher_int(&h, "interleave", rule->interleave);
    if (rule->each && in->pictures)
        vf_hasher_str(&h, "each", rule->each);
    if (text_has_scenes(rule, in->prompt))
        vf_hasher_int(&h, "scenes", 1);
    vf_hasher_str(&h, "precision", vc_dtype_name(precision));
    vf_hasher_str(&h, "dtype", vc_dtype_name(stored));
    return vf_hasher_end(&h);
}

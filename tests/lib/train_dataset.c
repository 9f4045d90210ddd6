/* train_dataset.c - see train_dataset.h */
#include "tests/lib/train_dataset.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/os/file.h"
#include "tests/lib/ok.h"
#include "tests/lib/tmp_dir.h"

float toy_mean(uint32_t number, uint32_t variant, int64_t i)
{
    return (float)((number * 37 + variant * 11 + (uint64_t)i * 5) % 97) / 32 - 1;
}

float toy_logvar(int64_t i) { return -(float)(i % 5) / 2; }

float toy_condition(vc_role role, uint32_t number, int64_t i)
{
    if (role == VC_ROLE_MASK)
        return (float)((number + (uint64_t)i / 3) % 2);
    if (role == VC_ROLE_LOSS_MASK)
        return (float)((number + (uint64_t)i) % 5) / 4;
    return (float)((number * 29 + (uint64_t)i * 7 + (uint64_t)role * 13) % 83) / 32 - 1;
}

int toy_tokens(const char *prompt) { return 1 + (int)(strlen(prompt) % TOY_TOKENS); }

float toy_embed(const char *prompt, int encoder, int64_t i)
{
    return (float)(strlen(prompt) * 8 + (size_t)*prompt) + (float)(i % 16) / 16 + (float)encoder;
}

float toy_pooled(const char *prompt, int encoder, int64_t i)
{
    return -toy_embed(prompt, encoder, i);
}

/* ---- values ---- */

static vf_key text_key(int encoder, const char *prompt)
{
    return vf_hash2(&encoder, sizeof encoder, prompt, strlen(prompt));
}

static vf_key latent_key(const toy_sample *s)
{
    uint32_t id[2] = { s->number, s->variant };
    return vf_hash(id, sizeof id);
}

static uint8_t *pack(const vf_view *v, int n, bool bad_sum, size_t *size)
{
    uint8_t *out;
    vc_err err = { 0 };
    assert_ok(vf_safetensors_pack(&out, size, v, n, NULL, 0, 1, &err), &err);
    if (bad_sum)
        out[*size - 2] ^= 1;
    return out;
}

static void put_latent(vf_writer *w, const toy *t, const toy_sample *s, toy_damage bad)
{
    int f = s->f ? s->f : 1, h = bad == TOY_WRONG_SHAPE ? s->h + 1 : s->h;
    size_t n = (size_t)(t->channels * f * h * s->w), size;
    size_t n_lv = t->store == TOY_SHARED_LOGVAR ? n / (size_t)t->channels : n;
    uint16_t *mean = malloc(2 * n), *logvar = malloc(2 * n);
    for (size_t i = 0; i < n; i++) {
        mean[i] = vc_f32_to_f16(toy_mean(s->number, s->variant, (int64_t)i));
        logvar[i] = vc_f32_to_f16(toy_logvar((int64_t)i));
    }
    if (bad == TOY_NAN_MEAN)
        mean[n - 1] = 0x7e00;
    if (bad == TOY_INF_LOGVAR)
        logvar[n_lv / 2] = 0x7c00;
    const char *name = bad == TOY_OTHER_NAME ? "means" : t->store == TOY_SAMPLE ? "sample" : "mean";
    vf_view v[2] = {
        { name, bad == TOY_INTEGERS ? VC_I16 : VC_F16, 4, { t->channels, f, h, s->w }, mean,
          2 * n },
        { "logvar", VC_F16, 4, { n_lv < n ? 1 : t->channels, f, h, s->w }, logvar, 2 * n_lv },
    };
    uint8_t *st = pack(v, t->store <= TOY_SHARED_LOGVAR ? 2 : 1, bad == TOY_LATENT_SUM, &size);
    vc_err err = { 0 };
    assert_ok(vf_writer_put_latent(w, latent_key(s), st, size, &err), &err);
    free(st);
    free(mean);
    free(logvar);
}

/* ---- conditions ---- */

static vf_key condition_key(const toy_sample *s, vc_role role)
{
    uint32_t id[3] = { s->number, s->variant, (uint32_t)role };
    return vf_hash(id, sizeof id);
}

/* Puts embeddings [TOY_EMBEDS or t->embeds,TOY_EMBED_WIDTH]. */
static void put_embeds(vf_writer *w, const toy *t, const toy_sample *s, vc_role role,
                       toy_damage bad)
{
    enum { MOST = 2 * TOY_EMBEDS * (TOY_EMBED_WIDTH + 1) };
    const int rows = t->embeds ? t->embeds : TOY_EMBEDS;
    uint16_t x[MOST];
    size_t size;
    const int64_t width = TOY_EMBED_WIDTH + (bad == TOY_COND_SHAPE);
    const vf_view v = { "image_embeds", VC_F16, 2, { rows, width }, x,
                        2 * (size_t)(rows * width) };
    for (int i = 0; i < MOST; i++)
        x[i] = vc_f32_to_f16(toy_condition(role, s->number, i));
    uint8_t *st = pack(&v, 1, bad == TOY_COND_SUM, &size);
    vc_err err = { 0 };
    assert_ok(vf_writer_put_latent(w, condition_key(s, role), st, size, &err), &err);
    free(st);
}

static void put_condition(vf_writer *w, const toy *t, const toy_sample *s, vc_role role,
                          toy_damage bad)
{
    const vc_role_row *row = &vc_roles[role];
    bool mask = row->kind == VC_VALUE_MASK, noised = row->kind == VC_VALUE_VARIANTS;
    const int masks = t->mask_channels && role == VC_ROLE_MASK ? t->mask_channels : 1;
    int k = noised ? t->noised : 1, h = s->h + (bad == TOY_COND_SHAPE);
    int f = !row->clip || !s->f ? 1 : s->f, c = mask ? masks : t->channels;
    size_t n = (size_t)(k * c * f * h * s->w), size;
    uint16_t *mean = malloc(2 * n), *logvar = malloc(2 * n);
    for (size_t i = 0; i < n; i++) {
        mean[i] = vc_f32_to_f16(toy_condition(role, s->number, (int64_t)i));
        logvar[i] = vc_f32_to_f16(toy_logvar((int64_t)i));
    }
    if (bad == TOY_COND_NAN)
        mean[n / 2] = 0x7e00;
    if (bad == TOY_COND_NEGATIVE)
        mean[n - 1] = vc_f32_to_f16(-1);
    bool five = noised && bad != TOY_COND_NO_VARIANT;
    vf_view v[2] = {
        { mask ? "mask" : "mean", VC_F16, five ? 5 : 4, { k, c, f, h, s->w }, mean, 2 * n },
        { "logvar", VC_F16, five ? 5 : 4, { k, c, f, h, s->w }, logvar, 2 * n },
    };
    for (int i = 0; i < 2 && !five; i++)             /* four dims: no axis of variants */
        memcpy(v[i].dim, (int64_t[]){ k * c, f, h, s->w }, 4 * sizeof *v[i].dim);
    uint8_t *st = pack(v, mask ? 1 : 2, bad == TOY_COND_SUM, &size);
    vc_err err = { 0 };
    assert_ok(vf_writer_put_latent(w, condition_key(s, role), st, size, &err), &err);
    free(st);
    free(mean);
    free(logvar);
}

/* Puts a sound [C,L,1,bins]; TOY_COND_SHAPE: of one frame more. */
static void put_sound(vf_writer *w, const toy *t, const toy_sample *s, cJSON *record,
                      toy_damage bad)
{
    const int64_t l = s->sound + (bad == TOY_COND_SHAPE);
    const size_t n = (size_t)(t->sound_channels * l * t->sound_bins);
    char hex[VF_KEY_HEX];
    size_t size;
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = toy_condition(VC_ROLE_AUDIO, s->number, (int64_t)i);
    if (bad == TOY_COND_NAN)
        x[n / 2] = NAN;
    const vf_view v = { "mean", VC_F32, 4, { t->sound_channels, l, 1, t->sound_bins }, x,
                        n * sizeof *x };
    const vf_key key = condition_key(s, VC_ROLE_AUDIO);
    uint8_t *st = pack(&v, 1, bad == TOY_COND_SUM, &size);
    vc_err err = { 0 };
    assert_ok(vf_writer_put_latent(w, key, st, size, &err), &err);
    cJSON_AddStringToObject(cJSON_AddObjectToObject(record, "conditions"),
                            vc_roles[VC_ROLE_AUDIO].name, vf_key_hex(hex, key));
    free(st);
    free(x);
}

static void put_conditions(vf_writer *w, const toy *t, const toy_sample *s, cJSON *record,
                           toy_damage bad)
{
    char hex[VF_KEY_HEX];
    unsigned roles = t->conditions | (s->loss_mask ? 1u << VC_ROLE_LOSS_MASK : 0);
    if (!roles || bad == TOY_NO_CONDITION)
        return;
    cJSON *o = cJSON_AddObjectToObject(record, "conditions");
    for (int i = 0; i < VC_ROLES; i++) {
        if (!(roles & 1u << i))
            continue;
        if (vc_roles[i].kind == VC_VALUE_EMBEDS)
            put_embeds(w, t, s, (vc_role)i, bad);
        else
            put_condition(w, t, s, (vc_role)i, bad);
        cJSON_AddStringToObject(o, vc_roles[i].name, vf_key_hex(hex, condition_key(s, (vc_role)i)));
    }
    if (s->mask_all)
        cJSON_AddTrueToObject(record, "mask_all");
    cJSON *own = roles & VC_ROLES_REFERENCE ? cJSON_AddArrayToObject(record, "references") : NULL;
    for (int k = 0; k < VC_REFERENCES; k++)
        if (roles & 1u << (VC_ROLE_REFERENCE + k)) {
            cJSON *is = cJSON_CreateObject();
            cJSON_AddItemToObject(is, "latent",
                                  cJSON_CreateIntArray((int[]){ 1, s->h, s->w }, 3));
            cJSON_AddItemToArray(own, is);
        }
}

static int width_of(const toy *t, int encoder)
{
    return t->widths ? t->widths[encoder] : t->width;
}

static int pooled_of(const toy *t, int encoder)
{
    return t->pooleds ? t->pooleds[encoder] : t->pooled;
}

static void put_text(vf_writer *w, const toy *t, const char *prompt, int encoder, int segments,
                     toy_damage bad)
{
    int64_t width = width_of(t, encoder) + (bad == TOY_TEXT_WIDTH), size_n;
    const int n_pooled = pooled_of(t, encoder);
    int64_t most = segments ? segments * TOY_TOKENS : TOY_TOKENS;
    int64_t n = bad == TOY_TEXT_LONG ? most + 1 : segments ? most : toy_tokens(prompt);
    float *x = malloc((size_t)(n * width) * 4), *pooled = malloc((size_t)n_pooled * 4 + 4);
    size_t size;
    size_n = n * width;
    for (int64_t i = 0; i < size_n; i++)
        x[i] = toy_embed(prompt, encoder, i);
    for (int64_t i = 0; i < n_pooled; i++)
        pooled[i] = toy_pooled(prompt, encoder, i);
    if (bad == TOY_TEXT_NAN)
        x[0] = NAN;
    vf_view v[2] = {
        { "prompt_embeds", VC_F32, 2, { n, width }, x, (size_t)size_n * 4 },
        { "pooled", VC_F32, 1, { n_pooled }, pooled, (size_t)n_pooled * 4 },
    };
    int first = t->pooled_only >> encoder & 1, end = n_pooled && bad != TOY_NO_POOLED ? 2 : 1;
    uint8_t *st = pack(v + first, end - first, bad == TOY_TEXT_SUM, &size);
    vc_err err = { 0 };
    assert_ok(vf_writer_put_text(w, text_key(encoder, prompt), st, size, &err), &err);
    free(st);
    free(x);
    free(pooled);
}

static void put_prompt(vf_writer *w, const toy *t, const char *prompt, int segments, toy_damage bad)
{
    for (int e = 0; e < t->encoders; e++)
        if (!vf_writer_has_text(w, text_key(e, prompt)))
            put_text(w, t, prompt, e, segments, bad);
}

/* ---- records ---- */

static void add_keys(cJSON *o, const char *field, const toy *t, const char *prompt, toy_damage bad)
{
    char hex[VF_KEY_HEX];
    cJSON *keys = cJSON_AddArrayToObject(o, field);
    for (int e = 0; e < t->encoders - (bad == TOY_FEW_KEYS); e++)
        cJSON_AddItemToArray(keys, cJSON_CreateString(vf_key_hex(hex, text_key(e, prompt))));
}

static void put_sample(vf_writer *w, const toy *t, const toy_sample *s, toy_damage bad)
{
    char text[64], hex[VF_KEY_HEX];
    int f = s->f ? s->f : 1;
    cJSON *o = cJSON_CreateObject(), *captions;
    cJSON_AddNumberToObject(o, "sample", s->number);
    snprintf(text, sizeof text, "%016x", s->number + 1);
    cJSON_AddStringToObject(o, "id", text);
    cJSON_AddNumberToObject(o, "variant", s->variant);
    cJSON_AddStringToObject(o, "type", s->f ? "video" : "image");
    captions = cJSON_AddArrayToObject(o, "captions");
    for (int i = 0; i < TOY_CAPTIONS && s->caption[i]; i++) {
        cJSON *c = cJSON_CreateObject();
        put_prompt(w, t, s->caption[i], s->segments, bad);
        cJSON_AddStringToObject(c, "text", s->caption[i]);
        add_keys(c, "keys", t, s->caption[i], bad);
        cJSON_AddItemToArray(captions, c);
    }
    if (s->segments)
        cJSON_AddNumberToObject(o, "text_chunks", s->segments);
    if (s->extra)
        cJSON_AddRawToObject(o, "extra", s->extra);
    cJSON_AddStringToObject(o, "key", "1.0");
    cJSON_AddItemToObject(o, "latent", cJSON_CreateIntArray((int[]){ f, s->h, s->w }, 3));
    cJSON_AddNumberToObject(o, "tokens", f * s->h * s->w);
    cJSON_AddNumberToObject(o, "fps", toy_fps(s->number));
    if (s->weight > 0 || s->unwanted)
        cJSON_AddNumberToObject(o, "weight", s->weight);
    cJSON_AddStringToObject(o, "latent_key", vf_key_hex(hex, latent_key(s)));
    put_latent(w, t, s, bad);
    put_conditions(w, t, s, o, bad);
    if (s->sound)
        put_sound(w, t, s, o, bad);
    cJSON *frames = s->frames ? cJSON_AddArrayToObject(o, "frames") : NULL;
    for (int i = 0; i < s->frames; i++)
        cJSON_AddItemToArray(frames, cJSON_CreateNumber(i));
    vc_err err = { 0 };
    assert_ok(vf_writer_put_sample(w, s->number, s->variant, o, NULL, 0, &err), &err);
    cJSON_Delete(o);
}

static void add_fields(cJSON *o, const char *text)
{
    cJSON *own;
    vc_err err = { 0 };
    assert_ok(vf_json_parse(&own, text, strlen(text), &err), &err);
    for (const cJSON *f = own->child; f; f = f->next)
        cJSON_AddItemToObject(o, f->string, cJSON_Duplicate(f, true));
    cJSON_Delete(own);
}

static void put_validation(vf_writer *w, const toy *t, int i)
{
    char prompt[32];
    cJSON *o = cJSON_CreateObject();
    snprintf(prompt, sizeof prompt, "prompt %d", i);
    put_prompt(w, t, prompt, 0, TOY_WHOLE);
    cJSON_AddStringToObject(o, "prompt", prompt);
    add_keys(o, "keys", t, prompt, TOY_WHOLE);
    if (i % 2) {
        put_prompt(w, t, "ugly", 0, TOY_WHOLE);
        cJSON_AddStringToObject(o, "negative_prompt", "ugly");
        add_keys(o, "negative_keys", t, "ugly", TOY_WHOLE);
        cJSON_AddNumberToObject(o, "height", 40);
        cJSON_AddNumberToObject(o, "width", 24);
        cJSON_AddNumberToObject(o, "num_frames", 10);
        cJSON_AddNumberToObject(o, "frame_rate", 16);
        cJSON_AddNumberToObject(o, "seed", 7);
    }
    if (t->own && i % 2)
        add_fields(o, t->own);
    char hex[VF_KEY_HEX];
    if (t->image && i % 2 == 0)
        cJSON_AddStringToObject(o, "image", vf_key_hex(hex, latent_key(t->image)));
    if (t->masked && i % 2 == 0) {
        cJSON *c = cJSON_AddObjectToObject(o, "conditions");
        for (int r = VC_ROLE_VIDEO; r < VC_ROLES; r++)
            if (t->conditions & 1u << r)
                cJSON_AddStringToObject(c, vc_roles[r].name,
                                        vf_key_hex(hex, condition_key(t->masked, (vc_role)r)));
    }
    vc_err err = { 0 };
    assert_ok(vf_writer_put_validation(w, (uint32_t)i, o, &err), &err);
    cJSON_Delete(o);
}

/* ---- head ---- */

static cJSON *numbers(int n, double first)
{
    cJSON *a = cJSON_CreateArray();
    for (int c = 0; c < n; c++)
        cJSON_AddItemToArray(a, cJSON_CreateNumber(first + c));
    return a;
}

static cJSON *make_head(const toy *t)
{
    char hex[VF_KEY_HEX];
    cJSON *o = cJSON_CreateObject(), *e;
    cJSON_AddStringToObject(o, "family", t->family);
    cJSON_AddStringToObject(o, "train_mode", t->train_mode ? t->train_mode : "normal");
    if (t->black)
        cJSON_AddStringToObject(cJSON_AddObjectToObject(o, "conditions"), "masked", "black");
    e = cJSON_AddObjectToObject(o, "vae");
    cJSON_AddStringToObject(e, "class", t->vae);
    cJSON_AddStringToObject(e, "fingerprint", t->fingerprint);
    cJSON_AddNumberToObject(e, "channels", t->channels);
    cJSON_AddItemToObject(e, "ratio", cJSON_CreateIntArray((int[]){ 4, 8, 8 }, 3));
    e = cJSON_AddObjectToObject(o, "normalization");
    cJSON_AddNumberToObject(e, "scaling_factor", t->scaling);
    cJSON_AddNumberToObject(e, "shift_factor", t->shift);
    cJSON_AddBoolToObject(e, "invert_scale_latents", t->invert);
    cJSON_AddItemToObject(e, "mean", t->per_channel ? numbers(t->channels, 0) : cJSON_CreateNull());
    cJSON_AddItemToObject(e, "std", t->per_channel ? numbers(t->channels, 1) : cJSON_CreateNull());
    if (t->sound_channels) {
        const int n = t->sound_channels * t->sound_bins;
        e = cJSON_AddObjectToObject(o, "audio_vae");
        cJSON_AddStringToObject(e, "class", "AutoencoderKLLTX2Audio");
        cJSON_AddStringToObject(e, "fingerprint", t->fingerprint);
        cJSON_AddNumberToObject(e, "channels", t->sound_channels);
        cJSON_AddNumberToObject(e, "bins", t->sound_bins);
        cJSON_AddNumberToObject(e, "rate", 16000);
        cJSON_AddNumberToObject(e, "hop", 640);
        cJSON_AddItemToObject(e, "mean", numbers(n, 0));
        cJSON_AddItemToObject(e, "std", numbers(n, 1));
    }
    if (t->conditions & 1u << VC_ROLE_VISION) {
        e = cJSON_AddObjectToObject(o, "image_encoder");
        cJSON_AddStringToObject(e, "class", "CLIPVisionModel");
        cJSON_AddStringToObject(e, "fingerprint", t->fingerprint);
        cJSON_AddNumberToObject(e, "tokens", t->embeds ? t->embeds : TOY_EMBEDS);
        cJSON_AddNumberToObject(e, "width", TOY_EMBED_WIDTH);
    }
    static const char *const slots[] = { "text_encoder", "text_encoder_2", "text_encoder_3" };
    cJSON *list = cJSON_AddArrayToObject(o, "text_encoders");
    for (int i = 0; i < t->encoders; i++) {
        cJSON_AddItemToArray(list, e = cJSON_CreateObject());
        cJSON_AddStringToObject(e, "slot", slots[i]);
        cJSON_AddStringToObject(e, "class", "TextBuiltin");
        cJSON_AddStringToObject(e, "fingerprint", t->fingerprint);
        cJSON_AddStringToObject(e, "tokenizer", "0123456789abcdef0123456789abcdef");
        cJSON_AddNumberToObject(e, "max_length", TOY_TOKENS);
        if (!i && t->interleave)
            cJSON_AddNumberToObject(e, "image_embed_interleave", t->interleave);
        cJSON_AddNumberToObject(e, "width", t->pooled_only >> i & 1 ? pooled_of(t, i)
                                                                         : width_of(t, i));
        cJSON_AddStringToObject(e, "empty", vf_key_hex(hex, text_key(i, "")));
    }
    cJSON_AddStringToObject(o, "latent_store", "moments");
    cJSON_AddStringToObject(o, "dtype", "f16");
    cJSON_AddStringToObject(o, "plan", TOY_PLAN);
    cJSON_AddItemToObject(o, "sampling", cJSON_CreateObject());
    return o;
}

vf_writer *toy_open(toy *t, double shard_seconds, bool overwrite)
{
    t->channels = t->channels ? t->channels : 2;
    t->width = t->width ? t->width : 4;
    t->encoders = t->encoders ? t->encoders : 1;
    t->family = t->family ? t->family : "builtin";
    t->vae = t->vae ? t->vae : "VaeBuiltin";
    t->fingerprint = t->fingerprint ? t->fingerprint : "00112233445566778899aabbccddeeff";
    t->scaling = t->scaling > 0 ? t->scaling : 1;

    vf_writer *w;
    vc_err err = { 0 };
    cJSON *head = make_head(t);
    const vf_writer_opts o = { .head = head, .shard_size = 1 << 30,
                               .shard_seconds = shard_seconds, .overwrite = overwrite };
    assert_ok(vf_writer_open(&w, t->path, &o, &err), &err);
    cJSON_Delete(head);
    put_prompt(w, t, "", 0, TOY_WHOLE);
    return w;
}

void toy_put(vf_writer *w, const toy *t, const toy_sample *s)
{
    put_sample(w, t, s, s->number == t->bad ? t->damage : TOY_WHOLE);
}

void toy_finish(vf_writer *w)
{
    vc_err err = { 0 };
    assert_ok(vf_writer_finish(w, &err), &err);
    vf_writer_close(w);
}

void toy_make(const toy *given)
{
    toy t = *given;
    vc_err err = { 0 };
    vf_writer *w = toy_open(&t, 0, true);
    for (int i = 0; i < t.n; i++)
        toy_put(w, &t, &t.sample[i]);
    for (int i = 0; i < t.prompts; i++)
        put_validation(w, &t, i);
    if (!t.unfinished) {
        toy_finish(w);
        return;
    }
    assert_ok(vf_writer_commit(w, &err), &err);
    vf_writer_close(w);
}

void toy_dir_make(char dir[256])
{
    if (tmp_dir_make(dir))
        fail_msg("cannot make %s", dir);
}

void toy_dir_remove(const char *dir)
{
    vc_remove_tree(dir, NULL);
}

char toy_dir[256];

int toy_dir_setup(void **state)
{
    toy_dir_make(toy_dir);
    *state = toy_dir;
    return 0;
}

int toy_dir_teardown(void **state)
{
    toy_dir_remove(*state);
    return 0;
}

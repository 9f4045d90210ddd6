/* shards_make.c - see shards_make.h */
#include "tests/lib/shards_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/mutate.h"

enum { CHANNELS = 4, WIDTH = 8, TOKENS = 5 };

cJSON *make_head(int seed)
{
    vc_err err = { 0 };
    char text[1200], hex[VF_KEY_HEX];
    int n = snprintf(text, sizeof text,
        "{\"family\":\"builtin\",\"train_mode\":\"normal\","
        "\"vae\":{\"class\":\"Builtin\",\"fingerprint\":\"00112233445566778899aabbccddeeff\","
        "\"dtype\":\"bf16\",\"channels\":%d,\"ratio\":[4,8,8]},"
        "\"normalization\":{\"scaling_factor\":0.7,\"shift_factor\":0,\"mean\":null,\"std\":null,"
        "\"invert_scale_latents\":false},"
        "\"text_encoders\":[{\"slot\":\"text_encoder\",\"class\":\"Builtin\","
        "\"fingerprint\":\"ffeeddccbbaa99887766554433221100\","
        "\"tokenizer\":\"0123456789abcdef0123456789abcdef\",\"dtype\":\"bf16\",\"max_length\":226,"
        "\"width\":%d,\"empty\":\"%s\"}],\"latent_store\":\"moments\",\"dtype\":\"f16\","
        "\"sampling\":{\"video_sample_size\":512,\"seed\":%d}}",
        CHANNELS, WIDTH, vf_key_hex(hex, make_text_key("")), seed);
    cJSON *head = NULL;
    vf_json_parse(&head, text, (size_t)n, &err);
    return head;
}

static uint8_t *pack(const vf_view *views, int n, size_t *size)
{
    uint8_t *out = NULL;
    vc_err err = { 0 };
    vf_safetensors_pack(&out, size, views, n, NULL, 0, 1, &err);
    return out;
}

uint8_t *make_latent(uint32_t number, int f, int h, int w, size_t *size)
{
    int64_t n = (int64_t)CHANNELS * f * h * w;
    uint16_t *mean = malloc(2 * (size_t)n), *logvar = malloc(2 * (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        mean[i] = vc_f32_to_f16((float)((number * 31 + (uint32_t)i * 7) % 101) / 50 - 1);
        logvar[i] = vc_f32_to_f16(-2);
    }
    vf_view views[2] = {
        { "mean", VC_F16, 4, { CHANNELS, f, h, w }, mean, 2 * (size_t)n },
        { "logvar", VC_F16, 4, { CHANNELS, f, h, w }, logvar, 2 * (size_t)n },
    };
    uint8_t *out = pack(views, 2, size);
    free(mean);
    free(logvar);
    return out;
}

uint8_t *make_text(const char *prompt, size_t *size)
{
    float embeds[TOKENS * WIDTH];
    for (int i = 0; i < TOKENS * WIDTH; i++)
        embeds[i] = (float)(strlen(prompt) + (size_t)i);
    vf_view view = { "prompt_embeds", VC_F32, 2, { TOKENS, WIDTH }, embeds, sizeof embeds };
    return pack(&view, 1, size);
}

vf_key make_latent_key(uint32_t number, int f, int h, int w)
{
    int id[4] = { (int)number, f, h, w };
    return vf_hash(id, sizeof id);
}

vf_key make_text_key(const char *prompt)
{
    return vf_hash(prompt, strlen(prompt));
}

static void add_ints(cJSON *o, const char *name, const int *v, int n)
{
    cJSON_AddItemToObject(o, name, cJSON_CreateIntArray(v, n));
}

cJSON *make_record(uint32_t number, uint32_t variant, const char *caption, int f, int h, int w)
{
    char hex[VF_KEY_HEX], text[64];
    cJSON *o = cJSON_CreateObject();
    int frames[3] = { 0, 2, 4 };
    vf_json_add_int(o, "sample", number);
    snprintf(text, sizeof text, "%016llx", 0x123456789abcull * (number + 1));
    cJSON_AddStringToObject(o, "id", text);
    cJSON_AddNumberToObject(o, "variant", variant);
    snprintf(text, sizeof text, "clips/%u.mp4", number);
    cJSON_AddStringToObject(o, "path", text);
    cJSON_AddStringToObject(o, "type", f > 1 ? "video" : "image");
    cJSON *caption_json = cJSON_CreateObject();
    cJSON_AddStringToObject(caption_json, "text", caption);
    cJSON *key = cJSON_CreateString(vf_key_hex(hex, make_text_key(caption)));
    cJSON_AddItemToArray(cJSON_AddArrayToObject(caption_json, "keys"), key);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(o, "captions"), caption_json);
    snprintf(text, sizeof text, "%.2f", (double)h / w);
    cJSON_AddStringToObject(o, "key", text);
    add_ints(o, "target", (int[]){ 8 * h, 8 * w }, 2);
    add_ints(o, "frames", frames, f > 1 ? 3 : 1);
    cJSON_AddNumberToObject(o, "fps", 24);
    add_ints(o, "latent", (int[]){ f, h, w }, 3);
    cJSON_AddNumberToObject(o, "tokens", f * h * w / 4.0 >= 1 ? f * h * w / 4 : 1);
    cJSON_AddStringToObject(o, "source_hash", vf_key_hex(hex, vf_hash(&number, sizeof number)));
    cJSON_AddStringToObject(o, "latent_key", vf_key_hex(hex, make_latent_key(number, f, h, w)));
    return o;
}

static int put_text(vf_writer *w, const char *prompt, vc_err *err)
{
    size_t n;
    if (vf_writer_has_text(w, make_text_key(prompt)))
        return 0;
    uint8_t *st = make_text(prompt, &n);
    int rc = vf_writer_put_text(w, make_text_key(prompt), st, n, err);
    free(st);
    return rc;
}

int make_sample(vf_writer *w, uint32_t number, const char *caption, int f, int h, int wd,
                vc_err *err)
{
    static const uint8_t jpeg[] = { 0xff, 0xd8, 0xff, 0xd9 };
    size_t n;
    vf_key k = make_latent_key(number, f, h, wd);
    int rc = put_text(w, "", err);
    if (!rc)
        rc = put_text(w, caption, err);
    if (!rc && !vf_writer_has_latent(w, k)) {
        uint8_t *st = make_latent(number, f, h, wd, &n);
        rc = vf_writer_put_latent(w, k, st, n, err);
        free(st);
    }
    if (rc)
        return rc;
    cJSON *record = make_record(number, 0, caption, f, h, wd);
    rc = vf_writer_put_sample(w, number, 0, record, jpeg, sizeof jpeg, err);
    cJSON_Delete(record);
    return rc;
}

static int put_prompt(vf_writer *w, vc_err *err)
{
    char hex[VF_KEY_HEX];
    int rc = put_text(w, "a validation prompt", err);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "prompt", "a validation prompt");
    cJSON *key = cJSON_CreateString(vf_key_hex(hex, make_text_key("a validation prompt")));
    cJSON_AddItemToArray(cJSON_AddArrayToObject(o, "keys"), key);
    if (!rc)
        rc = vf_writer_put_validation(w, 0, o, err);
    cJSON_Delete(o);
    return rc;
}

int make_dataset(const char *path, uint32_t n, int64_t shard_size, vc_err *err)
{
    cJSON *head = make_head(0);
    vf_writer *w;
    vf_writer_opts o = { .head = head, .shard_size = shard_size };
    int rc = vf_writer_open(&w, path, &o, err);
    if (!rc)
        rc = put_prompt(w, err);
    for (uint32_t i = 0; i < n && !rc; i++) {
        char caption[32];
        snprintf(caption, sizeof caption, "caption %u", i % 7);
        rc = i % 3 ? make_sample(w, i, caption, 3, 4, 6, err)
                   : make_sample(w, i, caption, 1, 8, 4, err);
    }
    if (!rc)
        rc = vf_writer_finish(w, err);
    vf_writer_close(w);
    cJSON_Delete(head);
    return rc;
}

/* ---- reading ---- */

static int failed(int rc, const vc_err *err)
{
    if (rc && (!*err->text || err->code != rc))
        abort();                             /* a failure without a message */
    return rc != 0;
}

static int read_value(vf_safetensors *st, int rc, const vc_err *err)
{
    for (int i = 0; st && i < vf_safetensors_count(st); i++)
        mutate_touch(vf_safetensors_at(st, i)->data, vf_safetensors_at(st, i)->bytes);
    vf_safetensors_close(st);
    return failed(rc, err);
}

static int read_texts(const vf_dataset *d, const cJSON *keys)
{
    const cJSON *hex;
    int bad = 0;
    cJSON_ArrayForEach(hex, keys) {
        vf_key k;
        vc_err err = { 0 };
        vf_safetensors *st;
        if (cJSON_IsString(hex) && vf_key_parse(&k, hex->valuestring)) {
            int rc = vf_dataset_text(d, k, true, &st, &err);
            bad += read_value(st, rc, &err);
        }
    }
    return bad;
}

static int read_sample(const vf_dataset *d, uint32_t i)
{
    vc_err err = { 0 };
    const vf_entry *e = vf_dataset_entry(d, i);
    const void *jpeg;
    const cJSON *caption;
    size_t n;
    cJSON *record;
    vf_safetensors *st;
    int bad = failed(vf_dataset_sample(d, i, &record, &err), &err);
    cJSON_ArrayForEach(caption, cJSON_GetObjectItemCaseSensitive(record, "captions"))
        bad += read_texts(d, cJSON_GetObjectItemCaseSensitive(caption, "keys"));
    cJSON_Delete(record);
    vf_dataset_prefetch(d, i, e->latent);
    int rc = vf_dataset_latent(d, e->latent, true, &st, &err);
    bad += read_value(st, rc, &err);
    if (!vf_dataset_thumb(d, i, &jpeg, &n, NULL))
        mutate_touch(jpeg, n);
    return bad;
}

static void count_finding(void *arg, const char *where, const char *text)
{
    if (!*where || !*text)
        abort();
    ++*(uint64_t *)arg;
}

int read_everything(const char *path)
{
    vc_err err = { 0 };
    vf_dataset *d;
    vf_verify_report r;
    uint64_t found = 0;
    int bad = failed(vf_dataset_open(&d, path, true, &err), &err);
    for (uint32_t i = 0; d && i < vf_dataset_count(d) && i < 1000; i++)
        bad += read_sample(d, i);
    for (uint32_t i = 0; d && i < vf_dataset_validations(d) && i < 1000; i++) {
        cJSON *record;
        bad += failed(vf_dataset_validation(d, i, &record, &err), &err);
        bad += read_texts(d, cJSON_GetObjectItemCaseSensitive(record, "keys"));
        cJSON_Delete(record);
    }
    vf_dataset_close(d);
    if (!failed(vf_verify(path, count_finding, &found, NULL, &r, &err), &err) && r.damaged != found)
        abort();
    return bad;
}

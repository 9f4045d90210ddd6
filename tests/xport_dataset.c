/* xport_dataset.c - datasets for the tests of vlat export and import.
 *
 *     xport_dataset make PATH FAMILY STORE LATENT TEXT [WIDTH]
 *                                                         five samples, tiny: STORE moments|mode|sample,
 *                                                         types of latents and texts, latents' width (6)
 *     xport_dataset same A B                              every tensor of every sample, byte by byte
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/dataset/dataset.h"

enum { WIDTH = 6, POOLED = 4, SAMPLES = 5 };

static float value(uint32_t a, uint32_t b)
{
    uint32_t x = (a * 2654435761u + b) * 2246822519u;
    x ^= x >> 15;
    x *= 3266489917u;
    x ^= x >> 13;
    return (float)(int32_t)(x >> 8) / (1 << 22) - 2;
}

/* Values of a tensor; put frees them. */
static vf_view tensor(const char *name, vc_dtype t, uint32_t seed, int nd, const int64_t *dim)
{
    vf_view v = { .name = name, .dtype = t, .nd = nd };
    size_t n = 1;
    for (int i = 0; i < nd; i++)
        n *= (size_t)(v.dim[i] = dim[i]);
    float *f = malloc(n * sizeof *f);
    void *data = malloc(n * vc_dtype_size(t));
    for (size_t i = 0; i < n; i++)
        f[i] = value(seed, (uint32_t)i);
    vc_from_f32(data, t, f, n);
    free(f);
    v.data = data;
    v.bytes = n * vc_dtype_size(t);
    return v;
}

static vf_key key_of(const char *kind, uint32_t i)
{
    return vf_hash2(kind, strlen(kind), &i, sizeof i);
}

static int put(vf_writer *w, bool text, vf_key k, const vf_view *v, int n, vc_err *err)
{
    uint8_t *st;
    size_t size;
    int rc = vf_safetensors_pack(&st, &size, v, n, NULL, 0, 1, err);
    for (int i = 0; i < n; i++)
        free((void *)v[i].data);
    if (rc)
        return rc;
    rc = text ? vf_writer_put_text(w, k, st, size, err) : vf_writer_put_latent(w, k, st, size, err);
    free(st);
    return rc;
}

typedef struct making {
    const char *family, *store;
    vc_dtype latent, text;
    int channels, encoders, width;
} making;

/* Text j of encoder i: 0 is the empty prompt. */
static int put_text(vf_writer *w, const making *m, int encoder, uint32_t j, vc_err *err)
{
    vf_view v[2];
    int n = 0;
    if (!encoder)
        v[n++] = tensor("prompt_embeds", m->text, 100 + j, 2, (int64_t[]){ 3 + j % 3, WIDTH });
    else
        v[n++] = tensor("pooled", m->text, 200 + j, 1, (int64_t[]){ POOLED });
    return put(w, true, key_of(encoder ? "text 2" : "text 1", j), v, n, err);
}

static int put_sample(vf_writer *w, const making *m, uint32_t i, vc_err *err)
{
    static const char *const captions[2] = { "a caption, \\\"quoted\\\" \\u00fc", "another" };
    int f = i % 2 ? 3 : 1, h = 4, wd = m->width;
    int64_t dim[4] = { m->channels, f, h, wd };
    bool sample = !strcmp(m->store, "sample"), moments = !strcmp(m->store, "moments");
    vf_view v[2] = { tensor(sample ? "sample" : "mean", m->latent, i, 4, dim) };
    if (moments)
        v[1] = tensor("logvar", m->latent, 50 + i, 4, dim);
    char hex[2][VF_KEY_HEX], text[900], keys[90];
    int rc = put(w, false, key_of("latent", i), v, moments ? 2 : 1, err);
    for (int e = 0; !rc && e < m->encoders; e++)
        rc = put_text(w, m, e, i, err);
    snprintf(keys, sizeof keys, "\"%s\"", vf_key_hex(hex[0], key_of("text 1", i)));
    if (m->encoders == 2)
        snprintf(keys, sizeof keys, "\"%s\",\"%s\"", hex[0], vf_key_hex(hex[1], key_of("text 2", i)));
    int n = snprintf(text, sizeof text,
        "{\"sample\":%u,\"variant\":0,\"id\":\"%016x\",\"path\":\"clips/a_b %u.mp4\",\"type\":\"%s\","
        "\"captions\":[{\"text\":\"%s\",\"keys\":[%s]}],\"source\":{\"w\":96,\"h\":64},\"key\":\"0.67\","
        "\"target\":[32,%d],\"frames\":[%s],\"fps\":8,\"latent\":[%d,4,%d],\"tokens\":%d,"
        "\"latent_key\":\"%s\"}", i, i + 1, i, f > 1 ? "video" : "image",
        i ? captions[i / 2 % 2] : "", keys, 8 * wd, f > 1 ? "2,3,4,5,6,7,8,9,10" : "0", f, wd, f * wd,
        vf_key_hex(hex[0], key_of("latent", i)));
    cJSON *o = NULL;
    if (!rc) rc = vf_json_parse(&o, text, (size_t)n, err);
    if (!rc) rc = vf_writer_put_sample(w, i, 0, o, "\xff\xd8\xff\xd9", i ? 4 : 0, err);
    cJSON_Delete(o);
    return rc;
}

static cJSON *make_head(const making *m)
{
    char hex[2][VF_KEY_HEX], text[2400], norm[900], second[400] = "";
    bool wan = strstr("wan2.1 qwen-image", m->family) != NULL;
    cJSON *head = NULL;
    snprintf(norm, sizeof norm, !wan ? "\"scaling_factor\":0.7,\"shift_factor\":0,\"mean\":null,\"std\":null" :
        "\"scaling_factor\":1,\"shift_factor\":0,"
        "\"mean\":[-0.7571,-0.7089,-0.9113,0.1075,-0.1745,0.9653,-0.1517,1.5508,0.4134,-0.0715,0.5517,-0.3632,"
        "-0.1922,-0.9497,0.2503,-0.2921],"
        "\"std\":[2.8184,1.4541,2.3275,2.6558,1.2196,1.7708,2.6052,2.0743,3.2687,2.1526,2.8652,1.5579,1.6382,"
        "1.1253,2.8251,1.9160]");
    if (m->encoders == 2)
        snprintf(second, sizeof second, ",{\"slot\":\"text_encoder_2\",\"class\":\"B\",\"fingerprint\":"
            "\"ffeeddccbbaa99887766554433221101\",\"tokenizer\":\"0123456789abcdef0123456789abcdef\","
            "\"dtype\":\"bf16\",\"max_length\":77,\"width\":%d,\"empty\":\"%s\"}", POOLED,
            vf_key_hex(hex[1], key_of("text 2", 0)));
    int n = snprintf(text, sizeof text, "{\"family\":\"%s\",\"train_mode\":\"normal\","
        "\"vae\":{\"class\":\"V\",\"fingerprint\":\"00112233445566778899aabbccddeeff\",\"dtype\":\"bf16\","
        "\"channels\":%d,\"ratio\":[4,8,8]},\"normalization\":{%s,\"invert_scale_latents\":false},"
        "\"text_encoders\":[{\"slot\":\"text_encoder\",\"class\":\"A\",\"fingerprint\":"
        "\"ffeeddccbbaa99887766554433221100\",\"tokenizer\":\"0123456789abcdef0123456789abcdef\","
        "\"dtype\":\"bf16\",\"max_length\":8,\"width\":%d,\"empty\":\"%s\"}%s],\"latent_store\":\"%s\","
        "\"dtype\":\"%s\",\"sampling\":{\"seed\":0}}", m->family, m->channels, norm, WIDTH,
        vf_key_hex(hex[0], key_of("text 1", 0)), second, m->store, vc_dtype_name(m->latent));
    vf_json_parse(&head, text, (size_t)n, NULL);
    return head;
}

static int make(const char *path, const making *m, vc_err *err)
{
    cJSON *head = make_head(m);
    const vf_writer_opts o = { .head = head, .shard_size = 1 << 20 };
    vf_writer *w;
    int rc = vf_writer_open(&w, path, &o, err);
    for (uint32_t i = 0; !rc && i < SAMPLES; i++)
        rc = put_sample(w, m, i, err);
    if (!rc) rc = vf_writer_finish(w, err);
    vf_writer_close(w);
    cJSON_Delete(head);
    return rc;
}

/* ---- comparing ---- */

static int same_tensors(const vf_safetensors *a, const vf_safetensors *b, vc_err *err)
{
    if (vf_safetensors_count(a) != vf_safetensors_count(b))
        return vc_fail(err, VC_EMISMATCH, "another number of tensors");
    for (int i = 0; i < vf_safetensors_count(a); i++) {
        const vf_view *x = vf_safetensors_at(a, i), *y = vf_safetensors_at(b, i);
        if (strcmp(x->name, y->name) || x->dtype != y->dtype || x->nd != y->nd || x->bytes != y->bytes ||
            memcmp(x->dim, y->dim, sizeof x->dim) || memcmp(x->data, y->data, x->bytes))
            return vc_fail(err, VC_EMISMATCH, "%s: other type, shape or bytes", x->name);
    }
    return 0;
}

static int same_value(const vf_dataset *a, const vf_dataset *b, bool text, vf_key x, vf_key y, vc_err *err)
{
    vf_safetensors *s = NULL, *t = NULL;
    int rc = text ? vf_dataset_text(a, x, true, &s, err) : vf_dataset_latent(a, x, true, &s, err);
    if (!rc) rc = text ? vf_dataset_text(b, y, true, &t, err) : vf_dataset_latent(b, y, true, &t, err);
    if (!rc) rc = same_tensors(s, t, err);
    vf_safetensors_close(s);
    vf_safetensors_close(t);
    return rc;
}

static const cJSON *text_keys(const cJSON *record)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(record, "captions");
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(list, 0), "keys");
}

static int same_sample(const vf_dataset *a, const vf_dataset *b, uint32_t i, vc_err *err)
{
    cJSON *r = NULL, *s = NULL;
    vf_key x, y;
    int rc = same_value(a, b, false, vf_dataset_entry(a, i)->latent, vf_dataset_entry(b, i)->latent, err);
    if (!rc) rc = vf_dataset_sample(a, i, &r, err);
    if (!rc) rc = vf_dataset_sample(b, i, &s, err);
    for (int k = 0; !rc && k < cJSON_GetArraySize(text_keys(s)); k++)
        if (vf_key_parse(&x, cJSON_GetArrayItem(text_keys(r), k)->valuestring) &&
            vf_key_parse(&y, cJSON_GetArrayItem(text_keys(s), k)->valuestring))
            rc = same_value(a, b, true, x, y, err);
    cJSON_Delete(r);
    cJSON_Delete(s);
    return vc_context(err, rc, "sample %u", i);
}

static int same(const char *a, const char *b, vc_err *err)
{
    vf_dataset *d = NULL, *e = NULL;
    int rc = vf_dataset_open(&d, a, false, err);
    if (!rc) rc = vf_dataset_open(&e, b, false, err);
    if (!rc && vf_dataset_count(d) != vf_dataset_count(e))
        rc = vc_fail(err, VC_EMISMATCH, "%u samples, %u", vf_dataset_count(d), vf_dataset_count(e));
    for (uint32_t i = 0; !rc && i < vf_dataset_count(d); i++)
        rc = same_sample(d, e, i, err);
    vf_dataset_close(d);
    vf_dataset_close(e);
    return rc;
}

int main(int argc, char **argv)
{
    vc_err err = { 0 };
    int rc = VC_EUSAGE;
    if ((argc == 7 || argc == 8) && !strcmp(argv[1], "make")) {
        making m = { argv[3], argv[4], vc_dtype_from_name(argv[5]), vc_dtype_from_name(argv[6]), 16,
                     strcmp(argv[3], "hunyuanvideo") ? 1 : 2, argc == 8 ? atoi(argv[7]) : 6 };
        rc = make(argv[2], &m, &err);
    } else if (argc == 4 && !strcmp(argv[1], "same")) {
        rc = same(argv[2], argv[3], &err);
    }
    if (rc)
        fprintf(stderr, "xport_dataset: %s\n", err.text);
    return rc ? 1 : 0;
}

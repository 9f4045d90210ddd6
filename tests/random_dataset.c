/* random_dataset.c - a latent dataset of random numbers at any size, for scripts/bench and runs at full size.
 *
 *     random_dataset OUT SAMPLES F H W TOKENS WIDTH [FAMILY VAE CLASS]     latent grid, text
 *
 * Moments of 16 channels: means N(0,1) in f16, logvar -6; each sample has a caption of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "formats/dataset/dataset.h"

enum { CHANNELS = 16 };

typedef struct shape {
    int64_t samples, f, h, w, tokens, width;
    const char *family, *vae, *class;
} shape;

static vf_key key_of(const char *kind, uint32_t n)
{
    char s[48];
    return vf_hash(s, (size_t)snprintf(s, sizeof s, "%s %u", kind, n));
}

/* n normals times scale in f16 */
static uint16_t *normals(size_t n, uint64_t id, float scale)
{
    float *x = malloc(n * sizeof *x);
    uint16_t *y = malloc(n * sizeof *y);
    if (x && y) {
        vc_draw_normals(x, n, 0, id, 0, VC_DRAW_INIT);
        for (size_t i = 0; i < n; i++)
            x[i] *= scale;
        vc_from_f32(y, VC_F16, x, n);
    }
    free(x);
    return y;
}

static int put(vf_writer *w, vf_key key, const vf_view *v, int n, bool text, vc_err *err)
{
    uint8_t *st;
    size_t size;
    int rc = vf_safetensors_pack(&st, &size, v, n, NULL, 0, 1, err);
    if (!rc) rc = text ? vf_writer_put_text(w, key, st, size, err)
                       : vf_writer_put_latent(w, key, st, size, err);
    free(st);
    return rc;
}

static int put_text(vf_writer *w, const shape *s, uint32_t n, vc_err *err)
{
    size_t count = (size_t)(s->tokens * s->width);
    uint16_t *x = normals(count, 2 * (uint64_t)n + 1, 0.2f);
    vf_view v = { "prompt_embeds", VC_F16, 2, { s->tokens, s->width }, x, 2 * count };
    int rc = x ? put(w, key_of("text", n), &v, 1, true, err) : vc_fail(err, VC_ENOMEM, "memory");
    free(x);
    return rc;
}

static int put_latent(vf_writer *w, const shape *s, uint32_t n, vc_err *err)
{
    size_t count = (size_t)(CHANNELS * s->f * s->h * s->w);
    uint16_t *mean = normals(count, 2 * (uint64_t)n, 1), *logvar = malloc(2 * count);
    vf_view v[2] = {
        { "mean", VC_F16, 4, { CHANNELS, s->f, s->h, s->w }, mean, 2 * count },
        { "logvar", VC_F16, 4, { CHANNELS, s->f, s->h, s->w }, logvar, 2 * count },
    };
    for (size_t i = 0; logvar && i < count; i++)
        logvar[i] = vc_f32_to_f16(-6);
    int rc = mean && logvar ? put(w, key_of("latent", n), v, 2, false, err)
                            : vc_fail(err, VC_ENOMEM, "memory");
    free(mean);
    free(logvar);
    return rc;
}

static int put_sample(vf_writer *w, const shape *s, uint32_t n, vc_err *err)
{
    char hex[VF_KEY_HEX], id[24];
    cJSON *o = cJSON_CreateObject(), *caption = cJSON_CreateObject(), *list;
    snprintf(id, sizeof id, "%016x", n);
    cJSON_AddNumberToObject(o, "sample", n);
    cJSON_AddStringToObject(o, "id", id);
    cJSON_AddNumberToObject(o, "variant", 0);
    cJSON_AddStringToObject(o, "type", s->f > 1 ? "video" : "image");
    cJSON_AddItemToArray(list = cJSON_AddArrayToObject(o, "captions"), caption);
    cJSON_AddStringToObject(caption, "text", id);
    list = cJSON_AddArrayToObject(caption, "keys");
    cJSON_AddItemToArray(list, cJSON_CreateString(vf_key_hex(hex, key_of("text", n + 1))));
    cJSON_AddStringToObject(o, "key", "1.0");
    int latent[3] = { (int)s->f, (int)s->h, (int)s->w };
    cJSON_AddItemToObject(o, "latent", cJSON_CreateIntArray(latent, 3));
    cJSON_AddNumberToObject(o, "tokens", (double)(s->f * (s->h / 2) * (s->w / 2)));
    cJSON_AddNumberToObject(o, "fps", 8);
    cJSON_AddStringToObject(o, "latent_key", vf_key_hex(hex, key_of("latent", n)));
    int rc = put_latent(w, s, n, err);
    if (!rc) rc = put_text(w, s, n + 1, err);
    if (!rc) rc = vf_writer_put_sample(w, n, 0, o, NULL, 0, err);
    cJSON_Delete(o);
    return rc;
}

static cJSON *head_of(const shape *s)
{
    static const char zero[] = "00000000000000000000000000000000";
    char hex[VF_KEY_HEX];
    cJSON *o = cJSON_CreateObject(), *e;
    cJSON_AddStringToObject(o, "family", s->family);
    cJSON_AddStringToObject(o, "train_mode", "normal");
    e = cJSON_AddObjectToObject(o, "vae");
    cJSON_AddStringToObject(e, "class", s->vae);
    cJSON_AddStringToObject(e, "fingerprint", zero);
    cJSON_AddNumberToObject(e, "channels", CHANNELS);
    cJSON_AddItemToObject(e, "ratio", cJSON_CreateIntArray((int[]){ 4, 8, 8 }, 3));
    e = cJSON_AddObjectToObject(o, "normalization");
    cJSON_AddNumberToObject(e, "scaling_factor", 1);
    cJSON_AddNumberToObject(e, "shift_factor", 0);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(o, "text_encoders"), e = cJSON_CreateObject());
    cJSON_AddStringToObject(e, "slot", "text_encoder");
    cJSON_AddStringToObject(e, "class", s->class);
    cJSON_AddStringToObject(e, "fingerprint", zero);
    cJSON_AddStringToObject(e, "tokenizer", zero);
    cJSON_AddNumberToObject(e, "max_length", (double)s->tokens);
    cJSON_AddNumberToObject(e, "width", (double)s->width);
    cJSON_AddStringToObject(e, "empty", vf_key_hex(hex, key_of("text", 0)));
    cJSON_AddStringToObject(o, "latent_store", "moments");
    cJSON_AddStringToObject(o, "dtype", "f16");
    cJSON_AddItemToObject(o, "sampling", cJSON_CreateObject());
    return o;
}

int main(int argc, char **argv)
{
    if (argc != 8 && argc != 11) {
        fprintf(stderr, "random_dataset OUT SAMPLES F H W TOKENS WIDTH [FAMILY VAE CLASS]\n");
        return 2;
    }
    shape s = {
        atoll(argv[2]), atoll(argv[3]), atoll(argv[4]), atoll(argv[5]), atoll(argv[6]),
        atoll(argv[7]), "cogvideox", "AutoencoderKLCogVideoX", "T5EncoderModel",
    };
    if (argc == 11) {
        s.family = argv[8];
        s.vae = argv[9];
        s.class = argv[10];
    }
    vc_err err = { 0 };
    vf_writer *w;
    cJSON *head = head_of(&s);
    const vf_writer_opts o = { .head = head, .shard_size = 4ll << 30, .overwrite = true };
    int rc = vf_writer_open(&w, argv[1], &o, &err);
    if (!rc) rc = put_text(w, &s, 0, &err);
    for (uint32_t n = 0; !rc && n < s.samples; n++)
        rc = put_sample(w, &s, n, &err);
    if (!rc) rc = vf_writer_finish(w, &err);
    vf_writer_close(w);
    cJSON_Delete(head);
    if (rc) fprintf(stderr, "random_dataset: %s\n", err.text);
    return rc ? 1 : 0;
}

/* factory_cache.c - what CogVideoX-Factory's prepare_dataset.py leaves, of a tiny dataset of moments:
 *
 *     factory_cache DATASET DIR
 *
 * Texts are padded to eight rows. Image latents are there of the first sample only. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/peers/torch.h"

enum { PADDED = 8 };

static void fail(const char *what)
{
    fprintf(stderr, "factory_cache: %s\n", what);
    exit(1);
}

static void put_tensor(const char *dir, const char *folder, uint32_t i, const vf_view *v)
{
    char name[64];
    const vf_pt_value value = { .kind = VF_PT_TENSOR, .tensor = v };
    snprintf(name, sizeof name, "%s/clip-%" PRIu32 ".pt", folder, i);
    if (xport_write_pt(dir, name, &value, NULL))
        fail(name);
}

static void put_moments(const char *dir, const vf_dataset *d, uint32_t i)
{
    const vf_entry *e = vf_dataset_entry(d, i);
    xport_sample s = { .e = e };
    vf_safetensors *st;
    void *data;
    if (vf_dataset_latent(d, e->latent, true, &st, NULL) ||
        vf_safetensors_get(st, "mean", &s.mean, NULL) || vf_safetensors_get(st, "logvar", &s.logvar, NULL) ||
        xport_moments(&s, s.mean.dtype, false, &data, NULL))
        fail("a latent");
    const vf_view v = { NULL, s.mean.dtype, 4, { 2 * s.mean.dim[0], e->f, e->h, e->w }, data,
                        2 * s.mean.bytes };
    put_tensor(dir, "video_latents", i, &v);
    if (i == 0)
        put_tensor(dir, "image_latents", i, &v);
    free(data);
    vf_safetensors_close(st);
}

static void put_text(const char *dir, const vf_dataset *d, uint32_t i, const cJSON *caption)
{
    const cJSON *hex = cJSON_GetObjectItemCaseSensitive(caption, "keys")->child;
    vf_key k;
    vf_safetensors *st;
    vf_view v;
    if (!vf_key_parse(&k, hex->valuestring) || vf_dataset_text(d, k, true, &st, NULL) ||
        vf_safetensors_get(st, "prompt_embeds", &v, NULL))
        fail("a text");
    size_t row = v.bytes / (size_t)v.dim[0], bytes = PADDED * row;
    uint8_t *data = calloc(PADDED, row);
    memcpy(data, v.data, v.bytes);
    put_tensor(dir, "prompt_embeds", i,
               &(vf_view){ NULL, v.dtype, 2, { PADDED, v.dim[1] }, data, bytes });
    free(data);
    vf_safetensors_close(st);
}

static void put_line(FILE *list[3], uint32_t i, uint32_t frames, const char *prompt)
{
    cJSON *o = cJSON_CreateObject(), *m;
    char name[64];
    static const char *const files[][2] = {
        { "prompt_embed", "prompt_embeds/clip-%u.pt" }, { "image", "images/clip-%u.png" },
        { "image_latent", "image_latents/clip-%u.pt" }, { "video", "videos/clip-%u.mp4" },
        { "video_latent", "video_latents/clip-%u.pt" },
    };
    cJSON_AddStringToObject(o, "prompt", prompt);
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        snprintf(name, sizeof name, files[k][1], i);
        cJSON_AddStringToObject(o, files[k][0], name);
    }
    m = cJSON_AddObjectToObject(o, "metadata");
    vf_json_add_int(m, "num_frames", frames);
    char *line = vf_json_line(o);
    fprintf(list[0], "%s\n", line);
    fprintf(list[1], "%s\n", prompt);
    fprintf(list[2], "videos/clip-%" PRIu32 ".mp4\n", i);
    free(line);
    cJSON_Delete(o);
}

int main(int argc, char **argv)
{
    static const char *const names[3] = { "data.jsonl", "prompts.txt", "videos.txt" };
    FILE *list[3];
    vf_dataset *d;
    if (argc != 3 || vf_dataset_open(&d, argv[1], false, NULL) || vc_mkdirs(argv[2], NULL))
        fail("DATASET DIR");
    for (int k = 0; k < 3; k++) {
        char *path = vc_path_join(argv[2], names[k]);
        if (!(list[k] = fopen(path, "w")))
            fail(path);
        free(path);
    }
    for (uint32_t i = 0; i < vf_dataset_count(d); i++) {
        cJSON *record;
        if (vf_dataset_sample(d, i, &record, NULL))
            fail("a record");
        const cJSON *caption = cJSON_GetObjectItemCaseSensitive(record, "captions")->child;
        put_moments(argv[2], d, i);
        put_text(argv[2], d, i, caption);
        put_line(list, i, 4u * vf_dataset_entry(d, i)->f - 3,
                 cJSON_GetObjectItemCaseSensitive(caption, "text")->valuestring);
        cJSON_Delete(record);
    }
    for (int k = 0; k < 3; k++)
        if (fclose(list[k]))
            fail(names[k]);
    vf_dataset_close(d);
    return 0;
}

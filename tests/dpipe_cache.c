/* dpipe_cache.c - a cache as diffusion-pipe writes it, of a tiny dataset (wan2.1 or hunyuanvideo):
 *
 *     dpipe_cache DATASET DIR
 *
 * Latents are raw; texts lie in another order than latents, in two shards. Each sample has its own
 * caption and that of the sample after it. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/peers/torch.h"

enum { PADDED = 8 };

typedef struct cache {
    sqlite3 *db;
    FILE *bin;
    char dir[400];
    int shard, row;
    long offset;
} cache;

static void fail(const char *what)
{
    fprintf(stderr, "dpipe_cache: %s\n", what);
    exit(1);
}

static void sql(cache *c, const char *text)
{
    if (sqlite3_exec(c->db, text, NULL, NULL, NULL))
        fail(sqlite3_errmsg(c->db));
}

static void next_shard(cache *c)
{
    char text[500];
    if (c->bin)
        fclose(c->bin);
    c->shard++;
    c->row = 0;
    c->offset = 0;
    snprintf(text, sizeof text, "CREATE TABLE shard_%d(offset, size)", c->shard);
    sql(c, text);
    snprintf(text, sizeof text, "%s/shard_%d.bin", c->dir, c->shard);
    if (!(c->bin = fopen(text, "wb")))
        fail(text);
}

static void begin(cache *c, const char *root, const char *name)
{
    char path[500];
    *c = (cache){ .shard = -1 };
    snprintf(c->dir, sizeof c->dir, "%s/%s", root, name);
    snprintf(path, sizeof path, "%s/metadata.db", c->dir);
    if (vc_mkdirs(c->dir, NULL) || sqlite3_open(path, &c->db))
        fail(path);
    sql(c, "CREATE TABLE fingerprint(value); CREATE TABLE items(shard, shard_index)");
    next_shard(c);
}

static void end(cache *c)
{
    fclose(c->bin);
    sqlite3_close(c->db);
}

static void add(cache *c, const xport_dict *d)
{
    const vf_pt_value v = xport_dict_value(d);
    char *data, text[200];
    size_t n;
    if (vf_pt_pack(&data, &n, &v, NULL) || fwrite(data, 1, n, c->bin) != n)
        fail("cannot write");
    free(data);
    snprintf(text, sizeof text, "INSERT INTO items VALUES(%d, %d); INSERT INTO shard_%d VALUES(%ld, "
             "%zu)", c->shard, c->row++, c->shard, c->offset, n);
    sql(c, text);
    c->offset += (long)n;
}

/* A list of two as image_spec has it: of no tar, a path. */
static void add_spec(xport_dict *d, vf_pt_value spec[2], const vf_pt_value *item[2], const char *path)
{
    spec[0] = (vf_pt_value){ .kind = VF_PT_NONE };
    spec[1] = (vf_pt_value){ .kind = VF_PT_STR, .s = path, .n = strlen(path) };
    item[0] = &spec[0];
    item[1] = &spec[1];
    vf_pt_value *v = xport_dict_add(d, "image_spec", VF_PT_LIST);
    v->item = item;
    v->n = 2;
}

static cJSON *record_of(const vf_dataset *d, uint32_t i)
{
    cJSON *o = NULL;
    if (vf_dataset_sample(d, i, &o, NULL))
        fail("a record");
    return o;
}

static const char *str(const cJSON *o, const char *field)
{
    return cJSON_GetObjectItemCaseSensitive(o, field)->valuestring;
}

static void add_latent(cache *c, const vf_dataset *d, uint32_t i)
{
    cJSON *record = record_of(d, i);
    const cJSON *first = cJSON_GetObjectItemCaseSensitive(record, "captions")->child;
    vf_safetensors *st;
    vf_view v = { 0 };
    xport_dict dict = { .n = 0 };
    vf_pt_value spec[2], text = { .kind = VF_PT_STR, .s = str(first, "text") };
    const vf_pt_value second = { .kind = VF_PT_STR, .s = "second", .n = 6 };
    const vf_pt_value *item[2], *captions[2] = { &text, &second };
    text.n = strlen(text.s);
    if (vf_dataset_latent(d, vf_dataset_entry(d, i)->latent, true, &st, NULL) ||
        (vf_safetensors_get(st, "mean", &v, NULL) && vf_safetensors_get(st, "sample", &v, NULL)))
        fail("a latent");
    xport_dict_tensor(&dict, "latents", v);
    xport_dict_add(&dict, "mask", VF_PT_NONE);
    add_spec(&dict, spec, item, str(record, "path"));
    vf_pt_value *list = xport_dict_add(&dict, "caption", VF_PT_LIST);
    list->item = captions;
    list->n = 2;
    add(c, &dict);
    vf_safetensors_close(st);
    cJSON_Delete(record);
}

/* Sample `of`'s text of an encoder as one of sample i's; rows are padded with what must not be taken for text. */
static void add_text(cache *c, const vf_dataset *d, bool wan, int encoder, uint32_t i, uint32_t of)
{
    cJSON *record = record_of(d, of), *path = record_of(d, i);
    const cJSON *first = cJSON_GetObjectItemCaseSensitive(record, "captions")->child;
    const cJSON *hex = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(first, "keys"), encoder);
    const char *embeds = encoder ? "prompt_embeds_2" : wan ? "text_embeddings" : "prompt_embeds_1";
    vf_key k;
    vf_safetensors *st;
    vf_view v;
    xport_dict dict = { .n = 0 };
    vf_pt_value spec[2];
    const vf_pt_value *item[2];
    int64_t mask[PADDED] = { 0 }, length;
    if (!vf_key_parse(&k, hex->valuestring) || vf_dataset_text(d, k, true, &st, NULL) ||
        vf_safetensors_get(st, encoder ? "pooled" : "prompt_embeds", &v, NULL))
        fail("a text");
    length = v.dim[0];
    uint8_t *rows = malloc(v.bytes * PADDED);
    memset(rows, 1, v.bytes * PADDED);
    memcpy(rows, v.data, v.bytes);
    if (!encoder) {
        v.bytes = v.bytes / (size_t)v.dim[0] * PADDED;
        v.dim[0] = PADDED;
        v.data = rows;
    }
    for (int r = 0; r < PADDED; r++)
        mask[r] = r < length;
    xport_dict_tensor(&dict, embeds, v);
    if (wan)
        xport_dict_tensor(&dict, "seq_lens", (vf_view){ NULL, VC_I64, 0, { 0 }, &length, 8 });
    else if (!encoder)
        xport_dict_tensor(&dict, "prompt_attention_mask_1",
                          (vf_view){ NULL, VC_I64, 1, { PADDED }, mask, 8 * PADDED });
    add_spec(&dict, spec, item, str(path, "path"));
    add(c, &dict);
    free(rows);
    vf_safetensors_close(st);
    cJSON_Delete(record);
    cJSON_Delete(path);
}

int main(int argc, char **argv)
{
    vf_dataset *d;
    cache c;
    char name[64];
    if (argc != 3 || vf_dataset_open(&d, argv[1], false, NULL))
        fail("dpipe_cache DATASET DIR");
    bool wan = !strcmp(str(vf_dataset_manifest(d), "family"), "wan2.1");
    begin(&c, argv[2], "cache_1.500x48x32x9/latents");
    for (uint32_t i = 0; i < vf_dataset_count(d); i++)
        add_latent(&c, d, i);
    end(&c);
    for (int e = 0; e < (wan ? 1 : 2); e++) {
        snprintf(name, sizeof name, "ar_frames_1.500_9/text_embeddings_%d", e + 1);
        begin(&c, argv[2], name);
        for (uint32_t i = vf_dataset_count(d); i-- > 0;) {
            add_text(&c, d, wan, e, i, i);
            if (i == 2)
                next_shard(&c);
            add_text(&c, d, wan, e, i, (i + 1) % vf_dataset_count(d));
        }
        end(&c);
        snprintf(name, sizeof name, "uncond_text_embeddings_%d", e + 1);
        begin(&c, argv[2], name);
        add_text(&c, d, wan, e, 0, 0);
        end(&c);
    }
    vf_dataset_close(d);
    return 0;
}

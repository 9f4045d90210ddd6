/* ttt.c - exports and imports ttt-video's data: a .jsonl of paths, a tensor in each .pt.
 *
 *     metadata.jsonl             {"vid_emb": "videos/a.pt",
 *                                 "text_chunk_emb": ["texts/a-0_txt_emb.pt"]}
 *     videos/a.pt                raw moments [F,2C,H,W], bf16
 *     texts/a-0_txt_emb.pt       text embeddings [n,D] of one segment of three seconds, bf16
 *
 * See exchange.h */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/os/file.h"
#include "formats/peers/exchange_parts.h"
#include "formats/peers/torch.h"

enum { MAX_CHUNKS = 256 };

/* ---- export ---- */

typedef struct exporting {
    vf_keymap names;
    FILE *list;
} exporting;

static int write_tensor(const exchange *x, const char *name, const vf_view *v, vc_err *err)
{
    const vf_pt_value value = { .kind = VF_PT_TENSOR, .tensor = v };
    return exchange_write_pt(x->dir, name, &value, err);
}

static int write_video(const exchange *x, const char *name, const exchange_sample *s, vc_err *err)
{
    void *data = NULL;
    int rc = exchange_moments(s, VC_BF16, true, &data, err);
    const vf_view v = { NULL, VC_BF16, 4, { s->e->f, 2 * s->mean.dim[0], s->e->h, s->e->w }, data,
                        4 * (size_t)vf_view_count(&s->mean) };
    if (!rc)
        rc = write_tensor(x, name, &v, err);
    free(data);
    return rc;
}

/* Writes a file for each segment and adds the file's name to `list`. */
static int write_texts(const exchange *x, const char *stem, const exchange_sample *s, cJSON *list,
                       vc_err *err)
{
    const vf_view *e = &s->text[0].embeds;
    double said = vlat_num(s->record, "text_chunks");
    int64_t chunks = said > 1 && said <= MAX_CHUNKS ? (int64_t)said : 1;
    if (s->n_text != 1 || !e->data || e->dim[0] % chunks)
        return vc_fail(err, VC_EMISMATCH, "embeddings of one text encoder%s expected",
                       chunks > 1 ? ", in equal segments" : "");
    size_t n = (size_t)(vf_view_count(e) / chunks);
    uint16_t *data = malloc(2 * n + 1);
    int rc = data ? 0 : vc_no_memory(err);
    for (int64_t i = 0; !rc && i < chunks; i++) {
        const vf_view v = { NULL, VC_BF16, 2, { e->dim[0] / chunks, e->dim[1] }, data, 2 * n };
        char *name = vc_format("texts/%s-%" PRId64 "_txt_emb.pt", stem, i);
        rc = name ? exchange_convert(data, VC_BF16, e, (size_t)i * n, n, err)
                  : vc_no_memory(err);
        if (!rc)
            rc = write_tensor(x, name, &v, err);
        cJSON_AddItemToArray(list, cJSON_CreateString(name ? name : ""));
        free(name);
    }
    free(data);
    return rc;
}

static int write_sample(exchange *x, const exchange_sample *s, void *arg, vc_err *err)
{
    exporting *e = arg;
    char *stem = exchange_name(&e->names, s, err);
    char *name = stem ? vc_format("videos/%s.pt", stem) : NULL;
    cJSON *o = cJSON_CreateObject();
    int rc = name && o ? write_video(x, name, s, err) : vc_no_memory(err);
    cJSON_AddStringToObject(o, "vid_emb", name ? name : "");
    if (!rc)
        rc = write_texts(x, stem, s, cJSON_AddArrayToObject(o, "text_chunk_emb"), err);
    char *line = rc ? NULL : vf_json_line(o);
    if (!rc && (!line || fprintf(e->list, "%s\n", line) < 0))
        rc = vc_fail_errno(err, "metadata.jsonl");
    free(line);
    cJSON_Delete(o);
    free(name);
    free(stem);
    return rc;
}

static int export_ttt(exchange *x, vc_err *err)
{
    exporting e = { .list = NULL };
    int rc = 0;
    if (x->normalized)
        rc = vc_fail(err, VC_EUSAGE, "--space normalized: ttt-video keeps raw moments");
    char *path = rc ? NULL : vc_path_join(x->dir, "metadata.jsonl");
    if (!rc && (!path || !(e.list = fopen(path, "wbe"))))
        rc = vc_fail_errno(err, "%s/metadata.jsonl", x->dir);
    if (!rc)
        rc = exchange_each(x, write_sample, &e, err);
    if (e.list && fclose(e.list) && !rc)
        rc = vc_fail_errno(err, "%s", path);
    free(path);
    vf_keymap_free(&e.names);
    return rc;
}

/* ---- import ---- */

typedef struct importing {
    exchange *x;
    char *base;                              /* folder of the list; paths are relative to base */
} importing;

static int open_tensor(const importing *m, const cJSON *name, int nd, vf_pt **p, vf_view *v,
                       vc_err *err)
{
    if (!cJSON_IsString(name))
        return vc_fail(err, VC_EFORMAT, "vid_emb, text_chunk_emb: paths expected");
    return exchange_open_tensor(p, m->base, name->valuestring, nd, v, err);
}

/* Joins the rows of all segments, one segment after the other. */
static int read_texts(const importing *m, const cJSON *list, exchange_item *item, vc_err *err)
{
    const cJSON *name;
    vf_view *all = &item->text[0].embeds;
    uint8_t *data = NULL;
    int rc = 0;
    if (!cJSON_IsArray(list) || !list->child || cJSON_GetArraySize(list) > MAX_CHUNKS)
        return vc_fail(err, VC_EFORMAT, "text_chunk_emb: 1 to %d paths expected", MAX_CHUNKS);
    cJSON_ArrayForEach(name, list) {
        vf_pt *p = NULL;
        vf_view v;
        rc = open_tensor(m, name, 2, &p, &v, err);
        if (!rc && data && (v.dtype != all->dtype || v.dim[1] != all->dim[1] ||
                            v.dim[0] * item->chunks != all->dim[0]))
            rc = vc_fail(err, VC_EMISMATCH, "%s: unlike the segments before it", name->valuestring);
        uint8_t *more = rc ? NULL : realloc(data, all->bytes + v.bytes + 1);
        if (more) {
            data = more;
            memcpy(data + all->bytes, v.data, v.bytes);
            v.bytes += all->bytes;
            v.dim[0] += all->dim[0];
            *all = v;
            all->data = data;
            item->chunks++;
        } else if (!rc) {
            rc = vc_no_memory(err);
        }
        vf_pt_close(p);
        if (rc)
            break;
    }
    if (rc) {
        free(data);
        all->data = NULL;
    }
    item->n_text = 1;
    return rc;
}

static int read_tensors(importing *m, const cJSON *o, vc_err *err)
{
    const cJSON *video = cJSON_GetObjectItemCaseSensitive(o, "vid_emb");
    vf_pt *p = NULL;
    vf_view v;
    void *own = NULL;
    char caption[400];
    exchange_item item = { .caption = caption };
    int rc = open_tensor(m, video, 4, &p, &v, err);
    if (!rc) {
        item.path = video->valuestring;
        rc = vc_context(err, exchange_split(&v, true, &item, &own, err), "%s", item.path);
    }
    if (!rc)
        rc = read_texts(m, cJSON_GetObjectItemCaseSensitive(o, "text_chunk_emb"), &item, err);
    if (!rc) {
        snprintf(caption, sizeof caption, "(%.300s: no caption kept)", vc_path_base(item.path));
        rc = exchange_put(m->x, &item, err);
    }
    free((void *)item.text[0].embeds.data);
    free(own);
    vf_pt_close(p);
    return rc;
}

static int read_sample(void *arg, const cJSON *o, vc_err *err)
{
    importing *m = arg;
    return exchange_skip(m->x, read_tensors(m, o, err), err);
}

/* Imports the .jsonl x->dir, or metadata.jsonl in the folder x->dir. */
static int import_ttt(exchange *x, vc_err *err)
{
    struct stat st;
    bool folder = !stat(x->dir, &st) && S_ISDIR(st.st_mode);
    char *list = folder ? vc_path_join(x->dir, "metadata.jsonl") : strdup(x->dir);
    importing m = { .x = x, .base = list ? strdup(list) : NULL };
    if (!m.base) {
        free(list);
        return vc_no_memory(err);
    }
    char *slash = strrchr(m.base, '/');
    strcpy(slash ? slash + (slash == m.base) : m.base, slash ? "" : ".");
    vc_progress_begin(x->v->progress, "importing", "samples", 0);
    int rc = exchange_lines(list, read_sample, &m, err);
    free(m.base);
    free(list);
    return rc;
}

const exchange_format exchange_ttt = {
    "ttt-video", "ttt-video", "moments in bf16, texts of one encoder by segments; no captions",
    exchange_only_cogvideox, sizeof *exchange_only_cogvideox, "cogvideox", false, false,
    export_ttt, import_ttt, NULL
};

/* cogvideo.c - exports and imports CogVideo's finetune cache, inside the folder of its data.
 *
 *     prompts.txt, videos.txt                                      a line a sample
 *     cache/video_latent/MODEL/49x480x720/STEM.safetensors         encoded_video [C,F,H,W]
 *     cache/prompt_embeddings/SHA256.safetensors                   prompt_embedding [n,D]
 *
 * An import takes the path of the folder 49x480x720. See exchange.h */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/sha256.h"
#include "common/base/utf8.h"
#include "common/os/file.h"
#include "common/os/lines.h"
#include "formats/peers/exchange_parts.h"

#define LATENT "encoded_video"
#define PROMPT "prompt_embedding"

/* ---- export ---- */

typedef struct exporting {
    vf_keymap names, prompts;                /* used names; prompt -> hash of its embeddings */
    vc_buf prompts_txt, videos_txt;
    int64_t max_length;
    char shape[64];                          /* "49x480x720" */
} exporting;

/* Makes one line of n bytes, without blanks around it, as CogVideo reads it; "" if only blanks are
 * there. */
static int trimmed(char **line, const char *text, size_t n, vc_err *err)
{
    while (n && (unsigned char)text[n - 1] <= ' ')
        n--;
    while (n && (unsigned char)*text <= ' ') {
        text++;
        n--;
    }
    if (!(*line = strndup(n ? text : "", n)))
        return vc_no_memory(err);
    for (char *p = *line; *p; p++)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    return 0;
}

static int write_tensor(const exchange *x, const char *name, vf_view v, vc_err *err)
{
    uint8_t *data;
    size_t size;
    int rc = vf_safetensors_pack(&data, &size, &v, 1, NULL, 0, 0, err);
    if (rc)
        return rc;
    rc = exchange_write(x->dir, name, data, size, err);
    free(data);
    return rc;
}

static int same_shape(exporting *e, const exchange *x, const exchange_sample *s, vc_err *err)
{
    char shape[64];
    const int *r = x->family->ratio;
    const int64_t *d = s->mean.dim;
    snprintf(shape, sizeof shape, "%" PRId64 "x%" PRId64 "x%" PRId64, (d[1] - 1) * r[0] + 1,
             d[2] * r[1], d[3] * r[2]);
    if (!*e->shape)
        strcpy(e->shape, shape);
    return !strcmp(e->shape, shape) ? 0
         : vc_fail(err, VC_EMISMATCH, "%s, others are %s: CogVideo trains on one shape: vlat split "
                   "--by bucket first", shape, e->shape);
}

static int write_latent(const exchange *x, const exporting *e, const char *stem,
                        const exchange_sample *s, vc_err *err)
{
    const int64_t *d = s->mean.dim;
    size_t n = (size_t)vf_view_count(&s->mean);
    float *f = NULL;
    uint16_t *data = malloc(2 * n);
    char *name = vc_format("cache/video_latent/%s-t2v/%s/%s.safetensors", x->family->name, e->shape,
                           stem);
    int rc = data && name
                 ? exchange_latent_f32(x, s, &f, err)
                 : vc_no_memory(err);
    const vf_view from = { NULL, VC_F32, 1, { (int64_t)n }, f, 4 * n };
    if (!rc)
        rc = exchange_convert(data, VC_BF16, &from, 0, n, err);
    if (!rc)
        rc = write_tensor(x, name, (vf_view){ LATENT, VC_BF16, 4, { d[0], d[1], d[2], d[3] }, data,
                                              2 * n }, err);
    free(f);
    free(data);
    free(name);
    return rc;
}

/* Writes a prompt's embeddings once, with zeros up to the encoder's length. */
static int write_prompt(const exchange *x, exporting *e, const char *prompt, const vf_view *from,
                        vc_err *err)
{
    char hex[VC_SHA256_HEX], name[120];
    vf_key k = vf_hash(prompt, strlen(prompt)), content = vf_hash(from->data, from->bytes);
    uint64_t known, now;
    memcpy(&now, &content, sizeof now);
    now >>= 1;                               /* a keymap's values are below 2^64 - 1 */
    if (vf_keymap_get(&e->prompts, k, &known))
        return known == now ? 0
             : vc_fail(err, VC_EMISMATCH, "another sample with this caption has other embeddings: "
                       "CogVideo keeps one for each");
    int64_t rows = from->dim[0], width = from->dim[1];
    int64_t all = e->max_length > rows ? e->max_length : rows;
    uint16_t *data = calloc((size_t)(all * width) + 1, sizeof *data);
    int rc = data ? exchange_convert(data, VC_BF16, from, 0, (size_t)(rows * width), err)
                  : vc_no_memory(err);
    snprintf(name, sizeof name, "cache/prompt_embeddings/%s.safetensors",
             vc_sha256(hex, prompt, strlen(prompt)));
    if (!rc)
        rc = write_tensor(x, name, (vf_view){ PROMPT, VC_BF16, 2, { all, width }, data,
                                              2 * (size_t)(all * width) }, err);
    if (!rc)
        rc = vf_keymap_put(&e->prompts, k, now, err);
    free(data);
    return rc;
}

static int write_named(const exchange *x, exporting *e, const exchange_sample *s, const char *stem,
                       const char *prompt, vc_err *err)
{
    char *video = vc_format("videos/%s.mp4", stem);
    int rc = video ? same_shape(e, x, s, err) : vc_no_memory(err);
    if (!rc)
        rc = write_latent(x, e, stem, s, err);
    if (!rc)
        rc = write_prompt(x, e, prompt, &s->text[0].embeds, err);
    if (!rc)
        rc = exchange_write(x->dir, video, "", 0, err);    /* CogVideo checks that the video
                                                            * exists */
    if (!rc) {
        vc_buf_str(&e->prompts_txt, prompt);
        vc_buf_str(&e->prompts_txt, "\n");
        vc_buf_str(&e->videos_txt, video);
        vc_buf_str(&e->videos_txt, "\n");
    }
    free(video);
    return rc;
}

static int write_sample(exchange *x, const exchange_sample *s, void *arg, vc_err *err)
{
    exporting *e = arg;
    char *stem, *prompt = NULL;
    if (s->n_text != 1 || !s->text[0].embeds.data)
        return vc_fail(err, VC_EMISMATCH, "embeddings of one text encoder expected");
    int rc = trimmed(&prompt, s->caption, strlen(s->caption), err);
    if (!rc && !*prompt)
        rc = vc_fail(err, VC_EMISMATCH,
                     "an empty caption: CogVideo skips empty lines of prompts.txt");
    stem = rc ? NULL : exchange_name(&e->names, s, err);
    if (!rc && !stem)
        rc = VC_ENOMEM;
    if (!rc && strpbrk(stem, "\r\n"))
        rc = vc_fail(err, VC_EMISMATCH,
                     "a path with a line break does not go into " EXCHANGE_VIDEOS);
    if (!rc)
        rc = write_named(x, e, s, stem, prompt, err);
    free(stem);
    free(prompt);
    return rc;
}

static int export_cogvideo(exchange *x, vc_err *err)
{
    exporting e = { .max_length = 0 };
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(x->manifest, "text_encoders");
    double said = vlat_num(cJSON_GetArrayItem(list, 0), "max_length");
    e.max_length = said > 0 && said <= 1 << 14 ? (int64_t)said : 0;
    int rc = exchange_each(x, write_sample, &e, err);
    if (!rc && (e.prompts_txt.failed || e.videos_txt.failed))
        rc = vc_no_memory(err);
    if (!rc)
        rc = exchange_write(x->dir, "prompts.txt", e.prompts_txt.data, e.prompts_txt.n, err);
    if (!rc)
        rc = exchange_write(x->dir, EXCHANGE_VIDEOS, e.videos_txt.data, e.videos_txt.n, err);
    vc_buf_free(&e.prompts_txt);
    vc_buf_free(&e.videos_txt);
    vf_keymap_free(&e.names);
    vf_keymap_free(&e.prompts);
    return rc;
}

/* ---- import ---- */

enum { MAX_LINE = 4 << 20 };

/* A text file that is read line by line. */
typedef struct text_file {
    const char *name;
    vc_map m;
    vc_lines lines;
    int line;                                /* number of the last line, from 1 */
    vc_err bad;                              /* why it is no text */
} text_file;

static int open_lines(text_file *f, const char *root, const char *name, vc_err *err)
{
    char *path = vc_path_join(root, name);
    int rc = path ? vc_map_open(&f->m, path, err) : vc_no_memory(err);
    free(path);
    f->name = name;
    f->lines = vc_lines_of(f->m.data, f->m.size, MAX_LINE);
    return rc;
}

/* Gets the next line that is not blank; the caller frees *line, which is NULL at the end. */
static int next_line(text_file *f, char **line, vc_err *err)
{
    const char *text;
    size_t n;
    int rc;
    *line = NULL;
    while (!(rc = vc_lines_next(&f->lines, &text, &n, err)) && text) {
        f->line++;
        f->bad = (vc_err){ 0 };
        vc_utf8_check(text, n, &f->bad);
        rc = trimmed(line, text, n, err);
        if (rc || **line)
            return rc;
        free(*line);
        *line = NULL;
    }
    return rc;
}

/* Opens a file and gets its tensor `name`, which must have nd dimensions. */
static int open_tensor(vf_safetensors **f, const char *path, const char *name, int nd, vf_view *v,
                       vc_err *err)
{
    int rc = path ? vf_safetensors_open(f, path, err) : vc_no_memory(err);
    if (!rc)
        rc = vc_context(err, vf_safetensors_get(*f, name, v, err), "%s", path);
    if (!rc && (v->nd != nd || v->dim[0] < 1))
        rc = vc_fail(err, VC_EFORMAT, "%s: %s: %d dimensions expected", path, name, nd);
    return rc;
}

static int read_sample(exchange *x, const char *root, const char *video, const char *prompt,
                       vc_err *err)
{
    char hex[VC_SHA256_HEX];
    const char *base = vc_path_base(video), *dot = strrchr(base, '.');
    int n = dot && dot != base ? (int)(dot - base) : (int)strlen(base);
    char *latent = vc_format("%s/%.*s.safetensors", x->dir, n, base);
    char *text = vc_format("%s/cache/prompt_embeddings/%s.safetensors", root,
                           vc_sha256(hex, prompt, strlen(prompt)));
    vf_safetensors *f[2] = { NULL };
    exchange_item m = { .path = video, .caption = prompt, .drawn = true, .n_text = 1 };
    int rc = open_tensor(&f[0], latent, LATENT, 4, &m.mean, err);
    if (!rc)
        rc = open_tensor(&f[1], text, PROMPT, 2, &m.text[0].embeds, err);
    m.text[0].length = rc ? 0 : m.text[0].embeds.dim[0];
    if (!rc)
        rc = exchange_put(x, &m, err);
    vf_safetensors_close(f[0]);
    vf_safetensors_close(f[1]);
    free(latent);
    free(text);
    return rc;
}

/* Fails if the last line of a file is no text. */
static int check_text(const text_file *f, const char *root, vc_err *err)
{
    return f->bad.code ? vc_fail(err, f->bad.code, "%s/%s: line %d: %s", root, f->name, f->line,
                                 f->bad.text) : 0;
}

/* Gets and passes on the next pair; *more: there was one. */
static int read_pair(exchange *x, const char *root, text_file f[2], exchange_pair_fn fn, bool *more,
                     vc_err *err)
{
    char *line[2] = { NULL };
    int rc = 0;
    for (int i = 0; !rc && i < 2; i++)
        rc = next_line(&f[i], &line[i], err);
    *more = line[0] && line[1];
    if (!rc && *more) {
        for (int i = 0; !rc && i < 2; i++)
            rc = check_text(&f[i], root, err);
        rc = exchange_skip(x, rc ? rc : fn(x, root, line[0], line[1], err), err);
    } else if (!rc && (line[0] || line[1])) {
        rc = exchange_lack(x, err, "%s: another number of prompts than of videos", root);
    }
    free(line[0]);
    free(line[1]);
    return rc;
}

int exchange_pairs(exchange *x, const char *root, exchange_pair_fn fn, vc_err *err)
{
    text_file f[2] = { 0 };
    char *one = vc_path_join(root, "prompts.txt");
    bool plural = one && vc_file_exists(one);
    free(one);
    int rc = open_lines(&f[0], root, EXCHANGE_VIDEOS, err);
    if (!rc)
        rc = open_lines(&f[1], root, plural ? "prompts.txt" : "prompt.txt", err);
    for (bool more = true; !rc && more;)
        rc = read_pair(x, root, f, fn, &more, err);
    vc_map_close(&f[0].m);
    vc_map_close(&f[1].m);
    return rc;
}

/* Returns the family whose name is the longest prefix of the folder's name, such as
 * "cogvideox1.5-t2v", or NULL. */
static const vc_family *family_of(const char *folder)
{
    const vc_family *best = NULL;
    for (const vc_family *f = vc_families(); f->name; f++) {
        size_t n = strlen(f->name);
        if (exchange_layout(&exchange_cogvideo, f->name) && !strncmp(folder, f->name, n) &&
            (!best || n > strlen(best->name)))
            best = f;
    }
    return best;
}

static int import_cogvideo(exchange *x, vc_err *err)
{
    char *model = vc_format("%s/..", x->dir), *real = model ? realpath(model, NULL) : NULL;
    char *root = vc_format("%s/../../../..", x->dir);
    int rc = root && model ? 0 : vc_no_memory(err);
    if (!rc && !real)
        rc = vc_fail_errno(err, "%s", x->dir);
    const vc_family *f = rc ? NULL : family_of(vc_path_base(real));
    if (!rc && !f)
        rc = vc_fail(err, VC_EUSAGE, "%s: give the folder of latents, DATA/cache/video_latent/"
                     "cogvideox-t2v/49x480x720", x->dir);
    if (!rc && !x->v->o->family)
        x->family = f;
    vc_progress_begin(x->v->progress, "importing", "samples", 0);
    if (!rc)
        rc = exchange_pairs(x, root, read_sample, err);
    free(model);
    free(real);
    free(root);
    return rc;
}

const exchange_format exchange_cogvideo = {
    "cogvideo", "CogVideo", "one shape, a draw in bf16, one caption",
    exchange_only_cogvideox, sizeof *exchange_only_cogvideox, "cogvideox", true, false,
    export_cogvideo, import_cogvideo, "../../../.."
};

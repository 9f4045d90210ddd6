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
#include "common/os/file.h"
#include "formats/peers/exchange_parts.h"
#include "formats/peers/tensors.h"

static const exchange_names names = {
    .family = "cogvideox", .latents = "encoded_video", .drawn = true, .type = VC_BF16,
    .text_type = VC_BF16, .n_text = 1,
    .text = { { .embeds = "prompt_embedding", .padded = 1, .whole = true } }
};

/* ---- export ---- */

typedef struct exporting {
    vf_keymap names, prompts;                /* used names; prompt -> hash of its embeddings */
    vc_buf prompts_txt, videos_txt;
    char shape[64];                          /* "49x480x720" */
} exporting;

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
    exchange_dict d = { .n = 0 };
    char *name = vc_format("cache/video_latent/%s-t2v/%s/%s.safetensors", x->family->name, e->shape,
                           stem);
    int rc = name ? exchange_add_latents(&d, x, &names, s, err) : vc_no_memory(err);
    if (!rc)
        rc = exchange_write_safetensors(x->dir, name, &d, NULL, 0, err);
    exchange_dict_free(&d);
    free(name);
    return rc;
}

/* Writes a prompt's embeddings once, with zeros up to the encoder's length. */
static int write_prompt(const exchange *x, exporting *e, const char *prompt,
                        const exchange_sample *s, vc_err *err)
{
    char hex[VC_SHA256_HEX], name[120];
    const vf_view *from = &s->text[0].embeds;
    vf_key k = vf_hash(prompt, strlen(prompt)), content = vf_hash(from->data, from->bytes);
    uint64_t known, now;
    memcpy(&now, &content, sizeof now);
    now >>= 1;                               /* a keymap's values are below 2^64 - 1 */
    if (vf_keymap_get(&e->prompts, k, &known))
        return known == now ? 0
             : vc_fail(err, VC_EMISMATCH, "another sample with this caption has other embeddings: "
                       "CogVideo keeps one for each");
    exchange_dict d = { .n = 0 };
    int rc = exchange_add_texts(&d, x, &names, s, err);
    snprintf(name, sizeof name, "cache/prompt_embeddings/%s.safetensors",
             vc_sha256(hex, prompt, strlen(prompt)));
    if (!rc)
        rc = exchange_write_safetensors(x->dir, name, &d, NULL, 0, err);
    if (!rc)
        rc = vf_keymap_put(&e->prompts, k, now, err);
    exchange_dict_free(&d);
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
        rc = write_prompt(x, e, prompt, s, err);
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
    int rc = exchange_trimmed(&prompt, s->caption, strlen(s->caption), err);
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
    exporting e = { .shape = "" };
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

static int read_sample(exchange *x, const char *root, const char *video, const char *prompt,
                       vc_err *err)
{
    char hex[VC_SHA256_HEX];
    const char *base = vc_path_base(video), *dot = strrchr(base, '.');
    int n = dot && dot != base ? (int)(dot - base) : (int)strlen(base);
    char *a = vc_format("%s/%.*s.safetensors", x->dir, n, base);
    char *b = vc_format("%s/cache/prompt_embeddings/%s.safetensors", root,
                        vc_sha256(hex, prompt, strlen(prompt)));
    exchange_file latent = { .root = NULL }, text = { .root = NULL };
    exchange_item m = { .path = video, .caption = prompt };
    void *own = NULL;
    int rc = a && b ? exchange_file_open(&latent, a, err) : vc_no_memory(err);
    if (!rc)
        rc = vc_context(err, exchange_take_latents(&m, x, &names, latent.root, &own, err), "%s", a);
    if (!rc)
        rc = exchange_file_open(&text, b, err);
    if (!rc)
        rc = vc_context(err, exchange_take_texts(&m, &names, text.root, err), "%s", b);
    if (!rc)
        rc = exchange_put(x, &m, err);
    exchange_file_close(&latent);
    exchange_file_close(&text);
    free(own);
    free(a);
    free(b);
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

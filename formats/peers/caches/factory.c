/* factory.c - imports the output of CogVideoX-Factory's prepare_dataset.py, which its trainers load
 * with --load_tensors.
 *
 *     data.jsonl                      {"prompt": "...", "prompt_embed": "prompt_embeds/UUID.pt",
 *                                      "video": "videos/UUID.mp4", "video_latent":
 *                                      "video_latents/UUID.pt", "image_latent": ...,
 *                                      "metadata": {"num_frames": 49, ...}}
 *     videos.txt, prompts.txt         the same pairs, a line a sample
 *     video_latents/UUID.pt           raw moments [2C,F,H,W], of the type in --dtype
 *     prompt_embeds/UUID.pt           [n,D], with rows of padding
 *     image_latents/UUID.pt           moments of the first frame: a condition
 *
 * See exchange.h */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/peers/exchange_parts.h"
#include "formats/peers/torch.h"

#define LIST "data.jsonl"

typedef struct row {
    const char *video, *prompt;
    const char *latent, *embeds, *image;     /* paths relative to the folder */
    int64_t frames;                          /* 0: not known */
} row;

static int read_row(exchange *x, const char *root, const row *r, vc_err *err)
{
    vf_pt *latent = NULL, *text = NULL;
    vf_view v;
    void *own = NULL;
    exchange_item m = { .path = r->video, .caption = r->prompt, .frames = r->frames, .n_text = 1 };
    int rc = exchange_open_tensor(&latent, root, r->latent, 4, &v, err);
    if (!rc)
        rc = vc_context(err, exchange_split(&v, false, &m, &own, err), "%s", r->latent);
    if (!rc)
        rc = exchange_open_tensor(&text, root, r->embeds, 2, &m.text[0].embeds, err);
    m.text[0].length = rc ? 0 : m.text[0].embeds.dim[0];
    if (!rc)
        rc = exchange_put(x, &m, err);
    char *image = rc || !r->image ? NULL : vc_path_join(root, r->image);
    x->no_conditions += image && vc_file_exists(image);
    free(image);
    free(own);
    vf_pt_close(latent);
    vf_pt_close(text);
    return rc;
}

static int read_fields(row *r, const cJSON *o, vc_err *err)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(o, "metadata");
    int rc = vf_json_str(o, "prompt", &r->prompt, err);
    if (!rc)
        rc = vf_json_str(o, "video_latent", &r->latent, err);
    if (!rc)
        rc = vf_json_str(o, "prompt_embed", &r->embeds, err);
    if (!rc)
        rc = vf_json_str_opt(o, "image_latent", &r->image, err);
    if (!rc)
        rc = vc_context(err, vf_json_int_opt(metadata, "num_frames", &r->frames, err), "metadata");
    if (!rc && (r->frames < 0 || r->frames > 1 << 20))
        rc = vc_fail(err, VC_EFORMAT, "metadata: num_frames: %" PRId64, r->frames);
    return rc;
}

static int read_object(exchange *x, const cJSON *o, vc_err *err)
{
    row r = { .frames = 0 };
    int rc = vf_json_str(o, "video", &r.video, err);
    if (!rc)
        rc = vc_context(err, read_fields(&r, o, err), "%s", r.video);
    return rc ? rc : read_row(x, x->dir, &r, err);
}

static int read_line(void *arg, const cJSON *o, vc_err *err)
{
    exchange *x = arg;
    return exchange_skip(x, read_object(x, o, err), err);
}

/* Reads a sample by its video's name: the files have this name up to its first dot, as the trainers
 * expect. */
static int read_pair(exchange *x, const char *root, const char *video, const char *prompt,
                     vc_err *err)
{
    const char *base = vc_path_base(video);
    int n = (int)strcspn(base, ".");
    char *latent = vc_format("video_latents/%.*s.pt", n, base);
    char *embeds = vc_format("prompt_embeds/%.*s.pt", n, base);
    char *image = vc_format("image_latents/%.*s.pt", n, base);
    const row r = { video, prompt, latent, embeds, image, 0 };
    int rc = latent && embeds && image ? read_row(x, root, &r, err)
                                       : vc_no_memory(err);
    free(latent);
    free(embeds);
    free(image);
    return rc;
}

/* Reads data.jsonl if there is one, as it has empty captions and captions with line breaks, else
 * videos.txt. */
static int import_factory(exchange *x, vc_err *err)
{
    char *list = vc_path_join(x->dir, LIST), *videos = vc_path_join(x->dir, EXCHANGE_VIDEOS);
    int rc = list && videos ? 0 : vc_no_memory(err);
    vc_progress_begin(x->v->progress, "importing", "samples", 0);
    if (!rc && vc_file_exists(list))
        rc = exchange_lines(list, read_line, x, err);
    else if (!rc && vc_file_exists(videos))
        rc = exchange_pairs(x, x->dir, read_pair, err);
    else if (!rc)
        rc = vc_fail(err, VC_ENOENT,
                     "%s: neither " LIST " nor " EXCHANGE_VIDEOS " is in it: give the "
                     "--output_dir of a prepare_dataset.py that ran to its end", x->dir);
    free(list);
    free(videos);
    return rc;
}

const exchange_format exchange_factory = {
    "cogvideox-factory", "CogVideoX-Factory", "moments, type as stored, one caption",
    exchange_only_cogvideox, sizeof *exchange_only_cogvideox, "cogvideox", false, false,
    NULL, import_factory, NULL
};

/* finetrainers.c - exports and imports finetrainers' precomputed data: two pickled dictionaries for
 * each sample, in the folder finetrainers-precomputed-data.
 *
 *     latent-7.pt       latents: moments [1,2C,F,H,W] (CogVideoX [1,F,2C,H,W], FLUX [1,2C,H,W])
 *     condition-7.pt    encoder_hidden_states [1,n,D], masks, pooled
 *
 * Only their number pairs the two; they have no captions. See exchange.h */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/peers/exchange_parts.h"
#include "formats/peers/torch.h"

#define FOLDER "finetrainers-precomputed-data"

typedef struct layout {
    const char *family, *sign;               /* sign: a key that the rows below do not have
                                              * together with `mask` */
    enum { CHANNELS_FIRST, FRAMES_FIRST, NO_FRAMES } axes;      /* of latents */
    const char *mask;                        /* key of the mask, or NULL */
    bool trims;                              /* rows of padding are removed */
    int embeds, pooled;                      /* encoder of the states of tokens; of the pooled
                                              * embedding, -1: none */
    int constants;                           /* 1: latents_mean and latents_std, 2: 1/std instead */
    bool sizes;                              /* num_frames, height, width of the latents */
    double fps;                              /* rate at which finetrainers takes all clips; 0: none
                                              * is needed */
} layout;

static const layout layouts[] = {
    { "flux", "pooled_projections", NO_FRAMES, "prompt_attention_mask", false, 1, 0, 0, false, 0 },
    { "cogvideox", "prompt_attention_mask", FRAMES_FIRST, "prompt_attention_mask", false, 0, -1, 0,
      false, 0 },
    { "hunyuanvideo", "pooled_projections", CHANNELS_FIRST, "encoder_attention_mask", true, 0, 1,
      0, false, 0 },
    { "ltx-video", "num_frames", CHANNELS_FIRST, "encoder_attention_mask", true, 0, -1, 1, true,
      25 },
    { "wan2.1", "latents_mean", CHANNELS_FIRST, NULL, true, 0, -1, 2, false, 0 },
    { 0 }
};

/* ---- export ---- */

static int write_dict(const exchange *x, const exchange_dict *d, const char *kind, uint32_t i,
                      vc_err *err)
{
    const vf_pt_value v = exchange_dict_value(d);
    char name[64];
    snprintf(name, sizeof name, FOLDER "/%s-%" PRIu32 ".pt", kind, i);
    return exchange_write_pt(x->dir, name, &v, err);
}

static int write_latent(const exchange *x, const layout *l, const exchange_sample *s, vc_err *err)
{
    exchange_dict d = { .n = 0 };
    vc_dtype t = s->mean.dtype;
    int64_t c = 2 * s->mean.dim[0], f = s->e->f;
    float mean[EXCHANGE_CHANNELS], std[EXCHANGE_CHANNELS];
    void *data = NULL;
    int rc = l->axes == NO_FRAMES && f != 1
                 ? vc_fail(err, VC_EMISMATCH, "%" PRId64 " frames: %s has stills", f, l->family)
                 : exchange_moments(s, t, l->axes == FRAMES_FIRST, &data, err);
    if (!rc && l->constants && !x->norm.per_channel)
        rc = vc_fail(err, VC_EMISMATCH, "the dataset has no mean and std for each channel, which "
                     "finetrainers keeps beside these latents: --vae config.json gives them");
    const int64_t h = s->e->h, w = s->e->w;
    const vf_view latents[] = {
        [CHANNELS_FIRST] = { NULL, t, 5, { 1, c, f, h, w }, data, 2 * s->mean.bytes },
        [FRAMES_FIRST] = { NULL, t, 5, { 1, f, c, h, w }, data, 2 * s->mean.bytes },
        [NO_FRAMES] = { NULL, t, 4, { 1, c, h, w }, data, 2 * s->mean.bytes },
    };
    exchange_dict_tensor(&d, "latents", latents[l->axes]);
    if (l->sizes) {
        exchange_dict_add(&d, "num_frames", VF_PT_INT)->i = f;
        exchange_dict_add(&d, "height", VF_PT_INT)->i = s->e->h;
        exchange_dict_add(&d, "width", VF_PT_INT)->i = s->e->w;
    }
    if (l->constants) {
        int n = x->norm.channels;
        for (int i = 0; i < n; i++) {
            mean[i] = (float)x->norm.mean[i];
            std[i] = (float)(l->constants == 2 ? 1 / x->norm.std[i] : x->norm.std[i]);
        }
        exchange_dict_tensor(&d, "latents_mean",
                             (vf_view){ NULL, VC_F32, 1, { n }, mean, 4 * (size_t)n });
        exchange_dict_tensor(&d, "latents_std",
                             (vf_view){ NULL, VC_F32, 1, { n }, std, 4 * (size_t)n });
    }
    if (!rc)
        rc = write_dict(x, &d, "latent", s->i, err);
    free(data);
    return rc;
}

static int write_condition(const exchange *x, const layout *l, const exchange_sample *s,
                           vc_err *err)
{
    exchange_dict d = { .n = 0 };
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(x->manifest, "text_encoders");
    double said = vlat_num(cJSON_GetArrayItem(list, l->embeds), "max_length");
    const vf_view *e = &s->text[l->embeds].embeds;
    const vf_view *p = l->pooled < 0 ? NULL : &s->text[l->pooled].pooled;
    if (!e->data || (p && !p->data))
        return vc_fail(err, VC_EMISMATCH, "text embeddings%s: missing",
                       p ? " of two encoders" : "");
    int64_t rows = e->dim[0], all = rows;
    if (l->axes != NO_FRAMES && said > (double)rows && said <= 1 << 14)
        all = (int64_t)said;
    size_t row = e->bytes / (size_t)rows;
    uint8_t *data = calloc((size_t)all, row);
    int64_t *mask = calloc((size_t)all, sizeof *mask);
    int rc = data && mask ? 0 : vc_no_memory(err);
    if (!rc) {
        memcpy(data, e->data, e->bytes);
        for (int64_t i = 0; i < rows; i++)
            mask[i] = 1;
        exchange_dict_tensor(&d, "encoder_hidden_states",
                   (vf_view){ NULL, e->dtype, 3, { 1, all, e->dim[1] }, data, (size_t)all * row });
        if (l->mask)
            exchange_dict_tensor(&d, l->mask,
                                 (vf_view){ NULL, VC_I64, 2, { 1, all }, mask, (size_t)all * 8 });
        if (p)
            exchange_dict_tensor(&d, "pooled_projections",
                       (vf_view){ NULL, p->dtype, 2, { 1, vf_view_count(p) }, p->data, p->bytes });
        rc = write_dict(x, &d, "condition", s->i, err);
    }
    free(data);
    free(mask);
    return rc;
}

static int write_sample(exchange *x, const exchange_sample *s, void *arg, vc_err *err)
{
    int rc = write_latent(x, arg, s, err);
    return rc ? rc : write_condition(x, arg, s, err);
}

static int export_finetrainers(exchange *x, vc_err *err)
{
    layout l = *(const layout *)exchange_layout(&exchange_finetrainers, x->family->name);
    if (x->normalized)
        return vc_fail(err, VC_EUSAGE, "--space normalized: finetrainers keeps raw moments");
    return exchange_each(x, write_sample, &l, err);
}

/* ---- import ---- */

/* Finds the layout by a key that only this family has. */
static const layout *guess(const vf_pt_value *latent, const vf_pt_value *condition)
{
    for (const layout *l = layouts; l->family; l++)
        if ((vf_pt_get(condition, l->sign) || vf_pt_get(latent, l->sign)) &&
            (!l->mask || vf_pt_get(condition, l->mask)))
            return l;
    return NULL;
}

static int read_constants(exchange *x, const layout *l, const vf_pt_value *latent, int channels,
                          vc_err *err)
{
    vf_view mean, std;
    float m[EXCHANGE_CHANNELS], s[EXCHANGE_CHANNELS];
    int rc = vf_pt_tensor(latent, "latents_mean", &mean, err);
    if (!rc)
        rc = vf_pt_tensor(latent, "latents_std", &std, err);
    if (rc)
        return rc;
    if (channels > EXCHANGE_CHANNELS || vf_view_count(&mean) != channels ||
        vf_view_count(&std) != channels)
        return vc_fail(err, VC_EFORMAT, "latents_mean, latents_std: %d numbers expected", channels);
    vc_to_f32(m, mean.data, mean.dtype, (size_t)channels);
    vc_to_f32(s, std.data, std.dtype, (size_t)channels);
    x->norm = (exchange_norm){ .channels = channels, .scaling = 1, .per_channel = true };
    for (int c = 0; c < channels; c++) {
        x->norm.mean[c] = (double)m[c];
        x->norm.std[c] = l->constants == 2 ? 1 / (double)s[c] : (double)s[c];
        if (!(x->norm.std[c] > 0 && x->norm.std[c] < 1e30 && m[c] > -1e30f && m[c] < 1e30f))
            return vc_fail(err, VC_EFORMAT, "latents_mean, latents_std: channel %d: %g, %g", c,
                           (double)m[c], (double)s[c]);
    }
    /* The family's own numbers in double precision are kept if their f32 values are equal to
     * these. */
    exchange_norm known;
    exchange_norm_family(&known, x->family);
    for (int c = 0; known.per_channel && channels == known.channels && c < channels; c++)
        if ((float)known.mean[c] != m[c] ||
            (float)(l->constants == 2 ? 1 / known.std[c] : known.std[c]) != s[c])
            return 0;
    if (known.per_channel && channels == known.channels)
        x->norm = known;
    return 0;
}

/* Removes the rows of padding at the end: those of the mask's zeros, or (Wan) rows of zeros. */
static int trim(const layout *l, const vf_pt_value *condition, vf_view *e, vc_err *err)
{
    vf_view mask;
    if (!l->mask) {
        exchange_trim_zeros(e);
        return 0;
    }
    int rc = exchange_unbatched(condition, l->mask, 1, &mask, err);
    return rc ? rc : vc_context(err, exchange_trim_mask(e, &mask, err), "%s", l->mask);
}

static int read_condition(exchange_item *m, const layout *l, const vf_pt_value *d, vc_err *err)
{
    vf_view *e = &m->text[l->embeds].embeds;
    int rc = exchange_unbatched(d, "encoder_hidden_states", 2, e, err);
    if (!rc && (e->dim[0] < 1 || e->dim[1] < 1))
        rc = vc_fail(err, VC_EFORMAT, "encoder_hidden_states: empty");
    m->text[l->embeds].length = e->dim[0];
    if (!rc && l->trims)
        rc = trim(l, d, e, err);
    if (!rc && l->pooled >= 0)
        rc = exchange_unbatched(d, "pooled_projections", 1, &m->text[l->pooled].pooled, err);
    m->n_text = l->pooled >= 0 ? 2 : 1;
    return rc;
}

static int read_pair(exchange *x, int64_t i, const vf_pt_value *latent,
                     const vf_pt_value *condition, vc_err *err)
{
    char path[32], caption[48];
    exchange_item m = { .path = path, .caption = caption };
    vf_view v;
    void *own = NULL;
    const layout *l = guess(latent, condition);
    if (x->sink || x->v->o->family)
        l = exchange_layout(&exchange_finetrainers, x->family->name);
    if (!l)
        return vc_fail(err, VC_EFORMAT, "the files do not name their family: give --family");
    x->family = exchange_family_find(l->family);
    snprintf(path, sizeof path, "latent-%" PRId64 ".pt", i);
    snprintf(caption, sizeof caption, "(condition-%" PRId64 ".pt: no caption kept)", i);
    int nd = l->axes == NO_FRAMES ? 3 : 4;
    int rc = vc_context(err, exchange_unbatched(latent, "latents", nd, &v, err), "%s", path);
    if (!rc && nd == 3)
        exchange_add_frames(&v);
    if (!rc)
        rc = vc_context(err, exchange_split(&v, l->axes == FRAMES_FIRST, &m, &own, err), "%s",
                        path);
    m.fps = l->fps;
    if (!rc && !x->sink && l->constants)
        rc = vc_context(err, read_constants(x, l, latent, (int)m.mean.dim[0], err), "%s", path);
    if (!rc)
        rc = vc_context(err, read_condition(&m, l, condition, err), "condition-%" PRId64 ".pt", i);
    if (vf_pt_get(latent, "latent_condition"))
        x->no_conditions++;
    if (!rc)
        rc = exchange_put(x, &m, err);
    free(own);
    return rc;
}

static int read_sample(exchange *x, const char *dir, int64_t i, vc_err *err)
{
    vf_pt *latent = NULL, *condition = NULL;
    char *a = vc_format("%s/latent-%" PRId64 ".pt", dir, i);
    char *b = vc_format("%s/condition-%" PRId64 ".pt", dir, i);
    int rc = a && b ? 0 : vc_no_memory(err);
    if (!rc)
        rc = vf_pt_open(&latent, a, err);
    if (!rc)
        rc = vf_pt_open(&condition, b, err);
    if (!rc)
        rc = read_pair(x, i, vf_pt_root(latent), vf_pt_root(condition), err);
    vf_pt_close(latent);
    vf_pt_close(condition);
    free(a);
    free(b);
    return rc;
}

/* Reports a condition after the last latent, number `last`: its latent is missing. */
static int check_conditions(exchange *x, const char *dir, int64_t last, vc_err *err)
{
    int64_t *list;
    int n, rc = exchange_numbers(&list, &n, dir, "condition-", ".pt", err);
    if (!rc && n && list[n - 1] > last)
        rc = exchange_lack(x, err, "%s/latent-%" PRId64 ".pt is missing: its condition is there",
                           dir, list[n - 1]);
    free(list);
    return rc;
}

static int import_finetrainers(exchange *x, vc_err *err)
{
    int n = 0;
    int64_t *list = NULL;
    char *inside = vc_path_join(x->dir, FOLDER);
    if (!inside)
        return vc_no_memory(err);
    const char *dir = vc_file_exists(inside) ? inside : x->dir;
    int rc = exchange_numbers(&list, &n, dir, "latent-", ".pt", err);
    if (!rc)
        rc = exchange_check_numbers(x, list, n, dir, "latent-", ".pt", err);
    if (!rc)
        rc = check_conditions(x, dir, n ? list[n - 1] : -1, err);
    vc_progress_begin(x->v->progress, "importing", "samples", (uint64_t)n);
    for (int i = 0; !rc && i < n; i++)
        rc = exchange_skip(x, read_sample(x, dir, list[i], err), err);
    free(list);
    free(inside);
    return rc;
}

const exchange_format exchange_finetrainers = {
    "finetrainers", "finetrainers", "moments; no captions, no sizes or rates",
    layouts, sizeof *layouts, "cogvideox", false, false,
    export_finetrainers, import_finetrainers, NULL
};

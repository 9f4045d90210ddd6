/* finetrainers.c - exports and imports finetrainers' precomputed data: two pickled dictionaries for
 * each sample, in the folder finetrainers-precomputed-data.
 *
 *     latent-7.pt       latents: moments [1,2C,F,H,W] (CogVideoX [1,F,2C,H,W], FLUX [1,2C,H,W])
 *     condition-7.pt    encoder_hidden_states [1,n,D], masks, pooled
 *
 * Only their number pairs the two; they have no captions. See exchange.h */
#include <inttypes.h>
#include <stdlib.h>

#include "common/os/file.h"
#include "formats/peers/exchange_parts.h"
#include "formats/peers/tensors.h"

#define FOLDER "finetrainers-precomputed-data"

typedef struct layout {
    exchange_names names;
    const char *sign;                        /* a key that the rows below do not have together with
                                              * the mask */
    enum { NO_CONSTANTS, STD, INVERSE_STD } constants;      /* latents_mean, latents_std; INVERSE:
                                                             * the latter is 1 / std */
    bool sizes;                              /* num_frames, height, width of the latents */
} layout;

#define FILES(family_) .family = family_, .latents = "latents", .batch = true, .moments = true, \
    .type = VC_DTYPE_NONE, .text_type = VC_DTYPE_NONE, .conditions = { "latent_condition" }
#define ROWS .embeds = "encoder_hidden_states", .whole = true
#define MASKED ROWS, .mask = "encoder_attention_mask", .padded = 1, .trim = EXCHANGE_BY_MASK

static const layout layouts[] = {
    { { FILES("flux"), .axes = EXCHANGE_CHW, .n_text = 2,
        .text = { { .pooled = "pooled_projections" },
                  { ROWS, .mask = "prompt_attention_mask" } } },
      .sign = "pooled_projections" },
    { { FILES("cogvideox"), .axes = EXCHANGE_FCHW, .n_text = 1,
        .text = { { ROWS, .mask = "prompt_attention_mask", .padded = 1 } } },
      .sign = "prompt_attention_mask" },
    { { FILES("hunyuanvideo"), .n_text = 2,
        .text = { { MASKED }, { .pooled = "pooled_projections" } } },
      .sign = "pooled_projections" },
    { { FILES("ltx-video"), .fps = 25, .n_text = 1, .text = { { MASKED } } },
      .sign = "num_frames", .constants = STD, .sizes = true },
    { { FILES("wan2.1"), .n_text = 1,
        .text = { { ROWS, .padded = 1, .trim = EXCHANGE_BY_ZEROS } } },
      .sign = "latents_mean", .constants = INVERSE_STD },
    { .sign = NULL }
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

/* Adds the numbers by which finetrainers normalises the latents. */
static int add_constants(exchange_dict *d, const exchange *x, const layout *l, vc_err *err)
{
    const int n = x->norm.channels;
    const vf_view v = { NULL, VC_F32, 1, { n }, NULL, 0 };
    if (!x->norm.per_channel)
        return vc_fail(err, VC_EMISMATCH, "the dataset has no mean and std for each channel, which "
                       "finetrainers keeps beside these latents: --vae config.json gives them");
    float *mean = exchange_dict_alloc(d, (size_t)n * sizeof *mean);
    float *std = exchange_dict_alloc(d, (size_t)n * sizeof *std);
    if (!mean || !std)
        return vc_no_memory(err);
    for (int i = 0; i < n; i++) {
        mean[i] = (float)x->norm.mean[i];
        std[i] = (float)(l->constants == INVERSE_STD ? 1 / x->norm.std[i] : x->norm.std[i]);
    }
    exchange_dict_view(d, "latents_mean", v, mean);
    exchange_dict_view(d, "latents_std", v, std);
    return 0;
}

static int write_latent(const exchange *x, const layout *l, const exchange_sample *s, vc_err *err)
{
    exchange_dict d = { .n = 0 };
    int rc = exchange_add_latents(&d, x, &l->names, s, err);
    if (l->sizes) {
        exchange_dict_add(&d, "num_frames", VF_PT_INT)->i = s->e->f;
        exchange_dict_add(&d, "height", VF_PT_INT)->i = s->e->h;
        exchange_dict_add(&d, "width", VF_PT_INT)->i = s->e->w;
    }
    if (!rc && l->constants)
        rc = add_constants(&d, x, l, err);
    if (!rc)
        rc = write_dict(x, &d, "latent", s->i, err);
    exchange_dict_free(&d);
    return rc;
}

static int write_condition(const exchange *x, const layout *l, const exchange_sample *s,
                           vc_err *err)
{
    exchange_dict d = { .n = 0 };
    int rc = exchange_add_texts(&d, x, &l->names, s, err);
    if (!rc)
        rc = write_dict(x, &d, "condition", s->i, err);
    exchange_dict_free(&d);
    return rc;
}

static int write_sample(exchange *x, const exchange_sample *s, void *arg, vc_err *err)
{
    int rc = write_latent(x, arg, s, err);
    return rc ? rc : write_condition(x, arg, s, err);
}

static int export_finetrainers(exchange *x, vc_err *err)
{
    if (x->normalized)
        return vc_fail(err, VC_EUSAGE, "--space normalized: finetrainers keeps raw moments");
    return exchange_each(x, write_sample,
                         (void *)exchange_layout(&exchange_finetrainers, x->family->name), err);
}

/* ---- import ---- */

/* Finds the layout by a key that only this family has. */
static const layout *guess(const vf_pt_value *latent, const vf_pt_value *condition)
{
    for (const layout *l = layouts; l->sign; l++) {
        const exchange_text_names *t = l->names.text;
        const char *mask = t->mask ? t->mask : t[1].mask;
        if ((vf_pt_get(condition, l->sign) || vf_pt_get(latent, l->sign)) &&
            (!mask || vf_pt_get(condition, mask)))
            return l;
    }
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
        x->norm.std[c] = l->constants == INVERSE_STD ? 1 / (double)s[c] : (double)s[c];
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
            (float)(l->constants == INVERSE_STD ? 1 / known.std[c] : known.std[c]) != s[c])
            return 0;
    if (known.per_channel && channels == known.channels)
        x->norm = known;
    return 0;
}

static int read_pair(exchange *x, int64_t i, const vf_pt_value *latent,
                     const vf_pt_value *condition, vc_err *err)
{
    char path[32], caption[48];
    exchange_item m = { .path = path, .caption = caption };
    void *own = NULL;
    const layout *l = guess(latent, condition);
    if (x->sink || x->v->o->family)
        l = exchange_layout(&exchange_finetrainers, x->family->name);
    if (!l)
        return vc_fail(err, VC_EFORMAT, "the files do not name their family: give --family");
    x->family = exchange_family_find(l->names.family);
    snprintf(path, sizeof path, "latent-%" PRId64 ".pt", i);
    snprintf(caption, sizeof caption, "(condition-%" PRId64 ".pt: no caption kept)", i);
    int rc = exchange_take_latents(&m, x, &l->names, latent, &own, err);
    if (!rc && !x->sink && l->constants)
        rc = read_constants(x, l, latent, (int)m.mean.dim[0], err);
    rc = vc_context(err, rc, "%s", path);
    if (!rc)
        rc = vc_context(err, exchange_take_texts(&m, &l->names, condition, err),
                        "condition-%" PRId64 ".pt", i);
    if (!rc)
        rc = exchange_put(x, &m, err);
    free(own);
    return rc;
}

static int read_sample(exchange *x, const char *dir, int64_t i, vc_err *err)
{
    exchange_file f[2];
    int rc = exchange_pair_open(f, vc_format("%s/latent-%" PRId64 ".pt", dir, i),
                                vc_format("%s/condition-%" PRId64 ".pt", dir, i), err);
    if (!rc)
        rc = read_pair(x, i, f[0].root, f[1].root, err);
    exchange_pair_close(f);
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

/* diffsynth.c - exports and imports DiffSynth-Studio's data: the pickled inputs of its pipeline for
 * each sample.
 *
 *     RANK/7.pth      a tuple of three dictionaries: shared, positive, negative
 *     shared          input_latents [1,C,F,H,W] (Qwen-Image, FLUX [1,C,H,W]), height, width,
 *                     num_frames
 *     positive        prompt, context [1,512,D], zeros after the text
 *                     (Qwen-Image: prompt_emb [1,n,D], prompt_emb_mask [1,n];
 *                     FLUX: prompt_emb [1,512,D], pooled_prompt_emb [1,P])
 *
 * DiffSynth's own files also hold the decoded pictures, as objects that the reader skips.
 * See exchange.h */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/peers/exchange_parts.h"
#include "formats/peers/torch.h"

typedef struct layout {
    const char *family, *embeds, *mask;      /* keys */
    const char *pooled;                      /* key of the first encoder's pooled embedding; the
                                              * second has the states of tokens. NULL: the first
                                              * has these */
    int64_t padded;                          /* texts have zeros up to this length; 0: none */
    bool video;                              /* latents have an axis of frames */
} layout;

static const layout layouts[] = {
    { "wan2.1", "context", NULL, NULL, 512, true },
    { "wan2.2-5b", "context", NULL, NULL, 512, true },
    { "qwen-image", "prompt_emb", "prompt_emb_mask", NULL, 0, false },
    { "flux", "prompt_emb", NULL, "pooled_prompt_emb", 0, false },
    { 0 }
};

/* ---- export ---- */

typedef struct exporting {
    const layout *l;
    int64_t padded;
} exporting;

/* Memory of a sample's tensors. */
typedef struct values {
    uint16_t *latents, *rows, *pooled, *ids, *zeros, *known, *vision;
    int64_t *mask;
} values;

/* Makes *out of v in bf16, with zeros up to n values. */
static int to_bf16(uint16_t **out, const vf_view *v, size_t n, vc_err *err)
{
    *out = calloc(n + 1, sizeof **out);
    return *out ? exchange_convert(*out, VC_BF16, v, 0, (size_t)vf_view_count(v), err)
                : vc_no_memory(err);
}

static vf_view bf16_view(const uint16_t *data, int nd, int64_t a, int64_t b, int64_t c)
{
    return (vf_view){ NULL, VC_BF16, nd, { a, b, c }, data,
                      2 * (size_t)(a * b * (nd > 2 ? c : 1)) };
}

static void add_shared(exchange_dict *d, const layout *l, const exchange_sample *s,
                       const int ratio[3], const void *latents)
{
    const int64_t *n = s->mean.dim;
    vf_view v = { NULL, VC_BF16, 5, { 1, n[0], n[1], n[2], n[3] }, latents,
                  2 * (size_t)vf_view_count(&s->mean) };
    if (!l->video) {
        v.nd = 4;
        v.dim[2] = n[2];
        v.dim[3] = n[3];
    }
    exchange_dict_tensor(d, "input_latents", v);
    exchange_dict_add(d, "height", VF_PT_INT)->i = n[2] * ratio[1];
    exchange_dict_add(d, "width", VF_PT_INT)->i = n[3] * ratio[2];
    if (l->video)
        exchange_dict_add(d, "num_frames", VF_PT_INT)->i = (n[1] - 1) * ratio[0] + 1;
    exchange_dict_add(d, "cfg_scale", VF_PT_INT)->i = 1;        /* its units need these three */
    exchange_dict_add(d, "cfg_merge", VF_PT_BOOL)->i = 0;
    exchange_dict_add(d, "tiled", VF_PT_BOOL)->i = 0;
    exchange_dict_add(d, "use_gradient_checkpointing", VF_PT_BOOL)->i = 1;
    exchange_dict_add(d, "use_gradient_checkpointing_offload", VF_PT_BOOL)->i = 0;
}

/* Adds the values that FLUX's pipeline makes of the latents' size and of constants: places of
 * tokens [1,n,3] (0, row, column), and a guidance of 1, with which DiffSynth-Studio trains. */
static int add_ids(exchange_dict *d, const exchange_sample *s, values *own, vc_err *err)
{
    static const uint16_t one = 0x3f80;      /* 1 in bf16 */
    const int64_t h = s->mean.dim[2] / 2, w = s->mean.dim[3] / 2;
    float *f = calloc((size_t)(3 * h * w) + 1, sizeof *f);
    if (!f)
        return vc_no_memory(err);
    for (int64_t i = 0; i < h * w; i++) {
        f[3 * i + 1] = (float)(i / w);
        f[3 * i + 2] = (float)(i % w);
    }
    const vf_view v = { NULL, VC_F32, 1, { 3 * h * w }, f, 12 * (size_t)(h * w) };
    int rc = to_bf16(&own->ids, &v, (size_t)(3 * h * w), err);
    free(f);
    exchange_dict_tensor(d, "image_ids", bf16_view(own->ids, 3, 1, h * w, 3));
    exchange_dict_tensor(d, "guidance", (vf_view){ NULL, VC_BF16, 1, { 1 }, &one, 2 });
    return rc;
}

/* Adds the rows and the pooled embedding. */
static int add_positive(exchange_dict *d, const exporting *e, const exchange_sample *s,
                        values *own, vc_err *err)
{
    const int at = e->l->pooled ? 1 : 0;
    const vf_view *from = &s->text[at].embeds, *pooled = &s->text[0].pooled;
    if (s->n_text != at + 1 || !from->data || (at && !pooled->data))
        return vc_fail(err, VC_EMISMATCH, "embeddings of %s expected",
                       at ? "two text encoders, the first one's pooled," : "one text encoder");
    int64_t rows = from->dim[0], width = from->dim[1], all = e->padded > rows ? e->padded : rows;
    int rc = to_bf16(&own->rows, from, (size_t)(all * width), err);
    vf_pt_value *prompt = exchange_dict_add(d, "prompt", VF_PT_STR);
    prompt->s = s->caption;
    prompt->n = strlen(s->caption);
    exchange_dict_tensor(d, e->l->embeds, bf16_view(own->rows, 3, 1, all, width));
    if (e->l->mask) {
        own->mask = malloc((size_t)all * sizeof *own->mask);
        for (int64_t i = 0; own->mask && i < all; i++)
            own->mask[i] = i < rows;
        exchange_dict_tensor(d, e->l->mask, (vf_view){ NULL, VC_I64, 2, { 1, all }, own->mask,
                                                       8 * (size_t)all });
        if (!own->mask)
            return vc_no_memory(err);
    }
    if (at && !rc) {
        int64_t n = vf_view_count(pooled);
        rc = to_bf16(&own->pooled, pooled, (size_t)n, err);
        own->zeros = calloc((size_t)all, 3 * sizeof *own->zeros);
        if (!own->zeros)
            return vc_no_memory(err);
        exchange_dict_tensor(d, e->l->pooled, bf16_view(own->pooled, 2, 1, n, 0));
        exchange_dict_tensor(d, "text_ids", bf16_view(own->zeros, 3, 1, all, 3));
    }
    return rc;
}

/* Adds the known frames of image-to-video: y [1,4+C,F,H,W] and clip_feature [1,n,D]. */
static int add_known(exchange_dict *d, exchange *x, const exchange_sample *s, values *own,
                     vc_err *err)
{
    exchange_known k;
    int rc = exchange_known_open(&k, x, s, true, err);
    const vf_view *c = &k.clip, *v = &k.vision;
    if (!rc && c->data) {
        rc = to_bf16(&own->known, c, (size_t)vf_view_count(c), err);
        exchange_dict_tensor(d, "y", (vf_view){ NULL, VC_BF16, 5, { 1, c->dim[0], c->dim[1],
                                                c->dim[2], c->dim[3] }, own->known, c->bytes / 2 });
    }
    if (!rc && v->data) {
        rc = to_bf16(&own->vision, v, (size_t)vf_view_count(v), err);
        exchange_dict_tensor(d, "clip_feature", bf16_view(own->vision, 3, 1, v->dim[0], v->dim[1]));
    }
    exchange_known_close(&k);
    return rc;
}

static int add_values(exchange_dict *shared, exchange_dict *positive, exchange *x,
                      const exporting *e, const exchange_sample *s, values *own, vc_err *err)
{
    size_t n = (size_t)vf_view_count(&s->mean);
    float *f = NULL;
    if (!e->l->video && s->mean.dim[1] != 1)
        return vc_fail(err, VC_EMISMATCH, "%" PRId64 " frames: %s has stills", s->mean.dim[1],
                       x->family->name);
    int rc = exchange_latent_f32(x, s, &f, err);
    const vf_view from = { NULL, VC_F32, 1, { (int64_t)n }, f, 4 * n };
    if (!rc)
        rc = to_bf16(&own->latents, &from, n, err);
    free(f);
    if (rc)
        return rc;
    add_shared(shared, e->l, s, x->family->ratio, own->latents);
    rc = add_positive(positive, e, s, own, err);
    if (!rc)
        rc = add_known(shared, x, s, own, err);
    return rc || !e->l->pooled ? rc : add_ids(shared, s, own, err);
}

static int write_sample(exchange *x, const exchange_sample *s, void *arg, vc_err *err)
{
    exchange_dict shared = { .n = 0 }, positive = { .n = 0 };
    values own = { 0 };
    int rc = add_values(&shared, &positive, x, arg, s, &own, err);
    const vf_pt_value part[3] = { exchange_dict_value(&shared), exchange_dict_value(&positive),
                                  { .kind = VF_PT_DICT } };
    const vf_pt_value *parts[3] = { &part[0], &part[1], &part[2] };
    const vf_pt_value all = { .kind = VF_PT_TUPLE, .item = parts, .n = 3 };
    char name[32];
    snprintf(name, sizeof name, "0/%" PRIu32 ".pth", s->i);
    if (!rc)
        rc = exchange_write_pt(x->dir, name, &all, err);
    free(own.latents);
    free(own.rows);
    free(own.pooled);
    free(own.ids);
    free(own.zeros);
    free(own.mask);
    free(own.known);
    free(own.vision);
    return rc;
}

static int export_diffsynth(exchange *x, vc_err *err)
{
    exporting e = { .l = exchange_layout(&exchange_diffsynth, x->family->name) };
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(x->manifest, "text_encoders");
    double said = vlat_num(cJSON_GetArrayItem(list, 0), "max_length");
    if (e.l->padded)
        e.padded = said > 0 && said <= 1 << 14 ? (int64_t)said : e.l->padded;
    return exchange_each(x, write_sample, &e, err);
}

/* ---- import ---- */

static bool has_keys(const layout *l, const vf_pt_value *positive)
{
    return vf_pt_get(positive, l->embeds) && (!l->mask || vf_pt_get(positive, l->mask)) &&
           (!l->pooled || vf_pt_get(positive, l->pooled));
}

/* Finds the layout by its keys and, of several, by the number of channels; else the first. */
static const layout *guess(const vf_pt_value *shared, const vf_pt_value *positive)
{
    const layout *found = NULL;
    vf_view v = { .nd = 0 };
    vf_pt_tensor(shared, "input_latents", &v, NULL);
    for (const layout *l = layouts; l->family; l++)
        if (has_keys(l, positive) &&
            (!found || (v.nd > 1 && v.dim[1] == exchange_family_find(l->family)->channels)))
            found = l;
    return found;
}

static int read_latents(exchange_item *m, const vf_pt_value *shared, vc_err *err)
{
    static const char key[] = "input_latents";
    vf_view *v = &m->mean;
    int rc = vf_pt_tensor(shared, key, v, err);
    if (!rc && v->nd == 4 && v->dim[0] == 1) {               /* [1,C,H,W] -> [C,1,H,W] */
        v->dim[0] = v->dim[1];
        v->dim[1] = 1;
    } else if (!rc) {
        rc = exchange_unbatched(shared, key, 4, v, err);
    }
    return rc;
}

static int read_text(exchange_item *m, const layout *l, const vf_pt_value *positive, vc_err *err)
{
    const int at = l->pooled ? 1 : 0;
    vf_view *e = &m->text[at].embeds, mask;
    int rc = exchange_unbatched(positive, l->embeds, 2, e, err);
    m->n_text = at + 1;
    if (!rc && (e->dim[0] < 1 || e->dim[1] < 1))
        rc = vc_fail(err, VC_EFORMAT, "%s: empty", l->embeds);
    if (rc)
        return rc;
    if (l->padded) {
        m->text[0].length = e->dim[0];
        exchange_trim_zeros(e);
    }
    if (l->pooled)
        rc = exchange_unbatched(positive, l->pooled, 1, &m->text[0].pooled, err);
    if (rc || !l->mask)
        return rc;
    if ((rc = exchange_unbatched(positive, l->mask, 1, &mask, err)))
        return rc;
    return vc_context(err, exchange_trim_mask(e, &mask, err), "%s", l->mask);
}

/* Counts the sample's conditions, which are not imported. */
static uint64_t conditions(const vf_pt_value *shared)
{
    static const char *const keys[] = {
        "y", "clip_feature", "first_frame_latents", "reference_latents", "vace_context",
        "control_camera_latents_input", "edit_latents"
    };
    uint64_t n = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const vf_pt_value *v = vf_pt_get(shared, keys[i]);
        n += v && v->kind != VF_PT_NONE;
    }
    return n;
}

static int check_value(exchange *x, const vf_pt_value *v, const layout **l, vc_err *err)
{
    if (v->kind != VF_PT_TUPLE || v->n != 3)
        return vc_fail(err, VC_EFORMAT, "a tuple of three dictionaries expected");
    if (!(*l = guess(v->item[0], v->item[1])))
        return vc_fail(err, VC_EFORMAT,
                       "neither Wan's context nor the prompt_emb of Qwen-Image or FLUX is in it");
    if ((x->sink || x->v->o->family) && strcmp(x->family->name, (*l)->family))
        return vc_fail(err, VC_EMISMATCH, "of %s, %s %s", (*l)->family,
                       x->sink ? "the samples before it are of" : "--family says", x->family->name);
    x->family = exchange_family_find((*l)->family);
    return 0;
}

static int read_value(exchange *x, const char *path, const vf_pt_value *v, vc_err *err)
{
    const layout *l = NULL;
    int rc = check_value(x, v, &l, err);
    if (rc)
        return vc_context(err, rc, "%s", path);
    const vf_pt_value *shared = v->item[0], *positive = v->item[1];
    const vf_pt_value *said = vf_pt_get(positive, "prompt");
    char *caption = said && said->kind == VF_PT_STR ? strndup(said->s, said->n) : strdup("");
    exchange_item m = { .path = path, .caption = caption,
                     .frames = exchange_int(shared, "num_frames", 0) };
    rc = caption ? read_latents(&m, shared, err) : vc_no_memory(err);
    if (!rc)
        rc = read_text(&m, l, positive, err);
    rc = vc_context(err, rc, "%s", path);
    x->no_conditions += conditions(shared);
    if (!rc)
        rc = exchange_put(x, &m, err);
    free(caption);
    return rc;
}

static int read_sample(exchange *x, const char *name, vc_err *err)
{
    vf_pt *p = NULL;
    char *path = vc_path_join(x->dir, name);
    int rc = path ? vf_pt_open(&p, path, err) : vc_no_memory(err);
    if (!rc)
        rc = read_value(x, name, vf_pt_root(p), err);
    vf_pt_close(p);
    free(path);
    return rc;
}

/* Reads the samples of one process; with rank < 0 those of the folder itself. */
static int read_rank(exchange *x, int64_t rank, vc_err *err)
{
    char sub[24] = "", name[64];
    int64_t *list = NULL;
    int n;
    if (rank >= 0)
        snprintf(sub, sizeof sub, "%" PRId64 "/", rank);
    char *dir = vc_path_join(x->dir, sub);
    int rc = dir ? exchange_numbers(&list, &n, dir, "", ".pth", err)
                 : vc_no_memory(err);
    if (!rc)
        rc = exchange_check_numbers(x, list, n, dir, "", ".pth", err);
    free(dir);
    for (int i = 0; !rc && i < n; i++) {
        snprintf(name, sizeof name, "%s%" PRId64 ".pth", sub, list[i]);
        rc = exchange_skip(x, read_sample(x, name, err), err);
    }
    free(list);
    return rc;
}

static int import_diffsynth(exchange *x, vc_err *err)
{
    int64_t *ranks;
    int n;
    int rc = exchange_numbers(&ranks, &n, x->dir, "", "", err);
    if (rc)
        return rc;
    vc_progress_begin(x->v->progress, "importing", "samples", 0);
    rc = exchange_check_numbers(x, ranks, n, x->dir, "", "", err);
    if (!rc)
        rc = read_rank(x, -1, err);
    for (int i = 0; !rc && i < n; i++)
        rc = read_rank(x, ranks[i], err);
    free(ranks);
    return rc;
}

const exchange_format exchange_diffsynth = {
    "diffsynth", "DiffSynth-Studio", "posterior means in bf16, one caption",
    layouts, sizeof *layouts, "wan2.1", true, false,
    export_diffsynth, import_diffsynth, NULL
};

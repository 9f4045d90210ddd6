/* diffsynth.c - exports and imports DiffSynth-Studio's data: the pickled inputs of its pipeline for
 * each sample.
 *
 *     RANK/7.pth      a tuple of three dictionaries: shared, positive, negative
 *     shared          input_latents [1,C,F,H,W] (Qwen-Image, FLUX, Z-Image [1,C,H,W]; FLUX.2
 *                     [1,HW,C]), height, width, num_frames;
 *                     Qwen-Image-Edit: edit_latents [1,C,H,W], or a list of them;
 *                     FLUX.1 Kontext: kontext_latents [1,n,4C] and kontext_image_ids [1,n,3]
 *     positive        prompt, context [1,512,D], zeros after the text
 *                     (Qwen-Image: prompt_emb [1,n,D], prompt_emb_mask [1,n];
 *                     FLUX: prompt_emb [1,512,D], pooled_prompt_emb [1,P];
 *                     Z-Image: prompt_embeds, a list of one [n,D]; FLUX.2: prompt_embeds [1,n,D])
 *
 * DiffSynth's own files also hold the decoded pictures, as objects that the reader skips.
 * See exchange.h */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/peers/exchange_parts.h"
#include "formats/peers/tensors.h"

#define FILES(family_) .family = family_, .latents = "input_latents", .batch = true, \
    .type = VC_BF16, .text_type = VC_BF16, .vision_type = VC_BF16, \
    .conditions = { "y", "clip_feature", "first_frame_latents", "reference_latents", \
                    "vace_context", "control_camera_latents_input" }
#define WAN(family_) \
    { FILES(family_), .clip = "y", .vision = "clip_feature", .n_text = 1, \
      .text = { { .embeds = "context", .padded = 512, .whole = true, \
                  .trim = EXCHANGE_BY_ZEROS } } }
#define FLUX2 FILES("flux2"), .axes = EXCHANGE_TOKENS, .sides = { "height", "width" }, \
    .n_text = 1, .text = { { .embeds = "prompt_embeds" } }

static const exchange_names layouts[] = {
    WAN("wan2.1"), WAN("wan2.2-5b"),
    { FILES("qwen-image"), .axes = EXCHANGE_CHW, .n_text = 1,
      .references = "edit_latents",
      .text = { { .embeds = "prompt_emb", .mask = "prompt_emb_mask",
                  .trim = EXCHANGE_BY_MASK } } },
    { FILES("flux"), .axes = EXCHANGE_CHW, .n_text = 2,
      .references = "kontext_latents", .places = "kontext_image_ids",
      .text = { { .pooled = "pooled_prompt_emb" }, { .embeds = "prompt_emb" } } },
    { FILES("z-image"), .axes = EXCHANGE_CHW, .n_text = 1,
      .text = { { .embeds = "prompt_embeds", .list = true } } },
    { FLUX2, .width = 15360, .pipeline = "Flux2Pipeline" },
    { FLUX2 },
    { 0 }
};

/* ---- export ---- */

/* Adds the numbers that the pipeline's units need. */
static void add_numbers(exchange_dict *d, const exchange_names *l, const int64_t *n,
                        const int ratio[3])
{
    static const struct { const char *key; vf_pt_kind kind; int64_t value; } rest[] = {
        { "cfg_scale", VF_PT_INT, 1 }, { "cfg_merge", VF_PT_BOOL, 0 }, { "tiled", VF_PT_BOOL, 0 },
        { "use_gradient_checkpointing", VF_PT_BOOL, 1 },
        { "use_gradient_checkpointing_offload", VF_PT_BOOL, 0 },
    };
    exchange_dict_add(d, "height", VF_PT_INT)->i = n[2] * ratio[1];
    exchange_dict_add(d, "width", VF_PT_INT)->i = n[3] * ratio[2];
    if (l->axes == EXCHANGE_CFHW)
        exchange_dict_add(d, "num_frames", VF_PT_INT)->i = (n[1] - 1) * ratio[0] + 1;
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        exchange_dict_add(d, rest[i].key, rest[i].kind)->i = rest[i].value;
}

/* Adds the values that FLUX's pipeline makes of sizes and of constants: places of the latents'
 * tokens [1,n,3] (0, row, column) and of the text's, which are zeros, and a guidance of 1, with
 * which DiffSynth-Studio trains. */
static int add_ids(exchange_dict *shared, exchange_dict *positive, const exchange_sample *s,
                   vc_err *err)
{
    static const uint16_t one = 0x3f80;      /* 1 in bf16 */
    const int64_t h = s->mean.dim[2] / 2, w = s->mean.dim[3] / 2, n = s->text[1].embeds.dim[0];
    uint16_t *ids = exchange_dict_alloc(shared, (size_t)(3 * h * w) * sizeof *ids);
    uint16_t *zeros = exchange_dict_alloc(positive, (size_t)(3 * n) * sizeof *zeros);
    if (!ids || !zeros)
        return vc_no_memory(err);
    for (int64_t i = 0; i < h * w; i++) {
        ids[3 * i + 1] = vc_f32_to_bf16((float)(i / w));
        ids[3 * i + 2] = vc_f32_to_bf16((float)(i % w));
    }
    vf_view places = { .dtype = VC_BF16, .nd = 3, .dim = { 1, h * w, 3 } };
    exchange_dict_view(shared, "image_ids", places, ids);
    exchange_dict_view(shared, "guidance", (vf_view){ .dtype = VC_BF16, .nd = 1, .dim = { 1 } },
                       &one);
    places.dim[1] = n;
    exchange_dict_view(positive, "text_ids", places, zeros);
    return 0;
}

/* Makes the places (0, row, column, 0) of a still of h x w, or with h = 0 those of a text of w
 * tokens, (0, 0, 0, i): [1,n,4]. */
static int add_place(exchange_dict *d, const char *name, int64_t h, int64_t w, vc_err *err)
{
    const int64_t n = h ? h * w : w;
    int64_t *at = exchange_dict_alloc(d, (size_t)n * 4 * sizeof *at);
    if (!at)
        return vc_no_memory(err);
    for (int64_t i = 0; i < n; i++) {
        at[4 * i + 1] = h ? i / w : 0;
        at[4 * i + 2] = h ? i % w : 0;
        at[4 * i + 3] = h ? 0 : i;
    }
    exchange_dict_view(d, name, (vf_view){ .dtype = VC_I64, .nd = 3, .dim = { 1, n, 4 } }, at);
    return 0;
}

/* Adds the places of FLUX.2's tokens, and the guidance with which DiffSynth-Studio trains. */
static int add_places(exchange_dict *shared, exchange_dict *positive, const exchange_sample *s,
                      vc_err *err)
{
    int rc = add_place(shared, "image_ids", s->mean.dim[2], s->mean.dim[3], err);
    if (!rc)
        rc = add_place(positive, "text_ids", 0, s->text[0].embeds.dim[0], err);
    exchange_dict_add(shared, "embedded_guidance", VF_PT_FLOAT)->f = 1;
    return rc;
}

/* Adds a reference picture as tokens, of C x 2 x 2 values, with their places (1, row, column). */
static int add_tokens(exchange_dict *d, const exchange_names *l, const vf_view *v, vc_err *err)
{
    const int64_t c = v->dim[0], h = v->dim[2], w = v->dim[3], n = h / 2 * (w / 2);
    uint16_t *x = exchange_dict_alloc(d, (size_t)(4 * c * n) * sizeof *x);
    uint16_t *places = exchange_dict_alloc(d, (size_t)(3 * n) * sizeof *places);
    const float *from = v->data;
    if (!x || !places)
        return vc_no_memory(err);
    for (int64_t i = 0; i < 4 * c * n; i++) {
        const int64_t token = i / (4 * c), channel = i / 4 % c, p = i / 2 % 2, q = i % 2;
        const int64_t y = token / (w / 2) * 2 + p, z = token % (w / 2) * 2 + q;
        x[i] = vc_f32_to_bf16(from[(channel * h + y) * w + z]);
    }
    for (int64_t i = 0; i < n; i++) {
        places[3 * i] = vc_f32_to_bf16(1);
        places[3 * i + 1] = vc_f32_to_bf16((float)(i / (w / 2)));
        places[3 * i + 2] = vc_f32_to_bf16((float)(i % (w / 2)));
    }
    exchange_dict_tensor(d, l->references, (vf_view){ NULL, VC_BF16, 3, { 1, n, 4 * c }, x,
                                                      (size_t)(4 * c * n) * sizeof *x });
    exchange_dict_tensor(d, l->places, (vf_view){ NULL, VC_BF16, 3, { 1, n, 3 }, places,
                                                  (size_t)(3 * n) * sizeof *places });
    return 0;
}

/* Adds the reference pictures: a tensor, or a list of several ones. */
static int add_edit(exchange_dict *d, exchange *x, const exchange_names *l,
                    const exchange_sample *s, vc_err *err)
{
    exchange_references r = { .n = 0 };
    int rc = l->references ? exchange_references_open(&r, x, s, err) : 0;
    struct { vf_view view; vf_pt_value value; } *own = exchange_dict_alloc(d, 4 * sizeof *own);
    const vf_pt_value **item = exchange_dict_alloc(d, VC_REFERENCES * sizeof *item);
    _Static_assert(VC_REFERENCES == 4, "room for each reference");
    if (!rc && (!own || !item))
        rc = vc_no_memory(err);
    if (!rc && l->places && r.n > 1)
        rc = vc_fail(err, VC_EMISMATCH, "%d reference pictures, FLUX.1 Kontext takes one", r.n);
    for (int k = 0; !rc && k < r.n && !l->places; k++) {
        const vf_view *v = &r.view[k];
        const size_t n = (size_t)vf_view_count(v);
        void *data = exchange_dict_alloc(d, 2 * n);
        own[k].view = (vf_view){ NULL, VC_BF16, 4, { 1, v->dim[0], v->dim[2], v->dim[3] }, data,
                                 2 * n };
        own[k].value = (vf_pt_value){ .kind = VF_PT_TENSOR, .tensor = &own[k].view };
        item[k] = &own[k].value;
        rc = data ? exchange_convert(data, VC_BF16, v, 0, n, err) : vc_no_memory(err);
    }
    if (!rc && r.n && l->places) {
        rc = add_tokens(d, l, &r.view[0], err);
    } else if (!rc && r.n == 1) {
        exchange_dict_tensor(d, l->references, own[0].view);
    } else if (!rc && r.n) {
        vf_pt_value *list = exchange_dict_add(d, l->references, VF_PT_LIST);
        list->item = item;
        list->n = (size_t)r.n;
    }
    exchange_references_close(&r);
    return rc;
}

static int add_values(exchange_dict *shared, exchange_dict *positive, exchange *x,
                      const exchange_names *l, const exchange_sample *s, vc_err *err)
{
    int rc = exchange_add_latents(shared, x, l, s, err);
    if (rc)
        return rc;
    add_numbers(shared, l, s->mean.dim, x->family->ratio);
    vf_pt_value *prompt = exchange_dict_add(positive, "prompt", VF_PT_STR);
    prompt->s = s->caption;
    prompt->n = strlen(s->caption);
    rc = exchange_add_texts(positive, x, l, s, err);
    if (!rc)
        rc = exchange_add_known(shared, x, l, s, err);
    if (!rc)
        rc = add_edit(shared, x, l, s, err);
    if (!rc && l->axes == EXCHANGE_TOKENS)
        rc = add_places(shared, positive, s, err);
    return rc || !l->text[0].pooled ? rc : add_ids(shared, positive, s, err);
}

static int write_sample(exchange *x, const exchange_sample *s, void *arg, vc_err *err)
{
    exchange_dict shared = { .n = 0 }, positive = { .n = 0 };
    int rc = add_values(&shared, &positive, x, arg, s, err);
    const vf_pt_value part[3] = { exchange_dict_value(&shared), exchange_dict_value(&positive),
                                  { .kind = VF_PT_DICT } };
    const vf_pt_value *parts[3] = { &part[0], &part[1], &part[2] };
    const vf_pt_value all = { .kind = VF_PT_TUPLE, .item = parts, .n = 3 };
    char name[32];
    snprintf(name, sizeof name, "0/%" PRIu32 ".pth", s->i);
    if (!rc)
        rc = exchange_write_pt(x->dir, name, &all, err);
    exchange_dict_free(&shared);
    exchange_dict_free(&positive);
    return rc;
}

static int export_diffsynth(exchange *x, vc_err *err)
{
    const exchange_names *l = exchange_row(&exchange_diffsynth, x, err);
    return l ? exchange_each(x, write_sample, (void *)l, err) : VC_EMISMATCH;
}

/* ---- import ---- */

/* Takes a reference picture, [1,C,H,W]. */
static int take_edit(exchange_item *m, const char *name, const vf_pt_value *v, vc_err *err)
{
    if (m->n_references == VC_REFERENCES)
        return vc_fail(err, VC_EFORMAT, "%s: at most %d reference pictures expected", name,
                       VC_REFERENCES);
    if (v->kind != VF_PT_TENSOR || v->tensor->nd != 4 || v->tensor->dim[0] != 1)
        return vc_fail(err, VC_EFORMAT, "%s: tensors [1,C,H,W] expected", name);
    vf_view *to = &m->reference[m->n_references++];
    *to = *v->tensor;
    to->dim[0] = to->dim[1];
    to->dim[1] = 1;
    return 0;
}

/* Finds rows and columns of n tokens by the places of the last one; false: they are others'. */
static bool size_of(const vf_view *places, int64_t n, int64_t size[2])
{
    const size_t one = vc_dtype_size(places->dtype);
    float last[3];
    if (places->nd != 3 || places->dim[1] != n || places->dim[2] != 3 || n < 1 ||
        places->dtype > VC_F64)
        return false;
    vc_to_f32(last, (const uint8_t *)places->data + (size_t)(3 * (n - 1)) * one, places->dtype, 3);
    for (int i = 0; i < 2; i++)
        size[i] = last[1 + i] >= 0 && last[1 + i] < UINT16_MAX ? (int64_t)last[1 + i] + 1 : 0;
    return size[0] * size[1] == n;
}

/* Takes a reference picture from its tokens, into *own, which the caller frees. */
static int take_tokens(exchange_item *m, const exchange_names *l, const vf_pt_value *d, void **own,
                       vc_err *err)
{
    vf_view v, places;
    int64_t size[2];
    int rc = vf_pt_tensor(d, l->references, &v, err);
    if (!rc)
        rc = vf_pt_tensor(d, l->places, &places, err);
    if (rc)
        return rc;
    if (v.nd != 3 || v.dim[0] != 1 || v.dim[2] % 4 || !v.dim[2] ||
        !size_of(&places, v.dim[1], size))
        return vc_fail(err, VC_EFORMAT, "%s: [1,n,4C], and %s [1,n,3] of the places of one picture "
                       "expected", l->references, l->places);
    const int64_t c = v.dim[2] / 4, h = 2 * size[0], w = 2 * size[1];
    const size_t one = vc_dtype_size(v.dtype);
    uint8_t *x = *own = malloc(v.bytes + 1);
    if (!x)
        return vc_no_memory(err);
    for (int64_t i = 0; i < c * h * w; i++) {
        const int64_t channel = i / (h * w), y = i / w % h, z = i % w;
        const int64_t token = y / 2 * size[1] + z / 2, at = (channel * 2 + y % 2) * 2 + z % 2;
        memcpy(x + (size_t)i * one, (const uint8_t *)v.data + (size_t)(token * 4 * c + at) * one,
               one);
    }
    m->reference[m->n_references++] = (vf_view){ NULL, v.dtype, 4, { c, 1, h, w }, x, v.bytes };
    return 0;
}

/* Takes the reference pictures: tokens, a tensor, or a list of several ones. */
static int take_edits(exchange_item *m, const exchange_names *l, const vf_pt_value *d, void **own,
                      vc_err *err)
{
    const vf_pt_value *v = l->references ? vf_pt_get(d, l->references) : NULL;
    if (v && v->kind != VF_PT_NONE && l->places)
        return take_tokens(m, l, d, own, err);
    const bool list = v && (v->kind == VF_PT_LIST || v->kind == VF_PT_TUPLE);
    int rc = 0;
    for (size_t k = 0; !rc && list && k < v->n; k++)
        rc = take_edit(m, l->references, v->item[k], err);
    return v && !list && v->kind != VF_PT_NONE ? take_edit(m, l->references, v, err) : rc;
}

static int check_value(exchange *x, const vf_pt_value *v, const exchange_names **l, vc_err *err)
{
    if (v->kind != VF_PT_TUPLE || v->n != 3)
        return vc_fail(err, VC_EFORMAT, "a tuple of three dictionaries expected");
    if (!(*l = exchange_guess(layouts, v->item[0], v->item[1])))
        return vc_fail(err, VC_EFORMAT,
                       "neither Wan's context, nor the prompt_emb of Qwen-Image or FLUX, nor the "
                       "prompt_embeds of Z-Image or FLUX.2 are in it");
    if ((x->sink || x->v->o->family) && strcmp(x->family->name, (*l)->family))
        return vc_fail(err, VC_EMISMATCH, "of %s, %s %s", (*l)->family,
                       x->sink ? "the samples before it are of" : "--family says", x->family->name);
    x->family = exchange_family_find((*l)->family);
    x->pipeline = (*l)->pipeline;
    return 0;
}

static int read_value(exchange *x, const char *path, const vf_pt_value *v, vc_err *err)
{
    const exchange_names *l = NULL;
    int rc = vc_context(err, check_value(x, v, &l, err), "%s", path);
    if (rc)
        return rc;
    const vf_pt_value *shared = v->item[0], *positive = v->item[1];
    const vf_pt_value *said = vf_pt_get(positive, "prompt");
    char *caption = said && said->kind == VF_PT_STR ? strndup(said->s, said->n) : strdup("");
    exchange_item m = { .path = path, .caption = caption,
                        .frames = exchange_int(shared, "num_frames", 0) };
    void *own = NULL, *unpacked = NULL;
    rc = caption ? exchange_take_latents(&m, x, l, shared, &own, err) : vc_no_memory(err);
    if (!rc)
        rc = take_edits(&m, l, shared, &unpacked, err);
    if (!rc)
        rc = exchange_take_texts(&m, l, positive, err);
    rc = vc_context(err, rc, "%s", path);
    if (!rc)
        rc = exchange_put(x, &m, err);
    free(own);
    free(unpacked);
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

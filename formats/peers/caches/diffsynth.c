/* diffsynth.c - exports and imports DiffSynth-Studio's data: the pickled inputs of its pipeline for
 * each sample.
 *
 *     RANK/7.pth      a tuple of three dictionaries: shared, positive, negative
 *     shared          input_latents [1,C,F,H,W] (Qwen-Image, FLUX, Z-Image [1,C,H,W]; FLUX.2
 *                     [1,HW,C]), height, width, num_frames;
 *                     Qwen-Image-Edit: edit_latents [1,C,H,W], or a list of them;
 *                     FLUX.1 Kontext: kontext_latents [1,n,4C] and kontext_image_ids [1,n,3];
 *                     FLUX.2: edit_latents [1,n,C] and edit_image_ids [1,n,4], of all pictures
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
    .references = "edit_latents", .places = "edit_image_ids", .n_text = 1, \
    .text = { { .embeds = "prompt_embeds" } }

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

/* The references of a layout with places: tokens of side x side values of each channel, and their
 * places, vectors of `numbers` numbers: the picture's, row, column, and zeros. */
typedef struct token_form {
    int side, numbers;
    vc_dtype type;                           /* of the places */
    int64_t first, step;                     /* the number of picture k is first + k * step */
    int most;                                /* pictures that the pipeline takes */
} token_form;

static const token_form kontext_tokens = { 2, 3, VC_BF16, 1, 0, 1 };
static const token_form flux2_tokens = { 1, 4, VC_I64, 10, 10, VC_REFERENCES };

static const token_form *tokens_of(const exchange_names *l)
{
    return l->axes == EXCHANGE_TOKENS ? &flux2_tokens : &kontext_tokens;
}

static int64_t count_tokens(const exchange_references *r, int side)
{
    int64_t n = 0;
    for (int k = 0; k < r->n; k++)
        n += r->view[k].dim[2] / side * (r->view[k].dim[3] / side);
    return n;
}

/* Writes the tokens of a picture v. */
static void pack_tokens(uint16_t *x, const vf_view *v, int side)
{
    const int64_t c = v->dim[0], h = v->dim[2], w = v->dim[3], area = (int64_t)side * side;
    const float *from = v->data;
    for (int64_t i = 0; i < c * h * w; i++) {
        const int64_t token = i / (area * c), channel = i / area % c, at = i % area;
        const int64_t row = token / (w / side) * side + at / side;
        const int64_t column = token % (w / side) * side + at % side;
        x[i] = vc_f32_to_bf16(from[(channel * h + row) * w + column]);
    }
}

/* Writes the places of the tokens of picture k, of `columns` columns. */
static void write_places(void *to, const token_form *f, int k, int64_t n, int64_t columns)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t place[4] = { f->first + k * f->step, i / columns, i % columns, 0 };
        for (int64_t j = 0; j < f->numbers; j++) {
            const int64_t at = i * f->numbers + j;
            if (f->type == VC_BF16)
                ((uint16_t *)to)[at] = vc_f32_to_bf16((float)place[j]);
            else
                ((int64_t *)to)[at] = place[j];
        }
    }
}

/* Adds reference pictures as the tokens of all of them, with their places. */
static int add_tokens(exchange_dict *d, const exchange_names *l, const exchange_references *r,
                      vc_err *err)
{
    const token_form *f = tokens_of(l);
    const int64_t c = r->view[0].dim[0] * f->side * f->side, n = count_tokens(r, f->side);
    const size_t one = vc_dtype_size(f->type);
    uint16_t *x = exchange_dict_alloc(d, (size_t)(c * n) * sizeof *x), *to = x;
    uint8_t *places = exchange_dict_alloc(d, (size_t)(f->numbers * n) * one), *at = places;
    if (!x || !places)
        return vc_no_memory(err);
    for (int k = 0; k < r->n; k++) {
        const int64_t columns = r->view[k].dim[3] / f->side;
        const int64_t tokens = r->view[k].dim[2] / f->side * columns;
        pack_tokens(to, &r->view[k], f->side);
        write_places(at, f, k, tokens, columns);
        to += c * tokens;
        at += (size_t)(f->numbers * tokens) * one;
    }
    exchange_dict_tensor(d, l->references, (vf_view){ NULL, VC_BF16, 3, { 1, n, c }, x,
                                                      (size_t)(c * n) * sizeof *x });
    exchange_dict_tensor(d, l->places, (vf_view){ NULL, f->type, 3, { 1, n, f->numbers }, places,
                                                  (size_t)(f->numbers * n) * one });
    return 0;
}

/* Adds the reference pictures: tokens, a tensor, or a list of several ones. */
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
    if (!rc && l->places && r.n > tokens_of(l)->most)
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
        rc = add_tokens(d, l, &r, err);
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

/* Reads row and column of token i; false: they are no sizes of pictures. */
static bool place_of(int64_t at[2], const vf_view *places, int64_t i)
{
    const size_t one = vc_dtype_size(places->dtype);
    const int64_t numbers = places->dim[2];
    float v[2];
    vc_to_f32(v, (const uint8_t *)places->data + (size_t)(numbers * i + 1) * one, places->dtype, 2);
    for (int j = 0; j < 2; j++)
        at[j] = v[j] >= 0 && v[j] < UINT16_MAX ? (int64_t)v[j] : -1;
    return at[0] >= 0 && at[1] >= 0;
}

/* Finds the picture that begins with token `from`: it ends before the next one at row and column 0,
 * or with the last token. Returns its number of tokens, 0: they are others'. */
static int64_t next_picture(int64_t size[2], const vf_view *places, int64_t from)
{
    int64_t at[2] = { 0 }, n = 0;
    while (from + n < places->dim[1] && place_of(at, places, from + n) &&
           (!n || at[0] || at[1])) {
        size[0] = at[0] + 1;
        size[1] = at[1] + 1;
        n++;
    }
    return n && size[0] * size[1] == n ? n : 0;
}

/* Makes a picture [c,1,h,w] of its tokens. */
static void unpack_tokens(uint8_t *x, const uint8_t *from, size_t one, int64_t c, int64_t h,
                          int64_t w, int side)
{
    for (int64_t i = 0; i < c * h * w; i++) {
        const int64_t channel = i / (h * w), y = i / w % h, z = i % w;
        const int64_t token = y / side * (w / side) + z / side;
        const int64_t at = (channel * side + y % side) * side + z % side;
        memcpy(x + (size_t)i * one, from + (size_t)(token * side * side * c + at) * one, one);
    }
}

/* Takes the reference pictures from their tokens, into *own, which the caller frees. */
static int take_tokens(exchange_item *m, const exchange_names *l, const vf_pt_value *d, void **own,
                       vc_err *err)
{
    const token_form *f = tokens_of(l);
    const int64_t area = (int64_t)f->side * f->side;
    vf_view v, places;
    int64_t size[2] = { 0 }, n;
    int rc = vf_pt_tensor(d, l->references, &v, err);
    if (!rc)
        rc = vf_pt_tensor(d, l->places, &places, err);
    if (rc)
        return rc;
    bool good = v.nd == 3 && v.dim[0] == 1 && v.dim[2] && v.dim[2] % area == 0 &&
                v.dtype <= VC_F64 && places.nd == 3 && places.dim[0] == 1 &&
                places.dim[1] == v.dim[1] && places.dim[2] == f->numbers && v.dim[1] > 0;
    const size_t one = vc_dtype_size(v.dtype);
    uint8_t *x = *own = good ? malloc(v.bytes + 1) : NULL;
    if (good && !x)
        return vc_no_memory(err);
    for (int64_t at = 0; good && at < v.dim[1]; at += n) {
        const size_t begin = (size_t)(at * v.dim[2]) * one;
        n = next_picture(size, &places, at);
        good = n && m->n_references < VC_REFERENCES;
        if (!good)
            break;
        vf_view *to = &m->reference[m->n_references++];
        *to = (vf_view){ NULL, v.dtype, 4, { v.dim[2] / area, 1, size[0] * f->side,
                                             size[1] * f->side }, x + begin,
                         (size_t)(n * v.dim[2]) * one };
        unpack_tokens(x + begin, (const uint8_t *)v.data + begin, one, to->dim[0], to->dim[2],
                      to->dim[3], f->side);
    }
    if (!good)
        return vc_fail(err, VC_EFORMAT, "%s: [1,n,%dC], and %s [1,n,%d] of the places of 1 to %d "
                       "pictures expected", l->references, (int)area, l->places, f->numbers,
                       VC_REFERENCES);
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

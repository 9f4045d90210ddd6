/* diffsynth_write.c - the layouts of DiffSynth-Studio's data by family, and their export. See
 * diffsynth.c */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/peers/caches/diffsynth.h"
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

const exchange_names diffsynth_layouts[] = {
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

static const token_form kontext_tokens = { 2, 3, VC_BF16, 1, 0, 1 };
static const token_form flux2_tokens = { 1, 4, VC_I64, 10, 10, VC_REFERENCES };

const token_form *diffsynth_tokens(const exchange_names *l)
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
    const token_form *f = diffsynth_tokens(l);
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
    if (!rc && l->places && r.n > diffsynth_tokens(l)->most)
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

int diffsynth_write(exchange *x, const exchange_names *l, vc_err *err)
{
    return exchange_each(x, write_sample, (void *)l, err);
}

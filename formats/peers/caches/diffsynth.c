/* diffsynth.c - imports DiffSynth-Studio's data: the pickled inputs of its pipeline for
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
 * diffsynth_write.c exports them. See exchange.h */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "formats/peers/caches/diffsynth.h"
#include "formats/peers/exchange_parts.h"
#include "formats/peers/tensors.h"

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
    const token_form *f = diffsynth_tokens(l);
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
    if (!(*l = exchange_guess(diffsynth_layouts, v->item[0], v->item[1])))
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

static int export_diffsynth(exchange *x, vc_err *err)
{
    const exchange_names *l = exchange_row(&exchange_diffsynth, x, err);
    return l ? diffsynth_write(x, l, err) : VC_EMISMATCH;
}

const exchange_format exchange_diffsynth = {
    "diffsynth", "DiffSynth-Studio", "posterior means in bf16, one caption",
    diffsynth_layouts, sizeof *diffsynth_layouts, "wan2.1", true, false,
    export_diffsynth, import_diffsynth, NULL
};

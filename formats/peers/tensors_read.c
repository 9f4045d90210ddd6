/* tensors_read.c - finds a sample's tensors in the dictionary of a peer's file. See tensors.h */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/peers/tensors.h"

#define FRAMES "Fx"
#define SIDES "HxW"
#define TYPE "TYPE"

enum { NO_TEXT = 8192 };                     /* the widest text that may have no rows */

/* ---- names ---- */

/* Returns torch's name of a type, "" for one that no cache has. */
static const char *word_of(vc_dtype t)
{
    static const char *const words[] = { [VC_F32] = "float32", [VC_BF16] = "bfloat16",
                                         [VC_F16] = "float16", [VC_F8E4M3] = "float8_e4m3fn",
                                         [VC_F8E5M2] = "float8_e5m2", [VC_F64] = "float64" };
    return (size_t)t < sizeof words / sizeof *words ? words[t] : "";
}

/* Finds the part of a name that stands for sizes, whose length is *n; NULL: there is none. */
static const char *sizes_in(const char *name, size_t *n)
{
    const char *at = strstr(name, FRAMES SIDES);
    *n = strlen(FRAMES SIDES);
    if (at)
        return at;
    *n = strlen(SIDES);
    return strstr(name, SIDES);
}

size_t exchange_name_start(const char *name)
{
    size_t n;
    const char *sizes = sizes_in(name, &n), *type = strstr(name, TYPE);
    return sizes ? (size_t)(sizes - name) : type ? (size_t)(type - name) : strlen(name);
}

const char *exchange_full_name(char buf[EXCHANGE_FULL_NAME], const char *name, const vf_view *v)
{
    size_t n = 0, all;
    const char *sizes = sizes_in(name, &all), *rest = sizes ? sizes + all : name;
    const char *type = strstr(rest, TYPE);
    char frames[24] = "";
    if (!sizes && !type)
        return name;
    const int64_t *of = v->dim + (v->nd == 3 ? 0 : 1);       /* a still's [C,h,w] has one frame */
    if (sizes && all > strlen(SIDES))
        snprintf(frames, sizeof frames, "%" PRId64 "x", v->nd == 3 ? 1 : of[0]);
    if (sizes)
        n = (size_t)snprintf(buf, EXCHANGE_FULL_NAME, "%.*s%s%" PRId64 "x%" PRId64,
                             (int)(sizes - name), name, frames, of[1], of[2]);
    if (n < EXCHANGE_FULL_NAME)
        snprintf(buf + n, EXCHANGE_FULL_NAME - n, "%.*s%s", (int)(type ? type - rest : 60), rest,
                 type ? word_of(v->dtype) : "");
    return buf;
}

const char *exchange_reference_name(char buf[EXCHANGE_FULL_NAME], const exchange_names *l, int k)
{
    const char *number = strchr(l->references, '#');
    snprintf(buf, EXCHANGE_FULL_NAME, number ? "%.*s%d%s" : "%.*s",
             number ? (int)(number - l->references) : 100, l->references, k,
             number ? number + 1 : "");
    return buf;
}

/* True if a tensor's name may be `name` with its sizes and type. A mask has the name of the rows
 * that it masks, with "mask" instead of the type. */
static bool may_be(const vf_pt_value *key, const char *name)
{
    const size_t n = exchange_name_start(name);
    size_t sizes;
    if (key->kind != VF_PT_STR || key->n < n || memcmp(key->s, name, n))
        return false;
    const char *rest = key->s + n;
    const size_t left = key->n - n;
    if (!name[n])
        return !left;
    if (sizes_in(name, &sizes))
        return left && *rest >= '0' && *rest <= '9';
    return left != 4 || memcmp(rest, "mask", 4);
}

/* Finds a tensor's value, of several with the same name the last one, as vf_pt_get does; *key is
 * its full name. */
static const vf_pt_value *find(const vf_pt_value *d, const char *name, const vf_pt_value **key)
{
    const vf_pt_value *found = NULL;
    const bool varies = name[exchange_name_start(name)];
    for (size_t i = 0; d && d->kind == VF_PT_DICT && i < d->n && !(found && varies); i++)
        if (may_be(d->item[2 * i], name)) {
            *key = d->item[2 * i];
            found = d->item[2 * i + 1];
        }
    return found;
}

/* Compares a tensor's full name with its sizes and type: another one is a damaged name. */
static int check_name(const vf_pt_value *key, const char *name, const vf_view *v, vc_err *err)
{
    char full[EXCHANGE_FULL_NAME];
    const char *want = exchange_full_name(full, name, v);
    if (key->n == strlen(want) && !memcmp(key->s, want, key->n))
        return 0;
    return vc_fail(err, VC_EFORMAT, "tensor \"%.*s\": the name %s, of its sizes and type, "
                   "expected: the file is damaged", (int)(key->n < 60 ? key->n : 60), key->s, want);
}

/* ---- tensors ---- */

/* Gets a tensor of nd dimensions, without the batch's. */
static int take(vf_view *v, const vf_pt_value *d, const char *name, int nd, bool batch, vc_err *err)
{
    const vf_pt_value *key, *value = find(d, name, &key);
    if (!value)
        return vc_fail(err, VC_ENOENT, "%s: missing", name);
    if (value->kind != VF_PT_TENSOR)
        return vc_fail(err, VC_EFORMAT, "%s: expected a tensor", name);
    *v = *value->tensor;
    if (batch && (v->nd != nd + 1 || v->dim[0] != 1))
        return vc_fail(err, VC_EFORMAT, "%s: %d dimensions with a batch of 1 expected", name,
                       nd + 1);
    if (batch)
        memmove(v->dim, v->dim + 1, (size_t)--v->nd * sizeof *v->dim);
    if (v->nd != nd)
        return vc_fail(err, VC_EFORMAT, "%s: %d dimensions expected", name, nd);
    return check_name(key, name, v, err);
}

/* Makes latents [C,1,h,w], in *own, of the tokens [hw,C]. */
static int take_tokens(vf_view *v, const exchange_names *l, const vf_pt_value *d, void **own,
                       vc_err *err)
{
    const int *ratio = exchange_family_find(l->family)->ratio;
    const int64_t h = exchange_int(d, l->sides[0], 0) / ratio[1];
    const int64_t w = exchange_int(d, l->sides[1], 0) / ratio[2], c = v->dim[1];
    if (h < 1 || w < 1 || h > UINT16_MAX || w > UINT16_MAX || h * w != v->dim[0])
        return vc_fail(err, VC_EFORMAT, "%s: %" PRId64 " tokens, not those of %s / %d and %s / %d, "
                       "%" PRId64 " x %" PRId64, l->latents, v->dim[0], l->sides[0], ratio[1],
                       l->sides[1], ratio[2], h, w);
    if (!(*own = malloc(v->bytes + 1)))
        return vc_no_memory(err);
    exchange_swap(*own, v->data, (size_t)v->dim[0], (size_t)c, 1, vc_dtype_size(v->dtype));
    *v = (vf_view){ v->name, v->dtype, 4, { c, 1, h, w }, *own, v->bytes };
    return 0;
}

int exchange_take_latents(exchange_item *m, exchange *x, const exchange_names *l,
                          const vf_pt_value *d, void **own, vc_err *err)
{
    const vf_pt_value *key;
    *own = NULL;
    for (int i = 0; i < EXCHANGE_NAMED_CONDITIONS && l->conditions[i]; i++) {
        const vf_pt_value *v = find(d, l->conditions[i], &key);
        x->no_conditions += v && v->kind != VF_PT_NONE;
    }
    vf_view v;
    const vf_pt_value *value = find(d, l->latents, &key);
    const int nd = value && value->kind == VF_PT_TENSOR ? value->tensor->nd - l->batch : 0;
    const bool tokens = l->axes == EXCHANGE_TOKENS;
    int rc = take(&v, d, l->latents, tokens ? 2 : nd == 3 && l->axes != EXCHANGE_FCHW ? 3 : 4,
                  l->batch, err);
    if (!rc && tokens)
        rc = take_tokens(&v, l, d, own, err);
    if (rc)
        return rc;
    if (v.nd == 3)
        exchange_add_frames(&v);
    m->mean = v;
    m->drawn = l->drawn;
    m->fps = l->fps;
    return l->moments ? exchange_split(&v, l->axes == EXCHANGE_FCHW, m, own, err) : 0;
}

/* Reads a number of rows from an integer tensor of shape [] or [1]. */
static int trim_length(vf_view *e, const vf_pt_value *d, const char *name, vc_err *err)
{
    vf_view v;
    float f;
    int rc = vf_pt_tensor(d, name, &v, err);
    if (rc)
        return rc;
    if (vf_view_count(&v) != 1)
        return vc_fail(err, VC_EFORMAT, "%s: one number expected", name);
    vc_to_f32(&f, v.data, v.dtype, 1);
    if (!(f >= 0 && f <= 1 << 20))
        return vc_fail(err, VC_EFORMAT, "%s: %g", name, (double)f);
    exchange_trim_rows(e, (int64_t)f);
    return 0;
}

/* Cuts the rows of padding at the end. */
static int trim_rows(vf_view *e, const exchange_names *l, const exchange_text_names *t,
                     const vf_pt_value *d, vc_err *err)
{
    vf_view mask;
    int rc = 0;
    switch (t->trim) {
    case EXCHANGE_ALL_ROWS:
        break;
    case EXCHANGE_BY_ZEROS:
        exchange_trim_zeros(e);
        break;
    case EXCHANGE_BY_LENGTH:
        return trim_length(e, d, t->length, err);
    case EXCHANGE_BY_MASK:
        rc = take(&mask, d, t->mask, 1, l->batch, err);
        return rc ? rc : vc_context(err, exchange_trim_mask(e, &mask, err), "%s", t->mask);
    }
    return rc;
}

/* Makes [n,D] of the states of layers [n,layers,D/layers], and a row of zeros of no rows. */
static int flatten(vf_view *e, const exchange_text_names *t, vc_err *err)
{
    static const float no_text[NO_TEXT];
    if (t->layers && (e->dim[1] != t->layers || e->dim[2] > INT32_MAX))
        return vc_fail(err, VC_EFORMAT, "%s: [n,%" PRId64 ",D] expected", t->embeds, t->layers);
    if (t->layers) {
        e->dim[1] *= e->dim[2];
        e->nd = 2;
    }
    if (!t->none || e->dim[0])
        return 0;
    if (e->dim[1] < 1 || e->dim[1] > NO_TEXT || e->dtype > VC_F16)
        return vc_fail(err, VC_EFORMAT, "%s: no rows of 1 to %d numbers expected", t->embeds,
                       NO_TEXT);
    e->dim[0] = 1;
    e->data = no_text;
    e->bytes = (size_t)e->dim[1] * vc_dtype_size(e->dtype);
    return 0;
}

/* Gets the states of tokens [n,D]. */
static int take_embeds(vf_view *e, const exchange_names *l, const exchange_text_names *t,
                       const vf_pt_value *d, vc_err *err)
{
    if (!t->list) {
        int rc = take(e, d, t->embeds, t->layers ? 3 : 2, l->batch, err);
        return rc ? rc : flatten(e, t, err);
    }
    const vf_pt_value *key, *list = find(d, t->embeds, &key);
    if (!list)
        return vc_fail(err, VC_ENOENT, "%s: missing", t->embeds);
    if (list->kind != VF_PT_LIST || list->n != 1 || list->item[0]->kind != VF_PT_TENSOR ||
        list->item[0]->tensor->nd != 2)
        return vc_fail(err, VC_EFORMAT, "%s: a list of one tensor [n,D] expected", t->embeds);
    *e = *list->item[0]->tensor;
    return 0;
}

int exchange_take_text(exchange_item *m, int i, const exchange_names *l, const vf_pt_value *d,
                       vc_err *err)
{
    const exchange_text_names *t = &l->text[i];
    vf_view *e = &m->text[i].embeds;
    int rc = t->pooled ? take(&m->text[i].pooled, d, t->pooled, 1, l->batch, err) : 0;
    m->n_text = i + 1;
    if (rc || !t->embeds)
        return rc;
    rc = take_embeds(e, l, t, d, err);
    if (!rc && (e->dim[0] < 1 || e->dim[1] < 1))
        rc = vc_fail(err, VC_EFORMAT, "%s: empty", t->embeds);
    if (rc)
        return rc;
    if (t->most && e->dim[0] > t->most)
        exchange_trim_rows(e, t->most);
    m->text[i].length = t->whole ? e->dim[0] : 0;
    return trim_rows(e, l, t, d, err);
}

int exchange_take_texts(exchange_item *m, const exchange_names *l, const vf_pt_value *d,
                        vc_err *err)
{
    int rc = 0;
    for (int i = 0; !rc && i < l->n_text; i++)
        rc = exchange_take_text(m, i, l, d, err);
    return rc;
}

static bool has(const vf_pt_value *d, const char *name)
{
    const vf_pt_value *key;
    return !name || find(d, name, &key);
}

/* True if the first encoder's states are a list where the row says so, and of the row's width. */
static bool fits(const exchange_names *l, const vf_pt_value *texts)
{
    const exchange_text_names *t = &l->text[0];
    const vf_pt_value *key, *v = t->embeds ? find(texts, t->embeds, &key) : NULL;
    if (!v)
        return true;
    const vf_view *e = v->kind == VF_PT_TENSOR ? v->tensor : NULL;
    return (v->kind == VF_PT_LIST) == t->list &&
           (!l->width || (e && e->nd && e->dim[e->nd - 1] == l->width));
}

bool exchange_has_text(const exchange_names *l, int i, const vf_pt_value *d)
{
    const exchange_text_names *t = &l->text[i];
    return has(d, t->embeds) && has(d, t->mask) && has(d, t->length) && has(d, t->pooled) &&
           (i || fits(l, d));
}

const exchange_names *exchange_guess(const exchange_names *rows, const vf_pt_value *latents,
                                     const vf_pt_value *texts)
{
    const exchange_names *found = NULL;
    for (const exchange_names *l = rows; l->family; l++) {
        const vf_pt_value *key, *v = find(latents, l->latents, &key);
        const int at = l->batch + (l->axes == EXCHANGE_FCHW || l->axes == EXCHANGE_TOKENS);
        const int64_t channels = v && v->kind == VF_PT_TENSOR && v->tensor->nd > at
                                     ? v->tensor->dim[at] : 0;
        bool all = true;
        for (int i = 0; all && i < l->n_text; i++)
            all = exchange_has_text(l, i, texts);
        if (all && (!found || (strcmp(found->family, l->family) &&
                               channels == exchange_family_find(l->family)->channels)))
            found = l;
    }
    return found;
}

/* ---- reference pictures ---- */

static int take_reference(exchange_item *m, const exchange_names *l, const vf_pt_value *d,
                          const char *name, vc_err *err)
{
    vf_view *v = &m->reference[m->n_references];
    int rc = take(v, d, name, l->axes == EXCHANGE_CHW ? 3 : 4, l->batch, err);
    if (!rc && l->axes == EXCHANGE_CHW)
        exchange_add_frames(v);
    m->n_references += !rc;
    return rc;
}

int exchange_take_references(exchange_item *m, const exchange_names *l, const vf_pt_value *d,
                             vc_err *err)
{
    const bool numbered = l->references && strchr(l->references, '#');
    char name[EXCHANGE_FULL_NAME];
    for (int k = 0; l->references && k < VC_REFERENCES + 1 && (numbered || !k); k++) {
        if (!has(d, exchange_reference_name(name, l, k)))
            break;
        if (k == VC_REFERENCES)
            return vc_fail(err, VC_EFORMAT, "%s: at most %d reference pictures expected", name,
                           VC_REFERENCES);
        int rc = take_reference(m, l, d, name, err);
        if (rc)
            return rc;
    }
    return 0;
}

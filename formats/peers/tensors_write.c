/* tensors_write.c - adds a sample's tensors to the dictionary of a peer's file. See tensors.h */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/peers/tensors.h"

enum { MAX_LENGTH = 1 << 14 };               /* most rows to which a text is padded */

const exchange_names *exchange_row(const exchange_format *f, const exchange *x, vc_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(x->manifest, "text_encoders");
    const double width = vlat_num(cJSON_GetArrayItem(list, 0), "width");
    const char *family = x->family->name, *name;
    char widths[120] = "";
    for (size_t i = 0, n = 0; (name = exchange_layout_name(f, i)); i++) {
        const exchange_names *l = (const void *)((const char *)f->layouts + i * f->layout_size);
        if (strcmp(name, family))
            continue;
        if (!l->width || (double)l->width == width)
            return l;
        if (n < sizeof widths)
            n += (size_t)snprintf(widths + n, sizeof widths - n, "%s%" PRId64, n ? ", " : "",
                                  l->width);
    }
    vc_fail(err, VC_EMISMATCH, "%s: texts of width %g: %s has %s with texts of width %s",
            vf_dataset_path(x->d), width, f->source, family, widths);
    return NULL;
}

int exchange_add_tensor(exchange_dict *d, const char *name, vf_view v, vc_dtype t, int64_t rows,
                        vc_err *err)
{
    size_t n = (size_t)vf_view_count(&v);
    const vc_dtype to = t == VC_DTYPE_NONE ? v.dtype : t;
    if (rows > v.dim[0] && v.dim[0])
        v.dim[0] = rows;
    void *data = exchange_dict_alloc(d, (size_t)vf_view_count(&v) * vc_dtype_size(to));
    const vf_view from = { NULL, v.dtype, 1, { (int64_t)n }, v.data, n * vc_dtype_size(v.dtype) };
    if (!data || !name)
        return vc_no_memory(err);
    v.dtype = to;
    exchange_dict_view(d, name, v, data);
    return exchange_convert(data, to, &from, 0, n, err);
}

/* Returns the name of a tensor with the sizes of the sample's latents and with type t; NULL: out of
 * memory. */
static const char *name_of(exchange_dict *d, const char *name, const exchange_sample *s, vc_dtype t)
{
    const int64_t *n = s->mean.dim;
    const vf_view v = { .dtype = t == VC_DTYPE_NONE ? s->mean.dtype : t, .nd = 4,
                        .dim = { n[0], n[1], n[2], n[3] } };
    if (!name[exchange_name_start(name)])
        return name;
    char *made = exchange_dict_alloc(d, EXCHANGE_FULL_NAME);
    return made ? exchange_full_name(made, name, &v) : NULL;
}

/* Puts an axis of 1 in front of the tensor that was added last, if the files have one. */
static void add_batch(exchange_dict *d, const exchange_names *l)
{
    vf_view *v = &d->view[d->n - 1];
    if (!l->batch)
        return;
    memmove(v->dim + 1, v->dim, (size_t)v->nd * sizeof *v->dim);
    v->dim[0] = 1;
    v->nd++;
}

/* Makes tokens [hw,C] of the tensor [C,1,h,w] that was added last. */
static int add_tokens(exchange_dict *d, vc_err *err)
{
    vf_view *v = &d->view[d->n - 1];
    const int64_t c = v->dim[0], n = v->dim[2] * v->dim[3];
    void *tokens = exchange_dict_alloc(d, v->bytes);
    if (!tokens)
        return vc_no_memory(err);
    exchange_swap(tokens, v->data, (size_t)c, (size_t)n, 1, vc_dtype_size(v->dtype));
    *v = (vf_view){ v->name, v->dtype, 2, { n, c }, tokens, v->bytes };
    return 0;
}

int exchange_add_latents(exchange_dict *d, const exchange *x, const exchange_names *l,
                         const exchange_sample *s, vc_err *err)
{
    const int64_t *n = s->mean.dim;
    float *f = NULL;
    void *moments = NULL;
    if ((l->axes == EXCHANGE_CHW || l->axes == EXCHANGE_TOKENS) && n[1] != 1)
        return vc_fail(err, VC_EMISMATCH, "%" PRId64 " frames: %s has stills", n[1], l->family);
    const vc_dtype own = s->mean.dtype, type = l->type == VC_DTYPE_NONE ? own : l->type;
    int rc = l->moments ? exchange_moments(s, own, l->axes == EXCHANGE_FCHW, &moments, err)
                        : exchange_latent_f32(x, s, &f, err);
    const vf_view v = { NULL, l->moments ? own : VC_F32, 4,
                        { l->moments ? 2 * n[0] : n[0], n[1], n[2], n[3] },
                        l->moments ? moments : (void *)f, 0 };
    if (!rc)
        rc = exchange_add_tensor(d, name_of(d, l->latents, s, type), v, type, 0, err);
    if (!rc && l->axes == EXCHANGE_TOKENS)
        rc = add_tokens(d, err);
    free(f);
    free(moments);
    if (rc)
        return rc;
    vf_view *to = &d->view[d->n - 1];
    if (l->axes == EXCHANGE_CHW) {
        exchange_drop_frames(to);
    } else if (l->axes == EXCHANGE_FCHW) {
        to->dim[0] = v.dim[1];
        to->dim[1] = v.dim[0];
    }
    add_batch(d, l);
    return 0;
}

int exchange_add_known(exchange_dict *d, exchange *x, const exchange_names *l,
                       const exchange_sample *s, vc_err *err)
{
    exchange_known k = { .own = NULL };
    int rc = l->clip ? exchange_known_open(&k, x, s, true, err) : 0;
    const struct { const char *name; const vf_view *v; vc_dtype type; } rows[] = {
        { l->clip, &k.clip, l->type }, { l->vision, &k.vision, l->vision_type }
    };
    for (int i = 0; !rc && i < 2 && rows[i].v->data; i++) {
        rc = exchange_add_tensor(d, name_of(d, rows[i].name, s, l->type), *rows[i].v, rows[i].type,
                                 0, err);
        if (!rc)
            add_batch(d, l);
    }
    exchange_known_close(&k);
    return rc;
}

static int add_mask(exchange_dict *d, const exchange_names *l, const char *name, int64_t rows,
                    int64_t all, vc_err *err)
{
    int64_t *mask = exchange_dict_alloc(d, (size_t)all * sizeof *mask);
    if (!mask)
        return vc_no_memory(err);
    for (int64_t i = 0; i < rows; i++)
        mask[i] = 1;
    exchange_dict_view(d, name, (vf_view){ .dtype = VC_I64, .nd = 1, .dim = { all } }, mask);
    add_batch(d, l);
    return 0;
}

/* Makes a list of the tensor that was added last. */
static int add_list(exchange_dict *d, vc_err *err)
{
    vf_pt_value *value = &d->value[d->n - 1], *one = exchange_dict_alloc(d, sizeof *one);
    const vf_pt_value **item = exchange_dict_alloc(d, sizeof *item);
    if (!one || !item)
        return vc_no_memory(err);
    *one = *value;
    *item = one;
    *value = (vf_pt_value){ .kind = VF_PT_LIST, .item = item, .n = 1 };
    return 0;
}

/* True for the one row of zeros of a prompt that has no text for this encoder. */
static bool is_none(const vf_view *e)
{
    bool zeros = e->dim[0] == 1;
    for (size_t i = 0; zeros && i < e->bytes; i++)
        zeros = !((const uint8_t *)e->data)[i];
    return zeros;
}

/* Adds the rows of encoder i, and their mask. */
static int add_rows(exchange_dict *d, const exchange *x, const exchange_names *l, int i,
                    const exchange_sample *s, vc_err *err)
{
    const exchange_text_names *t = &l->text[i];
    const vf_view *e = &s->text[i].embeds;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(x->manifest, "text_encoders");
    const double said = vlat_num(cJSON_GetArrayItem(list, i), "max_length");
    if (t->padded && said > MAX_LENGTH)
        return vc_fail(err, VC_EFORMAT, "max_length: %g, at most %d expected", said, MAX_LENGTH);
    const int64_t rows = !t->padded ? 0 : said > 0 ? (int64_t)said : t->padded;
    int rc = exchange_add_tensor(d, name_of(d, t->embeds, s, l->text_type), *e, l->text_type, rows,
                                 err);
    if (rc)
        return rc;
    vf_view *added = &d->view[d->n - 1];
    const int64_t all = added->dim[0];
    if (t->list)
        return add_list(d, err);
    if (t->layers && added->dim[1] % t->layers)
        return vc_fail(err, VC_EMISMATCH, "text %d: %" PRId64 " numbers a token, which are not "
                       "those of %" PRId64 " layers", i + 1, added->dim[1], t->layers);
    if (t->layers) {
        added->nd = 3;
        added->dim[2] = added->dim[1] / t->layers;
        added->dim[1] = t->layers;
    }
    if (t->none && is_none(e)) {
        added->dim[0] = 0;
        added->bytes = 0;
    }
    add_batch(d, l);
    return t->mask ? add_mask(d, l, t->mask, e->dim[0], all, err) : 0;
}

static int add_pooled(exchange_dict *d, const exchange_names *l, int i, const exchange_sample *s,
                      vc_err *err)
{
    const vf_view *p = &s->text[i].pooled;
    const vf_view flat = { NULL, p->dtype, 1, { vf_view_count(p) }, p->data, p->bytes };
    int rc = exchange_add_tensor(d, name_of(d, l->text[i].pooled, s, l->text_type), flat,
                                 l->text_type, 0, err);
    if (!rc)
        add_batch(d, l);
    return rc;
}

int exchange_add_texts(exchange_dict *d, const exchange *x, const exchange_names *l,
                       const exchange_sample *s, vc_err *err)
{
    int rc = 0;
    for (int i = 0; i < l->n_text; i++)
        if (s->n_text != l->n_text || (l->text[i].embeds && !s->text[i].embeds.data) ||
            (l->text[i].pooled && !s->text[i].pooled.data))
            return vc_fail(err, VC_EMISMATCH, "text embeddings of %s need %d text encoder%s, "
                           "encoder %d with %s: %d are there", l->family, l->n_text,
                           l->n_text > 1 ? "s" : "", i + 1,
                           l->text[i].embeds ? "states of tokens" : "a pooled embedding",
                           s->n_text);
    for (int i = 0; !rc && i < l->n_text; i++)
        rc = l->text[i].embeds ? add_rows(d, x, l, i, s, err) : 0;
    for (int i = 0; !rc && i < l->n_text; i++)
        rc = l->text[i].pooled ? add_pooled(d, l, i, s, err) : 0;
    return rc;
}

/* Adds reference k of r. */
static int add_reference(exchange_dict *d, const exchange_names *l, const exchange_sample *s,
                         const exchange_references *r, int k, vc_err *err)
{
    const exchange_sample as = { .mean = r->view[k] };
    char *name = exchange_dict_alloc(d, EXCHANGE_FULL_NAME);
    const vc_dtype type = l->type == VC_DTYPE_NONE ? s->mean.dtype : l->type;
    if (!name)
        return vc_no_memory(err);
    exchange_reference_name(name, l, k);
    int rc = exchange_add_tensor(d, name_of(d, name, &as, type), r->view[k], type, 0, err);
    if (rc)
        return rc;
    if (l->axes == EXCHANGE_CHW)
        exchange_drop_frames(&d->view[d->n - 1]);
    add_batch(d, l);
    return 0;
}

int exchange_add_references(exchange_dict *d, exchange *x, const exchange_names *l,
                            const exchange_sample *s, vc_err *err)
{
    exchange_references r = { .n = 0 };
    const bool one = l->references && !strchr(l->references, '#');
    int rc = l->references ? exchange_references_open(&r, x, s, err) : 0;
    if (!rc && one && r.n != 1)
        rc = vc_fail(err, VC_EMISMATCH, "%d reference pictures: %s keeps exactly one of each "
                     "sample: vlat select leaves a sample out", r.n, x->format);
    for (int k = 0; !rc && k < r.n; k++)
        rc = add_reference(d, l, s, &r, k, err);
    exchange_references_close(&r);
    return rc;
}

/* merge.c - folds LoRA files into weights, and changes of layers in other forms; see lora.h */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/tensor/packing.h"
#include "formats/tensors/values.h"
#include "train/lora/parts.h"

void vtrain_lora_merge(float *w, int64_t out, int64_t in, const float *a, const float *b,
                       int64_t r, double scale)
{
    enum { TILE = 512 };
    double sum[TILE];
    for (int64_t o = 0; o < out; o++)
        for (int64_t at = 0; at < in; at += TILE) {
            int64_t n = in - at < TILE ? in - at : TILE;
            float *to = w + o * in + at;
            memset(sum, 0, sizeof sum);
            for (int64_t k = 0; k < r; k++) {
                const float *row = a + k * in + at;
                double f = b[o * r + k];
                for (int64_t i = 0; i < n; i++)
                    sum[i] += f * (double)row[i];
            }
            for (int64_t i = 0; i < n; i++)
                to[i] = (float)((double)to[i] + scale * sum[i]);
        }
}

float *vtrain_lora_floats(const void *data, vc_dtype t, int64_t n)
{
    float *f = malloc((size_t)n * sizeof *f);
    if (f)
        vc_to_f32(f, data, t, (size_t)n);
    return f;
}

/* The type of a weight with a LoRA folded in: that of the weight, or bf16, since codes of eight
 * bits or four would round most of the LoRA away. */
static vc_dtype merged_type(vc_dtype stored)
{
    return vt_is_code(stored) ? VC_BF16 : stored;
}

static size_t merged_bytes(const vt_host *v)
{
    size_t bytes = vc_dtype_size(merged_type(v->dtype));
    for (int i = 0; i < v->nd; i++)
        bytes *= (size_t)v->dim[i];
    return bytes;
}

/* Lets v point to values of the merged type, without scales. */
static void set_merged(vt_host *v, const void *data)
{
    v->dtype = merged_type(v->dtype);
    v->data = data;
    v->scale = NULL;
}

/* Gives a row the length that is element o of the magnitudes. */
static void set_length(float *row, int64_t in, const vf_view *magnitude, int64_t o)
{
    float to;
    double sum = 0;
    vf_view_f32(&to, magnitude, (size_t)o, 1);
    for (int64_t i = 0; i < in; i++)
        sum += (double)row[i] * (double)row[i];
    for (int64_t i = 0; i < in && sum > 0; i++)
        row[i] = (float)((double)row[i] * ((double)to / sqrt(sum)));
}

/* Folds the pair into a copy of the weight v, and lets v point to the copy, which l frees. */
static int make_merged(vtrain_lora *l, vt_host *v, const vtrain_lora_pair *p, vc_err *err)
{
    int64_t out = v->dim[0], r = p->a.dim[0], in = (int64_t)vf_view_count(&p->a) / r, n = out * in;
    const vc_dtype type = merged_type(v->dtype);
    float *w = malloc(sizeof *w * (size_t)n);
    float *a = vtrain_lora_floats(p->a.data, p->a.dtype, r * in);
    float *b = vtrain_lora_floats(p->b.data, p->b.dtype, out * r);
    void *stored = malloc(merged_bytes(v));
    int rc = w && a && b && stored ? vtrain_lora_keep(l, stored, err) : vc_no_memory(err);
    if (rc) {
        free(stored);
    } else {
        for (int64_t o = 0; o < out; o++)
            vt_host_row(w + o * in, v, o);
        vtrain_lora_merge(w, out, in, a, b, r, p->scale * l->strength);
        for (int64_t o = 0; o < out && p->scaled; o++)
            set_length(w + o * in, in, &p->magnitude, o);
        vc_from_f32(stored, type, w, (size_t)n);
        vc_to_f32(w, stored, type, (size_t)n);
        if (!vf_all_finite(w, (size_t)n))
            rc = vc_fail(err, VC_ENUMERIC, "%s: \"%s\", times %g, folded into %s gives values "
                         "that are not finite", l->path, p->b.name, p->scale * l->strength,
                         vc_dtype_name(type));
        l->merged_bytes += merged_bytes(v);
        set_merged(v, stored);
    }
    free(w);
    free(a);
    free(b);
    return rc;
}

static int check_weight(const vtrain_lora *l, const vt_host *v, const vtrain_lora_pair *p,
                        vc_err *err)
{
    const vf_view *a = &p->a;
    size_t rest = (size_t)(v->nd - 1) * sizeof *v->dim;
    if (a->nd == v->nd && p->b.dim[0] == v->dim[0] && !memcmp(a->dim + 1, v->dim + 1, rest))
        return 0;
    int64_t dim[8] = { p->b.dim[0] };
    char want[VT_SHAPE_TEXT], have[VT_SHAPE_TEXT];
    memcpy(dim + 1, a->dim + 1, (size_t)(a->nd - 1) * sizeof *dim);
    vt_shape_text(want, a->nd, dim);
    vt_shape_text(have, v->nd, v->dim);
    return vc_fail(err, VC_EMISMATCH, "%s: \"%s\" is for a weight of %s, but this transformer's "
                   "weight is %s", l->path, p->b.name, want, have);
}

/* ---- other changes of layers ---- */

/* A matrix of a file, or the product of two of them. */
typedef struct matrix { float *v; int64_t rows, columns, rank; } matrix;

static int64_t columns_of(const vf_view *v)
{
    return v->nd && v->dim[0] ? vf_view_count(v) / v->dim[0] : 1;
}

static int make_matrix(matrix *m, const vf_view *whole, const vf_view *a, const vf_view *b,
                       const char *module, vc_err *err)
{
    *m = (matrix){ 0 };
    if (!whole && (!a || !b || a->nd < 1 || b->nd < 1 || columns_of(a) != b->dim[0]))
        return vc_fail(err, VC_EFORMAT, "module \"%s\" lacks a factor, or its factors do not fit "
                       "each other", module);
    m->rows = whole ? whole->nd ? whole->dim[0] : 1 : a->dim[0];
    m->columns = columns_of(whole ? whole : b);
    m->rank = whole ? 0 : b->dim[0];
    m->v = whole ? vtrain_lora_floats(whole->data, whole->dtype, vf_view_count(whole))
                 : calloc((size_t)(m->rows * m->columns), sizeof *m->v);
    float *fa = whole ? NULL : vtrain_lora_floats(a->data, a->dtype, vf_view_count(a));
    float *fb = whole ? NULL : vtrain_lora_floats(b->data, b->dtype, vf_view_count(b));
    const bool ok = m->v && (whole || (fa && fb));
    if (ok && !whole)                        /* a b: `a` has the place of a LoRA's B */
        vtrain_lora_merge(m->v, m->rows, m->columns, fb, fa, m->rank, 1);
    free(fa);
    free(fb);
    return ok ? 0 : vc_no_memory(err);
}

/* What an entry adds to a weight: at (o, i) scale times a product of two numbers. The sum's rows
 * then get the lengths of the magnitudes, if there are any. */
typedef struct change {
    matrix one, two;
    bool kron;
    double scale;
    const vf_view *magnitude;
} change;

static int make_change(change *c, const vtrain_lora *l, const vtrain_lora_entry *e, bool bias,
                       vc_err *err)
{
    const vf_view *const *m = e->more, *diff = m[bias ? VTRAIN_PART_DIFF_B : VTRAIN_PART_DIFF];
    *c = (change){ .kron = m[VTRAIN_PART_KR_1] || m[VTRAIN_PART_KR_1A], .scale = 1 };
    if (e->alpha && (vf_view_count(e->alpha) != 1 || e->alpha->dtype > VC_F64))
        return vc_fail(err, VC_EFORMAT, "tensor \"%s\": an alpha is one number", e->alpha->name);
    if (diff) {
        c->kron = false;
        return make_matrix(&c->one, diff, NULL, NULL, e->module, err);
    }
    const int first = c->kron ? VTRAIN_PART_KR_1A : VTRAIN_PART_HA_1A;
    const int second = c->kron ? VTRAIN_PART_KR_2A : VTRAIN_PART_HA_2A;
    int rc = make_matrix(&c->one, c->kron ? m[VTRAIN_PART_KR_1] : NULL, m[first], m[first + 1],
                         e->module, err);
    if (!rc)
        rc = make_matrix(&c->two, c->kron ? m[VTRAIN_PART_KR_2] : NULL, m[second], m[second + 1],
                         e->module, err);
    const int64_t rank = c->two.rank ? c->two.rank : c->one.rank;
    c->magnitude = e->magnitude;
    if (!rc && rank)
        c->scale = vtrain_lora_scale(l, e, e->module, (double)rank);
    return rc ? rc : vc_context(err, vtrain_lora_alpha_check(&l->alpha, err), "%s", l->path);
}

static int64_t change_rows(const change *c) { return c->one.rows * (c->kron ? c->two.rows : 1); }

static int64_t change_columns(const change *c)
{
    return c->one.columns * (c->kron ? c->two.columns : 1);
}

static double change_at(const change *c, int64_t o, int64_t i)
{
    const matrix *a = &c->one, *b = &c->two;
    if (!b->v)
        return (double)a->v[o * a->columns + i];
    if (!c->kron)
        return (double)a->v[o * a->columns + i] * (double)b->v[o * a->columns + i];
    return (double)a->v[o / b->rows * a->columns + i / b->columns] *
           (double)b->v[o % b->rows * b->columns + i % b->columns];
}

/* Adds rows first.. of a change, or its swapped halves, to a copy of v, and lets v point to the
 * copy. */
static int add_change(vtrain_lora *l, vt_host *v, const change *c, int64_t first, bool swapped,
                      vc_err *err)
{
    const int64_t out = v->nd ? v->dim[0] : 1, in = change_columns(c);
    const vc_dtype type = merged_type(v->dtype);
    const size_t size = vc_dtype_size(type);
    float *row = malloc(sizeof *row * (size_t)in);
    char *stored = malloc(merged_bytes(v));
    bool finite = true;
    int rc = row && stored ? vtrain_lora_keep(l, stored, err) : vc_no_memory(err);
    if (rc)
        free(stored);
    for (int64_t o = 0; !rc && o < out; o++) {
        const int64_t from = swapped ? (o + out / 2) % out : first + o;
        vt_host_row(row, v, o);
        for (int64_t i = 0; i < in; i++)
            row[i] = (float)((double)row[i] + c->scale * change_at(c, from, i));
        if (c->magnitude)
            set_length(row, in, c->magnitude, from);
        vc_from_f32(stored + (size_t)(o * in) * size, type, row, (size_t)in);
        vc_to_f32(row, stored + (size_t)(o * in) * size, type, (size_t)in);
        finite = finite && vf_all_finite(row, (size_t)in);
    }
    free(row);
    if (rc)
        return rc;
    l->merged_bytes += merged_bytes(v);
    set_merged(v, stored);
    return finite ? 0 : vc_fail(err, VC_ENUMERIC, "folded into %s the values are not finite",
                                vc_dtype_name(type));
}

/* Adds what an entry has beside a pair to a weight or a bias. r is the row of its name. */
static int fold_more(vtrain_lora *l, vtrain_lora_entry *e, const vtrain_renamed *r, bool bias,
                     vt_host *v, vc_err *err)
{
    change c = { 0 };
    int64_t first = 0, rows = v->nd ? v->dim[0] : 1, all = rows, row = 1;
    int rc = vtrain_lora_check_more(l, e, err);
    if (!rc)
        rc = make_change(&c, l, e, bias, err);
    c.scale *= l->strength;
    if (!rc && r->parts > 1 && !vtrain_rename_rows(r, change_rows(&c), &first, &rows))
        rows = -1;
    for (int i = 1; i < v->nd; i++)
        row *= v->dim[i];
    if (!rc && (rows != all || (r->parts < 2 && change_rows(&c) != all) ||
                change_columns(&c) != row || (c.two.v && !c.kron &&
                (c.two.rows != c.one.rows || c.two.columns != c.one.columns))))
        rc = vc_fail(err, VC_EMISMATCH, "module \"%s\" has %s of %lld x %lld numbers, which does "
                     "not fit this transformer's layer of %lld x %lld", e->module,
                     vtrain_lora_more(e), (long long)change_rows(&c),
                     (long long)change_columns(&c), (long long)all, (long long)row);
    if (!rc && l->sizes_only) {
        l->merged_bytes += merged_bytes(v);
        set_merged(v, v->data);
    } else if (!rc) {
        rc = add_change(l, v, &c, first, vtrain_rename_swapped(r, all, bias ? 0 : row), err);
    }
    free(c.one.v);
    free(c.two.v);
    e->parts = r->parts;
    e->row = *r;
    e->row.theirs = NULL;
    if (bias)
        e->used_bias = true;
    else
        e->used |= 1u << r->part;
    return vc_context(err, rc, "%s", l->path);
}

/* ---- the source ---- */

static int fold_pair(vtrain_lora *l, const char *module, vt_host *v, vc_err *err)
{
    vtrain_lora_pair p;
    int rc = vtrain_lora_get(l, module, &p, err);
    if (!rc)
        rc = check_weight(l, v, &p, err);
    if (rc || !l->sizes_only)
        return rc ? rc : make_merged(l, v, &p, err);
    l->merged_bytes += merged_bytes(v);
    set_merged(v, v->data);
    return 0;
}

/* Finds the entry for a tensor: by the module of a weight or a bias, or by the whole name. */
static int find_change(vtrain_lora *l, const char *name, vtrain_lora_entry **e, vtrain_renamed *r,
                       bool *bias, vc_err *err)
{
    static const char *const words[2] = { ".weight", ".bias" };
    const size_t n = strlen(name);
    *e = NULL;
    *bias = false;
    for (int i = 0; i < 2 && !*e; i++) {
        const size_t w = strlen(words[i]);
        if (n <= w || strcmp(name + n - w, words[i]))
            continue;
        char *module = strndup(name, n - w);
        int rc = module ? vtrain_lora_find(l, module, e, r, err) : vc_no_memory(err);
        free(module);
        if (rc)
            return rc;
        *bias = i == 1;
        if (*e && *bias && !(*e)->more[VTRAIN_PART_DIFF_B])
            *e = NULL;
    }
    if (*e)
        return 0;
    *bias = false;
    int rc = vtrain_lora_find(l, name, e, r, err);
    if (*e && !(*e)->more[VTRAIN_PART_DIFF])
        *e = NULL;
    return rc;
}

/* Folds what the file has for a tensor into v. */
static int fold(vtrain_lora *l, const char *name, vt_host *v, vc_err *err)
{
    vtrain_lora_entry *e;
    vtrain_renamed r;
    bool bias;
    int rc = find_change(l, name, &e, &r, &bias, err);
    if (rc || !e)
        return rc;
    bool pair = !bias && (e->a || e->b), more = bias;
    for (int i = VTRAIN_PART_DIFF; i < VTRAIN_PARTS && !bias; i++)
        more = more || (i != VTRAIN_PART_DIFF_B && e->more[i]);
    if (pair && v->nd >= 2) {
        char *module = strndup(name, strlen(name) - strlen(".weight"));
        rc = module ? fold_pair(l, module, v, err) : vc_no_memory(err);
        free(module);
    }
    return rc || !more ? rc : fold_more(l, e, &r, bias, v, err);
}

/* Frees what l has made since it had n weights, but for the one that v is. */
static void keep_one(vtrain_lora *l, int n, size_t bytes, const vt_host *v)
{
    int kept = n;
    for (int i = n; i < l->n_merged; i++)
        if (l->merged[i] == v->data)
            l->merged[kept++] = l->merged[i];
        else
            free(l->merged[i]);
    l->n_merged = kept;
    if (l->merged_bytes > bytes)
        l->merged_bytes = bytes + merged_bytes(v);
}

static int merged_get(void *arg, const char *name, vt_host *v, vc_err *err);

/* The LoRA that a source folds in; NULL: another source. */
static vtrain_lora *lora_of(const vt_source *s)
{
    return s->get == merged_get ? s->arg : NULL;
}

static int merged_get(void *arg, const char *name, vt_host *v, vc_err *err)
{
    enum { MOST = 64 };
    vtrain_lora *l = arg, *under[MOST];
    struct { int n; size_t bytes; } had[MOST];
    int all = 0;
    for (vtrain_lora *at = l; at && all < MOST; at = lora_of(&at->base)) {
        under[all] = at;
        had[all].n = at->n_merged;
        had[all++].bytes = at->merged_bytes;
    }
    int rc = l->base.get(l->base.arg, name, v, err);
    const size_t own = l->merged_bytes;
    if (!rc)
        rc = fold(l, name, v, err);
    const bool folded = !rc && l->merged_bytes > own;
    if (folded)
        keep_one(l, had[0].n, had[0].bytes, v);
    for (int i = 1; folded && i < all; i++) {
        keep_one(under[i], had[i].n, had[i].bytes, v);
        under[i]->merged_bytes = had[i].bytes;
    }
    return rc;
}

vt_source vtrain_lora_source(vtrain_lora *l, const vt_source *base, bool sizes_only)
{
    l->base = *base;
    l->sizes_only = sizes_only;
    return (vt_source){ .get = merged_get, .arg = l, .seed = base->seed, .mapped = base->mapped };
}

size_t vtrain_lora_bytes(const vtrain_lora *l)
{
    const vtrain_lora *under = lora_of(&l->base);
    return l->merged_bytes + (under ? vtrain_lora_bytes(under) : 0);
}

int vtrain_lora_weaken(vtrain_lora *l, double strength, vc_err *err)
{
    for (int i = 0; i < l->n; i++)
        if (l->entry[i].magnitude && strength != 1)
            return vc_fail(err, VC_EUSAGE, "%s: module \"%s\" has the magnitudes of a DoRA, whose "
                           "strength programs understand in three ways: fold it in at 1, or merge "
                           "it by the program that is meant", l->path, l->entry[i].module);
    l->strength = strength;
    return 0;
}

double vtrain_lora_strength(const vtrain_lora *l)
{
    return l->strength;
}

/* train.c - training of a LoRA's file goes on: its modules, ranks and values; see lora.h */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tensors/values.h"
#include "train/lora/parts.h"

/* ---- values ---- */

/* Compares the file's pair of a module with the pair that this run trains. */
static int check_fit(const vt_param *x, const vtrain_lora_pair *p, vc_err *err)
{
    long long rank = p->a.dim[0], own = x->lin->lora_a->dim[0];
    double scale = (double)x->lin->lora_scale;
    const double by = x->lin->adapter->root ? sqrt((double)rank) : (double)rank;
    if (rank != own)
        return vc_fail(err, VC_EMISMATCH, "module \"%s\" has rank %lld, but this run's is %lld: "
                       "give --rank %lld, or leave --rank out, so that each module has the file's",
                       x->module, rank, own, rank);
    if (!(p->scale > 0))
        return vc_fail(err, VC_EMISMATCH, "module \"%s\" has alpha %g, but training needs an alpha "
                       "above 0", x->module, p->scale * (double)rank);
    if (!(fabs(p->trained - scale) <= 1e-6 * p->trained))
        return vc_fail(err, VC_EMISMATCH, "module \"%s\" has alpha %g, but this run's is %g: give "
                       "--network_alpha %g", x->module, p->trained * by, scale * by,
                       p->trained * by);
    return 0;
}

/* Returns the block of `rank` columns outside of which the part's rows of B are zero, or -1. Rows
 * of zeros belong to the block of the part's number if each part has a block. */
static int64_t block_of(const float *b, const vtrain_lora_pair *p, int64_t rank)
{
    int64_t out = p->b.dim[0], wide = p->b.dim[1], at = -1;
    for (int64_t i = 0; i < out * wide; i++) {
        int64_t block = i % wide / rank;
        if (b[i] != 0 && at >= 0 && at != block)
            return -1;
        if (b[i] != 0)
            at = block;
    }
    return at < 0 && wide == p->parts * rank ? p->part : at;
}

/* Splits the pair of a part off that of its fused module: p becomes A's rows and B's columns of the
 * part's block. *own holds B, malloc'ed; NULL: p stays as it is, since it has no such block. */
static int split_fused(vtrain_lora_pair *p, float **own, const vtrain_lora *l, int64_t rank,
                       vc_err *err)
{
    int64_t out = p->b.dim[0], wide = p->b.dim[1], row = (int64_t)p->a.bytes / p->a.dim[0];
    *own = NULL;
    if (p->parts < 2 || wide <= rank || wide % rank)
        return 0;
    float *b = vtrain_lora_floats(p->b.data, p->b.dtype, out * wide);
    if (!b)
        return vc_no_memory(err);
    int64_t at = block_of(b, p, rank);
    if (at < 0) {
        free(b);
        return 0;
    }
    for (int64_t o = 0; o < out; o++)
        memmove(b + o * rank, b + o * wide + at * rank, sizeof *b * (size_t)rank);
    p->a.data = (const char *)p->a.data + row * rank * at;
    p->a.bytes = (size_t)(row * rank);
    p->a.dim[0] = p->b.dim[1] = rank;
    p->b.data = *own = b;
    p->b.dtype = VC_F32;
    p->b.bytes = sizeof *b * (size_t)(out * rank);
    p->trained = vtrain_lora_trained(l, p->trained, (double)rank);
    return 0;
}

/* Sets one half of a pair. A baked alpha is divided out of B. */
static int set_half(const vt_param *x, vt_ctx *g, const vtrain_lora_pair *p, vc_err *err)
{
    if (x->role == VT_P_LORA_A)
        return vf_values_set(g, x->t, &p->a, err);
    if (p->scale == p->trained)
        return vf_values_set(g, x->t, &p->b, err);
    size_t n = (size_t)vf_view_count(&p->b);
    float *b = malloc((n ? n : 1) * sizeof *b), factor = (float)(p->scale / p->trained);
    vf_view plain = p->b;
    if (!b)
        return vc_fail(err, VC_ENOMEM, "out of memory for %zu values", n);
    vc_to_f32(b, p->b.data, p->b.dtype, n);
    for (size_t i = 0; i < n; i++)
        b[i] *= factor;
    plain.data = b;
    plain.dtype = VC_F32;
    int rc = vf_values_set(g, x->t, &plain, err);
    free(b);
    return rc;
}

/* The rank that a part of a fused module was trained with: that of the module, or of the block of B
 * that the part has alone. */
static int part_rank(int64_t *rank, const vtrain_lora_pair *p, vc_err *err)
{
    const int64_t out = p->b.dim[0], wide = p->b.dim[1];
    *rank = wide;
    if (p->parts < 2)
        return 0;
    float *b = vtrain_lora_floats(p->b.data, p->b.dtype, out * wide);
    if (!b)
        return vc_no_memory(err);
    for (int k = p->parts; k > 1 && *rank == wide; k--)
        if (wide % k == 0 && block_of(b, p, wide / k) >= 0)
            *rank = wide / k;
    free(b);
    return 0;
}

/* ---- adapters that are no pair ---- */

/* The file's factor i of an adapter, or NULL. */
static const vf_view *factor_of(const vtrain_lora_entry *e, const vt_adapter *a, int i)
{
    if (!a->factor[i].suffix)
        return NULL;
    return a->factor[i].init == VT_INIT_ROWS ? e->magnitude
                                             : e->more[vtrain_lora_part_of(a->factor[i].suffix)];
}

/* Whether an entry without a pair has factors of an adapter, and magnitudes if it trains them. */
static bool is_kind(const vtrain_lora_entry *e, const vt_adapter *a)
{
    bool found = false;
    for (int i = 0; i < VT_FACTORS; i++)
        found = found || (a->factor[i].init != VT_INIT_ROWS && factor_of(e, a, i));
    return found && !a->pair && a->decomposed == (e->magnitude != NULL);
}

/* The kind of an entry without a pair; VT_ADAPTERS: it is not trained here. */
static vt_adapter_kind kind_of(const vtrain_lora_entry *e)
{
    int kind = 0;
    while (kind < VT_ADAPTERS && !is_kind(e, &vt_adapters[kind]))
        kind++;
    return (vt_adapter_kind)kind;
}

/* Sets the number of rows or columns that two matrices' product has, as the file has them whole or
 * as products; 0: it lacks a factor. */
static void measure(int64_t size[2], const vf_view *whole, const vf_view *a, const vf_view *b)
{
    const vf_view *rows = whole ? whole : a, *columns = whole ? whole : b;
    size[0] = rows && columns && rows->nd == 2 ? rows->dim[0] : 0;
    size[1] = rows && columns && columns->nd == 2 ? columns->dim[1] : 0;
}

/* The axis of the file's factors whose halves are those of the layer's rows. */
static vt_side halves_of(const vtrain_lora_entry *e, const vt_adapter *a)
{
    const vf_view *whole = e->more[VTRAIN_PART_KR_1], *split = e->more[VTRAIN_PART_KR_1A];
    const vf_view *one = whole ? whole : split;
    return vt_adapter_halves(a, one ? one->dim[0] : 0);
}

static int no_halves(const vtrain_lora *l, const vtrain_lora_entry *e, vc_err *err)
{
    return vc_fail(err, VC_EFORMAT, "%s: module \"%s\" has a LoKr whose first matrix has an "
                   "odd number of rows, and here the layer's halves are the other way round, "
                   "which no LoKr of these sizes has: give pytorch_lora_weights.safetensors",
                   l->path, e->module);
}

/* Finds the factor by which this run would divide a weight as the file's LoKr does. */
static bool find_factor(vt_adapter_size *s, const int64_t one[2], const int64_t two[2])
{
    const int64_t tried[] = { s->factor, -1, one[0] > one[1] ? one[0] : one[1], one[0], one[1],
                              two[0] > two[1] ? two[0] : two[1] };
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        int64_t sides[VT_SIDES];
        s->factor = tried[i] ? tried[i] : -1;
        vt_adapter_sides(sides, s, one[0] * two[0], one[1] * two[1]);
        if (sides[VT_OUT_L] == one[0] && sides[VT_IN_M] == one[1])
            return true;
    }
    return false;
}

/* Sets the way in which a LoKr's matrices are divided. */
static bool size_kron(vt_adapter_size *s, const vtrain_lora_entry *e)
{
    const vf_view *const *m = e->more;
    int64_t one[2], two[2], sides[VT_SIDES];
    measure(one, m[VTRAIN_PART_KR_1], m[VTRAIN_PART_KR_1A], m[VTRAIN_PART_KR_1B]);
    measure(two, m[VTRAIN_PART_KR_2], m[VTRAIN_PART_KR_2A], m[VTRAIN_PART_KR_2B]);
    s->both = m[VTRAIN_PART_KR_1A];
    s->whole = m[VTRAIN_PART_KR_1] && m[VTRAIN_PART_KR_2];
    if (!one[0] || !one[1] || !two[0] || !two[1] || !find_factor(s, one, two))
        return false;
    vt_adapter_sides(sides, s, one[0] * two[0], one[1] * two[1]);
    const vt_adapter *a = &vt_adapters[s->kind];
    bool same = true;
    for (int i = 0; i < VT_FACTORS && a->factor[i].suffix; i++)
        same = same && (factor_of(e, a, i) != NULL) == vt_adapter_has(s, sides, &a->factor[i]);
    return same;
}

static int size_more(vt_adapter_size *s, const vtrain_lora *l, const vtrain_lora_entry *e,
                     const vtrain_renamed *r, const char *module, vc_err *err)
{
    const vt_adapter_kind kind = kind_of(e);
    if (kind == VT_ADAPTERS)
        return vc_fail(err, VC_EFORMAT, "%s: module \"%s\" has %s, which --preset_lora_path folds "
                       "in, but which is not trained here", l->path, e->module,
                       vtrain_lora_more(e));
    if (r->parts > 1)
        return vc_fail(err, VC_EFORMAT, "%s: module \"%s\" has %s of %d modules of this "
                       "transformer in one, which is not trained further: give the file that has "
                       "them apart (pytorch_lora_weights.safetensors)", l->path, e->module,
                       vtrain_lora_more(e), r->parts);
    int rc = vtrain_lora_check_more(l, e, err);
    if (rc)
        return rc;
    const vt_adapter *a = &vt_adapters[kind];
    s->kind = kind;
    s->rank = 0;
    for (int i = 0; i < VT_FACTORS; i++) {
        const vf_view *v = factor_of(e, a, i);
        if (v && a->factor[i].side[0] == VT_RANK && v->nd == 2)
            s->rank = (int)v->dim[0];
    }
    const bool ranked = s->rank > 0;
    s->rank = ranked ? s->rank : 1;
    s->alpha = ranked ? vtrain_lora_scale(l, e, module, s->rank) * s->rank : 1;
    if (!(s->alpha > 0))
        return vc_fail(err, VC_EMISMATCH, "%s: module \"%s\" has alpha %g, but training needs an "
                       "alpha above 0", l->path, e->module, s->alpha);
    if (vtrain_rename_swapped(r, 0, 0) && halves_of(e, a) == VT_END)
        return no_halves(l, e, err);
    if (a->kron && !size_kron(s, e))
        return vc_fail(err, VC_EMISMATCH, "%s: module \"%s\" has a LoKr that is divided in a way "
                       "that this run cannot train: LyCORIS's factorization gives others",
                       l->path, e->module);
    return 0;
}

/* Returns 0 if the file's scale of the module is this run's. */
static int check_scale(const vt_param *x, const vtrain_lora *l, const vtrain_lora_entry *e,
                       vc_err *err)
{
    const double rank = (double)vt_adapter_rank(x->lin), scale = (double)x->lin->lora_scale;
    const double own = rank > 0 ? vtrain_lora_scale(l, e, x->module, rank) : scale;
    if (fabs(own - scale) <= 1e-6 * fabs(own))
        return 0;
    return vc_fail(err, VC_EMISMATCH, "module \"%s\" has alpha %g, but this run's is %g: give "
                   "--network_alpha %g", x->module, own * rank, scale * rank, own * rank);
}

/* Copies the file's factor of an adapter that is no pair; VC_ENOENT: the file lacks the module. */
static int load_more(vt_param *x, vtrain_lora *l, vt_ctx *g, vc_err *err)
{
    vtrain_renamed r;
    vtrain_lora_entry *e;
    vt_adapter_size s = { 0 };
    const vt_adapter *a = x->lin->adapter;
    int rc = vtrain_lora_find(l, x->module, &e, &r, err);
    if (!rc && !e)
        rc = VC_ENOENT;
    if (!rc && (e->a || e->b || kind_of(e) == VT_ADAPTERS || &vt_adapters[kind_of(e)] != a))
        rc = vc_fail(err, VC_EMISMATCH, "module \"%s\" has %s, but this run trains a %s: leave "
                     "--adapter out, so that the file's is trained", x->module,
                     e->a ? "a LoRA" : vtrain_lora_more(e), a->title);
    if (!rc)
        rc = size_more(&s, l, e, &r, x->module, err);
    if (!rc)
        rc = check_scale(x, l, e, err);
    if (rc)
        return rc;
    const vt_factor *f = &a->factor[x->role - 1];
    const vf_view *v = factor_of(e, a, x->role - 1);
    vf_view own = v ? *v : (vf_view){ 0 };
    if (v && v == e->magnitude) {             /* [out,1] or [out] */
        own.nd = 1;
        own.dim[0] = vf_view_count(v);
    }
    e->used |= 1;
    const bool rows = f->side[0] == halves_of(e, a) || f->init == VT_INIT_ROWS;
    const bool swapped = vtrain_rename_swapped(&r, x->lin->w->dim[0], x->lin->w->dim[1]);
    if (swapped && halves_of(e, a) == VT_END)
        return no_halves(l, e, err);
    int swap = v && rows && swapped ? vtrain_lora_swap(l, e, &own, err) : 0;
    if (swap)
        return swap;
    return v ? vf_values_set(g, x->t, &own, err)
             : vc_fail(err, VC_EMISMATCH, "module \"%s\" has no %s in the file, as this run's "
                       "LoKr is divided in another way: leave --rank and the flags of LoKr out",
                       x->module, f->suffix + 1);
}

/* ---- a file's adapters ---- */

int vtrain_lora_size(vtrain_lora *l, const char *module, vt_adapter_size *s, vc_err *err)
{
    vtrain_lora_pair p;
    vtrain_lora_entry *e;
    vtrain_renamed r;
    int64_t rank;
    int rc = vtrain_lora_find(l, module, &e, &r, err);
    if (!rc && e && !e->a && !e->b && vtrain_lora_more(e))
        return size_more(s, l, e, &r, module, err);
    if (!rc)
        rc = vtrain_lora_pair_of(l, module, &p, &e, err);
    if (!rc && vtrain_lora_more(e))
        rc = vc_fail(err, VC_EFORMAT, "%s: module \"%s\" has %s, which --preset_lora_path folds "
                     "in, but which is not trained here", l->path, e->module, vtrain_lora_more(e));
    if (!rc && vtrain_lora_is_zero(e, p.part))
        rc = vc_fail(err, VC_ENOENT, "%s: \"%s\" was not trained", l->path, module);
    if (!rc)
        rc = part_rank(&rank, &p, err);
    if (rc)
        return rc;
    const double by = l->root ? sqrt((double)rank) : (double)rank;
    s->kind = p.scaled ? VT_ADAPTER_DORA : l->root ? VT_ADAPTER_RSLORA : VT_ADAPTER_LORA;
    s->rank = (int)rank;
    s->alpha = !isnan(l->alpha.trained) ? l->alpha.trained : p.trained * by;
    if (!(s->alpha > 0))
        rc = vc_fail(err, VC_EMISMATCH, "%s: module \"%s\" has alpha %g, but training needs an "
                     "alpha above 0", l->path, module, s->alpha);
    return rc;
}

/* Copies one factor of a pair, or its magnitudes. */
static int load_pair(vt_param *x, vtrain_lora *l, vt_ctx *g, vc_err *err)
{
    vtrain_lora_pair pair;
    float *own = NULL;
    const bool magnitude = x->role > VT_P_LORA_B;
    int rc = vtrain_lora_get(l, x->module, &pair, err);
    if (rc)
        return rc;
    if (pair.scaled != (x->lin->adapter->factor[2].suffix != NULL))
        return vc_fail(err, VC_EMISMATCH, "module \"%s\" has a %s, but this run trains a %s: leave "
                       "--adapter out, so that the file's is trained", x->module,
                       pair.scaled ? "DoRA" : "LoRA", x->lin->adapter->title);
    rc = split_fused(&pair, &own, l, x->lin->lora_a->dim[0], err);
    if (!rc)
        rc = check_fit(x, &pair, err);
    if (!rc)
        rc = magnitude ? vf_values_set(g, x->t, &pair.magnitude, err) : set_half(x, g, &pair, err);
    free(own);
    return rc;
}

int vtrain_lora_load(vt_params *p, vtrain_lora *l, int model, vc_err *err)
{
    vt_ctx *g = vt_params_context(p);
    for (int i = 0; i < vt_params_count(p); i++) {
        vt_param *x = vt_params_at(p, i);
        if (x->role == VT_P_BASE || x->model != model)
            continue;
        int rc = x->lin->adapter->pair ? load_pair(x, l, g, err) : load_more(x, l, g, err);
        if (rc == VC_ENOENT)
            rc = vc_fail(err, VC_EMISMATCH, "the file has no module \"%s\", which --target_name "
                         "matches: leave --target_name out, so that the file's modules are "
                         "trained", x->module);
        if (rc)
            return vc_context(err, rc, "%s", l->path);
    }
    return vtrain_lora_all_used(l, p, err);
}

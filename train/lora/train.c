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
    if (rank != own)
        return vc_fail(err, VC_EMISMATCH, "module \"%s\" has rank %lld, but this run's is %lld: "
                       "give --rank %lld, or leave --rank out, so that each module has the file's",
                       x->module, rank, own, rank);
    if (!(p->scale > 0))
        return vc_fail(err, VC_EMISMATCH, "module \"%s\" has alpha %g, but training needs an alpha "
                       "above 0", x->module, p->scale * (double)rank);
    if (!(fabs(p->trained - scale) <= 1e-6 * p->trained))
        return vc_fail(err, VC_EMISMATCH, "module \"%s\" has alpha %g, but this run's is %g: give "
                       "--network_alpha %g", x->module, p->trained * (double)rank,
                       scale * (double)rank, p->trained * (double)rank);
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
    if (!isnan(l->alpha.trained))
        p->trained = l->alpha.trained / (double)rank;
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

int vtrain_lora_size(vtrain_lora *l, const char *module, int64_t *rank, double *alpha, vc_err *err)
{
    vtrain_lora_pair p;
    vtrain_lora_entry *e;
    int rc = vtrain_lora_pair_of(l, module, &p, &e, err);
    if (!rc && vtrain_lora_more(e))
        rc = vc_fail(err, VC_EFORMAT, "%s: module \"%s\" has %s, which --preset_lora_path folds "
                     "in, but which is not trained here", l->path, e->module, vtrain_lora_more(e));
    if (!rc && vtrain_lora_is_zero(e, p.part))
        rc = vc_fail(err, VC_ENOENT, "%s: \"%s\" was not trained", l->path, module);
    if (!rc)
        rc = part_rank(rank, &p, err);
    if (rc)
        return rc;
    *alpha = !isnan(l->alpha.trained) ? l->alpha.trained : p.trained * (double)*rank;
    if (!(*alpha > 0))
        rc = vc_fail(err, VC_EMISMATCH, "%s: module \"%s\" has alpha %g, but training needs an "
                     "alpha above 0", l->path, module, *alpha);
    return rc;
}

int vtrain_lora_load(vt_params *p, vtrain_lora *l, int model, vc_err *err)
{
    for (int i = 0; i < vt_params_count(p); i++) {
        vt_param *x = vt_params_at(p, i);
        if (x->role == VT_P_BASE || x->model != model)
            continue;
        vtrain_lora_pair pair;
        float *own = NULL;
        int rc = vtrain_lora_get(l, x->module, &pair, err);
        if (rc && rc != VC_ENOENT)
            return rc;
        if (rc)
            rc = vc_fail(err, VC_EMISMATCH, "the file has no module \"%s\", which --target_name "
                         "matches: leave --target_name out, so that the file's modules are "
                         "trained", x->module);
        if (!rc)
            rc = split_fused(&pair, &own, l, x->lin->lora_a->dim[0], err);
        if (!rc)
            rc = check_fit(x, &pair, err);
        if (!rc)
            rc = set_half(x, vt_params_context(p), &pair, err);
        free(own);
        if (rc)
            return vc_context(err, rc, "%s", l->path);
    }
    return vtrain_lora_all_used(l, p, err);
}

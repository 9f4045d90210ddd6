/* rows.c - norms, sums and reductions; see kernel_list.h */
#include <string.h>

#include "common/cuda/cuda.h"

/* The rows that one lane sums in f32 before parts are added in f64, and the most parts of a sum. */
enum { SLICE = 64, MOST_SLICES = 1024 };

/* Returns the teams of a block: a lane for each pack of the shortest rows, a warp for short ones,
 * else one. */
static uint32_t teams_for(int64_t n)
{
    return n <= 64 ? VK_THREADS / 8 : n <= 128 ? VK_THREADS / 16 : n <= 512 ? VK_THREADS / VK_WARP
                                                                            : 1;
}

/* ---- norms ---- */

void cuda_norm(vt_dev *d, vt_tensor *y, vt_tensor *stats, const vt_tensor *x, const vt_tensor *w,
               const vt_tensor *b, const vt_tensor *shift, const vt_tensor *scale, float eps,
               bool rms)
{
    vk_norm_args s = { .eps = eps, .rms = rms, .teams = teams_for(vt_last(x)) };
    vt_tensor we, be, se;

    if (w)
        we = vt_expand(w, x);
    if (b)
        be = vt_expand(b, x);
    if (stats)
        se = vt_row_stats(stats, x);
    const vt_tensor *const t[VK_NORM_OPERANDS] = { y, x, w ? &we : NULL, b ? &be : NULL, shift,
                                                   scale, stats ? &se : NULL };
    if (cuda_walk(d, &s.w, "norm", VK_NORM_OPERANDS, t, false))
        cuda_ok(d, (s.w.whole ? vk_norm_whole : vk_norm)(d->stream, &s), "norm");
}

/* The inputs of the sums of norm's gradient, expanded to x's shape. */
typedef struct norm_in {
    const vt_tensor *dy, *x, *w, *b, *scale, *stats;
} norm_in;

/* out and out2 (+)= the sums over rows that share their targets' elements. */
static void columns(vt_dev *d, const char *op, vk_column_terms terms, vt_tensor *out,
                    vt_tensor *out2, const norm_in *in, float scale)
{
    const vt_tensor *by = out ? out : out2;
    const vt_tensor *all[VK_COL_OPERANDS] = { out, out2, in->dy, in->x, in->w, in->b, in->scale,
                                              in->stats };
    const vt_tensor *t[VK_COL_OPERANDS], *shape[VK_COL_OPERANDS];
    vt_tensor moved[VK_COL_OPERANDS];
    vk_columns_args s = { .terms = terms, .scale = scale, .adds = out && vt_adds(out),
                          .adds2 = out2 && vt_adds(out2) };

    /* the walk has its first operand's shape; dy is always present */
    int64_t targets = vt_kept_first(by, VK_COL_OPERANDS, all, moved, t);
    for (int o = 0; o < VK_COL_OPERANDS; o++)
        shape[o] = t[o];
    vt_tensor none = *t[VK_COL_DY];
    none.data = NULL;
    if (!shape[VK_COL_OUT])
        shape[VK_COL_OUT] = &none;
    if (!cuda_walk(d, &s.w, op, VK_COL_OPERANDS, shape, false))
        return;
    s.targets = (uint32_t)targets;
    s.per = s.w.rows / s.targets;
    s.slices = s.per / SLICE < 1 ? 1 : s.per / SLICE > MOST_SLICES ? MOST_SLICES : s.per / SLICE;
    s.part = cuda_scratch(d, CUDA_PARTS, (size_t)2 * s.targets * s.slices * (size_t)s.w.n *
                                             sizeof *s.part);
    if (s.part && cuda_ok(d, vk_columns(d->stream, &s), op))
        cuda_ok(d, vk_columns_end(d->stream, &s), op);
    if (out)
        vt_wrote(out);
    if (out2)
        vt_wrote(out2);
}

static void norm_dx(vt_dev *d, vt_tensor *dx, const norm_in *in, bool rms)
{
    vk_norm_dx_args s = { .rms = rms, .adds = vt_adds(dx), .teams = teams_for(vt_last(dx)) };
    const vt_tensor *const t[VK_DX_OPERANDS] = { dx, in->dy, in->x, in->w, in->scale, in->stats };

    if (cuda_walk(d, &s.w, "norm", VK_DX_OPERANDS, t, false))
        cuda_ok(d, (s.w.whole ? vk_norm_dx_whole : vk_norm_dx)(d->stream, &s), "norm");
    vt_wrote(dx);
}

void cuda_norm_grad(vt_dev *d, vt_tensor *dx, vt_tensor *dw, vt_tensor *db, vt_tensor *dshift,
                    vt_tensor *dscale, const vt_tensor *dy, const vt_tensor *x,
                    const vt_tensor *stats, const vt_tensor *w, const vt_tensor *b,
                    const vt_tensor *scale, bool rms)
{
    vt_tensor se = vt_row_stats(stats, x), we, be, dwe, dbe;

    if (w)
        we = vt_expand(w, x);
    if (b)
        be = vt_expand(b, x);
    const norm_in in = { dy, x, w ? &we : NULL, b ? &be : NULL, scale, &se };
    if (dw)
        dwe = vt_expand(dw, x);
    if (db)
        dbe = vt_expand(db, x);
    if (dw || db)
        columns(d, "norm", VK_AFFINE, dw ? &dwe : NULL, db ? &dbe : NULL, &in, 1.0f);
    if (dshift || dscale)
        columns(d, "norm", VK_MODULATION, dshift, dscale, &in, 1.0f);
    if (dx)
        norm_dx(d, dx, &in, rms);
}

/* ---- sums ---- */

/* Sums rows; s has terms, scale and the result's place, and the rows are targets times `per`. */
static void sums(vt_dev *d, const char *op, vk_sums_args *s, int64_t targets)
{
    s->targets = (uint32_t)targets;
    s->per = s->w.rows / s->targets;
    uint64_t packs = (uint64_t)s->per * s->w.packs, slices = packs / (VK_THREADS * 4);
    s->teams = packs < VK_THREADS ? VK_THREADS / VK_WARP : 1;
    s->slices = slices < 1 ? 1 : slices > MOST_SLICES ? MOST_SLICES : (uint32_t)slices;
    size_t parts = (size_t)s->targets * s->slices;
    s->part = cuda_scratch(d, CUDA_PARTS, parts * sizeof *s->part);
    if (!s->part)
        return;
    if (cuda_ok(d, vk_sums(d->stream, s), op))
        cuda_ok(d, vk_sums_end(d->stream, s), op);
}

/* Sums all of x to y [], or, if y is NULL, to s->result, which the caller has set. */
static void sum_all(vt_dev *d, const char *op, vk_sums_args *s, const vt_tensor *y,
                    const vt_tensor *x, const vt_tensor *other, const vt_tensor *weight)
{
    vt_tensor e = y ? vt_expand(y, x) : *x;

    if (!y)
        e.data = NULL;
    if (cuda_walk(d, &s->w, op, VK_SUM_OPERANDS, (const vt_tensor *const[]){ &e, x, other, weight },
                  true))
        sums(d, op, s, 1);
}

void cuda_sum(vt_dev *d, vt_tensor *y, const vt_tensor *x)
{
    sum_all(d, "sum", &(vk_sums_args){ .terms = VK_VALUES, .scale = 1 }, y, x, NULL, NULL);
}

void cuda_mse(vt_dev *d, vt_tensor *loss, const vt_tensor *pred, const vt_tensor *target,
              const vt_tensor *weight)
{
    vk_sums_args s = { .terms = VK_ERRORS, .scale = 1.0 / (double)vt_count(pred) };

    sum_all(d, "mse", &s, loss, pred, target, weight);
}

void cuda_sumsq(vt_dev *d, double *sums, const vt_tensor *const *x, int n)
{
    double *all = cuda_scratch(d, CUDA_SUMS, (size_t)n * sizeof *all);

    memset(sums, 0, (size_t)n * sizeof *sums);
    if (!all)
        return;
    for (int i = 0; i < n; i++)
        sum_all(d, "sumsq", &(vk_sums_args){ .terms = VK_SQUARES, .scale = 1, .result = all + i },
                NULL, x[i], NULL, NULL);
    cuda_download(d, sums, all, (size_t)n * sizeof *sums);
}

/* Returns the sum on the host. */
static double sum_here(vt_dev *d, const char *op, vk_sum_terms terms, const vt_tensor *x,
                       const vt_tensor *a, const vt_tensor *b)
{
    double *at = cuda_scratch(d, CUDA_SUMS, sizeof *at), sum = 0;

    if (!at)
        return 0;
    sum_all(d, op, &(vk_sums_args){ .terms = terms, .scale = 1, .result = at }, NULL, x, a, b);
    cuda_download(d, &sum, at, sizeof sum);
    return sum;
}

double cuda_sum_magnitudes(vt_dev *d, const vt_tensor *x)
{
    return sum_here(d, "sum_magnitudes", VK_MAGNITUDES, x, NULL, NULL);
}

double cuda_sum_along(vt_dev *d, const vt_tensor *x, const vt_tensor *a, const vt_tensor *b)
{
    return sum_here(d, "sum_along", VK_ALONG, x, a, b);
}

void cuda_reduce(vt_dev *d, vt_tensor *dx, const vt_tensor *dy, const vt_tensor *other,
                 float scale)
{
    int last = dx->nd - 1;

    if (last >= 0 && (dx->stride[last] != 0 || dx->dim[last] == 1)) {
        columns(d, "reduce", VK_PRODUCT, dx, NULL, &(norm_in){ .dy = dy, .x = other }, scale);
        return;
    }
    const vt_tensor *all[VK_SUM_OPERANDS] = { dx, dy, other, NULL }, *t[VK_SUM_OPERANDS];
    vt_tensor moved[VK_SUM_OPERANDS];
    vk_sums_args s = { .terms = VK_VALUES, .scale = (double)scale, .adds = vt_adds(dx) };
    int64_t targets = vt_kept_first(dx, VK_SUM_OPERANDS, all, moved, t);
    if (cuda_walk(d, &s.w, "reduce", VK_SUM_OPERANDS, t, false))
        sums(d, "reduce", &s, targets);
    vt_wrote(dx);
}

/* elem.c - element-wise kernels and the optimiser's; see kernel_list.h */
#include "common/base/rng.h"
#include "common/cuda/cuda.h"

#define LIST(...) (const vt_tensor *const[]){ __VA_ARGS__ }
#define COUNT(...) (int)(sizeof(LIST(__VA_ARGS__)) / sizeof(const vt_tensor *))
#define MAP(d, op, f, s, ...) map(d, op, f, s, COUNT(__VA_ARGS__), LIST(__VA_ARGS__))

/* Launches f on t, which is y followed by the inputs; s has `adds` and the numbers. */
static void map(vt_dev *d, const char *op, vk_element f, vk_map_args s, int k,
                const vt_tensor *const *t)
{
    for (int o = 0; o < k; o++)
        if (t[o]->dtype > VC_F8E5M2) {
            cuda_fault(d, VC_EINVAL, "%s: type %s has no arithmetic", op,
                       vc_dtype_name(t[o]->dtype));
            return;
        }
    if (cuda_walk(d, &s.w, op, k, t, true))
        cuda_ok(d, vk_map(d->stream, f, &s), op);
}

void cuda_copy(vt_dev *d, vt_tensor *y, const vt_tensor *x)
{
    vk_move_args s;

    if (y->dtype != x->dtype)
        MAP(d, "copy", VK_TAKE, (vk_map_args){ 0 }, y, x);
    else if (vt_packed(x) && vt_packed(y))
        cuda_copy_bytes(d, y->data, x->data, (size_t)vt_count(x) * vc_dtype_size(x->dtype));
    else if (cuda_walk(d, &s.w, "copy", 2, LIST(y, x), true))
        cuda_ok(d, vk_move(d->stream, &s), "copy");
}

void cuda_fill(vt_dev *d, vt_tensor *y, float value)
{
    MAP(d, "fill", VK_FILL, ((vk_map_args){ .a = { value } }), y);
}

void cuda_scale(vt_dev *d, vt_tensor *y, const vt_tensor *x, float a)
{
    bool adds = vt_adds(y);

    if (!adds && a == 1.0f)
        cuda_copy(d, y, x);
    else
        MAP(d, "scale", VK_SCALE, ((vk_map_args){ .adds = adds, .a = { a } }), y, x);
    vt_wrote(y);
}

void cuda_binary(vt_dev *d, vt_binary op, vt_tensor *y, const vt_tensor *a, const vt_tensor *b)
{
    static const vk_element f[] = { [VT_ADD] = VK_ADD, [VT_SUB] = VK_SUB, [VT_MUL] = VK_MUL };

    MAP(d, "binary", f[op], (vk_map_args){ 0 }, y, a, b);
}

void cuda_mul_grad(vt_dev *d, vt_tensor *da, const vt_tensor *dy, const vt_tensor *b)
{
    MAP(d, "mul", VK_MUL, (vk_map_args){ .adds = vt_adds(da) }, da, dy, b);
    vt_wrote(da);
}

void cuda_unary(vt_dev *d, vt_unary op, vt_tensor *y, const vt_tensor *x)
{
#define VALUE(with, NAME, name) [VT_##NAME] = VK_##NAME,
    static const vk_element f[] = { VF_UNARIES(VALUE, ) };
#undef VALUE

    MAP(d, "unary", f[op], (vk_map_args){ 0 }, y, x);
}

void cuda_unary_grad(vt_dev *d, vt_unary op, vt_tensor *dx, const vt_tensor *dy,
                     const vt_tensor *x)
{
#define VALUE(with, NAME, name) [VT_##NAME] = VK_##NAME##_GRAD,
    static const vk_element f[] = { VF_UNARIES(VALUE, ) };
#undef VALUE

    MAP(d, "unary", f[op], (vk_map_args){ .adds = vt_adds(dx) }, dx, dy, x);
    vt_wrote(dx);
}

void cuda_gated_add(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *h,
                    const vt_tensor *gate)
{
    MAP(d, "gated_add", VK_GATED_ADD, (vk_map_args){ 0 }, y, x, h, gate);
}

void cuda_mix(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *n, const vt_tensor *a,
              const vt_tensor *c)
{
    MAP(d, "mix", VK_MIX, (vk_map_args){ 0 }, y, x, n, a, c);
}

void cuda_posterior(vt_dev *d, vt_tensor *y, const vt_tensor *mean, const vt_tensor *logvar,
                    const vt_tensor *noise)
{
    MAP(d, "posterior", VK_POSTERIOR, (vk_map_args){ 0 }, y, mean, logvar, noise);
}

void cuda_mse_grad(vt_dev *d, vt_tensor *dpred, const vt_tensor *dloss, const vt_tensor *pred,
                   const vt_tensor *target, const vt_tensor *weight)
{
    vk_map_args s = { .adds = vt_adds(dpred), .a = { (float)(2.0 / (double)vt_count(pred)) } };
    vt_tensor e = cuda_repeat(dloss, pred);

    if (weight)
        MAP(d, "mse", VK_MSE_GRAD_WEIGHTED, s, dpred, &e, pred, target, weight);
    else
        MAP(d, "mse", VK_MSE_GRAD, s, dpred, &e, pred, target);
    vt_wrote(dpred);
}

void cuda_error_factor(vt_dev *d, vt_tensor *y, const vt_tensor *pred, const vt_tensor *target,
                       vt_bounds how, bool slope)
{
    vk_map_args s = { .a = { how.linear, how.dropped } };

    MAP(d, "error_factor", slope ? VK_ERROR_SLOPE : VK_ERROR_FACTOR, s, y, pred, target);
}

/* ---- optimiser ---- */

void cuda_update(vt_dev *d, vt_tensor *w, vt_tensor *const *state, vt_tensor *peak,
                 const vt_tensor *grad, const vt_update_args *a)
{
    vk_update_args s = {
        .w = w->data, .rounded = w->rounded, .type = (int)w->dtype,
        .peak = peak ? peak->data : NULL,
        .grad = grad->data, .n = vt_count(w), .step = vt_step_factors(a),
        .draws = { { a->key[0], a->key[1] }, a->step, VC_DRAW_ROUND, a->first / 8 },
    };
    for (int k = 0; k < VF_STATES && state[k]; k++)
        s.state[k] = state[k]->data;
    cuda_ok(d, vk_update(d->stream, a->rule, &s), "update");
}

void cuda_ema(vt_dev *d, vt_tensor *ema, const vt_tensor *w, float decay)
{
    MAP(d, "ema", VK_EMA, ((vk_map_args){ .a = { decay, 1.0f - decay } }), ema, ema, w);
}

const void *cuda_convert(vt_dev *d, cuda_area area, vc_dtype type, const vt_tensor *x)
{
    if (x->dtype == type)
        return x->data;
    vt_tensor y = *x;
    int64_t stride = 1;
    y.dtype = type;
    for (int i = x->nd; i-- > 0; stride *= x->dim[i])
        y.stride[i] = stride;
    y.data = cuda_scratch(d, area, (size_t)stride * vc_dtype_size(type));
    if (y.data)
        cuda_copy(d, &y, x);
    return y.data;
}

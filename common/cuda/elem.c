/* elem.c - element-wise kernels and the optimiser's; see kernel_list.h */
#include "common/base/rng.h"
#include "common/cuda/cuda.h"

#define LIST(...) (const vt_tensor *const[]){ __VA_ARGS__ }
#define COUNT(...) (int)(sizeof(LIST(__VA_ARGS__)) / sizeof(const vt_tensor *))
#define RUN(d, op, f, s, ...) map(d, op, f, s, COUNT(__VA_ARGS__), LIST(__VA_ARGS__))

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

static void unpack(vt_dev *d, vt_tensor *y, const vt_tensor *x)
{
    const uint64_t n = (uint64_t)vt_count(x);
    vk_unpack_args s = {
        .y = y->data, .w = x->data, .scale = x->scale->data, .n = n,
        .block = n / (uint64_t)vt_count(x->scale), .type = (int)x->dtype, .to = (int)y->dtype,
    };
    cuda_ok(d, vk_unpack(d->stream, &s), "unpack");
}

void cuda_copy(vt_dev *d, vt_tensor *y, const vt_tensor *x)
{
    vk_move_args s;

    if (x->scale)
        unpack(d, y, x);
    else if (y->dtype != x->dtype)
        RUN(d, "copy", VK_TAKE, (vk_map_args){ 0 }, y, x);
    else if (vt_packed(x) && vt_packed(y))
        cuda_copy_bytes(d, y->data, x->data, (size_t)vt_count(x) * vc_dtype_size(x->dtype));
    else if (cuda_walk(d, &s.w, "copy", 2, LIST(y, x), true))
        cuda_ok(d, vk_move(d->stream, &s), "copy");
}

#define ELEMENT(name) cuda_##name
#define MAP(d, op, f, adds_, a0, a1, ...) \
    RUN(d, op, f, ((vk_map_args){ .adds = adds_, .a = { a0, a1 } }), __VA_ARGS__)
#include "common/tensor/element_ops.h"

/* It is not in element_ops.h: the host folds the gradient of the loss into the factor, which rounds
 * differently, and a device must not wait for a value that it has. */
void cuda_mse_grad(vt_dev *d, vt_tensor *dpred, const vt_tensor *dloss, const vt_tensor *pred,
                   const vt_tensor *target, const vt_tensor *weight)
{
    vk_map_args s = { .adds = vt_adds(dpred), .a = { (float)(2.0 / (double)vt_count(pred)) } };
    vt_tensor e = vt_expand(dloss, pred);

    if (weight)
        RUN(d, "mse", VK_MSE_GRAD_WEIGHTED, s, dpred, &e, pred, target, weight);
    else
        RUN(d, "mse", VK_MSE_GRAD, s, dpred, &e, pred, target);
    vt_wrote(dpred);
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

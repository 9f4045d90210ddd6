/* epilogue.c - products with GELU or a bias gradient, computed by the table's other entries; see
 * backend.h */
#include "common/tensor/engine.h"

void vt_gelu_after(const vt_backend *be, vt_dev *d, vt_tensor *y, vt_tensor *pre,
                   const vt_tensor *a, const vt_tensor *b, bool tb, const vt_tensor *bias,
                   float alpha, float beta)
{
    vt_tensor *c = pre && beta == 0 ? pre : y;

    be->matmul(d, c, a, false, b, tb, bias, alpha, beta);
    if (pre && c != pre)
        be->copy(d, pre, c);
    be->unary(d, VT_GELU_TANH, y, c);
}

void vt_gelu_grad_after(const vt_backend *be, vt_dev *d, vt_tensor *dx, const vt_tensor *a,
                        const vt_tensor *b, bool tb, const vt_tensor *pre, float alpha,
                        float beta)
{
    vt_buf over = { .empty = true };           /* in place: the product is overwritten */
    vt_tensor to = *dx;

    to.buf = &over;
    be->matmul(d, dx, a, false, b, tb, NULL, alpha, beta);
    be->unary_grad(d, VT_GELU_TANH, &to, dx, pre);
}

void vt_bias_grad_after(const vt_backend *be, vt_dev *d, vt_tensor *dw, vt_tensor *db,
                        const vt_tensor *dy, const vt_tensor *x, float beta)
{
    vt_tensor rows = vt_expand(db, dy);

    be->matmul(d, dw, dy, true, x, false, NULL, 1.0f, beta);
    be->reduce(d, &rows, dy, NULL, 1.0f);
}

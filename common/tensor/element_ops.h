/* element_ops.h - the element-wise kernels of kernel_list.h, the same for every backend.
 *
 * A backend's file includes this one after it has defined
 *     ELEMENT(name)      the name of its function, such as cpu_fill
 *     MAP(d, op, f, adds, a0, a1, y, ..)    runs element f (kernels/elements.h) on the operands
 * and has a function ELEMENT(copy). */

void ELEMENT(fill)(vt_dev *d, vt_tensor *y, float value)
{
    MAP(d, "fill", VK_FILL, false, value, 0, y);
}

void ELEMENT(scale)(vt_dev *d, vt_tensor *y, const vt_tensor *x, float a)
{
    const bool adds = vt_adds(y);

    if (!adds && a == 1.0f)
        ELEMENT(copy)(d, y, x);
    else
        MAP(d, "scale", VK_SCALE, adds, a, 0, y, x);
    vt_wrote(y);
}

void ELEMENT(binary)(vt_dev *d, vt_binary op, vt_tensor *y, const vt_tensor *a, const vt_tensor *b)
{
    static const vk_element f[] = { [VT_ADD] = VK_ADD, [VT_SUB] = VK_SUB, [VT_MUL] = VK_MUL };

    MAP(d, "binary", f[op], false, 0, 0, y, a, b);
}

void ELEMENT(mul_grad)(vt_dev *d, vt_tensor *da, const vt_tensor *dy, const vt_tensor *b)
{
    MAP(d, "mul", VK_MUL, vt_adds(da), 0, 0, da, dy, b);
    vt_wrote(da);
}

void ELEMENT(unary)(vt_dev *d, vt_unary op, vt_tensor *y, const vt_tensor *x)
{
#define VALUE(with, NAME, name) [VT_##NAME] = VK_##NAME,
    static const vk_element f[] = { VF_UNARIES(VALUE, ) };
#undef VALUE

    MAP(d, "unary", f[op], false, 0, 0, y, x);
}

void ELEMENT(unary_grad)(vt_dev *d, vt_unary op, vt_tensor *dx, const vt_tensor *dy,
                         const vt_tensor *x)
{
#define VALUE(with, NAME, name) [VT_##NAME] = VK_##NAME##_GRAD,
    static const vk_element f[] = { VF_UNARIES(VALUE, ) };
#undef VALUE

    MAP(d, "unary", f[op], vt_adds(dx), 0, 0, dx, dy, x);
    vt_wrote(dx);
}

void ELEMENT(gated_add)(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *h,
                        const vt_tensor *gate)
{
    MAP(d, "gated_add", VK_GATED_ADD, false, 0, 0, y, x, h, gate);
}

void ELEMENT(mix)(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *n,
                  const vt_tensor *a, const vt_tensor *c)
{
    MAP(d, "mix", VK_MIX, false, 0, 0, y, x, n, a, c);
}

void ELEMENT(posterior)(vt_dev *d, vt_tensor *y, const vt_tensor *mean, const vt_tensor *logvar,
                        const vt_tensor *noise)
{
    MAP(d, "posterior", VK_POSTERIOR, false, 0, 0, y, mean, logvar, noise);
}

void ELEMENT(error_factor)(vt_dev *d, vt_tensor *y, const vt_tensor *pred, const vt_tensor *target,
                           vt_bounds how, bool slope)
{
    MAP(d, "error_factor", slope ? VK_ERROR_SLOPE : VK_ERROR_FACTOR, false, how.linear, how.dropped,
        y, pred, target);
}

void ELEMENT(ema)(vt_dev *d, vt_tensor *ema, const vt_tensor *w, float decay)
{
    MAP(d, "ema", VK_EMA, false, decay, 1.0f - decay, ema, ema, w);
}

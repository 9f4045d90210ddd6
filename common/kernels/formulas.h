/* formulas.h - activations, their slopes and the rules of optimisers, shared by both backends.
 *
 * The CPU's vec.h and the GPU's row.h include this file after they have defined
 *     VF           the type of values: a vector of f32, or one f32
 *     VF_FN        the specifiers before a function
 *     VF_(name)    the name of a function in that file, v_name or vk_name
 * and VF_ functions exp, abs, sqrt, clamp (to +-limit), if (lane by lane), bell (e^(-x^2/2)) and
 * normal_cdf. Without VF the file contains only the lists.
 *
 * A new activation needs a row in VF_UNARIES, two functions, VF_(name) and VF_(name_slope), and an
 * op in ops.h and op_elem.c. A new rule of an optimiser needs a row in VF_RULES and a function,
 * VF_(name_rule); docs/adding-an-optimiser.md has an example. */
#ifndef VF_UNARIES

/* Expands to U(with, NAME, name) for each activation; `with` is any argument of the user. */
#define VF_UNARIES(U, with)                                                                        \
    U(with, SILU, silu)                                                                            \
    U(with, GELU_TANH, gelu_tanh)                                                                  \
    U(with, GELU_ERF, gelu_erf)                                                                    \
    U(with, QUICK_GELU, quick_gelu)                                                                \
    U(with, SIGMOID, sigmoid)                                                                      \
    U(with, TANH, tanh)                                                                            \
    U(with, RELU, relu)                                                                            \
    U(with, SIN_SQUARED, sin_squared)

/* The rules by which optimisers change a value. Expands to R(with, NAME, name, states, squares):
 * `states` numbers are kept for each value, at most VF_STATES, and those of the bits in `squares`
 * are never negative, which their codes of eight bits make use of (moments.h). Rows of optimisers
 * with such codes have a rule of the first list. */
#define VF_CODED_RULES(R, with)                                                                    \
    R(with, ADAMW, adamw, 2, 1 << 1)                                                               \
    R(with, LION, lion, 1, 0)
#define VF_RULES(R, with)                                                                          \
    VF_CODED_RULES(R, with)                                                                        \
    R(with, PRODIGY_MOMENTS, prodigy_moments, 3, 1 << 1)                                           \
    R(with, PRODIGY, prodigy, 2, 1 << 1)                                                           \
    R(with, ADAFACTOR_FACTOR, adafactor_factor, 1, 1 << 0)                                         \
    R(with, ADAFACTOR_VECTOR, adafactor_vector, 1, 1 << 0)                                         \
    R(with, ALONG, along, 1, 0)                                                                    \
    R(with, SCHEDULE_FREE, schedule_free, 2, 1 << 1)                                               \
    R(with, MUON_MOMENT, muon_moment, 1, 0)
enum { VF_STATES = 3, VF_GAINS = 3 };
#define VF_RULE(with, NAME, name, states, squares) VF_##NAME,
typedef enum { VF_RULES(VF_RULE, ) } vf_rule;
#undef VF_RULE

/* Factors of a step, which are equal for all elements of a parameter. */
typedef struct vf_step {
    float decay;                               /* 1 - rate * weight decay */
    float rate;
    float step, root;                          /* rate / (1 - beta1^t), 1 / sqrt(1 - beta2^t) */
    float eps, beta1, beta2, grad_scale;
    float beta3, gain[VF_GAINS];               /* of rules whose states take gain * gradient */
} vf_step;

/* vt_mse_bounded's factor of an error e >= 0; NaN stays NaN. */
#define VF_ERROR_FACTOR(e, linear, dropped, slope)                                                 \
    ((e) > (dropped) ? 0.0f : (e) <= (linear) ? 1.0f :                                             \
     (slope) ? (linear) / (e) : (linear) / (e) * (2.0f - (linear) / (e)))

#endif
#ifdef VF

VF_FN VF VF_(sigmoid)(VF x) { return 1.0f / (1.0f + VF_(exp)(-x)); }

/* Returns sigmoid(x), and 1 - sigmoid(x) in *rest without cancellation. */
VF_FN VF VF_(sigmoids)(VF x, VF *rest)
{
    VF e = VF_(exp)(-VF_(abs)(x)), more = 1.0f / (1.0f + e), less = e * more;

    *rest = VF_(if)(x > 0.0f, less, more);
    return VF_(if)(x > 0.0f, more, less);
}

VF_FN VF VF_(sigmoid_slope)(VF x)
{
    VF rest, s = VF_(sigmoids)(x, &rest);

    return s * rest;
}

VF_FN VF VF_(silu)(VF x) { return x * VF_(sigmoid)(x); }
VF_FN VF VF_(silu_slope)(VF x)
{
    VF rest, s = VF_(sigmoids)(x, &rest);

    return s + x * s * rest;
}

/* Returns 2 u of gelu's tanh form: x sigmoid(2 u) = x (1 + tanh u) / 2. Beyond +-30 the sigmoid is
 * 0 or 1, so x is clamped. */
VF_FN VF VF_(gelu_arg)(VF x)
{
    VF c = VF_(clamp)(x, 30.0f);

    return c * (1.5957691216f + 0.0713548162726f * (c * c));
}
VF_FN VF VF_(gelu_tanh)(VF x) { return x * VF_(sigmoid)(VF_(gelu_arg)(x)); }
VF_FN VF VF_(gelu_tanh_slope)(VF x)
{
    VF c = VF_(clamp)(x, 30.0f), rest, s = VF_(sigmoids)(VF_(gelu_arg)(x), &rest);

    return s + c * s * rest * (1.5957691216f + 0.2140644488179f * (c * c));
}

/* Returns gelu(x), its slope and the slope of its slope. With p = 2 u and s = sigmoid(p) the latter
 * is s' (2 p' + x ((1 - 2 s) p'^2 + p'')), where s' = s (1 - s). */
VF_FN VF VF_(gelu_tanh_jet)(VF x, VF *slope, VF *curve)
{
    VF c = VF_(clamp)(x, 30.0f), rest, s = VF_(sigmoids)(VF_(gelu_arg)(x), &rest);
    VF p1 = 1.5957691216f + 0.2140644488179f * (c * c), p2 = 0.4281288976358f * c;

    *slope = s + c * s * rest * p1;
    *curve = s * rest * (2.0f * p1 + c * ((rest - s) * (p1 * p1) + p2));
    return x * s;
}

VF_FN VF VF_(gelu_erf)(VF x) { return x * VF_(normal_cdf)(x); }
VF_FN VF VF_(gelu_erf_slope)(VF x)
{
    return VF_(normal_cdf)(x) + x * 0.3989422804f * VF_(bell)(x);
}

/* CLIP's x sigmoid(1.702 x). */
VF_FN VF VF_(quick_gelu)(VF x) { return x * VF_(sigmoid)(1.702f * x); }
VF_FN VF VF_(quick_gelu_slope)(VF x)
{
    VF rest, s = VF_(sigmoids)(1.702f * x, &rest);

    return s + 1.702f * x * s * rest;
}

/* A polynomial is used near 0, where 1 - e^(-2|x|) cancels; the relative error is 2e-7
 * everywhere. */
VF_FN VF VF_(tanh)(VF x)
{
    VF a = VF_(abs)(x), e = VF_(exp)(-2.0f * a), far = (1.0f - e) / (1.0f + e), z = x * x;
    VF p = z * -0.00570498872745f + 0.0206390887954f;

    p = p * z - 0.0537397155531f;
    p = p * z + 0.133314422036f;
    p = p * z - 0.333332819422f;
    return VF_(if)(a < 0.625f, p * z * x + x, VF_(if)(x < 0.0f, -far, far));
}
VF_FN VF VF_(tanh_slope)(VF x)
{
    VF rest, s = VF_(sigmoids)(2.0f * x, &rest);

    return 4.0f * s * rest;
}

VF_FN VF VF_(relu)(VF x) { return VF_(if)(x > 0.0f, x, 0.0f * x); }
VF_FN VF VF_(relu_slope)(VF x) { return VF_(if)(x > 0.0f, 0.0f * x + 1.0f, 0.0f * x); }

/* Returns x without its nearest multiple of pi, which is taken away in three parts. Adding and
 * subtracting 1.5 * 2^23 rounds to an integer, for |x| below 1e6. */
VF_FN VF VF_(within_pi)(VF x)
{
    VF n = (x * 0.31830988618f + 12582912.0f) - 12582912.0f;

    return ((x - n * 3.140625f) - n * 9.67502593994140625e-4f) - n * 1.509957990978376e-7f;
}

/* sin^2, by sin's series up to r^11 on |r| <= pi/2: the absolute error is below 2e-7. */
VF_FN VF VF_(sin_squared)(VF x)
{
    VF r = VF_(within_pi)(x), z = r * r;
    VF p = z * -2.50521084e-8f + 2.75573192e-6f;

    p = p * z - 1.98412698e-4f;
    p = p * z + 8.33333333e-3f;
    p = p * z - 1.66666667e-1f;
    p = p * z * r + r;
    return p * p;
}
/* Its slope is sin 2x: 2 x lies within pi of a multiple of 2 pi, where sin 2r = 2 sin r cos r. */
VF_FN VF VF_(sin_squared_slope)(VF x)
{
    VF r = VF_(within_pi)(x), z = r * r;
    VF p = z * -2.50521084e-8f + 2.75573192e-6f, c = z * 2.08767570e-9f - 2.75573192e-7f;

    p = p * z - 1.98412698e-4f;
    p = p * z + 8.33333333e-3f;
    p = p * z - 1.66666667e-1f;
    p = p * z * r + r;
    c = c * z + 2.48015873e-5f;
    c = c * z - 1.38888889e-3f;
    c = c * z + 4.16666667e-2f;
    c = c * z - 0.5f;
    return 2.0f * p * (c * z + 1.0f);
}

/* A rule returns the value after a step, and updates the value's state s. */

/* Loshchilov & Hutter, "Decoupled weight decay regularization", algorithm 2; s: both moments */
VF_FN VF VF_(adamw_rule)(const vf_step *a, VF w, VF *s, VF grad)
{
    VF g = grad * a->grad_scale;

    s[0] = a->beta1 * s[0] + (1.0f - a->beta1) * g;
    s[1] = a->beta2 * s[1] + (1.0f - a->beta2) * (g * g);
    return w * a->decay - a->step * s[0] / (VF_(sqrt)(s[1]) * a->root + a->eps);
}

/* Chen et al., "Symbolic discovery of optimization algorithms", algorithm 2; s: the moment */
VF_FN VF VF_(lion_rule)(const vf_step *a, VF w, VF *s, VF grad)
{
    VF g = grad * a->grad_scale, c = a->beta1 * s[0] + (1.0f - a->beta1) * g, x = w * a->decay;

    s[0] = a->beta2 * s[0] + (1.0f - a->beta2) * g;
    return VF_(if)(c > 0.0f, x - a->rate, VF_(if)(c < 0.0f, x + a->rate, x));
}

/* Mishchenko & Defazio, "Prodigy", algorithm 4, in two rules, since the distance d changes between
 * them: s has both moments and the sum that d's estimate divides by */
VF_FN VF VF_(prodigy_moments_rule)(const vf_step *a, VF w, VF *s, VF grad)
{
    VF g = grad * a->grad_scale;

    s[0] = a->beta1 * s[0] + a->gain[0] * g;
    s[1] = a->beta2 * s[1] + a->gain[1] * (g * g);
    s[2] = a->beta3 * s[2] + a->gain[2] * g;
    return w;
}

VF_FN VF VF_(prodigy_rule)(const vf_step *a, VF w, VF *s, VF grad)
{
    (void)grad;
    return w * a->decay - a->rate * s[0] / (VF_(sqrt)(s[1]) + a->eps);
}

/* Shazeer & Stern, "Adafactor", algorithms 4 and 5: w becomes the factor of a row's or a column's
 * gradients, whose mean square is grad; s is its moving average */
VF_FN VF VF_(adafactor_factor_rule)(const vf_step *a, VF w, VF *s, VF grad)
{
    (void)w;
    s[0] = a->beta2 * s[0] + (1.0f - a->beta2) * (grad + a->eps);
    return 1.0f / VF_(sqrt)(s[0]);
}

/* and of a vector w becomes the update */
VF_FN VF VF_(adafactor_vector_rule)(const vf_step *a, VF w, VF *s, VF grad)
{
    VF g = grad * a->grad_scale;

    (void)w;
    s[0] = a->beta2 * s[0] + (1.0f - a->beta2) * (g * g + a->eps);
    return g / VF_(sqrt)(s[0]);
}

/* The step of an update that was computed before; s is the update */
VF_FN VF VF_(along_rule)(const vf_step *a, VF w, VF *s, VF grad)
{
    (void)grad;
    return w * a->decay - a->rate * s[0];
}

/* Defazio et al., "The road less scheduled", algorithm 1 with AdamW's moment; w is y, s has z and
 * the second moment. gain: the weight c of z in x, the step of y, the decay */
VF_FN VF VF_(schedule_free_rule)(const vf_step *a, VF w, VF *s, VF grad)
{
    VF g = grad * a->grad_scale, z = s[0];

    s[1] = a->beta2 * s[1] + (1.0f - a->beta2) * (g * g);
    VF d = g / (VF_(sqrt)(s[1]) * a->root + a->eps) + a->gain[2] * w;
    s[0] = z - a->rate * d;
    return w + a->gain[0] * (z - w) + a->gain[1] * d;
}

/* Muon's moment, s; w becomes a mix of the gradient and the moment, whose parts are in gain */
VF_FN VF VF_(muon_moment_rule)(const vf_step *a, VF w, VF *s, VF grad)
{
    VF g = grad * a->grad_scale;

    (void)w;
    s[0] = a->beta1 * s[0] + (1.0f - a->beta1) * g;
    return a->gain[0] * g + a->gain[1] * s[0];
}

#undef VF
#undef VF_FN
#undef VF_
#endif

/* elements.h - the element-wise kernels, one list for all devices: y (+)= f(x[0], x[1], ..; a[0],
 * a[1]).
 *
 * A new one needs a row here, one in tensor/kernel_list.h and a function in tensor/element_ops.h;
 * one that is not plain arithmetic also needs a span in cpu/loops_elem.c. */
#ifndef COMMON_KERNELS_ELEMENTS_H
#define COMMON_KERNELS_ELEMENTS_H

#include "common/kernels/formulas.h"

/* E(name, inputs, value). Plain arithmetic, which every device evaluates as it stands here: */
#define VK_PLAIN_ELEMENTS(E)                                                                       \
    E(FILL, 0, a[0])                                                                               \
    E(SCALE, 1, a[0] * x[0])                                                                       \
    E(GATED_ADD, 3, x[0] + x[2] * x[1])                      /* x, h, gate */                      \
    E(MIX, 4, x[2] * x[0] + x[3] * x[1])                     /* x, n, a, c */                      \
    /* pred, target; a: linear, dropped */                                                         \
    E(ERROR_FACTOR, 2, VF_ERROR_FACTOR(fabsf(x[0] - x[1]), a[0], a[1], 0))                         \
    E(ERROR_SLOPE, 2, VF_ERROR_FACTOR(fabsf(x[0] - x[1]), a[0], a[1], 1))                          \
    E(EMA, 2, a[0] * x[0] + a[1] * x[1])

#define VK_UNARY(E, NAME, name)                                                                    \
    E(NAME, 1, vk_##name(x[0]))                                                                    \
    E(NAME##_GRAD, 2, x[0] * vk_##name##_slope(x[1]))
/* and all; of those that are not plain the CPU has vectors of its own. */
#define VK_ELEMENTS(E)                                                                             \
    VK_PLAIN_ELEMENTS(E)                                                                           \
    E(TAKE, 1, x[0])                                                                               \
    E(ADD, 2, x[0] + x[1])                                                                         \
    E(SUB, 2, x[0] - x[1])                                                                         \
    E(MUL, 2, x[0] * x[1])                                                                         \
    VF_UNARIES(VK_UNARY, E)                                                                        \
    E(POSTERIOR, 3, x[0] + expf(0.5f * x[1]) * x[2])         /* mean, logvar, noise */             \
    E(MSE_GRAD, 3, a[0] * x[0] * (x[1] - x[2]))              /* dloss, pred, target */             \
    E(MSE_GRAD_WEIGHTED, 4, a[0] * x[0] * (x[1] - x[2]) * x[3])

#define VK_NAME(name, inputs, value) VK_##name,
typedef enum vk_element { VK_ELEMENTS(VK_NAME) VK_ELEMENT_COUNT } vk_element;

#endif

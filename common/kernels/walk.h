/* walk.h - strided operands of one shape as rows of packs, the argument of every kernel.
 *
 * A walk is plain data, passed to kernels by value. Sizes and steps are in elements. */
#ifndef COMMON_KERNELS_WALK_H
#define COMMON_KERNELS_WALK_H

#include <stdbool.h>
#include <stdint.h>

enum { VK_OPERANDS = 8, VK_AXES = 6 };

/* The types that kernels load and store, with vc_dtype's numbers (checked in walk.c). */
enum { VK_F32, VK_BF16, VK_F16, VK_F8E4M3, VK_F8E5M2 };
/* The types that only vk_unpack reads. */
enum { VK_I8 = 9, VK_NF4 = 12 };

typedef struct vk_walk {
    int nd;                                    /* axes of rows */
    uint32_t dim[VK_AXES], rows, packs;        /* packs: of eight elements, per row */
    int64_t n;                                 /* elements of a row */
    int64_t stride[VK_AXES][VK_OPERANDS];      /* in bytes */
    int64_t hop[VK_OPERANDS];                  /* between packs of a row, in bytes */
    int64_t step[VK_OPERANDS];                 /* between elements of a row; 0 repeats */
    int far;                                   /* a stride or hop has more than 32 bits */
    int whole;                                 /* all operands but those of step 0 are bf16 or f32,
                                                * and packs of theirs have 16-byte addresses */
    char *data[VK_OPERANDS];                   /* NULL: the operand is absent */
    int8_t type[VK_OPERANDS], size[VK_OPERANDS];
} vk_walk;

#endif

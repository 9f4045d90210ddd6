/* adapter.h - adapters: what a LoRA and its relatives add to a frozen linear layer.
 *
 * An adapter is a row of adapters.def: the names, shapes and initial values of its factors, the
 * rule of its scale, and the function that computes a layer's output with it. Whatever opens,
 * counts, saves, reads or splits factors walks these rows, so none of it knows an adapter by name.
 *
 * With W [out,in] and the scale s:
 *     lora, rslora  W + s B A                   Hu et al. 2021; Kalajdzievski 2023: s of the root
 *     dora          m (W + s B A) / |W + s B A| by rows, the length as a constant; Liu et al. 2024,
 *                                               4.3, as PEFT's DoraLinearLayer
 *     loha          W + s (A1 B1) * (A2 B2)     Hyeon-Woo et al. 2022; LyCORIS's LohaModule
 *     lokr          W + s kron(W1, W2)          Yeh et al. 2024, LyCORIS's LokrModule; each of the
 *                                               matrices whole, or a product of two */
#ifndef COMMON_TENSOR_ADAPTER_H
#define COMMON_TENSOR_ADAPTER_H

#include "common/tensor/ops.h"
#include "common/tensor/weights.h"

/* The first words of --adapter, in their order. */
typedef enum vt_adapter_kind {
#define ADAPTER(NAME, name, about, ...) VT_ADAPTER_##NAME,
#include "common/tensor/adapters.def"
    VT_ADAPTERS
} vt_adapter_kind;

/* The sizes that factors' shapes are made of. Those of LoKr: out = L K, in = M N. */
typedef enum vt_side {
    VT_END, VT_OUT, VT_IN, VT_RANK, VT_OUT_L, VT_OUT_K, VT_IN_M, VT_IN_N, VT_SIDES
} vt_side;
/* When a layer has the factor: LoKr's first or second matrix is whole or a product. */
typedef enum vt_when { VT_ALWAYS, VT_WHOLE_1, VT_SPLIT_1, VT_WHOLE_2, VT_SPLIT_2 } vt_when;
/* The dropouts (vt_dropout) that an adapter's function has. */
enum { VT_DROPS_INPUT = 1, VT_DROPS_NEURON = 2, VT_DROPS_RANK = 4, VT_DROPS_MODULE = 8,
       VT_DROPS_ALL = 15 };

typedef struct vt_factor {
    const char *suffix;                       /* behind the module's name: in checkpoints, and in
                                               * the files of PEFT and diffusers */
    vt_init init;
    vt_side side[2];                          /* its axes; VT_END ends them */
    vt_when when;
    const char *kohya;                        /* the suffix in other programs' files; NULL: the
                                               * same */
} vt_factor;

typedef struct vt_adapter {
    const char *name;                         /* the word of --adapter */
    vt_factor factor[VT_FACTORS];             /* a NULL suffix ends the list */
    bool pair;                                /* the first two are lora_a and lora_b of vt_lin */
    bool convs;                               /* convolutions can have it */
    bool root;                                /* the scale is alpha / sqrt(rank) */
    bool kron;                                /* its shapes depend on vt_adapter_size.factor */
    bool plain_base;                          /* weights with scales (fp8) cannot have it */
    unsigned drops;
    /* The output of a layer, in `type`. NULL: vt_linear's, by lora_a and lora_b. */
    vt_tensor *(*apply)(vt_ctx *g, vt_tensor *x, const vt_lin *l, vc_dtype type);
} vt_adapter;

/* The table, by vt_adapter_kind. */
extern const vt_adapter vt_adapters[VT_ADAPTERS];
/* "lora|rslora|..", and the sentence that --help has of them. */
extern const char vt_adapter_words[], vt_adapter_help[];

/* Returns s. A LoKr of two whole matrices has no rank, and the scale 1. */
double vt_adapter_scale(const vt_adapter_size *size, const int64_t sides[VT_SIDES]);
/* Sets the sizes of a layer's factors for a weight [out,in]. */
void vt_adapter_sides(int64_t sides[VT_SIDES], const vt_adapter_size *size, int64_t out,
                      int64_t in);
/* Returns true if a layer of these sizes has the factor. */
bool vt_adapter_has(const vt_adapter_size *size, const int64_t sides[VT_SIDES],
                    const vt_factor *f);
/* Divides n into the two factors that LyCORIS's `factorization` finds, the smaller one first:
 * `factor` and n / factor where factor divides n, else the nearest ones with the first at most
 * `factor`; factor -1: the two that are nearest to each other. */
void vt_adapter_split(int64_t n, int64_t factor, int64_t *first, int64_t *second);

/* op_adapter.c: the functions of the rows. */
vt_tensor *vt_apply_dora(vt_ctx *g, vt_tensor *x, const vt_lin *l, vc_dtype type);
vt_tensor *vt_apply_loha(vt_ctx *g, vt_tensor *x, const vt_lin *l, vc_dtype type);
vt_tensor *vt_apply_lokr(vt_ctx *g, vt_tensor *x, const vt_lin *l, vc_dtype type);

#endif

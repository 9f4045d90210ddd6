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
 *                                               matrices whole, or a product of two
 *     doha, dokr    m U / |U| by rows, where U is the sum of loha or lokr; LyCORIS's
 *                                               weight_decompose with wd_on_output, whose
 *                                               gradient passes through the length */
#ifndef COMMON_ADAPTERS_ADAPTER_H
#define COMMON_ADAPTERS_ADAPTER_H

#include "common/tensor/ops.h"
#include "common/tensor/weights.h"

/* The first words of --adapter, in their order. */
typedef enum vt_adapter_kind {
#define ADAPTER(NAME, name, about, ...) VT_ADAPTER_##NAME,
#include "common/adapters/adapters.def"
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
    const char *title;                        /* as the papers write it */
    vt_factor factor[VT_FACTORS];             /* a NULL suffix ends the list */
    bool pair;                                /* the first two are lora_a and lora_b of vt_lin */
    bool convs;                               /* convolutions can have it */
    bool root;                                /* the scale is alpha / sqrt(rank) */
    bool kron;                                /* its shapes depend on vt_adapter_size.factor */
    bool decomposed;                          /* a factor is the length of each row, VT_INIT_ROWS */
    unsigned drops;
    bool shares;                              /* vt_dropout.share means something to it */
    /* The output of a layer, in `type`. NULL: vt_linear's, by lora_a and lora_b. */
    vt_apply *apply;
} vt_adapter;

/* The table, by vt_adapter_kind. */
extern const vt_adapter vt_adapters[VT_ADAPTERS];
/* Words that stand for another: index VT_ADAPTERS + i of the words, after those of the rows. */
typedef struct vt_adapter_alias { const char *name; vt_adapter_kind kind; } vt_adapter_alias;
extern const vt_adapter_alias vt_adapter_aliases[];
/* "lora|rslora|..", and the sentence that --help has of them. */
extern const char vt_adapter_words[], vt_adapter_help[];

/* The adapter of a module. */
typedef struct vt_adapter_size {
    int kind;                                 /* vt_adapter_kind */
    int rank;
    double alpha;
    int64_t factor;                           /* LoKr: as vt_adapter_split's; 0: -1 */
    bool whole, both;                         /* LoKr: both matrices whole; both products */
} vt_adapter_size;

/* Returns s. A LoKr of two whole matrices has no rank, and the scale 1. */
double vt_adapter_scale(const vt_adapter_size *size, const int64_t sides[VT_SIDES]);
/* Sets the sizes of a layer's factors for a weight [out,in]. */
void vt_adapter_sides(int64_t sides[VT_SIDES], const vt_adapter_size *size, int64_t out,
                      int64_t in);
/* The axis of factors whose halves are exchanged with those of the layer's rows: VT_OUT, or of a
 * LoKr, whose first matrix has l rows, one of its own. VT_END: there is none, where l is odd. */
vt_side vt_adapter_halves(const vt_adapter *a, int64_t l);
/* Returns true if a layer of these sizes has the factor. */
bool vt_adapter_has(const vt_adapter_size *size, const int64_t sides[VT_SIDES],
                    const vt_factor *f);
/* The kind that does as another and trains the lengths of rows too; VT_ADAPTERS: there is none. */
vt_adapter_kind vt_adapter_decomposed(int kind);
/* The factor with the lengths of rows, of a row of the table or of a layer; NULL: it has none. */
const vt_factor *vt_adapter_lengths_of(const vt_adapter *a);
vt_tensor *vt_adapter_lengths(const vt_lin *l);
/* The rank of a layer's adapter; 0: its factors have none. */
int64_t vt_adapter_rank(const vt_lin *l);
/* Copies the values of a layer's frozen weight, times its scales, to f32 on the host, outside
 * steps. */
int vt_adapter_base(vt_ctx *g, const vt_tensor *w, float *to, vc_err *err);
/* Divides n into the two factors that LyCORIS's `factorization` finds, the smaller one first:
 * `factor` and n / factor where factor divides n, else the nearest ones with the first at most
 * `factor`; factor -1: the two that are nearest to each other. */
void vt_adapter_split(int64_t n, int64_t factor, int64_t *first, int64_t *second);

/* Adds a trained LoRA pair to each linear whose module `match` accepts (NULL: all), and trains
 * nothing else: a is kaiming-uniform(sqrt 5) = uniform +-1/sqrt(in), b zero, scale alpha / rank.
 * The pairs are named module.lora_A.weight and module.lora_B.weight, in bound order of the linears.
 * A convolution's pair consists of convolutions, as PEFT's: a [rank,in,kernel], b [out,rank,1,..].
 * *matched becomes the number of linears. */
int vt_params_lora(vt_params *p, bool (*match)(void *arg, const char *module), void *arg, int rank,
                   double alpha, uint64_t seed, int *matched, vc_err *err);
/* The same with any adapter (adapter.h), of a kind and a size for each module, which `size` sets;
 * it returns false for modules without one. VC_EUSAGE names a module that cannot have it. */
int vt_params_adapt(vt_params *p, bool (*size)(void *arg, const char *module, vt_adapter_size *s),
                    void *arg, uint64_t seed, int *matched, vc_err *err);

/* apply.c: the functions of the rows. */
vt_apply vt_apply_dora, vt_apply_loha, vt_apply_lokr;

#endif

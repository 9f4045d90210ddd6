/* ptx_code.h - PTX as ptx_read.c leaves it for ptx_run.c. */
#ifndef TESTS_DEVICE_PTX_CODE_H
#define TESTS_DEVICE_PTX_CODE_H

#include "tests/device/ptx.h"

enum { PTX_LANES = 32, PTX_WARPS = 8, PTX_PARAMS = 24, PTX_DEPTH = 16 };
/* Registers below this number are those of functions. */
enum { PTX_FUNCTION_REGS = 1 << 15 };

/* Types: bits, unsigned, signed and floating, in the order of sizes. */
typedef enum ptx_type {
    PTX_NONE, PTX_PRED, PTX_U8, PTX_S8, PTX_U16, PTX_S16, PTX_U32, PTX_S32, PTX_U64, PTX_S64,
    PTX_F32, PTX_F64, PTX_BF16, PTX_BF16X2
} ptx_type;

#define PTX_OPS(O)                                                                                 \
    O(mov) O(ld) O(st) O(cvta) O(setp) O(selp) O(cvt) O(shfl) O(bra) O(ret) O(bar) O(call)         \
    O(add) O(sub) O(mul) O(mad) O(madc) O(addc) O(subc) O(fma) O(div) O(rem) O(rcp) O(sqrt)        \
    O(rsqrt) O(ex2) O(lg2) O(neg) O(abs) O(min) O(max) O(and) O(or) O(xor) O(not) O(shl) O(shr)    \
    O(prmt) O(clz) O(copysign) O(bfe) O(bfi) O(popc)
#define PTX_OP(name) PTX_OP_##name,
typedef enum ptx_op { PTX_OPS(PTX_OP) PTX_OP_COUNT } ptx_op;

typedef enum ptx_compare {
    PTX_EQ, PTX_NE, PTX_LT, PTX_LE, PTX_GT, PTX_GE, PTX_EQU, PTX_NEU, PTX_LTU, PTX_LEU, PTX_GTU,
    PTX_GEU
} ptx_compare;
enum { PTX_LO, PTX_HI, PTX_WIDE };             /* the half of a product */
enum { PTX_RN, PTX_RZ, PTX_RM, PTX_RP, PTX_RNI, PTX_RZI, PTX_RMI, PTX_RPI };

/* An operand is the number of a register, or -1 - i for constant i. */
enum { PTX_ABSENT = INT32_MIN };
typedef struct ptx_ins {
    uint8_t op, type, from, half, round, compare, vector, parts;
    bool saturates, carries, flushes, shared, global, not_guard;
    int guard;                                 /* a predicate or PTX_ABSENT */
    int d, a, b, c;                            /* d: the result; of a store its value */
    int v[4];                                  /* a vector of registers, `parts` of them */
    int64_t offset;                            /* of an address; the target of a branch */
    int line;
    int callee;                                /* of a call, with the places of its parameters */
    int params, param[PTX_PARAMS], result;
    float weight;
    uint64_t hits;
} ptx_ins;

/* A register whose value is known before a block runs: an address in a lane's memory, of a
 * parameter of the kernel, or a number of the thread. */
typedef enum ptx_known { PTX_LANE, PTX_ARGS, PTX_TID, PTX_CTAID, PTX_NTID } ptx_known;
typedef struct ptx_given {
    ptx_known what;
    int reg;
    int64_t offset;
} ptx_given;

/* A variable of a function in the lane's memory: a parameter, or an array. */
typedef struct ptx_place {
    char name[200];
    int64_t offset, bytes;
    bool shared, args;                         /* shared memory; the kernel's own parameter */
} ptx_place;

typedef struct ptx_function {
    char name[160];                            /* as in the file */
    bool entry;
    int begin, end;                            /* its instructions */
    int first_reg, regs;                       /* kernels share numbers, functions do not */
    ptx_place *place;
    int places, params;                        /* the first places are parameters */
    int result;                                /* place of the result, or -1 */
    ptx_given *given;
    int givens;
    int64_t shared;                            /* bytes of shared memory */
    uint64_t runs, executed;                   /* executed: by its runs, with functions called */
    double weighed;
} ptx_function;

struct ptx {
    char *name;
    ptx_ins *ins;
    int count, room;
    ptx_function *function;
    int functions;
    uint64_t (*constant)[PTX_LANES];
    int constants;
    struct { char name[64]; uint8_t *bytes; } table[8];
    int tables;
    int function_regs, most_regs;
    int64_t lane_bytes;
    void *machine;                             /* of ptx_run.c */
};

void ptx_machine_close(void *machine);

/* ---- ptx_arith.c ---- */

/* Computes an instruction's result v for all lanes of a warp, of operands a, b, c and n; flag has
 * the lanes' carries, which change for the lanes of mask. Returns false for an operation, or a type
 * of one, that the interpreter lacks. */
bool ptx_compute(const ptx_ins *x, const uint64_t *a, const uint64_t *b, const uint64_t *c,
                 const uint64_t *n, uint8_t *flag, uint32_t mask, uint64_t *v);
/* Extends the low bits of a register by the sign, or by zeros, of a type. */
uint64_t ptx_extend(uint64_t v, int type);
/* Returns the bytes of a type; 0 for a predicate. */
int ptx_size(int type);

#endif

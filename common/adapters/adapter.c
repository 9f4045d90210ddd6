/* adapter.c - the table of adapters, and the sizes of their factors; see adapter.h */
#include "common/adapters/adapter.h"

#include <math.h>
#include <string.h>

const vt_adapter vt_adapters[VT_ADAPTERS] = {
#define ADAPTER(NAME, name_, about, ...) [VT_ADAPTER_##NAME] = { .name = #name_, __VA_ARGS__ },
#include "common/adapters/adapters.def"
};

const char vt_adapter_words[] =
#define ADAPTER(NAME, name, about, ...) "|" #name
#include "common/adapters/adapters.def"
#define ALIAS(name, NAME) "|" #name
#include "common/adapters/adapters.def"
    ;

const vt_adapter_alias vt_adapter_aliases[] = {
#define ALIAS(name, NAME) { #name, VT_ADAPTER_##NAME },
#include "common/adapters/adapters.def"
};

const char vt_adapter_help[] =
#define ADAPTER(NAME, name, about, ...) about
#include "common/adapters/adapters.def"
    ;

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Whether LoKr's first or second matrix is a product of two of the rank. */
static bool is_split(const vt_adapter_size *size, const int64_t sides[VT_SIDES], bool second)
{
    const int64_t widest = second ? most(sides[VT_OUT_K], sides[VT_IN_N])
                                  : most(sides[VT_OUT_L], sides[VT_IN_M]);
    return !size->whole && (second || size->both) && 2 * (int64_t)size->rank < widest;
}

double vt_adapter_scale(const vt_adapter_size *size, const int64_t sides[VT_SIDES])
{
    const vt_adapter *a = &vt_adapters[size->kind];

    if (a->kron && !is_split(size, sides, false) && !is_split(size, sides, true))
        return 1;
    return size->alpha / (a->root ? sqrt((double)size->rank) : (double)size->rank);
}

void vt_adapter_split(int64_t n, int64_t factor, int64_t *first, int64_t *second)
{
    int64_t m = 1;

    if (factor > 0 && n % factor == 0) {
        m = factor < n / factor ? factor : n / factor;        /* the smaller one */
    } else {
        const int64_t bound = factor < 0 ? n : factor;
        for (int64_t k = 2; k <= bound && k * k <= n; k++)
            if (n % k == 0)
                m = k;
    }
    *first = m;
    *second = n / m;
}

void vt_adapter_sides(int64_t sides[VT_SIDES], const vt_adapter_size *size, int64_t out,
                      int64_t in)
{
    sides[VT_END] = 0;
    sides[VT_OUT] = out;
    sides[VT_IN] = in;
    sides[VT_RANK] = size->rank;
    vt_adapter_split(out, size->factor ? size->factor : -1, &sides[VT_OUT_L], &sides[VT_OUT_K]);
    vt_adapter_split(in, size->factor ? size->factor : -1, &sides[VT_IN_M], &sides[VT_IN_N]);
}

bool vt_adapter_has(const vt_adapter_size *size, const int64_t sides[VT_SIDES],
                    const vt_factor *f)
{
    const bool second = f->when == VT_WHOLE_2 || f->when == VT_SPLIT_2;
    const bool split = f->when == VT_SPLIT_1 || f->when == VT_SPLIT_2;

    return f->when == VT_ALWAYS || is_split(size, sides, second) == split;
}

vt_side vt_adapter_halves(const vt_adapter *a, int64_t l)
{
    return !a->kron ? VT_OUT : l % 2 == 0 ? VT_OUT_L : l == 1 ? VT_OUT_K : VT_END;
}

vt_adapter_kind vt_adapter_decomposed(int kind)
{
    int k = 0;

    while (k < VT_ADAPTERS && (!vt_adapters[k].decomposed || vt_adapters[kind].root ||
                               strcmp(vt_adapters[k].factor[0].suffix,
                                      vt_adapters[kind].factor[0].suffix) != 0))
        k++;
    return (vt_adapter_kind)k;
}

int64_t vt_adapter_rank(const vt_lin *l)
{
    for (int i = 0; l->adapter && i < VT_FACTORS; i++)
        for (int k = 0; l->factor[i] && k < 2; k++)
            if (l->adapter->factor[i].side[k] == VT_RANK)
                return l->factor[i]->dim[k];
    return 0;
}

/* lengths.c - the factor with the lengths of rows; see adapter.h */
#include "common/adapters/adapter.h"

/* The index of the factor with the lengths of rows; VT_FACTORS: there is none. */
static int lengths_at(const vt_adapter *a)
{
    int i = 0;

    while (i < VT_FACTORS && (!a || !a->factor[i].suffix || a->factor[i].init != VT_INIT_ROWS))
        i++;
    return i;
}

const vt_factor *vt_adapter_lengths_of(const vt_adapter *a)
{
    const int i = lengths_at(a);
    return i < VT_FACTORS ? &a->factor[i] : NULL;
}

vt_tensor *vt_adapter_lengths(const vt_lin *l)
{
    const int i = lengths_at(l->adapter);
    return i < VT_FACTORS ? l->factor[i] : NULL;
}

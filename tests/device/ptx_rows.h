/* ptx_rows.h - the rows of test_ptx: entries of the CUDA backend with operands of small shapes. */
#ifndef TESTS_DEVICE_PTX_ROWS_H
#define TESTS_DEVICE_PTX_ROWS_H

#include "common/tensor/backend.h"

enum { MOST = 48, MARGIN = 64 };               /* tensors of a row; bytes around a tensor's data */

typedef struct own_tensor {
    vt_tensor t;
    vt_buf buf;
    char *all;
    size_t bytes, offset;                      /* offset: bytes before the data, from 0 on */
} own_tensor;

typedef struct set {
    own_tensor x[MOST];
    int n;
} set;

/* Makes the tensors of a variant, the same each time, and runs entries with them on `host`. */
typedef struct row {
    const char *name;
    void (*run)(vt_dev *host, set *s, int variant);
    int variants;
    double tol, tol_bf16;                      /* of f32; of tensors of fewer bits */
} row;

extern const row ptx_rows[];                   /* the last has no name */

#endif

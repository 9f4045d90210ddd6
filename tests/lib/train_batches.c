/* train_batches.c - see train_batches.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ok.h"
#include "tests/lib/train_batches.h"

vtrain_loader *batches_open(const vtrain_data *d, vtrain_loader_opts o)
{
    vc_err err = { 0 };
    vtrain_loader *l;
    o.plan.batch = o.plan.batch ? o.plan.batch : 2;
    o.threads = o.threads ? o.threads : 1;
    o.ahead = o.ahead ? o.ahead : 2;
    assert_ok(vtrain_loader_open(&l, d, &o, &err), &err);
    return l;
}

const vtrain_batch *batches_next(vtrain_loader *l)
{
    const vtrain_batch *b;
    vc_err err = { 0 };
    double waited;
    assert_ok(vtrain_loader_next(l, &b, &waited, &err), &err);
    assert_true(waited >= 0);
    return b;
}

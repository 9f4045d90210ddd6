/* both.c - see both.h */
#include "train/steps/both.h"

#include <stdlib.h>

void vtrain_both_use(vtrain *t, bool low)
{
    if (vtrain_both(t))
        t->model.dit = t->model.both[low];
}

int vtrain_both_reached(vtrain *t, vc_err *err)
{
    int ranks = vc_comm_size(t->comm), n = vt_params_count(t->params);
    if (!vtrain_both(t) || ranks == 1)
        return 0;
    char *own = calloc((size_t)n, 1), *all = calloc((size_t)n * (size_t)ranks, 1);
    int rc = vc_comm_agree(t->comm, own && all ? 0 : vc_no_memory(err), err);
    vt_params_settle(t->params);
    for (int i = 0; !rc && i < n; i++)
        own[i] = vt_param_reached(vt_params_at(t->params, i));
    if (!rc)
        rc = vc_comm_gather(t->comm, all, own, (size_t)n, err);
    for (int i = 0; !rc && i < n * ranks; i++)
        if (all[i])
            vt_param_reach(vt_params_at(t->params, i % n));
    free(own);
    free(all);
    return rc;
}

void vtrain_both_before(vtrain *t)
{
    for (int i = 0; vtrain_both(t) && i < vt_params_count(t->params); i++) {
        vt_param *p = vt_params_at(t->params, i);
        p->missed = t->at.step - t->optim.updates[p->model];
    }
}

void vtrain_both_after(vtrain *t, const bool ran[VTRAIN_HALVES])
{
    for (int i = 0; i < VTRAIN_HALVES; i++)
        t->optim.updates[i] += ran[i];
}

/* sequence.c - see sequence.h */
#include "train/parallel/sequence.h"

#include <stdlib.h>

#include "common/memory/second_stream.h"

struct vtrain_sequence {
    vt_ctx *g;
    vc_comm *ranks;              /* those that share a sequence */
    vt_peers peers;
};

static int exchange(void *arg, void *to, const vt_piece *in, const void *from, const vt_piece *out,
                    vc_err *err)
{
    const vtrain_sequence *s = arg;
    return vc_comm_exchange(s->ranks, to, in, from, out, err);
}

int vtrain_sequence_open(vtrain_sequence **out, vc_comm *all, vt_ctx *g, int sp, double patience,
                         vc_err *err)
{
    *out = NULL;
    (void)patience;
    if (sp == 1)
        return 0;
    vtrain_sequence *s = calloc(1, sizeof *s);
    int rc = vc_comm_agree(all, s ? 0 : vc_no_memory(err), err);
    if (!rc)
        rc = vc_comm_split(&s->ranks, all, vc_comm_rank(all) / sp, err);
    if (rc) {
        vtrain_sequence_close(s);
        return rc;
    }
    s->g = g;
    s->peers = (vt_peers){ .n = sp, .me = vc_comm_rank(s->ranks), .exchange = exchange, .arg = s };
    vt_set_peers(g, &s->peers);
    *out = s;
    return 0;
}

void vtrain_sequence_close(vtrain_sequence *s)
{
    if (!s)
        return;
    if (s->g)
        vt_set_peers(s->g, NULL);
    vc_comm_close(s->ranks);
    free(s);
}

int vtrain_sequence_agree(vtrain_sequence *s, int rc, vc_err *err)
{
    double failed = rc != 0;
    if (!s)
        return rc;
    vc_err why = { 0 };
    int sum_rc = vc_comm_reduce(s->ranks, &failed, 1, VC_COMM_MAX, &why);
    if (rc || (!sum_rc && failed < 0.5))
        return rc;
    if (sum_rc && err)
        *err = why;
    return sum_rc ? sum_rc : vc_fail(err, VC_ESTOP, "another rank has failed");
}

void vtrain_sequence_failed(vtrain_sequence *s, const vc_err *err)
{
    if (s)
        vc_comm_leave(s->ranks, err);
}

/* nccl.c - NCCL's calls as the table of links; see backend.h, common/comm/device.c
 *
 * Communicators are non-blocking: a call may return "in progress", and no other call may follow
 * until look reports its end. So a rank that never answers cannot block the caller for ever. */
#include <nccl.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda/device.h"

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 18, 0)
#error "NCCL 2.18 or later is needed"
#endif

struct vt_link {
    ncclComm_t comm;
    cudaStream_t stream;
};

static int check(ncclResult_t rc, const char *call, vc_err *err)
{
    if (rc == ncclSuccess || rc == ncclInProgress)
        return 0;
    return vc_fail(err, VC_EFAIL, "%s: %s", call, ncclGetErrorString(rc));
}

static ncclDataType_t type_of(vc_dtype type)
{
    return type == VC_BF16 ? ncclBfloat16 : ncclFloat32;
}

static int nccl_id(char id[VT_LINK_ID], vc_err *err)
{
    ncclUniqueId own;

    _Static_assert(sizeof own == VT_LINK_ID, "an id has 128 bytes");

    int rc = check(ncclGetUniqueId(&own), "id", err);
    if (!rc)
        memcpy(id, &own, sizeof own);
    return rc;
}

/* Aborts, since ncclCommDestroy waits for ranks that may never answer. */
static void nccl_close(vt_link *l)
{
    if (l->comm)
        ncclCommAbort(l->comm);
    free(l);
}

static int nccl_open(vt_link **out, vt_dev *d, int rank, int size, const char id[VT_LINK_ID],
                     vc_err *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId all;
    vt_link *l = calloc(1, sizeof *l);

    *out = NULL;
    if (!l)
        return vc_no_memory(err);
    config.blocking = 0;
    l->stream = d->stream;
    memcpy(&all, id, sizeof all);
    int rc = check(ncclCommInitRankConfig(&l->comm, size, all, rank, &config), "start", err);
    if (rc) {
        nccl_close(l);
        return rc;
    }
    *out = l;
    return 0;
}

static int nccl_look(vt_link *l, vt_link_state *state, vc_err *err)
{
    ncclResult_t at = ncclSuccess;
    int rc = check(ncclCommGetAsyncError(l->comm, &at), "state", err);

    if (!rc)
        rc = check(at, "state", err);
    if (rc)
        return rc;
    *state = VT_LINK_CALLING;
    if (at == ncclInProgress)
        return 0;
    cudaError_t e = cudaStreamQuery(l->stream);
    *state = e == cudaErrorNotReady ? VT_LINK_RUNNING : VT_LINK_IDLE;
    return !e || e == cudaErrorNotReady
               ? 0 : vc_fail(err, VC_EFAIL, "stream: %s", cudaGetErrorString(e));
}

static int nccl_sum(vt_link *l, void *x, size_t n, vc_dtype type, vc_err *err)
{
    return check(ncclAllReduce(x, x, n, type_of(type), ncclSum, l->comm, l->stream), "all-reduce",
                 err);
}

static int nccl_sum_scatter(vt_link *l, void *mine, const void *x, size_t n, vc_dtype type,
                            vc_err *err)
{
    return check(ncclReduceScatter(x, mine, n, type_of(type), ncclSum, l->comm, l->stream),
                 "reduce-scatter", err);
}

static int nccl_gather(vt_link *l, void *all, const void *mine, size_t bytes, vc_err *err)
{
    return check(ncclAllGather(mine, all, bytes, ncclInt8, l->comm, l->stream), "all-gather", err);
}

static int nccl_exchange(vt_link *l, void *to, const vc_piece *in, const void *from,
                         const vc_piece *out, vc_err *err)
{
    int size;
    int rc = check(ncclCommCount(l->comm, &size), "exchange", err);

    if (!rc)
        rc = check(ncclGroupStart(), "exchange", err);
    if (rc)
        return rc;
    for (int r = 0; !rc && r < size; r++) {
        rc = check(ncclSend((const char *)from + out[r].at, out[r].n, ncclInt8, r, l->comm,
                            l->stream), "exchange", err);
        if (!rc)
            rc = check(ncclRecv((char *)to + in[r].at, in[r].n, ncclInt8, r, l->comm, l->stream),
                       "exchange", err);
    }
    int end_rc = check(ncclGroupEnd(), "exchange", rc ? NULL : err);
    return rc ? rc : end_rc;
}

const vt_links cuda_links = {
    .name = "NCCL", .id = nccl_id, .open = nccl_open, .close = nccl_close,
    .look = nccl_look, .sum = nccl_sum, .sum_scatter = nccl_sum_scatter, .gather = nccl_gather,
    .exchange = nccl_exchange,
};

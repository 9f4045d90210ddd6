/* cuda.c - the CUDA device and the backend table; see cuda.h */
#include "common/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/cuda/device.h"

static int cuda_status(vt_dev *d, vc_err *err)
{
    if (cuda_ok(d, (int)cudaStreamSynchronize(d->stream), "a kernel") && !d->of)
        cuda_check_ids(d);
    int rc = d->fault;
    if (rc)
        vc_fail(err, rc, "cuda: %s", d->fault_text);
    d->fault = 0;
    return rc;
}

/* ---- open and close ---- */

static void cuda_close(vt_dev *d)
{
    if (!d)
        return;
    if (d->of) {
        cudaStreamSynchronize(d->stream);
        cudaStreamDestroy(d->stream);
        free(d);
        return;
    }
    if (d->runtime) {
        if (d->runtime->stream)
            cudaStreamSynchronize(d->runtime->stream);
        cuda_blas_close(d->blas);
        cuda_dnn_close(d->dnn);
        cuda_transfer_close(d);
        cuda_memory_close(d);
        if (d->runtime->stream)
            cudaStreamDestroy(d->runtime->stream);
    }
    free(d->runtime);
    free(d);
}

static int choose(cuda_runtime *r, int index, vc_err *err)
{
    int count = 0;
    cudaError_t rc = cudaGetDeviceCount(&count);

    if (rc || !count)
        return vc_fail(err, VC_EINVAL, "cuda: %s", rc ? cudaGetErrorString(rc) : "no GPU");
    if (index >= count)
        return vc_fail(err, VC_EINVAL, "device \"cuda:%d\": this machine has %d GPUs (without a "
                       "number each rank of a machine uses the next GPU)", index, count);
    rc = cudaGetDeviceProperties(&r->about, index);
    if (!rc)
        rc = cudaSetDevice(index);
    if (rc)
        return vc_fail(err, VC_EFAIL, "cuda:%d: %s", index, cudaGetErrorString(rc));
    if (r->about.major < 8)
        return vc_fail(err, VC_EINVAL, "cuda:%d: %s has compute capability %d.%d, 8.0 is needed",
                       index, r->about.name, r->about.major, r->about.minor);
    r->index = index;
    return 0;
}

static int set_up(vt_dev *d, const vt_options *o, int index, vc_err *err)
{
    cuda_runtime *r = d->runtime;
    int rc = choose(r, index, err);

    if (rc)
        return rc;
    cudaError_t e = cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking);
    if (e)
        return vc_fail(err, VC_EFAIL, "cuda:%d: %s", index, cudaGetErrorString(e));
    d->stream = r->stream;
    d->compute = o->compute;
    d->repeatable = o->repeatable;
    rc = cuda_memory_open(d, err);
    if (!rc)
        rc = cuda_transfer_open(d, err);
    if (!rc)
        rc = cuda_blas_open(d, err);
    if (!rc)
        rc = cuda_dnn_open(d, err);
    if (rc)
        return rc;
    int runtime = 0;
    char dnn[24];
    cudaRuntimeGetVersion(&runtime);
    snprintf(d->describe, sizeof d->describe, "%.100s, %zu GiB, CUDA %d.%d, %s", r->about.name,
             r->about.totalGlobalMem >> 30, runtime / 1000, runtime % 1000 / 10,
             cuda_dnn_version(dnn));
    return 0;
}

static int cuda_open(vt_dev **out, const vt_options *o, int index, vc_err *err)
{
    *out = NULL;
    vt_dev *d = calloc(1, sizeof *d);
    if (!d || !(d->runtime = calloc(1, sizeof *d->runtime))) {
        free(d);
        return vc_fail(err, VC_ENOMEM, "cuda: out of memory");
    }
    int rc = set_up(d, o, index, err);
    if (rc) {
        cuda_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

static const char *cuda_describe(vt_dev *d) { return d->describe; }

/* ---- a second stream ---- */

static int cuda_second_stream(vt_dev **out, vt_dev *of, vc_err *err)
{
    cudaStream_t stream;
    int least = 0, most = 0;

    *out = NULL;
    cudaDeviceGetStreamPriorityRange(&least, &most);       /* other ranks wait for this stream */
    cudaError_t e = cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, most);
    if (e)
        return vc_fail(err, VC_EFAIL, "cuda: second stream: %s", cudaGetErrorString(e));
    vt_dev *d = malloc(sizeof *d);
    if (!d) {
        cudaStreamDestroy(stream);
        return vc_fail(err, VC_ENOMEM, "cuda: out of memory");
    }
    *d = (vt_dev){ .stream = stream, .compute = of->compute, .repeatable = of->repeatable,
                   .bad_id = of->bad_id, .runtime = of->runtime, .of = of };
    *out = d;
    return 0;
}

static void cuda_adopt(vt_dev *d)
{
    cuda_ok(d, (int)cudaSetDevice(d->runtime->index), "a thread's device");
}

static vt_event *event_open(vt_dev *d)
{
    cudaEvent_t e = NULL;

    cuda_ok(d, (int)cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "event");
    return (vt_event *)e;
}

static void event_close(vt_event *e) { cudaEventDestroy((cudaEvent_t)e); }

static void record(vt_dev *d, vt_event *e)
{
    cuda_ok(d, (int)cudaEventRecord((cudaEvent_t)e, d->stream), "event");
}

static void after(vt_dev *d, vt_event *e)
{
    cuda_ok(d, (int)cudaStreamWaitEvent(d->stream, (cudaEvent_t)e, 0), "event");
}

/* ---- products whose library may lack an epilogue ---- */

void cuda_matmul_gelu(vt_dev *d, vt_tensor *y, vt_tensor *pre, const vt_tensor *a,
                      const vt_tensor *b, bool tb, const vt_tensor *bias, float alpha, float beta)
{
    if (!cuda_fused_gelu(d, y, pre, a, b, tb, bias, alpha, beta))
        vt_gelu_after(&vt_cuda, d, y, pre, a, b, tb, bias, alpha, beta);
}

void cuda_matmul_gelu_grad(vt_dev *d, vt_tensor *dx, const vt_tensor *a, const vt_tensor *b,
                           bool tb, const vt_tensor *pre, float alpha, float beta)
{
    if (!cuda_fused_gelu_grad(d, dx, a, b, tb, pre, alpha, beta))
        vt_gelu_grad_after(&vt_cuda, d, dx, a, b, tb, pre, alpha, beta);
}

void cuda_matmul_bias_grad(vt_dev *d, vt_tensor *dw, vt_tensor *db, const vt_tensor *dy,
                           const vt_tensor *x, float beta)
{
    if (cuda_fused_bias_grad(d, dw, db, dy, x, beta))
        return;
    vt_bias_grad_after(&vt_cuda, d, dw, db, dy, x, beta);
    vt_wrote(db);
}

const vt_backend vt_cuda = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .status = cuda_status,
    .reserve = cuda_reserve,
    .grow = cuda_grow,
    .shrink = cuda_shrink,
    .room = cuda_room,
    .dry = cuda_dry,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .host_memory = false,
    .rounds_products = true,
    .second = cuda_second_stream,
    .adopt = cuda_adopt,
    .event_open = event_open,
    .event_close = event_close,
    .record = record,
    .after = after,
#ifdef VLT_NCCL
    .links = &cuda_links,
#endif
    .upload = cuda_upload,
    .download = cuda_download,
    .fetch = cuda_fetch,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .waited = cuda_waited,
    .move = cuda_move,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .launch = cuda_launch,
    .drop = cuda_drop,
#define VT_KERNEL(result, name, args) .name = cuda_##name,
#include "common/tensor/kernel_list.h"
};

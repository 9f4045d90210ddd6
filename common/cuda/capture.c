/* capture.c - captures the stream of kernels as a CUDA graph and launches it; see backend.h */
#include <stdlib.h>

#include "common/cuda/device.h"

struct vt_graph {
    cudaGraphExec_t exec;
    unsigned moves;                            /* the device's `moves` at the capture */
};

/* In this mode only calls of this thread can invalidate the capture; other threads are free. */
int cuda_capture_begin(vt_dev *d, vc_err *err)
{
    cudaError_t rc = cudaStreamBeginCapture(d->runtime->stream, cudaStreamCaptureModeThreadLocal);

    d->capturing = !rc;
    return rc ? vc_fail(err, VC_EFAIL, "capture: %s", cudaGetErrorString(rc)) : 0;
}

int cuda_capture_end(vt_dev *d, vt_graph **out, vc_err *err)
{
    cudaGraph_t graph = NULL;
    vt_graph *g = calloc(1, sizeof *g);

    *out = NULL;
    d->capturing = false;
    cuda_ok(d, (int)cudaStreamEndCapture(d->runtime->stream, &graph), "capture");
    if (!g)
        cuda_fault(d, VC_ENOMEM, "capture: out of memory");
    if (!d->fault && cuda_ok(d, (int)cudaGraphInstantiate(&g->exec, graph, 0), "capture"))
        cuda_ok(d, (int)cudaGraphUpload(g->exec, d->runtime->stream), "capture");
    if (graph)
        cudaGraphDestroy(graph);
    if (!d->fault) {
        g->moves = d->moves;
        *out = g;
        return 0;
    }
    if (g && g->exec)
        cudaGraphExecDestroy(g->exec);
    free(g);
    cudaGetLastError();                        /* clears the error, which is reported here */
    int rc = vc_fail(err, d->fault, "%s", d->fault_text);
    d->fault = 0;
    return rc;
}

bool cuda_launch(vt_dev *d, vt_graph *g)
{
    if (g->moves != d->moves)
        return false;
    cuda_ok(d, (int)cudaGraphLaunch(g->exec, d->runtime->stream), "launch");
    return true;
}

void cuda_drop(vt_dev *d, vt_graph *g)
{
    cudaStreamSynchronize(d->runtime->stream); /* the graph may still run */
    cudaGraphExecDestroy(g->exec);
    free(g);
}

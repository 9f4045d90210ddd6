/* capture.c - what the stream of kernels is given, kept and launched at once: backend.h */
#include <stdlib.h>

#include "common/cuda/device.h"

struct vt_graph {
    cudaGraphExec_t exec;
    unsigned moves;                            /* of the device's scratch, when it was made */
};

/* Other threads go on as they like: only this one's calls could spoil the capture. */
int cuda_capture_begin(vt_dev *d, vc_err *err)
{
    cudaError_t rc = cudaStreamBeginCapture(d->runtime->stream, cudaStreamCaptureModeThreadLocal);

    d->keeping = !rc;
    return rc ? vc_fail(err, VC_EFAIL, "capture: %s", cudaGetErrorString(rc)) : 0;
}

int cuda_capture_end(vt_dev *d, vt_graph **out, vc_err *err)
{
    cudaGraph_t graph = NULL;
    vt_graph *g = calloc(1, sizeof *g);

    *out = NULL;
    d->keeping = false;
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
    cudaGetLastError();                        /* it is told here */
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
    cudaStreamSynchronize(d->runtime->stream); /* it may be running */
    cudaGraphExecDestroy(g->exec);
    free(g);
}

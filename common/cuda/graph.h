/* graph.h - cuDNN's graph interface in plain C: operations on tensors become one plan; inside
 * common/cuda and its tests.
 *
 * A graph is built op by op; its first failure sticks and later calls do nothing, so that building
 * has no checks until cuda_graph_plan. It plans for a device behind a handle or, with no GPU at
 * all, for one that is only described. A planned graph is run any number of times and owns all its
 * descriptors. Not thread-safe. */
#ifndef COMMON_CUDA_GRAPH_H
#define COMMON_CUDA_GRAPH_H

#include <cudnn.h>
#include <cudnn_graph.h>

#include "common/base/err.h"

typedef cudnnBackendDescriptor_t cuda_node;    /* a tensor or an op; borrowed from its graph */

enum { CUDA_GRAPH_NODES = 192, CUDA_GRAPH_OPS = 40, CUDA_GRAPH_AXES = 5 };

typedef struct cuda_graph {
    cudnnHandle_t handle;                      /* NULL: `device` is planned for */
    cudnnBackendDescriptor_t device;
    cuda_node node[CUDA_GRAPH_NODES], op[CUDA_GRAPH_OPS];
    int nodes, ops;
    int64_t next_id;                           /* of tensors in between */
    cudnnBackendDescriptor_t plan;             /* set by cuda_graph_plan */
    int64_t workspace;                         /* bytes it needs */
    int64_t engine;                            /* cuDNN's number of what runs it */
    int code;                                  /* first failure, VC_E* */
    char why[200];
} cuda_graph;

/* A device's description (JSON with the keys of docs/cuda.md) to plan without one. */
int cuda_graph_describe(cudnnBackendDescriptor_t *device, const char *json, vc_err *err);

void cuda_graph_init(cuda_graph *g, cudnnHandle_t handle, cudnnBackendDescriptor_t device);
void cuda_graph_close(cuda_graph *g);

typedef struct cuda_dims {
    int nd;
    int64_t dim[CUDA_GRAPH_AXES], stride[CUDA_GRAPH_AXES];
} cuda_dims;
/* id: how cuda_graph_run finds its memory (1..99). */
cuda_node cuda_graph_tensor(cuda_graph *g, int64_t id, cudnnDataType_t type, const cuda_dims *s);
/* A number of the host, [1,1,1,1] f32. */
cuda_node cuda_graph_number(cuda_graph *g, int64_t id);
/* Made by one op and read by others; never in memory. */
cuda_node cuda_graph_between(cuda_graph *g, cudnnDataType_t type, const cuda_dims *s);

/* y = mode(x, b, t); b and t may be NULL. compute: of the arithmetic; axis: GEN_INDEX's, else -1 */
void cuda_graph_point(cuda_graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute,
                      int64_t axis, cuda_node x, cuda_node b, cuda_node t, cuda_node y);
/* Over the axes along which y has size 1. */
void cuda_graph_reduce(cuda_graph *g, cudnnReduceTensorOp_t how, cuda_node x, cuda_node y);
/* c = a b over the last two axes; m, n, k: lengths [B,1,1,1] i32 below the sizes, or NULL */
void cuda_graph_matmul(cuda_graph *g, cuda_node a, cuda_node b, cuda_node c, cuda_node m,
                       cuda_node n, cuda_node k);
void cuda_graph_reshape(cuda_graph *g, cuda_node x, cuda_node y);
/* Zero padding before and after, strides, of three axes. */
void cuda_graph_conv(cuda_graph *g, cuda_node x, cuda_node w, cuda_node y, const int64_t *before,
                     const int64_t *after, const int64_t *stride);

/* The first way that cuDNN's heuristics name and that builds. */
int cuda_graph_plan(cuda_graph *g, vc_err *err);
/* n tensors: device memory, for numbers host memory. */
cudnnStatus_t cuda_graph_run(const cuda_graph *g, int n, const int64_t *id, void *const *data,
                             void *workspace);

#endif

/* graph.h - cuDNN's graph interface in plain C, which compiles operations on tensors to one plan;
 * inside common/cuda and its tests.
 *
 * A graph is built op by op; after its first failure later calls do nothing, so that callers check
 * only cuda_graph_plan. A graph is planned for the device of a handle or, without a GPU, for a
 * device that is only described. A planned graph may be run any number of times and owns all its
 * descriptors. Not thread-safe. */
#ifndef COMMON_CUDA_GRAPH_H
#define COMMON_CUDA_GRAPH_H

#include <cudnn.h>
#include <cudnn_graph.h>

#include "common/base/err.h"

typedef cudnnBackendDescriptor_t cuda_node;    /* a tensor or an op; borrowed from its graph */

enum { CUDA_GRAPH_NODES = 384, CUDA_GRAPH_OPS = 40, CUDA_GRAPH_AXES = 5 };

typedef struct cuda_graph {
    cudnnHandle_t handle;                      /* NULL: plans are for `device` */
    cudnnBackendDescriptor_t device;
    cuda_node node[CUDA_GRAPH_NODES], op[CUDA_GRAPH_OPS];
    int nodes, ops;
    int64_t next_id;                           /* of intermediate tensors */
    cudnnBackendDescriptor_t plan;             /* set by cuda_graph_plan */
    int64_t workspace;                         /* bytes that the plan needs */
    int64_t engine;                            /* cuDNN's number of the plan's engine */
    uint64_t avoid;                            /* CUDA_NOTE bits: engines with one are not taken */
    uint64_t notes;                            /* CUDA_NOTE bits of the plan's engine */
    int64_t enough;                            /* bytes: of plans that need more workspace, the one
                                                * with the least is taken; 0: no limit */
    int avoided;                               /* engines that `avoid` excluded */
    int code;                                  /* first failure, VC_E* */
    char why[200];
} cuda_graph;

/* Returns VC_EINVAL, with the reason, for a library older than CUDA_OLDEST_CUDNN. version:
 * cudnnGetVersion()'s. */
enum { CUDA_OLDEST_CUDNN = 91600 };
int cuda_graph_supports(size_t version, vc_err *err);

/* Makes a device from a description (JSON with the keys of tests/device/test_plans.c), to plan
 * without a GPU. */
int cuda_graph_describe(cudnnBackendDescriptor_t *device, const char *json, vc_err *err);

void cuda_graph_init(cuda_graph *g, cudnnHandle_t handle, cudnnBackendDescriptor_t device);
void cuda_graph_close(cuda_graph *g);

typedef struct cuda_dims {
    int nd;
    int64_t dim[CUDA_GRAPH_AXES], stride[CUDA_GRAPH_AXES];
} cuda_dims;
/* Adds a tensor in memory; cuda_graph_run finds its memory by id (1..99). */
cuda_node cuda_graph_tensor(cuda_graph *g, int64_t id, cudnnDataType_t type, const cuda_dims *s);
/* Adds a number passed by value from the host, [1,1,1,1] f32. */
cuda_node cuda_graph_number(cuda_graph *g, int64_t id);
/* Adds an intermediate tensor, made by one op and read by others, never in memory. */
cuda_node cuda_graph_between(cuda_graph *g, cudnnDataType_t type, const cuda_dims *s);

/* y = mode(x, b, t), with arithmetic in type compute; b and t may be NULL; axis is GEN_INDEX's,
 * else -1. */
void cuda_graph_point(cuda_graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute,
                      int64_t axis, cuda_node x, cuda_node b, cuda_node t, cuda_node y);
/* y = x reduced over the axes along which y has size 1. */
void cuda_graph_reduce(cuda_graph *g, cudnnReduceTensorOp_t how, cuda_node x, cuda_node y);
/* c = a b over the last two axes; m, n, k are lengths [B,1,1,1] i32 within the sizes, or NULL. */
void cuda_graph_matmul(cuda_graph *g, cuda_node a, cuda_node b, cuda_node c, cuda_node m,
                       cuda_node n, cuda_node k);
void cuda_graph_reshape(cuda_graph *g, cuda_node x, cuda_node y);
/* y = the convolution of x by w, with zero padding and strides of three axes. */
void cuda_graph_conv(cuda_graph *g, cuda_node x, cuda_node w, cuda_node y, const int64_t *before,
                     const int64_t *after, const int64_t *stride);

/* A bit of `avoid` and `notes`: cuDNN's numerical note about an engine. */
#define CUDA_NOTE(name) (UINT64_C(1) << CUDNN_NUMERICAL_NOTE_##name)
/* The notes of engines that do not compute f32 data in f32: with tensor cores it is TF32. */
#define CUDA_NOTES_INEXACT (CUDA_NOTE(TENSOR_CORE) | CUDA_NOTE(DOWN_CONVERT_INPUTS) | \
                            CUDA_NOTE(REDUCED_PRECISION_REDUCTION))

/* Plans by the first engine that builds, has none of the notes to avoid and needs no more than
 * `enough` workspace: of cuDNN's heuristics, or else of its list of engines that always work. */
int cuda_graph_plan(cuda_graph *g, vc_err *err);
/* Runs a planned graph on n tensors by id: data are device pointers, for numbers host pointers. */
cudnnStatus_t cuda_graph_run(const cuda_graph *g, int n, const int64_t *id, void *const *data,
                             void *workspace);

#endif

/* graph.c - cuDNN's graphs in plain C; see graph.h */
#include "common/cuda/graph.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_BETWEEN = 100, CONFIGS = 32, ALIGNMENT = 16 };

/* ---- descriptors ---- */

static bool good(cuda_graph *g, cudnnStatus_t rc, const char *what)
{
    if (!rc || g->code)
        return !g->code;
    char text[160] = "";
    cudnnGetLastErrorString(text, sizeof text);
    snprintf(g->why, sizeof g->why, "%s: %s%s%.120s", what, cudnnGetErrorString(rc),
             text[0] ? ": " : "", text);
    g->code = VC_EFAIL;
    return false;
}

static void set(cuda_graph *g, cuda_node d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *v)
{
    if (!g->code)
        good(g, cudnnBackendSetAttribute(d, name, type, n, v), "attribute");
}

static void set_node(cuda_graph *g, cuda_node d, cudnnBackendAttributeName_t name, cuda_node v)
{
    if (v)
        set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &v);
}

static void set_type(cuda_graph *g, cuda_node d, cudnnBackendAttributeName_t name,
                     cudnnDataType_t v)
{
    set(g, d, name, CUDNN_TYPE_DATA_TYPE, 1, &v);
}

static void set_int(cuda_graph *g, cuda_node d, cudnnBackendAttributeName_t name, int64_t v)
{
    set(g, d, name, CUDNN_TYPE_INT64, 1, &v);
}

static cuda_node new_node(cuda_graph *g, cudnnBackendDescriptorType_t type)
{
    cuda_node d = NULL;

    if (!g->code && g->nodes == CUDA_GRAPH_NODES) {
        snprintf(g->why, sizeof g->why, "more than %d descriptors", CUDA_GRAPH_NODES);
        g->code = VC_EFAIL;
    }
    if (g->code || !good(g, cudnnBackendCreateDescriptor(type, &d), "descriptor"))
        return NULL;
    return g->node[g->nodes++] = d;
}

static void finish(cuda_graph *g, cuda_node d, const char *what)
{
    if (!g->code)
        good(g, cudnnBackendFinalize(d), what);
}

static void push(cuda_graph *g, cuda_node op, const char *what)
{
    finish(g, op, what);
    if (!g->code && g->ops < CUDA_GRAPH_OPS)
        g->op[g->ops++] = op;
}

/* ---- tensors ---- */

int cuda_graph_supports(size_t version, vc_err *err)
{
    if (version >= CUDA_OLDEST_CUDNN)
        return 0;
    return vc_fail(err, VC_EINVAL, "cuDNN %zu.%zu.%zu is too old: 9.16 is needed, since "
                   "attention's gradient reads outside its tensors in CUDA graphs before 9.15.1 "
                   "unless the number of keys is a multiple of 128, and 9.10.0 and 9.10.1 have "
                   "other faults. Install a newer one (pip: nvidia-cudnn-cu13) and put its folder "
                   "into LD_LIBRARY_PATH", version / 10000, version / 100 % 100, version % 100);
}

int cuda_graph_describe(cudnnBackendDescriptor_t *device, const char *json, vc_err *err)
{
    cudnnStatus_t rc = cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, device);

    if (!rc)
        rc = cudnnBackendSetAttribute(*device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                      CUDNN_TYPE_CHAR, (int64_t)strlen(json), json);
    if (!rc)
        rc = cudnnBackendFinalize(*device);
    if (rc)
        vc_fail(err, VC_EFAIL, "cuDNN: device description: %s", cudnnGetErrorString(rc));
    return rc ? VC_EFAIL : 0;
}

void cuda_graph_init(cuda_graph *g, cudnnHandle_t handle, cudnnBackendDescriptor_t device)
{
    *g = (cuda_graph){ .handle = handle, .device = device, .next_id = FIRST_BETWEEN };
}

void cuda_graph_close(cuda_graph *g)
{
    while (g->nodes)
        cudnnBackendDestroyDescriptor(g->node[--g->nodes]);
    g->plan = NULL;
}

static cuda_node tensor(cuda_graph *g, int64_t id, cudnnDataType_t type, const cuda_dims *s,
                        bool between, bool number)
{
    cuda_node d = new_node(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

    set_int(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    set_type(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, s->nd, s->dim);
    set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, s->nd, s->stride);
    set_int(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, number ? 4 : ALIGNMENT);
    if (between)
        set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &between);
    if (number)
        set(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &number);
    finish(g, d, "tensor");
    return d;
}

cuda_node cuda_graph_tensor(cuda_graph *g, int64_t id, cudnnDataType_t type, const cuda_dims *s)
{
    return tensor(g, id, type, s, false, false);
}

cuda_node cuda_graph_number(cuda_graph *g, int64_t id)
{
    const cuda_dims one = { 4, { 1, 1, 1, 1 }, { 1, 1, 1, 1 } };

    return tensor(g, id, CUDNN_DATA_FLOAT, &one, false, true);
}

cuda_node cuda_graph_between(cuda_graph *g, cudnnDataType_t type, const cuda_dims *s)
{
    return tensor(g, g->next_id++, type, s, true, false);
}

/* ---- ops ---- */

void cuda_graph_point(cuda_graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute,
                      int64_t axis, cuda_node x, cuda_node b, cuda_node t, cuda_node y)
{
    cuda_node how = new_node(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);

    set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set_type(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, compute);
    if (axis >= 0)
        set_int(g, how, CUDNN_ATTR_POINTWISE_AXIS, axis);
    finish(g, how, "pointwise");
    cuda_node op = new_node(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_node(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_node(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_node(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_node(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    set_node(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    push(g, op, "pointwise");
}

void cuda_graph_reduce(cuda_graph *g, cudnnReduceTensorOp_t how, cuda_node x, cuda_node y)
{
    cuda_node d = new_node(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);

    set(g, d, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
    set_type(g, d, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    finish(g, d, "reduction");
    cuda_node op = new_node(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_node(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, d);
    set_node(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_node(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    push(g, op, "reduction");
}

void cuda_graph_matmul(cuda_graph *g, cuda_node a, cuda_node b, cuda_node c, cuda_node m,
                       cuda_node n, cuda_node k)
{
    cuda_node d = new_node(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);

    set_type(g, d, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    finish(g, d, "matmul");
    cuda_node op = new_node(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_node(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, d);
    set_node(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_node(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_node(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    set_node(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, m);
    set_node(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, n);
    set_node(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, k);
    push(g, op, "matmul");
}

void cuda_graph_reshape(cuda_graph *g, cuda_node x, cuda_node y)
{
    cuda_node op = new_node(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

    set_node(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_node(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    push(g, op, "reshape");
}

void cuda_graph_conv(cuda_graph *g, cuda_node x, cuda_node w, cuda_node y, const int64_t *before,
                     const int64_t *after, const int64_t *stride)
{
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t dilation[3] = { 1, 1, 1 };
    const float alpha = 1, beta = 0;
    cuda_node d = new_node(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);

    set_int(g, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 3);
    set_type(g, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    set(g, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(g, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 3, before);
    set(g, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 3, after);
    set(g, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 3, stride);
    set(g, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 3, dilation);
    finish(g, d, "convolution");
    cuda_node op = new_node(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    set_node(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, d);
    set_node(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    set_node(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    set_node(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &alpha);
    set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &beta);
    push(g, op, "convolution");
}

/* ---- plans ---- */

static cuda_node op_graph(cuda_graph *g)
{
    cuda_node graph = new_node(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);

    if (g->handle)
        set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle);
    set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->ops, g->op);
    finish(g, graph, "graph");
    return graph;
}

static cuda_node heuristics(cuda_graph *g, cuda_node graph, cudnnBackendHeurMode_t mode)
{
    cuda_node d = new_node(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);

    set_node(g, d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(g, d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    set_node(g, d, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, g->device);
    finish(g, d, "heuristics");
    return d;
}

/* Sets g->engine and g->notes to those of a configuration. */
static void look_at_engine(cuda_graph *g, cuda_node config)
{
    cuda_node engine = new_node(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t n = 0;

    g->notes = 0;
    if (g->code)
        return;
    good(g, cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine), "engine");
    good(g, cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                                     &n, &g->engine), "engine");
    n = 0;
    good(g, cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                     CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                     &n, note), "engine's notes");
    for (int64_t i = 0; i < n && !g->code; i++)
        g->notes |= UINT64_C(1) << note[i];
}

static void try_config(cuda_graph *g, cuda_node config)
{
    const int64_t engine = g->engine;
    const uint64_t notes = g->notes;
    int64_t n = 0, workspace = 0;

    look_at_engine(g, config);
    bool avoided = g->notes & g->avoid;
    g->avoided += avoided;
    if (!g->code && !avoided) {
        cuda_node plan = new_node(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        if (g->handle)
            set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle);
        set_node(g, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, g->device);
        set_node(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
        if (!g->code && !cudnnBackendFinalize(plan) &&
            good(g, cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                             CUDNN_TYPE_INT64, 1, &n, &workspace), "workspace") &&
            (!g->plan || workspace < g->workspace)) {
            g->plan = plan;
            g->workspace = workspace;
            return;
        }
    }
    g->engine = engine;
    g->notes = notes;
}

/* Returns true while the search for a plan goes on. */
static bool wanting(const cuda_graph *g)
{
    return !g->code && (!g->plan || (g->enough && g->workspace > g->enough));
}

/* Tries the configurations of one of cuDNN's lists; returns their number. */
static int64_t try_list(cuda_graph *g, cuda_node graph, cudnnBackendHeurMode_t mode)
{
    cuda_node heur = heuristics(g, graph, mode), config[CONFIGS];
    int64_t n = 0;

    for (int i = 0; i < CONFIGS; i++)
        config[i] = new_node(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (!g->code)
        good(g, cudnnBackendGetAttribute(heur, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGS, &n, config),
             "heuristics");
    for (int64_t i = 0; i < n && wanting(g); i++)
        try_config(g, config[i]);
    return n;
}

int cuda_graph_plan(cuda_graph *g, vc_err *err)
{
    cuda_node graph = op_graph(g);
    int64_t n = try_list(g, graph, CUDNN_HEUR_MODE_A);

    if (wanting(g))
        n += try_list(g, graph, CUDNN_HEUR_MODE_FALLBACK);
    if (!g->code && !g->plan) {
        g->code = VC_EFAIL;
        snprintf(g->why, sizeof g->why, "of %d engines %d are not exact enough, and none of the "
                 "others can be built", (int)n, g->avoided);
    }
    return g->code ? vc_fail(err, g->code, "cuDNN: %s", g->why) : 0;
}

cudnnStatus_t cuda_graph_run(const cuda_graph *g, int n, const int64_t *id, void *const *data,
                             void *workspace)
{
    cudnnBackendDescriptor_t pack;
    cudnnStatus_t rc = cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);

    if (rc)
        return rc;
    rc = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n,
                                  id);
    if (!rc)
        rc = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                      CUDNN_TYPE_VOID_PTR, n, data);
    if (!rc)
        rc = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                      1, &workspace);
    if (!rc)
        rc = cudnnBackendFinalize(pack);
    if (!rc)
        rc = cudnnBackendExecute(g->handle, g->plan, pack);
    cudnnBackendDestroyDescriptor(pack);
    return rc;
}

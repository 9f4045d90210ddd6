/* dnnl_api.h - the functions of oneDNN whose names or arguments differ between versions 2 and 3,
 * under one name each; inside dnnl.c only.
 *
 * The version is that of the headers that CMake found. Version 3 has no descriptors of operations:
 * one call makes the descriptor of a primitive. Its memory descriptors are handles, which must be
 * destroyed; in version 2 they are structs. A function that only has another name takes oneDNN's
 * arguments; all but dn_desc_close and dn_view return oneDNN's status. */
#ifndef COMMON_CPU_DNNL_API_H
#define COMMON_CPU_DNNL_API_H

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <stddef.h>

#if DNNL_CPU_RUNTIME != DNNL_RUNTIME_OMP
#error "This oneDNN is not built for OpenMP, so vlt cannot choose its threads (docs/engine.md)."
#endif

/* A description of an operand, made by dn_desc_open or dn_desc_open_strided; a zeroed one may be
 * closed too. dn_view borrows it in the form that other functions take. */
typedef dnnl_memory_desc_t dn_desc;

#if DNNL_VERSION_MAJOR >= 3

typedef const_dnnl_memory_desc_t dn_desc_view;
#define dn_desc_open dnnl_memory_desc_create_with_tag
#define dn_desc_open_strided dnnl_memory_desc_create_with_strides
#define dn_matmul_desc dnnl_matmul_primitive_desc_create

static inline dn_desc_view dn_view(const dn_desc *m) { return *m; }

static inline void dn_desc_close(dn_desc *m)
{
    if (*m)
        dnnl_memory_desc_destroy(*m);
}

/* Adds the old values of the result. */
static inline dnnl_status_t dn_append_sum(dnnl_post_ops_t p)
{
    return dnnl_post_ops_append_sum(p, 1, 0, dnnl_data_type_undef);
}

#else

typedef const dnnl_memory_desc_t *dn_desc_view;
#define dn_desc_open dnnl_memory_desc_init_by_tag
#define dn_desc_open_strided dnnl_memory_desc_init_by_strides

static inline dn_desc_view dn_view(const dn_desc *m) { return m; }
static inline void dn_desc_close(dn_desc *m) { (void)m; }
static inline dnnl_status_t dn_append_sum(dnnl_post_ops_t p)
{
    return dnnl_post_ops_append_sum(p, 1);
}

static inline dnnl_status_t dn_matmul_desc(dnnl_primitive_desc_t *pd, dnnl_engine_t e,
                                           dn_desc_view x, dn_desc_view w, dn_desc_view b,
                                           dn_desc_view y, const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t d;
    dnnl_status_t rc = dnnl_matmul_desc_init(&d, x, w, b, y);
    return rc ? rc : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}

#endif

static inline dnnl_status_t dn_conv_desc(dnnl_primitive_desc_t *pd, dnnl_engine_t e,
                                         dn_desc_view x, dn_desc_view w, dn_desc_view b,
                                         dn_desc_view y, const dnnl_dims_t stride,
                                         const dnnl_dims_t before, const dnnl_dims_t after,
                                         const_dnnl_primitive_attr_t attr)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_convolution_forward_primitive_desc_create(pd, e, dnnl_forward_inference,
                                                          dnnl_convolution_direct, x, w, b, y,
                                                          stride, NULL, before, after, attr);
#else
    dnnl_convolution_desc_t d;
    dnnl_status_t rc = dnnl_convolution_forward_desc_init(
        &d, dnnl_forward_inference, dnnl_convolution_direct, x, w, b, y, stride, before, after);
    return rc ? rc : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
#endif
}

#endif

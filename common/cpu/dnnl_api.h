/* dnnl_api.h - the functions of oneDNN whose names or arguments differ between versions 2 and 3,
 * under one name each; inside dnnl.c only.
 *
 * The version is that of the headers that CMake found. Version 3 has no descriptors of operations:
 * one call per kind of primitive makes the primitive's descriptor. Its memory descriptors are
 * handles, which must be destroyed; in version 2 they are structs. All calls return oneDNN's
 * status. */
#ifndef COMMON_CPU_DNNL_API_H
#define COMMON_CPU_DNNL_API_H

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <stddef.h>

#if DNNL_CPU_RUNTIME != DNNL_RUNTIME_OMP
#error "This oneDNN is not built for OpenMP, so vlt cannot choose its threads (docs/engine.md)."
#endif

/* A zeroed dn_desc may be closed. A view is what oneDNN's functions take, NULL for no operand. */
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t dn_desc;
typedef const_dnnl_memory_desc_t dn_desc_view;

static inline dnnl_status_t dn_desc_open(dn_desc *m, int nd, const dnnl_dims_t dim,
                                         dnnl_data_type_t t, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(m, nd, dim, t, tag);
}

static inline dnnl_status_t dn_matrix_open(dn_desc *m, const dnnl_dims_t dim, dnnl_data_type_t t,
                                           const dnnl_dims_t stride)
{
    return dnnl_memory_desc_create_with_strides(m, 2, dim, t, stride);
}

static inline void dn_desc_close(dn_desc *m)
{
    if (*m)
        dnnl_memory_desc_destroy(*m);
}

static inline dn_desc_view dn_view(const dn_desc *m) { return *m; }

static inline dnnl_status_t dn_append_sum(dnnl_post_ops_t p)
{
    return dnnl_post_ops_append_sum(p, 1, 0, dnnl_data_type_undef);
}

static inline dnnl_status_t dn_matmul_desc(dnnl_primitive_desc_t *pd, dnnl_engine_t e,
                                           dn_desc_view x, dn_desc_view w, dn_desc_view b,
                                           dn_desc_view y, const_dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(pd, e, x, w, b, y, attr);
}

static inline dnnl_status_t dn_conv_desc(dnnl_primitive_desc_t *pd, dnnl_engine_t e,
                                         dn_desc_view x, dn_desc_view w, dn_desc_view b,
                                         dn_desc_view y, const dnnl_dims_t stride,
                                         const dnnl_dims_t before, const dnnl_dims_t after,
                                         const_dnnl_primitive_attr_t attr)
{
    return dnnl_convolution_forward_primitive_desc_create(pd, e, dnnl_forward_inference,
                                                          dnnl_convolution_direct, x, w, b, y,
                                                          stride, NULL, before, after, attr);
}
#else
typedef dnnl_memory_desc_t dn_desc;
typedef const dnnl_memory_desc_t *dn_desc_view;

static inline dnnl_status_t dn_desc_open(dn_desc *m, int nd, const dnnl_dims_t dim,
                                         dnnl_data_type_t t, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(m, nd, dim, t, tag);
}

static inline dnnl_status_t dn_matrix_open(dn_desc *m, const dnnl_dims_t dim, dnnl_data_type_t t,
                                           const dnnl_dims_t stride)
{
    return dnnl_memory_desc_init_by_strides(m, 2, dim, t, stride);
}

static inline void dn_desc_close(dn_desc *m) { (void)m; }
static inline dn_desc_view dn_view(const dn_desc *m) { return m; }

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

static inline dnnl_status_t dn_conv_desc(dnnl_primitive_desc_t *pd, dnnl_engine_t e,
                                         dn_desc_view x, dn_desc_view w, dn_desc_view b,
                                         dn_desc_view y, const dnnl_dims_t stride,
                                         const dnnl_dims_t before, const dnnl_dims_t after,
                                         const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t rc = dnnl_convolution_forward_desc_init(
        &d, dnnl_forward_inference, dnnl_convolution_direct, x, w, b, y, stride, before, after);
    return rc ? rc : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}
#endif

#endif

/* dnnl.c - convolution and products by oneDNN; see dnnl.h. The dn_ functions are dnnl_api.h's. */
#include "common/cpu/dnnl.h"

#include "common/cpu/dnnl_api.h"
#include "common/cpu/guard.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/map.h"

/* ---- a convolution or a product of one shape ---- */

static dnnl_data_type_t type_of(int64_t t)
{
    return t == VC_BF16 ? dnnl_bf16 : t == VC_I8 ? dnnl_s8 : dnnl_f32;
}

/* The key of a primitive, compared as bytes, so all fields are int64_t. A product's x, w and y are
 * A, B and C. */
typedef struct shape {
    int64_t product;                           /* 1: a product, 0: a convolution */
    dnnl_dims_t x, w, y;                       /* as oneDNN orders them: N C T H W, K C t h w */
    dnnl_dims_t stride, before, after;         /* of a convolution */
    dnnl_dims_t x_stride, w_stride, y_stride;  /* of a product */
    int64_t type;                              /* of x, w and y; y is i32 where it is i8 */
    int64_t bias, sum, threads;                /* threads: size of the team that it is made for */
} shape;

/* Memories: x, the user's weights, packed weights, bias, y, scratchpads of reorder and
 * convolution. */
enum { M_X, M_W, M_PACKED, M_B, M_Y, M_PAD_W, M_PAD, MEMORIES };

typedef struct kept {
    shape key;
    uint64_t used;                             /* number of its last use; 0: a free entry */
    bool able;                                 /* false: oneDNN has no fast implementation */
    bool allocates;                            /* it allocates memory in every call */
    dnnl_primitive_t pack, run;
    dnnl_memory_t mem[MEMORIES];
    size_t bytes[MEMORIES];
} kept;

enum { KEPT = 128 };               /* cached shapes: a VAE has about 20 per size, a DiT 40 */

struct cpu_dnnl {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr;                /* callers give scratchpads: no malloc in a call */
    char version[32];
    uint64_t clock;
    bool compiled;                             /* compile_products was called */
    kept kept[KEPT];
};

static void kept_close(kept *c)
{
    if (c->pack)
        dnnl_primitive_destroy(c->pack);
    if (c->run)
        dnnl_primitive_destroy(c->run);
    for (int i = 0; i < MEMORIES; i++)
        if (c->mem[i])
            dnnl_memory_destroy(c->mem[i]);
    *c = (kept){ 0 };
}

static dnnl_status_t memory(const cpu_dnnl *d, kept *c, int which, dn_desc_view m)
{
    if (!m || (c->bytes[which] = dnnl_memory_desc_get_size(m)) == 0)
        return dnnl_success;
    return dnnl_memory_create(&c->mem[which], m, d->engine, DNNL_MEMORY_NONE);
}

/* Makes primitives and memories of described operands: d[] is x, the user's w, w of any layout, b,
 * y. */
static dnnl_status_t build_conv(const cpu_dnnl *dn, kept *c, const dn_desc d[5])
{
    dnnl_primitive_desc_t conv_pd = NULL, pack_pd = NULL;
    dn_desc_view b = c->key.bias ? dn_view(&d[3]) : NULL;
    const char *name = "ref";
    dnnl_status_t rc = dn_conv_desc(&conv_pd, dn->engine, dn_view(&d[0]), dn_view(&d[2]), b,
                                    dn_view(&d[4]), c->key.stride, c->key.before, c->key.after,
                                    dn->attr);

    if (!rc)
        rc = dnnl_primitive_desc_query(conv_pd, dnnl_query_impl_info_str, 0, &name);
    if (!rc && strstr(name, "ref"))            /* conv.c is faster than the reference loops */
        rc = dnnl_unimplemented;
    dn_desc_view packed =
        rc ? NULL : dnnl_primitive_desc_query_md(conv_pd, dnnl_query_weights_md, 0);
    if (!rc)
        rc = dnnl_reorder_primitive_desc_create(&pack_pd, dn_view(&d[1]), dn->engine, packed,
                                                dn->engine, dn->attr);
    if (!rc)
        rc = dnnl_primitive_create(&c->run, conv_pd);
    if (!rc)
        rc = dnnl_primitive_create(&c->pack, pack_pd);

    const struct { int which; dn_desc_view m; } of[] = {
        { M_X, dn_view(&d[0]) }, { M_W, dn_view(&d[1]) }, { M_PACKED, packed }, { M_B, b },
        { M_Y, dn_view(&d[4]) },
        { M_PAD_W, rc ? NULL : dnnl_primitive_desc_query_md(pack_pd, dnnl_query_scratchpad_md, 0) },
        { M_PAD, rc ? NULL : dnnl_primitive_desc_query_md(conv_pd, dnnl_query_scratchpad_md, 0) },
    };
    for (size_t i = 0; !rc && i < sizeof of / sizeof *of; i++)
        rc = memory(dn, c, of[i].which, of[i].m);
    if (pack_pd)
        dnnl_primitive_desc_destroy(pack_pd);
    if (conv_pd)
        dnnl_primitive_desc_destroy(conv_pd);
    return rc;
}


static dnnl_status_t conv_open(const cpu_dnnl *dn, kept *c)
{
    const shape *k = &c->key;
    dnnl_data_type_t t = type_of(k->type);
    dn_desc d[5];
    dnnl_status_t rc;

    memset(d, 0, sizeof d);
    rc = dn_desc_open(&d[0], 5, k->x, t, dnnl_ndhwc);
    if (!rc)
        rc = dn_desc_open(&d[1], 5, k->w, t, dnnl_oidhw);
    if (!rc)
        rc = dn_desc_open(&d[2], 5, k->w, t, dnnl_format_tag_any);
    if (!rc)
        rc = dn_desc_open(&d[3], 1, k->w, dnnl_f32, dnnl_a);
    if (!rc)
        rc = dn_desc_open(&d[4], 5, k->y, t, dnnl_ndhwc);
    if (!rc)
        rc = build_conv(dn, c, d);
    for (int i = 0; i < 5; i++)
        dn_desc_close(&d[i]);
    return rc;
}

/* Makes the attributes of a product, which is added to C if k->sum is set. */
static dnnl_status_t product_attr(const cpu_dnnl *dn, const shape *k, dnnl_primitive_attr_t *attr)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t rc = dnnl_primitive_attr_clone(attr, dn->attr);

    if (rc || !k->sum)
        return rc;
    rc = dnnl_post_ops_create(&ops);
    if (!rc)
        rc = dn_append_sum(ops);
    if (!rc)
        rc = dnnl_primitive_attr_set_post_ops(*attr, ops);
    if (ops)
        dnnl_post_ops_destroy(ops);
    return rc;
}

/* Without VNNI, sums of two products of int8 saturate at 16 bits. */
static bool has_int8(void)
{
    const unsigned isa = dnnl_get_effective_cpu_isa(), wide = dnnl_cpu_isa_avx512_core_vnni,
                   narrow = dnnl_cpu_isa_avx2_vnni;
    return (isa & wide) == wide || (isa & narrow) == narrow;
}

/* d[] is a, b, bias, c. */
static dnnl_status_t build_product(const cpu_dnnl *dn, kept *c, const dn_desc d[4],
                                   const_dnnl_primitive_attr_t attr)
{
    dnnl_primitive_desc_t pd = NULL;
    dn_desc_view b = c->key.bias ? dn_view(&d[2]) : NULL;
    const char *name = "";
    dnnl_status_t rc =
        dn_matmul_desc(&pd, dn->engine, dn_view(&d[0]), dn_view(&d[1]), b, dn_view(&d[3]), attr);

    if (!rc)
        rc = dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    if (!rc && strstr(name, "ref"))            /* matmul.c is faster than the reference loops */
        rc = dnnl_unimplemented;
    c->allocates = strncmp(name, "brg", 3) != 0;          /* sgemm's implementations do */
    if (!rc && c->key.type == VC_I8 && (c->allocates || !has_int8()))
        rc = dnnl_unimplemented;
    if (!rc)
        rc = dnnl_primitive_create(&c->run, pd);
    const struct { int which; dn_desc_view m; } of[] = {
        { M_X, dn_view(&d[0]) }, { M_PACKED, dn_view(&d[1]) }, { M_B, b }, { M_Y, dn_view(&d[3]) },
        { M_PAD, rc ? NULL : dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0) },
    };
    for (size_t i = 0; !rc && i < sizeof of / sizeof *of; i++)
        rc = memory(dn, c, of[i].which, of[i].m);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return rc;
}

static dnnl_status_t product_open(const cpu_dnnl *dn, kept *c)
{
    const shape *k = &c->key;
    const dnnl_dims_t row = { 1, k->y[1] }, packed = { k->y[1], 1 };
    dnnl_primitive_attr_t attr = NULL;
    dn_desc d[4];

    memset(d, 0, sizeof d);
    const dnnl_data_type_t in = type_of(k->type), out = k->type == VC_I8 ? dnnl_s32 : dnnl_f32;
    dnnl_status_t rc = dn_desc_open_strided(&d[0], 2, k->x, in, k->x_stride);
    if (!rc)
        rc = dn_desc_open_strided(&d[1], 2, k->w, in, k->w_stride);
    if (!rc)
        rc = dn_desc_open_strided(&d[2], 2, row, dnnl_f32, packed);
    if (!rc)
        rc = dn_desc_open_strided(&d[3], 2, k->y, out, k->y_stride);
    if (!rc)
        rc = product_attr(dn, k, &attr);
    if (!rc)
        rc = build_product(dn, c, d, attr);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    for (int i = 0; i < 4; i++)
        dn_desc_close(&d[i]);
    return rc;
}

/* Begins a call of oneDNN, which plans for OpenMP's default number of threads, gives each thread
 * one part, and relies on the same number when it runs: a smaller team would leave parts undone. */
static int team_begin(const shape *k, const char *call)
{
    int before = omp_get_max_threads();

    vc_signal_stack();
    omp_set_num_threads((int)k->threads);
    cpu_guard_begin(call);
    return before;
}

static void team_end(int before)
{
    cpu_guard_end();
    omp_set_num_threads(before);
}

/* Returns the cached primitive of a shape, or makes it, dropping the one unused for longest. If
 * memory is out the result is a fault and is not cached as impossible, since another implementation
 * would give different bits. */
static kept *find(vt_dev *d, const shape *key)
{
    cpu_dnnl *dn = d->dnnl;
    kept *c = dn->kept;

    for (int i = 0; i < KEPT; i++) {
        kept *at = &dn->kept[i];
        if (at->used && !memcmp(&at->key, key, sizeof *key)) {
            at->used = ++dn->clock;
            return at;
        }
        if (at->used < c->used)
            c = at;
    }
    int before = team_begin(key, "oneDNN plans");
    kept_close(c);
    c->key = *key;
    c->used = ++dn->clock;
    dnnl_status_t rc = key->product ? product_open(dn, c) : conv_open(dn, c);
    team_end(before);
    c->able = rc == dnnl_success;
    if (rc == dnnl_out_of_memory) {
        c->used = 0;
        cpu_fault(d, VC_ENOMEM, "out of memory in oneDNN");
    }
    return c;
}

/* ---- execution ---- */

/* Returns true for types that oneDNN convolves fast on this machine. Without AMX and AVX512-BF16
 * its bf16 is missing or slower than widening to f32. */
static bool fast(const vt_dev *d, vc_dtype t)
{
    unsigned need = d->isa.amx_bf16 ? dnnl_cpu_isa_avx512_core_amx : dnnl_cpu_isa_avx512_core_bf16;

    if (t == VC_F32)
        return true;
    return t == VC_BF16 && d->isa.avx512_bf16 && (dnnl_get_effective_cpu_isa() & need) == need;
}

static shape conv_shape(const vt_dev *d, const vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                       const vt_tensor *b, const vt_conv *c)
{
    shape k;

    memset(&k, 0, sizeof k);
    for (int i = 0; i < 5; i++) {
        int from = i == 0 ? 0 : i == 1 ? 4 : i - 1;    /* N T H W C to N C T H W */
        k.x[i] = x->dim[from];
        k.y[i] = y->dim[from];
        k.w[i] = w->dim[i];
    }
    for (int i = 0; i < 3; i++) {
        k.stride[i] = c->stride[i];
        k.before[i] = c->before[i];
        k.after[i] = c->after[i];
    }
    k.type = x->dtype;
    k.bias = b != NULL;
    k.threads = cpu_team(d->threads);
    return k;
}

/* Returns t's values in the type `type`: converted at `to`, or t's own data if it has the type. */
static void *as_type(const vt_dev *d, const vt_tensor *t, vc_dtype type, char *to)
{
    if (t->dtype == type)
        return t->data;

    float row[1024];
    size_t n = (size_t)vt_count(t), size = vc_dtype_size(t->dtype), out = vc_dtype_size(type);
    for (size_t i = 0; i < n; i += 1024) {
        size_t m = n - i < 1024 ? n - i : 1024;
        d->rows->load(row, (const char *)t->data + i * size, t->dtype, m);
        d->rows->store(to + i * out, type, row, m);
    }
    return to;
}

static size_t aligned(size_t n) { return (n + 63) & ~(size_t)63; }

static bool execute(const vt_dev *d, const kept *c, void *const at[MEMORIES])
{
    const cpu_dnnl *dn = d->dnnl;
    dnnl_exec_arg_t pack[] = { { DNNL_ARG_FROM, c->mem[M_W] }, { DNNL_ARG_TO, c->mem[M_PACKED] },
                               { DNNL_ARG_SCRATCHPAD, c->mem[M_PAD_W] } };
    dnnl_exec_arg_t run[5] = { { DNNL_ARG_SRC, c->mem[M_X] },
                               { DNNL_ARG_WEIGHTS, c->mem[M_PACKED] },
                               { DNNL_ARG_DST, c->mem[M_Y] } };
    int n = 3;
    dnnl_status_t rc = dnnl_success;

    if (c->mem[M_B])
        run[n++] = (dnnl_exec_arg_t){ DNNL_ARG_BIAS, c->mem[M_B] };
    if (c->mem[M_PAD])
        run[n++] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, c->mem[M_PAD] };
    for (int i = 0; !rc && i < MEMORIES; i++)
        if (c->mem[i])
            rc = dnnl_memory_set_data_handle(c->mem[i], at[i]);
    int before = team_begin(&c->key, "oneDNN computes");
    if (!rc && c->pack)
        rc = dnnl_primitive_execute(c->pack, dn->stream, c->mem[M_PAD_W] ? 3 : 2, pack);
    if (!rc)
        rc = dnnl_primitive_execute(c->run, dn->stream, n, run);
    if (!rc)
        rc = dnnl_stream_wait(dn->stream);
    team_end(before);
    return rc == dnnl_success;
}

bool cpu_dnnl_conv3d(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                     const vt_tensor *b, const vt_conv *v)
{
    if (!d->dnnl || !fast(d, x->dtype) || y->dtype != x->dtype)
        return false;

    shape key = conv_shape(d, y, x, w, b, v);
    const kept *c = find(d, &key);
    if (!c->able)
        return false;

    size_t w_own = w->dtype == x->dtype ? 0 : aligned(c->bytes[M_W]),
           b_own = aligned(c->bytes[M_B]);
    size_t pad = aligned(c->bytes[M_PAD] > c->bytes[M_PAD_W] ? c->bytes[M_PAD] : c->bytes[M_PAD_W]);
    if (!cpu_scratch_one(d, d->threads, pad + aligned(c->bytes[M_PACKED]) + w_own + b_own))
        return true;                           /* a dry step, or a fault was recorded */

    char *s = cpu_scratch(d, d->threads, 0);
    void *at[MEMORIES] = { [M_X] = x->data, [M_Y] = y->data, [M_PAD] = s, [M_PAD_W] = s };
    at[M_PACKED] = s + pad;
    at[M_W] = as_type(d, w, x->dtype, s + pad + aligned(c->bytes[M_PACKED]));
    if (b)
        at[M_B] = as_type(d, b, VC_F32, s + pad + aligned(c->bytes[M_PACKED]) + w_own);

    return execute(d, c, at);
}

static void matrix(dnnl_dims_t dim, dnnl_dims_t stride, const vt_tensor *t, bool transposed)
{
    dim[transposed] = t->dim[0];
    dim[!transposed] = t->dim[1];
    stride[transposed] = t->stride[0];
    stride[!transposed] = 1;
}

/* Without AVX-512 oneDNN compiles the code of products, 1.4 MB, when it computes the first one. A
 * dry step computes a small one, so that this memory is in the plan. */
static void compile_products(vt_dev *d, const shape *key)
{
    enum { N = 16 };
    float a[N * N] = { 0 }, b[N * N] = { 0 }, c[N * N];

    if (d->dnnl->compiled || d->isa.avx512)
        return;
    d->dnnl->compiled = true;
    int before = team_begin(key, "oneDNN computes");
    if (dnnl_sgemm('N', 'N', N, N, N, 1, a, N, b, N, 0, c, N))
        d->dnnl->compiled = false;             /* its memory is not counted */
    team_end(before);
}

bool cpu_dnnl_matmul(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b,
                     bool tb, const vt_tensor *bias, float alpha, float beta, bool any)
{
    const vc_dtype type = a->dtype, sums = type == VC_I8 ? VC_I32 : VC_F32;

    if (!d->dnnl || (type != VC_F32 && type != VC_I8) || b->dtype != type || c->dtype != sums ||
        alpha != 1 || (beta != 0 && beta != 1) || vt_count(a) == 0)
        return false;
    /* matmul.c computes vectors: oneDNN 2.6 multiplies the old C by 0 there, which keeps NaN. */
    if (c->dim[0] <= 1 || c->dim[1] <= 1)
        return false;
    if (bias && bias->dim[0] != c->dim[1]) {
        cpu_fault(d, VC_EFAIL, "a product of %d columns has a bias of %d numbers",
                  (int)c->dim[1], (int)bias->dim[0]);
        return true;
    }

    shape key;
    memset(&key, 0, sizeof key);
    key.product = 1;
    key.type = type;
    matrix(key.x, key.x_stride, a, ta);
    matrix(key.w, key.w_stride, b, tb);
    matrix(key.y, key.y_stride, c, false);
    key.bias = bias != NULL;
    key.sum = beta == 1;
    key.threads = cpu_team(d->threads);
    const kept *k = find(d, &key);
    if (!k->able || (k->allocates && !any))
        return false;

    if (d->dry && type == VC_F32)
        compile_products(d, &key);
    size_t pad = aligned(k->bytes[M_PAD]), bytes = pad + aligned(k->bytes[M_B]);
    if (!cpu_scratch_one(d, d->threads, bytes))
        return true;
    char *s = cpu_scratch(d, d->threads, 0);
    void *at[MEMORIES] = { [M_X] = a->data, [M_PACKED] = b->data, [M_Y] = c->data, [M_PAD] = s };
    if (bias)
        at[M_B] = as_type(d, bias, VC_F32, s + pad);
    if (!execute(d, k, at))                    /* C may be partly written, so no second attempt */
        cpu_fault(d, VC_EFAIL, "oneDNN failed at a product of %d x %d x %d", (int)c->dim[0],
                  (int)c->dim[1], (int)a->dim[ta ? 0 : 1]);
    return true;
}

/* ---- open and close ---- */

int cpu_dnnl_open(cpu_dnnl **out, vt_dev *d, vc_err *err)
{
    *out = NULL;
    if (!strcmp(d->isa.set, "plain")) /* forced or without vector units: oneDNN is not used */
        return 0;
    cpu_dnnl *c = calloc(1, sizeof *c);
    if (!c)
        return vc_fail(err, VC_ENOMEM, "oneDNN: out of memory");

    cpu_guard_begin("oneDNN starts");
    dnnl_status_t rc = dnnl_engine_create(&c->engine, dnnl_cpu, 0);
    if (!rc)
        rc = dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags);
    if (!rc)                       /* its own cache keeps the code of 1024 more shapes */
        rc = dnnl_set_primitive_cache_capacity(0);
    if (!rc)
        rc = dnnl_primitive_attr_create(&c->attr);
    if (!rc)
        rc = dnnl_primitive_attr_set_scratchpad_mode(c->attr, dnnl_scratchpad_mode_user);
    cpu_guard_end();
    if (rc) {
        cpu_dnnl_close(c);
        return vc_fail(err, rc == dnnl_out_of_memory ? VC_ENOMEM : VC_EFAIL,
                       "oneDNN cannot be initialised: %s", dnnl_status2str(rc));
    }
    const dnnl_version_t *v = dnnl_version();
    snprintf(c->version, sizeof c->version, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    *out = c;
    return 0;
}

void cpu_dnnl_close(cpu_dnnl *c)
{
    if (!c)
        return;
    for (int i = 0; i < KEPT; i++)
        kept_close(&c->kept[i]);
    if (c->attr)
        dnnl_primitive_attr_destroy(c->attr);
    if (c->stream)
        dnnl_stream_destroy(c->stream);
    if (c->engine)
        dnnl_engine_destroy(c->engine);
    free(c);
}

const char *cpu_dnnl_version(const cpu_dnnl *c) { return c->version; }

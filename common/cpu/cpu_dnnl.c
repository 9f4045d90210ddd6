/* cpu_dnnl.c - see cpu_dnnl.h. For oneDNN 2.6 and 3: the names dn_ hide where they differ. */
#include "common/cpu/cpu_dnnl.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the two versions ---- */

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t dn_desc;
typedef const_dnnl_memory_desc_t dn_desc_view;

static dnnl_status_t dn_desc_open(dn_desc *m, int nd, const dnnl_dims_t dim, dnnl_data_type_t t,
                                  dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(m, nd, dim, t, tag);
}
static void dn_desc_close(dn_desc *m)
{
    if (*m)
        dnnl_memory_desc_destroy(*m);
}
static dn_desc_view dn_view(const dn_desc *m) { return *m; }

static dnnl_status_t dn_conv_desc(dnnl_primitive_desc_t *pd, dnnl_engine_t e, dn_desc_view x,
                                  dn_desc_view w, dn_desc_view b, dn_desc_view y,
                                  const dnnl_dims_t stride, const dnnl_dims_t before,
                                  const dnnl_dims_t after, const_dnnl_primitive_attr_t attr)
{
    return dnnl_convolution_forward_primitive_desc_create(pd, e, dnnl_forward_inference,
                                                          dnnl_convolution_direct, x, w, b, y,
                                                          stride, NULL, before, after, attr);
}
#else
typedef dnnl_memory_desc_t dn_desc;
typedef const dnnl_memory_desc_t *dn_desc_view;

static dnnl_status_t dn_desc_open(dn_desc *m, int nd, const dnnl_dims_t dim, dnnl_data_type_t t,
                                  dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(m, nd, dim, t, tag);
}
static void dn_desc_close(dn_desc *m) { (void)m; }
static dn_desc_view dn_view(const dn_desc *m) { return m; }

static dnnl_status_t dn_conv_desc(dnnl_primitive_desc_t *pd, dnnl_engine_t e, dn_desc_view x,
                                  dn_desc_view w, dn_desc_view b, dn_desc_view y,
                                  const dnnl_dims_t stride, const dnnl_dims_t before,
                                  const dnnl_dims_t after, const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t rc = dnnl_convolution_forward_desc_init(
        &d, dnnl_forward_inference, dnnl_convolution_direct, x, w, b, y, stride, before, after);
    return rc ? rc : dnnl_primitive_desc_create(pd, &d, attr, e, NULL);
}
#endif

/* ---- a convolution of one shape ---- */

typedef struct conv_key {                      /* all int64_t: compared as bytes */
    dnnl_dims_t x, w, y;                       /* as oneDNN orders them: N C T H W, K C t h w */
    dnnl_dims_t stride, before, after;
    int64_t type, bias, threads;
} conv_key;

/* In this order: x, user's weights, packed weights, bias, y, scratchpads of reorder and
 * convolution. */
enum { M_X, M_W, M_PACKED, M_B, M_Y, M_PAD_W, M_PAD, MEMORIES };

typedef struct conv {
    conv_key key;
    uint64_t used;                             /* when last; 0: a free place */
    bool able;                                 /* false: oneDNN has nothing fast for it */
    dnnl_primitive_t pack, run;
    dnnl_memory_t mem[MEMORIES];
    size_t bytes[MEMORIES];
} conv;

enum { KEPT = 128 };                           /* shapes: a VAE has about 20 per picture size */

struct cpu_dnnl {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr;                /* scratchpads are ours: no malloc in a call */
    uint64_t clock;
    conv kept[KEPT];
};

static void conv_close(conv *c)
{
    if (c->pack)
        dnnl_primitive_destroy(c->pack);
    if (c->run)
        dnnl_primitive_destroy(c->run);
    for (int i = 0; i < MEMORIES; i++)
        if (c->mem[i])
            dnnl_memory_destroy(c->mem[i]);
    *c = (conv){ 0 };
}

static dnnl_status_t memory(const cpu_dnnl *d, conv *c, int which, dn_desc_view m)
{
    if (!m || (c->bytes[which] = dnnl_memory_desc_get_size(m)) == 0)
        return dnnl_success;
    return dnnl_memory_create(&c->mem[which], m, d->engine, DNNL_MEMORY_NONE);
}

/* Primitives and memories of described operands: d[] is x, user's w, w of any layout, b, y. */
static dnnl_status_t build(const cpu_dnnl *dn, conv *c, const dn_desc d[5])
{
    dnnl_primitive_desc_t conv_pd = NULL, pack_pd = NULL;
    dn_desc_view b = c->key.bias ? dn_view(&d[3]) : NULL;
    const char *name = "ref";
    dnnl_status_t rc = dn_conv_desc(&conv_pd, dn->engine, dn_view(&d[0]), dn_view(&d[2]), b,
                                    dn_view(&d[4]), c->key.stride, c->key.before, c->key.after,
                                    dn->attr);

    if (!rc)
        rc = dnnl_primitive_desc_query(conv_pd, dnnl_query_impl_info_str, 0, &name);
    if (!rc && strstr(name, "ref"))            /* the reference loops: ours are faster */
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

static bool conv_open(const cpu_dnnl *dn, conv *c)
{
    const conv_key *k = &c->key;
    dnnl_data_type_t t = k->type == VC_BF16 ? dnnl_bf16 : dnnl_f32;
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
        rc = build(dn, c, d);
    for (int i = 0; i < 5; i++)
        dn_desc_close(&d[i]);
    return rc == dnnl_success;
}

/* The kept convolution of a key; the one not used for longest makes room. */
static conv *find(cpu_dnnl *dn, const conv_key *key)
{
    conv *c = dn->kept;

    for (int i = 0; i < KEPT; i++) {
        conv *at = &dn->kept[i];
        if (at->used && !memcmp(&at->key, key, sizeof *key)) {
            at->used = ++dn->clock;
            return at;
        }
        if (at->used < c->used)
            c = at;
    }
    conv_close(c);
    c->key = *key;
    c->used = ++dn->clock;
    c->able = conv_open(dn, c);
    return c;
}

/* ---- running it ---- */

/* Types that oneDNN computes fast here. bf16 without AMX is slower than our widening to f32, or
 * missing. */
static bool fast(const vt_dev *d, vc_dtype t)
{
    if (t == VC_F32)
        return true;
    return t == VC_BF16 && d->isa.amx_bf16 &&
           (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_amx) ==
               dnnl_cpu_isa_avx512_core_amx;
}

static conv_key key_of(const vt_dev *d, const vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                       const vt_tensor *b, const vt_conv *c)
{
    conv_key k;

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
    k.threads = d->threads;
    return k;
}

/* t's values in another type at `to`, or t's own data if they have it already. */
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

static dnnl_status_t execute(const cpu_dnnl *dn, const conv *c, void *const at[MEMORIES])
{
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
    if (!rc)
        rc = dnnl_primitive_execute(c->pack, dn->stream, c->mem[M_PAD_W] ? 3 : 2, pack);
    if (!rc)
        rc = dnnl_primitive_execute(c->run, dn->stream, n, run);
    if (!rc)
        rc = dnnl_stream_wait(dn->stream);
    return rc;
}

bool cpu_dnnl_conv3d(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                     const vt_tensor *b, const vt_conv *v)
{
    if (!d->dnnl || !fast(d, x->dtype) || y->dtype != x->dtype)
        return false;

    conv_key key = key_of(d, y, x, w, b, v);
    const conv *c = find(d->dnnl, &key);
    if (!c->able)
        return false;

    size_t w_own = w->dtype == x->dtype ? 0 : aligned(c->bytes[M_W]),
           b_own = aligned(c->bytes[M_B]);
    size_t pad = aligned(c->bytes[M_PAD] > c->bytes[M_PAD_W] ? c->bytes[M_PAD] : c->bytes[M_PAD_W]);
    char *s = cpu_scratch(d, 0, aligned(c->bytes[M_PACKED]) + w_own + b_own + pad);
    if (!s)
        return true;                           /* the fault says it; ours would need as much */

    void *at[MEMORIES] = { [M_X] = x->data, [M_Y] = y->data, [M_PAD] = s, [M_PAD_W] = s };
    at[M_PACKED] = s + pad;
    at[M_W] = as_type(d, w, x->dtype, s + pad + aligned(c->bytes[M_PACKED]));
    if (b)
        at[M_B] = as_type(d, b, VC_F32, s + pad + aligned(c->bytes[M_PACKED]) + w_own);

    int before = omp_get_max_threads();        /* oneDNN runs with as many threads as OpenMP has */
    omp_set_num_threads(d->threads);
    dnnl_status_t rc = execute(d->dnnl, c, at);
    omp_set_num_threads(before);
    return rc == dnnl_success;
}

/* ---- open and close ---- */

int cpu_dnnl_open(cpu_dnnl **out, vt_dev *d, vc_err *err)
{
    *out = NULL;
    if (!strcmp(d->isa.set, "plain")) /* forced, or a machine without vectors: our own code alone */
        return 0;
    cpu_dnnl *c = calloc(1, sizeof *c);
    if (!c)
        return vc_fail(err, VC_ENOMEM, "oneDNN: out of memory");

    dnnl_status_t rc = dnnl_engine_create(&c->engine, dnnl_cpu, 0);
    if (!rc)
        rc = dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags);
    if (!rc)
        rc = dnnl_primitive_attr_create(&c->attr);
    if (!rc)
        rc = dnnl_primitive_attr_set_scratchpad_mode(c->attr, dnnl_scratchpad_mode_user);
    if (rc) {
        cpu_dnnl_close(c);
        return vc_fail(err, VC_EFAIL, "oneDNN does not start: status %d", (int)rc);
    }
    *out = c;
    return 0;
}

void cpu_dnnl_close(cpu_dnnl *c)
{
    if (!c)
        return;
    for (int i = 0; i < KEPT; i++)
        conv_close(&c->kept[i]);
    if (c->attr)
        dnnl_primitive_attr_destroy(c->attr);
    if (c->stream)
        dnnl_stream_destroy(c->stream);
    if (c->engine)
        dnnl_engine_destroy(c->engine);
    free(c);
}

#define TEXT(x) #x
#define DOTS(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)

const char *cpu_dnnl_version(void)
{
    return "oneDNN " DOTS(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH);
}

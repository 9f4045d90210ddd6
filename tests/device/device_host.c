/* device_host.c - see device_host.h */
#include "tests/device/device_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda/layout.h"
#include "tests/device/host_parts.h"

/* The linker's --wrap redirects calls of vt_backends() and vt_backend_open() to these functions,
 * which add the device "host". */
const vt_backend *const *__wrap_vt_backends(void);
int __real_vt_backend_open(const vt_backend **be, vt_dev **dev, const vt_options *o,
                           vc_err *passed, vc_err *err);
int __wrap_vt_backend_open(const vt_backend **be, vt_dev **dev, const vt_options *o,
                           vc_err *passed, vc_err *err);

const vt_backend *host_instead, *host_cpu_instead;

const vt_backend *const *__wrap_vt_backends(void)
{
    static const vt_backend *const all[] = { &host_backend, &vt_cpu, NULL };
    return all;
}

int __wrap_vt_backend_open(const vt_backend **be, vt_dev **dev, const vt_options *o,
                           vc_err *passed, vc_err *err)
{
    if (!o->device || strcmp(o->device, "host")) {
        int rc = __real_vt_backend_open(be, dev, o, passed, err);
        if (!rc && host_cpu_instead && *be == &vt_cpu)
            *be = host_cpu_instead;
        return rc;
    }
    *be = host_instead ? host_instead : &host_backend;
    return host_backend.open(dev, o, o->index, err);
}

/* ---- the functions of cuda.c ---- */

typedef struct transfer {
    void *dst;
    const void *src;
    size_t n;
} transfer;

/* Fills scratch with NaNs, which reveal a kernel that reads before it writes. */
static void poison(void *to, const void *args)
{
    const transfer *b = args;

    if (!host_captured(to, poison, b, sizeof *b))
        memset(b->dst, 0xff, b->n);
}

host_room host_has;

/* Returns true, and counts, if the device has not as many bytes of pool and scratch. */
static bool refused(const vt_dev *d, size_t pool, cuda_area area, size_t scratch, int *counted)
{
    size_t all = pool;

    for (int i = 0; i < CUDA_AREAS; i++)
        all += i == (int)area ? scratch : d->area_bytes[i];
    bool yes = (host_has.bytes && all > host_has.bytes) || (scratch && host_has.lack-- > 0);
    *counted += yes;
    return yes;
}

void *cuda_scratch(vt_dev *d, cuda_area area, size_t n)
{
    if (d->area_bytes[area] < n &&
        refused(d, d->runtime->pool, area, n, &host_has.scratch)) {
        cuda_fault(d, VC_ENOMEM, "no memory for %zu bytes of scratch", n);
        return NULL;
    }
    if (d->area_bytes[area] < n) {
        if (cuda_in_capture(d, "scratch that grows"))
            return NULL;
        d->moves++;
        free(d->area[area]);
        d->area[area] = aligned_alloc(256, (n + 255) / 256 * 256);
        d->area_bytes[area] = n;
    }
    poison(d->stream, &(transfer){ .dst = d->area[area], .n = n });
    return d->area[area];
}

bool cuda_ok(vt_dev *d, int rc, const char *op)
{
    if (rc)
        cuda_fault(d, VC_EFAIL, "%s: error %d", op, rc);
    return !rc;
}

static void move(void *to, const void *args)
{
    const transfer *b = args;

    if (host_captured(to, move, b, sizeof *b))
        return;
    host_advance(to);
    memmove(b->dst, b->src, b->n);
}

void cuda_copy_bytes(vt_dev *d, void *dst, const void *src, size_t n)
{
    move(d->stream, &(transfer){ dst, src, n });
}

void cuda_upload(vt_dev *d, void *dst, const void *src, size_t n)
{
    if (!cuda_in_capture(d, "an upload"))
        memcpy(dst, src, n);
}

void cuda_download(vt_dev *d, void *dst, const void *src, size_t n)
{
    host_counted.downloads++;
    if (!cuda_in_capture(d, "a download") && n)
        memcpy(dst, src, n);
}

/* ---- open, close, the rest ---- */

static void host_close(vt_dev *d)
{
    if (!d)
        return;
    for (int i = 0; d->runtime && i < VT_PLACES; i++)
        host_forget_read(d->runtime, (vt_place)i);
    for (int i = 0; i < CUDA_AREAS; i++)
        free(d->area[i]);
    if (d->runtime)
        vt_cpu.close(d->runtime->cpu);
    free(d->runtime);
    free(d->bad_id);
    free(d);
}

static void read_room(void)
{
    const char *text = getenv("VLT_HOST_ROOM"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    host_room room = { 0 };
    int of;

    if (text && rank && sscanf(text, "%d %zu %d", &of, &room.bytes, &room.lack) == 3 &&
        of == atoi(rank))
        host_has = room;
}

static int host_open(vt_dev **out, const vt_options *o, int index, vc_err *err)
{
    const char *count = getenv("VLT_HOST_DEVICES");        /* unlimited if unset */

    if (count && index >= atoi(count))
        return vc_fail(err, VC_EINVAL, "device \"host:%d\": this machine has %s", index, count);
    vt_dev *d = calloc(1, sizeof *d);
    d->runtime = calloc(1, sizeof *d->runtime);
    d->stream = &d->runtime->kernels;
    d->bad_id = malloc(sizeof *d->bad_id);
    *d->bad_id = UINT64_MAX;
    d->compute = o->compute;
    *out = d;
    read_room();
    return vt_cpu.open(&d->runtime->cpu, &(vt_options){ .threads = 1 }, 0, err);
}

static const char *host_describe(vt_dev *d) { return (void)d, "kernels of the CUDA backend"; }

static int host_status(vt_dev *d, vc_err *err)
{
    d->runtime->host = d->runtime->kernels.now;
    for (int i = 0; i < VT_PLACES; i++)
        host_forget_read(d->runtime, (vt_place)i);         /* all kernels that read it have run */
    cuda_check_ids(d);
    int rc = d->fault;

    if (rc)
        vc_fail(err, rc, "host: %s", d->fault_text);
    d->fault = 0;
    return rc ? rc : vt_cpu.status(d->runtime->cpu, err);
}

static int host_reserve(vt_dev *d, void **range, size_t *bytes, vc_err *err)
{
    return vt_cpu.reserve(d->runtime->cpu, range, bytes, err);
}

static int host_grow(vt_dev *d, size_t bytes, vc_err *err)
{
    if (refused(d, bytes, CUDA_AREAS, 0, &host_has.pool))
        return vc_fail(err, VC_ENOMEM, "no memory for a pool of %zu bytes", bytes);
    d->runtime->pool = bytes;
    return 0;
}

static void host_shrink(vt_dev *d) { d->runtime->pool = 0; }

static void *host_alloc(vt_dev *d, size_t bytes) { return vt_cpu.alloc(d->runtime->cpu, bytes); }

static void host_free(vt_dev *d, void *p, size_t bytes)
{
    host_finish_copies(d->runtime);
    vt_cpu.free(d->runtime->cpu, p, bytes);
}

typedef struct product {
    vt_dev *cpu;
    vt_tensor c, a, b, bias;
    bool ta, tb;
    float alpha, beta;
} product;

static void multiply(void *to, const void *args)
{
    const product *m = args;
    vt_tensor c = m->c;

    if (host_captured(to, multiply, m, sizeof *m))
        return;
    host_advance(to);
    vt_cpu.matmul(m->cpu, &c, &m->a, m->ta, &m->b, m->tb, m->bias.data ? &m->bias : NULL, m->alpha,
                  m->beta);
}

/* Sets *out to x in the type of the product, as blas.c does: f32 operands of a product in bf16 are
 * rounded. False after a fault. */
static bool operand(vt_dev *d, cuda_area area, vc_dtype type, const vt_tensor *x, vt_tensor *out)
{
    *out = *x;
    if (x->dtype != VC_F32 || type == VC_F32)
        return true;
    out->data = (void *)(uintptr_t)cuda_convert(d, area, type, x);
    out->dtype = type;
    int64_t stride = 1;
    for (int i = x->nd; i-- > 0; stride *= x->dim[i])
        out->stride[i] = stride;
    return out->data != NULL;
}

static void host_matmul(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b,
                        bool tb, const vt_tensor *bias, float alpha, float beta)
{
    const vc_dtype type = cuda_gemm_type(d->compute, c, a, b);
    vt_tensor left, right;

    if (operand(d, CUDA_LEFT, type, a, &left) && operand(d, CUDA_RIGHT, type, b, &right))
        multiply(d->stream, &(product){ d->runtime->cpu, *c, left, right,
                                        bias ? *bias : (vt_tensor){ 0 }, ta, tb, alpha, beta });
}

static void host_matmul_gelu(vt_dev *d, vt_tensor *y, vt_tensor *pre, const vt_tensor *a,
                             const vt_tensor *b, bool tb, const vt_tensor *bias, float alpha,
                             float beta)
{
    vt_gelu_after(&host_backend, d, y, pre, a, b, tb, bias, alpha, beta);
}

static void host_matmul_gelu_grad(vt_dev *d, vt_tensor *dx, const vt_tensor *a,
                                  const vt_tensor *b, bool tb, const vt_tensor *pre, float alpha,
                                  float beta)
{
    vt_gelu_grad_after(&host_backend, d, dx, a, b, tb, pre, alpha, beta);
}

static void host_matmul_bias_grad(vt_dev *d, vt_tensor *dw, vt_tensor *db, const vt_tensor *dy,
                                  const vt_tensor *x, float beta)
{
    vt_bias_grad_after(&host_backend, d, dw, db, dy, x, beta);
}

static void host_conv3d(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                        const vt_tensor *b, const vt_conv *c)
{
    if (cuda_in_capture(d, "conv3d"))           /* training uses no convolution */
        return;
    host_advance(d->stream);
    vt_conv rest;
    vt_tensor in = cuda_conv_input(&rest, x->dtype, x->dim[4], x, c);
    if (cuda_conv_fill(d, &in, x, c, &rest))
        vt_cpu.conv3d(d->runtime->cpu, y, &in, w, b, &rest);
}

/* The kernels of attend.h take minutes for the tokens of a video, which the CPU backend computes in
 * their place, as cuDNN does on a GPU. */
static bool is_long(vt_dev *d, const vt_tensor *q, const vt_tensor *k)
{
    bool yes = q->dim[1] * k->dim[1] > 1 << 24 && !d->dry;

    if (yes)
        host_advance(d->stream);
    return yes && !cuda_in_capture(d, "attention of many tokens");
}

static void host_attention(vt_dev *d, vt_tensor *o, vt_tensor *lse, const vt_tensor *q,
                           const vt_tensor *k, const vt_tensor *v, const vt_attn *how)
{
    if (is_long(d, q, k))
        vt_cpu.attention(d->runtime->cpu, o, lse, q, k, v, how);
    else
        cuda_attend_either(d, host_matmul, o, lse, q, k, v, how);
}

static void host_attention_grad(vt_dev *d, vt_tensor *dq, vt_tensor *dk, vt_tensor *dv,
                                const vt_tensor *dout, const vt_tensor *q, const vt_tensor *k,
                                const vt_tensor *v, const vt_tensor *o, const vt_tensor *lse,
                                const vt_attn *how)
{
    if (is_long(d, q, k))
        vt_cpu.attention_grad(d->runtime->cpu, dq, dk, dv, dout, q, k, v, o, lse, how);
    else
        cuda_attend_grad(d, dq, dk, dv, dout, q, k, v, o, lse, how);
}

/* These entries use libraries on a GPU; here they use the CPU backend. */
#define cuda_matmul host_matmul
#define cuda_matmul_gelu host_matmul_gelu
#define cuda_matmul_gelu_grad host_matmul_gelu_grad
#define cuda_matmul_bias_grad host_matmul_bias_grad
#define cuda_attention host_attention
#define cuda_attention_grad host_attention_grad
#define cuda_conv3d host_conv3d

const vt_backend host_backend = {
    .name = "host",
    .rounds_products = true,
    .open = host_open,
    .close = host_close,
    .describe = host_describe,
    .status = host_status,
    .reserve = host_reserve,
    .grow = host_grow,
    .shrink = host_shrink,
    .alloc = host_alloc,
    .free = host_free,
    .upload = cuda_upload,
    .download = host_download,
    .fetch = host_fetch,
    .enter = host_enter,
    .leave = host_leave,
    .waited = host_waited,
    .move = host_move,
    .pin = host_pin,
    .unpin = host_unpin,
    .capture_begin = host_capture_begin,
    .capture_end = host_capture_end,
    .launch = host_launch,
    .drop = host_drop,
#define VT_KERNEL(result, name, args) .name = cuda_##name,
#include "common/tensor/kernel_list.h"
};

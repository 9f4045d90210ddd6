/* kernel_figures.c - the work of a block of each row kernel at the shapes of CogVideoX-2B's LoRA
 * step at 49x480x720, as the interpreter of PTX counts it: prints, separated by tabs, what runs,
 * the kernel, instructions of a warp, about as many of the GPU's own, and the share of the copy
 * rate that issuing them allows. scripts/kernel_figures makes a table of it.
 *
 * The shares are computed, for an H100: 132 multiprocessors that issue four instructions a clock
 * at 1.755 GHz, and 3.0 TB/s. The argument is kernels.ptx. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/cuda/cuda.h"
#include "tests/device/device_host.h"
#include "tests/device/ptx.h"

enum { TOKENS = 17550, TEXT = 226, WIDTH = 1920, HEADS = 30, HEAD = 64, WARPS = 8 };

static ptx *kernels;
static double moved;                           /* bytes that the whole call needs to move */
static const char *what;

static int count(const char *name, const void *args, size_t bytes, uint64_t blocks)
{
    const double issued = 132.0 * 4 * 1.755e9, copied = 3.0e12;
    vc_err err = { 0 };
    ptx_kernel before = { 0 }, after = { 0 };

    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < ptx_kernels(kernels); i++) {
            ptx_kernel one = ptx_kernel_at(kernels, i);
            if (!strcmp(one.name, name))
                *(k ? &after : &before) = one;
        }
        if (!k && ptx_run(kernels, name, args, bytes, blocks / 2, 1, false, &err)) {
            fprintf(stderr, "%s: %s\n", what, err.text);
            exit(1);
        }
    }
    double own = after.weighed - before.weighed;
    double issue = own * (double)blocks / issued, memory = moved / copied;
    printf("%s\t%s\t%.0f\t%.0f\t%.0f\n", what, name,
           (double)(after.executed - before.executed) / WARPS, own / WARPS,
           100 * (memory > issue ? 1 : memory / issue));
    return 0;
}

static vt_buf buf = { .empty = true };

/* A tensor of zeros, whose pages take memory when they are touched. Its bytes are to be moved
 * unless they are repeated, with `row` as the stride of an axis of `rows`. */
static vt_tensor make(vc_dtype type, int64_t rows, int64_t n, int64_t row)
{
    size_t bytes = (size_t)(rows * n) * vc_dtype_size(type);
    vt_tensor t = { .dtype = type, .nd = 2, .dim = { rows, n }, .stride = { row, 1 }, .buf = &buf };

    t.data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
    if (t.data == MAP_FAILED)
        exit(1);
    moved += row ? (double)bytes : 0;
    return t;
}

#define T(type, rows, n) make(type, rows, n, n)

static void begin(const char *name)
{
    what = name;
    moved = 0;
    buf.empty = true;
}

static void maps(vt_dev *d)
{
    begin("add");
    vt_tensor y = T(VC_BF16, TOKENS, WIDTH), a = T(VC_BF16, TOKENS, WIDTH);
    vt_tensor b = T(VC_BF16, TOKENS, WIDTH), gate = make(VC_F32, TOKENS, WIDTH, 0);
    cuda_binary(d, VT_ADD, &y, &a, &b);
    what = "x + gate h";
    cuda_gated_add(d, &y, &a, &b, &gate);
    begin("gelu");
    vt_tensor wide = T(VC_BF16, TOKENS, 4 * WIDTH), x = T(VC_BF16, TOKENS, 4 * WIDTH);
    cuda_unary(d, VT_GELU_TANH, &wide, &x);
    begin("f32 to bf16");
    vt_tensor bf16 = T(VC_BF16, TOKENS, 64), f32 = T(VC_F32, TOKENS, 64);
    cuda_copy(d, &bf16, &f32);
    begin("fp8 to bf16");
    vt_tensor w = T(VC_BF16, WIDTH, WIDTH), fp8 = T(VC_F8E4M3, WIDTH, WIDTH);
    cuda_copy(d, &w, &fp8);
}

static void norms(vt_dev *d)
{
    begin("layer norm, modulated");
    vt_tensor y = T(VC_BF16, TOKENS, WIDTH), x = T(VC_BF16, TOKENS, WIDTH);
    vt_tensor stats = T(VC_F32, TOKENS, 2), w = make(VC_BF16, 1, WIDTH, 0), b = w;
    vt_tensor shift = make(VC_F32, TOKENS, WIDTH, 0), scale = make(VC_F32, TOKENS, WIDTH, 0);
    w.nd = b.nd = 1, w.dim[0] = b.dim[0] = WIDTH, w.stride[0] = b.stride[0] = 1;
    cuda_norm(d, &y, &stats, &x, &w, &b, &shift, &scale, 1e-5f, false);
    what = "its gradient";
    vt_tensor dx = T(VC_BF16, TOKENS, WIDTH);
    cuda_norm_grad(d, &dx, NULL, NULL, NULL, NULL, &y, &x, &stats, &w, &b, &scale, false);
    begin("qk norm");
    vt_tensor q = T(VC_BF16, TOKENS * HEADS, HEAD), k = T(VC_BF16, TOKENS * HEADS, HEAD);
    vt_tensor each = T(VC_F32, TOKENS * HEADS, 2);
    w.dim[0] = b.dim[0] = HEAD;
    cuda_norm(d, &q, &each, &k, &w, &b, NULL, NULL, 1e-6f, false);
    what = "its gradient";
    buf.empty = true;
    vt_tensor dq = T(VC_BF16, TOKENS * HEADS, HEAD);
    cuda_norm_grad(d, &dq, NULL, NULL, NULL, NULL, &q, &k, &each, &w, &b, NULL, false);
}

static void others(vt_dev *d)
{
    const int64_t n = 1 << 24;

    begin("AdamW, f32");
    vt_tensor w = T(VC_F32, 1, n), m = T(VC_F32, 1, n), v = T(VC_F32, 1, n);
    vt_tensor grad = T(VC_F32, 1, n), peak = T(VC_F32, n / 256, 2);
    const vt_update_args a = { .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f,
                              .grad_scale = 1, .correct1 = 1, .correct2 = 1, .step = 1 };
    moved += 3 * 4.0 * (double)n;              /* w, m and v are read and written */
    cuda_update(d, &w, (vt_tensor *[VF_STATES]){ &m, &v }, NULL, &grad, &a);
    begin("AdamW, 8 bits");
    moved = (2 * 4 + 2 * 2 + 4) * (double)n;
    m.dtype = v.dtype = VC_U8;
    cuda_update(d, &w, (vt_tensor *[VF_STATES]){ &m, &v }, &peak, &grad, &a);
    begin("group norm of the VAE");
    vt_tensor x = T(VC_BF16, 480 * 360, 256), y = T(VC_BF16, 480 * 360, 256);
    vt_tensor gw = make(VC_F32, 1, 256, 0);
    const int64_t dim[] = { 1, 1, 480, 360, 256 };
    for (int i = 0; i < 5; i++)
        x.dim[i] = y.dim[i] = dim[i];
    moved /= 2;                                /* each kernel of it moves at least one of them */
    x.nd = y.nd = 5;
    cuda_group_norm(d, &y, &x, &gw, &gw, &(vt_group){ .groups = 32, .eps = 1e-6f, .silu = true });
}

int main(int argc, char **argv)
{
    vt_options o = { .threads = 1, .kernels = "plain", .compute = VC_BF16 };
    vt_dev *d;
    vc_err err = { 0 };

    kernels = argc > 1 ? ptx_open(argv[1], &err) : NULL;
    if (!kernels || host_backend.open(&d, &o, 0, &err)) {
        fprintf(stderr, "%s\n", argc > 1 ? err.text : "give the path of kernels.ptx");
        return 1;
    }
    host_interpret = count;
    maps(d);
    norms(d);
    others(d);
    host_backend.close(d);
    ptx_close(kernels);
    return 0;
}

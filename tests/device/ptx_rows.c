/* ptx_rows.c - see ptx_rows.h */
#include "tests/device/ptx_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/cuda/cuda.h"
#include "common/tensor/ttt.h"
#include "common/tensor/optimizer.h"
#include "tests/device/device_host.h"

/* ---- operands ---- */

#define D(...) (const int64_t[]){ __VA_ARGS__ }

/* Adds a tensor with drawn values to a row's, which differ by its number; strides are in elements,
 * and NULL means packed. The data begin `shift` elements past a multiple of 64 bytes. */
static vt_tensor *shifted(set *s, vc_dtype type, int nd, const int64_t *dim, const int64_t *stride,
                          size_t shift)
{
    own_tensor *x = &s->x[s->n++];
    int64_t n = 1, packed = 1;

    if (s->n > MOST)
        abort();
    x->t = (vt_tensor){ .dtype = type, .nd = nd, .buf = &x->buf };
    x->buf.empty = true;
    for (int i = nd; i-- > 0; packed *= dim[i]) {
        x->t.dim[i] = dim[i];
        x->t.stride[i] = stride ? stride[i] : packed;
        n += (dim[i] - 1) * x->t.stride[i];
    }
    x->bytes = (size_t)n * vc_dtype_size(type);
    x->offset = MARGIN + shift * vc_dtype_size(type);
    x->all = aligned_alloc(64, (x->offset + x->bytes + 2 * MARGIN - 1) / 64 * 64);
    memset(x->all, 0x5a, x->offset + x->bytes + MARGIN);
    x->t.data = x->all + x->offset;
    if (type > VC_F8E5M2) {
        memset(x->t.data, 0, x->bytes);
        return &x->t;
    }
    float *z = malloc((size_t)n * sizeof *z);
    vc_train_normals(z, 0, (size_t)n, 3, (uint32_t)s->n, 0, 99);
    vc_from_f32(x->t.data, type, z, (size_t)n);
    free(z);
    return &x->t;
}

static vt_tensor *make(set *s, vc_dtype type, int nd, const int64_t *dim, const int64_t *stride)
{
    return shifted(s, type, nd, dim, stride, 0);
}

/* ---- element by element ---- */

#define INPUTS(name, inputs, value) inputs,
static const int map_inputs[] = { VK_ELEMENTS(INPUTS) };

/* The operands of a variant: packed f32 and bf16, bf16 with a repeated f32 row, rows with gaps and
 * odd ends, f16, fp8, addresses that no pack divides; odd variants add to the result. */
enum { MAP_VARIANTS = 14 };
static void run_maps(vt_dev *host, set *s, int variant)
{
    static const vc_dtype types[] = { VC_F32, VC_BF16, VC_BF16, VC_F32, VC_F16, VC_F8E4M3,
                                      VC_BF16 };
    int kind = variant / 2;
    vc_dtype type = types[kind], to = kind < 4 ? type : VC_BF16;

    for (int f = 0; f < VK_ELEMENT_COUNT; f++) {
        const vt_tensor *t[5];
        vk_map_args a = { .adds = variant % 2, .a = { 0.75f, 1.5f } };
        int first = s->n, k = 1 + map_inputs[f];
        for (int o = 0; o < k; o++)
            t[o] = kind == 3 ? make(s, o ? type : to, 3, D(3, 5, 13),
                                    o % 2 ? D(1, 3, 15) : D(85, 17, 1)) :
                   kind == 2 && o == k - 1 && o ? make(s, VC_F32, 3, D(2, 3, 88), D(88, 0, 1)) :
                   shifted(s, o ? type : to, 3, D(2, 3, kind == 6 ? 83 : 88), NULL, kind == 6);
        if (cuda_walk(host, &a.w, "map", k, t, true))
            cuda_ok(host, vk_map(NULL, (vk_element)f, &a), "map");
        s->n = first + 1;                      /* the result stays, the inputs are dropped */
        for (int o = 1; o < k; o++)
            free(s->x[first + o].all);
    }
}

/* Copies of every type to every other, of values that no format holds as well. */
static void run_copies(vt_dev *host, set *s, int variant)
{
    vc_dtype from = (vc_dtype)(variant / 5), to = (vc_dtype)(variant % 5);
    static const float odd[] = { NAN, INFINITY, -INFINITY, 1e-40f, 3e38f, 0x1.01p0f, 0x1.03p0f,
                                 -0.0f, 449.0f, 57345.0f, 65520.0f, 3e-8f };
    const int64_t n = 40;
    vt_tensor *x = make(s, from, 2, D(3, n), D(48, 1)), *y = make(s, to, 2, D(3, n), D(56, 1));
    vt_tensor *across = make(s, to, 2, D(n, 3), D(1, n));

    for (int i = 0; i < 12; i++)
        vc_from_f32((char *)x->data + (size_t)(9 * i) * vc_dtype_size(from), from, &odd[i], 1);
    host_backend.copy(host, y, x);
    host_backend.copy(host, across, make(s, from, 2, D(n, 3), NULL));
}

static void run_moves(vt_dev *host, set *s, int variant)
{
    static const vc_dtype types[] = { VC_U8, VC_BF16, VC_I32, VC_I64 };
    vt_tensor *x = make(s, types[variant], 2, D(5, 24), D(32, 1));
    vt_tensor *y = make(s, types[variant], 2, D(5, 24), NULL);
    vt_tensor *across = make(s, types[variant], 2, D(5, 24), D(1, 5));

    for (size_t i = 0; i < s->x[0].bytes; i++)
        ((uint8_t *)x->data)[i] = (uint8_t)(7 * i);
    host_backend.copy(host, y, x);
    host_backend.copy(host, across, x);
}

/* Codes of every type with scales of rows or of blocks that packs of eight divide or do not. */
enum { UNPACK_VARIANTS = 16 };
static void run_unpack(vt_dev *host, set *s, int variant)
{
    static const vc_dtype types[] = { VC_F8E4M3, VC_F8E5M2, VC_I8, VC_NF4 };
    const vc_dtype type = types[variant % 4], to = variant / 4 % 2 ? VC_BF16 : VC_F32;
    const int64_t rows = 5, blocks = variant / 8 ? 3 : 1, n = variant / 8 ? 66 : 192;
    vt_tensor *bytes = make(s, VC_U8, 2, D(rows, type == VC_NF4 ? n / 2 : n), NULL);
    vt_tensor *scale = make(s, VC_F32, 2, D(rows, blocks), NULL);
    vt_tensor *y = make(s, to, 2, D(rows, n), NULL), codes = *bytes;

    for (int64_t i = 0; i < vt_count(bytes); i++)
        ((uint8_t *)bytes->data)[i] = (uint8_t)(11 * i);
    codes.dtype = type;
    codes.dim[1] = codes.stride[0] = n;
    codes.scale = scale;
    host_backend.copy(host, y, &codes);
}

/* ---- rows ---- */

/* Widths that a warp and a block share, that packs and teams divide or do not. */
static const int64_t widths[] = { 64, 128, 40, 61, 8, 256, 512, 520, 1920, 3072, 1001, 2056, 5120 };
enum { WIDTHS = sizeof widths / sizeof *widths, NORM_KINDS = 7 };

/* A norm of width n and all its gradients, each written and then added to. x or y and dx begin some
 * elements past a multiple of 16 bytes. */
static void norms(vt_dev *host, set *s, int64_t n, int kind, size_t off_x, size_t off_y)
{
    const int64_t rows = n <= 512 ? 21 : 3, dim[] = { 2, rows, n };
    bool rms = kind % 2, modulated = kind / 2 == 1 || kind == 6, plain = kind / 2 == 2;
    vc_dtype type = kind == 1 || kind == 2 ? VC_F32 : VC_BF16;
    const int64_t *repeated = D(n, 0, 1);
    vt_tensor *x = shifted(s, type, 3, dim, NULL, off_x), *dy = make(s, type, 3, dim, NULL);
    vt_tensor *w = plain ? NULL : make(s, type, 1, D(n), NULL);
    vt_tensor *b = plain || rms ? NULL : make(s, type, 1, D(n), NULL);
    vc_dtype by = kind == 3 ? VC_BF16 : VC_F32;
    vt_tensor *shift = modulated ? make(s, by, 3, dim, repeated) : NULL;
    vt_tensor *scale = modulated ? make(s, by, 3, dim, repeated) : NULL;
    vt_tensor *y = shifted(s, type, 3, dim, NULL, off_y);
    vt_tensor *stats = make(s, VC_F32, 2, D(2 * rows, 2), NULL);
    vt_tensor *dx = shifted(s, type, 3, dim, NULL, off_y);
    vt_tensor *dw = w ? make(s, VC_F32, 1, D(n), NULL) : NULL;
    vt_tensor *db = b ? make(s, VC_F32, 1, D(n), NULL) : NULL;
    vt_tensor *dshift = modulated ? make(s, VC_F32, 3, dim, repeated) : NULL;
    vt_tensor *dscale = modulated ? make(s, VC_F32, 3, dim, repeated) : NULL;

    host_backend.norm(host, y, stats, x, w, b, shift, scale, 1e-5f, rms);
    for (int i = 0; i < 2; i++)
        host_backend.norm_grad(host, dx, dw, db, dshift, dscale, dy, x, stats, w, b, scale, rms);
}

static void run_norms(vt_dev *host, set *s, int variant)
{
    norms(host, s, widths[variant % WIDTHS], variant / WIDTHS, 0, 0);
}

/* One operand is off 16 bytes, so that its row has no whole packs: kernels for any rows. */
static void run_ragged_norms(vt_dev *host, set *s, int variant)
{
    norms(host, s, variant % 2 ? 5120 : 512, variant / 4, variant / 2 % 2, !(variant / 2 % 2));
}

/* Norms of a view, as q and k of one product [.., 3 heads, n], and at addresses off 16 bytes. */
static void run_norm_views(vt_dev *host, set *s, int variant)
{
    const int64_t n = variant % 2 ? 128 : 64, dim[] = { 5, 6, n }, view[] = { 18 * n, n, 1 };
    vc_dtype type = variant / 2 % 2 ? VC_F32 : VC_BF16;
    size_t off = variant / 4 ? 3 : 0;
    vt_tensor *x = shifted(s, type, 3, dim, view, off), *dy = shifted(s, type, 3, dim, view, off);
    vt_tensor *w = make(s, VC_F32, 1, D(n), NULL), *b = make(s, VC_BF16, 1, D(n), NULL);
    vt_tensor *y = shifted(s, type, 3, dim, view, off);
    vt_tensor *stats = make(s, VC_F32, 2, D(30, 2), NULL);

    host_backend.norm(host, y, stats, x, w, b, NULL, NULL, 1e-6f, false);
    host_backend.norm_grad(host, shifted(s, type, 3, dim, view, off), NULL, NULL, NULL, NULL, dy,
                           x, stats, w, b, NULL, false);
}

static void run_sums(vt_dev *host, set *s, int variant)
{
    static const int64_t sizes[][3] = { { 3, 70, 33 }, { 2, 5, 4104 }, { 1, 2000, 8 },
                                        { 40, 3, 7 } };
    const int64_t *dim = sizes[variant / 2];
    vc_dtype type = variant % 2 ? VC_BF16 : VC_F32;
    vt_tensor *x = make(s, type, 3, dim, NULL), *w = make(s, type, 3, dim, NULL);
    vt_tensor *total = make(s, VC_F32, 1, D(1), NULL), *dx;
    const int64_t *strides[] = { D(0, 0, 0), D(dim[2], 0, 1), D(dim[1], 1, 0) };

    total->nd = 0;
    double squares;
    host_backend.sumsq(host, &squares, &(const vt_tensor *){ x }, 1);
    *(float *)total->data = (float)squares;
    vt_tensor *loss = make(s, VC_F32, 1, D(1), NULL), *along = make(s, VC_F32, 1, D(1), NULL);
    *(float *)along->data = (float)host_backend.sum_magnitudes(host, x) +
                            (float)host_backend.sum_along(host, x, w, x);
    loss->nd = 0;
    host_backend.mse(host, loss, x, w, variant < 4 ? make(s, type, 3, dim, NULL) : NULL);
    for (int k = 0; k < 3; k++) {
        dx = make(s, VC_F32, 3, dim, strides[k]);
        host_backend.reduce(host, dx, x, w, 0.5f);
        host_backend.reduce(host, dx, x, NULL, 0.5f);
    }
}

/* ---- video ---- */

static void run_rope(vt_dev *host, set *s, int variant)
{
    const int64_t n = variant & 1 ? 20 : 64, dim[] = { 2, 7, 3, n };
    const int64_t view[] = { 7 * 9 * n, 9 * n, n, 1 };
    vc_dtype type = variant & 2 ? VC_F32 : VC_BF16;
    vt_tensor *x = make(s, type, 4, dim, view), *y = make(s, type, 4, dim, NULL);
    vt_tensor *c = make(s, VC_F32, 2, D(4, n / 2), NULL);
    vt_tensor *si = make(s, VC_F32, 2, D(4, n / 2), NULL);

    for (int i = 0; i < 2; i++)
        host_backend.rope(host, y, x, c, si, 2, variant & 4, i ? -1.0f : 1.0f);
}

static void run_patches(vt_dev *host, set *s, int variant)
{
    vc_dtype type = variant & 1 ? VC_BF16 : VC_F32;
    vt_patch_order order = variant & 2 ? VT_C_FIRST : VT_C_LAST;
    vt_tensor *x = make(s, type, 5, D(2, 3, 2, 4, 6), NULL);
    vt_tensor *tokens = make(s, type, 3, D(2, 12, 12), NULL);
    vt_tensor *back = make(s, type, 5, D(2, 3, 2, 4, 6), NULL);

    for (int i = 0; i < 2; i++) {
        host_backend.patchify(host, tokens, x, 1, 2, 2, order);
        host_backend.unpatchify(host, back, tokens, 1, 2, 2, order);
    }
}

static void run_draws(vt_dev *host, set *s, int variant)
{
    vt_tensor *y = make(s, VC_F32, 2, D(3, 301), NULL);
    vt_tensor *draw = make(s, VC_I32, 1, D(2), NULL);

    host_backend.randn(host, y, 0xfedcba9876543210ull, 5, 6, VC_DRAW_NOISE);
    ((int32_t *)draw->data)[0] = 5;
    ((int32_t *)draw->data)[1] = 6;
    host_backend.dropout(host, make(s, variant & 1 ? VC_BF16 : VC_F32, 2, D(6, 103), NULL), draw,
                         &(vt_drop){ .element = variant & 2 ? 1u << 30 : 0,
                                     .column = variant & 4 ? 3u << 29 : 0,
                                     .sample = variant & 4 ? 1u << 31 : 0,
                                     .purpose = VC_DRAW_DROP_INPUT, .factor = 1.25f,
                                     .key = { 11, 12 }, .rows = 2 });
}

static void run_timesteps(vt_dev *host, set *s, int variant)
{
    vt_tensor *t = make(s, VC_F32, 1, D(4), NULL), *y = make(s, VC_F32, 2, D(4, 64), NULL);
    static const float times[] = { 0, 1, 999, 1e9f };      /* the last takes the long reduction */

    memcpy(t->data, times, sizeof times);
    host_backend.timestep(host, y, t, variant ? 1.0f : 10000.0f);
}

static void run_embedding(vt_dev *host, set *s, int variant)
{
    vc_dtype type = (vc_dtype)(variant % 5), to = variant / 5 ? VC_F32 : VC_BF16;
    const int64_t n = variant == 1 ? 37 : 72;
    static const int32_t numbers[] = { 4, 0, 3, 3, 1 };
    vt_tensor *ids = make(s, VC_I32, 1, D(5), NULL);

    memcpy(ids->data, numbers, sizeof numbers);
    host_backend.embedding(host, make(s, to, 2, D(5, n), NULL), make(s, type, 2, D(5, n), NULL),
                           ids);
}

/* ---- attention, scans ---- */

static void run_attention(vt_dev *host, set *s, int variant)
{
    vc_dtype type = variant & 1 ? VC_BF16 : VC_F32;
    const int64_t n = variant & 2 ? 40 : 72, q[] = { 2, 5, 2, n }, k[] = { 2, 7, 2, n };
    vt_tensor *t[] = { make(s, type, 4, q, NULL), make(s, type, 4, k, NULL),
                       make(s, type, 4, k, NULL), make(s, type, 4, q, NULL),
                       make(s, type, 4, q, NULL), make(s, type, 4, q, NULL),
                       make(s, type, 4, k, NULL), make(s, type, 4, k, NULL) };
    vt_tensor *lse = make(s, VC_F32, 3, D(2, 2, 5), NULL);
    vt_tensor *bias = make(s, VC_F32, 4, D(2, 2, 5, 7), NULL);
    vt_tensor *len = make(s, VC_I32, 1, D(2), NULL);
    vt_attn how = { .kv_len = len, .scale = 0.125f };

    ((int32_t *)len->data)[0] = 7;
    ((int32_t *)len->data)[1] = 3;
    cuda_attend(host, t[3], lse, t[0], t[1], t[2], &how);
    for (int i = 0; i < 2; i++)
        cuda_attend_grad(host, t[5], t[6], t[7], t[4], t[0], t[1], t[2], t[3], lse, &how);
    how.bias = bias;
    how.causal = variant & 2 ? 2 : 0;
    cuda_attend(host, make(s, type, 4, q, NULL), lse, t[0], t[1], t[2], &how);
    for (int rows = 2; rows < 10; rows += 7)    /* of scores at once: not all, and all */
        cuda_attend_products(host, host_backend.matmul, (size_t)rows * 8 * sizeof(float),
                             make(s, type, 4, q, NULL), lse, t[0], t[1], t[2], &how);
}

/* Two heads of two samples, of one layer and of two; the second variant's parameters are bf16. */
static void run_scans(vt_dev *host, set *s, int variant)
{
    const int64_t e = variant % 2 ? 37 : 9;
    vc_dtype type = variant / 2 ? VC_BF16 : VC_F32;
    vt_tensor *t[2][10];

    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 3; k++)
            t[i][k] = make(s, type, 4, D(2, 6, 2, 9), NULL);
        t[i][3] = make(s, VC_F32, 3, D(2, 6, 2), NULL);
        t[i][4] = make(s, VC_F32, 2, D(2, 9), NULL);
        t[i][5] = make(s, VC_F32, 2, D(2, 9), NULL);
        t[i][6] = make(s, VC_F32, 3, D(2, 9, e), NULL);
        t[i][7] = make(s, VC_F32, 2, D(2, e), NULL);
        t[i][8] = variant % 2 ? make(s, VC_F32, 3, D(2, e, 9), NULL) : NULL;
        t[i][9] = variant % 2 ? make(s, VC_F32, 2, D(2, 9), NULL) : NULL;
    }
    for (int i = 0; i < 24; i++)
        ((float *)t[0][3]->data)[i] *= 0.01f;
    vt_ttt a[2];
    for (int i = 0; i < 2; i++)
        a[i] = (vt_ttt){ t[i][0], t[i][1], t[i][2], t[i][3], t[i][4], t[i][5], t[i][6], t[i][7],
                         t[i][8], t[i][9], .mini_batch = 2, .group = 2 };
    const vt_ttt_size size = vt_ttt_size_of(&a[0]);
    vt_tensor *o = make(s, type, 4, D(2, 6, 2, 9), NULL);
    const int64_t kept = (int64_t)(size.groups * size.pairs * size.state);
    vt_tensor *states = make(s, VC_F32, 1, &kept, NULL);
    vt_tensor *work = make(s, VC_F32, 1, D((int64_t)(size.pairs * size.work)), NULL);
    host_backend.ttt_scan(host, o, states, &a[0]);
    for (int i = 0; i < 2; i++)
        host_backend.ttt_scan_grad(host, &a[1], t[0][2], states, work, &a[0]);
    /* these have gaps that hold any value */
    memset(states->data, 0, s->x[s->n - 2].bytes);
    memset(work->data, 0, s->x[s->n - 1].bytes);
}

/* ---- channels-last video ---- */

static void run_groups(vt_dev *host, set *s, int variant)
{
    static const struct { int64_t c; int groups; } sizes[] = { { 64, 4 }, { 16, 4 }, { 12, 2 },
                                                               { 24, 3 }, { 10, 5 }, { 32, 32 } };
    int64_t c = sizes[variant % 6].c;
    vc_dtype type = variant / 6 % 2 ? VC_F32 : VC_BF16;
    bool modulated = variant / 12;
    vt_group how = { .groups = sizes[variant % 6].groups, .eps = 1e-6f, .silu = modulated,
                     .first = variant % 2 };
    vt_tensor *x = make(s, type, 5, D(2, 3, 4, 5, c), NULL);

    if (modulated) {
        how.scale = make(s, type, 5, D(2, 2, 2, 5, c), NULL);
        how.shift = make(s, type, 5, D(2, 2, 2, 5, c), NULL);
    }
    host_backend.group_norm(host, make(s, type, 5, D(2, 3, 4, 5, c), NULL), x,
                            make(s, type, 1, D(c), NULL), make(s, VC_F32, 1, D(c), NULL), &how);
    host_backend.group_norm(host, make(s, VC_BF16, 5, D(2, 3, 4, 5, c), NULL), x,
                            make(s, VC_BF16, 1, D(c), NULL), make(s, VC_BF16, 1, D(c), NULL),
                            &(vt_group){ .groups = how.groups, .eps = 1e-6f });
}

/* More positions than one block sums. */
static void run_group_parts(vt_dev *host, set *s, int variant)
{
    vt_tensor *x = make(s, VC_BF16, 5, D(1, 2, 64, 96, 8), NULL);

    (void)variant;
    host_backend.group_norm(host, make(s, VC_BF16, 5, D(1, 2, 64, 96, 8), NULL), x,
                            make(s, VC_F32, 1, D(8), NULL), make(s, VC_F32, 1, D(8), NULL),
                            &(vt_group){ .groups = 1, .eps = 1e-6f });
}

static void run_sizes(vt_dev *host, set *s, int variant)
{
    vc_dtype type = variant & 1 ? VC_BF16 : VC_F32;
    int64_t c = variant & 2 ? 13 : 16;

    host_backend.nearest(host, make(s, type, 5, D(2, 4, 6, 5, c), NULL),
                         make(s, type, 5, D(2, 2, 3, 5, c), NULL));
    for (int64_t t = 2; t < 4; t++)
        host_backend.pool_frames(host, make(s, type, 5, D(2, 2, 3, 5, c), NULL),
                                 make(s, type, 5, D(2, 1 + t, 3, 5, c), NULL));
}

/* ---- optimiser ---- */

#define RULE_ROW(with, NAME, name, states, squares) { VF_##NAME, states },
static const struct { vf_rule rule; int states; } rules[] = { VF_RULES(RULE_ROW, ) };
static const vt_optimizer coded[] = { VT_ADAMW8BIT, VT_LION8BIT };
enum { RULES = sizeof rules / sizeof *rules,
       UPDATES = 2 * RULES + sizeof coded / sizeof *coded };

/* Three steps of w's rule. A gradient that is the mean of squares is not negative. */
static void update(vt_dev *host, vf_rule rule, vt_tensor *w, vt_tensor *const *state,
                   vt_tensor *peak, vt_tensor *grad)
{
    float *g = grad->data;

    for (int64_t i = 0; rule == VF_ADAFACTOR_FACTOR && i < vt_count(grad); i++)
        g[i] = fabsf(g[i]);
    for (uint32_t step = 1; step <= 3; step++) {
        const vt_update_args a = { .rule = rule, .lr = 1e-2f, .beta1 = 0.9f, .beta2 = 0.99f,
                                  .beta3 = 0.95f, .gain = { 0.1f, 0.01f, 0.02f },
                                  .eps = 1e-8f, .weight_decay = 0.1f, .grad_scale = 0.5f,
                                  .key = { 3, 4 }, .correct1 = 0.1f * (float)step,
                                  .correct2 = 0.1f, .step = step, .first = 8 * VT_OPT_BLOCK };
        host_backend.update(host, w, state, peak, grad, &a);
        for (int64_t i = 0; i < vt_count(grad); i++)
            g[i] *= rule == VF_ADAFACTOR_FACTOR ? 0.75f : -0.75f;
    }
}

/* All rules with values and states in f32, then in bf16, then those with states in eight bits. */
static void run_update(vt_dev *host, set *s, int variant)
{
    const int64_t n = 1283;
    const bool bf16 = variant >= RULES && variant < 2 * RULES;
    const vt_optimizer_row *how = variant < 2 * RULES ? NULL
                                                      : &vt_optimizers[coded[variant - 2 * RULES]];
    const vc_dtype type = bf16 ? VC_BF16 : VC_F32;
    const int states = how ? VT_OPT_STATES : rules[variant % RULES].states;
    vt_tensor *w = make(s, type, 1, D(n), NULL), *grad = make(s, VC_F32, 1, D(n), NULL);
    vt_tensor *state[VT_OPT_STATES] = { 0 }, *peak = NULL;

    for (int k = 0; k < states && (!how || how->state[k].name); k++) {
        int64_t dim[VT_DIMS] = { n };
        int nd = how ? vt_opt_shape(how, k, w, dim) : 1;
        vt_tensor *x = make(s, how ? how->state[k].type : type, nd, dim, NULL);
        memset(x->data, 0, s->x[2 + k].bytes);
        *(how && how->state[k].shape == VT_OF_BLOCKS ? &peak : &state[k]) = x;
    }
    if (!bf16)
        w->rounded = make(s, VC_BF16, 1, D(n), NULL)->data;
    update(host, how ? how->rule : rules[variant % RULES].rule, w, state, peak, grad);
}

/* ---- the table ---- */

/* The GPU's exp and its sums' orders differ from the CPU's in the last bits; bf16 may then be
 * rounded the other way. Copies, draws and codes have the same bits. */
const row ptx_rows[] = {
    { "maps", run_maps, MAP_VARIANTS, 2e-6, 8e-3 },
    { "copies", run_copies, 25, 0, 0 },
    { "moves", run_moves, 4, 0, 0 },
    { "unpack", run_unpack, UNPACK_VARIANTS, 0, 0 },
    { "norms", run_norms, WIDTHS * NORM_KINDS, 1e-5, 8e-3 },
    { "ragged norms", run_ragged_norms, 4 * NORM_KINDS, 1e-5, 8e-3 },
    { "norms of views", run_norm_views, 8, 1e-5, 8e-3 },
    { "sums", run_sums, 8, 1e-5, 8e-3 },
    { "rope", run_rope, 8, 1e-6, 8e-3 },
    { "patches", run_patches, 4, 0, 8e-3 },
    { "draws", run_draws, 8, 0, 0 },
    { "timesteps", run_timesteps, 2, 1e-7, 0 },
    { "embedding", run_embedding, 10, 0, 0 },
    { "attention", run_attention, 4, 1e-5, 8e-3 },
    { "scans", run_scans, 4, 1e-5, 1e-2 },
    { "group norms", run_groups, 24, 1e-5, 8e-3 },
    { "long group norms", run_group_parts, 1, 1e-5, 8e-3 },
    { "sizes", run_sizes, 4, 0, 8e-3 },
    { "optimisers", run_update, UPDATES, 1e-6, 8e-3 },
    { 0 },
};

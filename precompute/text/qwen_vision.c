/* qwen_vision.c - Qwen2.5-VL's vision tower: see qwen_vision.h
 *
 * Tokens stand in an order in which windows of equal size follow one another, so that one call
 * attends within all of them:
 *
 *     +-------+-------+--+     first the whole windows, row by row, then those of the right edge,
 *     | whole | whole |r |     of the lower edge, and of the corner. A window's merged patches
 *     +-------+-------+--+     stand row by row, and so do the patches of each.
 *     | lower | lower |c |
 *     +-------+-------+--+ */
#include "precompute/text/qwen_vision.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/nn/embeddings.h"
#include "precompute/text/stack.h"

#define EPS 1e-6f                                 /* of the norms, whatever config.json has */
#define THETA 10000.0f

enum { FRAMES = 2, MAX_FULL = 256, KINDS = 4 };

typedef struct config {
    int64_t depth, width, hidden, heads, patch, merge, window, out, head;
    int full[MAX_FULL], n_full;                   /* layers that attend to all patches */
} config;

typedef struct layer {
    vt_tensor *norm1, *norm2;                     /* [D] */
    vt_lin qkv, proj, gate, up, down;
} layer;

struct qwen_vision {
    config c;
    text_stack s;
    vt_lin patch, mlp1, mlp2;                     /* patch [D,3,2,patch,patch] */
    vt_tensor *merger_norm;                       /* [D] */
    layer *layer;
};

/* Windows of equal size. */
typedef struct windows {
    int64_t count, tokens;                        /* tokens of each */
} windows;

/* A picture's patches in the order of the tokens. */
typedef struct grid {
    int64_t n, cells;                             /* patches, merged ones */
    int32_t *row, *column;                        /* [n] */
    int32_t *place;                               /* [cells]: a merged patch's place in the picture,
                                                   * counted row by row */
    windows of[KINDS];
} grid;

/* ---- weights ---- */

enum { D = -1, HIDDEN = -2, THREE_D = -3, PATCH = -4, MERGED = -5, OUT = -6, N_SIZES = 7 };

#define LIN(type, field, name, out, in) \
    { name, VT_W_LINEAR, offsetof(type, field), { out, in }, VT_INIT_ZERO }
#define NORM(type, field, name) \
    { name, VT_W_TENSOR, offsetof(type, field), { D }, VT_INIT_ZERO }

static const vt_weight table[] = {
    { "patch_embed.proj.weight", VT_W_TENSOR, offsetof(qwen_vision, patch.w),
      { D, 3, FRAMES, PATCH, PATCH }, VT_INIT_ZERO },
    NORM(qwen_vision, merger_norm, "merger.ln_q.weight"),
    LIN(qwen_vision, mlp1, "merger.mlp.0", MERGED, MERGED),
    LIN(qwen_vision, mlp2, "merger.mlp.2", OUT, MERGED),
    { 0 }
};
static const vt_weight layer_table[] = {
    NORM(layer, norm1, "norm1.weight"),
    NORM(layer, norm2, "norm2.weight"),
    LIN(layer, qkv, "attn.qkv", THREE_D, D),
    LIN(layer, proj, "attn.proj", D, D),
    LIN(layer, gate, "mlp.gate_proj", HIDDEN, D),
    LIN(layer, up, "mlp.up_proj", HIDDEN, D),
    LIN(layer, down, "mlp.down_proj", D, HIDDEN),
    { 0 }
};

/* transformers has changed the part of names before "patch_embed." once. */
static const char *find_prefix(const vf_model *m)
{
    static const char *const prefixes[] = { "visual.", "model.visual." };
    char name[64];
    vf_view v;

    snprintf(name, sizeof name, "%s%s", prefixes[1], table[0].name);
    return prefixes[vf_model_get(m, name, &v, NULL) == 0];
}

static int bind(qwen_vision *m, vc_err *err)
{
    const config *c = &m->c;
    const int64_t sizes[N_SIZES] = { 0, c->width, c->hidden, 3 * c->width, c->patch,
                                     c->width * c->merge * c->merge, c->out };
    const vt_source src = vf_model_source(m->s.model);
    const char *prefix = find_prefix(m->s.model);
    char blocks[64];

    snprintf(blocks, sizeof blocks, "%sblocks.%%d.", prefix);
    int rc = vt_params_bind(m->s.p, table, prefix, 0, m, sizes, &src, err);
    for (int i = 0; !rc && i < c->depth; i++)
        rc = vt_params_bind(m->s.p, layer_table, blocks, i, &m->layer[i], sizes, &src, err);
    return rc ? rc : text_stack_all_bound(&m->s, prefix, NULL, NULL, err);
}

/* ---- config.json ---- */

static const vf_config_row rows[] = {
    VF_INT(config, depth, "depth", 32, 1, 1 << 10),
    VF_INT_NEEDED(config, width, "hidden_size", 8, 1 << 16),
    VF_INT(config, hidden, "intermediate_size", 3420, 1, 1 << 18),
    VF_INT(config, heads, "num_heads", 16, 1, 1 << 10),
    VF_INT(config, patch, "patch_size", 14, 1, 1 << 10),
    VF_INT(config, merge, "spatial_merge_size", 2, 1, 1 << 6),
    VF_INT(config, window, "window_size", 112, 1, 1 << 16),
    VF_INT(config, out, "out_hidden_size", 3584, 1, 1 << 16),
    VF_INTS(config, full, n_full, "fullatt_block_indexes", 0, 0, 1 << 10),
    VF_ONLY("hidden_act", "silu", "silu"),
    VF_ONLY_INT("in_channels", 3),
    VF_ONLY_INT("in_chans", 3),
    VF_ONLY_INT("temporal_patch_size", FRAMES),
    { 0 }
};

static int read_config(config *c, const cJSON *o, vc_err *err)
{
    *c = (config){ .full = { 7, 15, 23, 31 }, .n_full = 4 };
    int rc = vf_config_read(c, rows, o, err);

    if (rc)
        return rc;
    c->head = c->width / c->heads;
    if (c->width % c->heads || c->head % 8)
        return vc_fail(err, VC_EFORMAT, "hidden_size: %lld is not num_heads: %lld times a multiple "
                       "of 8", (long long)c->width, (long long)c->heads);
    if (c->window < c->patch * c->merge)
        return vc_fail(err, VC_EFORMAT, "window_size: %lld is less than a merged patch of %lld",
                       (long long)c->window, (long long)(c->patch * c->merge));
    return 0;
}

static vf_key fingerprint_of(const config *c)
{
    vf_hasher h;

    vf_hasher_begin(&h, "Qwen2.5-VL vision 1");
    vf_hasher_int(&h, "depth", c->depth);
    vf_hasher_int(&h, "hidden_size", c->width);
    vf_hasher_int(&h, "num_heads", c->heads);
    vf_hasher_int(&h, "patch_size", c->patch);
    vf_hasher_int(&h, "spatial_merge_size", c->merge);
    vf_hasher_int(&h, "window_size", c->window);
    for (int i = 0; i < c->n_full; i++)
        vf_hasher_int(&h, "full", c->full[i]);
    return vf_hasher_end(&h);
}

/* ---- open and close ---- */

static int set_up(qwen_vision *m, const encoder_opts *o, vc_err *err)
{
    static const char part[] = "vision_config";
    const cJSON *vision = NULL;
    cJSON *json;
    int rc = text_config_open(&json, o, "qwen2_5_vl", err);

    if (!rc)
        rc = vf_json_obj(json, part, &vision, err);
    if (!rc)
        rc = vc_context(err, read_config(&m->c, vision, err), part);
    rc = text_config_bad(o, rc, err);
    cJSON_Delete(json);
    if (rc)
        return rc;
    m->layer = calloc((size_t)m->c.depth, sizeof *m->layer);
    if (!m->layer)
        return vc_no_memory(err);
    rc = text_stack_open(&m->s, o, false, err);
    return rc ? rc : vc_context(err, bind(m, err), "%s", o->dir);
}

int qwen_vision_open(qwen_vision **out, const encoder_opts *o, qwen_vision_info *info, vc_err *err)
{
    *out = NULL;
    qwen_vision *m = calloc(1, sizeof *m);
    if (!m)
        return vc_no_memory(err);

    int rc = set_up(m, o, err);
    if (rc) {
        qwen_vision_close(m);
        return rc;
    }
    *info = (qwen_vision_info){ fingerprint_of(&m->c), (int)m->c.patch, (int)m->c.merge,
                                (int)m->c.out };
    *out = m;
    return 0;
}

void qwen_vision_close(qwen_vision *m)
{
    if (!m)
        return;
    text_stack_close(&m->s);
    free(m->layer);
    free(m);
}

vt_usage qwen_vision_usage(const qwen_vision *m) { return vt_usage_of(m->s.g); }

/* ---- the order of the tokens ---- */

/* Appends the window whose first merged patch stands at (y,x), of h x w merged patches. */
static void put_window(const config *c, grid *r, int64_t y, int64_t x, int64_t h, int64_t w,
                       int64_t columns)
{
    const int64_t merge = c->merge;

    for (int64_t i = 0; i < h * w; i++) {
        const int64_t row = y + i / w, column = x + i % w;
        r->place[r->cells++] = (int32_t)(row * columns + column);
        for (int64_t k = 0; k < merge * merge; k++) {
            r->row[r->n] = (int32_t)(row * merge + k / merge);
            r->column[r->n++] = (int32_t)(column * merge + k % merge);
        }
    }
}

/* Appends the windows of one size: rows of windows from y to before y_end, columns likewise. */
static void put_kind(const config *c, grid *r, int kind, const int64_t y[3], const int64_t x[3],
                     int64_t columns)
{
    for (int64_t i = y[0]; i < y[1]; i += y[2])
        for (int64_t k = x[0]; k < x[1]; k += x[2]) {
            put_window(c, r, i, k, y[2], x[2], columns);
            r->of[kind].count++;
        }
    r->of[kind].tokens = y[2] * x[2] * c->merge * c->merge;
}

/* rows x columns merged patches */
static int make_grid(const config *c, int64_t rows_, int64_t columns, grid *r, vc_err *err)
{
    const int64_t side = c->window / c->merge / c->patch, n = rows_ * columns;
    const int64_t whole[2] = { rows_ / side * side, columns / side * side };
    const int64_t y[2][3] = { { 0, whole[0], side }, { whole[0], rows_, rows_ - whole[0] } };
    const int64_t x[2][3] = { { 0, whole[1], side }, { whole[1], columns, columns - whole[1] } };

    *r = (grid){ 0 };
    r->row = malloc((size_t)(n * c->merge * c->merge) * sizeof *r->row);
    r->column = malloc((size_t)(n * c->merge * c->merge) * sizeof *r->column);
    r->place = malloc((size_t)n * sizeof *r->place);
    if (!r->row || !r->column || !r->place)
        return vc_no_memory(err);
    for (int kind = 0; kind < KINDS; kind++)
        put_kind(c, r, kind, y[kind / 2], x[kind % 2], columns);
    return 0;
}

static void free_grid(grid *r)
{
    free(r->row);
    free(r->column);
    free(r->place);
}

/* Writes a token's numbers, of three colours, two equal frames, and a patch's rows. */
static void put_patch(const config *c, const float *pixels, int64_t w, int64_t row, int64_t column,
                      float *to)
{
    const int64_t side = c->patch, area = side * side;

    for (int64_t i = 0; i < 3 * FRAMES * area; i++) {
        const int64_t y = row * side + i % area / side, x = column * side + i % side;
        to[i] = pixels[(y * w + x) * 3 + i / (FRAMES * area)];
    }
}

static vt_tensor *patches_of(const qwen_vision *m, const grid *r, const float *pixels, int64_t w)
{
    const config *c = &m->c;
    const int64_t each = 3 * FRAMES * c->patch * c->patch;
    float *x = malloc((size_t)(r->n * each) * sizeof *x);

    if (!x)
        return vt_fail(m->s.g, VC_ENOMEM, "out of memory for %lld patches", (long long)r->n);
    for (int64_t i = 0; i < r->n; i++)
        put_patch(c, pixels, w, r->row[i], r->column[i], x + i * each);
    vt_tensor *t = vt_from_host(m->s.g, VC_F32, 3, (int64_t[]){ 1, r->n, each }, x, VC_F32);
    free(x);
    return t;
}

/* Cosines and sines [n, head / 2]: half of the angles are of the row, the others of the column. */
static void rotations(const qwen_vision *m, const grid *r, vt_tensor *made[2])
{
    const int64_t pairs = m->c.head / 2, each = pairs / 2;
    const size_t count = (size_t)(r->n * pairs);
    float *host = malloc(2 * count * sizeof *host);

    if (!host) {
        vt_fail(m->s.g, VC_ENOMEM, "out of memory for %lld patches", (long long)r->n);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const size_t token = i / (size_t)pairs;
        const int64_t j = (int64_t)i % pairs;
        const float at = (float)(j < each ? r->row[token] : r->column[token]);
        const float angle = at / powf(THETA, (float)(2 * (j % each)) / (float)pairs);
        host[i] = cosf(angle);
        host[count + i] = sinf(angle);
    }
    for (int i = 0; i < 2; i++)
        made[i] = vt_from_host(m->s.g, VC_F32, 2, (int64_t[]){ r->n, pairs },
                               host + (size_t)i * count, VC_F32);
    free(host);
}

/* ---- forward ---- */

static vt_tensor *norm(vt_ctx *g, vt_tensor *x, vt_tensor *w)
{
    return vt_cast(g, vt_rms_norm(g, x, w, EPS), vt_compute(g));
}

/* The tokens from `at` on as rows of a batch of windows: [count,tokens,H,d] */
static vt_tensor *in_windows(vt_ctx *g, vt_tensor *x, int64_t at, const windows *w)
{
    x = vt_slice(g, x, 1, at, at + w->count * w->tokens);
    return x ? vt_reshape(g, x, 4, (int64_t[]){ w->count, w->tokens, x->dim[2], x->dim[3] }) : NULL;
}

/* q, k, v [1,n,H,d] -> [1,n,D] */
static vt_tensor *attention(vt_ctx *g, vt_tensor *const qkv[3], const windows *of, int kinds)
{
    vt_tensor *out[KINDS];
    int parts = 0;

    for (int64_t i = 0, at = 0; i < kinds; at += of[i].count * of[i].tokens, i++) {
        vt_tensor *part[3];
        if (!of[i].count)
            continue;
        for (int k = 0; k < 3; k++)
            part[k] = in_windows(g, qkv[k], at, &of[i]);
        vt_tensor *y = vt_attention(g, part[0], part[1], part[2], NULL);
        const int64_t n = of[i].count * of[i].tokens;
        out[parts++] = y ? vt_reshape(g, y, 3, (int64_t[]){ 1, n, y->dim[2] * y->dim[3] }) : NULL;
    }
    return parts > 1 ? vt_concat(g, 1, parts, out) : out[0];
}

/* x [1,n,D] + attention of the norm of x */
static vt_tensor *attend(const qwen_vision *m, int64_t i, vt_tensor *x, vt_tensor *const made[2],
                         const grid *r)
{
    const config *c = &m->c;
    const layer *w = &m->layer[i];
    const windows all = { 1, r->n };
    vt_ctx *g = m->s.g;
    vt_tensor *part[3], *y = vt_linear(g, norm(g, x, w->norm1), &w->qkv);
    bool full = false;

    vt_chunk(g, y, 2, 3, part);
    for (int k = 0; k < 3; k++) {
        part[k] = text_heads(g, part[k], c->heads);
        if (k < 2)
            part[k] = vt_rope_halves(g, part[k], made[0], made[1], 0);
    }
    for (int k = 0; k < c->n_full; k++)
        full |= c->full[k] == i;
    y = full ? attention(g, part, &all, 1) : attention(g, part, r->of, KINDS);
    return vt_add(g, x, vt_linear(g, y, &w->proj));
}

/* x [1,n,D] + down(silu(gate y) * up y), where y is the norm of x */
static vt_tensor *feed(vt_ctx *g, const layer *w, vt_tensor *x)
{
    vt_tensor *y = norm(g, x, w->norm2);
    vt_tensor *gate = vt_silu(g, vt_linear(g, y, &w->gate));

    return vt_add(g, x, vt_linear(g, vt_mul(g, gate, vt_linear(g, y, &w->up)), &w->down));
}

/* x [1,n,D] -> [1,cells,out] */
static vt_tensor *merged(const qwen_vision *m, const grid *r, vt_tensor *x)
{
    vt_ctx *g = m->s.g;

    x = norm(g, x, m->merger_norm);
    x = x ? vt_reshape(g, x, 3, (int64_t[]){ 1, r->cells, -1 }) : NULL;
    return vt_linear(g, vt_gelu_erf(g, vt_linear(g, x, &m->mlp1)), &m->mlp2);
}

static vt_tensor *forward(const qwen_vision *m, const grid *r, const float *pixels, int64_t w)
{
    vt_ctx *g = m->s.g;
    vt_tensor *made[2] = { NULL, NULL };

    rotations(m, r, made);
    vt_scope s = vt_scope_begin(g);
    vt_tensor *x = vt_cast(g, patches_of(m, r, pixels, w), vt_compute(g));
    x = vt_cast(g, nn_embed_patches(g, x, &m->patch), VC_F32);
    for (int64_t i = 0; i < m->c.depth; i++) {
        x = attend(m, i, x, made, r);
        vt_scope_end(g, s, 1, &x);                /* its end frees the tensors of each half */
        x = feed(g, &m->layer[i], x);
        vt_scope_end(g, s, 1, &x);
    }
    return merged(m, r, x);
}

/* Copies the states x from the order of the tokens to the picture's. */
static int put_states(qwen_vision *m, const grid *r, const vt_tensor *x, float *states, vc_err *err)
{
    const size_t width = (size_t)m->c.out, bytes = width * sizeof *states;
    float *own = malloc((size_t)r->cells * bytes);

    if (!own)
        vt_fail(m->s.g, VC_ENOMEM, "out of memory for %lld states", (long long)r->cells);
    int rc = text_stack_end(&m->s, own ? x : NULL, own, err);
    for (int64_t i = 0; !rc && i < r->cells; i++)
        memcpy(states + (size_t)r->place[i] * width, own + (size_t)i * width, bytes);
    free(own);
    return rc;
}

int qwen_vision_encode(qwen_vision *m, const float *pixels, int h, int w, float *states,
                       vc_err *err)
{
    const int64_t side = m->c.patch * m->c.merge;
    grid r;

    if (h % side || w % side || h < side || w < side)
        return vc_fail(err, VC_EINVAL, "a picture of %dx%d pixels, whose sides are no multiples of "
                       "%lld", w, h, (long long)side);
    int rc = make_grid(&m->c, h / side, w / side, &r, err);
    if (!rc) {
        vt_step_begin(m->s.g, 0);
        rc = put_states(m, &r, forward(m, &r, pixels, w), states, err);
    }
    free_grid(&r);
    return rc;
}

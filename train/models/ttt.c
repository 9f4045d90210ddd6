/* ttt.c - CogVideoX with TTT layers (Dalal et al. 2025, "One-Minute Video Generation with Test-Time
 * Training"): a video of minutes in segments of 3 s.
 *
 * Each block has CogVideoX's, but in place of attention these layers, one after the other:
 *
 *     attention within each segment, over the segment's text and its 13 latent frames; adjacent
 *     segments share a frame, whose result is the mean of both
 *     a TTT layer over the whole sequence (Sun et al. 2024), gated: y = u + tanh(alpha) TTT(u)
 *     the same TTT layer over the sequence from its end to its begin, gated by other alphas
 *
 * The sequence between layers is [text of segment 0 .. N-1 | frames 0 .. 12N]; the TTT layer reads
 * the text of a segment before the segment's frames. Names of weights are those of the authors'
 * checkpoints; the results equal those of their program but where ttt_eta_compat is false. */
#include "train/models/ttt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/nn/positions.h"
#include "common/tensor/exchange.h"
#include "train/models/cogvideox.h"

#define THETA 10000.0
#define NORM_EPS 1e-6f                        /* of post_norm */
#define L2_EPS 1e-12f                         /* of queries and keys */
/* The target is divided by its deviation + 1e-8. This number, inside of the root, is as good as
 * none, and keeps a target of equal numbers at zero. */
#define TARGET_EPS 1e-16f

/* More indices into sizes. INNER is the width of the inner model's first layer; SECOND and OUT are
 * the sizes of its second layer, which TTT-Linear lacks. */
enum { HEADS = -15, INNER = -16, SECOND = -17, OUT = -18 };
enum { WIDER = 4 };                           /* INNER / HEAD of TTT-MLP */
enum { MAX_SEGMENTS = 256 };

typedef struct gates {
    vt_tensor *text, *video;                  /* [D]: alpha */
} gates;
typedef struct ttt_block {
    cogvideox_block base;
    gates forward, backward;
    vt_lin wq, wk, wv, wo;
    vt_tensor *lr_w, *lr_b;                   /* [HEADS,1,D], [HEADS,1]: of the step sizes */
    vt_tensor *gamma, *beta;                  /* [HEADS,HEAD] */
    nn_norm post;
    vt_tensor *w1, *b1, *w2, *b2;             /* where the inner model starts */
} ttt_block;

typedef struct ttt {
    cogvideox base;
    ttt_config c;
    int64_t segments, text;                   /* of the step in progress; tokens of all texts */
} ttt;

/* More tensors in vtrain_in.made and more inputs of a block: the rotations of the TTT layer, in the
 * order of its scan; the order of tokens and its inverse in the scan from the begin, which are NULL
 * for one segment, and in the scan from the end. */
enum { SCAN_COS = COG_MADE, SCAN_SIN, FORWARD, FORWARD_BACK, BACKWARD, BACKWARD_BACK, MADE };
enum { COS_AT = COG_IN, SIN_AT, FORWARD_AT, BACKWARD_AT = FORWARD_AT + 2,
       IN_BLOCK = BACKWARD_AT + 2 };

/* ---- weights ---- */

#define LIN(type, field, name_, out, in) \
    { .name = name_, .kind = VT_W_LINEAR, .offset = offsetof(type, field), .dim = { out, in } }
#define VEC(type, field, name_, size) \
    { .name = name_, .offset = offsetof(type, field), .dim = { size } }
/* Weights that a CogVideoX transformer lacks start from init. */
#define NEW(field_, name_, init_, ...) \
    { .name = name_, .offset = offsetof(ttt_block, field_), .dim = { __VA_ARGS__ }, \
      .init = VT_INIT_##init_ }
#define PROJECTION(field_, name_) \
    { .name = name_, .kind = VT_W_LINEAR_NO_BIAS, .offset = offsetof(ttt_block, field_), \
      .dim = { D, D }, .init = VT_INIT_NORMAL }, \
    NEW(field_.b, name_ ".bias", BIAS, D)

static const vt_weight model_table[] = {
    { .name = "dit.patch_embedding.vid_proj", .kind = VT_W_CONV,
      .offset = offsetof(cogvideox_weights, patch), .dim = { D, IN, PATCH, PATCH } },
    VEC(cogvideox_weights, patch.b, "dit.patch_embedding.vid_proj.bias", BIAS),
    LIN(cogvideox_weights, text, "dit.patch_embedding.text_proj", D, TEXT),
    LIN(cogvideox_weights, time1, "dit.time_embed.0", TIME, D),
    LIN(cogvideox_weights, time2, "dit.time_embed.2", TIME, TIME),
    VEC(cogvideox_weights, final.w, "dit.transformer_norm.weight", D),
    VEC(cogvideox_weights, final.b, "dit.transformer_norm.bias", D),
    LIN(cogvideox_weights, mod_out, "dit.final_layer.adaLN_modulation.1", TWO_D, TIME),
    VEC(cogvideox_weights, out.w, "dit.final_layer.norm.weight", D),
    VEC(cogvideox_weights, out.b, "dit.final_layer.norm.bias", D),
    LIN(cogvideox_weights, proj_out, "dit.final_layer.linear", TOKEN_OUT, D),
    { 0 }
};

#define SEQ "seq_modeling_block."
#define TTT SEQ "ssm.ttt."
static const vt_weight block_table[] = {      /* names follow "dit.layers.%d." */
    LIN(ttt_block, base.mod1, "pre_seq_adaLN_modulation.1", SIX_D, TIME),
    VEC(ttt_block, base.norm1.w, "pre_seq_layernorm.weight", D),
    VEC(ttt_block, base.norm1.b, "pre_seq_layernorm.bias", D),
    VEC(ttt_block, base.attn.norm_q.w, SEQ "q_norm.weight", HEAD),
    VEC(ttt_block, base.attn.norm_q.b, SEQ "q_norm.bias", HEAD),
    VEC(ttt_block, base.attn.norm_k.w, SEQ "k_norm.weight", HEAD),
    VEC(ttt_block, base.attn.norm_k.b, SEQ "k_norm.bias", HEAD),
    LIN(ttt_block, base.attn.q, SEQ "q", D, D),
    LIN(ttt_block, base.attn.k, SEQ "k", D, D),
    LIN(ttt_block, base.attn.v, SEQ "v", D, D),
    LIN(ttt_block, base.attn.out, SEQ "o", D, D),
    NEW(forward.video, SEQ "forward_ssm_gating_video.gating_alpha", TENTH, D),
    NEW(forward.text, SEQ "forward_ssm_gating_text.gating_alpha", TENTH, D),
    NEW(backward.video, SEQ "backward_ssm_gating_video.gating_alpha", TENTH, D),
    NEW(backward.text, SEQ "backward_ssm_gating_text.gating_alpha", TENTH, D),
    PROJECTION(wq, TTT "wq"),
    PROJECTION(wk, TTT "wk"),
    PROJECTION(wv, TTT "wv"),
    PROJECTION(wo, TTT "wo"),
    NEW(lr_w, TTT "learnable_ttt_lr_weight", NORMAL, HEADS, 1, D),
    NEW(lr_b, TTT "learnable_ttt_lr_bias", ZERO, HEADS, 1),
    NEW(gamma, TTT "ttt_norm_weight", ONE, HEADS, HEAD),
    NEW(beta, TTT "ttt_norm_bias", ZERO, HEADS, HEAD),
    NEW(post.w, TTT "post_norm.weight", ONE, D),
    NEW(post.b, TTT "post_norm.bias", ZERO, D),
    NEW(w1, TTT "W1", NORMAL, HEADS, HEAD, INNER),
    NEW(b1, TTT "b1", ZERO, HEADS, 1, INNER),
    NEW(w2, TTT "W2", NORMAL, HEADS, SECOND, OUT),
    NEW(b2, TTT "b2", ZERO, HEADS, 1, OUT),
    LIN(ttt_block, base.mod2, "pre_mlp_adaLN_modulation.1", SIX_D, TIME),
    VEC(ttt_block, base.norm2.w, "pre_mlp_layernorm.weight", D),
    VEC(ttt_block, base.norm2.b, "pre_mlp_layernorm.bias", D),
    LIN(ttt_block, base.up, "mlp.layer1", HIDDEN, D),
    LIN(ttt_block, base.down, "mlp.layer2", D, HIDDEN),
    { 0 }
};

/* ---- config ---- */

static int ttt_read(void *model, const cJSON *config, vc_err *err)
{
    ttt *m = model;
    const cogvideox_config *c = &m->base.c;
    int rc = ttt_config_read(&m->c, config, err);
    if (!rc)
        rc = cogvideox_read(model, config, err);
    if (rc)
        return rc;
    if (!c->rotary || c->learned || c->patch_t || c->in_channels != c->out_channels)
        return vc_fail(err, VC_EINVAL, "TTT layers are for CogVideoX-5B, which rotates queries and "
                       "keys, has patches of one frame and reads no picture: "
                       "use_rotary_positional_embeddings must be true, "
                       "use_learned_positional_embeddings false, patch_size_t absent and "
                       "in_channels equal to out_channels");
    bool two = m->c.layer == TTT_MLP;
    int64_t *sizes = m->base.dit.sizes;
    sizes[-HEADS] = c->heads;
    sizes[-INNER] = two ? WIDER * c->head : c->head;
    sizes[-SECOND] = two ? WIDER * c->head : VT_ABSENT;
    sizes[-OUT] = two ? c->head : VT_ABSENT;
    return 0;
}

static void ttt_fit(const void *model, vtrain_fit *fit)
{
    cogvideox_fit(model, fit);
    fit->whole_texts = true;
}

/* ---- the order of tokens ---- */

/* Tokens of a segment's text, of a latent frame, and of the whole sequence. */
static int64_t text_of(const ttt *m) { return m->text / m->segments; }
static int64_t frame_of(const ttt *m) { return m->base.video / (TTT_SEGMENT * m->segments + 1); }
static int64_t tokens_of(const ttt *m) { return m->text + m->base.video; }

/* The place in the sequence between layers of token i of the interleaved one, which is text and
 * frames of segment 0, text and frames of segment 1, and so on. */
static int64_t interleaved(const ttt *m, int64_t i)
{
    int64_t l = text_of(m), frame = frame_of(m), each = l + TTT_SEGMENT * frame, s = 0;
    if (i >= each + frame) {
        s = 1 + (i - each - frame) / each;
        i -= each + frame + (s - 1) * each;
    }
    if (i < l)
        return s * l + i;
    return m->text + (s ? (TTT_SEGMENT * s + 1) * frame : 0) + i - l;
}

/* The same of the reversed sequence: the last segment's text comes first, its tokens in their
 * order; the video's last token comes first. */
static int64_t reversed(const ttt *m, int64_t i)
{
    int64_t l = text_of(m);
    if (i < m->text)
        return (m->segments - 1 - i / l) * l + i % l;
    return m->text + tokens_of(m) - 1 - i;
}

/* The place of token i of the reversed sequence, interleaved. */
static int64_t from_end(const ttt *m, int64_t i)
{
    return reversed(m, interleaved(m, i));
}

/* The order of vt_reorder and its inverse, for `rows` sequences. */
static void make_order(vt_ctx *g, const ttt *m, int64_t (*place)(const ttt *m, int64_t i),
                       int64_t rows, vt_tensor **order, vt_tensor **inverse)
{
    const int64_t n = tokens_of(m), all = rows * n;
    int32_t *to = malloc((size_t)all * sizeof *to), *from = malloc((size_t)all * sizeof *from);
    for (int64_t i = 0; to && from && i < all; i++) {
        to[i] = (int32_t)(i / n * n + place(m, i % n));
        from[to[i]] = (int32_t)i;
    }
    if (to && from) {
        *order = vt_from_host(g, VC_I32, 1, &all, to, VC_I32);
        *inverse = vt_from_host(g, VC_I32, 1, &all, from, VC_I32);
    } else {
        vt_fail(g, VC_ENOMEM, "order of tokens: out of memory");
    }
    free(to);
    free(from);
}

/* ---- positions ---- */

/* A table of rotations for text and video: text is not rotated, so all its cosines are 1, its sines
 * 0. */
static vt_tensor *with_text(vt_ctx *g, const ttt *m, vt_tensor *video, float value)
{
    if (!video)
        return NULL;
    const int64_t dim[2] = { m->text, video->dim[1] };
    float *x = malloc((size_t)(dim[0] * dim[1]) * sizeof *x);
    if (!x)
        return vt_fail(g, VC_ENOMEM, "positions: out of memory");
    for (int64_t i = 0; i < dim[0] * dim[1]; i++)
        x[i] = value;
    vt_tensor *part[2] = { vt_from_host(g, VC_F32, 2, dim, x, VC_F32), video };
    free(x);
    return vt_concat(g, 0, 2, part);
}

/* Positions of the attention begin again in each segment, those of the TTT layer do not. */
static void make_positions(vt_ctx *g, const ttt *m, const int64_t *dim, vt_tensor **made)
{
    const cogvideox *base = &m->base;
    int64_t pairs = base->c.head / 2;
    int64_t rows = dim[3] / base->patch[1], columns = dim[4] / base->patch[2];
    nn_axis axis[3] = { { TTT_SEGMENT + 1, 0, 1, pairs / 4 }, { rows, 0, 1, pairs / 8 * 3 },
                        { columns, 0, 1, pairs / 8 * 3 } };
    vt_tensor *all[2], *order = NULL, *inverse = NULL;
    nn_rope(g, axis, THETA, made + COG_ROPE);
    axis[0].n = dim[2];
    nn_rope(g, axis, THETA, all);
    if (m->segments > 1)
        make_order(g, m, interleaved, 1, &order, &inverse);
    for (int i = 0; i < 2 && !vt_failed(g); i++) {
        all[i] = with_text(g, m, all[i], i ? 0 : 1);
        made[SCAN_COS + i] = m->segments > 1 ? vt_reorder(g, all[i], order, inverse) : all[i];
    }
}

/* ---- checks of inputs ---- */

static bool check_segments(vt_ctx *g, const ttt *m, const int64_t *dim)
{
    long long f = dim[2], n = m->segments < MAX_SEGMENTS ? m->segments : MAX_SEGMENTS;
    if (f != TTT_SEGMENT * n + 1)
        return vt_fail(g, VC_EMISMATCH, "latents of %lld frames: TTT layers read segments of %d "
                       "latent frames (3 s) after the first frame, at most %d of them: give clips "
                       "of %lld latent frames (%lld pixel frames)", f, TTT_SEGMENT, MAX_SEGMENTS,
                       TTT_SEGMENT * n + 1, 4 * TTT_SEGMENT * n + 1);
    if (text_of(m) * m->segments != m->text)
        return vt_fail(g, VC_EMISMATCH, "prompts of %lld tokens for %lld segments (%lld latent "
                       "frames): each segment has a text of its own, and all have the same number "
                       "of tokens", (long long)m->text, (long long)m->segments, f);
    return true;
}

/* The text length next to l, shorter if there is one, with which the sequence is a multiple of the
 * mini-batch; 0: no length. */
static int64_t fitting(const ttt *m, int64_t l)
{
    int64_t size = m->c.mini_batch, n = m->segments, video = m->base.video;
    for (int64_t d = 1; d < size && d < l; d++)
        if ((video + n * (l - d)) % size == 0)
            return l - d;
    for (int64_t d = 1; d < size; d++)
        if ((video + n * (l + d)) % size == 0)
            return l + d;
    return 0;
}

static bool check_tokens(vt_ctx *g, const ttt *m, const int64_t *dim)
{
    char remedy[96] = "no length of prompts fits: change the size of the clips";
    long long l = text_of(m), fits = fitting(m, l);
    if (tokens_of(m) % m->c.mini_batch == 0)
        return true;
    if (fits)
        snprintf(remedy, sizeof remedy, "prompts of %lld tokens fit (vprep --tokenizer_max_length "
                 "%lld)", fits, fits);
    return vt_fail(g, VC_EMISMATCH, "%lld latent frames of %lld tokens and %lld prompts of %lld "
                   "tokens are a sequence of %lld tokens, which is no multiple of "
                   "--mini_batch_size %lld: %s",
                   (long long)dim[2], (long long)frame_of(m), (long long)m->segments, l,
                   (long long)tokens_of(m), (long long)m->c.mini_batch, remedy);
}

static void ttt_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    ttt *m = model;
    vt_tensor **made = in->made;
    if (!cogvideox_check(g, &m->base, in))
        return;
    const int64_t *dim = in->x->dim, rows = dim[0];
    m->segments = dim[2] > TTT_SEGMENT ? dim[2] / TTT_SEGMENT : 1;
    m->text = in->text[0].embeds->dim[1];
    m->base.video = dim[2] * (dim[3] / m->base.patch[1]) * (dim[4] / m->base.patch[2]);
    if (!check_segments(g, m, dim) || !check_tokens(g, m, dim))
        return;
    make_positions(g, m, dim, made);
    if (m->segments > 1)
        make_order(g, m, interleaved, rows, &made[FORWARD], &made[FORWARD_BACK]);
    make_order(g, m, from_end, rows, &made[BACKWARD], &made[BACKWARD_BACK]);
}

static void ttt_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    cogvideox_embed(g, model, in, s);
    for (int i = 0; COG_MADE + i < MADE; i++)
        s[COG_IN + i] = in->made[COG_MADE + i];
}

/* ---- attention within segments ---- */

/* Joins n parts, whose list it overwrites: vt_concat takes a few at a time. */
static vt_tensor *join(vt_ctx *g, int axis, int64_t n, vt_tensor **part)
{
    while (n > 1) {
        int64_t joined = 0;
        for (int64_t i = 0; i < n; i += VT_SAVED)
            part[joined++] = vt_concat(g, axis, (int)(n - i < VT_SAVED ? n - i : VT_SAVED),
                                       part + i);
        n = joined;
    }
    return part[0];
}

/* Frames begin..end-1 of a segment's sequence [B,l+13 frames,H,HEAD]. */
static vt_tensor *frames(vt_ctx *g, const ttt *m, vt_tensor *x, int64_t begin, int64_t end)
{
    int64_t l = text_of(m), frame = frame_of(m);
    return vt_slice(g, x, 1, l + begin * frame, l + end * frame);
}

/* x [B,n+N,H,HEAD] -> [segments*B,l+13 frames,H,HEAD]: segments become rows of the batch. */
static vt_tensor *split(vt_ctx *g, const ttt *m, vt_tensor *x)
{
    int64_t l = text_of(m), step = TTT_SEGMENT * frame_of(m);
    vt_tensor *part[MAX_SEGMENTS];
    for (int64_t i = 0; i < m->segments; i++) {
        int64_t first = m->text + i * step;
        vt_tensor *both[2] = { vt_slice(g, x, 1, i * l, (i + 1) * l),
                               vt_slice(g, x, 1, first, first + step + frame_of(m)) };
        part[i] = vt_concat(g, 1, 2, both);
    }
    return join(g, 0, m->segments, part);
}

/* The inverse: a frame of two segments is the mean of both. */
static vt_tensor *unite(vt_ctx *g, const ttt *m, vt_tensor *y)
{
    vt_tensor *part[3 * MAX_SEGMENTS], *now, *next;
    int64_t n = m->segments, k = n;
    if (!y)
        return NULL;
    int64_t rows = y->dim[0] / n;
    next = vt_slice(g, y, 0, 0, rows);
    for (int64_t i = 0; i < n; i++) {
        bool last = i == n - 1;
        now = next;
        part[i] = vt_slice(g, now, 1, 0, text_of(m));
        part[k++] = frames(g, m, now, i > 0, TTT_SEGMENT + last);
        if (last)
            break;
        next = vt_slice(g, y, 0, (i + 1) * rows, (i + 2) * rows);
        part[k++] = vt_scale(g, vt_add(g, frames(g, m, now, TTT_SEGMENT, TTT_SEGMENT + 1),
                                       frames(g, m, next, 0, 1)), 0.5f);
    }
    return join(g, 1, k, part);
}

/* Tokens h of all heads, or this process's of a shared sequence, through a linear layer: all tokens
 * of all heads, or of this process's. */
static vt_tensor *projected(vt_ctx *g, const ttt *m, vt_tensor *h, const vt_lin *l)
{
    return vt_to_heads(g, nn_project(g, h, l, NULL, &(nn_heads){ .n = m->base.c.heads }));
}

/* The reverse for results y: all heads of a token in one row, [B,n,D]. */
static vt_tensor *gathered(vt_ctx *g, vt_tensor *y)
{
    y = vt_to_tokens(g, y);
    return y ? vt_reshape(g, y, 3, (int64_t[]){ y->dim[0], y->dim[1], -1 }) : NULL;
}

/* Queries or keys in segments, normalised and rotated. */
static vt_tensor *placed(vt_ctx *g, const ttt *m, vt_tensor *h, const vt_lin *l,
                         const nn_norm *norm, const nn_heads *heads)
{
    vt_tensor *x = split(g, m, projected(g, m, h, l));
    x = vt_layer_norm(g, x, norm->w, norm->b, heads->eps);
    return vt_rope(g, x, heads->cos, heads->sin, heads->begin);
}

static vt_tensor *attention(vt_ctx *g, const ttt *m, const nn_attention *w, vt_tensor *h,
                            vt_tensor *const *in)
{
    const nn_heads heads = cogvideox_heads(&m->base, in, text_of(m));
    vt_tensor *q = placed(g, m, h, &w->q, &w->norm_q, &heads);
    vt_tensor *k = placed(g, m, h, &w->k, &w->norm_k, &heads);
    vt_tensor *v = split(g, m, projected(g, m, h, &w->v));
    vt_tensor *y = unite(g, m, vt_attention(g, q, k, v, &(vt_attn){ 0 }));
    return vt_linear(g, gathered(g, y), &w->out);
}

/* ---- the TTT layer ---- */

/* The step sizes as the authors' program takes them: a mini-batch of the scan has those of the
 * mini-batch, of the sequence that is not interleaved, from which its last token comes. */
static vt_tensor *authors_steps(vt_ctx *g, const ttt *m, vt_tensor *eta)
{
    const int64_t size = m->c.mini_batch, n = tokens_of(m) / size;
    vt_tensor *part[2 * MAX_SEGMENTS + 1];
    int64_t k = 0, first = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = interleaved(m, (i + 1) * size - 1) / size;
        int64_t next = i + 1 < n ? interleaved(m, (i + 2) * size - 1) / size : -1;
        first = i && interleaved(m, i * size - 1) / size + 1 == at ? first : at;
        if (next != at + 1)
            part[k++] = vt_slice(g, eta, 1, first * size, (at + 1) * size);
    }
    return join(g, 1, k, part);
}

/* x [B,N,..] with its tokens in the order of in[0], whose inverse is in[1]; NULL: x itself. */
static vt_tensor *moved(vt_ctx *g, vt_tensor *x, vt_tensor *const in[2])
{
    if (!x || !in[0])
        return x;
    vt_tensor *y = vt_reshape(g, x, 3, (int64_t[]){ x->dim[0], x->dim[1], -1 });
    y = vt_reorder(g, y, in[0], in[1]);
    return y ? vt_reshape(g, y, x->nd, x->dim) : NULL;
}

/* This process's heads of a parameter [HEADS,..]. */
static vt_tensor *own(vt_ctx *g, const ttt *m, vt_tensor *w)
{
    int64_t first, n = vt_own_heads(g, m->base.c.heads, &first);
    return w ? vt_slice(g, w, 0, first, first + n) : NULL;
}

/* The inner model's step size of each token of u [B,n,D], in the scan's order: [B,N,HEADS] f32. */
static vt_tensor *steps(vt_ctx *g, const ttt *m, const ttt_block *w, vt_tensor *u,
                        vt_tensor *const *in, int order)
{
    const int64_t heads = m->base.c.heads, size = m->c.mini_batch;
    const vt_lin rate = { .w = vt_reshape(g, w->lr_w, 2, (int64_t[]){ heads, -1 }),
                          .b = vt_reshape(g, w->lr_b, 1, (int64_t[]){ heads }) };
    if (!rate.w || !rate.b)
        return NULL;
    vt_tensor *eta = vt_sigmoid(g, vt_linear_f32(g, u, &rate));
    eta = vt_scale(g, eta, (float)(m->c.base_lr / (double)(m->base.c.head * size)));
    if (!eta)
        return NULL;
    eta = vt_to_heads(g, vt_reshape(g, eta, 4, (int64_t[]){ eta->dim[0], eta->dim[1], heads, 1 }));
    eta = moved(g, eta, in + order);
    if (!eta)
        return NULL;
    eta = vt_reshape(g, eta, 3, eta->dim);
    if (!m->c.compat || !in[FORWARD_AT])
        return eta;
    vt_tensor *const apart[2] = { in[FORWARD_AT + 1], in[FORWARD_AT] };
    return authors_steps(g, m, moved(g, eta, apart));
}

/* Queries or keys in the scan's order: each head has length 1 and is rotated. */
static vt_tensor *rotated(vt_ctx *g, const ttt *m, vt_tensor *u, const vt_lin *l,
                          vt_tensor *const *in, int order)
{
    vt_tensor *x = moved(g, projected(g, m, u, l), in + order);
    return vt_rope(g, vt_l2_norm(g, x, NULL, L2_EPS), in[COS_AT], in[SIN_AT], 0);
}

/* The inner model learns v - k from k, normalised by its deviation, whose divisor is one less than
 * the number of elements. */
static vt_tensor *target(vt_ctx *g, const ttt *m, const vt_ttt *scan, vt_tensor *v)
{
    double head = (double)m->base.c.head;
    vt_tensor *d = vt_layer_norm(g, vt_sub(g, v, scan->k), NULL, NULL, TARGET_EPS);
    d = vt_scale(g, d, (float)sqrt((head - 1) / head));
    return vt_add(g, vt_mul(g, d, scan->gamma), scan->beta);
}

/* u [B,n,D] -> [B,n,D]. order: FORWARD_AT or BACKWARD_AT. */
static vt_tensor *layer(vt_ctx *g, const ttt *m, const ttt_block *w, vt_tensor *u,
                        vt_tensor *const *in, int order)
{
    vt_tensor *const back[2] = { in[order + 1], in[order] };
    vt_ttt scan = { .eta = steps(g, m, w, u, in, order),
                    .gamma = own(g, m, w->gamma), .beta = own(g, m, w->beta),
                    .w1 = own(g, m, w->w1), .b1 = own(g, m, w->b1),
                    .w2 = own(g, m, w->w2), .b2 = own(g, m, w->b2),
                    .mini_batch = m->c.mini_batch, .group = m->c.group };
    scan.q = rotated(g, m, u, &w->wq, in, order);
    scan.k = rotated(g, m, u, &w->wk, in, order);
    scan.target = target(g, m, &scan, moved(g, projected(g, m, u, &w->wv), in + order));
    vt_tensor *y = gathered(g, moved(g, vt_ttt_scan(g, &scan), back));
    return vt_linear(g, vt_layer_norm(g, y, w->post.w, w->post.b, NORM_EPS), &w->wo);
}

/* u + tanh(alpha) y. The alphas are one tensor, so that a process whose tokens are all of the video
 * reaches the text's too: all processes have to agree which parameters have a gradient. */
static vt_tensor *gated(vt_ctx *g, const ttt *m, const gates *alpha, vt_tensor *u, vt_tensor *y)
{
    vt_tensor *both[2] = { alpha->text, alpha->video };
    const int64_t d = m->base.c.heads * m->base.c.head;
    vt_tensor *gate = vt_tanh(g, vt_cast(g, vt_concat(g, 0, 2, both), VC_F32));
    const nn_groups e = { .split = vt_own_before(g, m->text),
                          .gate = { vt_slice(g, gate, 0, 0, d), vt_slice(g, gate, 0, d, 2 * d) } };
    return nn_gate(g, u, y, &e);
}

static vt_tensor *mix(vt_ctx *g, const void *model, const void *weights, vt_tensor *h,
                      vt_tensor *const *in)
{
    const ttt *m = model;
    const ttt_block *w = weights;
    h = attention(g, m, &w->base.attn, h, in);
    h = gated(g, m, &w->forward, h, layer(g, m, w, h, in, FORWARD_AT));
    return gated(g, m, &w->backward, h, layer(g, m, w, h, in, BACKWARD_AT));
}

static void block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                  vt_tensor **out)
{
    out[0] = cogvideox_run(g, model, weights, in, mix);
}

/* ---- the row ---- */

const vtrain_family vtrain_ttt = {
    .class_name = TTT_CLASS,
    .first_class = "CogVideoXTransformer3DModel", .convert = ttt_convert, .lora_names = ttt_names,
    .ssm = ttt_config_set, .without_ssm = &vtrain_cogvideox,
    .adapters = { NULL, SEQ, SEQ "q.," SEQ "k.," SEQ "v.," SEQ "o.," SEQ "ssm.,gating_alpha" },
    .text_args = { "encoder_hidden_states" }, .layout = VTRAIN_FRAMES_FIRST,
    .size = sizeof(ttt), .weights = offsetof(ttt, base.w), .table = model_table,
    .read = ttt_read, .fit = ttt_fit, .prepare = ttt_prepare, .embed = ttt_embed,
    .blocks = { { "dit.layers.%d.", block_table, sizeof(ttt_block), IN_BLOCK, 1, block, NULL,
                  NULL } },
    .head = cogvideox_head,
    .objective = VTRAIN_V, .density = VTRAIN_UNIFORM,
    .flow_shift = 1, .logit_mean = 0, .logit_std = 1,
    .posterior_mean = false, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 6, .batch = 1, .steps = 1000,
    .lora_targets = "q,k,v,o",
};

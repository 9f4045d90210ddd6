/* attention.h - attention of a transformer's block (Vaswani et al. 2017, 3.2) with norms of queries
 * and keys (Henry et al. 2020) and rotated positions (Su et al. 2021).
 *
 * A block has an nn_attention among its weights, bound by rows like its linears (weights.h). Where
 * text and video are one sequence, nn_self_attention is the whole attention; where each of them is
 * a stream with projections of its own, nn_joint_attention is. Other forms are made of nn_project
 * and nn_attend. */
#ifndef COMMON_NN_ATTENTION_H
#define COMMON_NN_ATTENTION_H

#include "common/nn/modulation.h"

typedef struct nn_attention {
    vt_lin q, k, v, out;
    vt_lin gate;                              /* [heads,D]: each head's result is multiplied by 2
                                               * sigmoid(gate(x)) before the last linear layer;
                                               * w NULL: no gate */
    nn_norm norm_q, norm_k;                   /* [HEAD], or [D] of all heads together: with b a
                                               * layer norm, without b an RMS norm; w NULL: there
                                               * is no norm */
} nn_attention;

typedef struct nn_heads {
    int64_t n;                                /* heads */
    float eps;                                /* of the norms */
    vt_tensor *cos, *sin;                     /* [N,HEAD/2] for every head, as nn_rope makes them,
                                               * or [N,D/2] for all heads together; with B*N rows
                                               * each row of the batch has its own. NULL: none */
    int64_t begin;                            /* the first token that is rotated */
} nn_heads;

/* Makes the queries, keys or values of x [B,N,D]: [B,N,heads,HEAD]. Each head is normalised and
 * rotated; with norm NULL neither is done, since values need neither. */
vt_tensor *nn_project(vt_ctx *g, vt_tensor *x, const vt_lin *l, const nn_norm *norm,
                      const nn_heads *h);
/* Does what follows the linear layer there: y [B,N,D] are all heads' numbers of a token. */
vt_tensor *nn_in_heads(vt_ctx *g, vt_tensor *y, const nn_norm *norm, const nn_heads *h);
/* Rotates y [B,N,heads,HEAD] by tables [N,HEAD/2] for every head, or [N,D/2] or [B*N,D/2], of which
 * each head has its own part; element j of a head and element j + HEAD/2 are a pair. */
vt_tensor *nn_rotate_halves(vt_ctx *g, vt_tensor *y, vt_tensor *cos, vt_tensor *sin);
/* Puts o [B,N,D], the results of the heads, through the gates of x [B,N,D], if w has gates, and
 * through the last linear layer. */
vt_tensor *nn_gated_out(vt_ctx *g, vt_tensor *o, vt_tensor *x, const nn_attention *w,
                        int64_t heads);
/* Puts projected queries, keys and values through attention, then all heads of a token through a
 * linear layer: [B,N,D]. kv_len is vt_attention's. out NULL: there is no linear layer. */
vt_tensor *nn_attend(vt_ctx *g, vt_tensor *q, vt_tensor *k, vt_tensor *v, vt_tensor *kv_len,
                     const vt_lin *out);
/* o [B,N,heads,HEAD] as [B,N,D]: all heads of a token lie in one row. */
vt_tensor *nn_all_heads(vt_ctx *g, vt_tensor *o);
/* Puts projected queries, keys and values, of this process's tokens of a shared sequence, through
 * attention: [B,N,D]. kv_len is that of all tokens. */
vt_tensor *nn_attend_shared(vt_ctx *g, vt_tensor *q, vt_tensor *k, vt_tensor *v,
                            vt_tensor *kv_len);
/* h with the tables of this process's tokens, where processes share the sequence. */
nn_heads nn_own_heads(vt_ctx *g, const nn_heads *h);
/* Does both for one sequence x [B,N,D] that attends to itself. Where processes share the sequence
 * (common/tensor/exchange.h), x has this process's tokens, h and kv_len are those of the whole
 * sequence, each row of the batch has the same tables, and the number of processes divides
 * h->n. */
vt_tensor *nn_self_attention(vt_ctx *g, vt_tensor *x, const nn_attention *w, const nn_heads *h,
                             vt_tensor *kv_len);

/* Does the same with nn_rotate_halves; h has tables, and no first token. */
vt_tensor *nn_halves_attention(vt_ctx *g, vt_tensor *x, const nn_attention *w, const nn_heads *h,
                               vt_tensor *kv_len);

/* Does the same as nn_self_attention but for the last linear layer: the results of all heads,
 * [B,N,D]. */
vt_tensor *nn_heads_attention(vt_ctx *g, vt_tensor *x, const nn_attention *w, const nn_heads *h,
                              vt_tensor *kv_len);
/* The queries of x [B,N,D] see the keys of text [B,n,..]: [B,N,D]. */
vt_tensor *nn_cross_attention(vt_ctx *g, vt_tensor *x, vt_tensor *text, const nn_attention *w,
                              const nn_heads *h, vt_tensor *kv_len);

/* A stream is a sequence of tokens with projections and positions of its own. */
typedef struct nn_stream {
    vt_tensor *x;                             /* [B,N,D] */
    const nn_attention *w;                    /* out.w NULL: the block reads the stream and does
                                               * not change it, as SD3's last one does a text */
    const nn_heads *heads;
} nn_stream;
/* In joint attention (Esser et al. 2024, section 4) the queries of each stream see the keys of
 * both. out[i] [B,N,D] is stream i's result, or NULL where its w->out.w is. The keys of s[0] come
 * first: a text whose padding kv_len leaves out is s[1]. Where processes share a sequence of two
 * parts, x has this process's tokens of part 0 and of part 1, both ask, and heads and kv_len are
 * those of all tokens. */
void nn_joint_attention(vt_ctx *g, const nn_stream s[2], vt_tensor *kv_len, vt_tensor *out[2]);

#endif

/* exchange.h - one sequence of tokens shared by several processes (sequence parallelism as in
 * DeepSpeed-Ulysses, Jacobs et al. 2023).
 *
 * Process r of n holds a contiguous share of the tokens: linear layers, norms and feed-forward need
 * no other tokens. A layer that mixes tokens but not heads, such as attention or a recurrent layer
 * with a state per head, gets all tokens of a share of the heads in exchange, and gives its results
 * back:
 *
 *     x = vt_own_tokens(g, x);                  // [B,N,D] -> [B,n,D], after vt_share_tokens(g, N)
 *     q = vt_linear(g, x, &w->q);               // own tokens, all heads: [B,n,H,d]
 *     q = vt_to_heads(g, q);                    // all tokens, own heads: [B,N,H/P,d]
 *     y = vt_attention(g, q, k, v, NULL);       // or a scan over the N tokens
 *     y = vt_to_tokens(g, y);                   // [B,n,H,d]
 *     y = vt_linear(g, y, &w->out);
 *     y = vt_all_tokens(g, y);                  // [B,n,C] -> [B,N,C], the same on all processes
 *
 * A layer whose parameters differ by head takes those of its own heads, vt_own_heads. Nothing that
 * follows vt_all_tokens may have trained parameters, since each process would compute the whole of
 * their gradients. Elsewhere a process computes its part of the gradients of all parameters: their
 * sums over the processes are the gradients. All processes have to read the same parameters in a
 * step, also those of tokens that lie on other processes (ttt.c's gates), since a parameter without
 * a gradient is left out of the optimiser's step.
 *
 * A sequence may have two parts, such as a picture and a prompt, which have layers of their own:
 * each process holds a share of either part, the first part's in front, so that it reads the layers
 * of both. All tokens of the sequence are those of the first part, then those of the second.
 *
 * Without peers, or while no sequence is shared, the ops return their input.
 *
 * Shares differ by one token at most and nothing is padded, so tokens and results are those of one
 * process. In a dry step each process has the share of process 0, which is the largest: all
 * processes predict the same memory. */
#ifndef COMMON_TENSOR_EXCHANGE_H
#define COMMON_TENSOR_EXCHANGE_H

#include "common/base/piece.h"
#include "common/tensor/tensor.h"

/* The processes that share sequences. Their steps run the same ops in the same order. */
typedef struct vt_peers {
    int n, me;                   /* number of processes; this one's, from 0 */
    /* Collective: process r gets out[r] of `from`; in[r] of `to` comes from process r. The data is
     * on the context's device, and the call is ordered with the kernels queued on the context: it
     * may return before the data has moved. Pieces of `from` may overlap. */
    int (*exchange)(void *arg, void *to, const vc_piece *in, const void *from, const vc_piece *out,
                    vc_err *err);
    void *arg;
} vt_peers;

/* Sets the processes; outside steps. p is borrowed; NULL: this process is alone. */
void vt_set_peers(vt_ctx *g, const vt_peers *p);
/* From now on the processes share sequences of `tokens` tokens, which last until the next call; 0:
 * this process computes whole sequences, without its peers. Fails the step if there are fewer
 * tokens than processes. */
void vt_share_tokens(vt_ctx *g, int64_t tokens);
/* The same for a sequence of two parts; of no tokens in the second part it has one. Each part needs
 * a token for each process. */
void vt_share_parts(vt_ctx *g, int64_t first, int64_t second);
/* The sizes of the parts that are shared, 0 and 0 if none is: vt_share_parts takes them again. */
void vt_shared_parts(const vt_ctx *g, int64_t *first, int64_t *second);
/* The number of this process's tokens of part k; `all` where no sequence is shared. */
int64_t vt_own_count(const vt_ctx *g, int k, int64_t all);
/* This process's first token of part k, counted within the part; 0 where none is shared. */
int64_t vt_part_first(const vt_ctx *g, int k);
/* The number of tokens of the whole sequence; 0: none is shared. */
int64_t vt_shared_tokens(const vt_ctx *g);
/* This process's first token of the sequence, or of its first part; 0 where none is shared. */
int64_t vt_own_first(const vt_ctx *g);
/* The number of those tokens of this process that lie before token `end` of the sequence; `end`
 * itself where no sequence is shared. */
int64_t vt_own_before(const vt_ctx *g, int64_t end);
/* This process's share of `heads` heads: sets the first and returns their number. */
int64_t vt_own_heads(const vt_ctx *g, int64_t heads, int64_t *first);

/* ---- ops (op_exchange.c) ---- */

/* x [B,N,..] -> [B,n,..]: a copy of this process's tokens. */
vt_tensor *vt_own_tokens(vt_ctx *g, vt_tensor *x);
/* The same for a tensor of the tokens of part k alone. */
vt_tensor *vt_own_part(vt_ctx *g, vt_tensor *x, int k);
/* x [B,n,H,D] of all heads -> [B,N,H/P,D] of this process's heads. P divides H. */
vt_tensor *vt_to_heads(vt_ctx *g, vt_tensor *x);
/* x [B,N,H/P,D] -> [B,n,H,D]: the reverse, and the gradient, of vt_to_heads. */
vt_tensor *vt_to_tokens(vt_ctx *g, vt_tensor *x);
/* x [B,n,..] -> [B,N,..]. The result's gradient must be the same on all processes, as it is where
 * each computes the same from the result: each takes its own tokens of the gradient. */
vt_tensor *vt_all_tokens(vt_ctx *g, vt_tensor *x);
/* The same for a tensor of the tokens of part k alone. */
vt_tensor *vt_all_part(vt_ctx *g, vt_tensor *x, int k);

#endif

/* attend.h - attention as plain row kernels, included by bodies.h. A warp computes one query (or,
 * backward, one key), and each lane has its own columns of the head; the softmax is online (Milakov
 * & Gimelshein 2018). Without atomics the bits are the same every time. These kernels serve f32 and
 * shapes that cuDNN cannot read; they are not fast. vk_softmax stands between the two products of
 * wider heads and longer sequences (cuda/attend.c). */
#ifndef COMMON_KERNELS_ATTEND_H
#define COMMON_KERNELS_ATTEND_H

enum { VK_ATTEND_TEAMS = VK_THREADS / VK_WARP };
#ifdef __CUDA_ARCH__
enum { VK_MINE = VK_HEAD / VK_WARP };          /* columns of one lane */
#else
enum { VK_MINE = VK_HEAD };
#endif

/* A loop over this lane's columns lane, lane + lanes, .., which j counts. On a GPU the loop has a
 * fixed length, so that the arrays it indexes stay in registers. */
#ifdef __CUDA_ARCH__
#define VK_EACH_MINE(j, s, t)                                                                      \
    VK_UNROLL                                                                                      \
    for (int j = 0; j < VK_MINE; j++)                                                              \
        if ((uint32_t)((t).lane + j * (t).lanes) < (s)->d)
#else
#define VK_EACH_MINE(j, s, t)                                                                      \
    for (int j = 0; (uint32_t)((t).lane + j * (t).lanes) < (s)->d; j++)
#endif

VK_HD const char *vk_head_at(const vk_heads *x, uint32_t b, uint32_t h, uint32_t i)
{
    return x->data + (b * x->b + h * x->h + i * x->s) * (x->type == VK_F32 ? 4 : 2);
}

VK_HD void vk_head_load(const vk_heads *x, const vk_attend_args *s, uint32_t b, uint32_t h,
                        uint32_t i, vk_team t, float *v)
{
    const char *p = vk_head_at(x, b, h, i);

    VK_EACH_MINE(j, s, t)
        v[j] = vk_get(p, x->type, t.lane + j * t.lanes);
}

VK_HD void vk_head_store(const vk_heads *x, const vk_attend_args *s, uint32_t b, uint32_t h,
                         uint32_t i, vk_team t, const float *v, float scale)
{
    char *p = (char *)vk_head_at(x, b, h, i);

    VK_EACH_MINE(j, s, t) {
        int64_t at = t.lane + j * t.lanes;
        vk_put(p, x->type, at, v[j] * scale + (x->adds ? vk_get(p, x->type, at) : 0.0f));
    }
}

VK_HD float vk_head_dot(const vk_attend_args *s, vk_team t, const float *a, const float *b)
{
    float sum = 0;

    VK_EACH_MINE(j, s, t)
        sum += a[j] * b[j];
    return vk_team_sum(t, sum);
}

/* Keys, or queries, whose terms are summed before their sum is added to the total. One sum of all
 * would lose bits where many terms are alike, as those of a prompt's padding are: a gradient of q
 * is then a small difference of large sums. */
enum { VK_RUN = 32 };

/* Returns the end of the run that begins at `first`, of n terms. */
VK_HD uint32_t vk_run_end(uint32_t first, uint32_t n)
{
    return n - first < VK_RUN ? n : first + VK_RUN;
}

/* Adds the sums of a run to all, and empties them. */
VK_HD void vk_head_add(const vk_attend_args *s, vk_team t, float *all, float *run)
{
    VK_EACH_MINE(j, s, t) {
        all[j] += run[j];
        run[j] = 0;
    }
}

VK_HD uint32_t vk_keys(const vk_attend_args *s, uint32_t b)
{
    return s->kv_len ? (uint32_t)s->kv_len[b] : s->sk;
}

/* Returns the number of these keys that query i sees. */
VK_HD uint32_t vk_keys_seen(const vk_attend_args *s, uint32_t b, uint32_t i)
{
    uint32_t keys = vk_keys(s, b), end = s->causal ? (i / s->causal + 1) * s->causal : keys;

    return end < keys ? end : keys;
}

VK_HD float vk_bias_at(const vk_attend_args *s, uint32_t b, uint32_t h, uint32_t i, uint32_t k)
{
    const int64_t *st = s->bias_stride;

    return s->bias ? s->bias[b * st[0] + h * st[1] + i * st[2] + k * st[3]] : 0.0f;
}

/* The softmax and the result of a run of keys, or of all before it. */
typedef struct vk_softmax_sums {
    float most, sum, acc[VK_MINE];
} vk_softmax_sums;

/* Adds terms whose scores are relative to `most`, and whose weights add up to `sum`. */
VK_HD void vk_softmax_add(const vk_attend_args *s, vk_team t, vk_softmax_sums *to, float most,
                          float sum, const float *x)
{
    const float top = fmaxf(to->most, most), keep = expf(to->most - top), add = expf(most - top);

    VK_EACH_MINE(j, s, t)
        to->acc[j] = to->acc[j] * keep + add * x[j];
    to->sum = to->sum * keep + add * sum;
    to->most = top;
}

VK_HD void vk_softmax_clear(const vk_attend_args *s, vk_team t, vk_softmax_sums *x)
{
    x->most = -INFINITY;
    x->sum = 0;
    VK_EACH_MINE(j, s, t)
        x->acc[j] = 0;
}

VK_HD void vk_attend_row(const vk_attend_args *s, uint32_t b, uint32_t h, uint32_t i, vk_team t)
{
    float q[VK_MINE], x[VK_MINE];
    uint32_t keys = vk_keys_seen(s, b, i), hk = h / s->shared;
    vk_softmax_sums all, run;

    vk_head_load(&s->q, s, b, h, i, t, q);
    vk_softmax_clear(s, t, &all);
    for (uint32_t first = 0, end; first < keys; first = end) {
        end = vk_run_end(first, keys);
        vk_softmax_clear(s, t, &run);
        for (uint32_t k = first; k < end; k++) {
            vk_head_load(&s->k, s, b, hk, k, t, x);
            float score = vk_head_dot(s, t, q, x) * s->scale + vk_bias_at(s, b, h, i, k);
            vk_head_load(&s->v, s, b, hk, k, t, x);
            vk_softmax_add(s, t, &run, score, 1, x);
        }
        vk_softmax_add(s, t, &all, run.most, run.sum, run.acc);
    }
    vk_head_store(&s->o, s, b, h, i, t, all.acc, 1.0f / all.sum);
    if (t.lane == 0)
        s->lse[((uint64_t)b * s->heads + h) * s->sq + i] = all.most + logf(all.sum);
}

VK_HD void vk_attend_body(const vk_attend_args *s, uint32_t block, vk_team t)
{
    VK_EACH_TEAM(row, part, (uint64_t)s->batch * s->heads * s->sq, VK_ATTEND_TEAMS) {
        uint64_t bh = row / s->sq;
        vk_attend_row(s, (uint32_t)(bh / s->heads), (uint32_t)(bh % s->heads),
                      (uint32_t)(row % s->sq), part);
    }
}

VK_HD void vk_softmax_row(const vk_softmax_args *s, uint32_t row, vk_team t)
{
    const uint32_t i = s->first + row, keys = vk_keys_seen(&s->of, s->b, i);
    float *x = s->scores + (uint64_t)row * s->wide, most = -INFINITY, sum = 0;
    char *p = s->weights + (uint64_t)row * s->wide * (s->type == VK_F32 ? 4 : 2);

    for (uint32_t k = (uint32_t)t.lane; k < keys; k += (uint32_t)t.lanes) {
        x[k] += vk_bias_at(&s->of, s->b, s->h, i, k);
        most = fmaxf(most, x[k]);
    }
    most = vk_team_max(t, most);
    for (uint32_t k = (uint32_t)t.lane; k < keys; k += (uint32_t)t.lanes) {
        x[k] = expf(x[k] - most);
        sum += x[k];
    }
    sum = vk_team_sum(t, sum);
    for (uint32_t k = (uint32_t)t.lane; k < s->wide; k += (uint32_t)t.lanes)
        vk_put(p, s->type, k, k < keys ? x[k] / sum : 0.0f);
    if (t.lane == 0)
        s->of.lse[((uint64_t)s->b * s->of.heads + s->h) * s->of.sq + i] = most + logf(sum);
}

VK_HD void vk_softmax_body(const vk_softmax_args *s, uint32_t block, vk_team t)
{
    VK_EACH_TEAM(row, part, s->rows, VK_ATTEND_TEAMS)
        vk_softmax_row(s, (uint32_t)row, part);
}

/* Returns dS of one pair of query and key to all lanes: p (dp - D), D = dout o; *prob becomes p. */
VK_HD float vk_pair(const vk_attend_args *s, uint32_t b, uint32_t h, uint32_t i, vk_team t,
                    const float *q, const float *k, const float *v, const float *dout,
                    float delta, float *prob)
{
    float lse = s->lse[((uint64_t)b * s->heads + h) * s->sq + i];

    *prob = expf(vk_head_dot(s, t, q, k) * s->scale - lse);
    return *prob * (vk_head_dot(s, t, dout, v) - delta);
}

/* dq = scale * sum over keys of dS k */
VK_HD void vk_attend_dq_row(const vk_attend_args *s, uint32_t b, uint32_t h, uint32_t i, vk_team t)
{
    float q[VK_MINE], dout[VK_MINE], x[VK_MINE], acc[VK_MINE], run[VK_MINE];
    const float lse = s->lse[((uint64_t)b * s->heads + h) * s->sq + i];
    uint32_t keys = vk_keys(s, b);

    vk_head_load(&s->q, s, b, h, i, t, q);
    vk_head_load(&s->dout, s, b, h, i, t, dout);
    vk_head_load(&s->o, s, b, h, i, t, x);
    const float delta = vk_head_dot(s, t, dout, x);
    VK_EACH_MINE(j, s, t)
        acc[j] = run[j] = 0;
    for (uint32_t first = 0, end; first < keys; first = end) {
        end = vk_run_end(first, keys);
        for (uint32_t n = first; n < end; n++) {
            vk_head_load(&s->v, s, b, h, n, t, x);
            const float dp = vk_head_dot(s, t, dout, x) - delta;
            vk_head_load(&s->k, s, b, h, n, t, x); /* one array of both needs fewer registers */
            const float ds = expf(vk_head_dot(s, t, q, x) * s->scale - lse) * dp;
            VK_EACH_MINE(j, s, t)
                run[j] += ds * x[j];
        }
        vk_head_add(s, t, acc, run);
    }
    vk_head_store(&s->dq, s, b, h, i, t, acc, s->scale);
}

VK_HD void vk_attend_dq_body(const vk_attend_args *s, uint32_t block, vk_team t)
{
    VK_EACH_TEAM(row, part, (uint64_t)s->batch * s->heads * s->sq, VK_ATTEND_TEAMS) {
        uint64_t bh = row / s->sq;
        vk_attend_dq_row(s, (uint32_t)(bh / s->heads), (uint32_t)(bh % s->heads),
                         (uint32_t)(row % s->sq), part);
    }
}

/* dk = scale * sum over queries of dS q, dv = sum of p dout; both are 0 for keys past kv_len */
VK_HD void vk_attend_dkv_row(const vk_attend_args *s, uint32_t b, uint32_t h, uint32_t n,
                             vk_team t)
{
    float k[VK_MINE], v[VK_MINE], q[VK_MINE], dout[VK_MINE], o[VK_MINE], dk[VK_MINE], dv[VK_MINE];
    float run_k[VK_MINE], run_v[VK_MINE];
    uint32_t queries = n < vk_keys(s, b) ? s->sq : 0;

    vk_head_load(&s->k, s, b, h, n, t, k);
    vk_head_load(&s->v, s, b, h, n, t, v);
    VK_EACH_MINE(j, s, t)
        dk[j] = dv[j] = run_k[j] = run_v[j] = 0;
    for (uint32_t first = 0, end; first < queries; first = end) {
        end = vk_run_end(first, queries);
        for (uint32_t i = first; i < end; i++) {
            float p, ds;
            vk_head_load(&s->q, s, b, h, i, t, q);
            vk_head_load(&s->dout, s, b, h, i, t, dout);
            vk_head_load(&s->o, s, b, h, i, t, o);
            ds = vk_pair(s, b, h, i, t, q, k, v, dout, vk_head_dot(s, t, dout, o), &p);
            VK_EACH_MINE(j, s, t) {
                run_k[j] += ds * q[j];
                run_v[j] += p * dout[j];
            }
        }
        vk_head_add(s, t, dk, run_k);
        vk_head_add(s, t, dv, run_v);
    }
    if (s->dk.data)
        vk_head_store(&s->dk, s, b, h, n, t, dk, s->scale);
    if (s->dv.data)
        vk_head_store(&s->dv, s, b, h, n, t, dv, 1.0f);
}

VK_HD void vk_attend_dkv_body(const vk_attend_args *s, uint32_t block, vk_team t)
{
    VK_EACH_TEAM(row, part, (uint64_t)s->batch * s->heads * s->sk, VK_ATTEND_TEAMS) {
        uint64_t bh = row / s->sk;
        vk_attend_dkv_row(s, (uint32_t)(bh / s->heads), (uint32_t)(bh % s->heads),
                          (uint32_t)(row % s->sk), part);
    }
}

#endif

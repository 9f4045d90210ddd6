/* video.h - kernels of video transformers: rotary embeddings, patches, noise, and embeddings of
 * timesteps and tokens. Included by bodies.h. */
#ifndef COMMON_KERNELS_VIDEO_H
#define COMMON_KERNELS_VIDEO_H

/* Rotates a pack of elements first.. at x, whose partners are half a row away. */
VK_HD void vk_rope_halves(const vk_rope_args *s, int64_t token, int64_t first, int n,
                          const char *x, vk_f8 *y)
{
    const int64_t half = s->w.n / 2;

    VK_UNROLL
    for (int j = 0; j < 8; j++) {
        if (j >= n)
            continue;
        int64_t low = first + j < half, at = token * half + first + j - (low ? 0 : half);
        int64_t other = (j + (low ? half : -half)) * s->w.step[1];
        float cross = vk_get(x, s->w.type[1], other) * (s->s[at] * s->sign);
        y->v[j] = y->v[j] * s->c[at] + (low ? -cross : cross);
    }
}

/* (a,b) -> (a c - s b sign, b c + s a sign) */
VK_HD void vk_rope_body(const vk_rope_args *s, uint32_t block, vk_team t)
{
    const vk_walk *w = &s->w;

    VK_EACH(u, (uint64_t)w->rows * w->packs) {
        uint32_t row = (uint32_t)u / w->packs, token = row / s->heads % s->tokens;
        int64_t first = (int64_t)((uint32_t)u - row * w->packs) * 8;
        int n = vk_left(w, first);
        char *p[2];
        vk_place(w, 2, row, (uint32_t)(first / 8), p);
        vk_f8 x = vk_load8(p[1], w->type[1], w->step[1], n), y = x;
        int rotated = token >= s->begin && token < s->end;
        if (rotated && s->halves) {
            vk_rope_halves(s, token - s->begin, first, n, p[1], &y);
        } else if (rotated) {
            int64_t angle = (int64_t)(token - s->begin) * (w->n / 2) + first / 2;
            VK_UNROLL
            for (int j = 0; j < 8; j += 2) {
                float c = j < n ? s->c[angle + j / 2] : 1.0f;
                float si = j < n ? s->s[angle + j / 2] * s->sign : 0.0f;
                y.v[j] = x.v[j] * c - x.v[j + 1] * si;
                y.v[j + 1] = x.v[j + 1] * c + x.v[j] * si;
            }
        }
        vk_write(w, 0, p[0], n, y, s->adds);
    }
}

/* A lane computes one element of the result, so that writes are contiguous. */
VK_HD void vk_patch_body(const vk_patch_args *s, uint32_t block, vk_team t)
{
    int64_t nt = s->t / s->pt, nh = s->h / s->ph, nw = s->w / s->pw;
    int64_t size = s->c * s->pt * s->ph * s->pw;

    VK_EACH(u, s->count) {
        int64_t i = (int64_t)u, b, c, f, y, x, at;
        if (s->to_tokens) {                    /* i: [b, (nt, nh, nw), token] */
            int64_t e = i % size, token = i / size, dt, dh, dw;
            if (s->c_first) {
                dw = e % s->pw, dh = e / s->pw % s->ph, dt = e / s->pw / s->ph % s->pt;
                c = e / s->pw / s->ph / s->pt;
            } else {
                c = e % s->c, dw = e / s->c % s->pw, dh = e / s->c / s->pw % s->ph;
                dt = e / s->c / s->pw / s->ph;
            }
            x = token % nw * s->pw + dw;
            y = token / nw % nh * s->ph + dh;
            f = token / nw / nh % nt * s->pt + dt;
            b = token / nw / nh / nt;
            at = (((b * s->c + c) * s->t + f) * s->h + y) * s->w + x;
        } else {                               /* i: [b, c, f, y, x] */
            x = i % s->w, y = i / s->w % s->h, f = i / s->w / s->h % s->t;
            c = i / s->w / s->h / s->t % s->c;
            b = i / s->w / s->h / s->t / s->c;
            int64_t dt = f % s->pt, dh = y % s->ph, dw = x % s->pw;
            int64_t token = ((b * nt + f / s->pt) * nh + y / s->ph) * nw + x / s->pw;
            at = token * size + (s->c_first ? ((c * s->pt + dt) * s->ph + dh) * s->pw + dw
                                            : ((dt * s->ph + dh) * s->pw + dw) * s->c + c);
        }
        char *to = s->to_tokens ? s->tokens : s->x, *from = s->to_tokens ? s->x : s->tokens;
        int to_type = s->to_tokens ? s->token_type : s->x_type;
        int from_type = s->to_tokens ? s->x_type : s->token_type;
        float v = vk_get(from, from_type, at);
        vk_put(to, to_type, i, s->adds ? vk_get(to, to_type, i) + v : v);
    }
}

VK_HD void vk_randn_body(const vk_randn_args *s, uint32_t block, vk_team t)
{
    VK_EACH(u, (uint64_t)s->batch * (uint64_t)s->quads) {
        uint32_t b = (uint32_t)(u / (uint64_t)s->quads);
        uint32_t quad = (uint32_t)(u % (uint64_t)s->quads);
        uint32_t word[4] = { quad, s->row0 + b, s->micro, s->purpose };
        float z[4];
        vk_philox(s->key[0], s->key[1], word);
        vk_normal4(word, z);
        for (int64_t j = 0; j < 4 && (int64_t)quad * 4 + j < s->n; j++)
            s->y[b * s->n + (int64_t)quad * 4 + j] = z[j];
    }
}

VK_HD void vk_dropout_body(const vk_dropout_args *s, uint32_t block, vk_team t)
{
    VK_EACH(u, (uint64_t)s->batch * (uint64_t)s->quads) {
        uint32_t b = (uint32_t)(u / (uint64_t)s->quads);
        uint32_t row = (uint32_t)s->draw[0] + b, micro = (uint32_t)s->draw[1];
        int64_t first = (int64_t)(u % (uint64_t)s->quads) * 4, at = -1;
        uint32_t e[4] = { (uint32_t)(first / 4), row, micro, s->purpose };
        uint32_t m[4] = { 0, row, micro, s->sample_purpose }, c[4] = { 0 };
        if (s->element)
            vk_philox(s->key[0], s->key[1], e);
        if (s->sample)
            vk_philox(s->key[0], s->key[1], m);
        for (int j = 0; j < 4 && first + j < s->count; j++) {
            int64_t column = (first + j) % s->n, i = b * s->count + first + j;
            if (s->column && column / 4 != at) {
                at = column / 4;
                c[0] = (uint32_t)at, c[1] = row, c[2] = micro, c[3] = s->column_purpose;
                vk_philox(s->key[0], s->key[1], c);
            }
            int gone = (s->element && e[j] < s->element) || (s->sample && m[0] < s->sample) ||
                       (s->column && c[column % 4] < s->column);
            vk_put(s->y, s->type, i, gone ? 0.0f : s->factor * vk_get(s->y, s->type, i));
        }
    }
}

VK_HD void vk_timestep_body(const vk_timestep_args *s, uint32_t block, vk_team t)
{
    VK_EACH(u, (uint64_t)s->batch * s->half) {
        uint32_t b = (uint32_t)u / s->half, k = (uint32_t)u - b * s->half;
        float w = (float)exp((double)(-(float)s->log_period * (float)k / (float)s->half));
        double a = (double)(s->t[b] * w);
        float *row = s->y + (uint64_t)b * 2 * s->half;
        row[k] = (float)cos(a);
        row[s->half + k] = (float)sin(a);
    }
}

VK_HD void vk_embedding_body(const vk_embedding_args *s, uint32_t block, vk_team t)
{
    uint64_t packs = (uint64_t)(s->n + 7) / 8;

    VK_EACH(u, s->count * packs) {
        uint64_t i = u / packs;
        int64_t first = (int64_t)(u % packs) * 8;
        int n = (int)(s->n - first < 8 ? s->n - first : 8);
        int32_t id = s->ids[i];
        vk_f8 v = { { 0 } };
        if (id >= 0 && (uint32_t)id < s->rows) {
            int size = s->table_type == VK_F32 ? 4 : s->table_type <= VK_F16 ? 2 : 1;
            v = vk_load8(s->table + (id * s->n + first) * size, s->table_type, 1, n);
        } else {
            *s->fault = i << 32 | (uint32_t)id;
        }
        int size = s->y_type == VK_F32 ? 4 : 2;
        vk_store8(s->y + ((int64_t)i * s->n + first) * size, s->y_type, 1, n, v);
    }
}

#endif

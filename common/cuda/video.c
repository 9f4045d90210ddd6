/* video.c - patches, rotary positions, noise, sinusoids, embedding, plain attention; see
 * kernel_list.h */
#include <math.h>

#include "common/base/rng.h"
#include "common/cuda/cuda.h"

static void patch(vt_dev *d, const vt_tensor *x, const vt_tensor *tokens, bool to_tokens, bool adds,
                  int pt, int ph, int pw, vt_patch_order order)
{
    vk_patch_args s = { .x = x->data, .tokens = tokens->data, .x_type = (int)x->dtype,
                        .token_type = (int)tokens->dtype, .pt = pt, .ph = ph, .pw = pw,
                        .c_first = order == VT_C_FIRST, .to_tokens = to_tokens, .adds = adds,
                        .count = vt_count(x), .c = x->dim[1], .t = x->dim[2], .h = x->dim[3],
                        .w = x->dim[4] };

    cuda_ok(d, vk_patch(d->stream, &s), to_tokens ? "patchify" : "unpatchify");
}

void cuda_patchify(vt_dev *d, vt_tensor *tokens, const vt_tensor *x, int pt, int ph, int pw,
                   vt_patch_order order)
{
    patch(d, x, tokens, true, vt_adds(tokens), pt, ph, pw, order);
    vt_wrote(tokens);
}

void cuda_unpatchify(vt_dev *d, vt_tensor *x, const vt_tensor *tokens, int pt, int ph, int pw,
                     vt_patch_order order)
{
    patch(d, x, tokens, false, vt_adds(x), pt, ph, pw, order);
    vt_wrote(x);
}

void cuda_rope(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *c,
               const vt_tensor *sn, int64_t begin, bool halves, float sign)
{
    vk_rope_args s = { .c = c->data, .s = sn->data, .tokens = (uint32_t)x->dim[1],
                       .heads = (uint32_t)x->dim[2], .begin = (uint32_t)begin,
                       .end = (uint32_t)(begin + c->dim[0]), .sign = sign,
                       .halves = halves, .adds = vt_adds(y) };

    if (cuda_walk(d, &s.w, "rope", 2, (const vt_tensor *const[]){ y, x }, false))
        cuda_ok(d, vk_rope(d->stream, &s), "rope");
    vt_wrote(y);
}

void cuda_randn(vt_dev *d, vt_tensor *y, uint64_t seed, uint32_t row0, uint32_t micro,
                uint32_t purpose)
{
    int64_t n = vt_count(y) / y->dim[0];
    vk_randn_args s = { .y = y->data, .n = n, .quads = (n + 3) / 4, .batch = (uint32_t)y->dim[0],
                        .key = { (uint32_t)seed, (uint32_t)(seed >> 32) }, .row0 = row0,
                        .micro = micro, .purpose = purpose };

    cuda_ok(d, vk_randn(d->stream, &s), "randn");
}

void cuda_dropout(vt_dev *d, vt_tensor *y, const vt_tensor *draw, const vt_drop *how)
{
    int64_t count = how->rows * y->dim[1];
    vk_dropout_args s = {
        .y = y->data, .type = (int)y->dtype, .draw = draw->data, .n = y->dim[1],
        .quads = (count + 3) / 4, .count = count, .batch = (uint32_t)(y->dim[0] / how->rows),
        .element = how->element, .column = how->column, .sample = how->sample,
        .purpose = how->purpose, .column_purpose = VC_DRAW_DROP_RANK,
        .sample_purpose = VC_DRAW_DROP_MODULE, .key = { how->key[0], how->key[1] },
        .factor = how->factor,
    };

    cuda_ok(d, vk_dropout(d->stream, &s), "dropout");
}

void cuda_timestep(vt_dev *d, vt_tensor *y, const vt_tensor *t, float max_period)
{
    vk_timestep_args s = { y->data, t->data, (uint32_t)y->dim[0], (uint32_t)y->dim[1] / 2,
                           log((double)max_period) };

    cuda_ok(d, vk_timestep(d->stream, &s), "timestep");
}

void cuda_embedding(vt_dev *d, vt_tensor *y, const vt_tensor *table, const vt_tensor *ids)
{
    vk_embedding_args s = { .y = y->data, .table = table->data, .ids = ids->data,
                            .y_type = (int)y->dtype, .table_type = (int)table->dtype,
                            .count = (uint32_t)vt_count(ids), .rows = (uint32_t)table->dim[0],
                            .n = table->dim[1], .fault = d->bad_id };

    cuda_ok(d, vk_embedding(d->stream, &s), "embedding");
}

void cuda_check_ids(vt_dev *d)
{
    const uint64_t none = UINT64_MAX;
    uint64_t lost;

    cuda_download(d, &lost, d->bad_id, sizeof lost);
    if (lost == none)
        return;
    cuda_fault(d, VC_EINVAL, "embedding: id %d at %u is outside the table", (int)(uint32_t)lost,
               (unsigned)(lost >> 32));
    cuda_upload(d, d->bad_id, &none, sizeof none);
}

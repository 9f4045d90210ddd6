/* ltx_batch.c - see ltx_batch.h */
#include "train/models/ltx/ltx_batch.h"

#include <stdlib.h>

#include "common/tensor/exchange.h"

#define OUT_EPS 1e-6f

double ltx_rate_of(const vtrain_in *in, int64_t b)
{
    return in->x->dim[2] > 1 ? (double)in->fps[b] : 1;
}

/* The rotations of the rows of a batch; one clip stands for all rows of the same frame rate. */
typedef struct batch_rope {
    ltx_rope **clip;                          /* [clips] */
    int64_t clips, tokens, pairs;
    bool sines;
} batch_rope;

static void fill_rows(const void *arg, int64_t first, int64_t n, float *rows)
{
    const batch_rope *r = arg;
    while (n > 0) {
        int64_t at = first % r->tokens, m = r->tokens - at < n ? r->tokens - at : n;
        ltx_rope_rows(r->clip[first / r->tokens], r->sines, at, m, rows);
        first += m;
        n -= m;
        rows += m * r->pairs;
    }
}

static bool have_rates(vt_ctx *g, const vtrain_in *in)
{
    for (int64_t b = 0; b < in->x->dim[0] && in->x->dim[2] > 1; b++)
        if (!in->fps || !(in->fps[b] > 0)) {
            vt_fail(g, VC_EMISMATCH, "row %lld has no frame rate, which LTX-Video's positions "
                    "need", (long long)b);
            return false;
        }
    return true;
}

bool ltx_make_rope(vt_ctx *g, const ltx_grid *grid, const vtrain_in *in, vt_tensor *table[2])
{
    batch_rope r = { .clips = 1, .tokens = grid->dim[0] * grid->dim[1] * grid->dim[2],
                     .pairs = grid->pairs };
    if (!grid->sound && !have_rates(g, in))
        return false;
    for (int64_t b = 1; b < in->x->dim[0] && !grid->sound; b++)
        if (ltx_rate_of(in, b) != ltx_rate_of(in, 0))
            r.clips = in->x->dim[0];
    r.clip = calloc((size_t)r.clips, sizeof *r.clip);
    bool ok = r.clip != NULL;
    for (int64_t b = 0; b < r.clips && ok; b++)
        ok = (r.clip[b] = ltx_rope_open(grid, grid->sound ? 0 : ltx_rate_of(in, b))) != NULL;
    for (int i = 0; i < 2 && ok; i++) {
        r.sines = i;
        table[i] = vt_from_rows(g, r.clips * r.tokens, r.pairs, fill_rows, &r);
    }
    if (!ok)
        vt_fail(g, VC_ENOMEM, "positions: out of memory");
    for (int64_t b = 0; r.clip && b < r.clips; b++)
        ltx_rope_close(r.clip[b]);
    free(r.clip);
    return ok;
}

void ltx_note_positions(vt_ctx *g, const ltx_grid *grid, const vtrain_in *in)
{
    const int64_t n = grid->dim[0] * grid->dim[1] * grid->dim[2], dim[3] = { in->x->dim[0], 3, n };
    float *host = in->note ? malloc((size_t)(dim[0] * 3 * n) * sizeof *host) : NULL;
    if (!in->note)
        return;
    for (int64_t b = 0; host && b < dim[0]; b++)
        ltx_positions(grid, ltx_rate_of(in, b), host + b * 3 * n);
    if (host)
        vtrain_note(in, "video_coords", vt_from_host(g, VC_F32, 3, dim, host, VC_F32));
    else
        vt_fail(g, VC_ENOMEM, "positions: out of memory");
    free(host);
}

vt_tensor *ltx_own_times(vt_ctx *g, vt_tensor *mod)
{
    return mod && mod->nd == 4 ? vt_own_tokens(g, mod) : mod;
}

vt_tensor *ltx_out(vt_ctx *g, vt_tensor *x, vt_tensor *e, vt_tensor *table, const vt_lin *out)
{
    vt_tensor *part[2];
    if (!e)
        return NULL;
    e = e->nd == 2 ? vt_reshape(g, e, 3, (int64_t[]){ e->dim[0], 1, e->dim[1] })
                   : vt_own_tokens(g, e);
    for (int i = 0; i < 2; i++)
        part[i] = vt_add(g, e, vt_slice(g, table, 0, i, i + 1));
    x = vt_layer_norm_modulate(g, x, NULL, NULL, part[0], part[1], OUT_EPS);
    return vt_linear(g, x, out);
}

vt_tensor *ltx_head(vt_ctx *g, const vtrain_in *in, vt_tensor *x, vt_tensor *e, vt_tensor *table,
                    const vt_lin *out)
{
    x = vt_all_tokens(g, ltx_out(g, x, e, table, out));
    return vt_unpatchify(g, x, in->x->dim + 1, 1, 1, 1, VT_C_FIRST);
}

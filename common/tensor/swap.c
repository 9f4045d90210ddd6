/* swap.c - frozen weights that stay on the host and come when their block is entered: weights.h
 *
 * All blocks that are away share one place on the device. Copies into it take their turn among the
 * kernels, so a block's weights never meet those of the one before; nothing is fetched ahead. */
#include <stdlib.h>
#include <string.h>

#include "common/tensor/engine.h"
#include "common/tensor/params.h"

typedef struct away {
    vt_tensor *t;
    int block;
    size_t offset;                             /* in the place */
} away;

struct vt_swap {
    vt_ctx *g;
    away *at;
    int n, here;                               /* here: the block whose weights are there, or -1 */
    char *place;
    size_t bytes;
};

static size_t padded(const vt_tensor *t)
{
    size_t bytes = (size_t)vt_count(t) * vc_dtype_size(t->dtype);
    return (bytes + 255) / 256 * 256;
}

void vt_swap_close(struct vt_swap *s)
{
    if (!s)
        return;
    if (s->g->swap == s)
        s->g->swap = NULL;
    s->g->be->free(s->g->dev, s->place, s->bytes);
    free(s->at);
    free(s);
}

size_t vt_swap_bytes(const struct vt_swap *s) { return s ? s->bytes : 0; }

void vt_swap_in(struct vt_swap *s, int index)
{
    if (s->here == index)
        return;
    for (int i = 0; i < s->n; i++) {
        away *a = &s->at[i];
        if (a->block == index)
            vt_param_lend(s->g, a->t, s->place + a->offset);
        else if (a->block == s->here)
            vt_param_lend(s->g, a->t, NULL);
    }
    s->here = index;
}

/* What is still away, with places that begin anew in each block. */
static int list(struct vt_swap *s, vt_params *p, vc_err *err)
{
    size_t used = 0;

    s->at = calloc((size_t)p->n + 1, sizeof *s->at);
    if (!s->at)
        return vc_fail(err, VC_ENOMEM, "out of memory");
    for (int i = 0; i < p->n; i++) {
        const vt_param *w = p->at[i];
        if (!vt_param_is_away(w->t))
            continue;
        if (s->n && s->at[s->n - 1].block != w->block)
            used = 0;
        s->at[s->n++] = (away){ w->t, w->block, used };
        used += padded(w->t);
        s->bytes = used > s->bytes ? used : s->bytes;
    }
    return 0;
}

int vt_params_place(vt_params *p, int blocks, vc_err *err)
{
    int rc = 0;

    for (int i = 0; i < p->n && !rc; i++) {
        const vt_param *w = p->at[i];
        if (vt_param_is_away(w->t) && w->block >= blocks)
            rc = vc_context(err, vt_param_place(p->g, w->t, err), "%s", w->name);
    }
    struct vt_swap *s = rc ? NULL : calloc(1, sizeof *s);
    if (!s)
        return rc ? rc : vc_fail(err, VC_ENOMEM, "out of memory");
    s->g = p->g;
    s->here = -1;
    rc = list(s, p, err);
    if (!rc && s->n) {
        s->place = p->g->be->alloc(p->g->dev, s->bytes);
        rc = s->place ? 0 : vc_fail(err, VC_ENOMEM, "no memory for %zu bytes on the device, of one "
                                    "block's weights", s->bytes);
    }
    vt_swap_close(p->swap);
    p->swap = p->g->swap = s;
    return rc;
}

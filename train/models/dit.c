/* dit.c - opens a transformer, runs its blocks, and joins its conditions; see dit.h */
#include "train/models/dit.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/nn/embeddings.h"
#include "common/tensor/exchange.h"
#include "formats/models/transformers.h"

typedef struct vtrain_layer {
    const vtrain_dit *model;
    const vtrain_blocks *kind;
    int number;                               /* the %d of kind->prefix */
    void *weights;                            /* kind->size bytes */
    vt_lin hint;                              /* of a side's block: the layer behind it */
    int from;                                 /* the side's block whose result is added behind this
                                               * block, or -1 */
} layer;

static const vt_weight hint_table[] = {       /* names follow hint_of */
    { "", VT_W_LINEAR, offsetof(layer, hint), { -1, -1 }, VT_INIT_ZERO }, { 0 }
};

/* The name of the layer behind a side's block; NULL: there is none. */
static const char *hint_of(const layer *l)
{
    const vtrain_family *f = l->model->family;
    return f->hint[l->kind - f->blocks];
}

/* ---- opening ---- */

static int add_layer(vtrain_dit *m, const vtrain_blocks *kind, int64_t number, vc_err *err)
{
    void *w = calloc(1, kind->size);
    if (!w)
        return vc_no_memory(err);
    m->layer[m->n_layers++] = (layer){ m, kind, (int)number, w, .from = -1 };
    return 0;
}

/* Adds block i of kind k, and the blocks of the next kind that stand behind it. */
static int add_layers(vtrain_dit *m, int k, int64_t i, int64_t number, vc_err *err)
{
    const vtrain_blocks *kind = &m->family->blocks[k];
    int rc = add_layer(m, kind, number, err);
    if (k + 1 == VTRAIN_KINDS || !kind[1].after)
        return rc;
    for (int64_t j = 0; !rc && j < m->layers[k + 1]; j++)
        if (kind[1].after(m, j) == i)
            rc = add_layer(m, kind + 1, j, err);
    return rc;
}

static int make_layers(vtrain_dit *m, vc_err *err)
{
    const vtrain_blocks *kind = m->family->blocks;
    int64_t n = 0, number = 0;
    for (int k = 0; k < VTRAIN_KINDS; k++)
        n += m->layers[k];
    m->layer = calloc((size_t)n, sizeof *m->layer);
    if (!m->layer)
        return vc_no_memory(err);
    for (int k = 0; k < VTRAIN_KINDS && kind->prefix; k++, kind++) {
        if (k && strcmp(kind->prefix, kind[-1].prefix))
            number = 0;
        int rc = 0;
        for (int64_t i = 0; !rc && i < m->layers[k] && !kind->after; i++)
            rc = add_layers(m, k, i, number++, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* Finds the side's block of each block: those of a kind have the same number of blocks after each,
 * but for the last. */
static void place_hints(vtrain_dit *m)
{
    int first = 0, from = 0;
    for (int k = 0; m->side && k < VTRAIN_KINDS; k++) {
        const int64_t n = m->layers[k], of = m->side->layers[k];
        const int64_t after = of ? (n + of - 1) / of : 0;
        for (int64_t i = 0; after && i < n; i++)
            m->layer[first + i].from = from + (int)(i / after);
        first += (int)n;
        from += (int)of;
    }
}

static int read_config(vtrain_dit *m, const cJSON *config, vc_err *err)
{
    int rc = vf_transformer_check_fields(m->family->class_name, config, err);
    if (!rc)
        rc = m->family->read(m, config, err);
    vc_context(err, rc, "config.json");
    return rc ? rc : make_layers(m, err);
}

/* Binds a table whose names follow m->under and `prefix`. */
static int bind_under(vtrain_dit *m, const char *prefix, const vt_weight *table, int number,
                      void *base, vt_params *p, const vt_source *src, vc_err *err)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s", m->under, prefix);
    return vt_params_bind(p, table, full, number, base, m->sizes, src, err);
}

/* A parameter's block is its index among the blocks of all kinds; the numbers in the names of a
 * kind's weights may begin at 0 again. */
static int bind_layer(vtrain_dit *m, int index, vt_params *p, const vt_source *src, vc_err *err)
{
    layer *l = &m->layer[index];
    int first = vt_params_count(p), rc = bind_under(m, l->kind->prefix, l->kind->table, l->number,
                                                    l->weights, p, src, err);
    if (!rc && hint_of(l))
        rc = bind_under(m, hint_of(l), hint_table, l->number, l, p, src, err);
    for (int i = first; i < vt_params_count(p); i++)
        vt_params_at(p, i)->block = m->first + index;
    return rc;
}

static int bind(vtrain_dit *m, vt_params *p, const vt_source *src, vc_err *err)
{
    const vtrain_family *f = m->family;
    int rc = bind_under(m, "", f->table, 0, (char *)m + f->weights, p, src, err);
    for (int i = 0; !rc && i < m->n_layers; i++)
        rc = bind_layer(m, i, p, src, err);
    return rc;
}

static int open_under(vtrain_dit **model, const char *under, const vtrain_family *f,
                      const cJSON *config, vt_params *p, const vt_source *src, vc_err *err);

/* Opens the ControlNet of copied blocks that config has beside the transformer m. */
static int open_side(vtrain_dit *m, const cJSON *config, vt_params *p, const vt_source *src,
                     vc_err *err)
{
    const cJSON *net = cJSON_GetObjectItemCaseSensitive(config, "controlnet");
    if (!net || !m->family->copied)
        return 0;
    vt_source own = *src;                     /* --transformer_dtype is the transformer's */
    own.converts = false;
    int rc = open_under(&m->side, VTRAIN_CONTROL_PART, m->family->copied, net, p, &own, err);
    for (int k = 0; !rc && k < VTRAIN_KINDS; k++)
        if (m->side->layers[k] > m->layers[k])
            rc = vc_fail(err, VC_EMISMATCH, "%s has %lld %.*s, and the transformer has %lld",
                         m->side->family->class_name, (long long)m->side->layers[k],
                         (int)strcspn(m->family->blocks[k].prefix, "."),
                         m->family->blocks[k].prefix, (long long)m->layers[k]);
    if (!rc && m->side->n_layers > VTRAIN_HINTS)
        rc = vc_fail(err, VC_EMISMATCH, "%s has %d blocks, and may have %d",
                     m->side->family->class_name, m->side->n_layers, VTRAIN_HINTS);
    if (!rc)
        m->first = m->side->n_layers;
    return rc;
}

static int open_under(vtrain_dit **model, const char *under, const vtrain_family *f,
                      const cJSON *config, vt_params *p, const vt_source *src, vc_err *err)
{
    *model = NULL;
    vtrain_dit *m = calloc(1, f->size);
    if (!m)
        return vc_no_memory(err);
    m->family = f;
    m->under = under;
    int rc = read_config(m, config, err);
    if (!rc)
        rc = open_side(m, config, p, src, err);
    if (!rc)
        place_hints(m);
    if (!rc)
        rc = bind(m, p, src, err);
    if (rc) {
        vtrain_dit_close(m);
        return rc;
    }
    *model = m;
    return 0;
}

int vtrain_dit_open(void **model, const vtrain_family *f, const cJSON *config, vt_params *p,
                    const vt_source *src, vc_err *err)
{
    vtrain_dit *m;
    int rc = open_under(&m, "", f, config, p, src, err);
    *model = m;
    return rc;
}

void vtrain_dit_close(void *model)
{
    vtrain_dit *m = model;
    if (!m)
        return;
    vtrain_dit_close(m->side);
    if (m->family->free)
        m->family->free(m);
    for (int i = 0; i < m->n_layers; i++)
        free(m->layer[i].weights);
    free(m->layer);
    free(m);
}

/* ---- forward ---- */

/* The tensors of a forward: the streams, and behind them the side's results. */
enum { KEPT = VT_BLOCK_IO + VTRAIN_HINTS };

/* Whether each process runs the block whole where the sequence is shared. */
static bool is_whole(const layer *l)
{
    const vtrain_family *f = l->model->family;
    return l->kind - f->blocks < f->whole_kinds;
}

/* Backward runs blocks again, in another order: each says what is shared in it. */
static void run_layer(vt_ctx *g, const void *arg, vt_tensor *const *in, vt_tensor **out)
{
    const layer *l = arg;
    const bool whole = is_whole(l);
    vt_share_parts(g, whole ? 0 : l->model->part[0], whole ? 0 : l->model->part[1]);
    l->kind->run(g, l->model, l->weights, in, out);
    if (hint_of(l) && out[0])
        out[l->kind->n_out] = vt_linear(g, vt_slice(g, out[0], 1, 0,
                                                    vt_own_before(g, l->model->tokens)), &l->hint);
}

/* Processes share the sequence from now on: s keeps their own tokens. */
static void share(vt_ctx *g, vtrain_dit *m, vt_tensor **s)
{
    const int n = m->family->two_parts && s[1] ? 2 : 1;
    for (int k = 0; k < n && s[k]; k++)
        m->part[k] = s[k]->dim[1];
    vt_share_parts(g, m->part[0], m->part[1]);
    for (int k = 0; k < n; k++)
        s[k] = vt_own_part(g, s[k], k);
    if (m->family->stream && s[m->family->stream])
        s[m->family->stream] = vt_own_part(g, s[m->family->stream], 0);
}

/* Prepares s for a block: the first one of its kind, or the first one that shares the sequence. */
static void enter(vt_ctx *g, vtrain_dit *m, const layer *l, bool shared, vt_scope scope,
                  vt_tensor **s)
{
    if (l->kind->enter && (l == m->layer || l[-1].kind != l->kind))
        l->kind->enter(g, m, s);
    if (!shared || m->part[0] || is_whole(l))
        return;
    share(g, m, s);
    vt_scope_end(g, scope, KEPT, s);
}

static void run_block(vt_ctx *g, const layer *l, int index, const vtrain_in *in, vt_tensor **s,
                      vt_tensor **out)
{
    const int n_out = l->kind->n_out + (hint_of(l) != NULL);
    const vt_block b = { run_layer, l, l->kind->n_in, n_out, index };
    vt_run_block(g, &b, index < in->recompute.blocks ? in->recompute.how : VT_KEEP, s, out);
}

/* Of a side's arguments the condition alone is traced, as the others are the transformer's. */
#define CONDITION "controlnet_cond"
static void note_condition(void *arg, const char *name, const vt_tensor *x)
{
    if (!strcmp(name, CONDITION))
        vtrain_note(arg, name, x);
}

/* Runs the blocks beside the transformer: hint[i] becomes the result of the i-th. Where processes
 * share the sequence each has the same tokens of the picture here as in the transformer, so that a
 * result needs no exchange. */
static void run_side(vt_ctx *g, vtrain_dit *m, const vtrain_in *in, vt_tensor **hint)
{
    vtrain_in own = in->side ? *in->side : *in, all = *in;
    vt_tensor *s[KEPT] = { NULL }, *out[VT_BLOCK_IO];
    vt_scope scope = vt_scope_begin(g);
    own.note = in->note ? note_condition : NULL;
    own.note_arg = &all;
    vt_share_tokens(g, 0);
    m->part[0] = m->part[1] = 0;
    m->family->embed(g, m, &own, s);
    m->tokens = s[0] ? s[0]->dim[1] : 0;
    for (int i = 0; i < m->n_layers && !vt_failed(g); i++) {
        const layer *l = &m->layer[i];
        enter(g, m, l, in->shared, scope, s);
        run_block(g, l, i, in, s, out);
        memcpy(s, out, (size_t)l->kind->n_out * sizeof *s);
        vt_tensor *y = out[l->kind->n_out];
        s[VT_BLOCK_IO + i] = in->control_scale ? vt_scale(g, y, *in->control_scale) : y;
        vt_scope_end(g, scope, KEPT, s);
    }
    memcpy(hint, s + VT_BLOCK_IO, VTRAIN_HINTS * sizeof *hint);
    vt_scope_end(g, scope, VTRAIN_HINTS, hint);
}

/* Adds a side's result to the tokens of x [B,N,D] that stand in front. */
static vt_tensor *add_in_front(vt_ctx *g, vt_tensor *x, vt_tensor *hint)
{
    if (!x || !hint || hint->dim[1] == x->dim[1])
        return vt_add(g, x, hint);
    const int64_t n = hint->dim[1];
    vt_tensor *part[2] = { vt_add(g, vt_slice(g, x, 1, 0, n), hint),
                           vt_slice(g, x, 1, n, x->dim[1]) };
    return vt_concat(g, 1, 2, part);
}

vt_tensor *vtrain_dit_forward(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor **sound)
{
    vtrain_dit *m = model;
    const vtrain_family *f = m->family;
    vt_tensor *s[KEPT] = { NULL };
    if (vt_failed(g))
        return NULL;
    vt_scope scope = vt_scope_begin(g);        /* its end frees all tensors but those in s */
    if (m->side)
        run_side(g, m->side, in, s + VT_BLOCK_IO);
    vt_share_tokens(g, 0);
    m->part[0] = m->part[1] = 0;
    f->embed(g, model, in, s);
    vt_scope_end(g, scope, KEPT, s);
    for (int i = 0; i < m->n_layers && !vt_failed(g); i++) {
        const layer *l = &m->layer[i];
        if (i < 64 && in->skip >> i & 1)
            continue;
        enter(g, m, l, in->shared, scope, s);
        run_block(g, l, m->first + i, in, s, s);
        if (l->from >= 0)
            s[0] = add_in_front(g, s[0], s[VT_BLOCK_IO + l->from]);
        vt_scope_end(g, scope, KEPT, s);
    }
    if (f->sound_head && sound)
        *sound = vt_failed(g) ? NULL : f->sound_head(g, model, in, s);
    return vt_failed(g) ? NULL : f->head(g, model, in, s);
}

vt_tensor *vtrain_forward(vt_ctx *g, void *model, vtrain_in *in, vt_tensor **sound)
{
    const vtrain_dit *m = model;
    if (in->side)
        m->family->prepare(g, model, in->side);
    m->family->prepare(g, model, in);
    return vtrain_dit_forward(g, model, in, sound);
}

/* ---- for families ---- */

int vtrain_block_of(const void *model, const void *weights)
{
    const vtrain_dit *m = model;
    int i = 0;
    while (i < m->n_layers && m->layer[i].weights != weights)
        i++;
    return i;
}

/* Zeros with `channels` channels and the other sizes of x. */
static vt_tensor *zeros(vt_ctx *g, vt_tensor *x, int64_t channels)
{
    return vt_scale(g, vt_slice(g, x, 1, 0, channels), 0);
}

/* image [B,C,1,h,w] -> [B,C,f,h,w]: all frames after the first are zeros. */
static vt_tensor *first_frame(vt_ctx *g, vt_tensor *image, vt_tensor *x)
{
    int64_t f = x->dim[2];
    if (f == 1)
        return image;
    vt_tensor *part[2] = { image, vt_slice(g, zeros(g, x, x->dim[1]), 2, 1, f) };
    return vt_concat(g, 2, 2, part);
}

/* The picture of a role for all frames of x; zeros where the batch has no such picture. */
static vt_tensor *beside(vt_ctx *g, const vtrain_in *in, const vc_role_row *row, vt_tensor *value,
                         int64_t masks)
{
    vt_tensor *x = in->x;
    if (!value)
        return zeros(g, x, row->kind == VC_VALUE_MASK ? masks : x->dim[1]);
    return row->clip ? value : first_frame(g, value, x);
}

vt_tensor *vtrain_join(vt_ctx *g, const vtrain_in *in, unsigned roles, int64_t masks)
{
    enum { MASKS, CLIPS, STILLS, KINDS };
    vt_tensor *part[1 + VC_ROLES] = { in->x };
    int n = 1;
    for (int kind = MASKS; kind < KINDS; kind++)
        for (int i = 0; i < VC_ROLES; i++) {
            const vc_role_row *row = &vc_roles[i];
            int of = row->kind == VC_VALUE_MASK ? MASKS : row->clip ? CLIPS : STILLS;
            if (roles & 1u << i && of == kind)
                part[n++] = beside(g, in, row, in->cond[i], masks);
        }
    return n == 1 ? in->x : vt_concat(g, 1, n, part);
}

static vt_tensor *first_of(vt_ctx *g, vt_tensor *x)
{
    return x ? vt_slice(g, x, 0, 0, 1) : NULL;
}

void vtrain_first_row(vt_ctx *g, const vtrain_in *in, vtrain_in *one)
{
    *one = *in;
    one->note = NULL;
    one->x = first_of(g, in->x);
    one->t = first_of(g, in->t);
    one->guidance = first_of(g, in->guidance);
    for (int i = 0; i < VC_ROLES; i++)
        one->cond[i] = first_of(g, in->cond[i]);
    for (int i = 0; i < VTRAIN_TEXTS; i++) {
        one->text[i].embeds = first_of(g, in->text[i].embeds);
        one->text[i].pooled = first_of(g, in->text[i].pooled);
    }
}

vt_tensor *vtrain_condition_tokens(vt_ctx *g, const vtrain_in *in, vt_tensor *known,
                                   const int side[3])
{
    vt_tensor *c = in->cond[known ? VC_ROLE_VIDEO : VC_ROLE_CONTROL];
    if (!c)
        c = zeros(g, in->x, in->x ? in->x->dim[1] : 0);
    c = nn_patches(g, known ? vt_concat(g, 1, 2, (vt_tensor *[]){ c, known }) : c, side);
    vtrain_note(in, CONDITION, c);
    return c;
}

vt_tensor *vtrain_known_mask(vt_ctx *g, const vtrain_in *in)
{
    const float one = 1;
    vt_tensor *mask = in->cond[VC_ROLE_MASK];
    if (!mask || !in->cond[VC_ROLE_VIDEO])
        return vt_fail(g, VC_EMISMATCH, "the batch has no mask with a masked picture, which the "
                       "ControlNet reads");
    /* a place of the latents has the value of its first pixel */
    mask = vt_sub(g, vt_slice(g, mask, 1, 0, 1),
                  vt_from_host(g, VC_F32, 1, (int64_t[]){ 1 }, &one, VC_F32));
    return vt_scale(g, mask, -1);
}

vt_tensor *vtrain_control_kinds(vt_ctx *g, const vtrain_in *in, int64_t kinds)
{
    const int64_t rows = in->x ? in->x->dim[0] : 0, dim[3] = { rows, 1, kinds };
    if (!in->control_kind)
        return vt_fail(g, VC_EMISMATCH, "the batch has no kinds of its pictures, which the "
                       "ControlNet-Union reads");
    float *one = calloc((size_t)(rows * kinds), sizeof *one);
    bool fit = true;
    for (int64_t b = 0; one && b < rows; b++) {
        const int32_t kind = in->control_kind[b];
        fit = fit && kind >= 0 && kind < kinds;
        if (fit)
            one[b * kinds + kind] = 1;
    }
    vt_tensor *x = one && fit ? vt_from_host(g, VC_F32, 3, dim, one, VC_F32)
                   : vt_fail(g, one ? VC_EINVAL : VC_ENOMEM, one ? "the kind of a picture is not "
                             "one of the ControlNet's %lld" : "kinds: out of memory",
                             (long long)kinds);
    free(one);
    return x;
}

void vtrain_fit_control(const vtrain_dit *m, bool masked, vtrain_fit *fit)
{
    fit->roles = masked ? VC_ROLE_BIT(VC_ROLE_VIDEO) | VC_ROLE_BIT(VC_ROLE_MASK)
                        : VC_ROLE_BIT(VC_ROLE_CONTROL);
    fit->mode = masked ? VC_MODE_INPAINT : VC_MODE_CONTROL;
    fit->needs_mask = masked;
    fit->mask_channels = VTRAIN_MASK;
    fit->blocks += m->first;
    if (m->side)
        fit->references = 0;
}

vt_tensor *vtrain_key_lengths(vt_ctx *g, const vtrain_cond *text, int64_t before)
{
    int32_t len[VTRAIN_ROWS];
    bool all = true;
    if (!text->embeds)
        return NULL;
    int64_t rows = text->embeds->dim[0];
    for (int64_t b = 0; b < rows; b++) {
        len[b] = (int32_t)before + text->length[b];
        all = all && text->length[b] == text->embeds->dim[1];
    }
    return all ? NULL : vt_from_host(g, VC_I32, 1, &rows, len, VC_I32);
}

void vtrain_check_padding(vt_ctx *g, const vtrain_cond *text)
{
    for (int64_t b = 0; text->embeds && b < text->embeds->dim[0]; b++)
        if (text->length[b] != text->embeds->dim[1])
            vt_fail(g, VC_EMISMATCH, "prompt of %d tokens among prompts of %lld: the transformer "
                    "masks nothing, so the dataset must hold all tokens of each prompt, padding "
                    "included", (int)text->length[b], (long long)text->embeds->dim[1]);
}

vt_tensor *vtrain_picture_tokens(vt_ctx *g, const vtrain_in *in, const int side[3])
{
    vt_tensor *part[1 + VC_REFERENCES] = { nn_patches(g, in->x, side) };
    int n = 1;
    for (; n <= VC_REFERENCES && in->cond[VC_ROLE_REFERENCE + n - 1]; n++)
        part[n] = nn_patches(g, in->cond[VC_ROLE_REFERENCE + n - 1], side);
    return n > 1 ? vt_concat(g, 1, n, part) : part[0];
}

void vtrain_swap_streams(vt_ctx *g, const void *model, vt_tensor *s[VT_BLOCK_IO])
{
    (void)g, (void)model;
    vt_tensor *first = s[0];
    s[0] = s[1];
    s[1] = first;
}

vt_tensor *vtrain_noisy_begin(vt_ctx *g, vt_tensor *x, int64_t noisy)
{
    return vt_slice(g, x, 1, 0, vt_own_count(g, 0, noisy));
}

vt_tensor *vtrain_noisy_end(vt_ctx *g, vt_tensor *y, int64_t noisy)
{
    return vt_shared_tokens(g) ? vt_slice(g, vt_all_part(g, y, 0), 1, 0, noisy) : y;
}

bool vtrain_check_pooled(vt_ctx *g, const vtrain_cond *text, int64_t width)
{
    const vt_tensor *pooled = text->pooled;
    if (pooled && pooled->dim[1] == width)
        return true;
    vt_fail(g, VC_EMISMATCH, "pooled prompts are %lld wide, but pooled_projection_dim is %lld",
            pooled ? (long long)pooled->dim[1] : 0, (long long)width);
    return false;
}

int vtrain_check_axes(const char *field, const int64_t *axis, int n, int64_t head, vc_err *err)
{
    char list[128];
    int64_t sum = 0, odd = 0;
    int at = 0;
    for (int i = 0; i < n; i++) {
        sum += axis[i];
        odd |= axis[i] & 1;
        if (at < (int)sizeof list)
            at += snprintf(list + at, sizeof list - (size_t)at, "%s%lld", i ? ", " : "",
                           (long long)axis[i]);
    }
    if (sum == head && !odd)
        return 0;
    return vc_fail(err, VC_EFORMAT, "%s: %s must be even, and their sum equal to "
                   "attention_head_dim, which is %lld", field, list, (long long)head);
}

int64_t vtrain_size_in(const vt_source *src, const char *name, int axis)
{
    vt_host x;
    return !src->get(src->arg, name, &x, NULL) && x.nd > axis ? x.dim[axis] : 0;
}

int64_t vtrain_blocks_in(const vt_source *src, const char *format)
{
    int64_t n = 0;
    for (char tensor[96]; n < 256; n++) {
        snprintf(tensor, sizeof tensor, format, (int)n);
        if (vtrain_size_in(src, tensor, 0) <= 0)
            break;
    }
    return n;
}

void vtrain_note(const vtrain_in *in, const char *name, const vt_tensor *x)
{
    if (in->note && x)
        in->note(in->note_arg, name, x);
}

void vtrain_note_mask(vt_ctx *g, const vtrain_in *in, const char *name, const vtrain_cond *text)
{
    if (!in->note || !text->embeds)
        return;
    const int64_t *dim = text->embeds->dim;
    float *mask = malloc((size_t)(dim[0] * dim[1]) * sizeof *mask);
    if (!mask) {
        vt_fail(g, VC_ENOMEM, "trace: out of memory");
        return;
    }
    for (int64_t i = 0; i < dim[0] * dim[1]; i++)
        mask[i] = i % dim[1] < text->length[i / dim[1]];
    vtrain_note(in, name, vt_from_host(g, VC_F32, 2, dim, mask, VC_F32));
    free(mask);
}

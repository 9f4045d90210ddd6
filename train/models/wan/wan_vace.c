/* wan_vace.c - VACE for Wan 2.1 (Jiang et al. 2025): blocks beside Wan's, which are given a clip to
 * edit. Semantics and names are those of diffusers' WanVACETransformer3DModel.
 *
 *     condition, by channels    the pixels that stay, the pixels to be made again (grey elsewhere),
 *                               and the mask's number for each pixel of a latent place
 *     reference pictures        frames in front of the clip, in the noisy latents as well; in the
 *                               condition beside zeros, under a mask of zeros. The last one is the
 *                               first frame, as in WanVACEPipeline
 *
 * The stream of VACE begins with the noisy tokens and the condition's. A block of VACE changes this
 * stream alone, and a linear layer of it is added to the video's tokens behind block vace_layers[i]
 * of Wan. So without these blocks the model is Wan's T2V. */
#include <string.h>

#include "common/nn/embeddings.h"
#include "formats/json/config.h"
#include "train/models/wan/wan.h"

typedef struct vace_weights {
    wan_block_weights block;
    vt_lin after;
} vace_weights;

static const vt_weight vace_table[] = {       /* below "vace_blocks.%d." */
    WAN_BLOCK,
    WAN_LIN(vace_weights, after, "proj_out", D, D),
    { 0 }
};

static const vf_config_row config_rows[] = {
    VF_INTS(wan, vace, n_vace, "vace_layers", 1, 0, 255),
    VF_INT(wan, vace_in, "vace_in_channels", 96, 1, 4096),
    { 0 }
};

static int64_t masks_of(const wan *m)
{
    return m->vace_in - 2 * m->out_channels;
}

static int check_layers(const wan *m, vc_err *err)
{
    if (m->vace[0])
        return vc_fail(err, VC_EFORMAT, "vace_layers: begins with %lld, it must begin with 0",
                       (long long)m->vace[0]);
    for (int i = 0; i < m->n_vace; i++)
        if (m->vace[i] >= m->layers || (i && m->vace[i] <= m->vace[i - 1]))
            return vc_fail(err, VC_EFORMAT, "vace_layers: %lld, the numbers must grow and be below "
                           "num_layers, which is %lld", (long long)m->vace[i],
                           (long long)m->layers);
    return 0;
}

static int read_vace(void *model, const cJSON *config, vc_err *err)
{
    wan *m = model;
    m->n_vace = 8;
    for (int i = 0; i < m->n_vace; i++)
        m->vace[i] = 5 * i;
    int rc = wan_read(m, config, err);
    if (!rc)
        rc = vf_config_read(m, config_rows, config, err);
    if (!rc)
        rc = check_layers(m, err);
    if (!rc && masks_of(m) < 1)
        rc = vc_fail(err, VC_EFORMAT, "vace_in_channels: %lld with out_channels %lld leaves no "
                     "channels of a mask", (long long)m->vace_in, (long long)m->out_channels);
    m->dit.layers[1] = m->n_vace;
    m->dit.sizes[-VACE_IN] = m->vace_in;
    m->dit.sizes[-VACE_D] = m->heads * m->head;
    return rc;
}

/* The block of Wan behind which block i of VACE stands. */
static int64_t after(const void *model, int64_t i)
{
    const wan *m = model;
    return m->vace[i];
}

static void vace_fit(const void *model, vtrain_fit *fit)
{
    const wan *m = model;
    wan_fit(m, fit);
    fit->roles |= VC_ROLE_BIT(VC_ROLE_VIDEO) | VC_ROLE_BIT(VC_ROLE_REACTIVE) |
                  VC_ROLE_BIT(VC_ROLE_MASK);
    fit->references = VC_ROLES_REFERENCE;
    fit->references_in_front = true;
    fit->mask_channels = (int)masks_of(m);
    fit->needs_mask = true;
    fit->mode = VC_MODE_VACE;
    fit->token_times = fit->frame_times = false;
    fit->blocks += m->n_vace;
}

/* ---- forward ---- */

static int64_t references_of(const vtrain_in *in)
{
    int64_t n = 0;
    while (n < VC_REFERENCES && in->cond[VC_ROLE_REFERENCE + n])
        n++;
    return n;
}

static void vace_prepare(vt_ctx *g, void *model, vtrain_in *in)
{
    const vt_tensor *clip = in->cond[VC_ROLE_VIDEO];
    if (vt_failed(g) || !in->x)
        return;
    if (!clip || !in->cond[VC_ROLE_REACTIVE] || !in->cond[VC_ROLE_MASK])
        vt_fail(g, VC_EMISMATCH, "the batch has no clip to edit with a mask, which VACE reads");
    else if (clip->dim[2] + references_of(in) != in->x->dim[2])
        vt_fail(g, VC_EMISMATCH, "%lld latent frames with a clip to edit of %lld and %lld "
                "references in front", (long long)in->x->dim[2], (long long)clip->dim[2],
                (long long)references_of(in));
    else
        wan_prepare(g, model, in);
}

/* The condition [B,VACE_IN,f,h,w], with the references in front. */
static vt_tensor *condition(vt_ctx *g, const wan *m, const vtrain_in *in)
{
    vt_tensor *clip[3] = { in->cond[VC_ROLE_VIDEO], in->cond[VC_ROLE_REACTIVE],
                           in->cond[VC_ROLE_MASK] };
    vt_tensor *frame[VC_REFERENCES + 1];
    const int n = (int)references_of(in);
    frame[n] = vt_concat(g, 1, 3, clip);
    for (int k = 0; k < n && frame[n]; k++) {
        vt_tensor *rest = vt_slice(g, vt_slice(g, frame[n], 2, 0, 1), 1, 0,
                                   m->vace_in - m->out_channels);
        vt_tensor *part[2] = { in->cond[VC_ROLE_REFERENCE + k], vt_scale(g, rest, 0) };
        frame[n - 1 - k] = vt_concat(g, 1, 2, part);
    }
    return n ? vt_concat(g, 2, n + 1, frame) : frame[n];
}

static void vace_embed(vt_ctx *g, void *model, const vtrain_in *in, vt_tensor *s[VT_BLOCK_IO])
{
    const wan *m = model;
    const int patch[3] = { (int)m->patch[0], (int)m->patch[1], (int)m->patch[2] };
    wan_embed(g, model, in, s);
    vt_tensor *c = condition(g, m, in);
    vtrain_note(in, "control_hidden_states", c);
    c = nn_embed_patches(g, nn_patches(g, c, patch), &m->w.vace_patch);
    s[CONTROL] = vt_add(g, vt_linear(g, c, &m->w.vace_in), s[X]);
}

static void vace_block(vt_ctx *g, const void *model, const void *weights, vt_tensor *const *in,
                       vt_tensor **out)
{
    const vace_weights *w = weights;
    vt_tensor *own[N_IN];
    memcpy(own, in, sizeof own);
    own[X] = in[CONTROL];
    wan_block(g, model, &w->block, own, &out[CONTROL]);
    out[X] = vt_add(g, in[X], vt_linear(g, out[CONTROL], &w->after));
}

const vtrain_family vtrain_wan_vace = {
    .class_name = WAN_VACE_CLASS, .lora_names = wan_vace_names,
    .first_class = "VaceWanModel", .convert = wan_vace_convert,
    .text_args = { "encoder_hidden_states" },
    .size = sizeof(wan), .weights = offsetof(wan, w), .table = wan_table,
    .read = read_vace, .fit = vace_fit, .prepare = vace_prepare, .embed = vace_embed,
    .blocks = { { "blocks.%d.", wan_block_table, sizeof(wan_block_weights), N_IN, 1, wan_block,
                  NULL, NULL },
                { "vace_blocks.%d.", vace_table, sizeof(vace_weights), N_IN, 2, vace_block, NULL,
                  after } },
    .stream = CONTROL, .head = wan_head,
    .objective = VTRAIN_FLOW, .density = VTRAIN_LOGIT_NORMAL,
    .flow_shift = 3, .logit_mean = 0, .logit_std = 1,
    .posterior_mean = true, .bf16 = true,
    .lr_full = 1e-5, .lr_lora = 1e-4, .guidance = 5, .batch = 1, .steps = 1000,
    .lora_targets = "(vace_)?blocks\\.[0-9]+\\.attn[12]\\.(to_q|to_k|to_v|to_out\\.0)",
};

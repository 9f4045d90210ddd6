/* diffusion_pipe_layouts.c - the models of diffusion-pipe's caches: the names of their tensors, and
 * which of them a cache is of. See diffusion_pipe.h */
#include <string.h>

#include "formats/peers/caches/diffusion_pipe.h"

#define FILES(family_) .family = family_, .latents = "latents", \
    .conditions = { "mask", "y", "clip_context" }
#define EDITS(family_) FILES(family_), .references = "control_latents"
#define WAN(family_) { FILES(family_), .n_text = 1, \
    .text = { { .embeds = "text_embeddings", .length = "seq_lens", .whole = true, \
                .trim = EXCHANGE_BY_LENGTH } } }
#define MASKED .whole = true, .trim = EXCHANGE_BY_MASK

#define FLUX2(model_, width_, pipeline_) \
    { { EDITS("flux2"), .axes = EXCHANGE_CHW, .drawn = true, .n_text = 1, \
        .text = { { .embeds = "text_embeds_0", .most = 512 } }, .width = width_, \
        .pipeline = pipeline_ }, model_, true, true }

/* fps is the rate to which the peer resamples clips; 0: the files do not show it (Wan: 16 or 24).
 * Z-Image's texts are padded to the longest of a batch, so that their rows are no max_length. */
const dpipe_layout dpipe_layouts[] = {
    { WAN("wan2.1"), "wan", false, false },
    { WAN("wan2.2-5b"), "wan2.2_5b", true, false },
    { { FILES("hunyuanvideo"), .drawn = true, .fps = 24, .n_text = 2,
        .text = { { .embeds = "prompt_embeds_1", .mask = "prompt_attention_mask_1", MASKED },
                  { .pooled = "prompt_embeds_2" } } }, "hunyuan-video", false, false },
    { { FILES("ltx-video"), .drawn = true, .fps = 25, .n_text = 1,
        .text = { { .embeds = "prompt_embeds", .mask = "prompt_attention_mask", MASKED } } },
      "ltx-video", false, false },
    { { EDITS("qwen-image"), .n_text = 1, .text = { { .embeds = "prompt_embeds" } } },
      "qwen_image", false, false },
    { { EDITS("flux"), .axes = EXCHANGE_CHW, .drawn = true, .n_text = 2,
        .text = { { .pooled = "clip_embed" }, { .embeds = "t5_embed" } } }, "flux", false, true },
    { { FILES("z-image"), .axes = EXCHANGE_CHW, .drawn = true, .n_text = 1,
        .text = { { .embeds = "text_embeds_0", .mask = "attention_mask_0",
                    .trim = EXCHANGE_BY_MASK } } }, "z_image", true, false },
    { { FILES("ltx-2"), .fps = 24, .n_text = 1,
        .text = { { .embeds = "text_embeds_0", .mask = "attention_mask_0",
                    .trim = EXCHANGE_BY_MASK } }, .width = 6144 }, "ltx2", true, false },
    FLUX2("flux2_klein_4b", 7680, "Flux2KleinPipeline"),
    FLUX2("flux2_klein_9b", 12288, "Flux2KleinPipeline"),
    FLUX2("flux2", 15360, "Flux2Pipeline"),
    { { 0 }, NULL, false, false }
};

/* True if the folder's name, from which the peer reads caches, is that of a model of the family;
 * which of them it is the width of its texts says. */
static bool in_folder(const char *family, const char *dir)
{
    size_t n = strlen(dir);
    while (n && dir[n - 1] == '/')
        n--;
    for (const dpipe_layout *l = dpipe_layouts; l->model; l++) {
        const size_t k = strlen(l->model);
        if (!strcmp(l->names.family, family) && n >= k && (n == k || dir[n - k - 1] == '/') &&
            !strncmp(dir + n - k, l->model, k))
            return true;
    }
    return false;
}

int dpipe_guess(dpipe_import *m, const vf_pt_value *d, vc_err *err)
{
    const char *said = m->x->v->o->family;
    int best = 0;
    for (const dpipe_layout *l = dpipe_layouts; l->model; l++) {
        const int points = !exchange_has_text(&l->names, 0, d) ? 0 :
                           (said && !strcmp(l->names.family, said) ? 4 : 0) +
                           (in_folder(l->names.family, m->x->dir) ? 2 : 0) + !l->named;
        if (points > best) {
            m->l = l;
            best = points;
        }
    }
    if (!m->l)
        return vc_fail(err, VC_EFORMAT, "text_embeddings_1: of none of the models wan, wan2.2_5b, "
                       "hunyuan-video, ltx-video, qwen_image, flux, or of z_image, ltx2 or flux2, "
                       "whose caches have the folder's name or --family; nor of a flux2, whose "
                       "texts are 7680, 12288 or 15360 numbers wide, or an ltx2 (2.3), whose texts "
                       "are 6144 wide");
    const char *family = m->l->names.family;
    if (said && strcmp(said, family))
        return vc_fail(err, VC_EMISMATCH, "of %s, --family says %s", family, said);
    m->x->family = exchange_family_find(family);
    m->x->pipeline = m->l->names.pipeline;
    return 0;
}

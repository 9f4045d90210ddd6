/* families.c - which encoders belong to which family; see encoder.h */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "precompute/encoder.h"

/* 2B, 5B, 1.5 and the Fun models, whose pipelines have an old and a new name: one VAE, one text
 * encoder, no mask, so that all tokens are stored. Only the transformer differs. */
#define COGVIDEOX(pipeline_, mode_) \
    { .name = "cogvideox", .pipeline = pipeline_, .train_mode = mode_, .vae = &vae_cogvideox, \
      .text_slot = { "text_encoder" }, .tokenizer_slot = { "tokenizer" }, .text = { &text_t5 }, \
      .latent_store = "moments", .bucket_rules = "cogvideox", .dtype = VC_BF16, .max_length = 226, \
      .length_field = "max_text_seq_length", .patch_t_field = "patch_size_t", \
      .bucket_rules_t = "cogvideox1.5", .noise_field = "add_noise_in_inpaint_model", \
      .loaded_masks = true, \
      .channels_field = "in_channels", .channels = { 16, 32, 33 } }

static const prep_family families[] = {
    { .name = "builtin", .vae = &vae_builtin, .text_slot = { "text_encoder" },
      .text = { &text_builtin }, .latent_store = "mode", .bucket_rules = "builtin", .dtype = VC_F32,
      .clip_condition = true },
    COGVIDEOX("CogVideoXPipeline", PREP_NORMAL),
    COGVIDEOX("CogVideoXVideoToVideoPipeline", PREP_NORMAL),
    COGVIDEOX("CogVideoXImageToVideoPipeline", PREP_I2V),
    COGVIDEOX("CogVideoXFunPipeline", PREP_NORMAL),
    COGVIDEOX("CogVideoXFunInpaintPipeline", PREP_INPAINT),
    COGVIDEOX("CogVideoXFunControlPipeline", PREP_NORMAL),
    COGVIDEOX("CogVideoX_Fun_Pipeline", PREP_NORMAL),
    COGVIDEOX("CogVideoX_Fun_Pipeline_Inpaint", PREP_INPAINT),
    COGVIDEOX("CogVideoX_Fun_Pipeline_Control", PREP_NORMAL),
    { 0 },
};

const prep_family *prep_families(void)
{
    return families;
}

/* _class_name of DIR/model_index.json */
static int pipeline_of(char *name, size_t size, const char *dir, vc_err *err)
{
    char *path = vc_path_join(dir, "model_index.json");
    if (!path)
        return vc_fail(err, VC_ENOMEM, "out of memory");

    cJSON *o;
    const char *s;
    int rc = vf_json_read(&o, path, 1 << 20, err);
    if (!rc) {
        rc = vc_context(err, vf_json_str(o, "_class_name", &s, err), "%s", path);
        if (!rc)
            snprintf(name, size, "%s", s);
        cJSON_Delete(o);
    }
    free(path);
    return rc;
}

int prep_family_of(const prep_family **out, const char *model_dir, vc_err *err)
{
    *out = NULL;
    if (!model_dir) {
        *out = &families[0];
        return 0;
    }

    char name[80], known[400] = "";
    if (pipeline_of(name, sizeof name, model_dir, err))
        return vc_context(err, VC_EUSAGE, "--model %s: give a diffusers folder (nothing is downloaded)",
                          model_dir);
    for (const prep_family *f = families; f->name; f++) {
        if (f->pipeline && !strcmp(f->pipeline, name)) {
            *out = f;
            return 0;
        }
        if (f->pipeline)
            snprintf(known + strlen(known), sizeof known - strlen(known), " %s", f->pipeline);
    }
    return vc_fail(err, VC_EUSAGE, "--model %s: no family here for %s; known:%s; without --model "
                   "the built-in codec is used", model_dir, name, *known ? known : " none yet");
}

int prep_family_by_vae(const prep_family **out, const char *class, vc_err *err)
{
    *out = NULL;
    for (const prep_family *f = families; f->name; f++) {
        if (strcmp(f->vae->name, class) || (*out && !strcmp((*out)->name, f->name)))
            continue;
        if (*out)
            return vc_fail(err, VC_EUSAGE, "%s belongs to %s and to %s: give --model", class,
                           (*out)->name, f->name);
        *out = f;
    }
    return *out ? 0 : vc_fail(err, VC_EUSAGE, "this build has no autoencoder \"%s\"", class);
}

int prep_vae_by_class(const vae_class **out, const char *class, vc_err *err)
{
    for (const prep_family *f = families; f->name; f++)
        if (!strcmp(f->vae->name, class)) {
            *out = f->vae;
            return 0;
        }
    return vc_fail(err, VC_EUSAGE, "this build has no autoencoder \"%s\"", class);
}

/* families.c - the encoders of this program, and the families that they serve; see encoder.h */
#include <stdio.h>
#include <string.h>

#include "formats/tensors/component.h"
#include "formats/models/transformers.h"
#include "precompute/encoder.h"

static const vae_class *const vaes[] = { &vae_builtin, &vae_cogvideox, &vae_hunyuan,
                                         &vae_hunyuan15, &vae_ltx, &vae_ltx2, &vae_wan,
                                         &vae_qwen_image, &vae_kl, &vae_flux2, NULL };
static const text_class *const texts[] = { &text_builtin, &text_t5, &text_umt5, &text_llama,
                                           &text_llava, &text_qwen2_5_vl,
                                           &text_qwen2_5_vl_text, &text_qwen3,
                                           &text_qwen3_whole, &text_qwen3_vl, &text_mistral3,
                                           &text_ministral3, &text_gemma3, &text_clip,
                                           &text_clip_projected, NULL };

static const vision_class *const visions[] = { &vision_clip, &vision_siglip, NULL };

static const vae_class *find_vae(const char *class)
{
    const vae_class *const *v = vaes;

    while (*v && strcmp((*v)->name, class))
        v++;
    return *v;
}

static const text_class *find_text(const char *class)
{
    const text_class *const *t = texts;

    while (*t && strcmp((*t)->name, class))
        t++;
    return *t;
}

static const vision_class *find_vision(const char *class)
{
    const vision_class *const *v = visions;

    while (*v && strcmp((*v)->name, class))
        v++;
    return *v;
}

/* Whether this program has all encoders of f, or of its pipeline (NULL: none is known), and can
 * recognize a model folder of f (the built-in family has none). */
static bool make_family(prep_family *out, const vc_family *f, const vc_pipeline *pipeline)
{
    bool builtin = f == vc_families();
    const vc_text *t = vc_family_texts(f, pipeline);

    *out = (prep_family){ .is = f, .from_files = !builtin, .pipeline = pipeline };
    out->vae = f->vae ? find_vae(f->vae) : NULL;
    bool all = out->vae && t[0].class && (builtin || f->pipeline[0].class);
    for (int i = 0; all && i < PREP_MAX_TEXTS && t[i].class; i++)
        all = (out->text[i] = find_text(t[i].class)) != NULL;
    if (f->vision)
        all = all && (out->vision = find_vision(f->vision)) != NULL;
    return all;
}

/* The pipeline of a folder without model_index.json, by its transformer: that which the first
 * authors' config.json names, or one of diffusers' class. */
static int pipeline_by_transformer(char *name, size_t size, const char *dir, vc_err *err)
{
    const char *class = "";
    cJSON *o;
    int type, rc = vf_component_transformer(&o, dir, err);
    const vc_first *first = vf_component_first(o);

    if (!rc && o)
        rc = vf_json_str_opt(o, "_class_name", &class, err);
    const vc_family *f = rc ? NULL : vc_family_of_transformer(class);
    if (!rc && first)
        rc = vf_component_type(first, o, &type, err);
    else if (!rc && (!f || !f->pipeline[0].class))
        rc = vc_fail(err, VC_ENOENT, "no model_index.json, and no transformer of a known family");
    if (!rc)
        snprintf(name, size, "%s", first ? first->type[type].pipeline
                                     : vf_transformer_pipeline(f, o)->class);
    cJSON_Delete(o);
    return rc;
}

/* _class_name of DIR/model_index.json, or the pipeline of a folder without this file */
static int pipeline_of(char *name, size_t size, const char *dir, vc_err *err)
{
    static const char file[] = "model_index.json";
    cJSON *o;
    const char *s;
    int rc = vf_json_read_in_opt(&o, dir, file, 1 << 20, err);
    if (!rc && !o)
        return pipeline_by_transformer(name, size, dir, err);
    if (!rc)
        rc = vc_context(err, vf_json_str(o, "_class_name", &s, err), "%s/%s", dir, file);
    if (!rc)
        snprintf(name, size, "%s", s);
    cJSON_Delete(o);
    return rc;
}

/* Checks that a pipeline whose model_index.json says which states a token has says those of its
 * row. */
static int check_taps(const char *dir, const vc_text *text, vc_err *err)
{
    static const char file[] = "model_index.json", field[] = "text_encoder_select_layers";
    cJSON *o;
    int rc = vf_json_read_in_opt(&o, dir, file, 1 << 20, err), n = 0;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, field), *tap;
    bool same = true;

    cJSON_ArrayForEach(tap, list) {
        same = same && n < VC_TAPS && cJSON_IsNumber(tap) && tap->valueint == text->taps[n];
        n++;
    }
    if (!rc && cJSON_IsArray(list) && (!same || (n < VC_TAPS && text->taps[n])))
        rc = vc_fail(err, VC_EUSAGE, "--model %s/%s: %s has other layers than %s was trained with, "
                     "from whose states texts are made: give the model's own file", dir, file,
                     field, text->class);
    cJSON_Delete(o);
    return rc;
}

int prep_family_of(prep_family *out, const char *model_dir, vc_err *err)
{
    if (!model_dir) {
        make_family(out, vc_families(), NULL);
        return 0;
    }

    char name[80];
    if (pipeline_of(name, sizeof name, model_dir, err))
        return vc_context(err, VC_EUSAGE,
                          "--model %s: give a diffusers folder, or the folder that Wan's authors "
                          "publish (nothing is downloaded)", model_dir);
    for (const vc_family *f = vc_families(); f->name; f++) {
        const vc_pipeline *pipeline = vc_family_pipeline(f, name);
        if (pipeline && make_family(out, f, pipeline))
            return check_taps(model_dir, vc_family_texts(f, pipeline), err);
    }
    *out = (prep_family){ 0 };
    return vc_fail(err, VC_EUSAGE, "--model %s: this build has no encoders of %s", model_dir, name);
}

int prep_family_by_version(prep_family *out, const char *word, vc_err *err)
{
    for (const vc_family *f = vc_families(); f->name; f++) {
        const vc_pipeline *pipeline = vc_family_version(f, word);
        if (pipeline && make_family(out, f, pipeline))
            return 0;
    }
    *out = (prep_family){ 0 };
    int rc = vc_family_version_check(word, err);
    return rc ? rc : vc_fail(err, VC_EUSAGE, "--model_version %s: this build has no encoders of "
                             "it", word);
}

/* Why no family has this autoencoder. */
static int refuse_vae(const char *class, vc_err *err)
{
    for (const vc_family *f = vc_families(); find_vae(class) && f->name; f++)
        for (int i = 0; f->vae && !strcmp(f->vae, class) && i < VC_FAMILY_TEXTS; i++)
            if (f->text[i].class && !find_text(f->text[i].class))
                return vc_fail(err, VC_EUSAGE, "%s belongs to %s, whose text encoder %s this build "
                               "does not have", class, f->name, f->text[i].class);
    return vc_fail(err, VC_EUSAGE, "this build has no autoencoder \"%s\"", class);
}

static int count_texts(const prep_family *p)
{
    int n = 0;
    while (p->text[n])
        n++;
    return n;
}

int prep_family_by_vae(prep_family *out, const char *class, int wanted, vc_err *err)
{
    prep_family p;
    const char *first = NULL;

    for (const vc_family *f = vc_families(); f->name; f++) {
        if (f->by_model || !make_family(&p, f, NULL) || strcmp(f->vae, class) ||
            (wanted > 1 && count_texts(&p) < wanted))
            continue;
        if (first)
            return vc_fail(err, VC_EUSAGE, "%s belongs to %s and to %s: give --model or "
                           "--model_version", class, first, f->name);
        first = f->name;
        *out = p;
    }
    return first ? 0 : refuse_vae(class, err);
}

int prep_vae_by_class(const vae_class **out, const char *class, vc_err *err)
{
    *out = find_vae(class);
    return *out ? 0 : vc_fail(err, VC_EUSAGE, "this build has no autoencoder \"%s\"", class);
}

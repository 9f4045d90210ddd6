/* components.c - finds the parts of a run's model; encoders.c opens them. See components.h */
#include "precompute/run/components.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli/hub.h"
#include "common/os/file.h"
#include "common/roles.h"
#include "formats/tensors/component.h"
#include "formats/models/transformers.h"
#include "precompute/run/vprep.h"

enum { MAX_CONFIG = 1 << 20, MAX_LENGTH = 1 << 15 };       /* bytes of JSON; tokens */

void prep_part_free(prep_part *part)
{
    free(part->dir);
    free(part->tokenizer);
    free(part->image_processor);
    free(part->beside);
    *part = (prep_part){ 0 };
}

/* ---- a run's parts ---- */

/* Refuses models that vtrain refuses, before anything is encoded for them. */
static int check_transformer(const vprep *p, vc_err *err)
{
    char *unread = NULL;
    if (!vc_file_exists(p->c.model))
        return vc_hub_missing("model", p->c.model, err);
    int rc = vf_transformer_check(&unread, p->c.model, err);

    if (unread && !rc)
        vc_say(p->progress, "the transformer of --model is not checked (%s): vtrain checks it",
               unread);
    free(unread);
    return rc && rc != VC_ENOMEM ? vc_context(err, VC_EUSAGE, "--model") : rc;
}

/* Fails where --out has the values of a model, and a run without --model would make others. */
static int check_forgotten(const vprep_config *c, vc_err *err)
{
    const vc_family *own = vc_families();
    vf_made made;
    int rc = 0;

    vf_dataset_made(&made, c->out ? c->out : "");
    if (made.vae && strcmp(made.vae, own->vae) && !c->overwrite)
        rc = vc_fail(err, VC_EUSAGE, "no --model: --out %s has values of %s: add --model %s%s; for "
                     "the built-in codec give --model %s and another --out, or --overwrite", c->out,
                     made.family && *made.family ? made.family : made.vae,
                     made.model ? made.model : "DIR",
                     made.model ? ", with which they were made" : ", the folder of its model",
                     own->name);
    vf_made_free(&made);
    return rc;
}

/* How many text encoders the flags give. */
static int given_texts(const vprep_config *c)
{
    int n = 0;
    for (int i = 0; i < PREP_MAX_TEXTS; i++)
        n += c->text_encoder[i] != NULL;
    return n;
}

/* musubi-tuner's --text_encoder1 of FLUX.1 is T5, which is the second one in diffusers. */
static int take_order(vprep *p, vc_err *err)
{
    char **const given = p->c.text_encoder;
    const char *slot[2] = { NULL, NULL };
    int rc = 0;

    if (p->c.model || !given[0] || !given[1] || !prep_is_file(given[0]) || !prep_is_file(given[1]))
        return 0;
    for (int i = 0; !rc && i < 2; i++)
        rc = vf_component_slot(&slot[i], given[i], err);
    if (rc || !slot[0] || strcmp(slot[0], vc_text_slots[1]) ||
        (slot[1] && strcmp(slot[1], vc_text_slots[0])))
        return rc;
    char *first = given[0];
    given[0] = given[1];
    given[1] = first;
    vc_say(p->progress, "--text_encoder1 is the second text encoder here, and --text_encoder2 the "
           "first");
    return 0;
}

/* Returns the first flag that names a part which only a model's files need; NULL: none does. */
static const char *given_part(const vprep_config *c)
{
    for (int i = 0; i < PREP_MAX_TEXTS; i++)
        if (c->text_encoder[i] || c->tokenizer[i])
            return c->text_encoder[i] ? vc_text_slots[i] : vc_tokenizer_slots[i];
    return c->image_encoder ? "image_encoder" : c->image_processor ? "image_processor"
           : c->connectors ? "connectors" : NULL;
}

static int find_family(vprep *p, vc_err *err)
{
    vprep_config *c = &p->c;
    char class[80], *dir;

    /* the built-in encoders have no folder, so that their name stands for no --model */
    bool builtin = c->model && !strcmp(c->model, vc_families()->name);
    if (builtin)
        c->model = NULL;
    if (builtin && c->vae)
        return vc_fail(err, VC_EUSAGE, "--vae: --model %s has a VAE of its own: leave one of the "
                       "two flags out", vc_families()->name);
    if (c->model || !c->vae) {
        const char *part = c->model ? NULL : given_part(c);
        if (part)
            return vc_fail(err, VC_EUSAGE, "--%s: give --model or --vae too; without them the "
                           "built-in encoders are used", part);
        int rc = c->model ? check_transformer(p, err) : builtin ? 0 : check_forgotten(c, err);
        return rc ? rc : prep_family_of(&p->encoders.family, c->model, err);
    }
    const vc_pipeline *published = p->encoders.published;
    const char *version = c->model_version ? c->model_version
                          : c->edit_plus ? "edit-2509" : c->edit ? "edit"
                          : published ? published->class : NULL;
    if (version)
        return prep_family_by_version(&p->encoders.family, version, err);
    int rc = prep_component_dir(&dir, NULL, c->vae, "vae", "vae", err);
    if (!rc)
        rc = prep_component_class(class, sizeof class, dir, "vae", err);
    if (!rc)
        rc = prep_family_by_vae(&p->encoders.family, class, given_texts(c), err);
    free(dir);
    return !rc || strncmp(err->text, "--", 2) == 0 ? rc : vc_context(err, VC_EUSAGE, "--vae %s",
                                                                    c->vae);
}

/* The fields of transformer/config.json that preparation depends on. */
typedef struct transformer_fields {
    int64_t length, patch_t, channels, out, width[VC_FAMILY_TEXTS], vision, ends;
    bool noise;
    int interleave;
} transformer_fields;

/* A field that is missing leaves its default. */
static int read_fields(transformer_fields *t, const prep_family *is, const cJSON *o, bool first,
                       vc_err *err)
{
    const vc_family *f = is->is;
    const vc_text *texts = vc_family_texts(f, is->pipeline);
    const char *word = "", *channels = first ? f->first->channels_field : f->channels_field;
    int rc = f->length_field ? vf_json_int_opt(o, f->length_field, &t->length, err) : 0;
    if (!rc && f->patch_t_field)
        rc = vf_json_int_opt(o, f->patch_t_field, &t->patch_t, err);
    if (!rc && f->noise_field)
        rc = vf_json_bool_opt(o, f->noise_field, &t->noise, err);
    for (int i = 0; !rc && i < VC_FAMILY_TEXTS; i++)
        if (texts[i].width_field)
            rc = vf_json_int_opt(o, texts[i].width_field, &t->width[i], err);
    if (!rc && channels)
        rc = vf_json_int_opt(o, channels, &t->channels, err);
    if (!rc && f->wider)
        rc = vf_json_int_opt(o, first ? f->first->out_field : "out_channels", &t->out, err);
    if (!rc && f->interleave_field)
        rc = vf_json_str_opt(o, f->interleave_field, &word, err);
    if (!rc && f->vision_field)
        rc = vf_json_int_opt(o, f->vision_field, &t->vision, err);
    if (!rc && f->ends_field)
        rc = vf_json_int_opt(o, f->ends_field, &t->ends, err);
    t->interleave = vc_family_interleave(f, word);
    if (!rc && f->length_field && (t->length < 1 || t->length > MAX_LENGTH))
        rc = vc_fail(err, VC_EFORMAT, "%s: %lld is not in 1..%d", f->length_field,
                     (long long)t->length, MAX_LENGTH);
    return rc;
}

/* The config.json of first authors names no vision model: their folder has the model where the
 * transformer takes its states, and the type of the transformer says whether a last frame is known
 * too. */
static int read_first_vision(vprep *p, transformer_fields *t, const vc_first *first,
                             const cJSON *config, vc_err *err)
{
    char *path;
    int type, rc = vf_component_find(&path, p->c.model, "image_encoder", err);
    if (rc)
        return rc;
    p->encoders.sees = path != NULL;
    free(path);
    rc = vf_component_type(first, config, &type, err);
    t->ends = !rc && first->type[type].ends;
    return rc;
}

/* Texts with pictures depend on the transformer: a flag stands in for a config.json that is not
 * there, or is another transformer's. */
static int settle_interleave(vprep *p, int interleave, vc_err *err)
{
    const prep_family *is = &p->encoders.family;
    const char *const words[] = { "", "token_replace", "latent_concat" };
    const char *word = words[p->c.image_condition_type];

    p->encoders.interleave = *word ? vc_family_interleave(is->is, word) : interleave;
    if (p->encoders.interleave || !vc_family_texts(is->is, is->pipeline)[0].picture)
        return 0;
    return vc_fail(err, VC_EUSAGE, "--model %s: its transformer/config.json has no %s, on which "
                   "the texts of this model depend: give --%s %s or %s", p->c.model,
                   is->is->interleave_field, is->is->interleave_field, words[1], words[2]);
}

static int read_transformer(vprep *p, const vc_family **sizes, int *max_length, vc_mode *mode,
                            vc_err *err)
{
    static const char file[] = "transformer/config.json";
    const vc_family *f = p->encoders.family.is, *wider = f->wider ? vc_family_find(f->wider) : NULL;
    const vc_pipeline *pipeline = p->encoders.family.pipeline;
    const vc_first *first = NULL;
    cJSON *o = NULL;
    transformer_fields t = { .patch_t = 1 };
    int rc = p->c.model ? vf_json_read_in_opt(&o, p->c.model, file, MAX_CONFIG, err) : 0;

    if (!rc && !o && p->c.model) {
        rc = vf_component_transformer(&o, p->c.model, err);
        first = vf_component_first(o);
    }
    if (f->length_field)
        t.length = f->text[0].max_length;
    if (!rc && o)
        rc = vc_context(err, read_fields(&t, &p->encoders.family, o, first, err), "%s/%s",
                        p->c.model, first ? "config.json" : file);
    if (!rc && first && f->vision)
        rc = read_first_vision(p, &t, first, o, err);
    if (!rc && o)
        rc = vc_context(err, prep_positions_read(p->encoders.limit, f, o, err), "%s/%s",
                        p->c.model, first ? "config.json" : file);
    cJSON_Delete(o);
    p->encoders.mask_noise = t.noise;
    p->encoders.vision_width = t.vision;
    p->encoders.sees |= t.vision || p->c.image_encoder;
    p->encoders.ends = t.ends > 0;
    memcpy(p->encoders.width, t.width, sizeof t.width);
    *mode = pipeline ? pipeline->mode : VC_MODE_NORMAL;
    for (int i = VC_MODES - 1; i >= 0 && t.channels != f->inputs[*mode]; i--)
        if (f->inputs[i] && t.channels == f->inputs[i])
            *mode = (vc_mode)i;
    if (wider && t.out == wider->channels)
        p->encoders.family.is = f = wider;
    if (f->begins_with_latent && !f->inputs[*mode])
        *mode = VC_MODE_NORMAL;
    *sizes = t.patch_t > 1 && f->patched ? vc_family_find(f->patched) : f;
    *max_length = (int)(p->c.max_length ? p->c.max_length : t.length);
    return rc ? rc : settle_interleave(p, t.interleave, err);
}

static vc_dtype dtype_of(vc_dtype given, const vc_family *f)
{
    return given == VC_DTYPE_NONE ? f->dtype : given;
}

/* The most states of a text's references, each of 28 x 28 pixels, of which rounding adds less than
 * two rows and columns; pictures that keep their sizes may have any. */
static int picture_rows(const vprep *p, const vc_references *r)
{
    enum { STATE = 28, MOST = 8192 };
    const int64_t side = r->look ? r->look : p->c.reference_size ? p->c.reference_size : r->side;
    const int64_t n = side / STATE + 3, rows = r->most * n * n;
    return rows < MOST && (r->look || !p->c.reference_as_is) ? (int)rows : MOST;
}

/* The rule of a slot: its family's, with the length from a flag or the transformer's config. */
static text_rule rule_of(const vprep *p, int slot, int max_length)
{
    const prep_family *f = &p->encoders.family;
    const vc_text *t = &vc_family_texts(f->is, f->pipeline)[slot];
    const bool edits = p->c.train_mode == VC_MODE_EDIT;
    text_rule rule = { .max_length = t->max_length, .template = t->template, .crop = t->crop,
                       .lead = t->lead, .tail = t->tail, .chat = t->chat, .without = t->without,
                       .skip = t->skip, .taps_inner = t->taps_inner,
                       .unnormed = t->unnormed, .clean = t->clean, .stripped = t->stripped,
                       .blank = t->blank, .quoted = t->quoted,
                       .pooled_only = t->pooled_only,
                       .uncleaned = t->uncleaned, .masked = t->masked, .unpadded = t->unpadded,
                       .padding = t->padding,
                       .interleave = t->picture ? p->encoders.interleave : 0,
                       .absent = p->encoders.absent[slot],
                       .each = edits ? t->each : NULL };
    if (rule.each)
        rule.picture_rows = picture_rows(p, vc_family_references(f->is, f->pipeline));

    memcpy(rule.taps, t->taps, sizeof rule.taps);
    if (!rule.pooled_only && !rule.quoted && !t->fixed && p->encoders.family.from_files &&
        max_length)
        rule.max_length = max_length;
    return rule;
}

/* The folder of an image processor, in the folder `slot` of the model's or its text encoder's, or,
 * where models are named as in DiffSynth-Studio, where that program has it for all models that edit
 * pictures. */
static int find_image_processor(vprep *p, prep_part *part, const char *home, const char *slot,
                                vc_err *err)
{
    static const char shared[] = "Qwen/Qwen-Image-Edit:processor";
    const vprep_config *c = &p->c;
    int rc = prep_component_dir(&part->image_processor, home, c->image_processor, slot,
                                "image_processor", err);
    if (rc && !c->image_processor && c->model_id_with_origin_paths && !strcmp(slot, "processor"))
        rc = prep_component_dir(&part->image_processor, home, shared, slot, "image_processor", err);
    return vc_flags_catch(p->flags, rc, err);
}

int prep_part_of(char **out, const char *model, const char *slot, const char *does, vc_err *err)
{
    *out = NULL;
    int rc = model ? vf_component_find(out, model, slot, err) : 0;
    if (rc || *out)
        return rc;
    return vc_fail(err, VC_EUSAGE, "--model%s%s has no folder %s, which %s: give the folder of the "
                   "whole pipeline", model ? " " : "", model ? model : "", slot, does);
}

/* The folder of the component that makes features of a text encoder's states. */
static int find_beside(vprep *p, prep_part *part, const char *name, vc_err *err)
{
    int rc = p->c.connectors ? prep_component_dir(&part->beside, NULL, p->c.connectors, name, name,
                                                  err)
             : p->c.model ? vf_component_find(&part->beside, p->c.model, name, err) : 0;

    if (!rc && !part->beside)
        rc = vc_fail(err, VC_EUSAGE, "--model%s%s has no folder %s, which makes the features of "
                     "prompts: give the folder of the whole pipeline, or --%s",
                     p->c.model ? " " : "", p->c.model ? p->c.model : "", name, name);
    return vc_flags_catch(p->flags, rc, err);
}

/* The folder of a tokenizer that a flag names, or that of a text encoder which a flag names, where
 * it holds the tokenizer too, as the hubs' folders of language models do. */
static const char *given_tokenizer(const vprep_config *c, int slot)
{
    const char *dir = c->text_encoder[slot];

    return !c->tokenizer[slot] && dir && vc_file_exists_in(dir, "tokenizer.json")
               ? dir : c->tokenizer[slot];
}

/* The folders of a text encoder. */
static int find_text_parts(vprep *p, int slot, int max_length, vc_err *err)
{
    int left = prep_leave_out(p, slot, err);
    if (left)
        return left;
    const vprep_config *c = &p->c;
    const char *const encoder = vc_text_slots[slot], *const words = vc_tokenizer_slots[slot];
    prep_part *t = &p->encoders.text_part[slot];
    const text_rule rule = rule_of(p, slot, max_length);
    const prep_family *f = &p->encoders.family;
    const char *const beside = vc_family_texts(f->is, f->pipeline)[slot].beside;

    if (rule.absent) {
        t->opts = (encoder_opts){ .dtype = VC_F32, .device = c->device, .text = rule };
        return 0;
    }
    char *home = NULL;
    int rc = prep_component_dir(&t->dir, c->model, c->text_encoder[slot], encoder, encoder, err);
    rc = vc_flags_catch(p->flags, rc, err);
    if (!rc)
        rc = prep_component_home(&home, c->model, c->text_encoder[slot], words, err);
    if (!rc)
        rc = prep_component_dir(&t->tokenizer, home, given_tokenizer(c, slot), words, words, err);
    rc = vc_flags_catch(p->flags, rc, err);
    if (!rc && beside)
        rc = find_beside(p, t, beside, err);
    if (!rc && (rule.interleave || rule.each))
        rc = find_image_processor(p, t, home, rule.each ? "processor" : "image_processor", err);
    free(home);
    t->opts = (encoder_opts){ .dir = t->dir, .tokenizer = t->tokenizer,
                              .beside = t->beside, .sound = c->with_audio,
                              .image_processor = t->image_processor, .device = c->device,
                              .text = rule,
                              .dtype = dtype_of(c->text_dtype[slot], p->encoders.family.is) };
    return rc;
}

/* The folders of the vision model, where the mode has values of this model. A file of first authors
 * has no image processor beside it: the class's own constants hold. */
static int find_vision(vprep *p, vc_err *err)
{
    static const char name[] = "image_encoder";
    const vprep_config *c = &p->c;
    const vc_family *f = p->encoders.family.is;
    prep_part *v = &p->encoders.vision_part;

    p->encoders.sees = p->encoders.sees && p->encoders.family.vision &&
                       vc_role_of_mode(VC_ROLE_VISION, f, c->train_mode);
    if (!p->encoders.sees)
        return 0;
    int rc = prep_component_dir(&v->dir, c->model, c->image_encoder, name, name, err);
    rc = vc_flags_catch(p->flags, rc, err);
    if (!rc && v->dir && (c->image_processor || !prep_is_file(v->dir)))
        rc = find_image_processor(p, v, c->model, f->processor ? f->processor : "image_processor",
                                  err);
    v->opts = (encoder_opts){ .dir = v->dir, .image_processor = v->image_processor,
                              .device = c->device, .dtype = dtype_of(c->vision_dtype, f) };
    return rc;
}

/* The folder of the autoencoder of sound, where sound is wanted. */
static int find_audio(vprep *p, vc_err *err)
{
    const vc_family *f = p->encoders.family.is;
    const vprep_config *c = &p->c;
    prep_part *a = &p->encoders.audio_part;

    if (!c->with_audio || !f->audio_vae)
        return 0;
    int rc = prep_part_of(&a->dir, c->model, "audio_vae", "encodes the sound", err);
    rc = vc_flags_catch(p->flags, rc, err);
    a->opts = (encoder_opts){ .dir = a->dir, .device = c->device,
                              .dtype = dtype_of(c->vae_dtype, f) };
    return rc;
}

/* A missing part is added to the errors of the flags. */
static int find_parts(vprep *p, int max_length, vc_err *err)
{
    const vc_family *f = p->encoders.family.is;
    const vprep_config *c = &p->c;
    prep_part *v = &p->encoders.vae_part;
    int rc = prep_component_dir(&v->dir, c->model, c->vae, "vae", "vae", err);

    if (!rc)
        rc = prep_check_vae_class(p, v->dir, err);
    rc = vc_flags_catch(p->flags, rc ? rc : prep_check_vae_model(p, v->dir, err), err);
    v->opts = (encoder_opts){ .dir = v->dir, .device = c->device, .tiling = c->vae_tiling,
                              .window = (int)c->vae_window, .norm_eps = f->norm_eps,
                              .dtype = dtype_of(c->vae_dtype, f) };
    for (int i = 0; !rc && i < p->encoders.n_text; i++)
        rc = find_text_parts(p, i, max_length, err);
    if (!rc)
        rc = find_audio(p, err);
    return rc ? rc : find_vision(p, err);
}

/* Names the flags of parts that no model of the family has. */
static void say_unused(const vprep *p)
{
    const vprep_config *c = &p->c;
    const prep_family *f = &p->encoders.family;
    bool beside = false, pictures = f->vision != NULL;

    for (int i = 0; i < p->encoders.n_text; i++) {
        const vc_text *t = &vc_family_texts(f->is, f->pipeline)[i];
        beside |= t->beside != NULL;
        pictures |= t->picture || t->each;
    }
    const struct { const char *flag; bool unused; } parts[] = {
        { "image_encoder", c->image_encoder && !f->vision },
        { "image_processor", c->image_processor && !pictures },
        { "connectors", c->connectors && !beside },
    };
    static const char text[] = "--%s: models of %s have none, so that it has no effect here";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].unused)
            vc_say(p->progress, text, parts[i].flag, f->is->name);
    for (int i = p->encoders.n_text; i < PREP_MAX_TEXTS; i++) {
        if (c->text_encoder[i])
            vc_say(p->progress, text, vc_text_slots[i], f->is->name);
        if (c->tokenizer[i])
            vc_say(p->progress, text, vc_tokenizer_slots[i], f->is->name);
    }
}

/* The built-in encoders run in one way: flags that ask for another have no effect. */
static void use_builtin(vprep *p)
{
    const vprep_config *c = &p->c;

    if (c->vae_tiling || c->vae_window || c->max_length ||
        dtype_of(c->vae_dtype, p->encoders.family.is) != VC_F32 ||
        dtype_of(c->text_dtype[0], p->encoders.family.is) != VC_F32)
        vc_say(p->progress, "the built-in encoders compute in f32, without tiles and windows and "
                            "with a prompt length of their own");
    p->encoders.vae_part.opts = (encoder_opts){ .dtype = VC_F32, .device = c->device };
    for (int i = 0; i < p->encoders.n_text; i++) {
        p->encoders.text_part[i].opts = p->encoders.vae_part.opts;
        p->encoders.text_part[i].opts.text = rule_of(p, i, 0);
    }
}

/* Whether a mode goes with every model of a family: with a ControlNet beside it, or where its
 * models edit pictures without one that is made for that alone. */
static bool goes_with_all(const vprep *p, int train_mode)
{
    const vc_family *f = p->encoders.family.is;
    bool edits = true;
    for (int i = 0; i < VC_FAMILY_PIPELINES && f->pipeline[i].class; i++)
        edits &= f->pipeline[i].mode != VC_MODE_EDIT;
    if (train_mode == VC_MODE_INPAINT)           /* ControlNets have black pixels */
        return f->controlnet && !vprep_grey_masks(p);
    return train_mode == VC_MODE_EDIT ? edits : train_mode == VC_MODE_CONTROL && f->controlnet;
}

static bool has_mode(const vc_family *f, int train_mode)
{
    bool has = false;
    for (int i = 0; i < VC_FAMILY_PIPELINES && f->pipeline[i].class; i++)
        has |= (int)f->pipeline[i].mode == train_mode;
    return has;
}

int vprep_components(vprep *p, const vc_family **sizes, vc_err *err)
{
    vc_mode mode = VC_MODE_NORMAL;
    int max_length = 0, rc = find_family(p, err);

    if (!rc)
        rc = take_order(p, err);
    if (!rc)
        rc = read_transformer(p, sizes, &max_length, &mode, err);
    if (rc)
        return rc;
    prep_take_inputs(p, mode);
    const vc_family *f = p->encoders.family.is;
    const int train_mode = p->c.train_mode;
    if ((f->clean_images || f->masked_frames) && vc_flags_given(p->flags, "image_noise_variants"))
        vc_flags_wrong(p->flags, "--image_noise_variants: %s trains on first frames without noise: "
                       "leave the flag out", f->name);
    if (p->c.with_audio && !f->audio_vae)
        vc_flags_wrong(p->flags, "--with_audio: models of %s have no sound: leave the flag out",
                       f->name);
    const vc_pipeline *pipeline = p->encoders.family.pipeline;
    if (train_mode == VC_MODE_EDIT && !pipeline && vc_family_edits_differ(f))
        vc_flags_wrong(p->flags, "--train_mode edit: models of %s have several ways to edit "
                       "pictures: give --model_version, or the --model folder", f->name);
    if (train_mode == VC_MODE_VACE && !has_mode(f, VC_MODE_VACE))
        vc_flags_wrong(p->flags, "--train_mode vace: models of %s have no blocks of VACE: give the "
                       "--model folder of Wan VACE, or leave the flag out", f->name);
    if (train_mode == VC_MODE_EDIT && (!vc_family_references(f, pipeline)->most ||
                                       has_mode(f, VC_MODE_VACE)))
        vc_flags_wrong(p->flags, "--train_mode edit: models of %s take no reference pictures: give "
                       "the --model folder of one that edits pictures, or leave the flag out",
                       pipeline ? pipeline->class : f->name);
    if ((train_mode == VC_MODE_CONTROL || train_mode == VC_MODE_CONTROL_REF) &&
        !f->inputs[train_mode] && !(f->controlnet && train_mode == VC_MODE_CONTROL))
        vc_flags_wrong(p->flags, "--train_mode %s: no model of %s here takes a control clip that "
                       "way: give a --model of Wan, of CogVideoX-Fun for control, or --train_mode "
                       "normal, i2v or inpaint", vc_mode_names[train_mode], f->name);
    while (p->encoders.family.text[p->encoders.n_text])
        p->encoders.n_text++;
    prep_positions_check_text(p, max_length);
    if (p->encoders.family.from_files)
        rc = find_parts(p, max_length, err);
    else
        use_builtin(p);
    if (!rc)
        say_unused(p);
    if (!rc && p->c.model && (int)mode != p->c.train_mode && !goes_with_all(p, train_mode))
        vc_warn(p->progress, "%s is trained with --train_mode %s, not %s (a change of mode encodes "
                "no clip again)", p->c.model, vc_mode_names[mode], vc_mode_names[p->c.train_mode]);
    return rc;
}
